"""Optuna's door: `Sampler` lets any method of this library propose the trials of an Optuna study.

A proposal follows from the finished trials, the running trials, the seed and the trial's number. The study's storage
holds all of these, as numbers and JSON. So nothing else is saved, and a fresh process, or another storage with the same
trials, gets the same proposal bit for bit. To save time a sampler keeps `Replica`s, optimizers that were told the
trials of a storage already. A replica that no longer agrees with the storage is replaced by a new one.
"""

from __future__ import annotations

import hashlib
import math
import threading
import warnings
import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, get_args

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.basics.options import in_range, one_of
from regretless.basics.streams import Stream, keyed_generator
from regretless.certificate import Certificate
from regretless.doors.optuna.distributions import (
    Distributions,
    as_distributions,
    cube_space,
    external,
    only_value,
    own_space,
    parameter_of,
    searchable,
)
from regretless.doors.optuna.presence import Line, LivingWorkers, is_ended, presence_in, unseen
from regretless.doors.optuna.replica import ConstraintNames, Pruned, Replica, TrialValue
from regretless.doors.optuna.rules import CONSTRAINTS, probing_of
from regretless.doors.optuna.service import Service
from regretless.doors.optuna.tree import Tree, TreeLearner
from regretless.doors.optuna.trials import (
    TOLD_FAILED,
    check_one_objective,
    constants,
    directions_of,
    ended_at,
    fixed_in,
    has_ended,
    has_heartbeat,
    is_lost,
    stale_ids,
    whole_study,
)
from regretless.doors.optuna.workers import OWNER, Sightings, lost_after, mark_probe
from regretless.files.codec import MethodLike, as_recipe
from regretless.optimizer import Optimizer
from regretless.outlook.outlook import Outlook
from regretless.outlook.probes import Share, Spending, is_due, probe_point
from regretless.outlook.standing import Standing
from regretless.space import Space, SpaceLike
from regretless.space.parameters import Array
from regretless.task import Direction, Task

ERROR = "regretless:error"
"""The user attribute that keeps the text of a failed trial's error."""
NO_SPACE = "no common search space is known yet: no trial has completed"
"""Why a study of which nothing has completed has no certificate."""
UNKNOWN = Space([(0.0, 1.0)])
"""Stands for the space in what is asked of every study."""
NOTHING: Mapping[Any, Any] = {}
"""Stands for the announcement of a trial that has none."""
CACHES = ("_lock", "_replicas", "_trees", "_names", "_warned", "_sightings", "_steps")
"""Attributes of a sampler that only save time, and are made anew in another process."""

Returned = TypeVar("Returned")

# ---------------------------------------------------------------- the sampler


class Sampler(BaseSampler):
    """Proposes the trials of an Optuna study by a method of this library; of one with several objectives, by "auto" or
    another that searches fronts.

        study = optuna.create_study(sampler=Sampler(method="gp-ei", seed=0), storage="sqlite:///study.db",
        load_if_exists=True, study_name="s")

    With a seed, runs are exact: interrupted and resumed runs, and runs over any storage, give the same trials. Workers
    that share a study see each other's running trials and do not repeat them, seeded alike or not. Failed trials are
    told to the method as failures.

    Args:
        method: a name (`regretless list` shows them), a recipe such as `regretless.MSUCB(low_dim=5)`, or "auto".
        seed: keys every random draw together with the trial's number; drawn at random when not given.
        search_space: the parameters, as Optuna distributions or anything `regretless.Space` takes. Optuna reveals
            parameters only when they are first suggested; with this argument the method proposes from the first trial
            on. Without it the first trials are drawn at random until one completes, and then the method searches the
            parameters of the completed trials, each with its latest range; of those that only some trials have it
            learns when they exist (`doors.tree`). What it cannot explain, or does not know yet, is drawn at random.
        budget: the number of trials planned, when known.
        certify: lets "auto" take a method whose certificate shrinks, for studies that are to end by `GapBelow`.
        probes: the share of the trials that are independent uniform draws, for `Certificate.share` (`GapBelow(share=)`
            needs them); trials before the space is known, and enqueued ones, are none. A sampler is made before the
            study gets its callbacks, so it does not know of a `GapBelow` there: say probes=0.2 yourself.
        floor, ceiling: a value that no setting can fall below (to minimize) or exceed (to maximize).
        noise_bound: how far noise can carry a value from the truth at most, where that is known.
        noisy: whether values are noisy, where that is known; None: the values have to show it.
        reference: of several objectives, the value that each has to be better than to be of interest, in the order of
            the study's directions; None: the values say from where on hypervolume counts.
        pending_ttl: seconds without a sign of life after which a running trial counts as lost and is ignored; None: a
            minute, `math.inf`: never. A process renews its sign every ten seconds while its trials run. Those of other
            samplers give none: None then waits ten times the longest completed trial and at least a minute. Trials
            whose heartbeat is stale, and those whose process surely has ended, are ignored in any case.
        pruned: "extrapolate" tells a pruned trial with the final value that the completed trials make probable for its
            curve (`doors.curves`); "last" tells its last intermediate value; "ignore" tells nothing. None of them
            proposes a pruned point again, and certificates rest on completed trials alone. With Hyperband, each trial
            is proposed from the trials of all brackets.
        constraints_func: called with a finished trial, gives the values of its constraints, at most 0 where they hold;
            `trial.set_constraint` inside the objective does the same. Their values are learnt by the GP methods.
        service: the URL of a `regretless serve` that proposes and keeps what is known, for any number of studies and
            processes: a study has the one of its name there. It needs `search_space`, and takes methods by name.
        token: that of the service, where it wants one.
        inside: whether proposals keep off the bounds of float ranges, by a millionth of their length, because a bound
            may be no legal value; None: where no `search_space` says what is legal and no probes speak of whole ranges.
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
        noise_bound: float | None = None,
        noisy: bool | None = None,
        reference: Sequence[float | None] | None = None,
        pending_ttl: float | None = None,
        pruned: Pruned = "extrapolate",
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        service: str | None = None,
        token: str = "",
        inside: bool | None = None,
    ) -> None:
        if method != "auto":
            method = as_recipe(method)
        in_range("(0, inf] or None", pending_ttl=pending_ttl)
        one_of(get_args(Pruned), pruned=pruned)
        given: dict[str, Any] = {"budget": budget, "seed": seed, "probes": probes, "noise_bound": noise_bound}
        given["noisy"] = noisy
        direction: Direction = "minimize" if ceiling is None else "maximize"
        self.task = Task(UNKNOWN, (direction,), floor=floor, ceiling=ceiling, **given)
        """What is asked of every study, but for the space, the direction and the constraints, which each has itself."""
        if pruned == "last" and probes:
            raise ValueError('probes exclude pruned="last": values of trials that were cut short cannot be compared')
        self.method, self.reference = method, () if reference is None else tuple(reference)
        self.search_space = None if search_space is None else as_distributions(search_space)
        self._own = None if search_space is None else own_space(search_space, inside=bool(inside))
        """The space as given, where it is one of ours: conditions, rules and priors are more than distributions say."""
        self.certify, self.pending_ttl, self.pruned = certify, pending_ttl, pruned
        self.constraints_func = constraints_func
        self.inside = search_space is None and not probes if inside is None else inside
        self._service = None if service is None else self._serving(service, token, seed)
        self._forget_caches()

    def _serving(self, url: str, token: str, seed: int | None) -> Service:
        """The service that proposes, where everything that was asked for can be had from one."""
        if self.search_space is None:
            raise ValueError("service= needs search_space=: a service proposes whole settings from the first trial on")
        if self.certify or self.constraints_func is not None:
            raise ValueError("service= excludes certify= and constraints_func=: say them to the service itself")
        space = self._own or cube_space(self.search_space, inside=self.inside)
        space.to_json()  # raises for what only a Python program can hold
        labels = self._own is not None
        return Service(
            url, token, self.search_space, space, labels, self.task, seed, self.method, self.pruned, self.reference
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in CACHES}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._forget_caches()

    def __repr__(self) -> str:
        return f"Sampler({self.method!r}, seed={self.task.seed})"

    def _forget_caches(self) -> None:
        self._lock = threading.RLock()
        self._sightings = Sightings()
        self._steps: dict[tuple[int, int], int] = {}
        """The step of each trial of this process, by study and number."""
        self._replicas: weakref.WeakKeyDictionary[BaseStorage, list[Replica]] = weakref.WeakKeyDictionary()
        self._trees: weakref.WeakKeyDictionary[BaseStorage, dict[Any, TreeLearner]] = weakref.WeakKeyDictionary()
        self._names: weakref.WeakKeyDictionary[BaseStorage, dict[int, ConstraintNames]] = weakref.WeakKeyDictionary()
        self._warned: weakref.WeakKeyDictionary[BaseStorage, set[int]] = weakref.WeakKeyDictionary()

    # -- Optuna's hooks

    def reseed_rng(self) -> None:
        """Nothing to do: draws are keyed on the trial's number, so parallel workers never share them."""

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial | None) -> Distributions:
        if self.search_space is not None:
            return searchable(self.search_space)
        study = whole_study(study)
        with self._lock:
            trials = None if trial is None else presence_in(study).just_read(study, trial.number)
            return dict(self._tree(study, trials).distributions)

    def _tree(self, study: Study, trials: Sequence[FrozenTrial] | None = None) -> Tree:
        """What the finished ones of these trials, or of all trials of a study, say about its space."""
        study = whole_study(study)
        learner = self._learner(study)
        states = (TrialState.COMPLETE, TrialState.PRUNED) if self.pruned == "last" else (TrialState.COMPLETE,)
        trials = study.get_trials(deepcopy=False) if trials is None else trials
        return learner.learn([t for t in trials if t.state in states])

    def _learner(self, study: Study) -> TreeLearner:
        return self._trees.setdefault(study._storage, {}).setdefault(study._study_id, TreeLearner())

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: Distributions) -> dict[str, Any]:
        self._check_objectives(study)
        study = whole_study(study)
        if self._service is not None:
            return self._service.propose(study, trial)
        with self._lock:  # another thread's trial that begins and ends between the look and the proposal goes unseen
            presence = presence_in(study)
            trials = presence.just_read(study, trial.number)
            if trials is None:
                lines = presence.look(study._storage)  # before the trials: what a line lets go of has ended
                trials = study.get_trials(deepcopy=False)
            elif {t.number for t in trials if t.state == TrialState.RUNNING} <= {trial.number, *presence.under_way}:
                lines = presence.own_line()  # nobody else was at work; the look after the proposal shows who is
            else:
                lines = presence.look(study._storage)
                trials = study.get_trials(deepcopy=False) if unseen(lines, trials) else trials
            params = self.propose(study, trial, searchable(search_space), trials, lines)
            presence.sweep(study._storage, presence.lines, trials)
            return params

    def propose(
        self,
        study: Study,
        trial: FrozenTrial,
        space: Distributions,
        trials: Sequence[FrozenTrial],
        lines: Mapping[str, Line],
    ) -> dict[str, Any]:
        """The proposal for a trial of a whole study, by the `lines` of its processes and its `trials`, which show
        how all has ended that the lines let go; it is announced to the other workers."""
        with self._lock:
            presence, ahead = presence_in(study), 0
            presence.alone = lines.keys() <= {presence.name}
            living = LivingWorkers(presence, lines)
            trials = self._since_deaths(study, trials, living)
            step = self._step(study, trial, trials, living)
            if not space:
                presence.announce(study, trial.number, {}, {}, trials)
                return {}
            # 4: other workers may announce nearly the same point at the same moment; so often a proposal is made anew
            for _ in range(4):
                replica = self._replica(study, space, trials)
                pending = self._pending(study, replica, trial.number, trials, living)
                away = [*pending.values(), *replica.untold]
                u = replica.propose(step, away, presence.fits, ahead=ahead)
                if u.tobytes() in replica.cut_short:  # a repetition would settle noise, but end as early as the first
                    u = replica.propose(step, [*away, u], presence.fits, ahead=ahead)
                params = replica.decode(u)
                presence.announce(study, trial.number, space, {**params, **fixed_in(trial, space)}, trials)
                if self._is_draw(replica, step, u):
                    break  # a draw moves for nobody: its independence is what counts
                now = presence.look(study._storage)
                ended: Sequence[FrozenTrial] = ()
                if unseen(now, trials, known=living.asks):
                    ended = study.get_trials(deepcopy=False)
                news = {name: line for name, line in now.items() if line is not lines.get(name)}
                changed = LivingWorkers(presence, news)
                points = self._taken(replica, trial.number, ended, changed, seen=living.asks)
                # trials that came up, or changed their mind, while we were thinking, at (nearly) our point
                # 1e-3: cube distance (largest coordinate) below which two simultaneous proposals are the same
                # experiment
                near = [n for n, point in points.items() if np.abs(point - u).max() < 1e-3]
                rivals = [n for n in near if n not in pending or not np.array_equal(pending[n], points[n])]
                if not rivals:
                    break
                # rivals who move at the same moment move to different points
                ahead = sum(number < trial.number for number in rivals)
                lines, trials = now, ended or trials
                trials = study.get_trials(deepcopy=False) if unseen(lines, trials) else trials
                living = LivingWorkers(presence, lines)
                trials = self._since_deaths(study, trials, living)
            else:  # workers who never settle: a draw of our own, which nobody else makes
                cube = replica.optimizer.method.cube
                params = replica.decode(keyed_generator(self.task.seed, step, Stream.RACE).random(cube.dim))
                presence.announce(study, trial.number, space, params, trials)
            if is_due(step, self.task):
                mark_probe(study, trial, self.task.seed, step, space)
            return params

    def _is_draw(self, replica: Replica, step: int, u: Array) -> bool:
        """Whether a proposal is the uniform probe that was due."""
        choices = replica.optimizer.method.traits.choices
        due = is_due(step, self.task)
        return due and np.array_equal(u, probe_point(replica.optimizer.task, step, choices))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        self._check_objectives(study)
        if param_distribution.single():
            return only_value(param_distribution)
        self._warn_once(study, param_name)
        space = Space({param_name: parameter_of(param_distribution, inside=self.inside)})
        stream = int.from_bytes(hashlib.blake2b(param_name.encode(), digest_size=7).digest(), "big") + Stream.LARGEST
        step = self._steps.get((study._study_id, trial.number), trial.number)
        u = keyed_generator(self.task.seed, step, stream).random(1)
        return external(param_distribution, space.decode(u)[param_name])

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        presence_in(whole_study(study)).created(trial.number)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        if self._service is not None:
            self._service.tell(whole_study(study), trial, state, values)
            return
        presence_in(whole_study(study)).end(trial.number)
        if self.constraints_func is not None and state in (TrialState.COMPLETE, TrialState.PRUNED):
            given = self.constraints_func(trial)
            try:
                found = [float(value) for value in given]
            except (TypeError, ValueError):
                found = [math.nan]
            if any(math.isnan(value) for value in found):
                what = f"constraints_func gave {given!r} for trial {trial.number}"
                raise ValueError(f"{what}: it must give a list of numbers, one per constraint")
            study._storage.set_trial_system_attr(trial._trial_id, CONSTRAINTS, found)
        if state == TrialState.FAIL and has_heartbeat(study):
            study._storage.set_trial_system_attr(trial._trial_id, TOLD_FAILED, True)

    # -- what the method knows

    def certificate(self, study: Study, delta: float = 0.05) -> Certificate:
        """How much worse than the optimum `recommend` may be, with probability 1 - delta, or why that is not known."""

        found = self._answer(study, lambda run: run.certificate_at(delta))
        return Certificate.none(NO_SPACE, delta) if found is None else found

    def share(self, study: Study, delta: float = 0.05, *, rule: Spending | None = None) -> Share:
        """How much of the space can be better than `recommend`, with probability 1 - delta, or why none can say; by one
        planned look or, with a `rule` that may end the study by its values, at every moment."""

        found = self._answer(study, lambda run: run.share_at(delta, rule=rule))
        return Share(None, NO_SPACE) if found is None else found

    def outlooks(self, study: Study, trials: Sequence[int]) -> tuple[Outlook, ...] | None:
        """What so many further trials would bring, for each number of them; None where no parameters are common to all
        trials."""

        return self._answer(study, lambda run: run.outlooks(trials))

    def _answer(self, study: Study, question: Callable[[Standing], Returned]) -> Returned | None:
        """What an optimizer says that knows the study, its probes and what is being evaluated now."""
        if self._service is not None:
            return question(Standing(self._service.optimizer(study)))
        with self._lock:
            # what a trial would have come to is a guess: it guides proposals, a certificate does not rest on it
            replica = self._current(study, "ignore" if self.pruned == "extrapolate" else self.pruned)
            if replica is None:
                return None
            presence = presence_in(study)
            living = LivingWorkers(presence, presence.look(study._storage))
            trials = self._since_deaths(study, study.get_trials(deepcopy=False), living)
            pending = self._pending(study, replica, -1, trials, living)
            probing = probing_of(study, trials, replica.space, self.task)
            return question(Standing(replica.optimizer, beside=list(pending.values()), probing=probing))

    def recommend(self, study: Study) -> dict[str, Any]:
        """The parameters to use: the best value seen, or with noise the model's choice, not the luckiest value."""
        if self._service is not None:
            return self._service.recommend(study)
        with self._lock:
            replica = self._current(study)
            if replica is None:
                raise RuntimeError("recommend() needs at least one completed trial; the study has none yet")
            setting = replica.outer(replica.optimizer.recommend())
            return {**setting, **constants(setting, study.get_trials(deepcopy=False))}

    def _current(self, study: Study, pruned: Pruned | None = None) -> Replica | None:
        self._check_objectives(study)
        trials = study.get_trials(deepcopy=False)
        space = self.infer_relative_search_space(study, None)
        return self._replica(study, space, trials, pruned) if space else None

    # -- inside

    def _check_objectives(self, study: Study) -> None:
        """Refuses a study with several objectives where the method searches one."""
        if not isinstance(self.method, str) and not self.method.method.traits.objectives:
            check_one_objective(study)

    def _replica(
        self, study: Study, space: Distributions, trials: Sequence[FrozenTrial], pruned: Pruned | None = None
    ) -> Replica:
        """A method that has been told exactly the finished trials, in the order they finished: a kept one if one fits,
        else a new one. `pruned` says what pruned trials tell, by default as the sampler's option does."""
        kept, pruned = self._replicas.setdefault(study._storage, []), pruned or self.pruned
        conditions = self._tree(study, trials).when if self.search_space is None else {}
        names = self._names.setdefault(study._storage, {}).setdefault(study._study_id, ConstraintNames()).read(trials)
        for replica in kept:
            fits = replica.study_id == study._study_id and replica.space == space and replica.when == conditions
            fits = fits and replica.optimizer.task.constraint_names == names
            if fits and replica.pruned in (None, pruned) and (fresh := replica.news(trials)) is not None:
                break
        else:
            # parameters of one value have a place in the cube of `minimize`, so they have one here
            fixed = {name: d for name, d in (self.search_space or {}).items() if d.single()}
            searched = self._own or cube_space({**space, **fixed}, conditions, inside=self.inside)
            task = replace(self.task, space=searched, directions=directions_of(study), constraints=names)
            task = replace(task, reference=self.reference)
            optimizer = Optimizer(task, self.method, certify=self.certify)
            replica = Replica(study._study_id, space, conditions, optimizer, list(fixed), labels=self._own is not None)
            fresh = [t for t in trials if has_ended(t)]
        if not kept or kept[0] is not replica:
            # 8: methods kept per storage: one per study, search space and Hyperband bracket in use
            kept[:] = [replica, *(other for other in kept if other is not replica)][:8]
        if fresh:
            heartbeat = has_heartbeat(study)
            replica.pruned = pruned if any(t.state == TrialState.PRUNED for t in fresh) else replica.pruned
            history = [(t, self._value(t, heartbeat, replica)) for t in sorted(fresh, key=ended_at)]
            replica.take(history, trials)
        return replica

    def _value(self, trial: FrozenTrial, heartbeat: bool, replica: Replica) -> TrialValue | None:
        """What a finished trial tells the method: its value, or those of several objectives, NaN for an infeasible one,
        None for nothing at all.

        A pruned one is judged by the trials that finished before it, so that what it tells never changes.
        """
        if trial.state == TrialState.COMPLETE:
            replica.curves.add(trial)
            return float(trial.values[0]) if len(trial.values) == 1 else tuple(map(float, trial.values))
        if trial.state == TrialState.PRUNED:
            if replica.pruned == "ignore" or trial.last_step is None:
                return None
            last = trial.intermediate_values[trial.last_step]
            return replica.curves.final(trial) if replica.pruned == "extrapolate" else last
        if trial.state == TrialState.FAIL and (not heartbeat or TOLD_FAILED in trial.system_attrs):
            return math.nan if not replica.optimizer.task.several else (math.nan,) * len(replica.optimizer.task.signs)
        return None  # a worker that died says nothing about its point

    def _since_deaths(
        self, study: Study, trials: Sequence[FrozenTrial], living: LivingWorkers
    ) -> Sequence[FrozenTrial]:
        """These trials, or as they are now where the process of a running one has died: it may have ended the trial,
        and then itself, since the trials were read."""
        lost, dead = presence_in(study).lost, living.ended() | living.ended(self.pending_ttl)
        new = {t.number for t in trials if t.number in dead and t.state == TrialState.RUNNING} - lost if dead else ()
        if new:
            trials = study.get_trials(deepcopy=False)
            lost.update(n for n in new if not is_ended(trials, n))
        return trials

    def _pending(
        self, study: Study, replica: Replica, own: int, trials: Sequence[FrozenTrial], living: LivingWorkers
    ) -> dict[int, Array]:
        """Cube points of the trials of other workers that are being evaluated now, by number."""
        running = {t.number: t for t in replica.unknown(trials) if t.state == TrialState.RUNNING and t.number != own}
        stale, ttl, points = stale_ids(study) if running else set(), self.pending_ttl, {}
        asks, dead = living.asks, living.ended(self.pending_ttl)
        for number, t in running.items():
            ended = number in dead or t._trial_id in stale
            if number not in asks and not ended:  # of a sampler that keeps no line
                ttl = lost_after(trials) if ttl is None else ttl
                ended = self._sightings.seconds(t) > ttl
            if ended and OWNER not in t.system_attrs:
                continue  # a signed trial will be finished by others, at its own point
            u = replica.place_of(t, asks.get(number, NOTHING))
            if u is not None:
                points[number] = u
        # of trials that were created since they were read, only the announcements are known
        return points | self._taken(replica, own, (), living, but=running)

    def _taken(
        self,
        replica: Replica,
        own: int,
        trials: Sequence[FrozenTrial],
        living: LivingWorkers,
        but: Container[int] = (),
        seen: Mapping[int, Mapping[str, float]] = NOTHING,
    ) -> dict[int, Array]:
        """Cube points of other workers that the replica does not know: those announced, but for what was `seen`
        already, and those of `trials` that have ended meanwhile."""
        found = {t.number: replica.encode(t.params) for t in replica.unknown(trials) if t.state.is_finished()}
        asks = {n: ask for n, ask in living.asks.items() if ask is not seen.get(n) and n not in but}
        dead = living.ended(self.pending_ttl) if asks else ()
        for number, ask in asks.items():
            if number not in dead and number not in found and not replica.has_taken(number):
                found[number] = replica.place_of_ask(number, ask)
        return {number: u for number, u in found.items() if u is not None and number != own}

    def _step(self, study: Study, trial: FrozenTrial, trials: Sequence[FrozenTrial], living: LivingWorkers) -> int:
        """The key of a trial's proposal: its number, less the trials before it whose workers died.

        So the trial that takes the place of a lost one is proposed what the lost one was.
        """
        heartbeat, stale = has_heartbeat(study), stale_ids(study)
        suspects = (TrialState.RUNNING, TrialState.FAIL) if heartbeat else (TrialState.RUNNING,)
        before = [t for t in trials if t.state in suspects and t.number < trial.number]
        asks, dead = living.asks, living.ended()
        some = before if heartbeat else [t for t in before if t.number not in asks or t.number in dead]
        lost = sum(is_lost(t, heartbeat, stale, t.number in asks, t.number in dead) for t in some)
        # 1000: steps kept, at least one for every trial that a process has under way
        while len(self._steps) >= 1000:
            del self._steps[next(iter(self._steps))]
        self._steps[study._study_id, trial.number] = trial.number - lost
        return trial.number - lost

    def _warn_once(self, study: Study, param_name: str) -> None:
        warned = self._warned.setdefault(study._storage, set())
        if study._study_id in warned:
            return
        if self.search_space is None:
            tree = self._learner(whole_study(study)).tree or self._tree(study)  # what the relative space came from
            if param_name not in tree.seen or param_name in tree.distributions:
                return  # it is new, or exists where no trial had it: the method knows it from now on
            why = "some completed trials have it and others do not, and no values of others explain which"
        else:
            why = "it is not part of search_space, or its range changed"
        warned.add(study._study_id)
        warnings.warn(
            f"parameter {param_name!r} is drawn at random, because {why}; so is every further parameter like it in "
            "this study",
            stacklevel=2,
        )
