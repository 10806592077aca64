"""Who lives and who is dead: by leases, by what can surely be seen, and never by a look into another container."""

from __future__ import annotations

import collections
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from worker import PLANE, bowl

import regretless as rg
from regretless.doors.optuna import presence, workers
from regretless.doors.optuna.distributions import as_distributions
from regretless.doors.optuna.presence import LEASE_SECONDS, Leases, Line, presence_in
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.optuna.sampler import Sampler

ELSEWHERE = {"place": "another container", "pid": 2**22 + 1, "born": "1"}
UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc"]


def line(count: int, by: dict[str, Any] = ELSEWHERE) -> dict[str, Line]:
    return {"them": Line(by, count, {}, False)}


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(presence.time, "monotonic", lambda: self.now)

    def watch(self, lease: Leases, count: int, seconds: float, every: float = 5.0) -> bool | None:
        for _ in range(int(seconds / every)):
            self.now += every
            lease.look(line(count))
        return lease.has_ended("them", line(count)["them"])


def test_a_process_elsewhere_lives_while_its_count_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lease = Clock(monkeypatch), Leases()
    lease.look(line(7))
    assert clock.watch(lease, 7, LEASE_SECONDS / 2) is None, "nobody knows yet"
    assert clock.watch(lease, 8, 10) is False
    assert clock.watch(lease, 8, LEASE_SECONDS - 10) is False
    assert clock.watch(lease, 8, 20) is True
    assert clock.watch(lease, 9, 5) is False, "it had only stood still"


def test_a_reader_that_stood_still_itself_takes_nobody_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lease = Clock(monkeypatch), Leases()
    lease.look(line(7))
    clock.watch(lease, 8, 10)
    assert clock.watch(lease, 8, 36_000, every=36_000) is False, "a suspended machine, a database that was away"
    assert clock.watch(lease, 9, 10) is False


@pytest.mark.parametrize(
    ("change", "dead"),
    [
        ({}, False),
        ({"born": "1"}, True),
        ({"pid": 2**22 + 1}, True),
        ({"place": "another host"}, None),
        ({"place": ""}, None),
        ({"pid": True}, None),
    ],
)
def test_an_end_is_known_at_once_only_where_the_same_processes_are_seen(
    change: dict[str, Any], dead: bool | None
) -> None:
    """A number used again names another process; that of another boot, container or host says nothing."""
    if not workers.signature()["place"]:
        pytest.skip("this system does not say which processes it shows")
    assert workers.is_dead({**workers.signature(), **change}) is dead


def test_a_system_that_hides_processes_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    signed = workers.signature()
    monkeypatch.setattr(workers, "_born", lambda pid: "")
    assert workers.is_dead({**signed, "pid": 1}) is None


def study_with_a_trial_of(by: dict[str, Any]) -> tuple[optuna.storages.InMemoryStorage, int]:
    """A study of `tune_in_storage` in which a worker of another container has a trial under way."""
    storage = optuna.storages.InMemoryStorage()
    study = tune_in_storage(bowl, PLANE, storage=storage, study="s", trials=2, method="sobol", seed=1, progress=False)
    template = optuna.trial.create_trial(state=TrialState.RUNNING, system_attrs={workers.OWNER: {"worker": "them"}})
    created = storage.create_new_trial(study._study_id, template)
    storage.set_study_system_attr(study._study_id, presence.LINE + "them", {"by": by, "count": 1, "asks": {"2": {}}})
    return storage, created


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr("regretless.doors.optuna.runner.LOOK_SECONDS", 0.05)


@pytest.mark.usefixtures("short_lease")
def test_a_trial_of_a_dead_container_is_finished_and_the_run_is_as_if_nobody_had_died(capsys: Any) -> None:
    whole = tune_in_storage(
        bowl, PLANE, storage=optuna.storages.InMemoryStorage(), study="s", trials=5, method="sobol", seed=1,
        progress=False,
    )  # fmt: skip
    storage, _ = study_with_a_trial_of(ELSEWHERE)
    study = tune_in_storage(bowl, PLANE, storage=storage, study="s", trials=5, progress=False)
    assert [t.params for t in study.trials] == [t.params for t in whole.trials]
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 5
    assert "it is not known yet whether the worker of trial 2 lives" in capsys.readouterr().err


def test_an_objective_gets_the_parameters_of_a_trial_that_it_takes_over_in_the_order_of_the_space() -> None:
    storage, orders = optuna.storages.InMemoryStorage(), []

    def noted(**params: float) -> float:
        orders.append(list(params))
        return bowl(**params)

    options: dict[str, Any] = {"storage": storage, "study": "s", "progress": False}
    study = tune_in_storage(noted, PLANE, trials=1, method="sobol", seed=1, **options)
    left = optuna.trial.create_trial(
        state=TrialState.RUNNING, params={"y": 2.5, "x": -1.5},
        distributions={name: as_distributions(PLANE)[name] for name in ("y", "x")},
        system_attrs={workers.OWNER: {"worker": "them", "left": True}},
    )  # fmt: skip
    storage.create_new_trial(study._study_id, left)
    tune_in_storage(noted, PLANE, trials=3, **options)
    assert orders == [["x", "y"]] * 3


@pytest.mark.usefixtures("short_lease")
def test_a_worker_that_wakes_up_adds_nothing_to_a_trial_that_another_has_ended() -> None:
    """As after SIGSTOP and SIGCONT: the trial has been finished meanwhile, under its own number."""
    storage = optuna.storages.InMemoryStorage()
    calls: list[dict[str, float]] = []

    def slow(**params: float) -> float:
        calls.append(params)
        if len(calls) == 2:  # while this evaluation stands still, another worker finishes the trial
            trial = optuna.load_study(study_name="s", storage=storage).trials[1]
            storage.set_trial_user_attr(trial._trial_id, "regretless:cost", 5.0)
            storage.set_trial_state_values(trial._trial_id, TrialState.COMPLETE, [17.0])
        return bowl(**params)

    study = tune_in_storage(slow, PLANE, storage=storage, study="s", trials=4, method="sobol", progress=False)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 4
    assert study.trials[1].values == [17.0]
    assert len(calls) == 4


def test_the_lines_of_the_dead_are_swept(tmp_path: Path) -> None:
    study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE))
    gone = {**workers.signature(), "born": "1"}
    for i in range(20):
        study._storage.set_study_system_attr(
            study._study_id, f"{presence.LINE}{i}", {"by": gone, "count": 1, "asks": {}}
        )
    study.optimize(lambda t: bowl(t.suggest_float("x", -5.0, 10.0), t.suggest_float("y", 1.0, 4.0)), n_trials=2)
    assert len(presence_in(study).look(study._storage)) == 1


def test_trials_are_read_again_where_a_line_lets_go_of_one_that_was_not_seen_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between our look at the lines and our announcement another process lets go of a trial: one that we have seen
    end, or one that began and ended meanwhile."""

    def reads(past: list[int]) -> int:
        study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE))
        study.optimize(lambda t: bowl(t.suggest_float("x", -5.0, 10.0), t.suggest_float("y", 1.0, 4.0)), n_trials=2)
        storage, write, read = study._storage, study._storage.set_study_system_attr, study._storage.get_all_trials
        counted = []

        def after_others(study_id: int, key: str, value: Any) -> None:
            write(study_id, presence.LINE + "them", {"by": ELSEWHERE, "count": 9, "asks": {}, "past": past})
            write(study_id, key, value)

        monkeypatch.setattr(storage, "set_study_system_attr", after_others)
        monkeypatch.setattr(storage, "get_all_trials", lambda *a, **k: counted.append(1) or read(*a, **k))
        study.ask().suggest_float("x", -5.0, 10.0)
        return len(counted)

    assert reads([0, 1]) == reads([])
    assert reads([3]) == reads([]) + 1


def test_a_line_keeps_the_asks_of_a_few_ended_trials_and_says_which_it_let_go() -> None:
    study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE))
    study.optimize(lambda t: bowl(t.suggest_float("x", -5.0, 10.0), t.suggest_float("y", 1.0, 4.0)), n_trials=9)
    (line,) = presence_in(study).look(study._storage).values()
    assert list(line.asks) == [*range(8 - presence.KEPT_ASKS, 8), 8]
    (stored,) = study._storage.get_study_system_attrs(study._study_id).values()
    assert Line.read(stored).past == (7 - presence.KEPT_ASKS,)


@pytest.mark.parametrize("past", [None, 5, "x", [None], [True, "1", 2.5], {"a": 1}])
def test_what_a_line_lets_go_may_be_anything(past: Any) -> None:
    line = Line.read({"by": ELSEWHERE, "count": 1, "asks": {}, "past": past})
    assert line is not None
    assert line.past == ()


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_that_ends_its_trial_and_then_itself_has_lost_nothing(
    lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does so after another worker has read the trials, and before that one looks who lives; a trial that was lost
    frees its draw, and one that ended does not."""

    def next_point(early: bool) -> dict[str, Any]:
        study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE))
        study.optimize(lambda t: bowl(t.suggest_float("x", -5.0, 10.0), t.suggest_float("y", 1.0, 4.0)), n_trials=2)
        storage, params = study._storage, {"x": 1.5, "y": 2.5}
        template = optuna.trial.create_trial(
            state=TrialState.RUNNING, params=params, distributions=dict(as_distributions(PLANE))
        )
        created = storage.create_new_trial(study._study_id, template)
        by = {**workers.signature(), "born": "1"}
        storage.set_study_system_attr(
            study._study_id, presence.LINE + "them", {"by": by, "count": 1, "asks": {"2": params}}
        )
        read, reads = storage.get_all_trials, []

        def end() -> None:
            if not lost and not reads:
                storage.set_trial_state_values(created, TrialState.COMPLETE, [bowl(**params)])
            reads.append(1)

        def read_and_end(*args: Any, **options: Any) -> Any:
            found = read(*args, **options)
            if options.get("states") is None:  # the reading of our sampler
                end()
            return found

        if early:
            end()
        monkeypatch.setattr(storage, "get_all_trials", read_and_end)
        return study.ask(as_distributions(PLANE)).params

    if not workers.signature()["place"]:
        pytest.skip("this system does not say which processes it shows")
    assert next_point(early=False) == next_point(early=True)


# ---------------------------------------------------------------- real namespaces

TUNE = """
import sys, time, warnings, optuna, regretless as rg
from regretless.doors.optuna.runner import tune_in_storage
optuna.logging.set_verbosity(40)
def f(x, k):
    open(sys.argv[2], "a").write(f"{x!r} {k!r}\\n")
    time.sleep(float(sys.argv[3]))
    return (x - 0.3) ** 2 + (k - 4) ** 2
tune_in_storage(f, {"x": rg.Float(0.1, 1), "k": rg.Int(2, 9)}, storage=sys.argv[1], study="s", trials=int(sys.argv[4]),
                seed=0, method="gp-ei", progress=False)
"""
OPTIMIZE = """
import sys, time, optuna, regretless as rg
optuna.logging.set_verbosity(40)
space = {"k": rg.Int(1, 400), "c": rg.Choice(["a", "b"])}
study = optuna.create_study(study_name="s", storage=sys.argv[1], load_if_exists=True,
                            sampler=rg.Sampler(seed=0, search_space=space, noisy=False))
def f(trial):
    k, c = trial.suggest_int("k", 1, 400), trial.suggest_categorical("c", ["a", "b"])
    time.sleep(float(sys.argv[3]))
    return (k - 70) ** 2 + (c == "a")
study.optimize(f, n_trials=int(sys.argv[4]))
"""


def can_unshare() -> bool:
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not can_unshare(), reason="needs the right to make PID namespaces")


def in_container(script: str, url: str, log: Path, seconds: float, trials: int, tmp: Path) -> subprocess.Popen[str]:
    """A worker that sees its own processes only, with the name of this host and a folder for temporary files of its
    own."""
    tmp.mkdir(exist_ok=True)
    command = [*UNSHARE, sys.executable, "-c", script, url, str(log), str(seconds), str(trials)]
    environment = {**os.environ, "TMPDIR": str(tmp)}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def ended(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors[-2000:]


@needs_namespaces
@pytest.mark.hostile
@pytest.mark.parametrize("shared", [True, False], ids=["one TMPDIR", "two of them"])
def test_two_containers_with_one_host_name_tune_one_study(shared: bool, tmp_path: Path) -> None:
    url, log, trials = f"sqlite:///{tmp_path}/s.db", tmp_path / "log", 16
    crowd = []
    for i in range(2):
        crowd.append(in_container(TUNE, url, log, 0.6, trials, tmp_path / ("tmp" if shared else f"tmp{i}")))
        time.sleep(2)
    for process in crowd:
        ended(process)
    seen = collections.Counter(log.read_text().splitlines())
    assert [n for n in seen.values() if n > 1] == []
    study = optuna.load_study(study_name="s", storage=url)
    assert (
        [t.state for t in study.trials] == [TrialState.COMPLETE] * trials == [TrialState.COMPLETE] * sum(seen.values())
    )


@needs_namespaces
@pytest.mark.hostile
def test_three_containers_optimize_one_study(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    optuna.create_study(study_name="s", storage=url)
    crowd = [in_container(OPTIMIZE, url, tmp_path, 0.8, 14, tmp_path / f"tmp{i}") for i in range(3)]
    for process in crowd:
        ended(process)
    points = collections.Counter(str(t.params) for t in optuna.load_study(study_name="s", storage=url).trials)
    assert sum(points.values()) == 42
    assert max(points.values()) == 1


@needs_namespaces
@pytest.mark.hostile
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_container_that_dies_or_stands_still_loses_nothing(end: signal.Signals, tmp_path: Path) -> None:
    """The next one waits for the lease to run out, and then finishes the trial under its own number; the one that stood
    still wakes up afterwards and adds nothing."""
    url, log, trials = f"sqlite:///{tmp_path}/s.db", tmp_path / "log", 6
    first = in_container(TUNE, url, log, 3, trials, tmp_path / "one")
    deadline = time.monotonic() + 60
    while not (log.exists() and len(log.read_text().splitlines()) >= 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(first.pid, end)
    ended(in_container(TUNE, url, log, 0.1, trials, tmp_path / "two"))
    study = optuna.load_study(study_name="s", storage=url)
    before = [(t.state, t.params, t.values) for t in study.trials]
    assert [state for state, _, _ in before] == [TrialState.COMPLETE] * trials
    whole = tune_in_storage(
        lambda x, k: (x - 0.3) ** 2 + (k - 4) ** 2, {"x": rg.Float(0.1, 1), "k": rg.Int(2, 9)}, storage=f"sqlite:///{tmp_path}/w.db",
        study="s", trials=trials, seed=0, method="gp-ei", progress=False,
    )  # fmt: skip
    assert [params for _, params, _ in before] == [t.params for t in whole.trials]
    if end == signal.SIGSTOP:
        os.killpg(first.pid, signal.SIGCONT)
        ended(first)
        after = [(t.state, t.params, t.values) for t in optuna.load_study(study_name="s", storage=url).trials]
        assert after == before
    else:
        first.communicate()
