"""What the four GP methods share, what sets each apart, and what their printed forms do."""

import math

import numpy as np
import pytest
from regretless_bench.methods import RIVALS
from regretless_bench.methods.textbook import theory_beta, ucb_beta, widened, widening

from regretless.classics import CLASSICS
from regretless.method import next_points
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int
from regretless.testing import Loop, run

NAMES = ("gp-ucb", "gp-ei", "gp-pi", "gp-ts")


def bowl(X, centre=0.37):
    return -((np.atleast_2d(X) - centre) ** 2).sum(axis=1)


def after(n, recipe, fun=bowl, dim=3, **options):
    """A run after n rounds."""
    loop = Loop(recipe.build(dim, **{"seed": 0, **options}))
    run(loop, n, fun)
    return loop


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("printed", [False, True])
def test_a_bowl_in_three_dimensions_is_solved(name, printed):
    loop = after(40, RIVALS[f"{name}-printed"] if printed else CLASSICS[name], budget=40)
    random = np.median([bowl(np.random.default_rng(s).random((40, 3))).max() for s in range(50)])
    assert loop.history.y.max() > random / (1 if printed else 20)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_options_are_refused(name):
    with pytest.raises(ValueError, match="noise_var"):
        CLASSICS[name](noise_var=-0.1).build(2, seed=0)
    for unknown in ("preset", "noise"):
        with pytest.raises(TypeError, match="noise_var"):
            CLASSICS[name](**{unknown: 0.1})
    if name == "gp-ucb":
        with pytest.raises(ValueError, match="kappa"):
            CLASSICS[name](kappa=-1).build(2, seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_proposals_keep_away_from_failures(name):
    """A third of the square fails, beside the optimum; the search goes on in the rest and finds the best of it."""

    def half(x):
        return np.where(x[:, 0] > 0.66, np.nan, bowl(x, 0.6))

    history = after(40, CLASSICS[name], half, 2, seed=1, budget=40).history
    assert len(history.failed) < 13, "a third of the square fails: uniform draws would have 13 failures"
    assert history.y.max() > (-2e-2 if name == "gp-pi" else -2e-3), (
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

    best = space.decode(after(40, CLASSICS[name], value, space.cube(), budget=40).recommend())
    assert (best["n"], best["c"]) == (6, "q")
    assert abs(best["a"] - 1.3) < 0.3


@pytest.mark.parametrize("name", [*NAMES, "turbo"])
def test_a_loaded_run_fits_nothing_again(name, monkeypatch):
    """The state carries the latest fits of the model and of the certificate's: loaded, both go on bit for bit as they
    were, without a single fit."""
    whole = after(47, CLASSICS[name], seed=2)
    whole.certificate()
    whole.recommend()
    loaded = whole.resumed(CLASSICS[name].build(3, seed=2))
    calls = []
    monkeypatch.setattr("regretless.models.gp.surrogate.fit", lambda *args, **options: calls.append(args))
    np.testing.assert_array_equal(loaded.ask(), whole.ask())
    np.testing.assert_array_equal(loaded.recommend(), whole.recommend())
    assert loaded.certificate() == whole.certificate()
    assert not calls
    monkeypatch.undo()
    for loop in (whole, loaded):
        loop.tell(loop.history.pending, bowl(loop.history.pending))
        run(loop, 6, bowl)  # over the next scheduled fits
    np.testing.assert_array_equal(loaded.history.X, whole.history.X)
    assert loaded.certificate() == whole.certificate()


@pytest.mark.parametrize("name", [*NAMES, "turbo"])
def test_a_state_without_fits_loads_and_a_damaged_one_is_refused(name):
    whole = after(14, CLASSICS[name], seed=2)
    whole.recommend()
    history, good = whole.history, whole.method.warm(whole.history)["model"]
    bare = CLASSICS[name].build(3, seed=2)
    bare.warm_from(history, {})
    np.testing.assert_array_equal(next_points(bare, history, step=14), whole.ask())
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
            CLASSICS[name].build(3, seed=2).warm_from(history, {"model": {**good, **wrong}})


def test_turned_axes_are_saved_too():
    across = np.array([0.6, 0.6, -0.5])
    whole = after(27, CLASSICS["gp-ucb"](rotate=True), lambda x: -(((x - 0.4) @ across) ** 2))
    assert "rotation" in whole.method.warm(whole.history)["model"]
    loaded = whole.resumed(CLASSICS["gp-ucb"](rotate=True).build(3, seed=0))
    np.testing.assert_array_equal(loaded.ask(), whole.ask())


def test_a_certificate_and_a_verifying_ask_share_one_model(monkeypatch):
    """After the certificate of a history a verifying ask fits nothing, and neither does the next certificate."""
    loop = after(40, CLASSICS["gp-ucb"](verify=1), dim=2)
    first = loop.certificate()
    calls = []
    monkeypatch.setattr("regretless.models.gp.surrogate.fit", lambda *args, **options: calls.append(args))
    x = loop.ask()
    assert loop.certificate() == first
    assert not calls
    loop.tell(x, bowl(x))
    loop.certificate()
    assert not calls, "41 values lie between two scheduled fits"


def test_a_finite_space_is_not_asked_twice_while_there_is_more():
    cube = Space({"n": Int(1, 4), "c": Choice(["p", "q", "r"])}).cube()
    history = after(12, CLASSICS["gp-ei"], lambda x: -x.sum(axis=1), cube, budget=12).history
    assert len(np.unique(history.X, axis=0)) == 12


def test_ucb_turns_to_the_mean_in_the_last_fifth_of_a_known_budget():
    options = {"turns": {}, "exploits": {"kappa": 0.0}, "explores": {"exploit": False}}
    loops = {name: after(15, CLASSICS["gp-ucb"](**o), dim=2, budget=20) for name, o in options.items()}
    history = loops["turns"].history
    for n, like, unlike in ((15, "explores", "exploits"), (16, "exploits", "explores")):
        asked = {name: next_points(loop.method, history, step=n) for name, loop in loops.items()}
        assert np.array_equal(asked["turns"], asked[like])
        assert not np.array_equal(asked["turns"], asked[unlike])
        history = history.with_values(asked["turns"], bowl(asked["turns"]))


def test_papers_widths():
    """Theorem 2 by hand for t = 1, d = 1, delta = 0.1, a = b = r = 1, and growth with t and d."""
    by_hand = 2 * math.log(2 * math.pi**2 / 0.3) + 2 * math.log(math.sqrt(math.log(40)))
    assert theory_beta(1, 1, 0.1) == pytest.approx(by_hand)
    assert theory_beta(10, 1, 0.1) > theory_beta(9, 1, 0.1)
    assert theory_beta(10, 5, 0.1) > theory_beta(10, 1, 0.1)
    X = np.random.default_rng(0).random((8, 2))
    gp = Surrogate(Cube.box(2), kernel="se", quadratic=False, clip=False).gp(X, bowl(X))
    b = math.sqrt(0.5) / gp.hyper.lengthscale.min()
    assert ucb_beta(gp, 9) == pytest.approx(theory_beta(9, 2, 0.1, b=b))


def test_thompson_widening():
    """v_t = 1 changes nothing; in general the path's distance to the mean is multiplied by v_t."""
    rng = np.random.default_rng(0)
    X, Q = rng.random((12, 2)), rng.random((5, 2))
    gp = Surrogate(Cube.box(2)).gp(X, bowl(X))
    path = gp.path(rng)
    np.testing.assert_allclose(widened(path, gp, 1.0)[0](Q)[0], path(Q)[0])
    wide, values = widened(path, gp, 3.0)
    np.testing.assert_allclose(wide(Q)[0] - gp.mean_at(Q), 3 * (path(Q)[0] - gp.mean_at(Q)))
    np.testing.assert_allclose(values(Q), wide(Q)[0])
    noise = gp.factor.noise[0]
    K = gp.factor.cross(X)
    gain = 0.5 * np.linalg.slogdet(np.eye(12) + K / noise)[1]
    assert widening(gp, 0.1) == pytest.approx(1 + math.sqrt(noise) * math.sqrt(2 * (gain + 1 + math.log(20))), rel=1e-6)


@pytest.mark.parametrize("name", ["gp-ucb", "gp-ei"])
def test_pending_points_spread_a_batch(name):
    batch = after(8, CLASSICS[name](**({"exploit": False} if name == "gp-ucb" else {})), dim=2).ask(4)
    gaps = [np.abs(a - b).max() for i, a in enumerate(batch) for b in batch[:i]]
    assert min(gaps) > 1e-4


def noisy_gap(name, seed, share, d=2):
    """True value of the recommendation minus the luckiest observation's, on a noisy bowl whose range is about 1."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(0.2, 0.8, d)

    def truth(X):
        return -((np.atleast_2d(X) - centre) ** 2).sum(axis=1) / (0.4 * d)

    noisy = lambda x: truth(x) + share * rng.standard_normal(len(x))  # noqa: E731
    loop = after(30, CLASSICS[name], noisy, d, seed=seed, budget=30)
    first = loop.history.X[:1]
    loop.tell(first, noisy(first))  # another value: there is noise
    return (truth(loop.recommend()) - truth(loop.history.X[np.argmax(loop.history.y)]))[0]


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
    loop = after(5, RIVALS[name], dim=2)
    best = loop.history.X[np.argmax(loop.history.y)]
    following = np.array([next_points(loop.method, loop.history, step=s)[0] for s in range(5, 25)])
    if name == "stay-at-best":
        np.testing.assert_array_equal(following, np.repeat(best[None], 20, axis=0))
    else:
        assert 0.03 < (following - best).std() < 0.2
        assert len(np.unique(following, axis=0)) == 20
    with pytest.raises(ValueError, match="initial"):
        RIVALS[name](initial=0).build(2, seed=0)
