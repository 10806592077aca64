"""`Optimizer`: a space, a method and a direction behind ask and tell.

Here, and only here, signs and units are turned: users see their own parameters and values, methods see a maximisation
on the cube.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from regretless.auto import choose_method, find_recipe
from regretless.certificate import Certificate
from regretless.method import Method, Recipe
from regretless.parameters import Array
from regretless.space import Space, SpaceLike
from regretless.statefile import read_state, write_state

Direction: TypeAlias = Literal["minimize", "maximize"]
TrialState: TypeAlias = Literal["pending", "done", "failed"]

FILE_KIND = "regretless-optimizer-1"
"""Marks the files `Optimizer.save` writes; the number grows when the layout changes."""
STATES: tuple[TrialState, ...] = ("pending", "done", "failed")


@dataclass(eq=False)
class Trial:
    """One evaluation: its number, its parameters, and what came of it."""

    number: int
    params: dict[str, Any]
    state: TrialState = "pending"
    value: float | None = None
    """The value told, in the user's units; None while pending and when failed."""
    var: float | None = None
    """The known noise variance of the value, when one was told."""
    unit: Array = field(repr=False, default_factory=lambda: np.empty(0))
    """The point in the method's cube, d."""

    @property
    def x(self) -> Array:
        """The parameters as an array, for spaces of numbers alone."""
        return np.array(list(self.params.values()), dtype=np.float64)


class Optimizer:
    """Ask for settings, evaluate them anywhere, tell the values.

        opt = Optimizer({"x": Float(-5, 10)}, method="gp-ei", budget=30, seed=0)
        for _ in range(30):
            trial = opt.ask()
            opt.tell(trial, objective(**trial.params))
        print(opt.recommend(), opt.certificate())

    Args:
        space: a `Space` or anything it is made from: a mapping of parameters, a list of (low, high) pairs, the path of
            a TOML file.
        method: a name (`regretless list` shows them), a recipe such as `regretless.MSUCB(d=5)`, or "auto"; `why` tells
            what was chosen.
        direction: "minimize" or "maximize".
        budget: the number of evaluations planned; methods use it to plan and it may be exceeded.
        seed: makes the run repeatable; drawn at random, and kept in `seed`, when not given.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        method: str | Recipe | type[Method] = "auto",
        direction: Direction = "minimize",
        budget: int | None = None,
        seed: int | None = None,
    ) -> None:
        if direction not in ("minimize", "maximize"):
            raise ValueError(f'direction must be "minimize" or "maximize", got {direction!r}')
        self.space = space if isinstance(space, Space) else Space(space)
        self.direction: Direction = direction
        self.budget = budget
        self.seed = secrets.randbits(32) if seed is None else seed
        self.recipe, self.why = _resolve(method, self.space, budget)
        """The recipe in use, and the reason it was chosen."""
        self._sign = 1.0 if direction == "maximize" else -1.0
        self.method: Method = self.recipe.build(self.space, seed=self.seed, budget=budget, sign=self._sign)
        self.trials: list[Trial] = []
        """All trials, in the order of their numbers."""

    def __repr__(self) -> str:
        done = sum(t.state == "done" for t in self.trials)
        return f"Optimizer({self.recipe}, direction={self.direction!r}, seed={self.seed}, {done} of {len(self.trials)} trials done)"

    # -- ask and tell

    @overload
    def ask(self, n: None = None) -> Trial: ...
    @overload
    def ask(self, n: int) -> list[Trial]: ...
    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """The next trial, or the next n of them; legal at any time, however many are pending."""
        X = self.method.ask(1 if n is None else n)
        trials = [self._new_trial(u) for u in X]
        return trials[0] if n is None else trials

    def adopt(self, params: Mapping[str, Any] | Sequence[float] | Array) -> Trial:
        """A pending trial at a setting of your own: a known good one, or one evaluated before."""
        u = self.space.encode(params, self.method.choices)
        self.method.wait_for(u)
        return self._new_trial(u)

    def tell(
        self, trial: Trial | int, value: float | None = None, var: float | None = None, *, failed: bool = False
    ) -> None:
        """The value of a pending trial (or of its number); NaN, infinities and `failed=True` mean that the evaluation
        failed.

        var: the known noise variance of the value, for instance the squared standard error of a mean over repetitions.
        """
        trial = self._pending_trial(trial)
        if not failed:
            value, var = _checked_value(value), _checked_variance(var)
        if failed or value is None or not math.isfinite(value):
            trial.state = "failed"
            self.method.tell(trial.unit[None], np.nan)
            return
        trial.state, trial.value, trial.var = "done", value, var
        self.method.tell(trial.unit[None], self._sign * value, yvar=None if var is None else np.array([var]))

    def forget(self, trial: Trial | int) -> None:
        """Gives up a pending trial that will never be told, without holding the failure against its setting."""
        trial = self._pending_trial(trial)
        self.method.forget(trial.unit[None])
        trial.state = "failed"

    # -- what is known

    @property
    def pending(self) -> list[Trial]:
        """Trials asked and not yet told."""
        return [t for t in self.trials if t.state == "pending"]

    @property
    def best(self) -> Trial:
        """The trial with the best value observed (with noise, perhaps only the luckiest; see `recommend`)."""
        done = [t for t in self.trials if t.value is not None]
        if not done:
            raise RuntimeError("there is no best trial yet: no value has been told")
        return max(done, key=lambda t: self._sign * t.value)  # type: ignore[operator]

    def recommend(self) -> dict[str, Any]:
        """The setting to use: best by the model, not the luckiest noisy value."""
        return self.space.decode(self.method.recommend(), self.method.choices)

    def observed(self, params: Mapping[str, Any]) -> float:
        """The mean of the values told for a setting; NaN when it was never evaluated."""
        values = [t.value for t in self.trials if t.value is not None and t.params == params]
        return float(np.mean(values)) if values else math.nan

    def certificate(self, delta: float = 0.05) -> Certificate:
        """How much worse than the optimum `recommend()` may be, with probability 1 - delta, or why that is not
        known."""
        return self.method.certificate(delta).scaled(self._sign)

    # -- files

    def save(self, path: str | Path) -> None:
        """Writes everything to a file (no pickle); a kill at any moment leaves the old file or the new one, never half
        of one."""
        try:
            space: Any = self.space.to_json()
        except ValueError:
            space = None  # labels that no file can hold: load() then asks for the space
        write_state(path, {
            "kind": FILE_KIND, "direction": self.direction, "budget": self.budget, "seed": self.seed, "space": space, "names": list(self.space.names),
            "recipe": self.recipe.to_json(), "why": self.why, "unit": np.array([t.unit for t in self.trials]).reshape(-1, self.method.dim),
            "state": np.array([STATES.index(t.state) for t in self.trials], dtype=np.int64),
            "value": np.array([math.nan if t.value is None else t.value for t in self.trials]),
            "var": np.array([math.nan if t.var is None else t.var for t in self.trials]),
            "method": self.method.state_dict(),
        })  # fmt: skip

    @classmethod
    def load(cls, path: str | Path, *, space: SpaceLike | None = None, method: Recipe | None = None) -> Optimizer:
        """Reads a file of `save` and goes on as if never interrupted.

        `space` and `method` are needed only when they hold what no file can: labels that are objects, options that are
        functions. Given ones that differ from those of the file raise ValueError.
        """
        state = read_state(path)
        if state.get("kind") != FILE_KIND:
            raise ValueError(f"{path} is not a file of Optimizer.save (kind {state.get('kind')!r})")
        try:
            return cls._from_state(state, space, method)
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from None

    @classmethod
    def _from_state(cls, state: Mapping[str, Any], space: SpaceLike | None, method: Recipe | None) -> Optimizer:
        space = _same_space(state["space"], state["names"], None if space is None else Space(space))
        name, options = state["recipe"]["name"], state["recipe"]["options"]
        if method is None and any(isinstance(v, dict) for v in options.values()):
            raise ValueError(f"the file could not hold all options of {name}: pass method=")
        if method is not None and method.name != name:
            raise ValueError(f"the file was written by method {name!r}, not {method.name!r}")
        if method is not None and not _same_options(options, method.to_json()["options"]):
            raise ValueError(
                f"the file was written by method {name!r} with the options {options or 'none'}, this is {method}"
            )
        method = method or find_recipe(name)(**options)
        optimizer = cls(space, method=method, direction=state["direction"], budget=state["budget"], seed=state["seed"])
        optimizer.why = str(state["why"])
        optimizer.method.load_state_dict(state["method"])
        for u, code, value, var in zip(state["unit"], state["state"], state["value"], state["var"], strict=True):
            trial = optimizer._new_trial(np.asarray(u, dtype=np.float64).reshape(optimizer.method.dim))
            trial.state = STATES[int(code)]
            trial.value = None if math.isnan(value) else float(value)
            trial.var = None if math.isnan(var) else float(var)
        return optimizer

    # -- inside

    def _new_trial(self, u: Array) -> Trial:
        trial = Trial(len(self.trials), self.space.decode(u, self.method.choices), unit=u)
        self.trials.append(trial)
        return trial

    def _pending_trial(self, trial: Trial | int) -> Trial:
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < len(self.trials):
            raise ValueError(f"trial {number!r} was never asked of this optimizer ({len(self.trials)} trials so far)")
        own = self.trials[number]
        if isinstance(trial, Trial) and trial is not own:
            raise ValueError(
                f"trial {number} belongs to another optimizer; tell the trial that ask() gave, or its number"
            )
        if own.state != "pending":
            raise ValueError(f"trial {number} has been told already (state {own.state!r}, value {own.value!r})")
        return own


def _resolve(method: str | Recipe | type[Method], space: Space, budget: int | None) -> tuple[Recipe, str]:
    if isinstance(method, Recipe):
        return method, "given"
    if isinstance(method, type) and issubclass(method, Method):
        return Recipe(method.__name__, method), "given"
    if method == "auto":
        return choose_method(space, budget)
    return find_recipe(method), "given"


def _same_space(description: Mapping[str, Any] | None, names: list[str], given: Space | None) -> Space:
    """The space of a file, from its description or, where no file could hold that, as given; a given one must be the
    same.

    Points are kept as places in the cube, so with other bounds or labels every one of them would become another
    setting.
    """
    if description is None:
        if given is None:
            raise ValueError("the file could not hold the labels of this space: pass space=")
        stored = given
    else:
        stored = Space.from_json(description)
    if given is not None and list(given.names) != names:
        raise ValueError(f"the file was written for parameters {names}, the space given has {list(given.names)}")
    for name, parameter in (given or stored).parameters.items():
        if parameter != stored.parameters[name]:
            raise ValueError(
                f"the file was written for {name} = {stored.parameters[name]}, the space given has {parameter}"
            )
    return given or stored


def _same_options(stored: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether two descriptions of options agree, as far as a file can hold them: what it holds as text is not
    compared."""
    return stored.keys() == given.keys() and all(stored[k] == given[k] or isinstance(stored[k], dict) for k in stored)


def _checked_value(value: Any) -> float:
    if value is None:
        raise ValueError("tell needs a value, or failed=True")
    if isinstance(value, bool | str | bytes) or (isinstance(value, np.ndarray) and value.size != 1):
        raise ValueError(f"the value must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"the value must be a number, got {value!r}") from None


def _checked_variance(var: Any) -> float | None:
    if var is None:
        return None
    number = _checked_value(var)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"var must be a finite number of at least 0, got {var!r}")
    return number
