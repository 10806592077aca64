"""GP-ThreDS at its best: thresholded domain shrinking with shared samples and fitted units. The idea is that of Salgia,
Vakili and Zhao (NeurIPS 2021); `printed` is their text.

A threshold tau halves the interval in which f* is believed to lie. A cell of the domain survives an epoch when a local
test finds points above tau in it, and survivors are halved along every axis. The posterior is only ever needed on one
cell's grid, so a sample costs the same at t = 100,000 as at t = 100. The certificate is computed apart from the search.

Notation
    tau, [a, b]   threshold of an epoch, interval of f*        s       side of the live cells, 2^-depth
    mu, sigma     posterior on the grid of a cell              c       `threshold_slack`, of a rejection
    beta          B + R sqrt(2 (gain + 1 + ln 1/delta))        gain    information gained by the samples of the test

What differs from `printed` (reasons in docs/lab/gp-threds.md)
    1. Tests start from the SHARED latest earlier samples near their cell; the paper starts each afresh.
    2. After an epoch the interval is what its tests found, [best lower, best upper bound], not a step of a bisection. A
       given interval that a lower bound passes is given up, and the search begins again.
    3. Values are standardised: by the interval when it is given, otherwise by a maximum-likelihood fit (first after a
       Sobol design, then at each growth by half), which also gives length-scale and noise unless they are given.
    4. beta has the realised gain and at least LEAST_NOISE_SD for R. A test has less slack, accepts after fewer samples,
       and may accept several children in a row.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from regretless.basics.noise import stated_noise
from regretless.basics.options import in_range, one_of, whole_number
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, Traits
from regretless.methods.gp_threds.norm_ball import norm_certificate
from regretless.methods.gp_threds.running import Sample, SearchSteps, TreeSearch
from regretless.methods.gp_threds.threshold_tree import (
    POINTS_PER_AXIS,
    Cell,
    CellTest,
    GridPriors,
    ThresholdTree,
    checked_interval,
    warn_of_dimension,
)
from regretless.methods.gp_threds.threshold_tree import DimensionWarning as DimensionWarning
from regretless.models.gp.certify import conservative_surrogate
from regretless.models.gp.kernels import KernelKind
from regretless.models.gp.sobol import sobol_points
from regretless.models.grid.posterior import RowPosterior, confidence_width
from regretless.models.grid.scale import LEAST_NOISE_VAR, REFIT, ProcessScale, fit_scale
from regretless.models.grid.whole_model import cautious_best, whole_certificate
from regretless.space import Cube
from regretless.space.parameters import Array

SHARED, LOOK_BACK = 400, 4096  # a test starts from at most so many earlier samples near its cell, of so many latest
FIRST_PER_DIM = 6  # design points per dimension when no interval is known; chosen like the slack and the patience
LEAST_NOISE_SD = 0.1  # beta takes at least this for R, because tests with less accept and reject too early


class BestRun(TreeSearch):
    """One run of the search.

    Args:
        first: the number of values after which an unknown interval is found.
        known: the length-scale and the noise sd, None where they are fitted.
        norm, delta, c, patience: see `GPThreDS`.
    """

    def __init__(
        self,
        grids: GridPriors,
        kernel: KernelKind,
        interval: tuple[float, float] | None,
        *,
        first: int,
        known: tuple[float | None, float | None],
        norm: float,
        delta: float,
        c: float,
        patience: int,
    ) -> None:
        scale = first_scale(grids.cube.dim, interval, *known)
        super().__init__(grids, kernel, scale, interval or (-math.inf, math.inf))
        self._norm, self._delta, self._c, self._patience = norm, delta, c, patience
        self._known, self._first, self._fitted_at = known, first, 0
        self._trusted = interval
        """The given interval while the scale comes from it."""

    def search(self) -> SearchSteps:
        """The epochs, one after the other."""
        tree = self.tree
        if self._trusted is None:
            yield from self._find_interval()
        width = max(tree.interval[1] - tree.interval[0], 0.0)
        while True:
            self._refit()
            tau, slack, n = tree.threshold, self._c * tree.side * (width / 2), self.n
            tree.thresholds.append(tau)
            targets, low, high = [], -math.inf, -math.inf
            for cell in tree.live:
                targets.append((yield from self._targets(cell, tau, slack, ask=self.n == n)))
                bounds = self._found()
                low, high = max(low, bounds[0]), max(high, bounds[1])
            a, b = tree.interval
            if not any(targets):
                b -= (b - a) / 2
            else:
                tree.halve(targets)
            tree.contradictions += low > b
            if self._is_mistaken(low):  # with the interval the scale was wrong: begin again with what is known
                self._trusted, width = None, high - low
                tree.begin_again()
            tree.interval = low, high
            tree.epoch += 1

    def beta(self, posterior: RowPosterior) -> float:
        noise_sd = max(math.sqrt(posterior.noise_var), LEAST_NOISE_SD)
        return confidence_width(posterior.gain, self._norm, noise_sd, self._delta)

    def _targets(self, cell: Cell, tau: float, slack: float, *, ask: bool) -> Generator[None, Sample, list[int]]:
        """The children of a cell with points above tau. ask: whether it must sample, because every epoch does."""
        test, children, since = self._open_test(cell), list[int](), 0
        tau, slack = (tau - self.scale.shift) / self.scale.sd, slack / self.scale.sd  # in standardised units
        if ask:
            yield from self.sample(test)
            since = 1
        while test.open and not test.upper < tau - slack:
            if test.lower > tau or since >= self._patience:
                self.tree.by_bound += test.lower > tau
                self.tree.by_time += test.lower <= tau
                children.append(test.accept())
                self.score(test)
                since = 0
            else:
                yield from self.sample(test)
                since += 1
        return children

    def _open_test(self, cell: Cell) -> CellTest:
        """The test of a cell, with the earlier samples it starts from."""
        test, (X, y, yvar) = self.new_test(cell), self.values
        start = max(0, self.n - LOOK_BACK)
        near = start + np.flatnonzero(cell.near(X[start:]))[-SHARED:]
        if len(near):
            test.posterior.condition(*self.scale.grouped(X[near], y[near], yvar[near]))
        self.score(test)
        return test

    def _found(self) -> tuple[float, float]:
        """The largest lower and upper bound of the running test, over all its grid, in the units of the values."""
        low, high = self.running_test.bounds(self.beta(self.running_test.posterior), everywhere=True)
        return self.scale.shift + self.scale.sd * low, self.scale.shift + self.scale.sd * high

    def _find_interval(self) -> SearchSteps:
        """Waits for the first design, fits the scale and takes the bounds on the whole cube's grid for the interval."""
        while self.n < self._first:
            yield
        self._fit()
        self._open_test(self.tree.live[0])
        self.tree.interval = self._found()

    def _is_mistaken(self, low: float) -> bool:
        """Whether a lower bound and a value have passed the given interval while the scale still comes from it."""
        return self._trusted is not None and self._trusted[1] < min(low, float(self.values[1].max()))

    def _refit(self) -> None:
        """Fits what was not given, whenever the number of values has grown by the factor REFIT."""
        is_known = self._trusted is not None and None not in self._known
        if not is_known and self.n >= max(REFIT * self._fitted_at, FIRST_PER_DIM * self.grids.cube.dim):
            self._fit()

    def _fit(self) -> None:
        self._fitted_at = self.n
        (X, y, yvar), (lengthscale, noise_sd) = self.values, self._known
        scale = fit_scale(X, y, self.kernel, yvar=yvar, lengthscale=lengthscale, noise_sd=noise_sd)
        self.scale = replace(scale, noise_var=max(scale.noise_var, LEAST_NOISE_VAR))


def first_scale(
    dim: int, interval: tuple[float, float] | None, lengthscale: float | None, noise_sd: float | None
) -> ProcessScale:
    """The units before any fit: one standard deviation is the lower half of a given interval."""
    shift, sd = 0.0, 1.0
    if interval is not None:
        sd = (interval[1] - interval[0]) / 2
        shift = interval[0] - sd
    # 0.1, 0.2: until a fit gives them (Sec. 5); the latter grows like sqrt(d)
    noise = 0.1 if noise_sd is None else noise_sd / sd
    return ProcessScale(shift, sd, lengthscale or 0.2 * math.sqrt(dim / 2), max(noise**2, LEAST_NOISE_VAR))


class GPThreDS(Method):
    """GP-ThreDS: a Gaussian process on ever smaller cells, kept or dropped by a threshold; constant cost per sample.

    Args:
        interval: (a, b) believed to hold f*, as maximised; None: found from the data.
        kernel: "se" or "matern52".
        lengthscale: of the kernel, in sides of the cube; None: fitted.
        noise_sd: R, the standard deviation of the noise; None: fitted.
        norm_bound: a true bound on the norm of f (not standardised) in the kernel's RKHS, if known, with lengthscale
            and noise_sd; the certificate is then a theorem.
        assumed_norm: B, what the deciding beta takes for the norm of f; it steers and bounds nothing; in standardised
            units.
        delta: probability of error of the deciding beta.
        threshold_slack: c, how far below the threshold a bound is rejected, in sides. It and the patience were chosen
            on Branin and Rosenbrock with seeds 0 to 9.
        patience: samples after which a test accepts.
        points_per_axis: of a cell's grid, one number or one per axis; None: by dimension.
    """

    traits = Traits(max_dim=max(POINTS_PER_AXIS))

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        interval: tuple[float, float] | None = None,
        kernel: KernelKind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
        norm_bound: float | None = None,
        assumed_norm: float = 0.5,
        delta: float = 1e-3,
        threshold_slack: float = 0.05,
        patience: int = 20,
        points_per_axis: int | tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(get_args(KernelKind), kernel=kernel)
        in_range("(0, 1)", delta=delta)
        in_range("(0, inf) or None", lengthscale=lengthscale, norm_bound=norm_bound)
        in_range("(0, inf)", assumed_norm=assumed_norm)
        in_range("[0, inf) or None", noise_sd=noise_sd)
        in_range("[0, inf)", threshold_slack=threshold_slack)
        whole_number(patience=patience)
        if norm_bound is not None and (lengthscale is None or noise_sd is None):
            raise ValueError("norm_bound is a bound in a known kernel: give lengthscale and noise_sd with it")
        warn_of_dimension(self.dim)
        self._noisy = stated_noise(noise_sd)
        self._kernel, self._known, self._norm_bound = kernel, (lengthscale, noise_sd), norm_bound
        self._interval = None if interval is None else checked_interval(interval)
        self._steering = {"norm": assumed_norm, "delta": delta, "c": threshold_slack, "patience": patience}
        self.grids = GridPriors(self.cube, points_per_axis)
        self._design = sobol_points(FIRST_PER_DIM * self.dim, self.dim, self._fixed_generator())
        self._conservative = conservative_surrogate(self.cube)
        self.run: BestRun
        self._best: Array | None = None
        """The recommended point after the values that the run has taken in."""

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self._catch_up(history)
        if self.run.test is not None:
            return self.run.next_point(history, rng)
        used = history.evaluations
        return np.asarray(self._design[used]) if used < len(self._design) else rng.random(self.dim)

    def tree(self, history: History) -> ThresholdTree:
        """The live cells, thresholds and regions given up after these values."""
        self._catch_up(history)
        return self.run.tree

    def _recommend(self, history: History) -> Array:
        self._catch_up(history)
        if self._best is None:
            rng, noise_var = self._fixed_generator(), self.run.scale.observed_noise_var
            self._best = cautious_best(history, self.cube, noise_var, self._kernel, rng)
        return self._best

    def _certificate(self, history: History, delta: float) -> Certificate:
        self._catch_up(history)
        x, (lengthscale, noise_sd) = self.recommend(history), self._known
        if self._norm_bound is not None and lengthscale is not None and noise_sd is not None:
            return norm_certificate(
                history, x, kernel=self._kernel, lengthscale=lengthscale, noise_sd=noise_sd, norm=self._norm_bound,
                delta=delta,
            )  # fmt: skip
        rng, noise_var = self._fixed_generator(), self.run.scale.observed_noise_var
        return whole_certificate(history, self.cube, x, noise_var, delta, rng, conservative=self._conservative)

    def _begin(self) -> None:
        n = len(self._design)
        first = n if self.budget is None else max(2, min(n, self.budget // 3))
        known: Any = {"known": self._known, **self._steering}
        self.run = BestRun(self.grids, self._kernel, self._interval, first=first, **known).begin()
        self._best = None

    def _update(self, history: History, first: int) -> None:
        self.run.observe(history)
        self._best = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no running search of its own: it takes the history in again."""
        return {name: value for name, value in self.__dict__.items() if name != "run"} | {"_seen": None}
