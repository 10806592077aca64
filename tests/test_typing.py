"""Type checkers see mistakes in what users write: names of methods and their options."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import stubs

import regretless as rg
from regretless.auto import recipes

PROGRAM = """
from typing import Any

import regretless as rg
from regretless_bench.methods import RIVALS


class Coin(rg.Method):
    def propose(self, history: Any, cube: rg.Cube, rng: Any) -> Any:
        return cube.draw(rng)


def loss(x: float) -> float:
    return x * x


space = {"x": rg.Float(-1, 1)}
rg.minimize(loss, space, trials=3, method="gp-ei")
rg.minimize(loss, space, trials=3, method=rg.GPUCB(kappa=2.0)(verify=2))
rg.minimize(loss, space, trials=3, method=Coin)
rg.minimize(loss, space, trials=3, method=rg.Recipe("coin", Coin)(heads=1))
rg.minimize(loss, space, trials=3, method=RIVALS["rembo"](low_dim=2))
rg.Optimizer(space, "auto")
rg.Sampler("turbo")
rg.minimize(loss, space, trials=3, method="gp-zz")  # wrong
rg.Optimizer(space, "gp-zz")  # wrong
rg.Sampler("gp-zz")  # wrong
rg.GPUCB(kapa=2.0)  # wrong
rg.GPUCB(kappa="wide")  # wrong
rg.GPEI(kappa=2.0)  # wrong
rg.GPUCB(kappa=2.0)(kapa=2.0)  # wrong
rg.GPUCB(2.0)  # wrong
"""


def test_a_type_checker_finds_names_and_options_that_do_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    root = Path(rg.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", path],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {int(line) for line in re.findall(r"program\.py:(\d+): error", done.stdout)}
    wrong = {i for i, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, done.stdout + done.stderr


def test_the_stub_of_the_recipes_is_that_of_the_methods() -> None:
    written, made = (ast.parse(text) for text in (stubs.STUB.read_text(), stubs.stub()))
    assert {ast.dump(node) for node in statements(written)} == {ast.dump(node) for node in statements(made)}, (
        "run `python tests/stubs.py`"
    )


def statements(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a module, imports one name each."""
    found: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found += [ast.ImportFrom(node.module, [name], 0) for name in node.names]
        else:
            found.append(node)
    return found


def test_every_name_of_a_method_is_a_literal() -> None:
    assert get_args(recipes.MethodName) == ("auto", *rg.METHODS, *rg.CLASSICS)


def test_help_shows_the_options_of_a_recipe() -> None:
    shown = rg.GPUCB.__doc__ or ""
    assert "kappa: float = 1.0" in shown
    assert "the width" in shown
    assert (rg.Recipe.__doc__ or "").startswith("A Method with its options")


def test_options_are_given_by_name() -> None:
    with pytest.raises(TypeError, match=r"GPUCB are given by name \(kappa, .*got 2\.0"):
        rg.GPUCB(2.0)  # type: ignore[call-arg]
