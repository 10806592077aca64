"""The schedule of a bilevel study says which run is trained next, and for how many steps.

It is a pure function of the runs so far. `Promotion` starts many settings with few steps and trains the best third of
them on, rung by rung (the asynchronous successive halving of Li et al., MLSys 2020, with checkpoints). The last part of
the budget goes to the best runs alone. `FixedHorizon` trains every setting for the same number of steps, as Algorithms
1 and 2 of the bilevel paper do. `plan` shows users how a budget can be split.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regretless.basics.options import in_range, whole_number
from regretless.bilevel.run import TrainingRun
from regretless.space import Space, SpaceLike

# The studies named here stand in docs/lab/bilevel.md, "How the budget is split" and "Short runs mislead". They used
# an MLP and softmax regression with seeds below 3000; what was lost is in points of test error, with standard errors of
# 0.1 to 0.3.
REDUCTION = 3.0
"""The best third of a rung climbs, and each rung is three times the one below, as usual in successive halving."""
TOP_SHARE = 6
"""The highest rung takes 1 / TOP_SHARE of the budget, so that a few settings can reach it: a plain choice."""
MEASURED_POWER = 0.25
"""The number of settings in that rule grows like budget^MEASURED_POWER; its origin is the same."""


@dataclass(frozen=True)
class Job:
    """Train `run` (None: a new setting) until it has taken `until` steps in all."""

    run: int | None
    until: int
    why: Literal["new", "promoted", "leader"]


@dataclass(frozen=True)
class FixedHorizon:
    """`trials` settings, each trained for `horizon` steps."""

    trials: int
    horizon: int

    def __post_init__(self) -> None:
        whole_number(trials=self.trials, horizon=self.horizon)

    @property
    def budget_steps(self) -> int:
        return self.trials * self.horizon

    def job(self, runs: Sequence[TrainingRun], spent: int) -> Job | None:
        return Job(None, self.horizon, "new") if len(runs) < self.trials else None


@dataclass(frozen=True)
class Promotion:
    """Promotion over rungs until `budget_steps` are spent, the last `final_share` of them on the leaders. When the best
    run no longer gains from longer training, new settings start high on the ladder."""

    budget_steps: int
    rungs: tuple[int, ...]
    reduction: float = REDUCTION
    final_share: float = 0.0

    def __post_init__(self) -> None:
        whole_number(budget_steps=self.budget_steps)
        if not self.rungs or any(b <= a for a, b in zip((0, *self.rungs), self.rungs, strict=False)):
            raise ValueError(f"rungs must be whole numbers of steps that grow from at least 1, got {self.rungs!r}")
        in_range("(1, inf)", reduction=self.reduction)
        in_range("[0, 1)", final_share=self.final_share)

    def job(self, runs: Sequence[TrainingRun], spent: int) -> Job | None:
        left = self.budget_steps - spent
        if left <= 0:
            return None
        late = left <= self.final_share * self.budget_steps or (self.final_share > 0 and self._topped(runs))
        # 2: the rung, from the top, at which settings start once the leaders have flattened: short runs rank them
        # badly
        start = self.rungs[-2:][0] if late else self.rungs[0]
        if (not late or self._flat(runs)) and left >= start:
            run = self._promotable(runs)
            if run is None:
                return Job(None, start, "new")
            until = next(r for r in self.rungs if r > run.steps)
            if until - run.steps <= left:
                return Job(run.number, until, "promoted")
        return self._leader(runs, left)

    def _promotable(self, runs: Sequence[TrainingRun]) -> TrainingRun | None:
        """The best run that belongs to the top share of the highest rung that has such a run."""
        for rung in reversed(self.rungs[:-1]):
            reached = sorted((r for r in runs if rung in r.ends), key=lambda r: (r.ends[rung], r.number))
            for run in reached[: int(len(reached) / self.reduction)]:
                if run.steps == rung and run.thawable and math.isfinite(run.ends[rung]):
                    return run
        return None

    def _best(self, runs: Sequence[TrainingRun]) -> TrainingRun | None:
        """The run with the least loss among those that can be trained on."""
        alive = [r for r in runs if r.thawable and math.isfinite(r.loss)]
        return min(alive, key=lambda r: (r.loss, r.number)) if alive else None

    def _flat(self, runs: Sequence[TrainingRun]) -> bool:
        """Whether the best run's last stretch gained too little for its length to be worth another."""
        best = self._best(runs)
        if best is None or len(best.ends) < 2:
            return False
        before, now = sorted(best.ends)[-2:]
        gain = (best.ends[before] - best.ends[now]) / max(abs(best.ends[before]), 1e-300)
        # 0.03: leaders are trained on only while tripling their steps lowers the loss by this share; 0.06 was level
        return gain * math.log(self.reduction) < 0.03 * math.log(now / before)

    def _topped(self, runs: Sequence[TrainingRun]) -> bool:
        """Whether the best run stands at the top of the ladder and has flattened."""
        best = self._best(runs)
        return best is not None and best.steps >= self.rungs[-1] and self._flat(runs)

    def _leader(self, runs: Sequence[TrainingRun], left: int) -> Job | None:
        """The best run so far goes on, to `reduction` times its steps or to the end of the budget."""
        best = self._best(runs)
        if best is None:
            return Job(None, min(left, self.rungs[0]), "new")
        return Job(best.number, best.steps + min(left, max(1, math.ceil(best.steps * (self.reduction - 1)))), "leader")


@dataclass(frozen=True)
class Plan:
    """How a budget of steps can be split between settings (T) and the steps each is trained for (N); prints itself."""

    budget_steps: int
    dim: int
    convex: bool | None
    theory_convex: FixedHorizon
    """N = T: the split that the regret bounds ask for when the inner loss is convex (Thms. 3 and 4)."""
    theory_nonconvex: FixedHorizon
    """N = T^2, when it is not (Thm. 18)."""
    measured: FixedHorizon
    """The best fixed split seen in measurements, interpolated."""
    promotion: Promotion
    """The split that `minimize_bilevel` uses."""

    def __str__(self) -> str:
        theory = {True: "convex", False: "not convex", None: "convex or not: unknown"}[self.convex]
        rows = [
            ("theory, convex (N ~ T)", self.theory_convex),
            ("theory, not convex (N ~ T^2)", self.theory_nonconvex),
            ("measured, fixed N", self.measured),
        ]
        lines = [f"{self.budget_steps} training steps for {self.dim} hyper-parameters (inner problem {theory})"]
        lines += [
            f"  {name:30s} T = {split.trials:5d} settings, N = {split.horizon:6d} steps each" for name, split in rows
        ]
        ladder = " -> ".join(str(r) for r in self.promotion.rungs)
        return "\n".join([
            *lines,
            f"  {'chosen: promotion over rungs':30s} {ladder} steps, one run in {self.promotion.reduction:g} climbs;",
            f"  {'':30s} the last {self.promotion.final_share:.0%} of the steps train the leaders on.",
            "  Why not the theory's split: its constants are unknown. At equal steps N ~ T^2 is near the best fixed N",
            "  and N ~ T trains too briefly; promotion is ahead of every fixed N.",
        ])  # fmt: skip


def plan(space: SpaceLike, *, budget_steps: int, convex: bool | None = None) -> Plan:
    """The splits of a budget of training steps that theory and measurements suggest, and the one chosen:
    `print(plan(...))`. `convex` says whether the inner loss is convex in the trained weights; the choice does not
    depend on it."""
    whole_number(budget_steps=budget_steps)
    d, C = len(Space(space)), budget_steps
    # 4: the rungs of the ladder, so that the bottom one takes 1 / 162 of the budget; three rungs lost 0.31 on the MLP
    rungs = sorted({max(1, round(C / TOP_SHARE / REDUCTION**level)) for level in range(4)})
    # 400: the budget at which `plan` prints d + 2 settings as the measured fixed split; its study is not on record
    settings = (d + 2) * (C / 400) ** MEASURED_POWER
    # 0.5: the part of the budget kept for training the leaders on; 0.35 lost 0.90 on the MLP, 0.65 lost 0.68
    return Plan(
        C, d, convex,
        theory_convex=_split(C, C ** (1 / 2)),
        theory_nonconvex=_split(C, C ** (1 / 3)),
        measured=_split(C, settings),
        promotion=Promotion(C, tuple(rungs), final_share=0.5),
    )  # fmt: skip


def promotion(
    space: SpaceLike, budget_steps: int, rungs: Sequence[int] | None = None, final_share: float | None = None
) -> Promotion:
    """The planned promotion, with other rungs or another final share where they are given."""
    planned = plan(space, budget_steps=budget_steps).promotion
    ladder = planned.rungs if rungs is None else tuple(int(r) for r in rungs)
    share = planned.final_share if final_share is None else float(final_share)
    return Promotion(budget_steps, ladder, final_share=share)


def _split(budget_steps: int, settings: float) -> FixedHorizon:
    """About `settings` settings that share the budget evenly."""
    trials = min(max(1, round(settings)), budget_steps)
    return FixedHorizon(trials, budget_steps // trials)
