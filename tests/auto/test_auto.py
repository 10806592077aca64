"""method="auto": what it chooses, and that it says why."""

import re
import subprocess
import sys

import pytest

from regretless.auto import AUTO, CERTIFIED_UP_TO, find_recipe
from regretless.classics import CLASSICS
from regretless.models.gp.certify import MOST_DIMENSIONS
from regretless.optimizer import Optimizer
from regretless.space.parameters import Choice, Float, Int

MIXED = {"lr": Float(1e-4, 1e-1, log=True), "layers": Int(1, 6), "act": Choice(["relu", "tanh"])}


@pytest.mark.parametrize(
    ("space", "budget", "certify", "words"),
    [
        ([(0, 1)] * 2, 50, False, "2 parameters: an exact GP; expected improvement and a confidence bound take turns"),
        ([(0, 1)] * 8, 200, False, "8 parameters: an exact GP with expected improvement"),
        ([(0, 1)] * 20, 200, False, "20 parameters: an exact GP with expected improvement"),
        ([(0, 1)] * 21, 200, False, "21 parameters: one GP with expected improvement"),
        ([(0, 1)] * 5, 10_000, False, "10000 evaluations: CMA-ES"),
        (MIXED, 60, False, "3 parameters, some of them whole numbers or steps: an exact GP with expected improvement"),
        (MIXED, None, False, "3 parameters, some of them whole numbers"),
        ([(0, 1)] * 3, 60, True, "3 parameters and a certificate to reach"),
        (MIXED, 60, True, "3 parameters and a certificate to reach"),
        ([(0, 1)] * 11, 60, True, "11 parameters: an exact GP"),  # no certificate holds there
    ],
)
def test_what_it_begins_with_and_why(space, budget, certify, words) -> None:
    opt = Optimizer(space, budget=budget, certify=certify, seed=0)
    assert opt.why.startswith(words)
    verifies = certify and len(opt.space) <= CERTIFIED_UP_TO
    assert opt.recipe == (CLASSICS["gp-ucb"](verify=2) if verifies else AUTO)


def test_its_name_is_a_method_s() -> None:
    assert find_recipe("auto") == AUTO
    assert Optimizer(MIXED, method="gp-ei").why == "given"


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
