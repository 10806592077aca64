"""NeuralGreedy, DNGO, RF-EI and NeuralUCB: their models against slow forms, and their search against chance."""

import sys

import numpy as np
import pytest

from regretless.baselines.dngo import DNGO, LOG_ALPHA, LOG_NOISE, integrated_regression
from regretless.baselines.neural_greedy import NeuralGreedy
from regretless.baselines.neural_ucb import NeuralUCB
from regretless.baselines.rf_ei import RFEI
from regretless.tangent.ntk import flat_features


def bowl(X):
    return -np.sum((X - 0.3) ** 2, axis=1)


def run(method, n):
    for _ in range(n):
        x = method.ask()
        method.tell(x, bowl(x))
    return method


@pytest.mark.parametrize(("make", "options"), [(NeuralGreedy, {}), (DNGO, {}), (RFEI, {"trees": 30}), (NeuralUCB, {})])
def test_better_than_chance_on_a_bowl(make, options):
    ours = np.median([bowl(run(make(4, seed=seed, **options), 40).X).max() for seed in range(3)])
    chance = np.median([bowl(np.random.default_rng(seed).random((40, 4))).max() for seed in range(50)])
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
    method = run(NeuralUCB(2, seed=1), 12)
    net, Z = method._net(), np.random.default_rng(2).random((5, 2))
    g, seen = flat_features(net.factors(2 * Z - 1)), flat_features(net.factors(2 * method.X - 1))
    U = method.lam + (seen**2).sum(0) / 100
    slow = np.sqrt(method.lam * method.nu * (g**2 / U / 100).sum(1))
    from regretless.baselines.neural_ucb import _squared
    from regretless.tangent.ntk import along, combine

    diagonal = tuple(method.lam + t / 100 for t in combine(_squared(net.factors(2 * method.X - 1)), np.ones(12)))
    fast = np.sqrt(
        method.lam * method.nu * along(_squared(net.factors(2 * Z - 1)), tuple(1 / u for u in diagonal)) / 100
    )
    np.testing.assert_allclose(fast, slow, rtol=1e-10)


def test_greedy_refits_every_ten_values_once_there_are_many():
    X = np.random.default_rng(3).random((131, 2))
    method = NeuralGreedy(2, seed=3)
    method.tell(X[:120], bowl(X[:120]))
    first = method._net()
    method.tell(X[120:129], bowl(X[120:129]))
    assert method._net() is first
    method.tell(X[129:], bowl(X[129:]))
    assert method._net() is not first


def test_forest_predictions_are_those_of_scikit_learn():
    from sklearn.ensemble import RandomForestRegressor

    from regretless.baselines.rf_ei import FIT
    from regretless.method import keyed_generator

    method = run(RFEI(2, seed=4, trees=20), 15)
    U = np.random.default_rng(5).random((30, 2))
    targets = (method.y - method.y.mean()) / method.y.std()
    seed = int(keyed_generator(4, 15, stream=FIT).integers(2**31))
    forest = RandomForestRegressor(20, max_features=1.0, random_state=seed).fit(method.X, targets)
    np.testing.assert_allclose(method._predict(U)[0], forest.predict(U), atol=1e-12)


def test_forest_without_scikit_learn_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(ImportError, match=r"regretless\[sklearn\]"):
        RFEI(2, seed=0)


@pytest.mark.parametrize(
    ("make", "bad"), [(NeuralGreedy, {"s": 0.0}), (DNGO, {"xi": -1.0}), (RFEI, {"trees": 1}), (NeuralUCB, {"lam": 0.0})]
)
def test_bad_options_name_themselves(make, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        make(2, seed=0, **bad)
