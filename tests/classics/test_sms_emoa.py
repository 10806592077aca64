"""SMS-EMOA: what leaves the population, that the history alone decides, and fronts that it reaches."""

import numpy as np
import pytest

from regretless.classics.random_search import RandomSearch
from regretless.classics.sms_emoa import SMSEMOA, crossed, mutated, reaches
from regretless.fronts.dominance import nondominated
from regretless.fronts.hypervolume import contributions, hypervolume
from regretless.history import History
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int
from regretless.testing import Loop


def zdt1(X: np.ndarray) -> np.ndarray:
    """The first problem of Zitzler, Deb and Thiele (2000), to be maximised."""
    g = 1 + 9 * X[:, 1:].mean(axis=1)
    return -np.column_stack([X[:, 0], g * (1 - np.sqrt(X[:, 0] / g))])


def after(method: type, n: int, budget: int, seed: int = 0) -> Loop:
    loop = Loop(method(8, seed=seed, budget=budget))
    loop.history = History(8, objectives=2)
    for _ in range(n):
        X = loop.ask()
        loop.tell(X, zdt1(X))
    return loop


def test_it_reaches_a_front_that_draws_do_not() -> None:
    reference = np.array([-1.1, -1.1])
    assert hypervolume(after(SMSEMOA, 1500, 1500).history.Y, reference) > 0.7
    assert hypervolume(after(RandomSearch, 1500, 1500).history.Y, reference) < 0.1


def test_the_population_is_a_function_of_the_history() -> None:
    loop = after(SMSEMOA, 130, 400)
    fresh = Loop(SMSEMOA(8, seed=0, budget=400))
    fresh.history = History(8, objectives=2).with_values(loop.history.X, loop.history.Y)
    assert np.array_equal(fresh.ask(step=200), loop.ask(step=200))


def test_the_least_of_the_last_layer_leaves() -> None:
    method = SMSEMOA(2, seed=0, budget=400)
    Y = np.random.default_rng(1).random((21, 2))
    history = History(2, objectives=2).with_values(method.cube.snap(np.random.default_rng(2).random((21, 2))), Y)
    method._catch_up(history)
    left = [i for i, y in enumerate(Y) if not (y == method._Y).all(axis=1).any()]
    assert len(left) == 1
    assert not nondominated(Y)[left[0]]


def test_estimated_contributions_are_in_proportion_to_exact_ones() -> None:
    rng = np.random.default_rng(0)
    Y = rng.random((40, 3))
    Y = Y[nondominated(Y)]
    directions = np.abs(rng.standard_normal((40_000, 3)))
    directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
    exact, estimated = contributions(Y, np.zeros(3)), reaches(Y, directions)
    assert estimated / estimated.sum() == pytest.approx(exact / exact.sum(), abs=0.01)


def test_children_stay_in_the_cube_and_near_their_parents() -> None:
    rng = np.random.default_rng(0)
    a, b = np.full(1000, 0.02), np.full(1000, 0.5)
    child = crossed(a, b, rng)
    assert ((child >= 0) & (child <= 1)).all()
    assert abs(np.mean(child[child != a]) - 0.26) < 0.05, "half of the crossed coordinates lie about each parent"
    moved = np.array([mutated(np.full(50, 0.98), np.zeros(50, dtype=bool), rng) for _ in range(400)])
    assert 0.8 < (moved != 0.98).sum(axis=1).mean() < 1.2, "one coordinate moves on average"
    assert ((moved >= 0) & (moved <= 1)).all()


def test_awkward_spaces_are_searched() -> None:
    space = Space({"a": Float(2e-4, 3.0, log=True), "b": Int(-3, 4), "c": Choice(["u", "v", "w"])})
    loop = Loop(SMSEMOA(space.cube(), seed=0, budget=400))
    loop.history = History(3, objectives=3)
    for _ in range(60):
        X = loop.ask()
        loop.tell(X, np.column_stack([X.sum(axis=1), -X[:, 0], -((X[:, 2] - 0.5) ** 2)]))
    labels = {space.decode(x)["c"] for x in loop.history.X[30:]}
    assert labels == {"u", "v", "w"}
