"""What a run with several objectives says of choices among its front: how sure a pick is, and what an exchange costs.

Each objective has a model of its values (`estimates`), from which values at many settings are drawn together, and
independently of the other objectives. A choice is made anew in every draw, so that its answers are a distribution.

**Notation** s draws of the values of m settings in k objectives, to be maximised: s x m x k.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from regretless.basics.streams import keyed_generator
from regretless.fronts.dominance import layers, nondominated
from regretless.history import History
from regretless.method import Method
from regretless.models.gp.maximiser import candidates
from regretless.outlook.estimates import estimates_of, in_shares
from regretless.space.parameters import Array
from regretless.task import Task

Choice = Callable[[Array], int | None]
"""From the values of a front (m x k) to the row that is taken; None: there is none."""


def chances(task: Task, method: Method, history: History, choice: Choice) -> tuple[NDArray[np.intp], Array]:
    """The rows of the settings that may be chosen, m, and the probability that the choice falls on each if all values
    were known, m; what is missing to 1 is the probability that nothing can be chosen."""
    most_drawn, draws = 100, 512  # settings, those behind the fewest fronts, and draws of their values
    firsts = np.unique(history.X, axis=0, return_index=True)[1]
    rows = np.sort(firsts[history.feasible[firsts]] if history.n_constraints else firsts)
    if not len(rows):
        return rows, np.empty(0)
    models = [estimates_of(task, method, history, j) for j in range(history.objectives)]
    X = in_model(task, method, history.X[rows])
    level = np.column_stack([model.gp.mean_at(X) for model in models])
    kept = np.sort(np.argsort(layers(level), kind="stable")[:most_drawn])
    count = np.zeros(len(kept))
    for Y in drawn_values(task, method, history, X[kept])[:draws]:
        front = np.flatnonzero(nondominated(Y))
        taken = choice(Y[front])
        if taken is not None:
            count[front[taken]] += 1
    return rows[kept], count / draws


def least_cost(
    task: Task, method: Method, history: History, X: Array, gain: int, pay: int, by: float
) -> tuple[float, float, float]:
    """What it costs in objective `pay` to be better by `by` in objective `gain` than the first of settings X (m x d)
    of the method's cube, and no worse in the others: the median of the least cost and the ends of an interval for it;
    infinite where no setting gains so much. Settings beside X are drawn, unless there are constraints, which they might
    break.

    The upper end is what the evaluated settings X ask, which is certain where values are exact. The lower end lies
    twice as far below the median as the 10 % quantile of the draws, because the draws' own intervals hold too seldom
    (docs/lab/fronts.md).
    """
    known = in_model(task, method, X)
    # 400: the settings beside X, a third of them around it
    more = candidates(task.space.cube(), keyed_generator(0, 4), known, 400) if not history.n_constraints else known[:0]
    draws = drawn_values(task, method, history, np.concatenate([known, more]))
    ahead = draws - draws[:, :1]
    enough = ahead[:, :, gain] >= by
    for j in set(range(history.objectives)) - {gain, pay}:
        enough &= ahead[:, :, j] >= 0.0
    cost = np.where(enough, -ahead[:, :, pay], np.inf)
    low, median = np.quantile(cost.min(axis=1), [0.1, 0.5], method="inverted_cdf").tolist()
    high = float(np.quantile(cost[:, : len(known)].min(axis=1), 0.9, method="inverted_cdf"))
    return median, median - 2.0 * (median - low) if np.isfinite(median) else low, high


def in_model(task: Task, method: Method, X: Array) -> Array:
    """Points of the method's cube (m x d) on the cube that the models know."""
    return np.array([in_shares(task, method, x) for x in X])


def drawn_values(task: Task, method: Method, history: History, X: Array) -> Array:
    """Values drawn together at settings X (m x d), s x m x k."""
    found = []
    for j in range(history.objectives):
        draws = estimates_of(task, method, history, j).drawn(X)
        # all objectives draw from one stream: in another order their draws are independent
        found.append(draws[keyed_generator(j, 0).permutation(len(draws))])
    return np.stack(found, axis=2)
