"""What is recommended from a posterior: the mean where variances were told, else a mean corrected by the own value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from inside import surrogate_of

import regretless as rg
from regretless.history import History
from regretless.models.gp.step import best_weighed
from regretless.optimizer import Optimizer

X = np.array([[0.1, 0.2], [0.5, 0.4], [0.9, 0.7]])
MEAN = np.array([1.0, 0.9, 0.0])
OWN = np.array([0.2, 1.4, 3.0])
"""The model likes the first point best, the luckiest value is the last one's, and the second is good by both."""


def posterior(outside: int = 0) -> Any:
    """Values in units with an offset and a scale; `outside` earlier ones stand before them."""
    y = 5.0 + 2.0 * np.concatenate([np.full(outside, 9.0), OWN])
    return SimpleNamespace(mean_at=lambda P: MEAN[[int(np.argmin(abs(X - p).sum(axis=1))) for p in P]], y=y, n=len(y),
                           offset=5.0, scale=2.0)  # fmt: skip


def history(yvar: float = np.nan, broken: tuple[float, ...] = ()) -> History:
    """The values; `broken`: by how much each point breaks a constraint, negative where it holds."""
    empty = History(2, constraints=1 if broken else 0)
    return empty.with_values(
        X, 5.0 + 2.0 * OWN, yvar=np.full(3, yvar), side_values=np.array([broken]).T if broken else None
    )


@pytest.mark.parametrize(
    ("gp", "known", "row"),
    [
        (posterior(), history(), 1),
        (posterior(outside=2), history(), 1),
        (posterior(), history(yvar=0.3), 0),
        (posterior(), history(broken=(-1.0, 1.0, -1.0)), 0),
        (posterior(), history(broken=(3.0, 2.0, 1.0)), 2),
    ],
)
def test_a_fitted_noise_lets_the_own_value_speak(gp: Any, known: History, row: int) -> None:
    assert best_weighed(gp, known).tolist() == X[row].tolist()


def test_methods_recommend_by_it() -> None:
    """A setting with two values shows noise; the poor neighbour of the top is not recommended for its mean."""
    opt = Optimizer({"x": rg.Float(2.0, 7.0)}, method="gp-ucb", seed=0)
    rng = np.random.default_rng(1)
    for x in [*np.linspace(2.1, 6.9, 15), 4.5]:
        opt.tell(opt.adopt({"x": float(x)}), (x - 4.4) ** 2 + 0.2 * rng.standard_normal())
    assert opt.method.noise(opt.history).shows
    gp = surrogate_of(opt.method).gp(*opt.history.basis)
    assert opt.method.recommend(opt.history).tolist() == best_weighed(gp, opt.history).tolist()
    assert opt.recommend()["x"] == pytest.approx(4.4, abs=0.7)
