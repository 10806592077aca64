"""What is installed: the wheels hold the packages and nothing else, the base install needs five libraries, and what
`optional` tells people to install is what the groups of dependencies ask for."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from regretless.basics.extras import DISTRIBUTIONS, optional, requirement

ROOT = Path(__file__).parent.parent
PROJECTS = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for name, folder in (("regretless", "."), ("regretless-bench", "bench"))
}

EXTRAS = {
    *("torch", "optuna", "plot", "sklearn", "bilevel", "ray", "dask", "storage"),
    *("serve", "mcp", "botorch", "bench", "docs", "dev"),
}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, zipfile.ZipFile]:
    """Both wheels, built by `python -m build` from a copy of the tree with tests, data and documentation in it."""
    pytest.importorskip("build.__main__")
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheels")
    passed_over = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for folder in ("regretless", "bench", "tests/bench", "examples", "experiments"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=passed_over)
    for file in ("pyproject.toml", "README.md", "LICENSE", "docs/how-to/compare.md"):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    (tree / "data").mkdir()
    (tree / "data" / "digits.npz").touch()
    found = {}
    for name, folder in (("regretless", tree), ("regretless-bench", tree / "bench")):
        command = [sys.executable, "-m", "build", "--no-isolation", str(folder), "--outdir", str(out / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=out)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(list((out / name).glob("*.tar.gz"))) == 1
        (wheel,) = (out / name).glob("*.whl")
        found[name] = zipfile.ZipFile(wheel)
    return found


@pytest.mark.parametrize("name", PROJECTS)
def test_a_wheel_holds_its_package_alone(name, wheels) -> None:
    package = name.replace("-", "_")
    source = ROOT / ("bench" if name == "regretless-bench" else ".") / package
    files = {file for file in wheels[name].namelist() if ".dist-info/" not in file}
    assert {Path(file).parts[0] for file in files} == {package}
    assert {Path(file).suffix for file in files} <= {".py", ".pyi", ".html", ".css", ".js", ".npz", ".typed"}
    ours = {p.relative_to(source.parent).as_posix() for p in source.rglob("*") if p.is_file()}
    assert files == {file for file in ours if "__pycache__" not in file and not file.endswith(".md")}
    assert any(file.endswith("licenses/LICENSE") for file in wheels[name].namelist())


def test_wheels_work_beside_each_other(wheels, tmp_path) -> None:
    for wheel in wheels.values():
        wheel.extractall(tmp_path / "site")
    code = "import regretless, regretless_bench; from regretless.cli import main; print(regretless.__file__); main()"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code, "reproduce"], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
    assert "gp-threds" in done.stdout


def test_versions_agree() -> None:
    import regretless_bench

    import regretless

    assert regretless.__version__ == regretless_bench.__version__


def library(text: str) -> str:
    """The name in a requirement."""
    return text.split(">")[0].split("[")[0].strip()


def test_the_base_install_is_small() -> None:
    base = {library(text) for text in PROJECTS["regretless"]["dependencies"]}
    assert base == {"numpy", "scipy", "tqdm", "click", "threadpoolctl"}
    extras = set(PROJECTS["regretless"]["optional-dependencies"])
    assert extras == EXTRAS


@pytest.mark.parametrize("name", PROJECTS)
def test_every_requirement_has_a_lower_bound(name) -> None:
    groups = [PROJECTS[name]["dependencies"], *PROJECTS[name]["optional-dependencies"].values()]
    listed = [text for group in groups for text in group]
    free = {"regretless", "regretless-bench", "six", "scipy-stubs", "types-tqdm", "pandas-stubs"}
    assert {library(text) for text in listed if ">=" not in text} <= free


@pytest.mark.parametrize(
    ("module", "extra", "distribution"),
    [
        ("torch", "torch", "regretless"),
        ("sklearn", "sklearn", "regretless"),
        ("ray", "ray", "regretless"),
        ("cocoex", "peers", "regretless-bench"),
        ("Box2D", "peers", "regretless-bench"),
    ],
)
def test_what_is_missing_is_asked_for_as_the_groups_do(module, extra, distribution, monkeypatch) -> None:
    listed = PROJECTS[distribution]["optional-dependencies"][extra]
    stored = [f'{text}; extra == "{extra}"' for text in listed] + ['other>=9; extra == "other"', "numpy>=1"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: stored if name == distribution else [])
    wanted = DISTRIBUTIONS.get(module, module).lower()
    assert requirement(module, extra, distribution) in [text for text in listed if library(text) == wanted]
    assert requirement("other", extra, distribution) == "other"  # of another group

    def not_installed(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", not_installed)
    assert requirement(module, extra, distribution) == DISTRIBUTIONS.get(module, module)


def test_a_module_of_ours_that_is_missing_is_no_library_to_install() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"regretless\.absent"):
        optional("regretless.absent", "torch")
    with pytest.raises(ImportError, match="no_such_library is not installed: pip install 'no_such_library'"):
        optional("no_such_library", "torch")
