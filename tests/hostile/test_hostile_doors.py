"""Optuna's own suites over every kind of storage and with threads, and workers of other libraries that die."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partialmethod
from pathlib import Path

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase
from processes import bounded

import regretless as rg
from regretless.doors.optuna.urls import open_storage

KINDS = ["sqlite", "journal", "postgresql", "grpc", "threads"]


class _OverStorages:
    """Studies that name no storage lie in one of this kind; with "threads" they are optimised by two of them."""

    pytestmark = [  # noqa: RUF012
        pytest.mark.hostile,
        pytest.mark.parametrize("kind", KINDS),
        pytest.mark.filterwarnings("ignore:parameter .* is not part of:UserWarning"),
    ]

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: rg.Sampler("gp-ei", seed=0)

    @pytest.fixture(autouse=True)
    def _stored(self, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        if kind == "threads":
            monkeypatch.setattr(optuna.Study, "optimize", partialmethod(optuna.Study.optimize, n_jobs=2))
            yield
            return
        made = open_storage(request.getfixturevalue("storage_url")(kind))
        usual = optuna.storages.get_storage
        monkeypatch.setattr(optuna.storages, "get_storage", lambda storage: usual(made if storage is None else storage))
        yield


class TestBasicOverStorages(_OverStorages, BasicSamplerTestCase):
    pass


SPACE = {"lr": rg.Float(1e-4, 1e-1, log=True), "far": rg.Float(1e3, 1e3 + 0.7), "k": rg.Int(3, 60, step=3)}


def mortal(folder: Path) -> Callable[..., float]:
    """An objective whose process is killed inside its sixth evaluation; it notes every one that it ends."""

    def value(lr: float, far: float, k: int) -> float:
        if len(list(folder.iterdir())) == 5:
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / f"{lr!r} {far!r} {k!r}").touch()
        return abs(far - 1000.3) + k / 60 + lr

    return value


@pytest.mark.hostile
def test_a_dask_worker_that_is_killed_loses_no_trial(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'regretless[dask]'")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        result = rg.minimize(
            mortal(tmp_path), SPACE, trials=16, method="gp-ei", seed=0, n_jobs=client.get_executor(), progress=False
        )
    assert (tmp_path / "killed").exists()
    assert [t.state for t in result.trials] == ["done"] * 16
    seen = Counter(f"{t.params['lr']!r} {t.params['far']!r} {t.params['k']!r}" for t in result.trials)
    assert set(seen) == {file.name for file in tmp_path.iterdir()} - {"killed"}
    assert max(seen.values()) == 1


@pytest.mark.hostile
def test_a_ray_cluster_that_loses_a_node_loses_no_trial(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'regretless[ray]'")
    output = bounded(Path(__file__).with_name("losing_node.py"), tmp_path, seconds=400)
    found = json.loads(output.splitlines()[-1])
    assert found.pop("states") == ["done"] * 12
    assert found == {"lost": True, "errors": 0, "ended": 12, "distinct": 12}
