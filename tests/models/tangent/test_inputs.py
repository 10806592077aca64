"""What nets read: one-hot columns up to a number of labels, codes beyond it."""

import numpy as np
import pytest

import regretless as rg
from regretless.models.tangent.inputs import CODE, Inputs, NetInputs
from regretless.space import MOST_ONEHOT, Space


def space(labels: int) -> Space:
    return Space(
        {"lr": rg.Float(1e-4, 1, log=True), "c": rg.Choice([f"c{i}" for i in range(labels)]), "n": rg.Int(2, 9)}
    )


@pytest.mark.parametrize("labels", [3, MOST_ONEHOT, MOST_ONEHOT + 1, 5000])
def test_settings_survive_the_encoding(labels: int) -> None:
    many = space(labels)
    for c in (0, 1, labels - 1):
        setting = {"lr": 0.01, "c": f"c{c}", "n": 7}
        u = many.encode(setting, "onehot")
        assert many.decode(u, "onehot") == pytest.approx(setting)
        assert many.cube("onehot").key(u) == u.tobytes()
    assert many.cube("onehot").dim == (2 + labels if labels <= MOST_ONEHOT else 3)


def test_few_labels_are_read_on_the_interval() -> None:
    cube = space(3).cube("onehot")
    U = cube.snap(np.random.default_rng(0).random((6, cube.dim)))
    inputs = NetInputs(cube)
    np.testing.assert_array_equal(inputs(U), 2 * U - 1)
    np.testing.assert_array_equal(inputs.gradient(U, U), 2 * U)


def test_many_labels_have_codes_as_far_apart_as_one_hot_columns() -> None:
    cube = space(5000).cube("onehot")
    inputs = NetInputs(cube)
    U = np.full((400, 3), 0.5)
    U[:, 0] = (np.arange(400) + 0.5) / 5000  # methods see c before lr and n
    Z = inputs(U)
    assert Z.shape == (400, inputs.dim) == (400, 2 + CODE)
    apart = ((Z[:, None] - Z[None]) ** 2).sum(-1)[np.triu_indices(400, 1)]
    assert apart.mean() == pytest.approx(8.0, rel=0.02)  # two one-hot labels differ in two places by 2 each
    assert apart.min() > 0
    G = np.arange(400.0 * inputs.dim).reshape(400, -1)
    np.testing.assert_array_equal(inputs.gradient(G, U), np.column_stack([np.zeros(400), 2 * G[:, 0], 2 * G[:, 1]]))


@pytest.mark.parametrize("labels", [3, MOST_ONEHOT + 1])
def test_squares_are_read_of_numbers_alone_and_are_orthogonal_to_them(labels: int) -> None:
    cube = space(labels).cube("onehot")
    U = cube.snap(np.random.default_rng(0).random((4000, cube.dim)))
    options = {"pool": None, "encode": None, "raw": False}
    plain, wide = Inputs(cube, U, **options)(U), Inputs(cube, U, **options, squares=True)(U)
    np.testing.assert_array_equal(wide[:, : plain.shape[1]], plain)
    squares = wide[:, plain.shape[1] :]
    assert squares.shape == (4000, 2)  # of lr and n, whatever the labels
    lines = 2 * U[:, [i for i in range(cube.dim) if U[:, i].std() > 0.2 and len(set(U[:, i])) > 2][-2:]] - 1
    np.testing.assert_allclose(squares, 1.5 * lines**2 - 0.5, atol=1e-12)
    assert np.abs(np.mean(squares * lines, axis=0)).max() < 0.03
