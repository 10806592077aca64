"""The page of a run says what was found, why, and what failed; its pictures draw the run's own numbers."""

import datetime
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.report.model_view import MOST_DIM, MOST_VALUES, ModelView, model_of
from regretless.report.page import numbers
from regretless.report.run_data import AxisScale, RunData, worse_limit
from regretless.report.run_page import run_page
from regretless.run.result import Result

SPACE = {
    "rate": rg.Float(1e-4, 0.3, log=True),
    "size": rg.Int(-3, 17, step=4),
    "kind": rg.Choice(["u<b>", "v", None]),
    "share": rg.Float(-1.25, 3.5),
}


def cost(rate: float, size: int, kind: str | None, share: float) -> float:
    return math.log10(rate / 0.01) ** 2 + 0.002 * (size - 9) ** 2 + 0.2 * (kind == "v") + 0.01 * share


def told(
    values: list[float | None] | None = None, n: int = 30, direction: str = "minimize", space: Any = SPACE
) -> Result:
    """A finished run of random settings: their costs, or the values given; None has failed."""
    optimizer = rg.Optimizer(space, method="random", direction=direction, seed=3)  # type: ignore[arg-type]
    for i in range(n if values is None else len(values)):
        trial = optimizer.ask()
        value = cost(**trial.params) if values is None else values[i]
        error = "" if value is not None else f"line\nValueError: <{i % 2}>"
        optimizer.tell(trial, value, failed=value is None, error=error)
    return Result.of(optimizer, "all trials were evaluated", success=True)


def charts(page: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)]


def trials(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="trials">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_says_what_why_and_when() -> None:
    result = rg.minimize(cost, SPACE, trials=8, seed=1, method="random", progress=False)
    page = run_page(result)
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert facts["Objective"] == "cost"
    assert facts["Why this method"] == "given by the caller"
    assert facts["Best trial"].startswith(f"trial {result.best.number} with ")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d to \d\d:\d\d:\d\d UTC$", facts["Ran"])
    assert facts["Ended because"] == "all trials were evaluated"
    assert "u<b>" not in page
    assert trials(page)["labels"]["p:kind"] == ["u<b>", "v", "None"]
    automatic = rg.minimize(cost, SPACE, trials=3, seed=1, progress=False)
    assert automatic.optimizer.why in run_page(automatic)


def test_a_run_that_goes_on_says_how_far_it_is() -> None:
    optimizer = rg.Optimizer(SPACE, method="random", direction="minimize", seed=3, budget=9)
    for _ in range(4):
        trial = optimizer.ask()
        optimizer.tell(trial, cost(**trial.params))
    optimizer.ask()
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", run_page(Result.of(optimizer))))
    assert facts["So far"] == "4 of 9 evaluations, 1 under way"
    assert "Ended because" not in facts


def test_a_page_is_called_as_its_run_and_its_day(tmp_path) -> None:
    result = rg.minimize(cost, SPACE, trials=4, seed=1, method="random", progress=False)
    began = result.optimizer.book.record.began
    assert began is not None
    day = datetime.datetime.fromtimestamp(began, datetime.UTC)
    assert f"<title>Tuning report, cost, {day:%Y-%m-%d}" in run_page(result)
    page = told().report(tmp_path / "third try.html").read_text()
    assert "<title>Tuning report, third try</title>" in page, "a run without a name has that of its file"


def test_values_with_told_errors_have_bars() -> None:
    optimizer = rg.Optimizer({"x": rg.Float(-2, 5)}, method="random", direction="minimize", seed=3)
    for i in range(5):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.params["x"] ** 2, var=0.25 if i != 2 else None)
    page = run_page(Result.of(optimizer))
    columns, dots = trials(page)["columns"], charts(page)[0]["series"][0]
    assert dots["y"] == [{"mid": "value", "low": "low", "high": "high"}]
    half = np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    np.testing.assert_allclose(np.array(columns["high"]) - columns["value"], half, atol=1e-3)
    np.testing.assert_allclose(columns["value"] - np.array(columns["low"]), half, atol=1e-3)
    assert "sd" not in trials(run_page(told()))["columns"]


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_optimum_is_at_least_as_good_as_what_was_seen(direction: Any) -> None:
    sign = 1 if direction == "minimize" else -1
    space = {"x": rg.Float(-4.5, 10), "rate": rg.Float(1e-4, 1, log=True)}
    optimizer = rg.Optimizer(space, method="gp-ei", direction=direction, seed=0, budget=24)
    for _ in range(24):
        trial = optimizer.ask()
        optimizer.tell(trial, sign * ((trial.params["x"] - 2.2) ** 2 + 30 * (trial.params["rate"] - 0.1) ** 2))
    result = Result.of(optimizer)
    at, low, high = RunData(result).brackets
    assert len(at) > 2
    best = result.best_so_far()[at.astype(int)]
    assert (high <= best).all() if sign > 0 else (low >= best).all()
    assert at.tolist() == list(range(int(at[0]), 24)), "bounds hold until the next certificate"
    sizes, certificates = RunData(result).certificates
    for n, certificate in zip(sizes, certificates, strict=True):
        if certificate.certified:
            far = low if sign > 0 else high
            assert far[at == n - 1] == (certificate.lower if sign > 0 else certificate.upper)


@pytest.mark.parametrize(("absent", "words"), [("pq", "p, q do not exist in that"), ("p", "p does not exist in that")])
def test_parameters_that_the_recommended_setting_lacks_are_named(absent: str, words: str) -> None:
    space = {
        "kind": rg.Choice(["a", "b"]),
        "x": rg.Float(2, 7),
        **{n: rg.Float(0.1, 3, when={"kind": "b"}) for n in absent},
    }
    optimizer = rg.Optimizer(space, method="random", direction="minimize", seed=1)
    for _ in range(12):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.params["x"] + 9 * (trial.params["kind"] == "b"))
    assert words in run_page(Result.of(optimizer))


def test_values_of_several_sizes_start_on_a_logarithmic_axis() -> None:
    assert RunData(told([0.02, 0.1, 0.3, 0.55])).log_values
    assert not RunData(told([0.03, 0.1, 0.3, 0.55])).log_values, "a factor of 18 is read on a plain axis"
    assert not RunData(told([0.0, 0.1, 0.3, 0.55])).log_values
    assert not RunData(told([-3.0, 0.1, 0.3, 0.55])).log_values


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_fan_is_what_the_outlook_forecasts(direction: Any) -> None:
    sign = 1 if direction == "minimize" else -1
    optimizer = rg.Optimizer(
        {"x": rg.Float(-4.5, 10), "y": rg.Float(1, 3)}, direction=direction, seed=0, method="gp-ei"
    )
    for _ in range(9):
        trial = optimizer.ask()
        optimizer.tell(trial, sign * ((trial.params["x"] - 2.2) ** 2 + trial.params["y"]))
    fan = charts(run_page(Result.of(optimizer)))[0]["series"][-1]
    ahead, outlook = optimizer.forecast(20), optimizer.outlook
    assert fan["name"] == "forecast, 4 of 5 times"
    assert (fan["x"][0][0], fan["x"][0][-1]) == (8, 28), "from the last trial to 20 further ones"
    assert outlook.value is not None
    ends = [outlook.value - sign * gain for gain in (ahead.high, ahead.median, ahead.low)]
    drawn = [fan["y"][0][part][-1] for part in (("low", "mid", "high") if sign > 0 else ("high", "mid", "low"))]
    assert drawn == pytest.approx(ends, rel=1e-3)
    assert all("forecast" not in s["name"] for s in charts(run_page(told([1.0, 2.0])))[0]["series"])


def test_a_label_without_letters_is_seen() -> None:
    result = told([1.0, 2.0, 3.0, 4.0], space={"flag": rg.Choice(["", " ", "-O2"])})
    assert trials(run_page(result))["labels"]["p:flag"] == ['""', '" "', "-O2"]


def test_failures_are_folded_with_their_text_and_their_trials() -> None:
    page = run_page(told([1.0, None, 2.0, None, None, 3.0]))
    assert "Failures: 3" in page
    assert re.search(r"<details><summary>2 evaluations: ValueError: &lt;1&gt;</summary>.*?Trials 1, 3;", page)
    assert '<pre tabindex="0">line\nValueError: &lt;0&gt;</pre>' in page
    (history, *_) = charts(page)
    assert history["series"][0]["failed"] == [1, 3, 4]
    assert trials(page)["columns"]["value"] == [1.0, None, 2.0, None, None, 3.0]
    nothing = run_page(told([None, None]))
    assert "no evaluation succeeded" in nothing
    assert "Failures: 2" in nothing


def test_charts_draw_the_trials_and_mark_the_best() -> None:
    result = told()
    page, best = run_page(result), result.best.number
    columns = trials(page)["columns"]
    np.testing.assert_allclose(columns["p:rate"], [t.params["rate"] for t in result.trials], rtol=1e-4)
    assert columns["p:size"] == [t.params["size"] for t in result.trials]
    history, *others = charts(page)
    assert history["series"][0]["best"] == best == int(np.argmin(columns["value"]))
    slices = [
        chart for chart in others if "series" in chart and len(chart["x"]) == 1 and chart["x"][0]["name"] in SPACE
    ]
    assert {chart["x"][0]["name"] for chart in slices} == set(SPACE)
    rate = next(chart for chart in slices if chart["x"][0]["name"] == "rate")
    assert (rate["x"][0]["log"], rate["x"][0]["at"]) == (True, result.params["rate"])
    model = rate["series"][1]
    assert (np.array(model["y"][0]["low"]) <= np.array(model["y"][0]["mid"])).all()
    surface = next(chart for chart in others if "pairs" in chart)
    assert len(surface["pairs"]) == 6
    counts = [axis["count"] for axis in surface["axes"]]
    for pair, drawn in surface["pairs"].items():
        i, j = map(int, pair.split(","))
        assert len(drawn["z"]) == counts[i] * counts[j]
        assert (min(drawn["z"]), max(drawn["z"])) == (0, 999)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_one_outlier_does_not_flatten_the_others(direction: str) -> None:
    sign = 1.0 if direction == "minimize" else -1.0
    values = [sign * (1 + 0.01 * i) for i in range(20)]
    data = RunData(told([*values, sign * 900.0], direction=direction))  # type: ignore[list-item]
    assert data.limit == values[-1]
    assert data.beyond == 1
    page = run_page(told([*values, sign * 900.0], direction=direction))
    assert "1 value far" in page
    assert charts(page)[0]["y"][0]["cut"] == ([None, 1.19] if sign > 0 else [-1.19, None])
    lucky = RunData(told([*values, -sign * 900.0], direction=direction))
    assert lucky.limit is None, "the best value is always in sight"


def test_numbers_of_a_page_keep_the_digits_in_which_they_differ() -> None:
    alike = np.array([-0.0149123, np.nan, -0.0149113, -0.0149118])
    assert numbers(alike) == [-0.0149123, None, -0.0149113, -0.0149118]
    assert numbers([1 / 3, 700.0]) == [0.33333, 700.0]
    assert numbers([1.7e308, -1.7e308, 1e-300]) == [1.7e308, -1.7e308, 1e-300]
    assert numbers([math.pi] * 3) == [3.1416] * 3
    assert numbers([math.inf]) == [None]


def test_limits_are_only_for_values_that_flatten() -> None:
    assert worse_limit(np.array([1.0, 2.0, 3.0]), -1.0) is None
    assert worse_limit(np.arange(30.0), -1.0) is None
    assert worse_limit(np.array([0.0] * 20 + [5.0]), -1.0) == 0.0
    data = RunData(told([10.0 ** (i / 4) for i in range(20)] + [1e30]))
    assert data.log_values
    assert data.limit == pytest.approx(10**4.75)


def test_values_up_to_the_largest_floats_have_a_page() -> None:
    result = told([10.0 ** (306 - 34 * (i % 9)) for i in range(30)])
    assert RunData(result).log_values
    assert len(charts(run_page(result))) > 2


@pytest.mark.parametrize(
    ("parameter", "scale"),
    [
        (rg.Float(-2.5, 7.0), AxisScale(-2.5, 7.0)),
        (rg.Float(1e-3, 0.5, log=True), AxisScale(1e-3, 0.5, log=True)),
        (rg.Float(0.5, 2.0, step=0.4), AxisScale(0.3, 1.9)),
        (rg.Int(3, 9), AxisScale(2.5, 9.5, whole=True)),
        (rg.Int(-3, 17, step=4), AxisScale(-5.0, 19.0, whole=True)),
        (rg.Int(2, 64, log=True), AxisScale(1.5, 64.5, log=True, whole=True)),
        (rg.Choice(["a", None, 0.25]), AxisScale(-0.5, 2.5, labels=("a", "None", "0.25"))),
    ],
)
def test_places_of_the_cube_are_values_of_the_axis(parameter: Any, scale: AxisScale) -> None:
    found = AxisScale.of(parameter)
    assert (found.labels, found.log, found.whole) == (scale.labels, scale.log, scale.whole)
    np.testing.assert_allclose([found.low, found.high], [scale.low, scale.high])
    for u in (0.07, 0.5, 0.93):
        value = parameter.from_unit(u)
        at = found.at(np.array([parameter.to_unit(value)]))[0]
        shown = parameter.index(value) if found.labels else value
        assert at == pytest.approx(shown, rel=0.05)  # on a log scale of whole numbers the middle is not the number


# ---------------------------------------------------------------- the model


def test_importance_is_the_share_of_the_variance() -> None:
    """f = 3 a + b + a b on [-1, 1]^2 has the variances 3, 1/3 and 1/9; c plays no part."""
    space = {name: rg.Float(low, low + 2.0) for name, low in (("c", 4.0), ("a", -1.0), ("b", 11.0))}
    optimizer = rg.Optimizer(space, method="sobol", direction="maximize", seed=0)
    for _ in range(60):
        trial = optimizer.ask()
        a, b = trial.params["a"], trial.params["b"] - 12.0
        optimizer.tell(trial, 3 * a + b + a * b)
    model = model_of(RunData(Result.of(optimizer, "", success=True)))
    assert isinstance(model, ModelView)
    assert list(model.importance) == ["a", "b", "c"]
    all_of = 3 + 1 / 3 + 1 / 9
    expected = {"a": (3 / all_of, (3 + 1 / 9) / all_of), "b": (1 / 3 / all_of, (4 / 9) / all_of), "c": (0.0, 0.0)}
    for name, shares in expected.items():
        np.testing.assert_allclose(model.importance[name], shares, atol=0.03)


def test_importance_in_a_tree_counts_a_parameter_where_it_exists() -> None:
    """Against draws of the function itself: knowing the branch moves the value, and each branch has its parameter."""
    space = {
        "kind": rg.Choice(["svm", "forest"]),
        "C": rg.Float(1e-2, 1e4, log=True, when={"kind": "svm"}),
        "depth": rg.Int(3, 13, when={"kind": "forest"}),
    }

    def value(branch: Any, c: Any, depth: Any) -> Any:
        return np.where(branch < 0.5, 3 * c, 2 + depth) - 7

    optimizer = rg.Optimizer(space, method="random", direction="maximize", seed=0)
    for _ in range(100):
        trial = optimizer.ask()
        p = trial.params
        c, depth = np.log10(p.get("C", 1.0)) / 6 + 1 / 3, (p.get("depth", 3) - 3) / 10
        optimizer.tell(trial, float(value(p["kind"] == "forest", c, depth)))
    model = model_of(RunData(Result.of(optimizer, "", success=True)))
    assert isinstance(model, ModelView)
    rng = np.random.default_rng(0)
    A, B = ((u[0], u[1], np.floor(11 * u[2]) / 10) for u in (rng.random((3, 100_000)), rng.random((3, 100_000))))
    variance = np.var(value(*A))
    for i, name in enumerate(space):
        mixed = value(*(B[j] if j == i else A[j] for j in range(3)))
        main = 1 - np.mean((value(*B) - mixed) ** 2) / (2 * variance)
        total = np.mean((value(*A) - mixed) ** 2) / (2 * variance)
        np.testing.assert_allclose(model.importance[name], (main, total), atol=0.06)


@pytest.mark.parametrize(("direction", "factor"), [("minimize", 1.0), ("maximize", -1.0), ("minimize", 1e3)])
def test_slices_and_surfaces_pass_through_the_values(direction: str, factor: float) -> None:
    optimizer = rg.Optimizer(SPACE, method="sobol", direction=direction, seed=0)  # type: ignore[arg-type]
    for _ in range(50):
        trial = optimizer.ask()
        optimizer.tell(trial, factor * cost(**trial.params))
    result = Result.of(optimizer, "", success=True)
    model = model_of(RunData(result))
    assert isinstance(model, ModelView)
    along = model.slice_of("rate")
    true = [factor * cost(**{**result.params, "rate": float(x)}) for x in along.x]
    assert np.mean(np.abs(along.mean - true)) < 0.1 * np.ptp(true)
    assert along.x[0] == pytest.approx(1e-4)
    across, up, mean = model.surface_of("kind", "rate")
    assert mean.shape == (len(up), len(across)) == (25, 3)
    np.testing.assert_allclose(across, [0, 1, 2])
    best = np.unravel_index(np.argmin(mean) if factor > 0 else np.argmax(mean), mean.shape)
    assert best[1] != 1, "v costs 0.2 more"
    assert up[best[0]] == pytest.approx(0.01, rel=0.8)


def test_values_at_the_end_of_the_floats_are_drawn() -> None:
    space = {"x": rg.Float(2, 7), "n": rg.Int(1, 9)}
    result = rg.minimize(
        lambda x, n: 1.7e308 if n > 4 else -1.7e308, space, trials=12, seed=1, method="random", progress=False
    )
    assert "<html" in run_page(result)


def test_without_a_model_there_is_a_sentence() -> None:
    few = run_page(told([1.0, 2.0, 3.0, 4.0]))
    assert "No model is drawn: it needs 5 values, and the run has 4." in few
    assert "Which parameters matter" not in few
    assert "No model is drawn: all values are equal." in run_page(told([2.0] * 9))
    wide = told([float(i) for i in range(60)], space={f"x{i}": rg.Float(-2, 5) for i in range(MOST_DIM + 1)})
    page = run_page(wide)
    assert "No model is drawn: the space has 31 parameters" in page
    assert "1 further parameter not drawn." in page


def test_conditions_constraints_and_costs() -> None:
    space = {
        "kind": rg.Choice(["svm", "knn"]),
        "C": rg.Float(1e-3, 50.0, log=True, when={"kind": "svm"}),
        "k": rg.Int(3, 31, when={"kind": "knn"}),
    }
    optimizer = rg.Optimizer(space, method="gp-ei", seed=1, budget=14, constraints=["memory"], cost="seconds")
    for _ in range(14):
        trial = optimizer.ask()
        size = trial.params.get("C", 1.0) / 10 + trial.params.get("k", 3) / 20
        optimizer.tell(trial, abs(size - 1.0), constraints=[size - 2.0], seconds=0.5 + size)
    result = Result.of(optimizer, "", success=True)
    page = run_page(result)
    columns = trials(page)["columns"]
    for t, c, k, memory, seconds in zip(
        result.trials, columns["p:C"], columns["p:k"], columns["c:memory"], columns["seconds"], strict=True
    ):
        assert (c is None, k is None) == ("C" not in t.params, "k" not in t.params)
        assert (memory, seconds) == pytest.approx((t.constraints[0], t.seconds), rel=1e-4)
    absent = next(name for name in ("C", "k") if name not in result.params)
    slices = {c["x"][0]["name"]: c for c in charts(page) if "series" in c and c["x"][0]["name"] in space}
    assert [len(slices[name]["series"]) for name in ("kind", absent)] == [2, 1]  # what does not exist has no slice
    assert "How long evaluations took" in page
    (surface,) = [chart for chart in charts(page) if "pairs" in chart]
    assert {axis["name"] for axis in surface["axes"]} == set(result.params)


def test_of_many_trials_some_are_modelled_and_drawn_as_lines() -> None:
    page = run_page(told(n=1500))
    assert f"fitted to {MOST_VALUES} of 1500 values" in page
    (lines,) = [chart for chart in charts(page) if "lines" in chart]
    assert len(lines["lines"]) == 400
    assert lines["lines"][-1] == trials(page)["best"]
    assert len(trials(page)["columns"]["value"]) == 1500


# ---------------------------------------------------------------- slices through other values, and texts of a result


def test_slices_and_contours_pass_through_what_where_gives(tmp_path: Path) -> None:
    space = {
        "kind": rg.Choice(["svm", "knn"]),
        "C": rg.Float(1e-3, 50.0, log=True, when={"kind": "svm"}),
        "k": rg.Int(3, 31, when={"kind": "knn"}),
        "share": rg.Float(-1.25, 3.5),
    }
    optimizer = rg.Optimizer(space, method="random", seed=3)
    for _ in range(40):
        trial = optimizer.ask()
        p = trial.params
        extra = math.log10(p["C"]) ** 2 if "C" in p else 4.0 + p["k"] / 10
        optimizer.tell(trial, extra + 0.5 * p["share"] ** 2 + 1.0)
    result = Result.of(optimizer, "", success=True)
    assert result.params["kind"] == "svm"
    data = RunData(result, {"kind": "knn", "k": 20})
    assert set(data.setting) == {"kind", "k", "share"}
    there, model = model_of(data), model_of(RunData(result))
    assert isinstance(there, ModelView)
    assert isinstance(model, ModelView)
    assert there.slice_of("share").mean.min() > model.slice_of("share").mean.min() + 2.0  # 7 against about 1
    page = result.report(tmp_path / "run.html", where={"kind": "knn", "k": 20}).read_text()
    assert "when kind is knn, k is 20 and the other parameters have their recommended values" in page
    (surface,) = [chart for chart in charts(page) if "pairs" in chart]
    assert {axis["name"] for axis in surface["axes"]} == {"kind", "k", "share"}
    for where, words in (
        ({"kindd": "knn"}, "where names parameters that are not of this space: kindd; it has kind, C, k, share"),
        ({"kind": "knn"}, "with this where there is also k: where must give a value"),
        ({"k": 5}, "where gives k a value, but it does not exist with its other values"),
        ({"share": 9.0}, "parameter 'share'"),
    ):
        with pytest.raises(ValueError, match=words):
            run_page(result, where)


def test_a_result_is_short_and_has_a_table_for_notebooks() -> None:
    result = told([float(i) for i in range(5)], space={f"x{i}": rg.Float(-2, 5) for i in range(40)})
    assert len(repr(result)) < 500
    assert "and 32 more" in repr(result)
    table = told()._repr_html_()
    assert "<th" in table
    assert "u<b>" not in table
    assert "rate" in table
