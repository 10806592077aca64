"""What people ask of a run that exists: `compare` two of its settings, or two runs, and `rivals` of what it recommends.

They take whatever holds a run: a `Result`, an `Optimizer`, or an Optuna study of any sampler.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regretless.basics.extras import optional
from regretless.basics.values import shown
from regretless.optimizer import Optimizer, Trial
from regretless.outlook.advice import Advice, Known, advice_on, advice_on_several, beyond_reference
from regretless.outlook.estimates import (
    WEIGHTS,
    Candidate,
    Comparison,
    Estimates,
    Prediction,
    Rivals,
    estimates_of,
    in_shares,
    rivals_of,
)
from regretless.outlook.forecast import TABLE
from regretless.run.result import Result
from regretless.space.parameters import Array


def compare(a: Any, b: Any, *, within: Any = None, objective: str | None = None) -> Comparison:
    """The probability that b is better than a, and by how much, from values, told variances, repetitions and the model.

        print(rg.compare(3, 17, within=result))              # two trials of a run, by their numbers
        print(rg.compare({"x": 1.0}, {"x": 2.0}, within=result))
        print(rg.compare(yesterday, today))                  # what two runs recommend

    Args:
        a, b: numbers of trials, trials or settings of a run, evaluated or not; or two runs.
        within: the run: a `Result`, an `Optimizer` or an Optuna study of any sampler.
        objective: the name of the one that counts, in a run with several.
    """
    if within is not None:
        run = optimizer_of(within)
        (name_a, unit_a), (name_b, unit_b) = _setting(run, a, "a"), _setting(run, b, "b")
        return _estimates(run, objective).comparison(unit_a, unit_b, (name_a, name_b))
    if isinstance(a, int | Mapping | Trial):
        raise TypeError(f"compare needs the run that {shown(a)} belongs to: compare(a, b, within=result)")
    first, second = optimizer_of(a), optimizer_of(b)
    if first.direction != second.direction:
        raise ValueError(f"one of the runs is to {first.direction}, the other to {second.direction}")
    estimates = [_estimates(first), _estimates(second)]
    noise = max(known.noise for known in estimates)  # one objective is as noisy in both
    estimates = [known.with_noise(noise) for known in estimates] if noise else estimates
    found = [k.at(run.space.encode(run.recommend())) for k, run in zip(estimates, (first, second), strict=True)]
    return independent(*found, sign=first.task.sign)


def rivals(within: Any) -> Rivals:
    """The evaluated settings of a run that cannot be told apart from the recommended one; see `Result.rivals`."""
    run = optimizer_of(within)
    if run.task.several:
        raise ValueError(
            "a run with several objectives has no best setting; result.front.contenders() says how sure a pick is"
        )
    at_place: dict[bytes, list[Trial]] = {}
    for trial in run.trials:
        if trial.feasible:
            at_place.setdefault(run.space.encode(trial.given).tobytes(), []).append(trial)
    told = any(trial.cost is not None for trial in run.trials)
    candidates = [_candidate(run, np.frombuffer(key), found, told=told) for key, found in at_place.items()]
    timed = run.task.cost == "seconds" or not told
    return rivals_of(_estimates(run), run.space.encode(run.recommend()), candidates, timed=timed)


def optimizer_of(run: Any) -> Optimizer:
    """The optimizer of whatever holds a run."""
    if isinstance(run, Optimizer):
        return run
    if isinstance(run, Result):
        return run.optimizer
    if type(run).__module__.partition(".")[0] == "optuna":
        found: Optimizer = optional("regretless.doors.optuna.export", "optuna").result_of_study(run).optimizer
        return found
    raise TypeError(f"a run is a Result, an Optimizer or an Optuna study, got {shown(run)}")


def independent(a: Prediction, b: Prediction, *, sign: float) -> Comparison:
    """How what two runs recommend compares: their models know nothing of each other."""
    ahead = (sign * np.subtract.outer(np.array(b.quantiles), np.array(a.quantiles))).ravel()
    order = np.argsort(ahead, kind="stable")
    ahead, mass = ahead[order], np.outer(WEIGHTS, WEIGHTS).ravel()[order]
    chance = float(mass[ahead > 0].sum() + 0.5 * mass[ahead == 0].sum())
    quantiles = np.interp(TABLE, np.cumsum(mass) - 0.5 * mass, ahead)
    gain = Prediction(tuple(quantiles.tolist()), exact=a.exact and b.exact)
    return Comparison("the first run", "the second run", chance, gain)


def _estimates(run: Optimizer, objective: str | None = None) -> Estimates:
    names = list(run.task.objectives)
    if not run.task.several and objective is None:
        return estimates_of(run.task, run.method, run.history)
    if objective not in names:
        named = (
            f"this run has the objectives {names}: name one" if names else "this run has one objective, without a name"
        )
        raise ValueError(f"settings are compared by one objective; {named}, got objective={shown(objective)}")
    return estimates_of(run.task, run.method, run.history, names.index(objective))


def _setting(run: Optimizer, given: Any, name: str) -> tuple[str, Array]:
    """What a setting of a run is called, and its place."""
    if isinstance(given, Trial):
        return f"trial {run.book.record.number_of(given)}", run.space.encode(given.given)
    if isinstance(given, int) and not isinstance(given, bool):
        trial = next((t for t in run.trials if run.book.record.number_of(t) == given), None)
        if trial is None:
            raise ValueError(f"{name} must be the number of a trial of the run, or a setting, got {given!r}")
        return f"trial {given}", run.space.encode(trial.given)
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be the number of a trial of the run, or a setting, got {shown(given)}")
    return name, run.space.encode(given)


def _candidate(run: Optimizer, unit: Array, trials: Sequence[Trial], *, told: bool) -> Candidate:
    """An evaluated setting, with what its trials cost on average or, where the run was told no costs, how long they
    took."""
    cost = _mean([t.cost if told else t.seconds for t in trials])
    # 0.1: shorter durations differ by themselves, and say nothing of a setting
    if not told and cost is not None and cost < 0.1:
        cost = None
    numbers = tuple(run.book.record.number_of(t) for t in trials)
    return Candidate(unit, numbers, dict(trials[0].given), cost)


def _mean(paid: Sequence[float | None]) -> float | None:
    known = [x for x in paid if x is not None]
    return math.fsum(known) / len(known) if known else None


def advise(within: Any) -> tuple[Advice, ...]:
    """What a run bears out to do next, one sentence each: ranges to widen or narrow, parameters that hardly matter,
    noise, settings evaluated twice, failures that lie together. Empty where nothing is borne out. With several
    objectives each is judged by itself, and no range is said to be too wide.

        for advice in rg.advise(study):                      # a Result, an Optimizer, or any sampler's study
            print(advice)
    """
    run = optimizer_of(within)
    history = run.history
    if len(history) == 0:
        return ()
    if not run.task.several:
        return advice_on(_known(run, run.recommend()))
    with run.computing() as method:
        rows, values, _ = method.front(history)
    ends = [run.space.decode(history.X[row], method.traits.choices) for row in rows[values.argmax(axis=0)]]
    known = {name: _known(run, end, j) for j, (name, end) in enumerate(zip(run.task.objectives, ends, strict=True))}
    better = (history.reference < history.Y) | np.isnan(history.reference)
    found = beyond_reference(run.task.objectives, run.task.reference, better)
    return (*found, *advice_on_several(known))


def _known(run: Optimizer, params: dict[str, Any], j: int = 0) -> Known:
    """What advice rests on, for objective j with these parameters as its best."""
    estimates = estimates_of(run.task, run.method, run.history, j)
    failed = [in_shares(run.task, run.method, x) for x in run.history.failed]
    told = bool((run.history.Yvar[:, j] > 0).any())
    place, rows = run.space.encode(params), np.array(failed).reshape(-1, len(run.space))
    return Known(run.space, estimates, rows, place, params, variances_told=told)
