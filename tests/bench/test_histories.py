"""Kept runs: stored once, read again as they were, longer where more is asked, and recommended as noise demands."""

import numpy as np
from regretless_bench.histories import History, history, is_noisy, recommended

from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube


def test_a_run_is_made_once_and_made_longer_when_asked(tmp_path) -> None:
    first = history(tmp_path, "labels", 0, "search", 4)
    path = tmp_path / "labels-0-search.npz"
    before = path.stat().st_mtime_ns
    again = history(tmp_path, "labels", 0, "search", 4)
    assert path.stat().st_mtime_ns == before
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    longer = history(tmp_path, "labels", 0, "search", 6)
    assert len(longer.y) == 6 > len(first.y) == 4
    assert longer.best >= longer.f.max()


def test_without_noise_the_best_value_is_recommended_and_with_noise_the_best_mean() -> None:
    """Values told twice differ at the right end, where the luckiest one is and the mean is low."""
    X = np.repeat(np.linspace(0.05, 0.95, 12), 2)[:, None]
    f = -((X[:, 0] - 0.4) ** 2)
    y = f + np.where(X[:, 0] > 0.9, 0.5, 0.05) * np.tile([1.0, -1.0], 12)
    lucky, smooth = (recommended(History(X, y, f, 0.0, sd), 24, Surrogate(Cube.box(1))) for sd in (0.0, 0.05))
    assert lucky == int(y.argmax())
    assert X[lucky, 0] > 0.9 > X[smooth, 0]


def test_every_residue_of_the_seed_is_noisy_in_some_sixty() -> None:
    assert {seed % 3 for seed in range(180) if is_noisy(seed)} == {0, 1, 2}
    assert sum(map(is_noisy, range(60))) == 20
