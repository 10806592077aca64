"""`audited`: the proposals of `tune_in_storage` in a study, made anew.

A proposal rests on the trials before it, so a fresh sampler that is shown these makes it again. That is exact where no
two trials overlapped: beside others it rests on what their workers had announced at that moment, which nobody keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import optuna
from optuna.trial import FrozenTrial

from regretless.doors.optuna.distributions import Distributions, searchable
from regretless.doors.optuna.export import find_study
from regretless.doors.optuna.sampler import Sampler
from regretless.doors.optuna.settings import StudySettings
from regretless.doors.optuna.trials import direction_of
from regretless.doors.optuna.urls import quiet
from regretless.doors.optuna.workers import OWNER
from regretless.files.codec import method_named


def audited(storage: str, study: str) -> Iterator[tuple[int, bool | None]]:
    """The number of each trial, and whether its proposal is equal when it is made anew; None where that cannot be
    said."""
    found = find_study(storage, study)
    settings, trials = StudySettings.read(found), found.get_trials(deepcopy=False)
    if settings is None:
        raise ValueError(f"study {study!r} does not say by which method and seed its trials were proposed")
    space = _space(study, trials)
    maximise = direction_of(found) == "maximize"
    sampler = Sampler(
        method_named(settings.method), seed=settings.seed, budget=settings.budget, certify=settings.certify,
        probes=settings.probes, noise_bound=settings.noise_bound, noisy=settings.noisy, search_space=space,
        reference=settings.reference,
        floor=None if maximise else settings.limit, ceiling=settings.limit if maximise else None,
    )  # fmt: skip
    with quiet():
        again = optuna.create_study(direction=direction_of(found), sampler=sampler)
    latest = datetime.min
    for trial in trials:
        alone = trial.datetime_start is not None and trial.datetime_start >= latest and OWNER in trial.system_attrs
        if not alone or "fixed_params" in trial.system_attrs:
            yield trial.number, None
        else:
            point = sampler.propose(again, trial, searchable(space), trials[: trial.number], {})
            yield trial.number, all(trial.params.get(name) == value for name, value in point.items())
        latest = max(latest, trial.datetime_complete or datetime.max)


def _space(study: str, trials: list[FrozenTrial]) -> Distributions:
    """The parameters that all trials of a study have."""
    spaces = [t.distributions for t in trials if t.distributions]
    if not spaces or any(other != spaces[0] for other in spaces):
        raise ValueError(f"study {study!r} does not say which space was searched: its trials have different parameters")
    return dict(spaces[0])
