"""The GP engine against Optuna's GPSampler and BoTorch: CPU time per ask, one thread, side by side in one run, and
against its own floor.

1. bbob, d = 5, 100 evaluations: the same functions and initial design. GPSampler keeps kernel parameters between asks,
   so it runs in sequence like ours; BoTorch keeps nothing, so it is asked at every sixteenth size of our history.
2. n = 1000, d = 20: told 1000 values, then asked. Ours is averaged over a whole cycle of its refit schedule.
3. n = 3000, d = 20, in a process of its own: time per ask over a cycle of the schedule, fits included, and peak memory.
4. The floor: every factorisation, inverse, triangular solve, product and exponential that one run makes, timed as bare
   calls of the same size.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter

import numpy as np
from regretless_bench.memory import peak_megabytes
from regretless_bench.peers import PEERS
from scipy.linalg import blas, lapack

from regretless.classics import CLASSICS
from regretless.method import Method
from regretless.models.gp import fit as fit_module
from regretless.models.gp.design import Design, design_size
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import FRESH_EVERY_LATE, SIZES, scheduled
from regretless.space import Cube
from regretless.space.parameters import Array

FUNCTIONS = (8, 15, 21)
"""A valley, regular ripples, and many random peaks."""
TARGETS = {"optuna-gp": 5.0, "botorch-logei": 30.0}


def main() -> None:
    small_data()
    n_1000()
    subprocess.run([sys.executable, "-m", "benchmarks.gp_engine", "3000"], check=True)
    floor()


# ---------------------------------------------------------------- problems and clocks


def bbob(function: int, dim: int) -> object:
    import cocoex

    return cocoex.Suite("bbob", "instances:1", f"dimensions:{dim} function_indices:{function}")[0]


def values(problem: object, X: Array) -> Array:
    return np.array([-problem(10 * x - 5) for x in X])  # type: ignore[operator]


def ripples(X: Array) -> Array:
    d = X.shape[1]
    result: Array = -((X - 0.37) ** 2) @ np.linspace(1, 10, d) + 0.3 * np.cos(9 * X).sum(axis=1)
    return result


def asked(method: Method) -> tuple[Array, float]:
    start = time.process_time()
    x = method.ask()
    return x, time.process_time() - start


# ---------------------------------------------------------------- 1


def small_data(dim: int = 5, budget: int = 100) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in ("gp-ucb", "gp-ei", *TARGETS)}
    for function in FUNCTIONS:
        design = Design(Cube.box(dim), design_size(dim, budget), np.random.default_rng(function)).points[
            : design_size(dim, budget)
        ]
        history: tuple[Array, Array] | None = None
        for name in ("gp-ucb", "gp-ei", "optuna-gp"):
            problem, method = bbob(function, dim), {**CLASSICS, **PEERS}[name].build(dim, seed=0, budget=budget)
            method.tell(design, values(problem, design))
            for _ in range(budget - len(design)):
                x, took = asked(method)
                seconds[name].append(took)
                method.tell(x, values(problem, x))
            history = history or (method.X.copy(), method.y.copy())
        assert history is not None
        for n in range(len(design), budget, 16):
            peer = PEERS["botorch-logei"].build(dim, seed=0, budget=budget)
            peer.tell(history[0][:n], history[1][:n])
            seconds["botorch-logei"].append(asked(peer)[1])
        print(
            f"  f{function}: "
            + ", ".join(f"{name} {1e3 * float(np.mean(took)):.1f} ms" for name, took in seconds.items()),
            flush=True,
        )
    ours = float(np.mean(seconds["gp-ucb"]))
    print(f"bbob {FUNCTIONS}, d = {dim}, {budget} evaluations: CPU ms per ask and multiple of gp-ucb")
    for name, took in seconds.items():
        target = f"   target {TARGETS[name]:.0f}" if name in TARGETS else ""
        print(f"  {name:14} {1e3 * float(np.mean(took)):9.2f} {float(np.mean(took)) / ours:8.1f}{target}", flush=True)


# ---------------------------------------------------------------- 2 and 3


def cycle(n: int, dim: int, asks: int) -> tuple[float, float, float]:
    """Seconds of an ordinary ask at n values, of a warm fit and of a fresh one."""
    X = np.random.default_rng(0).random((n, dim))
    y = ripples(X)
    k, size = scheduled(n)
    method = CLASSICS["gp-ucb"].build(dim, seed=0)
    method.tell(X, y)
    surrogate = method._surrogate  # type: ignore[attr-defined]
    standard, nothing = (y[:size] - y[:size].mean()) / y[:size].std(), np.full(size, np.nan)
    start = time.process_time()
    fresh = fit_module.fit(surrogate.kernel, X[:size], standard, nothing, prior=surrogate.prior, rounds=20)
    middle = time.process_time()
    warm = fit_module.fit(surrogate.kernel, X[:size], standard, nothing, prior=surrogate.prior, warm=fresh, rounds=15)
    end = time.process_time()
    surrogate._seen, surrogate._fits = (X, y, np.full(n, np.nan)), {k: (warm, float(y.std()))}
    surrogate.gp(X, y)  # factorised outside the clock, as part of the fit it follows
    took = []
    for _ in range(asks):
        x, seconds = asked(method)
        took.append(seconds)
        method.tell(x, ripples(x))
    return float(np.mean(took)), end - middle, middle - start


def amortised(n: int, dim: int, asks: int) -> float:
    ask, warm, fresh = cycle(n, dim, asks)
    k, size = scheduled(n)
    gap = SIZES[k + 1] - size
    total = ask + ((FRESH_EVERY_LATE - 1) * warm + fresh) / FRESH_EVERY_LATE / gap
    fits = f"warm fit {warm:.1f} s, fresh fit {fresh:.1f} s, one fit in {gap} asks"
    print(f"n = {n}, d = {dim}: ask {ask:.3f} s, {fits}: {total:.3f} s per ask", flush=True)
    return total


def n_1000(n: int = 1000, dim: int = 20) -> None:
    ours = amortised(n, dim, 5)
    X = np.random.default_rng(0).random((n, dim))
    peer = PEERS["optuna-gp"].build(dim, seed=0)
    peer.tell(X, ripples(X))
    first = asked(peer)
    peer.tell(first[0], ripples(first[0]))
    second = asked(peer)[1]
    print(
        f"  optuna-gp: first ask {first[1]:.1f} s, second {second:.1f} s; {second / ours:.0f} times ours   target 20",
        flush=True,
    )


def n_3000() -> None:
    amortised(3000, 20, 3)
    print(f"  peak memory {peak_megabytes():.0f} MB   targets 2 s and 400 MB", flush=True)


# ---------------------------------------------------------------- 4


def floor(dim: int = 5, budget: int = 100) -> None:
    """Counts the work of one run and times the same work as bare calls."""
    calls: Counter[tuple[str, int, int]] = Counter()
    one, gradient, plain, mean = fit_module.NegativeLogPosterior.one, GP.mean_var_grad, GP.mean_var, GP.mean_grad

    def counted_one(self, theta):  # type: ignore[no-untyped-def]
        calls["fit", self.n, 1] += 1
        return one(self, theta)

    def counted_gradient(self, X):  # type: ignore[no-untyped-def]
        calls["gradient", self.factor.n, len(X)] += 1
        return gradient(self, X)

    def counted_plain(self, X):  # type: ignore[no-untyped-def]
        calls["values", self.factor.n, len(X)] += 1
        return plain(self, X)

    def counted_mean(self, X):  # type: ignore[no-untyped-def]
        calls["mean", self.factor.n, len(X)] += 1
        return mean(self, X)

    problem, method = bbob(FUNCTIONS[0], dim), CLASSICS["gp-ucb"].build(dim, seed=0, budget=budget)
    fit_module.NegativeLogPosterior.one, GP.mean_var_grad, GP.mean_var, GP.mean_grad = (
        counted_one,
        counted_gradient,
        counted_plain,
        counted_mean,
    )  # type: ignore[assignment, method-assign]
    took = 0.0
    try:
        for _ in range(budget):
            x, seconds = asked(method)
            took += seconds
            method.tell(x, values(problem, x))
    finally:
        fit_module.NegativeLogPosterior.one, GP.mean_var_grad, GP.mean_var, GP.mean_grad = one, gradient, plain, mean  # type: ignore[method-assign]
    total: Counter[str] = Counter()
    seconds_of: Counter[str] = Counter()
    flops: Counter[str] = Counter()
    for (kind, n, q), count in calls.items():
        total[kind] += count
        seconds_of[kind] += count * bare(kind, n, q, dim)
        flops[kind] += count * operations(kind, n, q, dim)
    bound = sum(seconds_of.values())
    print(f"floor, bbob f{FUNCTIONS[0]}, d = {dim}, {budget} evaluations:")
    print(f"  {1e3 * took / budget:.2f} ms per ask, {took / bound:.1f} times the bare calls")
    for kind in total:
        work, least = flops[kind] / budget / 1e6, 1e3 * seconds_of[kind] / budget
        print(
            f"  {kind:9} {total[kind] / budget:6.1f} calls, {work:7.2f} M multiply-adds, {least:6.3f} ms bare per ask"
        )


def operations(kind: str, n: int, q: int, d: int) -> float:
    """Multiply-adds: distances and trend by products, factor n^3 / 6 and inverse n^3 / 3 (symmetric), solves n^2 / 2 a
    point."""
    if kind == "fit":
        return n**3 / 2 + 3 * n * n * d
    return (
        q
        * n
        * (
            2 * d
            + (0 if kind == "mean" else n / 2)
            + (2 * d if kind == "mean" else 0)
            + (n / 2 + 4 * d if kind == "gradient" else 0)
        )
    )


_BARE: dict[tuple[str, int, int, int], float] = {}


def bare(kind: str, n: int, q: int, d: int) -> float:
    """Seconds of the LAPACK and BLAS calls and the exponential alone, for sizes rounded up to tens."""
    n = -10 * (-n // 10)
    key = (kind, n, q, d)
    if key not in _BARE:
        rng = np.random.default_rng(0)
        Z, Q = rng.random((n, d)), rng.random((q, d))
        A = np.asfortranarray(Z @ Z.T + n * np.eye(n))
        L = lapack.dpotrf(A, lower=1)[0]
        K, B = rng.random((q, n)), np.asfortranarray(rng.random((n, q)))

        def work() -> None:
            if kind == "fit":
                np.exp(Z @ Z.T)
                lapack.dpotri(lapack.dpotrf(A, lower=1)[0], lower=1)
                A @ Z
                return
            np.exp(Q @ Z.T)
            if kind != "mean":
                blas.dtrsm(1.0, L, B, lower=1)
            if kind == "gradient":
                blas.dtrsm(1.0, L, B, lower=1, trans_a=1)
                K @ Z
            if kind in ("mean", "gradient"):
                K @ Z

        repeats = max(3, int(2e-3 / max(1e-6, n**2 * 1e-9 * (n if kind == "fit" else q))))
        work()
        best = np.inf
        for _ in range(3):
            start = time.process_time()
            for _ in range(min(repeats, 50)):
                work()
            best = min(best, (time.process_time() - start) / min(repeats, 50))
        _BARE[key] = best
    return _BARE[key]


if __name__ == "__main__":
    n_3000() if sys.argv[1:] == ["3000"] else main()
