"""Every method on objectives that no method is made for: no exception, no proposal outside the space, no NaN shown."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sizes import count, sizes

import regretless as rg
from regretless.auto import others
from regretless.space import Space

SPACES: dict[str, Space] = {
    "log and offset": Space(
        {"lr": rg.Float(1e-7, 3e-1, log=True), "drop": rg.Float(0.1, 0.9), "far": rg.Float(1e6, 1e6 + 0.7)}
    ),
    "steps": Space({"s": rg.Float(0.05, 2.0, step=0.15), "m": rg.Int(-7, 50, step=3), "a": rg.Float(-0.3, 0.2)}),
    "long integers": Space(
        {"huge": rg.Int(0, 2**60, step=2**20), "many": rg.Int(0, 10**8), "n": rg.Int(3, 300, log=True)}
    ),
    "labels": Space({"c": rg.Choice(["a", "b", None, True]), "x": rg.Float(-1e-3, 7e-3), "k": rg.Int(1, 12)}),
    "many labels": Space({"label": rg.Choice([f"label {i}" for i in range(200)]), "z": rg.Float(-3.7, 11.2)}),
    "one line": Space({"x": rg.Float(-1e-300, 1e-300)}),
    "tiny": Space({"bit": rg.Choice([False, True]), "n": rg.Int(0, 2)}),
}


class OddError(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class ChainedError(KeyError):
    pass


def bowl(u: np.ndarray) -> float:
    return float(((u - 0.37) ** 2).mean())


def raise_(error: Exception) -> float:
    raise error


def odd_exceptions(u: np.ndarray, n: int, rng: np.random.Generator) -> float:
    if n % 2:
        return bowl(u)
    errors = [
        OddError(),
        ChainedError({}),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        StopIteration(3),
        MemoryError(),
        RecursionError(),
        AssertionError(),
        ExceptionGroup("two", [ValueError("\0"), OSError(5)]),
    ]
    raise errors[n // 2 % len(errors)]


OBJECTIVES: dict[str, Callable[[np.ndarray, int, np.random.Generator], Any]] = {
    "constant": lambda u, n, rng: 3.25,
    "NaN in half": lambda u, n, rng: math.nan if u[0] > 0.5 else bowl(u),
    "infinite in corners": lambda u, n, rng: math.inf if u[0] > 0.7 else -math.inf if u[-1] < 0.2 else bowl(u),
    "one of 1e160": lambda u, n, rng: 1e160 if n == 5 else bowl(u),
    "-1e300 now and then": lambda u, n, rng: -1e300 if n % 11 == 3 else bowl(u),
    "subnormal": lambda u, n, rng: 1e-310 * bowl(u),
    "two values": lambda u, n, rng: float(u.mean() > 0.5),
    "needle": lambda u, n, rng: -1.0 if np.abs(u - 0.613).max() < 0.01 else 0.0,
    "steps": lambda u, n, rng: math.floor(5 * float(u.sum())) / 5,
    "noise of 1e6": lambda u, n, rng: bowl(u) + 1e6 * rng.standard_normal(),
    "sign flips": lambda u, n, rng: (-1) ** n * (1 + bowl(u)),
    "all equal but one": lambda u, n, rng: -7.0 if n == 9 else 2.0,
    "exploding": lambda u, n, rng: 10.0 ** min(3 * n, 307) * (1 + bowl(u)),
    "duplicated": lambda u, n, rng: round(bowl(u), 1),
    "fails but once": lambda u, n, rng: 1.5 if n == 7 else raise_(ValueError("never")),
    "fails in half": lambda u, n, rng: raise_(OSError("no")) if u[-1] > 0.5 else bowl(u),
    "odd exceptions": odd_exceptions,
    "huge integers": lambda u, n, rng: int(10**300 * (1 + n)) + int(1e6 * bowl(u)),
    "range of 1e-300": lambda u, n, rng: 1e-300 * bowl(u),
    "discontinuous": lambda u, n, rng: bowl(u) + (1e4 if np.sin(50 * u.sum()) > 0 else 0),
    "drift": lambda u, n, rng: bowl(u) + 0.1 * n,
    "alternating extremes": lambda u, n, rng: (1.7e308, -1.7e308)[n % 2],
    "outliers": lambda u, n, rng: bowl(u) + (1e9 if n % 7 == 6 else 0),
    "negative zero": lambda u, n, rng: (-0.0, 0.0)[n % 2],
    "differences of 1e-16": lambda u, n, rng: 1.0 + 2.0**-52 * round(3 * bowl(u) * 10),
    "cubes of 1e100": lambda u, n, rng: (1e100 * float(u[0] - 0.5)) ** 3,
}  # fmt: skip

METHODS = {**rg.METHODS, **rg.CLASSICS, **others()}
SHORT_TRIALS, LONG_TRIALS = 15, 200
SLOW = {
    "gp-ts": 40,
    "dngo": 60,
    "rf-ei": 60,
    "neural-ucb": 100,
    "neural-greedy": 100,
    "go-ucb": 100,
    "ms-ucb": 100,
    "neural-bo": 100,
    "bilevel": 150,
}
"""Trials of the methods that need more than 18 ms a trial on these spaces (gp-ts 121, dngo 58, rf-ei 48, neural-ucb
31): a sample of the 200, so that all methods together take a quarter of an hour on two cores."""


def fitting(method: str) -> list[str]:
    """The spaces that are small enough for a method."""
    traits = METHODS[method].method.traits
    return [name for name, space in SPACES.items() if space.cube(traits.choices).dim <= traits.max_dim]


def attacked(method: str, objective: str, name: str, trials: int) -> None:
    """One run; every law of the module's first line is asserted."""
    space, fun, rng, calls = SPACES[name], OBJECTIVES[objective], np.random.default_rng(0), []
    proposals: list[dict[str, Any]] = []

    def called(**params: Any) -> Any:
        proposals.append(params)
        calls.append(1)
        return fun(space.encode(params), len(calls) - 1, rng)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"trial \d+ failed", RuntimeWarning)
        result = rg.minimize(
            called, space, trials=trials, method=method, seed=len(objective), max_failures=math.inf, progress=False
        )
    assert len(proposals) == trials or len(proposals) >= space.cube().size, result.message
    for params in [*proposals, *([result.params] if result.params else [])]:
        inside(space, params)
    certificate = result.certificate
    bounds = [certificate.gap, certificate.lower, certificate.upper]
    if certificate.certified:
        assert np.isfinite(bounds).all(), f"{certificate!r}"
        assert certificate.gap >= 0
        assert certificate.lower <= certificate.upper
    else:
        assert certificate.reason
        assert not np.isnan(bounds).any()
    assert "nan" not in str(certificate)
    assert result.nfev == len(proposals)
    done = [t for t in result.trials if t.value is not None]
    assert all(math.isfinite(t.value) for t in done)
    if done and len(done) == len(proposals) and any(t.params == result.params for t in done):
        assert math.isfinite(result.value)


def inside(space: Space, params: dict[str, Any]) -> None:
    assert list(params) == list(space.names)
    for name, parameter in space.parameters.items():
        value = params[name]
        if isinstance(parameter, rg.Choice):
            assert value in parameter.labels
        else:
            assert type(value) is (int if isinstance(parameter, rg.Int) else float)
            assert parameter.low <= value <= parameter.high
    assert space.decode(space.encode(params)) == params


@sizes
@pytest.mark.parametrize("method", METHODS)
def test_hostile_objectives(method: str, long: bool) -> None:
    """The short form takes three objectives for each method, others for each; the long form takes all of them."""
    index, fit = list(METHODS).index(method), fitting(method)
    names = list(OBJECTIVES)
    chosen = names if long else [names[(3 * index + i) % len(names)] for i in range(3)]
    trials = count(long, SHORT_TRIALS, SLOW.get(method, LONG_TRIALS))
    broken = []
    for objective in chosen:
        space = fit[(index + names.index(objective)) % len(fit)]
        try:
            attacked(method, objective, space, trials)
        except Exception as error:
            broken.append(f"{objective!r} on {space!r}: {type(error).__name__}: {error}")
    assert not broken, "\n".join(broken)
