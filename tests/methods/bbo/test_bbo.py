"""BBO's outer level: the paper's formulas, its return rules, and what EI and UCB propose."""

import math
from typing import Any

import numpy as np
import pytest
from inside import surrogate_of
from scipy.stats import norm

from regretless.classics.gp_ei import GPEI
from regretless.history import History
from regretless.method import Method, next_points
from regretless.methods import METHODS
from regretless.methods.bbo.default import BBO
from regretless.methods.bbo.printed import PrintedBBO
from regretless.methods.bbo.theorems import confidence_width, convex_step, dominated_step, nonsmooth_step, paper_phi
from regretless.models.gp.posterior import GP
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless.testing import Loop, bowl, run


def told(n: int, dim: int = 2, seed: int = 0) -> History:
    """Values of the bowl at n random points."""
    X = Cube.box(dim).snap(np.random.default_rng(seed).random((n, dim)))
    return History(dim).with_values(X, bowl(X))


def model(method: BBO | PrintedBBO, history: History) -> GP:
    return surrogate_of(method).gp(history.X, history.y, history.yvar)


def improvement(gp: GP, incumbent: float, X: Array) -> Array:
    """E max(f(X) - incumbent, 0), n."""
    mean, var = gp.mean_var(X)
    z = (mean - incumbent) / np.sqrt(var)
    return np.sqrt(var) * (norm.pdf(z) + z * norm.cdf(z))


def test_the_width_is_that_of_lemma_2() -> None:
    assert confidence_width(20, B=1.0, phi=2.0, noise_var=0.25, horizon=80) == math.sqrt(1 + 20 * 4 / (0.25 * 80))
    # the paper's literal constants: t = 20 and N = 100 give a width of 44, which is why the default measures phi
    # instead
    assert confidence_width(20, 1.0, paper_phi(100), 0.01, 100) == pytest.approx(44.2, abs=0.1)


def test_the_width_grows_with_t_and_shrinks_with_the_horizon() -> None:
    method, few, many = BBO(2, seed=0, acquisition="ucb", horizon=50), told(5), told(20)
    gp = model(method, few)
    assert method.beta(few, gp) < method.beta(many, gp)
    assert confidence_width(9, 1.0, 0.3, 0.01, 1000) < confidence_width(9, 1.0, 0.3, 0.01, 100)


def test_the_fitted_noise_never_makes_the_width_explode() -> None:
    """Without noise in the values, the fitted noise is next to nothing."""
    method, history = BBO(2, seed=0, acquisition="ucb", horizon=100), told(12)
    assert 1.0 <= method.beta(history, model(method, history)) <= math.sqrt(1 + 13)


def test_step_sizes_of_the_theorems() -> None:
    assert convex_step(0.5, 400) == 0.5 / 20
    assert [dominated_step(2.0, j) for j in (0, 1, 9)] == [1 / 4, 3 / 16, 19 / 400]
    assert nonsmooth_step(1.0, 16, p=0.75) == pytest.approx(1 / 8)
    with pytest.raises(ValueError, match="p must be a number in"):
        nonsmooth_step(1.0, 16, p=0.5)


def test_ei_is_gp_ei_with_the_posterior_mean_incumbent() -> None:
    """The degenerate case: without a horizon the default is the baseline GP-EI, whose incumbent is the best posterior
    mean as well."""
    ours, other = (next_points(method(3, seed=5), told(15, dim=3), step=15) for method in (BBO, GPEI))
    assert np.array_equal(ours, other)


def test_the_ei_proposal_maximises_the_formula_of_algorithm_1() -> None:
    method, history = PrintedBBO(1, seed=1), told(6, dim=1)
    gp = model(method, history)
    incumbent = float(gp.mean_at(history.X).max())
    x = next_points(method, history, step=6)
    grid = np.linspace(0, 1, 2001)[:, None]
    assert improvement(gp, incumbent, x)[0] >= improvement(gp, incumbent, grid).max() * (1 - 1e-4)


def test_the_ucb_proposal_maximises_the_formula_of_algorithm_2() -> None:
    method, history = PrintedBBO(1, seed=1, acquisition="ucb", horizon=1000), told(6, dim=1)
    gp = model(method, history)
    width = confidence_width(7, 1.0, paper_phi(1000), 0.01, 1000)

    def bound(X: Array) -> Array:
        mean, var = gp.mean_var(X)
        return mean + width * np.sqrt(var)

    x = next_points(method, history, step=6)
    assert bound(x)[0] >= bound(np.linspace(0, 1, 2001)[:, None]).max() - 1e-6


def test_return_rules() -> None:
    """Algorithm 1 returns the best posterior mean over the evaluated points, Algorithm 2 the last point; our default
    never the latter."""
    rng = np.random.default_rng(3)
    X = Cube.box(2).snap(rng.random((20, 2)))
    y = bowl(X) + 0.1 * rng.standard_normal(20)
    history = History(2).with_values(X, y)
    for method, last in (
        (PrintedBBO(2, seed=0), False),
        (PrintedBBO(2, seed=0, acquisition="ucb", horizon=50), True),
        (BBO(2, seed=0, acquisition="ucb", horizon=50), False),
    ):
        expected = X[-1] if last else X[np.argmax(model(method, history).mean_at(X))]
        assert np.array_equal(method.recommend(history), expected)


@pytest.mark.parametrize("method", [BBO, PrintedBBO])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acquisition": "pi"}, "acquisition"),
        ({"acquisition": "ucb"}, "horizon"),
        ({"horizon": 0}, "horizon"),
        ({"norm_bound": 0.0}, "norm_bound"),
        ({"inner_error": -1.0}, "inner_error"),
        ({"noise_var": math.nan}, "noise_var"),
    ],
)
def test_bad_options_are_named(method: type[Method], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        method(2, seed=0, **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bbo-printed", {}),
        ("bbo-printed", {"acquisition": "ucb", "horizon": 100}),
        ("bilevel", {"acquisition": "ucb", "horizon": 100}),
        ("bilevel", {"fidelity": True}),
    ],
)
def test_every_variant_replays(name: str, options: dict[str, Any]) -> None:
    a, b = (Loop(METHODS[name](**options).build(2, seed=4)) for _ in range(2))
    run(a, 9)
    b.tell(a.history.X, a.history.y)
    assert np.array_equal(a.ask(2, step=9), b.ask(2, step=9))


def overtaken(X: Array) -> Array:
    """Minus the log loss of a setting x after training of length s: fast settings (near 0.8) lead at first, slow ones
    (near 0.4) in the end."""
    x, s = X[:, 0], X[:, 1]
    return s - 4 * (x - (0.8 - 0.4 * s)) ** 2


def test_with_a_fidelity_proposals_are_meant_for_the_full_horizon() -> None:
    """Told short runs everywhere and longer ones of the leaders only, the model proposes what will lead in the end."""
    x = np.linspace(0.05, 0.95, 10)
    X = np.concatenate(
        [np.column_stack([x, np.zeros(10)]), np.column_stack([x[6:9], np.full(3, 0.5)]), [[x[6], 1.0], [x[5], 0.5]]]
    )
    loop = Loop(BBO(2, seed=0, fidelity=True))
    loop.tell(X, overtaken(X))
    proposed = loop.ask(step=15)
    assert proposed[0, 1] == 1.0
    assert abs(proposed[0, 0] - 0.4) < 0.15
    assert np.array_equal(loop.recommend()[1:], [1.0])
    assert "different length" in str(loop.certificate())
    plain = Loop(BBO(1, seed=0))
    plain.tell(X[:10, :1], overtaken(X[:10]))
    assert abs(plain.ask(step=10)[0, 0] - 0.8) < 0.1, "the short runs alone would lead astray"


def test_the_proposal_with_a_fidelity_maximises_ei_at_the_full_horizon() -> None:
    X = Cube.box(2).snap(np.random.default_rng(2).random((14, 2)))
    history = History(2).with_values(X, overtaken(X))
    method = BBO(2, seed=3, fidelity=True)
    gp = model(method, history)
    incumbent = float(gp.mean_at(np.column_stack([X[:, 0], np.ones(14)])).max())
    grid = np.column_stack([np.linspace(0, 1, 2001), np.ones(2001)])
    x = next_points(method, history, step=14)
    assert improvement(gp, incumbent, x)[0] >= improvement(gp, incumbent, grid).max() * (1 - 1e-3)


def test_options_reach_the_width() -> None:
    method, history = BBO(2, seed=0, horizon=80, norm_bound=2.0, inner_error=3.0, noise_var=0.25), told(4)
    gp = model(method, history)
    assert method.beta(history, gp) == confidence_width(5, B=2.0, phi=3.0, noise_var=0.25, horizon=80)


def test_a_fidelity_needs_a_hyper_parameter_beside_it() -> None:
    with pytest.raises(ValueError, match="two coordinates"):
        BBO(1, seed=0, fidelity=True)
