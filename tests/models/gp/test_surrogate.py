"""The surrogate: a pure function of the history, and hard to break."""

import math
from fractions import Fraction

import numpy as np
import pytest

from regretless.models.gp.fit import NegativeLogPosterior, fit
from regretless.models.gp.posterior import GP, Hyper, in_units_of
from regretless.models.gp.sobol import sobol_points
from regretless.models.gp.surrogate import (
    MOST_FITTED,
    SIZES,
    SharedFits,
    Surrogate,
    clipped,
    is_fresh,
    near_one,
    scheduled,
    sharing,
    standardisation,
)
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int


def history(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, -((X - 0.4) ** 2).sum(axis=1) + 0.01 * rng.standard_normal(n), rng.random((6, d))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("n", [1, 2, 11, 57, 64])
def test_a_replay_is_bit_exact(n, known):
    """Told one by one with every posterior asked for, told at once, and told after another history: the same
    numbers."""
    X, y, Q = history(n)
    yvar = np.where(np.arange(n) % 3 == 0, 1e-3, np.nan) if known else np.full(n, np.nan)
    slow, quick, used = (Surrogate(Cube.box(3)) for _ in range(3))
    for i in range(1, n + 1):
        grown = slow.gp(X[:i], y[:i], yvar[:i])
    other = history(40, seed=1)
    used.gp(other[0], other[1])
    used.gp(np.vstack([X[: n // 2], other[0]]), np.append(y[: n // 2], other[1]))
    pending = Q[:2]
    for surrogate in (slow, quick, used):
        gp = surrogate.gp(X, y, yvar, pending)
        for ours, theirs in zip(gp.mean_var_grad(Q), grown.condition(pending).mean_var_grad(Q), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(slow.gp(X, y, yvar).mean_at(Q), grown.mean_at(Q))


def test_a_long_history_is_replayed_in_few_fits(monkeypatch):
    """Beyond MOST_FITTED values every fit is fresh: told in bulk, a history needs one, and gives the same."""
    X, y, Q = history(475, d=2)
    slow = Surrogate(Cube.box(2))
    for i in range(240, 476, 5):
        grown = slow.gp(X[:i], y[:i])
    calls = []

    def counted(*args, **options):
        calls.append(options["warm"])
        return fit(*args, **options)

    monkeypatch.setattr("regretless.models.gp.surrogate.fit", counted)
    np.testing.assert_array_equal(Surrogate(Cube.box(2)).gp(X, y).mean_var(Q), grown.mean_var(Q))
    assert calls == [None]
    indices = range(scheduled(3000)[0] + 1)
    fresh = [k for k in indices if is_fresh(k)]
    assert max(np.diff([k for k in fresh if SIZES[k] <= MOST_FITTED])) == 10
    assert all(is_fresh(k) for k in indices if SIZES[k] > MOST_FITTED)


def test_a_model_that_is_asked_rarely_makes_one_fit_where_others_make_several(monkeypatch):
    """Each ask after sixteen more values needs one fit from scratch, or none; warm fits would need all between."""
    X, y, Q = history(96, d=2)
    calls = []

    def counted(*args, **options):
        calls.append(options["warm"])
        return fit(*args, **options)

    monkeypatch.setattr("regretless.models.gp.surrogate.fit", counted)
    fresh_only = Surrogate(Cube.box(2), fresh_only=True)
    for n in range(16, 97, 16):
        last = fresh_only.gp(X[:n], y[:n])
    assert 0 < len(calls) <= 4
    assert all(warm is None for warm in calls)
    np.testing.assert_array_equal(Surrogate(Cube.box(2), fresh_only=True).gp(X, y).mean_at(Q), last.mean_at(Q))


def test_the_schedule_is_dense_at_first_and_geometric_later():
    sizes = sorted({scheduled(n)[1] for n in range(1, 3001)})
    assert sizes[:32] == list(range(1, 33))
    gaps = np.diff(sizes)
    assert max(gaps / np.array(sizes[:-1])[: len(gaps)]) <= 1.0
    assert gaps[-1] >= 100
    assert [scheduled(n)[0] for n in sizes] == list(range(len(sizes)))


def test_clipping_raises_only_what_is_far_below_the_median():
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0, -1e6])
    np.testing.assert_array_equal(clipped(y), [1.0, 2.0, 3.0, 4.0, 5.0, 0.0])
    np.testing.assert_array_equal(clipped(np.array([1.0, 1.0, 1.0, 0.0])), [1.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    "y", [np.zeros(4), np.full(4, 1e300), np.array([1e-12, 2e-12, 3e-12]), np.array([-1e300, 1e300])]
)
def test_standardisation_of_extremes(y):
    offset, scale = standardisation(y)
    z = (y / scale) - offset / scale
    assert np.isfinite([offset, scale]).all()
    assert scale > 0
    assert np.abs(z).max() < 10


@pytest.mark.parametrize("scale", [3e-310, 2e-170, 0.7, 5e160, 1e307])
def test_variances_are_brought_to_units_that_cannot_be_squared(scale):
    yvar = np.array([np.nan, 0.0, 1e-3, 7e300])
    found = in_units_of(scale, yvar, 2.5)
    assert np.isnan(found[0])
    exact = [float(min(Fraction(v) / (Fraction(scale) ** 2 * Fraction(5, 2)), Fraction(10**30))) for v in yvar[1:]]
    np.testing.assert_allclose(found[1:], exact, rtol=1e-15, atol=1e-320)


@pytest.mark.parametrize("size", [1e-320, 1.0, 1e308])
def test_a_power_of_two_brings_values_near_one(size):
    y = size * np.array([-1.7, 0.3, 0.0, 1.1])
    near = near_one(y)
    assert 0.5 <= np.abs(near).max() < 1
    np.testing.assert_array_equal(near / near[0], y / y[0])
    np.testing.assert_array_equal(near_one(np.zeros(3)), 0.0)


HARD = {
    "one value": lambda y: y[:1],
    "two values": lambda y: y[:2],
    "constant": lambda y: np.full_like(y, 3.0),
    "constant zero": np.zeros_like,
    "constant huge": lambda y: np.full_like(y, -1e12),
    "huge": lambda y: 1e12 * y,
    "tiny": lambda y: 1e-12 * y,
    "tiny on a pedestal": lambda y: 1.0 + 1e-12 * y,
    "low outlier": lambda y: np.where(np.arange(len(y)) == 5, y - 1e6 * y.std(), y),
    "high outlier": lambda y: np.where(np.arange(len(y)) == 5, y + 1e6 * y.std(), y),
    "two levels": lambda y: (y > np.median(y)).astype(float),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_hard_values_break_nothing(name, duplicates, known):
    """No warning (they are errors here), no NaN, and a posterior within sight of the values."""
    X, y, Q = history(24)
    y = HARD[name](y)
    X = np.repeat(X[:8], 3, axis=0)[: len(y)] if duplicates else X[: len(y)]
    yvar = np.full(len(y), 0.01 * y.var()) if known else None
    gp = Surrogate(Cube.box(3)).gp(X, y, yvar, pending=X[:1])
    m, v, dm, dv = gp.mean_var_grad(np.vstack([Q, X]))
    assert all(np.isfinite(a).all() for a in (m, v, dm, dv))
    assert (v >= 0).all()
    assert np.abs(m).max() < 100
    assert np.isfinite(gp.path(np.random.default_rng(0))(Q)[0]).all()


def test_predictions_do_not_depend_on_the_units_of_the_values():
    X, y, Q = history(30)
    plain = Surrogate(Cube.box(3)).gp(X, y)
    scaled = Surrogate(Cube.box(3)).gp(X, 1e12 * y - 3e12)
    raw = plain.offset + plain.scale * plain.mean_at(Q)
    np.testing.assert_allclose((scaled.offset + scaled.scale * scaled.mean_at(Q) + 3e12) / 1e12, raw, rtol=1e-3)


def test_known_noise_smooths_where_it_is_large():
    X, y, _ = history(30)
    y = y.copy()
    y[7] = y.max() + 1.0
    yvar = np.full(30, 1e-6)
    trusted = Surrogate(Cube.box(3)).gp(X, y, yvar)
    yvar[7] = 4.0
    doubted = Surrogate(Cube.box(3)).gp(X, y, yvar)
    assert trusted.offset + trusted.scale * trusted.mean_at(X[7:8])[0] > y[7] - 0.1
    assert doubted.offset + doubted.scale * doubted.mean_at(X[7:8])[0] < y[7] - 0.5


def test_one_known_noise_equals_the_same_noise_told_with_every_value():
    X, y, Q = history(20)
    told = Surrogate(Cube.box(3)).gp(X, y, np.full(20, 0.01))
    given = Surrogate(Cube.box(3), noise_var=0.01).gp(X, y)
    np.testing.assert_array_equal(told.mean_var(Q), given.mean_var(Q))
    with pytest.raises(ValueError, match="noise_var"):
        Surrogate(Cube.box(3), noise_var=-1.0)


def test_choices_are_apart_whatever_their_order():
    """The value of one label says as much about every other: the kernel sees no order among labels."""
    space = Space({"a": Float(0, 1), "c": Choice(["p", "q", "r", "s"]), "n": Int(1, 5)})
    cube = space.cube()
    hyper = Hyper(np.array([0.5, 0.8, 0.7]), 1e-6)
    X = cube.snap(np.random.default_rng(0).random((12, 3)))
    X[:, 1] = 0.125
    y = X[:, 0]
    gp = GP.exact(Surrogate(cube).kernel, hyper, X, y)
    others = np.array([[0.5, (i + 0.5) / 4, 0.5] for i in range(4)])
    m, v = gp.mean_var(others)
    assert v[0] < 0.5 * v[1]
    np.testing.assert_allclose(m[1:], m[1], atol=1e-10)
    np.testing.assert_allclose(v[1:], v[1], atol=1e-10)


def test_isotropic_fit_in_5000_dimensions():
    rng = np.random.default_rng(0)
    X = rng.random((40, 5000))
    y = -((X[:, :50] - 0.5) ** 2).sum(axis=1)
    gp = Surrogate(Cube.box(5000)).gp(X, y)
    assert gp.hyper.lengthscale.shape == (1,)
    m, v, dm, _ = gp.mean_var_grad(X[:2])
    assert np.isfinite(m).all()
    assert np.isfinite(v).all()
    assert dm.shape == (2, 5000)


@pytest.mark.parametrize("seed", [2, 4])
def test_a_fit_begins_afresh_where_a_thin_layer_comes_as_a_surprise(seed: int) -> None:
    """A constraint that is flat but for a layer at one side: the fits before the layer was met explain it by other
    coordinates, and fits that begin from them stay there."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([sobol_points(18, 3, rng), rng.random((12, 3)) * [0.02, 0.1, 0.005] + [0.3, 0.9, 0.0]])
    y = np.exp(-X[:, 2] / 0.01) * (1.0 + 0.4 * X[:, 0]) - 0.1 * X[:, 1] * np.exp(-X[:, 2] / 0.02)
    offset, scale = standardisation(y)
    densities = []
    for restart in (True, False):
        model = Surrogate(Cube.box(3), clip=False, restart=restart)
        for n in range(8, len(y) + 1):
            hyper = model.gp(X[:n], y[:n]).hyper
        objective = NegativeLogPosterior(model.kernel, X, (y - offset) / scale, None, model.prior, ard=True)
        densities.append(objective.one(objective.theta(hyper))[0])
        at_once = Surrogate(Cube.box(3), clip=False, restart=restart).gp(X, y).hyper
        assert np.array_equal(at_once.lengthscale, hyper.lengthscale)  # the history decides, not who asked when
    assert densities[0] < densities[1] - 20.0


@pytest.mark.parametrize("options", [{}, {"clip": False, "compress": True, "rotate": True}, {"ard": False}])
def test_shared_fits_are_those_that_a_model_makes(options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are taken where all that a fit follows from is the same; what is damaged is made anew."""
    cube = Space({"a": Float(1e-3, 20, log=True), "n": Int(3, 90), "b": Float(-7, 2), "c": Choice(["x", "y"])}).cube()
    rng = np.random.default_rng(3)
    X = cube.snap(rng.random((34, cube.dim)))
    y = -((X[:, 0] - 0.4) ** 2) - 0.3 * np.sin(5 * X[:, 2]) + 0.1 * X[:, 1]
    alone, first = Surrogate(cube, **options).gp(X, y), SharedFits()
    with sharing(first):
        Surrogate(cube, **options).gp(X, y)

    def made(known: dict, values: np.ndarray, **others: object) -> int:
        """How many fits a model makes; with the same values and options its posterior is that of a model alone."""
        second = SharedFits()
        second.learn(known)
        monkeypatch.setattr(second, "keep", lambda *_: count.append(1))
        count: list[int] = []
        with sharing(second):
            gp = Surrogate(cube, **(options | others)).gp(X, values)
        if values is y and not others:
            assert gp.mean_at(X[:5]).tobytes() == alone.mean_at(X[:5]).tobytes()
        return len(count)

    everything = made({}, y)
    assert everything > 1
    assert made(first.made, y) == 0
    changed = y.copy()
    changed[7] += 1e-9
    assert made(first.made, changed) == everything
    assert made(first.made, y, kernel="se") == everything
    assert made(first.made, y, noise_var=0.01) == everything
    for damaged in (None, [1.0], [math.nan, *next(iter(first.made.values()))[1:]], "x"):
        assert made(dict.fromkeys(first.made, damaged), y) == everything
