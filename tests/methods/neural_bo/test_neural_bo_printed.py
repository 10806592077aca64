"""NeuralBO as printed: its net, its training, its constants and its draws."""

import math

import numpy as np
import pytest
from inside import net_of

from regretless.methods.neural_bo.printed import PrintedNeuralBO
from regretless.methods.neural_bo.train_nn import paper_net, theorem_constants
from regretless.models.tangent.ntk import kernel
from regretless.space import Cube, Space
from regretless.space.parameters import Float
from regretless.testing import Loop


def bowl(X, centre=0.3):
    return -np.sum((X - centre) ** 2, axis=1)


def run(method, n, f=bowl):
    loop = Loop(method)
    for _ in range(n):
        x = loop.ask()
        loop.tell(x, f(x))
    return loop


def test_replay_holds():
    one, two = run(PrintedNeuralBO(2, seed=1), 13), Loop(PrintedNeuralBO(2, seed=1))
    two.tell(one.history.X, one.history.y)
    assert np.array_equal(one.ask(2, step=13), two.ask(2, step=13))


@pytest.mark.parametrize("level", [0.0, 1e12])
def test_it_survives_constant_values(level):
    loop = run(PrintedNeuralBO(3, seed=2), 12, lambda X: np.full(len(X), level))
    assert np.isfinite(loop.ask()).all()


def test_every_point_is_drawn_by_itself():
    """f(x) ~ N(h(x; theta), nu^2 sigma^2(x)) for each x (Alg. 1, l. 4), h and sigma checked elsewhere."""
    loop = run(PrintedNeuralBO(3, seed=5, width=20, n_candidates=50), 12)
    method, U = loop.method, np.random.default_rng(6).random((400, 3))
    drawn, Z = method.sample(loop.history, U, np.random.default_rng(7)), method.inputs(U)
    sigma = method.U.deviation(net_of(method).factors(Z))
    scores = (drawn - method.trained.h(Z)) / (0.1 * sigma)
    np.testing.assert_allclose(scores, np.random.default_rng(7).standard_normal(400), atol=1e-9)


def test_it_reports_the_clipped_learning_rate():
    loop = run(PrintedNeuralBO(10, seed=5, n_candidates=50), 26)
    used, asked = loop.method.learning_rate(loop.history)
    assert asked == 1e-3
    assert 0 < used < asked
    assert np.isfinite(loop.method.trained.h(loop.method.inputs(loop.history.X))).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": 0.0}, "ridge"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"depth": 1}, "depth"),
        ({"norm_bound": 1.0}, "noise_sd"),
        ({"width": 0}, "width"),
        ({"constants": "best"}, "constants"),
        ({"constants": "theorem"}, "constants='theorem' needs a known budget"),
    ],
)
def test_bad_options_name_themselves(options, message):
    with pytest.raises(ValueError, match=message):
        PrintedNeuralBO(Cube.box(2), seed=0, **options)


def test_constants_of_the_theorem():
    """lam, eta and J of Thm. 1 by hand for T = 10, m = 20, L = 2, alpha = 0.1, and h(x; theta0) = 0 (Sec. 4)."""
    found = theorem_constants(10, 20, 2)
    assert found.lam == pytest.approx(1.1)
    assert found.rate == pytest.approx(1 / (20 * 1.1 + 20 * 2 * 10))
    assert found.steps == math.ceil((1 + 20 / 1.1) * (1 + math.log(1000 * 2 * math.log(10) / 1.1)))
    loop = run(PrintedNeuralBO(3, seed=1, budget=10, constants="theorem", width=20), 9)
    assert loop.method.lam == pytest.approx(1.1)
    assert loop.method.learning_rate(loop.history) == pytest.approx((found.rate, found.rate))
    net = net_of(loop.method)
    assert not net.weights[-1].any()
    assert np.ptp(net.outputs(np.random.default_rng(0).random((5, 3)))) == 0.0
    assert net.weights[0].var() == pytest.approx(2 / 20, rel=0.5)
    known = PrintedNeuralBO(3, seed=1, budget=10, constants="theorem", norm_bound=2.0, noise_sd=0.3)
    assert known.nu == pytest.approx(2**0.5 * 2 + 0.3 / 1.1**0.5 * math.sqrt(2 * math.log(10)))


def test_paper_net_is_as_printed():
    torch = pytest.importorskip("torch")
    net = paper_net(np.random.default_rng(6), 4, 50, 2)
    X = np.random.default_rng(7).standard_normal((5, 4))
    W, a = net.weights
    np.testing.assert_allclose(net.outputs(X), 50**0.5 * (np.maximum(X @ W, 0) @ a), atol=1e-12)
    assert W.std() == pytest.approx(50**-0.5, rel=0.15)
    weights = [torch.tensor(W, requires_grad=True), torch.tensor(a, requires_grad=True)]
    h = 50**0.5 * torch.relu(torch.tensor(X) @ weights[0]) @ weights[1]
    rows = [torch.autograd.grad(value, weights, retain_graph=True) for value in h]
    G = np.array([torch.cat([g.reshape(-1) for g in parts]).numpy() for parts in rows])
    np.testing.assert_allclose(kernel(net.factors(X), net.factors(X)), G @ G.T / 50, atol=1e-12)


@pytest.mark.parametrize("value", [1e160, -1e160, -1e300, 1.7e308, -1.7e308])
def test_one_huge_value_neither_raises_nor_gives_nan(value):
    loop = run(PrintedNeuralBO(Space({"a": Float(-3, 5), "b": Float(2, 9)}).cube(), seed=4), 9)
    loop.tell([[0.31, 0.77]], [value])
    for _ in range(3):
        x = loop.ask()
        loop.tell(x, bowl(x))
    assert np.isfinite(loop.ask()).all()
    assert np.isfinite(loop.recommend()).all()
