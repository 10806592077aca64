"""The outer level of a bilevel study: from the runs so far to what the outer method is told, and to the next setting.

Everything here is a function of its arguments. The method is built afresh for every proposal and told where each run
stands now: a promoted run has replaced its own earlier value, which a method that only ever learns more could not be
told.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regretless.bilevel.result import RunRecord
from regretless.bilevel.schedule import Fixed, Promotion, Run
from regretless.method import Method, Recipe, keyed_generator
from regretless.methods.bbo.algorithm import BBO
from regretless.parameters import Array, Axis
from regretless.space import Cube, Space
from regretless.streams import Stream

TAIL = 4
"""Validations at the end of a curve that its noise is judged by."""
NOISE_PRIOR = 2.0
"""How many curve points the pooled noise variance counts for in that of a single run."""
MOST_TOLD = 64
"""Values that the model with the length of training is told, those of the runs that climbed highest first; more would
cost too much time."""
NOISE_FLOOR = 1e-6
"""The least noise variance, relative to the loss squared: a validation loss means little beyond three digits."""


class Outer:
    """The outer level of a study: from the runs so far to the next setting. Everything here is a function of its
    arguments."""

    def __init__(
        self, space: Space, recipe: Recipe, seed: int, schedule: Promotion | Fixed, scale: str, cap: float | None
    ) -> None:
        if recipe.options.get("fidelity"):
            raise ValueError(
                "fidelity is for methods that are told lengths of training; a study sets it itself where it is needed"
            )
        self.space, self.recipe, self.seed, self.schedule, self.scale, self.cap = (
            space,
            recipe,
            seed,
            schedule,
            scale,
            cap,
        )
        self.choices = recipe.method.choices
        self.cube = space.cube(self.choices)
        self.rungs = schedule.rungs if isinstance(schedule, Promotion) else ()
        self.noise_given = recipe.options.get("preset") == "paper" or recipe.options.get("noise") is not None
        """Whether the method has a noise variance of its own, which those of the curves must not replace."""

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "regretless-bilevel-1", "space": self.space.to_json(), "method": self.recipe.to_json(), "seed": self.seed,
            "schedule": {"name": type(self.schedule).__name__, **dataclasses.asdict(self.schedule)}, "scale": self.scale, "cap": self.cap,
        }  # fmt: skip

    def method(self, records: Sequence[RunRecord]) -> Method:
        """The outer method, told where every run stands now (a promoted run has replaced its own earlier value)."""
        budget = self.schedule.trials if isinstance(self.schedule, Fixed) else None
        method = self.recipe.build(self.cube, seed=self.seed, budget=budget)
        if records:
            y, yvar = outer_values([r.run for r in records], self.scale, self.cap, self.rungs)
            failed = np.array([r.status == "failed" and not r.run.ends for r in records])
            known = np.full(len(y), np.nan) if self.noise_given else np.where(failed, np.nan, yvar)
            method.tell(np.array([r.unit for r in records]), np.where(failed, np.nan, y), yvar=known)
        return method

    def propose(self, records: Sequence[RunRecord], until: int, *, waiting: Sequence[Array] = ()) -> Array:
        """The setting of the next run, d, which is to be trained for `until` steps at first; `waiting`: settings of
        runs not yet validated."""
        late = len(self.rungs) > 1 and until > self.rungs[0] and any(len(r.run.ends) > 1 for r in records)
        if late and self.recipe.method is BBO and not self.noise_given:
            method = self._with_steps(records)
            waiting = [np.append(unit, 1.0) for unit in waiting]
        else:
            method = self.method(records)
        if len(waiting):
            method.wait_for(np.array(waiting))
        unit: Array = method.ask(step=len(records) + len(waiting))[0, : self.cube.dim]
        return unit

    def _with_steps(self, records: Sequence[RunRecord]) -> Method:
        """The outer method with the length of training as one more coordinate, from the bottom rung (0) to the top one
        (1), on a log scale.

        It is told the end of every stretch. A level that all settings share cannot say that slow settings overtake fast
        ones in longer training; this model can.
        """
        method = self.recipe(fidelity=True).build(Cube([*self.cube.axes, Axis()], self.cube.groups), seed=self.seed)
        level, noise = levels([r.run for r in records], self.scale, self.cap)
        low, high = math.log(self.rungs[0]), math.log(self.rungs[-1])
        told: list[tuple[Array, float, float]] = []
        for r, variance in sorted(
            zip(records, noise, strict=True), key=lambda pair: (-len(pair[0].run.ends), pair[0].loss)
        ):
            if len(told) >= MOST_TOLD:
                break
            ends = r.run.ends or {self.rungs[0]: math.nan if r.status == "failed" else math.inf}
            for n, loss in sorted(ends.items()):
                length = min(max((math.log(n) - low) / (high - low), 0.0), 1.0)
                told.append((np.append(r.unit, length), math.nan if math.isnan(loss) else -level(loss), variance))
        X, y, yvar = (np.array(column) for column in zip(*told, strict=True))
        method.tell(X, y, yvar=np.where(np.isnan(y), np.nan, yvar))
        return method

    def run_seed(self, number: int) -> int:
        return int(keyed_generator(self.seed, number, stream=Stream.RUN_SEED).integers(2**31))


def outer_values(runs: Sequence[Run], scale: str, cap: float | None, rungs: Sequence[int] = ()) -> tuple[Array, Array]:
    """What the outer method is told of each run: minus its (log) loss, brought to one level, and the noise variance its
    curve shows; n and n.

    Longer training lowers the loss of every setting, which is no merit of the setting: what the promoted runs gained on
    average at each rung is added back, so that all values speak of the bottom rung.
    """
    level, noise = levels(runs, scale, cap)
    ends = [[level(r.ends[n]) for n in sorted(r.ends)] or [level(math.inf)] for r in runs]
    values = np.array([e[-1] for e in ends])
    first = [
        bisect.bisect_left(rungs, min(r.ends)) if r.ends else 0 for r in runs
    ]  # the rung that a run's first end stands for
    top = np.array([at + len(e) - 1 for at, e in zip(first, ends, strict=True)])
    for rung in range(1, int(top.max(initial=0)) + 1):
        gains = [e[rung - at - 1] - e[rung - at] for at, e in zip(first, ends, strict=True) if at < rung < at + len(e)]
        values[top >= rung] += np.mean(gains) if gains else 0.0
    return -values, noise


def levels(runs: Sequence[Run], scale: str, cap: float | None) -> tuple[Callable[[float], float], Array]:
    """How a loss is told (its log, where all losses are positive), and the noise variance of each run, n.

    Diverged runs count as the worst finite loss seen by any run (or as the cap), so that the model learns to keep away.
    """
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
    """The noise variance of each run's last value: how far its last validations lie from a straight line in log steps,
    n.

    Three points leave one degree of freedom, so each estimate is drawn towards the pooled one, which counts as
    NOISE_PRIOR points.
    """
    squares, freedom, level = np.zeros(len(curves)), np.zeros(len(curves)), 1.0
    for i, curve in enumerate(curves):
        tail = [(n, v) for n, v in curve if math.isfinite(v)][-TAIL:]
        if len(tail) < 3:
            continue
        t = np.log([float(n) for n, _ in tail])
        v = np.array([value for _, value in tail])
        v = np.log(v) if use_log else v
        t, v = t - t.mean(), v - v.mean()
        squares[i] = float(np.sum((v - t * (t @ v) / max(t @ t, 1e-300)) ** 2))
        freedom[i] = len(tail) - 2
    if not use_log:
        last = [abs(c[-1][1]) for c in curves if c and math.isfinite(c[-1][1])]
        level = max(float(np.median(last)) ** 2 if last else 1.0, 1e-300)
    measured = freedom > 0
    pooled = float(np.median(squares[measured] / freedom[measured])) if measured.any() else 0.0
    noise: Array = np.maximum((squares + NOISE_PRIOR * pooled) / (freedom + NOISE_PRIOR), NOISE_FLOOR * level)
    return noise
