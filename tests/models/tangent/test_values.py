"""Units of values: exact, finite for every finite value, and the same bits as plain arithmetic where that works."""

import numpy as np
import pytest

from regretless.models.tangent.values import exact_unit, standardisation, standardised, times_unit

HUGE = float(np.finfo(np.float64).max)


def test_the_unit_is_a_power_of_two_and_changes_no_bit():
    y = np.random.default_rng(0).standard_normal(50) * 37.0 - 5.0
    unit = exact_unit(y)
    assert np.frexp(unit)[0] == 0.5
    assert 1 <= np.abs(y / unit).max() < 2
    assert np.array_equal((y / unit) * unit, y)
    assert np.array_equal(standardised(y), (y - y.mean()) / y.std())


@pytest.mark.parametrize("y", [[1e160, 1.0, 2.0], [-1e300, 1e300, 0.0], [HUGE, -HUGE, HUGE], [3e-310, 1e-310, 2e-310]])
def test_any_finite_values_are_standardised(y):
    targets = standardised(np.array(y))
    assert targets.mean() == pytest.approx(0.0, abs=1e-12)
    assert targets.std() == pytest.approx(1.0)
    assert np.array_equal(np.argsort(targets), np.argsort(y))


@pytest.mark.parametrize("level", [0.0, 0.1, -7.0, 1e20, HUGE, 5e-324])
def test_equal_values_are_no_signal(level):
    assert np.abs(standardised(np.full(7, level))).max() < 0.1


def test_standardisation_of_equal_values():
    assert standardisation(np.full(4, 7.0)) == (7.0, 1.0)
    assert standardisation(np.full(4, 7.0), of_equal=0.25) == (7.0, 0.25)
    centre, scale = standardisation(np.full(3, 1e20))
    assert centre == 1e20
    assert scale > 1


def test_the_way_back_stops_at_the_largest_float():
    assert np.array_equal(times_unit(np.array([-1.5, 3.0]), 4.0), [-6.0, 12.0])
    assert np.array_equal(times_unit(np.array([9.0, -9.0]), exact_unit(np.array([HUGE]))), [HUGE, -HUGE])
