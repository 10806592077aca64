"""Optuna's door: `Sampler` lets any method of this library propose the trials of an Optuna study.

A proposal is a function of (finished trials, running trials, seed, trial number), all of which live in the study's
storage, so nothing else needs to be saved: a fresh process, or another storage with the same trials, proposes the same
points bit for bit. Every sampler keeps `_Replica`s, methods that have been told what the storage holds; they only save
time and are rebuilt whenever the storage says otherwise.

What is read from a storage is numbers and JSON, never a pickle.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import threading
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from regretless.auto import choose_method, find_recipe
from regretless.certificate import Certificate
from regretless.doors.distributions import (
    Distributions,
    as_distributions,
    cube_space,
    external,
    only_value,
    parameter_of,
    searchable,
)
from regretless.method import Method, Recipe, checked_seed, keyed_generator
from regretless.parameters import Array
from regretless.space import Space, SpaceLike
from regretless.streams import Stream

ANNOUNCED = "regretless:params"
"""System attributes under which a trial tells other workers its proposal before Optuna stores the parameters one by
one."""
ATTRIBUTE_LENGTH = 2000
"""Characters per attribute; relational storages of older Optunas take 2045."""
TOLD_FAILED = "regretless:failed"
"""Marks trials whose own worker reported the failure, as opposed to those that a stale heartbeat gave up."""
VARIANCE = "regretless:var"
"""The user attribute by which an objective tells the noise variance of its value, when it knows it."""
LONGEST_TIMES = 10.0
"""With pending_ttl=None a running trial counts as lost once it has run this many times longer than the longest
completed one ..."""
LOST_SECONDS = 60.0
"""... and at least this long: the first ask of a worker imports libraries, and machines stall."""
RACES = 4
"""Proposals made at most when other workers announce nearly the same point at the same moment."""
NEAR = 1e-3
"""Cube distance (largest coordinate) below which two simultaneous proposals are the same experiment."""
REPLICAS = 8
"""Methods kept per storage: one per study, search space and Hyperband bracket in use."""


# ---------------------------------------------------------------- the sampler


class Sampler(BaseSampler):
    """Proposes the trials of a single-objective Optuna study by a method of this library.

        study = optuna.create_study(sampler=Sampler(method="gp-ei", seed=0), storage="sqlite:///study.db",
        load_if_exists=True, study_name="s")

    With a seed, runs are exact: interrupted and resumed runs, and runs over any storage, give the same trials. Workers
    that share a study see each other's running trials and do not repeat them, seeded alike or not. Failed trials (and
    those that violate a constraint of `trial.set_constraint`) are told to the method as infeasible.

    Args:
        method: a name (`regretless list` shows them), a recipe such as `regretless.MSUCB(d=5)`, or "auto".
        seed: keys every random draw together with the trial's number; drawn at random when not given.
        search_space: the parameters, as Optuna distributions or anything `regretless.Space` takes. Optuna reveals
            parameters only when they are first suggested; with this argument the method proposes from the first trial
            on. Without it the first trials are drawn at random until one completes, and then the method searches the
            parameters that all completed trials share. Parameters outside are drawn at random, and a warning says so
            once per study.
        budget: the number of trials planned, when known.
        certify: lets "auto" take a method whose certificate shrinks, for studies that are to end by `GapBelow`.
        pending_ttl: seconds after which a trial that is still running counts as lost and is ignored; None waits ten
            times the longest completed trial and at least a minute, `math.inf` for ever. Trials whose heartbeat is
            stale are ignored in any case.
        pruned: "ignore" leaves pruned trials out; "last" tells their last intermediate value.
    """

    def __init__(
        self,
        method: str | Recipe = "auto",
        *,
        seed: int | None = None,
        search_space: Mapping[str, BaseDistribution] | SpaceLike | None = None,
        budget: int | None = None,
        certify: bool = False,
        pending_ttl: float | None = None,
        pruned: Literal["ignore", "last"] = "ignore",
    ) -> None:
        if not (method == "auto" or isinstance(method, Recipe)):
            method = find_recipe(method)
        if pending_ttl is not None and not pending_ttl > 0:
            raise ValueError(f"pending_ttl must be a positive number of seconds or None, got {pending_ttl!r}")
        if pruned not in ("ignore", "last"):
            raise ValueError(f'pruned must be "ignore" or "last", got {pruned!r}')
        self.method = method
        self.seed = secrets.randbits(32) if seed is None else checked_seed(seed)
        self.search_space = None if search_space is None else as_distributions(search_space)
        self.budget = budget
        self.certify = certify
        self.pending_ttl = pending_ttl
        self.pruned = pruned
        self._forget_caches()

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_lock", "_replicas", "_spaces", "_warned")
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._forget_caches()

    def __repr__(self) -> str:
        return f"Sampler({self.method!r}, seed={self.seed})"

    def _forget_caches(self) -> None:
        self._lock = threading.RLock()
        self._replicas: weakref.WeakKeyDictionary[BaseStorage, list[_Replica]] = weakref.WeakKeyDictionary()
        self._spaces: weakref.WeakKeyDictionary[BaseStorage, dict[Any, IntersectionSearchSpace]] = (
            weakref.WeakKeyDictionary()
        )
        self._warned: weakref.WeakKeyDictionary[BaseStorage, set[int]] = weakref.WeakKeyDictionary()

    # -- Optuna's hooks

    def reseed_rng(self) -> None:
        """Nothing to do: draws are keyed on the trial's number, so parallel workers never share them."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial | None) -> Distributions:
        if self.search_space is not None:
            return searchable(self.search_space)
        with self._lock:
            spaces = self._spaces.setdefault(study._storage, {})
            key = (
                study._study_id,
                getattr(study, "_bracket_id", None),
            )  # Hyperband shows each trial the trials of its bracket only
            if key not in spaces:
                spaces[key] = IntersectionSearchSpace(include_pruned=self.pruned == "last")
            return searchable(spaces[key].calculate(study))

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        self._raise_error_if_multi_objective(study)
        space = searchable(search_space)
        if not space:
            return {}
        with self._lock:
            trials = study.get_trials(deepcopy=False)
            pieces = ahead = 0
            for _ in range(RACES):
                replica = self._replica(study, space, trials)
                others = [t for t in replica.unknown(trials) if t.number != trial.number]
                pending = self._pending(study, replica, others)
                u = replica.propose(trial.number, list(pending.values()), ahead)
                params = replica.decode(u)
                pieces = _announce(study, trial, space, params, pieces)
                if not others and not _has_trial(study, max(trial.number, trials[-1].number if trials else -1) + 1):
                    break  # nobody else is at work, and whoever comes now sees our announcement
                trials = study.get_trials(deepcopy=False)
                others = [t for t in replica.unknown(trials) if t.number != trial.number]
                rivals = self._rivals(study, replica, u, pending, others)
                if not rivals:
                    break
                ahead = sum(
                    number < trial.number for number in rivals
                )  # so that rivals who move at the same moment move to different points
            return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        self._raise_error_if_multi_objective(study)
        if param_distribution.single():
            return only_value(param_distribution)
        self._warn_once(study, param_name)
        space = Space({param_name: parameter_of(param_distribution)})
        stream = int.from_bytes(hashlib.blake2b(param_name.encode(), digest_size=7).digest(), "big") + Stream.LARGEST
        u = keyed_generator(self.seed, trial.number, stream).random(1)
        return external(param_distribution, space.decode(u)[param_name])

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        if state == TrialState.FAIL and _has_heartbeat(study):
            study._storage.set_trial_system_attr(trial._trial_id, TOLD_FAILED, True)

    # -- what the method knows

    def certificate(self, study: Study, delta: float = 0.05) -> Certificate:
        """How much worse than the optimum `recommend` may be, with probability 1 - delta, or why that is not known."""
        with self._lock:
            replica = self._current(study)
            if replica is None:
                return Certificate.none("no common search space is known yet: no trial has completed", delta)
            return replica.method.certificate(delta).scaled(_sign(study))

    def recommend(self, study: Study) -> dict[str, Any]:
        """The parameters to use: best by the model, not the luckiest noisy value."""
        with self._lock:
            replica = self._current(study)
            if replica is None:
                raise RuntimeError("recommend() needs at least one completed trial; the study has none yet")
            return replica.decode(replica.method.recommend())

    def _current(self, study: Study) -> _Replica | None:
        self._raise_error_if_multi_objective(study)
        trials = study.get_trials(deepcopy=False)
        space = self.infer_relative_search_space(study, None)
        return self._replica(study, space, trials) if space else None

    # -- inside

    def _replica(self, study: Study, space: Distributions, trials: Sequence[FrozenTrial]) -> _Replica:
        """A method that has been told exactly the finished trials, in the order they finished: a kept one if one fits,
        else a new one."""
        kept = self._replicas.setdefault(study._storage, [])
        for replica in kept:
            if (
                replica.study_id == study._study_id
                and replica.space == space
                and (fresh := replica.news(trials)) is not None
            ):
                break
        else:
            replica = _Replica(
                study._study_id, space, self._recipe(space), seed=self.seed, budget=self.budget, sign=_sign(study)
            )
            fresh = [t for t in trials if _has_ended(t)]
        if not kept or kept[0] is not replica:
            kept[:] = [replica, *(other for other in kept if other is not replica)][:REPLICAS]
        if fresh:
            sign, heartbeat = _sign(study), _has_heartbeat(study)
            replica.take([(t, self._value(t, sign, heartbeat)) for t in sorted(fresh, key=_when)], trials)
        return replica

    def _recipe(self, space: Distributions) -> Recipe:
        return (
            self.method
            if isinstance(self.method, Recipe)
            else choose_method(cube_space(space), self.budget, certify=self.certify)[0]
        )

    def _value(self, trial: FrozenTrial, sign: float, heartbeat: bool) -> float | None:
        """What a finished trial tells the method: a value to maximise, NaN for an infeasible one, None for nothing at
        all."""
        if trial.state == TrialState.COMPLETE:
            return sign * trial.values[0] if _feasible(trial) else math.nan
        if trial.state == TrialState.PRUNED:
            if self.pruned == "ignore" or trial.last_step is None:
                return None
            return sign * trial.intermediate_values[trial.last_step]
        if trial.state == TrialState.FAIL and (not heartbeat or TOLD_FAILED in trial.system_attrs):
            return math.nan
        return None  # a worker that died says nothing about its point

    def _pending(self, study: Study, replica: _Replica, others: Iterable[FrozenTrial]) -> dict[int, Array]:
        """Cube points of those trials of other workers that are being evaluated now, by number."""
        running = [t for t in others if t.state == TrialState.RUNNING]
        if not running:
            return {}
        stale = set(study._storage._get_stale_trial_ids(study._study_id)) if _has_heartbeat(study) else set()  # type: ignore[attr-defined]
        ttl = replica.lost_after if self.pending_ttl is None else self.pending_ttl
        now = datetime.now()
        points = {}
        for t in running:
            if t._trial_id in stale or (
                t.datetime_start is not None and (now - t.datetime_start).total_seconds() > ttl
            ):
                continue
            fixed = t.system_attrs.get("fixed_params", {})
            u = replica.encode(_announced(t, replica.space) | (fixed if isinstance(fixed, dict) else {}) | t.params)
            if u is not None:
                points[t.number] = u
        return points

    def _rivals(
        self, study: Study, replica: _Replica, u: Array, pending: Mapping[int, Array], others: list[FrozenTrial]
    ) -> list[int]:
        """Numbers of the trials that came up, or changed their mind, while we were thinking, and evaluate or have
        evaluated (nearly) our point."""
        points = self._pending(study, replica, others)
        for t in others:
            point = replica.encode(t.params) if t.state.is_finished() else None
            if point is not None:
                points[t.number] = point
        return [
            n
            for n, point in points.items()
            if np.abs(point - u).max() < NEAR and not (n in pending and np.array_equal(pending[n], point))
        ]

    def _warn_once(self, study: Study, param_name: str) -> None:
        warned = self._warned.setdefault(study._storage, set())
        if study._study_id in warned:
            return
        if self.search_space is None and not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            return  # there is no common space yet that it could be outside of
        warned.add(study._study_id)
        known = "every completed trial" if self.search_space is None else "search_space"
        warnings.warn(
            f"parameter {param_name!r} is not part of {known}, or its range changed: the method does not search it, it is drawn at random, and so is "
            "every further parameter like it in this study",
            stacklevel=2,
        )


# ---------------------------------------------------------------- a method and what it was told


class _Replica:
    """A method on the common space of a study, and the finished trials it has been told."""

    def __init__(
        self, study_id: int, space: Distributions, recipe: Recipe, *, seed: int, budget: int | None, sign: float
    ) -> None:
        self.study_id, self.space = study_id, space
        self._told: set[int] = set()
        """Numbers of the finished trials that were taken in."""
        self._last: tuple[datetime, int] = datetime.min, -1
        """When the last of them finished, and its number."""
        self._leading, self._leading_number = 0, -1
        """How many trials at the head of the study have all been taken in, and the number of the last of those: they
        need not be looked at again."""
        self._longest = -1.0
        """Seconds that the longest completed one of them took; negative before the first."""
        self._cube_space = cube_space(space)
        self._parameters = list(self._cube_space.parameters.items())
        self._labelled = {
            name: distribution
            for name, distribution in space.items()
            if isinstance(distribution, CategoricalDistribution)
        }
        self._choices = recipe.method.choices
        self.method: Method = recipe.build(self._cube_space, seed=seed, budget=budget, sign=sign)

    def unknown(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """The trials not taken in."""
        return [t for t in trials[self._leading :] if t.number not in self._told]

    def news(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial] | None:
        """The finished trials not yet taken in; None when what was taken in is no beginning of this history."""
        if self._leading and (len(trials) < self._leading or trials[self._leading - 1].number != self._leading_number):
            return None
        unknown = self.unknown(trials)
        fresh = [t for t in unknown if _has_ended(t)]
        fits = len(trials) - len(unknown) == len(self._told) and all(_when(t) > self._last for t in fresh)
        return fresh if fits else None

    def take(self, history: list[tuple[FrozenTrial, float | None]], trials: Sequence[FrozenTrial]) -> None:
        """Tells the method those of `trials` that finished after the ones it knows, with their values: NaN is
        infeasible, None nothing to tell."""
        X, y, yvar = [], [], []
        for trial, value in history:
            u = None if value is None else self.encode(trial.params)
            if u is not None and value is not None:
                X.append(u)
                y.append(value)
                yvar.append(_variance(trial))
            self._told.add(trial.number)
            if trial.state == TrialState.COMPLETE and trial.duration is not None:
                self._longest = max(self._longest, trial.duration.total_seconds())
        self._last = _when(history[-1][0])
        if X:
            self.method.tell(np.array(X), np.array(y), yvar=None if all(map(math.isnan, yvar)) else np.array(yvar))
        while self._leading < len(trials) and (number := trials[self._leading].number) in self._told:
            self._leading, self._leading_number = self._leading + 1, number

    @property
    def lost_after(self) -> float:
        """Seconds after which a running trial of this study is probably lost."""
        return _lost_after(self._longest)

    def propose(self, step: int, pending: list[Array], ahead: int = 0) -> Array:
        """The point for trial number `step`, away from the pending ones and from those of `ahead` others who ask at the
        same moment.

        The method is left with none pending.
        """
        if pending:
            self.method.wait_for(np.array(pending))
        try:
            asked = self.method.ask(1 + ahead, step=step)
        except BaseException:
            self.method.forget(self.method.pending)
            raise
        self.method.forget(np.concatenate([asked, np.array(pending)]) if pending else asked)
        point: Array = asked[-1]
        return point

    def encode(self, params: Mapping[str, Any]) -> Array | None:
        """The cube point of a trial's parameters; None when they do not cover the space or lie outside it."""
        try:
            inner = {name: params[name] for name in self.space}
            inner.update(
                (name, int(distribution.to_internal_repr(params[name])))
                for name, distribution in self._labelled.items()
            )
            if self._choices == "shares":  # one number each
                return np.array([parameter.to_unit(inner[name]) for name, parameter in self._parameters])
            return self._cube_space.encode(inner, self._choices)
        except (KeyError, ValueError, TypeError, OverflowError):
            return None

    def decode(self, u: Array) -> dict[str, Any]:
        if self._choices == "shares":
            params: dict[str, Any] = {
                name: parameter.from_unit(share)
                for (name, parameter), share in zip(self._parameters, u.tolist(), strict=True)
            }
        else:
            params = self._cube_space.decode(u, self._choices)
        params.update((name, distribution.choices[params[name]]) for name, distribution in self._labelled.items())
        return params


# ---------------------------------------------------------------- studies and trials


def lost_after(trials: Iterable[FrozenTrial]) -> float:
    """Seconds after which a running trial is probably lost, judged by the longest completed one; infinite before the
    first."""
    durations = [
        t.duration.total_seconds() for t in trials if t.state == TrialState.COMPLETE and t.duration is not None
    ]
    return _lost_after(max(durations, default=-1.0))


def _lost_after(longest: float) -> float:
    return math.inf if longest < 0 else max(LONGEST_TIMES * longest, LOST_SECONDS)


def _has_ended(trial: FrozenTrial) -> bool:
    return trial.state.is_finished() and trial.datetime_complete is not None


def _has_trial(study: Study, number: int) -> bool:
    """Whether a trial of this number has been created: one small query, where reading the trials takes several."""
    try:
        study._storage.get_trial_id_from_study_id_trial_number(study._study_id, number)
    except KeyError:
        return False
    return True


def _when(trial: FrozenTrial) -> tuple[datetime, int]:
    return trial.datetime_complete or datetime.min, trial.number


def _variance(trial: FrozenTrial) -> float:
    found: Any = trial.user_attrs.get(VARIANCE)
    known = isinstance(found, float | int) and not isinstance(found, bool) and 0 <= found < math.inf
    return float(found) if known else math.nan


def _sign(study: Study) -> float:
    return 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0


def _has_heartbeat(study: Study) -> bool:
    interval = getattr(study._storage, "get_heartbeat_interval", None)
    return interval is not None and interval() is not None


def _feasible(trial: FrozenTrial) -> bool:
    for key, value in trial.system_attrs.items():
        if key == "constraints" and any(v > 0 for v in value or ()):
            return False
        if key.startswith("constraints:") and value > 0:
            return False
    return True


def _announce(study: Study, trial: FrozenTrial, space: Distributions, params: Mapping[str, Any], former: int) -> int:
    """Shares a proposal with the other workers, in attributes short enough for every storage; blanks what is left of
    `former` pieces."""
    text = json.dumps(
        {
            name: value if type(value) is float else float(space[name].to_internal_repr(value))
            for name, value in params.items()
        }
    )
    if len(text) <= ATTRIBUTE_LENGTH and former <= 1:
        study._storage.set_trial_system_attr(trial._trial_id, f"{ANNOUNCED}:0", text)
        return 1
    pieces = [text[i : i + ATTRIBUTE_LENGTH] for i in range(0, len(text), ATTRIBUTE_LENGTH)]
    pieces += [""] * (former - len(pieces))
    for i, piece in enumerate(pieces):
        study._storage.set_trial_system_attr(trial._trial_id, f"{ANNOUNCED}:{i}", piece)
    return len(pieces)


def _announced(trial: FrozenTrial, space: Distributions) -> dict[str, Any]:
    """The proposal a running trial has announced; nothing while it is only half written or when it is not ours."""
    pieces: list[str] = []
    while isinstance(piece := trial.system_attrs.get(f"{ANNOUNCED}:{len(pieces)}"), str):
        pieces.append(piece)
    try:
        found = json.loads("".join(pieces))
        return {name: space[name].to_external_repr(value) for name, value in found.items() if name in space}
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        return {}
