"""The conformance suite: what every Method must do, in functions outsiders can run on their own.

    from regretless.method import Recipe
    from regretless.testing import check_method

    check_method(Recipe("mine", "my_package.mine:Mine"))     # raises AssertionError on the first law broken

Each check takes a recipe and is small; `METHOD_CHECKS` lists them, so that a test runner can name the one that fails.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regretless.basics.statefile import pack, unpack
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, Recipe, next_points
from regretless.space import Space
from regretless.space.parameters import Array, Choice, Float, Int

CENTRE = 0.37
"""Where the bowl of these checks has its top: off the centre and off every grid."""


def check_method(recipe: Recipe) -> None:
    """Runs every check of `METHOD_CHECKS`; raises AssertionError on the first law that is broken."""
    for check in METHOD_CHECKS:
        check(recipe)


def bowl(X: Array) -> Array:
    """A smooth function with its maximum 0 at CENTRE in every coordinate, n."""
    value: Array = -np.mean((np.asarray(X) - CENTRE) ** 2, axis=-1)
    return value


class Loop:
    """A method and the history of its run: the smallest loop of ask and tell, on the cube, maximising.

    Args:
        method: the method, of which nothing was asked yet.
        constraints, cost, noise_bound: as for `History`.
    """

    def __init__(self, method: Method, *, constraints: int = 0, cost: bool = False, noise_bound: float = 0.0) -> None:
        self.method = method
        self.history = History(method.dim, constraints=constraints, cost=cost, noise_bound=noise_bound)
        self.step = 0
        """The number of asks so far: the key of the next proposal."""

    def ask(self, n: int = 1, *, step: int | None = None, pins: Mapping[int, float] | None = None) -> Array:
        """n points to evaluate next, n x d, under way from now on; `pins` holds coordinates at canonical places."""
        self.step = self.step if step is None else step
        cube = self.method.cube.pinned(pins) if pins else None
        points = next_points(self.method, self.history, n, step=self.step, cube=cube)
        self.step += n
        self.history = self.history.with_pending(points)
        return points

    def tell(
        self, X: ArrayLike, y: ArrayLike, *, yvar: ArrayLike | None = None, side_values: ArrayLike | None = None
    ) -> None:
        """Values y (n) of the points X (n x d), asked or not; see `History.with_values`."""
        self.history = self.history.with_values(self._places(X), y, yvar=yvar, side_values=side_values)

    def wait_for(self, X: ArrayLike) -> None:
        """Counts points that somebody else evaluates as under way."""
        self.history = self.history.with_pending(self._places(X))

    def forget(self, X: ArrayLike) -> None:
        """Gives up points that will never be told."""
        self.history = self.history.without_pending(self._places(X))

    def recommend(self) -> Array:
        """The point to report, d."""
        return self.method.recommend(self.history)

    def certificate(self, delta: float = 0.05) -> Certificate:
        """How much better the best point may be."""
        return self.method.certificate(self.history, delta)

    def resumed(self, method: Method) -> Loop:
        """The same run with a fresh method that takes over what this one keeps warm, through a file."""
        other = copy.copy(self)
        other.method = method
        method.warm_from(self.history, unpack(pack(self.method.warm(self.history))))
        return other

    def _places(self, X: ArrayLike) -> Array:
        """Points as canonical places; what lies outside the cube is left for the history to refuse."""
        points = np.asarray(X, dtype=np.float64)
        inside = points.shape[-1:] == (self.method.dim,) and bool(((points >= 0) & (points <= 1)).all())
        return self.method.cube.snap(points) if inside else points


def run(loop: Loop, n: int, fun: Callable[[Array], Array] = bowl) -> Array:
    """n rounds of ask and tell; returns the points, n x d."""
    points = []
    for _ in range(n):
        X = loop.ask()
        loop.tell(X, fun(X))
        points.append(X[0])
    return np.array(points)


# ---------------------------------------------------------------- the laws


def check_shapes(recipe: Recipe) -> None:
    """Proposals are n x d and inside the cube, in one dimension and in many, before any value is known and after."""
    # 20: the larger of the dimensions every method is run in, unless it declares a smaller `max_dim`
    for dim in (1, min(20, recipe.method.traits.max_dim)):
        loop = Loop(recipe.build(dim, seed=0, budget=12))
        first = loop.ask(3)
        assert first.shape == (3, dim), f"ask(3) gave shape {first.shape} in {dim} dimensions"
        loop.tell(first, bowl(first))
        later = run(loop, 3)
        for X in (first, later):
            assert X.dtype == np.float64
            assert ((X >= 0) & (X <= 1)).all(), "a proposal lies outside the cube"
        assert loop.recommend().shape == (dim,)


def check_few_data(recipe: Recipe) -> None:
    """No data and one datum are enough to go on."""
    loop = Loop(recipe.build(2, seed=1))
    assert not loop.certificate().certified, "certified before anything was evaluated"
    X = loop.ask()
    loop.tell(X, [1.0])
    assert np.array_equal(loop.recommend(), X[0])
    assert np.isfinite(loop.ask()).all()


def check_scales(recipe: Recipe) -> None:
    """Constant, tiny, huge and wildly outlying values give finite proposals."""
    functions: list[Callable[[Array], Array]] = [
        lambda X: np.full(len(X), 0.0),
        lambda X: np.full(len(X), 1e12),
        lambda X: np.full(len(X), -1e-12),
        lambda X: 1e-12 * bowl(X),
        lambda X: 1e12 * bowl(X),
        lambda X: np.where(bowl(X) < -0.15, -1e9, bowl(X)),
    ]
    for fun in functions:
        assert np.isfinite(run(Loop(recipe.build(2, seed=3, budget=20)), 9, fun)).all()


def check_extreme_values(recipe: Recipe) -> None:
    """A single enormous value, of either sign, kills no run and gives no certificate that is not a number."""
    for extreme in (1e160, -1e300):
        loop = Loop(recipe.build(2, seed=17, budget=20))
        X = run(loop, 6)
        loop.tell(loop.ask(), [extreme])
        X = np.concatenate([X, run(loop, 3), loop.recommend()[None]])
        assert np.isfinite(X).all()
        certificate = loop.certificate()
        assert not np.isnan([certificate.gap, certificate.lower, certificate.upper]).any(), str(certificate)


def check_legal_points(recipe: Recipe) -> None:
    """Whole numbers and choices get legal points, also where memory could not list their values."""
    few = {"a": Float(-3, 5), "b": Float(1e-4, 1e2, log=True), "n": Int(2, 7), "c": Choice(["red", "green", "blue"])}
    many = {"n": Int(0, 10**8), "big": Int(0, 2**60, step=2**20), "c": Choice(range(300))}
    for space in (Space(few), Space(many)):
        cube = space.cube(recipe.method.traits.choices)
        if cube.dim <= recipe.method.traits.max_dim:
            X = run(Loop(recipe.build(cube, seed=9, budget=12)), 12)
            assert np.array_equal(cube.snap(X), X), "a proposal is off the legal positions"


def check_identity(recipe: Recipe) -> None:
    """A proposal is found again, bit for bit, after its setting went through decode and encode."""
    space = Space({"lr": Float(1e-5, 1e-1, log=True), "drop": Float(0.1, 0.9), "far": Float(1e6, 1e6 + 1e-3)})
    encoding = recipe.method.traits.choices
    cube = space.cube(encoding)
    if cube.dim > recipe.method.traits.max_dim:
        return
    loop = Loop(recipe.build(space, seed=19, budget=16))
    for x in run(loop, 10):
        again = space.encode(space.decode(x, encoding), encoding)
        assert again.tobytes() == x.tobytes(), "a setting has two places in the cube"
        assert loop.history.is_known(again), "a told point is not known"


def check_foreign_points(recipe: Recipe) -> None:
    """Points that were never asked are taken in: many, one of them several times, and with noise variances, of which
    some are not known."""
    many = np.random.default_rng(5).random((12, 3))
    same, values = np.full((6, 3), 0.4), np.array([1.0, 1.5, 1.0, 0.5, 1.0, 1.2])
    variances = np.array([1e-2, 1e-2, np.nan, 0.0, 1e-4, 1e-3])
    for X, y, yvar in ((many, bowl(many), None), (same, values, None), (many[:6], bowl(many[:6]), variances)):
        loop = Loop(recipe.build(3, seed=5))
        loop.tell(X, y, yvar=yvar)
        assert len(loop.history.X) == len(X)
        assert np.isfinite(run(loop, 2)).all()


def check_failures(recipe: Recipe) -> None:
    """NaN and infinities are failures: remembered apart, never modelled as values."""
    loop = Loop(recipe.build(2, seed=6))
    for bad in (np.nan, np.inf, -np.inf):
        loop.tell(loop.ask(), [bad])
    assert len(loop.history.y) == 0
    assert len(loop.history.failed) == 3
    assert len(loop.history.pending) == 0
    loop.tell([[0.2, 0.3], [0.5, 0.5]], [1.0, np.nan])
    assert len(loop.history.y) == 1
    assert np.isfinite(run(loop, 6)).all()


def check_pending(recipe: Recipe) -> None:
    """With 16 trials pending no two proposals coincide; forgetting frees them; tells may come out of order."""
    loop = Loop(recipe.build(2, seed=8, budget=40))
    run(loop, 4)
    X = loop.ask(16)
    assert len(np.unique(X, axis=0)) == 16, "two pending proposals coincide"
    loop.forget(X[:3])
    assert len(loop.history.pending) == 13
    for i in (12, 3, 9):
        loop.tell(X[i : i + 1], bowl(X[i : i + 1]))
    assert len(loop.history.pending) == 10
    assert np.isfinite(loop.ask()).all()


def check_conditions_and_rules(recipe: Recipe) -> None:
    """Proposals in a space with conditions, rules and a prior are canonical and allowed, with pinned coordinates too,
    and go on after a state is loaded."""
    space = Space(
        {
            "kind": Choice(["line", "curve"]),
            "low": Float(-2, 6, prior=(1.5, 2)),
            "high": Float(1, 9),
            "bend": Float(1e-3, 1e2, log=True, when={"kind": "curve"}),
        },
        where=["low < high", "kind == 'line' or low <= 3"],
    )
    encoding = recipe.method.traits.choices
    cube = space.cube(encoding)
    if cube.dim > recipe.method.traits.max_dim:
        return
    loop = Loop(recipe.build(space, seed=20, budget=8))
    X = run(loop, 3)
    pins = space.pins({"kind": "curve", "low": 2.25}, encoding)
    again = loop.resumed(recipe.build(space, seed=20, budget=8))
    held = loop.ask(pins=pins)
    assert np.array_equal(again.ask(pins=pins), held), "a loaded state asks for another point"
    assert all(held[0, i] == place for i, place in pins.items()), "a pinned coordinate has moved"
    X = np.concatenate([X, held, loop.ask()])
    assert np.array_equal(cube.snap(X), X), "a proposal is not canonical: what does not exist must rest"
    for x in X:
        setting = space.decode(x, encoding)
        space.check(setting)
        assert ("bend" in setting) == (setting["kind"] == "curve"), "a parameter exists where it must not"


def check_constraints(recipe: Recipe) -> None:
    """Where a method learns constraints and costs: the recommendation satisfies the constraints as soon as a told point
    does, and a loaded state goes on."""
    if not recipe.method.traits.constraints:
        return

    weighs = recipe.method.traits.cost
    loop = Loop(recipe.build(2, seed=22, budget=12), constraints=2, cost=weighs)
    for _ in range(7):
        X = loop.ask()
        side_values = [[0.3 - float(X[0, 0]), float(X[0, 1]) - 0.8, 1.0 + float(X[0, 0])][: 2 + weighs]]
        loop.tell(X, bowl(X), side_values=side_values)
    x = loop.recommend()
    assert not loop.history.feasible.any() or loop.history.feasible[(x == loop.history.X).all(axis=1)].all(), (
        "the recommendation breaks a constraint"
    )
    again = loop.resumed(recipe.build(2, seed=22, budget=12))
    assert np.array_equal(again.ask(), loop.ask()), "a loaded state with constraints asks for another point"


def check_values_outside(recipe: Recipe) -> None:
    """Where a method uses values outside the cube: proposals stay inside, and a loaded state goes on."""
    if not recipe.method.traits.outside:
        return
    loop = Loop(recipe.build(2, seed=23, budget=12))
    beyond = np.array([[-0.4, 0.3], [1.7, 0.2], [0.6, 1.2]])
    loop.history = loop.history.with_outside(beyond, bowl(beyond), np.full(3, np.nan))
    X = run(loop, 6)
    assert ((X >= 0) & (X <= 1)).all(), "a proposal lies outside the cube"
    again = loop.resumed(recipe.build(2, seed=23, budget=12))
    assert np.array_equal(again.ask(), loop.ask()), "a loaded state with values outside asks for another point"


def check_same_seed(recipe: Recipe) -> None:
    """The same seed gives the same points; another seed gives others."""
    a = run(Loop(recipe.build(2, seed=10, budget=12)), 8)
    same, other = (Loop(recipe.build(2, seed=seed, budget=12)) for seed in (10, 11))  # both, before either is asked
    b, c = run(same, 8), run(other, 8)
    assert np.array_equal(a, b), "the same seed gave other points"
    assert not np.array_equal(a, c), "another seed gave the same points"


def check_global_random_state(recipe: Recipe) -> None:
    """The global random states of Python and NumPy (and torch, where it is loaded) are neither read nor moved."""
    torch = sys.modules.get("torch")
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    others = None if torch is None else torch.get_rng_state()
    points = []
    try:
        for seed in (1, 2):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            if torch is not None:
                torch.manual_seed(seed)
            before = _global_states(torch)
            points.append(run(Loop(recipe.build(2, seed=12, budget=12)), 6))
            for name, state in _global_states(torch).items():
                assert state == before[name], f"the global random state of {name} was moved"
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(others)
    assert np.array_equal(points[0], points[1]), "the points follow a global random state"


def _global_states(torch: Any) -> dict[str, Any]:
    """The global random states, by library, as values that can be compared; where each stands in its block of numbers
    included."""
    _, numbers, *place = np.random.get_state(legacy=True)  # noqa: NPY002
    states = {"Python": random.getstate(), "NumPy": (np.asarray(numbers).tobytes(), *place)}
    return states if torch is None else {**states, "torch": torch.get_rng_state().numpy().tobytes()}


def check_replay(recipe: Recipe) -> None:
    """A fresh method that is shown the same history proposes the same points, however the history came about."""
    original, bulk = (Loop(recipe.build(2, seed=13, budget=24)) for _ in range(2))
    run(original, 11)
    bulk.tell(original.history.X, original.history.y)
    assert np.array_equal(bulk.ask(1, step=11), original.ask(1, step=11)), "a replayed history gives another proposal"


def check_caches(recipe: Recipe) -> None:
    """What a method keeps is a cache: dropped at random moments, or filled by questions about other histories (with as
    many values, and with points under way), it changes no point, recommendation or certificate; an ask changes no
    history."""
    # 8 to 11: asks before which another history comes up; four in a row meet all that is done at every fourth ask, or
    # more often
    between = (2, 8, 9, 10, 11)
    whole, dropped = (Loop(recipe.build(2, seed=21, budget=24)) for _ in range(2))
    expected = run(whole, 14)
    moments = np.random.default_rng(4)
    for i, x in enumerate(expected):
        if moments.random() < 0.4:
            dropped.method = recipe.build(2, seed=21, budget=24)
        if i in between:
            n = max(len(dropped.history), 1)
            places, values = moments.random((n, 2)), moments.random(n)
            places[0], values[0] = CENTRE, 1.0  # better than all that this run will find
            other = History(2).with_values(places, values)
            next_points(dropped.method, other.with_pending([[0.5, 0.25]]), step=dropped.step)
            dropped.method.recommend(other)
        before = dropped.history, dropped.history.X.copy(), dropped.history.pending.copy()
        again = next_points(dropped.method, dropped.history, step=dropped.step)
        assert dropped.history is before[0], "an ask has changed its history"
        assert np.array_equal(dropped.history.X, before[1]), "an ask has changed the values of its history"
        assert np.array_equal(dropped.history.pending, before[2]), "an ask has changed what is under way"
        X = dropped.ask()
        assert np.array_equal(again, X), "the same question got two answers"
        assert np.array_equal(X[0], x), "a dropped cache gives another proposal"
        dropped.tell(X, bowl(X))
    assert np.array_equal(dropped.recommend(), whole.recommend()), "a dropped cache gives another recommendation"
    assert repr(dropped.certificate()) == repr(whole.certificate()), "a dropped cache gives another certificate"


def check_state(recipe: Recipe) -> None:
    """24 rounds equal 16 rounds, what is kept warm written and read, and 8 more, bit for bit."""
    whole, first = (Loop(recipe.build(2, seed=14, budget=24)) for _ in range(2))
    expected = run(whole, 24)
    head = run(first, 16)
    tail = run(first.resumed(recipe.build(2, seed=14, budget=24)), 8)
    assert np.array_equal(np.concatenate([head, tail]), expected), "a resumed run differs from an unbroken one"


def check_certificate(recipe: Recipe) -> None:
    """A certificate is a finite non-negative gap with its assumptions, or says why there is none."""
    loop = Loop(recipe.build(2, seed=15, budget=30))
    run(loop, 14)
    for delta in (0.2, 0.05):
        certificate = loop.certificate(delta)
        assert isinstance(certificate, Certificate)
        assert certificate.delta == delta
        if certificate.certified:
            assert np.isfinite(certificate.gap)
            assert certificate.gap >= 0
            assert certificate.lower <= certificate.upper
            assert certificate.assumptions, "a certificate must name what it rests on"
        else:
            assert certificate.reason, "not certified, and no reason given"


def check_bad_input(recipe: Recipe) -> None:
    """Bad input raises ValueError at once."""
    loop = Loop(recipe.build(2, seed=16))
    x = [[0.5, 0.5]]
    bad: list[Callable[[], object]] = [
        lambda: loop.ask(0),
        lambda: loop.tell([[0.5]], [1.0]),
        lambda: loop.tell([[0.5, 1.5]], [1.0]),
        lambda: loop.tell([[0.5, np.nan]], [1.0]),
        lambda: loop.tell(x, [1.0, 2.0]),
        lambda: loop.tell(x, [1.0], yvar=[-1.0]),
        lambda: loop.certificate(1.5),
        lambda: recipe.build(0, seed=0),
        lambda: recipe.build(2, seed=-1),
        lambda: recipe.build(2, seed=0, budget=0),
    ]
    for i, call in enumerate(bad):
        try:
            call()
        except ValueError:
            continue
        raise AssertionError(f"bad input number {i} was accepted")


def check_recipe(recipe: Recipe) -> None:
    """A recipe has a summary, prints itself, and refuses options it does not know."""
    assert recipe.summary, "the method's class needs a docstring"
    assert repr(recipe).endswith(")")
    assert recipe == recipe()
    try:
        recipe(no_such_option=1)
    except TypeError:
        return
    raise AssertionError("an unknown option was accepted")


METHOD_CHECKS: tuple[Callable[[Recipe], None], ...] = (
    check_recipe, check_shapes, check_few_data, check_scales, check_extreme_values, check_legal_points, check_identity,
    check_foreign_points, check_failures, check_pending, check_conditions_and_rules, check_constraints,
    check_values_outside, check_same_seed,
    check_global_random_state, check_replay, check_caches, check_state, check_certificate, check_bad_input,
)  # fmt: skip
"""Every law, in the order in which `check_method` runs them."""
