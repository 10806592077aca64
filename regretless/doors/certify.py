"""`certify`: a certificate for any Optuna study, whatever sampler made it."""

from __future__ import annotations

from collections.abc import Mapping

from optuna.distributions import BaseDistribution
from optuna.study import Study

from regretless.certificate import Certificate
from regretless.doors.optuna import Sampler
from regretless.optimizer import MethodLike
from regretless.space import SpaceLike


def certify(
    study: Study,
    *,
    delta: float = 0.05,
    method: MethodLike = "gp-ucb",
    search_space: Mapping[str, BaseDistribution] | SpaceLike | None = None,
    floor: float | None = None,
    ceiling: float | None = None,
) -> Certificate:
    """How much better than the study's best trial another setting may be, with probability 1 - delta.

        study = optuna.create_study()                      # TPE, or any other sampler
        study.optimize(objective, n_trials=60)
        print(rg.certify(study))

    Nothing is evaluated, and the study stays as it is. A model is fitted to its completed trials; failed ones count as
    failures and pruned ones not at all. With noise the certificate speaks of the setting that the model recommends,
    `rg.Sampler(method).recommend(study)`.

    Args:
        study: any study with one objective.
        delta: the probability that the statement is wrong, if its assumptions hold.
        method: whose certificate: a name, a recipe or "auto".
        search_space: the parameters and their ranges, where the trials do not say them all.
        floor, ceiling: a value that no setting can fall below, or exceed.
    """
    sampler = Sampler(method, seed=0, search_space=search_space, floor=floor, ceiling=ceiling)
    return sampler.certificate(study, delta)
