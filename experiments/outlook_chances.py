"""Ideas for the probability that one setting is better than another (`rg.compare`), on families left out.

    python experiments/outlook_chances.py --runs 6 --minutes 7 --out runs/outlook/noisy.json      # record noisy runs
    python experiments/outlook_chances.py runs/outlook/noisy.json [--every 7]                     # judge

The runs are those of `outlook_settings.py`, kept whole. At their checkpoints pairs of settings are compared by several
models; an idea gives the probability that the second setting is better. What an idea has to choose, it chooses on all
families but the one judged. A tie, two settings whose values without noise are equal, counts as half right.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from outlook_records import KINDS, NOISE, STREAM, _spread
from outlook_settings import AT, FAMILIES
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr, ndtri, stdtr
from scipy.stats import rankdata

from regretless.basics.streams import keyed_generator
from regretless.models.gp.kernels import squared_distances
from regretless.models.gp.surrogate import Surrogate
from regretless.optimizer import Optimizer
from regretless.outlook import estimates as module
from regretless.outlook.estimates import Estimates
from regretless.space.parameters import Array

Chances = Callable[[Array], Array]
BAND = (0.85, 0.95)
"""Statements of these probabilities are judged."""


def made(family: str, number: int) -> tuple[Any, bool]:
    """The problem of a run, and whether its noise is told."""
    rng = keyed_generator(number, sum(family.encode()), stream=STREAM)
    problem = KINDS[family].make(number, rng)
    problem.noise_sd, problem.seed = float(rng.choice(NOISE)) * _spread(problem), number
    return problem, bool(rng.random() < 0.3)


def record(family: str, number: int) -> dict[str, Any]:
    """A noisy run of `auto`: its points, values and truth, and the moments at which its noise shows."""
    problem, told = made(family, number)
    opt = Optimizer(problem.space, direction=problem.direction, budget=AT[-1], seed=number)
    X, y, true, moments = [], [], [], []
    while len(opt.trials) < AT[-1]:
        trial = opt.ask()
        value = problem.observe(trial.params).y
        opt.tell(trial, value, var=problem.noise_sd**2 if told else None)
        X.append(opt.space.encode(trial.given).tolist())
        y.append(problem.sign * float(value))
        true.append(problem.sign * float(problem.true(trial.params)))
        if len(opt.trials) in AT and opt.method.noise(opt.history).shows:
            moments.append([len(opt.trials), opt.space.encode(opt.recommend()).tolist()])
    return {"family": family, "number": number, "X": X, "y": y, "true": true, "moments": moments}


class Moment:
    """What was known at a moment, and what models other than the shipped one would say."""

    def __init__(self, run: dict[str, Any], n: int, cube: Any, variance: float) -> None:
        self.n, X, y = n, np.array(run["X"][:n]), np.array(run["y"][:n])
        self.settings, first, at = np.unique(X, axis=0, return_index=True, return_inverse=True)
        self.at, self.truth = at.ravel(), np.array(run["true"])[first]
        self.known = Estimates(cube, X, y, np.full(n, variance), sign=1.0, noisy=True)
        self.gp = self.known.gp
        values, _ = self.known.compressed(self.known.y)
        self.values = (values - self.gp.offset) / self.gp.scale
        mean, C = self.known.joint(self.settings)
        self.models = {"model": (mean, C / module.WIDER**2)}
        for name, scale in (("short", 2.0), ("shorter", 1 / 0.35)):
            self.models[name] = self._model("matern", scale, 0.0, 1.0)[1:]
        rough = [self._model("exp", s, 0.0, k) for s in (0.125, 0.25, 0.5, 1.0, 2.0) for k in (0.1, 0.3, 1.0, 2.0)]
        own = [self._model("matern", 1.0, t, k) for t in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0) for k in (0.1, 0.3, 1.0, 2.0)]
        scaled = [self._model("matern", s, 0.0, k) for s in (0.7, 1.0, 1.5, 2.0, 3.0) for k in (0.3, 1.0, 2.0)]
        self.models["exponential"] = max(rough, key=lambda m: m[0])[1:]
        self.models["nugget"] = max(own, key=lambda m: m[0])[1:]
        every = [*rough, *own, *scaled]
        weight = np.exp(np.array([m[0] for m in every]) - max(m[0] for m in every))
        weight /= weight.sum()
        centre = sum(w * m[1] for w, m in zip(weight, every, strict=True))
        spread = sum(w * (m[2] + np.outer(m[1] - centre, m[1] - centre)) for w, m in zip(weight, every, strict=True))
        self.models["average"] = centre, spread
        ranked = Surrogate(cube, clip=False, fresh_only=True).gp(X, ndtri((rankdata(y) - 0.5) / n), np.full(n, np.nan))
        by_rank = Estimates(cube, X, y, np.full(n, variance), sign=1.0, noisy=True)
        by_rank.__dict__["gp"] = ranked
        mean, C = by_rank.joint(self.settings)
        self.models["ranks"] = mean, C / module.WIDER**2

    def _gram(self, A: Array, B: Array, kind: str, scale: float) -> Array:
        factor = self.gp.factor
        r2 = squared_distances(A * factor.inverse_scales * scale, B * factor.inverse_scales * scale)
        K = factor.kernel.base(r2) if kind == "matern" else np.exp(-np.sqrt(np.maximum(r2, 0.0)))
        factor.kernel.add_trend(K, A, B, self.gp.hyper.quadratic)
        return np.asarray(K)

    def _model(self, kind: str, scale: float, own: float, noise: float) -> tuple[float, Array, Array]:
        """The log likelihood, means and covariances of the settings; `own`: the variance of what is each one's own."""
        factor = self.gp.factor
        Z, Zx, place = factor.embed(self.settings), factor.Z, np.arange(len(self.settings))
        K = self._gram(Zx, Zx, kind, scale) + own * (self.at[:, None] == self.at)
        A = cho_factor(K + np.diag(factor.noise[: self.n] * noise + 1e-8), lower=True)
        one = cho_solve(A, np.ones(self.n))
        m = (one @ self.values) / one.sum()
        weights = cho_solve(A, self.values - m)
        s2 = ((self.values - m) @ weights + 1.0) / (self.n + 1)
        cross = self._gram(Z, Zx, kind, scale) + own * (place[:, None] == self.at)
        C = self._gram(Z, Z, kind, scale) + own * np.eye(len(Z)) - cross @ cho_solve(A, cross.T)
        likelihood = -0.5 * (self.n + 1) * math.log(s2) - float(np.log(np.diag(A[0])).sum())
        return likelihood, m + cross @ weights, s2 * C

    def pairs(self, best: Array, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        """The recommended setting with others, and pairs of the best ones: what each idea has of them."""
        mean = self.models["model"][0]
        same = np.flatnonzero((self.settings == best).all(axis=1))
        at = int(same[0]) if len(same) else int(np.argmax(mean))
        top = np.argsort(-mean, kind="stable")[:10]
        chosen = [(at, int(j)) for j in rng.permutation(len(mean))[:12] if j != at]
        chosen += [(int(a), int(b)) for a, b in rng.choice(top, (8, 2)) if a != b]
        count = np.bincount(self.at)
        means = np.bincount(self.at, weights=self.values) / count
        noise = float(np.mean(self.gp.factor.noise)) * self.gp.signal
        residual, inverse = self._left_out()
        worst = np.array([np.abs(residual / inverse)[self.at == i].max() for i in range(len(mean))])
        for i, j in chosen:
            row = {
                name: float(m[j] - m[i]) / math.sqrt(max(C[i, i] + C[j, j] - 2 * C[i, j], 1e-12))
                for name, (m, C) in self.models.items()
            }
            raw = float(means[j] - means[i]) / math.sqrt(noise * (1 / count[i] + 1 / count[j]))
            ahead = float(self.truth[j] > self.truth[i]) + 0.5 * float(self.truth[j] == self.truth[i])
            yield {
                **row, "raw": raw, "won": ahead, "left out": float(np.sqrt(np.mean((residual / inverse) ** 2))),
                "own left out": float(max(worst[i], worst[j])), "freedom": int(self.n - len(mean)),
            }  # fmt: skip

    def _left_out(self) -> tuple[Array, Array]:
        """The residuals of each value left out, and their standard deviations."""
        factor = self.gp.factor
        A = self._gram(factor.Z, factor.Z, "matern", 1.0) + np.diag(factor.noise[: self.n] + 1e-8)
        inverse = np.linalg.inv(A)
        return inverse @ (self.values - self.values.mean()) / inverse.diagonal(), np.sqrt(
            self.gp.signal / inverse.diagonal()
        )


# ---------------------------------------------------------------- the judgement


def scaled(z: Array, won: Array, weight: Array, family: NDArray[Any], chances: Chances) -> Array:
    """Probabilities from standardised differences, divided by the factor that fits all families but the own one."""
    found = np.empty(len(z))
    for f in sorted(set(family)):
        out = family == f

        def excess(k: float, rest: NDArray[np.bool_] = ~out) -> float:
            p = chances(np.abs(z[rest]) / k)
            band = (p > BAND[0]) & (p < BAND[1])
            right = np.where(z[rest] > 0, won[rest], 1 - won[rest])
            return abs(float(np.average((right - p)[band], weights=weight[rest][band]))) if band.sum() >= 30 else 1.0

        found[out] = chances(z[out] / min(np.arange(0.6, 5.0, 0.04), key=excess))
    return found


def line(name: str, q: Array, won: Array, weight: Array, family: NDArray[Any]) -> str:
    """What is right of the statements of BAND: over all, without ties, and in the families below .8."""
    p, right = np.maximum(q, 1 - q), np.where(q > 0.5, won, 1 - won)
    band = (p > BAND[0]) & (p < BAND[1])
    clear = band & (won != 0.5)
    each = {f: (right[band & (family == f)].mean(), (band & (family == f)).sum()) for f in sorted(set(family[band]))}
    low = ", ".join(f"{f} {r:.2f} of {n}" for f, (r, n) in each.items() if r < 0.8)
    brier = np.average((q - won) ** 2, weights=weight)
    cells = (
        f"{np.average(right[band], weights=weight[band]):.2f} | {np.average(right[clear], weights=weight[clear]):.2f}"
    )
    return f"| {name} | {band.sum()} | {cells} | {low or '-'} | {brier:.3f} |"


def judged(rows: list[dict[str, Any]]) -> str:
    """The table of ideas."""
    family, won = np.array([r["family"] for r in rows]), np.array([r["won"] for r in rows])
    weight = np.array([1.0 / (family == f).sum() for f in family])
    of = {k: np.array([float(r[k]) for r in rows]) for k in rows[0] if k != "family"}
    z = of["model"]

    def fitted(z: Array, chances: Chances = lambda x: stdtr(3, x)) -> Array:
        return scaled(z, won, weight, family, chances)

    shipped, raw = fitted(z), fitted(of["raw"])
    rough, ranks, nugget = fitted(of["exponential"]), fitted(of["ranks"]), fitted(of["nugget"])
    ideas = {
        "**as it ships**": shipped,
        "Student's t, 1.5 degrees": fitted(z, lambda x: stdtr(1.5, x)),
        "Student's t, 6 degrees": fitted(z, lambda x: stdtr(6, x)),
        "normal": fitted(z, ndtr),
        "sd times the size of residuals left out": fitted(z / np.maximum(of["left out"], 1)),
        "sd times the root of the pair's own": fitted(z / np.sqrt(np.maximum(of["own left out"], 1))),
        "length-scales times .5": fitted(of["short"]),
        "length-scales times .35": fitted(of["shorter"]),
        "exponential kernel": rough,
        "each setting has something of its own (nugget)": nugget,
        "average of 59 models by likelihood": fitted(of["average"]),
        "ranks in place of values": ranks,
        "values alone": raw,
        "model and values, .7 and .3": 0.7 * shipped + 0.3 * raw,
        "model and values, half each": 0.5 * shipped + 0.5 * raw,
        "model, exponential, ranks, a third each": (shipped + rough + ranks) / 3,
        "exponential and nugget, half each": 0.5 * rough + 0.5 * nugget,
        **{f"drawn towards .5 by {w:g}": 0.5 + (1 - w) * (shipped - 0.5) for w in (0.03, 0.06, 0.1)},
    }
    ties = {f: np.mean(won[family == f] == 0.5) for f in sorted(set(family))}
    said = ", ".join(f"{f} {t:.2f}" for f, t in ties.items() if t > 0.02)
    head = "| idea | statements | right | without ties | families below .8 | Brier |\n|" + " --- |" * 6
    table = [line(name, q, won, weight, family) for name, q in ideas.items()]
    return "\n".join([f"{len(rows)} pairs, {len(ties)} families; ties: {said}", head, *table])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--first", type=int, default=9000)
    parser.add_argument("--every", type=int, default=1, help="judge every so many runs alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.out is not None:
        until = time.monotonic() + 60 * options.minutes
        work = [(f, n) for n in range(options.first, options.first + options.runs) for f in FAMILIES]
        options.out.write_text(json.dumps([record(*task) for task in work if time.monotonic() < until]))
        return
    rows = []
    for run in [run for path in options.records for run in json.loads(path.read_text())][:: options.every]:
        problem, told = made(run["family"], run["number"]) if run["moments"] else (None, False)
        for n, best in run["moments"]:
            assert problem is not None
            variance = problem.noise_sd**2 if told else math.nan
            rng = keyed_generator(run["number"] * 100 + n, 14, stream=STREAM)
            moment = Moment(run, n, problem.space.cube(), variance)
            rows += [{"family": run["family"], **pair} for pair in moment.pairs(np.array(best), rng)]
    print(judged(rows))


if __name__ == "__main__":
    main()
