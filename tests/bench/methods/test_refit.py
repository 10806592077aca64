"""The standard implementation that GP-ThreDS's paper times asks the points of the fast forms, at a higher price."""

import numpy as np
import pytest
from regretless_bench.methods import RIVALS

from regretless.methods import METHODS
from regretless.testing import Loop


@pytest.mark.parametrize("kernel", ["se", "matern52"])
@pytest.mark.parametrize(
    ("fast", "plain", "options"),
    [
        (METHODS["gp-threds-printed"], "gp-threds-refit", {"interval": (-1.0, 0.5), "points_per_axis": 6}),
        (RIVALS["igp-ucb"], "igp-ucb-refit", {"fitted": False, "points_per_axis": 9, "gain": "log"}),
        (RIVALS["adaptive-discretization"], "ad-refit", {"fitted": False}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_points_are_those_of_the_fast_form(fast, plain, options, kernel) -> None:
    noise = np.random.default_rng(2).standard_normal(60)
    loops = [
        Loop(of(kernel=kernel, noise_sd=0.1, **options).build(2, seed=3, budget=60)) for of in (fast, RIVALS[plain])
    ]
    for step in range(60):
        points = [loop.ask() for loop in loops]
        np.testing.assert_array_equal(points[0], points[1], err_msg=f"step {step}")
        for loop in loops:
            value = -((points[0][0] - (0.7, 0.2)) ** 2).sum() + 0.1 * noise[step]
            loop.tell(points[0], [value])


def test_pending_points_do_not_change_the_samples() -> None:
    loop = Loop(RIVALS["igp-ucb-refit"](fitted=False, points_per_axis=7, noise_sd=0.1).build(2, seed=0, budget=20))
    for _ in range(5):
        x = loop.ask()
        loop.tell(x, [-float(((x - 0.4) ** 2).sum())])
    posterior = loop.method.posterior
    before = posterior.mean.copy(), posterior.variance.copy()
    after = posterior.variance_after(np.array([[0.2, 0.9]]))
    np.testing.assert_allclose(posterior.mean, before[0])
    np.testing.assert_allclose(posterior.variance, before[1])
    assert (after <= before[1] + 1e-12).all()
