"""NeuralBO: the trained net and its linearised posterior, the paper's own preset, modules, pools, replay and states."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from regretless.methods import METHODS
from regretless.methods.neural_bo import trained
from regretless.methods.neural_bo.algorithm import NeuralBO
from regretless.methods.neural_bo.train_nn import TrainNN, paper_net, theorem_constants
from regretless.methods.neural_bo.trained import NetTangent, TrainedTangent
from regretless.parameters import Float
from regretless.space import Cube, Space
from regretless.tangent import ridge
from regretless.tangent.ntk import draw_mlp, inner, kernel
from regretless.tangent.ridge import KernelRidge
from regretless.tangent.warp import Warp

PRESETS = [{}, {"preset": "paper"}, {"ridge": 0.01}, {"depth": 3, "activation": "tanh", "width": 32}]


def bowl(X, centre=0.3):
    return -np.sum((X - centre) ** 2, axis=1)


def run(method, n, f=bowl):
    for _ in range(n):
        x = method.ask()
        method.tell(x, f(x))
    return method


@pytest.mark.parametrize("options", PRESETS, ids=str)
def test_replay_holds_in_every_preset(options):
    one = run(NeuralBO(2, seed=1, **options), 13)
    two = NeuralBO(2, seed=1, **options)
    two.tell(one.X, one.y)
    assert np.array_equal(one.ask(2, step=13), two.ask(2, step=13))


@pytest.mark.parametrize("options", PRESETS, ids=str)
@pytest.mark.parametrize("level", [0.0, 1e12])
def test_presets_survive_constant_values(options, level):
    method = run(NeuralBO(3, seed=2, **options), 12, lambda X: np.full(len(X), level))
    assert np.isfinite(method.ask()).all()


# ---------------------------------------------------------------- the trained net


def net(width=24):
    rng = np.random.default_rng(0)
    return NetTangent(draw_mlp(rng, 3, width=width), rng.uniform(-1, 1, (64, 3)))


def rough(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


def data(n, key=1):
    X = np.random.default_rng(key).uniform(-1, 1, (n, 3))
    return X, rough(X), np.full(n, np.nan)


def told(n=40, **options):
    model = TrainedTangent(net(), seed=4, **options)
    model.refresh(*data(n))
    return model


def test_without_training_it_is_kernel_ridge_regression():
    """The degenerate case: theta_k = theta0, so the mean is k(x, X) (K + lam I)^-1 y at the start's kernel."""
    X, y, _ = data(40)
    model = told(steps=0, ridge=1e-3)
    start = net().scaled(model._trainings[model._place].scale)
    K = kernel(*[start.factors(X)] * 2)
    Z = np.random.default_rng(2).uniform(-1, 1, (9, 3))
    warp = Warp.of(y[: trained.SIZES[model._place]], model._trainings[model._place].warping)
    direct = kernel(start.factors(Z), start.factors(X)) @ np.linalg.solve(K + 1e-3 * np.eye(40), warp(y))
    np.testing.assert_allclose(model.mean(Z), warp.inverse(direct), atol=1e-8)


def test_mean_and_draws_are_those_of_the_linearised_net():
    """Against the posterior written out in weight space, with gradients by autograd."""
    torch = pytest.importorskip("torch")
    X, y, _ = data(30)
    model = told(30, ridge=1e-2)
    training = model._trainings[model._place]
    weights = [torch.tensor(w, requires_grad=True) for w in training.theta]
    start = net().scaled(training.scale)

    def h(rows, W, a):
        one = torch.ones(len(rows), 1, dtype=torch.float64)
        return torch.sin(torch.cat([rows, one], 1) @ W) @ a * len(a) ** -0.5

    def gradients(rows):
        out = h(torch.tensor(rows), *weights)
        made = [torch.autograd.grad(value, weights, retain_graph=True) for value in out]
        return out.detach().numpy(), np.array([torch.cat([g.reshape(-1) for g in parts]).numpy() for parts in made])

    def begun(rows):
        return h(torch.tensor(rows), *[torch.tensor(w) for w in start.start()]).numpy()

    Z = np.random.default_rng(2).uniform(-1, 1, (200, 3))
    (out, G), (out_Z, G_Z) = gradients(X), gradients(Z)
    norm = model._net.norm
    delta = np.concatenate([(a - b).ravel() for a, b in zip(training.theta, start.start(), strict=True)])
    t = model._warp(y) - (out - begun(X)) + G @ delta
    A = G @ G.T / norm + 1e-2 * np.eye(30)
    mean = out_Z - begun(Z) - G_Z @ delta + G_Z @ (G.T @ np.linalg.solve(A, t)) / norm
    np.testing.assert_allclose(model._function(model._posterior.mean())(Z), mean, atol=1e-7)
    draws = np.array([model.draw(1.0, np.random.default_rng(i))(Z[:4]) for i in range(3000)])
    K = G_Z[:4] @ G_Z[:4].T / norm
    cross = G_Z[:4] @ G.T / norm
    cov = model.variance * (K - cross @ np.linalg.solve(A, cross.T))
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.12 * cov.max())
    np.testing.assert_allclose(draws.mean(0), mean[:4], atol=5 * (cov.max() / 3000) ** 0.5)


def test_training_lowers_the_error_of_the_net_itself():
    X, y, _ = data(120)
    model = told(120, steps=400)
    off = model._warp(y) - (
        model._net.at_origin(X, model._delta)[0]
        + model._net._net.norm**0.5 * inner(model._net.factors(X), model._delta)
    )
    assert np.mean(off**2) < 0.2 * np.mean(model._warp(y) ** 2)


def test_a_training_goes_on_from_the_one_before_and_a_fresh_one_does_not(monkeypatch):
    steps = []
    monkeypatch.setattr(trained, "adam", lambda theta, gradient, batches, rate: steps.append(len(batches)) or theta)
    model = TrainedTangent(net(), seed=4, steps=80)
    for n in range(1, 24):
        model.refresh(*data(n))
    assert [n for n, count in enumerate(steps, start=1) if count == 80] == [1, 11, 21]
    assert set(steps) == {80, 20}
    del steps[:]
    bulk = TrainedTangent(net(), seed=4, steps=80)
    bulk.refresh(*data(26))
    assert len(steps) <= trained.FRESH_EVERY


def test_replay_across_the_sketch_s_edge(monkeypatch):
    for module in (trained, ridge):
        monkeypatch.setattr(module, "EXACT_UP_TO", 30)
    monkeypatch.setattr(ridge, "SKETCH_SIZE", 60)
    X = np.random.default_rng(3).random((48, 3))
    one, two = NeuralBO(3, seed=3, width=24, training=40), NeuralBO(3, seed=3, width=24, training=40)
    for x in X:
        one.tell(x[None], bowl(x[None]))
        one.ask()
        one.forget(one.pending)
    two.tell(X, bowl(X))
    assert np.array_equal(one.ask(step=7), two.ask(step=7))


def test_a_loaded_run_trains_nothing_again(monkeypatch):
    first = run(NeuralBO(3, seed=2, width=24, training=40), 15)
    second = NeuralBO(3, seed=2, width=24, training=40)
    first.ask()
    state = first.state_dict()
    monkeypatch.setattr(trained, "adam", None)
    second.load_state_dict(state)
    assert np.array_equal(first.ask(step=30), second.ask(step=30))


@pytest.mark.parametrize("damage", [{"place": 99}, {"theta": {}}, {"scale": 0.5}, {"lam": -1.0}, {"warping": "mild"}])
def test_a_damaged_state_is_refused(damage):
    method = run(NeuralBO(3, seed=2, width=8, training=8), 12)
    state = method.state_dict()
    state["own"] = {**state["own"], **damage}
    with pytest.raises(ValueError, match="the state is damaged"):
        NeuralBO(3, seed=2, width=8, training=8).load_state_dict(state)


def test_known_variances_count():
    rng = np.random.default_rng(6)
    X, noisy = rng.random((40, 3)), np.arange(40) % 2 == 1
    y, yvar = bowl(X) + np.where(noisy, rng.standard_normal(40), 0.0), np.where(noisy, 1.0, 1e-4)
    known, plain = NeuralBO(3, seed=6, width=32), NeuralBO(3, seed=6, width=32)
    known.tell(X, y, yvar=yvar)
    plain.tell(X, y)
    U = rng.random((200, 3))
    errors = []
    for method in (known, plain):
        method._refresh()
        errors.append(np.abs(method._model.mean(method._inputs(U)) - bowl(U)).mean())
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize("depth", [2, 3])
def test_torch_devices_give_the_same_points(depth):
    """Any device but plain "cpu" goes through torch tensors; "cpu:0" is one without a GPU."""
    pytest.importorskip("torch")
    X = np.random.default_rng(11).random((24, 3))
    asked = []
    for device in ("cpu", "cpu:0"):
        method = NeuralBO(3, seed=2, device=device, depth=depth, width=24, training=40)
        method.tell(X, bowl(X))
        asked.append(np.concatenate([method.ask(2), method.recommend()[None]]))
    np.testing.assert_allclose(asked[1], asked[0], atol=1e-6)


def test_a_module_of_the_user_s_is_trained_and_gives_what_the_same_net_gives():
    torch = pytest.importorskip("torch")
    own = net(width=16)
    start = own.scaled(1.6)

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = (torch.nn.Parameter(torch.tensor(w)) for w in start.start())

        def forward(self, x):
            one = torch.ones(len(x), 1, dtype=x.dtype)
            return torch.sin(torch.cat([x, one], 1) @ self.first) @ self.last * 16**-0.5

    from regretless.methods.neural_bo.module_net import ModuleNet

    X, y, yvar = data(30)
    domain = np.random.default_rng(0).uniform(-1, 1, (64, 3))
    theirs = TrainedTangent(ModuleNet(Same(), domain, np.random.default_rng(5)), seed=4, ridge=1e-2, steps=60)
    mine = TrainedTangent(NetTangent(start._start, domain), seed=4, ridge=1e-2, steps=60)
    mine._start.scaled = lambda scale: None
    for model in (theirs, mine):
        model.refresh(X, y, yvar)
    Z = np.random.default_rng(2).uniform(-1, 1, (20, 3))
    np.testing.assert_allclose(theirs.mean(Z), mine.mean(Z), atol=1e-6)


def test_the_default_trains_its_net_unless_told_not_to():
    for options, trains in (({}, True), ({"training": 0}, False)):
        method = run(NeuralBO(3, seed=1, width=16, **options), 30)
        method._refresh()
        assert any(part.any() for part in method._model._delta) == trains  # theta - theta0


def test_the_mean_moves_with_every_value_between_trainings():
    X, y, yvar = data(200)
    model = TrainedTangent(net(), seed=4, steps=20)
    model.refresh(X[:190], y[:190], yvar[:190])
    place, before = model._place, model.mean(X[190:191])
    model.refresh(X[:191], y[:191] + np.eye(1, 191, 190)[0], yvar[:191])
    assert model._place == place
    assert model.mean(X[190:191]) > before + 0.1


def test_default_beats_the_presets_of_the_paper_on_a_bowl():
    found = {}
    for name, options in {"default": {}, "paper": {"preset": "paper"}}.items():
        found[name] = np.median([bowl(run(NeuralBO(4, seed=seed, **options), 40).X).max() for seed in range(3)])
    assert found["default"] > found["paper"]
    assert found["default"] > -0.02


def test_the_paper_preset_draws_every_point_by_itself():
    """f(x) ~ N(h(x; theta), nu^2 sigma^2(x)) for each x (Alg. 1, l. 4), h and sigma checked elsewhere."""
    method = run(NeuralBO(3, seed=5, preset="paper", width=20, n_candidates=50), 12)
    method._refresh()
    Z = method._inputs(np.random.default_rng(6).random((400, 3)))
    draw = method._model.draw(0.1, np.random.default_rng(7))
    scores = (draw(Z) - method._model._outputs(Z)) / (0.1 * method._model._deviation(Z))
    np.testing.assert_allclose(scores, np.random.default_rng(7).standard_normal(400), atol=1e-9)


def test_paper_reports_the_clipped_learning_rate():
    method = run(NeuralBO(10, seed=5, preset="paper", n_candidates=50), 26)
    used, asked = method.learning_rate
    assert asked == 1e-3
    assert 0 < used < asked
    assert np.isfinite(method._model.mean(method._told_inputs)).all()


# ---------------------------------------------------------------- inputs that are no box


# ---------------------------------------------------------------- the paper's own, options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "best"}, "preset"),
        ({"ridge": 0.0}, "ridge"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"depth": 1}, "depth"),
        ({"activation": "step"}, "activation"),
        ({"preset": "paper", "device": "cuda"}, "device"),
        ({"norm_bound": 1.0}, "noise_sd"),
        ({"preset": "paper", "activation": "tanh"}, "activation"),
        ({"preset": "authors"}, "preset"),
        ({"width": 0}, "width"),
        ({"training": -1}, "training"),
        ({"preset": "paper", "training": 9}, "training"),
    ],
)
def test_bad_options_name_themselves(options, message):
    with pytest.raises(ValueError, match=message):
        NeuralBO(Cube.box(2), seed=0, **options)


def test_constants_of_the_theorem():
    """lam, eta and J of Thm. 1 by hand for T = 10, m = 20, L = 2, alpha = 0.1, and h(x; theta0) = 0 (Sec. 4)."""
    found = theorem_constants(10, 20, 2)
    assert found.lam == pytest.approx(1.1)
    assert found.rate == pytest.approx(1 / (20 * 1.1 + 20 * 2 * 10))
    assert found.steps == math.ceil((1 + 20 / 1.1) * (1 + math.log(1000 * 2 * math.log(10) / 1.1)))
    method = run(NeuralBO(3, seed=1, budget=10, preset="paper", constants="theorem", width=20), 9)
    assert method._lam == pytest.approx(1.1)
    assert method.learning_rate == pytest.approx((found.rate, found.rate))
    net = method._model._net
    assert not net.weights[-1].any()
    assert np.ptp(net.outputs(np.random.default_rng(0).random((5, 3)))) == 0.0
    assert net.weights[0].var() == pytest.approx(2 / 20, rel=0.5)
    known = NeuralBO(3, seed=1, budget=10, preset="paper", constants="theorem", norm_bound=2.0, noise_sd=0.3)
    assert known.exploration == pytest.approx(2**0.5 * 2 + 0.3 / 1.1**0.5 * math.sqrt(2 * math.log(10)))
    with pytest.raises(ValueError, match="constants='theorem' belongs to preset='paper'"):
        NeuralBO(3, seed=1, preset="paper", constants="theorem")


def test_a_module_is_trained_as_the_papers_net_is():
    """The paper's net as a user's module: the same features, the same training, hence the same mean and deviation."""
    torch = pytest.importorskip("torch")
    from regretless.methods.neural_bo.module_training import ModuleTrainNN

    net = paper_net(np.random.default_rng(6), 2, 30, 2)
    X, y = np.random.default_rng(7).uniform(-1, 1, (70, 2)), np.random.default_rng(8).standard_normal(70)

    class Same(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = (torch.nn.Parameter(torch.tensor(w)) for w in net.weights)

        def forward(self, x):
            return 30**0.5 * (torch.relu(x @ self.first) @ self.last)

    rng = np.random.default_rng(9)
    module = ModuleTrainNN(Same(), X, rng, seed=4, lam=0.01)
    m = module._tangent.norm  # where the paper has m = 30
    scaled = TrainNN(replace(net, norm=m), seed=4, lam=0.01 * m / 30)
    scaled._posterior = KernelRidge(replace(net, norm=m), 0.01)
    for model in (module, scaled):
        model.refresh(X, y, np.full(70, np.nan))
    np.testing.assert_allclose(module.mean(X), scaled.mean(X), rtol=1e-8)
    ours = module._posterior.deviation(module._tangent.factors(X))
    np.testing.assert_allclose(ours, scaled._posterior.deviation(replace(net, norm=m).factors(X)), rtol=1e-8)
    assert module.rate == pytest.approx(scaled.descent.rate, rel=1e-6)
    method = run(NeuralBO(2, seed=3, preset="paper", network=torch.nn.Linear(2, 1)), 9)
    assert method.recommend().shape == (2,)


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


@pytest.mark.parametrize(("old", "new"), [("nu", "exploration"), ("lam", "ridge"), ("noise", "noise_sd")])
def test_former_names_answer_with_the_present_ones(old, new):
    with pytest.raises(TypeError, match=f"'{old}' is called '{new}'"):
        METHODS["neural-bo"](**{old: 0.1})


@pytest.mark.parametrize("option", ["shape", "additive", "warp", "trust_region", "hops"])
def test_options_of_the_former_default_name_the_method_that_has_them(option):
    with pytest.raises(TypeError, match=f"'{option}' belongs to the method 'tangent-region' now"):
        METHODS["neural-bo"](**{option: 0})
    METHODS["tangent-region"](**{option: None})


# ---------------------------------------------------------------- values of any size, states


SIZES = [1e160, -1e160, -1e300, 1.7e308, -1.7e308]


@pytest.mark.parametrize("value", SIZES)
@pytest.mark.parametrize("options", [{}, {"preset": "paper"}], ids=str)
def test_one_huge_value_neither_raises_nor_gives_nan(value, options):
    cube = Space({"a": Float(-3, 5), "b": Float(2, 9)}).cube()
    method = run(NeuralBO(cube, seed=4, **options), 9)
    method.tell([[0.31, 0.77]], [value])
    run(method, 3)
    assert np.isfinite(method.ask()).all()
    certificate = method.certificate()
    assert not np.isnan([certificate.gap, certificate.lower, certificate.upper]).any()
    if certificate.certified:
        assert np.isfinite([certificate.gap, certificate.lower, certificate.upper]).all()
    if options.get("preset") != "paper":  # whose mean hardly leaves its start after so few values
        assert np.allclose(method.recommend(), [0.31, 0.77], atol=1e-9) == (value > 0)


@pytest.mark.parametrize("key", ["X", "failed", "pending"])
def test_a_state_with_a_point_that_is_none_is_refused(key):
    method = run(NeuralBO(2, seed=6), 8)
    method.tell([[0.3, 0.4]], [np.nan])
    method.ask()
    state = method.state_dict()
    state[key] = state[key].copy()
    state[key][0, 1] = np.nan
    with pytest.raises(ValueError, match="unit cube"):
        NeuralBO(2, seed=6).load_state_dict(state)


# ---------------------------------------------------------------- without torch


WITHOUT_TORCH = """
import sys


class NoTorch:
    # None in sys.modules would do, but scipy takes an entry there for an installed torch
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


sys.meta_path.insert(0, NoTorch())
import regretless as rg

space = {"a": rg.Float(-3, 5), "b": rg.Float(2, 9)}
for name in ("neural-bo", "tangent-region", "neural-greedy", "dngo", "neural-ucb"):
    best = rg.minimize(lambda a, b: (a - 1.5) ** 2 + (b - 6) ** 2, space, method=name, trials=14, seed=0)
    assert best.value < 20, name
rg.NeuralBO(preset="paper").build(2, seed=0).ask()
for options in ({"network": object()}, {"device": "cuda"}):
    try:
        rg.NeuralBO(**options).build(2, seed=0)
    except ImportError as error:
        assert "torch is not installed: pip install" in str(error), error
    else:
        raise AssertionError(options)
"""


def test_numpy_is_enough_until_a_network_or_a_device_is_named():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
