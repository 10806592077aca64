"""GP-ThreDS and IGP-UCB: microseconds of CPU per sample, bare and through ask and tell, beside a loop that refactorises
at every sample.

1. GP-ThreDS, both presets, 400 grid points: the bare search, the same through `ask` and `tell` of `Method` and of
   `Optimizer`, and the growth from 1e3 to 1e5 samples.
2. The naive form of one test: the covariance of its samples factorised anew for every sample (what the authors' code
   does, in NumPy).
3. IGP-UCB on 80 x 80 points: per sample over the first and the last thousand of 5000, and the naive form at t = 500.
4. The posteriors alone: one row per sample, low-rank features, and the n x n covariance updated in place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from regretless_bench.methods.grid_posteriors import ProductPosterior
from regretless_bench.methods.igp_ucb import IGPUCB
from scipy.linalg import cho_factor, cho_solve

from regretless.methods import METHODS
from regretless.methods.gp_threds.default import GPThreDS
from regretless.models.grid.posterior import RowPosterior, SEFeatures, correlation, product_grid
from regretless.optimizer import Optimizer
from regretless.space.parameters import Array

LONG = 100_000
REPEATS = 5
KNOWN = {"interval": (0.5, 1.2), "lengthscale": 0.2, "noise_sd": 0.1}
PRESETS = {"paper": {"preset": "paper", **KNOWN}, "default": KNOWN}


def main() -> None:
    naive = naive_test(100)
    print(f"GP-ThreDS, 400 grid points, us per sample (CPU); naive test of 100 samples: {naive:.0f}")
    for name, options in PRESETS.items():
        forms = bare, through_the_door, through_the_optimizer
        short, door, front = np.min(
            [[form(options, 1000) for form in forms] for _ in range(REPEATS)], axis=0
        )  # in turns: the machine's load changes
        long = min(bare(options, LONG) for _ in range(2))
        print(f"  {name:8} bare {short:5.1f}, wanted at most 50; naive is {naive / short:.0f}x")
        through = f"{door:5.1f}, {door / short:.2f}x bare; of Optimizer {front:5.1f}, {front / short:.2f}x"
        print(f"           ask and tell of Method {through}; wanted at most 3x")
        print(f"           over 1e5 samples {long:5.1f}, {long / short:.2f}x those of 1e3, wanted at most 1.5x")
    first, last, slow = igp_ucb()
    print(
        f"IGP-UCB, 6400 points, wanted at most 200 and flat: first 1000 {first:.0f}, last of 5000 {last:.0f},"
        f" {last / first:.2f}x"
    )
    print(f"           naive at t = 500: {slow / last:.0f}x")
    posteriors()


# ---------------------------------------------------------------- GP-ThreDS


def branin(x: float, y: float) -> float:
    u, v = 15 * x - 5, 15 * y
    return (
        -(
            (v - 5.1 * u * u / (4 * math.pi**2) + 5 * u / math.pi - 6) ** 2
            + (10 - 10 / (8 * math.pi)) * math.cos(u)
            - 44.81
        )
        / 51.95
    )


def bare(options: dict[str, object], T: int) -> float:
    """The search alone: its grid point, the objective, its next decision."""
    method = GPThreDS(2, seed=0, budget=T, **options)  # type: ignore[arg-type]
    noise = 0.1 * np.random.default_rng(0).standard_normal(T)
    start = time.process_time()
    for t in range(T):
        test = method._test
        assert test is not None
        x = test.grid[test.query]
        y = branin(x[0], x[1]) + noise[t]
        method._told.append(x[None], y)
        method._seen += 1
        method._running.send((x, y, math.nan))
    return (time.process_time() - start) / T * 1e6


def through_the_door(options: dict[str, object], T: int) -> float:
    method = GPThreDS(2, seed=0, budget=T, **options)  # type: ignore[arg-type]
    noise = 0.1 * np.random.default_rng(0).standard_normal(T)
    start = time.process_time()
    for t in range(T):
        X = method.ask()
        method.tell(X, branin(X[0, 0], X[0, 1]) + noise[t])
    return (time.process_time() - start) / T * 1e6


def through_the_optimizer(options: dict[str, object], T: int) -> float:
    """The door that users have: named parameters, units, trials."""
    space = {"u": (0.0, 1.0), "v": (0.0, 1.0)}
    optimizer = Optimizer(space, method=METHODS["gp-threds"](**options), direction="maximize", budget=T, seed=0)
    noise = 0.1 * np.random.default_rng(0).standard_normal(T)
    start = time.process_time()
    for t in range(T):
        trial = optimizer.ask()
        optimizer.tell(trial, branin(trial.params["u"], trial.params["v"]) + noise[t])
    return (time.process_time() - start) / T * 1e6


def naive_test(samples: int) -> float:
    """A test of the paper with one Cholesky factorisation and one solve for the whole grid per sample."""
    grid = product_grid([np.linspace(0, 1, 20)] * 2)
    rng = np.random.default_rng(0)
    X, y = np.empty((samples, 2)), np.empty(samples)
    index = 210
    start = time.process_time()
    for t in range(samples):
        X[t], y[t] = grid[index], branin(grid[index, 0], grid[index, 1]) + 0.1 * rng.standard_normal()
        mean, variance = refactorised(X[: t + 1], y[: t + 1], grid)
        width = (0.5 + 0.1 * math.sqrt(2 * (math.log(t + 1) + 1 + math.log(1000)))) * np.sqrt(variance)
        index = int((mean + width).argmax())
        (mean - width).argmax()
    return (time.process_time() - start) / samples * 1e6


def refactorised(X: Array, y: Array, grid: Array) -> tuple[Array, Array]:
    K = correlation("se", X, X, 0.2)
    K[np.diag_indices_from(K)] += 0.01
    cross = correlation("se", X, grid, 0.2)
    solved = cho_solve(cho_factor(K), np.column_stack([cross, y]))
    return cross.T @ solved[:, -1], np.maximum(1 - (cross * solved[:, :-1]).sum(axis=0), 0)


# ---------------------------------------------------------------- IGP-UCB


def igp_ucb() -> tuple[float, float, float]:
    """us per sample: the first thousand, the last of five thousand, and one refactorised step at t = 500."""
    method = IGPUCB(2, seed=0, budget=5000, preset="paper")
    rng = np.random.default_rng(0)
    times = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(1000):
            X = method.ask()
            method.tell(X, branin(X[0, 0], X[0, 1]) + 0.1 * rng.standard_normal())
        times.append((time.process_time() - start) * 1e3)
    start = time.process_time()
    refactorised(method.X[:500], method.y[:500], method.grid)
    return times[0], times[-1], (time.process_time() - start) * 1e6


# ---------------------------------------------------------------- posteriors


def posteriors() -> None:
    print(
        "posteriors, us per sample over 200 samples:"
        " n grid points | one row per sample | low-rank features | n x n in place"
    )
    for m in (10, 20, 32):
        axes = [np.linspace(0, 1, m)] * 2
        grid = product_grid(axes)
        prior = correlation("se", grid, grid, 0.2)
        index = np.random.default_rng(0).integers(len(grid), size=200)
        features = SEFeatures(2, 0.2)
        by_rows = partial(RowPosterior, grid, prior, kernel="se", lengthscale=0.2, noise_var=0.01)
        by_features = partial(ProductPosterior, axes, noise_var=0.01, features=features)
        rows, low, full = (clock(make, index) for make in (by_rows, by_features, partial(_Full, prior)))
        print(f"  {len(grid):5d} | {rows:6.1f} | {low:6.1f} | {full:6.1f}")


class _Full:
    """The textbook update of the whole covariance, for comparison."""

    def __init__(self, prior: Array) -> None:
        self.covariance, self.mean = prior.copy(), np.zeros(len(prior))

    def add(self, index: int, y: float) -> None:
        column = self.covariance[:, index].copy()
        total = column[index] + 0.01
        self.mean += column * ((y - self.mean[index]) / total)
        self.covariance -= np.outer(column, column / total)

    @property
    def variance(self) -> Array:
        return np.diagonal(self.covariance)


def clock(make: Callable[[], RowPosterior | ProductPosterior | _Full], index: NDArray[np.int64]) -> float:
    best = math.inf
    for _ in range(3):
        posterior = make()
        start = time.process_time()
        for i in index.tolist():
            posterior.add(i, 0.5)
            width = 0.9 * np.sqrt(posterior.variance)
            (posterior.mean + width).argmax()
            (posterior.mean - width).argmax()
        best = min(best, time.process_time() - start)
    return best / len(index) * 1e6


if __name__ == "__main__":
    main()
