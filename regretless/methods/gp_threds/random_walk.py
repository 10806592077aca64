"""The random walk on the tree of a cell's halvings (Alg. 2), with the two-sided local test (Fig. 3, Sec. 7.2).

Thresholds and slacks are in the standardised units of the method's scale.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from regretless.methods.gp_threds.threshold_tree import Cell
from regretless.methods.gp_threds.widths import leaf_confidence
from regretless.parameters import Array

if TYPE_CHECKING:
    from regretless.methods.gp_threds.algorithm import GPThreDS

Told: TypeAlias = tuple[Array, float, float]  # a told point, its value and the variance of its noise (NaN unknown)
Search: TypeAlias = Generator[None, Told, Any]  # A search under way: it waits for told points


def walk(method: GPThreDS, cell: Cell, tau: float, slack: float) -> Search:
    """The children of a cell with points above tau: one walk on the tree of its d halvings for each."""
    found: list[int] = []
    p = method.p
    while True:
        sure = leaf_confidence(method.delta, method.horizon, len(found) + 1, p, method.dim)
        seen = [cell.child(i) for i in found]
        path = [(cell, 0)]
        while True:
            here, number = path[-1]
            depth = len(path) - 1
            if depth == 0 and not (yield from passes(method, cell, seen, tau, slack, yes=p, no=sure)):
                return found
            if depth == method.dim:  # (Alg. 2, l. 3-9)
                if (yield from passes(method, here, seen, tau, slack, yes=sure, no=p)):
                    found.append(number)
                    break
                path.pop()
                continue
            for upper in (False, True):  # (Alg. 2, l. 11-20)
                half = here.half(depth, upper)
                if (yield from passes(method, half, seen, tau, slack, yes=p, no=p)):
                    path.append((half, number | upper << depth))
                    break
            else:
                if depth:
                    path.pop()


def passes(
    method: GPThreDS, cell: Cell, seen: list[Cell], tau: float, slack: float, *, yes: float, no: float
) -> Search:
    """Whether a cell has points above tau outside the cells seen; a yes errs with probability `yes`, a no with `no`."""
    test, widths = method.open_test(cell, without=seen), method.widths
    posterior, surest = test.posterior, min(yes, no)
    samples = 0
    while test.open:
        samples += yield from method.take_sample(test)
        if not test.open:
            break
        is_patient = samples >= widths.waiting_time(posterior, slack, no)
        if test.bounds(widths.beta(posterior, yes))[0] >= tau:
            return True
        if test.bounds(widths.beta(posterior, surest if is_patient else no))[1] <= tau - slack:
            return False
        if samples >= widths.waiting_time(posterior, slack, surest):
            method.tree.by_time += 1
            return True
        test.score(widths.beta(posterior, method.delta / (4 * method.horizon)))
    return False
