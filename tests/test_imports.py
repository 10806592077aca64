"""Imports point one way: a module may only import from rooms below its own, and methods leave each other alone."""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "regretless"

FLOORS = {
    "basics": 0, "certificate": 0, "client": 0, "space": 1, "fronts": 2, "task": 2, "history": 2, "method": 3,
    "trial": 3,
    "models": 4, "methods": 5, "classics": 6, "outlook": 6, "auto": 7, "testing": 7, "files": 8, "optimizer": 9,
    "bilevel": 10, "report": 10, "run": 11, "doors": 12, "serve": 13, "cli": 14, "__main__": 15,
}  # fmt: skip
"""Each room (a file or folder of the package) and the floor it stands on."""
BENCH = "regretless_bench"
"""The second distribution: it may import every room, and no room imports it."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> list[str]:
    """The modules of this project that a file imports when it runs, submodules by their own name."""
    found = []
    for node in at_run_time(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("regretless", BENCH):
            for alias in node.names:
                inner = ROOT.joinpath(*node.module.split("."), f"{alias.name}.py")
                found.append(f"{node.module}.{alias.name}" if inner.exists() else node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in ("regretless", BENCH)]
    return found


def at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from at_run_time(node)


def owner(module: str) -> tuple[str, ...]:
    """The room of a module; each paper's folder and each classic's file is a room of its own."""
    parts = module.split(".")[1:]
    return tuple(parts[:2]) if parts and parts[0] in ("methods", "classics") else tuple(parts[:1])


def is_common(room: tuple[str, ...]) -> bool:
    """Whether a room of the methods is one of the files that several of them are made of."""
    return len(room) == 1 or (PACKAGE.joinpath(*room).with_suffix(".py").exists() and room[0] == "methods")


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows_point_down(path: Path) -> None:
    here = owner(module_of(path))
    assert here[0] in FLOORS, f"{path.name} stands in no known room: add it to FLOORS"
    for module in imports(path):
        there = owner(module)
        assert not module.startswith(BENCH), f"{path.name} imports the bench"
        if not there:
            assert here == ("cli",), f"{path.name} imports the package as a whole"
        elif here[0] != there[0]:
            assert FLOORS[there[0]] < FLOORS[here[0]], f"{path.name} imports {module}, which stands above it"
            assert here[0] != "classics" or there[0] != "methods" or is_common(there), "no classic imports a paper"
        elif here[0] in ("methods", "classics"):
            assert here == there or is_common(there), f"{path.name} imports {module}: no method imports another"


def test_library_modules_have_two_users() -> None:
    """A module that one room alone uses belongs into that room; the rivals of the bench are a user like any other."""
    users = defaultdict(set)
    for path in [*FILES, *sorted((ROOT / "bench").rglob("*.py"))]:
        for module in imports(path):
            users[module].add(owner(module_of(path)) if PACKAGE in path.parents else (BENCH,))
    for path in FILES:
        module = module_of(path)
        if owner(module)[0] == "models" and path.name != "__init__.py":
            assert users[module], f"nobody uses {module}"
            outside = {user for user in users[module] if user != owner(module)}
            assert len(outside) != 1 or owner(module) in users[module], f"only {outside} uses {module}: move it there"


HEAVY = {
    "optuna": ("doors",), "sqlalchemy": ("doors",), "ray": ("doors",), "dask": ("doors",), "botorch": ("doors",),
    "gpytorch": ("doors",), "sklearn": ("doors",),
}  # fmt: skip
"""Libraries of the users' world, and the rooms that may import them."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_outside_libraries_stay_behind_their_doors(path: Path) -> None:
    here = owner(module_of(path))[0]
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for library in (name.split(".")[0] for name in names):
            assert here in HEAVY.get(library, (here,)), f"{path.name} imports {library}"


def test_importing_the_library_does_not_wait_for_scipy_or_the_progress_bar() -> None:
    code = "import sys, regretless; print(*sorted({'scipy', 'tqdm', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_root_holds_what_everything_stands_on() -> None:
    assert len([path for path in PACKAGE.glob("*.py") if path.name != "__main__.py"]) <= 10
