"""The outer level of a bilevel study, for `minimize_bilevel` and Optuna's `BilevelSampler`.

`Outer` turns the training runs so far into values for a method, and asks the method for the hyper-parameters of the
next run. It makes a new `Optimizer` for every proposal, because a run that was trained on has a new value, and an
`Optimizer` cannot replace a value that it was told.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regretless.auto import find_recipe
from regretless.basics.fingerprint import fingerprint
from regretless.basics.options import in_range, one_of
from regretless.basics.streams import Stream
from regretless.bilevel.run import TrainingRun
from regretless.bilevel.schedule import FixedHorizon, Promotion
from regretless.files.book import Earlier
from regretless.history import History
from regretless.method import Recipe, keyed_generator, next_points
from regretless.methods.bbo.default import BBO
from regretless.methods.bbo.printed import PrintedBBO
from regretless.optimizer import Optimizer, proposal
from regretless.space import Cube, Space
from regretless.space.parameters import Array, Axis
from regretless.task import Task

NOISE_PRIOR = 2.0
"""Curve points that the pooled noise variance counts for in that of a single run, as many as four validations leave."""
MOST_VALUES = 64
"""Values that the model with the length of training is told, for the 50 ms that `benchmarks/bilevel.py` allows."""


def with_horizon(recipe: Recipe, schedule: Promotion | FixedHorizon) -> Recipe:
    """The recipe with N of the schedule, on which the widths of UCB depend; one that names another N raises."""
    if not isinstance(schedule, FixedHorizon) or recipe.options.get("acquisition") != "ucb":
        return recipe
    given = recipe.options.get("horizon", schedule.horizon)
    if given != schedule.horizon:
        raise ValueError(f"the method's horizon={given!r} is not the study's, {schedule.horizon}; leave it out")
    return recipe(horizon=schedule.horizon)


class Outer:
    """The outer level of a study: what it is told and what it proposes."""

    def __init__(
        self,
        space: Space,
        method: str | Recipe | None,
        seed: int,
        schedule: Promotion | FixedHorizon,
        scale: str = "auto",
        cap: float | None = None,
    ) -> None:
        # the outer method where none is named: random settings under promotion, because those of a model were within
        # their noise on six tasks of 16 seeds (docs/lab/bilevel.md), and the paper's model for its own fixed split
        promoted, split = "random", "bilevel"
        if method is None:
            method = promoted if isinstance(schedule, Promotion) else split
        recipe = with_horizon(find_recipe(method) if isinstance(method, str) else method, schedule)
        if recipe.options.get("fidelity"):
            raise ValueError("fidelity must not be set: a study sets it itself where the method is told lengths")
        in_range("(0, inf] or None", cap=cap)
        one_of(("auto", "log", "linear"), scale=scale)
        self.space, self.recipe, self.seed, self.schedule, self.cap = space, recipe, seed, schedule, cap
        self.rungs = schedule.rungs if isinstance(schedule, Promotion) else ()
        built = self._optimizer().method
        self.choices, self.dim = built.traits.choices, built.dim
        paper = built if isinstance(built, BBO | PrintedBBO) else None  # these know of inner training loops
        self.scale = paper.loss_scale if paper is not None and scale == "auto" else scale
        self.noise_known = (recipe.options.get("noise_var") if paper is None else paper.noise_var) is not None
        """Whether the method has a noise variance of its own, which those of the curves must not replace."""
        self.fidelity = paper is not None and not self.noise_known
        """Whether the method can model the length of training."""

    def describe(self) -> dict[str, Any]:
        """What makes this outer level what it is, as plain JSON; options that are no plain values by their content."""
        options = {
            name: value if isinstance(value, str | int | float | bool | None) else {"content": fingerprint(value)}
            for name, value in self.recipe.options.items()
        }
        return {
            "kind": "regretless-bilevel-2", "space": self.space.to_json(), "seed": self.seed,
            "method": {"name": self.recipe.name, "options": options}, "scale": self.scale, "cap": self.cap,
            "schedule": {"name": type(self.schedule).__name__, **dataclasses.asdict(self.schedule)},
        }  # fmt: skip

    def new_run(self, number: int, unit: Array) -> TrainingRun:
        """The run of this number, not yet trained, at a point of the cube (d)."""
        seed = int(keyed_generator(self.seed, number, stream=Stream.RUN_SEED).integers(2**31))
        return TrainingRun(number, self.space.decode(unit, self.choices), seed, unit)

    def propose(self, runs: Sequence[TrainingRun], until: int) -> Array:
        """The setting of the next run, which is to be trained for `until` steps at first; a point of the cube, d."""
        late = len(self.rungs) > 1 and until > self.rungs[0] and any(len(r.ends) > 1 for r in runs)
        if late and self.fidelity:
            return self._propose_with_length(runs)
        waiting, optimizer = [r.unit for r in runs if not r.is_known], self.optimizer(runs)
        with optimizer.computing() as method:
            return proposal(optimizer.task, method, optimizer.history.with_pending(waiting), len(runs))

    def optimizer(self, runs: Sequence[TrainingRun]) -> Optimizer:
        """An Optimizer that was told where every known run stands now (a promoted run has replaced its own value)."""
        optimizer = self._optimizer()
        known = [r for r in runs if r.is_known]
        values, noise = outer_values(known, self.scale, self.cap, self.rungs)
        failed = np.array([not r.ends for r in known], dtype=bool)
        variances = np.full(len(known), np.nan) if self.noise_known else np.where(failed, np.nan, noise)
        told = zip(known, np.where(failed, np.nan, values), variances, strict=True)
        optimizer.learn([Earlier(r.unit, float(value), float(var)) for r, value, var in told])
        return optimizer

    def _optimizer(self) -> Optimizer:
        budget = self.schedule.trials if isinstance(self.schedule, FixedHorizon) else None
        return Optimizer(Task(self.space, budget=budget, seed=self.seed), self.recipe)

    # -- the one place that holds a bare Method: no Space has the length of training as a coordinate

    def _propose_with_length(self, runs: Sequence[TrainingRun]) -> Array:
        """The next setting by a model told the end of every stretch, with the length of training as one more
        coordinate, from the bottom rung (0) to the top one (1), on a log scale; d. It can say that slow settings
        overtake fast ones."""
        cube = self.space.cube(self.choices)
        method = self.recipe(fidelity=True).build(Cube([*cube.axes, Axis()], cube.groups), seed=self.seed)
        waiting = [np.append(r.unit, 1.0) for r in runs if not r.is_known]
        history = self._history_of_ends([r for r in runs if r.is_known]).with_pending(waiting)
        return np.asarray(next_points(method, history, step=len(runs))[0, : self.dim])

    def _history_of_ends(self, known: Sequence[TrainingRun]) -> History:
        """The ends of the stretches of known runs, those of the longest and best runs first, at most about
        MOST_VALUES."""
        level, noise = levels(known, self.scale, self.cap)
        low, high = math.log(self.rungs[0]), math.log(self.rungs[-1])
        told: list[tuple[Array, float, float]] = []
        highest_first = sorted(zip(known, noise, strict=True), key=lambda pair: (-len(pair[0].ends), pair[0].loss))
        for run, variance in highest_first:
            if len(told) >= MOST_VALUES:
                break
            for n, loss in sorted(run.ends.items()) or [(self.rungs[0], math.nan)]:
                length = min(max((math.log(n) - low) / (high - low), 0.0), 1.0)
                failed = math.isnan(loss)
                told.append((np.append(run.unit, length), *((loss, loss) if failed else (-level(loss), variance))))
        X, y, yvar = (np.array(column) for column in zip(*told, strict=True))
        return History(self.dim + 1).with_values(X, y, yvar=yvar)


def outer_values(
    runs: Sequence[TrainingRun], scale: str, cap: float | None, rungs: Sequence[int] = ()
) -> tuple[Array, Array]:
    """What the outer method is told of each run: its (log) loss, brought to one level, and its noise variance; n and n.
    What the promoted runs gained on average at each rung is added back, so that all values speak of the bottom rung."""
    level, noise = levels(runs, scale, cap)
    ends = [[level(r.ends[n]) for n in sorted(r.ends)] or [level(math.inf)] for r in runs]
    values = np.array([e[-1] for e in ends])
    first = [bisect.bisect_left(rungs, min(r.ends)) if r.ends else 0 for r in runs]  # the rung of a run's first end
    top = np.array([at + len(e) - 1 for at, e in zip(first, ends, strict=True)])
    for rung in range(1, int(top.max(initial=0)) + 1):
        gains = [e[rung - at - 1] - e[rung - at] for at, e in zip(first, ends, strict=True) if at < rung < at + len(e)]
        values[top >= rung] += np.mean(gains) if gains else 0.0
    return values, noise


def levels(runs: Sequence[TrainingRun], scale: str, cap: float | None) -> tuple[Callable[[float], float], Array]:
    """How a loss is told (its log, where all losses are positive), and the noise variance of each run, n. Diverged runs
    count as the worst finite loss seen by any run (or as the cap), so that the model learns to keep away."""
    seen = np.array([value for r in runs for _, value in r.curve if math.isfinite(value)])
    use_log = scale == "log" or (scale == "auto" and bool((seen > 0).all()))
    if use_log and not (seen > 0).all():
        raise ValueError('scale="log" needs positive losses; use scale="linear" or "auto"')
    worst = min(float(seen.max()) if len(seen) else 1.0, math.inf if cap is None else cap)

    def level(loss: float) -> float:
        loss = min(loss, worst)
        return math.log(loss) if use_log else loss

    return level, curve_noise([r.curve for r in runs], use_log)


def curve_noise(curves: Sequence[Sequence[tuple[int, float]]], use_log: bool) -> Array:
    """The noise variance of each run's last value, n: how far its last validations lie from a straight line in log
    steps, drawn towards the pooled one, which counts as NOISE_PRIOR points."""
    squares, freedom = np.zeros(len(curves)), np.zeros(len(curves))
    # 4: validations at the end of a curve that its noise is judged by: those of one stretch at the default of four
    tails = [[(n, v) for n, v in curve if math.isfinite(v)][-4:] for curve in curves]
    size = max((abs(v) for tail in tails for _, v in tail), default=1.0)
    # values are divided by a power of two, which rounds nothing, so that squares stay finite
    unit = math.ldexp(1.0, math.frexp(size)[1] - 1) if size > 0 and not use_log else 1.0
    for i, tail in enumerate(tails):
        if len(tail) < 3:
            continue
        t = np.log([float(n) for n, _ in tail])
        v = np.array([value for _, value in tail])
        v = np.log(v) if use_log else v / unit
        t, v = t - t.mean(), v - v.mean()
        squares[i] = float(np.sum((v - t * (t @ v) / max(t @ t, 1e-300)) ** 2))
        freedom[i] = len(tail) - 2
    level = 1.0
    if not use_log:
        last = [abs(curve[-1][1]) / unit for curve in curves if curve and math.isfinite(curve[-1][1])]
        level = max(float(np.median(last)) ** 2 if last else 1.0, 1e-300)
    measured = freedom > 0
    pooled = float(np.median(squares[measured] / freedom[measured])) if measured.any() else 0.0
    # 1e-6: the least noise variance, relative to the loss squared: a validation loss means little beyond three digits
    noise: Array = np.maximum((squares + NOISE_PRIOR * pooled) / (freedom + NOISE_PRIOR), 1e-6 * level)
    with np.errstate(over="ignore"):
        return np.minimum(noise * unit * unit, np.finfo(np.float64).max)
