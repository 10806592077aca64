"""The expected gain of a front: against draws, against expected improvement, and its slopes against differences."""

import numpy as np
import pytest

from regretless.classics import CLASSICS
from regretless.classics.gp_ehvi.default import GPEHVI, FrontSurrogate
from regretless.classics.gp_ehvi.improvement import BoxGain, ScalarGain, of_means, of_posteriors
from regretless.fronts.hypervolume import free_boxes, hypervolume
from regretless.models.gp.acquisition import log_expected_improvement
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int
from regretless.testing import Loop


def setting(k: int, seed: int = 1) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """A front of six values, and means and variances of five points."""
    rng = np.random.default_rng(seed)
    return rng.random((6, k)), [1.2 * rng.random(5) for _ in range(k)], [0.001 + 0.1 * rng.random(5) for _ in range(k)]


def gain(k: int, F: np.ndarray) -> BoxGain | ScalarGain:
    if k <= 3:
        return BoxGain(*free_boxes(F, np.zeros(k)), [1.0] * k)
    direction = np.linspace(0.4, 1.1, k)
    return ScalarGain(np.zeros(k), direction, float((F / direction).min(axis=1).max()), [1.0] * k)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_gain_is_the_mean_over_draws(k: int) -> None:
    F, means, variances = setting(k)
    rng, beat = np.random.default_rng(7), hypervolume(F, np.zeros(k))
    direction = np.linspace(0.4, 1.1, k)
    values = np.exp(gain(k, F).value(means, variances))
    for q in range(5):
        draws = np.column_stack(
            [m[q] + np.sqrt(v[q]) * rng.standard_normal(4000) for m, v in zip(means, variances, strict=True)]
        )
        if k <= 3:
            gained = np.array([hypervolume(np.vstack([F, y]), np.zeros(k)) - beat for y in draws])
        else:
            gained = np.maximum((draws / direction).min(axis=1) - (F / direction).min(axis=1).max(), 0.0)
        assert values[q] == pytest.approx(gained.mean(), abs=4 * gained.std() / 60 + 0.03 * gained.mean() + 1e-4)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_slopes_are_those_of_differences(k: int) -> None:
    F, means, variances = setting(k, 2)
    whole = gain(k, F)
    value, by_mean, by_variance = whole.with_slopes(means, variances)
    assert value == pytest.approx(whole.value(means, variances), rel=1e-12)
    for j in range(k):
        for numbers, slope in ((means, by_mean), (variances, by_variance)):
            ends = []
            for step in (1e-6, -1e-6):
                numbers[j] = numbers[j] + step
                ends.append(whole.value(means, variances))
                numbers[j] = numbers[j] - step
            assert slope[j] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-4)


def test_far_from_the_front_the_logarithm_keeps_its_digits_and_its_slope() -> None:
    F = np.array([[0.0, 1.0], [1.0, 0.0]])
    whole = BoxGain(*free_boxes(F, np.full(2, -1.0)), [1.0, 1.0])
    means = [np.array([-40.0, -4000.0]), np.array([-30.0, -3000.0])]
    value, by_mean, by_variance = whole.with_slopes(means, [np.ones(2), np.ones(2)])
    assert np.isfinite(value).all()
    assert (value < -600).all()
    assert all((slope > 0).all() and np.isfinite(slope).all() for slope in [*by_mean, *by_variance])


def test_with_one_objective_it_is_expected_improvement() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((14, 2))
    gp = Surrogate(Cube.box(2)).gp(X, np.sin(5 * X[:, 0]) - X[:, 1])
    best = float(gp.mean_at(X).max())
    ours = of_posteriors([gp], BoxGain(*free_boxes(np.array([[best]]), np.array([best - 1.0])), [gp.signal]))
    points = rng.random((40, 2))
    for mine, theirs in zip(
        ours.value_and_gradient(points), log_expected_improvement(gp, best).value_and_gradient(points), strict=True
    ):
        assert mine == pytest.approx(theirs, rel=1e-9)


def test_values_far_below_the_front_are_raised_and_the_front_is_kept() -> None:
    model = FrontSurrogate(Cube.box(1), 1)
    first = np.array([0.0, 1.0, 2.0, -1.0, -2.0, 0.5])
    model.all_values = np.column_stack([first, [3.0, 2.0, -1.0, -1e9, -50.0, 0.0]])
    seen, slope = model.seen_as(model.all_values[:, 1], model.all_values[:, 1])
    assert seen.tolist() == [3.0, 2.0, -1.0, -3.0, -3.0, 0.0]
    assert (slope == 1.0).all()


@pytest.mark.parametrize("k", [2, 3, 4])
def test_by_the_means_a_point_is_worth_what_its_means_add(k: int) -> None:
    rng = np.random.default_rng(2)
    X, reference = rng.random((15, 2)), np.full(k, -0.4)
    gps = [Surrogate(Cube.box(2)).gp(X, np.sin(4 * X[:, 0] + j) - (X[:, 1] - 0.3 * j) ** 2) for j in range(k)]
    F = np.column_stack([gp.mean_at(X) for gp in gps])
    whole = gain(k, F - reference)
    points, widths = rng.random((60, 2)), np.linspace(0.02, 0.05, k)
    shifted = [Shifted(gp, low) for gp, low in zip(gps, reference, strict=True)]
    found, slopes = of_means(shifted, whole, widths).value_and_gradient(points)  # type: ignore[arg-type]
    means = [gp.mean_at(points) for gp in shifted]
    assert found == pytest.approx(whole.value(means, [np.full(60, w * w) for w in widths]), rel=1e-7, abs=1e-7)
    near = found > -30
    for i in range(2):
        ends = [of_means(shifted, whole, widths).value(points + step * np.eye(2)[i]) for step in (1e-6, -1e-6)]  # type: ignore[arg-type]
        assert slopes[near, i] == pytest.approx((ends[0] - ends[1])[near] / 2e-6, rel=1e-3, abs=1e-3)
    if k <= 3:  # with next to no blur it is the hypervolume that the means add
        exact = np.exp(of_means(shifted, whole, np.full(k, 1e-7)).value(points))  # type: ignore[arg-type]
        covered = hypervolume(F - reference, np.zeros(k))
        adds = [hypervolume(np.vstack([F - reference, y]), np.zeros(k)) - covered for y in np.column_stack(means)]
        assert max(adds) > 0.01
        assert exact == pytest.approx(np.array(adds), abs=1e-5)


class Shifted:
    """A posterior whose mean is taken above a reference."""

    def __init__(self, gp, low: float) -> None:
        self.gp, self.low = gp, low

    def mean_at(self, X: np.ndarray) -> np.ndarray:
        return self.gp.mean_at(X) - self.low

    def mean_grad(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, slope = self.gp.mean_grad(X)
        return mean - self.low, slope


def test_the_last_fifth_of_a_budget_goes_by_the_means_where_nothing_speaks_against_it() -> None:
    def proposed(budget: int, *, pending: bool = False, noisy: bool = False) -> np.ndarray:
        space = Space({"a": Float(2e-4, 3.0, log=True), "b": Float(-3, 4)})
        loop = Loop(CLASSICS["gp-ehvi"].build(space, seed=1, budget=budget))
        X = np.random.default_rng(5).random((25, 2))
        Y = -np.column_stack([((X - c) ** 2).sum(axis=1) for c in (0.2, 0.7)])
        history = type(loop.history)(2, objectives=2).with_values(X, Y)
        if noisy:
            history = history.with_values(X[:1], history.Y[:1] + 0.1)
        loop.history = history.with_pending(np.array([0.1, 0.9])) if pending else history
        return loop.ask(step=40)

    assert not np.array_equal(proposed(30), proposed(200))
    assert np.array_equal(proposed(30, pending=True), proposed(200, pending=True))
    assert np.array_equal(proposed(32, noisy=True), proposed(200, noisy=True))


def told(seed: int, n: int, other: float = 1.0) -> Loop:
    """A loop that was told n values of two objectives in an awkward space; `other` changes those of the second."""
    space = Space({"a": Float(2e-4, 3.0, log=True), "b": Int(-3, 4), "c": Choice(["u", "v", "w"])})
    loop = Loop(CLASSICS["gp-ehvi"].build(space, seed=seed, budget=30))
    loop.history = type(loop.history)(loop.method.dim, objectives=2)
    X = loop.method.cube.snap(np.random.default_rng(5).random((n, loop.method.dim)))
    Y = np.column_stack([X.sum(axis=1), other * ((X - 0.6) ** 2).sum(axis=1)])
    loop.tell(X, Y)
    return loop


def test_a_method_that_has_seen_another_second_objective_proposes_what_a_fresh_one_does() -> None:
    for n in (12, 19):
        fresh, used = told(1, n), told(1, n, other=-1.0)
        used.ask(step=9)
        used.history = fresh.history
        assert np.array_equal(used.ask(step=4), fresh.ask(step=4))


def test_a_resumed_method_proposes_the_same() -> None:
    loop = told(2, 20)
    loop.ask(step=0)
    space = Space({"a": Float(2e-4, 3.0, log=True), "b": Int(-3, 4), "c": Choice(["u", "v", "w"])})
    again = loop.resumed(CLASSICS["gp-ehvi"].build(space, seed=2, budget=30))
    assert np.array_equal(again.ask(step=3), loop.ask(step=3))


@pytest.mark.parametrize("k", [2, 3, 5])
def test_it_beats_uniform_draws(k: int) -> None:
    centres = np.random.default_rng(3).random((k, 3))

    def values(X: np.ndarray) -> np.ndarray:
        return -np.array([((X - c) ** 2).sum(axis=1) for c in centres]).T

    volumes = {}
    for name in ("gp-ehvi", "random"):
        loop = Loop(CLASSICS[name].build(Cube.box(3), seed=0, budget=30))
        loop.history = type(loop.history)(3, objectives=k)
        for _ in range(30):
            X = loop.ask()
            loop.tell(X, values(X))
        volumes[name] = hypervolume(loop.history.Y, np.full(k, -1.0))
    assert volumes["gp-ehvi"] > 1.05 * volumes["random"]


def test_noise_that_models_find_is_tested_once_and_members_are_repeated_at_the_end() -> None:
    rng = np.random.default_rng(0)
    loop = Loop(GPEHVI(2, seed=0, budget=40))
    loop.history = type(loop.history)(2, objectives=2)
    for _ in range(40):
        X = loop.ask()
        Y = np.array([[-((X - c) ** 2).sum() for c in (0.2, 0.8)]]) + 0.15 * rng.standard_normal((1, 2))
        loop.tell(X, Y)
    keys = [x.tobytes() for x in loop.history.X]
    repeats = [i for i, key in enumerate(keys) if key in keys[:i]]
    assert repeats[0] < 36
    assert [i for i in repeats if i >= 36] == [36, 37, 38, 39]
    rows, values, sds = loop.method.front(loop.history)
    assert (sds > 0).all()
    truth = np.array([[-((x - c) ** 2).sum() for c in (0.2, 0.8)] for x in loop.history.X[rows]])
    assert np.abs(values - truth).mean() < np.abs(loop.history.Y[rows] - truth).mean() + 0.05
