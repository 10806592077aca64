"""The comparison of `auto` with its peers: its cases, what a run leaves, and runs that go on where they were."""

import json
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from made_records import outcome


@pytest.fixture
def choice(experiment: Callable[[str], ModuleType]) -> ModuleType:
    return experiment("auto_choice")


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
    out.write_text(json.dumps(outcome("random", 2, 1.0, "clean-2")) + "\n", encoding="utf-8")

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
    """It takes a point of the run, here the best or the worst value."""
    (case,) = choice.cases_of("few-30-2", [6], [22])
    monkeypatch.setattr(choice, "installed", lambda name: True)
    monkeypatch.setattr(choice, "largest_mean", lambda X, y: int(np.argmax(y)))
    found = choice.outcome_of(case, "sobol")
    assert found["best"] < found["modelled"] == found["advised"]
    monkeypatch.setattr(choice, "largest_mean", lambda X, y: int(np.argmin(y)))
    assert choice.outcome_of(case, "sobol")["modelled"] > found["advised"]
