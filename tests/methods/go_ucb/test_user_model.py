"""Models of the user: how they are called, what is refused, what works without torch, and that no file runs code."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import regretless as rg
from regretless.basics.statefile import read_state, write_state
from regretless.history import History
from regretless.methods.go_ucb.parametric import ParameterBounds
from regretless.methods.go_ucb.torch_model import UserModule, tensor_ways
from regretless.methods.go_ucb.user_model import UserFunction, family_of

# ---------------------------------------------------------------- the way a model is called


def formula(w, x):
    return w[0] * torch.exp(-w[1] * x[:, 0]) + w[2] * x[:, 1]


def with_matrix(w, x):  # cannot take stacked parameters
    return torch.tanh(x @ w[:2]) * w[2]


def with_branch(w, x):  # cannot be vmapped
    return w[0] * x[:, 0] if float(w[1].detach()) > 0.5 else w[2] * x[:, 1] + w[1]


def array_formula(w, x):
    return w[0] * np.exp(-w[1] * x[:, 0]) + w[2] * x[:, 1]


def array_with_matrix(w, x):
    return np.tanh(x @ w[:2]) * w[2]


def with_own_gradient(w, x):
    return array_formula(w, x)


def _gradient(w, x):
    e = np.exp(-w[1] * x[:, 0])
    return np.column_stack([e, -w[0] * x[:, 0] * e, x[:, 1]])


with_own_gradient.gradient = _gradient


@pytest.mark.parametrize(
    ("f", "gradients", "way"),
    [
        (formula, "auto", "stacked"),
        (with_matrix, "torch", "vmap"),
        (with_branch, "auto", "loop"),
        (array_formula, "auto", "numeric, stacked"),
        (array_with_matrix, "numeric", "numeric, one by one"),
        (with_own_gradient, "auto", "own gradient"),
        (with_own_gradient, "numeric", "numeric, stacked"),
        (lambda w, x: w[0] * x[:, 0] + w[1] * w[2] * x[:, 1], "auto", "numeric, stacked"),
        (lambda w, x: w[0] * x[:, 0] + w[1] * w[2] * x[:, 1], "torch", "stacked"),
    ],
)
def test_the_way_follows_from_the_function_and_derivatives_are_right(f, gradients, way, assert_derivatives):
    rng = np.random.default_rng(4)
    family = UserFunction(f, {"a": (0.1, 2.0), "b": rg.Float(0.1, 2.0, log=True), "c": (0.1, 2.0)}, gradients)
    family.check(rng.random((6, 2)))
    assert family.way == way
    if way != "loop":
        assert_derivatives(family, 2, rng, tolerance=1e-5 if way.startswith("numeric") else 1e-7)


@pytest.mark.parametrize("f", [formula, with_matrix])
def test_every_way_of_torch_gives_the_same_numbers(f):
    rng = np.random.default_rng(4)
    W, X = rng.uniform(0.1, 2.0, (3, 3)), rng.random((6, 2))
    *quick, plain = (way for name, way in tensor_ways(f).items() if name != "stacked" or f is formula)
    for way in quick:
        for a, b in zip(way(W, X), plain(W, X), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def test_numeric_gradients_never_leave_the_bounds():
    seen = []

    def f(w, x):
        seen.append(np.asarray(w))
        return np.sqrt(w[0] - 2.0) * x[:, 0] + w[1]

    family = UserFunction(f, [(2.0, 5.0), (-1.0, 1.0)])
    F, J = family.jacobian(np.array([[-1.0, 1.0], [1.0, -1.0]]), np.full((3, 1), 1.5))
    assert np.isfinite(F).all()
    assert np.isfinite(J).all()
    assert min(w[0].min() for w in seen) >= 2.0
    assert max(w[1].max() for w in seen) <= 1.0


def test_a_model_in_numpy_and_one_in_torch_find_the_same_fit():
    space = {"dose": rg.Float(0.5, 30, log=True), "age": rg.Float(20, 70)}
    w_bounds = {"top": (0.5, 4.0), "half": rg.Float(0.5, 20, log=True), "slope": (0.0, 0.1)}
    fitted = []
    for model in (
        lambda w, x: w[0] * x[:, 0] / (w[1] + x[:, 0]) - w[2] * np.abs(x[:, 1] - 45),
        lambda w, x: w[0] * x[:, 0] / (w[1] + x[:, 0]) - w[2] * torch.abs(x[:, 1] - 45),
    ):
        method = rg.GOUCB(model=model, w_bounds=w_bounds, initial=8).build(rg.Space(space), seed=1, budget=20)
        X = np.random.default_rng(0).random((16, 2))
        params = [rg.Space(space).decode(x) for x in X]
        y = [2.0 * p["dose"] / (3.0 + p["dose"]) - 0.03 * abs(p["age"] - 45) for p in params]
        history = History(2).with_values(method.cube.snap(X), y)
        fitted.append([value for value, _, _ in method.parameters(history).values()])
    np.testing.assert_allclose(fitted[0], fitted[1], rtol=1e-4)
    np.testing.assert_allclose(fitted[0], [2.0, 3.0, 0.03], rtol=0.05)


def test_a_module_is_fitted_without_touching_its_weights(assert_derivatives):
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    before = [p.detach().clone() for p in module.parameters()]
    family = family_of(module, None, 2, 10)
    assert isinstance(family, UserModule)
    assert family.p == 13
    family.check(np.random.default_rng(0).random((4, 2)))
    assert_derivatives(family, 2, np.random.default_rng(5))
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters()))


# ---------------------------------------------------------------- what is refused


def wrong_gradient(w, x):
    return array_formula(w, x)


wrong_gradient.gradient = lambda w, x: 2 * _gradient(w, x)


def short_gradient(w, x):
    return array_formula(w, x)


short_gradient.gradient = lambda w, x: _gradient(w, x)[:, :2]


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda w, x: w[0] * x, "must return one value per row"),
        (lambda w, x: torch.log(w[0]) * x, "must return one value per row"),
        (lambda w, x: (w[0] * x[:, 0]).float(), "must keep float64"),
        (lambda w, x: (w[0] * x[:, 0]).astype(np.float32), "must keep float64"),
        (lambda w, x: torch.log(w[0] - 10 + 0 * x[:, 0]), "not finite"),
        (lambda w, x: np.log(w[0] - 10 + 0 * x[:, 0]), "not finite"),
        (lambda w, x: x[:, 0], "does not depend on w"),
        (lambda w, x: torch.as_tensor(x[:, 0]), "not differentiable"),
        (lambda w, x: torch.round(10 * w[0]) * x[:, 0], r"not differentiable in w\[0\]"),
        (lambda w, x: np.round(10 * w[0]) * x[:, 0] + w[1], r"not differentiable in w\[0\]"),
        (
            lambda w, x: (w[0].detach() + w[1]) * x[:, 0] ** 2 + torch.sin(w[0].detach() * 9),
            "disagrees with its finite differences",
        ),
        (lambda w, x: torch.sqrt((w[0] - w[0]) * x[:, 0]) + w[1], "gradient of model"),
        (lambda w, x: 3.0, "must return one value per row"),
        (wrong_gradient, "disagrees with its finite differences"),
        (short_gradient, r"model.gradient\(w, x\) must return \(4, 3\) numbers, got shape \(4, 2\)"),
    ],
)
def test_a_wrong_model_is_refused_with_the_reason(f, message):
    with pytest.raises(ValueError, match=message):
        UserFunction(f, [(0.1, 2.0)] * 3).check(np.full((4, 2), 0.5) + 0.1 * np.random.default_rng(0).random((4, 2)))


@pytest.mark.parametrize(
    ("model", "w_bounds", "message"),
    [
        (formula, None, "needs w_bounds"),
        (formula, [], "w_bounds is empty"),
        (formula, [(3, 1)], "low"),
        ("mlp", [(0, 1)], "the named families know theirs"),
        (3, None, "model must be a function"),
        (torch.nn.ReLU(), None, "has no parameters"),
        (torch.nn.Linear(2, 1), [(0, 1)], "do not apply"),
    ],
)
def test_wrong_model_options_are_refused(model, w_bounds, message):
    with pytest.raises(ValueError, match=message):
        family_of(model, w_bounds, 2, 10)


# ---------------------------------------------------------------- nothing comes out of a file


@pytest.fixture
def payload(tmp_path, monkeypatch):
    """A module that must not be imported, and a file that must not be opened."""
    (tmp_path / "go_ucb_payload.py").write_text("raise SystemExit('imported')\ndef f(w, x): return x[:, 0]\n")
    (tmp_path / "bounds.toml").write_text('[w]\ntype = "float"\nlow = 0\nhigh = 1\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_text_is_never_imported_and_a_path_never_opened(payload):
    for model in ("go_ucb_payload:f", "go_ucb_payload.f", "os:system"):
        with pytest.raises(ValueError, match="no family is called"):
            rg.GOUCB(model=model).build(2, seed=0)
    assert "go_ucb_payload" not in sys.modules
    for path in (str(payload / "bounds.toml"), payload / "bounds.toml", "/etc/passwd", b"/etc/passwd"):
        with pytest.raises(ValueError, match="w_bounds must be a mapping or a list"):
            ParameterBounds.of(path)
        with pytest.raises(ValueError, match="w_bounds must be a mapping or a list"):
            rg.GOUCB(model=array_formula, w_bounds=path).build(2, seed=0)


def test_a_crafted_checkpoint_runs_nothing(payload):
    file = payload / "run.npz"
    rg.Optimizer({"a": rg.Float(-3, 5)}, method=rg.GOUCB, direction="maximize", seed=0).save(file)
    for options in ({"model": "go_ucb_payload:f"}, {"model": "mlp", "w_bounds": str(payload / "bounds.toml")}):
        state = read_state(file)
        state["recipe"] = {"name": "go-ucb", "options": options}
        write_state(file, state)
        with pytest.raises(ValueError, match=r"no family is called|w_bounds"):
            rg.Optimizer.load(file)
    assert "go_ucb_payload" not in sys.modules


def test_a_run_with_a_function_is_resumed_when_the_function_is_given_again(tmp_path):
    recipe = rg.GOUCB(model=array_formula, w_bounds=[(0.1, 2.0)] * 3, initial=4)
    space = {"z": rg.Float(1, 3), "a": rg.Float(-2, 6)}
    opt = rg.Optimizer(space, method=recipe, direction="minimize", seed=3, budget=12)
    for _ in range(7):
        trial = opt.ask()
        opt.tell(trial, (trial.params["z"] - 2) ** 2 + trial.params["a"])
    opt.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="pass method="):
        rg.Optimizer.load(tmp_path / "run.npz")
    again = rg.Optimizer.load(tmp_path / "run.npz", method=recipe)
    assert again.ask().params == opt.ask().params


# ---------------------------------------------------------------- without torch

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import numpy as np
import regretless as rg
from regretless.methods import METHODS

def response(w, x):
    return w[0] * x[:, 0] / (w[1] + x[:, 0]) - w[2] * x[:, 0]

def price(w, x):
    return response(w, x)

price.gradient = lambda w, x: np.column_stack(
    [x[:, 0] / (w[1] + x[:, 0]), -w[0] * x[:, 0] / (w[1] + x[:, 0]) ** 2, -x[:, 0]])

space = {"dose": rg.Float(0.5, 40), "age": rg.Float(20, 70)}
bounds = {"top": (0.5, 4), "half": rg.Float(0.5, 20, log=True), "price": (0.001, 0.1)}
recipes = [rg.GOUCB(model=f, w_bounds=bounds) for f in (response, price)]
recipes += [rg.GOUCB(model=name, width=3, guard=False) for name in ("quadratic", "mlp", "sigmoid-net")]
recipes += [METHODS["go-ucb-printed"]]
for recipe in recipes:
    opt = rg.Optimizer(space, method=recipe, direction="maximize", budget=14, seed=1)
    for _ in range(14):
        trial = opt.ask()
        opt.tell(trial, 2 * trial.params["dose"] / (5 + trial.params["dose"]) - 0.03 * trial.params["dose"])
    opt.recommend(), opt.certificate
    if recipe.name == "go-ucb":
        opt.method.parameters(opt.history), opt.method.misfit(opt.history)
try:
    rg.GOUCB(model=lambda w, x: w.exp() * x, w_bounds=[(0, 1)]).build(rg.Space(space), seed=0)
except ValueError as error:
    print(error)
"""


def test_without_torch_numpy_models_and_named_families_run():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "torch is not installed to try tensors" in done.stdout
