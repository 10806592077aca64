"""Tangent features of a torch module against the closed form and against autograd."""

import numpy as np
import pytest

from regretless.models.tangent.ntk import diagonal, draw_mlp, kernel

torch = pytest.importorskip("torch")

from regretless.models.tangent.module_tangent import BUCKETS, ModuleTangent  # noqa: E402 - needs torch


def rng(key=0):
    return np.random.default_rng(key)


def written_out(A):
    """The gradients of factors A as plain vectors, n x p, in the order of the directions."""
    parts = [i if o is None else (i[:, :, None] * o[:, None, :]).reshape(len(i), -1) for i, o in A]
    return np.concatenate(parts, axis=1)


def test_module_features_equal_the_closed_form_over_its_norm():
    net = draw_mlp(rng(13), 3, width=10, activation="tanh")

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.W, self.a = (torch.nn.Parameter(torch.tensor(W)) for W in net.weights)

        def forward(self, x):
            one = torch.ones(len(x), 1, dtype=x.dtype)
            return torch.tanh(torch.cat([x, one], 1) @ self.W) * net.gain @ self.a

    X = rng(14).standard_normal((70, 3))  # more rows than one batch of gradients
    module = ModuleTangent(Same(), X[:20], rng(15))
    norm = diagonal(net.factors(X[:20])).mean()
    np.testing.assert_allclose(module.factors(X)[0][0], written_out(net.factors(X)) / norm**0.5, atol=1e-12)
    assert module.factors(X[:0])[0][0].shape == (0, module.features)


def test_large_modules_are_hashed_without_bias():
    state = torch.get_rng_state()
    network = torch.nn.Sequential(torch.nn.Linear(60, 160), torch.nn.Tanh(), torch.nn.Linear(160, 1)).double()
    torch.set_rng_state(state)
    X = rng(16).standard_normal((12, 60))
    outputs = network(torch.tensor(X))[:, 0]
    gradients = [torch.autograd.grad(h, list(network.parameters()), retain_graph=True) for h in outputs]
    exact = np.array([torch.cat([g.reshape(-1) for g in parts]).numpy() for parts in gradients])
    K = exact @ exact.T
    tangents = [ModuleTangent(network, X, rng(key)) for key in range(3)]
    assert tangents[0].features == BUCKETS < exact.shape[1]
    hashed = np.mean([kernel(t.factors(X), t.factors(X)) * t.norm for t in tangents], axis=0)
    assert np.abs(hashed - K).max() < 0.1 * np.abs(K).max()


def test_modules_that_cannot_be_used_say_why():
    with pytest.raises(ValueError, match="no parameters"):
        ModuleTangent(torch.nn.Tanh(), np.zeros((2, 3)), rng())
    with pytest.raises(ValueError, match="one number per row, got 2"):
        ModuleTangent(torch.nn.Linear(3, 2), np.zeros((2, 3)), rng())
