"""The tables of `auto` beside its peers: ranks on shared cases, errors, and the page that is made of them."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from made_records import outcome


@pytest.fixture
def tables(experiment: Callable[[str], ModuleType]) -> ModuleType:
    return experiment("auto_tables")


def test_methods_are_ranked_on_the_cases_they_share(tables: ModuleType) -> None:
    """The peer's missing case counts for nobody; a method with less than half of the cases has no cell."""
    rows = [outcome("auto", f, 1.0) for f in (2, 4, 6, 8)] + [
        outcome("turbo", f, 0.5 if f == 2 else 3.0) for f in (2, 4, 6)
    ]
    rows += [outcome("hebo", 2, 0.1)]
    (line,) = [text for text in tables.summary(rows, ("auto", "turbo", "hebo")).splitlines() if "clean-3" in text]
    assert line == "| clean-3 | 3 | **1.33 / 1.33 ± 0.33** | 1.67 / 1.67 ± 0.33 |  |"


def test_a_method_with_few_cases_has_a_line_with_the_others_on_these(tables: ModuleType) -> None:
    """A line of one method alone would say nothing."""
    suites = ("noise-5-2", "noise-5-3")
    rows = [outcome(m, f, 1.0 + (m != "auto"), s) for f in range(2, 26) for s in suites for m in ("auto", "turbo")]
    rows += [outcome("hebo", f, 1.5, "noise-5-3") for f in range(2, 2 + tables.LEAST_CASES)]
    rows += [outcome("auto", f, 1.0, "high-9") for f in (2, 4)]
    lines = tables.summary(rows, ("auto", "turbo", "hebo", "smac")).splitlines()
    assert lines[-2:] == [
        "| all noise | 48 | **1.00 / 1.00 ± 0.00** | 2.00 / 2.00 ± 0.00 |  |  |",
        "| noise, with hebo | 12 | **1.00 / 1.00 ± 0.00** | 3.00 / 3.00 ± 0.00 | 2.00 / 2.00 ± 0.00 |  |",
    ]
    assert not any("high-9" in line for line in lines)


def test_a_difference_from_auto_is_that_of_the_same_cases(tables: ModuleType) -> None:
    """turbo is first once and second twice, so it is a third of a rank behind."""
    rows = [outcome("auto", f, 1.0) for f in (2, 4, 6)] + [
        outcome("turbo", f, 0.5 if f == 2 else 3.0) for f in (2, 4, 6)
    ]
    text = tables.table("clean-3", rows, ("auto", "turbo"), ["clean-3"])
    assert "| turbo | 1.67 ± 0.33 | 1.67 ± 0.33 | 0.33 ± 0.67 | 1 |" in text
    assert "f1-5 1.50 (turbo 1.50; behind 0.00 ± 1.00)" in text


def test_a_function_in_other_dimensions_is_no_new_unit(tables: ModuleType) -> None:
    """Three functions in two dimensions have the error of three, in ranks, gaps and batches."""
    suites = ("clean-2", "clean-3")
    rows = [outcome("auto", f, 1.0, s) for f in (2, 4, 6) for s in suites]
    rows += [outcome("turbo", f, 0.5 if f == 2 else 3.0, s) for f in (2, 4, 6) for s in suites]
    assert "| all clean | 6 | **1.33 / 1.33 ± 0.33** |" in tables.summary(rows, ("auto", "turbo"))
    text = tables.table("all clean", rows, ("auto", "turbo"), suites)
    assert "| turbo | 1.67 ± 0.33 | 1.67 ± 0.33 | 0.33 ± 0.67 | 1 |" in text
    rows = [outcome("auto", f, 1.0, "batch-1-3") | {"instance": i} for f in (2, 4) for i in (21, 22)]
    rows += [
        outcome("auto", f, 1.0 if f == 2 else 4.0, "batch-4-3") | {"instance": i} for f in (2, 4) for i in (21, 22)
    ]
    assert "| auto | 4 | 4 | 2.00 (times or by 2.00)" in tables.batch_table(rows, ("auto",))


def test_batches_are_measured_against_the_same_method_one_by_one(tables: ModuleType) -> None:
    rows = [outcome("auto", f, 2.0, "batch-1-3", mean=3.0) for f in (2, 4)]
    rows += [outcome("auto", f, 1.0, "batch-16-3", mean=m) for f, m in ((2, 3.0), (4, 12.0))]
    (line,) = [text for text in tables.batch_table(rows, ("auto",)).splitlines() if text.startswith("| auto")]
    assert line.startswith("| auto | 16 | 2 | 2.00 (times or by 2.00)")
    assert "0.50 (times or by 1.00)" in line


def test_batches_of_fewer_evaluations_have_a_table_of_their_own(tables: ModuleType) -> None:
    rows = [outcome("auto", f, 2.0, suite) for f in (2, 4) for suite in ("batch-1-3", "batch-4-3", "fewbatch-1-3")]
    rows += [outcome("auto", f, 6.0, "fewbatch-4-3") for f in (2, 4)]
    assert "| auto | 4 | 2 | 1.00 " in tables.batch_table(rows, ("auto",))
    assert "| auto | 4 | 2 | 3.00 " in tables.batch_table(rows, ("auto",), "fewbatch")


def test_long_runs_are_compared_after_the_evaluations_both_have_done(tables: ModuleType) -> None:
    rows: list[dict[str, object]] = []
    for family, loss in ((2, 1e-3), (4, 1e-1)):
        rows += [outcome("auto", family, 0.0, "long-5-3000") | {"after": {"100": [loss, 2.0], "300": [0.0, 1.0]}}]
        rows += [outcome("cma", family, 1.0, "long-5-3000") | {"after": {"100": [1e-1, 0.5]}}]
    lines = tables.long_table(rows, ("auto", "cma")).splitlines()[2:]
    assert lines == ["| long-5-3000 | 100 | cma | 2 | 1.00 ± 1.00 | 1 | 0 | 2 | 0.5 |"]


def test_what_one_model_would_recommend_is_a_line_of_its_own(tables: ModuleType) -> None:
    """On the cases that have it."""
    rows = [outcome("auto", f, 1.0, "few-5-2", modelled=2.0) for f in (2, 4)]
    rows += [outcome("turbo", f, 2.0, "few-5-2", modelled=1.0) for f in (2, 4)] + [outcome("auto", 6, 1.0, "few-5-2")]
    text = tables.table("few", rows, ("auto", "turbo"), ["few-5-2"])
    assert "| turbo | 2.00 ± 0.00 | 2.00 ± 0.00 | 1.00 ± 0.00 | 1 |" in text
    assert "If one model recommended for all (2 cases): turbo 1.00 ± 0.00, auto 2.00 ± 0.00" in text


def test_names_in_the_chart_do_not_lie_on_each_other(tables: ModuleType) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    panel = figure.subplots()
    panel.set(xlim=(0, 1), ylim=(0, 1))
    figure.draw_without_rendering()
    tables.name_points(panel, ("first", "second", "third"), np.array([0.5, 0.51, 0.5]), np.array([0.5, 0.5, 0.54]),
                       np.zeros(3))  # fmt: skip
    boxes = [text.get_window_extent() for text in panel.texts]
    assert len(boxes) == 3
    assert not any(a.overlaps(b) for n, a in enumerate(boxes) for b in boxes[:n])


@pytest.mark.parametrize("name", ["PAGE", "LABORATORY"])
def test_the_pages_of_the_peers_are_those_of_the_outcomes(name: str, experiment: Callable[[str], ModuleType]) -> None:
    module = experiment("peers_page")
    page = getattr(module, name)
    text, rows, tables = page.read_text(encoding="utf-8"), module.rows_of(module.OUTCOMES), module.PAGES[page]
    assert module.page_with(text, rows, tables) == text
    assert module.page_with(text, [r for r in rows if r["family"] != 2], tables) != text


def test_the_readme_s_figures_beside_tpe_are_those_of_the_outcomes(experiment: Callable[[str], ModuleType]) -> None:
    module = experiment("peers_page")
    rows = module.rows_of(module.OUTCOMES)
    won: dict[str, tuple[int, int]] = {}
    medians: dict[str, list[float]] = {"auto": [], "optuna-tpe": []}
    for title, suites, methods in module.KINDS:
        if "optuna-tpe" not in methods or title.startswith("the same"):
            continue
        ran, cases, values = module.field_of(rows, methods, suites)
        losses = values["advised"]
        won[title] = int((losses[:, 0] < losses[:, ran.index("optuna-tpe")]).sum()), len(cases)
        for method, found in medians.items():
            own = [[r["ms"] for r in rows if (r["method"], r["suite"]) == (method, suite)] for suite in suites]
            found += [float(np.median(ms)) for ms in own if ms]
    text = " ".join((module.DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    noise, clean = (won[next(t for t in won if t.startswith(start))] for start in ("noise of", "no noise"))
    trainings = np.sum([score for title, score in won.items() if "trainings" in title], axis=0)
    said = f"It ended better than Optuna's TPE on {noise[0]} of {noise[1]} runs with noise and on {clean[0]} of "
    said += f"{clean[1]} without. On trainings it won {trainings[0]} of {trainings[1]},"
    assert said in text
    ours, theirs = (f"{min(ms):.0f} to {max(ms):.0f}" for ms in medians.values())
    assert f"An ask takes {ours} ms of processor time, TPE's {theirs}." in text


def test_the_guide_s_page_of_the_peers_is_short(experiment: Callable[[str], ModuleType]) -> None:
    assert len(experiment("peers_page").PAGE.read_text(encoding="utf-8").split()) <= 1200


def test_a_page_without_a_place_for_a_table_is_refused(experiment: Callable[[str], ModuleType]) -> None:
    module = experiment("peers_page")
    with pytest.raises(ValueError, match="no place for the table 'kinds'"):
        module.page_with("# A page", [], module.PAGES[module.PAGE])
