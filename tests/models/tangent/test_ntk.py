"""The tangent kernel against autograd, the algebra of factors, and the laws nets are drawn from."""

import numpy as np
import pytest

from regretless.models.tangent.ntk import ACTIVATIONS, Mlp, combine, diagonal, draw_mlp, inner, kernel, on_device


def rng(key=0):
    return np.random.default_rng(key)


def written_out(A):
    """The gradients of factors A as plain vectors, n x p, in the order of the directions."""
    parts = [i if o is None else (i[:, :, None] * o[:, None, :]).reshape(len(i), -1) for i, o in A]
    return np.concatenate(parts, axis=1)


def torch_outputs(net, weights, X):
    """The net written out in torch, for autograd."""
    import torch

    phi = {
        "relu": torch.relu,
        "softplus": lambda u: torch.nn.functional.softplus(2 * u) / 2,
        "tanh": torch.tanh,
        "sin": torch.sin,
    }[net.activation]
    h = torch.as_tensor(X)
    for W, one in zip(weights[:-1], net.constant[:-1]):
        h = phi((torch.cat([h, torch.ones(len(h), 1, dtype=h.dtype)], 1) if one else h) @ W) * net.gain
    last = torch.cat([h, torch.ones(len(h), 1, dtype=h.dtype)], 1) if net.constant[-1] else h
    return last @ weights[-1] * net.output_gain


def autograd_features(net, X):
    """Gradients row by row by torch.autograd, n x p."""
    import torch

    weights = [torch.tensor(W, requires_grad=True) for W in net.weights]
    rows = []
    for x in X:
        gradients = torch.autograd.grad(torch_outputs(net, weights, x[None])[0], weights)
        rows.append(torch.cat([g.reshape(-1) for g in gradients]).numpy())
    return np.array(rows)


NETS = [
    pytest.param(
        {"width": 16, "depth": depth, "activation": activation, "constant": constant},
        id=f"{activation}-{depth}-{constant}",
    )
    for activation, depth, constant in [
        *[(a, 2, True) for a in ACTIVATIONS],
        ("tanh", 3, True),
        ("softplus", 4, True),
        ("relu", 3, False),
    ]
]


@pytest.mark.parametrize("options", NETS)
def test_factors_written_out_are_the_gradients_of_autograd(options):
    net = draw_mlp(rng(1), 4, **options)
    X = rng(2).standard_normal((23, 4))
    G = autograd_features(net, X)
    np.testing.assert_allclose(written_out(net.factors(X)), G, atol=1e-12)
    np.testing.assert_allclose(kernel(net.factors(X), net.factors(X[:5])), G @ G[:5].T, atol=1e-10)
    np.testing.assert_allclose(diagonal(net.factors(X)), (G**2).sum(1), atol=1e-10)


def test_paper_scaling_is_the_kernel_of_the_unit_scaling():
    """sqrt(m) W2 relu(W1 x) with weights N(0, 1/m) and features g/sqrt(m) equals gain 1/sqrt(m) with weights N(0,
    1)."""
    net = draw_mlp(rng(4), 5, width=32, activation="relu", constant=False)
    paper = Mlp(tuple(W / 32**0.5 for W in net.weights), net.constant, "relu", output_gain=32**0.5, norm=32.0)
    X = rng(5).standard_normal((7, 5))
    np.testing.assert_allclose(
        kernel(paper.factors(X), paper.factors(X)), kernel(net.factors(X), net.factors(X)), rtol=1e-12
    )


def test_mirrored_net_starts_at_zero_and_keeps_the_kernel():
    """[f(x; plus) - f(x; minus)] / sqrt(2), both halves at the same weights, written out in torch."""
    import torch

    net = draw_mlp(rng(6), 3, width=8, depth=3, activation="tanh")
    X = rng(7).standard_normal((11, 3))
    plus = [torch.tensor(W, requires_grad=True) for W in net.weights]
    minus = [torch.tensor(W, requires_grad=True) for W in net.weights]
    rows = []
    for x in X:
        h = (torch_outputs(net, plus, x[None]) - torch_outputs(net, minus, x[None]))[0] * 0.5**0.5
        assert h.item() == 0.0
        rows.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(h, [*plus, *minus])]).numpy())
    G = np.array(rows)
    np.testing.assert_allclose(G @ G.T, kernel(net.factors(X), net.factors(X)), atol=1e-10)


def test_bias_free_relu_is_certain_at_the_origin_and_the_appended_one_cures_it():
    zero = np.zeros((1, 6))
    bare = draw_mlp(rng(8), 6, width=64, activation="relu", constant=False)
    cured = draw_mlp(rng(8), 6, width=64, activation="relu", constant=True)
    assert diagonal(bare.factors(zero))[0] == 0.0
    assert diagonal(cured.factors(zero))[0] > 0.1


def test_directions_are_weight_space():
    net = draw_mlp(rng(9), 4, width=12, depth=3, activation="softplus")
    A, B = net.factors(rng(10).standard_normal((6, 4))), net.factors(rng(11).standard_normal((5, 4)))
    beta = rng(12).standard_normal(6)
    np.testing.assert_allclose(inner(B, combine(A, beta)), kernel(B, A) @ beta, atol=1e-10)


def test_heavy_tails_give_the_spectrum_of_a_matern_kernel():
    net = draw_mlp(rng(80), 2, width=200_000, tail=5)
    apart = np.array([[0.0, 0.0], [0.7, 0.0], [1.5, 1.0]])
    W = net.weights[0][:2]
    r = 5**0.5 * np.linalg.norm(apart, axis=1)
    np.testing.assert_allclose(np.cos(apart @ W).mean(1), (1 + r + r**2 / 3) * np.exp(-r), atol=0.01)


def test_an_unknown_activation_is_named():
    with pytest.raises(ValueError, match="step"):
        draw_mlp(rng(0), 2, width=4, activation="step")


def test_the_cpu_is_numpy_and_another_device_is_torch():
    torch = pytest.importorskip("torch")
    X = rng(49).uniform(-1, 1, (7, 3))
    assert on_device(X, "cpu") is X
    assert isinstance(on_device(X, "cpu:0"), torch.Tensor)
