"""CMA-ES: the strategy against its definition, convergence, restarts, workers, discrete spaces."""

import numpy as np
import pytest

from regretless.classics import CLASSICS
from regretless.classics.cma_es import Search
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int
from regretless.testing import Loop, run

RECIPE = CLASSICS["cma-es"]
TARGET = np.array([0.23, 0.61, 0.48, 0.82])


def valley(X):
    """A narrow valley across the coordinates, condition 10^4, its top at TARGET."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    return -(((np.asarray(X) - TARGET) @ turn) ** 2 @ np.array([1.0, 10.0, 1e2, 1e4]))


def test_converges_along_a_turned_valley() -> None:
    loop = Loop(RECIPE.build(4, seed=3))
    run(loop, 1200, valley)
    assert loop.history.y.max() > -1e-9


def test_a_first_generation_follows_the_definition() -> None:
    """The mean of a generation drawn from it is the weighted mean of its better half (tutorial, Eq. 41 and 42)."""
    search, rng = Search(np.full(3, 0.5), 0.2, 8), np.random.default_rng(1)
    X = np.array([search.draw(rng) for _ in range(8)])
    X = 0.5 + (X - 0.5) * np.minimum(1.0, 0.4 / np.abs(X - 0.5).max())
    y = rng.standard_normal(8)
    w = np.log(4.5) - np.log(np.arange(1, 5))
    best = X[np.argsort(-y)[:4]]
    search.learn(X, y)
    assert np.allclose(search.mean, (w / w.sum()) @ best, rtol=0, atol=1e-12)
    assert np.allclose(search.C, search.C.T)
    assert (np.linalg.eigvalsh(search.C) > 0).all()


@pytest.mark.parametrize(("dim", "population"), [(2, 30), (3, 7), (10, 12), (40, 15)])
def test_weights_good_and_bad_are_those_of_pycma(dim, population) -> None:
    weights = pytest.importorskip("cma.recombination_weights").RecombinationWeights(population)
    search = Search(np.full(dim, 0.5), 0.3, population)
    weights.finalize_negative_weights(dim, search.c_1, search.c_mu)
    np.testing.assert_allclose(search.weights, np.array(weights), atol=1e-12)
    assert search.mueff == pytest.approx(weights.mueff)


@pytest.mark.parametrize("dim", [1, 3, 120])
def test_the_distribution_depends_on_the_order_of_the_values_alone(dim) -> None:
    """Points of workers and of others: seen one by one or at once, the strategy ends in the same place, bit for bit."""
    rng = np.random.default_rng(5)
    X, y = rng.random((200, dim)), rng.standard_normal(200)
    one, bulk = Loop(RECIPE.build(dim, seed=1)), Loop(RECIPE.build(dim, seed=1))
    bulk.tell(X, y)
    for i in range(200):
        one.tell(X[i : i + 1], y[i : i + 1])
        one.method.search(one.history)
    assert np.array_equal(one.ask(4, step=200), bulk.ask(4, step=200))
    assert one.method.search(one.history).generation > 3


def test_restarts_leave_a_local_optimum() -> None:
    """Two peaks, the lower of which fills most of the space: the first search ends there, a later one does not."""

    def peaks(X):
        low = np.exp(-((X - 0.5) ** 2).sum(axis=1) / 0.18)
        return np.maximum(low, 2 * np.exp(-((X - 0.87) ** 2).sum(axis=1) / 0.015))

    loop = Loop(RECIPE.build(2, seed=2))
    begun = set()
    for _ in range(100):
        run(loop, 30, peaks)
        begun.add(loop.method.search(loop.history).begun)
    assert len(begun) > 2
    assert loop.history.y.max() > 1.99


def test_discrete_coordinates_never_freeze() -> None:
    """Whole numbers, steps and labels are still searched when the lines have converged."""
    space = Space(
        {
            "a": Float(1e-4, 1e2, log=True),
            "n": Int(3, 12),
            "s": Float(-1, 2, step=0.5),
            "c": Choice(["u", "v", "w", "x", "y"]),
        }
    )
    cube = space.cube()

    def value(X):
        settings = [space.decode(x) for x in X]
        return np.array(
            [-abs(np.log(s["a"])) - abs(s["n"] - 9) - abs(s["s"] - 1.5) - 3 * (s["c"] != "y") for s in settings]
        )

    loop = Loop(RECIPE.build(cube, seed=0))
    X = run(loop, 600, value)
    assert np.array_equal(cube.snap(X), X)
    best = space.decode(loop.recommend())
    assert (best["n"], best["s"], best["c"]) == (9, 1.5, "y")
    assert len(np.unique(X[-100:, cube.discrete], axis=0)) > 10


def test_a_search_that_creeps_has_its_time() -> None:
    """Values that rise a little in every generation, without an end: 100 + 50 (d + 3)^2 / sqrt(lambda) generations."""
    search, rng = Search(np.full(2, 0.5), 0.1, 6), np.random.default_rng(2)
    ended = None
    for g in range(1, 1000):
        search.sigma = 0.1  # neither converged nor out of shape
        search.C, search.axes, search.scales = np.eye(2), np.eye(2), np.ones(2)
        search.learn(0.5 + 0.1 * rng.standard_normal((6, 2)), g * 1e-6 + 1e-7 * rng.random(6))
        if search.finished():
            ended = g
            break
    assert ended == 611  # 100 + 50 * 25 / sqrt(6) = 610.3
