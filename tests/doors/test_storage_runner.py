"""Studies in storages: killed and resumed without a lost or doubled trial, a database that restarts, several workers,
export."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import random
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy.exc
from click.testing import CliRunner
from optuna.trial import TrialState
from postgres import PostgresServer
from worker import PLANE, SPACE, STORAGES, Deadly, Failing, Logged, bowl, mixed, start_worker, wait_for

import regretless as rg
from regretless.cli import main
from regretless.doors.optuna import runner
from regretless.doors.optuna.export import export_study, result_of_study
from regretless.doors.optuna.rules import STOP_NOTE
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.optuna.sampler import ERROR
from regretless.doors.optuna.urls import open_storage, patiently
from regretless.doors.optuna.workers import PROBE
from regretless.outlook.stopping import GapBelow, StopWhen
from regretless.report.run_data import RunData
from regretless.report.run_page import _probes


def evaluations(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def uninterrupted(method: str, trials: int) -> list[tuple[dict[str, Any], float]]:
    study = tune_in_storage(
        bowl,
        PLANE,
        storage=optuna.storages.InMemoryStorage(),
        study="s",
        trials=trials,
        method=method,
        seed=5,
        progress=False,
    )
    return [(t.params, t.values[0]) for t in study.trials]


def kill_until_done(url: str, folder: Path, kills: int, trials: int, method: str) -> None:
    """Starts a worker again and again and kills each at a random moment, then lets the last one finish; compares with a
    run nobody disturbed."""
    moments, log, name = random.Random(kills), folder / "evaluations.log", f"killed-{method}"
    for _ in range(kills):
        worker = start_worker(url, [(name, method)], trials, "--seed", "5", "--tune-log", str(log), "--seconds", "0.02")
        before, patience = len(evaluations(log)), time.monotonic() + 60
        while len(evaluations(log)) == before and worker.poll() is None and time.monotonic() < patience:
            time.sleep(0.005)  # at least one evaluation per life, so that the test ends
        time.sleep(moments.random() * 0.12)
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
    wait_for(start_worker(url, [(name, method)], trials, "--seed", "5", "--tune-log", str(log)))
    study = optuna.load_study(study_name=name, storage=open_storage(url))
    assert [t.number for t in study.trials] == list(range(trials))
    assert all(t.state == TrialState.COMPLETE for t in study.trials)
    assert [(t.params, t.values[0]) for t in study.trials] == uninterrupted(method, trials)
    seen = [frozenset(e["params"].items()) for e in evaluations(log)]  # a gRPC message keeps no order of parameters
    assert set(seen) == {frozenset(t.params.items()) for t in study.trials}, (
        "an interrupted evaluation is repeated at its own point, not another"
    )
    assert len(seen) - trials <= kills


@pytest.mark.parametrize("kind", ["sqlite"])
def test_killed_and_resumed_is_as_if_never_killed(kind: str, storage_url: Callable[[str], str], tmp_path: Path) -> None:
    kill_until_done(storage_url(kind), tmp_path, kills=4, trials=16, method="sobol")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sobol", "gp-ei"])
@pytest.mark.parametrize("kind", STORAGES)
def test_killed_twenty_times(kind: str, method: str, storage_url: Callable[[str], str], tmp_path: Path) -> None:
    kill_until_done(storage_url(kind), tmp_path, kills=20, trials=80, method=method)


def test_a_database_that_restarts_loses_nothing(
    postgres: PostgresServer, storage_url: Callable[[str], str], tmp_path: Path
) -> None:
    url, log = storage_url("postgresql"), tmp_path / "evaluations.log"
    patiently(lambda: optuna.create_study(storage=open_storage(url), study_name="restarted"))
    workers = [
        start_worker(url, [("restarted", "sobol")], 40, "--seed", "5", "--tune-log", str(log), "--seconds", "0.05")
        for _ in range(2)
    ]
    while len(evaluations(log)) < 8:
        assert all(worker.poll() is None for worker in workers)
        time.sleep(0.01)
    postgres.stop()
    time.sleep(0.3)
    during = len(evaluations(log))
    postgres.start()
    for worker in workers:
        wait_for(worker)
    study = optuna.load_study(study_name="restarted", storage=open_storage(url))
    assert during < 40, "the restart must fall into the study"
    told = {tuple(t.params.values()): t.values[0] for t in study.trials if t.state == TrialState.COMPLETE}
    assert [t.number for t in study.trials] == list(range(len(study.trials)))
    assert 40 <= len(told) <= 41  # two invocations that do not know each other may both start the last trial
    assert {tuple(e["params"].values()): e["value"] for e in evaluations(log)} == told
    assert len(evaluations(log)) == len(told)


def test_workers_that_get_no_connection_say_so_and_wait(
    postgres: PostgresServer, storage_url: Callable[[str], str], tmp_path: Path, capfd: Any
) -> None:
    """Of two connections the parent has one and one of its workers the other; each process needs one only."""
    url, slow = postgres.limited(storage_url("postgresql"), 2), Logged(str(tmp_path / "log"), 0.6)
    study = tune_in_storage(
        slow, PLANE, storage=url, study="few", trials=6, workers=2, method="sobol", seed=2, progress=False
    )
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 6
    assert "too many connections" in capfd.readouterr().err


def test_workers_on_one_machine_share_a_study(tmp_path: Path) -> None:
    url, log = f"sqlite:///{tmp_path}/s.db", tmp_path / "evaluations.log"
    study = tune_in_storage(
        Logged(str(log), 0.05),
        PLANE,
        storage=url,
        study="shared",
        trials=12,
        workers=2,
        method="sobol",
        seed=1,
        progress=False,
    )
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 12
    assert len({tuple(t.params.values()) for t in study.trials}) == 12
    assert len({e["pid"] for e in evaluations(log)}) == 2
    again = tune_in_storage(Logged(str(log), 0.0), PLANE, storage=url, study="shared", trials=15, progress=False)
    assert len(again.trials) == 15
    assert len(evaluations(log)) == 15
    assert again.sampler.method.name == "sobol"  # type: ignore[union-attr]


def test_a_setting_that_kills_its_worker_becomes_a_failed_trial(tmp_path: Path) -> None:
    study = tune_in_storage(
        Deadly(),
        PLANE,
        storage=f"sqlite:///{tmp_path}/s.db",
        study="deadly",
        trials=6,
        workers=2,
        method="sobol",
        seed=1,
        progress=False,
    )
    states = {t.state for t in study.trials}
    assert states == {TrialState.COMPLETE, TrialState.FAIL}
    assert all((t.state == TrialState.FAIL) == (t.params["x"] > 7) for t in study.trials)


@pytest.mark.filterwarnings(r"ignore:trial \d+ failed:RuntimeWarning")
def test_failures_are_recorded_and_too_many_end_the_run(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    common = {"storage": url, "method": "random", "progress": False}
    with pytest.raises(RuntimeError, match=r"all of the first 5 evaluations failed.*ZeroDivisionError: no luck"):
        tune_in_storage(Failing(), PLANE, study="one", trials=9, **common)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: no luck"):
        tune_in_storage(Failing(), PLANE, study="two", trials=20, workers=2, **common)
    with pytest.raises(ZeroDivisionError, match="no luck"):
        tune_in_storage(Failing(), PLANE, study="three", trials=3, catch=KeyError, **common)
    study = tune_in_storage(Failing(), PLANE, study="four", trials=3, **common)
    assert [t.state for t in study.trials] == [TrialState.FAIL] * 3
    assert all(t.user_attrs[ERROR].strip().endswith("ZeroDivisionError: no luck") for t in study.trials)
    bad = tune_in_storage(lambda x, y: math.nan, PLANE, study="five", trials=2, **common)
    assert [t.state for t in bad.trials] == [TrialState.FAIL] * 2


def test_enqueued_trials_come_first_and_variances_are_kept() -> None:
    storage = optuna.storages.InMemoryStorage()
    optuna.create_study(storage=storage, study_name="s").enqueue_trial({"x": 1.0, "y": 2.0})
    study = tune_in_storage(
        lambda x, y: rg.Value(bowl(x, y), var=0.01),
        PLANE,
        storage=storage,
        study="s",
        trials=3,
        method="random",
        progress=False,
    )
    assert study.trials[0].params == {"x": 1.0, "y": 2.0}
    assert len(study.trials) == 3
    assert result_of_study(study).trials[0].var == 0.01


def test_settings_of_a_study_are_kept(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    tune_in_storage(bowl, PLANE, storage=url, study="s", trials=1, method="sobol", seed=4, progress=False)
    for options in ({"method": "random"}, {"seed": 5}):
        with pytest.raises(ValueError, match="runs with method 'sobol' and seed 4"):
            tune_in_storage(bowl, PLANE, storage=url, study="s", trials=2, progress=False, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="its direction is minimize, not maximize"):
        tune_in_storage(bowl, PLANE, storage=url, study="s", trials=2, direction="maximize", progress=False)
    plane = PLANE.parameters
    for space in ({**plane, "x": rg.Float(-5.0, 11.0)}, {**plane, "z": rg.Float(0, 1)}, {"x": plane["x"]}):
        with pytest.raises(ValueError, match="go on with the space it was begun with, or choose another study name"):
            tune_in_storage(bowl, space, storage=url, study="s", trials=2, progress=False)
    assert len(tune_in_storage(bowl, PLANE, storage=url, study="s", trials=2, progress=False).trials) == 2


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("study.db", "is written sqlite"),
        ("grpc://nowhere", "grpc://HOST:PORT"),
        ("nosuch://x", "cannot be opened"),
        ("sqlite:////nowhere/at/all.db", "cannot be reached"),
        ("postgresql+psycopg://nobody@127.0.0.1:1/none", "cannot be reached"),
    ],
)
def test_bad_urls_are_named(url: str, message: str) -> None:
    with pytest.raises((ValueError, ConnectionError), match=message):
        open_storage(url)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"this is no database" * 100)
    with pytest.raises((ValueError, ConnectionError), match="cannot be"):
        open_storage(f"sqlite:///{tmp_path}/s.db")


def test_a_database_whose_maker_was_killed_between_a_table_and_its_index_keeps_names_apart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    optuna.storages.RDBStorage(url).engine.dispose()
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as database:
        database.execute("DROP INDEX ix_studies_study_name")
    for life in range(3):
        options: dict[str, Any] = {"storage": url, "study": "s", "trials": 1 + life, "seed": 0, "progress": False}
        tune_in_storage(lambda x: x, {"x": rg.Float(-3, 5)}, **options)
    assert optuna.study.get_all_study_names(open_storage(url)) == ["s"]
    assert len(optuna.load_study(study_name="s", storage=open_storage(url)).trials) == 3


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def away() -> None:
        calls.append(1)
        raise optuna.exceptions.StorageInternalError("gone")

    monkeypatch.setattr("regretless.doors.optuna.urls.PATIENCE", 0.3)
    with pytest.raises(optuna.exceptions.StorageInternalError):
        patiently(away)
    assert len(calls) > 2


def test_export_writes_a_table_a_description_and_a_page(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    study = optuna.create_study(storage=url, study_name="foreign", sampler=optuna.samplers.RandomSampler(seed=0))

    def objective(trial: optuna.Trial) -> float:
        params = {
            "x": trial.suggest_float("x", -5.0, 10.0), "lr": trial.suggest_float("lr", 1e-5, 1e-1, log=True),
            "k": trial.suggest_int("k", 1, 8), "kind": trial.suggest_categorical("kind", ["a", "b", "c"]),
        }  # fmt: skip
        if params["k"] == 8:
            raise ValueError
        return mixed(**params)  # type: ignore[arg-type]

    study.optimize(objective, n_trials=12, catch=(ValueError,))
    table, description, page = export_study(url, "foreign", tmp_path / "out")
    rows = list(csv.DictReader(table.open()))
    assert [int(row["number"]) for row in rows] == list(range(12))
    assert [float(row["x"]) for row in rows] == [t.params["x"] for t in study.trials]
    written = json.loads(description.read_text())
    assert [t["value"] for t in written["trials"]] == [t.values[0] if t.values else None for t in study.trials]
    assert "<html" in page.read_text().lower()
    result = result_of_study(study)
    assert result.best.value == study.best_value
    assert set(result.params) == set(SPACE.names)
    with pytest.raises(ValueError, match="there is no study 'other' in the storage; it has foreign"):
        export_study(url, "other", tmp_path / "out")


@pytest.mark.parametrize(
    ("labels", "words"),
    [([1, True, "a"], "cannot tell labels apart that are equal"), ([(1, 2), (3, 4)], r"not the label \(1, 2\)")],
)
def test_labels_that_a_storage_would_mix_up_are_refused_before_a_study_is_made(
    labels: list[Any], words: str, tmp_path: Path
) -> None:
    url, space = f"sqlite:///{tmp_path}/s.db", {"c": rg.Choice(labels), "n": rg.Int(2, 5)}
    with pytest.raises(ValueError, match=words):
        tune_in_storage(lambda c, n: 1.0, space, storage=url, study="s", trials=2, progress=False)
    assert not (tmp_path / "s.db").exists()
    assert (
        len({repr(t.params) for t in rg.minimize(lambda c, n: n, space, trials=6, seed=0, progress=False).trials}) == 6
    )


def test_a_parameter_called_value_has_a_column_of_its_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    study = optuna.create_study(study_name="s", storage=url)
    study.optimize(lambda t: 10.5 + t.suggest_int("value", 2, 7) + t.suggest_float("é", 1, 2), n_trials=2)
    table = export_study(url, "s", tmp_path)[0].read_text(encoding="utf-8").splitlines()
    assert table[0] == "number,state,value,started,completed,params_value,é"
    assert table[1].split(",")[2] == repr(study.trials[0].value)


def test_the_command_tunes_resumes_and_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "training_script.py").write_text("def cost(a, n):\n    return (a - 2.2) ** 2 + 0.1 * (n - 4) ** 2\n")
    (tmp_path / "space.toml").write_text(
        '[a]\ntype = "float"\nlow = 1\nhigh = 4\n[n]\ntype = "int"\nlow = 1\nhigh = 9\n'
    )
    url = f"sqlite:///{tmp_path}/s.db"
    tune = [
        "tune",
        "training_script.py:cost",
        "--space",
        "space.toml",
        "--storage",
        url,
        "--study",
        "mine",
        "--method",
        "sobol",
    ]
    first = CliRunner().invoke(main, [*tune, "--trials", "4", "--seed", "3"])
    assert first.exit_code == 0, first.output
    assert f"optuna-dashboard {url}" in first.output
    second = CliRunner().invoke(main, [*tune, "--trials", "8", "--workers", "2", "--report", "page.html"])
    assert second.exit_code == 0, second.output
    assert "8 evaluations" in second.output
    assert (tmp_path / "page.html").exists()
    study = optuna.load_study(study_name="mine", storage=url)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 8
    exported = CliRunner().invoke(main, ["export", "mine", "--storage", url])
    assert exported.exit_code == 0, exported.output
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["report.html", "study.json", "trials.csv"]
    for arguments in ([*tune, "--trials", "9", "--seed", "4"], ["export", "other", "--storage", url], ["export", "x",
    "--storage", "nonsense"],
                      [*tune, "--trials", "9", "--checkpoint", "c"], [*tune[:4], "--trials", "3", "--workers",
                      "2"]):  # fmt: skip
        bad = CliRunner().invoke(main, arguments)
        assert bad.exit_code == 2
        assert "Traceback" not in bad.output


def test_a_gap_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from regretless.certificate import Certificate
    from regretless.classics.random_search import RandomSearch

    monkeypatch.setattr(
        RandomSearch,
        "_certificate",
        lambda self, history, delta: Certificate(2.0 / len(history), -1.0, 0.0, delta, "fitted", ("a fake",)),
    )
    study = tune_in_storage(
        bowl,
        PLANE,
        storage=optuna.storages.InMemoryStorage(),
        study="s",
        trials=50,
        method="random",
        stop=GapBelow(0.2),
        progress=False,
    )
    assert len(study.trials) == 11  # the gap is 0.2 after 10 and has to hold twice
    assert "By the model" in study.user_attrs[STOP_NOTE]


GAP_SCRIPT = "def cost(a, b):\n    return 3 * (a - 2.2) ** 2 + (b + 0.4) ** 2\n"
GAP_SPACE = '[a]\ntype = "float"\nlow = 1\nhigh = 4\n[b]\ntype = "float"\nlow = -1\nhigh = 2\n'


@pytest.mark.parametrize(
    "where", [[], ["--storage", "sqlite:///s.db", "--study", "mine"]], ids=["in one process", "in a storage"]
)
def test_the_command_stops_at_a_gap_and_never_without_a_certificate(
    where: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    (tmp_path / "gap_script.py").write_text(GAP_SCRIPT)
    (tmp_path / "space.toml").write_text(GAP_SPACE)
    tune = [
        "tune",
        "gap_script.py:cost",
        "--space",
        "space.toml",
        "--trials",
        "80",
        "--seed",
        "0",
        "--until-gap",
        "0.5",
    ]
    stopped = CliRunner().invoke(main, [*tune, *where])
    assert stopped.exit_code == 0, stopped.output
    found = re.search(
        r"stopped after (\d+) evaluations: By the model, at nominal .* at most (\S+) worse .* \(measured",
        stopped.output,
    )
    assert found is not None, stopped.output
    assert int(found[1]) < 80
    assert float(found[2]) <= 0.5
    assert "verify=2" in stopped.output  # what "auto" chose
    if where:
        study = optuna.load_study(study_name="mine", storage="sqlite:///s.db")
        assert len(study.trials) == int(found[1])
        assert study.best_value <= 0.5
        again = CliRunner().invoke(main, [*tune, *where])
        assert f"stopped after {found[1]} evaluations" in again.output, "a study that has ended stays so"
        where = [*where[:3], "blind"]
    blind = CliRunner().invoke(main, [*tune, *where, "--method", "random", "--trials", "12"])
    assert blind.exit_code == 0, blind.output
    assert "12 evaluations" in blind.output
    assert "stopped after" not in blind.output


def test_an_interrupted_trial_is_finished_by_the_next_run(tmp_path: Path) -> None:
    """Ctrl-C costs nothing: the study becomes the one it would have been."""
    calls: list[float] = []

    def interrupted(x: float, y: float) -> float:
        calls.append(x)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return bowl(x, y)

    common = {"trials": 8, "method": "gp-ei", "seed": 2, "progress": False}
    url = f"sqlite:///{tmp_path}/s.db"
    with pytest.raises(KeyboardInterrupt):
        tune_in_storage(interrupted, PLANE, storage=url, study="s", **common)
    again = tune_in_storage(interrupted, PLANE, storage=url, study="s", **common)
    whole = tune_in_storage(bowl, PLANE, storage=f"sqlite:///{tmp_path}/whole.db", study="s", **common)
    assert [t.params for t in again.trials] == [t.params for t in whole.trials]
    assert all(t.state == TrialState.COMPLETE for t in again.trials)


def test_rules_probes_and_bounds_live_in_the_study() -> None:
    """Two commands on one study share what a rule counts, the probes and the floor; others are refused."""
    storage = optuna.storages.InMemoryStorage()
    rule = (GapBelow(5.0, share=0.5) & StopWhen(target=200.0)) | StopWhen(no_improvement=60)
    common = {"storage": storage, "study": "s", "method": "random", "seed": 2, "floor": 0.0, "progress": False}
    common["noisy"] = False  # a floor proves a gap where values are promised to be exact
    tune_in_storage(bowl, PLANE, trials=7, stop=rule, **common)
    study = tune_in_storage(bowl, PLANE, trials=70, stop=rule, **common)
    assert len(study.trials) < 70
    note = study.user_attrs["regretless:stop"]
    assert "of the search space holds a better setting" in note
    result = result_of_study(study)
    probes = sum(t % 5 == 4 for t in range(len(study.trials)))
    assert result.certificate.probes == probes
    assert result.certificate.share <= 0.5
    assert result.certificate.share_sentence() in note  # what the rule has proven, the certificate says
    assert result.certificate.gap <= result.value
    with pytest.raises(ValueError, match="floor or ceiling"):
        tune_in_storage(bowl, PLANE, trials=9, **{**common, "floor": -1.0})
    with pytest.raises(ValueError, match="probes"):
        tune_in_storage(bowl, PLANE, trials=9, probes=0.5, **common)


def test_a_slow_try_to_make_the_tables_is_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine one try may take longer than the patience; what others make meanwhile is found by the next."""
    tries: list[str] = []

    class Slow(optuna.storages.RDBStorage):  # type: ignore[misc]
        def __init__(self, url: str, **options: Any) -> None:
            tries.append(url)
            if len(tries) < 3:
                told = Exception('relation "studies" already exists')
                raise sqlalchemy.exc.ProgrammingError("CREATE TABLE", {}, told)
            super().__init__(url, **options)

    monkeypatch.setattr("regretless.doors.optuna.urls.CREATION_PATIENCE", -1.0)
    monkeypatch.setattr(optuna.storages, "RDBStorage", Slow)
    assert open_storage(f"sqlite:///{tmp_path}/s.db") is not None
    assert len(tries) == 3


@pytest.mark.parametrize("damage", [7, {"rule": "StopWhen(target=-1)"}])
def test_a_damaged_count_of_a_rule_is_named(damage: object) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study._storage.set_study_system_attr(study._study_id, "regretless:stop-state", damage)
    rule = rg.StopWhen(target=-1)
    assert isinstance(damage, int) or damage == {"rule": repr(rule)}
    with pytest.raises(ValueError, match="damaged count of stop rules"):
        study.optimize(lambda trial: trial.suggest_float("x", 2, 3), n_trials=2, callbacks=[rule])


def test_a_page_of_a_study_has_the_numbers_of_the_study(tmp_path: Path) -> None:
    """Trials of dead workers are not on the page; those after them keep their numbers."""
    study = optuna.create_study(study_name="killed", sampler=optuna.samplers.RandomSampler(seed=0))
    for state in (TrialState.RUNNING, TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED, TrialState.COMPLETE):
        trial = study.ask()
        value = 7.0 - trial.number + 1e-3 * trial.suggest_float("x", -5.0, 10.0)
        if state != TrialState.RUNNING:
            study.tell(trial, value if state == TrialState.COMPLETE else None, state=state)
    result = result_of_study(study)
    page = result.report(tmp_path / "page.html").read_text()
    assert study.best_trial.number == 4
    assert "trial 4 with 3" in page
    assert "<dt>Study</dt><dd>killed</dd>" in page
    assert '"number":[1,2,4]' in page.replace(" ", "")
    assert "Ended because" not in page  # a study does not say why its last trial was the last
    assert list(result.to_dataframe()["number"]) == [1, 2, 4]
    written = json.loads(result.to_json(tmp_path / "study.json").read_text())
    assert [t["number"] for t in written["trials"]] == [1, 2, 4]
    again = rg.Result.from_json(tmp_path / "study.json")
    assert [again.optimizer.book.record.number_of(t) for t in again.trials] == [1, 2, 4]


def test_a_refused_command_leaves_the_study_of_another_sampler_as_it_is(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    study = optuna.create_study(study_name="tpe", storage=url, sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(lambda t: bowl(t.suggest_float("x", -5.0, 10.0), t.suggest_float("y", 1.0, 4.0)), n_trials=3)
    with pytest.raises(ValueError, match="go on with the space it was begun with"):
        tune_in_storage(bowl, {"x": rg.Float(-5, 11)}, storage=url, study="tpe", trials=5, progress=False)
    assert optuna.load_study(study_name="tpe", storage=url).user_attrs == {}


def test_a_study_that_another_sampler_began_stays_one_of_another_sampler() -> None:
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(study_name="tpe", storage=storage, sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(lambda t: bowl(t.suggest_float("x", -5.0, 10.0), t.suggest_float("y", 1.0, 4.0)), n_trials=20)
    tuned = tune_in_storage(bowl, PLANE, storage=storage, study="tpe", trials=22, method="gp-ucb", progress=False)
    assert len(tuned.trials) == 22
    assert result_of_study(tuned).optimizer.book.record.foreign
    ours = tune_in_storage(
        bowl, PLANE, storage=optuna.storages.InMemoryStorage(), study="s", trials=3, method="sobol", progress=False
    )
    assert not result_of_study(ours).optimizer.book.record.foreign


def test_a_result_of_a_study_with_lost_trials_and_probes_is_read_again(tmp_path: Path) -> None:
    """Probes are numbered as the study numbers its trials, of which a result has only those that ended."""
    sampler = rg.Sampler("sobol", seed=0, search_space=PLANE, probes=0.5)
    study = optuna.create_study(sampler=sampler)
    study.ask()
    study.optimize(lambda t: bowl(t.suggest_float("x", -5.0, 10.0), t.suggest_float("y", 1.0, 4.0)), n_trials=5)
    result = result_of_study(study)
    again = rg.Result.from_json(result.to_json(tmp_path / "study.json"))
    assert again.optimizer.book.probe_steps == result.optimizer.book.probe_steps


def test_a_trial_that_ended_just_before_its_worker_is_not_taken_over(tmp_path, monkeypatch) -> None:
    """The worker tells its trial and dies after another one has read the trials as running."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    study = tune_in_storage(bowl, PLANE, storage=url, study="race", trials=3, seed=1, progress=False)
    gone = {"worker": "gone", "run": "earlier", "token": "then"}
    template = optuna.trial.create_trial(state=TrialState.RUNNING, system_attrs={runner.OWNER: gone})
    trial_id = study._storage.create_new_trial(study._study_id, template)

    def ends_and_dies(*_: Any) -> bool:
        study._storage.set_trial_state_values(trial_id, TrialState.COMPLETE, [7.0])
        return True

    monkeypatch.setattr(runner._Worker, "_worker_ended", ends_and_dies)
    study = tune_in_storage(bowl, PLANE, storage=url, study="race", trials=6, progress=False)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 6
    assert study.trials[3].value == 7.0


def test_the_page_marks_the_probes_of_the_study_after_a_lost_trial() -> None:
    """A lost trial has a number and no step, so the steps of later probes are smaller than the numbers of their
    trials."""
    study = optuna.create_study()
    space = {"x": optuna.distributions.FloatDistribution(-5.0, 10.0)}
    for number in range(6):
        marks = {PROBE: {"seed": 3, "step": number - 1, "over": ["x"]}} if number in (2, 5) else {}
        lost = number == 0
        study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.FAIL if lost else TrialState.COMPLETE,
                params={} if lost else {"x": number + 0.5}, distributions={} if lost else space,
                value=None if lost else float(number), system_attrs=marks,
            )
        )  # fmt: skip
    result = result_of_study(study)
    assert result.optimizer.book.probe_steps == [1, 4]
    data = RunData(result)
    assert [int(data.numbers[i]) for i in _probes(data)] == [2, 5]
