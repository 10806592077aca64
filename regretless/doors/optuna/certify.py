"""`certify`: a certificate for any Optuna study, whatever sampler made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.study import Study

from regretless.certificate import Certificate
from regretless.doors.optuna.sampler import Sampler
from regretless.doors.optuna.trials import direction_of
from regretless.doors.optuna.workers import probe_seed, ran_at_once
from regretless.files.codec import MethodLike
from regretless.outlook.probes import certain_bounds, most_better, supposition
from regretless.space import SpaceLike


def certify(
    study: Study,
    *,
    delta: float = 0.05,
    method: MethodLike = "gp-ucb",
    uniform: bool = False,
    search_space: Mapping[str, BaseDistribution] | SpaceLike | None = None,
    floor: float | None = None,
    ceiling: float | None = None,
    noise_bound: float | None = None,
    noisy: bool | None = None,
) -> Certificate:
    """How much better than the study's best trial another setting may be, with probability 1 - delta.

        study = optuna.create_study()                      # TPE, or any other sampler
        study.optimize(objective, n_trials=60)
        print(rg.certify(study))

    Nothing is evaluated, and the study stays as it is. A model is fitted to its completed trials; failed ones count as
    failures and pruned ones not at all. With noise the certificate speaks of the setting that the model recommends,
    `rg.Sampler(method).recommend(study)`. The gap is twice that of a run of ours: other samplers leave places unseen.

    Args:
        study: any study with one objective.
        delta: the probability that the statement is wrong, if its assumptions hold.
        method: whose certificate: a name, a recipe or "auto".
        uniform: say True when every trial was an independent uniform draw (`RandomSampler`): the certificate then also
            proves how much of the space can be better, whatever the function.
        search_space: the parameters and their ranges, where the trials do not say them all.
        floor, ceiling: a value that no setting can fall below, or exceed.
        noise_bound: how far noise can carry a value from the truth at most, where that is known.
        noisy: whether values are noisy, where that is known; a floor or ceiling proves a gap where it is False.
    """
    if not isinstance(study, Study):
        raise TypeError(f"certify takes an Optuna study (optuna.load_study opens one), got {study!r}")
    known: dict[str, Any] = {"floor": floor, "ceiling": ceiling, "noise_bound": noise_bound}
    known |= {"noisy": noisy, "inside": False}
    sampler = Sampler(method, seed=probe_seed(study.get_trials(deepcopy=False)), search_space=search_space, **known)
    found = sampler.certificate(study, delta)
    maximises = direction_of(study) == "maximize"
    found = found.for_any_sampler(maximises=maximises, bound=ceiling if maximises else floor)
    return _with_share(found, sampler, study) if uniform else found


def _with_share(found: Certificate, sampler: Sampler, study: Study) -> Certificate:
    """The certificate with the share of the space that can be better, by trials that are all uniform draws."""
    replica = sampler._current(study, "ignore")
    if replica is None:
        return found
    method, history, trials = replica.optimizer.method, replica.optimizer.history, study.get_trials(deepcopy=False)
    noisy = method.noise(history).shows
    if noisy and not history.noise_bound:
        return replace(found, share_reason="the values show noise, and how much of it no repetition says")
    undecided = len(trials) - len(history)
    if noisy:
        bounds = certain_bounds(history)
        if isinstance(bounds, str):
            return replace(found, share_reason=bounds)
        best = method.recommend(history).tobytes()
        undecided += sum(bounds[0][x.tobytes()] > bounds[1][best] for x in history.X if x.tobytes() != best)
    spent = found.delta / 2 ** (undecided + 1) if noisy or ran_at_once(trials) else found.delta
    share = most_better(len(trials), undecided, spent)
    supposes = supposition(method, history)
    return replace(found, share=share, share_reason="", probes=len(trials), supposes=supposes)
