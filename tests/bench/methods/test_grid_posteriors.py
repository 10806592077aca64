"""The posteriors that grid methods keep: equal to a direct solve, grown, regrouped, saved and loaded."""

import numpy as np
import pytest
from regretless_bench.methods.grid_posteriors import ProductPosterior, SavedRows
from scipy.linalg import cho_factor, cho_solve

from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import SEFeatures, correlation, product_grid
from regretless.models.grid.scale import grouped
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


def fill(posterior: SavedRows | ProductPosterior, points: list[tuple[int, Array, float]]) -> None:
    for index, x, y in points:
        if index >= 0:
            posterior.add(index, y)
        else:
            posterior.add_at(x, y)


@pytest.mark.parametrize("dim", [1, 2])
def test_features_equal_a_direct_solve_over_2000_samples(dim: int) -> None:
    rng = np.random.default_rng(dim)
    axes = [np.linspace(0, 1, AXES[dim])] * dim
    posterior = ProductPosterior(axes, noise_var=NOISE, features=SEFeatures(dim, LENGTHSCALE))
    points = samples(posterior.grid, 2000, rng)
    fill(posterior, points)
    mean, variance, gain = direct(
        "se", np.array([x for _, x, _ in points]), np.array([v for _, _, v in points]), posterior.grid
    )
    assert np.abs(posterior.mean - mean).max() < 1e-9
    assert np.abs(posterior.variance - variance).max() < 1e-9
    assert abs(posterior.gain - gain) < 1e-7


@pytest.mark.parametrize("form", ["rows, se", "rows, matern52", "features"])
def test_samples_of_different_noise_equal_a_direct_solve(form: str) -> None:
    rng = np.random.default_rng(5)
    axes = [np.linspace(0, 1, 12)] * 2
    grid = product_grid(axes)
    kernel: KernelKind = "matern52" if form.endswith("matern52") else "se"
    points = samples(grid, 300, rng)
    noise = rng.choice([1e-5, 0.01, 0.5, 40.0], size=300)
    posterior: SavedRows | ProductPosterior
    if form == "features":
        posterior, earlier = ProductPosterior(axes, noise_var=NOISE, features=SEFeatures(2, LENGTHSCALE)), 0
    else:
        posterior, earlier = SavedRows(grid, kernel=kernel, lengthscale=LENGTHSCALE, noise_var=NOISE), 50
        X, y = np.array([x for _, x, _ in points[:50]]), np.array([v for _, _, v in points[:50]])
        posterior.condition(X, y, NOISE / noise[:50])
    for (index, x, value), variance in zip(points[earlier:], noise[earlier:].tolist(), strict=True):
        if index >= 0:
            posterior.add(index, value, variance)
        else:
            posterior.add_at(x, value, variance)
    mean, variances, gain = direct(
        kernel, np.array([x for _, x, _ in points]), np.array([v for _, _, v in points]), grid, noise
    )
    assert np.abs(posterior.mean - mean).max() < 1e-8
    assert np.abs(posterior.variance - variances).max() < 1e-8
    assert abs(posterior.gain - gain) < 1e-6


def test_uneven_axes_and_their_numbering() -> None:
    axes = [np.array([0.1, 0.4, 0.9]), np.linspace(0, 1, 5)]
    posterior = ProductPosterior(axes, noise_var=NOISE, features=SEFeatures(2, LENGTHSCALE))
    rows = SavedRows(product_grid(axes), kernel="se", lengthscale=LENGTHSCALE, noise_var=NOISE)
    for index, y in ((7, 1.0), (14, -2.0), (0, 0.5), (7, 1.2)):
        posterior.add(index, y)
        rows.add(index, y)
    assert np.allclose(posterior.mean, rows.mean, atol=1e-12)
    assert np.allclose(posterior.variance, rows.variance, atol=1e-12)


@pytest.mark.parametrize("kind", ["rows", "features"])
def test_variance_after_is_the_variance_with_the_pending_values_and_leaves_no_trace(kind: str) -> None:
    rng = np.random.default_rng(1)
    axes = [np.linspace(0, 1, 12)] * 2
    grid = product_grid(axes)

    def fresh() -> SavedRows | ProductPosterior:
        if kind == "rows":
            return SavedRows(grid, kernel="se", lengthscale=LENGTHSCALE, noise_var=NOISE)
        return ProductPosterior(axes, noise_var=NOISE, features=SEFeatures(2, LENGTHSCALE))

    a, b, pending = fresh(), fresh(), rng.random((3, 2))
    points = samples(grid, 40, rng)
    fill(a, points)
    fill(b, points)
    after = a.variance_after(pending)
    for x in pending:
        b.add_at(x, 3.0)
    assert np.allclose(after, b.variance, atol=1e-12)
    c = fresh()
    fill(c, points)
    a.add(5, 1.0)
    c.add(5, 1.0)
    assert np.array_equal(a.mean, c.mean)
    assert np.array_equal(a.variance, c.variance)
    assert a.gain == c.gain


def test_points_added_to_the_grid_have_the_posterior_of_points_there_from_the_start() -> None:
    rng = np.random.default_rng(2)
    grid, more = rng.random((5, 2)), rng.random((70, 2))
    grown = SavedRows(grid, kernel="matern52", lengthscale=LENGTHSCALE, noise_var=NOISE)
    whole = SavedRows(np.concatenate([grid, more]), kernel="matern52", lengthscale=LENGTHSCALE, noise_var=NOISE)
    for i in range(80):
        if i < 35:
            grown.extend(more[2 * i : 2 * i + 2])
        for posterior in (grown, whole):
            posterior.add(i % 5, float(np.sin(i)))
    assert np.allclose(grown.mean, whole.mean, atol=1e-10)
    assert np.allclose(grown.variance, whole.variance, atol=1e-10)


def test_a_regrouped_posterior_equals_the_one_of_all_samples() -> None:
    rng = np.random.default_rng(4)
    grid = product_grid([np.linspace(0.1, 0.9, 6), np.linspace(0, 1, 5)])
    long = SavedRows(grid, kernel="matern52", lengthscale=LENGTHSCALE, noise_var=NOISE)
    index, y = rng.integers(12, size=90), rng.standard_normal(90)
    for i, value in zip(index.tolist(), y.tolist(), strict=True):
        assert long.is_long == (long.t >= 64)
        long.add(i, value)
    short = SavedRows(grid, kernel="matern52", lengthscale=LENGTHSCALE, noise_var=NOISE)
    short.condition(*grouped(grid[index], y))
    assert short.t == 12
    assert not short.is_long
    assert np.allclose(short.mean, long.mean, atol=1e-10)
    assert np.allclose(short.variance, long.variance, atol=1e-10)
    assert short.gain == pytest.approx(long.gain, abs=1e-9)


@pytest.mark.parametrize("name", ["half", "weights", "mean", "variance"])
def test_a_state_of_features_loads_bit_for_bit_and_a_damaged_one_is_refused(name: str) -> None:
    axes = [np.linspace(0.1, 0.7, 9), np.linspace(0, 1, 7)]
    first, second = (ProductPosterior(axes, noise_var=NOISE, features=SEFeatures(2, LENGTHSCALE)) for _ in range(2))
    fill(first, samples(first.grid, 50, np.random.default_rng(0)))
    state = first.state()
    second.load(state)
    for posterior in (first, second):
        posterior.add(11, 0.3)
    assert np.array_equal(first.mean, second.mean)
    assert np.array_equal(first.variance, second.variance)
    assert (first.gain, first.t) == (second.gain, second.t)
    state[name][0] += 1.0
    with pytest.raises(ValueError, match="do not agree"):
        second.load(state)
    with pytest.raises(ValueError, match=name):
        second.load({**state, name: state[name][1:]})


@pytest.mark.parametrize("conditioned", [0, 90])
def test_a_state_of_rows_loads_bit_for_bit_and_one_that_does_not_follow_is_refused(conditioned: int) -> None:
    rng = np.random.default_rng(3)
    grid = product_grid([np.linspace(0.1, 0.7, 9), np.linspace(0, 1, 7), np.array([0.25, 0.3])])
    X, y, noise = rng.random((140, 3)), rng.standard_normal(140), rng.choice([0.01, 0.3], 140)

    def fresh() -> SavedRows:
        return SavedRows(grid, kernel="matern52", lengthscale=LENGTHSCALE, noise_var=NOISE)

    first, second = fresh(), fresh()
    told = (X[:conditioned], y[:conditioned], NOISE / noise[:conditioned]) if conditioned else None
    later = list(zip(X[conditioned:], y[conditioned:].tolist(), noise[conditioned:].tolist(), strict=True))
    if told is not None:
        first.condition(*told)
    for sample in later:
        first.add_at(*sample)
    state = first.state()
    second.resume(state, told, later)
    ahead = rng.random((2, 3))
    assert np.array_equal(first.variance_after(ahead[:1]), second.variance_after(ahead[:1]))
    assert np.array_equal(first.variance_after(ahead), second.variance_after(ahead))
    for posterior in (first, second):
        posterior.extend(ahead)
        posterior.add(len(grid) + 1, 0.3)
        posterior.add_at(ahead[0], -0.4, 0.2)
    assert np.array_equal(first.mean, second.mean)
    assert np.array_equal(first.variance, second.variance)
    assert (first.gain, first.t) == (second.gain, second.t)
    mean, variance, _ = direct(
        "matern52", np.concatenate([X, ahead[1:], ahead[:1]]), np.append(y, [0.3, -0.4]), second.grid,
        np.append(noise, [NOISE, 0.2]),
    )  # fmt: skip
    assert np.abs(second.mean - mean).max() < 1e-9
    assert np.abs(second.variance - variance).max() < 1e-9
    for wrong in (
        {**state, "mean": state["mean"] + 1e-3},
        {**state, "variance": state["variance"] / 2},
        {**state, "mean": state["mean"] * np.nan},
        {**state, "mean": state["mean"][1:]},
    ):
        with pytest.raises(ValueError, match="mean and variance"):
            fresh().resume(wrong, told, later)


def test_condition_refuses_a_posterior_that_has_samples() -> None:
    posterior = SavedRows(np.array([[0.5]]), kernel="se", lengthscale=LENGTHSCALE, noise_var=NOISE)
    posterior.add(0, 1.0)
    with pytest.raises(ValueError, match="without any"):
        posterior.condition(np.array([[0.1]]), np.array([0.0]))
