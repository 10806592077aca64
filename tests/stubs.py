"""Makes `regretless/auto/recipes.pyi`, which tells type checkers and editors the options of every public recipe:

python tests/stubs.py
"""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_args

from regretless.auto import recipes
from regretless.method import Recipe

STUB = Path(inspect.getfile(recipes)).with_suffix(".pyi")
OF_A_RUN = ("cube", "seed", "budget")
"""Arguments of methods that no recipe takes."""
BUILT_IN = ("bool", "int", "float", "str", "tuple", "list", "dict")


def stub() -> str:
    """The text of the stub."""
    imports = {"from typing import Literal, Self, TypeAlias", "from regretless.method import Recipe"}
    found = {name: recipe for name, recipe in vars(recipes).items() if isinstance(recipe, Recipe) and name != "AUTO"}
    blocks = [recipe_class(name, recipe, imports) for name, recipe in found.items()]
    names = ", ".join(f'"{name}"' for name in get_args(recipes.MethodName))
    head = '"""Made by `python tests/stubs.py`."""'
    return "\n\n".join([head, "\n".join(sorted(imports)), f"MethodName: TypeAlias = Literal[{names}]", *blocks])


def recipe_class(name: str, recipe: Recipe, imports: set[str]) -> str:
    """The class of a recipe and the recipe itself; what its annotations need goes to the imports."""
    options = []
    for arg, module in written_options(recipe.method):
        assert arg.annotation is not None
        imports |= imports_for(arg.annotation, module)
        options.append(f"{arg.arg}: {ast.unparse(arg.annotation)} = {shown(recipe, arg.arg)}")
    given = f"(self, *, {', '.join(options)})" if options else "(self)"
    return f"class _{name}(Recipe):\n    def __call__{given} -> Self: ...\n\n{name}: _{name}"


def written_options(method: type) -> list[tuple[ast.arg, str]]:
    """The options of a method as the text of its class has them, and the module where they stand."""
    owner = next(cls for cls in method.__mro__ if "__init__" in vars(cls))
    cls = next(n for n in text_of(owner.__module__).body if isinstance(n, ast.ClassDef) and n.name == owner.__name__)
    made = next(n for n in cls.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    return [(arg, owner.__module__) for arg in made.args.kwonlyargs if arg.arg not in OF_A_RUN]


def text_of(module: str) -> ast.Module:
    return ast.parse(Path(inspect.getfile(sys.modules[module])).read_text())


def shown(recipe: Recipe, option: str) -> str:
    """A default as the stub shows it: plain values as they are."""
    value = recipe.signature.parameters[option].default
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else "..."


def imports_for(annotation: ast.expr, module: str) -> set[str]:
    """The imports by which the names of an annotation are found outside of their module."""
    names = {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)} - {*BUILT_IN, "Literal"}
    return {imported(name, module) for name in names}


def imported(name: str, module: str) -> str:
    """The import of a name that a module imports or defines."""
    for node in ast.walk(text_of(module)):
        if isinstance(node, ast.Import) and name in [alias.name for alias in node.names]:
            return f"import {name}"
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return f"from {node.module} import {name}"
    return f"from {module} import {name}"


if __name__ == "__main__":
    STUB.write_text(stub())
    for command in (["format", "-q"], ["check", "-q", "--fix", "--select", "I"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, STUB], check=True)
