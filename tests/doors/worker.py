"""A worker in a process of its own: opens a study, does some trials, leaves. Also the objectives that tests and workers
share."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from typing import Any

import optuna

from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.optuna.sampler import Sampler
from regretless.doors.optuna.urls import open_storage
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int

SPACE = Space(
    {"x": Float(-5.0, 10.0), "lr": Float(1e-5, 1e-1, log=True), "k": Int(1, 8), "kind": Choice(["a", "b", "c"])}
)
"""A mixed space off zero, uneven and with a log scale."""
STORAGES = ["sqlite", "journal", "postgresql", "grpc"]
"""Every kind of storage that several processes can share."""
PLANE = Space({"x": Float(-5.0, 10.0), "y": Float(1.0, 4.0)})


def mixed(x: float, lr: float, k: int, kind: str) -> float:
    return (x - 2) ** 2 / 25 + (math.log10(lr) + 3) ** 2 + 0.1 * abs(k - 5) + {"a": 0.3, "b": 0.0, "c": 0.6}[kind]


def bowl(x: float, y: float) -> float:
    return ((x - 3.3) / 15) ** 2 + ((y - 1.9) / 3) ** 2


def mixed_trial(trial: optuna.Trial) -> float:
    return mixed(
        x=trial.suggest_float("x", -5.0, 10.0),
        lr=trial.suggest_float("lr", 1e-5, 1e-1, log=True),
        k=trial.suggest_int("k", 1, 8),
        kind=trial.suggest_categorical("kind", ["a", "b", "c"]),
    )


def bowl_trial(trial: optuna.Trial) -> float:
    return bowl(trial.suggest_float("x", -5.0, 10.0), trial.suggest_float("y", 1.0, 4.0))


class Logged:
    """The plane's bowl, which writes every evaluation to a file before it answers and takes a while."""

    def __init__(self, path: str, seconds: float) -> None:
        self.path, self.seconds = path, seconds

    def __call__(self, **params: Any) -> float:
        time.sleep(self.seconds)
        value = bowl(**params)
        with open(self.path, "a") as file:
            file.write(json.dumps({"pid": os.getpid(), "params": params, "value": value}) + "\n")
        return value


class Deadly:
    """Kills its worker on one side of the plane."""

    def __call__(self, x: float, y: float) -> float:
        if x > 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return bowl(x, y)


class Failing:
    def __call__(self, x: float, y: float) -> float:
        raise ZeroDivisionError("no luck")


def start_worker(storage: str, jobs: list[tuple[str, str]], trials: int, *more: str) -> subprocess.Popen[bytes]:
    """Runs this file as a process that works on (study, method) pairs of a storage."""
    return subprocess.Popen(
        [sys.executable, __file__, storage, json.dumps(jobs), "--trials", str(trials), *more], stderr=subprocess.PIPE
    )


def wait_for(worker: subprocess.Popen[bytes]) -> None:
    _, error = worker.communicate(timeout=240)
    assert worker.returncode == 0, error.decode()[-3000:]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("storage")
    parser.add_argument("jobs", help="JSON list of [study, method]")
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--objective", choices=["mixed", "bowl"], default="mixed")
    parser.add_argument("--tune-log", help="run `tune_in_storage` with an objective that logs to this file")
    parser.add_argument("--seconds", type=float, default=0.0)
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = open_storage(args.storage)
    for study_name, method in json.loads(args.jobs):
        if args.tune_log:
            tune_in_storage(
                Logged(args.tune_log, args.seconds),
                PLANE,
                storage=storage,
                study=study_name,
                trials=args.trials,
                method=method,
                seed=args.seed,
                progress=False,
            )
            continue
        study = optuna.load_study(study_name=study_name, storage=storage, sampler=Sampler(method, seed=args.seed))
        study.optimize(mixed_trial if args.objective == "mixed" else bowl_trial, n_trials=args.trials)


if __name__ == "__main__":
    main()
