"""TuRBO-1: the trust region's arithmetic, its candidates and its restarts."""

import numpy as np
import pytest
from regretless_bench.methods import RIVALS

from regretless.classics import CLASSICS
from regretless.models.gp.trust_region import FIRST_LENGTH as LENGTH
from regretless.models.gp.trust_region import SHORTEST, Restarts, trust_region_candidates
from regretless.testing import Loop, bowl, run


def after(values, *, dim=2, initial=3):
    """The trust regions after these values, bulk and one by one."""
    regions, gradual = Restarts(dim, initial), Restarts(dim, initial)
    y = np.array(values, dtype=float)
    regions.observe(y, 0)
    for n in range(len(y)):
        gradual.observe(y[: n + 1], n)
    assert (regions.number, regions.start, regions.region) == (gradual.number, gradual.start, gradual.region)
    return regions


def test_three_successes_double_and_four_failures_halve() -> None:
    assert after([0, 0, 0, 1, 2]).region.length == LENGTH
    assert after([0, 0, 0, 1, 2, 3]).region.length == 2 * LENGTH
    assert after([0, 0, 0, 1, 2, 3, 4, 5, 6]).region.length == 1.6
    assert after([0, 0, 0, -1, -1, -1]).region.length == LENGTH
    assert after([0, 0, 0, -1, -1, -1, -1]).region.length == LENGTH / 2
    assert after([0, 0, 0, -1, -1, -1, 1, -1]).region.length == LENGTH
    assert after([9, 0, 0, 9.005, 9.008, 9.0085, 9.009]).region.length == LENGTH / 2, (
        "gains below a thousandth are failures"
    )


def test_a_vanished_region_starts_again_and_forgets() -> None:
    halvings = int(np.ceil(np.log2(LENGTH / SHORTEST)))
    values = [0.0] * 3 + [-1.0] * (4 * halvings)
    loop = Loop(CLASSICS["turbo"](initial=3).build(2, seed=0))
    loop.tell(np.random.default_rng(0).random((len(values), 2)), values)
    regions = loop.method.regions(loop.history)
    assert regions.number == 1
    assert regions.start == 3 + 4 * halvings
    assert regions.region.length == LENGTH
    fresh = loop.ask(3)
    assert len(np.unique(fresh, axis=0)) == 3
    loop.tell(fresh, bowl(fresh))
    assert len(regions.values(loop.history)[1]) == 3
    assert np.isfinite(run(loop, 2)).all()


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
    ours = CLASSICS["turbo"]
    printed, given, few = (run(Loop(r.build(7, seed=0)), 15) for r in (RIVALS["turbo-printed"], ours(initial=14), ours))
    assert np.array_equal(printed, given)
    assert not np.array_equal(printed, few), "the default takes d + 2 points"
    with pytest.raises(ValueError, match="initial"):
        CLASSICS["turbo"](initial=0).build(7, seed=0)
