"""The Gaussian process with an additive trend: against direct formulas, finite differences and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import legendre as reference

from regretless.models.gp.additive import (
    AdditiveGP,
    AdditiveHyper,
    AdditiveSurrogate,
    EmbeddedPoints,
    NegativeLogDensity,
    legendre,
    legendre_slope,
)
from regretless.models.gp.kernels import Kernel
from regretless.models.gp.posterior import GP, Hyper
from regretless.models.gp.surrogate import agreeing_values
from regretless.space import Cube
from regretless.space.parameters import Axis


def posterior(n=14, d=6, trend=True, pending=0, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.random((n + pending, d)), rng.standard_normal(n)
    hyper = AdditiveHyper(1.3, np.array([0.7, 0.4] if trend else []), 1e-3)
    return AdditiveGP(Kernel("matern52", d), hyper, X, y, np.full(n + pending, 1e-3), offset=0.0, scale=1.0), X, y


@pytest.mark.parametrize("k", [1, 2])
def test_features_are_the_scaled_legendre_polynomials(k):
    u = np.linspace(-1, 1, 11)
    coefficients = np.eye(3)[k] * np.sqrt(2 * k + 1)
    value, slope = legendre(u, k), legendre_slope(u, k)
    np.testing.assert_allclose(value, reference.legval(u, coefficients), atol=1e-12)
    np.testing.assert_allclose(slope, reference.legval(u, reference.legder(coefficients)), atol=1e-12)


def test_posterior_is_the_direct_formula():
    gp, X, y = posterior()
    rng = np.random.default_rng(1)
    Q = rng.random((5, 6))

    def kernel(A, B):
        r2 = ((A[:, None] - B[None]) ** 2).sum(axis=2) / 1.3**2
        r = np.sqrt(5 * r2)
        out = (1 + r + r * r / 3) * np.exp(-r)
        for k, w in ((1, 0.7), (2, 0.4)):
            a, b = legendre(2 * A - 1, k), legendre(2 * B - 1, k)
            out += w * a @ b.T / 6
        return out

    inverse = np.linalg.inv(kernel(X, X) + 1e-3 * np.eye(14))
    one = np.ones(14)
    mean = one @ inverse @ y / (one @ inverse @ one)
    signal = ((y - mean) @ inverse @ (y - mean) + 1) / 15
    K = kernel(Q, X)
    m, v = gp.mean_var(Q)
    np.testing.assert_allclose(m, mean + K @ inverse @ (y - mean), atol=1e-9)
    np.testing.assert_allclose(
        v, signal * (np.diagonal(kernel(Q, Q)) - np.einsum("ij,jk,ik->i", K, inverse, K)), atol=1e-9
    )
    np.testing.assert_allclose(gp.mean_at(Q), m, atol=1e-12)


def test_without_trend_it_is_the_library_s_gaussian_process():
    gp, X, y = posterior(trend=False)
    other = GP.exact(Kernel("matern52", 6), Hyper(np.array([1.3]), 1e-3), X, y)
    Q = np.random.default_rng(2).random((7, 6))
    for ours, theirs in zip(gp.mean_var_grad(Q), other.mean_var_grad(Q), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("trend", [False, True])
def test_gradients_are_those_of_finite_differences(trend):
    gp, _, _ = posterior(trend=trend, pending=2)
    x, h = np.random.default_rng(3).random((1, 6)), 1e-6
    _, _, dm, dv = gp.mean_var_grad(x)
    for j in range(6):
        step = h * np.eye(6)[j]
        (m1, v1), (m0, v0) = gp.mean_var(x + step), gp.mean_var(x - step)
        np.testing.assert_allclose(
            [dm[0, j], dv[0, j]], [(m1 - m0)[0] / 2 / h, (v1 - v0)[0] / 2 / h], rtol=1e-5, atol=1e-6
        )


def test_pending_points_leave_the_mean_and_shrink_the_variance():
    rng = np.random.default_rng(4)
    X, y, pending, Q = rng.random((12, 5)), rng.standard_normal(12), rng.random((3, 5)), rng.random((6, 5))
    surrogate = AdditiveSurrogate(Cube.box(5))
    before, after = surrogate.gp(X, y), surrogate.gp(X, y, pending=pending)
    np.testing.assert_allclose(after.mean_at(Q), before.mean_at(Q), atol=1e-8)
    assert (after.mean_var(Q)[1] <= before.mean_var(Q)[1] + 1e-12).all()
    assert (after.mean_var(pending)[1] < 0.5 * before.mean_var(pending)[1]).all()


def test_density_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(5)
    X, known = rng.random((20, 4)), np.full(20, np.nan)
    known[:3] = 0.01
    kernel = Kernel("matern52", 4)
    points = EmbeddedPoints.of(kernel, X, True)
    density = NegativeLogDensity(kernel, rng.standard_normal(20), known, points.products(points), 4)
    theta, h = np.array([0.2, -1.0, -2.0, -4.0]), 1e-5
    _, gradient = density.at(theta)
    numeric = [(density.at(theta + h * e)[0] - density.at(theta - h * e)[0]) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-6)


def test_a_separable_bowl_in_fifty_dimensions_is_learnt_from_a_hundred_values():
    rng = np.random.default_rng(7)
    X, Q, centre = rng.random((110, 50)), rng.random((200, 50)), rng.uniform(0.2, 0.8, 50)

    def bowl(P):
        return -((P - centre) ** 2).sum(axis=1)

    def unexplained(surrogate):
        gp = surrogate.gp(X, bowl(X))
        return np.var(bowl(Q) - gp.offset - gp.scale * gp.mean_at(Q)) / np.var(bowl(Q))

    assert unexplained(AdditiveSurrogate(Cube.box(50))) < 0.6 * unexplained(
        AdditiveSurrogate(Cube.box(50), trend=False)
    )


def test_told_in_bulk_or_one_by_one_gives_the_same_bits():
    rng = np.random.default_rng(8)
    X, y, Q = rng.random((60, 8)), rng.standard_normal(60), rng.random((3, 8))
    gradual = AdditiveSurrogate(Cube.box(8))
    for n in range(1, 61):
        gp = gradual.gp(X[:n], y[:n])
    fresh = AdditiveSurrogate(Cube.box(8)).gp(X, y)
    for ours, theirs in zip(gp.mean_var_grad(Q), fresh.mean_var_grad(Q), strict=True):
        assert np.array_equal(ours, theirs)
    other = gradual.gp(X[:30], np.exp(y[:30]))  # another history in between
    assert np.array_equal(other.mean_at(Q), AdditiveSurrogate(Cube.box(8)).gp(X[:30], np.exp(y[:30])).mean_at(Q))
    assert np.array_equal(gradual.gp(X, y).mean_at(Q), fresh.mean_at(Q))


def test_histories_agree_up_to_the_first_point_value_or_variance_that_differs():
    rng = np.random.default_rng(10)
    X, y, yvar = rng.random((6, 3)), rng.standard_normal(6), np.array([np.nan, 0.1, np.nan, 0.2, np.nan, 0.3])
    assert agreeing_values((X, y, yvar), (X[:4], y[:4], yvar[:4])) == 4
    for at, array in ((1, X), (2, y), (3, yvar)):
        other = array.copy()
        other[at] += 1.0
        changed = tuple(other if own is array else own for own in (X, y, yvar))
        assert agreeing_values((X, y, yvar), changed) == at
    known = np.where(np.isnan(yvar), 0.5, yvar)
    assert agreeing_values((X, y, yvar), (X, y, known)) == 0


def test_choices_and_extreme_values_are_legal():
    cube = Cube([Axis(), Axis(levels=3, categorical=True), Axis(levels=4), Axis()])
    rng = np.random.default_rng(9)
    X = cube.snap(rng.random((15, 4)))
    for y in (np.zeros(15), np.full(15, 1e12), 1e-12 * rng.standard_normal(15), 1e12 * rng.standard_normal(15)):
        gp = AdditiveSurrogate(cube).gp(X, y)
        m, v, dm, dv = gp.mean_var_grad(X)
        assert all(np.isfinite(a).all() for a in (m, v, dm, dv))
        assert not dm[:, 1].any()
    with pytest.raises(ValueError, match="noise_var"):
        AdditiveSurrogate(cube, noise_var=-1.0)
