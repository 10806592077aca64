"""`method="auto"`: the method that reads the history as it goes (`auto.algorithm.Auto`), and methods by their names."""

import difflib

from regretless.classics import CLASSICS
from regretless.method import Recipe
from regretless.methods import METHODS
from regretless.space import Space

AUTO = Recipe("auto", "regretless.auto.algorithm:Auto")
"""The recipe of "auto"; it stands apart from METHODS and CLASSICS, because it is made of them."""
OTHERS = "regretless.methods"
"""The group of entry points by which other distributions name methods: mappings of names to recipes."""
CERTIFIED_UP_TO = 10
"""Dimensions in which the fitted certificate holds (`gp/certify.py`, which is slow to import)."""


def choose_method(
    space: Space, *, certify: bool = False, weighed: bool = False, several: bool = False
) -> tuple[Recipe, str]:
    """The recipe that "auto" means for a space, and the reason in one sentence. `certify`: the run is to end by its
    certificate, which needs evaluations that no search would make. `weighed`: constraints or costs are told. `several`:
    there are several objectives."""
    dim = len(space)
    if several and weighed:
        return CLASSICS["gp-ehvi"], "several objectives, constraints or costs: the gain of the front is weighed by both"
    if several:
        return AUTO, ""
    if weighed:
        return CLASSICS["gp-ei"], "constraints or costs: expected improvement weighs a gain by both"
    if certify and dim <= CERTIFIED_UP_TO:
        reason = f"{dim} parameters and a certificate to reach: every second evaluation goes where the bound is largest"
        # 2: asks per verifying one when the run is to end by its certificate (docs/explanation/certificates.md)
        return CLASSICS["gp-ucb"](verify=2), reason
    return AUTO, ""


def find_recipe(name: str) -> Recipe:
    """The recipe of a name; unknown names raise with the list of known ones."""
    if not isinstance(name, str):
        raise ValueError(f'method must be a name, a recipe or "auto", got {name!r}')
    known = {AUTO.name: AUTO, **METHODS, **CLASSICS}
    if name not in known:
        known |= others()
    if name not in known:
        near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        rivals = "" if "rembo" in known else "; the rivals of the papers are in regretless-bench"
        raise ValueError(f"unknown method {name!r}; {meant}known are {', '.join(known)}{rivals}")
    return known[name]


def others() -> dict[str, Recipe]:
    """The methods of other installed distributions, by name; regretless-bench has the rivals of the papers."""
    import importlib.metadata  # it brings the parser of e-mails along

    found: dict[str, Recipe] = {}
    for point in importlib.metadata.entry_points(group=OTHERS):
        found |= point.load()
    return found
