"""The posterior in kernel form and as a sketch, against direct solves; draws against the moments they must have."""

import pickle

import numpy as np
import pytest

from regretless.models.tangent.ntk import draw_mlp, kernel, rows_of
from regretless.models.tangent.ridge import (
    KERNEL_BLOCK,
    SKETCH_BLOCK,
    KernelRidge,
    SketchRidge,
    cholesky,
    solve_lower,
    theory_nu,
)


def rng(key=0):
    return np.random.default_rng(key)


def written_out(A):
    """The gradients of factors A as plain vectors, n x p, in the order of the directions."""
    parts = [i if o is None else (i[:, :, None] * o[:, None, :]).reshape(len(i), -1) for i, o in A]
    return np.concatenate(parts, axis=1)


def dense_posterior(net, X, y, Z, lam):
    A, B = net.factors(X), net.factors(Z)
    S = kernel(A, A) + lam * np.eye(len(X))
    return kernel(B, A) @ np.linalg.solve(S, y), kernel(B, B) - kernel(B, A) @ np.linalg.solve(S, kernel(A, B))


def sketch_deviation(sketch, net, X, Z, lam, v=1.0):
    """The standard deviation of the sketch's posterior at Z, from its features and a direct solve."""
    A, B = sketch.sketch(net.factors(X)) / np.sqrt(v * np.ones(len(X)))[:, None], sketch.sketch(net.factors(Z))
    return np.sqrt(lam * np.einsum("ij,ji->i", B, np.linalg.solve(A.T @ A + lam * np.eye(A.shape[1]), B.T)))


@pytest.mark.parametrize(
    ("activation", "depth", "constant"), [("sin", 2, True), ("softplus", 4, True), ("relu", 3, False)]
)
def test_sigma_agrees_in_feature_and_kernel_form(activation, depth, constant):
    """The paper's lam g' U^-1 g with U = lam I + sum g g' (Alg. 1, l. 3 and 7)."""
    net = draw_mlp(rng(1), 4, width=16, depth=depth, activation=activation, constant=constant)
    X, Z, lam = rng(2).standard_normal((23, 4)), rng(3).standard_normal((9, 4)), 0.01
    G, g = written_out(net.factors(X)), written_out(net.factors(Z))
    U = lam * np.eye(G.shape[1]) + G.T @ G
    feature_form = lam * np.einsum("ij,ji->i", g, np.linalg.solve(U, g.T))
    ridge = KernelRidge(net, lam)
    ridge.extend(X, np.zeros(23))
    np.testing.assert_allclose(ridge.deviation(net.factors(Z)) ** 2, feature_form, atol=1e-10)


def test_mean_is_kernel_ridge_and_gradient_descent_on_the_linearised_net_gets_there():
    net = draw_mlp(rng(17), 3, width=24, activation="softplus")
    X, y, Z, lam = rng(18).uniform(-1, 1, (12, 3)), rng(19).standard_normal(12), rng(20).uniform(-1, 1, (5, 3)), 0.1
    mean, _ = dense_posterior(net, X, y, Z, lam)
    ridge = KernelRidge(net, lam)
    ridge.extend(X, y)
    np.testing.assert_allclose(ridge.values(net.factors(Z), ridge.mean()), mean, atol=1e-10)
    np.testing.assert_allclose(ridge.values(net.factors(Z), ridge.mean(3 * y)), 3 * mean, atol=1e-10)
    G = written_out(net.factors(X))
    theta = np.zeros(G.shape[1])
    rate = 1.0 / (np.linalg.eigvalsh(G @ G.T)[-1] + lam)
    for _ in range(6000):  # TrainNN's steps on the linearised net, from theta0
        theta -= rate * (G.T @ (G @ theta - y) + lam * theta)
    np.testing.assert_allclose(written_out(net.factors(Z)) @ theta, mean, atol=1e-8)


@pytest.mark.parametrize("n", [1, KERNEL_BLOCK - 1, KERNEL_BLOCK, 2 * KERNEL_BLOCK + 5])
def test_appending_row_by_row_gives_the_same_bits_as_all_at_once(n):
    net = draw_mlp(rng(21), 3, width=16)
    X, y = rng(22).uniform(-1, 1, (n, 3)), rng(23).standard_normal(n)
    whole, grown = KernelRidge(net, 0.01), KernelRidge(net, 0.01)
    whole.extend(X, y)
    for i in range(1, n + 1):
        grown.extend(X[:i], y[:i] + i)
    grown.extend(X, y)  # targets may change with every extension
    A = net.factors(rng(24).uniform(-1, 1, (4, 3)))
    assert np.array_equal(whole.values(A, whole.mean()), grown.values(A, grown.mean()))
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
        exact.extend(X[:i], y[:i], v[:i])
    np.testing.assert_allclose(exact.values(B, exact.mean()), mean, atol=1e-10)
    np.testing.assert_allclose(exact.deviation(B) ** 2, variance, atol=1e-10)
    draws = np.array([exact.values(B, exact.draw(1.0, rng(76 + i))) for i in range(4000)])
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.15)
    whole = SketchRidge(
        Flat(net), lam, 1000, rng(77), Flat(net).factors(X[:1])
    )  # short layers are kept as they are: exact
    whole.extend(X, y, v=v)
    np.testing.assert_allclose(whole.values(Flat(net).factors(Z), whole.mean()), mean, atol=1e-8)
    np.testing.assert_allclose(sketch_deviation(whole, Flat(net), X, Z, lam, v) ** 2, variance, atol=1e-8)


class Flat:
    """A net whose gradients are written out: one layer of features."""

    def __init__(self, net):
        self._net = net

    def factors(self, X):
        return ((written_out(self._net.factors(X)), None),)


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
        sizes.add(len(pickle.dumps((grown.moments, grown.sums, grown.maps))))
    grown.extend(X, y)
    assert np.array_equal(whole.mean(), grown.mean())
    assert len(sizes) == 1


def test_sketch_approaches_the_exact_posterior():
    net = draw_mlp(rng(29), 5, width=32)
    X, y, Z = rng(30).uniform(-1, 1, (120, 5)), rng(31).standard_normal(120), rng(32).uniform(-1, 1, (200, 5))
    exact = KernelRidge(net, 0.05)
    exact.extend(X, y)
    sd = exact.deviation(net.factors(Z))
    errors = []
    for size in (100, 1600):
        sketch = SketchRidge(net, 0.05, size, rng(33), net.factors(X[:1]))
        sketch.extend(X, y)
        errors.append(float(np.median(np.abs(sketch_deviation(sketch, net, X, Z, 0.05) / sd - 1))))
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
    held = len(pickle.dumps((sketches[0].moments, sketches[0].sums, sketches[0].maps)))
    assert held < 8 * 400 * 402 + 20 * 1300  # the map is two short lists, not a matrix


def test_covariance_of_coherent_draws_is_the_posterior():
    net = draw_mlp(rng(34), 2, width=32)
    X, y, Z, lam = rng(35).uniform(-1, 1, (8, 2)), rng(36).standard_normal(8), rng(37).uniform(-1, 1, (6, 2)), 0.05
    mean, covariance = dense_posterior(net, X, y, Z, lam)
    ridge = KernelRidge(net, lam)
    ridge.extend(X, y)
    A, key = net.factors(Z), rng(38)
    draws = np.array([ridge.values(A, ridge.draw(1.0, key)) for _ in range(20_000)])
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
    sd = sketch_deviation(sketch, net, X, Z, 0.05)
    np.testing.assert_allclose(draws.std(0), sd, rtol=0.06)
    np.testing.assert_allclose(draws.mean(0), sketch.values(A, sketch.mean()), atol=5 * float(sd.max()) / 4000**0.5)


def test_leave_one_out_equals_leaving_one_out():
    net = draw_mlp(rng(45), 2, width=16)
    X, y, lam = rng(46).uniform(-1, 1, (9, 2)), rng(47).standard_normal(9), 0.1
    ridge = KernelRidge(net, lam)
    ridge.extend(X, y)
    residual, spread = ridge.leave_one_out()
    for i in range(9):
        rest = np.arange(9) != i
        mean, covariance = dense_posterior(net, X[rest], y[rest], X[i : i + 1], lam)
        assert residual[i] == pytest.approx(y[i] - mean[0], abs=1e-9)
        assert spread[i] == pytest.approx(float(covariance[0, 0] + lam) ** 0.5, abs=1e-9)


def test_torch_arrays_go_through_the_same_code():
    torch = pytest.importorskip("torch")
    net = draw_mlp(rng(48), 3, width=16, depth=3, activation="softplus")
    there = net.to("cpu:0")
    X, y, Z = rng(49).uniform(-1, 1, (70, 3)), rng(50).standard_normal(70), rng(51).uniform(-1, 1, (5, 3))
    A, B = net.factors(Z), there.factors(torch.tensor(Z))
    host, other = KernelRidge(net, 0.01), KernelRidge(there, 0.01, device="cpu:0")
    for posterior in (host, other):
        posterior.extend(X, y, np.linspace(0.5, 2.0, 70))
    found = other.values(B, other.draw(0.5, rng(52))).numpy()
    np.testing.assert_allclose(found, host.values(A, host.draw(0.5, rng(52))), atol=1e-9)
    np.testing.assert_allclose(other.deviation(B).numpy(), host.deviation(A), atol=1e-9)
    s = SketchRidge(net, 0.01, 60, rng(53), rows_of(A, slice(0, 1)))
    t = SketchRidge(there, 0.01, 60, rng(53), rows_of(B, slice(0, 1)), device="cpu:0")
    for posterior in (s, t):
        posterior.extend(X, y)
    np.testing.assert_allclose(t.mean().numpy(), s.mean(), atol=1e-9)


def test_cholesky_raises_the_diagonal_of_a_singular_matrix_and_gives_up_on_nan():
    ones = np.ones((3, 3))
    L = cholesky(ones)
    np.testing.assert_allclose(L @ L.T, ones, atol=1e-6)
    np.testing.assert_allclose(solve_lower(np.array([[2.0, 9.0], [1.0, 4.0]]), np.array([2.0, 9.0])), [1.0, 2.0])
    with pytest.raises(FloatingPointError, match="positive definite"):
        cholesky(np.full((2, 2), np.nan))


def test_theory_nu():
    assert theory_nu(2.0, 0.1, 0.04, 0.1) == pytest.approx(2 * 2**0.5 + 0.1 / 0.2 * (2 * np.log(10)) ** 0.5)
