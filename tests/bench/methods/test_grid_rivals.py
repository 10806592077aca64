"""IGP-UCB, adaptive discretisation, EI and PI on a grid: their choices against independent slow forms, and (slow) the
regret of the paper."""

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from inside import beta_of
from regretless_bench.methods import RIVALS
from regretless_bench.methods.adaptive_discretization import AdaptiveDiscretization
from regretless_bench.methods.grid_ei import GridImprovement
from regretless_bench.methods.grid_posteriors import ProductPosterior, SavedRows
from regretless_bench.methods.igp_ucb import IGPUCB
from regretless_bench.problems import make_problem
from scipy.stats import norm

from regretless.method import Method
from regretless.models.grid.posterior import correlation
from regretless.space import Space
from regretless.space.parameters import Array, Float, Int
from regretless.testing import Loop

BRANIN = make_problem("branin-threds")
probable = partial(GridImprovement, criterion="probability")


def slow_posterior(X: Array, y: Array, grid: Array, kernel: Any = "se") -> tuple[Array, Array]:
    """Mean and sd on a grid by a direct solve, l = 0.2 and noise variance 0.01."""
    K = correlation(kernel, X, X, 0.2) + 0.01 * np.eye(len(X))
    cross = correlation(kernel, X, grid, 0.2)
    solved = np.linalg.solve(K, np.column_stack([cross, y]))
    return cross.T @ solved[:, -1], np.sqrt(np.maximum(1 - (cross * solved[:, :-1]).sum(axis=0), 0))


def told(method: Any, n: int = 25) -> Loop:
    loop, rng = Loop(method), np.random.default_rng(0)
    for i in range(n):
        X = loop.ask() if i % 5 else rng.random((1, method.dim))  # some foreign points, off the grid
        loop.tell(X, BRANIN.true_unit(X) + 0.1 * rng.standard_normal(1))
    return loop


def chosen(loop: Loop) -> tuple[int, Array]:
    """The number of the grid point that is asked next, and the grid."""
    x, grid = loop.ask()[0], loop.method.grid  # type: ignore[attr-defined]
    return int(np.abs(grid - x).sum(axis=1).argmin()), grid


@pytest.mark.parametrize("kernel", ["se", "matern52"])
@pytest.mark.parametrize("gain", ["log", "realised"])
def test_igp_ucb_maximises_its_bound(kernel: Any, gain: Any) -> None:
    loop = told(IGPUCB(2, seed=0, fitted=False, kernel=kernel, gain=gain, points_per_axis=25))
    index, grid = chosen(loop)
    X, y = loop.history.X, loop.history.y
    mean, sd = slow_posterior(X, y, grid, kernel)
    K = correlation(kernel, X, X, 0.2)
    information = math.log(25) if gain == "log" else 0.5 * np.linalg.slogdet(np.eye(25) + K / 0.01)[1]
    score = mean + (0.5 + 0.1 * math.sqrt(2 * (information + 1 + math.log(1000)))) * sd
    assert score[index] == pytest.approx(score.max(), abs=1e-8)


def test_the_gain_counts_samples_and_not_rows() -> None:
    """The rows of a long posterior are distinct points; gamma = log t is about all samples."""
    method = IGPUCB(2, seed=0, fitted=False, kernel="matern52", gain="log", points_per_axis=5)
    told(method, 110).ask()
    assert method.posterior.t < 110
    assert beta_of(method) == pytest.approx(0.5 + 0.1 * math.sqrt(2 * (math.log(110) + 1 + math.log(1000))))


def test_grid_ei_and_pi_maximise_their_criteria() -> None:
    for name, criterion in (
        ("expected", lambda z, s: s * (z * norm.cdf(z) + norm.pdf(z))),
        ("probability", lambda z, s: norm.cdf(z)),
    ):
        loop = told(GridImprovement(2, seed=0, criterion=name, fitted=False, points_per_axis=25, margin=0.05))
        index, grid = chosen(loop)
        X, y = loop.history.X, loop.history.y
        mean, sd = slow_posterior(X, y, grid)
        before, _ = slow_posterior(X[:-1], y[:-1], grid)
        score = criterion((mean - before.max() - 0.05) / sd, sd)
        assert score[index] == pytest.approx(score.max(), rel=1e-6)


def test_a_pending_point_lowers_the_bound_around_it() -> None:
    method = IGPUCB(2, seed=0, fitted=False, gain="log", points_per_axis=25)
    loop = told(method)
    X = loop.ask(6)
    assert len(np.unique(X, axis=0)) == 6
    mean, _ = slow_posterior(loop.history.X, loop.history.y, method.grid)
    after = np.concatenate([loop.history.X, X[:5]])
    _, sd = slow_posterior(after, np.zeros(len(after)), method.grid)
    score = mean + (0.5 + 0.1 * math.sqrt(2 * (math.log(25) + 1 + math.log(1000)))) * sd
    score[[int(np.abs(method.grid - x).sum(axis=1).argmin()) for x in X[:5]]] = -np.inf
    assert np.allclose(method.grid[int(score.argmax())], X[5])


def test_grids_keep_to_legal_points() -> None:
    cube = Space({"n": Int(1, 4), "x": Float(0, 1)}).cube()
    for make in (IGPUCB, GridImprovement, probable, AdaptiveDiscretization):
        loop = Loop(make(cube, seed=0, budget=30))
        for _ in range(30):
            X = loop.ask()
            assert np.array_equal(cube.snap(X), X)
            loop.tell(X, -((X - 0.6) ** 2).sum(axis=1))
        assert abs(loop.recommend()[0] - 0.625) < (
            0.01 if make in (IGPUCB, GridImprovement) else 0.26
        )  # PI is greedy, AD coarse with 30 samples


def tree_of(method: AdaptiveDiscretization) -> tuple[Any, Any, Any, int]:
    """Depths, parents and activity of the boxes, and the one that was asked."""
    return method._depth, method._parent, method._active, method._target


def test_adaptive_discretization_samples_the_box_of_the_largest_index() -> None:
    method = AdaptiveDiscretization(2, seed=0, budget=200, fitted=False)
    loop, rng = Loop(method), np.random.default_rng(0)
    for _ in range(60):
        X = loop.ask()
        loop.tell(X, BRANIN.true_unit(X) + 0.1 * rng.standard_normal(1))
    x = loop.ask()[0]
    mean, sd = slow_posterior(loop.history.X, loop.history.y, method.posterior.grid)
    T, d = 200, 2
    beta = math.sqrt(2 * (2 + math.log(T * math.log2(T)) + d * math.log2(T) * math.log(2) + math.log(2)))
    assert method.beta == pytest.approx(beta)
    c4 = 2 * math.log(8 * math.pi**2 / 6) + 2 * math.log(T**2 * math.pi**2 / 6)

    def variation(h: int) -> float:
        root = math.sqrt(4 + c4 + h * math.log(2) + 4 * d * math.log(2 ** (h / d) / 0.2))
        return 4 * 2 ** (-h / d) * (root + 1 + 2.7 * math.sqrt(2 * math.log(2)))

    index, (depth, parents, active, target) = {}, tree_of(method)
    for box in np.flatnonzero(active):
        h, parent = int(depth[box]), int(parents[box])
        assert h == 0 or not active[parent]
        index[int(box)] = min(
            mean[box] + beta * sd[box], mean[parent] + beta * sd[parent] + variation(max(h - 1, 1))
        ) + variation(h)
    best = max(index, key=lambda box: index[box])
    assert np.allclose(method.posterior.grid[best], x) or index[best] == pytest.approx(index[target], abs=1e-9)
    h = int(depth[target])
    assert beta * sd[target] > variation(h) or h == math.ceil(math.log2(T))


def test_active_boxes_tile_the_cube() -> None:
    method = AdaptiveDiscretization(3, seed=1, budget=300)
    loop = Loop(method)
    for i in range(60):
        X = loop.ask()
        loop.tell(X, np.sin(5 * X).sum(axis=1) + 0.01 * i)
    loop.ask()
    depth, _, active, _ = tree_of(method)
    assert (2.0 ** -depth[active].astype(float)).sum() == pytest.approx(1.0)
    assert ((method.posterior.grid > 0) & (method.posterior.grid < 1)).all()


FORMS: dict[str, Any] = {
    "igp-ucb": lambda: IGPUCB(2, seed=0, fitted=False, gain="realised", points_per_axis=25),
    "igp-ucb, matern": lambda: IGPUCB(2, seed=0, fitted=False, kernel="matern52", gain="realised", points_per_axis=25),
    "ei": lambda: GridImprovement(2, seed=0, fitted=False, points_per_axis=25),
    "pi": lambda: probable(2, seed=0, fitted=False, points_per_axis=25, margin=0.05),
    "ad": lambda: AdaptiveDiscretization(2, seed=0, fitted=False),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_value_of_boundless_variance_is_not_believed(name: str) -> None:
    clean, poisoned = Loop(FORMS[name]()), Loop(FORMS[name]())
    first = np.array([[0.31, 0.62]])
    clean.tell(first, 0.4)
    poisoned.tell(np.concatenate([[[0.77, 0.13]], first]), [1e3, 0.4], yvar=[1e12, np.nan])
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = clean.ask()
        assert np.array_equal(X, poisoned.ask())
        y = BRANIN.true_unit(X) + 0.1 * rng.standard_normal(1)
        clean.tell(X, y)
        poisoned.tell(X, y)


# ---------------------------------------------------------------- what is kept warm

LONG: dict[str, dict[str, Any]] = {
    "igp-ucb": {},
    "igp-ucb, rows": {"kernel": "matern52", "points_per_axis": 20},
    "igp-ucb, not fitted": {"fitted": False},
    "grid-ei": {},
    "grid-pi": {},
    "adaptive-discretization": {},
    "adaptive-discretization, not fitted": {"fitted": False, "kernel": "matern52"},
}


def long_run(name: str, n: int) -> tuple[Loop, Callable[[], Method]]:
    """A run of n values, one in nine of them foreign, and what makes the like of its method."""

    def make() -> Method:
        return RIVALS[name.split(",")[0]](**LONG[name]).build(2, seed=4, budget=n)

    loop, rng = Loop(make()), np.random.default_rng(0)
    for i in range(n):
        X = loop.ask() if i % 9 else rng.random((1, 2)).round(1)
        loop.tell(X, BRANIN.true_unit(X) + 0.1 * rng.standard_normal(1))
    return loop, make


@pytest.mark.parametrize("n", [3, 150])
@pytest.mark.parametrize("name", LONG)
def test_a_resumed_run_goes_on_bit_for_bit(name: str, n: int) -> None:
    loop, make = long_run(name, n)
    loaded, replayed, rng = loop.resumed(make()), copy.copy(loop), np.random.default_rng(1)
    replayed.method = make()
    for _ in range(25):
        X = loop.ask()
        y = BRANIN.true_unit(X) + 0.1 * rng.standard_normal(1)
        for other in (loaded, replayed):
            assert np.array_equal(X, other.ask())
            other.tell(X, y)
        loop.tell(X, y)
    assert np.array_equal(loop.recommend(), loaded.recommend())


@pytest.mark.parametrize("name", LONG)
def test_resuming_takes_in_few_of_the_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay takes in each of 400 values; a resumed run the few since the posterior was last rebuilt."""
    loop, make = long_run(name, 400)
    loop.ask()
    taken = []
    for form, update in ((SavedRows, "_append"), (ProductPosterior, "_absorb")):
        before = getattr(form, update)
        monkeypatch.setattr(form, update, lambda *given, before=before: (taken.append(1), before(*given))[1])
    loop.resumed(make()).ask()
    resuming = len(taken)
    replayed = copy.copy(loop)
    replayed.method = make()
    replayed.ask()
    assert resuming <= 25
    assert len(taken) - resuming >= 300


@pytest.mark.parametrize("name", ["igp-ucb", "igp-ucb, rows", "adaptive-discretization"])
@pytest.mark.parametrize("mark", [-1, 10**6])
def test_a_damaged_state_is_refused(name: str, mark: int) -> None:
    loop, make = long_run(name, 100)
    state = loop.method.warm(loop.history)
    damaged = [{**state, "rebuilt_at": mark}]
    if "halved" in state:
        wrong = (state["halved"][::-1], np.zeros_like(state["halved"]), np.array([5]))
        damaged += [{**state, "halved": boxes} for boxes in wrong]
    for content in damaged:
        with pytest.raises(ValueError, match="the state is damaged"):
            make().warm_from(loop.history, content)


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("name", ["igp-ucb", "grid-ei", "grid-pi", "adaptive-discretization"])
@pytest.mark.parametrize("huge", [1e160, -1e300, 1.7e308])
def test_one_huge_value_leaves_points_and_certificate_finite(name: str, fitted: bool, huge: float) -> None:
    loop = Loop(RIVALS[name](fitted=fitted).build(2, seed=2, budget=30))
    for i in range(30):
        X = loop.ask()
        assert np.isfinite(X).all()
        loop.tell(X, huge if i == 7 else BRANIN.true_unit(X))
    assert np.isfinite(loop.recommend()).all()
    certificate = loop.certificate()
    assert not certificate.certified or np.isfinite([certificate.gap, certificate.lower, certificate.upper]).all()


REGRET = {
    ("branin-threds", "AD"): (0.07, 0.09), ("rosenbrock-threds", "AD"): (0.05, 0.08),
    ("branin-threds", "IGP-UCB"): (0.0, 0.03), ("rosenbrock-threds", "IGP-UCB"): (0.0, 0.03),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "name"), REGRET)
def test_the_baselines_have_the_regret_of_the_paper(problem: str, name: str) -> None:
    means = []
    for seed in range(10):
        target = make_problem(problem, noise=0.1, seed=seed)
        B = 0.5 if problem == "branin-threds" else 2.0
        method: Method
        if name == "AD":
            method = AdaptiveDiscretization(2, seed=seed, budget=1000, fitted=False)
        else:
            method = IGPUCB(2, seed=seed, budget=1000, fitted=False, gain="log", assumed_norm=B)
        loop = Loop(method)
        for _ in range(1000):
            X = loop.ask()
            loop.tell(X, target.evaluate_unit(X))
        means.append(float(target.optimum or 0) - target.true_unit(loop.history.X).mean())
    low, high = REGRET[problem, name]
    assert low <= np.mean(means) <= high


def test_a_grid_may_have_its_own_number_of_points_on_every_axis() -> None:
    """The CNN of GP-ThreDS has 8 x 4 x 4 x 31 x 6 settings, which its rivals see all of."""
    method = IGPUCB(3, seed=0, budget=20, fitted=False, points_per_axis=(8, 4, 31), gain="root")
    assert len(method.grid) == 8 * 4 * 31
    loop = Loop(method)
    loop.tell(method.grid[[3, 90, 400, 700]], [0.1, 0.4, 0.2, 0.3])
    loop.ask()
    wanted = 0.5 + 0.1 * np.sqrt(
        2 * (np.sqrt(4) + 1 + np.log(1e3))
    )  # B + R sqrt(2 (gamma + 1 + ln 1/delta)), gamma = sqrt t
    assert beta_of(method) == pytest.approx(wanted)
    for wrong in ((3, 3), (3, 3, 0)):
        with pytest.raises(ValueError, match="points_per_axis must be a number, or 3 of them"):
            RIVALS["grid-ei"](points_per_axis=wrong).build(3, seed=0)
