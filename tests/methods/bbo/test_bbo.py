"""BBO's outer level: the paper's formulas, its return rules, and what EI and UCB propose."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from regretless.baselines.gp_ei import GPEI
from regretless.methods import METHODS
from regretless.methods.bbo.algorithm import (
    BBO,
    confidence_width,
    convex_step,
    dominated_step,
    nonsmooth_step,
    paper_phi,
)
from regretless.space import Cube
from regretless.testing import bowl


def told(method: BBO, n: int, seed: int = 0) -> BBO:
    X = np.random.default_rng(seed).random((n, method.dim))
    method.tell(X, bowl(X))
    return method


def test_the_width_is_that_of_lemma_2() -> None:
    assert confidence_width(20, B=1.0, phi=2.0, noise_var=0.25, horizon=80) == math.sqrt(1 + 20 * 4 / (0.25 * 80))
    # the paper's literal constants: t = 20 and N = 100 give a width of 44, which is why the default measures phi
    # instead
    assert confidence_width(20, 1.0, paper_phi(100), 0.01, 100) == pytest.approx(44.2, abs=0.1)


def test_the_width_grows_with_t_and_shrinks_with_the_horizon() -> None:
    few, many = (told(BBO(2, seed=0, acquisition="ucb", horizon=50), n) for n in (5, 20))
    gp = few._surrogate.gp(few.X, few.y)
    assert few.beta(gp) < many.beta(gp)
    assert confidence_width(9, 1.0, 0.3, 0.01, 1000) < confidence_width(9, 1.0, 0.3, 0.01, 100)


def test_the_fitted_noise_never_makes_the_width_explode() -> None:
    method = told(
        BBO(2, seed=0, acquisition="ucb", horizon=100), 12
    )  # noise-free values: the fitted noise is next to nothing
    width = method.beta(method._surrogate.gp(method.X, method.y))
    assert 1.0 <= width <= math.sqrt(1 + 13)


def test_step_sizes_of_the_theorems() -> None:
    assert convex_step(0.5, 400) == 0.5 / 20
    assert [dominated_step(2.0, j) for j in (0, 1, 9)] == [1 / 4, 3 / 16, 19 / 400]
    assert nonsmooth_step(1.0, 16, p=0.75) == pytest.approx(1 / 8)
    with pytest.raises(ValueError, match="p must be a number in"):
        nonsmooth_step(1.0, 16, p=0.5)


def test_ei_is_gp_ei_with_the_posterior_mean_incumbent() -> None:
    """The degenerate case: without a horizon the default is the baseline GP-EI, whose incumbent is the best posterior
    mean as well."""
    ours, other = told(BBO(3, seed=5), 15), GPEI(3, seed=5)
    other.tell(ours.X, ours.y)
    assert np.array_equal(ours.ask(step=15), other.ask(step=15))


def test_the_ei_proposal_maximises_the_formula_of_algorithm_1() -> None:
    method = told(BBO(1, seed=1, preset="paper"), 6)
    gp = method._surrogate.gp(method.X, method.y, method.yvar)
    incumbent = gp.mean_at(method.X).max()

    def improvement(X: np.ndarray) -> np.ndarray:
        mean, var = gp.mean_var(X)
        sd = np.sqrt(var)
        z = (mean - incumbent) / sd
        return sd * (norm.pdf(z) + z * norm.cdf(z))

    x = method.ask(step=6)
    grid = np.linspace(0, 1, 2001)[:, None]
    assert improvement(x)[0] >= improvement(grid).max() * (1 - 1e-4)


def test_the_ucb_proposal_maximises_the_formula_of_algorithm_2() -> None:
    method = told(BBO(1, seed=1, preset="paper", acquisition="ucb", horizon=1000), 6)
    gp = method._surrogate.gp(method.X, method.y, method.yvar)
    width = confidence_width(7, 1.0, paper_phi(1000), 0.01, 1000)

    def bound(X: np.ndarray) -> np.ndarray:
        mean, var = gp.mean_var(X)
        return mean + width * np.sqrt(var)

    x = method.ask(step=6)
    assert bound(x)[0] >= bound(np.linspace(0, 1, 2001)[:, None]).max() - 1e-6


def test_return_rules() -> None:
    """Algorithm 1 returns the best posterior mean over the evaluated points, Algorithm 2 the last point; our default
    never the latter."""
    rng = np.random.default_rng(3)
    X = Cube.box(2).snap(rng.random((20, 2)))
    y = bowl(X) + 0.1 * rng.standard_normal(20)
    for options, last in (
        ({"preset": "paper"}, False),
        ({"preset": "paper", "acquisition": "ucb", "horizon": 50}, True),
        ({"acquisition": "ucb", "horizon": 50}, False),
    ):
        method = BBO(2, seed=0, **options)
        method.tell(X, y)
        means = method._surrogate.gp(X, y, method.yvar).mean_at(X)
        expected = X[-1] if last else X[np.argmax(means)]
        assert np.array_equal(method.recommend(), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "papers"}, "preset"),
        ({"acquisition": "pi"}, "acquisition"),
        ({"acquisition": "ucb"}, "horizon"),
        ({"horizon": 0}, "horizon"),
        ({"norm_bound": 0.0}, "norm_bound"),
        ({"inner_error": -1.0}, "inner_error"),
        ({"noise_var": math.nan}, "noise_var"),
    ],
)
def test_bad_options_are_named(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BBO(2, seed=0, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "paper"},
        {"preset": "paper", "acquisition": "ucb", "horizon": 100},
        {"acquisition": "ucb", "horizon": 100},
        {"fidelity": True},
    ],
)
def test_every_variant_replays(options: dict) -> None:
    a, b = BBO(2, seed=4, **options), BBO(2, seed=4, **options)
    for _ in range(9):
        x = a.ask()
        a.tell(x, bowl(x))
    b.tell(a.X, a.y)
    assert np.array_equal(a.ask(2, step=9), b.ask(2, step=9))


def overtaken(X: np.ndarray) -> np.ndarray:
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
    method = BBO(2, seed=0, fidelity=True)
    method.tell(X, overtaken(X))
    proposed = method.ask(step=15)
    assert proposed[0, 1] == 1.0
    assert abs(proposed[0, 0] - 0.4) < 0.15
    assert np.array_equal(method.recommend()[1:], [1.0])
    assert "different length" in str(method.certificate())
    plain = BBO(1, seed=0)
    plain.tell(X[:10, :1], overtaken(X[:10]))
    assert abs(plain.ask(step=10)[0, 0] - 0.8) < 0.1, "the short runs alone would lead astray"


def test_the_proposal_with_a_fidelity_maximises_ei_at_the_full_horizon() -> None:
    rng = np.random.default_rng(2)
    X = rng.random((14, 2))
    method = BBO(2, seed=3, fidelity=True)
    method.tell(X, overtaken(X))
    gp = method._surrogate.gp(X, method.y, method.yvar)
    full = np.column_stack([X[:, 0], np.ones(14)])
    incumbent = gp.mean_at(full).max()

    def improvement(P: np.ndarray) -> np.ndarray:
        mean, var = gp.mean_var(P)
        sd = np.sqrt(var)
        z = (mean - incumbent) / sd
        return sd * (norm.pdf(z) + z * norm.cdf(z))

    grid = np.column_stack([np.linspace(0, 1, 2001), np.ones(2001)])
    assert improvement(method.ask(step=14))[0] >= improvement(grid).max() * (1 - 1e-3)


@pytest.mark.parametrize(("old", "new"), [("noise", "noise_var"), ("B", "norm_bound"), ("phi", "inner_error")])
def test_former_options_name_the_present_ones(old: str, new: str) -> None:
    with pytest.raises(TypeError, match=f"BBO: the option '{old}' is called '{new}'"):
        METHODS["bilevel"](**{old: 1.0})


def test_options_reach_the_width() -> None:
    options = {"acquisition": "ucb", "horizon": 80, "norm_bound": 2.0, "inner_error": 3.0, "noise_var": 0.25}
    method = told(BBO(2, seed=0, **options), 4)
    gp = method._surrogate.gp(method.X, method.y)
    assert method.beta(gp) == confidence_width(5, B=2.0, phi=3.0, noise_var=0.25, horizon=80)


def test_a_fidelity_needs_a_hyper_parameter_beside_it() -> None:
    with pytest.raises(ValueError, match="two coordinates"):
        BBO(1, seed=0, fidelity=True)
