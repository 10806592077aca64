"""Whether a run should go on, in plain words, for people and programs that read no charts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regretless.optimizer import Optimizer
from regretless.outlook.forecast import Forecast, shown
from regretless.outlook.stopping import USUAL_CHANCE, USUAL_TRIALS
from regretless.run.result import Result
from regretless.serve.words import counts, number, plain
from regretless.trial import last_line


def status(optimizer: Optimizer, *, gain: float | None = None, trials: int = USUAL_TRIALS) -> dict[str, Any]:
    """How a run stands, and whether to go on: numbers, and sentences that say the same.

    Args:
        gain: the smallest improvement that matters, in the unit of the objective.
        trials: how many further trials it should take.
    """
    result = Result.of(optimizer)
    ended = [t for t in optimizer.trials if t.state != "pending"]
    count = counts(optimizer)
    facts = {**count, "planned": optimizer.task.budget, "params": plain(result.params), "value": number(result.value)}
    failed = bool(ended) and ended[-1].value is None and ended[-1].number not in optimizer.book.forgotten
    failures = f"The last failure said: {last_line(ended[-1].error)}." if failed else ""
    if optimizer.task.several or not count["done"]:
        reason = _until_planned(optimizer, len(ended))
        found: dict[str, Any] = {"go_on": _planned(optimizer, len(ended)), "reason": reason}
        said = str(result.front) if optimizer.task.several else "No evaluation has succeeded yet."
        return {**facts, **found, "words": " ".join(filter(None, [found["reason"], failures, said]))}
    ahead = optimizer.forecast(trials)
    found = decision(optimizer, ahead, gain)
    found |= {"noise": number(ahead.noise), "since_best": since_best(optimizer)}
    found["expected_gain"] = None if ahead.unknown else number(ahead.expected)
    words = [
        found["reason"],
        noise_words(ahead.noise),
        _best_words(optimizer, found["since_best"], ahead.noise),
        failures,
    ]
    return {**facts, **found, "words": " ".join(filter(None, words))}


def decision(optimizer: Optimizer, forecast: Forecast, gain: float | None) -> dict[str, Any]:
    """Whether to go on, the gain that counts and the chance of it, and why."""
    ended = sum(t.state != "pending" for t in optimizer.trials)
    what = "as you named it"
    if gain is None:
        gain, what = gain_that_counts(optimizer, forecast.noise)
    elif not gain > 0 or math.isinf(gain):
        raise ValueError(f"gain must be a number above 0, got {gain}")
    if forecast.unknown or gain == 0:
        why = forecast.unknown or "all values are equal"
        return {
            "go_on": True,
            "gain": None,
            "chance": None,
            "reason": f"Go on: nothing can be said yet, because {why}.",
        }
    chance = forecast.chance(gain)
    planned, worth = _planned(optimizer, ended), chance > 1.0 - USUAL_CHANCE
    named = f"a gain of {shown(gain)} or more ({what}) within {forecast.trials_words} has a chance of {chance:.2g}"
    if worth:
        more = "" if planned else f", though all {optimizer.task.budget} planned trials have ended"
        reason = f"Go on{more}: {named}."
    else:
        reason = f"Stop: {named}."
    return {"go_on": worth, "gain": gain, "chance": chance, "reason": reason}


def gain_that_counts(optimizer: Optimizer, noise: float | None) -> tuple[float, str]:
    """The smallest improvement that means something by the values alone, and which it is, in words."""
    sign = optimizer.task.sign
    values = sign * np.array([t.value for t in optimizer.trials if t.feasible and t.value is not None])
    # 0.01: the share of the distance from the median value to the best one that counts as a gain, where nobody says
    # what does
    small = 0.01 * float(values.max() - np.median(values)) if len(values) else 0.0
    if noise is not None and noise > small:
        return noise, "the noise of one value"
    return small, "a hundredth of the distance from the median value to the best one"


def noise_words(noise: float | None) -> str:
    """What is noise."""
    if noise is None:
        return "The values show no noise; if they hold none, any difference between two of them is real."
    return (
        f"One value has an error of about {shown(noise)} (standard deviation), so two settings whose values differ by "
        f"less than {shown(2 * math.sqrt(2) * noise)} may be equally good."
    )


def since_best(optimizer: Optimizer) -> int:
    """How many trials have ended since the best value came."""
    book, best, last = optimizer.book, -math.inf, 0
    for at, trial in enumerate(book.trials[n] for n in book.ended):
        if trial.feasible and trial.value is not None and optimizer.task.sign * trial.value > best:
            best, last = optimizer.task.sign * trial.value, at
    return max(len(book.ended) - 1 - last, 0)


def _best_words(optimizer: Optimizer, since: int, noise: float | None) -> str:
    best = optimizer.best
    if not best.feasible:
        return "No setting keeps all constraints yet."
    luck = ", which may be luck" if noise is not None else ""
    when = "by the last trial" if since == 0 else f"{since} trial{'s' * (since > 1)} ago"
    return f"The best value seen is {best.value:.6g}, of trial {best.number}{luck}; it came {when}."


def _planned(optimizer: Optimizer, ended: int) -> bool:
    """Whether planned trials are left, as far as somebody planned."""
    return optimizer.task.budget is None or ended < optimizer.task.budget


def _until_planned(optimizer: Optimizer, ended: int) -> str:
    budget = optimizer.task.budget
    if budget is None:
        return "Go on: nobody planned a number of trials, and nothing says what further ones would bring."
    return f"{'Go on' if ended < budget else 'Stop'}: {ended} of {budget} planned trials have ended."
