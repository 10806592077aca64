"""Training: gradients by differences, and rates that stay stable."""

import numpy as np
import pytest

from regretless.models.tangent.ntk import Mlp, combine, draw_mlp
from regretless.models.tangent.training import (
    descend,
    stable_rate,
    whole_epochs,
)


def rng(key=0):
    return np.random.default_rng(key)


def test_gradient_step_is_the_gradient():
    net = Mlp(
        draw_mlp(rng(54), 3, width=7, depth=3, activation="tanh").weights, (True, True, False), "tanh", gain=7**-0.5
    )
    X, y = rng(55).standard_normal((6, 3)), rng(56).standard_normal(6)
    h, A = net.outputs_and_factors(X)
    step = combine(A, h - y)
    for layer in range(3):
        nudge = np.zeros_like(net.weights[layer])
        nudge.flat[3] = 1e-6
        losses = [
            0.5
            * np.sum(
                (net.at(tuple(W + s * nudge if i == layer else W for i, W in enumerate(net.weights))).outputs(X) - y)
                ** 2
            )
            for s in (1, -1)
        ]
        assert step[layer].flat[3] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-5, abs=1e-8)


def test_a_reckless_learning_rate_is_clipped_and_reported_and_nothing_is_nan():
    net = draw_mlp(rng(60), 10, width=100, activation="relu", constant=False)
    X, y = rng(61).uniform(-1, 1, (120, 10)), rng(62).standard_normal(120)
    batches = whole_epochs(rng(63), 120, 50, 20)
    made = descend(net, X, y, rate=1e3, ridge=0.01, batches=batches)
    assert made.asked == 1e3
    assert made.rate <= stable_rate(net, X, 0.01, 50)
    assert np.isfinite(made.net.outputs(X)).all()
    assert np.mean((made.net.outputs(X) - y) ** 2) < np.mean((net.outputs(X) - y) ** 2)
    gentle = descend(net, X, y, rate=1e-6, ridge=0.01, batches=batches[:2])
    assert gentle.rate == gentle.asked == 1e-6


@pytest.mark.parametrize("n", [23, 120])
def test_a_pass_over_batches_is_one_gradient_of_the_whole_objective(n):
    """TrainNN (NeuralBO, Alg. 2): L = sum (h - y)^2 / 2 + m lam |theta - theta0|^2 / 2. By autograd, batch by batch,
    the incomplete one included; a ridge in full at every batch would be n / 50 times too strong."""
    import torch

    weights = (rng(67).standard_normal((3, 8)) / 8**0.5, rng(71).standard_normal(8) / 8**0.5)
    net = Mlp(weights, (False, False), "tanh", output_gain=8**0.5, norm=8.0)
    X, y = rng(68).uniform(-1, 1, (n, 3)), rng(69).standard_normal(n)
    batches = whole_epochs(rng(70), n, 50, 3)
    assert [len(b) for b in batches] == 3 * ([50] * (n // 50) + ([n % 50] if n % 50 else []))
    for rows in (np.concatenate(batches[i : i + len(batches) // 3]) for i in range(0, len(batches), len(batches) // 3)):
        assert np.array_equal(np.sort(rows), np.arange(n))
    ridge, rate = 8 * 0.5, 1e-3
    made = descend(net, X, y, rate=rate, ridge=ridge, batches=batches, shared=True)
    start = [torch.tensor(w) for w in net.weights]
    theta = [w.clone() for w in start]
    for rows in batches:
        for w in theta:
            w.requires_grad_(True)
        h = net.output_gain * (torch.tanh(torch.tensor(X[rows]) @ theta[0]) @ theta[1])
        away = sum(((w - v) ** 2).sum() for w, v in zip(theta, start, strict=True))
        loss = 0.5 * ((h - torch.tensor(y[rows])) ** 2).sum() + len(rows) / n * 0.5 * ridge * away
        steps = torch.autograd.grad(loss, theta)
        theta = [(w - rate * g).detach() for w, g in zip(theta, steps, strict=True)]
    assert made.rate == rate
    for ours, theirs in zip(made.net.weights, theta, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-10, atol=1e-12)
