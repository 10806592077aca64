"""GO-UCB: the low-rank ball against dense Sherman-Morrison, the batched oracle against scipy's trust-region solver, and
the cost of an ask.

CPU time on one thread; every comparison is made within one run and reported as a ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from regretless_bench.problems import make_problem
from scipy.linalg import blas
from scipy.optimize import least_squares

from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.default import GOUCB
from regretless.methods.go_ucb.oracle import fit_least_squares
from regretless.methods.go_ucb.parametric import user_units
from regretless.methods.go_ucb.user_model import UserFunction
from regretless.models.gp.sobol import sobol_points
from regretless.space.parameters import Array

LAM = 0.0025
MECHANISTIC = ("hill-temperature", "michaelis-inhibition", "gompertz-growth", "drug-timing", "three-gaussians")


def main() -> None:
    ball()
    oracle()
    asks()


def cpu(work: Callable[[], object], repeats: int) -> float:
    """The least CPU seconds of one call over `repeats` calls."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time_ns()
        work()
        best = min(best, (time.process_time_ns() - start) / 1e9)
    return best


class Dense:
    """Sigma^-1 kept as a matrix: Sherman-Morrison (Lemma B.2) in place."""

    def __init__(self, anchor: Array, lam: float) -> None:
        self.inverse = np.asfortranarray(np.eye(len(anchor)) / lam)
        self.b = lam * anchor

    def append(self, g: Array, r: float) -> None:
        v = self.inverse @ g
        blas.dger(-1.0 / (1.0 + float(g @ v)), v, v, a=self.inverse, overwrite_a=1)
        self.b = self.b + r * g

    def centre(self) -> Array:
        w: Array = self.inverse @ self.b
        return w


def ball() -> None:
    print("ball: microseconds, low rank / dense Sherman-Morrison")
    for p, T in ((551, 64), (551, 200), (2551, 64), (2551, 200)):
        rows = (f"{name} {1e6 * a:.0f} / {1e6 * b:.0f} = {a / b:.4f}" for name, a, b in ball_times(p, T))
        print(f"  d_w={p} T={T}: {'; '.join(rows)}")


def ball_times(p: int, T: int) -> list[tuple[str, float, float]]:
    """CPU seconds of an append, of w_hat and of 500 candidates, low rank and dense, with T rows."""
    rng = np.random.default_rng(0)
    anchor, G, extra, Q = (rng.standard_normal(shape) for shape in (p, (T, p), (30, p), (500, p)))
    low, dense = Ball(anchor, 1.0, G, np.ones(T)), Dense(anchor, 1.0)
    for g in G[:20]:
        dense.append(g, 1.0)
    appends = []
    for g in extra:
        fresh = Ball(anchor, 1.0, G, np.ones(T))
        begin = time.process_time_ns()
        fresh.append(g, 1.0)
        appends.append((time.process_time_ns() - begin) / 1e9)
    return [
        ("append", float(np.median(appends)), cpu(lambda: dense.append(extra[0], 1.0), 5)),
        ("w_hat", cpu(low.centre, 30), cpu(dense.centre, 5)),
        ("500 candidates", cpu(lambda: low.norms(Q), 5), cpu(lambda: np.einsum("ij,ij->i", Q @ dense.inverse, Q), 2)),
    ]


def oracle(truths: int = 20) -> None:
    print(f"oracle: n = 2 d_w Sobol points, noise 1.5 % of the range, {truths} truths, 24 starts")
    for name in MECHANISTIC:
        r2, cost, ours_s, theirs_s = [], [], 0.0, 0.0
        for seed in range(500, 500 + truths):
            problem = make_problem(name, seed=seed)
            family = UserFunction(problem.model, problem.model.w_bounds)
            units = user_units(problem.space)
            X = sobol_points(2 * family.p, len(problem.space), np.random.default_rng(seed))
            x, y = units(X), problem.evaluate_unit(X)
            family.check(x)
            m, s = float(y.mean()), float(y.std())

            def standard(
                V: Array, x: Array = x, family: UserFunction = family, m: float = m, s: float = s
            ) -> tuple[Array, Array]:
                F, J = family.jacobian(V, x)
                return (F - m) / s, J / s

            z, starts = (y - m) / s, family.starts(24, np.random.default_rng(seed))
            begin = time.process_time()
            fits = fit_least_squares(standard, z, starts, reach=1.0, lam=LAM)
            ours_s += time.process_time() - begin
            grid = sobol_points(1024, len(problem.space), np.random.default_rng(1))
            truth = problem.true_unit(grid)
            r2.append(1 - np.mean((family.jacobian(fits.v[:1], units(grid))[0][0] - truth) ** 2) / np.var(truth))
            if seed < 503:
                begin = time.process_time()
                best = min(
                    2
                    * least_squares(
                        lambda v, standard=standard, z=z: np.append(standard(v[None])[0][0] - z, np.sqrt(LAM) * v),
                        start,
                        jac=lambda v, standard=standard: np.vstack(
                            [standard(v[None])[1][0], np.sqrt(LAM) * np.eye(len(v))]
                        ),
                        bounds=(-1, 1),
                    ).cost
                    for start in starts
                )
                theirs_s += time.process_time() - begin
                cost.append(fits.cost[0] / best)
        print(
            f"  {name}: test R^2 median {np.median(r2):.4f} (least {np.min(r2):.3f}); best cost / scipy TRF, "
            f"worst of {len(cost)}: {max(cost):.4f}; "
            f"CPU {1e3 * ours_s / truths:.0f} ms against {1e3 * theirs_s / len(cost):.0f}"
        )


def asks(T: int = 20) -> None:
    print("ask: CPU ms, mean (largest) over Phase II")
    cases = [(name, {}, {}) for name in MECHANISTIC] + [
        ("teacher-net", {"dim": 10, "width": 10}, {"model": "mlp", "width": 10}),
        ("random-quadratic", {"dim": 8}, {"model": "quadratic"}),
        ("go-ucb-f1", {}, {"model": "sigmoid-net", "width": 25}),
        ("go-ucb-f1", {}, {"preset": "paper"}),
    ]
    for name, options, model in cases:
        problem = make_problem(name, seed=0, **options)
        model = model or {"model": problem.model}
        n = 40 if name == "go-ucb-f1" else 30
        for guard in (True, False):
            method = GOUCB(len(problem.space), seed=0, budget=n + T, initial=n, guard=guard, **model)
            method.bind(problem.space, problem.sign)
            X = sobol_points(n, len(problem.space), np.random.default_rng(0))
            method.tell(X, problem.sign * problem.evaluate_unit(X))
            times = []
            for _ in range(T):
                begin = time.process_time()
                x = method.ask()
                times.append(1e3 * (time.process_time() - begin))
                method.tell(x, problem.sign * problem.evaluate_unit(x))
            label = "printed" if model.get("preset") else f"d_w={method.family.p}{'' if guard else ', no guard'}"
            print(f"  {name} {label}: {np.mean(times[1:]):.0f} ({np.max(times):.0f}, the first {times[0]:.0f})")
            if model.get("preset"):
                break


if __name__ == "__main__":
    main()
