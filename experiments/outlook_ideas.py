"""Ideas for the forecaster and for `Worth`, each on families left out: what they change of its losses, of its coverage
and of what a stop loses.

    python experiments/outlook_ideas.py runs/outlook/fresh.npz --part forecasts
    python experiments/outlook_ideas.py runs/outlook/fresh.npz --part bounds      # how far features can go at all
    python experiments/outlook_ideas.py runs/outlook/fresh.npz --part worth

Families are left out in --folds groups; every idea is fitted to the same rows. Intervals are corrected by the places of
all other families, as in outlook_fit.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from outlook_fit import (
    FLOOR,
    HORIZONS,
    LEVELS,
    MARGIN,
    VIEWS,
    Corrected,
    Rows,
    Spread,
    by_lines,
    by_pool,
    featureless,
    interval,
    left_out,
    losses,
    net,
    pool,
    read,
    rows_of,
    weighted_quantile,
)
from outlook_records import unpacked
from outlook_stops import COSTS, EPSILONS, RULES, WEIGHTS, by_regret, loss, whole

from regretless.outlook.forecast import TABLE, Forecaster
from regretless.outlook.forecast import pooled as pool_of
from regretless.outlook.progress import CURVE, NAMES

Array = NDArray[np.float64]
Fit = Callable[[Rows], Callable[[Array], Spread]]
LAST = CURVE.index("last m")


# ---------------------------------------------------------------- ways to forecast


def nets(seeds: int = 1, **options: Any) -> Fit:
    """Nets whose chances and quantiles are averaged."""

    def fit(rows: Rows) -> Callable[[Array], Spread]:
        f = net(rows, seeds=seeds, **options)
        alone = [Forecaster(f.mean, f.sd, [own], f.levels, f.moved) for own in f.nets]
        return lambda x: Spread(*(np.mean(part, axis=0) for part in zip(*(one.spread(x) for one in alone))))

    return fit


def once(fit: Fit) -> Fit:
    """The same, fitted once to the same rows however many ideas use it."""
    kept: dict[bytes, Callable[[Array], Spread]] = {}

    def fitted(rows: Rows) -> Callable[[Array], Spread]:
        key = rows.run.tobytes() + rows.weight.tobytes()
        return kept[key] if key in kept else kept.setdefault(key, fit(rows))

    return fitted


def trees(rows: Rows) -> Callable[[Array], Spread]:
    """Gradient-boosted trees of fewer levels than `by_trees` has, which take a fifth of its time."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    some = [0.05, 0.2, 0.5, 0.8, 0.9, 0.975]
    common: dict[str, Any] = {"max_iter": 45, "max_leaf_nodes": 10, "learning_rate": 0.12, "min_samples_leaf": 60}
    gains = rows.z > FLOOR
    chance = HistGradientBoostingClassifier(**common).fit(rows.x, ~gains, sample_weight=rows.weight)
    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, **common).fit(
            rows.x[gains], rows.z[gains], sample_weight=rows.weight[gains]
        )
        for level in some
    ]

    def predict(x: Array) -> Spread:
        known = np.sort(np.column_stack([model.predict(x) for model in models]), axis=1)
        return Spread(chance.predict_proba(x)[:, 1], np.array([np.interp(LEVELS, some, row) for row in known]))

    return predict


def averaged(*fits: Fit) -> Fit:
    """The mean of the chances and of the quantiles."""

    def fit(rows: Rows) -> Callable[[Array], Spread]:
        parts = [one(rows) for one in fits]

        def predict(x: Array) -> Spread:
            none, quantiles = zip(*(part(x) for part in parts), strict=True)
            return Spread(np.mean(none, axis=0), np.mean(quantiles, axis=0))

        return predict

    return fit


def pooled(*fits: Fit) -> Fit:
    """The mean of the distributions: where the parts disagree, it is wider than each of them."""

    def fit(rows: Rows) -> Callable[[Array], Spread]:
        parts = [one(rows) for one in fits]
        return lambda x: Spread(*pool_of(*zip(*(part(x) for part in parts))))

    return fit


def of_families(count: int, families: NDArray[Any], each: Fit) -> list[Fit]:
    """Fits that each see a random half of the families."""
    names = sorted(set(families))

    def half(k: int) -> Fit:
        mine = np.random.default_rng(k).permutation(names)[: len(names) // 2]
        return lambda rows: each(rows.of(np.isin(families[rows.run], mine)))

    return [half(k) for k in range(count)]


def own_zero(chance: Fit, gain: Fit) -> Fit:
    """The chance of no gain by one model, the gain by another."""
    return lambda rows: (lambda a, b: lambda x: Spread(a(x).none, b(x).quantiles))(chance(rows), gain(rows))


def after_last(fit: Fit) -> Fit:
    """Gains are forecast as shares of what the last m trials gained."""

    def shift(x: Array) -> Array:
        return np.maximum(x[:, LAST], -4.0)

    def fitted(rows: Rows) -> Callable[[Array], Spread]:
        gains = rows.z > FLOOR
        moved = np.where(gains, rows.z - shift(rows.x), FLOOR)
        moved[gains] = np.maximum(moved[gains], FLOOR + 1e-6)
        found = fit(rows._replace(z=moved))

        def predict(x: Array) -> Spread:
            none, quantiles = found(x)
            return Spread(none, quantiles + shift(x)[:, None])

        return predict

    return fitted


def hardest(families: NDArray[Any], fit: Fit, rounds: int = 3) -> Fit:
    """Families that are forecast badly get more weight (group-robust training)."""

    def fitted(rows: Rows) -> Callable[[Array], Spread]:
        group = families[rows.run]
        weight, found = rows.weight, fit(rows)
        for _ in range(rounds):
            spread = found(rows.x)
            bad = {g: losses(rows.of(group == g), Spread(*(p[group == g] for p in spread)))[1] for g in set(group)}
            weight = weight * np.array([bad[g] for g in group]) ** 0.5
            found = fit(rows._replace(weight=weight * len(weight) / weight.sum()))
        return found

    return fitted


# ---------------------------------------------------------------- tables


def worst_case(places: Array, weight: Array, group: NDArray[Any], share: float = 0.9) -> Corrected:
    """Levels moved so that they hold in this share of the families, not on average over them."""
    levels = np.linspace(0.0, 1.0, 101)
    each = np.array([weighted_quantile(places[group == g], weight[group == g], levels) for g in sorted(set(group))])
    low, high = np.quantile(each, 1.0 - share, axis=0), np.quantile(each, share, axis=0)
    moved = np.where(levels > 0.5, np.maximum(high, levels), np.where(levels < 0.35, np.minimum(low, levels), levels))
    moved[0], moved[-1] = 0.0, 1.0
    return Corrected(levels, np.maximum.accumulate(moved))


def line(name: str, rows: Rows, group: NDArray[Any], spread: Spread, base: Array, worst: bool = False) -> str:
    """Ratios of losses, coverage over all, and how many families fall short."""
    places = spread.place(rows.z, np.random.default_rng(1))
    held = np.empty((2, len(rows.z)), dtype=bool)
    width = np.empty((2, len(rows.z)))
    for g in set(group):
        out = group == g
        if worst:
            correct: Any = worst_case(places[~out], rows.weight[~out], group[~out])
        else:
            correct = Corrected.by(places[~out], rows.weight[~out], MARGIN)
        for i, level in enumerate((0.8, 0.95)):
            low, high = interval(Spread(*(part[out] for part in spread)), level, correct)
            held[i, out] = (rows.z[out] >= low) & (rows.z[out] <= high)
            width[i, out] = high - low
    ratio = np.array(losses(rows, spread)) / base
    each = {g: [float(np.average(h[group == g], weights=rows.weight[group == g])) for h in held] for g in set(group)}
    over = [float(np.average(h, weights=rows.weight)) for h in held]
    short = [sum(found[i] < least for found in each.values()) for i, least in enumerate((0.7, 0.88))]
    weakest = min(each, key=lambda g: each[g][0])
    cells = [
        *(f"{r:.2f}" for r in ratio), *(f"{c:.2f}" for c in over), f"{short[0]} and {short[1]}",
        f"{weakest} {each[weakest][0]:.2f}, {each[weakest][1]:.2f}", f"{np.average(width[0], weights=rows.weight):.2f}",
    ]  # fmt: skip
    return f"| {name} | {' | '.join(cells)} |"


HEAD = """| idea | loss at .5 | .8 | .9 | .8 holds | .95 holds | families below .70 and .88 | weakest | width of .8 |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def forecasts(runs: Sequence[Any], rows: Rows, folds: int, only: Sequence[str]) -> None:
    families = np.array([run["family"] for run in runs])
    group = families[rows.run]
    names = sorted(set(families))
    fold = np.array([names.index(g) % folds for g in group])
    one, two, boosted = nets(), once(nets(2)), once(trees)
    halves = [once(half) for half in of_families(6, families, one)]
    _, curve, model = VIEWS
    by_curve, by_model = once(nets(2, view=curve)), once(nets(2, view=model))
    ideas: dict[str, Fit] = {
        "one net": one,
        "two nets, averaged": two,
        "six nets of half the families each, averaged": averaged(*halves),
        "the same, pooled": pooled(*halves),
        "boosted quantile trees": boosted,
        "a parametric form": by_lines,
        "no gain by trees, the gain by nets": own_zero(boosted, two),
        "no gain by a net of its own": own_zero(nets(2, width=16), two),
        "gains relative to those of the last m trials": after_last(two),
        "curve alone": by_curve,
        "model alone": by_model,
        "curve, model and both, averaged": averaged(two, by_curve, by_model),
        "curve, model and both, pooled": pooled(two, by_curve, by_model),
        "nets and trees, averaged": averaged(two, boosted),
        "hard families weigh more": hardest(families, one),
        "wider and longer (64, 40 epochs)": nets(2, width=64, epochs=40),
        "stronger decay and dropout": nets(2, decay=0.3, drop=0.15),
    }
    labelled = {
        "with the share of labels": nets(2),
        "with the share of labels; curve, model and both, pooled": by_pool,
    }
    base = np.array(losses(rows, left_out(rows, fold, featureless)))
    print(HEAD, flush=True)
    unlabelled = rows._replace(x=rows.x * (np.array(NAMES) != "labels"))
    for name, fit in (ideas | labelled).items():
        if only and not any(part in name for part in only):
            continue
        spread = left_out(rows if name in labelled else unlabelled, fold, fit)
        print(line(name, rows, group, spread, base), flush=True)
        if name.startswith("two"):
            print(line("the same, levels that hold in 9 of 10 families", rows, group, spread, base, worst=True))


def bounds(runs: Sequence[Any], rows: Rows, folds: int) -> None:
    """What limits the losses: the kinds of runs, and families that have no part."""
    families = np.array([run["family"] for run in runs])
    group, names = families[rows.run], sorted(set(families))
    fold = np.array([names.index(g) % folds for g in group])
    base, two = left_out(rows, fold, featureless), left_out(rows, fold, nets(2))
    plain = np.array(
        [r["optimiser"] == "auto" and not r["noisy"] and r["batch"] == 1 and not r["forbidden"] for r in runs]
    )
    parts = {
        "all runs": np.ones(len(rows.z), dtype=bool),
        "`auto`, exact, one at a time, nothing forbidden": plain[rows.run],
        "the same, up to six parameters": plain[rows.run] & np.array([r["dim"] <= 6 for r in runs])[rows.run],
        "other optimisers": np.array([r["optimiser"] != "auto" for r in runs])[rows.run],
        "noisy": np.array([r["noisy"] for r in runs])[rows.run],
        "where a gain came": rows.z > FLOOR,
    }  # fmt: skip

    def ratios(spread: Spread, kept: NDArray[np.bool_]) -> str:
        own, other = (losses(rows.of(kept), Spread(*(p[kept] for p in s))) for s in (spread, base))
        return " | ".join(f"{a / b:.2f}" for a, b in zip(own, other, strict=True))

    print("| forecasts of | rows | loss at .5 | .8 | .9 |\n| --- | --- | --- | --- | --- |")
    for name, kept in parts.items():
        print(f"| {name} | {int(kept.sum())} | {ratios(two, kept)} |", flush=True)
    by_run = np.random.default_rng(3).integers(folds, size=len(runs))[rows.run]
    known = parts["all runs"]
    seen = left_out(rows, by_run, nets(2))
    print(f"| all runs, families known, runs left out | {len(rows.z)} | {ratios(seen, known)} |", flush=True)
    places = two.place(rows.z, np.random.default_rng(1))
    print(
        "| family | above the .9 quantile | below the .1 quantile | no gain forecast, came |\n| --- | --- | --- | --- |"
    )
    for g in ("nas-tables", "narrow-peaks", "labels", "mechanistic", "needles", "mlp-tables", "boosting"):
        own, w = group == g, rows.weight[group == g]
        none = np.average(two.none[own], weights=w), np.average(rows.z[own] <= FLOOR, weights=w)
        tails = np.average(places[own] > 0.9, weights=w), np.average(places[own] < 0.1, weights=w)
        print(f"| {g} | {tails[0]:.2f} | {tails[1]:.2f} | {none[0]:.2f}, {none[1]:.2f} |")


# ---------------------------------------------------------------- Worth


def fans(runs: Sequence[Any], gains: Callable[[Array], Array], name: str) -> None:
    for run in runs:
        x = [
            unpacked(run["features"][c], int(n), run["dim"], np.array(HORIZONS, dtype=float))
            for c, n in enumerate(run["at"])
        ]
        found = gains(np.concatenate(x)).reshape(len(x), len(HORIZONS), -1)
        run[name] = np.maximum.accumulate(found, axis=1)


def gains_of(spread: Spread) -> Array:
    rows = []
    for chance, own in zip(spread.none, spread.quantiles, strict=True):
        inner = np.clip((TABLE - chance) / max(1.0 - chance, 1e-9), 0.0, 1.0)
        rows.append(np.where(chance >= TABLE, 0.0, 10.0 ** np.interp(inner, LEVELS, own)))
    return np.array(rows)


def mean_of_shares(rows: Rows) -> Any:
    """The mean gain, learnt by squares of shares rather than from quantiles of their logarithms."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    share = np.where(rows.z > FLOOR, np.minimum(10.0**rows.z, 3.0), 0.0) + 1e-6
    found = HistGradientBoostingRegressor(
        loss="gamma", max_iter=80, max_leaf_nodes=10, learning_rate=0.08, min_samples_leaf=60
    ).fit(rows.x, share, sample_weight=rows.weight)
    return lambda x: found.predict(x)[:, None]


def worth(runs: Sequence[Any], rows: Rows, folds: int) -> None:
    families = np.array([run["family"] for run in runs])
    names = sorted(set(families))
    fold = np.array([names.index(f) % folds for f in families])
    by_run = np.random.default_rng(3).integers(folds, size=len(runs))
    for k in range(folds):
        for name, groups in (("fan", fold), ("known", by_run)):
            kept, out = rows.of(groups[rows.run] != k), [r for r, g in zip(runs, groups, strict=True) if g == k]
            fitted: Forecaster = pool(kept, seeds=2)
            fans(out, fitted.gains, name)
            if name == "fan":
                fans(out, mean_of_shares(kept), "means")
                boosted = trees(kept)
                fans(out, lambda x: gains_of(boosted(x)), "trees")  # noqa: B023
    exact = [run for run in runs if not run["noisy"]]
    m = np.array(HORIZONS, dtype=float)
    LOOKS: dict[tuple[int, str], Array] = {}

    def gain(run: Any, name: str, level: float | None) -> Array:
        """Checkpoints x horizons, in shares of the whole gain."""
        key = id(run), f"{name} {level}"
        if key not in LOOKS:
            fan = run[name]
            own = (
                fan[:, :, 0]
                if fan.shape[2] == 1
                else fan @ WEIGHTS
                if level is None
                else fan[:, :, int(np.argmin(np.abs(TABLE - level)))]
            )
            LOOKS[key] = own * (run["reach"] / whole(run))[:, None]
        return LOOKS[key]

    def since(run: Any, n: int) -> int:
        best = -run["ahead"].astype(float)[:n]
        steps = np.flatnonzero(np.diff(best) > 1e-9 * whole(run)) + 1
        return n - 1 - (int(steps[-1]) if len(steps) else 0)

    def rule(
        name: str = "fan",
        level: float | None = None,
        factor: float = 1.0,
        least: float = 0,
        most: float = 1e9,
        wait: Callable[[Any], float] = lambda run: 0,
        row: int = 1,
        also: Any = None,
    ) -> Callable[[Any, float], int]:
        looked = (m >= least) & (m <= most)

        def stop(run: Any, cost: float) -> int:
            ok = (factor * gain(run, name, level)[:, looked] < cost * m[looked]).all(axis=1)
            count = 0
            for c, n in enumerate(run["at"]):
                held = ok[c] and since(run, int(n)) >= wait(run) and (also is None or also(run, cost, c))
                count = count + 1 if held else 0
                if count >= row:
                    return int(n)
            return len(run["y"])

        return stop

    places = [NAMES.index("expected anywhere"), NAMES.index("expected nearby")]

    def small_expected(run: Any, cost: float, c: int) -> bool:
        return bool(10.0 ** run["features"][c, places].astype(float).max() * run["reach"][c] < cost * whole(run))

    rules: dict[str, Any] = {
        **{name: stop for name, stop in RULES.items() if name != "worth"},
        "**Worth: the mean, every m**": rule(),
        **{f"the {q:g} quantile": rule(level=q) for q in (0.5, 0.7, 0.8, 0.9, 0.95)},
        **{f"the mean times {f:g}": rule(factor=f) for f in (1.5, 2, 3, 5)},
        **{f"m of at least {k}": rule(least=k) for k in (3, 5, 8, 12)},
        "m = 20 alone": rule(least=20, most=20), "m up to 20": rule(most=20),
        "m of 50 and 80": rule(least=50),
        **{f"not before {k} trials without gain": rule(wait=lambda run, k=k: k) for k in (3, 5, 10, 20)},
        "not before 2 d trials without gain": rule(wait=lambda run: 2 * run["dim"]),
        "two looks in a row": rule(row=2), "three looks in a row": rule(row=3),
        "and expected improvement below the cost": rule(also=small_expected),
        "the mean times 2, two looks in a row": rule(factor=2, row=2),
        "the mean learnt by shares, not by quantiles": rule("means"),
        "the same times 2": rule("means", factor=2),
        "trees": rule("trees"),
        "families known": rule("known"),
    }  # fmt: skip
    own = sorted({run["family"] for run in exact})

    def mean(stop: Any, cost: float) -> float:
        each = {f: [loss(r, stop(r, cost), cost) for r in exact if r["family"] == f] for f in own}
        return float(np.mean([np.mean(found) for found in each.values()]))

    print(
        f"{len(exact)} runs without noise\n| rule | "
        + " | ".join(f"{c:g}" for c in COSTS)
        + " |\n| --- |"
        + " --- |" * len(COSTS)
    )
    for name, stop in rules.items():
        print(f"| {name} | " + " | ".join(f"{mean(stop, c):.4f}" for c in COSTS) + " |", flush=True)
    best = [min(mean(by_regret(eps), cost) for eps in EPSILONS) for cost in COSTS]
    print("| probable regret, best eps | " + " | ".join(f"{b:.4f}" for b in best) + " |")
    fixed = []
    for cost in COSTS:
        total = 0.0
        for f in own:
            mine = [r for r in exact if r["family"] == f]
            total += min(
                np.mean([loss(r, min(len(r["y"]), max(int(r["at"][0]), round(k * r["dim"]))), cost) for r in mine])
                for k in np.geomspace(1, 40, 40)
            )
        fixed.append(total / len(own))
    print("| the best multiple of d of each family, in hindsight | " + " | ".join(f"{b:.4f}" for b in fixed) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--part", choices=["forecasts", "bounds", "worth"], required=True)
    parser.add_argument("--folds", type=int, default=7, help="groups of families, each left out once")
    parser.add_argument("--only", default="", help="parts of the names of ideas, with commas between them")
    options = parser.parse_args()
    runs = read(options.records)
    rows = rows_of(runs)
    if options.part == "forecasts":
        forecasts(runs, rows, options.folds, [name for name in options.only.split(",") if name])
    elif options.part == "bounds":
        bounds(runs, rows, options.folds)
    else:
        worth(runs, rows, options.folds)


if __name__ == "__main__":
    main()
