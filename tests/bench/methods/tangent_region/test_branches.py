"""The two-branch net and the choice of its shape by evidence."""

import numpy as np
import pytest
from regretless_bench.methods.tangent_region.branches import BranchNet, Shape, choose_shape
from regretless_bench.methods.tangent_region.closed_form import ClosedForm
from scipy.stats import multivariate_normal

from regretless.models.tangent.ntk import diagonal, draw_mlp, kernel
from regretless.models.tangent.ridge import log_evidence


def rng(key=0):
    return np.random.default_rng(key)


def test_branches_have_unit_mean_variance_and_the_kernels_they_claim():
    probe = rng(67).uniform(-1, 1, (256, 4))
    net = BranchNet(draw_mlp(rng(68), 4, width=32), probe, rng(69))
    for share in (0.0, 0.4, 0.95):
        shaped = net.at(Shape(1.0, 2.0, share))
        assert float(diagonal(shaped.factors(probe)).mean()) == pytest.approx(1.0, abs=0.06)
    P = net.at(Shape(1.0, 2.0, 0.5)).coordinate_features(probe[:5])
    one = probe[:5].copy()
    one[:, 1:] = (
        0.0  # only the first coordinate differs between rows: an additive kernel sees it in a quarter of the units
    )
    Q = net.at(Shape(1.0, 2.0, 0.5)).coordinate_features(one)
    units = np.abs(Q - Q[0]).max(0) > 0
    assert units.mean() == pytest.approx(0.25, abs=0.01)
    assert P.shape == Q.shape


def test_with_many_inputs_the_coordinate_branch_is_linear():
    X = rng(81).standard_normal((30, 200))
    net = BranchNet(draw_mlp(rng(82), 200, width=16), X, rng(83))
    P = net.coordinate_features(X)
    np.testing.assert_allclose((P**2).sum(1).mean(), 1.0)
    np.testing.assert_allclose(P @ P.T, X @ X.T / (X**2).sum(1).mean())
    dense = net.dense_factors(X)
    np.testing.assert_allclose(
        kernel(net.factors(X), net.factors(X)), 0.5 * kernel(dense, dense) + 0.5 * P @ P.T, rtol=1e-12, atol=1e-12
    )
    slope = X @ rng(84).standard_normal(200)
    assert chosen(net, X, slope).share >= 0.5


def chosen(net: BranchNet, X: np.ndarray, y: np.ndarray) -> Shape:
    return choose_shape(net, net.shape, X, ((y - y.mean()) / y.std())[:, None], np.zeros(1))[0]


def test_evidence_tells_additive_from_dense_smooth_from_rough_and_signal_from_noise():
    X = rng(70).uniform(-1, 1, (150, 6))
    net = BranchNet(draw_mlp(rng(71), 6, width=64, tail=5), X, rng(72))
    smooth, rough = chosen(net, X, np.sin(2 * X).sum(1)), chosen(net, X, np.sin(12 * X).sum(1))
    assert smooth.share == rough.share == 0.9
    assert smooth.coordinate_scale < rough.coordinate_scale
    assert chosen(net, X, np.sin(X @ np.array([1.0, -1, 1, 1, -1, 1]) * 1.2)).share == 0.0
    assert chosen(net, X, rng(73).standard_normal(150)).lam == 1.0


def test_evidence_is_the_density_of_the_values():
    A = rng(74).standard_normal((7, 9))
    K, targets, lam = A @ A.T, rng(75).standard_normal((7, 2)), 0.3
    evidence, variance = log_evidence(K, targets, lam)
    for j in range(2):
        theirs = multivariate_normal(np.zeros(7), variance[j] * (K + lam * np.eye(7)))
        assert evidence[j] - 3.5 * (1 + np.log(2 * np.pi)) == pytest.approx(theirs.logpdf(targets[:, j]), rel=1e-10)
        for other in (0.9, 1.1):
            assert multivariate_normal(np.zeros(7), other * variance[j] * (K + lam * np.eye(7))).logpdf(
                targets[:, j]
            ) < theirs.logpdf(targets[:, j])


def test_evidence_chooses_the_warp_that_makes_the_values_plain():
    X = rng(76).uniform(-1, 1, (200, 3))
    net = BranchNet(draw_mlp(rng(77), 3, width=64), X, rng(78))
    signal = np.sin(2 * X).sum(1)
    for y, best in ((signal, "none"), (-np.exp(-2 * signal), "strong")):
        model = ClosedForm(net, net.shape, seed=0, rule="evidence", warping=None)
        model.refresh(X, y, np.full(200, np.nan))
        assert model.warping == best
