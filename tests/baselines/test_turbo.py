"""TuRBO-1: the trust region's arithmetic, its candidates and its restarts."""

import numpy as np
import pytest

from regretless.baselines import BASELINES
from regretless.baselines.turbo import trust_region_candidates
from regretless.gp.trust_region import FIRST_LENGTH as LENGTH
from regretless.gp.trust_region import SHORTEST


def told(values, *, dim=2, initial=3):
    method = BASELINES["turbo"](initial=initial).build(dim, seed=0)
    X = np.random.default_rng(0).random((len(values), dim))
    method.tell(X, values)
    return method


def test_three_successes_double_and_four_failures_halve() -> None:
    assert told([0, 0, 0, 1, 2]).region.length == LENGTH
    assert told([0, 0, 0, 1, 2, 3]).region.length == 2 * LENGTH
    assert told([0, 0, 0, 1, 2, 3, 4, 5, 6]).region.length == 1.6
    assert told([0, 0, 0, -1, -1, -1]).region.length == LENGTH
    assert told([0, 0, 0, -1, -1, -1, -1]).region.length == LENGTH / 2
    assert told([0, 0, 0, -1, -1, -1, 1, -1]).region.length == LENGTH
    assert told([9, 0, 0, 9.005, 9.008, 9.0085, 9.009]).region.length == LENGTH / 2, (
        "gains below a thousandth are failures"
    )


def test_a_vanished_region_starts_again_and_forgets() -> None:
    halvings = int(np.ceil(np.log2(LENGTH / SHORTEST)))
    method = told([0.0] * 3 + [-1.0] * (4 * halvings))
    assert method.restarts == 1
    assert method.start == 3 + 4 * halvings
    assert method.region.length == LENGTH
    assert np.isfinite(method.ask()).all()
    fresh = method.ask(2)
    assert not np.array_equal(fresh[0], fresh[1])


def test_candidates_stay_in_the_scaled_box_and_move_few_coordinates() -> None:
    centre, lengthscale = np.full(40, 0.5), np.r_[np.full(20, 0.2), np.full(20, 0.8)]
    points = trust_region_candidates(centre, 0.4, lengthscale, np.random.default_rng(0))
    away = np.abs(points - centre)
    assert len(points) == 4000
    assert away[:, :20].max() == pytest.approx(0.2 * 0.5, rel=1e-2)
    assert away[:, 20:].max() == pytest.approx(0.2 * 2.0, rel=1e-2)
    moved = (away > 0).sum(axis=1)
    assert moved.min() >= 1
    assert moved.mean() == pytest.approx(20, rel=0.1)


def test_the_paper_takes_two_points_per_dimension() -> None:
    assert BASELINES["turbo"](preset="paper").build(7, seed=0).initial == 14
    with pytest.raises(ValueError, match="preset"):
        BASELINES["turbo"](preset="papre").build(7, seed=0)
