"""The tables of the bilevel paper (Sec. 5): test error against the inner horizon N and the number of outer steps T, and
the convex law.

    python experiments/bilevel_tables.py --jobs 2                # T = 20, N / 20, 5000 digits, 5 seeds
    python experiments/bilevel_tables.py --device cuda --full    # the paper's T and N on the whole of MNIST
    python experiments/bilevel_tables.py --device cuda --full --outer 20 --printed   # one T; EI and UCB alone
    python experiments/bilevel_tables.py --convex                # softmax regression, excess risk against N

A CNN with two convolutions and one dense layer; lr, momentum, weight decay and dropout are tuned. One study per
(acquisition, N, seed) is run up to the largest T of that N, and read off at T = 20, 40 and 60: the algorithms do not
know T. Every trained net's test loss and error are kept, so that the tables can be read by the algorithms' own return
rules and by the best validation loss. "UCB, measured", in the full size without --printed, has our default's constants
(phi = 0.3, fitted noise, log loss); "EI" and "UCB" are "bbo-printed". On a GPU all studies train side by side, one net
each.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from regretless_bench.claims import experiment_options, needed, stored
from regretless_bench.finding import Finding, Table
from regretless_bench.problems.mnist_training import load_digits, training
from regretless_bench.record import stamped
from regretless_bench.verdicts import Check, below, both_columns, judged, not_run, plateau, pooled_pairs
from scipy.optimize import curve_fit
from tqdm import tqdm

from regretless.basics.statefile import write_whole
from regretless.bilevel import Bilevel, minimize_bilevel
from regretless.method import keyed_generator
from regretless.methods import METHODS
from regretless.report.page import Band, Curve, curves_chart
from regretless.space import Space
from regretless.testing import Loop

TABLES = {20: (100, 500, 1000, 2000, 3000), 40: (500, 1000, 2000, 3000, 4000), 60: (1000, 2000, 3000, 4000, 6000)}
"""T and the paper's five N for each."""
PAPER = {
    "EI": {20: "3.15 2.73 2.70 2.43 2.46", 40: "3.45 2.42 2.44 2.39 2.51", 60: "2.58 2.40 2.34 2.10 2.25"},
    "UCB": {20: "2.93 2.59 2.49 2.39 2.31", 40: "2.56 2.34 2.29 2.27 2.22", 60: "2.57 2.26 2.23 2.19 2.20"},
}
SIGMAS = {"UCB": 0.01, "UCB, sigma^2 = 0.1": 0.1, "UCB, sigma^2 = 1": 1.0}
"""sigma^2 of beta_t, which the paper does not name: a factor of three values. UCB is judged by the best of them; the
quick size and --printed run the two others at the least N of each T, where the claim about UCB is."""
ACQUISITIONS = ("EI", *SIGMAS, "UCB, measured")
REDUCED, REDUCED_TS = 20, (20,)
"""What the quick tables divide N by, and their T; their data are 5000 digits at 14 x 14."""
PRINTED = ("EI", "UCB")
CLOSE_UP = 0.7
"""A fleet drops the nets of studies that have ended once this share is still going."""
WRITE_SECONDS = 30.0
"""How often the studies under way are written down, so that little is lost when they are cut off."""
CAP = 5.0
"""Validation losses above it, and those of nets that have blown up, count as this."""
LONG = 20_480
"""Steps of the runs whose best validation loss stands for the optimum of softmax regression."""
FIRST_SEED = 7000


class Outer:
    """The outer level of one study, fed one trained net at a time; it goes on from the record of a study that was cut
    off."""

    def __init__(
        self, acquisition: str, horizon: int, most: int, seed: int, space: Space, earlier: dict[str, Any] | None = None
    ) -> None:
        self.acquisition, self.horizon, self.most, self.seed, self.space = acquisition, horizon, most, seed, space
        self.steps = 0
        """Steps that the net in training has taken."""
        recipe = METHODS["bilevel" if "measured" in acquisition else "bbo-printed"]
        if acquisition.startswith("UCB"):
            recipe = recipe(acquisition="ucb", horizon=horizon)
        if acquisition in SIGMAS:
            recipe = recipe(noise_var=SIGMAS[acquisition])
        self.loop = Loop(recipe.build(space, seed=seed, sign=-1.0))
        self.trials: list[dict[str, Any]] = []
        self.returned: dict[str, int] = {}
        """By T, the trial the algorithm returns."""
        self.seconds = 0.0
        if earlier is not None and earlier["trials"]:
            self.trials, self.returned, self.seconds = earlier["trials"], earlier["returned"], earlier["seconds"]
            self.loop.tell(
                np.array([trial["unit"] for trial in self.trials]),
                np.array([self._told(trial["val"]) for trial in self.trials]),
            )

    @property
    def over(self) -> bool:
        return len(self.trials) == self.most

    def next_setting(self) -> tuple[dict[str, Any], int]:
        self.unit, self.steps = self.loop.ask(step=len(self.trials))[0], 0
        return self.space.decode(self.unit), int(keyed_generator(self.seed, len(self.trials), stream=9).integers(2**31))

    def take(self, val: float, test_loss: float, test_error: float) -> None:
        val = min(val, CAP) if math.isfinite(val) else CAP
        self.loop.tell(self.unit[None], self._told(val))
        test_loss = test_loss if math.isfinite(test_loss) else CAP
        self.trials.append({"unit": self.unit.tolist(), "val": val, "test_loss": test_loss, "test_error": test_error})
        if len(self.trials) in TABLES:
            chosen = self.loop.recommend()
            self.returned[str(len(self.trials))] = int(np.flatnonzero((chosen == self.loop.history.X).all(axis=1))[-1])

    def _told(self, val: float) -> float:
        return -math.log(val) if "measured" in self.acquisition else -val

    def write(self, out: Path, seconds: float, device: str) -> None:
        record = {
            "acquisition": self.acquisition,
            "N": self.horizon,
            "seed": self.seed,
            "trials": self.trials,
            "returned": self.returned,
        }
        record |= {"seconds": self.seconds + seconds, "device": device}
        write_whole(record_path(out, self.acquisition, self.horizon, self.seed), stamped(record))


def studies(
    seeds: int, divide: int, ts: tuple[int, ...], acquisitions: tuple[str, ...]
) -> list[tuple[str, int, int, int]]:
    """(acquisition, N, T, seed) of every study, longest first."""
    longest = {n: max(t for t in ts if n in TABLES[t]) for t in ts for n in TABLES[t]}
    cells = [
        (a, n // divide, t, FIRST_SEED + s) for s in range(seeds) for n, t in longest.items() for a in acquisitions
    ]
    return sorted(cells, key=lambda c: (c[3], -c[1] * c[2]))


def sigma_studies(seeds: int, divide: int, ts: tuple[int, ...]) -> list[tuple[str, int, int, int]]:
    """UCB with the other values of sigma^2 at the least N of each T."""
    cells = [(a, min(TABLES[t]) // divide, t) for a in list(SIGMAS)[1:] for t in ts]
    return [(*cell, FIRST_SEED + s) for s in range(seeds) for cell in cells]


def earlier(out: Path, acquisition: str, horizon: int, seed: int) -> dict[str, Any] | None:
    """The record of a study, whole or cut off; None when there is none."""
    path = record_path(out, acquisition, horizon, seed)
    return next(iter(stored([path])), None)


def record_path(out: Path, acquisition: str, horizon: int, seed: int) -> Path:
    return out / "records" / f"{acquisition.replace(', ', '-')}-{horizon}-{seed}.json"


# ---------------------------------------------------------------- many studies side by side


def side_by_side(
    work: list[tuple[str, int, int, int]],
    out: Path,
    device: str,
    graph: bool,
    side: int,
    sizes: tuple[int, int, int],
    data: str | None,
) -> None:
    """Runs all studies at once, each training one net of a fleet; a record is written when its study ends, and now and
    then before."""
    import torch
    from regretless_bench.problems.mnist_fleet import Fleet

    if device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.set_float32_matmul_precision(
            "high"
        )  # 10 bits of mantissa in products, summed in float32: far finer than the noise of SGD
    fleet = Fleet(load_digits(*sizes, side=side, folder=data), len(work), device=device, seed=work[0][3], graph=graph)
    outers = [Outer(a, n, t, seed, Space(fleet.space), earlier(out, a, n, seed)) for a, n, t, seed in work]
    for slot, outer in enumerate(outers):
        fleet.start(slot, *outer.next_setting())
    clock = time.process_time if device == "cpu" else time.perf_counter
    begin, stride, ended = clock(), math.gcd(*(outer.horizon for outer in outers)), 0
    written = begin
    while not all(outer.over for outer in outers):
        fleet.steps(stride)
        for outer in outers:
            outer.steps += stride
        ready = [slot for slot, outer in enumerate(outers) if not outer.over and outer.steps == outer.horizon]
        if not ready:
            continue
        (val, _), (test_loss, test_error) = fleet.evaluate(ready, "val"), fleet.evaluate(ready, "test")
        for i, slot in enumerate(ready):
            outer = outers[slot]
            outer.take(val[i], test_loss[i], test_error[i])
            if not outer.over:
                fleet.start(slot, *outer.next_setting())
                continue
            ended += 1
            outer.write(out, (clock() - begin) / len(work), device)  # its share of what they take together
            print(f"{ended} of {len(work)} studies, {clock() - begin:.0f} s", flush=True)
        if clock() - written > WRITE_SECONDS:
            written = clock()
            for outer in outers:
                if not outer.over:
                    outer.write(out, (written - begin) / len(work), device)
        going = [slot for slot, outer in enumerate(outers) if not outer.over]
        if 0 < len(going) <= CLOSE_UP * len(outers):
            fleet.keep(going)
            outers = [outers[slot] for slot in going]


# ---------------------------------------------------------------- tables


def tables(records: list[dict[str, Any]], divide: int, ts: tuple[int, ...]) -> str:
    """Mean ± sd over seeds of the test error in per cent (and the test loss) that each rule returns."""
    lines = []
    for rule in ("the algorithm's return rule", "the least validation loss"):
        for acquisition in ACQUISITIONS:
            lines += ["", f"### {acquisition}, by {rule}: test error % (test loss), mean ± sd", ""]
            for t in ts:
                horizons = TABLES[t]
                lines += [
                    f"| T = {t}, N = | {' | '.join(str(n // divide) for n in horizons)} |",
                    "|---" * (len(horizons) + 1) + "|",
                ]
                row = [_cell(records, acquisition, n // divide, t, rule.startswith("the least")) for n in horizons]
                lines.append(f"| ours | {' | '.join(row)} |")
                if acquisition in PAPER:
                    printed = " | ".join(PAPER[acquisition][t].split())
                    lines.append(f"| paper{'' if divide == 1 else f', N x {divide}'} | {printed} |")
                lines.append("")
    return "\n".join(lines)


def _cell(records: list[dict[str, Any]], acquisition: str, horizon: int, t: int, by_validation: bool) -> str:
    picks = _picks(records, acquisition, horizon, t, by_validation)
    if not picks:
        return "-"
    mean, sd = np.mean(picks, axis=0), np.std(picks, axis=0, ddof=1) if len(picks) > 1 else (math.nan, math.nan)
    return f"{mean[0]:.2f} ± {sd[0]:.2f} ({mean[1]:.3f})"


def _picks(
    records: list[dict[str, Any]], acquisition: str, horizon: int, t: int, by_validation: bool
) -> list[tuple[float, float]]:
    """Test error and loss of the net that each seed's study returns after t trials."""
    picks = []
    for r in sorted(records, key=lambda r: r["seed"]):
        if (r["acquisition"], r["N"]) == (acquisition, horizon) and len(r["trials"]) >= t:
            best = (
                int(np.argmin([trial["val"] for trial in r["trials"][:t]])) if by_validation else r["returned"][str(t)]
            )
            picks.append((r["trials"][best]["test_error"], r["trials"][best]["test_loss"]))
    return picks


FALLS = "the loss function decreases as the SGD steps rise initially"
RISES = {
    40: "For 40 outer-level iterations and over 1,000 SGD steps, we see signs of overtraining and inadequate tuning",
    60: "insufficient tuning still occurs at 6,000 SGD steps under the 60-step setting",
}
"""By T: where too many inner steps no longer help."""
PLATEAU = "the decrease in loss tends to plateau"
"""Of UCB at large N."""
MORE = "For 60-step outer-level iterations, the loss at over 4,000 SGD steps is less than in the 40-step setting"
"""Where the next larger T is better at equal N, the largest that both have; of T = 20: "with only 20 outer-level
iterations, excessively low tuning led to high loss even at high SGD steps"."""
SHARE = "test error as a share of the latter's"
RESILIENT = "UCB is more resilient to the influence of noise compared to EI"


def errors(records: list[dict[str, Any]], divide: int, ts: tuple[int, ...]) -> dict[tuple[str, int, int], np.ndarray]:
    """Test errors by acquisition, T and N, one per seed: of the least validation loss, which all return rules can be
    compared by."""
    cells = {
        (a, t, n // divide): _picks(records, a, n // divide, t, True)
        for a in ACQUISITIONS
        for t in ts
        for n in TABLES[t]
    }
    return {key: np.array(picks)[:, 0] for key, picks in cells.items() if picks}


Errors = dict[tuple[str, int, int], np.ndarray]
"""Test errors by acquisition, T and N, one per seed."""


def claimed(found: Errors, ts: tuple[int, ...], divide: int = 1) -> list[Check]:
    """What the text says of the tables: errors fall with N at first; from some N on they are level, at T = 40 and 60;
    more outer steps help at large N; UCB copes better with the least N.

    Each compares test errors seed by seed. What is said of several tables alike is tested over them together. The N
    that is best in the mean stands for "later".
    """
    cells = {(a, t): of for t in ts for a in PRINTED if len(of := _row(found, a, t)) > 1}
    if not cells:
        return [not_run("errors against N", "not run in this size", FALLS)]
    falls = [(min(of.values(), key=np.mean), of[min(of)]) for of in cells.values()]
    where = ", ".join(f"{a} at T = {t}" for a, t in cells)
    text = f"more inner steps help at first, the best N against the least ({where})"
    checks = [below(text, *pooled_pairs(falls), SHARE, quote=FALLS), _level_off(cells, divide), _more_steps(found)]
    checks += _resilient(found)
    missing = [f"T = {t}" for t in TABLES if t not in ts]
    return checks + [not_run(what, "not run in this size", FALLS) for what in missing]


def _row(found: Errors, acquisition: str, t: int) -> dict[int, np.ndarray]:
    """Errors by N of one acquisition and T."""
    return {n: values for (a, u, n), values in found.items() if (a, u) == (acquisition, t)}


def _level_off(cells: dict[tuple[str, int], dict[int, np.ndarray]], divide: int) -> Check:
    """Whether the last step to the largest N helps by less than a tenth, in the tables of which the paper says so."""
    last = {
        (a, t): tuple(of[n] for n in sorted(of)[-2:])
        for (a, t), of in cells.items()
        if t in RISES and max(TABLES[t]) // divide in of
    }
    text = "too many inner steps no longer help, the largest N against the one before"
    if not last:
        return not_run(text, "no T of which it is said has ended", PLATEAU)
    where = ", ".join(f"{a} at T = {t}" for a, t in last)
    quote = f"{PLATEAU} (UCB); {'; '.join(RISES[t] for t in sorted({t for _, t in last}))} (EI)"
    scaled = pooled_pairs([(after, before) for before, after in last.values()])
    return plateau(f"{text} ({where})", scaled[1], scaled[0], SHARE, quote=quote)


def _more_steps(found: Errors) -> Check:
    """Whether the next larger T has the lower error at the largest N of both, over acquisitions and T together."""
    pairs, cells = [], []
    for a in PRINTED:
        for t, later in pairwise(sorted(TABLES)):
            if both := {n for b, u, n in found if (b, u) == (a, t)} & {n for b, u, n in found if (b, u) == (a, later)}:
                pairs.append((found[a, later, max(both)], found[a, t, max(both)]))
                cells.append(f"{a}, N = {max(both)}: T = {later} against {t}")
    if not pairs:
        return not_run("more outer steps help at large N", "one T was run in this size", MORE)
    text = f"more outer steps help at large N ({'; '.join(cells)})"
    return below(text, *pooled_pairs(pairs), SHARE, quote=MORE)


def _resilient(found: Errors) -> list[Check]:
    """Whether UCB, with the best of the values of sigma^2, is below EI at the least N of every T together. The paper's
    tables have 7, 26 and 0.4 % less; less than a tenth, if it is shown, refutes it."""
    tried = {}
    for a in SIGMAS:
        least = {t: min(of) for t in TABLES if (of := _row(found, "EI", t))}
        pairs = [(found[a, t, n], found["EI", t, n]) for t, n in least.items() if (a, t, n) in found]
        if pairs:
            tried[a] = pooled_pairs(pairs)
    if not tried:
        return []
    kind = min(tried, key=lambda a: float(np.mean(tried[a][0])))
    text = f"{kind} below EI at the least N, the best of {len(tried)} values of sigma^2, all T together"
    return [below(text, *tried[kind], SHARE, quote=RESILIENT, refuted_if_level=True)]


def size(full: bool, divide: int, ts: tuple[int, ...]) -> str:
    """Full is every T of the paper; some of them, with its N and digits, are between."""
    if not full:
        return f"quick: N divided by {divide}, 5000 digits of 14 x 14"
    return "full" if set(ts) == set(TABLES) else "between: the paper's N and digits, some of its T"


def finding(records: list[dict[str, Any]], divide: int, ts: tuple[int, ...], full: bool) -> Finding:
    """The claims about the six tables, judged by median test errors over seeds."""
    found = errors(records, divide, ts)
    checks = claimed(found, ts, divide)
    seeds = min(map(len, found.values()), default=0)
    cells = [(t, n // divide) for t in ts for n in TABLES[t]]
    open_ends = [f"T = {t}, N = {n}" for t, n in cells if any((a, t, n) not in found for a in PRINTED)]
    verdict, sentence = judged(checks, seeds)
    lines = {t: [(a, sorted(n for b, u, n in found if (b, u) == (a, t))) for a in ACQUISITIONS] for t in ts}
    ours = {t: [_line(a, found, a, t, horizons) for a, horizons in lines[t] if horizons] for t in ts}
    charts = [(f"T = {t}", curves_chart(ours[t] + _theirs(t, divide), log_x=True)) for t in ts if ours[t]]
    shown = [
        Table(f"T = {t}: test error %, mean (test loss)", ["acquisition", *(str(n // divide) for n in TABLES[t])],
              [[a, *(_cell(records, a, n // divide, t, True) for n in TABLES[t])] for a in ACQUISITIONS]
              + [[f"{a}, paper{'' if divide == 1 else f' (N x {divide})'}", *PAPER[a][t].split()] for a in PRINTED])
        for t in ts
    ]  # fmt: skip
    return Finding(
        "bilevel", "tables", "test error against inner steps N and outer steps T",
        "At a fixed number T of outer steps the loss falls with the inner steps N, then levels off; UCB tolerates "
        "few inner steps better than EI.",
        verdict, sentence,
        settings={"size": size(full, divide, ts),
                  "T": ", ".join(map(str, ts)), "seeds": seeds, "returned": "the net of the least validation loss",
                  "trained on": " and ".join(sorted({r.get("device", "cpu") for r in records})),
                  **({"not finished": ", ".join(open_ends)} if open_ends else {})},
        charts=charts, tables=[*both_columns(checks), *shown], seconds=sum(float(r["seconds"]) for r in records),
    )  # fmt: skip


def _line(
    name: str, found: dict[tuple[str, int, int], np.ndarray], acquisition: str, t: int, horizons: list[int]
) -> Curve:
    low, mid, high = np.array([np.quantile(found[acquisition, t, n], (0.25, 0.5, 0.75)) for n in horizons]).T
    return Curve(name, {"inner steps N": horizons}, {"test error, %": Band(mid, low, high)})


def _theirs(t: int, divide: int) -> list[Curve]:
    """The paper's figures; with reduced N they stand at the N they were divided from."""
    return [
        Curve(
            f"{a}, paper",
            {"inner steps N": [n // divide for n in TABLES[t]]},
            {"test error, %": [float(v) for v in PAPER[a][t].split()]},
            dash=True,
        )
        for a in PRINTED
    ]


# ---------------------------------------------------------------- the convex law


def convex_study(horizon: int, trials: int, seed: int, data: str | None) -> float:
    """The least validation loss of a study on softmax regression."""
    inner = training("softmax", folder=data)
    problem = Bilevel(inner.init, inner.step, inner.validate, steps=inner.steps)
    return minimize_bilevel(
        problem, inner.space, trials=trials, horizon=horizon, seed=seed, validations=1, progress=False
    ).value


def convex_law(out: Path, seeds: int, jobs: int, data: str | None) -> str:
    """Excess validation loss against N: fitted L* + a N^-b, and the log-log slope with L* from long training."""
    horizons = [10 * 2**k for k in range(10)]
    path = out / "convex.json"
    losses: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    todo = [(n, 20, FIRST_SEED + s) for n in horizons for s in range(seeds)] + [
        (LONG, 8, FIRST_SEED + s) for s in range(2)
    ]
    todo = [(n, trials, s) for n, trials, s in todo if f"{n}-{s}" not in losses]
    if todo:
        with _pool(jobs) as pool:
            running = {pool.submit(convex_study, n, trials, s, data): (n, s) for n, trials, s in todo}
            for future in as_completed(running):
                n, s = running[future]
                losses[f"{n}-{s}"] = future.result()
                write_whole(path, json.dumps(losses).encode())
    mean = np.array([np.mean([v for key, v in losses.items() if key.startswith(f"{n}-")]) for n in horizons])
    floor = min(v for key, v in losses.items() if key.startswith(f"{LONG}-"))
    x = np.log(np.array(horizons, dtype=float))
    far = np.array(horizons) <= LONG // 32  # nearer to the floor its own error would make the slope
    slope = np.polyfit(x[far], np.log(mean[far] - floor), 1)[0]
    law = curve_fit(lambda n, level, a, b: level + a * n**-b, np.exp(x), mean, p0=(floor, 3.0, 0.6), maxfev=20_000)[0]
    rows = [f"| {n} | {m:.4f} | {m - floor:.4f} |" for n, m in zip(horizons, mean, strict=True)]
    return "\n".join([
        "", f"### The convex law: softmax regression, T = 20, {seeds} seeds, least validation loss", "",
        "| N | validation loss | excess over the best of long training |", "|---|---|---|", *rows, "",
        f"log-log slope of the excess, N <= {LONG // 32}: {slope:.2f} (theory: at most -1/2 up to logarithms);",
        f"joint fit L* + a N^-b: L* = {law[0]:.3f}, b = {law[2]:.2f}", "",
    ])  # fmt: skip


def _pool(jobs: int) -> ProcessPoolExecutor:
    os.environ.update(
        dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    )  # for the workers
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", help='"cpu" or "cuda"')
    parser.add_argument("--eager", action="store_true", help="no CUDA graph")
    parser.add_argument("--convex", action="store_true", help="the convex law only")
    parser.add_argument("--outer", help="comma-separated T of the full size, by default 20,40,60")
    parser.add_argument("--printed", action="store_true", help="EI and UCB alone in the full size, as in the quick one")
    args = experiment_options(parser, "runs/bilevel_tables", seeds=(5, 10), data="mnist")
    if args.outer and (not args.full or not {int(t) for t in args.outer.split(",")} <= set(TABLES)):
        parser.error(f"--outer takes some of {', '.join(map(str, TABLES))}, in the full size; got {args.outer!r}")
    data = None if args.data is None else str(args.data)
    divide, ts = (1, tuple(TABLES)) if args.full else (REDUCED, REDUCED_TS)
    ts = tuple(t for t in ts if not args.outer or str(t) in args.outer.split(","))
    side, sizes = (28, (50_000, 10_000, 10_000)) if args.full else (14, (5000, 2000, 5000))
    place, text = args.out / ("full" if args.full else "quick"), ""  # a setting's N may occur in both sizes
    if not args.convex:
        is_whole = args.full and not args.printed
        cells = studies(args.seeds, divide, ts, ACQUISITIONS if is_whole else PRINTED)
        cells += [] if is_whole else sigma_studies(args.seeds, divide, ts)
        work = (
            []
            if args.report
            else [w for w in cells if len((earlier(place, w[0], w[1], w[3]) or {"trials": []})["trials"]) < w[2]]
        )
        if work and args.device == "cuda":
            side_by_side(work, place, args.device, not args.eager, side, sizes, data)
        elif work:
            with _pool(args.jobs) as pool:
                running = [pool.submit(side_by_side, [w], place, args.device, False, side, sizes, data) for w in work]
                for future in tqdm(as_completed(running), total=len(running), unit="study"):
                    future.result()
        places = [record_path(place, a, n, s) for a, n, _, s in cells]
        records = needed(stored(places), args)
        text = tables(records, divide, ts)
        found = finding(records, divide, ts, args.full)
        found.write(args.out)
        text += f"\n{found.verdict}: {found.sentence}\n"
    if args.convex or (args.full and not args.printed):
        text += convex_law(args.out, args.seeds, args.jobs, data)
    print(text)
    (args.out / "tables.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
