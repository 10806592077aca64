"""NeuralBO's trust region: a fold over the values, and the points drawn in and out of it."""

import numpy as np
from regretless_bench.methods.tangent_region.trust_region import Progress

from regretless.models.gp.trust_region import FIRST_LENGTH, SHORTEST, TrustRegion
from regretless.models.tangent.candidates import local_points
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int


def progress_after(*parts, n_design=6, dim=3):
    progress = Progress(n_design, dim)
    for part in parts:
        progress.observe(np.array(part, dtype=float))
    return progress.region


def test_the_region_follows_from_the_values_however_they_were_told():
    y = np.random.default_rng(10).standard_normal(200).cumsum()
    assert progress_after(*np.split(y, [1, 5, 6, 40, 41])) == progress_after(y)
    assert progress_after(y) != TrustRegion()
    assert progress_after(np.zeros(6 + 4)).length == FIRST_LENGTH / 2
    assert progress_after(np.arange(9.0)).length == 2 * FIRST_LENGTH


def test_a_success_beats_the_best_by_a_share_of_the_range_wherever_zero_is():
    steps = np.array([0.0, 1.0, *np.zeros(4), 1.0005, 1.001, 1.0025])
    for offset in (0.0, -1e6, 1e6):
        assert progress_after(steps + offset).successes == 1  # 1.0025 alone is beyond the best and a thousandth
    assert progress_after([0.0, 1.0, *np.zeros(4), 1e160, -1e308, 1e300, 1.7e308]).length == FIRST_LENGTH


def test_a_collapsed_region_opens_again():
    halvings = int(np.ceil(np.log2(FIRST_LENGTH / SHORTEST)))
    assert progress_after(np.zeros(6 + 4 * (halvings - 1))).length == FIRST_LENGTH / 2 ** (halvings - 1)
    assert progress_after(np.zeros(6 + 4 * halvings)) == TrustRegion()


def test_mixed_spaces_move_whole_numbers_and_choices():
    space = Space({"a": Float(-3, 9), "n": Int(1, 40), "c": Choice(["x", "y", "z"])})
    cube = space.cube("onehot")  # a, then c in three columns, then n
    Z = local_points(cube.snap(np.full(cube.dim, 0.4)), 0.01, 400, cube, np.random.default_rng(0))
    Z = cube.snap(Z)
    assert len(np.unique(Z[:, 4])) >= 3
    assert len(np.unique(Z[:, 1:4], axis=0)) == 3
    assert np.abs(Z[:, 0] - 0.4).max() <= 0.005 + 1e-12


def test_hops_leave_the_box_along_few_coordinates():
    cube = Cube.box(12)
    centre = np.full(12, 0.4)
    Z = local_points(centre, 0.05, 1000, cube, np.random.default_rng(1), hops=0.25)
    out = np.abs(Z - centre) > 0.025 + 1e-12
    hop = out.any(axis=1)
    assert 220 < hop.sum() <= 250  # some hops land inside the box
    assert (Z[hop] != centre).sum(axis=1).max() <= 3
    assert (Z[hop] != centre).sum(axis=1).min() == 1
    assert Z[hop].min() < 0.02
    assert Z[hop].max() > 0.98
    assert not (np.abs(local_points(centre, 0.05, 1000, cube, np.random.default_rng(1)) - centre) > 0.025 + 1e-12).any()
