"""Choices among a front: answers to questions, how sure a pick is, what an exchange costs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.fronts.choice import gained
from regretless.fronts.preferences import Preferences
from regretless.run.front import Exchange

SPACE = {"rate": rg.Float(3e-4, 0.7, log=True), "width": rg.Int(4, 400, log=True), "act": rg.Choice(["relu", "tanh"])}
GOALS: dict[str, Any] = {"score": "maximize", "ms": "minimize"}


def both(rate: float, width: int, act: str) -> dict[str, float]:
    score = 1.0 - 0.1 * (math.log10(rate) + 1.5) ** 2 - 0.6 / math.sqrt(width) - 0.1 * (act == "relu")
    return {"score": score, "ms": 0.05 * width + 0.3 * (act == "tanh")}


def run_of(fun: Callable[..., Any] = both, n: int = 30, **options: Any) -> rg.Result:
    return rg.minimize(fun, SPACE, objectives=GOALS, trials=n, seed=1, progress=False, **options)


@pytest.fixture(scope="module")
def exact() -> rg.Result:
    return run_of()


def measured_run(size: float) -> rg.Result:
    """A run whose values have noise of this size."""
    rng = np.random.default_rng(3)
    sds = 0.05 * size, 0.5 * size

    def measured(**params: Any) -> rg.Value:
        told = [value + sd * rng.standard_normal() for value, sd in zip(both(**params).values(), sds, strict=True)]
        return rg.Value(tuple(told), var=tuple(sd * sd for sd in sds))

    return run_of(measured)


@pytest.fixture(scope="module")
def noisy() -> rg.Result:
    return measured_run(1.0)


# ---------------------------------------------------------------- questions


def test_five_answers_find_what_a_user_wants(exact: rg.Result) -> None:
    losses = []
    for wish in (0.01, 0.05, 0.2, 1.0):

        def worth(m: Any, price: float = wish) -> float:
            return float(m.values["score"] - price * m.values["ms"])

        asked: list[Any] = []

        def prefer(a: Any, b: Any, seen: Any = asked, key: Any = worth) -> Any:
            seen.append((a, b))
            return max(a, b, key=key)

        taken = exact.pick(prefer=prefer)
        assert len(asked) <= 5
        assert all(a in exact.front and b in exact.front and a != b for a, b in asked)
        every = [worth(m) for m in exact.front]
        losses.append((max(every) - worth(taken)) / (max(every) - min(every)))
    assert np.mean(losses) < 0.05


def test_a_front_of_one_asks_nothing_and_limits_come_first(exact: rg.Result) -> None:
    def never(a: Any, b: Any) -> Any:
        raise AssertionError("nothing to ask")

    fastest = min(m.values["ms"] for m in exact.front)
    assert exact.pick(limits={"ms": fastest}, prefer=never).values["ms"] == fastest
    assert (
        exact.pick(limits={"ms": 6.0}, prefer=lambda a, b: max(a, b, key=lambda m: m.values["score"])).values["ms"] <= 6
    )


def test_answers_that_are_none_are_refused(exact: rg.Result) -> None:
    with pytest.raises(ValueError, match="prefer must return one of the two members"):
        exact.pick(prefer=lambda a, b: True)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="weights and prefer say the same"):
        exact.pick(weights={"ms": 2.0}, prefer=lambda a, b: a)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_answers_narrow_the_weights_down_in_any_units(k: int) -> None:
    rng = np.random.default_rng(k)
    Y = np.abs(rng.standard_normal((25, k)))
    Y /= np.sqrt((Y**2).sum(axis=1, keepdims=True))
    worth = np.log(gained(Y)) @ rng.dirichlet(np.ones(k))
    picks = []
    for units in (np.ones(k), 10.0 ** rng.integers(-5, 5, k)):
        known = Preferences(Y * units)
        for _ in range(12):
            if (pair := known.question()) is None:
                break
            known.prefer(*sorted(pair, key=lambda row: -worth[row]))
        picks.append(known.best)
    assert picks[0] == picks[1]
    assert (worth < worth[picks[0]]).mean() > 0.8


# ---------------------------------------------------------------- how sure


def test_exact_values_make_a_pick_certain(exact: rg.Result) -> None:
    sure = exact.front.contenders(limits={"ms": 6.0})
    assert [(c.params, c.chance) for c in sure] == [(exact.pick(limits={"ms": 6.0}).params, 1.0)]
    assert "certain" in str(sure)
    assert exact.front.contenders(limits={"ms": -1.0}).none == 1.0


def test_noise_spreads_a_pick_over_what_it_may_be(noisy: rg.Result) -> None:
    found = noisy.front.contenders()
    assert len(found) > 1
    assert [c.chance for c in found] == sorted((c.chance for c in found), reverse=True)
    assert 0.9 < sum(c.chance for c in found) <= 1.0 + 1e-9
    assert all(c.params == noisy.trials[c.number].given for c in found)
    assert measured_run(0.02).front.contenders()[0].chance > found[0].chance + 0.2
    tight = noisy.front.contenders(limits={"ms": 1.0})
    assert all(both(**c.params)["ms"] < 3.0 for c in tight)
    assert noisy.front.contenders(limits={"ms": -4.0}).none > 0.99


def test_settings_that_break_constraints_are_no_contenders() -> None:
    rng = np.random.default_rng(0)

    def limited(**params: Any) -> rg.Value:
        told = both(**params)
        told["score"] += 0.1 * rng.standard_normal()
        return rg.Value(tuple(told.values()), var=(0.01, None), constraints=[5.0 - told["ms"]])

    result = run_of(limited, 24, constraints=1)
    assert len(result.front.contenders()) > 0
    assert all(both(**c.params)["ms"] >= 5.0 for c in result.front.contenders())


# ---------------------------------------------------------------- exchanges


def test_an_exchange_costs_what_the_function_says(exact: rg.Result) -> None:
    here = exact.pick()
    grid = [both(rate, width, act) for rate in np.geomspace(3e-4, 0.7, 60) for width in range(4, 401)
            for act in ("relu", "tanh")]  # fmt: skip
    for gain, pay, sign in (("score", "ms", 1.0), ("ms", "score", -1.0)):
        told = exact.front.exchange(gain, pay)
        assert told.by == pytest.approx(0.01 * abs(here.values[gain]))
        ahead = [g for g in grid if sign * (g[gain] - here.values[gain]) >= told.by]
        true = min(-sign * (here.values[pay] - g[pay]) for g in ahead)
        width = max(m.values[pay] for m in exact.front) - min(m.values[pay] for m in exact.front)
        assert told.interval[0] - 0.05 * width <= true <= told.interval[1] + 0.05 * width
        assert told.cost == pytest.approx(true, abs=0.1 * width)
        assert f"in {pay}" in str(told)


def test_an_exchange_is_bounded_by_what_is_on_the_front(exact: rg.Result) -> None:
    here = exact.pick()
    better = [m for m in exact.front if m.values["score"] >= here.values["score"] + 0.01]
    told = exact.front.exchange("score", "ms", by=0.01)
    assert told.interval[1] <= min(m.values["ms"] for m in better) - here.values["ms"] + 1e-12
    nowhere = exact.front.exchange("score", "ms", by=50.0)
    assert math.isinf(nowhere.cost)
    assert "not to be had" in str(nowhere)


@pytest.mark.parametrize(
    ("cost", "interval", "words"),
    [
        (1.5, (1.2, 2.0), "costs about 1.5 in ms (4 of 5 times 1.2 to 2)"),
        (1.5, (-0.3, 2.0), "costs about 1.5 in ms (4 of 5 times nothing to 2)"),
        (1.5, (1.2, math.inf), "costs about 1.5 in ms (4 of 5 times at least 1.2)"),
        (1.5, (-0.3, math.inf), "costs about 1.5 in ms"),
        (1.5, (1.4999, 1.5), "costs about 1.5 in ms"),
        (-0.2, (-0.3, 2.0), "costs nothing in ms (4 of 5 times nothing to 2)"),
        (-0.2, (-0.3, 0.0), "costs nothing in ms"),
        (math.inf, (3.0, math.inf), "is probably not to be had; if it is, it costs 3 or more in ms"),
        (math.inf, (math.inf, math.inf), "is not to be had, as far as the run knows"),
    ],
)
def test_an_exchange_is_said_in_words(cost: float, interval: tuple[float, float], words: str) -> None:
    assert str(Exchange("score", "ms", 0.01, cost, interval)) == f"0.01 better in score {words}"


def test_an_exchange_leaves_the_other_objectives_as_good() -> None:
    def three(x: np.ndarray) -> tuple[float, ...]:
        return float(x[0] ** 2), float((x[0] - 1) ** 2), float(x[0])

    result = rg.minimize(three, [(-1.5, 2.5)], objectives=["a", "b", "c"], trials=24, seed=0, progress=False)
    some = min(result.front, key=lambda m: abs(m.values["c"] - 0.5))
    assert math.isinf(result.front.exchange("b", "a", by=0.1, at=some).cost)  # c would have to be larger
    assert math.isfinite(result.front.exchange("a", "b", by=0.1, at=some).cost)


def test_what_an_exchange_may_not_be(exact: rg.Result, noisy: rg.Result) -> None:
    with pytest.raises(ValueError, match=r"pay must be one of the objectives \['score', 'ms'\], got 'mb'"):
        exact.front.exchange("score", "mb")
    with pytest.raises(ValueError, match="an exchange has two objectives"):
        exact.front.exchange("ms", "ms")
    with pytest.raises(ValueError, match="by must be"):
        exact.front.exchange("ms", "score", by=-1.0)
    with pytest.raises(ValueError, match="at must be a member of this front"):
        exact.front.exchange("ms", "score", at=noisy.pick())


# ---------------------------------------------------------------- single settings


def test_settings_are_compared_in_the_objective_that_is_named(exact: rg.Result, noisy: rg.Result) -> None:
    by_size = sorted(noisy.trials, key=lambda t: t.params["width"])
    small, large = by_size[0], by_size[-1]
    assert rg.compare(small, large, within=noisy, objective="score").chance > 0.9
    slower = rg.compare(small, large, within=noisy, objective="ms")
    assert slower.chance < 0.01
    assert slower.gain.high < 0.0
    told = rg.compare(0, 1, within=exact, objective="ms").gain
    assert told.exact
    assert abs(told.mean) == pytest.approx(abs(exact.trials[0].values[1] - exact.trials[1].values[1]))
    with pytest.raises(ValueError, match=r"this run has the objectives \['score', 'ms'\]: name one"):
        rg.compare(0, 1, within=exact)
    with pytest.raises(ValueError, match="contenders"):
        _ = exact.rivals
    one = rg.minimize(lambda x: float(x[0] ** 2), [(-1, 2)], trials=4, seed=0, progress=False)
    with pytest.raises(ValueError, match="one objective, without a name"):
        rg.compare(0, 1, within=one, objective="loss")
