"""`outlook`: what further trials of any Optuna study would bring, whatever sampler makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import TrialState

from regretless.doors.optuna.sampler import Sampler
from regretless.doors.optuna.trials import check_one_objective, direction_of
from regretless.files.book import Earlier
from regretless.optimizer import Optimizer
from regretless.outlook.outlook import Outlook
from regretless.outlook.standing import Standing
from regretless.outlook.stopping import USUAL_TRIALS
from regretless.space import Space, SpaceLike
from regretless.space.parameters import Float
from regretless.task import Task

WATCHER: Literal["gp-ei"] = "gp-ei"
"""The method that says what is recommended in a study of another sampler; with noise it is the best by its model."""
_watchers: WeakKeyDictionary[Study, Sampler] = WeakKeyDictionary()
"""The samplers that have been told the studies of others, so that a rule that looks after every trial reads each
once."""


def outlook(
    study: Study,
    trials: int = USUAL_TRIALS,
    *,
    search_space: Mapping[str, BaseDistribution] | SpaceLike | None = None,
) -> Outlook:
    """How much better a study will be after so many more trials, in one sentence and in numbers.

        study = optuna.create_study()                      # TPE, or any other sampler
        study.optimize(objective, n_trials=60)
        print(rg.outlook(study))

    Nothing is evaluated, and the study stays as it is. Failed trials count as failures and pruned ones not at all.

    Args:
        study: any study with one objective.
        trials: how many more trials.
        search_space: the parameters and their ranges, where the trials do not say them all.
    """
    if not isinstance(study, Study):
        raise TypeError(f"outlook takes an Optuna study (optuna.load_study opens one), got {study!r}")
    if search_space is None:
        return outlooks(study, [trials])[0]
    return _seen_by(Sampler(WATCHER, seed=0, search_space=search_space, inside=False), study, [trials])[0]


def outlooks(study: Study, trials: Sequence[int]) -> tuple[Outlook, ...]:
    """The outlook for each number of further trials; a study of ours is asked itself."""
    check_one_objective(study)
    own = study.sampler
    watcher = own if isinstance(own, Sampler) else _watchers.get(study)
    if watcher is None:
        watcher = _watchers[study] = Sampler(WATCHER, seed=0, inside=False)
    return _seen_by(watcher, study, trials)


def _seen_by(sampler: Sampler, study: Study, trials: Sequence[int]) -> tuple[Outlook, ...]:
    found = sampler.outlooks(study, trials)
    return _without_places(study, trials) if found is None else found


def _without_places(study: Study, trials: Sequence[int]) -> tuple[Outlook, ...]:
    """The outlook by the values alone, where no parameters are common to all trials."""
    ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    dims = max((len(t.params) for t in ended), default=1)
    places = np.linspace(0.0, 1.0, len(ended))
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(max(1, dims))})
    optimizer = Optimizer(Task(space, (direction_of(study),), seed=0), "random")
    points = np.tile(places[:, None], max(1, dims))
    optimizer.learn([Earlier(u, t.values[0]) for u, t in zip(points, ended, strict=True)])
    return Standing(optimizer).outlooks(trials)
