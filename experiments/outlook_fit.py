"""The forecaster that ships: fitted to records of runs, chosen and judged on families and sources left out.

    python experiments/outlook_fit.py runs/outlook/*.npz --models featureless,lines,pool        # families left out
    python experiments/outlook_fit.py runs/outlook/*.npz --ship regretless/outlook/forecaster.npz
    python experiments/outlook_fit.py runs/outlook/*.npz --judge family     # tables: one family left out at a time
    python experiments/outlook_fit.py runs/outlook/*.npz --judge fold       # a sixth of the families (--folds)
    python experiments/outlook_fit.py runs/outlook/*.npz --judge source     # one source
    python experiments/outlook_fit.py runs/outlook/*.npz --judge shipped    # the forecaster in the package, as it is

A row is a checkpoint of a run and a horizon m; its target is the gain of the recommended setting in the next m trials
as a share of the reach, on a logarithmic scale. Gains below ZERO of the reach count as none; whether there is one is
modelled apart. Every family has the same weight, and every run of a family.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from outlook_records import unpacked

from regretless.outlook.forecast import LEVELS, STEEPNESS, ZERO, Forecaster, standardised
from regretless.outlook.progress import CURVE, MODEL, NAMES

Array = NDArray[np.float64]
HORIZONS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80)
PER_RUN = 14
"""Rows taken of each run, at random."""
FLOOR = math.log10(ZERO)
JUDGED = (0.5, 0.8, 0.9, 0.95)
MARGIN = 0.05
"""How much of each tail is given up for sources that no record is of."""
LEAST_STEPS = 200
"""Steps of the training of a net, however few rows there are."""
SEEDS = 1
"""Nets of each view."""
ALWAYS = ("n/d", "m/n", "m/d", "labels")
VIEWS = (NAMES, CURVE, (*ALWAYS, *MODEL))
"""What the nets are shown: everything, the curve, the model. Their distributions are pooled."""


class Rows(NamedTuple):
    """Rows of all runs."""

    x: Array
    z: Array
    """log10 of the gain as a share of the reach; FLOOR where there is none."""
    run: NDArray[np.intp]
    weight: Array

    def of(self, keep: NDArray[np.bool_]) -> Rows:
        return Rows(*(part[keep] for part in self))


def read(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The runs of several files of records."""
    runs = []
    for path in paths:
        with np.load(path) as stored:
            meta = json.loads(str(stored["meta"]))
            parts = {}
            for name in ("y", "ahead", "at", "reach", "features"):
                ends = np.cumsum(stored[f"{name}_lengths"])[:-1]
                parts[name] = np.split(stored[name], ends)
        runs += [m | {name: parts[name][i] for name in parts} for i, m in enumerate(meta)]
    return runs


def rows_of(runs: Sequence[dict[str, Any]], per_run: int = PER_RUN) -> Rows:
    """Checkpoints and horizons of all runs with what was gained."""
    rng = np.random.default_rng(0)
    x, z, number = [], [], []
    for i, run in enumerate(runs):
        ahead, total = run["ahead"].astype(np.float64), len(run["ahead"])
        pairs = []
        for c, n in enumerate(run["at"]):
            ends = [n + m for m in HORIZONS if n + m <= total]
            if run["noisy"]:
                ends = [int(e) for e in [*run["at"], total] if e > n]
            pairs += [(c, int(n), e - int(n)) for e in ends if math.isfinite(ahead[e - 1])]
        for k in rng.permutation(len(pairs))[:per_run]:
            c, n, m = pairs[k]
            share = (ahead[n - 1] - ahead[n + m - 1]) / run["reach"][c]
            x.append(unpacked(run["features"][c], n, run["dim"], np.array([float(m)]))[0])
            z.append(math.log10(share) if share > ZERO else FLOOR)
            number.append(i)
    run_of = np.array(number)
    each = 1.0 / np.bincount(run_of, minlength=len(runs))
    families = np.array([run["family"] for run in runs])
    size = {name: int((families == name).sum()) for name in set(families)}
    weight = np.array([each[i] / size[runs[i]["family"]] for i in run_of])
    return Rows(np.array(x), np.array(z), run_of, weight * len(weight) / weight.sum())


# ---------------------------------------------------------------- models


class Spread(NamedTuple):
    """A forecast of z: the chance that there is no gain, and quantiles at LEVELS where there is one."""

    none: Array
    quantiles: Array

    def at(self, level: float | Array) -> Array:
        """The quantile of z, FLOOR where no gain is that likely."""
        level = np.broadcast_to(np.asarray(level, dtype=np.float64), self.none.shape)
        inner = np.clip((level - self.none) / np.maximum(1.0 - self.none, 1e-9), 0.0, 1.0)
        found = np.array([np.interp(a, LEVELS, q) for a, q in zip(inner, self.quantiles, strict=True)])
        return np.where(level <= self.none, FLOOR, np.maximum(found, FLOOR))

    def place(self, z: Array, rng: np.random.Generator) -> Array:
        """Where z stands among the quantiles, in [0, 1]; uniform over the atom of no gain."""
        inner = np.array([np.interp(v, q, LEVELS) for v, q in zip(z, self.quantiles, strict=True)])
        spread = self.none + (1.0 - self.none) * inner
        return np.where(z <= FLOOR, self.none * rng.random(len(z)), spread)


def featureless(rows: Rows) -> Callable[[Array], Spread]:
    """The same quantiles for every row."""
    gains = rows.z > FLOOR
    none = float(np.average(~gains, weights=rows.weight))
    quantiles = weighted_quantile(rows.z[gains], rows.weight[gains], LEVELS)
    return lambda x: Spread(np.full(len(x), none), np.tile(quantiles, (len(x), 1)))


def weighted_quantile(v: Array, w: Array, levels: Array) -> Array:
    order = np.argsort(v)
    mass = np.cumsum(w[order]) - 0.5 * w[order]
    return np.interp(levels, mass / w.sum(), v[order])


def pool(rows: Rows, *, seeds: int = SEEDS, views: Sequence[Sequence[str]] = VIEWS, **options: Any) -> Forecaster:
    """Nets of several views, pooled."""
    parts = [net(rows, view=view, seeds=seeds, **options) for view in views]
    return Forecaster(parts[0].mean, parts[0].sd, [n for p in parts for n in p.nets], parts[0].levels, parts[0].moved)


def net(
    rows: Rows, *, view: Sequence[str] = NAMES, width: int = 32, epochs: int = 12, seeds: int = SEEDS,
    decay: float = 1e-4, drop: float = 0.03,
) -> Forecaster:  # fmt: skip
    """Small nets with two hidden layers, trained by the pinball loss and a cross-entropy. What a net is not shown has
    no weight in it."""
    import torch

    torch.set_num_threads(1)
    mean, sd = np.nanmean(rows.x, axis=0), np.maximum(np.nanstd(rows.x, axis=0), 1e-3)
    shown = np.array([name in view for name in NAMES] + [not set(view).isdisjoint(MODEL)])
    x = standardised(rows.x, mean, sd) * shown
    X, Z = torch.tensor(x, dtype=torch.float32), torch.tensor(rows.z, dtype=torch.float32)
    W = torch.tensor(rows.weight, dtype=torch.float32)
    levels = torch.tensor(LEVELS, dtype=torch.float32)
    found = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(X.shape[1], width), torch.nn.SiLU(), torch.nn.Linear(width, width), torch.nn.SiLU(),
            torch.nn.Linear(width, 1 + len(LEVELS)),
        )  # fmt: skip
        with torch.no_grad():
            model[4].bias[1] = -4.0
            model[4].weight *= 0.3
        optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=decay)
        steps = max(LEAST_STEPS, epochs * (len(X) // 1024))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            part = torch.randint(len(X), (1024,), generator=generator)
            out = model(X[part] * (torch.rand(1024, X.shape[1], generator=generator) > drop))
            q = out[:, 1:2] + torch.cat(
                [torch.zeros(len(part), 1), torch.cumsum(torch.nn.functional.softplus(out[:, 2:]) * STEEPNESS, 1)], 1
            )
            error = Z[part, None] - q
            pinball = torch.maximum(levels * error, (levels - 1) * error).mean(1)
            gains = (Z[part] > FLOOR).float()
            crossed = torch.nn.functional.binary_cross_entropy_with_logits(out[:, 0], 1 - gains, reduction="none")
            loss = (W[part] * (3.0 * gains * pinball + crossed)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        found.append([p.detach().numpy().astype(np.float64).T for p in model.parameters()])
        found[-1][0] = found[-1][0] * shown[:, None]
    return Forecaster(mean, sd, found, np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def by_net(rows: Rows, **options: Any) -> Callable[[Array], Spread]:
    fitted = net(rows, **options)
    return lambda x: Spread(*fitted.spread(x))


def by_pool(rows: Rows, **options: Any) -> Callable[[Array], Spread]:
    fitted = pool(rows, **options)
    return lambda x: Spread(*fitted.spread(x))


def by_trees(rows: Rows) -> Callable[[Array], Spread]:
    """Gradient-boosted trees, one model for each level."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    common = {"max_iter": 90, "max_leaf_nodes": 12, "learning_rate": 0.08, "min_samples_leaf": 60}
    gains = rows.z > FLOOR
    chance = HistGradientBoostingClassifier(**common).fit(rows.x, ~gains, sample_weight=rows.weight)
    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=float(level), **common).fit(
            rows.x[gains], rows.z[gains], sample_weight=rows.weight[gains]
        )
        for level in LEVELS
    ]
    return lambda x: Spread(
        chance.predict_proba(x)[:, 1], np.sort(np.column_stack([model.predict(x) for model in models]), axis=1)
    )


def by_lines(rows: Rows) -> Callable[[Array], Spread]:
    """A parametric form: location, log scale and chance of no gain are linear in the features."""
    from scipy.special import expit

    mean, sd = np.nanmean(rows.x, axis=0), np.maximum(np.nanstd(rows.x, axis=0), 1e-3)
    x = standardised(rows.x, mean, sd)
    A = np.column_stack([np.ones(len(x)), x])
    gains, w = rows.z > FLOOR, np.sqrt(rows.weight)

    def ridge(part: NDArray[np.bool_], target: Array) -> Array:
        B = A[part] * w[part, None]
        return np.linalg.solve(B.T @ B + 3.0 * np.eye(A.shape[1]), B.T @ (target * w[part]))

    centre = ridge(gains, rows.z[gains])
    off = rows.z[gains] - A[gains] @ centre
    size = ridge(gains, np.log(np.abs(off) + 0.05))
    shape = weighted_quantile(off / np.exp(A[gains] @ size), rows.weight[gains], LEVELS)
    logit = np.zeros(A.shape[1])
    for _ in range(8):
        p = expit(A @ logit)
        curve = rows.weight * np.maximum(p * (1 - p), 1e-4)
        logit += np.linalg.solve(
            (A * curve[:, None]).T @ A + 3.0 * np.eye(A.shape[1]), A.T @ (rows.weight * (~gains - p)) - 3.0 * logit
        )

    def predict(raw: Array) -> Spread:
        B = np.column_stack([np.ones(len(raw)), standardised(raw, mean, sd)])
        return Spread(expit(B @ logit), (B @ centre)[:, None] + np.exp(B @ size)[:, None] * shape)

    return predict


# ---------------------------------------------------------------- left out


def left_out(rows: Rows, groups: NDArray[Any], fit: Callable[[Rows], Callable[[Array], Spread]]) -> Spread:
    """Forecasts of each row by a model that saw nothing of its group."""
    none, quantiles = np.empty(len(rows.z)), np.empty((len(rows.z), len(LEVELS)))
    for group in sorted(set(groups)):
        out = groups == group
        spread = fit(rows.of(~out))(rows.x[out])
        none[out], quantiles[out] = spread
    return Spread(none, quantiles)


def pinball(z: Array, q: Array, level: float) -> Array:
    return np.maximum(level * (z - q), (level - 1) * (z - q))


def losses(rows: Rows, spread: Spread) -> list[float]:
    return [float(np.average(pinball(rows.z, spread.at(a), a), weights=rows.weight)) for a in (0.5, 0.8, 0.9)]


@dataclass
class Corrected:
    """Levels moved so that places of rows left out are uniform, each group counting the same."""

    levels: Array
    moved: Array

    @classmethod
    def by(cls, places: Array, weight: Array, margin: float = 0.0) -> Corrected:
        levels = np.linspace(0.0, 1.0, 101)
        moved = weighted_quantile(places, weight, levels)
        moved[0], moved[-1] = 0.0, 1.0
        high = np.maximum(moved, levels) + margin * (1.0 - np.maximum(moved, levels)) * levels
        low = np.minimum(moved, levels) * (1.0 - margin * (1.0 - levels))
        return cls(levels, np.where(levels > 0.5, high, np.where(levels < 0.35, low, moved)))

    def __call__(self, level: Array | float) -> Array:
        return np.interp(level, self.levels, self.moved)


def interval(spread: Spread, level: float, correct: Callable[[Any], Array]) -> tuple[Array, Array]:
    """The interval that ships: what the atom of no gain takes of the lower tail is given to the upper one."""
    tail = (1.0 - level) / 2.0
    low = spread.at(correct(tail))
    spare = np.where(low <= FLOOR, tail, 0.0)
    return low, spread.at(correct(1.0 - tail - spare))


def coverage(rows: Rows, low: Array, high: Array, groups: NDArray[Any]) -> tuple[float, dict[str, float]]:
    held = (rows.z >= low) & (rows.z <= high)
    each = {g: float(np.average(held[groups == g], weights=rows.weight[groups == g])) for g in sorted(set(groups))}
    return float(np.average(held, weights=rows.weight)), each


def judged(rows: Rows, groups: NDArray[Any], spread: Spread, correct: Callable[[Any], Callable[[Any], Array]]) -> str:
    """A table: how often the intervals held in each group, and the pinball losses beside those without features;
    `correct` gives the correction of levels for a group."""
    low, high = (np.empty((2, len(rows.z))) for _ in range(2))
    for group in set(groups):
        out = groups == group
        for i, level in enumerate((0.8, 0.95)):
            low[i, out], high[i, out] = interval(Spread(*(part[out] for part in spread)), level, correct(group))
    held = (rows.z >= low) & (rows.z <= high)
    base = losses(rows, left_out(rows, groups, featureless)) if len(set(groups)) > 1 else [1.0] * 3
    ratio = np.array(losses(rows, spread)) / np.array(base)

    def row(name: str, part: NDArray[np.bool_]) -> str:
        w = rows.weight[part]
        cover = " | ".join(f"{np.average(h[part], weights=w):.2f}" for h in held)
        none = np.average(rows.z[part] <= FLOOR, weights=w)
        return f"| {name} | {len(set(rows.run[part]))} | {int(part.sum())} | {cover} | {none:.2f} |"

    lines = [
        "| left out | runs | forecasts | .8 held | .95 held | no gain came |",
        "| --- | --- | --- | --- | --- | --- |", row("all", np.ones(len(rows.z), dtype=bool)),
        *(row(str(g), groups == g) for g in sorted(set(groups))),
    ]  # fmt: skip
    said = ", ".join(f"{r:.2f}" for r in ratio)
    return "\n".join([*lines, "", f"Pinball loss beside that without features at .5, .8, .9: {said}."])


MODELS: dict[str, Callable[[Rows], Callable[[Array], Spread]]] = {
    "featureless": featureless, "lines": by_lines, "net": by_net, "pool": by_pool, "trees": by_trees,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--models", default="featureless,lines,pool")
    parser.add_argument("--by", default="fold", help="what is left out at a time: fold (of families), family, source")
    parser.add_argument("--folds", type=int, default=6)
    parser.add_argument("--ship", type=Path, help="write the forecaster there")
    parser.add_argument(
        "--judge", choices=["family", "source", "fold", "shipped"], help="print tables of coverage and end"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    runs = read(options.records)
    rows = rows_of(runs)
    families = np.array([runs[i]["family"] for i in rows.run])
    names = sorted(set(families))
    groups = {
        "family": families, "source": np.array([runs[i]["source"] for i in rows.run]),
        "fold": np.array([names.index(f) % options.folds for f in families]),
    }[options.by]  # fmt: skip
    if options.judge:
        by = np.array([runs[i]["source"] for i in rows.run]) if options.judge == "source" else families
        if options.judge == "shipped":
            shipped = Forecaster.shipped()
            print(
                judged(
                    rows,
                    by,
                    Spread(*shipped.spread(rows.x)),
                    lambda _: lambda a: np.interp(a, shipped.levels, shipped.moved),
                )
            )
            return
        out = groups if options.judge == "fold" else by
        spread = left_out(rows, out, lambda kept: by_pool(kept, seeds=options.seeds))
        places = spread.place(rows.z, np.random.default_rng(1))
        print(judged(rows, by, spread, lambda g: Corrected.by(places[by != g], rows.weight[by != g], MARGIN)))
        return
    none = np.average(rows.z <= FLOOR, weights=rows.weight)
    print(f"{len(runs)} runs, {len(rows.z)} rows, {len(names)} families, no gain in {none:.2f}")
    base: list[float] = []
    for name in options.models.split(","):
        spread = left_out(rows, groups, MODELS[name])
        found = losses(rows, spread)
        base = base or found
        places = spread.place(rows.z, np.random.default_rng(1))
        cover = [float(np.average(places <= a, weights=rows.weight)) for a in JUDGED]
        ratio = np.array(found) / np.array(base)
        print(name, np.round(found, 3), "ratio", np.round(ratio, 3), "coverage", np.round(cover, 3), flush=True)
    if options.ship:
        correct = Corrected.by(places, rows.weight, MARGIN)
        fitted = pool(rows, seeds=options.seeds)
        fitted.levels, fitted.moved = correct.levels, correct.moved
        np.savez_compressed(options.ship, **fitted.arrays())
        print(f"{options.ship}: {options.ship.stat().st_size} bytes")


if __name__ == "__main__":
    main()
