"""The tangent kernel in a trust region: pools, encoders, modules, the sketch, replay, certificates."""

import pickle

import numpy as np
import pytest

from regretless.methods import METHODS
from regretless.methods.tangent_region import closed_form
from regretless.methods.tangent_region.algorithm import POOL_NU, TangentRegion
from regretless.parameters import Float, Int
from regretless.space import Cube, Space
from regretless.tangent import ridge
from regretless.tangent.ntk import combine, inner, kernel

NETS = [{}, {"ridge": 0.01}, {"depth": 3, "activation": "tanh", "width": 32}]


def held(method: TangentRegion) -> int:
    """Bytes that the model of a method holds beside the data."""
    posterior = method._model._posterior
    return len(
        pickle.dumps([getattr(posterior, name, None) for name in ("_L", "_factors", "_moments", "_sums", "_maps")])
    )


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
    for _ in range(n):
        x = method.ask()
        method.tell(x, f(x))
    return method


@pytest.mark.parametrize("options", NETS, ids=str)
def test_replay_holds_for_every_net(options):
    one = run(TangentRegion(2, seed=1, **options), 13)
    two = TangentRegion(2, seed=1, **options)
    two.tell(one.X, one.y)
    assert np.array_equal(one.ask(2, step=13), two.ask(2, step=13))


@pytest.mark.parametrize("options", NETS, ids=str)
@pytest.mark.parametrize("level", [0.0, 1e12])
def test_nets_survive_constant_values(options, level):
    method = run(TangentRegion(3, seed=2, **options), 12, lambda X: np.full(len(X), level))
    assert np.isfinite(method.ask()).all()


def test_replay_across_the_sketch_s_edge(small_sketch):
    small_sketch(30, 80)
    X = np.random.default_rng(3).random((60, 3))
    one = TangentRegion(3, seed=3)
    for x in X:
        one.tell(x[None], bowl(x[None]))
        one.ask()
        one.forget(one.pending)
    two = TangentRegion(3, seed=3)
    two.tell(X, bowl(X))
    assert np.array_equal(one.ask(step=7), two.ask(step=7))
    assert np.array_equal(one.recommend(), two.recommend())


@pytest.mark.parametrize("limits", [(1500, 1000), (20, 60)])
def test_known_variances_count_and_replay_alike(limits, small_sketch):
    small_sketch(*limits)
    rng = np.random.default_rng(6)
    X, noisy = rng.random((41, 3)), np.arange(41) % 2 == 1
    y, yvar = bowl(X) + np.where(noisy, rng.standard_normal(41), 0.0), np.where(noisy, 1.0, 1e-4)
    yvar[7] = np.nan
    one, two, plain = (TangentRegion(3, seed=6, warp="none") for _ in range(3))
    for i in range(41):
        one.tell(X[i], y[i : i + 1], yvar=yvar[i : i + 1])
        one.ask()
        one.forget(one.pending)
    two.tell(X, y, yvar=yvar)
    plain.tell(X, y)
    assert np.array_equal(one.ask(step=50), two.ask(step=50))
    U = rng.random((200, 3))
    errors = [
        np.abs(
            np.mean([m.sample(U, np.random.default_rng(i)) for i in range(30)], 0) * y.std() + y.mean() - bowl(U)
        ).mean()
        for m in (two, plain)
    ]
    assert errors[0] < 0.7 * errors[1]  # noisy values are not followed


def test_sketch_finds_the_hill_and_holds_at_most_ten_megabytes():
    rng = np.random.default_rng(4)
    X = rng.random((1700, 4))
    method = TangentRegion(4, seed=4)
    method.tell(X, bowl(X) + 0.01 * rng.standard_normal(1700))
    asked = method.ask(4)
    assert held(method) <= 10e6
    assert bowl(asked).mean() > np.quantile(bowl(X), 0.95)


def test_sketch_holds_at_most_ten_megabytes_in_a_hundred_dimensions(small_sketch):
    small_sketch(30, 1000)
    X = np.random.default_rng(5).random((40, 100))
    method = TangentRegion(100, seed=5)
    method.tell(X, bowl(X))
    method.ask()
    assert 8e6 < held(method) <= 10e6


def test_what_neighbours_share_is_recommended_and_what_they_do_not_is_noise():
    rng = np.random.default_rng(8)
    base = 0.999 * rng.random((40, 2))
    X = np.concatenate([base, base + 1e-4, base[:1]])  # one of them twice: what is noise must show itself
    rough, luck = 0.3 * rng.standard_normal(40), 0.3 * rng.standard_normal(81)
    shared, noisy = (
        TangentRegion(2, seed=8, shape="noise"),
        TangentRegion(2, seed=8, shape="noise"),
    )  # too smooth for the rough part
    shared.tell(X, bowl(X) + np.concatenate([rough, rough, rough[:1]]))
    noisy.tell(X, bowl(X) + luck)
    assert not np.allclose(noisy.recommend(), noisy.X[np.argmax(noisy.y)], atol=1e-9)  # the luckiest one
    np.testing.assert_allclose(shared.recommend(), shared.X[np.argmax(shared.y)], atol=1e-9)  # its twin is 1e-4 away
    for method, low, high in ((shared, 0.0, 0.05), (noisy, 0.5, 1.0)):
        method.ask()
        assert method._model.shape.lam >= 0.1
        assert low <= method._model.noise_shown() <= high


@pytest.mark.parametrize(("options", "limits"), [({}, (1500, 1000)), ({}, (12, 60)), ({"depth": 3}, (1500, 1000))])
def test_torch_devices_give_the_same_points(options, limits, small_sketch):
    """Any device but plain "cpu" goes through torch tensors; "cpu:0" is one without a GPU."""
    small_sketch(*limits)
    X = np.random.default_rng(11).random((24, 3))
    asked = []
    for device in ("cpu", "cpu:0"):
        method = TangentRegion(3, seed=2, device=device, **options)
        method.tell(X, bowl(X))
        asked.append(np.concatenate([method.ask(3), method.recommend()[None]]))
    np.testing.assert_allclose(asked[1], asked[0], atol=1e-9)


# ---------------------------------------------------------------- inputs that are no box


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
        net = probe._model._net
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
        run(method, 20, lambda U, f=f, noise=noise: f(U) + 0.05 * noise.standard_normal(len(U)))
        certificate = method.certificate(0.1)
        assert certificate.kind == "theory"
        grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 60)] * 2), -1).reshape(-1, 2)
        covered.append(
            f(grid).max() - f(method.recommend()[None])[0] <= certificate.gap and f(grid).max() <= certificate.upper
        )
    assert all(covered)


def test_fitted_certificate_covers_a_bowl_and_says_what_it_assumes():
    method = run(TangentRegion(2, seed=3), 30)
    certificate = method.certificate(0.1)
    assert certificate.kind == "fitted"
    assert -bowl(method.recommend()[None])[0] <= certificate.gap < np.ptp(method.y)
    assert certificate.lower <= 0.0 <= certificate.upper
    assert certificate.gap < method.certificate(0.01).gap
    assert any("length-scales" in text for text in certificate.assumptions)
    assert TangentRegion(2, seed=3).certificate().reason


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


@pytest.mark.parametrize(("old", "new"), [("nu", "exploration"), ("lam", "ridge"), ("noise", "noise_sd")])
def test_former_names_answer_with_the_present_ones(old, new):
    with pytest.raises(TypeError, match=f"'{old}' is called '{new}'"):
        METHODS["tangent-region"](**{old: 0.1})


# ---------------------------------------------------------------- values of any size, states


SIZES = [1e160, -1e160, -1e300, 1.7e308, -1.7e308]


@pytest.mark.parametrize("value", SIZES)
@pytest.mark.parametrize("options", [{}, {"norm_bound": 1.0, "noise_sd": 0.1}], ids=str)
def test_one_huge_value_neither_raises_nor_gives_nan(value, options):
    cube = Space({"a": Float(-3, 5), "b": Float(2, 9)}).cube()
    method = run(TangentRegion(cube, seed=4, **options), 9)
    method.tell([[0.31, 0.77]], [value])
    run(method, 3)
    assert np.isfinite(method.ask()).all()
    certificate = method.certificate()
    assert not np.isnan([certificate.gap, certificate.lower, certificate.upper]).any()
    if certificate.certified:
        assert np.isfinite([certificate.gap, certificate.lower, certificate.upper]).all()
    assert np.allclose(method.recommend(), [0.31, 0.77], atol=1e-9) == (value > 0)


def test_points_do_not_depend_on_the_unit_of_the_values():
    """A factor of 2^500 changes no digit of any arithmetic."""
    one, two = TangentRegion(2, seed=5), TangentRegion(2, seed=5)
    X = np.random.default_rng(5).random((20, 2))
    one.tell(X, bowl(X))
    two.tell(X, bowl(X) * 2.0**500)
    assert np.array_equal(one.ask(3), two.ask(3))
    assert two.certificate().gap == one.certificate().gap * 2.0**500


@pytest.mark.parametrize("key", ["X", "failed", "pending"])
def test_a_state_with_a_point_that_is_none_is_refused(key):
    method = run(TangentRegion(2, seed=6), 8)
    method.tell([[0.3, 0.4]], [np.nan])
    method.ask()
    state = method.state_dict()
    state[key] = state[key].copy()
    state[key][0, 1] = np.nan
    with pytest.raises(ValueError, match="unit cube"):
        TangentRegion(2, seed=6).load_state_dict(state)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ackley", "levy", "michalewicz"])
def test_default_beats_random_by_far_in_ten_dimensions(name):
    from regretless_bench.problems import make_problem

    ours, chance = [], []
    for seed in range(5):
        problem = make_problem(name, dim=10, noise_share=0.1, seed=seed)
        method = run(TangentRegion(10, seed=seed), 150, lambda U, p=problem: -p.evaluate_unit(U))
        ours.append(problem.true_unit(method.X).min())
        chance.append(problem.true_unit(np.random.default_rng(seed).random((150, 10))).min())
    assert max(ours) < np.median(chance)


@pytest.mark.slow
def test_a_chosen_shape_goes_on_where_a_fixed_one_settles_beside_the_optimum():
    from regretless_bench.problems import make_problem

    for seed in range(2):
        best = {}
        for shape in ("evidence", "fixed"):
            problem = make_problem("ackley", dim=10, shift=0.6, noise_share=0.1, seed=seed)
            method = run(TangentRegion(10, seed=seed, shape=shape), 200, lambda U, p=problem: -p.evaluate_unit(U))
            best[shape] = problem.true_unit(method.X).min()
        assert best["evidence"] < 0.7 * best["fixed"]
