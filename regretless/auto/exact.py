"""The model's step where values are exact, or their noise is too small to matter.

Expected improvement and the confidence bound take turns, because each loses on functions on which the other wins. With
whole numbers and steps, in many dimensions and in trees expected improvement proposes alone. Beside points under way,
functions drawn from the posterior and a narrower bound take turns, because a draw spreads a batch and the bound uses
what is known. At the end of a budget the largest mean is evaluated.
"""

import numpy as np

from regretless.auto.quadratic import quadratic_step
from regretless.auto.steps import Ask, bound_step, drawn_step, narrowed
from regretless.models.gp.acquisition import log_expected_improvement
from regretless.models.gp.design import away_from_known
from regretless.space import Cube
from regretless.space.parameters import Array

KAPPA = 1.0  # the width of the confidence bound, as in gp-ucb
LATE_WIDTH = 0.3
"""The width of the bound beside points under way in the last fifth of a budget. With 0.1 the mean regret is the same;
without this it is 1.1 to 1.2 times as large (docs/lab/auto.md)."""
TREE_MARGIN = 0.3
"""By how much, in standard deviations of the values, two asks of four in a tree must beat the best: a branch whose best
is found promises ever smaller gains, and without a margin these outweigh the other branches (docs/lab/spaces.md)."""
BRANCH_EVERY = 4
"""Every so many asks in a tree the branch with the fewest evaluations is searched: its first values may have been
unlucky, and a model that has seen nothing else in it would never come back (docs/lab/spaces.md)."""


def has_steps(cube: Cube) -> bool:
    """Whether some coordinates are whole numbers or steps."""
    return bool((cube.discrete & ~cube.categorical).any())


def is_many(cube: Cube) -> bool:
    """Whether there are many coordinates, or a tree, in which the bound would stay in its branch (docs/lab)."""
    # 8: parameters from which expected improvement proposes alone, on axes as they are (docs/lab/auto.md)
    return cube.dim >= 8 or bool(cube.gates)


def only_lines(cube: Cube) -> bool:
    """Whether every point of the cube is legal, so that a quadratic has lines in all directions."""
    return cube.plain and cube.region is None


def exact_step(ask: Ask) -> Array:
    """The next point, d."""
    many = is_many(ask.cube)
    # 0.8: the share of a known budget after which the mean alone is maximised, as in gp-ucb
    late = ask.spent(0.8) and not many
    if late and not ask.pending:  # with others under way the largest mean would be proposed to all of them
        return last_step(ask)
    if many or has_steps(ask.cube):
        return improving_step(ask)
    if late:
        return bound_step(ask, LATE_WIDTH)
    if not ask.pending:
        return bound_step(ask, KAPPA) if ask.rng.step % 2 else improving_step(ask)
    # 4: points under way from which every second ask is drawn; beside fewer every fourth is (docs/lab/auto.md)
    drawn = ask.rng.step % 2 == 0 if ask.pending >= 4 else ask.rng.step % 4 == 2
    return drawn_step(ask) if drawn else bound_step(ask, narrowed(KAPPA, ask.pending))


def last_step(ask: Ask) -> Array:
    """The largest mean or, every second ask, the top of a quadratic through the values around the best, d."""
    turn = only_lines(ask.cube) and ask.rng.step % 2
    top = quadratic_step(ask.history.X, ask.history.y) if turn else None
    if top is None:
        return bound_step(ask, 0.0)
    return away_from_known(ask.cube.snap(top), ask.history, ask.cube, ask.rng)


def improving_step(ask: Ask) -> Array:
    """The largest expected improvement, d; in a tree, now and then within the branch with the fewest evaluations."""
    turn = ask.rng.step % BRANCH_EVERY if ask.cube.gates else 0
    if turn == BRANCH_EVERY - 1:
        x = rarest_branch_step(ask)
        if x is not None and not ask.history.is_known(ask.cube.snap(x)):
            return x
    beat = ask.value_to_beat() + (TREE_MARGIN if turn else 0.0)
    return ask.best(log_expected_improvement(ask.gp, beat), logarithmic=True)


def rarest_branch_step(ask: Ask) -> Array | None:
    """A point of the branch that has the fewest evaluations, d: a draw while they are no more than its coordinates,
    because expected improvement begins in the corners, and then the largest expected improvement. None when the
    branches cannot be listed, or coordinates are held already."""
    whole = ask.cube
    if whole.pins or not len(whole.branches):
        return None
    at = [i for first, last, _ in whole.parents for i in range(first, last)]
    known = ask.history.known[:, at]
    visits = [(known == branch[at]).all(axis=1).sum() for branch in whole.branches]
    rarest = int(np.argmin(visits))
    branch = whole.branches[rarest]
    cube = whole.pinned({i: float(branch[i]) for i in at})
    if visits[rarest] > whole.active(branch).sum():
        return ask.best(log_expected_improvement(ask.gp, ask.value_to_beat()), cube=cube, logarithmic=True)
    drawn = None if whole.belief is None else whole.belief.drawn(ask.rng.random((1, whole.dim)))
    return cube.draw(ask.rng) if drawn is None else np.asarray(cube.allowed(drawn)[0])
