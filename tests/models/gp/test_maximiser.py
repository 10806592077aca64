"""The maximiser of acquisitions, on plain and mixed cubes."""

import itertools

import numpy as np
import pytest

from regretless.models.gp.maximiser import Acquisition, Effort, _moves, candidates, maximise, maximise_many
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int

MIXED = Space({"a": Float(-3, 5), "n": Int(1, 9), "big": Int(1, 2000), "c": Choice(["p", "q", "r"]), "b": Float(0, 2)})


def hills(P):
    """Three hills of different height and width in any dimension, with gradients."""
    f, g = np.zeros(len(P)), np.zeros_like(P)
    for at, height, width in ((0.2, 1.0, 0.3), (0.8, 1.5, 0.15), (0.5, 0.5, 0.6)):
        gap = P - at
        bump = height * np.exp(-(gap**2).mean(axis=1) / (2 * width**2))
        f += bump
        g -= bump[:, None] * gap / (width**2 * P.shape[1])
    return f, g


@pytest.mark.parametrize("d", [1, 2, 6])
def test_finds_the_highest_hill(d):
    x = maximise(Acquisition.of(hills), Cube.box(d), np.random.default_rng(0), incumbents=np.full((1, d), 0.2))
    grid = np.linspace(0, 1, 2001)[:, None] * np.ones(d)
    assert hills(x[None])[0][0] >= hills(grid)[0].max() - 1e-9


@pytest.mark.parametrize("target", [-0.5, 0.0, 1.0, 1.5])
def test_maxima_on_and_beyond_the_border(target):
    x = maximise(
        Acquisition.of(lambda P: (-((P - target) ** 2).sum(axis=1), -2 * (P - target))),
        Cube.box(4),
        np.random.default_rng(0),
        incumbents=np.empty((0, 4)),
    )
    np.testing.assert_allclose(x, np.clip(target, 0, 1), atol=1e-7)


def test_many_are_sorted_legal_and_as_good_as_said():
    X, f = maximise_many(
        Acquisition.of(hills),
        Cube.box(3),
        np.random.default_rng(1),
        incumbents=np.full((2, 3), 0.4),
        effort=Effort(starts=6),
    )
    assert X.shape == (6, 3)
    assert (np.diff(f) <= 0).all()
    np.testing.assert_allclose(hills(X)[0], f)
    assert ((X >= 0) & (X <= 1)).all()


@pytest.mark.parametrize("encoding", ["shares", "onehot"])
def test_mixed_cube_against_enumeration(encoding):
    """Every label and whole number is enumerated, the lines by a fine grid; the maximiser may not be worse."""
    cube = MIXED.cube(encoding)
    best_label = {"p": 0.2, "q": 0.5, "r": 0.0}

    def value(params):
        line = -((params["a"] - 1.3 - 0.1 * params["n"]) ** 2) / 10 - (params["b"] - 0.7) ** 2
        return (
            line
            - ((params["n"] - 6) / 4) ** 2
            - ((params["big"] - 777) / 1000) ** 2
            + best_label[params["c"]] * (1 + (params["n"] == 2))
        )

    def acquisition(P):
        f = np.array([value(MIXED.decode(x, encoding)) for x in P])
        g = np.zeros_like(P)
        for i in (0, 1):  # a and b, in the order of the names
            for sign in (1, -1):
                Q = P.copy()
                Q[:, i] = np.clip(Q[:, i] + sign * 1e-6, 0, 1)
                g[:, i] += sign * np.array([value(MIXED.decode(x, encoding)) for x in Q]) / 2e-6
        return f, g

    x = maximise(
        Acquisition.of(acquisition),
        cube,
        np.random.default_rng(0),
        incumbents=np.empty((0, cube.dim)),
        effort=Effort(raw=60, rounds=12),
    )
    np.testing.assert_allclose(cube.snap(x), x, rtol=0, atol=1e-12)  # lines are snapped by the method
    truth = max(
        value({"a": 1.3 + 0.1 * n, "b": 0.7, "n": n, "big": 777, "c": c})
        for n, c in itertools.product(range(1, 10), "pqr")
    )
    assert acquisition(x[None])[0][0] > truth - 0.01


def test_moves_are_few_legal_and_single_on_any_grid():
    """Long grids and large one-hot groups are sampled, short ones written out."""
    space = Space({"b": Int(0, 2**60, step=2**20), "c": Choice(list(range(3000))), "d": Int(1, 5), "e": Float(-1, 7)})
    rng = np.random.default_rng(0)
    for encoding, most in (("shares", 24 + 24 + 4), ("onehot", 24 + 256 + 4)):
        cube = space.cube(encoding)
        x = cube.snap(rng.random(cube.dim))
        moves = _moves(cube, rng, x)
        assert 20 < len(moves) <= 1 + most
        np.testing.assert_array_equal(moves[0], x)
        np.testing.assert_array_equal(cube.snap(moves[:40]), moves[:40])
        settings = [space.decode(move, encoding) for move in moves]
        for setting in settings[1:]:
            assert sum(setting[name] != settings[0][name] for name in setting) == 1
        assert sorted({setting["d"] for setting in settings}) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("encoding", ["shares", "onehot"])
def test_moves_in_a_tree_and_beside_a_pin_are_legal(encoding):
    space = Space({"kind": Choice(["p", "q", None]), "n": Int(3, 9, when={"kind": "p"}), "m": Int(-2, 2)})
    whole, rng = space.cube(encoding), np.random.default_rng(0)
    for cube in (whole, whole.pinned({whole.dim - 1: whole.axes[-1].centre(np.array([1]))[0]})):
        for _ in range(5):
            moves = _moves(cube, rng, cube.snap(rng.random(cube.dim)))
            np.testing.assert_array_equal(cube.snap(moves), moves)
            assert len({space.decode(move, encoding)["kind"] for move in moves}) == 3


def test_candidates_are_legal_and_near_the_incumbents_too():
    cube = MIXED.cube()
    centre = cube.snap(np.full((1, 5), 0.3))
    X = candidates(cube, np.random.default_rng(0), centre, 300)
    np.testing.assert_array_equal(cube.snap(X), X)
    assert (np.abs(X - centre).max(axis=1) < 0.05).sum() > 5
    assert (X[:, None] == centre).all(axis=2).any()


def test_same_generator_same_answer_and_large_dimension():
    d = 5000

    def bowl(P):
        return -((P - 0.3) ** 2).mean(axis=1), -2 * (P - 0.3) / d

    a, b = (
        maximise(
            Acquisition.of(bowl),
            Cube.box(d),
            np.random.default_rng(7),
            incumbents=np.full((1, d), 0.5),
            effort=Effort(raw=60),
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(a, b)
    assert bowl(a[None])[0][0] > -1e-6


def test_undefined_values_are_never_chosen():
    def partly(P):
        f = np.where(P[:, 0] > 0.5, np.nan, P[:, 0])
        return f, np.where(P > 0.5, np.nan, 1.0)

    x = maximise(Acquisition.of(partly), Cube.box(1), np.random.default_rng(0), incumbents=np.empty((0, 1)))
    assert 0.4 < x[0] <= 0.5


def test_long_grids_are_climbed_in_few_evaluations():
    """2^40 positions: as good as on a line, and not by steps of one."""
    cube = Space({"n": Int(-3, 2**40), "m": Int(0, 2**60, step=2**20), "x": Float(1, 9)}).cube()
    target, rows = np.array([0.31, 0.74, 0.123456]), []

    def bowl(P):
        rows.append(len(P))
        return -((P - target) ** 2).sum(axis=1), -2 * (P - target)

    x = maximise(Acquisition.of(bowl), cube, np.random.default_rng(3), incumbents=np.full((1, 3), 0.5))
    np.testing.assert_allclose(x, target, atol=1e-6)
    np.testing.assert_array_equal(cube.snap(x[None])[0, :2], x[:2])
    assert sum(rows) < 3000
