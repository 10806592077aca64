"""Imports point one way: a module may only import from rooms below its own, and siblings leave each other alone."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "regretless"

FLOORS = {
    "extras": -1, "cube": -1, "space": 0, "statefile": 0, "page": 0, "method": 1, "numerics": 2, "methods": 3, "baselines": 3, "problems": 3,
    "auto": 4, "optimizer": 5, "result": 6, "stopping": 6, "bench": 7, "optimize": 7, "bilevel": 7, "testing": 7, "doors": 8, "reproduce": 8,
    "cli": 9,
}  # fmt: skip
"""Each room (a file or folder of the package) and the floor it stands on."""
SPLIT_ROOMS = ("bilevel", "result")
"""Rooms of several files that share a prefix instead of a folder."""
ONE_ROOM = {"numerics", "bench", "doors", "problems", *SPLIT_ROOMS}
"""Rooms whose files may import each other: they do one job together."""


def room(module: str) -> str:
    name = module.split(".")[1] if "." in module else ""
    return next((whole for whole in SPLIT_ROOMS if name.startswith(whole)), name)


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("regretless"):
            found.append(node.module if node.module != "regretless" else "regretless.__init__")
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("regretless")]
    return found


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_down(path: Path) -> None:
    here = room(".".join(("regretless", *path.relative_to(PACKAGE).with_suffix("").parts)))
    assert here in FLOORS, f"{path.name} stands in no known room: add it to FLOORS"
    for module in imports(path):
        there = room(module)
        if there in ("", "__init__"):
            assert here in ("cli",), f"{path.name} imports the package as a whole"
            continue
        if here == there:
            assert here in ONE_ROOM or module.count(".") == 1, f"{path.name} imports its sibling {module}"
            continue
        assert FLOORS[there] < FLOORS[here], f"{path.name} (floor {FLOORS[here]}) imports {module} (floor {FLOORS[there]})"


HEAVY = {"optuna": "doors", "ray": "doors", "sklearn": None, "botorch": None, "dask": "doors"}
"""Libraries that only their door (or, for None, a door, problem, baseline or the bench) may import."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_outside_libraries_stay_behind_their_doors(path: Path) -> None:
    here = room(".".join(("regretless", *path.relative_to(PACKAGE).with_suffix("").parts)))
    for node in ast.walk(ast.parse(path.read_text())):
        names = (
            [node.module]
            if isinstance(node, ast.ImportFrom) and node.module
            else [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        for name in names:
            library = name.split(".")[0]
            if library in HEAVY:
                allowed = {"doors", "bench"} if HEAVY[library] else {"doors", "bench", "problems", "baselines"}
                assert here in allowed, f"{path.name} imports {library}"
