"""An unknown norm: the least norm that values allow, against a slow form of the paper's equations, and its doubling."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from regretless.methods.gp_threds import unknown_norm
from regretless.methods.gp_threds.printed import PrintedGPThreDS
from regretless.methods.gp_threds.unknown_norm import doubled, least_norm, radius, refuted, ridge
from regretless.methods.gp_threds.widths import Widths
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import correlation
from regretless.space.parameters import Array
from regretless.testing import Loop

LENGTHSCALE, NOISE_VAR, DELTA = 0.3, 0.02, 0.1


def values(seed: int, n: int = 7) -> tuple[Array, Array]:
    """Points in the plane, two of them the same, and values."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    X[-1] = X[0]
    return X, 1.5 * rng.standard_normal(n)


def of_norm(norm: float, seed: int) -> Callable[[Array], Array]:
    """A function of this norm in the RKHS of the squared exponential on the square."""
    rng = np.random.default_rng(seed)
    Z, w = rng.random((10, 2)), rng.standard_normal(10)
    w *= norm / math.sqrt(w @ correlation("se", Z, Z, LENGTHSCALE) @ w)
    return lambda X: np.asarray(correlation("se", X, Z, LENGTHSCALE) @ w)


@pytest.mark.parametrize("kernel", ["se", "matern52"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_least_norm_solves_the_quadratic_programme(kernel: KernelKind, share: float) -> None:
    """Functions sum_i a_i k(x_i, .) with Eq. (3)'s mean as the centre; every value stands for itself."""
    X, y = values(3)
    K = correlation(kernel, X, X, LENGTHSCALE)
    centre = np.linalg.solve(K + NOISE_VAR * np.eye(len(y)), y)

    def distance(a: Array) -> float:
        gap = K @ (a - centre)
        return float(NOISE_VAR * (a - centre) @ gap + gap @ gap)

    reach = share * math.sqrt(distance(np.zeros(len(y))))
    border = {"type": "ineq", "fun": lambda a: reach**2 - distance(a)}
    slow = minimize(lambda a: a @ K @ a, centre, constraints=[border], method="SLSQP", options={"ftol": 1e-14})
    found = ridge(X, y, None, kernel=kernel, lengthscale=LENGTHSCALE, noise_var=NOISE_VAR)
    assert least_norm(found, reach) == pytest.approx(math.sqrt(slow.fun), rel=1e-4)
    assert found.gain == pytest.approx(0.5 * np.linalg.slogdet(np.eye(len(y)) + K / NOISE_VAR)[1], rel=1e-9)


def test_a_norm_is_refuted_where_its_own_ball_misses_the_ellipsoid() -> None:
    """The least norm B that the values allow solves least_norm(radius(B)) = B, here by halving; the doubled norm is the
    first above it."""
    X, y = values(8)
    found = ridge(X, 4 * y, None, kernel="se", lengthscale=LENGTHSCALE, noise_var=NOISE_VAR)
    spread = math.sqrt(2 * (found.gain + math.log(1 / DELTA)))
    low, high = 0.0, 1e3
    for _ in range(60):
        B = 0.5 * (low + high)
        low, high = (B, high) if least_norm(found, math.sqrt(NOISE_VAR) * (B + spread)) > B else (low, B)
    assert high > 1.0
    assert refuted(found, 0.99 * high, DELTA)
    assert not refuted(found, 1.01 * high, DELTA)
    first = 0.01
    while first < high:
        first *= 2
    assert doubled(found, 0.01, DELTA) == first


def test_values_near_zero_allow_every_norm() -> None:
    X, y = values(4)
    found = ridge(X, 1e-3 * y, None, kernel="se", lengthscale=LENGTHSCALE, noise_var=NOISE_VAR)
    assert least_norm(found, radius(found, 1e-6, DELTA)) == 0.0
    assert doubled(found, 1e-6, DELTA) == 1e-6


def test_features_and_kernel_matrix_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = values(5, 40)
    weight = np.linspace(0.2, 2.0, 40)
    known: dict[str, Any] = {"kernel": "se", "lengthscale": LENGTHSCALE, "noise_var": NOISE_VAR}
    quick = ridge(X, y, weight, **known)
    monkeypatch.setattr(unknown_norm, "few_features", lambda *_: None)
    slow = ridge(X, y, weight, **known)
    assert quick.gain == pytest.approx(slow.gain, rel=1e-7)
    for reach in (0.1, 1.0, 3.0):
        assert least_norm(quick, reach) == pytest.approx(least_norm(slow, reach), rel=1e-5)


def test_a_value_of_less_noise_counts_as_several() -> None:
    X, y = values(6)
    known: dict[str, Any] = {"kernel": "matern52", "lengthscale": LENGTHSCALE, "noise_var": NOISE_VAR}
    one = ridge(X, y, np.array([3.0, *np.ones(6)]), **known)
    many = ridge(np.concatenate([X[:1], X[:1], X]), np.concatenate([y[:1], y[:1], y]), None, **known)
    assert least_norm(one, 0.4) == pytest.approx(least_norm(many, 0.4), rel=1e-9)


def test_the_true_norm_is_not_refuted_and_small_ones_are() -> None:
    """200 runs that sample where the values were largest so far, at delta 0.1; a wrong bound is refuted in most."""
    wrong = small = 0
    for seed in range(200):
        rng = np.random.default_rng([7, seed])
        f, X = of_norm(4.0, seed), rng.random((12, 2))
        y = f(X) + math.sqrt(NOISE_VAR) * rng.standard_normal(12)
        for _ in range(28):
            x = np.clip(X[y.argmax()] + 0.1 * rng.standard_normal(2), 0, 1)[None]
            X, y = np.concatenate([X, x]), np.append(y, f(x) + math.sqrt(NOISE_VAR) * rng.standard_normal(1))
        found = ridge(X, y, None, kernel="se", lengthscale=LENGTHSCALE, noise_var=NOISE_VAR)
        wrong += refuted(found, 4.0, DELTA)
        small += refuted(found, 0.2, DELTA)
    assert wrong <= 20
    assert small >= 150


KNOWN: dict[str, Any] = {"lengthscale": LENGTHSCALE, "noise_sd": 0.1}


def search(n: int, f: Callable[[Array], Array], **options: Any) -> Loop:
    """n samples of f with noise."""
    loop, rng = Loop(PrintedGPThreDS(2, seed=0, **KNOWN, **options)), np.random.default_rng(0)
    for _ in range(n):
        X = loop.ask()
        loop.tell(X, f(X) + 0.1 * rng.standard_normal(1))
    return loop


def widths(loop: Loop) -> Widths:
    """The widths of a search after the values so far."""
    assert isinstance(loop.method, PrintedGPThreDS)
    loop.method.tree(loop.history)
    return loop.method.run.widths


def test_a_search_doubles_what_is_refuted_and_begins_again() -> None:
    options: dict[str, Any] = {"assumed_norm": "doubling", "interval": (0.0, 8.0)}
    loop = search(500, of_norm(40.0, 1), **options)
    doublings = math.log2(widths(loop).norm / 0.5)
    assert doublings == round(doublings)
    assert 1.0 <= widths(loop).norm < 80.0
    resumed = loop.resumed(PrintedGPThreDS(2, seed=0, **KNOWN, **options))
    for twin in (copy.deepcopy(loop), resumed):
        assert widths(twin) == widths(loop)
        assert np.array_equal(copy.deepcopy(twin).ask(), copy.deepcopy(loop).ask())


def test_while_nothing_is_refuted_nothing_changes() -> None:
    f, interval = of_norm(0.4, 2), (-0.2, 0.6)
    plain = search(300, f, interval=interval)
    asked = search(300, f, interval=interval, assumed_norm="doubling")
    assert np.array_equal(plain.history.X, asked.history.X)
    assert widths(asked).norm == 0.5


def test_a_word_that_is_not_known_is_refused() -> None:
    words = r"assumed_norm must be a number in \(0, inf\) or 'doubling', got 'double'"
    with pytest.raises(ValueError, match=words):
        PrintedGPThreDS(2, seed=0, assumed_norm="double")  # type: ignore[arg-type]
