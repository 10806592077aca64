"""GP-ThreDS as printed: Salgia, Vakili and Zhao, "A Computationally Efficient Approach to Black-box Optimization using
Gaussian Process Models" ("A Domain-Shrinking based Bayesian Optimization Algorithm with Order-Optimal Regret
Performance", NeurIPS 2021).

Notation
    k, tau_k, [a_k, b_k]   epoch, threshold, interval of f*        rho_k    depth of the live nodes, d for each halving
    D_k, D_g               live nodes, grid of a node              c        `threshold_slack`
    mu, sigma              posterior on the grid (Eq. 3, 4)        t_term   `patience`: samples until a test accepts
    beta                   B + R sqrt(2 (gamma + 1 + ln 1/delta))  gamma    information gain (Eq. 6)
    p, delta-hat           errors of the walk's tests              R, lambda  sd of the noise, its variance in the model

Deviations (reasons in docs/lab/gp-threds.md)
    1. `beta` has the factor 2 that Sec. 3.2.2 drops and the authors' code has.
    2. delta-hat is printed upside down (`leaf_confidence`). Without `holder` alpha is 1, L Delta_k is c s with the side
       s of a node, and the step of a_k is c s. That step is times the first interval's width, which Lemma 4 takes as 1.
       From the authors' code are delta_0 where Alg. 1 has delta_0 / 4T, gamma = log t and a constant t_term.
    3. A test with no grid point left ends; a time-out accepts the best lower bound, however low.
    4. A told point near the running node is a sample of its test, whoever asked for it; others only reach the
       recommendation. STALL told points in a row from elsewhere close a test.
    5. The recommendation is the arg max of mean less one sd of one model of all values; the paper has none.
    6. A noise variance told with a value is that value's lambda; R in beta stays the one given.
    7. The paper leaves x_1 in D_g and ties of the arg max open (Fig. 3). A test starts in the middle, and an order
       drawn from the seed decides between level points.
    8. Nodes stop shrinking at side SMALLEST, because floats end; `ThresholdTree.stopped` says so.
On request
    9. The paper knows B. `assumed_norm="doubling"` begins with NORM and doubles it when the values refute it
       (`unknown_norm`); the search then begins again. Values are asked at ends of epochs, at each growth by half.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from regretless.basics.options import in_range, one_of, whole_number
from regretless.basics.streams import Draws, Stream
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, Traits, keyed_generator
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
from regretless.methods.gp_threds.unknown_norm import Ridge, doubled, ridge
from regretless.methods.gp_threds.widths import Gain, Widths, leaf_confidence
from regretless.models.gp.kernels import KernelKind
from regretless.models.grid.posterior import RowPosterior
from regretless.models.grid.scale import LEAST_NOISE_VAR, REFIT, ProcessScale, weights
from regretless.models.grid.whole_model import cautious_best
from regretless.space import Cube
from regretless.space.parameters import Array

NORM = 0.5  # B of the authors' code for Branin and the CNN, and what "doubling" begins with


def gp_threds(run: PrintedRun) -> SearchSteps:
    """Algorithm 1: GP-ThreDS."""
    tree = run.tree  # D_1 = {X}, [a_1, b_1], k = 1, rho_1 = 0
    width = tree.interval[1] - tree.interval[0]
    while True:  # repeat
        tau, slack = tree.threshold, run.slack  # tau_k = (a_k + b_k) / 2; L Delta_k^alpha
        tree.thresholds.append(tau)
        targets = []
        for v in tree.live:  # for v in D_k do
            targets.append((yield from run.get_target_nodes(v, tau, slack)))  # L_v = getTargetNodes(T_v, tau_k)
        a, b = tree.interval
        if not any(targets):  # if D_{k+1} is empty then D_{k+1} = D_k, rho_{k+1} = rho_k
            tree.interval = a - (b - a) / 2, b - (b - a) / 2
        elif tree.halve(targets):  # else D_{k+1} = union of L_v, rho_{k+1} = rho_k + d
            tree.interval = tau - run.fall * slack * width, b  # tau_k - c 2^(-alpha (rho_k / d + 1) + 1), b_k
        tree.epoch += 1  # k = k + 1
        run.doubt_the_norm()  # not in paper


def heuristic(run: PrintedRun, D: Cell, tau: float, slack: float) -> Generator[None, Sample, list[int]]:
    """Algorithm 3: the target nodes among the children of D. It descends all levels of the walk's tree at once."""
    test, target_nodes = run.open_test(D), list[int]()
    t_term = run.widths.t_term(test.posterior, slack)
    yield from run.sample(test)  # x_1 in D_g
    t_loc = 1
    while test.open:  # while terminate != 1 do
        if test.upper <= tau - slack:  # if max mu + beta sigma <= tau - L Delta
            break  # terminate = 1
        if test.lower >= tau or t_loc >= t_term:  # else if max mu - beta sigma >= tau; else if t_loc == t_term
            run.tree.by_bound += test.lower >= tau
            run.tree.by_time += test.lower < tau
            target_nodes.append(test.accept())  # c* has the arg max of mu - beta sigma; C = C \ c*, D_g = D_g \ c*
            if not run.repeats:  # in the authors' code the next sample is the arg max from before
                run.score(test)
            t_loc = 0
        if test.open:
            yield from run.sample(test)  # x_t = arg max mu + beta sigma; observe y_t
            t_loc += 1
    return target_nodes


def random_walks(run: PrintedRun, root: Cell, tau: float, slack: float) -> Generator[None, Sample, list[int]]:
    """Sec. 3.2.1: one walk of Algorithm 2 after the other, each leaving out the target nodes found before, until the
    root shows no other."""
    target_nodes: list[int] = []
    while True:
        sure = leaf_confidence(run.widths.delta, run.horizon, len(target_nodes) + 1, run.p, len(root.sides))
        seen = [root.child(i) for i in target_nodes]
        leaf = yield from random_walk(run, root, seen, tau, slack, sure)
        if leaf is None:
            return target_nodes
        target_nodes.append(leaf)


def random_walk(
    run: PrintedRun, root: Cell, seen: list[Cell], tau: float, slack: float, sure: float
) -> Generator[None, Sample, int | None]:
    """Algorithm 2: the number of a target leaf; None when the test of the root, each time it is reached, denies that
    there is another. sure: delta-hat."""
    p, d = run.p, len(root.sides)
    path = [(root, 0)]  # currNode = root(T), below its ancestors; each with the number of the leaf it leads to
    while True:  # while terminate != 1 do
        node, number = path[-1]
        depth = len(path) - 1
        if depth == 0 and not (yield from local_test(run, root, seen, tau, slack, yes=p, no=sure)):
            return None
        if depth == d:  # if depth(currNode) == d then
            if (yield from local_test(run, node, seen, tau, slack, yes=sure, no=p)):  # leafLocalTest
                return number  # terminate = 1, retNode = currNode
            path.pop()  # else currNode = parent(currNode)
            continue
        for upper in (False, True):  # leftChild, then rightChild
            child = node.half(depth, upper)
            if (yield from local_test(run, child, seen, tau, slack, yes=p, no=p)):  # LocalTest
                path.append((child, number | upper << depth))  # currNode = that child
                break
        else:
            if depth:  # the parent of the root is the root
                path.pop()  # currNode = parent(currNode)


def local_test(
    run: PrintedRun, D: Cell, seen: list[Cell], tau: float, slack: float, *, yes: float, no: float
) -> Generator[None, Sample, bool]:
    """Fig. 3 with the two errors of Sec. 7.2: whether D has points above tau outside the nodes seen. A yes errs with
    probability `yes`, a no with `no`."""
    test, beta, surest = run.open_test(D, without=seen), run.widths.beta, min(yes, no)
    posterior, s = test.posterior, 0
    while test.open:
        yield from run.sample(test)  # observe y_s, use (3) and (4)
        s += 1
        if not test.open:
            break
        if test.bounds(beta(posterior, yes))[0] >= tau:  # max mu - beta(yes) sigma >= tau: +1
            return True
        is_late = s >= run.widths.t_term(posterior, slack, no)
        if test.bounds(beta(posterior, surest if is_late else no))[1] <= tau - slack:  # max mu + beta sigma: -1
            return False
        if s >= run.widths.t_term(posterior, slack, surest):  # s = t_term: +1
            run.tree.by_time += 1
            return True
        test.score(beta(posterior, run.widths.delta / (4 * run.horizon)))  # x_s = arg max mu + beta(delta_0 / 4T) sigma
    return False


def grid_of(holder: tuple[float, float], c: float, dim: int, points_per_axis: object) -> int:
    """The fewest points per axis with which a node's grid is within Delta_k = (c / L)^(1/alpha) 2^-(rho_k / d + 1) of
    each of its points (Eq. 5). The number is the same at every depth, as Theorem 1 says."""
    if points_per_axis is not None:
        raise ValueError(f"holder= sets the grid, so points_per_axis must be left out, got {points_per_axis!r}")
    L, alpha = holder
    in_range("(0, inf)", L=L)
    in_range("(0, 1]", alpha=alpha)
    in_range("(0, 0.5)", threshold_slack=c)
    # a cell of side s has its points s / (m - 1) apart, and the farthest point is half a diagonal of that away
    apart: float = math.sqrt(dim) * (L / c) ** (1 / alpha)
    m, most = math.ceil(apart * (1 - 1e-12)) + 1, 10_000
    if m**dim > most:
        raise ValueError(
            f"holder={holder!r} with threshold_slack={c!r} needs {m}^{dim} points in a node; {most} at most"
        )
    return m


class PrintedRun(TreeSearch):
    """What the algorithms hold of one run: its widths and constants, and when the norm was last asked about."""

    def __init__(
        self,
        grids: GridPriors,
        kernel: KernelKind,
        scale: ProcessScale,
        interval: tuple[float, float],
        *,
        widths: Widths,
        c: float,
        p: float,
        horizon: int,
        walks: bool,
        doubles: bool,
        repeats: bool,
        alpha: float | None,
    ) -> None:
        super().__init__(grids, kernel, scale, interval)
        self.alpha, self.fall = alpha, 1.0 if alpha is None else 2.0
        self.widths, self.c, self.p, self.horizon, self.repeats = widths, c, p, horizon, repeats
        self._first_interval, self._walks, self._doubles, self._asked_at = interval, walks, doubles, 0

    def search(self) -> SearchSteps:
        return gp_threds(self)

    @property
    def slack(self) -> float:
        """L Delta_k^alpha = c 2^(-alpha (rho_k / d + 1)) of the live nodes; without alpha their side times c."""
        side = self.tree.side
        return self.c * (side if self.alpha is None else (side / 2) ** self.alpha)

    def get_target_nodes(self, v: Cell, tau: float, slack: float) -> Generator[None, Sample, list[int]]:
        """The numbers of the children of a node that have points above tau."""
        return (random_walks if self._walks else heuristic)(self, v, tau, slack)

    def beta(self, posterior: RowPosterior) -> float:
        return self.widths.beta(posterior)

    def open_test(self, cell: Cell, without: Sequence[Cell] = ()) -> CellTest:
        """A test of a cell without the points of other cells, on fresh data."""
        test = self.new_test(cell)
        for other in without:
            test.drop_inside(other)
        self.score(test)
        return test

    def doubt_the_norm(self) -> None:
        """Where B is not known, doubles it until the values do not refute it; the search then begins again."""
        if not self._doubles or self.n < REFIT * self._asked_at:
            return
        self._asked_at = self.n
        norm = doubled(self._estimate(), self.widths.norm, self.widths.delta)
        if norm > self.widths.norm:
            self.widths = replace(self.widths, norm=norm)
            self.tree.begin_again()
            self.tree.interval = self._first_interval

    def _estimate(self) -> Ridge:
        X, y, yvar = self.values
        length, noise_var = self.scale.lengthscale, self.scale.noise_var
        weight = weights(yvar, noise_var)
        return ridge(X, self.scale.inside(y), weight, kernel=self.kernel, lengthscale=length, noise_var=noise_var)


class PrintedGPThreDS(Method):
    """GP-ThreDS as its authors print it: known kernel, noise and interval, fresh data in each test, values as they are.

    Args:
        search: "heuristic" (Alg. 3, Sec. 7.3), or "walk": the random walk on the tree (Alg. 2, Sec. 7.2).
        interval: (a, b) believed to hold f*, as maximised.
        kernel: "se" or "matern52".
        lengthscale: of the kernel, in sides of the cube.
        noise_sd: R, the standard deviation of the noise.
        assumed_norm: B, what beta takes for the norm of f. "doubling": 0.5 until the values refute it, then twice as
            much.
        delta: delta_0, the probability of error.
        threshold_slack: c, how far below the threshold a bound is rejected, in sides.
        patience: t_term, samples after which a test accepts; "formula": Eq. (7), 1e5 and more.
        points_per_axis: of a node's grid, one number or one per axis; None: by dimension.
        gain: gamma in beta: "log" or "root" of the number of samples, or "realised" by them.
        walk_error: p, probability of error of the walk's inner tests, below 1/2 (Sec. 3.2.1).
        holder: (L, alpha) of |f(x) - f(x')| <= L |x - x'|^alpha. It sets the grid, the tests' slack and the step of the
            interval as Sec. 3.1 and Eq. (5) have them, with c = `threshold_slack` below 1/2; None: not known.
        repeat_accepted: sample the old arg max once more after an acceptance, in the child that was removed, as the
            authors' code does and the paper does not say.
    """

    traits = Traits(max_dim=max(POINTS_PER_AXIS))
    _noisy = True
    run_class = PrintedRun

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        search: Literal["heuristic", "walk"] = "heuristic",
        interval: tuple[float, float] = (0.0, 1.0),
        kernel: KernelKind = "se",
        lengthscale: float = 0.2,
        noise_sd: float = 0.1,
        assumed_norm: float | Literal["doubling"] = NORM,
        delta: float = 1e-3,
        threshold_slack: float = 0.2,
        patience: int | Literal["formula"] = 50,
        points_per_axis: int | tuple[int, ...] | None = None,
        gain: Gain = "log",
        walk_error: float = 0.1,
        holder: tuple[float, float] | None = None,
        repeat_accepted: bool = False,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(("heuristic", "walk"), search=search)
        one_of(get_args(KernelKind), kernel=kernel)
        one_of(get_args(Gain), gain=gain)
        in_range("(0, 1)", delta=delta)
        in_range("(0, 0.5)", walk_error=walk_error)
        in_range("(0, inf)", lengthscale=lengthscale)
        in_range("[0, inf)", noise_sd=noise_sd, threshold_slack=threshold_slack)
        in_range("(0, inf) or 'doubling'", assumed_norm=assumed_norm)
        whole_number(also=("formula",), patience=patience)
        warn_of_dimension(self.dim)
        self._search, self._kernel, self._interval = search, kernel, checked_interval(interval)
        self._scale = ProcessScale(
            0.0, 1.0, float(lengthscale), max(float(noise_sd) ** 2, LEAST_NOISE_VAR)
        )  # values as they are
        self._c, self._p, self._doubles = float(threshold_slack), float(walk_error), assumed_norm == "doubling"
        self._again, self._alpha = repeat_accepted, None if holder is None else float(holder[1])
        if holder is not None:
            points_per_axis = grid_of(holder, self._c, self.dim, points_per_axis)
        self._widths = Widths(
            norm=NORM if assumed_norm == "doubling" else float(assumed_norm), delta=float(delta), gain=gain,
            patience=patience, usual_delta=self._p if search == "walk" else float(delta),
        )  # fmt: skip
        ties = keyed_generator(self.seed, 0, stream=Stream.GP_THREDS_TIES)
        self.grids = GridPriors(self.cube, points_per_axis, ties)
        self.run: PrintedRun
        self._best: Array | None = None
        """The recommended point after the values that the run has taken in."""

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self._catch_up(history)
        return self.run.next_point(history, rng)

    def tree(self, history: History) -> ThresholdTree:
        """The live nodes, thresholds and regions given up after these values."""
        self._catch_up(history)
        return self.run.tree

    def _recommend(self, history: History) -> Array:
        self._catch_up(history)
        if self._best is None:
            rng, noise_var = self._fixed_generator(), self._scale.observed_noise_var
            self._best = cautious_best(history, self.cube, noise_var, self._kernel, rng)
        return self._best

    def _certificate(self, history: History, delta: float) -> Certificate:
        a, b = self.tree(history).interval
        return Certificate.none(f"the paper's own interval [{a:.4g}, {b:.4g}] is not a guarantee", delta)

    def _begin(self) -> None:
        # 1000: T where no budget is given, as in the paper's experiments; it only enters through logarithms
        self.run = self.run_class(
            self.grids, self._kernel, self._scale, self._interval, widths=self._widths, c=self._c, p=self._p,
            horizon=self.budget or 1000, walks=self._search == "walk", doubles=self._doubles,
            repeats=self._again, alpha=self._alpha,
        ).begin()  # fmt: skip
        self._best = None

    def _update(self, history: History, first: int) -> None:
        self.run.observe(history)
        self._best = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy has no running search of its own: it takes the history in again."""
        return {name: value for name, value in self.__dict__.items() if name != "run"} | {"_seen": None}
