"""method="auto": what it chooses, and that it says why."""

import re
import subprocess
import sys

import pytest

from regretless.auto import CERTIFIED_UP_TO, choose_method, find_recipe
from regretless.gp.certify import MOST_DIMENSIONS
from regretless.parameters import Choice, Float, Int
from regretless.space import Space


@pytest.mark.parametrize(
    ("dim", "budget", "certify", "name"),
    [
        (2, 50, False, "gp-ucb"),
        (20, 200, False, "gp-ucb"),
        (21, 200, False, "ms-ucb"),
        (5, 10_000, False, "neural-bo"),
        (3, 60, True, "gp-ucb"),
    ],
)
def test_rule(dim: int, budget: int, certify: bool, name: str) -> None:
    recipe, why = choose_method(Space([(0, 1)] * dim), budget, certify=certify)
    assert recipe.name == name
    assert str(dim) in why or str(budget) in why
    assert ("verify" in recipe.options) is certify


@pytest.mark.parametrize(
    ("budget", "certify", "name"),
    [(60, False, "gp-ei"), (None, False, "gp-ei"), (10_000, False, "neural-bo"), (60, True, "gp-ucb")],
)
def test_spaces_with_choices(budget: int | None, certify: bool, name: str) -> None:
    """A choice turns gp-ucb into gp-ei and nothing else; whole numbers and steps do not."""
    mixed = {"lr": Float(1e-4, 1e-1, log=True), "layers": Int(1, 6), "act": Choice(["relu", "tanh"])}
    recipe, why = choose_method(Space(mixed), budget, certify=certify)
    assert recipe.name == name
    assert ("choices" in why) is (name == "gp-ei")
    assert (
        choose_method(Space({"lr": mixed["lr"], "layers": mixed["layers"], "rate": Float(0, 1, step=0.25)}), 60)[0].name
        == "gp-ucb"
    )
    assert choose_method(Space({**mixed, **{f"x{i}": Float(0, 1) for i in range(20)}}), 60)[0].name == "ms-ucb"


def test_its_constant_is_the_certificate_s() -> None:
    assert CERTIFIED_UP_TO == MOST_DIMENSIONS


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("magic", "unknown method 'magic'; known are auto, go-ucb"),
        ("gpucb", "unknown method 'gpucb'; did you mean 'gp-ucb'? known are auto, go-ucb"),
        ("GP_EI", "unknown method 'GP_EI'; did you mean 'gp-ei'? known are auto, go-ucb"),
    ],
)
def test_unknown_names_list_the_known_ones(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        find_recipe(name)


HEAVY = ("torch", "optuna", "sklearn", "scipy.stats", "matplotlib", "pandas")


@pytest.mark.parametrize(
    "first",
    ["", "regretless.Optimizer([(0, 1)] * 3, method='random', seed=0).ask()"],
    ids=["import", "a first random ask"],
)
def test_no_heavy_library_is_loaded(first: str) -> None:
    code = f"import sys, regretless; {first}\nprint([m for m in {HEAVY} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
