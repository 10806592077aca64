"""NeuralBO: the trained net and its linearised posterior, modules, replay and what is kept warm."""

import subprocess
import sys

import numpy as np
import pytest
from inside import model_of, net_of

from regretless.auto import find_recipe
from regretless.methods.neural_bo import trained
from regretless.methods.neural_bo.default import NeuralBO
from regretless.methods.neural_bo.printed import PrintedNeuralBO
from regretless.methods.neural_bo.trained import NetTangent, TrainedTangent
from regretless.models.tangent import ridge
from regretless.models.tangent.ntk import draw_mlp, inner, kernel
from regretless.models.tangent.warp import Warp
from regretless.space import Cube, Space
from regretless.space.parameters import Float
from regretless.testing import Loop

NETS = [{}, {"ridge": 0.01}, {"depth": 3, "activation": "tanh", "width": 32}]


def bowl(X, centre=0.3):
    return -np.sum((X - centre) ** 2, axis=1)


def run(method, n, f=bowl):
    loop = Loop(method)
    for _ in range(n):
        x = loop.ask()
        loop.tell(x, f(x))
    return loop


def told(method, X, y, **more):
    loop = Loop(method)
    loop.tell(X, y, **more)
    return loop


@pytest.mark.parametrize("options", NETS, ids=str)
def test_replay_holds_for_every_net(options):
    one = run(NeuralBO(2, seed=1, **options), 13)
    two = told(NeuralBO(2, seed=1, **options), one.history.X, one.history.y)
    assert np.array_equal(one.ask(2, step=13), two.ask(2, step=13))


@pytest.mark.parametrize("options", NETS, ids=str)
@pytest.mark.parametrize("level", [0.0, 1e12])
def test_nets_survive_constant_values(options, level):
    loop = run(NeuralBO(3, seed=2, **options), 12, lambda X: np.full(len(X), level))
    assert np.isfinite(loop.ask()).all()


# ---------------------------------------------------------------- the trained net


def net(width=24):
    rng = np.random.default_rng(0)
    return NetTangent(draw_mlp(rng, 3, width=width), rng.uniform(-1, 1, (64, 3)))


def rough(X):
    return np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


def data(n, key=1):
    X = np.random.default_rng(key).uniform(-1, 1, (n, 3))
    return X, rough(X), np.full(n, np.nan)


def trained_on(n=40, **options):
    model = TrainedTangent(net(), seed=4, **options)
    model.refresh(*data(n))
    return model


def test_without_training_it_is_kernel_ridge_regression():
    """The degenerate case: theta_k = theta0, so the mean is k(x, X) (K + lam I)^-1 y at the start's kernel."""
    X, y, _ = data(40)
    model = trained_on(steps=0, ridge=1e-3)
    start = net().scaled(model.trainings[model.place].scale)
    K = kernel(*[start.factors(X)] * 2)
    Z = np.random.default_rng(2).uniform(-1, 1, (9, 3))
    warp = Warp.of(y[: trained.SIZES[model.place]], "none")
    direct = kernel(start.factors(Z), start.factors(X)) @ np.linalg.solve(K + 1e-3 * np.eye(40), warp(y))
    np.testing.assert_allclose(model.mean(Z), warp.inverse(direct), atol=1e-8)


def test_mean_and_draws_are_those_of_the_linearised_net():
    """Against the posterior written out in weight space, with gradients by autograd."""
    torch = pytest.importorskip("torch")
    X, y, _ = data(30)
    model = trained_on(30, ridge=1e-2)
    training = model.trainings[model.place]
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
    norm = model.net.norm
    delta = np.concatenate([(a - b).ravel() for a, b in zip(training.theta, start.start(), strict=True)])
    t = model.warp(y) - (out - begun(X)) + G @ delta
    A = G @ G.T / norm + 1e-2 * np.eye(30)
    mean = out_Z - begun(Z) - G_Z @ delta + G_Z @ (G.T @ np.linalg.solve(A, t)) / norm
    np.testing.assert_allclose(model.function(model.posterior.mean())(Z), mean, atol=1e-7)
    draws = np.array([model.draw(1.0, np.random.default_rng(i))(Z[:4]) for i in range(3000)])
    K = G_Z[:4] @ G_Z[:4].T / norm
    cross = G_Z[:4] @ G.T / norm
    cov = model.variance * (K - cross @ np.linalg.solve(A, cross.T))
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.12 * cov.max())
    np.testing.assert_allclose(draws.mean(0), mean[:4], atol=5 * (cov.max() / 3000) ** 0.5)


def test_training_lowers_the_error_of_the_net_itself():
    X, y, _ = data(120)
    model = trained_on(120, steps=400)
    off = model.warp(y) - (
        model.net.at_origin(X, model.delta)[0] + model.net.net.norm**0.5 * inner(model.net.factors(X), model.delta)
    )
    assert np.mean(off**2) < 0.2 * np.mean(model.warp(y) ** 2)


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
    one = Loop(NeuralBO(3, seed=3, width=24, training=40))
    for x in X:
        one.tell(x[None], bowl(x[None]))
        one.forget(one.ask())
    two = told(NeuralBO(3, seed=3, width=24, training=40), X, bowl(X))
    assert np.array_equal(one.ask(step=7), two.ask(step=7))


def test_a_loaded_run_trains_nothing_again(monkeypatch):
    first = run(NeuralBO(3, seed=2, width=24, training=40), 15)
    first.forget(first.ask())
    monkeypatch.setattr(trained, "adam", None)
    second = first.resumed(NeuralBO(3, seed=2, width=24, training=40))
    assert np.array_equal(first.ask(step=30), second.ask(step=30))


def test_a_loaded_net_counts_for_its_own_history_alone():
    first = run(NeuralBO(3, seed=2, width=24, training=40), 15)
    first.forget(first.ask())
    second = first.resumed(NeuralBO(3, seed=2, width=24, training=40))
    other = np.random.default_rng(1).random((15, 3))
    asked = []
    for method in (second.method, NeuralBO(3, seed=2, width=24, training=40)):
        asked.append(told(method, other, bowl(other)).ask(step=30))
    assert np.array_equal(*asked)
    assert first.method.warm(first.history) != {}
    assert first.method.warm(told(first.method, other, bowl(other)).history) == {}


@pytest.mark.parametrize("damage", [{"place": 99}, {"theta": {}}, {"scale": 0.5}, {"lam": -1.0}])
def test_a_damaged_state_is_refused(damage):
    loop = run(NeuralBO(3, seed=2, width=8, training=8), 12)
    state = {**loop.method.warm(loop.history), **damage}
    with pytest.raises(ValueError, match="the state is damaged"):
        NeuralBO(3, seed=2, width=8, training=8).warm_from(loop.history, state)


def test_known_variances_count():
    rng = np.random.default_rng(6)
    X, noisy = rng.random((40, 3)), np.arange(40) % 2 == 1
    y, yvar = bowl(X) + np.where(noisy, rng.standard_normal(40), 0.0), np.where(noisy, 1.0, 1e-4)
    U = rng.random((200, 3))
    errors = []
    for variances in (yvar, None):
        loop = told(NeuralBO(3, seed=6, width=32), X, y, yvar=variances)
        loop.ask()
        errors.append(np.abs(loop.method._mean(loop.method.inputs(U)) - bowl(U)).mean())
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize("depth", [2, 3])
def test_torch_devices_give_the_same_points(depth):
    """Any device but plain "cpu" goes through torch tensors; "cpu:0" is one without a GPU."""
    pytest.importorskip("torch")
    X = np.random.default_rng(11).random((24, 3))
    asked = []
    for device in ("cpu", "cpu:0"):
        loop = told(NeuralBO(3, seed=2, device=device, depth=depth, width=24, training=40), X, bowl(X))
        asked.append(np.concatenate([loop.ask(2), loop.recommend()[None]]))
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
    mine = TrainedTangent(NetTangent(net_of(start), domain), seed=4, ridge=1e-2, steps=60)
    net_of(mine).scaled = lambda scale: None
    for model in (theirs, mine):
        model.refresh(X, y, yvar)
    Z = np.random.default_rng(2).uniform(-1, 1, (20, 3))
    np.testing.assert_allclose(theirs.mean(Z), mine.mean(Z), atol=1e-6)


def test_the_default_trains_its_net_unless_told_not_to():
    for options, trains in (({}, True), ({"training": 0}, False)):
        loop = run(NeuralBO(3, seed=1, width=16, **options), 30)
        loop.ask()
        assert any(part.any() for part in model_of(loop.method).delta) == trains  # theta - theta0


def test_the_mean_moves_with_every_value_between_trainings():
    X, y, yvar = data(200)
    model = TrainedTangent(net(), seed=4, steps=20)
    model.refresh(X[:190], y[:190], yvar[:190])
    place, before = model.place, model.mean(X[190:191])
    model.refresh(X[:191], y[:191] + np.eye(1, 191, 190)[0], yvar[:191])
    assert model.place == place
    assert model.mean(X[190:191]) > before + 0.1


def test_a_bowl_far_off_its_centre_is_found_through_noise():
    """A net that reads squares has a bowl in its features, which noise of a tenth of the deviation does not hide."""
    gaps: dict[str, list[float]] = {"neural-bo": [], "random": []}
    for seed in range(2):
        rng = np.random.default_rng([seed, 1])
        centre, weights = rng.uniform(0.2, 0.8, 10), np.geomspace(1, 30, 10)

        def noisy(X, centre=centre, weights=weights, rng=rng):
            return -(weights * (X - centre) ** 2).sum(1) + 0.4 * rng.standard_normal(len(X))

        for name in gaps:
            X = run(find_recipe(name).build(10, seed=seed), 80, noisy).history.X
            gaps[name].append(float((weights * (X - centre) ** 2).sum(1).min()))
    assert np.median(gaps["neural-bo"]) < 0.4 * np.median(gaps["random"])


def test_default_beats_the_printed_algorithm_on_a_bowl():
    default, printed = (
        np.median([bowl(run(kind(4, seed=seed), 40).history.X).max() for seed in range(3)])
        for kind in (NeuralBO, PrintedNeuralBO)
    )
    assert default > printed
    assert default > -0.02


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": 0.0}, "ridge"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"depth": 1}, "depth"),
        ({"activation": "step"}, "activation"),
        ({"width": 0}, "width"),
        ({"training": -1}, "training"),
    ],
)
def test_bad_options_name_themselves(options, message):
    with pytest.raises(ValueError, match=message):
        NeuralBO(Cube.box(2), seed=0, **options)


# ---------------------------------------------------------------- values of any size


SIZES = [1e160, -1e160, -1e300, 1.7e308, -1.7e308]


@pytest.mark.parametrize("value", SIZES)
def test_one_huge_value_neither_raises_nor_gives_nan(value):
    loop = run(NeuralBO(Space({"a": Float(-3, 5), "b": Float(2, 9)}).cube(), seed=4), 9)
    loop.tell([[0.31, 0.77]], [value])
    for _ in range(3):
        x = loop.ask()
        loop.tell(x, bowl(x))
    assert np.isfinite(loop.ask()).all()
    assert np.allclose(loop.recommend(), [0.31, 0.77], atol=1e-9) == (value > 0)


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
rg.minimize(lambda a, b: (a - 1.5) ** 2 + (b - 6) ** 2, space, method="neural-bo-printed", trials=9, seed=0)
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
