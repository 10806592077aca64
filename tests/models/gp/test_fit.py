"""The MAP fit: gradients, BoTorch's optimum, and data that should break it."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from slow_forms import draw, log_evidence

from regretless.models.gp.fit import NegativeLogPosterior, Prior, fit
from regretless.models.gp.posterior import GP, Hyper, Kernel


@pytest.mark.parametrize("kind", ["se", "matern52"])
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("known", ["none", "some", "all"])
@pytest.mark.parametrize("labels", [None, np.array([0, 3, 0, 4])], ids=["lines", "choices"])
def test_gradient_is_a_finite_difference(kind, ard, known, labels):
    rng = np.random.default_rng(0)
    X = rng.random((300 if ard else 40, 4))  # more than one block of rows
    y = np.sin(5 * X[:, 0]) + X[:, 2] + 0.1 * rng.standard_normal(len(X))
    yvar = np.full(len(y), np.nan if known == "none" else 0.02)
    if known == "some":
        yvar[::2] = np.nan
    objective = NegativeLogPosterior(
        Kernel(kind, 4, labels), X, (y - y.mean()) / y.std(), yvar, Prior.scaled(4), ard=ard
    )
    theta = objective.centre + 0.3 * rng.standard_normal(len(objective.centre))
    if objective.at_noise >= 0:
        theta[objective.at_noise] = -4.0
    assert len(theta) == (4 if ard else 1) + (known != "all") + 1 + (known != "none")
    _, gradient = objective.one(theta)
    steps = 1e-5 * np.eye(len(theta))
    differences = [(objective.one(theta + s)[0] - objective.one(theta - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


def botorch_problem(seed):
    """Data sets of different size, dimension, smoothness and noise."""
    rng = np.random.default_rng(seed)
    d, n = (1, 2, 3, 5, 8)[seed % 5], (12, 25, 40, 60)[seed % 4]
    X = rng.random((n, d))
    w = rng.normal(size=d) * (1 + seed % 3)
    y = np.sin(3 * X @ w) + (X**2) @ rng.normal(size=d) + (0.0, 0.05, 0.3)[seed % 3] * rng.standard_normal(n)
    return X, (y - y.mean()) / y.std(ddof=1)


@pytest.mark.parametrize("seed", range(20))
def test_map_is_no_worse_than_botorchs(seed):
    """Same model and prior as BoTorch's default: SE, unit signal, LogNormal(sqrt2 + log(d)/2, sqrt3) length-scales,
    LogNormal(-4, 1) noise."""
    X, y = botorch_problem(seed)
    n, d = X.shape
    torch.manual_seed(seed)
    model = SingleTaskGP(torch.tensor(X), torch.tensor(y)[:, None], outcome_transform=None)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    theirs_l = model.covar_module.lengthscale.detach().numpy().ravel()
    theirs_noise = model.likelihood.noise.item()

    # a log-normal density in the parameter itself peaks, in the logarithm, where a normal shifted down by the variance
    # does
    prior = Prior(
        lengthscale=(math.sqrt(2) + 0.5 * math.log(d) - 3.0, math.sqrt(3)), noise=(-4.0 - 1.0, 1.0),
        quadratic=None, signal=None, profile=False, lengthscale_bounds=(2.5e-2, 1e6), noise_bounds=(1e-4, 1e4),
    )  # fmt: skip
    kernel = Kernel("se", d)
    objective = NegativeLogPosterior(kernel, X, y, None, prior, ard=True)
    hyper = fit(kernel, X, y, ard=True, prior=prior, rounds=40)
    theirs = objective.one(np.log(np.append(theirs_l, theirs_noise)))[0]
    ours = objective.one(objective.theta(hyper))[0]
    assert ours <= theirs + 1e-3 * n


def test_the_objective_is_the_evidence_of_the_posterior():
    """Without priors, the fit's objective and the posterior's log evidence differ by a constant only."""
    rng = np.random.default_rng(1)
    X, yvar = rng.random((30, 3)), np.full(30, 0.1)
    y = np.sin(4 * X[:, 0]) + 0.3 * rng.standard_normal(30)
    flat = Prior(lengthscale=(0.0, 1e9), noise=(0.0, 1e9), quadratic=(0.0, 1e9), signal=(0.0, 1e9))
    kernel = Kernel("matern52", 3)
    objective = NegativeLogPosterior(kernel, X, y, yvar, flat, ard=True)
    constants = []
    for seed in range(3):
        theta = 0.3 * np.random.default_rng(seed).standard_normal(len(objective.centre))
        gp = GP.exact(kernel, objective.hyper(theta), X, y, yvar)
        constants.append(objective.one(theta)[0] + log_evidence(gp))
    np.testing.assert_allclose(constants, -0.5 * 30 * math.log(2 * math.pi), atol=1e-8)


def test_length_scales_find_the_coordinates_that_matter():
    rng = np.random.default_rng(2)
    X = rng.random((80, 6))
    y = np.sin(6 * X[:, 1]) + np.cos(5 * X[:, 4])
    scales = fit(Kernel("matern52", 6), X, (y - y.mean()) / y.std()).lengthscale
    assert max(scales[1], scales[4]) < 0.5 * min(scales[[0, 2, 3, 5]])


@pytest.mark.parametrize("sd", [0.01, 0.1, 0.5])
def test_noise_is_found(sd):
    rng = np.random.default_rng(3)
    X = rng.random((120, 2))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + sd * rng.standard_normal(120)
    scale = y.std()
    kernel = Kernel("matern52", 2)
    hyper = fit(kernel, X, (y - y.mean()) / scale)
    gp = GP.exact(kernel, hyper, X, (y - y.mean()) / scale)
    assert math.sqrt(hyper.noise * gp.signal) * scale == pytest.approx(sd, rel=0.35)


def test_the_prior_on_length_scales_is_the_stated_normal():
    """sd 1 each, correlation 1 - sqrt(5 / d); one isotropic length-scale has sd 1 too."""
    rng = np.random.default_rng(4)
    X, y = rng.random((15, 20)), rng.standard_normal(15)
    for ard in (True, False):
        objective = NegativeLogPosterior(Kernel("se", 20), X, y, None, Prior.scaled(20), ard=ard)
        flat = NegativeLogPosterior(
            Kernel("se", 20),
            X,
            y,
            None,
            dataclasses.replace(Prior.scaled(20), lengthscale=(0.0, 1e9), shared=0.0),
            ard=ard,
        )
        theta = objective.centre.copy()
        away = 0.5 * rng.standard_normal(objective.scales)
        theta[: objective.scales] += away
        cov = np.full((20, 20), 1 - math.sqrt(5 / 20)) + math.sqrt(5 / 20) * np.eye(20) if ard else np.eye(1)
        assert objective.one(theta)[0] - flat.one(theta)[0] == pytest.approx(
            0.5 * away @ np.linalg.solve(cov, away), rel=1e-6
        )
        steps = 1e-5 * np.eye(len(theta))
        differences = [(objective.one(theta + s)[0] - objective.one(theta - s)[0]) / 2e-5 for s in steps]
        np.testing.assert_allclose(objective.one(theta)[1], differences, rtol=1e-5, atol=1e-5)


def test_a_short_common_length_scale_is_found_in_many_dimensions():
    """Values drawn from a process whose 60 length-scales are all a fifth of their prior's centre, at points close
    together."""
    rng = np.random.default_rng(5)
    X, truth, kernel = 0.5 + 0.05 * rng.standard_normal((120, 60)), 0.8, Kernel("matern52", 60)
    gp = GP.exact(kernel, Hyper(np.full(60, truth), 1e-8), X[:1] + 9.0, np.zeros(1))  # told one value far away: a prior
    y = draw(gp, X, 1, rng)[0]
    y = (y - y.mean()) / y.std()
    prior = Prior.scaled(60, quadratic=False)
    independent = dataclasses.replace(prior, lengthscale=(prior.lengthscale[0], 1.0), shared=0.0)
    ours, stiff = (float(np.median(fit(kernel, X, y, prior=p, rounds=40).lengthscale)) for p in (prior, independent))
    assert ours == pytest.approx(truth, rel=0.5)
    assert stiff > 2 * truth
