"""`Bilevel`: what a study must know of an inner training problem, also for training loops written as generators."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from regretless.basics.options import whole_number
from regretless.bilevel.freeze import Nested, freeze, needs_fresh, thaw
from regretless.methods.bbo.theorems import convex_step, dominated_step, nonsmooth_step

TrainingState: TypeAlias = Any
"""Whatever `init` returns: the inner problem's own state."""
StepRule: TypeAlias = Literal["raw", "convex", "dominated", "nonsmooth"] | Callable[[dict[str, Any], int], float]
"""How the inner step size comes about; see `step_sizes`."""


class Finished(Exception):  # noqa: N818 - an end, not an error
    """Raised by a problem's step when this run cannot be trained further; what it has learnt so far counts. A problem's
    `steps` says with `taken` how many of its steps it has taken."""

    def __init__(self, taken: int = 0) -> None:
        super().__init__(taken)
        self.taken = taken


@dataclass(frozen=True)
class Bilevel:
    """An inner training problem.

    Args:
        init: init(params, seed) gives a fresh state; all randomness of the run must follow from the seed.
        step: step(state) takes one training step and returns the state, the same object or another.
        validate: validate(state) gives the validation loss and leaves the state as it is.
        save: save(state) gives a tree of arrays, tensors, numbers and text; needed only for what `freeze` does not
            know.
        load: load(fresh, saved) puts a saved tree into a fresh state of the same setting and seed and returns it.
        steps: steps(state, n) takes n steps at once, when that is cheaper than n calls of step.
    """

    init: Callable[[dict[str, Any], int], TrainingState]
    step: Callable[[TrainingState], TrainingState]
    validate: Callable[[TrainingState], float]
    save: Callable[[TrainingState], Nested] | None = None
    load: Callable[[TrainingState, Nested], TrainingState] | None = None
    steps: Callable[[TrainingState, int], TrainingState] | None = None

    def __post_init__(self) -> None:
        for name in ("init", "step", "validate"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be callable, got {getattr(self, name)!r}")
        if (self.save is None) != (self.load is None):
            raise ValueError("save and load come together: one without the other cannot bring a state back")

    @classmethod
    def from_generator(
        cls, train: Callable[[dict[str, Any], int], Generator[Any, None, None]], *, live: int = 16
    ) -> Bilevel:
        """A problem from train(params, seed), a generator that yields the validation loss, or (loss, model), after each
        step. The `live` last used generators stay in memory; others are replayed from the start when thawed, at no cost
        of budget."""
        whole_number(live=live)
        kept: OrderedDict[tuple[int, str], _Live] = OrderedDict()

        def init(params: dict[str, Any], seed: int) -> _Live:
            return _Live(train(params, seed), (seed, repr(sorted(params.items()))))

        def step(state: _Live) -> _Live:
            try:
                out = next(state.training)
            except StopIteration:
                raise Finished from None
            state.loss, state.model = out if isinstance(out, tuple) else (out, state.model)
            state.steps += 1
            return state

        def save(state: _Live) -> Nested:
            kept[state.key] = state
            kept.move_to_end(state.key)
            while len(kept) > live:
                kept.popitem(last=False)[1].training.close()
            return {"steps": state.steps}

        def load(fresh: _Live, saved: Nested) -> _Live:
            state = kept.get(fresh.key, fresh)
            if state.steps > saved["steps"]:
                state = fresh
            while state.steps < saved["steps"]:
                state = step(state)
            return state

        return cls(init, step, lambda state: state.loss, save, load)

    def advance(self, state: TrainingState, n: int) -> tuple[TrainingState, int]:
        """The state after n training steps and how many were taken: fewer than n when the run has finished."""
        if self.steps is not None:
            try:
                return self.steps(state, n), n
            except Finished as end:
                return state, end.taken
        step, i = self.step, 0
        try:
            for i in range(n):  # noqa: B007 - i counts the steps taken when one raises
                state = step(state)
        except Finished:
            return state, i
        return state, n

    def freeze(self, state: TrainingState) -> Nested:
        """The tree that is written of a state."""
        return freeze(state) if self.save is None else self.save(state)

    def thaw(self, params: dict[str, Any], seed: int, saved: Nested) -> TrainingState:
        """The state of a tree of `freeze`."""
        if self.load is not None:
            return self.load(self.init(dict(params), seed), saved)
        return thaw(self.init(dict(params), seed) if needs_fresh(saved) else None, saved)


@dataclass(eq=False)
class _Live:
    """A generator in training, its last loss and model."""

    training: Generator[Any, None, None]
    key: tuple[int, str]
    loss: float = math.inf
    model: Any = None
    steps: int = 0


def step_sizes(rule: StepRule, horizon: int | None = None) -> Callable[[dict[str, Any], int], float] | None:
    """The step size as a function of the hyper-parameters and the step j; None for "raw": the optimiser's own setting.

    "convex": params["lr"] / sqrt(N) (Thm. 1), and "nonsmooth": params["lr"] N^-p, p = params["p"] or 3/4 (Thm. 19);
        both need `horizon`, N.
    "dominated": (2 j + 1) / (2 mu (j + 1)^2) with mu = params["mu"] (Thm. 18); or a function of (params, j).
    """
    if callable(rule):
        return rule
    if rule == "raw":
        return None
    if rule == "dominated":
        return lambda params, j: dominated_step(params["mu"], j)
    if rule not in ("convex", "nonsmooth"):
        raise ValueError(
            f"step_size must be 'raw', 'convex', 'dominated', 'nonsmooth' or a function of (params, j), got {rule!r}"
        )
    if horizon is None or horizon < 1:
        raise ValueError(f"step_size={rule!r} needs horizon=, the steps N of a whole run; got {horizon!r}")
    if rule == "convex":
        return lambda params, j: convex_step(params["lr"], horizon)
    return lambda params, j: nonsmooth_step(params["lr"], horizon, params.get("p", 0.75))
