"""`Optimizer`: a space, a method and a direction behind ask and tell.

Here, and only here, signs and units are turned, settings become cube points, and "auto" becomes a method: users see
their own parameters and values, methods see a maximisation on the cube. Every door and every runner holds one of these,
so the same space, seed and method give the same points whichever way one comes in.
"""

from __future__ import annotations

import json
import math
import secrets
import statistics
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from regretless.auto import choose_method, find_recipe
from regretless.certificate import Certificate
from regretless.evaluation import as_number, shown
from regretless.method import Method, Recipe
from regretless.parameters import Array
from regretless.space import Space, SpaceLike
from regretless.statefile import pack, read_state, write_state

Direction: TypeAlias = Literal["minimize", "maximize"]
TrialState: TypeAlias = Literal["pending", "done", "failed"]
MethodLike: TypeAlias = str | Recipe | type[Method]
"""A name, a recipe, a Method class, or "auto"."""

FILE_KIND = "regretless-optimizer-3"
"""Marks the files `Optimizer.save` writes; the number grows when the layout changes."""
STATES: tuple[TrialState, ...] = ("pending", "done", "failed")
"""What becomes of trials, in the order of their codes in a file."""


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
    error: str = ""
    """Why the evaluation failed, when it did and the reason was told."""
    unit: Array = field(repr=False, default_factory=lambda: np.empty(0))
    """The point in the method's cube, d."""

    @property
    def x(self) -> Array:
        """The parameters as an array, for spaces of numbers alone."""
        return np.array(list(self.params.values()), dtype=np.float64)


class Optimizer:
    """Ask for settings, evaluate them anywhere, tell the values. Threads may share one: its methods exclude each other.

        opt = Optimizer({"x": Float(-5, 10)}, method="gp-ei", budget=30, seed=0)
        for _ in range(30):
            trial = opt.ask()
            opt.tell(trial, objective(**trial.params))
        print(opt.recommend(), opt.certificate)

    Args:
        space: a `Space` or anything it is made from: a mapping of parameters, a list of (low, high) pairs, the path of
            a TOML file.
        method: a name (`regretless list` shows them), a recipe such as `regretless.GPUCB(kappa=2)`, a Method class, or
            "auto"; `why` tells what was chosen.
        direction: "minimize" or "maximize".
        budget: the number of evaluations planned; methods use it to plan and it may be exceeded.
        seed: makes the run repeatable; drawn at random, and kept in `seed`, when not given.
        certify: lets "auto" take a method whose certificate shrinks, for runs that are to end by it.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        method: MethodLike = "auto",
        direction: Direction = "minimize",
        budget: int | None = None,
        seed: int | None = None,
        certify: bool = False,
    ) -> None:
        if direction not in ("minimize", "maximize"):
            raise ValueError(f'direction must be "minimize" or "maximize", got {direction!r}')
        self.space = space if isinstance(space, Space) else Space(space)
        self.direction: Direction = direction
        self.budget = budget
        self.seed = secrets.randbits(32) if seed is None else seed
        self.recipe, self.why = resolve_method(method, self.space, budget, certify=certify)
        """The recipe in use, and the reason it was chosen."""
        self._sign = 1.0 if direction == "maximize" else -1.0
        self.method: Method = self.recipe.build(self.space, seed=self.seed, budget=budget, sign=self._sign)
        self.trials: list[Trial] = []
        """All trials, in the order of their numbers."""
        self.notes: dict[str, Any] = {}
        """Plain values that travel with the file: what a runner has to know when it goes on."""
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        done = sum(t.state == "done" for t in self.trials)
        words = f"direction={self.direction!r}, seed={self.seed}, {done} of {len(self.trials)} trials done"
        return f"Optimizer({self.recipe}, {words})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    # -- ask and tell

    @overload
    def ask(self, n: None = None) -> Trial: ...
    @overload
    def ask(self, n: int) -> list[Trial]: ...
    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """The next trial, or the next n of them; legal at any time, however many are pending."""
        with self._lock:
            X = self.method.ask(1 if n is None else n, step=len(self.trials))
            trials = [self._new_trial(u, self.space.decode(u, self.method.choices)) for u in X]
        return trials[0] if n is None else trials

    def adopt(self, params: Mapping[str, Any] | Sequence[float] | Array) -> Trial:
        """A pending trial at a setting of your own: a known good one, or one evaluated before."""
        u = self.space.encode(params, self.method.choices)
        named = params if isinstance(params, Mapping) else dict(zip(self.space.names, params, strict=True))
        self.space.check(named)
        with self._lock:
            self.method.wait_for(u)
            return self._new_trial(u, self.space.only_active(named))

    def tell(
        self,
        trial: Trial | int,
        value: float | None = None,
        var: float | None = None,
        *,
        failed: bool = False,
        error: str = "",
    ) -> None:
        """The value of a pending trial (or of its number); NaN, infinities and `failed=True` mean that the evaluation
        failed.

        Args:
            var: the known noise variance of the value, for instance the squared standard error of a mean over
                repetitions.
            error: why the evaluation failed; the trial keeps it.
        """
        with self._lock:
            trial = self._pending_trial(trial)
            if not failed:
                value, var = _checked_value(value), _checked_variance(var)
            if failed or value is None or not math.isfinite(value):
                trial.state, trial.error = "failed", error or ("" if failed else f"the value was {value}")
                self.method.tell(trial.unit[None], np.nan)
                return
            trial.state, trial.value, trial.var = "done", value, var
            self.method.tell(trial.unit[None], self._sign * value, yvar=None if var is None else np.array([var]))

    def forget(self, trial: Trial | int) -> None:
        """Gives up a pending trial that will never be told, without holding the failure against its setting."""
        with self._lock:
            trial = self._pending_trial(trial)
            self.method.forget(trial.unit[None])
            trial.state = "failed"

    # -- for doors whose trials live elsewhere

    def take_in(self, settings: Iterable[Array], values: Iterable[float], variances: Iterable[float]) -> None:
        """Tells many finished evaluations at once: cube points, values (NaN: failed) and variances (NaN: not known)."""
        X, y, yvar = np.array(list(settings)), np.array(list(values)), np.array(list(variances))
        if len(y):
            with self._lock:
                self.method.tell(X, self._sign * y, yvar=None if np.isnan(yvar).all() else yvar)

    def propose(self, step: int, pending: Sequence[Array] = (), *, ahead: int = 0) -> Array:
        """The cube point for trial number `step`, away from the pending ones and from those of `ahead` others who ask
        at the same moment; nothing is left pending."""
        with self._lock:
            before = self.method.pending
            if len(pending):
                self.method.wait_for(np.array(pending))
            try:
                point: Array = self.method.ask(1 + ahead, step=step)[-1]
            finally:
                self.method.forget(self.method.pending[len(before) :])
            return point

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

    @property
    def exhausted(self) -> bool:
        """Whether the space is finite and every setting of it has been asked."""
        size = self.method.cube.size
        return size <= len(self.trials) and len({self._key(t) for t in self.trials}) >= size

    def recommend(self) -> dict[str, Any]:
        """The setting to use: best by the model, not the luckiest noisy value."""
        with self._lock:
            u = self.method.recommend()
        key = self.method.cube.key(u)
        for trial in self.trials:
            if self._key(trial) == key:
                return dict(trial.params)  # as it was given, to the last digit
        return self.space.decode(u, self.method.choices)

    def observed(self, params: Mapping[str, Any]) -> float:
        """The mean of the values told for a setting; NaN when it was never evaluated."""
        key = self.method.cube.key(self.space.encode(params, self.method.choices))
        values = [t.value for t in self.trials if t.value is not None and self._key(t) == key]
        return statistics.mean(values) if values else math.nan  # exact, so that no sum leaves the range of floats

    @property
    def certificate(self) -> Certificate:
        """How much worse than the optimum `recommend()` may be, with probability 0.95, or why that is not known."""
        return self.certificate_at(0.05)

    def certificate_at(self, delta: float) -> Certificate:
        """The same with probability 1 - delta."""
        with self._lock:
            return self.method.certificate(delta).scaled(self._sign)

    # -- files

    def save(self, path: str | Path) -> None:
        """Writes everything to a file (no pickle); a kill at any moment leaves the old file or the new one, never half
        of one."""
        with self._lock:  # also while it writes: an older state must not be renamed over a newer one
            write_state(path, self._state())

    def _state(self) -> dict[str, Any]:
        trials = self.trials
        own = {str(t.number): t.params for t in trials if self.space.decode(t.unit, self.method.choices) != t.params}
        return {
            "kind": FILE_KIND,
            "direction": self.direction,
            "budget": self.budget,
            "seed": self.seed,
            "space": self.space.describe(),
            "recipe": self.recipe.to_json(),
            "why": self.why,
            "notes": self.notes,
            "unit": np.array([t.unit for t in trials]).reshape(-1, self.method.dim),
            "state": np.array([STATES.index(t.state) for t in trials], dtype=np.int64),
            "value": np.array([math.nan if t.value is None else t.value for t in trials]),
            "var": np.array([math.nan if t.var is None else t.var for t in trials]),
            "error": {str(t.number): t.error for t in trials if t.error},
            "own": {number: params for number, params in own.items() if _is_plain(params)},
            "method": self.method.state_dict(),
        }

    @classmethod
    def load(
        cls, path: str | Path, *, space: SpaceLike | None = None, method: Recipe | type[Method] | None = None
    ) -> Optimizer:
        """Reads a file of `save` and goes on as if never interrupted.

        `space` and `method` are needed only when they hold what no file can: labels that are objects, options that are
        functions or arrays, a method of your own. Given ones that differ from those of the file raise ValueError.
        """
        state = read_state(path)
        if state.get("kind") != FILE_KIND:
            raise ValueError(f"{path} is not a file of Optimizer.save (kind {state.get('kind')!r})")
        try:
            optimizer = cls._from_state(state, space, method)
            now = optimizer._state()
            given = (
                {"method"} | ({"space"} if space is not None else set()) | ({"recipe"} if method is not None else set())
            )
            changed = [key for key in now if key not in given and pack(now[key]) != pack(state[key])]
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError, RuntimeError) as error:
            raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from None
        if changed:
            raise ValueError(f"{path} is damaged: its {', '.join(changed)} cannot be taken as written")
        return optimizer

    @classmethod
    def _from_state(
        cls, state: Mapping[str, Any], space: SpaceLike | None, method: Recipe | type[Method] | None
    ) -> Optimizer:
        recipe = _same_recipe(state["recipe"], method)
        optimizer = cls(
            _same_space(state["space"], None if space is None else Space(space)),
            method=recipe,
            direction=state["direction"],
            budget=state["budget"],
            seed=state["seed"],
        )
        optimizer.why, optimizer.notes = str(state["why"]), dict(state["notes"])
        optimizer.method.load_state_dict(state["method"])
        rows = zip(state["unit"], state["state"], state["value"], state["var"], strict=True)
        for number, (row, code, value, var) in enumerate(rows):
            row = np.asarray(row, dtype=np.float64).reshape(optimizer.method.dim)
            if not ((row >= 0) & (row <= 1)).all():  # NaN is neither
                raise ValueError(f"the point of trial {number} does not lie in the unit cube")
            u = optimizer.method.cube.snap(row)
            own = state["own"].get(str(number))
            if own is not None and optimizer.method.cube.key(optimizer.space.encode(own, optimizer.method.choices)) != (
                optimizer.method.cube.key(u)
            ):
                raise ValueError(f"the parameters of trial {number} do not belong to its point")
            trial = optimizer._new_trial(u, own or optimizer.space.decode(u, optimizer.method.choices))
            trial.state, trial.error = STATES[int(code)], str(state["error"].get(str(number), ""))
            trial.value = None if math.isnan(value) else float(value)
            trial.var = None if math.isnan(var) else float(var)
        return optimizer

    # -- inside

    def _key(self, trial: Trial) -> bytes:
        """The identity of a trial's point, which is canonical."""
        return trial.unit.tobytes()

    def _new_trial(self, u: Array, params: dict[str, Any]) -> Trial:
        trial = Trial(len(self.trials), params, unit=u)
        self.trials.append(trial)
        return trial

    def _pending_trial(self, trial: Trial | int) -> Trial:
        if isinstance(trial, Mapping):
            raise TypeError("tell takes a trial of ask(); for a setting of your own: tell(adopt(setting), value)")
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


# ---------------------------------------------------------------- methods


def resolve_method(
    method: MethodLike, space: Space, budget: int | None, *, certify: bool = False
) -> tuple[Recipe, str]:
    """The recipe of a name, a recipe, a Method class or "auto", and the reason it was taken."""
    if method == "auto":
        return choose_method(space, budget, certify=certify)
    return as_recipe(method), "given"


def as_recipe(method: MethodLike) -> Recipe:
    """The recipe of a name, a recipe or a Method class."""
    if isinstance(method, Recipe):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        return Recipe(method.__name__, method)
    return find_recipe(method)  # type: ignore[arg-type]


# ---------------------------------------------------------------- what a file must agree with


def _same_space(description: Mapping[str, Any], given: Space | None) -> Space:
    """The space of a file, from its description or, where no file could hold that, as given; a given one must be the
    same.

    Points are kept as places in the cube, so with other bounds or labels every one of them would become another
    setting.
    """
    if given is None:
        return Space.from_json(description)
    stored, own = description["parameters"], given.describe()["parameters"]
    if list(stored) != list(own):
        raise ValueError(f"the file was written for parameters {list(stored)}, the space given has {list(own)}")
    for name, table in stored.items():
        if _text(table) != _text(own[name]):
            raise ValueError(
                f"the file was written for {name} = {_text(table)}, the space given has {name} = {_text(own[name])}"
            )
    return given


def _same_recipe(stored: Mapping[str, Any], given: Recipe | type[Method] | None) -> Recipe:
    """The recipe of a file; options that no file can hold must be given again and agree by content."""
    name, options = stored["name"], stored["options"]
    if given is None:
        if any(isinstance(value, dict) for value in options.values()):
            lost = ", ".join(key for key, value in options.items() if isinstance(value, dict))
            raise ValueError(f"the file could not hold the option {lost} of {name}: pass method=")
        return find_recipe(name)(**options)
    recipe = as_recipe(given)
    if recipe.name != name:
        raise ValueError(f"the file was written by method {name!r}, not {recipe.name!r}")
    own = recipe.to_json()["options"]
    for key in sorted({*options, *own}):
        if _text(options.get(key)) != _text(own.get(key)):
            raise ValueError(
                f"the file was written by method {name!r} with {key} = {_text(options.get(key))}, "
                f"the method given has {key} = {_text(own.get(key))}"
            )
    return recipe


def _text(value: Any) -> str:
    """Plain values as text that tells 1, 1.0 and True apart and has a NaN equal itself."""
    return json.dumps(value, sort_keys=True)


def _is_plain(params: Mapping[str, Any]) -> bool:
    return all(value is None or type(value) in (str, int, float, bool) for value in params.values())


# ---------------------------------------------------------------- values


def _checked_value(value: Any) -> float:
    if value is None:
        raise ValueError("tell needs a value, or failed=True")
    number = as_number(value)
    if number is None:
        raise ValueError(f"the value must be a number, got {shown(value)}")
    return number


def _checked_variance(var: Any) -> float | None:
    if var is None:
        return None
    number = _checked_value(var)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"var must be a finite number of at least 0, got {shown(var)}")
    return number
