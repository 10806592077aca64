"""`Auto`: who proposes when, the probe for noise, long runs, and that all of it follows from the history."""

import numpy as np
import pytest

from regretless.auto import AUTO
from regretless.auto import algorithm as auto
from regretless.auto.algorithm import best_of_many
from regretless.baselines import BASELINES
from regretless.evaluation import Value
from regretless.gp.acquisition import log_expected_improvement, upper_confidence
from regretless.gp.maximiser import Acquisition
from regretless.gp.posterior import GP
from regretless.methods import METHODS
from regretless.optimizer import Optimizer
from regretless.parameters import Choice, Float, Int
from regretless.run import minimize
from regretless.space import Cube, Space
from regretless.statefile import read_state, write_state
from regretless.testing import bowl, run

RIPPLES = Space({"lr": Float(1e-5, 1e-1, log=True), "drop": Float(0.1, 0.9)})


def noisy_bowl(sd: float):
    rng = np.random.default_rng(3)
    return lambda X: bowl(X) + sd * rng.standard_normal(len(X))


def repeats(method) -> int:
    return len(method.X) - len({x.tobytes() for x in method.X})


# ---------------------------------------------------------------- who proposes


def test_beyond_the_model_s_dimensions_it_is_gp_contest() -> None:
    """The wide part is gp-contest itself: the same points from the same history."""
    dim = auto.MODEL_UP_TO + 1
    ours, theirs = AUTO.build(dim, seed=5, budget=40), METHODS["gp-contest"].build(dim, seed=5, budget=40)
    assert np.array_equal(run(ours, 12), run(theirs, 12))
    assert np.array_equal(ours.recommend(), theirs.recommend())
    assert f"{dim} parameters" in ours.why


def test_what_the_contest_cannot_use_of_earlier_evaluations_is_said() -> None:
    opt = Optimizer([(-3.0, 11.0)] * 22, seed=0)
    with pytest.warns(RuntimeWarning, match="1 earlier evaluations were left out: outside the ranges"):
        opt.learn([({f"x{i}": 12.0 for i in range(22)}, 1.0), ({f"x{i}": 2.0 for i in range(22)}, 2.0)])


@pytest.mark.parametrize(("others", "budget"), [(1, 10_000), (21, 60)])
def test_a_prior_is_followed_where_no_model_weighs_it(others: int, budget: int, monkeypatch) -> None:
    """The evolution and the contest know none, so a share of the proposals is drawn from it, as with other methods."""
    monkeypatch.setattr("regretless.method.BELIEVED", 1e9)  # half of the proposals
    lines = {f"x{i}": Float(-3.0, 11.0) for i in range(others)}
    opt = Optimizer({"p": Float(-2.0, 6.0, prior=(5.0, 0.05)), **lines}, budget=budget, seed=0)
    X = np.random.default_rng(0).random((40, others + 1))
    opt.method.tell(X, bowl(X))
    near = [abs(opt.ask().params["p"] - 5.0) < 0.3 for _ in range(16)]
    assert sum(near) >= 4


def test_whole_numbers_are_searched_by_expected_improvement() -> None:
    """With whole numbers a run without a budget is gp-ei's, with turning axes; with lines alone it is not."""
    for space, same in (
        (Space({"n": Int(3, 40), "a": Float(-2, 7), "b": Float(1e-3, 1, log=True), "s": Float(0, 1, step=0.25)}), True),
        (Space({"a": Float(-2, 7), "b": Float(1e-3, 1, log=True), "c": Choice(["x", "y", "z"])}), False),
    ):
        cube = space.cube()
        ours, theirs = AUTO.build(cube, seed=2), BASELINES["gp-ei"](rotate=True).build(cube, seed=2)
        assert np.array_equal(run(ours, 14), run(theirs, 14)) is same
        assert ("whole numbers" in ours.why) is same


def test_with_others_under_way_the_end_of_a_budget_is_not_one_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest mean is asked once; beside it a narrow bound keeps the others apart, near the best."""
    method, widths = AUTO.build(2, seed=0, budget=20), []

    def recorded(gp, width):
        widths.append(width)
        return upper_confidence(gp, width)

    run(method, 16)
    monkeypatch.setattr(auto, "upper_confidence", recorded)
    X = method.ask(3)
    assert widths == [0.0, auto.LATE_WIDTH, auto.LATE_WIDTH]
    assert len(np.unique(X, axis=0)) == 3
    best = method.X[np.argmax(method.y)]
    assert (np.abs(X - best).max(axis=1) < 0.2).all()


def test_a_file_of_an_earlier_auto_is_refused(tmp_path) -> None:
    opt = Optimizer({"n": Int(3, 40), "lr": Float(1e-5, 1e-1, log=True)}, seed=1)
    opt.tell(opt.ask(), 2.0)
    opt.save(tmp_path / "new")
    state = read_state(tmp_path / "new")
    del state["recipe"]["version"]
    write_state(tmp_path / "old", state)
    with pytest.raises(ValueError, match=r"version 1 of method 'auto'.*it proposed other points then"):
        Optimizer.load(tmp_path / "old")


def test_drawn_points_of_a_batch_need_no_care_for_the_others() -> None:
    """A drawn function does not know what is pending; the confidence bound at the step after it does."""
    space = Space({"lr": Float(1e-5, 1e-1, log=True), "n": Float(3, 40), "c": Choice(["x", "y", "z"])})
    first, second = (AUTO.build(space.cube(), seed=3, budget=60) for _ in range(2))
    X = run(first, 20)
    second.tell(X, first.y)
    first.wait_for([[0.3, 0.4, 0.5], first.recommend() * 0.99])
    second.wait_for([[0.9, 0.1, 0.5]])
    proposals = {step: [method.ask(1, step=step)[0] for method in (first, second)] for step in (22, 23, 24)}
    assert np.array_equal(*proposals[22])
    assert not np.array_equal(*proposals[23])
    assert not np.array_equal(*proposals[24]), "beside fewer than four every fourth ask is drawn, not every second"
    for method, places in ((first, (0.2, 0.7)), (second, (0.15, 0.65))):
        method.wait_for([[a, 0.5, 0.5] for a in places])
    assert np.array_equal(*(method.ask(1, step=28)[0] for method in (first, second)))


# ---------------------------------------------------------------- noise


def test_noise_is_found_by_one_second_evaluation() -> None:
    method = AUTO.build(RIPPLES.cube(), seed=1, budget=40)
    run(method, 36, noisy_bowl(0.05))  # the last tenth seeks second values of its own accord
    assert repeats(method) == 1
    assert method.evidence.noisy_at is not None
    assert f"after {method.evidence.noisy_at} values: a setting gave two different values" in method.why


def test_a_second_evaluation_that_fails_is_not_tried_again() -> None:
    method, fun, failures = AUTO.build(RIPPLES.cube(), seed=1, budget=30), noisy_bowl(0.05), 0
    for _ in range(30):
        x = method.ask()
        again = any(np.array_equal(x[0], told) for told in method.X)
        failures += again
        method.tell(x, [np.nan] if again else fun(x))
    assert failures <= 2, "the same point was asked again and again"


def test_without_noise_nothing_is_evaluated_twice() -> None:
    method = AUTO.build(RIPPLES.cube(), seed=1, budget=30)
    run(method, 30)
    assert repeats(method) == 0
    assert "noise" not in method.why


def test_ripples_are_told_from_noise() -> None:
    """A function too fine for the model looks noisy; one repetition shows that it is not, and no second is made."""

    def ripples(X):
        return bowl(X) + 0.05 * np.sin(1e6 * X.sum(axis=1))

    method = AUTO.build(RIPPLES.cube(), seed=1, budget=40)
    run(method, 40, ripples)
    assert repeats(method) == 1
    assert method.evidence.noisy_at is None
    assert "so there is no noise" in method.why


def test_a_finite_space_is_not_probed_and_ends() -> None:
    """Every cell is asked once, whatever the values look like, and then the space is exhausted."""
    space = {"n": Int(2, 6), "s": Float(0.5, 2.0, step=0.5), "c": Choice(["relu", "tanh"])}
    opt, rng = Optimizer(space, seed=0), np.random.default_rng(0)
    while not opt.exhausted:
        opt.tell(opt.ask(), float(rng.standard_normal()))
        assert len(opt.trials) <= 40
    assert len(opt.trials) == 40


CELLS = {"n": Int(2, 6), "s": Float(0.5, 2.0, step=0.5)}


@pytest.mark.parametrize("stated", ["option", "bound", "variances"])
def test_a_finite_space_evaluates_settings_again_under_noise(stated: str) -> None:
    """Told that values are noisy, a run goes on beyond the last cell, and mostly at the good ones."""
    rng, var = np.random.default_rng(3), 0.01 if stated == "variances" else None

    def loss(n: int, s: float) -> Value:
        return Value((n - 5) ** 2 + (s - 1.5) ** 2 + float(rng.uniform(-0.1, 0.1)), var=var)

    method = AUTO(noisy=True) if stated == "option" else "auto"
    bound = 0.1 if stated == "bound" else None
    found = minimize(loss, CELLS, trials=40, seed=2, method=method, noise_bound=bound, progress=False)
    assert len(found.trials) == 40
    best = [t for t in found.trials if t.params == {"n": 5, "s": 1.5}]
    assert len(best) >= 4
    assert found.params == {"n": 5, "s": 1.5}


def test_a_finite_space_without_noise_ends_by_itself_and_says_so() -> None:
    found = minimize(lambda n, s: (n - 5) ** 2 + s, CELLS, trials=40, seed=2, progress=False)
    assert len(found.trials) == 20 == len({tuple(t.params.values()) for t in found.trials})
    assert "all 20 settings of the space were evaluated" in found.message


def test_a_fine_finite_space_with_failures_ends_too() -> None:
    """Whole numbers that lie closer to a failed one than points of a line may: each is evaluated, and once."""
    opt = Optimizer({"n": Int(3, 1302)}, budget=3001, seed=0)
    while not opt.exhausted and len(opt.trials) < 1300:
        trial = opt.ask()
        n = trial.params["n"]
        opt.tell(trial, float("nan") if n % 5 == 0 else (n - 400.0) ** 2)
    assert opt.exhausted
    assert len(opt.trials) == 1300


def test_one_that_is_told_that_there_is_no_noise_evaluates_nothing_twice() -> None:
    method = AUTO(noisy=False).build(RIPPLES.cube(), seed=1, budget=40)
    run(method, 40, lambda X: bowl(X) + 0.05 * np.sin(1e6 * X.sum(axis=1)))
    assert repeats(method) == 0


def test_told_variances_are_noise() -> None:
    opt = Optimizer(RIPPLES, seed=0)
    assert "noise" not in opt.why
    opt.tell(opt.ask(), 1.0, var=0.2)
    assert "after 1 value: a noise variance was told" in opt.why


# ---------------------------------------------------------------- long runs


@pytest.mark.parametrize(("budget", "seldom"), [(10_000, True), (100, False), (None, False)])
def test_the_models_of_long_runs_make_only_fits_from_scratch(budget, seldom) -> None:
    method = AUTO.build(3, seed=0, budget=budget)
    assert [model.seldom for model in method._models.values()] == [seldom, seldom]


@pytest.mark.parametrize("dim", [3, 30])
def test_a_long_run_resumes_and_replays_bit_for_bit(dim, monkeypatch) -> None:
    """As for every method, and across the change from turns with the model to the evolution alone."""
    monkeypatch.setattr(auto, "TURNS_UNTIL", 30)
    whole, first = (AUTO.build(dim, seed=7, budget=5000) for _ in range(2))
    expected = run(whole, 90)
    run(first, 60)
    resumed = AUTO.build(dim, seed=7, budget=5000)
    resumed.load_state_dict(first.state_dict())
    assert np.array_equal(run(resumed, 30), expected[60:])
    bulk = AUTO.build(dim, seed=7, budget=5000)
    bulk.tell(whole.X, whole.y)
    assert np.array_equal(bulk.ask(3, step=90), whole.ask(3, step=90))
    assert "5000 evaluations: CMA-ES" in whole.why
    assert not whole.certificate().certified


TURNED = np.linalg.qr(np.random.default_rng(8).standard_normal((4, 4)))[0]


def valley(X):
    """A turned ellipsoid whose axes differ a thousandfold, with the top away from the centre; to be maximised."""
    return -1e4 * (((X - 0.37) @ TURNED) ** 2) @ np.array([1.0, 10.0, 100.0, 1000.0])


def long_run(cube, n, f=valley, **options):
    method = AUTO(**options).build(cube, seed=2, budget=5000)
    run(method, n, f)
    return method


def test_a_long_run_leaps_along_a_valley_and_learns_its_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    with_leaps = long_run(4, 150).y.max()
    monkeypatch.setattr(auto, "LEAP_UP_TO", 3)
    assert with_leaps > 1e-3 * long_run(4, 150).y.max()  # values are below zero: a thousandth of the loss
    assert with_leaps > -1e-6


def test_a_leap_is_taken_every_eighth_ask_of_a_young_search_and_every_32nd_of_an_old_one(monkeypatch) -> None:
    method = long_run(4, 64)
    free = [step for step in range(64, 128) if leaps(method, step)]
    assert free == [step for step in range(64, 128) if step % 8 == 7]
    monkeypatch.setattr(auto, "LEAP_LONG", 1)
    assert [step for step in range(64, 128) if leaps(method, step)] == [95, 127]


def leaps(method, step: int) -> bool:
    method.step = step
    return method._leap() is not None


@pytest.mark.parametrize("what", ["noise stated", "noise shown", "steps", "many parameters", "a cone"])
def test_no_leap_is_taken_where_no_quadratic_can_be_right(what: str) -> None:
    space = Space({"lr": Float(1e-5, 1e-1, log=True), "n": Int(2, 90), "x": Float(-3, 9), "s": Float(0, 7, step=0.5)})
    rng = np.random.default_rng(1)
    noisy = lambda X: valley(X) + 1e-3 * rng.standard_normal(len(X))  # noqa: E731
    cone = lambda X: -np.abs(X - 0.37).sum(axis=1)  # noqa: E731
    method = {
        "noise stated": lambda: long_run(4, 64, noisy=True),
        "noise shown": lambda: long_run(4, 64, noisy),
        "steps": lambda: long_run(space.cube(), 64, lambda X: -((X - 0.4) ** 2).sum(axis=1)),
        "many parameters": lambda: long_run(11, 170, lambda X: -((X - 0.4) ** 2).sum(axis=1)),
        "a cone": lambda: long_run(4, 64, cone),
    }[what]()
    if what == "noise shown":
        method.tell(method.X[:1], method.y[:1] + 1.0)
    assert not any(leaps(method, step) for step in range(64, 96))


def test_without_a_budget_the_evolution_takes_over(monkeypatch) -> None:
    """First in turns with the model, then alone; a state taken between two turns goes on with the same points."""
    monkeypatch.setattr(auto, "SHARES", ((15, 1), (20, 2)))
    method, strategy = AUTO.build(3, seed=4), BASELINES["cma-es"].build(3, seed=4)
    run(method, 14)
    assert "CMA-ES" not in method.why
    run(method, 3)
    strategy.tell(method.X, method.y)
    assert np.array_equal(method.ask(1, step=17), strategy.ask(1, step=17))
    assert not np.array_equal(method.ask(1, step=18), strategy.ask(1, step=18))
    method.forget(method.pending)
    resumed = AUTO.build(3, seed=4)
    resumed.load_state_dict(method.state_dict())
    assert np.array_equal(resumed.ask(1, step=18), method.ask(1, step=18))
    method.forget(method.pending)
    run(method, 3)
    strategy = BASELINES["cma-es"].build(3, seed=4)
    strategy.tell(method.X, method.y)
    assert np.array_equal(method.ask(1, step=20), strategy.ask(1, step=20))
    assert "after 15 evaluations: CMA-ES takes turns with the model" in method.why
    assert "after 20 evaluations: asks of a model would take long" in method.why
    method.tell(method.X[:1], [1.0])
    words = "so evaluations go where they tell most about the best, and the model alone chooses them again"
    assert method.why.endswith(f"after {len(method.y)} values: a setting gave two different values, {words}")
    assert "after 15 evaluations: CMA-ES takes turns with the model" in method.why, "what was stays said"
    assert method._part() == "model"


def test_noise_that_shows_once_the_evolution_is_alone_changes_nothing_but_the_recommendation(monkeypatch) -> None:
    monkeypatch.setattr(auto, "SHARES", ((4, 1), (8, 2)))
    monkeypatch.setattr(auto, "UNPLANNED", 10)
    method = AUTO.build(2, seed=4)
    run(method, 12)
    method.tell(method.X[:1], [1.0])
    assert method._part() == "cma-es"
    assert method.why.count("CMA-ES goes on") == 1
    assert method.why.endswith("after 13 values: a setting gave two different values, so the best value may be luck")


def test_failures_count_for_the_turns_of_the_evolution_and_that_is_said(monkeypatch) -> None:
    monkeypatch.setattr(auto, "SHARES", ((15, 1), (20, 2)))
    method = AUTO.build(3, seed=4)
    for step in range(16):
        X = method.ask(step=step)
        method.tell(X, [np.nan] if step % 2 else bowl(X))
    method.step = 17
    assert method._part() == "cma-es"
    assert "after 15 evaluations: CMA-ES takes turns with the model" in method.why


def test_what_was_stated_about_noise_is_not_contradicted() -> None:
    stated, exact = AUTO(noisy=True).build(2, seed=0), AUTO(noisy=False).build(2, seed=0, budget=20)
    stated.tell([[0.3, 0.4]] * 2, [1.0, 1.0])
    assert stated.why.endswith("noise was stated")
    exact.tell([[0.3, 0.4]] * 2, [1.0, 2.0])
    run(exact, 18)
    assert "after" not in exact.why
    assert repeats(exact) == 1  # the one that was told
    exact.tell([[0.1, 0.2]], [1.0], yvar=[0.3])
    assert "after 21 values: a noise variance was told" in exact.why


@pytest.mark.parametrize(("dim", "budget"), [(2, 10_000), (22, 60)])
def test_what_follows_from_noise_without_the_model_is_said(dim: int, budget: int) -> None:
    method = AUTO.build(dim, seed=0, budget=budget)
    method.tell([[0.3] * dim] * 2, [1.0, 2.0])
    assert method.why.endswith("after 2 values: a setting gave two different values, so the best value may be luck")


@pytest.mark.parametrize(("lines", "budget"), [(2, 10_000), (22, 60)])
def test_what_one_ask_holds_is_free_in_the_next(lines: int, budget: int) -> None:
    """The evolution and the contest are built in the first ask that needs them, which may have held coordinates."""
    space = Space({f"x{i}": Float(-3.0 - i, 11.0) for i in range(lines)} | {"n": Int(3, 17)})
    pins = space.pins({"n": 5}, "shares")
    ((at, place),) = pins.items()
    method, fresh = (AUTO.build(space, seed=3, budget=budget) for _ in range(2))
    for step in range(12):
        X = method.ask(step=step, pins=pins)
        assert X[0, at] == place
        method.tell(X, bowl(X))
    fresh.tell(method.X, method.y)
    assert np.array_equal(method.ask(8, step=12), fresh.ask(8, step=12))
    assert (method.pending[:, at] != place).any()


@pytest.mark.parametrize(("dim", "budget"), [(2, 3001), (2, None), (22, 60)])
def test_constraints_are_learnt_and_kept_in_every_run(dim: int, budget: int | None, monkeypatch) -> None:
    """Neither the evolution nor the contest knows constraints."""
    monkeypatch.setattr(auto, "UNPLANNED", 12)
    opt = Optimizer([(-3.0, 11.0)] * dim, method=AUTO(noisy=True), budget=budget, seed=4, constraints=1)
    for _ in range(16):
        trial = opt.ask()
        first = trial.unit[0]
        opt.tell(trial, -float(first), constraints=[float(first) - 0.4])  # the best values break it
    assert opt.method._part() == "model"
    assert opt.space.encode(opt.recommend())[0] <= 0.4


@pytest.mark.parametrize("what", ["steps", "noise"])
def test_without_a_budget_steps_and_noise_keep_the_model(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "SHARES", ((5, 2),))
    cube = Space({"n": Int(3, 40), "lr": Float(1e-5, 1e-1, log=True)}).cube() if what == "steps" else 2
    method = AUTO(noisy=True if what == "noise" else None).build(cube, seed=4)
    run(method, 12)
    assert method._part() == "model"
    assert method.recommend() in method.X


def test_the_recommendation_of_many_noisy_values_is_not_the_luckiest() -> None:
    lucky, found = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.random((1500, 2))
        y = bowl(X) + 0.05 * rng.standard_normal(len(X))
        lucky.append(bowl(X[int(np.argmax(y))]))
        found.append(bowl(best_of_many(Cube.box(2), X, y, np.full(len(y), np.nan))))
    assert np.mean(found) > np.mean(lucky)
    assert np.mean(found) > -0.02


@pytest.mark.parametrize("tree", [True, False])
def test_asks_in_a_tree_must_beat_the_best_by_a_margin_in_turn(tree: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value to beat is the same at every ask of a flat space; in a tree it is larger at odd steps."""
    beaten: list[float] = []

    def noted(gp: GP, beat: float) -> Acquisition:
        beaten.append(beat)
        return log_expected_improvement(gp, beat)

    monkeypatch.setattr(auto, "log_expected_improvement", noted)
    space = Space({"kind": Choice(["a", "b"]), "n": Int(2, 9, when={"kind": "b"} if tree else None)})
    method = AUTO.build(space, seed=3, budget=12)
    settings = [{"kind": k, "n": n} if k == "b" or not tree else {"kind": k} for k, n in zip("abbbb", (2, 3, 5, 8, 9))]
    X = np.array([space.encode(setting, method.choices) for setting in settings])
    method.tell(X, np.array([0.1, -0.7, 0.4, 0.2, -1.1]))
    for step in (4, 5, 6, 8):
        method.ask(1, step=step)
        method.forget(method.pending)
    first, second, third, last = beaten
    assert first == last
    assert second == third == pytest.approx(first + auto.TREE_MARGIN if tree else first)


def test_every_fourth_ask_in_a_tree_searches_the_rarest_branch() -> None:
    """One poor value is all that is known of a branch; every fourth ask goes there, and what is held stays held."""
    space = Space({"kind": Choice(["a", "b", "c"]), "n": Int(2, 90, when={"kind": ["a", "c"]}), "x": Float(-3, 4)})
    method = AUTO.build(space, seed=4, budget=40)
    settings = [{"kind": "abbbaab"[i % 7], "n": 3 + 5 * i, "x": -2.9 + 0.4 * i} for i in range(15)]
    settings.append({"kind": "c", "n": 60, "x": 1.0})
    X = np.array([space.encode(space.only_active(setting), method.choices) for setting in settings])
    method.tell(X, np.array([*np.cos(np.arange(15.0)), -9.0]))

    def asked(step: int, **fixed: str) -> str:
        pins = space.pins(fixed, method.choices) if fixed else None
        found = space.decode(method.ask(1, step=step, pins=pins)[0], method.choices)["kind"]
        method.forget(method.pending)
        return str(found)

    assert [asked(step) for step in (19, 23, 27)] == ["c"] * 3
    assert "c" not in {asked(step) for step in (16, 20)}
    assert asked(19, kind="b") == "b"


@pytest.mark.parametrize("prior", [None, [1, 1, 60]])
def test_a_rare_branch_is_met_by_draws_first(prior: list[float] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a branch has no more evaluations than coordinates, no model looks for its corners; draws follow priors."""
    space = Space(
        {
            "kind": Choice(["a", "b"]),
            "y": Float(-3, 8, when={"kind": "a"}),
            "x": Float(1e-3, 1e2, log=True, when={"kind": "b"}),
            "c": Choice(["l", "m", "n"], when={"kind": "b"}, prior=prior),
        }
    )
    method = AUTO.build(space, seed=4, budget=200)
    asked = []
    monkeypatch.setattr(auto, "log_expected_improvement", lambda gp, beat: asked.append(beat) or 1 / 0)

    def tell(settings: list[dict[str, object]]) -> None:
        X = np.array([space.encode(setting, method.choices) for setting in settings])
        method.tell(X, -np.arange(float(len(X))))

    tell([{"kind": "a", "y": -2.9 + 0.1 * i} for i in range(45)])
    drawn = []
    for step in range(63, 103, 4):
        drawn.append(space.decode(method.ask(1, step=step)[0], method.choices))
        method.forget(method.pending)
    assert {p["kind"] for p in drawn} == {"b"}
    assert all(1e-3 < p["x"] < 1e2 for p in drawn)
    assert (sum(p["c"] == "n" for p in drawn) >= 8) == (prior is not None)
    tell([{"kind": "b", "x": 0.01 * 2.0**i, "c": "l"} for i in range(5)])
    with pytest.raises(ZeroDivisionError):  # six are more than its three coordinates
        method.ask(1, step=103)
    assert asked


def test_a_finite_run_that_is_said_to_be_exact_ends_though_a_setting_has_two_values() -> None:
    method = AUTO(noisy=False).build(2, seed=0)
    method.tell(np.array([[0.25, 0.5], [0.25, 0.5]]), np.array([1.0, 2.0]))
    assert not method.gains_by_repeating()
    method.tell(np.array([[0.75, 0.5]]), np.array([1.0]), yvar=np.array([0.1]))
    assert method.gains_by_repeating()
