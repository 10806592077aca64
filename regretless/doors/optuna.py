"""Optuna's door: `Sampler` lets any method of this library propose the trials of an Optuna study.

A proposal follows from the finished trials, the running trials, the seed and the trial's number. The study's storage
holds all of these, as numbers and JSON. So nothing else is saved, and a fresh process, or another storage with the same
trials, gets the same proposal bit for bit. To save time a sampler keeps `_Replica`s, optimizers that were told the
trials of a storage already. A replica that no longer agrees with the storage is replaced by a new one.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from regretless.certificate import Certificate
from regretless.doors.curves import Curves
from regretless.doors.distributions import (
    Distributions,
    as_distributions,
    cube_space,
    external,
    only_value,
    parameter_of,
    searchable,
)
from regretless.doors.studies import check_one_objective, whole_study
from regretless.doors.trials import (
    TOLD_FAILED,
    ended_at,
    feasible,
    has_ended,
    has_heartbeat,
    has_trial,
    is_lost,
    stale_ids,
    variance,
)
from regretless.doors.workers import (
    OWNER,
    Sightings,
    announce,
    announced,
    announcement,
    is_dead,
    lost_after,
    mark_probe,
    probe_steps,
    ran_together,
)
from regretless.method import checked_seed, keyed_generator
from regretless.optimizer import MethodLike, Optimizer, as_recipe
from regretless.parameters import Array
from regretless.probes import Share, checked_rate, is_due
from regretless.space import Space, SpaceLike
from regretless.streams import Stream

ERROR = "regretless:error"
"""The user attribute that keeps the text of a failed trial's error."""
NO_SPACE = "no common search space is known yet: no trial has completed"
"""Why a study of which nothing has completed has no certificate."""
RACES = 4
"""Proposals made at most when other workers announce nearly the same point at the same moment."""
NEAR = 1e-3
"""Cube distance (largest coordinate) below which two simultaneous proposals are the same experiment."""
STEPS = 1000
"""Steps kept, at least one for every trial that a process has under way."""
REPLICAS = 8
"""Methods kept per storage: one per study, search space and Hyperband bracket in use."""


Pruned: TypeAlias = Literal["extrapolate", "last", "ignore"]
"""What pruned trials tell."""
CACHES = ("_lock", "_replicas", "_spaces", "_warned", "_sightings", "_steps")
"""Attributes of a sampler that only save time, and are made anew in another process."""


Answer = TypeVar("Answer")

# ---------------------------------------------------------------- the sampler


class Sampler(BaseSampler):
    """Proposes the trials of a single-objective Optuna study by a method of this library.

        study = optuna.create_study(sampler=Sampler(method="gp-ei", seed=0), storage="sqlite:///study.db",
        load_if_exists=True, study_name="s")

    With a seed, runs are exact: interrupted and resumed runs, and runs over any storage, give the same trials. Workers
    that share a study see each other's running trials and do not repeat them, seeded alike or not. Failed trials (and
    those that violate a constraint of `trial.set_constraint`) are told to the method as infeasible.

    Args:
        method: a name (`regretless list` shows them), a recipe such as `regretless.MSUCB(low_dim=5)`, or "auto".
        seed: keys every random draw together with the trial's number; drawn at random when not given.
        search_space: the parameters, as Optuna distributions or anything `regretless.Space` takes. Optuna reveals
            parameters only when they are first suggested; with this argument the method proposes from the first trial
            on. Without it the first trials are drawn at random until one completes, and then the method searches the
            parameters that all completed trials share. Parameters outside are drawn at random, and a warning says so
            once per study.
        budget: the number of trials planned, when known.
        certify: lets "auto" take a method whose certificate shrinks, for studies that are to end by `GapBelow`.
        probes: the share of the trials that are independent uniform draws, for `Certificate.share` (`GapBelow(share=)`
            needs them); trials before the space is known, and enqueued ones, are none.
        floor, ceiling: a value that no setting can fall below (to minimize) or exceed (to maximize).
        pending_ttl: seconds after which a running trial of another machine counts as lost and is ignored; None waits
            ten times the longest completed trial and at least a minute, `math.inf` for ever. Trials whose heartbeat is
            stale, and those whose process on this machine has ended, are ignored in any case.
        pruned: "extrapolate" tells a pruned trial with the final value that the completed trials make probable for its
            curve (`doors.curves`); "last" tells its last intermediate value; "ignore" tells nothing. None of them
            proposes a pruned point again, and certificates rest on completed trials alone. With Hyperband, each trial
            is proposed from the trials of all brackets.
    """

    def __init__(
        self,
        method: MethodLike = "auto",
        *,
        seed: int | None = None,
        search_space: Mapping[str, BaseDistribution] | SpaceLike | None = None,
        budget: int | None = None,
        certify: bool = False,
        probes: float = 0.0,
        floor: float | None = None,
        ceiling: float | None = None,
        pending_ttl: float | None = None,
        pruned: Pruned = "extrapolate",
    ) -> None:
        if method != "auto":
            method = as_recipe(method)
        if pending_ttl is not None and not pending_ttl > 0:
            raise ValueError(f"pending_ttl must be a positive number of seconds or None, got {pending_ttl!r}")
        if pruned not in ("extrapolate", "last", "ignore"):
            raise ValueError(f'pruned must be "extrapolate", "last" or "ignore", got {pruned!r}')
        if pruned == "last" and probes:
            raise ValueError('probes exclude pruned="last": values of trials that were cut short cannot be compared')
        self.method = method
        self.seed = secrets.randbits(32) if seed is None else checked_seed(seed)
        self.search_space = None if search_space is None else as_distributions(search_space)
        self.budget, self.certify, self.pending_ttl, self.pruned = budget, certify, pending_ttl, pruned
        self.probes, self.floor, self.ceiling = checked_rate(probes), floor, ceiling
        self._forget_caches()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in CACHES}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._forget_caches()

    def __repr__(self) -> str:
        return f"Sampler({self.method!r}, seed={self.seed})"

    def _forget_caches(self) -> None:
        self._lock = threading.RLock()
        self._sightings = Sightings()
        self._steps: dict[tuple[int, int], int] = {}
        """The step of each trial of this process, by study and number."""
        self._replicas: weakref.WeakKeyDictionary[BaseStorage, list[_Replica]] = weakref.WeakKeyDictionary()
        self._spaces: weakref.WeakKeyDictionary[BaseStorage, dict[Any, Any]] = weakref.WeakKeyDictionary()
        self._warned: weakref.WeakKeyDictionary[BaseStorage, set[int]] = weakref.WeakKeyDictionary()

    # -- Optuna's hooks

    def reseed_rng(self) -> None:
        """Nothing to do: draws are keyed on the trial's number, so parallel workers never share them."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial | None) -> Distributions:
        if self.search_space is not None:
            return searchable(self.search_space)
        study = whole_study(study)
        with self._lock:
            spaces = self._spaces.setdefault(study._storage, {})
            if study._study_id not in spaces:
                spaces[study._study_id] = IntersectionSearchSpace(include_pruned=self.pruned == "last")
            return searchable(spaces[study._study_id].calculate(study))

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        check_one_objective(study)
        study, space = whole_study(study), searchable(search_space)
        with self._lock:
            trials = study.get_trials(deepcopy=False)
            step = self._step(study, trial, trials)
            if not space:
                announce(study, trial, {}, {}, 0)
                return {}
            pieces = ahead = 0
            for _ in range(RACES):
                replica = self._replica(study, space, trials)
                others = [t for t in replica.unknown(trials) if t.number != trial.number]
                pending = self._pending(study, replica, others, trials)
                away = [*pending.values(), *replica.untold]
                u = replica.optimizer.propose(step, away, ahead=ahead)
                if u.tobytes() in replica.cut_short:  # a repetition would settle noise, but end as early as the first
                    u = replica.optimizer.propose(step, [*away, u], ahead=ahead)
                params = replica.decode(u)
                pieces = announce(study, trial, space, params, pieces)
                if is_due(step, self.probes):
                    mark_probe(study, trial, step, space)
                    if np.array_equal(u, replica.optimizer.probe_at(step)):
                        break  # a draw moves for nobody: its independence is what counts
                if not others and not has_trial(study, max(trial.number, trials[-1].number if trials else -1) + 1):
                    break  # nobody else is at work, and whoever comes now sees our announcement
                trials = study.get_trials(deepcopy=False)
                others = [t for t in replica.unknown(trials) if t.number != trial.number]
                points = self._pending(study, replica, others, trials)
                for t in others:
                    if t.state.is_finished() and (point := replica.encode(t.params)) is not None:
                        points[t.number] = point
                # trials that came up, or changed their mind, while we were thinking, at (nearly) our point
                rivals = [
                    n
                    for n, point in points.items()
                    if np.abs(point - u).max() < NEAR and not (n in pending and np.array_equal(pending[n], point))
                ]
                if not rivals:
                    break
                # rivals who move at the same moment move to different points
                ahead = sum(number < trial.number for number in rivals)
            else:  # a crowd that never settles: a draw of our own, which nobody else makes
                cube = replica.optimizer.method.cube
                params = replica.decode(keyed_generator(self.seed, step, Stream.RACE).random(cube.dim))
                announce(study, trial, space, params, pieces)
            return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        check_one_objective(study)
        if param_distribution.single():
            return only_value(param_distribution)
        self._warn_once(study, param_name)
        space = Space({param_name: parameter_of(param_distribution)})
        stream = int.from_bytes(hashlib.blake2b(param_name.encode(), digest_size=7).digest(), "big") + Stream.LARGEST
        step = self._steps.get((study._study_id, trial.number), trial.number)
        u = keyed_generator(self.seed, step, stream).random(1)
        return external(param_distribution, space.decode(u)[param_name])

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        if state == TrialState.FAIL and has_heartbeat(study):
            study._storage.set_trial_system_attr(trial._trial_id, TOLD_FAILED, True)

    # -- what the method knows

    def certificate(self, study: Study, delta: float = 0.05) -> Certificate:
        """How much worse than the optimum `recommend` may be, with probability 1 - delta, or why that is not known."""
        found = self._answer(study, lambda optimizer: optimizer.certificate_at(delta))
        return Certificate.none(NO_SPACE, delta) if found is None else found

    def share(self, study: Study, delta: float = 0.05) -> Share:
        """How much of the space can be better than `recommend`, with probability 1 - delta, or why none can say."""
        found = self._answer(study, lambda optimizer: optimizer.share_at(delta))
        return Share(None, NO_SPACE) if found is None else found

    def _answer(self, study: Study, question: Callable[[Optimizer], Answer]) -> Answer | None:
        """What an optimizer says that knows the study, its probes and what is being evaluated now."""
        with self._lock:
            # what a trial would have come to is a guess: it guides proposals, a certificate does not rest on it
            replica = self._current(study, "ignore" if self.pruned == "extrapolate" else self.pruned)
            if replica is None:
                return None
            trials, optimizer = study.get_trials(deepcopy=False), replica.optimizer
            optimizer.probe_steps, optimizer.together = probe_steps(trials, replica.space), ran_together(trials)
            pending = self._pending(study, replica, replica.unknown(trials), trials)
            with optimizer.waiting_for(list(pending.values())):
                return question(optimizer)

    def recommend(self, study: Study) -> dict[str, Any]:
        """The parameters to use: the best value seen, or with noise the model's choice, not the luckiest value."""
        with self._lock:
            replica = self._current(study)
            if replica is None:
                raise RuntimeError("recommend() needs at least one completed trial; the study has none yet")
            return replica.outer(replica.optimizer.recommend())

    def _current(self, study: Study, pruned: Pruned | None = None) -> _Replica | None:
        check_one_objective(study)
        trials = study.get_trials(deepcopy=False)
        space = self.infer_relative_search_space(study, None)
        return self._replica(study, space, trials, pruned) if space else None

    # -- inside

    def _replica(
        self, study: Study, space: Distributions, trials: Sequence[FrozenTrial], pruned: Pruned | None = None
    ) -> _Replica:
        """A method that has been told exactly the finished trials, in the order they finished: a kept one if one fits,
        else a new one. `pruned` says what pruned trials tell, by default as the sampler's option does."""
        kept, pruned = self._replicas.setdefault(study._storage, []), pruned or self.pruned
        for replica in kept:
            fits = replica.study_id == study._study_id and replica.space == space
            if fits and replica.pruned in (None, pruned) and (fresh := replica.news(trials)) is not None:
                break
        else:
            # parameters of one value have a place in the cube of `minimize`, so they have one here
            fixed = {name: d for name, d in (self.search_space or {}).items() if d.single()}
            optimizer = Optimizer(
                cube_space({**space, **fixed}),
                method=self.method,
                direction="maximize" if study.direction == StudyDirection.MAXIMIZE else "minimize",
                budget=self.budget,
                seed=self.seed,
                certify=self.certify,
                probes=self.probes,
                floor=self.floor,
                ceiling=self.ceiling,
            )
            replica = _Replica(study._study_id, space, optimizer, list(fixed))
            fresh = [t for t in trials if has_ended(t)]
        if not kept or kept[0] is not replica:
            kept[:] = [replica, *(other for other in kept if other is not replica)][:REPLICAS]
        if fresh:
            heartbeat = has_heartbeat(study)
            replica.pruned = pruned if any(t.state == TrialState.PRUNED for t in fresh) else replica.pruned
            history = [(t, self._value(t, heartbeat, replica)) for t in sorted(fresh, key=ended_at)]
            replica.take(history, trials)
        return replica

    def _value(self, trial: FrozenTrial, heartbeat: bool, replica: _Replica) -> float | None:
        """What a finished trial tells the method: its value, NaN for an infeasible one, None for nothing at all.

        A pruned one is judged by the trials that finished before it, so that what it tells never changes.
        """
        if trial.state == TrialState.COMPLETE:
            replica.curves.add(trial)
            return trial.values[0] if feasible(trial) else math.nan
        if trial.state == TrialState.PRUNED:
            if replica.pruned == "ignore" or trial.last_step is None:
                return None
            last = trial.intermediate_values[trial.last_step]
            return replica.curves.final(trial) if replica.pruned == "extrapolate" else last
        if trial.state == TrialState.FAIL and (not heartbeat or TOLD_FAILED in trial.system_attrs):
            return math.nan
        return None  # a worker that died says nothing about its point

    def _pending(
        self, study: Study, replica: _Replica, others: Iterable[FrozenTrial], trials: Sequence[FrozenTrial]
    ) -> dict[int, Array]:
        """Cube points of those trials of other workers that are being evaluated now, by number."""
        running = [t for t in others if t.state == TrialState.RUNNING]
        if not running:
            return {}
        stale, ttl = stale_ids(study), self.pending_ttl
        points = {}
        for t in running:
            dead = is_dead(announcement(t).get("by"))
            if dead is None:  # it runs on another machine
                ttl = lost_after(trials) if ttl is None else ttl
                dead = self._sightings.seconds(t) > ttl
            lost = t._trial_id in stale or dead
            if lost and OWNER not in t.system_attrs:  # a signed trial will be finished by others, at its own point
                continue
            fixed = t.system_attrs.get("fixed_params", {})
            u = replica.encode(announced(t, replica.space) | (fixed if isinstance(fixed, dict) else {}) | t.params)
            if u is not None:
                points[t.number] = u
        return points

    def _step(self, study: Study, trial: FrozenTrial, trials: Sequence[FrozenTrial]) -> int:
        """The key of a trial's proposal: its number, less the trials before it whose workers died.

        So the trial that takes the place of a lost one is proposed what the lost one was.
        """
        heartbeat, stale = has_heartbeat(study), stale_ids(study)
        lost = sum(t.number < trial.number and is_lost(t, heartbeat, stale) for t in trials)
        while len(self._steps) >= STEPS:
            del self._steps[next(iter(self._steps))]
        self._steps[study._study_id, trial.number] = trial.number - lost
        return trial.number - lost

    def _warn_once(self, study: Study, param_name: str) -> None:
        warned = self._warned.setdefault(study._storage, set())
        if study._study_id in warned:
            return
        if self.search_space is None and not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            return  # there is no common space yet that it could be outside of
        warned.add(study._study_id)
        known = "every completed trial" if self.search_space is None else "search_space"
        warnings.warn(
            f"parameter {param_name!r} is not part of {known}, or its range changed: the method does not search it, "
            "it is drawn at random, and so is every further parameter like it in this study",
            stacklevel=2,
        )


# ---------------------------------------------------------------- a method and what it was told


class _Replica:
    """An optimizer on the common space of a study, and the finished trials it has been told."""

    def __init__(self, study_id: int, space: Distributions, optimizer: Optimizer, fixed: Sequence[str]) -> None:
        self.study_id, self.space, self.optimizer = study_id, space, optimizer
        middle = optimizer.space.decode(np.full(optimizer.method.dim, 0.5), optimizer.method.choices)
        self._fixed = {name: middle[name] for name in fixed}
        """The parameters of one value, which Optuna sets itself."""
        self._told: set[int] = set()
        """Numbers of the finished trials that were taken in."""
        self._last: tuple[datetime, int] = datetime.min, -1
        """When the last of them finished, and its number."""
        self._leading, self._leading_number = 0, -1
        """How many trials at the head of the study have all been taken in, and the number of the last of those: they
        need not be looked at again."""
        self._labelled = {name: d for name, d in space.items() if isinstance(d, CategoricalDistribution)}
        self.curves = Curves(1.0 if optimizer.direction == "maximize" else -1.0)
        """The curves of the completed trials that were taken in."""
        self.pruned: Pruned | None = None
        """What pruned trials have told; None while there were none."""
        self.cut_short: set[bytes] = set()
        """Identities of the points of pruned trials."""
        self.untold: list[Array] = []
        """Points of pruned trials that told nothing, which are not to be proposed again."""

    def unknown(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """The trials not taken in."""
        return [t for t in trials[self._leading :] if t.number not in self._told]

    def news(self, trials: Sequence[FrozenTrial]) -> list[FrozenTrial] | None:
        """The finished trials not yet taken in; None when what was taken in is no beginning of this history."""
        if self._leading and (len(trials) < self._leading or trials[self._leading - 1].number != self._leading_number):
            return None
        unknown = self.unknown(trials)
        fresh = [t for t in unknown if has_ended(t)]
        fits = len(trials) - len(unknown) == len(self._told) and all(ended_at(t) > self._last for t in fresh)
        return fresh if fits else None

    def take(self, history: list[tuple[FrozenTrial, float | None]], trials: Sequence[FrozenTrial]) -> None:
        """Tells the method those of `trials` that finished after the ones it knows, with their values: NaN is
        infeasible, None nothing to tell."""
        points, values, variances = [], [], []
        for trial, value in history:
            pruned = trial.state == TrialState.PRUNED
            u = self.encode(trial.params) if value is not None or pruned else None
            if pruned and u is not None:
                self.cut_short.add(u.tobytes())
            if u is not None and value is None:
                self.untold.append(u)
            elif u is not None and value is not None:
                points.append(u)
                values.append(value)
                variances.append(variance(trial))
            self._told.add(trial.number)
        self._last = ended_at(history[-1][0])
        self.optimizer.take_in(points, values, variances)
        while self._leading < len(trials) and (number := trials[self._leading].number) in self._told:
            self._leading, self._leading_number = self._leading + 1, number

    def encode(self, params: Mapping[str, Any]) -> Array | None:
        """The cube point of a trial's parameters; None when they do not cover the space or lie outside it."""
        try:
            inner = {**self._fixed, **{name: params[name] for name in self.space}}
            inner.update((name, int(d.to_internal_repr(params[name]))) for name, d in self._labelled.items())
            return self.optimizer.space.encode(inner, self.optimizer.method.choices)
        except (KeyError, ValueError, TypeError, OverflowError):
            return None

    def decode(self, u: Array) -> dict[str, Any]:
        return self.outer(self.optimizer.space.decode(u, self.optimizer.method.choices))

    def outer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of our space as the study knows them: labels instead of their positions."""
        labels = {name: d.choices[params[name]] for name, d in self._labelled.items()}
        return {name: value for name, value in {**params, **labels}.items() if name in self.space}
