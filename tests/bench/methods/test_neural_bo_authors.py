"""The training of NeuralBO's authors' code, beside torch's own Adam and the explicit matrix U."""

import math

import numpy as np
import pytest
from inside import net_of
from regretless_bench.methods import RIVALS, neural_bo_authors
from regretless_bench.methods.neural_bo_authors import NU, AuthorsNeuralBO, Chosen, authors_net

from regretless.models.tangent.ntk import dense
from regretless.testing import Loop


def test_a_training_is_torchs_adam_on_the_same_net(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(neural_bo_authors, "STEPS", 12)
    method = AuthorsNeuralBO(3, seed=1, width=8, ridge=0.01, initial=5)
    method._begin()
    start = net_of(method)
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (7, 3)), 40 + 9 * rng.standard_normal(7)  # values as observed, far from 0
    W, w = (torch.tensor(np.array(part), requires_grad=True) for part in start.weights)
    optimizer = torch.optim.Adam([W, w], lr=1e-3, weight_decay=0.01)
    X, Y = torch.tensor(x), torch.tensor(y)

    def h(X):
        hidden = torch.relu(X @ W[:-1] + W[-1])
        return math.sqrt(8) * (hidden @ w[:-1] + w[-1])

    for sitting in range(2):  # the second training goes on with weights and moments of the first
        for _ in range(12):
            optimizer.zero_grad()
            ((h(X) - Y) ** 2).mean().backward()
            optimizer.step()
        method._train(x, y)
        np.testing.assert_allclose(method._mean(x), h(X).detach().numpy(), rtol=1e-9, err_msg=f"training {sitting}")


def test_sigma_is_that_of_the_matrix_u() -> None:
    """Each chosen point has the features of its own weights; lam g' U^-1 g with U = lam I + sum g g'."""
    lam, rng = 0.05, np.random.default_rng(3)
    nets = [authors_net(np.random.default_rng(seed), 2, 4, 2) for seed in range(6)]
    chosen, U = Chosen(lam), lam * np.eye(sum(w.size for w in nets[0].weights))
    for net in nets:
        row = net.factors(rng.uniform(-1, 1, (1, 2)))
        chosen.add(row)
        U += dense(row).T @ dense(row)
    features = nets[-1].factors(rng.uniform(-1, 1, (5, 2)))
    G = dense(features)
    np.testing.assert_allclose(chosen.deviation(features) ** 2, lam * ((G @ np.linalg.inv(U)) * G).sum(1), rtol=1e-8)


def test_nu_is_the_first_value_of_the_schedule() -> None:
    assert pytest.approx(1.135, abs=5e-4) == NU


def test_a_replay_trains_at_the_same_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told one by one, at once, or after a recommendation before the first training: the same next point."""
    monkeypatch.setattr(neural_bo_authors, "STEPS", 5)
    recipe = RIVALS["neural-bo-authors"](width=10, initial=6, n_candidates=32)
    rng = np.random.default_rng(5)
    X = rng.random((29, 2))
    y = -((3 * X - 1) ** 2).sum(1)
    singly, at_once, looked = (Loop(recipe.build(2, seed=4, budget=40)) for _ in range(3))
    for x, value in zip(X, y, strict=True):
        singly.tell(x[None], [value])
    at_once.tell(X, y)
    looked.tell(X[:4], y[:4])
    looked.method.recommend(looked.history)
    looked.tell(X[4:], y[4:])
    first = singly.ask()
    np.testing.assert_array_equal(at_once.ask(), first)
    np.testing.assert_array_equal(looked.ask(), first)


def test_on_a_bowl_it_learns() -> None:
    """With few first values and 512 random candidates it is ahead of random points."""

    def f(X):
        return -((X - 0.3) ** 2).sum(1)

    ends = {}
    for name, recipe in (("authors", RIVALS["neural-bo-authors"](initial=10, width=100)), ("random", None)):
        best = []
        for seed in range(3):
            X = np.random.default_rng(seed).random((40, 6))
            if recipe is not None:
                loop = Loop(recipe.build(6, seed=seed, budget=40))
                loop.tell(X[:10], f(X[:10]))
                while len(loop.history) < 40:
                    x = loop.ask()
                    loop.tell(x, f(x))
                X = np.array(loop.history.X)
            best.append(f(X).max())
        ends[name] = np.mean(best)
    assert ends["authors"] > ends["random"]
