"""A history against plain lists: whatever is appended, in whatever branch, each sees its own part of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from regretless.history import History

PLACES = np.array([(0.125, 0.5), (0.3, 0.9), (0.71, 0.0), (1.0, 0.33), (0.625, 0.625), (0.05, 0.8)])
"""Few points, so that they come again."""


@dataclass(frozen=True)
class Lists:
    """What a history holds, said slowly."""

    told: tuple[tuple[int, float, float, float], ...] = ()
    """Places with value, variance and constraint."""
    failed: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()

    def with_values(self, places: list[int], y: list[float], var: list[float], side: list[float]) -> Lists:
        rest, told = self.without_pending(places).pending, [*zip(places, y, var, side, strict=True)]
        good = tuple(row for row in told if np.isfinite(row[1]))
        lost = tuple(row[0] for row in told if not np.isfinite(row[1]))
        return Lists((*self.told, *good), (*self.failed, *lost), rest)

    def without_pending(self, places: list[int]) -> Lists:
        left = list(self.pending)
        for place in places:
            if place in left:
                left.remove(place)
        return replace(self, pending=tuple(left))


def check(history: History, slow: Lists) -> None:
    at, y, var, side = (np.array(column) for column in zip(*slow.told, strict=True)) if slow.told else ([],) * 4
    rows = [list(map(int, at)), list(slow.failed), list(slow.pending)]
    assert len(history) == len(slow.told)
    assert history.evaluations == sum(map(len, rows))
    for found, wanted in zip((history.X, history.failed, history.pending), rows, strict=True):
        assert np.array_equal(found, PLACES[wanted].reshape(-1, 2))
    assert np.array_equal(history.known, PLACES[[*rows[0], *rows[1], *rows[2]]].reshape(-1, 2))
    for i, x in enumerate(PLACES):
        settled, pending = i in rows[0] + rows[1], i in rows[2]
        assert (history.is_settled(x), history.is_pending(x)) == (settled, pending)
        assert history.is_known(x) == (settled or pending)
    if not slow.told:
        return
    assert np.array_equal(history.y, y)
    assert np.array_equal(history.yvar, var, equal_nan=True)
    assert np.array_equal(history.constraints[:, 0], side)
    same = [[v for place, v, *_ in slow.told if place == i] for i in range(len(PLACES))]
    assert history.values_differ == (bool((var > 0).any()) or any(len(set(values)) > 1 for values in same))
    fine = side <= 0
    best = np.argmax(np.where(fine, y, -np.inf)) if fine.any() else np.argmin(side)
    assert history.best_row() == best
    assert np.array_equal(history.worth_using(), history.X[fine] if fine.any() else history.X[[best]])


@pytest.mark.parametrize("seed", range(6))
def test_a_history_is_what_was_appended_to_it_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    branches = [(History(2, constraints=1), Lists())]
    for _ in range(60):
        history, slow = branches[rng.integers(len(branches))]
        places = rng.integers(len(PLACES), size=rng.integers(0, 4)).tolist()
        kind = rng.integers(3)
        if kind == 0:
            values = [float("nan") if rng.random() < 0.25 else float(7e3 * rng.standard_normal()) for _ in places]
            var = [float(rng.random()) if seed % 2 and rng.random() < 0.1 else float("nan") for _ in places]
            side = rng.normal(0.5, 1, len(places)).tolist()
            told = PLACES[places].reshape(-1, 2), np.array(values)
            more = {"yvar": np.array(var), "side_values": np.reshape(side, (-1, 1))}
            branches.append((history.with_values(*told, **more), slow.with_values(places, values, var, side)))
        elif kind == 1:
            pending = replace(slow, pending=(*slow.pending, *places))
            branches.append((history.with_pending(PLACES[places].reshape(-1, 2)), pending))
        else:
            dropped = history.without_pending(PLACES[places].reshape(-1, 2))
            branches.append((dropped, slow.without_pending(places)))
        for found, wanted in branches:  # also those that others were made from
            check(found, wanted)


def test_points_outside_the_cube_are_for_models_alone() -> None:
    inside = History(2).with_values(PLACES[:2], [3.0, -4.0])
    beyond = inside.with_outside(np.array([[1.7, -0.2]]), np.array([-1e308]), np.array([0.5]))
    X, y, yvar = beyond.basis
    assert X.tolist() == [[1.7, -0.2], *PLACES[:2].tolist()]
    assert y.tolist() == [-1e307, 3.0, -4.0]
    assert yvar[0] == 0.5
    assert beyond.evaluations == len(beyond) == 2
    assert [len(part) for part in inside.basis] == [2, 2, 2]
    assert not beyond.values_differ


def test_a_history_extends_its_beginnings() -> None:
    first = History(2).with_values(PLACES[:3], [1.0, 2.0, 3.0])
    longer = first.with_values(PLACES[3:4], [4.0])
    other = History(2).with_values(PLACES[:3], [1.0, 2.0, 3.5])
    assert longer.extends(first)
    assert not first.extends(longer)
    assert History(2).with_values(PLACES[:4], [1.0, 2.0, 3.0, 4.0]).extends(first)
    assert not other.extends(first)
    assert not other.with_values(PLACES[3:4], [4.0]).extends(longer)
