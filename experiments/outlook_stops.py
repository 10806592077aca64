"""What it costs to stop by the forecast, and by other rules, on runs of families that the forecaster never saw.

    python experiments/outlook_stops.py runs/outlook/records.npz [--aside runs/outlook/aside.npz]
    python experiments/outlook_stops.py runs/outlook/fresh.npz --shipped      # by the forecaster in the package

A trial costs c of the whole gain of the run, from the median of its first values to its best one. The loss of a stop is
what it gains less and pays more than the best stop in hindsight. Rules that need a model look at the checkpoints of the
records; those that count trials without improvement look after every trial. The runs are those whose values have no
noise.

- expected improvement: stop when the largest expected improvement is below the cost of a trial (PBGI / LogEIPC, Xie et
  al. 2025, arXiv 2507.12453);
- probable regret: stop when the model gives at most 5 % to a regret above eps (Wilson 2024, arXiv 2402.16811), the best
  eps of a grid, chosen on the same runs, which flatters it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from outlook_fit import HORIZONS, pool, read, rows_of
from outlook_records import unpacked

from regretless.outlook.forecast import TABLE, Forecaster
from regretless.outlook.going_on import NEAREST
from regretless.outlook.progress import NAMES

COSTS = (0.0001, 0.0003, 0.001, 0.003, 0.01)
EPSILONS = tuple(10.0 ** np.arange(-5.0, 0.0, 0.5))
WEIGHTS = np.diff(np.concatenate([[0.0], 0.5 * (TABLE[1:] + TABLE[:-1]), [1.0]]))
"""The weights of the levels of TABLE in a mean."""
PLAIN = (0.005, 0.01, 0.02, 0.03, 0.05)
"""The gains that `StopWhen(gain_below=)` is asked for, as shares of the whole gain."""
Run = dict[str, Any]
Stop = Callable[[Run, float], int]
"""The number of trials after which a rule ends a run, for a cost."""


def fans(runs: Sequence[Run], forecaster: Forecaster) -> None:
    """Adds to each run the quantiles of its forecasts at every checkpoint, as shares of the reach there: checkpoints x
    horizons x levels."""
    for run in runs:
        found = []
        for c, n in enumerate(run["at"]):
            x = unpacked(run["features"][c], int(n), run["dim"], np.array(HORIZONS, dtype=np.float64))
            found.append(np.maximum.accumulate(forecaster.gains(x), axis=0))
        run["fans"] = np.array(found)


def whole(run: Run) -> float:
    """The whole gain of a run: from the median of its first values to its best one. The reach at its end would not do:
    where most values lie close to the best one it is next to nothing."""
    first_look = int(run["at"][0])
    return float(run["reach"][0]) + max(0.0, float(run["ahead"][first_look - 1]))


def first(run: Run, holds: Callable[[int], bool]) -> int:
    """The trials at the first checkpoint where a rule holds; all of them where it never does."""
    return next((int(n) for c, n in enumerate(run["at"]) if holds(c)), len(run["y"]))


def by_worth(run: Run, cost: float) -> int:
    m = np.array(HORIZONS)

    def holds(c: int) -> bool:
        gain = run["reach"][c] * (run["fans"][c] @ WEIGHTS)
        return bool((gain < cost * whole(run) * m)[m >= NEAREST].all())

    return first(run, holds)


def by_expected_improvement(run: Run, cost: float) -> int:
    places = [NAMES.index("expected anywhere"), NAMES.index("expected nearby")]
    return first(
        run,
        lambda c: float(10.0 ** run["features"][c, places].astype(float).max()) * run["reach"][c] < cost * whole(run),
    )


def by_regret(eps: float) -> Stop:
    place = NAMES.index("drawn highest")
    return lambda run, cost: first(
        run, lambda c: float(10.0 ** float(run["features"][c, place])) * run["reach"][c] < eps * whole(run)
    )


def by_patience(trials: Callable[[Run], int]) -> Stop:
    def stop(run: Run, cost: float) -> int:
        best = -run["ahead"].astype(np.float64)
        last = 0
        for n in range(1, len(best)):
            if best[n] > best[last] + 1e-9 * whole(run):
                last = n
            elif n - last >= trials(run):
                return n + 1
        return len(best)

    return stop


def loss(run: Run, stopped: int, cost: float) -> float:
    """What is lost by ending after so many trials, in shares of the whole gain."""
    n = np.arange(int(run["at"][0]), len(run["ahead"]) + 1)
    paid = run["ahead"][n - 1].astype(np.float64) / whole(run) + cost * n
    own = float(run["ahead"][stopped - 1]) / whole(run) + cost * stopped
    return own - float(paid.min())


REAL = ("mlp-tables", "nas-tables", "grids", "rpart", "nets", "kernels", "boosting")
"""The families of real trainings."""
RULES: dict[str, Stop] = {
    "all": lambda run, cost: len(run["y"]),
    "10 d": lambda run, cost: min(len(run["y"]), 10 * run["dim"]),
    "patience 2 d": by_patience(lambda run: max(2, 2 * run["dim"])),
    "patience 4 d": by_patience(lambda run: 4 * run["dim"]),
    "patience 20": by_patience(lambda run: 20),
    "expected improvement": by_expected_improvement,
    "worth": by_worth,
}


def table(runs: Sequence[Run]) -> str:
    """The mean loss by rule and cost; families count the same."""
    families = sorted({run["family"] for run in runs})
    lines = ["| rule | " + " | ".join(f"{c:g}" for c in COSTS) + " |", "| --- |" + " --- |" * len(COSTS)]
    rules = dict(RULES)

    def mean(stop: Stop, cost: float) -> float:
        each = {f: [loss(r, stop(r, cost), cost) for r in runs if r["family"] == f] for f in families}
        return float(np.mean([np.mean(found) for found in each.values()]))

    best = [min(mean(by_regret(eps), cost) for eps in EPSILONS) for cost in COSTS]
    for name, stop in rules.items():
        lines.append(f"| {name} | " + " | ".join(f"{mean(stop, c):.4f}" for c in COSTS) + " |")
    lines.append("| probable regret, best eps | " + " | ".join(f"{b:.4f}" for b in best) + " |")
    return "\n".join(lines)


def plain(runs: Sequence[Run], gain: float = 0.005, ahead: int = 20, chance: float = 0.9) -> str:
    """How often `StopWhen(gain_below=)` ends runs, and what it gives away; the gain asked is a share of the whole."""
    stopped, away, used = [], [], []
    column, level = HORIZONS.index(ahead), int(np.argmin(np.abs(TABLE - chance)))
    for run in runs:
        at = first(run, lambda c: run["reach"][c] * run["fans"][c][column, level] < gain * whole(run))  # noqa: B023
        stopped.append(at < len(run["y"]))
        away.append(max(0.0, float(run["ahead"][at - 1])) / whole(run) if math.isfinite(run["ahead"][at - 1]) else 0.0)
        used.append(at / len(run["y"]))
    given = np.mean(away)
    return (
        f"{np.sum(stopped)} of {len(runs)} runs stopped, {given:.4f} of the gain given away, {np.mean(used):.2f} used"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--aside", type=Path, help="records of a source that had no part in anything")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--shipped", action="store_true", help="ask the forecaster in the package; leave nothing out")
    options = parser.parse_args()
    runs = read(options.records)
    rows = rows_of(runs)
    families = np.array([run["family"] for run in runs])
    if options.shipped:
        fans(runs, Forecaster.shipped())
    for family in sorted(set(families)) if not options.shipped else []:
        fitted = pool(rows.of(families[rows.run] != family), seeds=options.seeds)
        fans([run for run, f in zip(runs, families, strict=True) if f == family], fitted)
    exact = [run for run in runs if not run["noisy"]]
    print(f"{len(exact)} runs without noise\n{table(exact)}")
    ours = [run for run in exact if run["optimiser"] == "auto"]
    print(f"{len(ours)} of them of auto\n{table(ours)}")
    real = [run for run in exact if run["family"] in REAL]
    print("real trainings:", *(f"{g:g}: {plain(real, g)}" for g in PLAIN), table(real), sep="\n")
    if options.aside:
        aside = read([options.aside])
        fans(aside, Forecaster.shipped())
        exact = [run for run in aside if not run["noisy"]]
        print("aside:", *(f"{g:g}: {plain(aside, g)}" for g in PLAIN), table(exact), sep="\n")


if __name__ == "__main__":
    main()
