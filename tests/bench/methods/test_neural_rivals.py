"""NeuralGreedy, DNGO, RF-EI and NeuralUCB: their models against slow forms, and their search against chance."""

import sys

import numpy as np
import pytest
from regretless_bench.methods.dngo import DNGO, LOG_ALPHA, LOG_NOISE, integrated_regression
from regretless_bench.methods.neural_greedy import NeuralGreedy
from regretless_bench.methods.neural_ucb import LAM, NU, NeuralUCB, bonus
from regretless_bench.methods.rf_ei import RFEI

from regretless.testing import Loop


def bowl(X):
    return -np.sum((X - 0.3) ** 2, axis=1)


def run(method, n):
    return go_on(Loop(method), n)


def go_on(loop, n):
    for _ in range(n):
        x = loop.ask()
        loop.tell(x, bowl(x))
    return loop


@pytest.mark.parametrize(("make", "options"), [(NeuralGreedy, {}), (DNGO, {}), (RFEI, {"trees": 30}), (NeuralUCB, {})])
def test_better_than_chance_on_a_bowl(make, options):
    ours = np.median([bowl(run(make(4, seed=seed, **options), 25).history.X).max() for seed in range(3)])
    chance = np.median([bowl(np.random.default_rng(seed).random((25, 4))).max() for seed in range(50)])
    assert ours > chance


def test_dngo_integrates_its_grid_exactly():
    """The single Gaussian has the mean and variance of the mixture over every (alpha, s2) of the grid, each solved
    directly."""
    rng = np.random.default_rng(0)
    phi, y, at = rng.standard_normal((12, 4)), rng.standard_normal(12), rng.standard_normal((3, 4))
    w, C = integrated_regression(phi, y)
    weights, means, variances = [], [], []
    for log_alpha in LOG_ALPHA:
        for log_noise in LOG_NOISE:
            alpha, s2 = np.exp(log_alpha), np.exp(log_noise)
            S = phi @ phi.T / alpha + s2 * np.eye(12)
            _, logdet = np.linalg.slogdet(S)
            log_weight = -0.5 * (logdet + y @ np.linalg.solve(S, y)) - 0.5 * log_alpha**2 - 0.5 * (log_noise + 3) ** 2
            precision = phi.T @ phi / s2 + alpha * np.eye(4)
            weights.append(log_weight)
            means.append(at @ np.linalg.solve(precision, phi.T @ y) / s2)
            variances.append(np.einsum("ij,ji->i", at, np.linalg.solve(precision, at.T)))
    share = np.exp(np.array(weights) - max(weights))
    share /= share.sum()
    mean = share @ np.array(means)
    second = share @ (np.array(variances) + np.array(means) ** 2)
    np.testing.assert_allclose(at @ w, mean, rtol=1e-8)
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", at, C, at), second - mean**2, rtol=1e-6)


def test_neural_ucb_bonus_is_the_diagonal_form():
    loop = run(NeuralUCB(2, seed=1), 12)
    net, Z = loop.method.net(loop.history), np.random.default_rng(2).random((5, 2))
    A, seen = net.factors(2 * Z - 1), net.factors(2 * loop.history.X - 1)
    U = LAM + (written_out(seen) ** 2).sum(0) / 100
    slow = np.sqrt(LAM * NU * (written_out(A) ** 2 / U / 100).sum(1))
    np.testing.assert_allclose(bonus(A, seen), slow, rtol=1e-10)


def written_out(A):
    """The gradients of factors A as plain vectors, n x p."""
    parts = [i if o is None else (i[:, :, None] * o[:, None, :]).reshape(len(i), -1) for i, o in A]
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("value", [1e160, -1e300, 1.7e308])
@pytest.mark.parametrize("make", [NeuralGreedy, DNGO, NeuralUCB])
def test_one_huge_value_neither_raises_nor_gives_nan(make, value):
    loop = run(make(2, seed=4), 12)
    loop.tell([[0.31, 0.77]], [value])
    go_on(loop, 2)
    assert np.isfinite(loop.ask()).all()
    if value > 0:
        assert np.allclose(loop.recommend(), [0.31, 0.77], atol=0.01)


def test_greedy_refits_every_ten_values_once_there_are_many():
    X = np.random.default_rng(3).random((131, 2))
    loop, nets = Loop(NeuralGreedy(2, seed=3)), []
    for rows in (slice(120), slice(120, 129), slice(129, 131)):
        loop.tell(X[rows], bowl(X[rows]))
        nets.append(loop.method.net(loop.history))
    assert nets[0] is nets[1]
    assert nets[1] is not nets[2]


def test_forest_predictions_are_those_of_scikit_learn():
    from sklearn.ensemble import RandomForestRegressor

    from regretless.basics.streams import Stream, keyed_generator

    loop = run(RFEI(2, seed=4, trees=20), 15)
    X, y = loop.history.X, loop.history.y
    U = np.random.default_rng(5).random((30, 2))
    targets = (y - y.mean()) / y.std()
    seed = int(keyed_generator(4, 15, stream=Stream.FOREST_FIT).integers(2**31))
    forest = RandomForestRegressor(20, max_features=1.0, random_state=seed).fit(X, targets)
    np.testing.assert_allclose(loop.method.predict(loop.history, U)[0], forest.predict(U), atol=1e-12)


def test_forest_without_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(ImportError, match=r"pip install .scikit-learn"):
        RFEI(2, seed=0)


def test_bad_options_name_themselves():
    with pytest.raises(ValueError, match="trees"):
        RFEI(2, seed=0, trees=1)
