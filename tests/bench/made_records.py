"""Records with given values, for tests of what is made from records."""

import numpy as np
from regretless_bench.record import Record


def record(
    label: str, problem: str, seed: int, values: list[float], direction: str = "minimize", optimum: float | None = 0.0
) -> Record:
    """A record whose noiseless values are given; a step costs 1 ms."""
    n = len(values)
    settings = {"label": label, "problem": problem, "options": {}, "seed": seed, "budget": n, "init": 0}
    facts = {"direction": direction, "optimum": optimum, "noise_sd": 0.0, "dim": 1, "title": problem}
    step, value = np.full(n, 1e-3), np.array(values)
    return Record(settings, facts, np.zeros((n, 1)), value, value, step, np.zeros(n), np.zeros(n), step)


def study(ends: dict[str, list[float]], problem: str = "bowl", **facts) -> list[Record]:
    """Records of methods whose runs end at these values, one per seed."""
    return [
        record(label, problem, seed, [9.0, 8.0, end], **facts)
        for label, of in ends.items()
        for seed, end in enumerate(of)
    ]


WORSE = [2.0, 2.1, 2.2, 2.3, 2.4]
GOOD, BAD = [1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 1.0, 2.3, 2.4]


def outcome(method: str, family: int, loss: float, suite: str = "clean-3", **others: float) -> dict[str, object]:
    """A line of experiments/auto_choice.py."""
    values = {"best": loss, "advised": loss, "mean": loss, "later": loss, "ms": 1.0} | others
    return {"suite": suite, "family": family, "instance": 21, "method": method, **values}
