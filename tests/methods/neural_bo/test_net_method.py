"""What every method on tangent features does with inputs that are no box: pools, encodings, modules of the user's."""

from typing import Any

import numpy as np
import pytest
from regretless_bench.methods.tangent_region.default import TangentRegion

from regretless.methods.neural_bo.default import NeuralBO
from regretless.methods.neural_bo.net_method import TangentMethod
from regretless.space import Space
from regretless.space.parameters import Array, Int
from regretless.testing import Loop

pytestmark = pytest.mark.parametrize("kind", [NeuralBO, TangentRegion])
LEAN: dict[type, dict[str, Any]] = {NeuralBO: {"n_candidates": 200, "training": 80}, TangentRegion: {}}
"""Options that make a module's training affordable in a test."""


def bowl(X: Array) -> Array:
    return -np.sum((X - 0.3) ** 2, axis=1)


def run(method: TangentMethod, n: int, f: Any = bowl) -> Loop:
    loop = Loop(method)
    for _ in range(n):
        x = loop.ask()
        loop.tell(x, f(x))
    return loop


def test_pool_is_searched_without_repetition_and_beats_chance(kind: Any) -> None:
    rng = np.random.default_rng(8)
    F = rng.standard_normal((300, 40))
    value = F @ rng.standard_normal(40) / 40**0.5
    cube = Space({"row": Int(0, 299)}).cube()
    best = []
    for seed in range(3):
        loop = run(kind(cube, seed=seed, candidates=F), 60, lambda X: value[cube.axes[0].index(X[:, 0])])
        rows = cube.axes[0].index(loop.history.X[:, 0])
        assert len(set(rows.tolist())) == 60
        best.append(value[rows].max())
    assert np.median(best) > np.sort(value)[-4]


def test_exhausted_pool_goes_on(kind: Any) -> None:
    F = np.random.default_rng(9).standard_normal((5, 3))
    loop = run(kind(Space({"row": Int(0, 4)}).cube(), seed=0, candidates=F), 8, lambda X: X[:, 0])
    assert len(loop.history) == 8


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

    loop, again = (Loop(kind(8, seed=1, network=network, encode=image, **LEAN[kind])) for _ in range(2))
    for _ in range(30):
        x = loop.ask()
        loop.tell(x, bowl(x))
    again.tell(loop.history.X, loop.history.y)
    assert np.array_equal(loop.ask(step=40), again.ask(step=40))
    random = np.median([bowl(np.random.default_rng(s).random((30, 8))).max() for s in range(20)])
    assert bowl(loop.history.X).max() > random
    assert not loop.certificate().certified


def test_encode_without_a_module_is_flattened_and_checked(kind: Any) -> None:
    method = kind(3, seed=0, encode=lambda U: np.stack([U, U**2], axis=2))
    run(method, 14)
    assert method.inputs(np.zeros((5, 3))).shape == (5, 6)
    with pytest.raises(ValueError, match="one finite row per point"):
        kind(3, seed=0, encode=lambda U: U[:1])


def test_pending_draws_are_independent(kind: Any) -> None:
    loop = run(kind(4, seed=6), 25)
    X = loop.ask(8)
    assert len(np.unique(X, axis=0)) == 8
    np.testing.assert_array_equal(np.sort(loop.history.pending, 0), np.sort(X, 0))
