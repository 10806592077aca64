"""What the four GP baselines share, and what sets each apart."""

import math

import numpy as np
import pytest

from regretless.baselines import BASELINES
from regretless.baselines.gp_ts import widen, widening
from regretless.baselines.gp_ucb import theory_beta
from regretless.gp.surrogate import Surrogate
from regretless.parameters import Choice, Float, Int
from regretless.space import Cube, Space

NAMES = ("gp-ucb", "gp-ei", "gp-pi", "gp-ts")


def bowl(X, centre=0.37):
    return -((np.atleast_2d(X) - centre) ** 2).sum(axis=1)


def run(method, n, fun):
    for _ in range(n):
        x = method.ask()
        method.tell(x, fun(x))
    return method


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_a_bowl_in_three_dimensions_is_solved(name, preset):
    method = run(BASELINES[name](preset=preset).build(3, seed=0, budget=40), 40, bowl)
    random = np.median([bowl(np.random.default_rng(s).random((40, 3))).max() for s in range(50)])
    assert method.y.max() > random / (20 if preset == "default" else 1)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_options_are_refused(name):
    with pytest.raises(ValueError, match="preset"):
        BASELINES[name](preset="best").build(2, seed=0)
    with pytest.raises(ValueError, match="noise_var"):
        BASELINES[name](noise_var=-0.1).build(2, seed=0)
    with pytest.raises(TypeError, match="'noise' is called 'noise_var'"):
        BASELINES[name](noise=0.1)
    if name == "gp-ucb":
        with pytest.raises(ValueError, match="kappa"):
            BASELINES[name](kappa=-1).build(2, seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_proposals_keep_away_from_failures(name):
    """A third of the square fails, beside the optimum; the search goes on in the rest and finds the best of it."""

    def half(x):
        return np.where(x[:, 0] > 0.66, np.nan, bowl(x, 0.6))

    method = run(BASELINES[name].build(2, seed=1, budget=40), 40, half)
    assert len(method.failed) < 13, "a third of the square fails: uniform draws would have 13 failures"
    assert method.y.max() > (-2e-2 if name == "gp-pi" else -2e-3), (
        "a certain small gain is all that PI asks for: it creeps along the border"
    )


@pytest.mark.parametrize("name", NAMES)
def test_mixed_space_is_solved(name):
    space = Space({"a": Float(-3, 5), "n": Int(1, 9), "c": Choice(["p", "q", "r"])})

    def value(x):
        params = space.decode(x[0])
        return [
            -((params["a"] - 1.3) ** 2) / 10
            - ((params["n"] - 6) / 4) ** 2
            + {"p": 0.0, "q": 0.5, "r": 0.2}[params["c"]]
        ]

    method = run(BASELINES[name].build(space.cube(), seed=0, budget=40), 40, value)
    best = space.decode(method.recommend())
    assert (best["n"], best["c"]) == (6, "q")
    assert abs(best["a"] - 1.3) < 0.3


@pytest.mark.parametrize("name", [*NAMES, "turbo"])
def test_a_loaded_run_fits_nothing_again(name, monkeypatch):
    """The state carries the latest fits of the model and of the certificate's: loaded, both go on bit for bit as they
    were, without a single fit."""
    whole = run(BASELINES[name].build(3, seed=2), 47, bowl)
    whole.certificate()
    whole.recommend()
    loaded = BASELINES[name].build(3, seed=2)
    loaded.load_state_dict(whole.state_dict())
    calls = []
    monkeypatch.setattr("regretless.gp.surrogate.fit", lambda *args, **options: calls.append(args))
    np.testing.assert_array_equal(loaded.ask(), whole.ask())
    np.testing.assert_array_equal(loaded.recommend(), whole.recommend())
    assert loaded.certificate() == whole.certificate()
    assert not calls
    monkeypatch.undo()
    for method in (whole, loaded):
        method.tell(method.pending, bowl(method.pending))
        run(method, 6, bowl)  # over the next scheduled fits
    np.testing.assert_array_equal(loaded.X, whole.X)
    assert loaded.certificate() == whole.certificate()


@pytest.mark.parametrize("name", [*NAMES, "turbo"])
def test_a_state_without_fits_loads_and_a_damaged_one_is_refused(name):
    whole = run(BASELINES[name].build(3, seed=2), 14, bowl)
    whole.recommend()
    state = whole.state_dict()
    bare = BASELINES[name].build(3, seed=2)
    bare.load_state_dict({**state, "own": {}})
    np.testing.assert_array_equal(bare.ask(), whole.ask())
    good = state["own"]["model"]
    for wrong in (
        {"size": 15},
        {"lengthscale": np.array([0.1, np.nan, 1.0])},
        {"lengthscale": np.ones(2)},
        {"scale": 0.0},
        {"noise": -1.0},
        {"rotation": np.eye(3)},
        {"signal": "much"},
    ):
        with pytest.raises(ValueError, match="damaged"):
            BASELINES[name].build(3, seed=2).load_state_dict({**state, "own": {"model": {**good, **wrong}}})


def test_turned_axes_are_saved_too():
    across = np.array([0.6, 0.6, -0.5])
    whole = run(BASELINES["gp-ucb"](rotate=True).build(3, seed=0), 27, lambda x: -(((x - 0.4) @ across) ** 2))
    assert whole._surrogate.gp(whole.X, whole.y).hyper.rotation is not None
    loaded = BASELINES["gp-ucb"](rotate=True).build(3, seed=0)
    loaded.load_state_dict(whole.state_dict())
    np.testing.assert_array_equal(loaded.ask(), whole.ask())


def test_a_certificate_and_a_verifying_ask_share_one_model(monkeypatch):
    """After the certificate of a history a verifying ask fits nothing, and neither does the next certificate."""
    method = run(BASELINES["gp-ucb"](verify=1).build(2, seed=0), 40, bowl)
    first = method.certificate()
    calls = []
    monkeypatch.setattr("regretless.gp.surrogate.fit", lambda *args, **options: calls.append(args))
    method._wary.gp(method.X, method.y, method.yvar)
    x = method.ask()
    assert method.certificate() == first
    assert not calls
    method.tell(x, bowl(x))
    method.certificate()
    assert not calls, "41 values lie between two scheduled fits"


def test_a_finite_space_is_not_asked_twice_while_there_is_more():
    cube = Space({"n": Int(1, 4), "c": Choice(["p", "q", "r"])}).cube()
    method = run(BASELINES["gp-ei"].build(cube, seed=0, budget=12), 12, lambda x: -x.sum(axis=1))
    assert len(np.unique(method.X, axis=0)) == 12


def test_ucb_turns_to_the_mean_in_the_last_fifth_of_a_known_budget():
    method = run(BASELINES["gp-ucb"].build(2, seed=0, budget=20), 15, bowl)
    gp = method._surrogate.gp(method.X, method.y)
    assert method._width(gp) == 1.0
    run(method, 1, bowl)
    assert method._width(gp) == 0.0
    assert BASELINES["gp-ucb"](exploit=False).build(2, seed=0, budget=1)._width(gp) == 1.0


def test_papers_widths():
    """Theorem 2 by hand for t = 1, d = 1, delta = 0.1, a = b = r = 1, and growth with t and d."""
    by_hand = 2 * math.log(2 * math.pi**2 / 0.3) + 2 * math.log(math.sqrt(math.log(40)))
    assert theory_beta(1, 1, 0.1) == pytest.approx(by_hand)
    assert theory_beta(10, 1, 0.1) > theory_beta(9, 1, 0.1)
    assert theory_beta(10, 5, 0.1) > theory_beta(10, 1, 0.1)
    method = run(BASELINES["gp-ucb"](preset="paper").build(2, seed=0), 8, bowl)
    gp = method._surrogate.gp(method.X, method.y)
    b = math.sqrt(0.5) / gp.hyper.lengthscale.min()
    assert method._width(gp) == pytest.approx(math.sqrt(theory_beta(9, 2, 0.1, b=b) / 5))


def test_thompson_widening():
    """v_t = 1 changes nothing; in general the path's distance to the mean is multiplied by v_t."""
    rng = np.random.default_rng(0)
    X, Q = rng.random((12, 2)), rng.random((5, 2))
    gp = Surrogate(Cube.box(2)).gp(X, bowl(X))
    path = gp.path(rng)
    np.testing.assert_allclose(widen(path, gp, 1.0)[0](Q)[0], path(Q)[0])
    wide, values = widen(path, gp, 3.0)
    np.testing.assert_allclose(wide(Q)[0] - gp.mean_at(Q), 3 * (path(Q)[0] - gp.mean_at(Q)))
    np.testing.assert_allclose(values(Q), wide(Q)[0])
    noise = gp.factor.noise[0]
    K = gp.factor.cross(X)
    gain = 0.5 * np.linalg.slogdet(np.eye(12) + K / noise)[1]
    assert widening(gp, 0.1) == pytest.approx(1 + math.sqrt(noise) * math.sqrt(2 * (gain + 1 + math.log(20))), rel=1e-6)


@pytest.mark.parametrize("name", ["gp-ucb", "gp-ei"])
def test_pending_points_spread_a_batch(name):
    method = run(BASELINES[name](**({"exploit": False} if name == "gp-ucb" else {})).build(2, seed=0), 8, bowl)
    batch = method.ask(4)
    gaps = [np.abs(a - b).max() for i, a in enumerate(batch) for b in batch[:i]]
    assert min(gaps) > 1e-4


def noisy_gap(name, seed, share, d=2):
    """True value of the recommendation minus the luckiest observation's, on a noisy bowl whose range is about 1."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(0.2, 0.8, d)

    def truth(X):
        return -((np.atleast_2d(X) - centre) ** 2).sum(axis=1) / (0.4 * d)

    method = run(
        BASELINES[name].build(d, seed=seed, budget=30), 30, lambda x: truth(x) + share * rng.standard_normal(len(x))
    )
    method.tell(method.X[:1], truth(method.X[:1]) + share * rng.standard_normal(1))  # another value: there is noise
    return (truth(method.recommend()) - truth(method.X[np.argmax(method.y)]))[0]


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_the_recommendation_beats_the_luckiest_value_under_noise(share):
    gaps = np.array([noisy_gap("gp-ucb", seed, share) for seed in range(12)])
    assert np.median(gaps) >= 0
    assert (gaps > 0).sum() > (gaps < 0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.1])
@pytest.mark.parametrize("name", NAMES)
def test_the_recommendation_beats_the_luckiest_value_under_noise_over_many_seeds(name, share):
    gaps = np.array([noisy_gap(name, seed, share) for seed in range(100, 160)])
    assert np.median(gaps) >= 0
    assert (gaps > 0).sum() > (gaps < 0).sum()


@pytest.mark.parametrize("name", ["stay-at-best", "random-mutation"])
def test_searches_without_a_model(name):
    method = run(BASELINES[name].build(2, seed=0), 5, bowl)
    best = method.X[np.argmax(method.y)]
    following = np.array([method.ask(step=s)[0] for s in range(5, 25) if method.forget(method.pending) is None])
    if name == "stay-at-best":
        np.testing.assert_array_equal(following, np.repeat(best[None], 20, axis=0))
    else:
        assert 0.03 < (following - best).std() < 0.2
        assert len(np.unique(following, axis=0)) == 20
    with pytest.raises(ValueError, match="initial"):
        BASELINES[name](initial=0).build(2, seed=0)
