"""What every method on tangent features does with inputs that are no box: pools, encodings, modules of the user's."""

from typing import Any

import numpy as np
import pytest

from regretless.methods.neural_bo.algorithm import NeuralBO
from regretless.methods.tangent_region.algorithm import TangentRegion
from regretless.parameters import Array, Int
from regretless.space import Space
from regretless.tangent.method import TangentMethod

pytestmark = pytest.mark.parametrize("kind", [NeuralBO, TangentRegion])
LEAN: dict[type, dict[str, Any]] = {NeuralBO: {"n_candidates": 200, "training": 80}, TangentRegion: {}}
"""Options that make a module's training affordable in a test."""


def bowl(X: Array) -> Array:
    return -np.sum((X - 0.3) ** 2, axis=1)


def run(method: TangentMethod, n: int, f: Any = bowl) -> TangentMethod:
    for _ in range(n):
        x = method.ask()
        method.tell(x, f(x))
    return method


def test_pool_is_searched_without_repetition_and_beats_chance(kind: Any) -> None:
    rng = np.random.default_rng(8)
    F = rng.standard_normal((300, 40))
    value = F @ rng.standard_normal(40) / 40**0.5
    cube = Space({"row": Int(0, 299)}).cube()
    best = []
    for seed in range(3):
        method = run(kind(cube, seed=seed, candidates=F), 60, lambda X: value[cube.axes[0].index(X[:, 0])])
        rows = cube.axes[0].index(method.X[:, 0])
        assert len(set(rows.tolist())) == 60
        best.append(value[rows].max())
    assert np.median(best) > np.sort(value)[-4]


def test_exhausted_pool_goes_on(kind: Any) -> None:
    F = np.random.default_rng(9).standard_normal((5, 3))
    method = run(kind(Space({"row": Int(0, 4)}).cube(), seed=0, candidates=F), 8, lambda X: X[:, 0])
    assert len(method.X) == 8


def test_pool_must_fit_the_space(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"Int\(0, 4\)"):
        kind(3, seed=0, candidates=np.zeros((5, 2)))
    with pytest.raises(ValueError, match="finite"):
        kind(Space({"row": Int(0, 4)}).cube(), seed=0, candidates=np.full((5, 2), np.nan))


def test_encode_reads_images_and_a_module_models_them(kind: Any) -> None:
    import torch

    with torch.random.fork_rng():
        network = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1),
            torch.nn.Tanh(),
            torch.nn.Flatten(),
            torch.nn.Linear(4 * 16, 8),
            torch.nn.Tanh(),
            torch.nn.Linear(8, 1),
        )

    def image(U: Array) -> Any:
        return torch.tensor(np.repeat(U, 2, axis=1)).reshape(-1, 1, 4, 4) * 2 - 1

    method, again = (kind(8, seed=1, network=network, encode=image, **LEAN[kind]) for _ in range(2))
    run(method, 30)
    again.tell(method.X, method.y)
    assert np.array_equal(method.ask(step=40), again.ask(step=40))
    random = np.median([bowl(np.random.default_rng(s).random((30, 8))).max() for s in range(20)])
    assert bowl(method.X).max() > random
    assert not method.certificate().certified


def test_encode_without_a_module_is_flattened_and_checked(kind: Any) -> None:
    method = run(kind(3, seed=0, encode=lambda U: np.stack([U, U**2], axis=2)), 14)
    assert method._told_inputs.shape[1] == 6
    with pytest.raises(ValueError, match="one finite row per point"):
        kind(3, seed=0, encode=lambda U: U[:1])


def test_pending_draws_are_independent(kind: Any) -> None:
    method = run(kind(4, seed=6), 25)
    X = method.ask(8)
    assert len(np.unique(X, axis=0)) == 8
    np.testing.assert_array_equal(np.sort(method.pending, 0), np.sort(X, 0))
