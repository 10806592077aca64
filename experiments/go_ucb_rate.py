"""GO-UCB, Theorem 4.1: does the cumulative regret of Algorithm 1 grow like sqrt(T) when its oracle works?

    python experiments/go_ucb_rate.py --jobs 2 --out runs/go_ucb_rate          T = 25 to 196, 5 seeds
    python experiments/go_ucb_rate.py --jobs 16 --out runs/go_ucb_rate --full  T = 25 to 1600, 10 seeds
    python experiments/go_ucb_rate.py --out runs/go_ucb_rate --report          from the records there are

Algorithm 1 with `oracle="least-squares"`: n = sqrt(T) uniform points, lambda = C sqrt(T), the ridge around w_0, on
realizable families of six to eight parameters (`regretless_bench.problems`). Each T is a run of its own, because n and
lambda depend on it. The table has the mean cumulative regret with its standard error, and the slope of its logarithm on
log T, all of it and Phase II alone; the theorem says 1/2 up to logarithms.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from regretless_bench.claims import experiment_options, gather
from regretless_bench.problems import make_problem, mechanistic
from regretless_bench.record import Record, Run

from regretless.methods import METHODS

FAMILIES = {
    "hill-temperature": mechanistic.hill_temperature_model,
    "michaelis-inhibition": mechanistic.michaelis_inhibition_model,
    "gompertz-growth": mechanistic.gompertz_growth_model,
}
TS = (25, 49, 100, 196)
FULL_TS = (*TS, 400, 784, 1600)


def runs(options: argparse.Namespace) -> list[Run]:
    """The cells: every family, T and seed."""
    cells = []
    for seed in range(options.seeds):
        for name in options.families.split(","):
            model = FAMILIES[name]
            noise_sd = make_problem(name, seed=seed).noise_sd
            recipe = METHODS["go-ucb-printed"](oracle="least-squares", model=model, noise_sd=noise_sd)
            for T in FULL_TS if options.full else TS:
                cells.append(Run(recipe, name, {}, seed, T + math.isqrt(T), label=f"T = {T}"))
    return cells


def table(records: list[Record]) -> str:
    """Cumulative regrets and slopes in Markdown."""
    lines = ["| family | T | runs | cumulative regret | Phase II alone |", "| --- | --- | --- | --- | --- |"]
    for name in dict.fromkeys(str(r.settings["problem"]) for r in records):
        whole: dict[int, list[float]] = {}
        second: dict[int, list[float]] = {}
        for r in records:
            if r.settings["problem"] == name:
                T = int(r.label.removeprefix("T = "))
                regret = r.regret()
                whole.setdefault(T, []).append(float(regret.sum()))
                second.setdefault(T, []).append(float(regret[math.isqrt(T) :].sum()))
        for T in sorted(whole):
            cells = " | ".join(f"{np.mean(of[T]):.3g} +- {_error(of[T]):.2g}" for of in (whole, second))
            lines.append(f"| {name} | {T} | {len(whole[T])} | {cells} |")
        if len(whole) > 1:
            lines.append(f"| {name} | slope | | {slope(whole):.2f} | {slope(second):.2f} |")
    return "\n".join(lines)


def slope(regrets: dict[int, list[float]]) -> float:
    """The slope of log mean regret on log T."""
    T = sorted(regrets)
    return float(np.polyfit(np.log(T), np.log([max(float(np.mean(regrets[t])), 1e-12) for t in T]), 1)[0])


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated names")
    options = experiment_options(parser, "runs/go_ucb_rate")
    text = table(gather(runs(options), options))
    (options.out / "table.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
