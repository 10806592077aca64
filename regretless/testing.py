"""The conformance suite: what every Method must do, in functions outsiders can run on their own.

    from regretless.method import Recipe
    from regretless.testing import check_method

    check_method(Recipe("mine", "my_package.mine:Mine"))     # raises AssertionError on the first law broken

Each check takes a recipe and is small; `METHOD_CHECKS` lists them, so that a test runner can name the one that fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from regretless.certificate import Certificate
from regretless.method import Method, Recipe
from regretless.parameters import Array, Choice, Float, Int
from regretless.space import Space
from regretless.statefile import pack, unpack

LARGE_DIM = 20
"""The larger of the dimensions every method is run in, unless it declares a smaller `max_dim`."""
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


def run(method: Method, n: int, fun: Callable[[Array], Array] = bowl) -> Array:
    """n rounds of ask and tell; returns the points, n x d."""
    points = []
    for _ in range(n):
        X = method.ask()
        method.tell(X, fun(X))
        points.append(X[0])
    return np.array(points)


# ---------------------------------------------------------------- the laws


def check_shapes(recipe: Recipe) -> None:
    """Proposals are n x d and inside the cube, in one dimension and in many, before any value is known and after."""
    for dim in (1, min(LARGE_DIM, recipe.method.max_dim)):
        method = recipe.build(dim, seed=0, budget=12)
        first = method.ask(3)
        assert first.shape == (3, dim), f"ask(3) gave shape {first.shape} in {dim} dimensions"
        method.tell(first, bowl(first))
        later = run(method, 3)
        for X in (first, later):
            assert X.dtype == np.float64
            assert ((X >= 0) & (X <= 1)).all(), "a proposal lies outside the cube"
        assert method.recommend().shape == (dim,)


def check_few_data(recipe: Recipe) -> None:
    """No data and one datum are enough to go on."""
    method = recipe.build(2, seed=1)
    assert not method.certificate().certified, "certified before anything was evaluated"
    X = method.ask()
    method.tell(X, [1.0])
    assert np.array_equal(method.recommend(), X[0])
    assert np.isfinite(method.ask()).all()


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
        assert np.isfinite(run(recipe.build(2, seed=3, budget=20), 9, fun)).all()


def check_extreme_values(recipe: Recipe) -> None:
    """A single enormous value, of either sign, kills no run and gives no certificate that is not a number."""
    for extreme in (1e160, -1e300):
        method = recipe.build(2, seed=17, budget=20)
        X = run(method, 6)
        method.tell(method.ask(), [extreme])
        X = np.concatenate([X, run(method, 3), method.recommend()[None]])
        assert np.isfinite(X).all()
        certificate = method.certificate()
        assert not np.isnan([certificate.gap, certificate.lower, certificate.upper]).any(), str(certificate)


def check_legal_points(recipe: Recipe) -> None:
    """Whole numbers and choices get legal points, also where memory could not list their values."""
    few = {"a": Float(-3, 5), "b": Float(1e-4, 1e2, log=True), "n": Int(2, 7), "c": Choice(["red", "green", "blue"])}
    many = {"n": Int(0, 10**8), "big": Int(0, 2**60, step=2**20), "c": Choice(range(300))}
    for space in (Space(few), Space(many)):
        cube = space.cube(recipe.method.choices)
        if cube.dim <= recipe.method.max_dim:
            X = run(recipe.build(cube, seed=9, budget=12), 12)
            assert np.array_equal(cube.snap(X), X), "a proposal is off the legal positions"


def check_identity(recipe: Recipe) -> None:
    """A proposal is found again, bit for bit, after its setting went through decode and encode."""
    space = Space({"lr": Float(1e-5, 1e-1, log=True), "drop": Float(0.1, 0.9), "far": Float(1e6, 1e6 + 1e-3)})
    encoding = recipe.method.choices
    cube = space.cube(encoding)
    if cube.dim > recipe.method.max_dim:
        return
    method = recipe.build(space, seed=19, budget=16)
    for x in run(method, 10):
        again = space.encode(space.decode(x, encoding), encoding)
        assert again.tobytes() == x.tobytes(), "a setting has two places in the cube"
        assert method.is_known(again), "a told point is not known"


def check_foreign_points(recipe: Recipe) -> None:
    """Points that were never asked are taken in: many, one of them several times, and with noise variances, of which
    some are not known."""
    many = np.random.default_rng(5).random((12, 3))
    same, values = np.full((6, 3), 0.4), np.array([1.0, 1.5, 1.0, 0.5, 1.0, 1.2])
    variances = np.array([1e-2, 1e-2, np.nan, 0.0, 1e-4, 1e-3])
    for X, y, yvar in ((many, bowl(many), None), (same, values, None), (many[:6], bowl(many[:6]), variances)):
        method = recipe.build(3, seed=5)
        method.tell(X, y, yvar=yvar)
        assert len(method.X) == len(X)
        assert np.isfinite(run(method, 2)).all()


def check_failures(recipe: Recipe) -> None:
    """NaN and infinities are failures: remembered apart, never modelled as values."""
    method = recipe.build(2, seed=6)
    for bad in (np.nan, np.inf, -np.inf):
        method.tell(method.ask(), [bad])
    assert len(method.y) == 0
    assert len(method.failed) == 3
    assert len(method.pending) == 0
    method.tell([[0.2, 0.3], [0.5, 0.5]], [1.0, np.nan])
    assert len(method.y) == 1
    assert np.isfinite(run(method, 6)).all()


def check_pending(recipe: Recipe) -> None:
    """With 16 trials pending no two proposals coincide; forgetting frees them; tells may come out of order."""
    method = recipe.build(2, seed=8, budget=40)
    run(method, 4)
    X = method.ask(16)
    assert len(np.unique(X, axis=0)) == 16, "two pending proposals coincide"
    method.forget(X[:3])
    assert len(method.pending) == 13
    for i in (12, 3, 9):
        method.tell(X[i : i + 1], bowl(X[i : i + 1]))
    assert len(method.pending) == 10
    assert np.isfinite(method.ask()).all()


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
    encoding = recipe.method.choices
    cube = space.cube(encoding)
    if cube.dim > recipe.method.max_dim:
        return
    method = recipe.build(space, seed=20, budget=8)
    X = run(method, 3)
    pins = space.pins({"kind": "curve", "low": 2.25}, encoding)
    state = method.state_dict()
    held = method.ask(pins=pins)
    again = recipe.build(space, seed=20, budget=8)
    again.load_state_dict(state)
    assert np.array_equal(again.ask(pins=pins), held), "a loaded state asks for another point"
    assert all(held[0, i] == place for i, place in pins.items()), "a pinned coordinate has moved"
    X = np.concatenate([X, held, method.ask()])
    assert np.array_equal(cube.snap(X), X), "a proposal is not canonical: what does not exist must rest"
    for x in X:
        setting = space.decode(x, encoding)
        space.check(setting)
        assert ("bend" in setting) == (setting["kind"] == "curve"), "a parameter exists where it must not"


def check_constraints(recipe: Recipe) -> None:
    """Where a method learns constraints and costs: the recommendation satisfies the constraints as soon as a told point
    does, and a loaded state goes on."""
    if not recipe.method.models_constraints:
        return

    def begun() -> Method:
        method = recipe.build(2, seed=22, budget=12)
        method.expect(constraints=2, cost=method.weighs_cost)
        return method

    method = begun()
    for _ in range(7):
        X = method.ask()
        sides = [[0.3 - float(X[0, 0]), float(X[0, 1]) - 0.8, 1.0 + float(X[0, 0])][: 2 + method.has_cost]]
        method.tell(X, bowl(X), sides=sides)
    x = method.recommend()
    assert not method.feasible.any() or method.feasible[(x == method.X).all(axis=1)].all(), (
        "the recommendation breaks a constraint"
    )
    again = begun()
    again.load_state_dict(unpack(pack(method.state_dict())))
    assert np.array_equal(again.ask(), method.ask()), "a loaded state with constraints asks for another point"


def check_values_outside(recipe: Recipe) -> None:
    """Where a method uses values outside the cube: proposals stay inside, and a loaded state goes on."""
    if not recipe.method.uses_outside:
        return
    method, again = (recipe.build(2, seed=23, budget=12) for _ in range(2))
    beyond = np.array([[-0.4, 0.3], [1.7, 0.2], [0.6, 1.2]])
    method.inform(beyond, bowl(beyond), np.full(3, np.nan))
    X = run(method, 6)
    assert ((X >= 0) & (X <= 1)).all(), "a proposal lies outside the cube"
    again.load_state_dict(unpack(pack(method.state_dict())))
    assert np.array_equal(again.ask(), method.ask()), "a loaded state with values outside asks for another point"


def check_same_seed(recipe: Recipe) -> None:
    """The same seed gives the same points; another seed gives others."""
    a, b, c = (run(recipe.build(2, seed=seed, budget=12), 8) for seed in (10, 10, 11))
    assert np.array_equal(a, b), "the same seed gave other points"
    assert not np.array_equal(a, c), "another seed gave the same points"


def check_global_random_state(recipe: Recipe) -> None:
    """The global random state of NumPy (and torch, where it is loaded) is neither read nor moved."""
    method = recipe.build(2, seed=12, budget=12)
    torch = sys.modules.get("torch")
    before = np.random.get_state()[1].copy(), None if torch is None else torch.get_rng_state().clone()  # type: ignore[index] # noqa: NPY002
    run(method, 6)
    assert np.array_equal(before[0], np.random.get_state()[1]), "NumPy's global random state was moved"  # type: ignore[index] # noqa: NPY002
    assert torch is None or before[1] is None or bool((before[1] == torch.get_rng_state()).all()), (
        "torch's global random state was moved"
    )


def check_replay(recipe: Recipe) -> None:
    """A fresh method that is told the same history proposes the same points, told one by one or in bulk."""
    original = recipe.build(2, seed=13, budget=24)
    run(original, 11)
    bulk = recipe.build(2, seed=13, budget=24)
    bulk.tell(original.X, original.y)
    assert np.array_equal(bulk.ask(1, step=11), original.ask(1, step=11)), "a replayed history gives another proposal"


def check_state(recipe: Recipe) -> None:
    """24 rounds equal 16 rounds, a state written and read, and 8 more, bit for bit."""
    whole = recipe.build(2, seed=14, budget=24)
    expected = run(whole, 24)
    first = recipe.build(2, seed=14, budget=24)
    head = run(first, 16)
    resumed = recipe.build(2, seed=14, budget=24)
    resumed.load_state_dict(unpack(pack(first.state_dict())))
    tail = run(resumed, 8)
    assert np.array_equal(np.concatenate([head, tail]), expected), "a resumed run differs from an unbroken one"


def check_certificate(recipe: Recipe) -> None:
    """A certificate is a finite non-negative gap with its assumptions, or says why there is none."""
    method = recipe.build(2, seed=15, budget=30)
    run(method, 14)
    for delta in (0.2, 0.05):
        certificate = method.certificate(delta)
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
    method = recipe.build(2, seed=16)
    x = [[0.5, 0.5]]
    bad: list[Callable[[], object]] = [
        lambda: method.ask(0),
        lambda: method.tell([[0.5]], [1.0]),
        lambda: method.tell([[0.5, 1.5]], [1.0]),
        lambda: method.tell([[0.5, np.nan]], [1.0]),
        lambda: method.tell(x, [1.0, 2.0]),
        lambda: method.tell(x, [1.0], yvar=[-1.0]),
        lambda: method.certificate(1.5),
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
    check_global_random_state, check_replay, check_state, check_certificate, check_bad_input,
)  # fmt: skip
"""Every law, in the order in which `check_method` runs them."""
