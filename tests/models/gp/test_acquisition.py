"""Acquisitions against high-precision formulas, finite differences and sampling."""

import math

import mpmath
import numpy as np
import pytest
from slow_forms import draw

from regretless.history import History
from regretless.models.gp.acquisition import (
    candidates_kept_from_failures,
    kept_from_failures,
    log_expected_improvement,
    log_h_of,
    log_probability_of_improvement,
    upper_confidence,
)
from regretless.models.gp.design import Design, away_from_known, design_size
from regretless.models.gp.maximiser import Acquisition
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube, Space
from regretless.space.parameters import Array, Choice, Int


def model():
    rng = np.random.default_rng(0)
    X = rng.random((20, 3))
    return Surrogate(Cube.box(3)).gp(X, -((X - 0.4) ** 2).sum(axis=1)), X, rng.random((6, 3))


@pytest.mark.parametrize("z", [-1e8, -1e4, -200.0, -50.001, -49.999, -10.0, -1.001, -0.999, 0.0, 1.0, 8.0, 60.0])
def test_log_h_is_exact_everywhere(z):
    mpmath.mp.dps = 60
    if z > -1e3:
        x = mpmath.mpf(z)
        density, below = mpmath.npdf(x), mpmath.ncdf(x)
        truth, slope = mpmath.log(density + x * below), below / (density + x * below)
    else:  # two terms of the series are exact to rounding there
        truth, slope = (
            -z * z / 2 - math.log(math.sqrt(2 * math.pi)) + math.log1p(-3 / z**2) - 2 * math.log(-z),
            -z * (1 + 2 / z**2),
        )
    ours, ours_slope = log_h_of(np.array([z]))
    assert ours[0] == pytest.approx(float(truth), rel=1e-9)
    assert ours_slope[0] == pytest.approx(float(slope), rel=1e-6)


def pairs():
    gp, X, _ = model()
    best = float(gp.mean_at(X).max())
    failed = np.random.default_rng(1).random((4, 3))
    return {
        "ucb": upper_confidence(gp, 1.5),
        "mean": upper_confidence(gp, 0.0),
        "log ei": log_expected_improvement(gp, best),
        "log ei, hopeless": log_expected_improvement(gp, best + 1e4),
        "log pi": log_probability_of_improvement(gp, best + 0.01),
        "with failures": kept_from_failures(upper_confidence(gp, 1.0), X, failed),
        "log ei, with failures": kept_from_failures(log_expected_improvement(gp, best), X, failed, logarithmic=True),
    }


@pytest.mark.parametrize("name", pairs())
def test_gradients_and_scores(name):
    acquisition, score = pairs()[name]
    Q = model()[2]
    value, gradient = acquisition(Q)
    np.testing.assert_allclose(score(Q), value, rtol=1e-9)
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-6
        difference = (score(Q + step) - score(Q - step)) / 2e-6
        np.testing.assert_allclose(gradient[:, j], difference, rtol=1e-4, atol=1e-5 * np.abs(gradient).max())


def test_expected_improvement_is_the_mean_of_draws():
    gp, X, Q = model()
    best = float(gp.mean_at(X).max()) - 1.0
    draws = draw(gp, Q, 200_000, np.random.default_rng(0))
    improvement = np.maximum(draws - best, 0.0)
    tolerance = 5 * improvement.std(axis=0) / math.sqrt(len(draws)) + 1e-12
    assert (np.abs(np.exp(log_expected_improvement(gp, best)[1](Q)) - improvement.mean(axis=0)) < tolerance).all()
    share = (draws > best).mean(axis=0)
    assert (np.abs(np.exp(log_probability_of_improvement(gp, best)[1](Q)) - share) < 5 / math.sqrt(len(draws))).all()


def test_failures_repel_and_successes_vouch():
    X, failed = np.array([[0.2, 0.2], [0.3, 0.2]]), np.array([[0.8, 0.8]])
    flat = Acquisition(lambda P: (np.zeros(len(P)), np.zeros_like(P)), lambda P: np.zeros(len(P)))
    _, score = kept_from_failures(flat, X, failed)
    near_success, near_failure, far = score(np.array([[0.25, 0.2], [0.79, 0.8], [0.0, 1.0]]))
    assert near_failure < 4 * math.log(0.3)
    assert near_success > 4 * math.log(0.98)
    assert near_failure < far < near_success
    assert kept_from_failures(flat, X, np.empty((0, 2))) == flat


def test_design_starts_at_the_centre_counts_foreign_points_and_never_repeats():
    cube, rng = Cube.box(2), np.random.default_rng(0)
    design, history = Design(cube, 6, rng), History(2)
    for i in range(6):
        x = design.next_point(history, cube, rng)
        assert x is not None
        assert not history.is_known(x)
        history = history.with_values(x[None], [float(i)])
        if i == 0:
            np.testing.assert_array_equal(x, [0.5, 0.5])
    assert design.next_point(history, cube, rng) is None
    foreign = History(2).with_values(cube.snap(np.random.default_rng(1).random((6, 2))), np.arange(6.0))
    assert design.next_point(foreign, cube, rng) is None
    failing = History(2).with_values(history.X, np.full(6, np.nan))
    assert design.next_point(failing, cube, rng) is not None, "failures alone leave nothing to model"
    assert (design_size(2, None), design_size(100, None), design_size(5, 12)) == (6, 32, 3)


def test_a_known_point_is_stepped_away_from_while_there_are_others():
    cube = Space({"n": Int(1, 3), "c": Choice(["p", "q"])}).cube()
    everything = cube.snap(np.array([[a, b] for a in (0.2, 0.8) for b in (0.1, 0.5, 0.9)]))
    rng = np.random.default_rng(0)
    for left_out in range(6):
        history = History(cube.dim).with_values(np.delete(everything, left_out, axis=0), np.zeros(5))
        np.testing.assert_array_equal(away_from_known(history.X[0], history, cube, rng), everything[left_out])
    history = history.with_values(everything[left_out], [0.0])
    np.testing.assert_array_equal(away_from_known(everything[2], history, cube, rng), everything[2])
    line = Cube.box(2)
    x, empty = line.snap(np.array([0.3, 0.4])), History(2)
    np.testing.assert_array_equal(away_from_known(x, empty, line, rng), x)
    assert 0 < np.abs(away_from_known(x, empty.with_values(x, [1.0]), line, rng) - x).max() < 0.01


def test_candidates_are_kept_from_failures_as_the_acquisition_is() -> None:
    rng = np.random.default_rng(3)
    X, failed, P = rng.random((9, 2)), rng.random((4, 2)), rng.random((20, 2))

    def score(Z: Array) -> Array:
        return np.asarray(-(Z**2).sum(axis=1))

    for logarithmic in (False, True):
        _, kept = kept_from_failures(
            Acquisition(lambda Z: (score(Z), -2 * Z), score), X, failed, logarithmic=logarithmic
        )
        np.testing.assert_array_equal(
            candidates_kept_from_failures(score(P), P, X, failed, logarithmic=logarithmic), kept(P)
        )
    np.testing.assert_array_equal(candidates_kept_from_failures(score(P), P, X, failed[:0], logarithmic=True), score(P))
