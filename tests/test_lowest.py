"""`constraints-lowest.txt` pins what pyproject.toml declares, and the environment of `make test-lowest` has it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINNED = dict(line.split("==") for line in (ROOT / "constraints-lowest.txt").read_text().splitlines() if "==" in line)
HEAVY = {"torch", "ray", "botorch", "mcp"}
"""Not tested at their lowest version: gigabytes, or no release that this Python can install."""


def declared() -> dict[str, str]:
    """The lowest version of each dependency of the library and of the extras that programs import; what `name[binary]`
    adds is a distribution of the same version, which pip wants pinned by its own name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name not in ("dev", "docs")}
    wanted = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    found = [
        m for m in (re.match(r"([A-Za-z0-9-]+)(?:\[(\w+)\])?>=([\d.]+)", line) for line in wanted) if m is not None
    ]
    return {m[1]: m[3] for m in found} | {f"{m[1]}-binary": m[3] for m in found if m[2] == "binary"}


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    wanted = {name: v for name, v in declared().items() if name not in HEAVY}
    assert PINNED.keys() == wanted.keys()
    for name, lowest in wanted.items():
        assert PINNED[name].split(".")[: len(lowest.split("."))] == lowest.split("."), (name, PINNED[name], lowest)


def test_every_door_opens() -> None:
    """With whatever versions are installed; the environment of the lowest ones is meant."""
    for name in ("optuna", "sklearn"):
        pytest.importorskip(name)
    import regretless.doors.optuna.certify
    import regretless.doors.optuna.export
    import regretless.doors.optuna.outlook
    import regretless.doors.optuna.runner
    import regretless.doors.sklearn.search
    import regretless.serve.http  # noqa: F401


def test_the_environment_of_the_lowest_has_them() -> None:
    import sys

    if not sys.prefix.endswith(".venv-lowest"):
        pytest.skip("this is not the environment of make test-lowest")
    for name, pinned in PINNED.items():
        try:
            assert version(name) == pinned
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed")
