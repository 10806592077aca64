"""`method="auto"`: which method runs for a space and a budget, and why. One rule, in one place."""

from __future__ import annotations

import difflib

from regretless.baselines import BASELINES
from regretless.method import Method, Recipe
from regretless.methods import METHODS
from regretless.parameters import Choice
from regretless.space import Space

HIGH_DIMENSION = 20
"""Beyond this many parameters MS-UCB's contest of models takes over."""
LARGE_BUDGET = 3000
"""Beyond this many evaluations the exact GP costs more than a second per ask."""


CERTIFIED_UP_TO = 10
"""Dimensions in which the fitted certificate holds (`gp/certify.py`, which is slow to import)."""
VERIFY_EVERY = 2
"""Asks per verifying one when the run is to end by its certificate (docs/certificates.md)."""


def choose_method(
    space: Space, budget: int | None, *, certify: bool = False, weighed: bool = False
) -> tuple[Recipe, str]:
    """The recipe for a space and a budget, and the reason in one sentence; `certify` when the run is to end by its
    certificate, `weighed` when constraints or costs are told with the values."""
    dim = len(space)
    if weighed:
        return BASELINES["gp-ei"], "constraints or costs: expected improvement weighs a gain by both"
    if certify and dim <= CERTIFIED_UP_TO:
        reason = f"{dim} parameters and a certificate to reach: every second evaluation goes where the bound is largest"
        return BASELINES["gp-ucb"](verify=VERIFY_EVERY), reason
    if budget is not None and budget > LARGE_BUDGET:
        return (
            METHODS["neural-bo"],
            f"{budget} evaluations: the neural-tangent model's cost per ask stays flat where an exact GP's grows "
            "with n^2",
        )
    if dim > HIGH_DIMENSION:
        return METHODS["ms-ucb"], f"{dim} parameters: of several GPs the one that predicted best is searched"
    if any(isinstance(parameter, Choice) for parameter in space.parameters.values()):  # measured in docs/gp-engine.md
        return (
            BASELINES["gp-ei"],
            f"{dim} parameters with choices and a small budget: an exact GP with expected improvement sorts labels "
            "out soonest",
        )
    return BASELINES["gp-ucb"], f"{dim} parameters and a small budget: an exact GP learns most per evaluation"


def find_recipe(name: str) -> Recipe:
    """The recipe of a name; unknown names raise with the list of known ones."""
    if not isinstance(name, str):
        raise ValueError(f'method must be a name, a recipe or "auto", got {name!r}')
    known = {**METHODS, **BASELINES}
    if name not in known:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown method {name!r}; {meant}known are auto, {', '.join(known)}")
    return known[name]


def as_recipe(method: str | Recipe | type[Method]) -> Recipe:
    """The recipe of a name, a recipe or a Method class."""
    if isinstance(method, Recipe):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        return Recipe(method.__name__, method)
    return find_recipe(method)  # type: ignore[arg-type]
