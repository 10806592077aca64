"""How often what a run says of choices among its front is true.

    python experiments/front_statements.py choices                      five questions, with simulated users
    python experiments/front_statements.py run --out runs/statements.jsonl
    python experiments/front_statements.py table runs/statements.jsonl  exchanges, and bounds on what the front misses

The truth of a problem is the front of 2,500 evaluations of SMS-EMOA and of all runs on it together.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from objectives import problem_of

import regretless as rg
from regretless.fronts.choice import compromise, gained
from regretless.fronts.hypervolume import hypervolume
from regretless.fronts.preferences import Preferences
from regretless.models.gp.maximiser import candidates
from regretless.outlook.front_chances import drawn_values, in_model, least_cost
from regretless.outlook.front_growth import front_forecasts
from regretless.space.parameters import Array

PROBLEMS = {
    "bbob-biobj": [
        f"biobj-{f}-{d}-2" for f, d in ((1, 2), (7, 3), (13, 2), (19, 3), (25, 2), (33, 3), (43, 2), (51, 5))
    ],
    "zdt": ["zdt-1-5", "zdt-2-3", "zdt-3-5", "zdt-6-3"],
    "dtlz": ["dtlz-2-4-2", "dtlz-7-4-2", "dtlz-2-4-3", "dtlz-7-4-3"],
    "re": ["truss4", "hatch", "truss2"],
    "tables": ["table-vehicle", "table-segment"],
    "rpart": ["rpart-40499", "rpart-1475"],
}
MOMENTS = (20, 40, 60)  # the values of a run of 60 after which it is asked


# ---------------------------------------------------------------- questions


def users(S: Array, raw: Array, w: Array) -> dict[str, Array]:
    """What members are worth to four kinds of users with weights w (k), from their shares of the front's range."""
    return {
        "product of the gains": np.exp(np.log(S) @ w),
        "sum": raw @ w,
        "the worst objective": (raw / w).min(axis=1),
        "sum, and twice what is missing to 40 %": raw @ w - 2 * np.maximum(0.4 - raw, 0) @ w,
    }


def choices() -> None:
    """The loss of a pick, as a share of the distance from the best member to the median one."""
    rng = np.random.default_rng(0)
    found: dict[tuple[int, str, float], list[list[float]]] = defaultdict(list)
    for k in (2, 3, 4):
        for _ in range(60):
            Y = np.abs(rng.standard_normal((int(rng.integers(8, 60)), k)))
            power = rng.choice([0.5, 1.0, 2.0, 3.0])
            Y *= rng.uniform(0.1, 10, k) / (Y**power).sum(axis=1, keepdims=True) ** (1 / power)
            raw = (Y - Y.min(axis=0)) / np.ptp(Y, axis=0)
            for kind, worth in users(gained(Y), raw, rng.dirichlet(np.ones(k))).items():
                for wrong in (0.0, 0.1):
                    loss = (worth.max() - worth) / (worth.max() - np.median(worth))
                    found[k, kind, wrong].append([loss[compromise(Y)], loss[answered(Y, worth, wrong, rng)]])
    print(
        "| objectives | the user's wish | wrong answers | loss without questions | after five |\n|---|---|---|---|---|"
    )
    for (k, kind, wrong), losses in found.items():
        before, after = np.mean(losses, axis=0)
        print(f"| {k} | {kind} | {wrong:.0%} | {before:.2f} | {after:.2f} |")


def answered(Y: Array, worth: Array, wrong: float, rng: np.random.Generator) -> int:
    """The row that is picked after five answers, each wrong with a probability."""
    known = Preferences(Y)
    for _ in range(5):
        pair = known.question()
        if pair is None:
            break
        better, worse = sorted(pair, key=lambda row: -worth[row])
        known.prefer(*((worse, better) if rng.random() < wrong else (better, worse)))
    return known.best


# ---------------------------------------------------------------- exchanges and what is missing


def run(out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {json.loads(line)["problem"] for line in out.read_text().splitlines()} if out.exists() else set()
    with out.open("a") as file:
        for family, names in PROBLEMS.items():
            for name in names:
                if name not in done:
                    file.writelines(
                        json.dumps({"family": family, "problem": name, **row}) + "\n" for row in asked(name)
                    )
                    file.flush()


def asked(name: str) -> list[dict[str, Any]]:
    """What two runs say at each moment, beside the truth."""
    space, values = problem_of(name)
    k = len(values(space.decode(np.full(space.cube().dim, 0.5))))
    everything: list[Array] = []
    moments = []
    for method, seed, budget in (("sms-emoa", 9, 2500), ("auto", 0, 60), ("auto", 1, 60)):
        opt = rg.Optimizer(space, method, objectives=[f"f{j}" for j in range(k)], seed=seed, budget=budget)
        for n in range(1, budget + 1):
            trial = opt.ask()
            everything.append(values(trial.params))
            opt.tell(trial, tuple(map(float, everything[-1])))
            if method == "auto" and n in MOMENTS:
                moments.append((opt, opt.history))
    return [statements(opt, history, -np.array(everything)) for opt, history in moments]


def statements(opt: rg.Optimizer, history: Any, truth: Array) -> dict[str, Any]:
    task, method, k = opt.task, opt.method, history.objectives
    rows, F, _ = method.front(history)
    span = np.where(np.ptp(F, axis=0) > 0, np.ptp(F, axis=0), 1.0)
    below = F.min(axis=0) - 0.1 * span
    covered = hypervolume(F, below)
    X = in_model(task, method, history.X[rows])
    more = candidates(task.space.cube(), np.random.default_rng(1), X, 400)
    draws = drawn_values(task, method, history, np.concatenate([X, more]))[: 150 if k == 2 else 40]
    gain = float(np.quantile([hypervolume(Y, below) / covered - 1 for Y in draws], 0.95))
    epsilon = float(np.quantile([accuracy(F, Y, span) for Y in draws], 0.95))
    forecast = front_forecasts(history, [2 * len(history)], noisy=False)[0]
    exchanges = []
    for row in {compromise(F), len(rows) // 2}:
        for a, b in ((a, b) for a in range(k) for b in range(k) if a != b):
            for share in (0.01, 0.05):
                by = share * abs(float(F[row, a])) or share * float(span[a])
                own = history.X[rows]
                median, low, high = least_cost(task, method, history, np.concatenate([own[[row]], own]), a, b, by)
                others = [j for j in range(k) if j not in (a, b)]
                enough = (truth[:, a] >= F[row, a] + by) & (truth[:, others] >= F[row, others]).all(axis=1)
                least = float(np.min(F[row, b] - truth[enough, b])) if enough.any() else math.inf
                exchanges.append({"low": low, "median": median, "high": high, "true": least, "span": float(span[b])})
    return {
        "n": len(history), "missing": hypervolume(truth, below) / covered - 1, "drawn": gain,
        "epsilon": epsilon, "true epsilon": accuracy(F, truth, span),
        "forecast": None if forecast.unknown else forecast.quantile(0.95), "exchanges": exchanges,
    }  # fmt: skip


def accuracy(F: Array, Y: Array, span: Array) -> float:
    """By what share of the range (k) of each objective the members F (m x k) of a front have to be better so that each
    of the values Y (n x k) is reached in all objectives by one: the additive epsilon of Zitzler et al. (2003)."""
    return max(0.0, float(((Y[:, None] - F) / span).max(axis=2).min(axis=1).max()))


def table(path: Path) -> None:
    by_family: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in path.read_text().splitlines():
        by_family[(row := json.loads(line))["family"]].append(row)
    print("| kind | exchanges | held | true cost above | median width, share of the range |\n|---|---|---|---|---|")
    for family, rows in by_family.items():
        told = [e for row in rows for e in row["exchanges"]]
        slack = [1e-9 * e["span"] for e in told]
        held = [e["low"] - s <= e["true"] <= e["high"] + s for e, s in zip(told, slack, strict=True)]
        above = [e["true"] > e["high"] + s for e, s in zip(told, slack, strict=True)]
        widths = [(e["high"] - e["low"]) / e["span"] for e in told if math.isfinite(e["high"])]
        print(f"| {family} | {len(told)} | {np.mean(held):.2f} | {np.mean(above):.2f} | {np.median(widths):.2f} |")
    print("\n| kind | moments | median missing | bound | holds | median bound |\n|---|---|---|---|---|---|")
    bounds: dict[str, Callable[[dict[str, Any]], float]] = {
        "95 % of drawn fronts": lambda row: row["drawn"],
        "twice that": lambda row: 2 * row["drawn"],
        "95 % forecast of twice the trials": lambda row: math.inf if row["forecast"] is None else row["forecast"],
    }
    for family, rows in by_family.items():
        for name, bound in bounds.items():
            missing, said = np.array([row["missing"] for row in rows]), np.array([bound(row) for row in rows])
            print(
                f"| {family} | {len(rows)} | {np.median(missing):.3f} | {name} | {(missing <= said).mean():.2f}"
                f" | {np.median(said):.2f} |"
            )
    print("\n| kind | moments | median epsilon | 95 % of drawn fronts holds | twice that | median bound |")
    print("|---|---|---|---|---|---|")
    for family, rows in by_family.items():
        true, said = (np.array([row[name] for row in rows]) for name in ("true epsilon", "epsilon"))
        held = f"{(true <= said).mean():.2f} | {(true <= 2 * said).mean():.2f}"
        print(f"| {family} | {len(rows)} | {np.median(true):.3f} | {held} | {np.median(said):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choices", "run", "table"])
    parser.add_argument("file", nargs="?", type=Path, default=Path("runs/statements.jsonl"))
    parser.add_argument("--out", type=Path, default=Path("runs/statements.jsonl"))
    given = parser.parse_args()
    if given.what == "choices":
        choices()
    elif given.what == "run":
        run(given.out)
    else:
        table(given.file)


if __name__ == "__main__":
    main()
