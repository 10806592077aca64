"""Sobol points: those of scipy bit for bit, without its start."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from regretless.models.gp.sobol import MAX_DIM, OWN_DIM, sobol_points, sobol_sequence


def of_scipy(dim, seed, n, first=0):
    """The slow form: scipy's own sequence, seeded as ours."""
    sequence = qmc.Sobol(dim, scramble=True, rng=int(np.random.default_rng(seed).integers(2**63)))
    if first:
        sequence.fast_forward(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        return sequence.random(n)


@pytest.mark.parametrize("dim", [1, 2, 3, 7, 20, OWN_DIM, OWN_DIM + 1, 100])
@pytest.mark.parametrize(("n", "first"), [(0, 0), (1, 0), (7, 0), (300, 0), (1024, 0), (1, 1), (5, 77), (64, 1023)])
def test_the_points_are_those_of_scipy_bit_for_bit(dim, n, first):
    for seed in (0, 1):
        points = sobol_sequence(dim, np.random.default_rng(seed)).points(n, first)
        assert points.shape == (n, dim)
        np.testing.assert_array_equal(points, of_scipy(dim, seed, n, first))


@pytest.mark.parametrize("dim", [3, OWN_DIM + 1])
def test_a_sequence_gives_any_stretch_in_any_order(dim):
    sequence = sobol_sequence(dim, np.random.default_rng(3))
    whole = sequence.points(40)
    for first in (30, 5, 5, 0, 39):
        np.testing.assert_array_equal(sequence.points(1, first)[0], whole[first])


def test_every_dimension_is_balanced_and_two_seeds_differ():
    points = sobol_points(64, OWN_DIM, np.random.default_rng(0))
    for column in points.T:  # a net of 2**6 points has one in each 64th
        assert sorted(np.floor(column * 64)) == list(range(64))
    assert not np.array_equal(points, sobol_points(64, OWN_DIM, np.random.default_rng(1)))


def test_more_dimensions_than_there_are_numbers_for_are_drawn_uniformly():
    points = sobol_points(2, MAX_DIM + 1, np.random.default_rng(0))
    np.testing.assert_array_equal(points, np.random.default_rng(0).random((2, MAX_DIM + 1)))


def test_a_first_suggestion_does_not_wait_for_scipy_stats():
    script = """
import sys
import regretless as rg

space = {"lr": rg.Float(1e-5, 1e-1, log=True), "layers": rg.Int(1, 6), "act": rg.Choice(["relu", "tanh"])}
opt = rg.Optimizer(space, direction="minimize", seed=0)
for value in range(12):
    opt.tell(opt.ask(), float(value))
print("scipy.stats" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
