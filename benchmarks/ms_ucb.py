"""MS-UCB and GP-EI: one acquisition maximisation over many subspaces, a whole ask, and the memory it takes, from
100 to 5000 dimensions.

CPU milliseconds, one thread. The posterior is conditioned already and the cached sums of the base points are there, as
they are in a run. "full D" is this library's ascent in all coordinates on the same posterior; BoTorch maximises the
same bound with `optimize_acqf` on a model of the same data with the same length-scale and noise (4 restarts, 128 raw
samples, 50 iterations), where that ends within a minute.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from itertools import product

import numpy as np

from regretless.classics import CLASSICS
from regretless.history import History
from regretless.methods import METHODS
from regretless.methods.ms_ucb.base_set import BaseSet
from regretless.methods.ms_ucb.subspaces import PosteriorArrays, Subspaces, maximise_subspaces, random_blocks
from regretless.models.gp.acquisition import confidence_bound, upper_confidence
from regretless.models.gp.kernels import Kernel
from regretless.models.gp.maximiser import maximise
from regretless.models.gp.posterior import GP, Hyper
from regretless.models.gp.surrogate import SIZES, scheduled
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless.testing import Loop

SETTINGS = ((100, 100), (100, 500), (1000, 100), (1000, 500), (5000, 100), (5000, 500))
FREE = 5
MEMORY = """
import numpy as np
from regretless_bench.memory import peak_megabytes
from regretless.classics.gp_ei import GPEI
from regretless.testing import Loop
rng = np.random.default_rng(0)
X = rng.random((1000, 5000))
loop = Loop(GPEI(5000, seed=0))
loop.tell(X, -((X - 0.4) ** 2).mean(axis=1))
del X
loop.ask(2)
print(peak_megabytes())
"""
"""Prints the peak memory of a process that asks twice with 1000 told values."""


def cpu(call: Callable[[], object], repeats: int) -> float:
    """The least CPU time of a call, in ms."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def data(D: int, n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(D + n)
    X = rng.random((n, D))
    return X, -((X - rng.uniform(0.2, 0.8, D)) ** 2).mean(axis=1) + 0.01 * np.sin(9 * X[:, 0])


def subspace_time(gp: GP, X: Array, count: int) -> float:
    """One maximisation over `count` uniform subspaces, their sums with the told points in place."""
    D, rng = X.shape[1], np.random.default_rng(0)
    bases = BaseSet(Cube.box(D), 0, count, 0.0, initial=0)
    bases.draw(History(D))
    nothing = np.empty((0, D))
    arrays = PosteriorArrays(gp)
    bases.squared(arrays, X, nothing)
    free, local = random_blocks(count, FREE, np.arange(D), None, rng), np.zeros(count, dtype=bool)
    bound = confidence_bound(1.0, gp.signal)

    def once() -> object:
        where = Subspaces(bases.Z, free, local, bases.squared(arrays, X, nothing))
        return maximise_subspaces(arrays, bound, where, np.random.default_rng(1))

    return cpu(once, 3)


def botorch_time(X: Array, y: Array, lengthscale: float) -> float | None:
    """BoTorch on the same data and hyper-parameters; None where it is not installed."""
    try:
        import torch
        from botorch.acquisition import UpperConfidenceBound
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.kernels import MaternKernel
    except ImportError:
        return None
    torch.set_num_threads(1)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        model = SingleTaskGP(
            torch.tensor(X),
            torch.tensor((y - y.mean()) / y.std())[:, None],
            covar_module=MaternKernel(nu=2.5),
            outcome_transform=None,
        )
        model.covar_module.lengthscale = lengthscale
        model.likelihood.noise = 1e-4
        model.eval()
        acquisition = UpperConfidenceBound(model, beta=1.0)
        bounds = torch.stack([torch.zeros(X.shape[1]), torch.ones(X.shape[1])]).double()
        return cpu(
            lambda: optimize_acqf(acquisition, bounds, q=1, num_restarts=4, raw_samples=128, options={"maxiter": 50}), 1
        )


def full_time(gp: GP, X: Array) -> float:
    """One maximisation in all coordinates."""
    acquisition = upper_confidence(gp, 1.0)
    return cpu(lambda: maximise(acquisition, Cube.box(X.shape[1]), np.random.default_rng(2), incumbents=X[:3]), 2)


def maximisations() -> None:
    print("    D    n | subspaces: 100    1000 | full D | BoTorch | their ratios to 100 subspaces")
    for D, n in SETTINGS:
        X, y = data(D, n)
        lengthscale = 0.5 * D**0.5
        hyper = Hyper(np.array([lengthscale]), 1e-4)
        gp = GP.exact(Kernel("matern52", D), hyper, X, y, offset=float(y.mean()), scale=float(y.std()))
        few, many = subspace_time(gp, X, 100), subspace_time(gp, X, 1000)
        full = full_time(gp, X)
        theirs = botorch_time(X, y, lengthscale) if D * n <= 500_000 else None
        times, ratio = ("-", "-") if theirs is None else (f"{theirs:.0f}", f"{theirs / few:.0f}")
        peer = f"{times:>7} | {full / few:.1f}, {ratio}"
        print(f"{D:>5} {n:>4} | {few:>14.1f} {many:>7.1f} | {full:>6.1f} | {peer}", flush=True)


def whole_asks() -> None:
    """Asks between two fits, and the fit that follows spread over them."""
    for name, (D, n) in product(("ms-ucb", "gp-ei"), ((100, 200), (1000, 500), (5000, 500))):
        X, y = data(D, n)
        loop = Loop({**METHODS, **CLASSICS}[name].build(D, seed=0))
        loop.tell(X, y)
        loop.forget(loop.ask())  # builds all caches
        times: list[float] = []
        following = SIZES[scheduled(n)[0] + 1]
        gap = following - scheduled(n)[1]
        for _ in range(following - n + 1):  # passes one scheduled fit
            start = time.process_time()
            x = loop.ask()
            times.append(time.process_time() - start)
            loop.tell(x, np.random.default_rng(len(times)).normal(y.max(), y.std(), 1))
        between = 1e3 * np.median(times)
        spread = between + (1e3 * max(times) - between) / gap
        text = f"ask {between:.0f} ms between fits, {spread:.0f} ms with the fit spread over its {gap} asks"
        print(f"{name}, D = {D}, n = {n}: {text}", flush=True)


def main() -> None:
    maximisations()
    whole_asks()
    peak = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True).stdout
    print(f"peak memory at D = 5000, n = 1000: {float(peak):.0f} MB (the process, imports included)")


if __name__ == "__main__":
    main()
