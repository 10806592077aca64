"""The passive approach of GO-UCB's introduction: uniform points, one fit, its maximiser."""

import numpy as np
from regretless_bench.methods import RIVALS

import regretless as rg
from regretless.testing import Loop


def told(loop: Loop, n: int) -> np.ndarray:
    """n points asked of a bowl in logarithms of a parameter, a member of the quadratic family."""
    points = []
    for _ in range(n):
        x = loop.ask()
        points.append(x[0])
        loop.tell(x, [-float(((x - (0.31, 0.77)) ** 2).sum())])
    return np.array(points)


def test_the_fit_of_uniform_points_names_the_optimum_of_its_family() -> None:
    n = 30
    loop = Loop(RIVALS["passive"].build(2, seed=3, budget=n))
    points = told(loop, n)
    assert np.abs(points[-1] - (0.31, 0.77)).max() < 0.01  # the last evaluation is the fit's maximiser
    assert np.abs(loop.recommend() - (0.31, 0.77)).max() < 0.01
    assert abs(points[:-1] - 0.5).mean() > 0.2  # all others are uniform, wherever the values are good
    other = Loop(RIVALS["passive"].build(2, seed=3, budget=n))
    blind = np.array([other.ask()[0] for _ in range(n - 1)])
    assert np.array_equal(points[:-1], blind)  # no value moves a query


def test_it_searches_spaces_of_the_user() -> None:
    space = {"dose": rg.Float(0.02, 31.0, log=True), "days": rg.Int(3, 17)}

    def cost(dose: float, days: int) -> float:
        return float(np.log(dose / 0.4) ** 2 + 0.1 * (days - 6) ** 2)

    result = rg.minimize(cost, space, method=RIVALS["passive"], trials=40, seed=2)
    assert result.trials[-1].value <= min(t.value for t in result.trials[:-1]) + 0.5
