"""The papers' rivals as the papers ran them, and plain ones, beside the same methods at our best.

`RIVALS` are GP-UCB, GP-EI and their kin in plain form: an SE kernel on the values as observed, no tuned widths, a
design without the centre of the box (which is the optimum of several test functions). Where a paper names packages or
an implementation, `packaged` and the experiment have those: GO-UCB compares with BoTorch and scikit-optimize "with
default parameter settings", which have a Matern kernel. The tuned methods of this library are the good rivals.
"""

from __future__ import annotations

from collections.abc import Sequence

from regretless.method import Recipe
from regretless_bench import methods
from regretless_bench.peers import PEERS
from regretless_bench.verdicts import Runs

IN_TWO_FORMS = ("gp-ucb", "gp-ei", "gp-pi", "gp-ts", "turbo")
"""Rivals that have a printed form beside the tuned one; the others have no tuned form."""


def printed_label(name: str) -> str:
    """How a rival as printed is called."""
    return f"{name} (paper)" if name in IN_TWO_FORMS else name


RIVALS: dict[str, Recipe] = {printed_label(name): methods.RIVALS[f"{name}-printed"] for name in IN_TWO_FORMS}
"""Label -> recipe."""


PACKAGED = {
    "gp-ei": ("gp-ei (skopt)", "gp-ei (BoTorch)"),
    "gp-pi": ("gp-pi (skopt)", "gp-pi (BoTorch)"),
    "gp-ucb": ("gp-ucb (skopt)", "gp-ucb (BoTorch)"),
}
"""Rival -> its labels in the packages that GO-UCB's paper names; it does not say which rival came from which."""


def packaged(low: float, high: float) -> dict[str, Recipe]:
    """These rivals with the packages' defaults, on a box of these bounds: BoTorch saw the problem's own units."""
    found = {}
    for name, criterion in (("gp-ei", "ei"), ("gp-pi", "pi"), ("gp-ucb", "ucb")):
        skopt, botorch = PACKAGED[name]
        found[skopt] = PEERS[f"skopt-{'lcb' if criterion == 'ucb' else criterion}"]
        found[botorch] = PEERS[f"botorch-2022-{criterion}"](low=low, high=high)
    return found


def with_printed(names: Sequence[str]) -> tuple[str, ...]:
    """These methods, and after them those of them that have another form in the papers."""
    return (*names, *(printed_label(name) for name in names if name in IN_TWO_FORMS))


def as_printed(cases: Runs, names: Sequence[str]) -> list[str]:
    """The labels of these rivals as printed; where records hold none, as records of earlier versions do, their own."""
    there = {label for methods in cases.values() for label in methods}
    return [printed_label(name) if printed_label(name) in there else name for name in names]
