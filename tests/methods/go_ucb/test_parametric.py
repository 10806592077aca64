"""Families: derivatives against finite differences, bounds and units."""

import numpy as np
import pytest

from regretless.methods.go_ucb.parametric import (
    CENTRED,
    FAMILIES,
    ParameterBounds,
    TwoLayerNet,
    named_family,
    quadratic,
    user_units,
)
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", [*FAMILIES, "sigmoid-net", "mlp"])
def test_derivatives_of_the_named_families(name, d, assert_derivatives):
    assert_derivatives(named_family(name, d, width=4), d, np.random.default_rng(1))


@pytest.mark.parametrize("family", [TwoLayerNet(3, 4, "sigmoid", plain=True), TwoLayerNet(3, 4, "tanh"), quadratic(3)])
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
    bounds, names = ParameterBounds.of({"V": (-1.0, 3.0), "K": Float(0.01, 1, log=True)})
    assert names == ("V", "K")
    np.testing.assert_allclose(
        bounds.user(np.array([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]]))[0], [[-1, 0.01], [1, 0.1], [3, 1]]
    )
    assert ParameterBounds.of([(0, 1), (2, 3)])[1] == ("w0", "w1")
    assert ParameterBounds.of(Space({"k": Float(1, 3)}))[0].high.tolist() == [3.0]
    with pytest.raises(ValueError, match=r"w_bounds\['k'\] must be"):
        ParameterBounds.of({"k": Int(1, 3)})


def test_user_units_agree_with_the_space():
    space = Space(
        {
            "n": Int(2, 7),
            "b": Float(1e-4, 1e2, log=True),
            "a": Float(-3, 5),
            "c": Choice(["red", "green", "blue"]),
            "s": Float(0, 1, step=0.25),
        }
    )
    U = space.cube().snap(np.random.default_rng(3).random((20, 5)))
    expected = [[{"red": 0, "green": 1, "blue": 2}.get(v, v) for v in space.decode(u).values()] for u in U]
    np.testing.assert_allclose(user_units(space)(U), np.array(expected, dtype=float), rtol=1e-12)
    for inputs in (user_units(space), CENTRED):
        np.testing.assert_allclose(space.cube().snap(inputs.back(inputs(U))), U, atol=1e-9)
