"""Nets of a fleet are what a single net is: same scores, same steps, and none disturbs another."""

import itertools

import numpy as np
import pytest
import torch
from regretless_bench.problems.mnist_fleet import Fleet
from regretless_bench.problems.mnist_training import ConvTraining, DenseTraining, Digits, load_digits, training
from torch.nn import functional

from regretless.bilevel.run import keyed_batches

PARAMS = {"lr": 0.05, "momentum": 0.5, "l2": 1e-3, "dropout": 0.0, "channels": 4}


def made_digits(side: int = 14) -> Digits:
    """Ten templates with noise: digits enough for a net, whether or not MNIST is on this machine."""
    rng = np.random.default_rng(0)
    templates = rng.standard_normal((10, side, side)).astype(np.float32)
    parts = []
    for n in (400, 100, 100):
        labels = rng.integers(10, size=n)
        parts.append((templates[labels] + rng.standard_normal((n, side, side)).astype(np.float32), labels))
    return Digits(*parts)


DIGITS = made_digits()


def fleet(size: int = 3, dropout: float = 0.0) -> Fleet:
    made = Fleet(DIGITS, size, channels=4, batch=8, seed=2)
    for slot in range(size):
        made.start(slot, {**PARAMS, "lr": 0.05 * (slot + 1), "dropout": dropout}, seed=slot)
    return made


def test_a_net_of_a_fleet_scores_like_a_single_net() -> None:
    single = ConvTraining(DIGITS)
    losses, errors = fleet().evaluate([0, 2], "val")
    for slot, loss, error in zip((0, 2), losses, errors, strict=True):
        expected = single.evaluate(single.init(PARAMS, slot), "val")
        assert (loss, error) == pytest.approx(expected, rel=1e-5)


def test_a_step_of_a_fleet_is_a_step_of_each_net() -> None:
    """The second step, so that the momentum counts, against autograd through torch's own convolutions."""
    ours = fleet()
    ours.steps(1)
    before = [w.detach().clone() for w in ours.weights]
    velocity = [v.clone() for v in ours.velocity]
    draws = torch.Generator()
    draws.set_state(ours.draws.get_state())
    rows = torch.randint(400, (3, 8), generator=draws)
    ours.steps(1)
    x, y = ours.data["train"]
    for slot in range(3):
        weights = [w[slot].clone().requires_grad_() for w in before]
        h = x[rows[slot]][:, None]
        for i in (0, 2):
            h = functional.max_pool2d(functional.relu(functional.conv2d(h, weights[i], weights[i + 1], padding=1)), 2)
        loss = functional.cross_entropy(functional.linear(h.flatten(1), weights[4], weights[5]), y[rows[slot]])
        for w, v, g, after in zip(weights, velocity, torch.autograd.grad(loss, weights), ours.weights, strict=True):
            expected = w - 0.05 * (slot + 1) * (0.5 * v[slot] + g + 1e-3 * w)
            assert torch.allclose(after[slot], expected, rtol=1e-4, atol=1e-5)


def test_nets_do_not_disturb_each_other() -> None:
    a, b = fleet(dropout=0.4), fleet(dropout=0.4)
    b.start(1, {**PARAMS, "lr": 1e6, "dropout": 0.2}, seed=9)
    a.steps(5)
    b.steps(5)
    assert a.evaluate([0], "test") == b.evaluate([0], "test")
    assert a.evaluate([1], "test") != b.evaluate([1], "test")


def test_batches_cover_an_epoch_and_start_anywhere() -> None:
    whole = list(keyed_batches(100, 8, 3, 0, 30))
    assert sorted(i for rows in whole[:12] for i in rows) == sorted({int(i) for rows in whole[:12] for i in rows}), (
        "an epoch repeats nothing"
    )
    assert all((a == b).all() for a, b in zip(whole[7:], keyed_batches(100, 8, 3, 7, 23), strict=True))
    assert len(next(keyed_batches(3, 8, 0, 0, 1))) == 3


def test_a_dense_net_has_the_gradient_of_its_loss() -> None:
    """One SGD step without momentum, against torch's autograd."""
    inner = DenseTraining(DIGITS, (5,))
    state = inner.init({"lr": 1.0, "l2": 0.0}, 1)
    (rows,) = keyed_batches(400, 32, 1, 0, 1)
    weights = torch.tensor(state["weights"], requires_grad=True)
    (w1, b1), (w2, b2) = ((w, b) for w, b in _layers(weights, inner.sizes))
    x, y = (torch.tensor(part[rows]) for part in (DIGITS.train[0].reshape(400, -1), DIGITS.train[1]))
    functional.cross_entropy(torch.relu(x @ w1 + b1) @ w2 + b2, y).backward()
    after = inner.step(state)["weights"]
    assert torch.allclose(torch.tensor(after), weights.detach() - weights.grad, atol=1e-5)


def _layers(flat: torch.Tensor, sizes: tuple[int, ...]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    out, at = [], 0
    for a, b in itertools.pairwise(sizes):
        out.append((flat[at : at + a * b].view(a, b), flat[at + a * b : at + (a + 1) * b]))
        at += (a + 1) * b
    return out


def test_the_real_digits_are_what_they_should_be() -> None:
    try:
        small = load_digits(500, 200, 300)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert [len(y) for _, y in (small.train, small.val, small.test)] == [500, 200, 300]
    assert small.train[0].shape == (500, 14, 14)
    pixels = load_digits(500, 200, 300, side=28).train[0]
    assert abs(float(pixels.mean())) < 0.05
    assert abs(float(pixels.std()) - 1) < 0.05
    assert np.allclose(pixels.reshape(500, 14, 2, 14, 2).mean(axis=(2, 4)), small.train[0], atol=1e-5), (
        "14 x 14 is the mean over 2 x 2 pixels"
    )
    assert np.bincount(small.test[1], minlength=10).min() > 15


def test_bad_names_and_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="softmax"):
        training("rnn")
    with pytest.raises(ValueError, match="60000"):
        load_digits(60_000, 1)
    with pytest.raises(ValueError, match="side"):
        load_digits(side=20)
