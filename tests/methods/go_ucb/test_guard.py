"""The hybrid of a linearised family and a residual process, and the guard, against slow forms."""

import numpy as np
import pytest

from regretless.methods.go_ucb import guard as module
from regretless.methods.go_ucb.guard import (
    MOST_COMPARED,
    MOST_NATS,
    Guard,
    Hybrid,
    LeaveOneOut,
    Shares,
    family_density,
    fit_shares,
    near_pairs,
    process_density,
    votes,
)
from regretless.methods.go_ucb.oracle import Oracle
from regretless.methods.go_ucb.parametric import linear
from regretless.methods.go_ucb.user_model import UserFunction
from regretless.models.gp.kernels import Kernel
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube

KERNEL = Kernel("matern52", 2)
SHARES = Shares(linear=0.7, residual=0.3, noise=0.02, lengthscale=np.array([0.4, 0.9]))


def matern(A, B, lengthscale):
    r = np.sqrt((((A[:, None] - B[None]) / lengthscale) ** 2).sum(axis=2))
    return (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r)


def data(n=12, p=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((n, 2)), rng.standard_normal((n, p)), rng.standard_normal(n)


def covariance(A, GA, B, GB):
    return SHARES.linear * GA @ GB.T + SHARES.residual * matern(A, B, SHARES.lengthscale)


def test_the_posterior_equals_a_direct_solve():
    X, G, e = data()
    U, H, _ = data(5, seed=1)
    mean, sd = Hybrid(KERNEL, SHARES, X, G, e, np.ones(12)).correction(U, H)
    K, C = covariance(X, G, X, G) + SHARES.noise * np.eye(12), covariance(U, H, X, G)
    np.testing.assert_allclose(mean, C @ np.linalg.solve(K, e), atol=1e-10)
    np.testing.assert_allclose(sd**2, np.diag(covariance(U, H, U, H) - C @ np.linalg.solve(K, C.T)), atol=1e-10)


def test_pending_points_keep_the_mean_and_shrink_the_spread():
    X, G, e = data()
    U, H, _ = data(5, seed=1)
    free = Hybrid(KERNEL, SHARES, X, G, e, np.ones(12))
    bound = Hybrid(KERNEL, SHARES, X, G, e, np.ones(12), (U[:2], H[:2]))
    np.testing.assert_allclose(bound.correction(U, H)[0], free.correction(U, H)[0], atol=1e-10)
    assert (bound.correction(U, H)[1] <= free.correction(U, H)[1] + 1e-12).all()
    assert (bound.correction(U[:2], H[:2])[1] < 0.9 * free.correction(U[:2], H[:2])[1]).all()


def test_leave_one_out_equals_leaving_one_out():
    X, G, e = data()
    density = Hybrid(KERNEL, SHARES, X, G, e, np.ones(12)).leave_one_out()
    for i in range(12):
        rest = np.arange(12) != i
        mean, sd = Hybrid(KERNEL, SHARES, X[rest], G[rest], e[rest], np.ones(11)).correction(X[i : i + 1], G[i : i + 1])
        variance = sd[0] ** 2 + SHARES.noise
        assert density[i] == pytest.approx(
            -0.5 * (e[i] - mean[0]) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance), abs=1e-8
        )


def test_the_gradient_of_the_posterior_of_the_shares():
    X, G, e = data()
    Z, gram, centre, sd = KERNEL.embed(X), G @ G.T, np.zeros(5), np.full(5, 2.0)
    theta, h = np.array([0.3, -0.5, -2.0, -0.7, 0.1]), 1e-6
    value = lambda t: module._negative_log_posterior(KERNEL, Z, gram, e, t, centre, sd)  # noqa: E731
    numeric = [(value(theta + h * d)[0] - value(theta - h * d)[0]) / (2 * h) for d in np.eye(5)]
    np.testing.assert_allclose(value(theta)[1], numeric, rtol=1e-5, atol=1e-6)


def test_the_process_fades_when_the_family_holds_and_grows_when_it_does_not():
    rng = np.random.default_rng(2)
    X = rng.random((40, 2))
    G = np.column_stack([np.ones(40), X])
    right = G @ [0.1, -0.2, 0.1] + 0.05 * rng.standard_normal(40)
    wrong = right + np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1])
    assert fit_shares(KERNEL, X, G, right).residual < 0.05 < 0.2 < fit_shares(KERNEL, X, G, wrong).residual


# ---------------------------------------------------------------- guard


def history(wrong, n=40):
    rng = np.random.default_rng(3)
    X = rng.random((n, 2))
    y = 1 + 2 * X[:, 0] - 3 * X[:, 1] + 0.1 * rng.standard_normal(n)
    if wrong:
        y = y + 2 * np.sin(8 * X[:, 0]) * np.cos(6 * X[:, 1])
    return X, y, np.full(n, np.nan)


def oracle(family=None):
    return Oracle(family or linear(2), lambda U: 2 * U - 1, sign=1.0, seed=0, block=10)


def test_the_density_of_a_linear_family_is_that_of_leaving_one_out():
    X, y, yvar = history(False)
    fit = oracle()(X, y, yvar)
    density = family_density(fit)
    J = fit.jacobian
    for i in (0, 7, 39):
        rest = np.arange(40) != i
        A = J[rest].T @ J[rest] + fit.sigma2 * np.eye(3)
        mean = J[i] @ np.linalg.solve(A, J[rest].T @ fit.z[rest])
        variance = fit.sigma2 * (1 + J[i] @ np.linalg.solve(A, J[i]))
        assert density[i] == pytest.approx(
            -0.5 * (fit.z[i] - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance), abs=2e-3
        )


def test_the_density_of_the_process_is_that_of_leaving_one_out():
    X, y, yvar = history(True, 15)
    gp = Surrogate(Cube.box(2), clip=False).gp(X, y, yvar)
    density = process_density(gp, scale=gp.scale)
    z = (y - gp.offset) / gp.scale - gp.mean
    K = gp.signal * _prior(gp, X)
    for i in (0, 5, 14):
        rest = np.arange(15) != i
        k = K[i, rest]
        mean = k @ np.linalg.solve(K[np.ix_(rest, rest)], z[rest])
        variance = K[i, i] - k @ np.linalg.solve(K[np.ix_(rest, rest)], k)
        assert density[i] == pytest.approx(
            -0.5 * (z[i] - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance), abs=1e-6
        )


def _prior(gp, X):
    u = 2 * X - 1
    return matern(X, X, gp.hyper.lengthscale) + gp.hyper.quadratic * (1 + u @ u.T) ** 2 / 4 + np.diag(gp.factor.noise)


def test_the_guard_trusts_a_right_family_and_leaves_a_wrong_one():
    guard = Guard(Cube.box(2), noise_var=None, flexible=False)
    X, y, yvar = history(False)
    assert guard.choice(X, y, yvar, oracle()(X, y, yvar)) == "family"
    X, y, yvar = history(True)
    assert guard.choice(X, y, yvar, oracle()(X, y, yvar)) != "family"
    assert Guard(Cube.box(2), noise_var=None, flexible=True).choice(X, y, yvar, oracle()(X, y, yvar)) == "process"


def test_the_guard_judges_many_values_by_some_of_them():
    n = MOST_COMPARED + 300
    for curved, expected in ((False, {"family"}), (True, {"hybrid", "process"})):
        guard = Guard(Cube.box(2), noise_var=None, flexible=False)
        X, y, yvar = history(curved, n)
        fit = oracle()(X, y, yvar)
        assert guard.choice(X, y, yvar, fit) in expected
        assert guard.verdict(X, y, yvar, fit)[0] in expected
        hybrid = guard.hybrid(X, fit, (np.array([[0.2, 0.3]]), fit.jacobian[:1]))
        assert hybrid.n <= MOST_COMPARED
        best = X[[np.argmax(y)]]
        more, sd = hybrid.correction(best, fit.jacobian[[np.argmax(y)]])
        assert (fit.values[np.argmax(y)] + more[0] - fit.z[np.argmax(y)]) ** 2 < 9 * (sd[0] ** 2 + fit.sigma2)


def test_repetitions_of_one_point_share_one_vote():
    X = np.vstack([np.full((30, 2), 0.3) + 1e-3 * np.arange(30)[:, None], [[0.9, 0.1], [0.1, 0.9]]])
    weight = votes(near_pairs(X))
    np.testing.assert_allclose(weight[-2:], 1.0)
    assert weight[:30].sum() == pytest.approx(1.0, abs=0.1)
    often = np.r_[
        np.full(30, 0.5), -1.0, -1.0
    ]  # a trifle better thirty times in one place, clearly worse in the two others
    density = {"process": often, "family": np.zeros(32), "hybrid": np.full(32, 3.0)}
    evidence = LeaveOneOut(density, X, np.ones(32, dtype=bool))
    assert evidence.gain("process", "family")[0] == pytest.approx(-1.5, abs=0.1)
    assert not evidence.favours("process", "family", 0.0)
    assert evidence.favours("hybrid", "family", 6.0)


def test_the_process_is_compared_on_the_values_it_takes_as_they_are_and_no_value_decides_alone():
    X = np.random.default_rng(0).random((12, 2))
    density = {
        "process": np.r_[np.full(10, 1.0), -90.0, -90.0],
        "family": np.zeros(12),
        "hybrid": np.r_[np.full(11, 1.0), -90.0],
    }
    evidence = LeaveOneOut(density, X, np.arange(12) < 10)
    assert evidence.gain("process", "family")[0] == 10
    assert evidence.gain("hybrid", "family")[0] == 11 - MOST_NATS


def test_the_hybrid_pays_for_the_parameters_its_residuals_were_fitted_with():
    X, y, yvar = history(False)
    fit = oracle()(X, y, yvar)
    guard = Guard(Cube.box(2), noise_var=None, flexible=False)
    paid = guard.hybrid(X, fit).leave_one_out() - guard.evidence(X, y, yvar, fit).density["hybrid"]
    G = fit.jacobian
    np.testing.assert_allclose(
        paid, np.einsum("ij,ij->i", G @ np.linalg.inv(G.T @ G + fit.sigma2 * np.eye(3)), G), atol=1e-10
    )


def decay(w, x):
    return w[0] + w[1] * np.exp(-(w[2] * x[:, 0] + w[3] * x[:, 1]))


@pytest.mark.parametrize("family", [linear(2), UserFunction(decay, [(-6, 6)] * 2 + [(0.05, 5)] * 2)])
def test_a_verdict_compares_nested_models_and_held_parameters_stay(family):
    X, y, yvar = history(False)
    fit = oracle(family)(X, y, yvar)
    assert fit.free.all() == (family.p == 3)  # a plane is no exponential: some of its parameters are at their bounds
    G, v = fit.jacobian[:, fit.free], fit.v[fit.free]
    alone = Shares(linear=1.0, residual=0.0, noise=fit.sigma2, lengthscale=np.ones(2))
    density = Hybrid(KERNEL, alone, X, G, fit.residuals + G @ v, fit.weight).leave_one_out()
    for i in (0, 7, 39):
        rest = np.arange(40) != i
        A = G[rest].T @ G[rest] + fit.sigma2 * np.eye(len(v))
        without = np.linalg.solve(
            A, G[rest].T @ (fit.residuals + G @ v)[rest]
        )  # the linearised fit to the other values
        variance = fit.sigma2 * (1 + G[i] @ np.linalg.solve(A, G[i]))
        error = fit.residuals[i] - G[i] @ (without - v)
        assert density[i] == pytest.approx(-0.5 * error**2 / variance - 0.5 * np.log(2 * np.pi * variance), abs=1e-6)


def test_the_verdict_speaks_against_a_wrong_family_only():
    guard = Guard(Cube.box(2), noise_var=None, flexible=False)
    X, y, yvar = history(False)
    assert guard.verdict(X, y, yvar, oracle()(X, y, yvar)) == ("family", 0.0)
    X, y, yvar = history(True)
    kind, nats = guard.verdict(X, y, yvar, oracle()(X, y, yvar))
    assert kind != "family"
    assert nats > 4
