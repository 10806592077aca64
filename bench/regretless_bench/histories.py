"""Runs on the library of families, kept as plain histories, so that what is read off a run can be measured again.

A history is a file `family-seed-kind.npz` (`family-seed-kind-probes0.2.npz` where every fifth trial is a uniform
probe): the points X (n x d), the values told y (n), the noiseless ones f (n), all to be maximised, the optimum, the
noise's sd and d. A method's model is a function of its history, so that whatever certificate comes next is judged on
the same runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from regretless.classics import CLASSICS
from regretless.models.gp.surrogate import Surrogate
from regretless.outlook.probes import is_due, probe_point
from regretless.space.parameters import Array, Choice
from regretless.task import Task
from regretless.testing import Loop
from regretless_bench.problems.families import family_case
from regretless_bench.problems.problem import Problem

NOISE = 0.1
"""The noise's sd of a noisy case, as a share of the interquartile range."""
KINDS = ("search", "verify")
"""What runs: a plain search (`gp-ucb`, or `gp-ei` where there are choices), and `GPUCB(verify=2)`, which "auto" takes
with a stop rule."""


class History(NamedTuple):
    """A run, to be maximised; see the module's text."""

    X: Array
    y: Array
    f: Array
    opt: float
    noise: float

    @property
    def best(self) -> float:
        """The optimum, or a better value that the run found where the optimum is known by a search only."""
        return max(self.opt, float(self.f.max()))


def is_noisy(seed: int) -> bool:
    """A third of the seeds is noisy; which third changes every sixty, so that every dimension has both."""
    return (seed + seed // 60) % 3 == 2


def case(family: str, seed: int) -> Problem:
    """The problem of a seed."""
    return family_case(family, seed=seed, noise=NOISE if is_noisy(seed) else 0.0)


def run_history(family: str, seed: int, kind: str, per_dim: int, probes: float = 0.0) -> History:
    """One run of per_dim evaluations for each parameter, a share `probes` of which are uniform probes."""
    problem = case(family, seed)
    n = per_dim * len(problem.space)
    choices = any(isinstance(parameter, Choice) for parameter in problem.space.parameters.values())
    recipe = CLASSICS["gp-ucb"](verify=2) if kind == "verify" else CLASSICS["gp-ei" if choices else "gp-ucb"]
    loop, values = Loop(recipe.build(problem.space.cube(), seed=seed, budget=n)), []
    task = Task(problem.space, seed=seed, probes=probes)
    for step in range(n):
        probe = probe_point(task, step, "shares") if is_due(step, task) else None
        x = loop.ask(step=step) if probe is None or loop.history.is_known(probe) else probe[None]
        seen = problem.observe(problem.space.decode(x[0]))
        loop.tell(x, [problem.sign * seen.y])
        values.append(problem.sign * seen.value)
    assert problem.optimum is not None  # every family knows its optimum
    return History(loop.history.X, loop.history.y, np.array(values), problem.sign * problem.optimum, problem.noise_sd)


def history(folder: Path, family: str, seed: int, kind: str, per_dim: int, probes: float = 0.0) -> History:
    """The stored run, made first where there is none or a shorter one."""
    path = folder / f"{family}-{seed}-{kind}{f'-probes{probes:g}' if probes else ''}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as stored:
            found = History(stored["X"], stored["y"], stored["f"], float(stored["opt"]), float(stored["noise"]))
        if len(found.y) >= per_dim * found.X.shape[1]:
            return found
    made = run_history(family, seed, kind, per_dim, probes)
    np.savez_compressed(path, **made._asdict(), d=made.X.shape[1])
    return made


def recommended(run: History, n: int, surrogate: Surrogate) -> int:
    """The row recommended after n values: the best value without noise, the best mean of the surrogate with noise."""
    if run.noise == 0.0:
        return int(np.argmax(run.y[:n]))
    return int(np.argmax(surrogate.gp(run.X[:n], run.y[:n]).mean_at(run.X[:n])))
