"""A run that was interrupted and taken up again ends as the run that was not: its failures, leniency and warnings
follow from its record, and neither the folder nor the clock of the process changes it."""

from __future__ import annotations

import itertools
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import regretless as rg
from regretless.report.run_page import _when
from regretless.run import minimize as module
from regretless.run.evaluation import ObjectiveError

SPACE = {"x": rg.Float(1e-3, 1.0, log=True), "k": rg.Int(3, 9, step=2)}


def value(x: float, k: int) -> float:
    return (math.log10(x) + 1.2) ** 2 + (k - 5) ** 2


def searched(fun: Callable[..., object], *, trials: int = 20, **options: object) -> rg.Result:
    return rg.minimize(fun, SPACE, trials=trials, seed=3, method="random", progress=False, **options)


class Called:
    """An objective that fails, returns nothing or is interrupted at certain calls."""

    def __init__(self, *, failing: range = range(0), nothing: int = 0, interrupted: int = 0) -> None:
        self.failing, self.nothing, self.interrupted = failing, nothing, interrupted
        self.calls = self.evaluations = 0

    def __call__(self, x: float, k: int) -> float | None:
        self.calls += 1
        if self.calls == self.interrupted:
            raise KeyboardInterrupt
        self.evaluations += 1
        if self.evaluations in self.failing:
            raise ValueError("the licence server is away")
        return None if self.evaluations == self.nothing else value(x, k)


@pytest.mark.parametrize("options", [{"failing": range(6, 15)}, {"nothing": 12}])
def test_failures_before_the_interruption_count_and_are_told_once(options: dict, tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning) as told_whole:
        whole = searched(Called(**options))
    objective = Called(**options, interrupted=12)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        searched(objective, checkpoint=tmp_path / "c")
        resumed = searched(objective, checkpoint=tmp_path / "c")
    assert (resumed.message, resumed.success) == (whole.message, whole.success)
    assert [(t.params, t.value, t.state) for t in resumed.trials] == [
        (t.params, t.value, t.state) for t in whole.trials
    ]
    assert [str(w.message) for w in told] == [str(w.message) for w in told_whole]


def test_a_run_that_gave_up_evaluates_again_once_it_is_called_again(tmp_path: Path) -> None:
    """Whoever mended what failed goes on; whoever did not hears of it after one evaluation."""
    with pytest.warns(RuntimeWarning), pytest.raises(ObjectiveError):
        searched(Called(failing=range(1, 99)), checkpoint=tmp_path / "c")
    with pytest.raises(ObjectiveError, match="all of the first 6"):
        searched(Called(failing=range(1, 99)), checkpoint=tmp_path / "c")
    assert searched(Called(), checkpoint=tmp_path / "c").success


def test_an_interrupt_before_any_success_returns_the_result(tmp_path: Path) -> None:
    for objective in (Called(interrupted=1), Called(failing=range(1, 3), interrupted=3)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = searched(objective, checkpoint=tmp_path / f"{objective.interrupted}")
        assert result.params == {}
        assert math.isnan(result.value)
        assert not result.success
        assert "interrupted" in str(result)
        assert "no evaluation succeeded" in result.message
        result.to_json(tmp_path / "r.json")
        assert rg.Result.from_json(tmp_path / "r.json").message == result.message


def test_an_objective_that_changes_the_folder_does_not_move_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(home)
    calls = []

    def wandering(x: float, k: int) -> float:
        calls.append(x)
        os.chdir(scratch)
        return value(x, k)

    searched(wandering, trials=6, checkpoint="run.npz")
    assert os.listdir(scratch) == []
    monkeypatch.chdir(home)
    searched(wandering, trials=6, checkpoint="run.npz")
    assert len(calls) == 6


def test_a_checkpoint_grows_and_is_seldom_written_anew(tmp_path: Path) -> None:
    """A file that is replaced is another one to the system; a trial is to cost what it adds."""
    seen = []

    def watching(x: float, k: int) -> float:
        seen.append((tmp_path / "c").stat().st_ino if seen else 0)
        return value(x, k)

    searched(watching, trials=300, checkpoint=tmp_path / "c")
    assert sum(a != b for a, b in itertools.pairwise(seen)) < 8
    assert len(rg.Optimizer.load(tmp_path / "c").trials) == 300


def test_a_clock_that_is_set_back_leaves_a_run_its_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(module.time, "time", lambda: float(next(now)))
    result = searched(value, trials=3)
    record = result.optimizer.book.record
    assert record.began is not None
    assert record.ended is not None
    assert 0 <= record.ended - record.began < 60
    assert "Z" not in _when(record)
    assert _when(record).endswith("UTC")
    record.ended = record.began - 4000.0  # sessions on machines whose clocks differ
    assert _when(record) == "2001-09-09 01:46:40 UTC"
    result.report(tmp_path / "page.html")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system has no time zones to choose")
def test_a_page_names_times_of_no_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    result = searched(value, trials=2)
    record, shown = result.optimizer.book.record, set()
    for zone in ("UTC", "America/Los_Angeles", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        shown.add(_when(record))
    monkeypatch.undo()
    time.tzset()
    assert len(shown) == 1
