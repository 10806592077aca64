"""The comparison of `auto` with its peers: its cases, ranks on shared cases, and runs that go on where they were."""

import importlib
import json
from types import ModuleType

import numpy as np
import pytest
from regretless_bench.reproduce import EXPERIMENTS


@pytest.fixture
def choice(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module("auto_choice")


def row(method: str, family: int, loss: float, suite: str = "clean-3", **others: float) -> dict[str, object]:
    values = {"best": loss, "advised": loss, "mean": loss, "later": loss, "ms": 1.0} | others
    return {"suite": suite, "family": family, "instance": 21, "method": method, **values}


def test_a_suite_s_name_says_what_is_run(choice: ModuleType) -> None:
    (noisy,) = choice.cases_of("noise-30-2", [6], [22])
    assert (noisy.options["noise_iqr"], noisy.options["dim"], noisy.budget, noisy.at_once) == (0.3, 2, 100, 1)
    (batch,) = choice.cases_of("batch-16-3", [6], [21])
    assert (batch.options["dim"], batch.budget, batch.at_once) == (3, 256, 16)
    assert len(choice.cases_of("table-60", [], [1, 2])) == 2 * len(choice.TABLES)
    (few,) = choice.cases_of("few-5-3", [6], [22])
    assert (few.options["noise_iqr"], few.options["dim"], few.budget) == (0.05, 3, 60)
    (whole,) = choice.cases_of("fewint-5", [6], [22])
    assert (whole.problem, whole.options["dim"], whole.budget) == ("bbob-mixint", 5, 50)
    deep = choice.cases_of("deep-200", [6], [1])
    assert len(deep) == len(choice.TURNED)
    assert {case.budget for case in deep} == {400}
    assert {(case.options["dim"], case.budget) for case in choice.cases_of("fewdeep-50", [], [1])} == {(50, 100)}
    (long,) = choice.cases_of("long-5-10000", [6], [22])
    assert (long.options["dim"], long.budget) == (5, 10000)
    (fewer,) = choice.cases_of("fewbatch-4-3", [6], [21])
    assert (fewer.options["dim"], fewer.budget, fewer.at_once) == (3, 128, 4)


def test_methods_are_ranked_on_the_cases_they_share(choice: ModuleType) -> None:
    """The peer's missing case counts for nobody; a method with less than half of the cases has no cell."""
    rows = [row("auto", f, 1.0) for f in (2, 4, 6, 8)] + [row("turbo", f, 0.5 if f == 2 else 3.0) for f in (2, 4, 6)]
    rows += [row("hebo", 2, 0.1)]
    (line,) = [text for text in choice.summary(rows, ("auto", "turbo", "hebo")).splitlines() if "clean-3" in text]
    assert line == "| clean-3 | 3 | **1.33 / 1.33 ± 0.33** | 1.67 / 1.67 ± 0.33 |  |"


def test_a_method_with_few_cases_has_a_line_with_the_others_on_these(choice: ModuleType) -> None:
    """A line of one method alone would say nothing."""
    suites = ("noise-5-2", "noise-5-3")
    rows = [row(m, f, 1.0 + (m != "auto"), s) for f in range(2, 26) for s in suites for m in ("auto", "turbo")]
    rows += [row("hebo", f, 1.5, "noise-5-3") for f in range(2, 2 + choice.LEAST_CASES)]
    rows += [row("auto", f, 1.0, "high-9") for f in (2, 4)]
    lines = choice.summary(rows, ("auto", "turbo", "hebo", "smac")).splitlines()
    assert lines[-2:] == [
        "| all noise | 48 | **1.00 / 1.00 ± 0.00** | 2.00 / 2.00 ± 0.00 |  |  |",
        "| noise, with hebo | 12 | **1.00 / 1.00 ± 0.00** | 3.00 / 3.00 ± 0.00 | 2.00 / 2.00 ± 0.00 |  |",
    ]
    assert not any("high-9" in line for line in lines)


def test_a_difference_from_auto_is_that_of_the_same_cases(choice: ModuleType) -> None:
    """turbo is first once and second twice, so it is a third of a rank behind."""
    rows = [row("auto", f, 1.0) for f in (2, 4, 6)] + [row("turbo", f, 0.5 if f == 2 else 3.0) for f in (2, 4, 6)]
    text = choice.table("clean-3", rows, ("auto", "turbo"), ["clean-3"])
    assert "| turbo | 1.67 ± 0.33 | 1.67 ± 0.33 | 0.33 ± 0.67 | 1 |" in text
    assert "f1-5 1.50 (turbo 1.50; behind 0.00 ± 1.00)" in text


def test_a_function_in_other_dimensions_is_no_new_unit(choice: ModuleType) -> None:
    """Three functions in two dimensions have the error of three, in ranks, gaps and batches."""
    suites = ("clean-2", "clean-3")
    rows = [row("auto", f, 1.0, s) for f in (2, 4, 6) for s in suites]
    rows += [row("turbo", f, 0.5 if f == 2 else 3.0, s) for f in (2, 4, 6) for s in suites]
    assert "| all clean | 6 | **1.33 / 1.33 ± 0.33** |" in choice.summary(rows, ("auto", "turbo"))
    text = choice.table("all clean", rows, ("auto", "turbo"), suites)
    assert "| turbo | 1.67 ± 0.33 | 1.67 ± 0.33 | 0.33 ± 0.67 | 1 |" in text
    rows = [row("auto", f, 1.0, "batch-1-3") | {"instance": i} for f in (2, 4) for i in (21, 22)]
    rows += [row("auto", f, 1.0 if f == 2 else 4.0, "batch-4-3") | {"instance": i} for f in (2, 4) for i in (21, 22)]
    assert "| auto | 4 | 4 | 2.00 (times or by 2.00)" in choice.batch_table(rows, ("auto",))


def test_batches_are_measured_against_the_same_method_one_by_one(choice: ModuleType) -> None:
    rows = [row("auto", f, 2.0, "batch-1-3", mean=3.0) for f in (2, 4)]
    rows += [row("auto", f, 1.0, "batch-16-3", mean=m) for f, m in ((2, 3.0), (4, 12.0))]
    (line,) = [text for text in choice.batch_table(rows, ("auto",)).splitlines() if text.startswith("| auto")]
    assert line.startswith("| auto | 16 | 2 | 2.00 (times or by 2.00)")
    assert "0.50 (times or by 1.00)" in line


def test_batches_of_fewer_evaluations_have_a_table_of_their_own(choice: ModuleType) -> None:
    rows = [row("auto", f, 2.0, suite) for f in (2, 4) for suite in ("batch-1-3", "batch-4-3", "fewbatch-1-3")]
    rows += [row("auto", f, 6.0, "fewbatch-4-3") for f in (2, 4)]
    assert "| auto | 4 | 2 | 1.00 " in choice.batch_table(rows, ("auto",))
    assert "| auto | 4 | 2 | 3.00 " in choice.batch_table(rows, ("auto",), "fewbatch")


def test_long_runs_are_compared_after_the_evaluations_both_have_done(choice: ModuleType) -> None:
    rows: list[dict[str, object]] = []
    for family, loss in ((2, 1e-3), (4, 1e-1)):
        rows += [row("auto", family, 0.0, "long-5-3000") | {"after": {"100": [loss, 2.0], "300": [0.0, 1.0]}}]
        rows += [row("cma", family, 1.0, "long-5-3000") | {"after": {"100": [1e-1, 0.5]}}]
    lines = choice.long_table(rows, ("auto", "cma")).splitlines()[2:]
    assert lines == ["| long-5-3000 | cma | 100 | 2 | 1.00 ± 1.00 | 1 | 2 | 0.5 |"]


def test_a_long_run_says_what_it_had_on_the_way(choice: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "AFTER", (4, 16, 64))
    monkeypatch.setattr(choice, "LONGEST", {"sobol": 20})
    (case,) = choice.cases_of("long-2-64", [6], [21])
    found = choice.outcome_of(case, "sobol")
    assert list(found["after"]) == ["4", "16"]
    assert found["after"]["4"][0] >= found["after"]["16"][0] >= found["best"]


def test_a_run_that_is_there_is_not_run_again(choice: ModuleType, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, asked = tmp_path / "outcomes.jsonl", []
    cases = choice.cases_of("clean-2", [2, 4], [21])
    out.write_text(json.dumps(row("random", 2, 1.0, "clean-2")) + "\n", encoding="utf-8")

    def record(work, items, size, **options) -> None:
        asked.extend(items)

    monkeypatch.setattr(choice, "work_in_processes", record)
    choice.run_jobs([(case, "random") for case in cases], out, 1, 1.0)
    assert [case.family for case, _ in asked] == [4]


def test_an_outcome_has_the_losses_of_the_run(choice: ModuleType) -> None:
    case = choice.Case("batch-made", 0, 1, "levy", {"dim": 2, "shift": 0.6}, 6, at_once=4)
    found = choice.outcome_of(case, "sobol")
    assert 0 < found["best"] <= found["mean"]
    assert found["advised"] == found["best"]
    assert np.isfinite(found["later"])
    assert set(choice.outcome_of(case._replace(suite="made"), "sobol")) == {"best", "advised", "ms"}


def test_one_model_recommends_for_all_where_evaluations_are_few(choice: ModuleType, monkeypatch) -> None:
    """It takes a point of the run, here the best or the worst value; ranks by it are a line of their own, on the cases
    that have it."""
    (case,) = choice.cases_of("few-30-2", [6], [22])
    monkeypatch.setattr(choice, "installed", lambda name: True)
    monkeypatch.setattr(choice, "largest_mean", lambda X, y: int(np.argmax(y)))
    found = choice.outcome_of(case, "sobol")
    assert found["best"] < found["modelled"] == found["advised"]
    monkeypatch.setattr(choice, "largest_mean", lambda X, y: int(np.argmin(y)))
    assert choice.outcome_of(case, "sobol")["modelled"] > found["advised"]
    rows = [row("auto", f, 1.0, "few-5-2", modelled=2.0) for f in (2, 4)]
    rows += [row("turbo", f, 2.0, "few-5-2", modelled=1.0) for f in (2, 4)] + [row("auto", 6, 1.0, "few-5-2")]
    text = choice.table("few", rows, ("auto", "turbo"), ["few-5-2"])
    assert "| turbo | 2.00 ± 0.00 | 2.00 ± 0.00 | 1.00 ± 0.00 | 1 |" in text
    assert "If one model recommended for all (2 cases): turbo 1.00 ± 0.00, auto 2.00 ± 0.00" in text


def test_names_in_the_chart_do_not_lie_on_each_other(choice: ModuleType) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    panel = figure.subplots()
    panel.set(xlim=(0, 1), ylim=(0, 1))
    figure.draw_without_rendering()
    choice.name_points(panel, ("first", "second", "third"), np.array([0.5, 0.51, 0.5]), np.array([0.5, 0.5, 0.54]),
                       np.zeros(3))  # fmt: skip
    boxes = [text.get_window_extent() for text in panel.texts]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])
