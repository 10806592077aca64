"""Certificates from a fitted process: what they say, when they refuse, and that they cover functions of their own
kind."""

import numpy as np
import pytest

from regretless.baselines import BASELINES
from regretless.gp.certify import fitted_certificate, largest_upper_bound, wary_surrogate, width
from regretless.space import Cube
from regretless.testing import bowl, run

UNKNOWN = np.nan


def certificate(X, y, *, x=None, delta=0.05, yvar=None):
    cube = Cube.box(X.shape[1])
    yvar = np.full(len(y), UNKNOWN) if yvar is None else yvar
    return fitted_certificate(
        X, y, yvar, cube, X[int(np.argmax(y))] if x is None else x, delta, np.random.default_rng(0)
    )


def test_bounds_bracket_the_optimum_of_a_bowl_and_shrink_with_data() -> None:
    gaps = []
    for n in (10, 40):
        X = np.random.default_rng(1).random((n, 2))
        found = certificate(X, bowl(X))
        assert found.certified, found.reason
        assert found.lower <= 0.0 <= found.upper
        assert found.gap == pytest.approx(found.upper - found.lower)
        gaps.append(found.gap)
    assert gaps[1] < 0.5 * gaps[0]


def test_a_smaller_delta_gives_a_wider_bound() -> None:
    X = np.random.default_rng(2).random((20, 2))
    wide, narrow = certificate(X, bowl(X), delta=0.01), certificate(X, bowl(X), delta=0.2)
    assert wide.gap > narrow.gap
    assert width(0.05, 10) > width(0.05, 5) > width(0.05, 3) == width(0.05, 2)


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.random.default_rng(0).random((5, 2)), np.arange(5.0), "4 values per parameter, 8 here; so far: 5"),
        (np.random.default_rng(0).random((50, 11)), np.arange(50.0), "measured in up to 10 dimensions"),
        (np.random.default_rng(0).random((30, 2)), np.ones(30), "all values are equal"),
        (
            0.1 * np.random.default_rng(0).random((12, 2)),
            np.random.default_rng(0).random((12, 2)).sum(axis=1),
            "no news",
        ),
    ],
)
def test_it_refuses_and_says_why(X, y, words: str) -> None:
    found = certificate(X, y)
    assert not found.certified
    assert words in found.reason


def test_units_carry_through() -> None:
    X = np.random.default_rng(3).random((20, 2))
    plain, scaled = certificate(X, bowl(X)), certificate(X, 1e6 * bowl(X) + 1e7)
    assert scaled.gap == pytest.approx(1e6 * plain.gap, rel=1e-3)


def test_a_kept_model_gives_the_certificates_of_a_fresh_one() -> None:
    """Between scheduled fits too, where the kept factor has grown row by row."""
    X = np.random.default_rng(5).random((45, 2))
    wary, x = wary_surrogate(Cube.box(2)), X[int(np.argmax(bowl(X[:36])))]
    for n in (36, 37, 38, 45):
        kept = fitted_certificate(
            X[:n], bowl(X[:n]), np.full(n, UNKNOWN), Cube.box(2), x, 0.05, np.random.default_rng(0), wary=wary
        )
        assert kept == certificate(X[:n], bowl(X[:n]), x=x)


def test_the_largest_upper_bound_is_not_missed() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((25, 2))
    wary = wary_surrogate(Cube.box(2)).gp(X, np.sin(9 * X[:, 0]) + X[:, 1])
    point, value = largest_upper_bound(wary, Cube.box(2), 1.6, rng)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    mean, variance = wary.mean_var(grid)
    assert value >= (mean + 1.6 * np.sqrt(variance)).max() - 1e-6
    at = wary.mean_var(point[None])
    assert value == pytest.approx(float(at[0][0] + 1.6 * np.sqrt(at[1][0])))


def test_verifying_asks_shrink_the_certified_gap() -> None:
    gaps = {}
    for verify in (0, 2):
        method = BASELINES["gp-ucb"](verify=verify).build(2, seed=0, budget=40)
        run(method, 40, lambda X: np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]))
        gaps[verify] = method.certificate().gap
    assert gaps[2] < 0.5 * gaps[0]
