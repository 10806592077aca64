"""The contest of surrogates: who wins where, and that the winner follows from the history alone."""

from __future__ import annotations

import numpy as np
import pytest

from regretless.methods.gp_contest.contest import Contest
from regretless.models.gp.additive import AdditiveSurrogate
from regretless.models.gp.surrogate import Surrogate, compressed
from regretless.space import Cube


def entrants(d):
    cube = Cube.box(d)
    return [
        AdditiveSurrogate(cube),
        AdditiveSurrogate(cube, compress=True),
        AdditiveSurrogate(cube, trend=False),
        Surrogate(cube, quadratic=False, clip=False),
    ]


def told(f, n=60, d=20, seed=0):
    X = np.random.default_rng(seed).random((n, d))
    return X, f(X), np.full(n, np.nan)


def test_the_trend_wins_on_a_separable_bowl_and_length_scales_where_two_coordinates_matter():
    contest = Contest(entrants(20))
    assert contest.choose(*told(lambda X: -((X - 0.4) ** 2).sum(axis=1))) is contest.entrants[0]
    sparse = Contest(entrants(20))
    assert sparse.choose(*told(lambda X: np.sin(6 * X[:, 3]) * np.cos(5 * X[:, 11]), n=80)) is sparse.entrants[3]


def test_low_values_are_drawn_in_where_they_have_a_long_tail():
    contest = Contest(entrants(20)[:2])
    assert contest.choose(*told(lambda X: -np.exp(40 * ((X - 0.5) ** 2).mean(axis=1)))) is contest.entrants[1]


def test_the_choice_does_not_depend_on_when_it_was_asked_for():
    X, y, yvar = told(lambda X: X[:, 0] - (X[:, 1] - 0.3) ** 2, n=50, d=6)
    gradual = Contest(entrants(6))
    for n in range(1, 51):
        one_by_one = gradual.choose(X[:n], y[:n], yvar[:n])
    at_once = Contest(entrants(6))
    assert gradual.entrants.index(one_by_one) == at_once.entrants.index(at_once.choose(X, y, yvar))
    for size, scores in at_once._scores.items():
        assert np.array_equal(scores, gradual._scores[size])


def test_compressed_values_keep_their_order_and_their_top():
    y = np.array([-1e6, -30.0, -3.0, 0.0, 1.0, 2.0, 3.0])
    values, slope = compressed(y, y)
    assert np.array_equal(np.argsort(values), np.argsort(y))
    assert np.array_equal(values[3:], y[3:])
    assert values[0] > -50
    h = 1e-6
    for v in (-30.0, -3.0, 1.5):
        numeric = (compressed(y, np.array([v + h]))[0] - compressed(y, np.array([v - h]))[0]) / (2 * h)
        np.testing.assert_allclose(compressed(y, np.array([v]))[1], numeric, rtol=1e-6)
    assert slope[-1] == 1.0
    assert np.array_equal(compressed(np.ones(5), np.ones(5))[0], np.ones(5))


def test_a_surrogate_that_clips_is_refused():
    with pytest.raises(ValueError, match="density"):
        Contest([Surrogate(Cube.box(2))])


@pytest.mark.parametrize("noise", [None, 1e-4])
def test_a_compressing_surrogate_is_a_function_of_the_history(noise):
    """Told one by one or at once, with or without known noise, the posterior is the same bit for bit; and low values
    matter less."""
    X, y, yvar = told(lambda X: -np.exp(8 * X[:, 0]), n=45, d=3)
    step, bulk = (Surrogate(Cube.box(3), clip=False, compress=True, noise_var=noise) for _ in range(2))
    for n in range(1, len(y) + 1):
        one = step.gp(X[:n], y[:n], yvar[:n])
    whole = bulk.gp(X, y, yvar)
    at = np.random.default_rng(1).random((5, 3))
    assert np.array_equal(one.mean_var(at), whole.mean_var(at))
    if noise is None:
        np.testing.assert_allclose(
            whole.offset + whole.scale * whole.mean_at(X), compressed(y, y)[0], atol=0.05 * whole.scale
        )
    with pytest.raises(ValueError, match="not both"):
        Surrogate(Cube.box(3), clip=True, compress=True)
