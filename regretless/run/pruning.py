"""`FrontPruner`: stops trials that will probably not reach the front of several objectives.

    opt = Optimizer(space, objectives={"loss": "minimize", "ms": "minimize"}, budget=40)
    pruner = FrontPruner(opt)
    for _ in range(40):
        trial = opt.ask()
        for epoch in range(20):
            values = train_an_epoch(trial.params)              # {"loss": ..., "ms": ...}
            if pruner.stops(trial, epoch, values):
                values = pruner.expected(trial)
                break
        opt.tell(trial, values)

For loops of one's own; Optuna refuses `trial.report` in studies with several objectives.

Trials that ended by themselves show how final values follow from the values reported at a step. Their final values are
regressed on those reports, for each objective by itself, and a running trial's final values are taken to have Student's
distribution about these lines, independently of each other. The trial is stopped when the probability that no member of
the front equals or exceeds it in all objectives is below `chance`. An objective that does not change while a trial
runs, such as a latency, has a line without scatter, and decides by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from regretless.basics.options import in_range, whole_number
from regretless.basics.values import checked_values
from regretless.fronts.dominance import nondominated
from regretless.models.gp.sobol import sobol_points
from regretless.optimizer import Optimizer, Trial
from regretless.space.parameters import Array


class CurveFit(NamedTuple):
    """Where an objective of a running trial probably ends: Student's distribution with so many degrees of freedom."""

    mean: float
    scale: float
    freedom: int


class FrontPruner:
    """Says of a running trial whether to stop it; see the module's text.

    What was reported is kept here and not in the run's file: a run that goes on elsewhere prunes again from its next
    few complete trials on.

    Args:
        optimizer: the run, with several objectives.
        chance: the probability of reaching the front below which a trial is stopped.
        complete: the trials with reports that must have ended by themselves before any is stopped, at least 4.
        warmup: reports before this step stop nothing.
    """

    def __init__(self, optimizer: Optimizer, chance: float = 0.05, *, complete: int = 5, warmup: int = 0) -> None:
        in_range("(0, 1)", chance=chance)
        whole_number(4, complete=complete)
        if not optimizer.task.several:
            raise ValueError("FrontPruner is for several objectives; Pruner stops trials of Optuna studies with one")
        self.optimizer, self.chance, self.complete, self.warmup = optimizer, chance, complete, warmup
        self._reports: dict[int, dict[int, Array]] = {}
        """Of each trial the values reported at each step, to be maximised."""
        self._stopped: set[int] = set()
        # 512: draws of the final values, evenly spread: with them the error of a probability of .05 is below .005
        self._draws = np.clip(
            sobol_points(512, len(optimizer.task.directions), np.random.default_rng(0)), 1e-6, 1 - 1e-6
        )

    def stops(self, trial: Trial, step: int, values: Mapping[str, float] | Sequence[float]) -> bool:
        """Takes in the values of a running trial after a step, and says whether it should end here. Values that are no
        numbers stop nothing, and no line goes through them."""
        task = self.optimizer.task
        told, _ = checked_values(values, None, task.objectives)
        if not all(map(math.isfinite, told)):
            return False
        self._reports.setdefault(trial.number, {})[step] = np.array(told) * task.signs
        if step < self.warmup or self.reaches(trial) >= self.chance:
            return False
        self._stopped.add(trial.number)
        return True

    def reaches(self, trial: Trial) -> float:
        """The probability that a running trial ends on the front; 1 while it has no report, or too few trials have
        ended."""
        lines = self._lines(trial)
        if lines is None:
            return 1.0
        from scipy.special import stdtrit  # half of the time of `import regretless`

        ends = np.column_stack([line.mean + line.scale * stdtrit(line.freedom, u)
                                for line, u in zip(lines, self._draws.T, strict=True)])  # fmt: skip
        Y = self.optimizer.history.Y[self.optimizer.history.feasible]
        front = Y[nondominated(Y)]
        beaten = np.array((front[None] >= ends[:, None]).all(axis=2)).any(axis=1)
        return 1.0 - float(beaten.mean())

    def expected(self, trial: Trial) -> dict[str, float]:
        """The values that a running trial probably ends with, to be told when it is stopped; its last report while too
        few trials have ended."""
        lines, task = self._lines(trial), self.optimizer.task
        last = self._reports.get(trial.number)
        if last is None:
            raise ValueError(f"trial {trial.number} has reported no values that are numbers")
        means = last[max(last)] if lines is None else np.array([line.mean for line in lines])
        return dict(zip(task.objectives, (means * task.signs).tolist(), strict=True))

    def _lines(self, trial: Trial) -> list[CurveFit] | None:
        """Where each objective of a trial probably ends, by the trials that ended by themselves."""
        own = self._reports.get(trial.number)
        if own is None:
            return None
        step = max(own)
        seen, ended = [], []
        for other in self.optimizer.trials:
            reports = self._reports.get(other.number, {})
            before = [s for s in reports if s <= step]
            if other.value is not None and other.number not in self._stopped and before and max(reports) >= step:
                seen.append(reports[max(before)])
                ended.append(np.array(other.values) * self.optimizer.task.signs)
        if len(seen) < self.complete:
            return None
        return [_line(x, y, at) for x, y, at in zip(np.array(seen).T, np.array(ended).T, own[step], strict=True)]


def _line(x: Array, y: Array, at: float) -> CurveFit:
    """The prediction at a report of the line through final values y (n) over reports x (n)."""
    n, middle = len(x), float(x.mean())
    spread = float(((x - middle) ** 2).sum())
    slope = float(((x - middle) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    left = y - y.mean() - slope * (x - middle)
    variance = float(left @ left) / (n - 2)
    lever = 1.0 + 1.0 / n + ((at - middle) ** 2 / spread if spread > 0 else 0.0)
    return CurveFit(float(y.mean()) + slope * (at - middle), math.sqrt(variance * lever), n - 2)
