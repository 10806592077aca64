"""GP-ThreDS: Salgia, Vakili and Zhao, "A Computationally Efficient Approach to Black-box Optimization using Gaussian
Process Models" (published as
"A Domain-Shrinking based Bayesian Optimization Algorithm with Order-Optimal Regret Performance", NeurIPS 2021).

A threshold tau halves the interval in which f* is believed to lie; a cell of the domain survives an epoch when a local
test finds points above tau in it, and survivors are halved along every axis. The posterior is only ever needed on one
cell's grid, whose size never grows, so a sample costs the same at t = 100,000 as at t = 100. The certificate is
computed apart from the search, with bounds that are wide enough to be true.

Notation
    k, tau_k, [a_k, b_k]   epoch, threshold, interval of f*        s          side of the live cells, 2^-depth
    D_k, D_g               live cells, grid of a cell              c, slack   tolerance of a rejection, L Delta^alpha in the paper
    mu, sigma              posterior on the grid                   t_term     samples after which a test accepts
    beta                   B + R sqrt(2 (gamma + 1 + ln 1/delta))  gamma      information gain (Eq. 6)
    p, delta-hat           confidences of the walk's tests         R, lambda  sd of the noise, its variance in the model

Deviations, both presets
    1. `beta` has the factor 2 that the text of Sec. 3.2.2 drops and the authors' code has. R multiplies the root as in
       the paper, although with lambda != 1 a valid bound needs R / sqrt(lambda): this beta steers, and the certificate
       uses the valid one.
    2. delta-hat is printed upside down; see `leaf_confidence`. L and alpha are never known: the slack is c s.
    3. A rejection test with no grid point left is a rejection; when all lower bounds are low, a time-out still accepts
       the best of them.
    4. A told point near the running cell is a sample of its test whoever asked for it; others are kept and reach the
       tests that start later (default) or the recommendation (paper). STALL told points in a row from elsewhere close a
       test, so that a cell whose evaluations fail cannot hang.
    5. The recommendation is the arg max of the mean, less one sd, of one model refitted to all values; the paper has
       none.
    6. A noise variance told with a value is that value's lambda in every posterior; R in beta stays the one given or
       fitted (where all variances are known, the root of their mean).
Default preset only
    7. Tests start from the SHARED latest earlier samples near their cell; the paper starts each afresh.
    8. After an epoch the interval is what its tests found, [best lower, best upper bound], not a step of a bisection: a
       mistaken threshold repairs itself, and no epoch passes without a sample. A given interval that a lower bound
       passes is given up, and the search begins again.
    9. Values are standardised: by the interval when it is given, otherwise by a maximum-likelihood fit (first after a
       Sobol design, then whenever the number of values has grown by half), which also gives length-scale and noise
       unless they are given.
   10. Cells stop shrinking at side SMALLEST; `tree.stopped` says so.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from regretless.certificate import Certificate
from regretless.extras import optional
from regretless.gp.sobol import sobol_points
from regretless.grid.bounds import confidence_width, leaf_confidence, termination_time
from regretless.grid.posterior import KernelName
from regretless.grid.scale import LEAST_NOISE, Scale, fit_scale, grouped, weights
from regretless.grid.whole_model import cautious_best, whole_certificate
from regretless.method import Method
from regretless.methods.gp_threds.norm_ball import norm_certificate
from regretless.methods.gp_threds.threshold_tree import (
    Cell,
    CellTest,
    GridPriors,
    ThresholdTree,
    beside_the_best,
    draw_tree,
)
from regretless.parameters import Array
from regretless.space import Cube

Told: TypeAlias = tuple[Array, float, float]
"""A told point, its value, and the variance of its noise (NaN where unknown)."""
Search: TypeAlias = Generator[None, Told, Any]
"""A search under way: it waits for told points."""

POINTS_PER_AXIS = {1: 64, 2: 20, 3: 8, 4: 5, 5: 4, 6: 3}
"""Grid points along each axis of a cell, by dimension (the authors use 20 in two dimensions)."""
BOUND, PAPER_BOUND = 0.5, 0.5
"""B by default: in units of the standardised values, and as the authors set it for Branin (Fig. 4)."""
SLACK, PAPER_SLACK = 0.05, 0.2
"""c by default, and in Fig. 4."""
PATIENCE, PAPER_PATIENCE = 20, 50
"""t_term by default, and in the authors' code."""
LEAST_R = 0.1
"""Of R in the default preset's beta, in standardised units: with less, small noise makes the tests rash and the search
settles beside the optimum."""
SHARED = 400
"""Earlier samples that a test starts from, at most."""
LOOK_BACK = 4096
"""How many of the latest samples are searched for them."""
FIRST_PER_DIM = 6
"""Points per dimension of the design that precedes the search when no interval is known."""
REFIT = 1.5
"""The number of values grows by this factor between fits of the scale."""
SMALLEST = 1e-6
"""Cells are not halved below this side."""
STALL = 50
"""Told points in a row from elsewhere that close a test."""
AVOIDED = 0.1
"""Points closer than this many sides to a failed evaluation are not proposed in a cell while others are left."""
HORIZON = 1000
"""T where no budget is given; it only enters through logarithms."""
ELSEWHERE = 32
"""Random points to choose from when every point of the running cell is pending or near a failure."""


class DimensionWarning(UserWarning):
    """GP-ThreDS in a dimension where its grids are too coarse to be of much use."""


class GPThreDS(Method):
    """GP-ThreDS: a Gaussian process on ever smaller cells, kept or dropped by a threshold; constant cost per sample.

    Args:
        preset: "default", or "paper": Alg. 1 with the authors' constants (fresh data, zero mean, unit variance, their
            interval update).
        search: "heuristic" (Alg. 3), or "walk": the random walk on the tree (Alg. 2) with two-sided tests (Sec. 7.2);
            fresh data, like the paper.
        interval: (a, b) believed to hold f*, in the units and sign that are maximised; None: found from the data (paper
            preset: (0, 1)).
        kernel: "se" or "matern52".
        lengthscale: of the kernel, in sides of the cube; None: fitted (paper preset: 0.2).
        noise: the standard deviation of the noise, R; None: fitted (paper preset: 0.1).
        B: what the deciding beta takes for the norm of f; a knob, not a bound (the norms of the paper's functions are
            20 to 40 times larger).
        norm_bound: a true bound on the norm of f (not standardised) in the kernel's RKHS, if known; the certificate is
            then a theorem. Needs lengthscale and noise.
        delta0: confidence of the deciding beta (Sec. 5).
        c: slack of a rejection, per side of the cell.
        t_term: samples after which a test accepts; None: 20 (paper preset: the authors' 50); "formula": Eq. (7), which
            asks for 1e5 and more.
        points_per_axis: of a cell's grid, one number or one per axis; None: by dimension.
        gain: gamma in beta: "realised" by the samples of the test, or "log" or "root" of their number (the authors'
            stand-ins).
        p: confidence of the walk's inner tests, below 1/2 (Sec. 3.2.1).

    Example:
        >>> method = GPThreDS(2, seed=0, budget=100)
        >>> x = method.ask()
    """

    max_dim = 6

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        search: Literal["heuristic", "walk"] = "heuristic",
        interval: tuple[float, float] | None = None,
        kernel: KernelName = "se",
        lengthscale: float | None = None,
        noise: float | None = None,
        B: float | None = None,
        norm_bound: float | None = None,
        delta0: float = 1e-3,
        c: float | None = None,
        t_term: int | Literal["formula"] | None = None,
        points_per_axis: int | tuple[int, ...] | None = None,
        gain: Literal["realised", "log", "root"] | None = None,
        p: float = 0.1,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        _check_options(locals())
        if self.dim >= 4:
            advice = "its grids have few points per axis there; use 'gp-ucb' or 'turbo' instead"
            warnings.warn(f"GP-ThreDS in {self.dim} dimensions: {advice}", DimensionWarning, stacklevel=2)
        self.paper = preset == "paper"
        self.search, self.kernel, self.norm_bound = search, kernel, norm_bound
        self.fresh = self.paper or search == "walk"
        self.B = float(B) if B is not None else PAPER_BOUND if self.paper else BOUND
        self.c = float(c) if c is not None else PAPER_SLACK if self.paper else SLACK
        self.delta0, self.p = float(delta0), float(p)
        self.t_term: int | str = t_term or (PAPER_PATIENCE if self.paper else PATIENCE)
        self.gain = gain or ("log" if self.paper else "realised")
        self.lengthscale, self.noise = lengthscale, noise
        if self.paper:  # Sec. 5
            interval, self.lengthscale, self.noise = (
                interval or (0.0, 1.0),
                lengthscale or 0.2,
                0.1 if noise is None else noise,
            )
        self.interval, self.horizon = interval, budget or HORIZON
        self._grids = GridPriors(self.cube, points_per_axis or POINTS_PER_AXIS[self.dim])
        self._first = sobol_points(FIRST_PER_DIM * self.dim, self.dim, self.fixed_generator())
        self._recommended: tuple[int, Array] | None = None
        self._begin()

    def _begin(self) -> None:
        self.tree = ThresholdTree(interval=self.interval or (-math.inf, math.inf), live=[Cell.whole(self.dim)])
        """Live cells, thresholds, regions given up; see `ThresholdTree`."""
        self.scale = self._first_scale()
        self._trusting = self.interval is not None
        """Whether the scale comes from the given interval."""
        self._seen = self._fitted_at = 0
        """Values the search has taken in, and how many there were at the last fit."""
        self._test: CellTest | None = None
        self._running = self._shrink()
        next(self._running)

    # -- the contract

    def _propose(self, rng: np.random.Generator) -> Array:
        """The point of the running test with the largest upper bound (Fig. 3), away from pending and failed ones."""
        test = self._test
        if test is None:
            used = len(self.y) + len(self.pending) + len(self.failed)
            return self._first[used] if used < len(self._first) else rng.random(self.dim)
        if not self._pending and not len(self.failed):
            return np.asarray(test.grid[test.query])
        pending = self.pending
        near = pending[test.cell.near(pending)]
        ucb = (
            test.mean + self._beta(test) * np.sqrt(test.posterior.variance_after(near))
            if len(near)
            else test.ucb.copy()
        )
        for x, reach in [(x, 1e-9) for x in pending] + [(x, AVOIDED) for x in self.failed]:
            ucb[(np.abs(test.grid - x) <= reach * test.cell.sides).all(axis=1)] = -np.inf
        best = int(ucb.argmax())
        return (
            test.grid[best]
            if ucb[best] > -np.inf
            else beside_the_best(rng.random((ELSEWHERE, self.dim)), self.X, self.y, self.failed)
        )

    def _update(self, X: Array, y: Array) -> None:
        yvar = self.yvar[self._seen : self._seen + len(y)]
        for told in zip(X, y.tolist(), yvar.tolist(), strict=True):
            self._seen += 1
            self._running.send(told)

    def _recommend(self) -> Array:
        n = len(self.y)
        if self._recommended is None or self._recommended[0] != n:
            self._recommended = (
                n,
                cautious_best(
                    self.X, self.y, self.yvar, self.scale.noise_variance, self.kernel, self.cube, self.fixed_generator()
                ),
            )
        return self._recommended[1]

    def _certificate(self, delta: float) -> Certificate:
        if self.norm_bound is not None:
            assert self.lengthscale is not None
            assert self.noise is not None
            return norm_certificate(
                self.X, self.y, self.yvar, self.recommend(),
                kernel=self.kernel, lengthscale=self.lengthscale, noise=self.noise, norm=self.norm_bound, delta=delta,
            )  # fmt: skip
        if self.paper:
            a, b = self.tree.interval
            return Certificate.none(
                f"the paper's own interval [{a:.4g}, {b:.4g}] is not a guarantee, and norm_bound is not known", delta
            )
        return whole_certificate(
            self.X,
            self.y,
            self.yvar,
            self.scale.noise_variance,
            self.cube,
            self.recommend(),
            delta,
            self.fixed_generator(),
        )

    def plot(self, axes: Any = None) -> Any:
        """Draws the shrinking domain on matplotlib axes (made when not given), in one and two dimensions."""
        if self.dim > 2:
            raise ValueError(f"plot() draws one or two dimensions, this search has {self.dim}")
        if axes is None:
            axes = optional("matplotlib.pyplot", "plot").figure().subplots()
        draw_tree(self.tree, self.X, axes)
        return axes

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_running", "_test", "tree")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy has no running search of its own: it takes the history in again."""
        self.__dict__.update(state)
        self._begin()
        self._update(self.X, self.y)

    # -- Algorithm 1

    def _shrink(self) -> Search:
        tree = self.tree
        if self.interval is None:
            yield from self._find_interval()
        width = max(tree.interval[1] - tree.interval[0], 0.0)
        while True:
            self._refit()
            tau = tree.threshold  # (Alg. 1, l. 4)
            tree.thresholds.append(tau)
            side = 2.0**-tree.depth
            slack = self.c * side * (1.0 if self.paper else width / 2)
            kept: list[Cell] = []
            dropped: list[Cell] = []
            found = [-math.inf, -math.inf]
            self._asked = False
            for cell in tree.live:  # (Alg. 1, l. 5-9)
                children = yield from (self._walk if self.search == "walk" else self._targets)(cell, tau, slack)
                low, high = self._found()
                found = [max(found[0], low), max(found[1], high)]
                kept += [cell.child(i) for i in children]
                dropped += [cell.child(i) for i in range(2**self.dim) if i not in children]
            a, b = tree.interval
            if kept and side / 2 >= SMALLEST:
                tree.live, tree.depth = kept, tree.depth + 1
                tree.pruned += [(cell, tree.epoch) for cell in dropped]
                a = tau - self.c * side * width  # (Alg. 1, l. 14), c s scaled to the interval
            elif kept:
                tree.stopped = f"cells of side {side:.2g} are not halved further"
            else:
                a, b = a - (b - a) / 2, b - (b - a) / 2  # (Alg. 1, l. 12)
            if not self.fresh:  # not in paper: what the tests found
                tree.contradictions += found[0] > b
                if self._mistaken(
                    found[0]
                ):  # the given interval was wrong, and with it the scale: begin again with what is known now
                    self._trusting = False
                    tree.live, tree.depth, tree.pruned = [Cell.whole(self.dim)], 0, []
                    width = found[1] - found[0]
                a, b = found
            tree.interval = (a, b)
            tree.epoch += 1

    def _mistaken(self, low: float) -> bool:
        """Whether a lower bound and a value have passed the given interval while the scale still comes from it."""
        return (
            self._trusting
            and self.interval is not None
            and self.interval[1] < min(low, float(self.y[: self._seen].max()))
        )

    # -- Algorithm 3

    def _targets(self, cell: Cell, tau: float, slack: float) -> Search:
        """The children of a cell with points above tau; the authors' heuristic, which descends all levels at once."""
        test = self._open(cell)
        tau, slack = (tau - self.scale.shift) / self.scale.sd, slack / self.scale.sd
        children: list[int] = []
        since = 0
        if not self._asked or self.fresh:
            since += yield from self._wait(test)
        while test.open:
            if test.upper < tau - slack:
                break
            timeout = since >= self._patience(test, slack)
            if test.lower > tau or timeout:
                children.append(test.accept())
                self.tree.by_time += timeout and test.lower <= tau
                self.tree.by_bound += test.lower > tau
                since = 0
                if test.open:
                    test.score(self._beta(test))
                if not self.paper:
                    continue
            if test.open:
                since += yield from self._wait(test)
        return children

    def _wait(self, test: CellTest) -> Generator[None, Told, int]:
        """Waits for a sample of the test and takes it in; 1."""
        self._asked = True
        missed = 0
        scale = self.scale
        while True:
            x, y, variance = yield
            if test.take(x, (y - scale.shift) / scale.sd, scale.noise_inside(variance)):
                break
            missed += 1
            if missed >= STALL:
                test.close()
                return 1
        test.score(self._beta(test))
        return 1

    # -- Algorithm 2

    def _walk(self, cell: Cell, tau: float, slack: float) -> Search:
        """The children of a cell with points above tau, one random walk on the tree of its d halvings each, ended by
        the test at the root."""
        found: list[int] = []
        while True:
            sure = leaf_confidence(self.delta0, self.horizon, len(found) + 1, self.p, self.dim)
            seen = [cell.child(i) for i in found]
            path = [(cell, 0)]
            while True:
                here, number = path[-1]
                depth = len(path) - 1
                if depth == 0 and not (yield from self._passes(cell, seen, tau, slack, yes=self.p, no=sure)):
                    return found
                if depth == self.dim:  # (Alg. 2, l. 3-9)
                    if (yield from self._passes(here, seen, tau, slack, yes=sure, no=self.p)):
                        found.append(number)
                        break
                    path.pop()
                    continue
                for upper in (False, True):  # (Alg. 2, l. 11-20)
                    half = here.half(depth, upper)
                    if (yield from self._passes(half, seen, tau, slack, yes=self.p, no=self.p)):
                        path.append((half, number | upper << depth))
                        break
                else:
                    if depth:
                        path.pop()

    def _passes(self, cell: Cell, seen: list[Cell], tau: float, slack: float, *, yes: float, no: float) -> Search:
        """The local test (Fig. 3), two-sided (Sec. 7.2): sure to 1 - yes of a pass and to 1 - no of a rejection,
        without the cells already found."""
        test = self._open(cell)
        for other in seen:
            test.drop_inside(other)
        tau, slack = (tau - self.scale.shift) / self.scale.sd, slack / self.scale.sd
        samples = 0
        while test.open:
            samples += yield from self._wait(test)
            if not test.open:
                break
            surest = min(yes, no)
            patient = samples >= self._patience(test, slack, no)
            if test.bounds(self._beta(test, yes))[0] >= tau:
                return True
            if test.bounds(self._beta(test, surest if patient else no))[1] <= tau - slack:
                return False
            if samples >= self._patience(test, slack, surest):
                self.tree.by_time += 1
                return True
            test.score(self._beta(test, self.delta0 / (4 * self.horizon)))
        return False

    # -- one test

    def _open(self, cell: Cell, *, shared: bool | None = None) -> CellTest:
        """The test of a cell, with the earlier samples it starts from."""
        scale = self.scale
        test = CellTest(cell, self._grids, kernel=self.kernel, lengthscale=scale.lengthscale, noise=scale.noise)
        if not self.fresh if shared is None else shared:
            start = max(0, self._seen - LOOK_BACK)
            near = start + np.flatnonzero(cell.near(self.X[start : self._seen]))[-SHARED:]
            if len(near):
                X, y, total = grouped(self.X[near], self.y[near], weights(self.yvar[near], scale.noise_variance))
                test.posterior.condition(X, scale.inside(y), total)
        test.score(self._beta(test))
        self._test = test
        return test

    def _beta(self, test: CellTest, delta: float | None = None) -> float:
        t = test.posterior.t
        gain = (
            test.posterior.gain
            if self.gain == "realised"
            else math.log(max(t, 1))
            if self.gain == "log"
            else math.sqrt(t)
        )
        R = math.sqrt(self.scale.noise)
        return confidence_width(
            gain, self.B, R if self.paper else max(R, LEAST_R), self.delta0 if delta is None else delta
        )

    def _patience(self, test: CellTest, slack: float, delta: float | None = None) -> float:
        """Samples after which a test with this confidence accepts; the constant belongs to confidence delta0 (Alg. 3)
        or p (the walk)."""
        if delta is None and self.t_term != "formula":
            return float(self.t_term)
        noise = self.scale.noise
        delta = self.delta0 if delta is None else delta
        if isinstance(self.t_term, str):
            return termination_time(len(test.grid), slack, self.B, math.sqrt(noise), noise, delta)
        usual = self.p if self.search == "walk" else self.delta0
        return math.ceil(self.t_term * (self._beta(test, delta) / self._beta(test, usual)) ** 2)

    def _found(self) -> tuple[float, float]:
        """The largest lower and upper bound of the last test, over all its grid, in the units of the values."""
        assert self._test is not None
        low, high = self._test.bounds(self._beta(self._test), everywhere=True)
        return self.scale.shift + self.scale.sd * low, self.scale.shift + self.scale.sd * high

    # -- the scale of the values

    def _first_scale(self) -> Scale:
        """Before any fit: the paper's raw values, or the interval's lower half as one standard deviation."""
        length = self.lengthscale or 0.2 * math.sqrt(self.dim / 2)
        if self.paper or self.interval is None:
            return Scale(0.0, 1.0, length, max((0.1 if self.noise is None else self.noise) ** 2, LEAST_NOISE))
        a, b = self.interval
        sd = (b - a) / 2
        return Scale(a - sd, sd, length, max((0.1 if self.noise is None else self.noise / sd) ** 2, LEAST_NOISE))

    def _refit(self) -> None:
        """Fits what was not given, whenever the number of values has grown by the factor REFIT."""
        known = self.paper or (self._trusting and self.lengthscale is not None and self.noise is not None)
        if not known and self._seen >= max(REFIT * self._fitted_at, FIRST_PER_DIM * self.dim):
            self._fit()

    def _fit(self) -> None:
        self._fitted_at = n = self._seen
        scale = fit_scale(
            self.X[:n], self.y[:n], self.kernel, yvar=self.yvar[:n], lengthscale=self.lengthscale, noise=self.noise
        )
        self.scale = replace(scale, noise=max(scale.noise, LEAST_NOISE))

    def _find_interval(self) -> Search:
        """Waits for the first design, fits the scale and takes the largest bounds on the whole cube's grid for the
        interval."""
        first = len(self._first) if self.budget is None else max(2, min(len(self._first), self.budget // 3))
        while self._seen < first:
            yield
        self._fit()
        self._open(self.tree.live[0], shared=True)
        self.tree.interval = self._found()


def _check_options(given: dict[str, Any]) -> None:
    """Raises ValueError for an option that makes no sense, naming it."""
    words = {
        "preset": ("default", "paper"),
        "search": ("heuristic", "walk"),
        "kernel": ("se", "matern52"),
        "gain": (None, "realised", "log", "root"),
    }
    wrong = [f"{name} must be one of {legal}" for name, legal in words.items() if given[name] not in legal]
    for name, low, high in (
        ("delta0", 0.0, 1.0),
        ("p", 0.0, 0.5),
        *((name, 0.0, math.inf) for name in ("lengthscale", "B", "norm_bound")),
    ):
        if given[name] is not None and not low < given[name] < high:
            wrong.append(f"{name} must be between {low:g} and {high:g}")
    wrong += [
        f"{name} must be finite and at least 0"
        for name in ("noise", "c")
        if given[name] is not None and not 0 <= given[name] < math.inf
    ]
    if given["t_term"] not in (None, "formula") and not (isinstance(given["t_term"], int) and given["t_term"] >= 1):
        wrong.append("t_term must be a whole number of at least 1")
    points = given["points_per_axis"]
    each = points if isinstance(points, tuple) else (2 if points is None else points,) * given["self"].dim
    if len(each) != given["self"].dim or not all(isinstance(m, int) and m >= 2 for m in each):
        wrong.append("points_per_axis must be a whole number of at least 2, or one for each axis")
    a, b = given["interval"] or (0.0, 1.0)
    if not -math.inf < a < b < math.inf:
        wrong.append("interval must be two finite numbers a < b")
    if wrong:
        raise ValueError(f"{wrong[0]}, got {given[wrong[0].split()[0]]!r}")
    if given["norm_bound"] is not None and (given["lengthscale"] is None or given["noise"] is None):
        raise ValueError("norm_bound is a bound in a known kernel: give lengthscale and noise with it")
