"""beta, t_term and delta-hat, by hand and by their definitions."""

import math

import pytest

from regretless.methods.gp_threds.widths import leaf_confidence, termination_time
from regretless.models.grid.posterior import confidence_width


def test_the_formulas_by_hand() -> None:
    assert confidence_width(2.0, 0.5, 0.1, math.exp(-3.0)) == pytest.approx(0.5 + 0.1 * math.sqrt(12.0))
    assert leaf_confidence(0.01, 100, 2, 0.25, 3) == pytest.approx(0.01 * 2 / 16 / (400 * 6 * math.log(1200 / 0.01)))


@pytest.mark.parametrize("slack", [3.0, 0.4])
def test_the_termination_time_is_the_least(slack: float) -> None:
    def left(t: int) -> float:
        return 2 * confidence_width(math.log(t), 0.5, 0.1, 1e-3) * (1 + 2 * math.sqrt(0.01)) * math.sqrt(400 / t)

    t = round(termination_time(400, slack, 0.5, 0.01, 1e-3)) - 1
    assert left(t) <= slack < left(t - 1)
    assert termination_time(400, 0.0, 0.5, 0.01, 1e-3) == math.inf


def test_delta_hat_sums_to_the_share_of_the_walks() -> None:
    """sum over r of M delta-hat, with M the visits of a walk (Lemma 5), is delta0 / 4T: the printed formula's inverse
    would exceed 1."""
    delta0, T, p, dim = 1e-3, 1000, 0.2, 2
    visits = math.log(dim / (delta0 / (4 * T))) / (2 * (p - 0.5) ** 2)
    total = sum(visits * leaf_confidence(delta0, T, r, p, dim) for r in range(1, 10_000))
    assert total == pytest.approx(delta0 / (4 * T), rel=1e-3)
