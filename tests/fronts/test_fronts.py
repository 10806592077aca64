"""Dominance, hypervolume, free boxes and the choice of a member, against slow forms and draws."""

import itertools

import numpy as np
import pytest

from regretless.classics.random_search import SobolSearch
from regretless.fronts.choice import compromise
from regretless.fronts.dominance import layers, nondominated
from regretless.fronts.hypervolume import contributions, free_boxes, hypervolume
from regretless.history import History

CASES = [(k, seed) for k in (2, 3, 4) for seed in range(6)]


def values(k: int, seed: int) -> np.ndarray:
    """A dozen values; every other seed has ties in single objectives, and whole rows twice."""
    Y = np.random.default_rng(seed).random((12, k))
    return np.round(np.concatenate([Y, Y[:2]]), 1) if seed % 2 else Y


def dominates(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a >= b).all() and (a > b).any())


@pytest.mark.parametrize(("k", "seed"), CASES)
def test_dominance_is_that_of_all_pairs(k: int, seed: int) -> None:
    Y = values(k, seed)
    assert nondominated(Y).tolist() == [not any(dominates(z, y) for z in Y) for y in Y]
    depth = layers(Y)
    for y, here in zip(Y, depth, strict=True):
        above = [depth[i] for i, z in enumerate(Y) if dominates(z, y)]
        assert here == (max(above) + 1 if above else 0)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_many_rows_have_the_front_that_few_have(k: int) -> None:
    Y = np.round(np.random.default_rng(k).standard_normal((700, k)), 1)
    parts = np.concatenate([nondominated(Y[start : start + 100]) for start in range(0, 700, 100)])
    best = Y[parts]  # the front is among those of the parts
    members = {tuple(y) for y in best[nondominated(best)].tolist()}
    assert nondominated(Y).tolist() == [tuple(y) in members for y in Y.tolist()]


@pytest.mark.parametrize(("k", "seed"), CASES)
def test_the_volume_is_that_of_the_union_of_boxes(k: int, seed: int) -> None:
    Y, reference = values(k, seed), np.full(k, 0.15)
    edges = [np.unique(np.concatenate([[0.15], np.maximum(column, 0.15)])) for column in Y.T]
    total = 0.0
    for cell in itertools.product(*(range(len(e) - 1) for e in edges)):
        top = np.array([e[i + 1] for e, i in zip(edges, cell, strict=True)])
        low = np.array([e[i] for e, i in zip(edges, cell, strict=True)])
        total += float(np.prod(top - low)) * bool((top <= Y).all(axis=1).any())
    assert hypervolume(Y, reference) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(("k", "seed"), CASES)
def test_a_member_contributes_what_the_volume_loses_without_it(k: int, seed: int) -> None:
    Y, reference = values(k, seed), np.full(k, 0.15)
    front = np.unique(Y[nondominated(Y)], axis=0)
    whole = hypervolume(front, reference)
    lost = [whole - hypervolume(np.delete(front, i, axis=0), reference) for i in range(len(front))]
    assert contributions(front, reference) == pytest.approx(lost, abs=1e-12)


@pytest.mark.parametrize(("k", "seed"), [case for case in CASES if case[0] < 4])
def test_free_boxes_hold_every_free_point_once(k: int, seed: int) -> None:
    Y, reference = values(k, seed), np.full(k, 0.15)
    lower, upper = free_boxes(Y, reference)
    points = reference + 1.2 * np.random.default_rng(seed + 100).random((3000, k))
    inside = sum(
        ((points > low) & (points < top)).all(axis=1).astype(int) for low, top in zip(lower, upper, strict=True)
    )
    dominated = (points[:, None] <= Y).all(axis=2).any(axis=1)
    assert np.array_equal(inside, np.where(dominated, 0, 1))
    assert len(lower) <= 2 * nondominated(Y).sum() + 1


def test_nothing_above_the_reference_leaves_everything_free() -> None:
    for k in (1, 2, 3):
        lower, upper = free_boxes(np.zeros((4, k)), np.full(k, 0.5))
        assert lower.tolist() == [[0.5] * k]
        assert np.isinf(upper).all()
        assert hypervolume(np.zeros((4, k)), np.full(k, 0.5)) == 0.0


def test_the_compromise_does_not_depend_on_units() -> None:
    front = np.array([[1.0, 0.0], [0.7, 0.6], [0.3, 0.8], [0.0, 1.0]])
    assert compromise(front) == 1
    assert compromise(front * [1e6, 1e-3] + [7.0, -40.0]) == 1
    assert compromise(front, np.array([1.0, 8.0])) == 2
    assert compromise(front, np.array([0.0, 1.0])) == 3
    assert compromise(front[[0, 3]]) == 0, "of two ends the first is as good as the other"
    assert compromise(np.array([[1.0, 5.0], [2.0, 5.0]])) == 1, "an objective that never varies decides nothing"


def test_under_noise_a_setting_of_a_front_has_the_mean_of_its_values() -> None:
    X = [[0.2, 0.45], [0.2, 0.45], [0.7, 0.9], [0.2, 0.45], [0.7, 0.9], [0.05, 0.3]]
    Y = np.array([[1.0, 50.0], [4.0, -10.0], [2.0, 9.0], [1.0, 20.0], [3.0, 5.0], [-1.0, -1.0]])
    variances = np.array([[0.09, 4.0], [0.36, 1.0], [0.16, 1.0], [0.36, 4.0], [0.09, 1.0], [0.09, 1.0]])
    history = History(2, objectives=2).with_values(X, Y, yvar=variances)
    rows, means, sds = SobolSearch(2, seed=0).front(history)
    assert rows.tolist() == [0, 2]
    assert np.allclose(means, [[2.0, 20.0], [2.5, 7.0]])
    assert np.allclose(sds, [[0.9 / 3, 1.0], [0.25, np.sqrt(2) / 2]])
