"""Spaces drawn at random over everything a space can say: log scales, steps, offsets, whole numbers, labels,
conditions, rules, priors and fixed parameters."""

from __future__ import annotations

import random
from typing import Any

import regretless as rg

NAMES = ["x", "y10", "x2", "lr", "class", "é", "a b", "-v", "Z", "self"]
LABELS: list[Any] = ["a", "b", "relu", None, True, 0.5, "", -3, "日本"]


def random_space(rng: random.Random, names: list[str] | None = None) -> rg.Space:
    """One to six parameters, of which the first is always a float, so that no space is used up."""
    names = rng.sample(names or NAMES, rng.randint(1, 6))
    parameters: dict[str, Any] = {names[0]: _float(rng, {})}
    for name in names[1:]:
        deciding = [n for n, p in parameters.items() if isinstance(p, rg.Choice) or _few(p)]
        more: dict[str, Any] = {}
        if deciding and rng.random() < 0.4:
            parent = rng.choice(deciding)
            values = _values(parameters[parent])
            more["when"] = {parent: rng.sample(values, rng.randint(1, max(1, len(values) - 1)))}
        parameters[name] = rng.choice([_float, _float, _stepped, _int, _int, _choice, _choice, _fixed])(rng, more)
    return rg.Space(parameters, where=_rules(rng, parameters))


def _few(p: Any) -> bool:
    return isinstance(p, rg.Int) and not p.log and 1 < (p.high - p.low) // p.step + 1 <= 6


def _values(p: Any) -> list[Any]:
    return list(p.labels) if isinstance(p, rg.Choice) else list(range(p.low, p.high + 1, p.step))


def _float(rng: random.Random, more: dict[str, Any]) -> Any:
    if rng.random() < 0.4:
        low = 10 ** rng.uniform(-8, 2)
        prior = {"prior": (low * 1.3, 3.0)} if rng.random() < 0.4 else {}
        return rg.Float(low, low * 10 ** rng.uniform(0.5, 6), log=True, **prior, **more)
    low, length = rng.choice([-3.7, 0.0, 1e3, -0.3]), 10 ** rng.uniform(-1, 3)
    prior = {"prior": (low + 0.3 * length, 0.2 * length)} if rng.random() < 0.4 else {}
    return rg.Float(low, low + length, **prior, **more)


def _stepped(rng: random.Random, more: dict[str, Any]) -> Any:
    low, step = rng.choice([(0.05, 0.15), (-1e-3, 1e-3), (1.0, 0.25)])
    return rg.Float(low, low + step * rng.randint(3, 40), step=step, **more)


def _int(rng: random.Random, more: dict[str, Any]) -> Any:
    kind = rng.random()
    if kind < 0.3:
        return rg.Int(rng.choice([1, 3, 8]), rng.choice([16, 300, 10**6]), log=True, **more)
    low = rng.randint(-7, 5)
    if kind < 0.5:
        return rg.Int(low, low + 60, step=rng.choice([3, 7]), **more)
    high = low + rng.choice([2, 4, 90])
    prior = {"prior": (low + 0.6 * (high - low), max(0.2 * (high - low), 0.5))} if rng.random() < 0.4 else {}
    return rg.Int(low, high, **prior, **more)


def _choice(rng: random.Random, more: dict[str, Any]) -> Any:
    labels = rng.sample(LABELS, rng.randint(2, 5))
    prior = {"prior": [rng.random() + 0.1 for _ in labels]} if rng.random() < 0.4 else {}
    return rg.Choice(labels, **prior, **more)


def _fixed(rng: random.Random, more: dict[str, Any]) -> Any:
    return rng.choice([rg.Int(3, 3, **more), rg.Float(0.25, 0.25, **more), rg.Choice(["adam"], **more)])


def _rules(rng: random.Random, parameters: dict[str, Any]) -> list[str]:
    free = [n for n, p in parameters.items() if isinstance(p, rg.Float) and p.line and not p.when]
    free = [n for n in free if n.isidentifier() and n != "class"]
    if len(free) < 2 or rng.random() < 0.5:
        return []
    a, b = free[:2]
    most = sum((parameters[n].low + parameters[n].high) / 2 for n in (a, b))
    return [f"{a} + {b} <= {most!r}"]
