"""The batched Levenberg-Marquardt fit against scipy's trust-region solver, and the oracle on realizable data."""

import numpy as np
import pytest
from regretless_bench.problems import make_problem
from scipy.optimize import least_squares

from regretless.methods.go_ucb.oracle import LARGEST, Oracle, Solutions, distinct, fit_least_squares, row_weights
from regretless.methods.go_ucb.parametric import named_family, user_units
from regretless.methods.go_ucb.user_model import UserFunction
from regretless.models.gp.sobol import sobol_points
from regretless.space.parameters import Float

MECHANISTIC = ("hill-temperature", "michaelis-inhibition", "gompertz-growth", "drug-timing")
LAM = 0.0025


def realizable(name, seed):
    """A problem, its family, and 2 p Sobol points with their noisy values."""
    problem = make_problem(name, seed=seed)
    family = UserFunction(problem.model, problem.model.w_bounds)
    rng = np.random.default_rng(seed)
    X = sobol_points(2 * family.p, 3, rng)
    family.check(user_units(problem.space)(X))
    return problem, family, X, problem.evaluate_unit(X)


@pytest.mark.parametrize("name", MECHANISTIC)
def test_the_best_cost_is_that_of_scipys_solver_from_the_same_starts(name):
    problem, family, X, y = realizable(name, 11)
    x, z, s = user_units(problem.space)(X), (y - y.mean()) / y.std(), y.std()

    def standard(V):
        F, J = family.jacobian(V, x)
        return (F - y.mean()) / s, J / s

    starts = family.starts(8, np.random.default_rng(0))
    ours = fit_least_squares(standard, z, starts, reach=1.0, lam=LAM)

    def residual(v):
        return np.append(standard(v[None])[0][0] - z, np.sqrt(LAM) * v)

    def jacobian(v):
        return np.vstack([standard(v[None])[1][0], np.sqrt(LAM) * np.eye(family.p)])

    theirs = min(2 * least_squares(residual, start, jac=jacobian, bounds=(-1, 1)).cost for start in starts)
    assert ours.cost[0] <= 1.02 * theirs
    assert (np.diff(ours.cost) >= 0).all()
    assert (np.abs(ours.v) <= 1).all()


def test_a_linear_problem_is_solved_exactly_in_both_spaces():
    rng = np.random.default_rng(1)
    for n, p in ((30, 5), (5, 30)):
        A, y = rng.standard_normal((n, p)), rng.standard_normal(n)
        fits = fit_least_squares(
            lambda V, A=A: (V @ A.T, np.broadcast_to(A, (len(V), *A.shape))),
            y,
            rng.standard_normal((4, p)),
            reach=np.inf,
            lam=0.1,
        )
        np.testing.assert_allclose(
            fits.v, np.tile(np.linalg.solve(A.T @ A + 0.1 * np.eye(p), A.T @ y), (4, 1)), atol=1e-4
        )


def test_bounds_hold_and_are_reached():
    fits = fit_least_squares(
        lambda V: (V[:, :1] * 1.0, np.ones((len(V), 1, 1))), np.array([7.0]), np.zeros((2, 1)), reach=1, lam=1e-6
    )
    assert fits.v.ravel().tolist() == [1.0, 1.0]


def test_values_count_by_their_weights():
    A = np.ones((2, 1))
    fits = fit_least_squares(
        lambda V: (V @ A.T, np.broadcast_to(A, (len(V), 2, 1))),
        np.array([3.0, 5.0]),
        np.zeros((2, 1)),
        reach=9,
        lam=1e-9,
        weight=np.array([3.0, 1.0]),
    )
    np.testing.assert_allclose(fits.v, 3.5, atol=1e-4)


def test_starts_that_overflow_lose_and_are_not_chosen():
    def model(V):
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(V * 1000), 1000 * np.exp(V * 1000)[:, :, None]

    fits = fit_least_squares(model, np.array([1.0]), np.array([[5.0], [0.0005]]), reach=9, lam=1e-6)
    assert fits.v[0, 0] == pytest.approx(0.0, abs=1e-3)
    assert np.isinf(fits.cost[1])


def test_distinct_keeps_modes_and_drops_copies_and_bad_fits():
    fits = fit_least_squares(
        lambda V: (V**2, 2 * V[:, :, None]),
        np.array([1.0]),
        np.array([[0.5], [0.9], [-0.7]]),
        reach=3,
        lam=1e-12,
    )
    assert len(distinct(fits, 3, apart=0.1, within=1e-3).v) == 2  # both roots, the second copy of one dropped
    assert len(distinct(fits, 1, apart=0.1, within=1e-3).v) == 1
    worse = Solutions(np.array([[1.0], [-2.0]]), np.array([0.1, 0.5]), np.zeros((2, 1)), np.zeros((2, 1, 1)))
    assert distinct(worse, 3, apart=0.1, within=0.3).v.tolist() == [[1.0]]
    assert distinct(worse, 3, apart=0.1, within=0.5).v.tolist() == [[1.0], [-2.0]]


def test_modes_share_the_posterior_by_their_cost():
    X = np.linspace(0, 1, 9)[:, None]
    y = np.exp(-((X[:, 0] - 0.5) ** 2) / 0.02)  # one of the three bumps can do it, in three ways and many more

    def three_bumps(w, x):
        return w[0] + sum(w[1 + i] * np.exp(-((x[:, 0] - w[7 + i]) ** 2) / (2 * w[4 + i] ** 2)) for i in range(3))

    bounds = [(-6, 6), *[(-8, 8)] * 3, *[Float(0.05, 1.5, log=True)] * 3, *[(-0.2, 1.2)] * 3]
    family = UserFunction(three_bumps, bounds)
    fit = Oracle(family, lambda U: U, sign=1.0, seed=0, block=9, noise_sd=0.05)(X, y, np.full(9, np.nan))
    assert len(fit.solutions) > 1
    assert fit.support.sum() == pytest.approx(1.0)
    assert (np.diff(fit.support) <= 1e-12).all()
    np.testing.assert_array_equal(fit.solutions[0], fit.v)


def test_the_oracle_is_a_function_of_the_history():
    rng = np.random.default_rng(2)
    X = rng.random((37, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.02 * rng.standard_normal(37)
    yvar = np.full(37, np.nan)

    def oracle():
        return Oracle(named_family("mlp", 2, 3), lambda U: 2 * U - 1, sign=1.0, seed=5, block=12)

    stepwise = oracle()
    for n in range(10, 38):
        fit = stepwise(X[:n], y[:n], yvar[:n])
    at_once = oracle()(X, y, yvar)
    assert np.array_equal(fit.v, at_once.v)
    assert fit.sigma2 == at_once.sigma2


def test_row_weights():
    assert row_weights(np.array([np.nan, np.nan])).tolist() == [1.0, 1.0]
    assert row_weights(np.array([0.01, 0.04, np.nan])) == pytest.approx([2.5, 0.625, 1.0])


@pytest.mark.parametrize("name", ["quadratic", "mlp", "separable-quadratic"])
@pytest.mark.parametrize("huge", [1e160, -1e300, 1.7e308])
@pytest.mark.parametrize("place", [0, 25])
def test_one_huge_value_leaves_a_finite_fit(name, huge, place):
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 2)), rng.standard_normal(30)
    y[place], y[3], y[28] = huge, -huge, 2e307
    yvar = np.where(np.arange(30) % 3, np.nan, 0.01)
    fit = Oracle(named_family(name, 2, 2), lambda U: 2 * U - 1, sign=1.0, seed=0, block=12)(X, y, yvar)
    assert np.isfinite(fit.v).all()
    assert np.isfinite(fit.sigma2)
    assert np.isfinite(fit.ball.norms(fit.rows)).all()
    assert np.abs(fit.z).max() <= LARGEST


def explained(name, seed):
    problem, family, X, y = realizable(name, seed)
    fit = Oracle(family, user_units(problem.space), sign=1.0, seed=seed, block=len(y))(X, y, np.full(len(y), np.nan))
    grid = np.random.default_rng(99).random((500, 3))
    F = family.jacobian(fit.v[None], user_units(problem.space)(grid))[0][0]
    truth = problem.true_unit(grid)
    return 1 - np.mean((F - truth) ** 2) / np.var(truth)


@pytest.mark.parametrize("name", MECHANISTIC)
def test_the_oracle_finds_the_function(name):
    assert np.median([explained(name, seed) for seed in range(3)]) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISTIC)
def test_the_oracle_finds_the_function_in_twenty_draws(name):
    assert np.median([explained(name, seed) for seed in range(100, 120)]) >= 0.97
