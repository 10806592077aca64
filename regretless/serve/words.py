"""What programs are told of a run: plain values and sentences."""

from __future__ import annotations

import math
from typing import Any

from regretless.optimizer import Optimizer
from regretless.run.result import Result
from regretless.trial import Trial, last_line


def summary(result: Result) -> dict[str, Any]:
    """A result in plain values that JSON can hold."""
    optimizer = result.optimizer
    count = counts(optimizer)
    return {
        "params": plain(result.params),
        "value": number(result.value),
        **(front_json(result) if optimizer.task.several else best_json(result)),
        "direction": optimizer.direction,
        "method": str(optimizer.recipe),
        "seed": optimizer.seed,
        "evaluations": result.nfev,
        **{state: count[state] for state in ("failed", "forgotten", "pending")},
        "message": result.message,
        "success": result.success,
        "words": list(result.said),
        "certificate": result.certificate.to_json(),
    }


def counts(optimizer: Optimizer) -> dict[str, int]:
    """How many trials have a value, failed, were given up by those who had them, and are under way."""
    states, forgotten = [t.state for t in optimizer.trials], len(optimizer.book.forgotten)
    failed = states.count("failed") - forgotten
    return {"done": states.count("done"), "failed": failed, "forgotten": forgotten, "pending": states.count("pending")}


def best_json(result: Result) -> dict[str, Any]:
    """The trial with the best value."""
    done = any(t.value is not None for t in result.trials)
    return {"best": trial_json(result.optimizer, result.best) if done else None}


def front_json(result: Result) -> dict[str, Any]:
    """What was found of several objectives: the compromise that `params` is, and the front."""
    values = dict(zip(result.optimizer.task.objectives, map(number, result.values)))
    members = [member | {"params": plain(member["params"])} for member in result.front.to_json()]
    return {"values": values, "front": members}


def outlook_json(optimizer: Optimizer) -> dict[str, Any]:
    """What can still be gained, in numbers and in a sentence."""
    result = Result.of(optimizer)
    certificate = result.certificate
    if optimizer.task.several or math.isnan(result.value):
        return {"words": " ".join(result.said), "certificate": certificate.to_json()}
    ahead = result.outlook.forecast
    forecast = {"trials": ahead.trials, "expected_gain": number(ahead.expected), "noise": number(ahead.noise)}
    forecast |= {"low": number(ahead.low), "high": number(ahead.high)}
    return {
        "words": " ".join(result.said),
        "advice": [str(advice) for advice in result.advice],
        "value": number(result.value),
        "forecast": forecast,
        "certificate": certificate.to_json(),
    }


def trial_json(optimizer: Optimizer, trial: Trial) -> dict[str, Any]:
    """A trial in plain values."""
    names = optimizer.task.objectives
    known = {
        "value": number(trial.value),
        "values": dict(zip(names, trial.values)) if trial.further else None,
        "var": number(trial.var),
        "constraints": [number(c) for c in trial.constraints] or None,
        "cost": number(trial.cost),
        "seconds": number(trial.seconds),
        "error": last_line(trial.error) if trial.error else None,
    }
    facts = {"number": optimizer.book.record.number_of(trial), "params": plain(trial.params), "state": trial.state}
    return {**facts, **{name: value for name, value in known.items() if value is not None}}


def plain(params: dict[str, Any]) -> dict[str, Any]:
    """A setting as JSON can hold it: labels that it cannot hold stand as their printed forms."""
    return {name: value if _fits(value) else str(value) for name, value in params.items()}


def number(value: float | None) -> float | None:
    """A number as JSON can hold it."""
    return None if value is None or not math.isfinite(value) else float(value)


def _fits(value: Any) -> bool:
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
