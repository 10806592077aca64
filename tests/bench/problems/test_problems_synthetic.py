"""The formulas against slow independent ones, their optima, and what shift, embedding and noise do to them."""

import math

import numpy as np
import pytest
from regretless_bench.problems import PROBLEMS, make_problem
from regretless_bench.problems.problem import Function, spread
from scipy.optimize import minimize


def slow_branin(x):
    a, b = x
    return (
        (b - 5.1 / (4 * math.pi**2) * a * a + 5 / math.pi * a - 6) ** 2
        + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a)
        + 10
    )


def slow_rosenbrock(x):
    return sum(100 * (x[i + 1] - x[i] * x[i]) ** 2 + (1 - x[i]) ** 2 for i in range(len(x) - 1))


def slow_ackley(x):
    d = len(x)
    squares, waves = sum(v * v for v in x) / d, sum(math.cos(2 * math.pi * v) for v in x) / d
    return 20 + math.e - 20 * math.exp(-0.2 * math.sqrt(squares)) - math.exp(waves)


def slow_levy(x):
    w = [1 + (v - 1) / 4 for v in x]
    total = math.sin(math.pi * w[0]) ** 2 + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    for v in w[:-1]:
        total += (v - 1) ** 2 * (1 + 10 * math.sin(math.pi * v + 1) ** 2)
    return total


def slow_michalewicz(x):
    return -sum(math.sin(v) * math.sin((i + 1) * v * v / math.pi) ** 20 for i, v in enumerate(x))


def slow_styblinski_tang(x):
    return sum(v**4 - 16 * v * v + 5 * v for v in x) / 2


def slow_rastrigin(x):
    return 10 * len(x) + sum(v * v - 10 * math.cos(2 * math.pi * v) for v in x)


def slow_camelback(x):
    a, b = x
    return max(-((4 - 2.1 * a * a + a**4 / 3) * a * a + a * b + 4 * (b * b - 1) * b * b), -2.5)


def slow_hartmann6(x):
    """Written out once more from the usual table of constants, as sums of scalars."""
    weight = (1.0, 1.2, 3.0, 3.2)
    rates = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
    wells = (
        (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
        (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
        (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
        (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
    )
    total = 0.0
    for w, rate, well in zip(weight, rates, wells, strict=True):
        total -= w * math.exp(-sum(a * (v - p) ** 2 for a, v, p in zip(rate, x, well, strict=True)))
    return total


CASES = {
    "sphere": (3, lambda x: sum(v * v for v in x)),
    "branin": (None, slow_branin),
    "branin-threds": (None, lambda x: -(slow_branin((15 * x[0] - 5, 15 * x[1])) - 10 - 44.81) / 51.95),
    "rosenbrock": (4, slow_rosenbrock),
    "rosenbrock-threds": (None, lambda x: 10 - slow_rosenbrock([0.3 * v + 0.8 for v in x])),
    "ackley": (5, slow_ackley),
    "levy": (5, slow_levy),
    "michalewicz": (5, slow_michalewicz),
    "styblinski-tang": (4, slow_styblinski_tang),
    "rastrigin": (4, slow_rastrigin),
    "ellipsoid": (4, lambda x: sum((len(x) - j) * v * v for j, v in enumerate(x))),
    "camelback": (None, slow_camelback),
    "hartmann6": (None, slow_hartmann6),
    "go-ucb-f1": (20, lambda x: 1 + 25 / (1 + math.exp(-1 - sum(x)))),
    "go-ucb-f2": (20, lambda x: -slow_styblinski_tang(x)),
    "go-ucb-f3": (20, lambda x: -200 + sum(10 * math.cos(2 * math.pi * v) - v * v for v in x)),
}
PUBLISHED = {
    "branin": 0.397887, "branin-threds": 1.04739, "rosenbrock-threds": 10.0, "camelback": 1.0316284,
    "hartmann6": -3.32237, "go-ucb-f1": 26.0, "go-ucb-f2": 783.3233, "go-ucb-f3": 0.0,
    "rosenbrock": 0.0, "levy": 0.0, "ackley": 0.0,
}  # fmt: skip


def made(name, **options):
    dim = CASES[name][0]
    return make_problem(name, **({"dim": dim} if dim else {}), **options)


@pytest.mark.parametrize("name", CASES)
def test_formula_agrees_with_slow_scalar_form(name):
    problem = made(name)
    U = problem.space.cube().snap(np.random.default_rng(1).random((40, len(problem.space))))
    slow = [CASES[name][1](list(problem.space.decode(u).values())) for u in U]
    np.testing.assert_allclose(problem.true_unit(U), slow, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose([problem.true(problem.space.decode(u)) for u in U], slow, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_optimum_is_reached_and_not_beaten(name):
    """At the stated point, by uniform draws, and by a local search started at the point itself."""
    problem = made(name)
    scale = max(1.0, abs(problem.optimum))
    low, high = problem.bounds.T
    assert len(problem.optima) >= 1
    for point, params in zip(problem.points, problem.optima, strict=True):
        assert abs(problem.regret(params)) <= 1e-12 * scale
        start = np.clip(point + 1e-3 * (high - low), low, high)
        options = {"xatol": 1e-10, "fatol": 1e-14}
        found = minimize(
            lambda x: -problem.sign * problem.rows(np.clip(x, low, high)[None])[0],
            start,
            method="Nelder-Mead",
            options=options,
        )
        assert problem.sign * problem.optimum >= -found.fun - 1e-10 * scale
    U = np.random.default_rng(0).random((20_000, len(low)))
    assert (problem.sign * (problem.optimum - problem.true_unit(U)) >= -1e-12 * scale).all()


@pytest.mark.parametrize(("name", "value"), PUBLISHED.items())
def test_optimum_is_the_published_one(name, value):
    assert made(name).optimum == pytest.approx(value, abs=2e-5 * max(1.0, abs(value)))


@pytest.mark.parametrize(("dim", "value"), [(2, -1.8013), (5, -4.687658), (10, -9.66015)])
def test_michalewicz_optimum_matches_the_literature(dim, value):
    assert make_problem("michalewicz", dim=dim).optimum == pytest.approx(value, abs=1e-5)


def test_turned_michalewicz_is_continuous_and_keeps_its_minimum():
    plain = make_problem("michalewicz", dim=7)
    for seed in range(5):
        turned = make_problem("michalewicz", dim=7, turned=True, seed=seed)
        assert turned.optimum == pytest.approx(plain.optimum, abs=1e-12)
        assert abs(turned.regret(turned.optima[0])) < 1e-12
        move = turned.points[0] - plain.points[0]
        assert np.ptp(move) > 0.1
        x = np.random.default_rng(seed).uniform(0, math.pi, 7)
        assert turned.rows(((x + move) % math.pi)[None]) == pytest.approx(plain.rows(x[None]), rel=1e-9)
        seam = move % math.pi  # where a turned axis begins anew
        assert turned.rows((seam + 1e-9)[None]) == pytest.approx(turned.rows((seam - 1e-9)[None]), abs=1e-6)


def test_branin_value_by_hand():
    assert make_problem("branin").true([0.0, 0.0]) == pytest.approx(36 + 10 * (1 - 1 / (8 * math.pi)) + 10)


# ---------------------------------------------------------------- wrappers


@pytest.mark.parametrize("name", ["ackley", "levy", "ellipsoid", "rastrigin", "styblinski-tang", "rosenbrock"])
def test_shift_moves_the_optimum_within_its_share(name):
    shares = []
    for seed in range(40):
        problem, plain = made(name, shift=0.6, seed=seed), made(name)
        low, high = problem.bounds.T
        shares.append((problem.points[0] - (low + high) / 2) / ((high - low) / 2))
        assert abs(problem.regret(problem.optima[0])) < 1e-9
        x = low + 0.3 * (high - low)
        move = problem.points[0] - plain.points[0]
        assert problem.rows(x[None]) == pytest.approx(plain.rows((x - move)[None]), rel=1e-12)
    shares = np.abs(shares)
    assert shares.max() <= 0.6
    assert shares.max() > 0.5
    assert 0.2 < shares.mean() < 0.4  # the mean of |uniform| is half its range


def test_shift_refuses_formulas_with_another_optimum_outside():
    for name in ("michalewicz", "go-ucb-f1"):
        with pytest.raises(ValueError, match="cannot be shifted"):
            make_problem(name, shift=0.6)
    with pytest.raises(ValueError, match="shift must be in"):
        make_problem("levy", shift=1.5)


def test_embedding_hides_coordinates_at_random_places():
    places = set()
    for seed in range(20):
        problem = make_problem("camelback", dim=30, seed=seed)
        base = np.full((1, 30), 0.5)
        effective = []
        for i in range(30):
            moved = base.copy()
            moved[0, i] = 0.9
            if problem.true_unit(moved)[0] != problem.true_unit(base)[0]:
                effective.append(i)
        assert len(effective) == 2
        assert abs(problem.regret(problem.optima[0])) < 1e-12
        places.add(tuple(effective))
    assert len(places) > 15
    assert make_problem("branin", embed=10).space.names == tuple(f"x{i}" for i in range(10))
    with pytest.raises(ValueError, match="embed must be at least"):
        make_problem("hartmann6", embed=3)


def test_noise_depends_on_seed_and_number_alone():
    one, two = make_problem("levy", noise_sd=0.5, seed=3), make_problem("ackley", noise_sd=0.5, seed=3)
    draws = [one.evaluate([1.0, 2.0]) - one.true([1.0, 2.0]) for _ in range(5)]
    assert [two.evaluate([v, 0.0]) - two.true([v, 0.0]) for v in range(5)] == pytest.approx(draws)
    assert len(set(draws)) == 5
    sample = make_problem("levy", noise_sd=0.5, seed=4)
    values = sample.evaluate_unit(np.full((4000, 2), 0.3)) - sample.true_unit(np.full((1, 2), 0.3))
    assert values.std() == pytest.approx(0.5, rel=0.05)
    assert abs(values.mean()) < 0.03


def test_noise_share_is_a_share_of_the_spread():
    problem = make_problem("levy", dim=10, noise_share=0.1)
    assert problem.noise_sd == pytest.approx(0.1 * spread(make_problem("levy", dim=10)))
    assert problem.noise_sd == pytest.approx(4.8, rel=0.05)  # the size NeuralBO's code uses there
    with pytest.raises(ValueError, match="not both"):
        make_problem("levy", noise_sd=0.1, noise_share=0.1)


def test_wrong_names_and_options_are_refused_with_the_right_ones():
    with pytest.raises(ValueError, match=r"no problem is called 'leevy'.*levy"):
        make_problem("leevy")
    with pytest.raises(ValueError, match="no option 'dims'; it takes dim, bound"):
        make_problem("levy", dims=3)
    with pytest.raises(ValueError, match="noise_sd is a standard deviation"):
        make_problem("levy", noise_sd=-1.0)
    with pytest.raises(ValueError, match="whole number"):
        make_problem("levy", dim=0)
    with pytest.raises(ValueError, match="2 parameters, got 3"):
        make_problem("branin").true([1.0, 2.0, 3.0])


def test_every_name_has_a_line_of_text():
    for factory in PROBLEMS.values():
        assert len(factory.summary) > 10, factory.name


def test_thousands_of_coordinates_are_fast_rows():
    problem = make_problem("ellipsoid", dim=5000, shift=0.6)
    assert isinstance(problem, Function)
    assert abs(problem.true_unit(problem.space.encode(problem.optima[0])[None])[0]) < 1e-12
