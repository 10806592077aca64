"""The likelihood set: its threshold against an integral that can be done by hand, and its coverage."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import erf

from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.certify import LikelihoodSet, certain_weights, threshold

SIGMA = 0.1


def line(n, seed):
    """y = v x + noise with |v| <= 1: the true v, the points and the least-squares fit."""
    rng = np.random.default_rng(seed)
    truth, x = rng.uniform(-0.9, 0.9), rng.uniform(-1, 1, n)
    z = truth * x + SIGMA * rng.standard_normal(n)
    v = np.clip(x @ z / (x @ x), -1, 1)[None]
    return truth, x, fit_of(x, z, v)


def fit_of(x, z, v):
    return SimpleNamespace(z=z, v=v, sigma2=SIGMA**2, ball=Ball(v, SIGMA**2, x[:, None], x * v[0]))


def values(V, U):
    return V @ U.T, np.broadcast_to(U, (len(V), *U.shape))


def test_the_threshold_is_that_of_the_exact_mixture():
    _, x, found = line(20, 0)
    z = found.z
    squares = lambda V: ((V * x - z) ** 2).sum(axis=1)  # noqa: E731
    got, members = threshold(squares, found, 1.0, 0.1, np.random.default_rng(1))
    s = SIGMA / np.sqrt(x @ x)
    fit = x @ z / (x @ x)
    log_z = -((z - fit * x) ** 2).sum() / (2 * SIGMA**2) + np.log(
        0.5 * np.sqrt(2 * np.pi) * s * 0.5 * (erf((1 - fit) / s / np.sqrt(2)) - erf((-1 - fit) / s / np.sqrt(2)))
    )
    assert (squares(members) <= got).all()
    assert len(members) > 100
    assert got == pytest.approx(2 * SIGMA**2 * (np.log(10) - log_z), rel=0.01)


def test_the_set_holds_the_truth_and_its_extremes_are_its_ends():
    held = 0
    for seed in range(60):
        truth, x, found = line(8, seed)
        v = found.v
        region = LikelihoodSet(values, x[:, None], np.ones(8), found, 1.0, 0.1, np.random.default_rng(seed))
        held += region.squares(np.array([[truth]]))[0] <= region.limit
        if seed < 5:
            top, at = region.extreme(np.array([1.0]), 1.0)
            edge = v[0] + np.sqrt((region.limit - region.squares(v[None])[0]) / (x @ x))
            assert top == pytest.approx(min(edge, 1.0), rel=1e-2)
            assert region.squares(at[None])[0] <= region.limit * (1 + 1e-9)
    assert held >= 54


def test_a_refuted_family_leaves_nothing():
    x = np.random.default_rng(0).uniform(-1, 1, 30)
    found = fit_of(x, np.sin(40 * x), np.array([0.99]))
    with np.errstate(under="ignore"):
        region = LikelihoodSet(values, x[:, None], np.ones(30), found, 1.0, 0.1, np.random.default_rng(0))
    assert region.empty


def test_told_variances_weigh_values_but_never_more_than_a_hundredfold():
    np.testing.assert_allclose(certain_weights(np.array([np.nan, 4.0, 0.0, 16.0]), 2.0), [1.0, 1.0, 100.0, 0.25])
