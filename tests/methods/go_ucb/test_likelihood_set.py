"""The likelihood region: its threshold against an integral that can be done by hand, and its coverage."""

import numpy as np
import pytest
from scipy.special import erf

from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.likelihood_set import Region, threshold

SIGMA = 0.1


def line(n, seed):
    """y = v x + noise with |v| <= 1: the true v, data and the ball at the least-squares fit."""
    rng = np.random.default_rng(seed)
    truth, x = rng.uniform(-0.9, 0.9), rng.uniform(-1, 1, n)
    z = truth * x + SIGMA * rng.standard_normal(n)
    v = np.clip(x @ z / (x @ x), -1, 1)[None]
    return truth, x, z, v, Ball(v, SIGMA**2, x[:, None], x * v[0])


def test_the_threshold_is_that_of_the_exact_mixture():
    _, x, z, v, ball = line(20, 0)
    squares = lambda V: ((V * x - z) ** 2).sum(axis=1)  # noqa: E731
    got, members = threshold(squares, v, ball, SIGMA, 1.0, 0.1, np.random.default_rng(1))
    s = SIGMA / np.sqrt(x @ x)
    fit = x @ z / (x @ x)
    log_z = -((z - fit * x) ** 2).sum() / (2 * SIGMA**2) + np.log(
        0.5 * np.sqrt(2 * np.pi) * s * 0.5 * (erf((1 - fit) / s / np.sqrt(2)) - erf((-1 - fit) / s / np.sqrt(2)))
    )
    assert (squares(members) <= got).all()
    assert len(members) > 100
    assert got == pytest.approx(2 * SIGMA**2 * (np.log(10) - log_z), rel=0.01)


def test_the_region_holds_the_truth_and_its_extremes_are_its_ends():
    held = 0
    for seed in range(60):
        truth, x, z, v, ball = line(8, seed)

        def values(V, U):
            return V @ U.T, np.broadcast_to(U, (len(V), *U.shape))

        region = Region(values, x[:, None], z, np.ones(8), v, ball, SIGMA, 1.0, 0.1, np.random.default_rng(seed))
        held += region.squares(np.array([[truth]]))[0] <= region.limit
        if seed < 5:
            top, at = region.extreme(np.array([1.0]), 1.0)
            edge = v[0] + np.sqrt((region.limit - region.squares(v[None])[0]) / (x @ x))
            assert top == pytest.approx(min(edge, 1.0), rel=1e-2)
            assert region.squares(at[None])[0] <= region.limit * (1 + 1e-9)
    assert held >= 54


def test_a_refuted_family_leaves_nothing():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 30)
    z = np.sin(40 * x)
    v = np.array([0.0])

    def values(V, U):
        return V @ U.T, np.broadcast_to(U, (len(V), *U.shape))

    with np.errstate(under="ignore"):
        region = Region(
            values,
            x[:, None],
            z,
            np.ones(30),
            np.array([0.99]),
            Ball(v, SIGMA**2, x[:, None], 0 * x),
            SIGMA,
            1.0,
            0.1,
            rng,
        )
    assert region.empty
