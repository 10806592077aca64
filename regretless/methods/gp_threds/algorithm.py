"""GP-ThreDS: Salgia, Vakili and Zhao, "A Computationally Efficient Approach to Black-box Optimization using Gaussian
Process Models" ("A Domain-Shrinking based Bayesian Optimization Algorithm with Order-Optimal Regret Performance",
NeurIPS 2021).

A threshold tau halves the interval in which f* is believed to lie. A cell of the domain survives an epoch when a local
test finds points above tau in it, and survivors are halved along every axis. The posterior is only ever needed on one
cell's grid, so a sample costs the same at t = 100,000 as at t = 100. The certificate is computed apart from the search.

Notation
    k, tau_k, [a_k, b_k]   epoch, threshold, interval of f*        s          side of the live cells, 2^-depth
    D_k, D_g               live cells, grid of a cell              c          `threshold_slack`, of a rejection
    mu, sigma              posterior on the grid                   t_term     `patience`: samples until a test accepts
    beta                   B + R sqrt(2 (gamma + 1 + ln 1/delta))  gamma      information gain (Eq. 6)
    p, delta-hat           errors of the walk's tests              R, lambda  sd of the noise, its variance in the model

Deviations, both presets (reasons in docs/lab/gp-threds.md)
    1. `beta` has the factor 2 that Sec. 3.2.2 drops and the authors' code has. A valid bound needs R / sqrt(lambda) in
       place of R: this beta steers, and the certificate uses the valid one.
    2. delta-hat is printed upside down (`leaf_confidence`). L and alpha are never known: L Delta^alpha is c s, and the
       step of a_k is c s times the first interval's width, which Lemma 4 takes as 1. From the authors' code are
       delta_0 where Alg. 1 has delta_0 / 4T and, in the paper preset, gamma = log t and a constant t_term.
    3. A rejection test with no grid point left is a rejection; a time-out accepts the best lower bound, however low.
    4. A told point near the running cell is a sample of its test, whoever asked for it; others reach later tests
       (default) or the recommendation (paper). STALL told points in a row from elsewhere close a test.
    5. The recommendation is the arg max of mean less one sd of one model of all values; the paper has none.
    6. A noise variance told with a value is that value's lambda; R in beta stays the one given or fitted.
    7. The paper leaves x_1 in D_g and ties of the arg max open (Fig. 3). A test without earlier samples starts in the
       middle. Where tests start afresh (paper preset, walk), an order drawn from the seed decides between level points.
Default preset only
    8. Tests start from the SHARED latest earlier samples near their cell; the paper starts each afresh.
    9. After an epoch the interval is what its tests found, [best lower, best upper bound], not a step of a bisection. A
       given interval that a lower bound passes is given up, and the search begins again.
   10. Values are standardised: by the interval when it is given, otherwise by a maximum-likelihood fit (first after a
       Sobol design, then at each growth by half), which also gives length-scale and noise unless they are given.
   11. Cells stop shrinking at side SMALLEST; `tree.stopped` says so.
On request
   12. The paper knows B. `assumed_norm="doubling"` begins with the preset's and doubles it when the values refute it
       (`unknown_norm`); the search then begins again. Values are asked at ends of epochs, at each growth by half.
"""

import math
import warnings
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.certify import wary_surrogate
from regretless.gp.kernels import Kind
from regretless.gp.sobol import sobol_points
from regretless.grid.scale import LEAST_NOISE_VAR, REFIT, Scale, fit_scale, weights
from regretless.grid.whole_model import cautious_best, whole_certificate
from regretless.method import Method, keyed_generator
from regretless.methods.gp_threds.norm_ball import norm_certificate
from regretless.methods.gp_threds.random_walk import Search, Told, walk
from regretless.methods.gp_threds.threshold_tree import Cell, CellTest, GridPriors, ThresholdTree, beside_the_best
from regretless.methods.gp_threds.unknown_norm import doubled, ridge
from regretless.methods.gp_threds.widths import Gain, Widths
from regretless.noise import stated_noise
from regretless.options import PRESETS, Preset, in_range, one_of, whole_number
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream

SHARED, LOOK_BACK = 400, 4096  # a test starts from at most so many earlier samples near its cell, of so many latest
FIRST_PER_DIM = 6  # points per dimension of the design when no interval is known, chosen like `SETTINGS`
SMALLEST = 1e-6  # the least side of cells: grid points of smaller ones are closer than most objectives resolve
STALL = 50  # told points in a row from elsewhere that close a test, as many as a test of the paper preset takes
AVOIDED = 0.1  # points this many sides from a failed evaluation are not proposed in a cell while others are left
SAME = 1e-9  # points closer than this many sides are the same point; the rest is rounding
HORIZON = 1000  # T where no budget is given, as in the paper's experiments; it only enters through logarithms
ELSEWHERE = 32  # random points to choose from when every point of the running cell is pending or near a failure
GUESSED_NOISE_SD, GUESSED_LENGTHSCALE = 0.1, 0.2  # until a fit gives them (Sec. 5); the latter grows like sqrt(d)
POINTS_PER_AXIS = {1: 64, 2: 20, 3: 8, 4: 5, 5: 4, 6: 3}  # of a cell's grid; 20 in the plane as in the authors' code


class Settings(NamedTuple):
    """What a preset takes for the options that are not given; None: found from the data."""

    assumed_norm: float
    threshold_slack: float
    patience: int
    gain: Gain
    least_noise_sd: float  # beta takes at least this for R
    interval: tuple[float, float] | None
    lengthscale: float | None
    noise_sd: float | None


SETTINGS: dict[Preset, Settings] = {
    "default": Settings(0.5, 0.05, 20, "realised", 0.1, None, None, None),
    "paper": Settings(0.5, 0.2, 50, "log", 0.0, (0.0, 1.0), 0.2, 0.1),
}
"""The paper's numbers are those of Fig. 4 for Branin and of the authors' code. The default's slack and patience were
chosen on Branin and Rosenbrock with seeds 0 to 9; with less than its least noise the tests are rash."""


class DimensionWarning(UserWarning):
    """GP-ThreDS in a dimension where its grids are too coarse to be of much use."""


class GPThreDS(Method):
    """GP-ThreDS: a Gaussian process on ever smaller cells, kept or dropped by a threshold; constant cost per sample.

    Args:
        preset: "default", or "paper": Alg. 1 with the authors' constants, fresh data, and values as they are.
        search: "heuristic" (Alg. 3), or "walk": the random walk on the tree (Alg. 2, Sec. 7.2), on fresh data.
        interval: (a, b) believed to hold f*, as maximised; None: found from the data (paper preset: (0, 1)).
        kernel: "se" or "matern52".
        lengthscale: of the kernel, in sides of the cube; None: fitted (paper preset: 0.2).
        noise_sd: R, the standard deviation of the noise; None: fitted (paper preset: 0.1).
        norm_bound: a true bound on the norm of f (not standardised) in the kernel's RKHS, if known, with lengthscale
            and noise_sd; the certificate is then a theorem.
        assumed_norm: B, what the deciding beta takes for the norm of f; it steers and bounds nothing. "doubling": 0.5
            until the values refute it, then twice as much; for the kernel's RKHS, in standardised units (paper: as is).
        delta: probability of error of the deciding beta (delta_0 in Sec. 5).
        threshold_slack: c, how far below the threshold a bound is rejected, in sides; None: 0.05 (paper: 0.2).
        patience: t_term, samples after which a test accepts; None: 20 (paper: 50); "formula": Eq. (7), 1e5 and more.
        points_per_axis: of a cell's grid, one number or one per axis; None: by dimension.
        gain: gamma in beta: "realised" by the samples of the test, or "log" or "root" of their number; None: "realised"
            (paper preset: "log").
        walk_error: p, probability of error of the walk's inner tests, below 1/2 (Sec. 3.2.1).

    Example:
        >>> method = GPThreDS(2, seed=0, budget=100)
        >>> x = method.ask()
    """

    max_dim = max(POINTS_PER_AXIS)
    renamed: ClassVar[Mapping[str, str]] = {
        "noise": "noise_sd", "B": "assumed_norm", "delta0": "delta",
        "c": "threshold_slack", "t_term": "patience", "p": "walk_error",
    }  # fmt: skip

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        search: Literal["heuristic", "walk"] = "heuristic",
        interval: tuple[float, float] | None = None,
        kernel: Kind = "se",
        lengthscale: float | None = None,
        noise_sd: float | None = None,
        norm_bound: float | None = None,
        assumed_norm: float | Literal["doubling"] | None = None,
        delta: float = 1e-3,
        threshold_slack: float | None = None,
        patience: int | Literal["formula"] | None = None,
        points_per_axis: int | tuple[int, ...] | None = None,
        gain: Gain | None = None,
        walk_error: float = 0.1,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(PRESETS, preset=preset)
        one_of(("heuristic", "walk"), search=search)
        one_of(get_args(Kind), kernel=kernel)
        one_of((None, *get_args(Gain)), gain=gain)
        in_range("(0, 1)", delta=delta)
        in_range("(0, 0.5)", walk_error=walk_error)
        in_range("(0, inf) or None", lengthscale=lengthscale, norm_bound=norm_bound)
        in_range("[0, inf) or None", noise_sd=noise_sd, threshold_slack=threshold_slack)
        in_range("(0, inf) or None or 'doubling'", assumed_norm=assumed_norm)
        whole_number(also=(None, "formula"), patience=patience)
        points = POINTS_PER_AXIS[self.dim] if points_per_axis is None else points_per_axis
        each = points if isinstance(points, tuple) else (points,) * self.dim
        if len(each) != self.dim or not all(isinstance(m, int) and m >= 2 for m in each):
            raise ValueError(f"points_per_axis must be a whole number of at least 2, or one per axis, got {points!r}")
        if interval is not None and not -math.inf < interval[0] < interval[1] < math.inf:
            raise ValueError(f"interval must be two finite numbers a < b, got {interval!r}")
        if norm_bound is not None and (lengthscale is None or noise_sd is None):
            raise ValueError("norm_bound is a bound in a known kernel: give lengthscale and noise_sd with it")
        if self.dim >= 4:
            advice = "its grids have few points per axis there; use 'gp-ucb' or 'turbo' instead"
            warnings.warn(f"GP-ThreDS in {self.dim} dimensions: {advice}", DimensionWarning, stacklevel=2)
        usual = SETTINGS[preset]
        self.paper, self.search, self.kernel, self.norm_bound = preset == "paper", search, kernel, norm_bound
        self.fresh = self.paper or search == "walk"
        self.c = usual.threshold_slack if threshold_slack is None else float(threshold_slack)
        self.delta, self.p, self.horizon = float(delta), float(walk_error), budget or HORIZON
        self.doubling = assumed_norm == "doubling"
        self._norm = usual.assumed_norm if assumed_norm in (None, "doubling") else float(assumed_norm)
        self.widths = Widths(
            norm=self._norm, delta=self.delta, gain=gain or usual.gain,
            patience=patience or usual.patience, usual_delta=self.p if search == "walk" else self.delta,
            least_noise_sd=usual.least_noise_sd,
        )  # fmt: skip
        self.interval, self.lengthscale = interval or usual.interval, lengthscale or usual.lengthscale
        self.noise_sd = usual.noise_sd if noise_sd is None else noise_sd
        self.known_noise = stated_noise(self.paper, self.noise_sd)
        ties = keyed_generator(self.seed, 0, stream=Stream.GP_THREDS_TIES) if self.fresh else None
        self._grids = GridPriors(self.cube, each, ties)
        self._first = sobol_points(FIRST_PER_DIM * self.dim, self.dim, self.fixed_generator())
        self._wary = wary_surrogate(self.cube)
        self._recommended: tuple[int, Array] | None = None
        self._begin()

    def _begin(self) -> None:
        self.tree = ThresholdTree(interval=self.interval or (-math.inf, math.inf), live=[Cell.whole(self.dim)])
        """Live cells, thresholds, regions given up; see `ThresholdTree`."""
        self.scale = self._first_scale()
        self.widths = replace(self.widths, norm=self._norm)
        self._trusting = self.interval is not None  # whether the scale comes from the given interval
        self._seen = self._fitted_at = 0  # values the search has taken in, and how many there were at the last fit
        self._asked_at = 0  # how many values there were when they were last asked about the norm
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
        pending, ucb = self.pending, test.ucb.copy()
        near = pending[test.cell.near(pending)]
        if len(near):
            ucb = test.mean + self.widths.beta(test.posterior) * np.sqrt(test.posterior.variance_after(near))
        for x, reach in [(x, SAME) for x in pending] + [(x, AVOIDED) for x in self.failed]:
            ucb[(np.abs(test.grid - x) <= reach * test.cell.sides).all(axis=1)] = -np.inf
        best = int(ucb.argmax())
        if ucb[best] > -np.inf:
            return np.asarray(test.grid[best])
        return beside_the_best(rng.random((ELSEWHERE, self.dim)), self.X, self.y, self.failed)

    def _update(self, X: Array, y: Array) -> None:
        yvar = self.yvar[self._seen : self._seen + len(y)]
        for told in zip(X, y.tolist(), yvar.tolist(), strict=True):
            self._seen += 1
            self._running.send(told)

    def _recommend(self) -> Array:
        n = len(self.y)
        if self._recommended is None or self._recommended[0] != n:
            self._recommended = n, cautious_best(self, self.scale.told_noise_var, self.kernel)
        return self._recommended[1]

    def _certificate(self, delta: float) -> Certificate:
        if self.norm_bound is not None:
            return norm_certificate(self, delta)
        if self.paper:
            a, b = self.tree.interval
            said = f"the paper's own interval [{a:.4g}, {b:.4g}] is not a guarantee, and norm_bound is not known"
            return Certificate.none(said, delta)
        return whole_certificate(self, self.scale.told_noise_var, delta, self._wary)

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
        width, walks = max(tree.interval[1] - tree.interval[0], 0.0), self.search == "walk"
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
                inside = (tau - self.scale.shift) / self.scale.sd, slack / self.scale.sd  # in standardised units
                children = yield from (walk(self, cell, *inside) if walks else self._targets(cell, *inside))
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
                if self._mistaken(found[0]):  # with the interval the scale was wrong: begin again with what is known
                    self._trusting = False
                    tree.live, tree.depth, tree.pruned = [Cell.whole(self.dim)], 0, []
                    width = found[1] - found[0]
                a, b = found
            tree.interval = (a, b)
            tree.epoch += 1
            if self.doubling and self._norm_refuted():
                tree.live, tree.depth, tree.pruned, tree.stopped = [Cell.whole(self.dim)], 0, [], ""
                if self.interval is None:
                    self.open_test(tree.live[0], shared=True)
                    tree.interval = self._found()
                else:
                    tree.interval = self.interval
                width = tree.interval[1] - tree.interval[0]

    def _norm_refuted(self) -> bool:
        """Doubles the norm of the widths until the values do not refute it; says whether it did."""
        n = self._seen
        if n < REFIT * self._asked_at:
            return False
        self._asked_at = n
        scale = self.scale
        noise_var = max(scale.noise_var, self.widths.least_noise_sd**2)
        weight = weights(self.yvar[:n], scale.sd * scale.sd * noise_var)
        estimate = ridge(
            self.X[:n], scale.inside(self.y[:n]), weight,
            kernel=self.kernel, lengthscale=scale.lengthscale, noise_var=noise_var,
        )  # fmt: skip
        norm = doubled(estimate, self.widths.norm, self.delta)
        is_refuted = norm > self.widths.norm
        self.widths = replace(self.widths, norm=norm)
        return is_refuted

    def _mistaken(self, low: float) -> bool:
        """Whether a lower bound and a value have passed the given interval while the scale still comes from it."""
        if not self._trusting or self.interval is None:
            return False
        return self.interval[1] < min(low, float(self.y[: self._seen].max()))

    # -- Algorithm 3

    def _targets(self, cell: Cell, tau: float, slack: float) -> Search:
        """The children of a cell with points above tau; the authors' heuristic, which descends all levels at once."""
        test, beta = self.open_test(cell), self.widths.beta
        children: list[int] = []
        since = 0
        if not self._asked or self.fresh:
            since += yield from self.take_sample(test)
        while test.open:
            if test.upper < tau - slack:
                break
            timeout = since >= self.widths.waiting_time(test.posterior, slack)
            if test.lower > tau or timeout:
                children.append(test.accept())
                self.tree.by_time += timeout and test.lower <= tau
                self.tree.by_bound += test.lower > tau
                since = 0
                if test.open:
                    test.score(beta(test.posterior))
                if not self.paper:
                    continue
            if test.open:
                since += yield from self.take_sample(test)
        return children

    def take_sample(self, test: CellTest) -> Generator[None, Told, int]:
        """Waits for a sample of the test and takes it in; 1."""
        self._asked = True
        missed = 0
        scale = self.scale
        while True:
            x, y, variance = yield
            if test.take(x, scale.value_inside(y), scale.noise_var_inside(variance)):
                break
            missed += 1
            if missed >= STALL:
                test.close()
                return 1
        test.score(self.widths.beta(test.posterior))
        return 1

    # -- one test

    def open_test(self, cell: Cell, *, without: list[Cell] | None = None, shared: bool | None = None) -> CellTest:
        """The test of a cell, with the earlier samples it starts from; the cells `without` are no part of it."""
        scale = self.scale
        test = CellTest(cell, self._grids, kernel=self.kernel, lengthscale=scale.lengthscale, noise_var=scale.noise_var)
        for other in without or ():
            test.drop_inside(other)
        if not self.fresh if shared is None else shared:
            start = max(0, self._seen - LOOK_BACK)
            near = start + np.flatnonzero(cell.near(self.X[start : self._seen]))[-SHARED:]
            if len(near):
                test.posterior.condition(*scale.grouped(self.X[near], self.y[near], self.yvar[near]))
        test.score(self.widths.beta(test.posterior))
        self._test = test
        return test

    def _found(self) -> tuple[float, float]:
        """The largest lower and upper bound of the last test, over all its grid, in the units of the values."""
        assert self._test is not None
        low, high = self._test.bounds(self.widths.beta(self._test.posterior), everywhere=True)
        return self.scale.shift + self.scale.sd * low, self.scale.shift + self.scale.sd * high

    # -- the scale of the values

    def _first_scale(self) -> Scale:
        """Before any fit: the paper's raw values, or the interval's lower half as one standard deviation."""
        length = self.lengthscale or GUESSED_LENGTHSCALE * math.sqrt(self.dim / 2)
        shift, sd = 0.0, 1.0
        if not self.paper and self.interval is not None:
            a, b = self.interval
            sd = (b - a) / 2
            shift = a - sd
        noise_sd = GUESSED_NOISE_SD if self.noise_sd is None else self.noise_sd / sd
        return Scale(shift, sd, length, max(noise_sd**2, LEAST_NOISE_VAR))

    def _refit(self) -> None:
        """Fits what was not given, whenever the number of values has grown by the factor REFIT."""
        known = self.paper or (self._trusting and self.lengthscale is not None and self.noise_sd is not None)
        if not known and self._seen >= max(REFIT * self._fitted_at, FIRST_PER_DIM * self.dim):
            self._fit()

    def _fit(self) -> None:
        n = self._fitted_at = self._seen
        known = {"lengthscale": self.lengthscale, "noise_sd": self.noise_sd}
        scale = fit_scale(self.X[:n], self.y[:n], self.kernel, yvar=self.yvar[:n], **known)
        self.scale = replace(scale, noise_var=max(scale.noise_var, LEAST_NOISE_VAR))

    def _find_interval(self) -> Search:
        """Waits for the first design, fits the scale and takes the bounds on the whole cube's grid for the interval."""
        first = len(self._first) if self.budget is None else max(2, min(len(self._first), self.budget // 3))
        while self._seen < first:
            yield
        self._fit()
        self.open_test(self.tree.live[0], shared=True)
        self.tree.interval = self._found()
