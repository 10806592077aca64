"""Kills: whoever dies, and whenever, no trial is lost or doubled, nobody waits for the dead, and the points stay the
same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from processes import children

import regretless as rg
from regretless.doors.optuna.urls import open_storage

PRELUDE = """
import sys, time, math, optuna, regretless as rg
from regretless.doors.optuna.urls import open_storage
optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = {"lr": rg.Float(1e-5, 1e-1, log=True), "drop": rg.Float(0.1, 0.9), "k": rg.Int(2, 40)}
def bowl(lr, drop, k):
    time.sleep(0.02)
    return (math.log10(lr) + 3) ** 2 + (drop - 0.37) ** 2 + (k - 11) ** 2 / 400
"""
STUDY = (
    PRELUDE
    + """
study = optuna.create_study(storage=open_storage(sys.argv[1]), study_name="s", load_if_exists=True,
                            sampler=rg.Sampler("gp-ei", seed=3, budget=16,
                            search_space=SPACE if sys.argv[2] == "known" else None))
def objective(trial):
    return bowl(trial.suggest_float("lr", 1e-5, 1e-1, log=True), trial.suggest_float("drop", 0.1, 0.9),
    trial.suggest_int("k", 2, 40))
done = lambda: sum(t.state.name == "COMPLETE" for t in study.trials)
while done() < 16:
    study.optimize(objective, n_trials=1)
"""
)
TUNE = (
    PRELUDE
    + """
from regretless.doors.optuna.runner import tune_in_storage
if __name__ == "__main__":
    tune_in_storage(bowl, SPACE, storage=sys.argv[1], study="s", trials=int(sys.argv[2]), workers=int(sys.argv[3]),
                    method="gp-ei", seed=3, progress=False)
"""
)


def start(script: str, folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    file = folder / "script.py"
    file.write_text(script)
    return subprocess.Popen([sys.executable, str(file), *arguments], stderr=subprocess.PIPE)


def completed(url: str) -> list[dict[str, object]]:
    study = optuna.load_study(study_name="s", storage=open_storage(url))
    return [t.params for t in study.trials if t.state == TrialState.COMPLETE]


def finish(process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    _, error = process.communicate(timeout=seconds)
    assert process.returncode == 0, error.decode()[-2000:]


@pytest.mark.parametrize("space", [pytest.param("known", marks=pytest.mark.slow), "unknown"])
def test_study_optimize_goes_on_with_the_same_points_after_a_kill(space: str, tmp_path: Path) -> None:
    whole = f"sqlite:///{tmp_path}/whole.db"
    finish(start(STUDY, tmp_path, whole, space))
    killed, rng = f"sqlite:///{tmp_path}/killed.db", random.Random(1)
    for kills in range(2):
        process, before = start(STUDY, tmp_path, killed, space), 0
        while process.poll() is None and before < 5 * (kills + 1):
            time.sleep(0.05 * rng.random())
            if (tmp_path / "killed.db").exists():
                try:
                    before = len(completed(killed))
                except (KeyError, ConnectionError, ValueError):
                    continue
        process.send_signal(signal.SIGKILL)
        process.wait()
    finish(start(STUDY, tmp_path, killed, space))
    assert completed(killed) == completed(whole)


def test_ten_killed_workers_hang_nobody_and_lose_nothing(tmp_path: Path) -> None:
    url, rng = f"sqlite:///{tmp_path}/s.db", random.Random(2)
    process = start(TUNE, tmp_path, url, "40", "4")
    kills, deadline = 0, time.monotonic() + 100
    while process.poll() is None and kills < 10 and time.monotonic() < deadline:
        time.sleep(0.3 + 0.5 * rng.random())
        workers = children(process.pid)
        if workers and (tmp_path / "s.db").exists():
            os.kill(rng.choice(workers), signal.SIGKILL)
            kills += 1
    finish(process)
    study = optuna.load_study(study_name="s", storage=open_storage(url))
    assert [t.number for t in study.trials] == list(range(40))
    assert all(t.state.is_finished() for t in study.trials)
    points = [tuple(t.params.values()) for t in study.trials if t.state == TrialState.COMPLETE]
    assert len(set(points)) == len(points) >= 40 - kills
    assert kills >= 3


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    process = start(TUNE, tmp_path, f"sqlite:///{tmp_path}/s.db", "100000", "2")
    deadline = time.monotonic() + 60
    while len(workers := children(process.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(workers) == 2
    time.sleep(3.0)  # they have begun to work
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers):
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in workers)


def test_four_that_start_at_once_on_a_fresh_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    for process in [start(TUNE, tmp_path, url, "12", "1") for _ in range(4)]:
        finish(process)
    points = [tuple(p.values()) for p in completed(url)]
    assert len(points) == len(set(points)) == 12


def test_eight_threads_share_an_optimizer() -> None:
    opt = rg.Optimizer({"x": rg.Float(-3, 7), "lr": rg.Float(1e-4, 1, log=True)}, method="random", seed=0)

    def work() -> None:
        for _ in range(50):
            trial = opt.ask()
            opt.tell(trial, trial.params["x"] ** 2)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opt.trials) == 400
    assert all(t.number == i and t.state == "done" for i, t in enumerate(opt.trials))
    assert len({t.unit.tobytes() for t in opt.trials}) == 400
