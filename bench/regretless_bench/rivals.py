"""The papers' rivals as the papers describe them, beside the same methods at our best.

A paper compares with GP-UCB, GP-EI and their kin at the defaults of their day: an SE kernel on the values as observed,
no tuned widths, a design without the centre of the box (which is the optimum of several test functions). `RIVALS` are
these; a claim is judged against them. The tuned methods of this library run as well and stand beside the claim.
"""

from __future__ import annotations

from collections.abc import Sequence

from regretless.method import Recipe
from regretless_bench import methods
from regretless_bench.verdicts import Runs

IN_TWO_FORMS = ("gp-ucb", "gp-ei", "gp-pi", "gp-ts", "turbo")
"""Rivals that have a printed form beside the tuned one; the others have no tuned form."""


def printed_label(name: str) -> str:
    """How a rival as printed is called."""
    return f"{name} (paper)" if name in IN_TWO_FORMS else name


RIVALS: dict[str, Recipe] = {printed_label(name): methods.RIVALS[f"{name}-printed"] for name in IN_TWO_FORMS}
"""Label -> recipe."""


def with_printed(names: Sequence[str]) -> tuple[str, ...]:
    """These methods, and after them those of them that have another form in the papers."""
    return (*names, *(printed_label(name) for name in names if name in IN_TWO_FORMS))


def as_printed(cases: Runs, names: Sequence[str]) -> list[str]:
    """The labels of these rivals as printed; where records hold none, as records of earlier versions do, their own."""
    there = {label for methods in cases.values() for label in methods}
    return [printed_label(name) if printed_label(name) in there else name for name in names]
