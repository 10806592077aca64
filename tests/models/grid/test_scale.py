"""The fitted scale of noisy values, and averages of values at and near the same point."""

import math

import numpy as np
import pytest

from regretless.models.grid.posterior import correlation
from regretless.models.grid.scale import fit_scale, grouped, merged, weights


def test_the_scale_finds_what_generated_the_values() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((70, 2))
    L = np.linalg.cholesky(correlation("se", X, X, 0.3) + 1e-10 * np.eye(70))
    y = 500 + 20 * (L @ rng.standard_normal(70)) + 2 * rng.standard_normal(70)
    scale = fit_scale(X, y, "se")
    assert 0.15 < scale.lengthscale < 0.6
    assert 1.2 < scale.sd * math.sqrt(scale.noise_var) < 3.2
    assert abs(scale.shift - 500) < 40
    assert fit_scale(X, 3 * y - 7, "se").sd == pytest.approx(3 * scale.sd)
    known = fit_scale(X, y, "se", lengthscale=0.3, noise_sd=2.0)
    assert known.lengthscale == 0.3
    assert known.sd * math.sqrt(known.noise_var) == pytest.approx(2.0)


@pytest.mark.parametrize("size", [1e160, 1e300, 1e-200])
def test_the_scale_of_values_of_any_size_is_finite_and_proportional(size: float) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.random((40, 3)), rng.standard_normal(40)
    plain, large = fit_scale(X, y, "se"), fit_scale(X, size * y, "se")
    assert large.sd == pytest.approx(size * plain.sd)
    assert large.noise_var == plain.noise_var
    assert math.isfinite(large.observed_noise_var)
    assert np.allclose(large.inside(size * y), plain.inside(y))
    y[7] = size
    one = fit_scale(X, y, "se", noise_sd=0.1)
    assert np.isfinite([one.shift, one.sd, one.lengthscale, one.noise_var, one.observed_noise_var]).all()


def test_grouping_and_merging_keep_sums() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (200, 2)) / 4 + 1e-3 * rng.integers(0, 3, (200, 2))
    y = rng.standard_normal(200)
    for P, v, n in (grouped(X, y), merged(X, y, 40)):
        assert n.sum() == 200
        assert (v * n).sum() == pytest.approx(y.sum())
        assert np.allclose((P * n[:, None]).sum(axis=0), X.sum(axis=0))
    assert len(grouped(X, y)[1]) == len(np.unique(X, axis=0))
    assert len(merged(X, y, 40)[1]) <= 40


def test_weights_are_inverse_variances_in_units_of_the_noise() -> None:
    assert weights(np.full(3, np.nan), 0.5) is None
    given = weights(np.array([np.nan, 0.25, 2.0, 0.0]), 0.5)
    assert given is not None
    assert given.tolist() == [1.0, 2.0, 0.25, 1e6]
    X, y, total = grouped(np.array([[0.1], [0.1], [0.4]]), np.array([1.0, 4.0, 2.0]), np.array([2.0, 1.0, 0.5]))
    assert X.tolist() == [[0.1], [0.4]]
    assert y.tolist() == [2.0, 2.0]
    assert total.tolist() == [3.0, 0.5]
