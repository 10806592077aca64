"""A base install: NumPy, SciPy, tqdm, click and threadpoolctl suffice for all but the doors to other libraries.

Each case runs in a process of its own in which the other libraries cannot be imported.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from regretless.classics import CLASSICS
from regretless.methods import METHODS

MISSING = (
    *("torch", "optuna", "pandas", "sklearn", "matplotlib", "ray", "safetensors", "sqlalchemy", "dask", "botorch"),
    *("gpytorch", "psycopg", "grpc", "regretless_bench"),
)
"""Libraries that a base install does not have."""
BLOCK = f"""
import importlib.metadata
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {MISSING!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
importlib.metadata.entry_points = lambda **_: ()
import regretless as rg

SPACE = {{"lr": rg.Float(1e-4, 3e-1, log=True), "depth": rg.Int(2, 7), "shift": rg.Float(-3.5, 8)}}

def cost(lr, depth, shift):
    return (shift - 1.3) ** 2 + depth + 10 * lr
"""
GROUPS = [*([name] for name in METHODS), list(CLASSICS)]
"""The methods of the papers each in a process of its own, the classics together in one."""


def in_base_install(code: str, folder: Path) -> str:
    """What the code prints."""
    done = subprocess.run([sys.executable, "-c", BLOCK + code], cwd=folder, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_minimize_certificate_and_report(tmp_path) -> None:
    code = """
result = rg.minimize(cost, SPACE, trials=14, seed=0, progress=False)
assert len(result.trials) == 14
print(result, result.certificate)
result.report("run.html")
print(open("run.html").read()[:15])
"""
    assert in_base_install(code, tmp_path).strip().endswith("<!doctype html>")


def test_ask_tell_save_and_load(tmp_path) -> None:
    code = """
opt = rg.Optimizer(SPACE, method="auto", direction="minimize", budget=20, seed=3)
for _ in range(9):
    trial = opt.ask()
    opt.tell(trial, cost(**trial.params))
opt.save("run.npz")
again = rg.Optimizer.load("run.npz")
assert again.ask().params == opt.ask().params
print(again.certificate, opt.recommend())
"""
    in_base_install(code, tmp_path)


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0] if len(names) == 1 else "baselines")
def test_methods_run(names, tmp_path) -> None:
    code = f"""
box = {{"a": rg.Float(-3.5, 8), "b": rg.Float(2, 2.5)}}
for name in {names!r}:
    result = rg.maximize(lambda a, b: -(a - 1) ** 2 * b, box, trials=14, method=name, seed=1, progress=False)
    assert len(result.trials) == 14
"""
    in_base_install(code, tmp_path)


def test_the_command_tunes_and_resumes(tmp_path) -> None:
    (tmp_path / "train.py").write_text("def cost(a, n):\n    return (a - 2.2) ** 2 + n\n")
    (tmp_path / "space.toml").write_text(
        '[a]\ntype = "float"\nlow = 1\nhigh = 4\n[n]\ntype = "int"\nlow = 1\nhigh = 9\n'
    )
    code = """
from click.testing import CliRunner
from regretless.cli import main

def call(*words):
    return CliRunner().invoke(main, words)

words = ["tune", "train.py:cost", "--space", "space.toml", "--checkpoint", "run.npz"]
for trials in ("6", "9"):
    done = call(*words, "--trials", trials, "--report", "run.html")
    assert done.exit_code == 0, done.output
assert "9 evaluations" in done.output
assert call("list").exit_code == 0
print(call(*words[:4], "--trials", "3", "--storage", "sqlite:///s.db").output, call("bench", "run").output)
"""
    output = in_base_install(code, tmp_path)
    assert "regretless: optuna is not installed: pip install 'optuna" in output
    assert "regretless: `regretless bench` belongs to the distribution regretless-bench" in output


@pytest.mark.parametrize(
    ("expression", "library"),
    [
        ("rg.Sampler", "optuna"),
        ("rg.Pruner", "optuna"),
        ("rg.RegretlessSearchCV", "scikit-learn"),
        ("rg.minimize(cost, SPACE, trials=2, progress=False).to_dataframe()", "pandas"),
    ],
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(expression, library, tmp_path) -> None:
    code = f"""
try:
    {expression}
except ImportError as error:
    print(error)
"""
    line = in_base_install(code, tmp_path)
    assert f"is not installed: pip install '{library}" in line
    assert "regretless[" not in line
