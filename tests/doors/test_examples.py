"""The examples of the doors run as they stand, and so does the Python of their pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("doors_*.py"))
PAGES = [ROOT / "docs" / "how-to" / f"{name}.md" for name in ("optuna", "trackers", "sklearn", "botorch")]


def run(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "RAY_TRAIN_V2_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=280, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    printed = run([str(example)], tmp_path)
    assert "best" in printed or "SearchCV" in printed


def python_of(page: Path) -> str:
    """The Python of a page, with its budgets made small."""
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
    return re.sub(
        r"(num_samples|\btrials|max_concurrent_trials)=\d+",
        lambda m: f"{m[1]}={2 if m[1].startswith('max') else 4}",
        code,
    )


TRACKERS = """
class MLflowCallback:
    def __init__(self, metric_name):
        self.metric_name = metric_name

    def __call__(self, study, trial):
        print("tracked", self.metric_name, trial.value)


WeightsAndBiasesCallback = MLflowCallback
"""
"""Stands for the package of Optuna's callbacks, which needs a server."""
HUB = f"""
import runpy, types

def load_local_module(package, *, registry_root):
    return types.SimpleNamespace(**runpy.run_path({str(ROOT)!r} + f"/{{registry_root}}/{{package}}/__init__.py"))
"""
"""Stands for optunahub: loads a package of the checkout."""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_page(page: Path, tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(python_of(page))
    (tmp_path / "optuna_integration.py").write_text(TRACKERS)
    (tmp_path / "optunahub.py").write_text(HUB)
    printed = run(["page.py"], tmp_path)
    assert printed.count("tracked loss") == (10 if page.stem == "trackers" else 0)


def test_pages_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages on Ray and on clusters, in one process, on a Ray cluster of two cores."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'regretless[ray]'")
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'regretless[dask]'")
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray writes its results there
    start = "import ray\nray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level='error')\n"
    (tmp_path / "page.py").write_text(
        start + "\n".join(python_of(ROOT / "docs" / page) for page in ("how-to/ray.md", "how-to/parallel.md"))
    )
    printed = run(["page.py"], tmp_path)
    assert printed.count("4 evaluations") == 2


@pytest.mark.slow
def test_steps_to_a_cluster(tmp_path: Path, storage_url: Callable[[str], str]) -> None:
    """The three commands of docs/how-to/parallel.md; the second goes on with the study of the first."""
    commands = re.findall(r"^    regretless (tune .*)$", (ROOT / "docs" / "how-to" / "parallel.md").read_text(), re.M)
    (tmp_path / "train.py").write_text("def objective(x):\n    return (x - 0.3) ** 2\n")
    (tmp_path / "space.toml").write_text('[x]\ntype = "float"\nlow = 0\nhigh = 1\n')
    for command, trials in zip(commands, (3, 6, 4), strict=True):
        small = re.sub(r"--workers \d+", "--workers 2", command).replace("--trials 200", f"--trials {trials}")
        small = re.sub(r"postgresql\S+", lambda _: storage_url("postgresql"), small)
        printed = run(["-c", "from regretless.cli import main; main()", *small.split()], tmp_path)
        assert f"{trials} evaluations" in printed
