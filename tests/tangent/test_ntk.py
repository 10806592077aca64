"""The tangent kernel three ways, the posterior two ways, and the draws against the moments they must have."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from regretless.methods.neural_bo.ridge import (
    KERNEL_BLOCK,
    SKETCH_BLOCK,
    KernelRidge,
    SketchRidge,
    cholesky,
    solve_lower,
)
from regretless.methods.neural_bo.tangent_models import ClosedForm, Warp
from regretless.tangent.branches import BranchNet, Shape, choose_shape, fit_sizes, log_evidence
from regretless.tangent.ntk import (
    ACTIVATIONS,
    Mlp,
    ModuleTangent,
    along,
    combine,
    diagonal,
    draw_mlp,
    flat_features,
    kernel,
    mirrored_outputs,
    on_device,
)
from regretless.tangent.training import Adam, descend, epoch_batches, stable_rate


def rng(key=0):
    return np.random.default_rng(key)


def torch_outputs(net, weights, X):
    """The net written out in torch, for autograd."""
    import torch

    phi = {
        "relu": torch.relu,
        "softplus": lambda u: torch.nn.functional.softplus(2 * u) / 2,
        "tanh": torch.tanh,
        "sin": torch.sin,
        "silu": torch.nn.functional.silu,
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
def test_sigma_agrees_in_feature_kernel_and_autograd_form(options):
    net = draw_mlp(rng(1), 4, **options)
    X, Z, lam = rng(2).standard_normal((23, 4)), rng(3).standard_normal((9, 4)), 0.01
    G, g = autograd_features(net, X), autograd_features(net, Z)
    np.testing.assert_allclose(flat_features(net.factors(X)), G, atol=1e-12)
    U = lam * np.eye(G.shape[1]) + G.T @ G
    feature_form = lam * np.einsum("ij,ji->i", g, np.linalg.solve(U, g.T))
    ridge = KernelRidge(net, lam)
    ridge.extend(X)
    np.testing.assert_allclose(ridge.deviation(net.factors(Z)) ** 2, feature_form, atol=1e-10)


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
    import torch

    net = draw_mlp(rng(6), 3, width=8, depth=3, activation="tanh")
    X = rng(7).standard_normal((11, 3))
    assert np.array_equal(mirrored_outputs(net, net.weights, net.weights, X), np.zeros(11))
    plus = [torch.tensor(W, requires_grad=True) for W in net.weights]
    minus = [torch.tensor(W, requires_grad=True) for W in net.weights]
    rows = []
    for x in X:
        h = (torch_outputs(net, plus, x[None]) - torch_outputs(net, minus, x[None]))[0] * 0.5**0.5
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
    net = draw_mlp(rng(9), 4, width=12, depth=3, activation="silu")
    A, B = net.factors(rng(10).standard_normal((6, 4))), net.factors(rng(11).standard_normal((5, 4)))
    beta = rng(12).standard_normal(6)
    np.testing.assert_allclose(along(B, combine(A, beta)), kernel(B, A) @ beta, atol=1e-10)


def test_module_features_equal_the_closed_form():
    import torch

    net = draw_mlp(rng(13), 3, width=10, activation="tanh")

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.W, self.a = (torch.nn.Parameter(torch.tensor(W)) for W in net.weights)

        def forward(self, x):
            return torch_outputs(net, [self.W, self.a], x)

    X = rng(14).standard_normal((70, 3))  # more rows than one batch of gradients
    module = ModuleTangent(Same(), rng(15))
    np.testing.assert_allclose(module.factors(X)[0][0], flat_features(net.factors(X)), atol=1e-12)


def test_large_modules_are_hashed_without_bias():
    import torch

    torch_state = torch.get_rng_state()
    network = torch.nn.Sequential(torch.nn.Linear(60, 160), torch.nn.Tanh(), torch.nn.Linear(160, 1))
    torch.set_rng_state(torch_state)
    X = rng(16).standard_normal((12, 60))
    tangents = [ModuleTangent(network, rng(key)) for key in range(3)]
    assert tangents[0].size > tangents[0].features == 8192
    exact = np.array(
        [
            torch.cat(
                [
                    g.reshape(-1)
                    for g in torch.autograd.grad(
                        network.double()(torch.tensor(x[None]))[0, 0], list(network.parameters())
                    )
                ]
            ).numpy()
            for x in X
        ]
    )
    K = exact @ exact.T
    hashed = np.mean([kernel(t.factors(X), t.factors(X)) for t in tangents], axis=0)
    assert np.abs(hashed - K).max() < 0.1 * np.abs(K).max()


# ---------------------------------------------------------------- the posterior


def dense_posterior(net, X, y, Z, lam):
    A, B = net.factors(X), net.factors(Z)
    S = kernel(A, A) + lam * np.eye(len(X))
    return kernel(B, A) @ np.linalg.solve(S, y), kernel(B, B) - kernel(B, A) @ np.linalg.solve(S, kernel(A, B))


def test_mean_is_kernel_ridge_and_gradient_descent_on_the_linearised_net_gets_there():
    net = draw_mlp(rng(17), 3, width=24, activation="softplus")
    X, y, Z, lam = rng(18).uniform(-1, 1, (12, 3)), rng(19).standard_normal(12), rng(20).uniform(-1, 1, (5, 3)), 0.1
    mean, _ = dense_posterior(net, X, y, Z, lam)
    ridge = KernelRidge(net, lam)
    ridge.extend(X)
    np.testing.assert_allclose(ridge.values(net.factors(Z), ridge.mean(y)), mean, atol=1e-10)
    np.testing.assert_allclose(ridge.fitted(y), dense_posterior(net, X, y, X, lam)[0], atol=1e-10)
    G = flat_features(net.factors(X))
    theta = np.zeros(G.shape[1])
    rate = 1.0 / (np.linalg.eigvalsh(G @ G.T)[-1] + lam)
    for _ in range(6000):  # TrainNN's steps on the linearised net, from theta0
        theta -= rate * (G.T @ (G @ theta - y) + lam * theta)
    np.testing.assert_allclose(flat_features(net.factors(Z)) @ theta, mean, atol=1e-8)


@pytest.mark.parametrize("n", [1, KERNEL_BLOCK - 1, KERNEL_BLOCK, 2 * KERNEL_BLOCK + 5])
def test_appending_row_by_row_gives_the_same_bits_as_all_at_once(n):
    net = draw_mlp(rng(21), 3, width=16)
    X, y = rng(22).uniform(-1, 1, (n, 3)), rng(23).standard_normal(n)
    whole, grown = KernelRidge(net, 0.01), KernelRidge(net, 0.01)
    whole.extend(X)
    for i in range(1, n + 1):
        grown.extend(X[:i])
    A = net.factors(rng(24).uniform(-1, 1, (4, 3)))
    assert np.array_equal(whole.values(A, whole.mean(y)), grown.values(A, grown.mean(y)))
    assert np.array_equal(whole.deviation(A), grown.deviation(A))
    np.testing.assert_allclose(
        whole.deviation(A) ** 2,
        np.diag(dense_posterior(net, X, y, rng(24).uniform(-1, 1, (4, 3)), 0.01)[1]),
        atol=1e-10,
    )


def test_rows_of_unequal_noise_are_weighted_alike_in_both_forms():
    net = draw_mlp(rng(71), 3, width=4)
    n, lam = 2 * KERNEL_BLOCK + 5, 0.05
    X, y, Z, v = (
        rng(72).uniform(-1, 1, (n, 3)),
        rng(73).standard_normal(n),
        rng(74).uniform(-1, 1, (9, 3)),
        rng(75).uniform(0.1, 10, n),
    )
    A, B = net.factors(X), net.factors(Z)
    S = kernel(A, A) + lam * np.diag(v)
    mean, variance = (
        kernel(B, A) @ np.linalg.solve(S, y),
        np.diag(kernel(B, B) - kernel(B, A) @ np.linalg.solve(S, kernel(A, B))),
    )
    exact = KernelRidge(net, lam)
    for i in range(1, n + 1):
        exact.extend(X[:i], v[:i])
    np.testing.assert_allclose(exact.values(B, exact.mean(y)), mean, atol=1e-10)
    np.testing.assert_allclose(exact.deviation(B) ** 2, variance, atol=1e-10)
    np.testing.assert_allclose(exact.fitted(y), kernel(A, A) @ np.linalg.solve(S, y), atol=1e-10)
    draws = np.array([exact.values(B, exact.draw(y, 1.0, rng(76 + i))) for i in range(4000)])
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.15)
    whole = SketchRidge(
        Flat(net), lam, 1000, rng(77), Flat(net).factors(X[:1])
    )  # short layers are kept as they are: exact
    whole.extend(X, y, v=v)
    np.testing.assert_allclose(whole.values(Flat(net).factors(Z), whole.mean()), mean, atol=1e-8)
    np.testing.assert_allclose(whole.deviation(Flat(net).factors(Z)) ** 2, variance, atol=1e-8)


class Flat:
    """A net whose gradients are written out: one layer of features."""

    def __init__(self, net):
        self._net = net

    def factors(self, X):
        return ((flat_features(self._net.factors(X)), None),)


def test_sketch_appending_gives_the_same_bits_and_memory_stays_flat():
    net = draw_mlp(rng(25), 3, width=16)
    n = 2 * SKETCH_BLOCK + 7
    X, y = rng(26).uniform(-1, 1, (n, 3)), rng(27).standard_normal(n)
    example = net.factors(X[:1])
    whole, grown = SketchRidge(net, 0.01, 100, rng(28), example), SketchRidge(net, 0.01, 100, rng(28), example)
    whole.extend(X, y)
    sizes = set()
    for i in range(1, n + 1, 3):
        grown.extend(X[:i], y[:i])
        sizes.add(grown.nbytes)
    grown.extend(X, y)
    assert np.array_equal(whole.mean(), grown.mean())
    assert len(sizes) == 1


def test_sketch_approaches_the_exact_posterior():
    net = draw_mlp(rng(29), 5, width=32)
    X, y, Z = rng(30).uniform(-1, 1, (120, 5)), rng(31).standard_normal(120), rng(32).uniform(-1, 1, (200, 5))
    exact = KernelRidge(net, 0.05)
    exact.extend(X)
    sd = exact.deviation(net.factors(Z))
    errors = []
    for size in (100, 1600):
        sketch = SketchRidge(net, 0.05, size, rng(33), net.factors(X[:1]))
        sketch.extend(X, y)
        errors.append(float(np.median(np.abs(sketch.deviation(net.factors(Z)) / sd - 1))))
        assert sketch.size <= size
    assert errors[1] < 0.1 < errors[0]


def test_long_layers_are_hashed_alike_in_numpy_and_torch_and_keep_inner_products():
    torch = pytest.importorskip("torch")
    A = rng(61).standard_normal((40, 900))
    sketches = [SketchRidge(None, 0.1, 400, rng(62), ((part[:1], None),)) for part in (A, torch.as_tensor(A))]
    Z = sketches[0].sketch(((A, None),))
    assert Z.shape == (40, 400)
    np.testing.assert_allclose(Z, sketches[1].sketch(((torch.as_tensor(A), None),)).numpy(), rtol=1e-12, atol=1e-12)
    off = (Z @ Z.T - A @ A.T)[~np.eye(40, dtype=bool)] / 900
    assert abs(off.mean()) < 0.01  # unbiased
    assert off.std() < 1.5 * (1 / 400) ** 0.5
    assert sketches[0].nbytes < 8 * 400 * 402 + 20 * 1300  # the map is two short lists, not a matrix


def test_covariance_of_coherent_draws_is_the_posterior():
    net = draw_mlp(rng(34), 2, width=32)
    X, y, Z, lam = rng(35).uniform(-1, 1, (8, 2)), rng(36).standard_normal(8), rng(37).uniform(-1, 1, (6, 2)), 0.05
    mean, covariance = dense_posterior(net, X, y, Z, lam)
    ridge = KernelRidge(net, lam)
    ridge.extend(X)
    A, key = net.factors(Z), rng(38)
    draws = np.array([ridge.values(A, ridge.draw(y, 1.0, key)) for _ in range(20_000)])
    error = np.linalg.norm(np.cov(draws.T) - covariance) / np.linalg.norm(covariance)
    assert error < 0.05
    np.testing.assert_allclose(draws.mean(0), mean, atol=5 * np.sqrt(np.diag(covariance).max() / 20_000))


def test_sketch_draws_have_the_sketch_s_own_moments():
    net = draw_mlp(rng(39), 2, width=16)
    X, y, Z = rng(40).uniform(-1, 1, (30, 2)), rng(41).standard_normal(30), rng(42).uniform(-1, 1, (4, 2))
    sketch = SketchRidge(net, 0.05, 60, rng(43), net.factors(X[:1]))
    sketch.extend(X, y)
    A, key = net.factors(Z), rng(44)
    draws = np.array([sketch.values(A, sketch.draw(1.0, key)) for _ in range(4000)])
    np.testing.assert_allclose(draws.std(0), sketch.deviation(A), rtol=0.06)
    np.testing.assert_allclose(
        draws.mean(0), sketch.values(A, sketch.mean()), atol=5 * float(sketch.deviation(A).max()) / 4000**0.5
    )


def test_leave_one_out_equals_leaving_one_out():
    net = draw_mlp(rng(45), 2, width=16)
    X, y, lam = rng(46).uniform(-1, 1, (9, 2)), rng(47).standard_normal(9), 0.1
    ridge = KernelRidge(net, lam)
    ridge.extend(X)
    residual, spread = ridge.left_out(y)
    for i in range(9):
        rest = np.arange(9) != i
        mean, covariance = dense_posterior(net, X[rest], y[rest], X[i : i + 1], lam)
        assert residual[i] == pytest.approx(y[i] - mean[0], abs=1e-9)
        assert spread[i] == pytest.approx(float(covariance[0, 0] + lam) ** 0.5, abs=1e-9)


def test_torch_arrays_go_through_the_same_code():
    import torch

    net = draw_mlp(rng(48), 3, width=16, depth=3, activation="softplus")
    X, y, Z = rng(49).uniform(-1, 1, (70, 3)), rng(50).standard_normal(70), rng(51).uniform(-1, 1, (5, 3))
    there = net.at(tuple(torch.tensor(W) for W in net.weights))
    host, other = KernelRidge(net, 0.01), KernelRidge(there, 0.01)
    host.extend(X)
    other.extend(torch.tensor(X))
    a = host.values(net.factors(Z), host.draw(y, 0.5, rng(52)))
    b = other.values(there.factors(torch.tensor(Z)), other.draw(torch.tensor(y), 0.5, rng(52)))
    np.testing.assert_allclose(b.numpy(), a, atol=1e-9)
    s, t = (
        SketchRidge(net, 0.01, 60, rng(53), net.factors(X[:1])),
        SketchRidge(there, 0.01, 60, rng(53), there.factors(torch.tensor(X[:1]))),
    )
    s.extend(X, y)
    t.extend(X, y, torch.tensor)
    np.testing.assert_allclose(t.mean().numpy(), s.mean(), atol=1e-9)
    np.testing.assert_allclose(
        t.deviation(there.factors(torch.tensor(Z))).numpy(), s.deviation(net.factors(Z)), atol=1e-9
    )
    assert on_device(X, "cpu") is X


def test_cholesky_raises_the_diagonal_of_a_singular_matrix_and_gives_up_on_nan():
    ones = np.ones((3, 3))
    L = cholesky(ones)
    np.testing.assert_allclose(L @ L.T, ones, atol=1e-6)
    np.testing.assert_allclose(solve_lower(np.array([[2.0, 9.0], [1.0, 4.0]]), np.array([2.0, 9.0])), [1.0, 2.0])
    with pytest.raises(FloatingPointError, match="positive definite"):
        cholesky(np.full((2, 2), np.nan))


# ---------------------------------------------------------------- training


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


def test_input_gradient():
    net = draw_mlp(rng(57), 4, width=9, depth=3, activation="silu")
    X, c = rng(58).standard_normal((5, 4)), rng(59).standard_normal(9)
    gradient = net.input_gradient(X, c)
    for i in range(4):
        up, down = X.copy(), X.copy()
        up[:, i] += 1e-6
        down[:, i] -= 1e-6
        np.testing.assert_allclose(
            gradient[:, i], (net.last_hidden(up) @ c - net.last_hidden(down) @ c) / 2e-6, rtol=1e-5, atol=1e-8
        )


def test_a_reckless_learning_rate_is_clipped_and_reported_and_nothing_is_nan():
    net = draw_mlp(rng(60), 10, width=100, activation="relu", constant=False)
    X, y = rng(61).uniform(-1, 1, (120, 10)), rng(62).standard_normal(120)
    batches = epoch_batches(rng(63), 120, 50, 20)
    made = descend(net, X, y, rate=1e3, lam=0.01, batches=batches)
    assert made.clipped
    assert made.rate <= stable_rate(net, X, 0.01, 50)
    assert np.isfinite(made.net.outputs(X)).all()
    assert np.mean((made.net.outputs(X) - y) ** 2) < np.mean((net.outputs(X) - y) ** 2)
    gentle = descend(net, X, y, rate=1e-6, lam=0.01, batches=batches[:2])
    assert not gentle.clipped


def test_adam_matches_torch():
    import torch

    net = draw_mlp(rng(64), 3, width=6, activation="tanh")
    X, y = rng(65).standard_normal((8, 3)), rng(66).standard_normal(8)
    ours = Adam(net, rate=0.01, decay=0.02)
    weights = [torch.tensor(W, requires_grad=True) for W in net.weights]
    theirs = torch.optim.Adam(weights, lr=0.01, weight_decay=0.02)
    for _ in range(25):
        ours.step(X, y)
        theirs.zero_grad()
        torch.mean((torch_outputs(net, weights, X) - torch.tensor(y)) ** 2).backward()
        theirs.step()
    for W, V in zip(ours.net.weights, weights):
        np.testing.assert_allclose(W, V.detach().numpy(), atol=1e-9)


# ---------------------------------------------------------------- the two-branch net


def test_branches_have_unit_mean_variance_and_the_kernels_they_claim():
    probe = rng(67).uniform(-1, 1, (256, 4))
    net = BranchNet(draw_mlp(rng(68), 4, width=32), probe, rng(69))
    for share in (0.0, 0.4, 0.95):
        shaped = net.at(Shape(1.0, 2.0, share))
        assert float(diagonal(shaped.factors(probe)).mean()) == pytest.approx(1.0, abs=0.06)
    P = net.at(Shape(1.0, 2.0, 0.5)).coordinate_features(probe[:5])
    one = probe[:5].copy()
    one[:, 1:] = (
        0.0  # only the first coordinate differs between rows: an additive kernel sees it in a quarter of the units
    )
    Q = net.at(Shape(1.0, 2.0, 0.5)).coordinate_features(one)
    units = np.abs(Q - Q[0]).max(0) > 0
    assert units.mean() == pytest.approx(0.25, abs=0.01)
    assert P.shape == Q.shape


def test_with_many_inputs_the_coordinate_branch_is_linear():
    X = rng(81).standard_normal((30, 200))
    net = BranchNet(draw_mlp(rng(82), 200, width=16), X, rng(83))
    P = net.coordinate_features(X)
    np.testing.assert_allclose((P**2).sum(1).mean(), 1.0)
    np.testing.assert_allclose(P @ P.T, X @ X.T / (X**2).sum(1).mean())
    dense = net.dense_factors(X)
    np.testing.assert_allclose(
        kernel(net.factors(X), net.factors(X)), 0.5 * kernel(dense, dense) + 0.5 * P @ P.T, rtol=1e-12, atol=1e-12
    )
    slope = X @ rng(84).standard_normal(200)
    assert chosen(net, X, slope).share >= 0.5


def chosen(net: BranchNet, X: np.ndarray, y: np.ndarray) -> Shape:
    return choose_shape(net, net.shape, X, ((y - y.mean()) / y.std())[:, None], np.zeros(1))[0]


def test_evidence_tells_additive_from_dense_smooth_from_rough_and_signal_from_noise():
    X = rng(70).uniform(-1, 1, (150, 6))
    net = BranchNet(draw_mlp(rng(71), 6, width=64, tail=5), X, rng(72))
    smooth, rough = chosen(net, X, np.sin(2 * X).sum(1)), chosen(net, X, np.sin(12 * X).sum(1))
    assert smooth.share == rough.share == 0.9
    assert smooth.coordinate_scale < rough.coordinate_scale
    assert chosen(net, X, np.sin(X @ np.array([1.0, -1, 1, 1, -1, 1]) * 1.2)).share == 0.0
    assert chosen(net, X, rng(73).standard_normal(150)).lam == 1.0


def test_evidence_is_the_density_of_the_values():
    A = rng(74).standard_normal((7, 9))
    K, targets, lam = A @ A.T, rng(75).standard_normal((7, 2)), 0.3
    evidence, variance = log_evidence(K, targets, lam)
    for j in range(2):
        theirs = multivariate_normal(np.zeros(7), variance[j] * (K + lam * np.eye(7)))
        assert evidence[j] - 3.5 * (1 + np.log(2 * np.pi)) == pytest.approx(theirs.logpdf(targets[:, j]), rel=1e-10)
        for other in (0.9, 1.1):
            assert multivariate_normal(np.zeros(7), other * variance[j] * (K + lam * np.eye(7))).logpdf(
                targets[:, j]
            ) < theirs.logpdf(targets[:, j])


def test_evidence_chooses_the_warp_that_makes_the_values_plain():
    X = rng(76).uniform(-1, 1, (200, 3))
    net = BranchNet(draw_mlp(rng(77), 3, width=64), X, rng(78))
    signal = np.sin(2 * X).sum(1)
    for y, best in ((signal, "none"), (-np.exp(-2 * signal), "strong")):
        model = ClosedForm(
            net, net.shape, seed=0, chosen="shape", warping=None, dual_limit=500, sketch_size=100, device="cpu"
        )
        model.refresh(X, y, np.full(200, np.nan))
        assert model.warping == best


def test_warp_states_its_own_slope():
    y = rng(79).standard_normal(40) * 3
    for warping in ("strong", "gentle", "none"):
        warp = Warp.of(y, warping)
        slopes = (warp(y + 1e-6) - warp(y - 1e-6)) / 2e-6
        assert warp.log_jacobian(y) == pytest.approx(float(np.log(slopes).sum()), abs=1e-4)


def test_heavy_tails_give_the_spectrum_of_a_matern_kernel():
    net = draw_mlp(rng(80), 2, width=200_000, tail=5)
    apart = np.array([[0.0, 0.0], [0.7, 0.0], [1.5, 1.0]])
    W = net.weights[0][:2]
    r = 5**0.5 * np.linalg.norm(apart, axis=1)
    np.testing.assert_allclose(np.cos(apart @ W).mean(1), (1 + r + r**2 / 3) * np.exp(-r), atol=0.01)


def test_scheduled_sizes():
    sizes = [fit_sizes(1.2, 4, n) for n in range(1, 60)]
    assert sizes == sorted(sizes)
    assert all(size <= max(n, 4) for n, size in zip(range(1, 60), sizes))
    assert len(set(sizes)) < 20
