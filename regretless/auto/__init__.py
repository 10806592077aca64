"""`method="auto"`: the method that reads the history as it goes (`auto.algorithm.Auto`), and methods by their names."""

import difflib

from regretless.baselines import BASELINES
from regretless.method import Recipe
from regretless.methods import METHODS
from regretless.space import Space

AUTO = Recipe("auto", "regretless.auto.algorithm:Auto")
"""The recipe of "auto"; it stands apart from METHODS and BASELINES, because it is made of them."""
CERTIFIED_UP_TO = 10
"""Dimensions in which the fitted certificate holds (`gp/certify.py`, which is slow to import)."""
VERIFY_EVERY = 2
"""Asks per verifying one when the run is to end by its certificate (docs/certificates.md)."""


def choose_method(space: Space, *, certify: bool = False, weighed: bool = False) -> tuple[Recipe, str]:
    """The recipe that "auto" means for a space, and the reason in one sentence; `certify` when the run is to end by its
    certificate, which needs evaluations that no search would make; `weighed` when constraints or costs are told."""
    dim = len(space)
    if weighed:
        return BASELINES["gp-ei"], "constraints or costs: expected improvement weighs a gain by both"
    if certify and dim <= CERTIFIED_UP_TO:
        reason = f"{dim} parameters and a certificate to reach: every second evaluation goes where the bound is largest"
        return BASELINES["gp-ucb"](verify=VERIFY_EVERY), reason
    return AUTO, ""


def find_recipe(name: str) -> Recipe:
    """The recipe of a name; unknown names raise with the list of known ones."""
    if not isinstance(name, str):
        raise ValueError(f'method must be a name, a recipe or "auto", got {name!r}')
    known = {AUTO.name: AUTO, **METHODS, **BASELINES}
    if name not in known:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown method {name!r}; {meant}known are {', '.join(known)}")
    return known[name]
