"""`Optimizer`: a space, a method and a direction behind ask and tell.

Here, and only here, signs and units are turned, settings become cube points, and "auto" becomes a method: users see
their own parameters and values, methods see a maximisation on the cube. Every door and every runner holds one of these,
so the same space, seed and method give the same points whichever way one comes in.
"""

from __future__ import annotations

import math
import secrets
import statistics
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

import numpy as np

from regretless import agreement
from regretless.agreement import MethodLike
from regretless.auto import choose_method
from regretless.bounds import KnownBound, checked_noise_bound
from regretless.certificate import Certificate
from regretless.earlier import learn_earlier
from regretless.evaluation import checked_value, checked_variance
from regretless.method import Method, Recipe
from regretless.options import one_of
from regretless.parameters import Array
from regretless.probes import Share, Watch, checked_rate, is_due, probe_point, share_left, with_what_is_known
from regretless.space import Space, SpaceLike
from regretless.statefile import pack, read_state, write_state
from regretless.trial import CostKind, checked_amount, checked_constraints, checked_cost, counted, own_values
from regretless.trial import Trial as Trial

Direction: TypeAlias = Literal["minimize", "maximize"]

FILE_KIND = "regretless-optimizer-4"
"""Marks the files `Optimizer.save` writes; the number grows when the layout changes."""
ELSEWHERE = {"n_trials": "budget=", "trials": "budget=", "random_state": "seed=", "sampler": "method="}
"""What other libraries, and `minimize`, call our arguments."""


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
        constraints: how many values of constraints are told with every value, or their names; a constraint holds where
            its value is at most 0. Methods that cannot learn them are told infeasible settings as failures.
        cost: "told" when costs are told with the values, "seconds" when the duration is the cost: proposals then weigh
            what they promise by what they cost.
        probes: the share of the trials that are independent uniform draws of the space; they prove how much of it can
            be better (`Certificate.share`), whatever the function, and cost their evaluations.
        floor, ceiling: a value that no setting can fall below, for a minimisation, or exceed, for a maximisation. The
            certified gap is never larger than what lies between.
        noise_bound: how far noise can carry a value from the truth at most, where that is known.
    """

    def __new__(cls, *args: Any, **options: Any) -> Optimizer:
        for name in options:
            if name in ELSEWHERE:
                raise TypeError(f"Optimizer has no argument {name!r}; here it is {ELSEWHERE[name]}")
        return super().__new__(cls)

    def __init__(
        self,
        space: SpaceLike,
        *,
        method: MethodLike = "auto",
        direction: Direction = "minimize",
        budget: int | None = None,
        seed: int | None = None,
        certify: bool = False,
        constraints: int | Sequence[str] = 0,
        cost: CostKind | None = None,
        probes: float = 0.0,
        floor: float | None = None,
        ceiling: float | None = None,
        noise_bound: float | None = None,
    ) -> None:
        one_of(get_args(Direction), direction=direction)
        self.space = space if isinstance(space, Space) else Space(space)
        self.direction: Direction = direction
        self.budget = budget
        self.seed = secrets.randbits(32) if seed is None else seed
        self.n_constraints, self.constraint_names = counted(constraints)
        one_of((None, *get_args(CostKind)), cost=cost)
        self.cost: CostKind | None = cost
        if method == "auto":
            weighed = bool(self.n_constraints or cost)
            self.recipe, self._chosen = choose_method(self.space, certify=certify, weighed=weighed)
        else:
            self.recipe, self._chosen = agreement.as_recipe(method), "given"
        """The recipe in use, and the reason it was chosen."""
        self._sign = 1.0 if direction == "maximize" else -1.0
        self.probes = checked_rate(probes)
        self.probe_steps: list[int] = []
        """The steps whose trials were to be probes, those whose draw was known already included."""
        self.together = False
        """Whether several trials were ever under way at once."""
        self.watch: Watch | None = None
        """The rule that may end the run by its values, if there is one: certified shares then hold at every moment."""
        self.noise_bound = checked_noise_bound(noise_bound)
        self.bound = KnownBound(direction, floor, ceiling, noise_bound=self.noise_bound)
        """The floor of a minimisation, the ceiling of a maximisation, if one is known."""
        self.method: Method = self.recipe.build(self.space, seed=self.seed, budget=budget, sign=self._sign)
        self.method.noise_bound = self.noise_bound
        self.modelled = self.n_constraints if self.method.models_constraints else 0
        """The constraints that the method learns."""
        if cost is not None and not self.method.weighs_cost:
            raise ValueError(f"{self.recipe.name} cannot weigh gains by cost; gp-ei and gp-pi can")
        if self.modelled or cost is not None:
            self.method.expect(constraints=self.modelled, cost=cost is not None)
        self.trials: list[Trial] = []
        """All trials, in the order of their numbers."""
        self.earlier: list[tuple[bytes, float]] = []
        """Identities and values of earlier evaluations inside the space."""
        self.notes: dict[str, Any] = {}
        """Plain values that travel with the file: what a runner has to know when it goes on."""
        self.seal: bytes | None = None  # of the file written last
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        done = sum(t.state == "done" for t in self.trials)
        words = f"direction={self.direction!r}, seed={self.seed}, {done} of {len(self.trials)} trials done"
        return f"Optimizer({self.recipe}, {words})"

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            own = {"best_params": "best.params", "best_value": "best.value", "best_trial": "best"}.get(name)
            hint = f"; here it is optimizer.{own}, or optimizer.recommend()" if own else ""
            raise AttributeError(f"Optimizer has no attribute {name!r}{hint}")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()

    # -- ask and tell

    @overload
    def ask(self, n: None = None, *, fixed: Mapping[str, Any] | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, fixed: Mapping[str, Any] | None = None) -> list[Trial]: ...
    def ask(self, n: int | None = None, *, fixed: Mapping[str, Any] | None = None) -> Trial | list[Trial]:
        """The next trial, or the next n of them; legal at any time, however many are pending. `fixed` sets some
        parameters, `ask(fixed={"act": "relu"})`: the others are proposed for these values."""
        with self._lock:
            self.together |= (n or 1) > 1 or len(self.method.pending) > 0
            if fixed:
                pins = self.space.pins(fixed, self.method.choices)
                X = self.method.ask(1 if n is None else n, step=len(self.trials), pins=pins)
                own = own_values(self.space.parameters, fixed)
                trials = [self._new_trial(u, self.space.decode(u, self.method.choices) | own) for u in X]
            elif self.probes:
                trials = [self._new_trial(self._probe_or_proposal()) for _ in range(1 if n is None else n)]
            else:
                trials = [self._new_trial(u) for u in self.method.ask(1 if n is None else n, step=len(self.trials))]
        return trials[0] if n is None else trials

    def _probe_or_proposal(self) -> Array:
        """The point of the next trial, left pending; a probe whose draw is known already needs no evaluation."""
        step = len(self.trials)
        if is_due(step, self.probes):
            self.probe_steps.append(step)
            u = self.probe_at(step)
            if not self.method.is_known(u):
                self.method.wait_for(u)
                return u
        point: Array = self.method.ask(1, step=step)[0]
        return point

    def probe_at(self, step: int) -> Array:
        """The canonical cube point of the probe of a step, whether or not the step is to be one."""
        return probe_point(self.space, self.seed, step, self.method.choices)

    def adopt(self, params: Mapping[str, Any] | Sequence[float] | Array) -> Trial:
        """A pending trial at a setting of your own: a known good one, or one evaluated before."""
        u = self.space.encode(params, self.method.choices)
        named = params if isinstance(params, Mapping) else dict(zip(self.space.names, params, strict=True))
        self.space.check(named)
        with self._lock:
            self.method.wait_for(u)
            return self._new_trial(u, own_values(self.space.parameters, self.space.only_active(named)))

    def tell(
        self,
        trial: Trial | int,
        value: float | None = None,
        var: float | None = None,
        *,
        failed: bool = False,
        error: str = "",
        constraints: Sequence[float] | Mapping[str, float] | None = None,
        cost: float | None = None,
        seconds: float | None = None,
    ) -> None:
        """The value of a pending trial (or of its number); NaN, infinities and `failed=True` mean that the evaluation
        failed.

        Args:
            var: the known noise variance of the value, for instance the squared standard error of a mean over
                repetitions.
            error: why the evaluation failed; the trial keeps it.
            constraints: the values of the constraints, by position or by name, at most 0 where they hold.
            cost: what the evaluation cost; with cost="seconds" its duration is taken.
            seconds: how long the evaluation took; the trial keeps it.
        """
        with self._lock:
            trial = self._pending_trial(trial)
            trial.settle()
            if not failed:
                value, var = checked_value(value), checked_variance(var)
                values = checked_constraints(constraints, self.n_constraints, self.constraint_names)
                seconds = None if seconds is None else checked_amount("seconds", seconds)
            cost = checked_cost(None if failed else self.cost, cost, seconds)
            trial.seconds = None if failed else seconds
            if failed or value is None or not math.isfinite(value):
                trial.state, trial.error = "failed", error or ("" if failed else f"the value was {value}")
                trial.cost = cost
                self.method.tell(trial.unit[None], np.nan)
                return
            self.bound.check([value], [math.nan if var is None else var])
            trial.state, trial.value, trial.var, trial.constraints, trial.cost = "done", value, var, values, cost
            y = self._sign * value if self.modelled or trial.feasible else math.nan
            sides = [*values[: self.modelled], *([cost] if self.cost is not None and cost is not None else [])]
            variance = None if var is None else np.array([var])
            self.method.tell(trial.unit[None], y, yvar=variance, sides=[sides] if sides else None)

    def learn(self, source: Any, *, missing: Mapping[str, Any] | None = None) -> int:
        """Takes in what was evaluated before this run and returns how many evaluations that were; they are no trials.

        source: a `Result` or its JSON, an `Optimizer`, the file of a checkpoint, a CSV with a column per parameter and
            one called "value", an Optuna study or storage URL, or (setting, value) pairs. Ranges may differ: settings
            outside of this space are used by the model and never proposed.
        missing: values for parameters that the earlier settings do not have.
        """
        with self._lock:
            return learn_earlier(self, source, missing or {})

    def forget(self, trial: Trial | int) -> None:
        """Gives up a pending trial that will never be told, without holding the failure against its setting."""
        with self._lock:
            trial = self._pending_trial(trial)
            self.method.forget(trial.unit[None])
            trial.state = "failed"

    # -- for doors whose trials live elsewhere

    def take_in(
        self,
        settings: Iterable[Array],
        values: Iterable[float],
        variances: Iterable[float],
        constraints: Sequence[Sequence[float]] | None = None,
    ) -> None:
        """Tells many finished evaluations at once: cube points, values (NaN: failed), variances (NaN: not known) and
        the values of the constraints, where there are some."""
        X, y, yvar = np.array(list(settings)), np.array(list(values)), np.array(list(variances))
        C = np.array(constraints if constraints is not None else [[]] * len(y)).reshape(len(y), self.n_constraints)
        if len(y):
            if not self.modelled:
                y = np.where((C <= 0).all(axis=1), y, np.nan)
            with self._lock:
                self.bound.check(y, yvar)
                known = None if np.isnan(yvar).all() else yvar
                self.method.tell(X, self._sign * y, yvar=known, sides=C if self.modelled else None)

    def inform(self, X: Array, values: Array, variances: Array) -> None:
        """Tells a method that can use them values (n) at points X (n x d) outside the cube, where nothing is
        proposed; variances: NaN where not known."""
        self.method.inform(X, self._sign * values, variances)

    def propose(self, step: int, pending: Sequence[Array] = (), *, ahead: int = 0) -> Array:
        """The cube point for trial number `step`, away from the pending ones and from those of `ahead` others who ask
        at the same moment; nothing is left pending."""
        with self.waiting_for(pending):
            if is_due(step, self.probes) and not self.method.is_known(probe := self.probe_at(step)):
                return probe
            point: Array = self.method.ask(1 + ahead, step=step)[-1]
            return point

    @contextmanager
    def waiting_for(self, pending: Sequence[Array]) -> Iterator[None]:
        """Has these cube points, and those asked meanwhile, pending for a while."""
        with self._lock:
            before = len(self.method.pending)
            if len(pending):
                self.method.wait_for(np.array(pending))
            try:
                yield
            finally:
                self.method.forget(self.method.pending[before:])

    # -- what is known

    @property
    def pending(self) -> list[Trial]:
        """Trials asked and not yet told."""
        return [t for t in self.trials if t.state == "pending"]

    @property
    def ended(self) -> list[float | None]:
        """The value of each trial that ended, in order of their numbers; None: it failed."""
        return [t.value for t in self.trials if t.state != "pending"]

    @property
    def costs(self) -> list[float | None]:
        """What each of them cost; None: that is not known."""
        return [t.cost for t in self.trials if t.state != "pending"]

    @property
    def allowed(self) -> list[bool]:
        """Whether each of them has a value and satisfies the constraints."""
        return [t.feasible for t in self.trials if t.state != "pending"]

    @property
    def best(self) -> Trial:
        """The trial with the best value observed (with noise, perhaps only the luckiest; see `recommend`)."""
        return Trial.best_of(self.trials, self._sign)

    @property
    def why(self) -> str:
        """Why this method was taken; of one that chooses as it goes, why it searches as it does and what changed."""
        return self.method.why or self._chosen

    @property
    def exhausted(self) -> bool:
        """Whether the space is finite and every setting of it has been asked, or was evaluated earlier."""
        size, most = self.method.cube.size, len(self.trials) + len(self.earlier)
        return size <= most and len({t.unit.tobytes() for t in self.trials} | {k for k, _ in self.earlier}) >= size

    def recommend(self) -> dict[str, Any]:
        """The setting to use: the best value seen, or with noise the model's choice, not the luckiest value."""
        with self._lock:
            u = self.method.recommend()
        key = self.method.cube.key(u)
        for trial in self.trials:
            if trial.unit.tobytes() == key:
                return dict(trial.given)  # to the last digit
        return self.space.decode(u, self.method.choices)

    def observed(self, params: Mapping[str, Any]) -> float:
        """The mean of the values told for a setting; NaN when it was never evaluated."""
        key = self._identity(params)
        values = [t.value for t in self.trials if t.value is not None and t.unit.tobytes() == key]
        values += [value for known, value in self.earlier if known == key]
        return statistics.mean(values) if values else math.nan  # exact, so that no sum leaves the range of floats

    @property
    def certificate(self) -> Certificate:
        """How much worse than the optimum `recommend()` may be, with probability 0.95, or why that is not known."""
        return self.certificate_at(0.05)

    def certificate_at(self, delta: float) -> Certificate:
        """The same with probability 1 - delta."""
        with self._lock:
            found = with_what_is_known(self.method.certificate(delta), self.method, self.bound).scaled(self._sign)
            left = self._share(delta, self.watch)
            return replace(found, share=left.value, share_reason=left.reason, probes=left.probes)

    def share_at(self, delta: float) -> Share:
        """How much of the space can be better than `recommend()`, with probability 1 - delta, by one planned look."""
        with self._lock:
            return self._share(delta)

    def _share(self, delta: float, watch: Watch | None = None) -> Share:
        steps = self.probe_steps or ([] if self.probes else None)
        return share_left(self.method, self.space, self.seed, steps, delta, together=self.together, watch=watch)

    def fresh(self) -> Optimizer:
        """Another one of the same run, of which nothing has been asked or told."""
        return Optimizer(
            self.space, method=self.recipe, direction=self.direction, budget=self.budget, seed=self.seed,
            probes=self.probes, floor=self.bound.floor, ceiling=self.bound.ceiling,
            constraints=self.constraint_names or self.n_constraints, cost=self.cost, noise_bound=self.noise_bound,
        )  # fmt: skip

    # -- files

    def save(self, path: str | Path) -> None:
        """Writes everything to a file (no pickle); a kill at any moment leaves the old file or the new one, never half
        of one."""
        with self._lock:  # also while it writes: an older state must not be renamed over a newer one
            self.seal = write_state(path, self._state())

    def to_bytes(self) -> bytes:
        """What `save` would write."""
        with self._lock:
            return pack(self._state())

    def _state(self) -> dict[str, Any]:
        return {"kind": FILE_KIND, **agreement.state_of(self)}

    @classmethod
    def load(
        cls, path: str | Path, *, space: SpaceLike | None = None, method: Recipe | type[Method] | None = None
    ) -> Optimizer:
        """Reads a file of `save` and goes on as if never interrupted.

        `space` and `method` are needed only when they hold what no file can: labels that are objects, options that are
        functions or arrays, a method of your own. Given ones that differ from those of the file raise ValueError.
        """
        return cls.of_state(read_state(path), path, space, method)

    @classmethod
    def of_state(
        cls, state: Mapping[str, Any], path: str | Path, space: SpaceLike | None, method: Recipe | type[Method] | None
    ) -> Optimizer:
        """As `load`, of a state that was read from the file at `path`."""
        if state.get("kind") != FILE_KIND:
            kind = f"its kind is {state.get('kind')!r}, this one reads {FILE_KIND!r}"
            raise ValueError(f"{path} is not a file of Optimizer.save, or one of another release ({kind})")
        try:
            optimizer = cls._from_state(state, space, method)
            now = optimizer._state()
            given = {"method", *(["space"] if space is not None else []), *(["recipe"] if method is not None else [])}
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
        recipe = agreement.same_recipe(state["recipe"], method)
        optimizer = cls(
            agreement.same_space(state["space"], None if space is None else Space(space)),
            method=recipe,
            direction=state["direction"],
            budget=state["budget"],
            seed=state["seed"],
            constraints=state.get("constraint_names") or np.shape(state.get("constraints", np.empty((0, 0))))[1],
            cost=state.get("cost", {}).get("kind"),
            probes=state["probes"],
            noise_bound=state.get("noise_bound"),
        )
        optimizer.bound = KnownBound.of(optimizer.direction, state["bound"], noise_bound=optimizer.noise_bound)
        optimizer.bound.broken = None if state["beyond"] is None else float(state["beyond"])
        optimizer.together, optimizer.watch = bool(state["together"]), Watch.read(state.get("watch"))
        optimizer.probe_steps = [int(step) for step in state["probe_steps"]]
        optimizer._chosen, optimizer.notes = str(state["why"]), dict(state["notes"])
        agreement.check_probes(optimizer, len(state["state"]))
        optimizer.method.load_state_dict(state["method"])
        agreement.take_trials(optimizer, state)
        agreement.take_sides(optimizer, state)
        agreement.check_history(optimizer.trials, optimizer.method, optimizer._sign, optimizer.earlier)
        return optimizer

    # -- inside

    def _identity(self, params: Mapping[str, Any]) -> bytes:
        """The identity of a setting's point: the bytes of `Trial.unit`, which is canonical."""
        return self.method.cube.key(self.space.encode(params, self.method.choices))

    def _new_trial(self, u: Array, params: dict[str, Any] | None = None) -> Trial:
        trial = Trial(len(self.trials), params or self.space.decode(u, self.method.choices), unit=u)
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
            now = f"(state {own.state!r}, value {own.value!r})"
            raise ValueError(f"trial {number} has been told already, or was forgotten {now}")
        return own
