"""The hypervolume of a front, what each of its members contributes, and the boxes that it leaves free.

The hypervolume is the volume of everything above a reference point that some member dominates (Zitzler and Thiele
1998). It grows whenever a front gets better in any way, which no other common measure does.
"""

import numpy as np

from regretless.fronts.dominance import nondominated
from regretless.space.parameters import Array


def hypervolume(Y: Array, reference: Array) -> float:
    """The volume that rows of Y (n x k) dominate above the reference (k)."""
    above = Y[(reference < Y).all(axis=1)] - reference
    return _volume(above[nondominated(above)]) if len(above) else 0.0


def _volume(Y: Array) -> float:
    """The volume between the origin and the members Y (m x k) of a front, by slices along the last objective."""
    k = Y.shape[1]
    if len(Y) == 0:
        return 0.0
    if k == 1:
        return float(Y.max())
    Y = Y[np.argsort(-Y[:, -1], kind="stable")]
    if k == 2:
        widths = np.maximum.accumulate(Y[:, 0])
        return float(widths @ (Y[:, 1] - np.append(Y[1:, 1], 0.0)))
    heights = Y[:, -1] - np.append(Y[1:, -1], 0.0)
    total, base = 0.0, np.empty((0, k - 1))
    for y, height in zip(Y, heights.tolist(), strict=True):
        if not (base >= y[:-1]).all(axis=1).any():
            base = np.concatenate([base[~(base <= y[:-1]).all(axis=1)], y[None, :-1]])
        if height > 0:
            total += height * _volume(base)
    return total


def contributions(Y: Array, reference: Array) -> Array:
    """The volume that each member of a front Y (m x k) dominates alone, m."""
    if Y.shape[1] == 2:
        order = np.lexsort((-Y[:, 1], Y[:, 0]))
        left = np.maximum(np.append(reference[0], Y[order[:-1], 0]), reference[0])
        below = np.maximum(np.append(Y[order[1:], 1], reference[1]), reference[1])
        alone = np.maximum(Y[order, 0] - left, 0.0) * np.maximum(Y[order, 1] - below, 0.0)
        found = np.empty(len(Y))
        found[order] = alone
        return found
    return np.array([_alone(y, np.delete(Y, i, axis=0), reference) for i, y in enumerate(Y)])


def _alone(y: Array, others: Array, reference: Array) -> float:
    """The volume that y (k) dominates and the others (m x k) do not."""
    if (y <= reference).any():
        return 0.0
    shared = np.minimum(others, y)
    return float(np.prod(y - reference)) - hypervolume(shared, reference)


def free_boxes(Y: Array, reference: Array) -> tuple[Array, Array]:
    """The corners, b x k each, of disjoint boxes that together are everything above the reference (k) that no member of
    the front Y (m x k) dominates; for up to three objectives, of which the upper corners may be infinite.

    For three the boxes are found as the members come in from above along the last objective: the strips that a member
    covers end there, and at most two begin, so there are at most 2 m + 1 boxes (Yang et al. 2019).
    """
    k = len(reference)
    Y = Y[(reference < Y).all(axis=1)]
    if k == 1:
        return np.array([[Y.max(initial=reference[0])]]), np.array([[np.inf]])
    Y = Y[nondominated(Y)]
    if k == 2:
        Y = Y[np.argsort(Y[:, 0], kind="stable")]
        edges = np.concatenate([[reference[0]], Y[:, 0], [np.inf]])
        floors = np.append(Y[:, 1], reference[1])
        some = edges[1:] > edges[:-1]
        lower, upper = np.column_stack([edges[:-1], floors]), np.column_stack([edges[1:], np.full(len(floors), np.inf)])
        return lower[some], upper[some]
    strips = [(float(reference[0]), np.inf, float(reference[1]), np.inf)]
    boxes: list[tuple[float, ...]] = []
    for a, b, c in Y[np.argsort(-Y[:, 2], kind="stable")].tolist():
        strips = _lowered(strips, a, b, c, boxes)
    boxes += [(left, right, floor, float(reference[2]), top) for left, right, floor, top in strips]
    left, right, floor, low, top = np.array([box for box in boxes if box[1] > box[0] and box[4] > box[3]]).T
    return np.column_stack([left, floor, low]), np.column_stack([right, np.full(len(left), np.inf), top])


def _lowered(
    strips: list[tuple[float, float, float, float]], a: float, b: float, c: float, boxes: list[tuple[float, ...]]
) -> list[tuple[float, float, float, float]]:
    """The strips (left, right, floor, top), left to right and with falling floors, after a member (a, b, c) has come
    in; what it closes is added to the boxes as (left, right, floor, bottom, top)."""
    kept: list[tuple[float, float, float, float]] = []
    start: float | None = None
    for left, right, floor, top in strips:
        if floor >= b or left >= a:  # not under the member
            if start is not None:
                kept.append((start, a, b, c))
                start = None
            kept.append((left, right, floor, top))
            continue
        start = left if start is None else start
        boxes.append((left, min(right, a), floor, c, top))
        if right > a:
            kept += [(start, a, b, c), (a, right, floor, top)]
            start = None
    return kept
