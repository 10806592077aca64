"""The Gaussian process against GPyTorch, against direct solves and against finite differences."""

import math

import gpytorch
import numpy as np
import pytest
import torch
from slow_forms import covariance, kernel_matrix, log_evidence

from regretless.models.gp.kernels import correlation
from regretless.models.gp.posterior import GP, Factor, Hyper, Kernel, factor_with_jitter
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube

KINDS = ("se", "matern52")
LABELS = np.array([0, 3, 0, 0, 4])


def data(n=30, d=5, seed=0, labels=None):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    if labels is not None:
        for i in np.flatnonzero(labels):
            X[:, i] = (np.floor(X[:, i] * labels[i]) + 0.5) / labels[i]
    y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std(), rng.random((7, d))


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, base, mean, signal):
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean().double()
        self.mean_module.initialize(constant=torch.tensor(mean, dtype=torch.float64))
        self.covar_module = gpytorch.kernels.ScaleKernel(base).double()
        self.covar_module.initialize(outputscale=torch.tensor(signal, dtype=torch.float64))

    def forward(self, X):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("per_point", [True, False])
def test_equals_gpytorch(kind, ard, per_point):
    X, y, Q = data()
    signal = 2.3
    yvar = np.linspace(0.01, 0.2, len(y)) if per_point else np.full(len(y), 0.05)
    lengthscale = np.array([0.4, 0.7, 1.1, 0.5, 2.0]) if ard else np.array([0.6])
    gp = GP.exact(Kernel(kind, 5), Hyper(lengthscale, 1e-3, signal), X, y, yvar)
    m, v = gp.mean_var(Q)

    TX, ty = torch.tensor(X), torch.tensor(y)
    base = {"se": gpytorch.kernels.RBFKernel, "matern52": gpytorch.kernels.MaternKernel}[kind](
        ard_num_dims=5 if ard else None
    ).double()
    base.initialize(lengthscale=torch.tensor(lengthscale))
    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.tensor(yvar))
    model = ExactGP(TX, ty, likelihood, base, gp.mean, signal)
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        model.train(), likelihood.train()
        theirs = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)(model(TX), ty).item() * len(y)
        model.eval(), likelihood.eval()
        posterior = model(torch.tensor(Q))
        mean, cov = posterior.mean.numpy(), posterior.covariance_matrix.numpy()
    np.testing.assert_allclose(m, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(v, np.diag(cov), rtol=0, atol=1e-8)
    np.testing.assert_allclose(covariance(gp, Q), cov, rtol=0, atol=1e-8)
    assert log_evidence(gp) == pytest.approx(theirs, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [None, LABELS], ids=["lines", "choices"])
def test_posterior_is_the_direct_solve(kind, labels):
    """Kernel written out pair by pair, inverse taken outright: mean by least squares, profiled signal, quadratic trend,
    Hamming part."""
    X, y, Q = data(labels=labels)
    kernel, hyper = Kernel(kind, 5, labels), Hyper(np.array([0.4, 0.7, 1.1, 0.5, 2.0]), 1e-2, 1.0, 0.3)
    gp = GP.exact(kernel, hyper, X, 7 + 3 * y, offset=7, scale=3)
    K = kernel_matrix(gp, X, X) + 1e-2 * np.eye(len(X))
    inverse, C = np.linalg.inv(K), kernel_matrix(gp, Q, X)
    mean = inverse.sum(axis=0) @ y / inverse.sum()
    signal = ((y - mean) @ inverse @ (y - mean) + 1) / (len(y) + 1)
    m, v = gp.mean_var(Q)
    np.testing.assert_allclose(m, mean + C @ inverse @ (y - mean), atol=1e-9)
    np.testing.assert_allclose(
        v, signal * (np.diag(kernel_matrix(gp, Q, Q)) - np.einsum("ij,jk,ik->i", C, inverse, C)), atol=1e-9
    )
    np.testing.assert_allclose(gp.information(), 0.5 * np.linalg.slogdet(K / 1e-2)[1], atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [None, LABELS], ids=["lines", "choices"])
@pytest.mark.parametrize("quadratic", [0.0, 0.4])
def test_gradients_are_finite_differences(kind, labels, quadratic):
    X, y, Q = data(labels=labels)
    gp = GP.exact(
        Kernel(kind, 5, labels), Hyper(np.array([0.4, 0.7, 1.1, 0.5, 2.0]), 1e-3, 1.0, quadratic), X, y
    ).condition(Q[:1] * 0.9)
    path = gp.path(np.random.default_rng(3))
    functions = {
        "mean": (lambda P: gp.mean_var(P)[0], gp.mean_var_grad(Q)[2]),
        "variance": (lambda P: gp.mean_var(P)[1], gp.mean_var_grad(Q)[3]),
        "mean alone": (gp.mean_at, gp.mean_grad(Q)[1]),
        "path": (lambda P: path(P)[0], path(Q)[1]),
    }
    for name, (value, gradient) in functions.items():
        for j in range(5):
            step = np.zeros(5)
            step[j] = 1e-6
            if labels is not None and labels[j]:
                assert (gradient[:, j] == 0).all()
            else:
                np.testing.assert_allclose(
                    (value(Q + step) - value(Q - step)) / 2e-6, gradient[:, j], atol=2e-6, err_msg=name
                )
    np.testing.assert_allclose(gp.mean_var_grad(Q)[:2], gp.mean_var(Q), atol=1e-12)
    np.testing.assert_array_equal(path.values(Q), path(Q)[0])
    np.testing.assert_array_equal(path.mean_and_values(Q), (gp.mean_at(Q), path(Q)[0]))
    for ours, alone in zip(path.mean_and_call(Q), (gp.mean_grad(Q), path(Q)), strict=True):
        np.testing.assert_array_equal(ours[0], alone[0])
        np.testing.assert_array_equal(ours[1], alone[1])


@pytest.mark.parametrize("turned", [False, True])
def test_how_rows_were_appended_leaves_no_trace(turned):
    X, _, Q = data(n=80)
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((5, 5)))[0] if turned else None
    hyper = Hyper(np.array([0.8, 0.3, 1.7, 0.55, 0.8]), 1e-4, 1.0, 0.1, rotation)
    factor = Factor(Kernel("matern52", 5), hyper, X[:37], np.full(37, 1e-4))
    grown = []
    for stops in ([80], range(38, 81), [40, 53, 54, 69, 80]):  # at once, singly, and across the ends of blocks
        appended, done = factor, 37
        for stop in stops:
            appended = appended.extended(X[done:stop], np.full(stop - done, 1e-4))
            done = stop
        grown.append(appended)
    whole = Factor(factor.kernel, factor.hyper, X, np.full(80, 1e-4))
    for appended in grown:
        np.testing.assert_array_equal(appended.lower(appended.cross(Q)), grown[0].lower(grown[0].cross(Q)))
        np.testing.assert_allclose(appended.lower(appended.cross(Q)), whole.lower(whole.cross(Q)), atol=1e-9)


def test_appending_and_conditioning_equal_the_full_factor():
    X, y, Q = data(n=40)
    kernel, hyper = Kernel("matern52", 5), Hyper(np.full(5, 0.8), 1e-4, 1.0, 0.1)
    whole = GP.exact(kernel, hyper, X, y)
    noise = np.full(40, 1e-4)
    factor = Factor(kernel, hyper, X[:25], noise[:25])
    at_once = factor.extended(X[25:], noise[25:])
    for i in range(25, 40):
        factor = factor.extended(X[i : i + 1], noise[i : i + 1])
    for appended in (factor, at_once):
        grown = GP(appended, y, offset=0.0, scale=1.0, profile=True)
        np.testing.assert_allclose(grown.mean_var(Q), whole.mean_var(Q), atol=1e-9)
    np.testing.assert_array_equal(at_once.lower(y[None]), factor.lower(y[None]))
    # told its own mean, a pending point leaves the mean alone and shrinks the variance just as a value would
    pending = whole.condition(Q[:2])
    believed = GP.exact(kernel, hyper, np.vstack([X, Q[:2]]), np.append(y, whole.mean_at(Q[:2])))
    np.testing.assert_allclose(pending.mean_at(Q), whole.mean_at(Q), atol=1e-10)
    np.testing.assert_allclose(
        pending.mean_var(Q)[1] / pending.signal, believed.mean_var(Q)[1] / believed.signal, atol=1e-9
    )
    assert pending.n == whole.n
    assert pending.signal == pytest.approx(whole.signal)


@pytest.mark.parametrize("most", [1, 100], ids=["few labels", "many labels"])
def test_paths_have_the_posterior_moments(most):
    labels = LABELS * most
    X, y, Q = data(n=15, labels=labels)
    gp = GP.exact(Kernel("matern52", 5, labels), Hyper(np.full(5, 0.5), 1e-3, 1.0, 0.2), X, y)
    path, Z = gp.path(np.random.default_rng(0)), gp.factor.embed(Q)
    np.testing.assert_allclose(path._phase(Z), Z @ path.frequencies().T, atol=1e-12)
    mean, cov = gp.mean_at(Q), covariance(gp, Q)
    paths = np.array([gp.path(np.random.default_rng(s))(Q)[0] for s in range(600)])
    sd = np.sqrt(np.diag(cov))
    # four standard errors of a mean, and of a covariance whose entries are at most sd_i sd_j
    assert (np.abs(paths.mean(axis=0) - mean) < 4 * sd / math.sqrt(len(paths))).all()
    assert (np.abs(np.cov(paths.T) - cov) < 5 * np.sqrt(2 / len(paths)) * np.outer(sd, sd)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_paths_far_from_all_values_have_the_covariance_of_their_kernel(kind):
    """One value that says nothing: what is drawn is the prior, whose kinds of kernel differ by .08 half a length-scale
    and a length-scale away."""
    told = np.array([[0.9, 0.1]]), np.array([0.7]), np.array([1e6])
    gp = GP.exact(Kernel(kind, 2), Hyper(np.full(2, 0.3), 1e-3), *told)
    Q = np.array([[0.1, 0.4], [0.25, 0.4], [0.4, 0.4], [0.1, 0.95]])
    rng = np.random.default_rng(5)
    draws = np.array([gp.path(rng)(Q)[0] for _ in range(8000)])
    r2 = ((Q[:, None] - Q[None]) ** 2).sum(axis=-1) / 0.3**2
    wanted = correlation(kind, r2, np.sqrt, np.exp)
    np.testing.assert_allclose(np.cov(draws.T) / gp.scale**2, wanted, atol=0.055)  # of the other kind .083 away


def test_a_path_passes_the_values_when_there_is_no_noise():
    X, y, _ = data(n=20)
    gp = GP.exact(Kernel("matern52", 5), Hyper(np.full(5, 0.5), 1e-8), X, y)
    np.testing.assert_allclose(gp.path(np.random.default_rng(0))(X)[0], y, atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_in_place_is_the_one_for_any_library(kind):
    r2 = np.linspace(0.0, 9.0, 40).reshape(5, 8)
    value, slope = Kernel(kind, 2).base_slope(r2.copy())
    np.testing.assert_allclose(value, correlation(kind, r2, np.sqrt, np.exp), rtol=1e-14)
    np.testing.assert_array_equal(value, Kernel(kind, 2).base(r2.copy()))
    np.testing.assert_allclose(value, correlation(kind, torch.from_numpy(r2), torch.sqrt, torch.exp), rtol=1e-14)
    step = 1e-6
    difference = correlation(kind, r2 + 1 + step, np.sqrt, np.exp) - correlation(kind, r2 + 1 - step, np.sqrt, np.exp)
    np.testing.assert_allclose(Kernel(kind, 2).base_slope(r2 + 1)[1], difference / (2 * step), atol=1e-8)
    assert slope.max() < 0


def test_jitter_is_the_least_that_helps_and_ends():
    tried = []

    def needs(least):
        def factor(jitter):
            tried.append(jitter)
            return np.eye(2), int(jitter < least)

        return factor

    assert factor_with_jitter(needs(0.0))[1] == 0.0
    tried.clear()
    assert factor_with_jitter(needs(3e-9))[1] == pytest.approx(1e-8)
    np.testing.assert_allclose(tried, [0.0, 1e-10, 1e-9, 1e-8])
    with pytest.raises(ArithmeticError, match="covariance"):
        factor_with_jitter(needs(math.inf))


def test_jitter_is_only_added_where_needed_and_is_reported():
    X, y, Q = data(n=30)
    kernel = Kernel("se", 5)
    assert GP.exact(kernel, Hyper(np.full(5, 0.5), 1e-6), X, y).factor.jitter == 0.0
    stiff = GP.exact(kernel, Hyper(np.full(5, 50.0), 1e-8), np.repeat(X, 20, axis=0), np.repeat(y, 20))
    assert np.isfinite(stiff.mean_var(Q)).all()
    assert 0.0 <= stiff.factor.jitter < 1e-6


def test_memory_stays_quadratic():
    """At n = 220, d = 400 an n x n x d array would be 155 MB; the whole fit stays below a tenth of it."""
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.random((220, 400))
    y = X[:, :5].sum(axis=1)
    surrogate = Surrogate(Cube.box(400), ard=True)
    tracemalloc.start()
    surrogate.gp(X[:200], y[:200])
    surrogate.gp(X, y).mean_var_grad(X[:10])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6
