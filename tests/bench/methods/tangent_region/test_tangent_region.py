"""The tangent kernel in a trust region: the sketch, replay, pools, certificates."""

import pickle
from typing import Any

import inside
import numpy as np
import pytest
from regretless_bench.methods.tangent_region import closed_form
from regretless_bench.methods.tangent_region.default import POOL_NU, TangentRegion

from regretless.models.tangent import ridge
from regretless.models.tangent.ntk import combine, inner, kernel
from regretless.space import Cube, Space
from regretless.space.parameters import Float, Int
from regretless.testing import Loop

NETS = [{}, {"ridge": 0.01}, {"depth": 3, "activation": "tanh", "width": 32}]


def model_of(loop: Loop) -> Any:
    """The model of a region's run."""
    return inside.model_of(loop.method)


def held(loop: Loop) -> int:
    """Bytes that the model of a method holds beside the data."""
    posterior = model_of(loop)._posterior
    return len(pickle.dumps([getattr(posterior, name, None) for name in ("_L", "_factors", "moments", "sums", "maps")]))


@pytest.fixture
def small_sketch(monkeypatch):
    """Sets the number of values up to which the model is exact, and the size of the sketch beyond."""

    def set_limits(exact_up_to, size):
        for module in (closed_form, ridge):
            monkeypatch.setattr(module, "EXACT_UP_TO", exact_up_to)
        monkeypatch.setattr(ridge, "SKETCH_SIZE", size)

    return set_limits


def bowl(X, centre=0.3):
    return -np.sum((X - centre) ** 2, axis=1)


def run(method, n, f=bowl):
    return go_on(Loop(method), n, f)


def go_on(loop, n, f=bowl):
    for _ in range(n):
        x = loop.ask()
        loop.tell(x, f(x))
    return loop


def told(method, X, y, **more):
    loop = Loop(method)
    loop.tell(X, y, **more)
    return loop


@pytest.mark.parametrize("options", NETS, ids=str)
def test_replay_holds_for_every_net(options):
    one = run(TangentRegion(2, seed=1, **options), 13)
    two = told(TangentRegion(2, seed=1, **options), one.history.X, one.history.y)
    assert np.array_equal(one.ask(2, step=13), two.ask(2, step=13))


@pytest.mark.parametrize("options", NETS, ids=str)
@pytest.mark.parametrize("level", [0.0, 1e12])
def test_nets_survive_constant_values(options, level):
    loop = run(TangentRegion(3, seed=2, **options), 12, lambda X: np.full(len(X), level))
    assert np.isfinite(loop.ask()).all()


def test_replay_across_the_sketch_s_edge(small_sketch):
    small_sketch(30, 80)
    X = np.random.default_rng(3).random((60, 3))
    one = Loop(TangentRegion(3, seed=3))
    for x in X:
        one.tell(x[None], bowl(x[None]))
        one.forget(one.ask())
    two = told(TangentRegion(3, seed=3), X, bowl(X))
    assert np.array_equal(one.ask(step=7), two.ask(step=7))
    assert np.array_equal(one.recommend(), two.recommend())


@pytest.mark.parametrize("limits", [(1500, 1000), (20, 60)])
def test_known_variances_count_and_replay_alike(limits, small_sketch):
    small_sketch(*limits)
    rng = np.random.default_rng(6)
    X, noisy = rng.random((41, 3)), np.arange(41) % 2 == 1
    y, yvar = bowl(X) + np.where(noisy, rng.standard_normal(41), 0.0), np.where(noisy, 1.0, 1e-4)
    yvar[7] = np.nan
    one, two, plain = (Loop(TangentRegion(3, seed=6, warp="none")) for _ in range(3))
    for i in range(41):
        one.tell(X[i], y[i : i + 1], yvar=yvar[i : i + 1])
        one.forget(one.ask())
    two.tell(X, y, yvar=yvar)
    plain.tell(X, y)
    assert np.array_equal(one.ask(step=50), two.ask(step=50))
    U = rng.random((200, 3))
    errors = [
        np.abs(
            np.mean([at.method.sample(at.history, U, np.random.default_rng(i)) for i in range(30)], 0) * y.std()
            + y.mean()
            - bowl(U)
        ).mean()
        for at in (two, plain)
    ]
    assert errors[0] < 0.7 * errors[1]  # noisy values are not followed


def test_sketch_finds_the_hill_and_holds_at_most_ten_megabytes():
    rng = np.random.default_rng(4)
    X = rng.random((1700, 4))
    loop = told(TangentRegion(4, seed=4), X, bowl(X) + 0.01 * rng.standard_normal(1700))
    asked = loop.ask(4)
    assert held(loop) <= 10e6
    assert bowl(asked).mean() > np.quantile(bowl(X), 0.95)


def test_sketch_holds_at_most_ten_megabytes_in_a_hundred_dimensions(small_sketch):
    small_sketch(30, 1000)
    X = np.random.default_rng(5).random((40, 100))
    loop = told(TangentRegion(100, seed=5), X, bowl(X))
    loop.ask()
    assert 8e6 < held(loop) <= 10e6


def test_what_neighbours_share_is_recommended_and_what_they_do_not_is_noise():
    rng = np.random.default_rng(8)
    base = 0.999 * rng.random((40, 2))
    X = np.concatenate([base, base + 1e-4, base[:1]])  # one of them twice: what is noise must show itself
    rough, luck = 0.3 * rng.standard_normal(40), 0.3 * rng.standard_normal(81)
    shared, noisy = (Loop(TangentRegion(2, seed=8, shape="noise")) for _ in range(2))  # too smooth for the rough part
    shared.tell(X, bowl(X) + np.concatenate([rough, rough, rough[:1]]))
    noisy.tell(X, bowl(X) + luck)
    assert not np.allclose(noisy.recommend(), X[np.argmax(noisy.history.y)], atol=1e-9)  # the luckiest one
    np.testing.assert_allclose(shared.recommend(), X[np.argmax(shared.history.y)], atol=1e-9)  # its twin is 1e-4 away
    for loop, low, high in ((shared, 0.0, 0.05), (noisy, 0.5, 1.0)):
        loop.ask()
        assert model_of(loop).shape.lam >= 0.1
        assert low <= model_of(loop).noise_shown() <= high


@pytest.mark.parametrize(("options", "limits"), [({}, (1500, 1000)), ({}, (12, 60)), ({"depth": 3}, (1500, 1000))])
def test_torch_devices_give_the_same_points(options, limits, small_sketch):
    """Any device but plain "cpu" goes through torch tensors; "cpu:0" is one without a GPU."""
    small_sketch(*limits)
    X = np.random.default_rng(11).random((24, 3))
    asked = []
    for device in ("cpu", "cpu:0"):
        loop = told(TangentRegion(3, seed=2, device=device, **options), X, bowl(X))
        asked.append(np.concatenate([loop.ask(3), loop.recommend()[None]]))
    np.testing.assert_allclose(asked[1], asked[0], atol=1e-9)


def test_draws_over_a_pool_are_narrower():
    cube, F = Space({"row": Int(0, 9)}).cube(), np.eye(10)
    assert TangentRegion(cube, seed=0, candidates=F).exploration == POOL_NU
    assert TangentRegion(cube, seed=0, candidates=F, exploration=0.7).exploration == 0.7
    assert TangentRegion(2, seed=0).exploration == 1.0


# ---------------------------------------------------------------- certificate, options


def test_theory_certificate_covers_a_function_of_known_norm():
    """f = sum beta_i k(., x_i) has norm sqrt(beta' K beta): the bound must hold at every point looked at."""
    covered = []
    for seed in range(4):
        probe = TangentRegion(2, seed=seed, norm_bound=1.0, noise_sd=0.05, width=64)
        probe._begin()
        net = inside.model_of(probe)._net
        rng = np.random.default_rng(seed)
        anchors = rng.uniform(-1, 1, (5, 2))
        A = net.factors(anchors)
        beta = rng.standard_normal(5)
        beta /= float(beta @ kernel(A, A) @ beta) ** 0.5
        w = combine(A, beta)

        def f(U, w=w, net=net):
            return inner(net.factors(2 * U - 1), w)

        method = TangentRegion(2, seed=seed, norm_bound=1.0, noise_sd=0.05, width=64)
        noise = np.random.default_rng(100 + seed)
        loop = run(method, 20, lambda U, f=f, noise=noise: f(U) + 0.05 * noise.standard_normal(len(U)))
        certificate = loop.certificate(0.1)
        assert certificate.kind == "theory"
        grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 60)] * 2), -1).reshape(-1, 2)
        covered.append(
            f(grid).max() - f(loop.recommend()[None])[0] <= certificate.gap and f(grid).max() <= certificate.upper
        )
    assert all(covered)


def test_fitted_certificate_covers_a_bowl_and_says_what_it_assumes():
    loop = run(TangentRegion(2, seed=3), 30)
    certificate = loop.certificate(0.1)
    assert certificate.kind == "fitted"
    assert -bowl(loop.recommend()[None])[0] <= certificate.gap < np.ptp(loop.history.y)
    assert certificate.lower <= 0.0 <= certificate.upper
    assert certificate.gap < loop.certificate(0.01).gap
    assert any("length-scales" in text for text in certificate.assumptions)
    assert Loop(TangentRegion(2, seed=3)).certificate().reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": 0.0}, "ridge"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"depth": 1}, "depth"),
        ({"activation": "step"}, "activation"),
        ({"norm_bound": 1.0}, "noise_sd"),
        ({"warp": "mild"}, "warp"),
        ({"shape": "noise", "ridge": 0.1}, "shape"),
        ({"hops": 0.7}, "hops"),
        ({"additive": 1.0}, "additive"),
        ({"width": 0}, "width"),
    ],
)
def test_bad_options_name_themselves(options, message):
    with pytest.raises(ValueError, match=message):
        TangentRegion(Cube.box(2), seed=0, **options)


# ---------------------------------------------------------------- values of any size


SIZES = [1e160, -1e160, -1e300, 1.7e308, -1.7e308]


@pytest.mark.parametrize("value", SIZES)
@pytest.mark.parametrize("options", [{}, {"norm_bound": 1.0, "noise_sd": 0.1}], ids=str)
def test_one_huge_value_neither_raises_nor_gives_nan(value, options):
    cube = Space({"a": Float(-3, 5), "b": Float(2, 9)}).cube()
    loop = run(TangentRegion(cube, seed=4, **options), 9)
    loop.tell([[0.31, 0.77]], [value])
    go_on(loop, 3)
    assert np.isfinite(loop.ask()).all()
    certificate = loop.certificate()
    assert not np.isnan([certificate.gap, certificate.lower, certificate.upper]).any()
    if certificate.certified:
        assert np.isfinite([certificate.gap, certificate.lower, certificate.upper]).all()
    assert np.allclose(loop.recommend(), [0.31, 0.77], atol=1e-9) == (value > 0)


def test_points_do_not_depend_on_the_unit_of_the_values():
    """A factor of 2^500 changes no digit of any arithmetic."""
    X = np.random.default_rng(5).random((20, 2))
    one, two = (told(TangentRegion(2, seed=5), X, bowl(X) * unit) for unit in (1.0, 2.0**500))
    assert np.array_equal(one.ask(3), two.ask(3))
    assert two.certificate().gap == one.certificate().gap * 2.0**500


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ackley", "levy", "michalewicz"])
def test_default_beats_random_by_far_in_ten_dimensions(name):
    from regretless_bench.problems import make_problem

    ours, chance = [], []
    for seed in range(5):
        problem = make_problem(name, dim=10, noise_share=0.1, seed=seed)
        loop = run(TangentRegion(10, seed=seed), 150, lambda U, p=problem: -p.evaluate_unit(U))
        ours.append(problem.true_unit(loop.history.X).min())
        chance.append(problem.true_unit(np.random.default_rng(seed).random((150, 10))).min())
    assert max(ours) < np.median(chance)


@pytest.mark.slow
def test_a_chosen_shape_goes_on_where_a_fixed_one_settles_beside_the_optimum():
    from regretless_bench.problems import make_problem

    for seed in range(2):
        best = {}
        for shape in ("evidence", "fixed"):
            problem = make_problem("ackley", dim=10, shift=0.6, noise_share=0.1, seed=seed)
            loop = run(TangentRegion(10, seed=seed, shape=shape), 200, lambda U, p=problem: -p.evaluate_unit(U))
            best[shape] = problem.true_unit(loop.history.X).min()
        assert best["evidence"] < 0.7 * best["fixed"]
