"""What each idea is worth in conditional spaces: `auto` with one thing changed at a time (docs/lab/spaces.md).

    python experiments/tree_ideas.py --seeds 12 --jobs 4 --out runs/tree_ideas

The tasks are those on which ideas are chosen; `pipeline` and `cancer` of `experiments/trees.py` are kept for reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import trees
from scipy.special import ndtri

from regretless.auto import algorithm
from regretless.auto.algorithm import Auto
from regretless.methods.shared import GPMethod
from regretless.models.gp import surrogate
from regretless.models.gp.acquisition import log_expected_improvement
from regretless.models.gp.design import Design
from regretless.models.gp.fit import NegativeLogPosterior, Prior
from regretless.models.gp.maximiser import Effort
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import Surrogate
from regretless.space.cube import Cube
from regretless.space.parameters import Array

CHOSEN_ON = ("fewer", "loss", "diabetes")
"""Tasks of `trees` that ideas are compared on."""

Change = Callable[[], AbstractContextManager[Any]]


def constant(name: str, value: Any) -> Change:
    return lambda: mock.patch.object(algorithm, name, value)


# ---------------------------------------------------------------- how values are seen


def by_rank() -> AbstractContextManager[Any]:
    """The model sees normal scores: bad branches do not set the scale, and good settings are told apart."""

    def scores(y: Array) -> Array:
        if len(y) < 2:
            return y
        order = np.argsort(np.argsort(y, kind="stable"), kind="stable").astype(float)
        for value in np.unique(y):
            order[y == value] = order[y == value].mean()
        return np.asarray(ndtri((order + 0.5) / len(y)))

    return mock.patch.object(surrogate, "clipped", scores)


def by_logarithm() -> AbstractContextManager[Any]:
    """Low values are drawn in by a logarithm (`compressed`) instead of clipped."""
    seen = lambda self, told, y: surrogate.compressed(told, y)  # noqa: E731
    return mock.patch.object(Surrogate, "seen_as", seen)


# ---------------------------------------------------------------- what branches have in common


@contextmanager
def choices_near(centre: float) -> Iterator[None]:
    """The prior of the length-scales of choices is centred here, so that branches share less."""
    whole = NegativeLogPosterior.__init__

    def begin(self: NegativeLogPosterior, *args: Any, **options: Any) -> None:
        whole(self, *args, **options)
        for i, _ in self.kernel.choices:
            self.centre[i] = math.log(centre)

    with mock.patch.object(NegativeLogPosterior, "__init__", begin):
        yield


@contextmanager
def plainer(*, trend: bool, widest: bool) -> Iterator[None]:
    """Without the quadratic trend, whose variance is largest in the corners of the cube; length-scales expected for the
    coordinates that exist at once instead of all."""
    whole = Surrogate.__init__

    def begin(self: Surrogate, cube: Cube, **options: Any) -> None:
        if cube.gates and not trend:
            options["quadratic"] = False
        whole(self, cube, **options)
        if cube.gates and widest:
            self.prior = Prior.scaled(cube.widest, quadratic=self.prior.quadratic is not None)

    with mock.patch.object(Surrogate, "__init__", begin):
        yield


# ---------------------------------------------------------------- where the search begins


@contextmanager
def scattered() -> Iterator[None]:
    """The design of a flat space: its points meet branches by chance."""
    whole = Design.__init__

    def begin(self: Design, cube: Cube, size: int, rng: np.random.Generator, *, centre: bool = True) -> None:
        cube.__dict__["branches"] = np.empty((0, cube.dim))
        whole(self, cube, size, rng, centre=centre)
        del cube.__dict__["branches"]

    with mock.patch.object(Design, "__init__", begin):
        yield


# ---------------------------------------------------------------- which branch is looked at again


def branch_by(score: Callable[[Auto, Array, Array], Array], draw: bool = False) -> Change:
    """Every fourth ask searches the branch with the largest score of its visits and its best value, by expected
    improvement or by a draw."""

    def chosen(self: Auto, gp: GP, rng: np.random.Generator) -> Array | None:
        whole = self.cube
        if whole.pins or not len(whole.branches):
            return None
        at = [i for first, last, _ in whole.parents for i in range(first, last)]
        inside = [(self.known[:, at] == branch[at]).all(axis=1) for branch in whole.branches]
        told = [(self.X[:, at] == branch[at]).all(axis=1) for branch in whole.branches]
        values = surrogate.clipped(self.y)
        best = np.array([values[rows].max(initial=values.min()) for rows in told])
        best = (best - values.mean()) / max(values.std(), 1e-12)
        branch = whole.branches[int(np.argmax(score(self, np.array([rows.sum() for rows in inside]), best)))]
        self.cube = whole.pinned({i: float(branch[i]) for i in at})
        try:
            if draw:
                return self.cube.draw(rng)
            beat = self._value_to_beat(gp)
            return self._best_step(gp, log_expected_improvement(gp, beat), rng, logarithmic=True)
        finally:
            self.cube = whole

    return lambda: mock.patch.object(Auto, "_in_rarest_branch", chosen)


def halving(self: Auto, visits: Array, best: Array) -> Array:
    """The rarest of the better half; every branch is seen twice first."""
    if visits.min() < 2:
        return -visits
    return np.where(best >= np.median(best), -visits.astype(float), -np.inf)


def bandit(width: float) -> Callable[[Auto, Array, Array], Array]:
    return lambda self, visits, best: best + width * np.sqrt(math.log(len(self.y) + 1) / np.maximum(visits, 0.1))


def least(count: int) -> Callable[[Auto, Array, Array], Array]:
    """The rarest branch while it has fewer than so many evaluations, then the best one."""
    return lambda self, visits, best: -visits.astype(float) if visits.min() < count else best


def margin_less_often() -> AbstractContextManager[Any]:
    """Of four asks two refine, one must gain the margin, one searches the rarest branch."""
    whole = Auto._step

    def step(self: Auto, rng: np.random.Generator) -> Array:
        at = self.step
        self.step = at + 2 if at % 4 == 2 else at
        try:
            return whole(self, rng)
        finally:
            self.step = at

    return mock.patch.object(Auto, "_step", step)


def late(share: float) -> Change:
    """After this share of the budget every ask goes for the largest expected improvement."""

    def change() -> AbstractContextManager[Any]:
        whole = Auto._step

        def step(self: Auto, rng: np.random.Generator) -> Array:
            if self.budget is None or self._evaluations < share * self.budget:
                return whole(self, rng)
            with mock.patch.object(algorithm, "TREE_MARGIN", 0.0), mock.patch.object(algorithm, "BRANCH_EVERY", 10**9):
                return whole(self, rng)

        return mock.patch.object(Auto, "_step", step)

    return change


def more_effort() -> AbstractContextManager[Any]:
    """Four times the candidates and twice the starts: the branches share those of an ask."""
    whole = GPMethod._best_step

    def best_step(self: Any, gp: GP, acquisition: Any, rng: Any, **options: Any) -> Array:
        return whole(self, gp, acquisition, rng, **(options | {"effort": Effort(1600, 8)}))

    return mock.patch.object(GPMethod, "_best_step", best_step)


rarest = branch_by(lambda self, visits, best: -visits)
IDEAS: dict[str, list[Change]] = {
    "now": [],
    "before": [scattered, rarest, margin_less_often],
    "scattered": [scattered],
    "improve": [rarest],
    "neither": [constant("BRANCH_EVERY", 10**9), constant("TREE_MARGIN", 0.0)],
    "margin less often": [margin_less_often],
    "rank": [by_rank],
    "logarithm": [by_logarithm],
    "short choices": [lambda: choices_near(0.5)],
    "apart": [lambda: choices_near(0.1)],
    "halving": [branch_by(halving)],
    "halving, drawn": [branch_by(halving, draw=True)],
    "bandit": [branch_by(bandit(0.5))],
    "least 3": [branch_by(least(3))],
    "no trend": [lambda: plainer(trend=False, widest=False)],
    "widest": [lambda: plainer(trend=True, widest=True)],
    "plainer": [lambda: plainer(trend=False, widest=True)],
    "late": [late(0.6)],
    "effort": [more_effort],
}


def run(task: str, idea: str, seed: int) -> list[float]:
    with ExitStack() as stack:
        for change in IDEAS[idea]:
            stack.enter_context(change())
        return trees.run(task, "space", seed) if idea in IDEAS else trees.run(task, idea, seed)


def table(results: list[tuple[Any, Any]]) -> str:
    """Mean ranks over tasks and seeds, and the mean value of every task."""
    found = {cell: curve[-1] for cell, curve in results}
    ideas = [idea for idea in IDEAS if any(cell[1] == idea for cell in found)]
    tasks = sorted({cell[0] for cell in found})
    cases = [(t, s) for t in tasks for s in sorted({c[2] for c in found}) if all((t, i, s) in found for i in ideas)]
    values = np.array([[found[t, i, s] for i in ideas] for t, s in cases])
    ranks = (
        1
        + (values[:, None, :] < values[:, :, None]).sum(2)
        + ((values[:, None, :] == values[:, :, None]).sum(2) - 1) / 2
    )
    lines = [f"| idea ({len(cases)} cases) | rank | se | {' | '.join(tasks)} |", "| --- " * (3 + len(tasks)) + "|"]
    for k in np.argsort(ranks.mean(axis=0)):
        means = [values[[n for n, case in enumerate(cases) if case[0] == t], k].mean() for t in tasks]
        se = ranks[:, k].std() / math.sqrt(len(cases))
        cells = " | ".join(f"{mean:.5g}" for mean in means)
        lines.append(f"| {ideas[k]} | {ranks[:, k].mean():.2f} | {se:.2f} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    trees.command(__doc__, run, table, tasks=CHOSEN_ON, kind="ideas", names=IDEAS, seeds=12)
