"""The subspace maximiser: cached sums against direct ones, its limits, and bits that do not depend on the order of
events."""

from __future__ import annotations

import numpy as np
import pytest

from regretless.history import History
from regretless.methods.ms_ucb.base_set import BaseSet
from regretless.methods.ms_ucb.subspaces import (
    PosteriorArrays,
    SubspacePosterior,
    Subspaces,
    best_in_coordinates,
    coordinates_that_matter,
    maximise_subspaces,
    random_blocks,
)
from regretless.models.gp.fit import Prior
from regretless.models.gp.kernels import Kernel
from regretless.models.gp.maximiser import Acquisition
from regretless.models.gp.posterior import GP, Hyper
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Axis


def bound(mean, variance):
    sd = np.sqrt(np.maximum(variance, 1e-20))
    return mean + 1.5 * sd, np.ones_like(mean), 0.75 / sd


def data(n=25, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(3 * X[:, 0]) - ((X - 0.4) ** 2).sum(axis=1), rng


def posteriors(d=12):
    X, y, _ = data(d=d)
    plain = GP.exact(Kernel("matern52", d), Hyper(np.array([1.5]), 1e-4), X, y)
    per_coordinate = GP.exact(Kernel("se", d), Hyper(np.linspace(0.8, 2.0, d), 1e-4), X, y).condition(
        np.full((2, d), 0.3)
    )
    return {"isotropic": plain, "ard": per_coordinate}


def points(bases, free, values):
    X = bases.copy()
    np.put_along_axis(X, free, values, axis=1)
    return X


@pytest.mark.parametrize("name", ["isotropic", "ard"])
def test_values_and_gradients_along_a_subspace_are_those_of_the_posterior(name):
    gp = posteriors()[name]
    rng = np.random.default_rng(1)
    bases, free, values = rng.random((7, 12)), random_blocks(7, 3, np.arange(12), None, rng), rng.random((7, 3))
    arrays = PosteriorArrays(gp)
    model = SubspacePosterior(arrays, bound)
    fixed = arrays.squared(bases) - model.squared(free, np.take_along_axis(bases, free, axis=1))
    X = points(bases, free, values)
    mean, variance, dm, dv = gp.mean_var_grad(X)
    value, by_mean, by_variance = bound(mean, variance)
    np.testing.assert_allclose(model.scores(fixed, free, values), value, atol=1e-9)
    order = np.array([4, 0, 6])  # some rows only, in any order, as a batched minimiser asks
    negative, gradient = model.descent(fixed, free)(np.column_stack([values[order], order]))
    np.testing.assert_allclose(-negative, value[order], atol=1e-9)
    full = by_mean[:, None] * dm + by_variance[:, None] * dv
    np.testing.assert_allclose(-gradient[:, :-1], np.take_along_axis(full, free, axis=1)[order], rtol=1e-6, atol=1e-8)
    assert not gradient[:, -1].any()


def drawn(count, dim):
    """Base points of the first iteration."""
    bases = BaseSet(Cube.box(dim), 3, count, 0.0, initial=0)
    assert bases.draw(History(dim)) == count
    return bases


def test_cached_distances_are_the_direct_ones():
    gp, (X, _, rng) = posteriors()["isotropic"], data()
    bases, nothing = drawn(5, 12), np.empty((0, 12))
    ours, theirs = bases.squared(PosteriorArrays(gp), X, nothing), PosteriorArrays(gp).squared(bases.Z)
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    pending = rng.random((2, 12))
    beside = gp.condition(pending)
    ours, theirs = bases.squared(PosteriorArrays(beside), X, pending), PosteriorArrays(beside).squared(bases.Z)
    np.testing.assert_allclose(ours, theirs, atol=1e-10)
    assert bases.squared(PosteriorArrays(posteriors()["ard"]), X, nothing) is None


def test_products_do_not_depend_on_when_they_were_computed():
    X, _, rng = data(n=40, d=301)
    pending = rng.random((3, 301))
    gradual = BaseSet(Cube.box(301), 3, 1, 0.0, initial=0)
    history = History(301)
    for step in range(1, 24):
        gradual.draw(history)
        gradual.products(X[: step + 10], pending)
        history = history.with_values(X[step - 1 : step], np.zeros(1))
    at_once = BaseSet(Cube.box(301), 3, 1, 0.0, initial=0)
    at_once.draw(history)
    gradual.draw(history)
    assert len(at_once.Z) == 24
    products = at_once.products(X, pending)
    assert np.array_equal(gradual.products(X, pending), products)
    np.testing.assert_allclose(products, (at_once.Z - 0.5) @ (np.concatenate([X, pending]) - 0.5).T, rtol=1e-9)


def test_all_coordinates_free_reaches_the_maximum_of_the_cube():
    gp = posteriors(d=2)["isotropic"]
    rng = np.random.default_rng(2)
    bases = rng.random((6, 2))
    X, values = maximise_subspaces(
        PosteriorArrays(gp),
        bound,
        Subspaces(bases, np.tile([0, 1], (6, 1)), np.zeros(6, dtype=bool)),
        rng,
        rounds=60,
    )
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    best = bound(*gp.mean_var(grid))[0].max()
    assert best - 1e-3 <= values[0] <= best + 1e-3
    np.testing.assert_allclose(bound(*gp.mean_var(X))[0], values, atol=1e-9)


def test_no_free_coordinate_picks_the_best_base_point():
    gp = posteriors()["isotropic"]
    rng = np.random.default_rng(3)
    bases = rng.random((30, 12))
    X, values = maximise_subspaces(
        PosteriorArrays(gp), bound, Subspaces(bases, np.empty((30, 0), dtype=np.intp), np.zeros(30, dtype=bool)), rng
    )
    scores = bound(*gp.mean_var(bases))[0]
    assert np.array_equal(X[0], bases[np.argmax(scores)])
    np.testing.assert_allclose(values[0], scores.max(), atol=1e-9)


def test_the_fixed_coordinates_stay():
    gp = posteriors()["ard"]
    bases = np.random.default_rng(4).random((20, 12))
    free = random_blocks(20, 3, np.arange(12), None, np.random.default_rng(5))
    where = Subspaces(bases, free, np.zeros(20, dtype=bool))
    X, values = maximise_subspaces(PosteriorArrays(gp), bound, where, np.random.default_rng(6))
    for x in X:
        assert (((x != bases).sum(axis=1)) <= 3).any()
    np.testing.assert_allclose(bound(*gp.mean_var(X))[0], values, atol=1e-8)


def test_thinning_loses_nothing_against_ascending_every_subspace():
    gp, rng = posteriors()["isotropic"], np.random.default_rng(7)
    bases = rng.random((150, 12))
    where = Subspaces(bases, random_blocks(150, 4, np.arange(12), None, rng), np.zeros(150, dtype=bool))
    _, thinned = maximise_subspaces(PosteriorArrays(gp), bound, where, np.random.default_rng(8), rounds=40)
    _, all_of_them = maximise_subspaces(
        PosteriorArrays(gp), bound, where, np.random.default_rng(8), shortlist=150, ascents=150, rounds=40
    )
    assert thinned[0] >= all_of_them[0] - 0.02 * (all_of_them[0] - np.median(all_of_them))


def test_blocks_are_distinct_coordinates_and_follow_their_weights():
    rng, lines = np.random.default_rng(9), np.array([1, 3, 4, 8, 9, 20])
    for k in (1, 2, 5, 6):
        blocks = random_blocks(200, k, lines, None, rng)
        assert all(len(set(row)) == k and set(row) <= set(lines.tolist()) for row in blocks.tolist())
    many = random_blocks(300, 4, np.arange(1000), None, rng)
    assert all(len(set(row)) == 4 for row in many.tolist())
    weighted = random_blocks(500, 2, lines, np.array([100.0, 1, 1, 100.0, 1, 1]), rng)
    assert np.isin(weighted, [1, 8]).mean() > 0.9


def test_choices_can_be_fixed_but_the_quadratic_trend_is_refused():
    cube = Cube([Axis(), Axis(levels=3, categorical=True), Axis()])
    rng = np.random.default_rng(10)
    X = cube.snap(rng.random((12, 3)))
    gp = Surrogate(cube, quadratic=False).gp(X, X[:, 0] - (X[:, 1] > 0.4))
    bases = cube.snap(rng.random((5, 3)))
    found, values = maximise_subspaces(
        PosteriorArrays(gp), bound, Subspaces(bases, np.tile([0, 2], (5, 1)), np.ones(5, dtype=bool)), rng
    )
    np.testing.assert_allclose(bound(*gp.mean_var(found))[0], values, atol=1e-8)
    assert set(found[:, 1]) <= set(bases[:, 1])
    assert Prior.scaled(3).quadratic is not None
    with_trend = GP.exact(
        Kernel("matern52", 3), Hyper(np.ones(1), 1e-3, quadratic=0.5), rng.random((5, 3)), rng.random(5)
    )
    with pytest.raises(ValueError, match="quadratic"):
        PosteriorArrays(with_trend)


def test_the_few_coordinates_that_matter_are_told_apart():
    lengthscale = np.full(40, 100.0)
    lengthscale[[7, 30]] = 0.3, 0.5
    assert coordinates_that_matter(lengthscale).tolist() == [7, 30]
    assert len(coordinates_that_matter(np.ones(40))) == 40


def test_a_search_in_few_coordinates_leaves_the_others_as_they_are():
    centre = np.array([0.3, 0.9, 0.1, 0.6])
    incumbents = np.random.default_rng(0).random((2, 4))

    def score(X):
        return -((X - centre) ** 2).sum(axis=1)

    x = best_in_coordinates(
        np.array([1, 3]),
        Acquisition(lambda X: (score(X), 2 * (centre - X)), score),
        incumbents,
        np.random.default_rng(1),
    )
    np.testing.assert_allclose(x[[1, 3]], centre[[1, 3]], atol=1e-6)
    assert np.array_equal(x[[0, 2]], incumbents[0, [0, 2]])
