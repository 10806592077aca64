"""The warp: order kept, slope stated, way back exact, outliers kept from setting the scale."""

import numpy as np
import pytest

from regretless.models.tangent.warp import Warp


@pytest.mark.parametrize(("warping", "share"), [("strong", 0.05), ("gentle", 0.05), ("none", 0.0)])
def test_warp_keeps_the_order_and_goes_back(warping, share):
    y = np.array([-1e6, -30.0, -2.0, 0.0, 0.4, 1.0, 1.5])
    warp = Warp.of(y, warping)
    targets = warp(y)
    assert (np.diff(targets) > 0).all()
    assert targets.mean() == pytest.approx(0.0, abs=1e-12)
    assert targets.std() == pytest.approx(1.0)
    np.testing.assert_allclose(warp.inverse(targets), y, rtol=1e-9, atol=1e-6)
    assert targets[-1] - targets[2] > share * (
        targets[2] - targets[0]
    )  # the outlier does not set the scale, unless nothing is warped


def test_warp_states_its_own_slope():
    y = np.random.default_rng(79).standard_normal(40) * 3
    for warping in ("strong", "gentle", "none"):
        warp = Warp.of(y, warping)
        slopes = (warp(y + 1e-6) - warp(y - 1e-6)) / 2e-6
        assert warp.log_jacobian(y) == pytest.approx(float(np.log(slopes).sum()), abs=1e-4)
