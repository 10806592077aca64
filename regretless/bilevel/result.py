"""What a bilevel study found: the setting, the trained state, every run's learning curve, and plots of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.basics.extras import optional
from regretless.bilevel.run import TrainingRun
from regretless.bilevel.schedule import FixedHorizon, Promotion
from regretless.certificate import Certificate
from regretless.space.parameters import Array

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BilevelResult:
    """The outcome of `minimize_bilevel`: `params` with its validation loss `value`, and `state`, the paper's theta."""

    params: dict[str, Any]
    value: float
    state: Any = field(repr=False)
    steps: int
    """N, the training steps behind the state."""
    runs: list[TrainingRun] = field(repr=False)
    spent: int
    """Training steps taken in all."""
    message: str
    success: bool
    schedule: Promotion | FixedHorizon = field(repr=False)
    certificate: Certificate = field(repr=False)
    """With a fixed horizon: how much lower the loss (its log, where logs were told) may be for another setting."""
    best_run: int = -1
    """The number of the run that `params` and `state` come from; -1 when every run failed."""

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per validation: run, N, loss, status and parameters (needs pandas)."""
        rows = [
            {"run": r.number, "N": n, "loss": v, "status": r.status, **r.params} for r in self.runs for n, v in r.curve
        ]
        table: pandas.DataFrame = optional("pandas", "plot").DataFrame(rows)
        return table

    def best_so_far(self) -> Array:
        """The total steps spent after each stretch of training and the best validation loss by then, stretches x 2."""
        stretches = [(r, after, n) for r in self.runs for (_, _, after), n in zip(r.log, sorted(r.ends), strict=False)]
        ends = sorted((after, r.ends.get(n, math.inf)) for r, after, n in stretches)
        table = np.array(ends, dtype=np.float64).reshape(-1, 2)
        table[:, 1] = np.minimum.accumulate(table[:, 1])
        return table

    def __str__(self) -> str:
        counts = {status: sum(r.status == status for r in self.runs) for status in ("diverged", "failed")}
        trouble = "".join(f", {n} {status}" for status, n in counts.items() if n)
        lines = [f"{self.message} ({self.spent} steps, {len(self.runs)} settings{trouble})"]
        lines += [f"  {name} = {value!r}" for name, value in self.params.items()]
        lines += [f"  validation loss {self.value:.6g} after {self.steps} steps of run {self.best_run}"]
        lowest = min((r for r in self.runs if math.isfinite(r.loss)), key=lambda r: r.loss, default=None)
        if lowest is not None and lowest.loss < self.value:
            lines += [f"  the method's return rule chose it; run {lowest.number} has {lowest.loss:.6g}"]
        return "\n".join([*lines, *[f"  {self.certificate}"] * self.certificate.says_something])

    def plot_curves(self, path: str | Path | None = None) -> Figure:
        """Every run's learning curve, and the best loss against the total steps; also written to `path`."""
        figure: Figure = optional("matplotlib.figure", "plot").Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for r in self.runs:
            points = [(n, v) for n, v in r.curve if math.isfinite(v)]
            if not points:
                continue
            best = r.number == self.best_run
            n, v = zip(*points, strict=True)
            look = {"lw": 2, "color": "C3", "zorder": 3} if best else {"lw": 0.8, "color": "C0", "alpha": 0.5}
            left.plot(n, v, marker=".", **look)
            if r.status == "diverged":
                left.plot(n[-1:], v[-1:], "x", color="k", zorder=4)
        left.set(xscale="log", xlabel="training steps of the run (N)", title="learning curves; the best in red")
        left.set_ylabel("validation loss")
        table = self.best_so_far()
        right.step(table[:, 0], table[:, 1], where="post", color="C3")
        right.set(xlabel="training steps in all", ylabel="best validation loss", title="best so far")
        if all(v > 0 for r in self.runs for _, v in r.curve if math.isfinite(v)):
            left.set_yscale("log")
            right.set_yscale("log")
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure
