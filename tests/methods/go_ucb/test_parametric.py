"""Families: derivatives against finite differences, units, and the user's own models with their errors."""

import numpy as np
import pytest
import torch

from regretless.methods.go_ucb.parametric import FAMILIES, Bounds, TwoLayerNet, named_family
from regretless.methods.go_ucb.units import ratios, user_units
from regretless.methods.go_ucb.user_model import UserFunction, UserModule, batched_jacobian, family_of
from regretless.parameters import Choice, Float, Int
from regretless.space import Space


def assert_derivatives(family, d, rng, k=3, n=5):
    V, X = family.starts(k, rng), rng.random((n, d))
    F, J = family.jacobian(V, X)
    assert F.shape == (k, n)
    assert J.shape == (k, n, family.p)
    h = 1e-6
    numeric = np.stack(
        [(family.jacobian(V + h * e, X)[0] - family.jacobian(V - h * e, X)[0]) / (2 * h) for e in np.eye(family.p)],
        axis=2,
    )
    np.testing.assert_allclose(J, numeric, atol=1e-7 * max(1.0, np.abs(J).max()))
    assert len(family.names) == len(set(family.names)) == family.p


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", [*FAMILIES, "sigmoid-net", "mlp"])
def test_derivatives_of_the_named_families(name, d):
    assert_derivatives(named_family(name, d, width=4), d, np.random.default_rng(1))


@pytest.mark.parametrize(
    "family", [TwoLayerNet(3, 4, "sigmoid", plain=True), TwoLayerNet(3, 4, "tanh"), named_family("hill", 3, 4)]
)
def test_the_direction_of_the_printed_ascent(family):
    rng = np.random.default_rng(2)
    w, x, h = family.starts(1, rng)[0], rng.random(3), 1e-6
    dx, dw = family.ascent_direction(w, x)
    value = lambda w, x: family.jacobian(w[None], x[None])[0][0, 0]  # noqa: E731
    np.testing.assert_allclose(
        dx, [(value(w, x + h * e) - value(w, x - h * e)) / (2 * h) for e in np.eye(3)], atol=1e-6
    )
    np.testing.assert_allclose(dw, family.jacobian(w[None], x[None])[1][0, 0], atol=1e-12)


def test_the_paper_net_has_551_parameters_and_its_f1_is_a_member():
    net = TwoLayerNet(20, 25, "sigmoid", plain=True)
    assert net.p == 551
    x = np.random.default_rng(0).uniform(-5, 5, (4, 20))
    expected = 1 + 25 / (1 + np.exp(-(x.sum(axis=1) + 1)))
    np.testing.assert_allclose(net.jacobian(np.ones((1, 551)), x)[0][0], expected, rtol=1e-12)


def test_an_unknown_family_is_named():
    with pytest.raises(ValueError, match="no family is called 'cubic'"):
        named_family("cubic", 2, 4)


def test_bounds_are_ends_of_the_search_box_and_log_scales_have_geometric_middles():
    bounds, names = Bounds.of({"V": (-1.0, 3.0), "K": Float(0.01, 1, log=True)})
    assert names == ("V", "K")
    np.testing.assert_allclose(
        bounds.user(np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]))[0], [[-1, 0.01], [1, 0.1], [3, 1]]
    )
    with pytest.raises(ValueError, match="w_bounds must be"):
        Bounds.of({"k": Int(1, 3)})


def test_user_units_agree_with_the_space():
    space = Space(
        {
            "a": Float(-3, 5),
            "b": Float(1e-4, 1e2, log=True),
            "n": Int(2, 7),
            "c": Choice(["red", "green", "blue"]),
            "s": Float(0, 1, step=0.25),
        }
    )
    U = space.cube().snap(np.random.default_rng(3).random((20, 5)))
    expected = [[{"red": 0, "green": 1, "blue": 2}.get(v, v) for v in space.decode(u).values()] for u in U]
    np.testing.assert_allclose(user_units(space)(U), np.array(expected, dtype=float), rtol=1e-12)
    assert np.abs(ratios(space)(U)).max() <= 1.0


# ---------------------------------------------------------------- the user's own


def formula(w, x):
    return w[0] * torch.exp(-w[1] * x[:, 0]) + w[2] * x[:, 1]


def with_matrix(w, x):  # cannot take stacked parameters
    return torch.tanh(x @ w[:2]) * w[2]


def with_branch(w, x):  # cannot be vmapped
    return w[0] * x[:, 0] if float(w[1].detach()) > 0.5 else w[2] * x[:, 1] + w[1]


@pytest.mark.parametrize(("f", "way"), [(formula, "stacked"), (with_matrix, "vmap"), (with_branch, "loop")])
def test_every_way_gives_the_same_derivatives(f, way):
    rng = np.random.default_rng(4)
    family = UserFunction(f, [(0.1, 2.0)] * 3)
    X = rng.random((6, 2))
    family.check(X)
    assert family.way == way
    W = rng.uniform(0.1, 2.0, (3, 3))
    for a, b in zip(batched_jacobian(f, W, X, family.way), batched_jacobian(f, W, X, "loop")):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    if way != "loop":
        assert_derivatives(family, 2, rng)


def test_a_module_is_fitted_without_touching_its_weights():
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    before = [p.detach().clone() for p in module.parameters()]
    family = family_of(module, None, 2, 10)
    assert isinstance(family, UserModule)
    assert family.p == 13
    family.check(np.random.default_rng(0).random((4, 2)))
    assert_derivatives(family, 2, np.random.default_rng(5))
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters()))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda w, x: w[0] * x, "must return one value per row"),
        (lambda w, x: (w[0] * x[:, 0]).float(), "must keep float64"),
        (lambda w, x: torch.log(w[0] - 10 + 0 * x[:, 0]), "not finite"),
        (lambda w, x: x[:, 0], "not differentiable"),
        (lambda w, x: torch.round(10 * w[0]) * x[:, 0], r"not differentiable in w\[0\]"),
        (
            lambda w, x: (w[0].detach() + w[1]) * x[:, 0] ** 2 + torch.sin(w[0].detach() * 9),
            "disagrees with its finite differences",
        ),
        (lambda w, x: torch.sqrt((w[0] - w[0]) * x[:, 0]) + w[1], "gradient of model"),
        (lambda w, x: 3.0, "must return one value per row"),
    ],
)
def test_a_wrong_model_is_refused_with_the_reason(f, message):
    with pytest.raises(ValueError, match=message):
        UserFunction(f, [(0.1, 2.0)] * 2).check(np.full((4, 2), 0.5) + 0.1 * np.random.default_rng(0).random((4, 2)))


@pytest.mark.parametrize(
    ("model", "w_bounds", "message"),
    [
        (formula, None, "needs w_bounds"),
        ("hill", [(0, 1)], "the named families know theirs"),
        (3, None, "model must be a function"),
        ("no.such.module:f", None, "cannot be imported"),
        (torch.nn.ReLU(), None, "has no parameters"),
        (torch.nn.Linear(2, 1), [(0, 1)], "do not apply"),
    ],
)
def test_wrong_model_options_are_refused(model, w_bounds, message):
    with pytest.raises(ValueError, match=message):
        family_of(model, w_bounds, 2, 10)


def test_a_model_can_be_named_by_its_import_path():
    family = family_of("regretless_bench.problems.mechanistic:gompertz_growth_model", None, 3, 10)
    assert family.names == ("A", "b", "c", "K", "I", "T0", "s", "m")
