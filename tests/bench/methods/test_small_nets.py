"""The nets of the rivals: Adam against torch, batches, and gradients by differences."""

import numpy as np
from regretless_bench.methods.small_nets import (
    epoch_batches,
    fresh_net,
    input_gradient,
    scheduled_size,
    train_with_adam,
)

from regretless.models.tangent.ntk import draw_mlp


def rng(key=0):
    return np.random.default_rng(key)


def test_adam_matches_torch():
    import torch

    net = fresh_net(rng(64), 3, (6,), "tanh")
    X, y = rng(65).standard_normal((8, 3)), rng(66).standard_normal(8)
    ours = train_with_adam(net, X, y, np.tile(np.arange(8), (25, 1)), rate=0.01, decay=0.02)
    W, a = (torch.tensor(W, requires_grad=True) for W in net.weights)
    theirs = torch.optim.Adam([W, a], lr=0.01, weight_decay=0.02)
    one = torch.ones(8, 1, dtype=torch.float64)
    for _ in range(25):
        theirs.zero_grad()
        h = torch.cat([torch.tanh(torch.cat([torch.tensor(X), one], 1) @ W), one], 1) @ a
        torch.mean((h - torch.tensor(y)) ** 2).backward()
        theirs.step()
    for found, wanted in zip(ours.weights, (W, a)):
        np.testing.assert_allclose(found, wanted.detach().numpy(), atol=1e-9)


def test_an_epoch_visits_every_point_once_and_drops_an_incomplete_batch():
    batches = epoch_batches(rng(1), 23, 5, 3)
    assert batches.shape == (12, 5)
    for epoch in batches.reshape(3, 20):
        assert len(set(epoch.tolist())) == 20
    assert epoch_batches(rng(1), 3, 5, 2).shape == (2, 3)


def test_input_gradient():
    net = draw_mlp(rng(57), 4, width=9, depth=3, activation="softplus")
    X, c = rng(58).standard_normal((5, 4)), rng(59).standard_normal(9)
    gradient = input_gradient(net, X, c)
    for i in range(4):
        up, down = X.copy(), X.copy()
        up[:, i] += 1e-6
        down[:, i] -= 1e-6
        np.testing.assert_allclose(
            gradient[:, i], (net.last_hidden(up) @ c - net.last_hidden(down) @ c) / 2e-6, rtol=1e-5, atol=1e-8
        )


def test_scheduled_sizes():
    sizes = [scheduled_size(n, first=4, growth=1.2) for n in range(1, 60)]
    assert sizes == sorted(sizes)
    assert all(size <= max(n, 4) for n, size in zip(range(1, 60), sizes))
    assert len(set(sizes)) < 20
