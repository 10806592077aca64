"""Bilevel tuning at equal SGD steps: the default against peers that stop, promote or train every setting equally long.

    python experiments/bilevel_equal_steps.py --jobs 2               # MLP at 2000 steps, 16 paired seeds
    python experiments/bilevel_equal_steps.py --jobs 16 --full       # all three nets, 2000 and 12,000 steps
    python experiments/bilevel_equal_steps.py --device cuda --jobs 2 --cells cnn:2000 cnn:12000
                                                                     # those of the CNN side by side on a GPU

Every method gets the same number of training steps and returns the state with the least validation loss it has seen;
the test error of that state counts. Runs are seeded alike (the k-th setting of a study trains with the same seed under
every method). The default was chosen on seeds below 3000 (with a look at 7000 to 7015 for the first rule about flat
leaders); the seeds here start at 11000. One record per study is kept under --out, and only missing ones are run.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from regretless_bench.problems.mnist_training import ConvTraining, DenseTraining, load_digits, training

from regretless.basics.statefile import write_whole
from regretless.basics.streams import Stream
from regretless.bilevel import Bilevel, TrainingRun, minimize_bilevel, plan
from regretless.method import keyed_generator
from regretless.space.parameters import Choice, Float

if TYPE_CHECKING:
    from regretless_bench.problems.mnist_lockstep import Berth

Work: TypeAlias = tuple[str, int, str, int]
"""Net, budget, method and seed of a study."""
Training: TypeAlias = "DenseTraining | ConvTraining | Berth"
FIRST_SEED = 11_000
QUICK = [("mlp", 2000)]
FULL = [(net, budget) for net in ("softmax", "mlp", "cnn") for budget in (2000, 12_000)]
OURS = "BBO (default)"

# ---------------------------------------------------------------- the methods


def bilevel(**options: Any) -> Callable[..., dict[str, Any]]:
    """minimize_bilevel with these options; `settings` of equal horizon (a number, or "plan"), or promotion up to budget
    / `top` steps."""

    def study(inner: Training, budget: int, seed: int) -> dict[str, Any]:
        last: list[Any] = [None]

        def validate(state: Any) -> float:
            last[0] = state
            return inner.validate(state)

        def note(run: TrainingRun) -> None:
            if run.loss < best["val"]:
                best.update(zip(("val", "test_loss", "test_error"), (run.loss, *inner.test(last[0])), strict=True))

        best: dict[str, float] = {"val": math.inf, "test_loss": math.inf, "test_error": 90.0}
        problem = Bilevel(
            inner.init, inner.step, validate, getattr(inner, "save", None), getattr(inner, "load", None), inner.steps
        )
        chosen = dict(options)
        settings, reserved = chosen.pop("settings", None), 0
        if settings is not None:
            trials = plan(inner.space, budget_steps=budget).measured.trials if settings == "plan" else settings
            chosen |= {
                "trials": trials,
                "horizon": math.ceil(budget / trials),
            }  # rounded up: in favour of the fixed split
        else:
            chosen["budget_steps"] = budget
            if "top" in chosen:
                chosen["rungs"] = ladder(budget / chosen.pop("top"))
        result = minimize_bilevel(problem, inner.space, seed=seed, progress=False, callback=note, **chosen)
        if settings is not None:  # a run that blows up stops early, and has had its share of the budget all the same
            reserved = sum(chosen["horizon"] - r.spent for r in result.runs if r.status == "diverged")
        return {
            **best, "settings": len(result.runs), "longest": max(r.steps for r in result.runs), "spent": result.spent,
            "reserved": reserved,
        }  # fmt: skip

    return study


def optuna_study(sampler: str, pruner: str, top: float, reports: int) -> Callable[..., dict[str, Any]]:
    """An Optuna study whose trials train for budget / top steps at most and report `reports` times (0: at the rungs of
    the pruner)."""

    def study(inner: Training, budget: int, seed: int) -> dict[str, Any]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        horizon = round(budget / top)
        rungs = (
            ladder(horizon)
            if reports == 0
            else sorted({math.ceil(horizon * k / reports) for k in range(1, reports + 1)})
        )
        pruners = {
            "hyperband": lambda: optuna.pruners.HyperbandPruner(
                min_resource=rungs[0], max_resource=horizon, reduction_factor=3
            ),
            "median": lambda: optuna.pruners.MedianPruner(n_startup_trials=5),
            "none": lambda: optuna.pruners.NopPruner(),
        }
        samplers = {
            "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
            "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        }
        tuner = optuna.create_study(sampler=samplers[sampler](), pruner=pruners[pruner]())
        spent, best, tests, longest = 0, math.inf, (math.inf, 90.0), 0
        while spent < budget:
            trial = tuner.ask()
            params = {name: suggest(trial, name, p) for name, p in inner.space.items()}
            state, done, pruned, loss = inner.init(params, run_seed(seed, trial.number)), 0, False, math.inf
            for until in rungs:
                until = min(until, done + budget - spent)
                if until == done:
                    break
                state = inner.steps(state, until - done)
                spent, done, loss = spent + until - done, until, inner.validate(state)
                if loss < best:
                    best, tests = loss, inner.test(state)
                trial.report(loss if math.isfinite(loss) else 1e6, done)
                if trial.should_prune() or not math.isfinite(loss):
                    pruned = True
                    break
            longest = max(longest, done)
            if pruned:
                tuner.tell(trial, state=optuna.trial.TrialState.PRUNED)
            else:
                tuner.tell(trial, loss)
        return {
            "val": best, "test_loss": tests[0], "test_error": tests[1], "settings": len(tuner.trials),
            "longest": longest, "spent": spent, "reserved": 0,
        }  # fmt: skip

    return study


def suggest(trial: Any, name: str, parameter: Any) -> Any:
    if isinstance(parameter, Choice):
        return trial.suggest_categorical(name, parameter.labels)
    if isinstance(parameter, Float):
        return trial.suggest_float(name, parameter.low, parameter.high, log=parameter.log)
    return trial.suggest_int(name, parameter.low, parameter.high, log=parameter.log)


def run_seed(seed: int, number: int) -> int:
    """The seed minimize_bilevel gives the run of this number."""
    return int(keyed_generator(seed, number, stream=Stream.RUN_SEED).integers(2**31))


def ladder(top: float) -> list[int]:
    """Four rungs up to `top`, each three times the one below."""
    return sorted({max(1, round(top / 3**k)) for k in range(4)})


METHODS: dict[str, Callable[..., dict[str, Any]]] = {
    OURS: bilevel(),
    "our schedule, random settings": bilevel(method="random"),
    "TPE + Hyperband, N <= C/6": optuna_study("tpe", "hyperband", 6, 0),
    "TPE + Hyperband, N <= C/3": optuna_study("tpe", "hyperband", 3, 0),
    "TPE + median, N <= C/6": optuna_study("tpe", "median", 6, 10),
    "TPE + median, N <= C/3": optuna_study("tpe", "median", 3, 10),
    "random + ASHA, N <= C/6": bilevel(method="random", top=6, final_share=0.0),
    "random + ASHA, N <= C/3": bilevel(method="random", top=3, final_share=0.0),
    "BBO, fixed N, T = 20": bilevel(settings=20),
    "BBO, fixed N, T of the plan": bilevel(settings="plan"),
    "TPE, fixed N, T = 20": optuna_study("tpe", "none", 20, 1),
    "random, fixed N, T = 20": bilevel(method="random", settings=20),
}


# ---------------------------------------------------------------- one study, and all of them


@lru_cache(maxsize=1)
def inner_problem(net: str, data: str | None) -> DenseTraining | ConvTraining:
    import torch

    torch.set_num_threads(1)
    return training(net, folder=data)


def one(net: str, budget: int, method: str, seed: int, path: Path, data: str | None) -> Path:
    study_of(inner_problem(net, data), net, budget, method, seed, path)
    return path


def study_of(inner: Training, net: str, budget: int, method: str, seed: int, path: Path, *, timed: bool = True) -> None:
    """Runs one study and writes its record."""
    start = time.process_time()
    found = METHODS[method](inner, budget, seed)
    seconds = time.process_time() - start if timed else None
    total = found["spent"] + found.pop("reserved")
    assert budget <= total < budget + found["settings"], f"{method} took {total} steps of {budget}"
    write_whole(
        path,
        json.dumps(
            {"net": net, "budget": budget, "method": method, "seed": seed, "seconds": seconds, **found}
        ).encode(),
    )


def together(work: list[Work], out: Path, device: str, data: str | None) -> None:
    """Runs studies of the CNN side by side, their nets in one fleet."""
    import torch
    from regretless_bench.problems.mnist_lockstep import run

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision(
        "high"
    )  # 10 bits of mantissa in products, summed in float32: far finer than the noise of SGD

    def study(w: Work) -> Callable[[Berth], None]:
        return lambda berth: study_of(berth, *w, record_path(out, *w), timed=False)

    run([study(w) for w in work], load_digits(folder=data), device=device, seed=work[0][3])


def record_path(out: Path, net: str, budget: int, method: str, seed: int) -> Path:
    name = "".join(c if c.isalnum() else "-" for c in method).strip("-")
    return out / "records" / f"{net}-{budget}-{name}-{seed}.json"


def table(out: Path) -> str:
    """What the records say: mean and standard error of the test error, and paired differences to the default."""
    records = [json.loads(p.read_text()) for p in sorted((out / "records").glob("*.json"))]
    lines = []
    for net, budget in sorted({(r["net"], r["budget"]) for r in records}):
        cell = {
            m: {r["seed"]: r for r in records if (r["net"], r["budget"], r["method"]) == (net, budget, m)}
            for m in METHODS
        }
        ours = cell[OURS]
        lines += [
            f"\n### {net}, {budget} steps",
            "",
            "| method | seeds | test error % | validation loss | default - this, % | wins | T | longest N | CPU s |",
        ]
        lines += ["|---|---|---|---|---|---|---|---|---|"]
        for method, by_seed in cell.items():
            if not by_seed:
                continue
            error, val = (np.array([r[key] for r in by_seed.values()]) for key in ("test_error", "val"))
            paired = np.array([ours[s]["test_error"] - r["test_error"] for s, r in by_seed.items() if s in ours])
            difference = "" if method == OURS or len(paired) < 2 else f"{paired.mean():+.2f} ± {se(paired):.2f}"
            wins = "" if method == OURS else f"{int((paired < 0).sum())}/{len(paired)}"
            means = [np.mean([r[key] for r in by_seed.values()]) for key in ("settings", "longest")]
            timed = [r["seconds"] for r in by_seed.values() if r["seconds"] is not None]
            lines.append(
                f"| {method} | {len(error)} | {error.mean():.2f} ± {se(error):.2f} | {val.mean():.4f} | {difference} "
                f"| {wins} | {means[0]:.1f} | {means[1]:.0f} | {f'{np.mean(timed):.1f}' if timed else '-'} |"
            )
    return "\n".join(lines)


def se(values: Any) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def figure(out: Path) -> None:
    """Test errors per study, mean and standard error, one panel per net and budget (needs matplotlib)."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no matplotlib: table only")
        return
    records = [json.loads(p.read_text()) for p in sorted((out / "records").glob("*.json"))]
    nets = [net for net in ("softmax", "mlp", "cnn") if any(r["net"] == net for r in records)]
    budgets = sorted({r["budget"] for r in records})
    drawing = Figure(figsize=(1.5 + 4 * len(nets), 0.5 + 3.5 * len(budgets)), layout="constrained")
    axes = drawing.subplots(len(budgets), len(nets), squeeze=False)
    for axis, (budget, net) in zip(axes.flat, ((budget, net) for budget in budgets for net in nets), strict=True):
        names = [m for m in METHODS if any((r["net"], r["budget"], r["method"]) == (net, budget, m) for r in records)]
        for y, method in enumerate(reversed(METHODS)):
            if method not in names:
                continue
            values = [r["test_error"] for r in records if (r["net"], r["budget"], r["method"]) == (net, budget, method)]
            colour = "C3" if method == OURS else "C0"
            axis.plot(values, [y] * len(values), ".", color=colour, alpha=0.4)
            axis.errorbar(np.mean(values), y, xerr=se(values), fmt="o", color=colour, capsize=3)
        axis.set_yticks(
            range(len(METHODS)), list(reversed(METHODS)) if net == nets[0] else [""] * len(METHODS), fontsize=7
        )
        axis.set(title=f"{net}, {budget} steps", xlabel="test error, %")
    drawing.savefig(out / "equal_steps.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/bilevel_equal_steps"))
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--quick", action="store_true", help="MLP at 2000 steps only (the default)")
    parser.add_argument("--full", action="store_true", help="all three nets at both budgets")
    parser.add_argument("--cells", nargs="*", help="cells such as mlp:2000 cnn:12000, instead of --quick or --full")
    parser.add_argument(
        "--methods", nargs="*", help="parts of method names; only methods that contain one of them are run"
    )
    parser.add_argument("--data", help="the folder that holds mnist/")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no study after this long")
    parser.add_argument(
        "--device", default="cpu", help='"cuda": studies of the CNN run side by side on one GPU, in --jobs fleets'
    )
    args = parser.parse_args()
    cells = (
        [(c.split(":")[0], int(c.split(":")[1])) for c in args.cells] if args.cells else FULL if args.full else QUICK
    )
    methods = [m for m in METHODS if not args.methods or any(part in m for part in args.methods)]
    work = [(net, budget, m, args.first_seed + s) for s in range(args.seeds) for net, budget in cells for m in methods]
    work = [w for w in work if not record_path(args.out, *w).exists()]
    work.sort(key=lambda w: -w[1] * (30 if w[0] == "cnn" else 1))  # long ones first
    broken = run_all(work, args.out, args.jobs, args.device, args.data, args.minutes) if work else []
    print(table(args.out))
    (args.out / "table.md").write_text(table(args.out) + "\n")
    figure(args.out)
    if broken:
        raise SystemExit("\n".join(["studies that failed:", *broken]))


def run_all(work: list[Work], out: Path, jobs: int, device: str, data: str | None, minutes: float) -> list[str]:
    """Runs the studies in worker processes, those of the CNN on a GPU side by side if there is one; what went wrong
    comes back."""
    os.environ.update(
        dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    )  # for the workers
    start, done = time.monotonic(), 0
    broken: list[str] = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        if device != "cpu":
            nets = [w for w in work if w[0] == "cnn"]
            fleets = [nets[k::jobs] for k in range(jobs)]
            for future in [pool.submit(together, part, out, device, data) for part in fleets if part]:
                future.result()
            work = [w for w in work if w[0] != "cnn"]  # the others are quicker on a core of their own
        waiting = iter(work)
        running: dict[Future[Path], Work] = {}
        while True:
            while len(running) < 2 * jobs and time.monotonic() - start < 60 * minutes and (w := next(waiting, None)):
                running[pool.submit(one, *w, record_path(out, *w), data)] = w
            if not running:
                return broken
            finished = next(as_completed(running))
            w = running.pop(finished)
            done += 1
            try:
                finished.result()
            except Exception as error:  # one broken study must not take the others with it; it is told at the end
                broken.append(f"{w}: {type(error).__name__}: {error}")
            print(f"\r{done} of {len(work)} studies", end="", flush=True)


if __name__ == "__main__":
    main()
