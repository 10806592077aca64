"""What a storage says of a study and its trials: whether they ended, were lost, and how noisy they are."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from datetime import MAXYEAR, datetime
from typing import Any

from optuna.distributions import CategoricalDistribution
from optuna.storages import _CachedStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from regretless.basics.values import as_number
from regretless.doors.optuna.workers import OWNER
from regretless.task import Direction

TOLD_FAILED = "regretless:failed"
"""Marks trials whose own worker reported the failure, as opposed to those that a stale heartbeat gave up."""
VARIANCE = "regretless:var"
"""The user attribute by which an objective tells the noise variance of its value, when it knows it."""
STARTED = datetime.now()
"""When this process began to use samplers, or was forked from one that did."""


def _start_anew() -> None:
    global STARTED
    STARTED = datetime.now()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def check_one_objective(study: Study) -> None:
    """Raises ValueError for a study with several objectives."""
    if len(study.directions) > 1:
        raise ValueError(
            f"study {study.study_name!r} has {len(study.directions)} objectives, and this is for studies with one; "
            "rg.Sampler proposes the trials of several, and study.best_trials is their front"
        )


def direction_of(study: Study) -> Direction:
    check_one_objective(study)
    return directions_of(study)[0]


def directions_of(study: Study) -> tuple[Direction, ...]:
    return tuple("maximize" if d == StudyDirection.MAXIMIZE else "minimize" for d in study.directions)


def kept(study: Study) -> dict[str, Any]:
    """What this library keeps of a study for itself: its system attributes, which tables and dashboards leave out."""
    return study._storage.get_study_system_attrs(study._study_id)


def keep(study: Study, name: str, value: Any) -> None:
    study._storage.set_study_system_attr(study._study_id, name, value)


def whole_study(study: Study) -> Study:
    """The study itself, where Hyperband shows a sampler only the trials of one bracket."""
    whole: Study = getattr(study, "_study", study)
    return whole


def remembered(study: Study) -> list[FrozenTrial] | None:
    """The trials of a study as they were read last, by their numbers; None where the storage remembers none. To read
    them anew takes seven statements of SQL."""
    storage = study._storage
    if not isinstance(storage, _CachedStorage) or study._study_id not in storage._studies:
        return None
    with storage._lock:
        return sorted(storage._studies[study._study_id].trials.values(), key=lambda t: t.number)


def has_ended(trial: FrozenTrial) -> bool:
    return trial.state.is_finished() and trial.datetime_complete is not None


def ended_at(trial: FrozenTrial) -> tuple[datetime, int]:
    return trial.datetime_complete or datetime.min, trial.number


def seconds_of(trial: FrozenTrial) -> float | None:
    """How long a trial ran; None where that is not known. Optuna writes local times, which run backwards when a clock
    is set back or summer time ends."""
    seconds = None if trial.duration is None else trial.duration.total_seconds()
    return seconds if seconds is not None and seconds >= 0 else None


def moments_of(trial: FrozenTrial) -> list[float]:
    """When a trial began and ended, in seconds since 1970, as far as its times are any that a clock can show."""
    found = (trial.datetime_start, trial.datetime_complete)
    return [moment.timestamp() for moment in found if moment is not None and 1970 < moment.year < MAXYEAR]


def variance(trial: FrozenTrial) -> float:
    return _variance(trial.user_attrs.get(VARIANCE))


def variances(trial: FrozenTrial, count: int) -> tuple[float, ...]:
    """The noise variance of each of several objectives, NaN where it is not known."""
    found: Any = trial.user_attrs.get(VARIANCE)
    return tuple(map(_variance, found if isinstance(found, list) and len(found) == count else [None] * count))


def told_variance(trial: FrozenTrial, count: int) -> float | tuple[float | None, ...] | None:
    """What a trial tells of the noise of its values, as `Optimizer.tell` takes it; of several objectives each may be
    unknown."""
    found = (variance(trial),) if count == 1 else variances(trial, count)
    known = tuple(None if math.isnan(var) else var for var in found)
    return known[0] if count == 1 else known


def _variance(found: Any) -> float:
    number = amount(found)
    return math.nan if number is None else number


def amount(found: Any) -> float | None:
    """What an attribute says that may be anybody's: None where it is no finite number of at least 0."""
    number = as_number(found)
    return number if number is not None and 0 <= number < math.inf else None


def all_evaluated(size: float, trials: Iterable[FrozenTrial], *, bounded: bool = False) -> bool:
    """Whether these trials have evaluated every setting of a space of so many, and no noise was told or bounded, which
    would make further values of known settings worth having."""
    found = list(trials)
    if len(found) < size or bounded or any(variance(t) > 0 for t in found):
        return False
    return len({repr(sorted(t.params.items())) for t in found}) >= size


def has_heartbeat(study: Study) -> bool:
    interval = getattr(study._storage, "get_heartbeat_interval", None)
    return interval is not None and interval() is not None


def stale_ids(study: Study) -> set[int]:
    """Ids of the running trials whose heartbeat has stopped, where the storage has heartbeats."""
    return set(study._storage._get_stale_trial_ids(study._study_id)) if has_heartbeat(study) else set()  # type: ignore[attr-defined]


def is_lost(trial: FrozenTrial, heartbeat: bool, stale: set[int], named: bool, ended: bool) -> bool:
    """Whether a trial's worker died before it could tell anything; trials of `tune_in_storage` are finished by others.
    `named`: whether a process has announced it; `ended`: whether that process is dead."""
    if trial.state == TrialState.FAIL:
        lost = heartbeat and TOLD_FAILED not in trial.system_attrs
    elif trial.state != TrialState.RUNNING:
        lost = False
    elif named:
        lost = trial._trial_id in stale or ended
    else:  # killed before it could announce: only those who work beside us could still be about to
        lost = trial.datetime_start is not None and trial.datetime_start < STARTED
    return lost and OWNER not in trial.system_attrs


def fixed_in(trial: FrozenTrial, space: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a space that were enqueued with a trial, with their values."""
    fixed: Any = trial.system_attrs.get("fixed_params")
    return {name: value for name, value in fixed.items() if name in space} if isinstance(fixed, dict) else {}


def constants(setting: Mapping[str, Any], trials: Iterable[FrozenTrial]) -> dict[str, Any]:
    """The parameters of a single value that a study's objective has at this setting: those of all completed trials with
    the same parameters and labels, because a branch may have its own."""
    found: list[dict[str, Any]] = []
    for t in trials:
        searched = {name for name, d in t.distributions.items() if not d.single()}
        labels = {name for name in searched if isinstance(t.distributions[name], CategoricalDistribution)}
        alike = set(setting) <= searched and all(setting[name] == t.params[name] for name in labels)
        if t.state == TrialState.COMPLETE and alike:
            found.append({name: value for name, value in t.params.items() if name not in searched})
    return {name: value for name, value in found[0].items() if all(name in other for other in found)} if found else {}
