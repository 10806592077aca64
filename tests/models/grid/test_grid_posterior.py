"""The fast posteriors on grids equal a direct solve; the features reproduce the kernel."""

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve

from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import RowPosterior, SEFeatures, correlation, product_grid
from regretless.space.parameters import Array

LENGTHSCALE, NOISE = 0.2, 0.01
AXES = {1: 50, 2: 18, 3: 6}


def direct(
    kernel: KernelKind, X: Array, y: Array, grid: Array, noise: Array | float = NOISE
) -> tuple[Array, Array, float]:
    """Mean, variance and information gain by one solve with the full covariance; noise: one variance, or one per
    sample."""
    noise = np.full(len(X), noise)
    K = correlation(kernel, X, X, LENGTHSCALE) + np.diag(noise)
    cross = correlation(kernel, X, grid, LENGTHSCALE)
    solved = cho_solve(cho_factor(K), np.column_stack([cross, y]))
    gain = 0.5 * (np.linalg.slogdet(K)[1] - np.log(noise).sum())
    return cross.T @ solved[:, -1], 1 - (cross * solved[:, :-1]).sum(axis=0), float(gain)


def samples(grid: Array, n: int, rng: np.random.Generator) -> list[tuple[int, Array, float]]:
    """n samples: 39 in 40 at grid points, the others anywhere; index -1 marks those."""
    out = []
    for i in range(n):
        index = int(rng.integers(len(grid))) if i % 40 else -1
        out.append((index, grid[index] if index >= 0 else rng.random(grid.shape[1]), float(rng.standard_normal())))
    return out


def fill(posterior: RowPosterior, points: list[tuple[int, Array, float]]) -> None:
    for index, x, y in points:
        if index >= 0:
            posterior.add(index, y)
        else:
            posterior.add_at(x, y)


def fresh(grid: Array, kernel: KernelKind) -> RowPosterior:
    prior = correlation(kernel, grid, grid, LENGTHSCALE)
    return RowPosterior(grid, prior, kernel=kernel, lengthscale=LENGTHSCALE, noise_var=NOISE)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["se", "matern52"])
def test_rows_equal_a_direct_solve_over_2000_samples_with_prior_data(kernel: KernelKind, dim: int) -> None:
    rng = np.random.default_rng(dim)
    grid = product_grid([np.linspace(0, 1, AXES[dim])] * dim)
    prior = rng.random((30, dim)), rng.standard_normal(30)
    posterior = RowPosterior(
        grid, correlation(kernel, grid, grid, LENGTHSCALE), kernel=kernel, lengthscale=LENGTHSCALE, noise_var=NOISE
    )
    posterior.condition(*prior)
    points = samples(grid, 2000, rng)
    fill(posterior, points)
    X, y = np.concatenate([prior[0], [x for _, x, _ in points]]), np.concatenate([prior[1], [v for _, _, v in points]])
    mean, variance, gain = direct(kernel, X, y, grid)
    assert np.abs(posterior.mean - mean).max() < 1e-9
    assert np.abs(posterior.variance - variance).max() < 1e-9
    assert abs(posterior.gain - gain) < 1e-8


@pytest.mark.parametrize("lengthscale", [0.1, 0.4, 2.0])
def test_features_equal_a_direct_solve_in_three_dimensions(lengthscale: float) -> None:
    """The kernel itself, off every node and on the borders; in three dimensions the posterior test would only repeat
    it."""
    rng = np.random.default_rng(0)
    dim = 3 if lengthscale > 0.2 else 2
    features = SEFeatures(dim, lengthscale)
    X = np.concatenate([rng.random((60, dim)), np.zeros((1, dim)), np.ones((1, dim))])
    assert np.abs(features(X) @ features(X).T - correlation("se", X, X, lengthscale)).max() < 1e-11


@pytest.mark.parametrize("kernel", ["se", "matern52"])
def test_samples_of_different_noise_equal_a_direct_solve(kernel: KernelKind) -> None:
    rng = np.random.default_rng(5)
    grid = product_grid([np.linspace(0, 1, 12)] * 2)
    points, noise = samples(grid, 300, rng), rng.choice([1e-5, 0.01, 0.5, 40.0], size=300)
    posterior = fresh(grid, kernel)
    X, y = np.array([x for _, x, _ in points]), np.array([v for _, _, v in points])
    posterior.condition(X[:50], y[:50], NOISE / noise[:50])
    for (index, x, value), variance in zip(points[50:], noise[50:].tolist(), strict=True):
        if index >= 0:
            posterior.add(index, value, variance)
        else:
            posterior.add_at(x, value, variance)
    mean, variances, gain = direct(kernel, X, y, grid, noise)
    assert np.abs(posterior.mean - mean).max() < 1e-8
    assert np.abs(posterior.variance - variances).max() < 1e-8
    assert abs(posterior.gain - gain) < 1e-6


def test_variance_after_is_the_variance_with_the_pending_values_and_leaves_no_trace() -> None:
    rng = np.random.default_rng(1)
    grid = product_grid([np.linspace(0, 1, 12)] * 2)
    a, b, c, pending = fresh(grid, "se"), fresh(grid, "se"), fresh(grid, "se"), rng.random((3, 2))
    points = samples(grid, 40, rng)
    for posterior in (a, b, c):
        fill(posterior, points)
    after = a.variance_after(pending)
    for x in pending:
        b.add_at(x, 3.0)
    assert np.allclose(after, b.variance, atol=1e-12)
    a.add(5, 1.0)
    c.add(5, 1.0)
    assert np.array_equal(a.mean, c.mean)
    assert np.array_equal(a.variance, c.variance)
    assert a.gain == c.gain


def test_condition_refuses_a_posterior_that_has_samples() -> None:
    posterior = fresh(np.array([[0.5]]), "se")
    posterior.add(0, 1.0)
    with pytest.raises(ValueError, match="without any"):
        posterior.condition(np.array([[0.1]]), np.array([0.0]))
