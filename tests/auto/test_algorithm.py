"""`Auto`: who proposes when, the probe for noise, long runs, and that all of it follows from the history."""

import numpy as np
import pytest

from regretless.auto import AUTO, evolution, exact, steps, table
from regretless.auto.evolution import Evolution, best_of_many
from regretless.auto.model import Model
from regretless.classics import CLASSICS
from regretless.files.book import Earlier
from regretless.method import Method, gains_by_repeating, next_points
from regretless.models.gp.acquisition import log_expected_improvement, upper_confidence
from regretless.models.gp.maximiser import Acquisition
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import Surrogate
from regretless.optimizer import Optimizer, is_exhausted
from regretless.run.evaluation import Value
from regretless.run.minimize import minimize
from regretless.space import Cube, Space
from regretless.space.parameters import Array, Choice, Float, Int
from regretless.testing import Loop, bowl, run
from regretless.trial import Trial

RIPPLES = Space({"lr": Float(1e-5, 1e-1, log=True), "drop": Float(0.1, 0.9)})


def noisy_bowl(sd: float):
    rng = np.random.default_rng(3)
    return lambda X: bowl(X) + sd * rng.standard_normal(len(X))


def repeats(loop: Loop) -> int:
    return len(loop.history) - len({x.tobytes() for x in loop.history.X})


def begun(cube, seed: int = 0, budget: int | None = None, **options) -> Loop:
    return Loop(AUTO(**options).build(cube, seed=seed, budget=budget))


def why(loop: Loop) -> str:
    return loop.method.why(loop.history)


def asked(loop: Loop, step: int, n: int = 1) -> Array:
    """What it would propose at a step; nothing is left under way."""
    return next_points(loop.method, loop.history, n, step=step)


def same_proposals(loop: Loop, method: Method, step: int) -> bool:
    """Whether another method proposes the same for the same history."""
    return np.array_equal(asked(loop, step), next_points(method, loop.history, step=step))


# ---------------------------------------------------------------- who proposes


def test_beyond_the_model_s_dimensions_it_is_gp_ei() -> None:
    """The wide part is gp-ei itself: the same points from the same history."""
    dim = table.MODEL_UP_TO + 1
    ours, theirs = begun(dim, 5, 40), Loop(CLASSICS["gp-ei"].build(dim, seed=5, budget=40))
    assert np.array_equal(run(ours, 12), run(theirs, 12))
    assert np.array_equal(ours.recommend(), theirs.recommend())
    assert f"{dim} parameters" in why(ours)


def test_what_the_evolution_cannot_use_of_earlier_evaluations_is_said() -> None:
    before = [({"x0": 12.0, "x1": 1.0}, (1.0, 2.0)), ({"x0": 2.0, "x1": 0.0}, (2.0, 1.0))]
    space, objectives = [(-3.0, 11.0)] * 2, ("a", "b")
    assert Optimizer(space, budget=60, seed=0, objectives=objectives).learn(before) == 2
    opt = Optimizer(space, budget=10_000, seed=0, objectives=objectives)
    with pytest.warns(RuntimeWarning, match="1 earlier evaluations were left out: outside the ranges"):
        opt.learn(before)


@pytest.mark.parametrize("others", [1, 21])
def test_a_prior_is_followed_where_no_model_weighs_it(others: int, monkeypatch) -> None:
    """The evolution knows none, so a share of the proposals is drawn from it, as with other methods."""
    monkeypatch.setattr("regretless.method.BELIEVED", 1e9)  # half of the proposals
    lines = {f"x{i}": Float(-3.0, 11.0) for i in range(others)}
    opt = Optimizer({"p": Float(-2.0, 6.0, prior=(5.0, 0.05)), **lines}, budget=10_000, seed=0)
    X = np.random.default_rng(0).random((40, others + 1))
    opt.learn([Earlier(x, y) for x, y in zip(X, bowl(X), strict=True)])
    near = [abs(opt.ask().params["p"] - 5.0) < 0.3 for _ in range(16)]
    assert sum(near) >= 4


def test_whole_numbers_are_searched_by_expected_improvement() -> None:
    """With whole numbers a run without a budget is gp-ei's, with turning axes; with lines alone it is not."""
    for space, same in (
        (Space({"n": Int(3, 40), "a": Float(-2, 7), "b": Float(1e-3, 1, log=True), "s": Float(0, 1, step=0.25)}), True),
        (Space({"a": Float(-2, 7), "b": Float(1e-3, 1, log=True), "c": Choice(["x", "y", "z"])}), False),
    ):
        cube = space.cube()
        ours, theirs = begun(cube, 2), Loop(CLASSICS["gp-ei"](rotate=True).build(cube, seed=2))
        assert np.array_equal(run(ours, 14), run(theirs, 14)) is same
        assert ("whole numbers" in why(ours)) is same


def test_with_others_under_way_the_end_of_a_budget_is_not_one_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest mean is asked once; beside it a narrow bound keeps the others apart, near the best."""
    loop, widths = begun(2, budget=20), []

    def recorded(gp, width):
        widths.append(width)
        return upper_confidence(gp, width)

    run(loop, 16)
    monkeypatch.setattr(steps, "upper_confidence", recorded)
    X = loop.ask(3)
    assert widths == [0.0, exact.LATE_WIDTH, exact.LATE_WIDTH]
    assert len(np.unique(X, axis=0)) == 3
    best = loop.history.X[loop.history.best_row()]
    assert (np.abs(X - best).max(axis=1) < 0.2).all()


def test_drawn_points_of_a_batch_need_no_care_for_the_others() -> None:
    """A drawn function does not know what is pending; the confidence bound at the step after it does."""
    space = Space({"lr": Float(1e-5, 1e-1, log=True), "n": Float(3, 40), "c": Choice(["x", "y", "z"])})
    loop = begun(space.cube(), 3, 60)
    run(loop, 20)
    first, second = Loop(loop.method), Loop(loop.method)
    first.history = second.history = loop.history
    first.wait_for([[0.3, 0.4, 0.5], loop.recommend() * 0.99])
    second.wait_for([[0.9, 0.1, 0.5]])
    proposals = {step: [asked(one, step) for one in (first, second)] for step in (22, 23, 24)}
    assert np.array_equal(*proposals[22])
    assert not np.array_equal(*proposals[23])
    assert not np.array_equal(*proposals[24]), "beside fewer than four every fourth ask is drawn, not every second"
    for one, places in ((first, (0.2, 0.7)), (second, (0.15, 0.65, 0.85))):
        one.wait_for([[a, 0.5, 0.5] for a in places])
    assert np.array_equal(*(asked(one, 28) for one in (first, second)))


# ---------------------------------------------------------------- noise


def test_noise_is_found_by_one_second_evaluation() -> None:
    loop = begun(RIPPLES.cube(), 1, 40)
    run(loop, 36, noisy_bowl(0.05))  # the last tenth seeks second values of its own accord
    assert repeats(loop) == 1
    again = next(n for n, x in enumerate(loop.history.X, 1) if (x == loop.history.X[: n - 1]).all(axis=1).any())
    assert f"after {again} values: a setting gave two different values" in why(loop)


def test_a_second_evaluation_that_fails_is_not_tried_again() -> None:
    loop, fun, failures = begun(RIPPLES.cube(), 1, 30), noisy_bowl(0.05), 0
    for _ in range(30):
        x = loop.ask()
        again = any(np.array_equal(x[0], known) for known in loop.history.X)
        failures += again
        loop.tell(x, [np.nan] if again else fun(x))
    assert failures <= 2, "the same point was asked again and again"


def test_without_noise_nothing_is_evaluated_twice() -> None:
    loop = begun(RIPPLES.cube(), 1, 30)
    run(loop, 30)
    assert repeats(loop) == 0
    assert "noise" not in why(loop)


def test_ripples_are_told_from_noise() -> None:
    """A function too fine for the model looks noisy; one repetition shows that it is not, and no second is made."""

    def ripples(X):
        return bowl(X) + 0.05 * np.sin(1e6 * X.sum(axis=1))

    loop = begun(RIPPLES.cube(), 1, 40)
    run(loop, 40, ripples)
    assert repeats(loop) == 1
    assert not loop.method.noise(loop.history).shows
    assert "so there is no noise" in why(loop)


def test_a_finite_space_without_noise_is_tested_once_and_ends() -> None:
    """One cell is asked twice, however rough the values are, every other once, and then the space is exhausted."""
    space = Space({"n": Int(2, 6), "s": Float(0.5, 2.0, step=0.5), "c": Choice(["relu", "tanh"])})
    opt, heights = Optimizer(space, seed=0), np.random.default_rng(0).standard_normal((5, 4, 2))
    while not is_exhausted(opt):
        trial = opt.ask()
        p = trial.params
        opt.tell(trial, float(heights[p["n"] - 2, round(2 * p["s"]) - 1, int(p["c"] == "tanh")]))
        assert len(opt.trials) <= 41
    assert len(opt.trials) == 41
    assert "so there is no noise" in opt.why


@pytest.mark.parametrize("labels", [True, False])
def test_noise_is_found_where_labels_or_few_values_let_the_model_explain_it(labels: bool) -> None:
    """Flags of a compiler: each combination has a time of its own as far as a model can see."""
    flags = {f"f{i}": Choice(["on", "off"]) if labels else Int(0, 1) for i in range(6)}
    opt, rng = Optimizer(Space(flags), seed=0, budget=40), np.random.default_rng(0)
    for _ in range(30):
        trial = opt.ask()
        on = [value in ("on", 1) for value in trial.params.values()]
        opt.tell(trial, 10.0 - sum(on) + float(rng.gamma(2.0, 1.0)))
    assert "a setting gave two different values" in opt.why
    assert len(opt.trials) - len({tuple(t.params.values()) for t in opt.trials}) >= 3


def test_a_part_of_a_space_that_is_held_is_not_tested_at_a_place_outside_it() -> None:
    opt = Optimizer({"kind": Choice(["a", "b"]), "n": Int(3, 40), "x": Float(-3, 4)}, seed=0)
    for i in range(14):
        trial = opt.ask(fixed={"kind": "ab"[i % 2]})
        opt.tell(trial, trial.params["x"] ** 2 + (trial.params["kind"] == "b"))
    asked = [opt.ask(fixed={"kind": "b"}).params["x"] for _ in range(3)]
    assert len(set(asked)) == 3


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
    assert len(found.trials) == 21
    assert len({tuple(t.params.values()) for t in found.trials}) == 20
    assert "all 20 settings of the space were evaluated" in found.message


def test_a_fine_finite_space_with_failures_ends_too() -> None:
    """Whole numbers that lie closer to a failed one than points of a line may: each is evaluated, and none twice."""
    opt = Optimizer({"n": Int(3, 1302)}, budget=3001, seed=0)

    def tell(trial: Trial) -> None:
        n = trial.params["n"]
        opt.tell(trial, float("nan") if n % 5 == 0 else (n - 400.0) ** 2)

    for n in range(3, 1303):
        if n % 13:  # these 100 are left
            tell(opt.adopt({"n": n}))
    while not is_exhausted(opt) and len(opt.trials) < 1301:
        tell(opt.ask())
    assert is_exhausted(opt)
    assert len(opt.trials) == 1300


@pytest.mark.parametrize("axis", [Float(0.5, 4.5, step=0.5), Choice(["a", "$(b)"])])
def test_a_space_in_which_everything_fails_is_asked_on(axis: Float | Choice) -> None:
    opt = Optimizer({"p": axis}, seed=0)
    tried = set()
    for _ in range(12):
        trial = opt.ask()
        tried.add(str(trial.params["p"]))
        opt.tell(trial, failed=True)
    assert len(tried) == (9 if isinstance(axis, Float) else 2)


def test_one_that_is_told_that_there_is_no_noise_evaluates_nothing_twice() -> None:
    loop = begun(RIPPLES.cube(), 1, 40, noisy=False)
    run(loop, 40, lambda X: bowl(X) + 0.05 * np.sin(1e6 * X.sum(axis=1)))
    assert repeats(loop) == 0


def test_told_variances_are_noise() -> None:
    opt = Optimizer(RIPPLES, seed=0)
    assert "noise" not in opt.why
    opt.tell(opt.ask(), 1.0, var=0.2)
    assert "after 1 value: a noise variance was told" in opt.why


# ---------------------------------------------------------------- long runs


@pytest.mark.parametrize(
    ("budget", "constraints", "fresh_only"), [(10_000, 0, True), (10_000, 1, False), (100, 0, False), (None, 0, False)]
)
def test_the_model_of_a_long_run_makes_only_fits_from_scratch(budget, constraints, fresh_only, monkeypatch) -> None:
    """But not with constraints: there the model proposes at every ask."""
    made = []

    def noted(self, *args):
        made.append(self.fresh_only)
        return whole(self, *args)

    whole = Surrogate.gp
    loop = Loop(AUTO.build(3, seed=0, budget=budget), constraints=constraints)
    X = np.random.default_rng(0).random((10, 3))
    loop.tell(X, bowl(X), side_values=np.full((10, constraints), -1.0))
    monkeypatch.setattr(Surrogate, "gp", noted)
    asked(loop, table.TURNS)
    assert made[0] is fresh_only


@pytest.mark.parametrize("dim", [3, 30])
def test_a_long_run_resumes_and_replays_bit_for_bit(dim, monkeypatch) -> None:
    """As for every method, and across the change from turns with the model to the evolution alone."""
    monkeypatch.setattr(table, "TURNS_UNTIL", 30)
    whole, first, bulk = (begun(dim, 7, 5000) for _ in range(3))
    expected = run(whole, 90)
    run(first, 60)
    resumed = first.resumed(AUTO.build(dim, seed=7, budget=5000))
    assert np.array_equal(run(resumed, 30), expected[60:])
    bulk.tell(whole.history.X, whole.history.y)
    assert np.array_equal(asked(bulk, 90, 3), asked(whole, 90, 3))
    assert "5000 evaluations: CMA-ES" in why(whole)
    assert not whole.certificate().certified


TURNED = np.linalg.qr(np.random.default_rng(8).standard_normal((4, 4)))[0]


def valley(X):
    """A turned ellipsoid whose axes differ a thousandfold, with the top away from the centre; to be maximised."""
    return -1e4 * (((X - 0.37) @ TURNED) ** 2) @ np.array([1.0, 10.0, 100.0, 1000.0])


def long_run(cube, n, f=valley, **options) -> Loop:
    loop = begun(cube, 2, 5000, **options)
    run(loop, n, f)
    return loop


def test_a_long_run_leaps_along_a_valley_and_learns_its_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    with_leaps = long_run(4, 150).history.y.max()
    monkeypatch.setattr(evolution, "LEAP_UP_TO", 3)
    assert with_leaps > 1e-3 * long_run(4, 150).history.y.max()  # values are below zero: a thousandth of the loss
    assert with_leaps > -1e-6


def test_a_leap_is_taken_every_eighth_ask_of_a_young_search_and_every_32nd_of_an_old_one(monkeypatch) -> None:
    loop = long_run(4, 64)
    free = [step for step in range(64, 128) if leaps(loop, step)]
    assert free == [step for step in range(64, 128) if step % 8 == 7]
    monkeypatch.setattr(evolution, "LEAP_LONG", 1)
    assert [step for step in range(64, 128) if leaps(loop, step)] == [95, 127]


def leaps(loop: Loop, step: int) -> bool:
    """Whether the evolution would leap at this step of the run."""
    method = loop.method
    model = Model(method.cube, seed=method.seed, budget=method.budget, noisy=method.noise(loop.history).stated)
    part = Evolution(method.cube, seed=method.seed, budget=method.budget, is_noisy=model.is_noisy)
    return part.leap(loop.history, method.cube, step) is not None


@pytest.mark.parametrize("what", ["noise stated", "noise shown", "steps", "many parameters", "a cone"])
def test_no_leap_is_taken_where_no_quadratic_can_be_right(what: str) -> None:
    space = Space({"lr": Float(1e-5, 1e-1, log=True), "n": Int(2, 90), "x": Float(-3, 9), "s": Float(0, 7, step=0.5)})
    rng = np.random.default_rng(1)
    noisy = lambda X: valley(X) + 1e-3 * rng.standard_normal(len(X))  # noqa: E731
    cone = lambda X: -np.abs(X - 0.37).sum(axis=1)  # noqa: E731
    loop = {
        "noise stated": lambda: long_run(4, 64, noisy=True),
        "noise shown": lambda: long_run(4, 64, noisy),
        "steps": lambda: long_run(space.cube(), 64, lambda X: -((X - 0.4) ** 2).sum(axis=1)),
        "many parameters": lambda: long_run(11, 170, lambda X: -((X - 0.4) ** 2).sum(axis=1)),
        "a cone": lambda: long_run(4, 64, cone),
    }[what]()
    if what == "noise shown":
        loop.tell(loop.history.X[:1], loop.history.y[:1] + 1.0)
    assert not any(leaps(loop, step) for step in range(64, 96))


def test_without_a_budget_the_evolution_takes_over(monkeypatch) -> None:
    """First in turns with the model, then alone; a state taken between two turns goes on with the same points."""
    monkeypatch.setattr(table, "ALONE", {table.LONG: 15})
    monkeypatch.setattr(table, "TURNS_END", 20)
    loop, strategy = begun(3, 4), CLASSICS["cma-es"].build(3, seed=4)
    run(loop, 14)
    assert "CMA-ES" not in why(loop)
    run(loop, 3)
    assert same_proposals(loop, strategy, 17)
    assert not same_proposals(loop, strategy, 18)
    resumed = loop.resumed(AUTO.build(3, seed=4))
    assert np.array_equal(asked(resumed, 18), asked(loop, 18))
    run(loop, 3)
    assert same_proposals(loop, strategy, 20)
    assert "after 15 evaluations: CMA-ES takes turns with the model" in why(loop)
    assert "after 20 evaluations: asks of a model would take long" in why(loop)
    loop.tell(loop.history.X[:1], [1.0])
    words = "so the best value may be luck"
    assert why(loop).endswith(f"after {len(loop.history)} values: a setting gave two different values, {words}")
    assert "after 15 evaluations: CMA-ES takes turns with the model" in why(loop), "what was stays said"
    assert same_proposals(loop, strategy, 21)


def test_noise_that_shows_once_the_evolution_is_alone_changes_nothing_but_the_recommendation(monkeypatch) -> None:
    monkeypatch.setattr(table, "ALONE", {table.LONG: 4})
    monkeypatch.setattr(table, "TURNS_END", 8)
    monkeypatch.setattr(table, "HANDED_AT", 10)
    loop = begun(2, 4)
    run(loop, 12)
    loop.tell(loop.history.X[:1], [1.0])
    assert same_proposals(loop, CLASSICS["cma-es"].build(2, seed=4), 13)
    assert why(loop).count("CMA-ES goes on") == 1
    assert why(loop).endswith("after 13 values: a setting gave two different values, so the best value may be luck")


def test_failures_count_for_the_turns_of_the_evolution_and_that_is_said(monkeypatch) -> None:
    monkeypatch.setattr(table, "ALONE", {table.LONG: 15})
    monkeypatch.setattr(table, "TURNS_END", 20)
    loop = begun(3, 4)
    for step in range(16):
        X = loop.ask()
        loop.tell(X, [np.nan] if step % 2 else bowl(X))
    assert same_proposals(loop, CLASSICS["cma-es"].build(3, seed=4), 17)
    assert "after 15 evaluations: CMA-ES takes turns with the model" in why(loop)


def test_what_was_stated_about_noise_is_not_contradicted() -> None:
    stated, exactly = begun(2, noisy=True), begun(2, budget=20, noisy=False)
    stated.tell([[0.3, 0.4]] * 2, [1.0, 1.0])
    assert why(stated).endswith("noise was stated")
    exactly.tell([[0.3, 0.4]] * 2, [1.0, 2.0])
    run(exactly, 18)
    assert "after" not in why(exactly)
    assert repeats(exactly) == 1  # the one that was told
    exactly.tell([[0.1, 0.2]], [1.0], yvar=[0.3])
    assert "after 21 values: a noise variance was told" in why(exactly)


@pytest.mark.parametrize(("dim", "budget"), [(2, 10_000), (22, 60)])
def test_what_follows_from_noise_without_the_model_is_said(dim: int, budget: int) -> None:
    loop = begun(dim, budget=budget)
    loop.tell([[0.3] * dim] * 2, [1.0, 2.0])
    assert why(loop).endswith("after 2 values: a setting gave two different values, so the best value may be luck")


@pytest.mark.parametrize(("lines", "budget"), [(2, 10_000), (22, 60)])
def test_what_one_ask_holds_is_free_in_the_next(lines: int, budget: int) -> None:
    """The evolution and gp-ei are built in the first ask that needs them, which may have held coordinates."""
    space = Space({f"x{i}": Float(-3.0 - i, 11.0) for i in range(lines)} | {"n": Int(3, 17)})
    pins = space.pins({"n": 5}, "shares")
    ((at, place),) = pins.items()
    loop, fresh = (begun(space, 3, budget) for _ in range(2))
    for _ in range(12):
        X = loop.ask(pins=pins)
        assert X[0, at] == place
        loop.tell(X, bowl(X))
    fresh.tell(loop.history.X, loop.history.y)
    X = loop.ask(8)
    assert np.array_equal(X, fresh.ask(8, step=12))
    assert (X[:, at] != place).any()


@pytest.mark.parametrize(("dim", "budget"), [(2, 3001), (2, None), (22, 60)])
def test_constraints_are_learnt_and_kept_in_every_run(dim: int, budget: int | None, monkeypatch) -> None:
    """The evolution knows no constraints, and the table takes gp-ei for spaces without any."""
    monkeypatch.setattr(table, "HANDED_AT", 12)
    loop = Loop(AUTO(noisy=True).build(dim, seed=4, budget=budget), constraints=1)
    for _ in range(16):
        X = loop.ask()
        loop.tell(X, X[:, 0], side_values=X[:, :1] - 0.4)  # the best values break it
    assert same_proposals(loop, Model(dim, seed=4, budget=budget, noisy=True), 16)
    assert loop.recommend()[0] <= 0.4


@pytest.mark.parametrize("what", ["steps", "noise", "many parameters"])
def test_without_a_budget_the_evolution_takes_over_from_every_model(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In turns and then alone; all of these give the model more asks alone."""
    for name, asks in {"ALONE": 5, "ALONE_ROUGH": 8, "ALONE_WIDE": 12}.items():
        monkeypatch.setattr(table, name, {table.LONG: asks})
    monkeypatch.setattr(table, "TURNS_END", 12)
    steps = Space({"n": Int(3, 40), "lr": Float(1e-5, 1e-1, log=True)}).cube()
    cube = {"steps": steps, "noise": 2, "many parameters": 24}[what]
    noisy = True if what == "noise" else None
    loop, strategy = begun(cube, 4, noisy=noisy), CLASSICS["cma-es"].build(cube, seed=4)
    run(loop, 7)
    assert "CMA-ES" not in why(loop)
    run(loop, 1)
    assert not same_proposals(loop, strategy, 8)
    assert same_proposals(loop, strategy, 9) == (what != "many parameters")
    run(loop, 4)
    assert all(same_proposals(loop, strategy, step) for step in (12, 13))
    assert "after 12 evaluations: asks of a model would take long, so CMA-ES goes on" in why(loop)
    assert loop.recommend() in loop.history.X


def test_noise_that_shows_in_the_turns_leaves_them_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "ALONE", {table.LONG: 5})
    loop, strategy = begun(2, 4), CLASSICS["cma-es"].build(2, seed=4)
    run(loop, 6)
    loop.tell(loop.history.X[:1], [1.0])
    assert {same_proposals(loop, strategy, step) for step in (6, 7)} == {True, False}
    assert "after 5 evaluations: CMA-ES takes turns" in why(loop)
    assert why(loop).endswith("so evaluations go where they tell most about the best")


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

    monkeypatch.setattr(exact, "log_expected_improvement", noted)
    space = Space({"kind": Choice(["a", "b"]), "n": Int(2, 9, when={"kind": "b"} if tree else None)})
    loop = begun(space, 3, 12)
    settings = [{"kind": k, "n": n} if k == "b" or not tree else {"kind": k} for k, n in zip("abbbb", (2, 3, 5, 8, 9))]
    X = np.array([space.encode(setting, loop.method.traits.choices) for setting in settings])
    loop.tell(X, np.array([0.1, -0.7, 0.4, 0.2, -1.1]))
    for step in (4, 5, 6, 8):
        asked(loop, step)
    first, second, third, last = beaten
    assert first == last
    assert second == third == pytest.approx(first + exact.TREE_MARGIN if tree else first)


def test_every_fourth_ask_in_a_tree_searches_the_rarest_branch() -> None:
    """One poor value is all that is known of a branch; every fourth ask goes there, and what is held stays held."""
    space = Space({"kind": Choice(["a", "b", "c"]), "n": Int(2, 90, when={"kind": ["a", "c"]}), "x": Float(-3, 4)})
    loop = begun(space, 4, 40, noisy=False)
    choices = loop.method.traits.choices
    settings = [{"kind": "abbbaab"[i % 7], "n": 3 + 5 * i, "x": -2.9 + 0.4 * i} for i in range(15)]
    settings.append({"kind": "c", "n": 60, "x": 1.0})
    X = np.array([space.encode(space.only_active(setting), choices) for setting in settings])
    loop.tell(X, np.array([*np.cos(np.arange(15.0)), -9.0]))

    def kind(step: int, **fixed: str) -> str:
        cube = loop.method.cube.pinned(space.pins(fixed, choices)) if fixed else None
        x = next_points(loop.method, loop.history, step=step, cube=cube)[0]
        return str(space.decode(x, choices)["kind"])

    assert [kind(step) for step in (19, 23, 27)] == ["c"] * 3
    assert "c" not in {kind(step) for step in (16, 20)}
    assert kind(19, kind="b") == "b"


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
    loop, beats = begun(space, 4, 200, noisy=False), []
    choices = loop.method.traits.choices
    monkeypatch.setattr(exact, "log_expected_improvement", lambda gp, beat: beats.append(beat) or 1 / 0)

    def tell(settings: list[dict[str, object]]) -> None:
        X = np.array([space.encode(setting, choices) for setting in settings])
        loop.tell(X, -np.arange(float(len(X))))

    tell([{"kind": "a", "y": -2.9 + 0.1 * i} for i in range(45)])
    drawn = [space.decode(asked(loop, step)[0], choices) for step in range(63, 103, 4)]
    assert {p["kind"] for p in drawn} == {"b"}
    assert all(1e-3 < p["x"] < 1e2 for p in drawn)
    assert (sum(p["c"] == "n" for p in drawn) >= 8) == (prior is not None)
    tell([{"kind": "b", "x": 0.01 * 2.0**i, "c": "l"} for i in range(5)])
    with pytest.raises(ZeroDivisionError):  # six are more than its three coordinates
        asked(loop, 103)
    assert beats


def test_a_finite_run_that_is_said_to_be_exact_ends_though_a_setting_has_two_values() -> None:
    loop = begun(2, noisy=False)
    loop.tell(np.array([[0.25, 0.5], [0.25, 0.5]]), np.array([1.0, 2.0]))
    assert not gains_by_repeating(loop.method, loop.history)
    loop.tell(np.array([[0.75, 0.5]]), np.array([1.0]), yvar=np.array([0.1]))
    assert gains_by_repeating(loop.method, loop.history)
