"""Kills by the hundred, in a process of its own: `python killing.py DOOR KILLS SEED FOLDER [URL]`.

This process imports everything once, has a single thread and forks a child for every life of a run, so that a life
costs a tenth of a second instead of seconds. A life is ended by SIGKILL at a random moment; the next one goes on from
what is there. When a run has come to its end it is compared with one that nobody disturbed. The first law that is
broken ends the process with its traceback; otherwise it prints the number of kills as JSON.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import random
import signal
import sys
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna

sys.path.insert(0, str(Path(__file__).parents[1]))  # this file runs as a process of its own
from processes import children

import regretless as rg
from regretless.auto import others
from regretless.bilevel import Bilevel, minimize_bilevel
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.optuna.urls import open_storage, patiently

HUNG = 120.0
"""Seconds after which a life that nobody kills counts as hung; none needs more than a few."""
SPACE = {
    "lr": rg.Float(1e-5, 1e-1, log=True),
    "far": rg.Float(1e3, 1e3 + 0.7),
    "k": rg.Int(-7, 50, step=3),
    "act": rg.Choice(["relu", "tanh", "gelu"]),
}
"""A log scale, an odd offset, steps and labels."""
METHODS = {**rg.METHODS, **rg.CLASSICS, **others()}
REPEATING = {"stay-at-best", "igp-ucb", "adaptive-discretization", "grid-ei", "grid-pi", "neural-bo", "tangent-region"}
"""Methods that evaluate a setting again of their own accord, on grids and at borders, also when nobody is killed."""


class Logged:
    """A bowl that writes every evaluation to a file before it answers."""

    def __init__(self, path: Path, seconds: float = 0.001) -> None:
        self.path, self.seconds = str(path), seconds

    def __call__(self, **params: Any) -> float:
        time.sleep(self.seconds)
        value = (math.log10(params["lr"]) + 3) ** 2 + (params["far"] - 1e3 - 0.3) ** 2 + (params["k"] - 11) ** 2 / 400
        value += {"relu": 0.2, "tanh": 0.0, "gelu": 0.4}[params["act"]]
        descriptor = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(descriptor, (json.dumps(params, sort_keys=True) + "\n").encode())
        os.close(descriptor)
        return value

    def evaluated(self) -> list[str]:
        return Path(self.path).read_text().splitlines() if Path(self.path).exists() else []


def points(params: list[dict[str, Any]]) -> list[str]:
    """Settings as the log writes them."""
    return [json.dumps(p, sort_keys=True) for p in params]


# ---------------------------------------------------------------- lives


def started(live: Callable[[], Any]) -> int:
    """Forks a child that does its work and ends; returns its process number."""
    pid = os.fork()
    if pid:
        return pid
    try:
        live()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def ended(pid: int, seconds: float) -> bool:
    """Whether a child has come to its end within the time; one that failed ends this process too."""
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            assert os.WIFEXITED(status), f"a life that nobody killed ended with status {status}"
            assert os.WEXITSTATUS(status) == 0, "a life ended with an exception (above)"
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(min(0.002, max(deadline - time.monotonic(), 0.0)))


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def in_child(call: Callable[[], Any]) -> Any:
    """What a call gives, as plain values, without leaving threads or connections in this process."""
    reader, writer = os.pipe()

    def live() -> None:
        with os.fdopen(writer, "w") as file:
            json.dump(call(), file)

    pid = started(live)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    assert ended(pid, HUNG), "reading what a run left behind hung"
    return json.loads(text)


# ---------------------------------------------------------------- doors


class Door(ABC):
    """One run: how it lives, and what must be true of it after deaths and at its end."""

    def __init__(self, folder: Path, number: int, url: str) -> None:
        self.folder, self.number, self.url = folder, number, url
        self.whole_log, self.log = Logged(folder / "whole.log"), Logged(folder / "killed.log")

    @abstractmethod
    def whole(self) -> None:
        """The run that nobody disturbs."""

    @abstractmethod
    def live(self) -> None:
        """One life of the run that is killed."""

    def after_kill(self) -> None:  # noqa: B027 - most doors have nothing to look at
        """What must hold whenever a life was ended."""

    @abstractmethod
    def check(self, kills: int) -> None:
        """What must hold at the end."""

    def check_evaluations(self, expected: list[str], kills: int, jobs: int = 1) -> None:
        """Every point of the run was evaluated, nothing else was, and a kill repeats what was under way, no more."""
        seen = self.log.evaluated()
        assert set(seen) == set(expected), "an evaluation was lost, or repeated at another point"
        assert len(seen) - len(expected) <= kills * jobs, (len(seen), len(expected), kills)


class Checkpoint(Door):
    """`minimize(checkpoint=)`, every method in turn."""

    jobs, trials = 1, 18

    def __init__(self, folder: Path, number: int, url: str) -> None:
        super().__init__(folder, number, url)
        self.method = list(METHODS)[number % len(METHODS)]
        self.space = {**SPACE} if self.fits(SPACE) else {"lr": SPACE["lr"], "far": SPACE["far"]}
        self.told: dict[int, Any] = {}

    def fits(self, space: dict[str, Any]) -> bool:
        cls = METHODS[self.method].method
        return rg.Space(space).cube(cls.traits.choices).dim <= cls.traits.max_dim

    def run(self, log: Logged, file: str) -> None:
        constant = {name: p for name, p in {"k": 5, "act": "relu"}.items() if name not in self.space}

        def objective(lr: float, far: float, k: int = 5, act: str = "relu") -> float:
            given = {"lr": lr, "far": far, "k": k, "act": act} | constant
            return log(**given)

        rg.minimize(objective, self.space, trials=self.trials, method=self.method, seed=self.number, n_jobs=self.jobs,
                    checkpoint=self.folder / file, progress=False)  # fmt: skip

    def whole(self) -> None:
        self.run(self.whole_log, "whole.npz")

    def live(self) -> None:
        self.run(self.log, "killed.npz")

    def stored(self, file: str) -> list[Any]:
        path = self.folder / file
        if not path.exists():
            return []

        def read() -> list[Any]:
            trials = rg.Optimizer.load(path).trials
            return [[t.number, t.params, t.value, t.state] for t in trials]

        return in_child(read)

    def after_kill(self) -> None:
        now = {n: [params, value] for n, params, value, state in self.stored("killed.npz") if state == "done"}
        assert all(now.get(n) == t for n, t in self.told.items()), "a checkpoint lost a trial that an older one had"
        self.told = now

    def check(self, kills: int) -> None:
        trials = self.stored("killed.npz")
        assert [t[0] for t in trials] == list(range(self.trials))
        assert all(t[3] == "done" for t in trials)
        fixed = {"k": 5, "act": "relu"}
        self.check_points(trials, points([fixed | t[1] for t in trials]), kills)
        assert not list(self.folder.glob(".*.tmp")), "temporary files of the dead were left behind"

    def check_points(self, trials: list[Any], expected: list[str], kills: int) -> None:
        assert trials == self.stored("whole.npz"), f"{self.method}: other points than the undisturbed run"
        self.check_evaluations(expected, kills)


class ParallelCheckpoint(Checkpoint):
    """The same with four evaluations at once, whose order nobody can know: no trial is lost, none is doubled."""

    jobs = 4

    def check_points(self, trials: list[Any], expected: list[str], kills: int) -> None:
        if self.method not in REPEATING:
            assert len(set(expected)) == len(expected), f"{self.method}: a point was evaluated as two trials"
        assert set(expected) <= set(self.log.evaluated())
        assert len(self.log.evaluated()) - len(expected) <= kills * self.jobs


class Storage(Door):
    """`tune_in_storage`, one worker."""

    trials = 14

    def tune(self, log: Logged, storage: Any, **options: Any) -> optuna.Study:
        method = ("sobol", "gp-ei", "turbo", "random")[self.number % 4]
        return tune_in_storage(log, SPACE, storage=storage, study=f"s{self.number}", trials=self.trials, method=method,
                               seed=self.number, progress=False, **options)  # fmt: skip

    def whole(self) -> None:
        self.tune(self.whole_log, optuna.storages.InMemoryStorage())

    def live(self) -> None:
        self.tune(self.log, self.url)

    def after_kill(self) -> None:
        """Optuna's lock of a journal has no owner: who finds one of the dead waits for half a minute, whatever the time
        it was held. Of ten such locks nine are removed here, to spend the time on kills; one is waited for."""
        lock = Path(f"{self.url.removeprefix('journal:')}.lock")
        if self.url.startswith("journal:") and lock.is_symlink():
            self.locks = getattr(self, "locks", 0) + 1
            if self.locks % 10:
                lock.unlink()

    def stored(self) -> list[Any]:
        def read() -> list[Any]:
            study = patiently(lambda: optuna.load_study(study_name=f"s{self.number}", storage=open_storage(self.url)))
            return [[t.number, t.params, t.state.name] for t in study.trials]

        return in_child(read)

    def check(self, kills: int) -> None:
        trials = self.stored()
        assert [t[0] for t in trials] == list(range(self.trials))
        assert all(t[2] == "COMPLETE" for t in trials), trials
        assert points([t[1] for t in trials]) == self.whole_log.evaluated(), "other points than the undisturbed run"
        self.check_evaluations(self.whole_log.evaluated(), kills)


class FreshStorage(Storage):
    """The same on a database that is made anew for every run, so that kills also fall into the making of its tables."""

    def __init__(self, folder: Path, number: int, url: str) -> None:
        super().__init__(folder, number, url.replace("FOLDER", str(folder)))


class PlainStudy(Storage):
    """`study.optimize` with our sampler, with a known search space and without."""

    def optimize(self, log: Logged, storage: Any) -> None:
        sampler = rg.Sampler(
            "gp-ei", seed=self.number, budget=self.trials, search_space=SPACE if self.number % 2 else None
        )
        study = optuna.create_study(storage=storage, study_name=f"s{self.number}", load_if_exists=True, sampler=sampler)

        def objective(trial: optuna.Trial) -> float:
            return log(
                lr=trial.suggest_float("lr", 1e-5, 1e-1, log=True),
                far=trial.suggest_float("far", 1e3, 1e3 + 0.7),
                k=trial.suggest_int("k", -7, 50, step=3),
                act=trial.suggest_categorical("act", ["relu", "tanh", "gelu"]),
            )

        while len(study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))) < self.trials:
            study.optimize(objective, n_trials=1)

    def whole(self) -> None:
        self.optimize(self.whole_log, optuna.storages.InMemoryStorage())

    def live(self) -> None:
        self.optimize(self.log, open_storage(self.url))

    def check(self, kills: int) -> None:
        done = [t[1] for t in self.stored() if t[2] == "COMPLETE"]
        assert points(done) == self.whole_log.evaluated(), "other points than the undisturbed run"
        self.check_evaluations(self.whole_log.evaluated(), kills)


class BilevelFolder(Door):
    """`minimize_bilevel` in a folder."""

    def study(self, folder: Path | None) -> Any:
        def init(params: dict[str, Any], seed: int) -> dict[str, Any]:
            rng = np.random.default_rng(seed)
            return {"theta": np.full(2, params["start"]), "rate": params["rate"], "rng": rng}

        def step(state: dict[str, Any]) -> dict[str, Any]:
            time.sleep(0.0005)
            noise = 0.3 * state["rng"].standard_normal(2)
            state["theta"] = state["theta"] - state["rate"] * (state["theta"] - 2.0 + noise)
            return state

        problem = Bilevel(init, step, lambda state: float(((state["theta"] - 2.0) ** 2).mean()) + 0.05)
        space = {"rate": rg.Float(0.01, 0.9, log=True), "start": rg.Float(-4.0, 8.0)}
        method = ("random", "bilevel")[self.number % 2]
        result = minimize_bilevel(problem, space, budget_steps=120, seed=self.number, method=method, keep=5,
                                  progress=False, folder=folder, snapshot_seconds=0.002)  # fmt: skip
        runs = [[r.params, r.steps, r.curve, r.status, r.thawable] for r in result.runs]
        return result.params, result.value, result.state["theta"].tolist(), result.steps, runs

    def whole(self) -> None:
        (self.folder / "whole.json").write_text(json.dumps(self.study(None)))

    def live(self) -> None:
        self.study(self.folder / "study")

    def check(self, kills: int) -> None:
        found = in_child(lambda: self.study(self.folder / "study"))
        assert found == json.loads((self.folder / "whole.json").read_text()), (
            "another result than the undisturbed study"
        )


DOORS: dict[str, type[Door]] = {
    "checkpoint": Checkpoint,
    "parallel": ParallelCheckpoint,
    "storage": Storage,
    "fresh": FreshStorage,
    "study": PlainStudy,
    "bilevel": BilevelFolder,
}


def attack(door: type[Door], kills: int, seed: int, folder: Path, url: str) -> dict[str, float]:
    """Kills lives of run after run until there were enough kills; every run ends with a life that nobody kills."""
    rng, done, run, longest = random.Random(seed), 0, 0, 0.0
    while done < kills:
        (folder / str(run)).mkdir(parents=True)
        here = door(folder / str(run), seed + run, url)
        begin = time.monotonic()
        assert ended(started(here.whole), HUNG), "an undisturbed run hung"
        whole, deaths = time.monotonic() - begin, 0
        while done < kills:
            pid = started(here.live)
            if ended(pid, rng.uniform(0, whole * (0.3 + 0.1 * deaths))):  # ever longer lives: the run ends
                break
            killed(pid)
            done, deaths = done + 1, deaths + 1
            here.after_kill()
        begin = time.monotonic()
        assert ended(started(here.live), HUNG), f"a life that nobody killed hung, after {deaths} kills of run {run}"
        longest = max(longest, time.monotonic() - begin)
        here.check(deaths)
        run += 1
    return {"kills": done, "runs": run, "longest": longest}


# ---------------------------------------------------------------- workers of one run


def attack_workers(kills: int, seed: int, folder: Path, url: str, *, spawn: bool) -> dict[str, float]:
    """`tune_in_storage` with four workers, which are killed one by one; they are forked unless spawn, to cost less."""
    rng, done, run = random.Random(seed), 0, 0
    trials, at_once = (40, 10) if spawn else (60, 30)
    if not spawn:
        fork = multiprocessing.get_context("fork")
        multiprocessing.get_context = lambda method=None: fork  # type: ignore[assignment]
    while done < kills:
        (folder / str(run)).mkdir(parents=True)
        storage, log = url.replace("FOLDER", str(folder / str(run))), Logged(folder / str(run) / "log", 0.02)

        def live(storage: str = storage, log: Logged = log, run: int = run) -> None:
            tune_in_storage(
                log,
                SPACE,
                storage=storage,
                study=f"w{seed}-{run}",
                trials=trials,
                workers=4,
                method="gp-ei",
                seed=run,
                progress=False,
            )

        parent, deaths, deadline = started(live), 0, time.monotonic() + HUNG
        while not ended(parent, rng.uniform(0.3, 0.8) if spawn else rng.uniform(0.02, 0.25)):
            assert time.monotonic() < deadline, f"the run hung after {deaths} of its workers were killed"
            workers = children(parent)
            if workers and deaths < at_once and done < kills and log.evaluated():
                os.kill(rng.choice(workers), signal.SIGKILL)
                done, deaths = done + 1, deaths + 1

        def read(storage: str = storage, run: int = run) -> list[Any]:
            study = optuna.load_study(study_name=f"w{seed}-{run}", storage=open_storage(storage))
            return [[t.number, t.params, t.state.name] for t in study.trials]

        found = in_child(read)
        assert [t[0] for t in found] == list(range(trials))
        assert {t[2] for t in found} <= {"COMPLETE", "FAIL"}
        complete = points([t[1] for t in found if t[2] == "COMPLETE"])
        assert len(set(complete)) == len(complete), "two workers completed the same point"
        assert len(complete) >= trials - deaths // 2, "a trial fails only when it was killed twice"
        assert set(complete) <= set(log.evaluated())
        run += 1
    return {"kills": done, "runs": run}


def main() -> None:
    name, kills, seed, folder, url = [*sys.argv[1:], ""][:5]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("error")
    for warning in (DeprecationWarning, FutureWarning, optuna.exceptions.ExperimentalWarning):
        warnings.simplefilter("ignore", warning)
    warnings.filterwarnings("ignore", "GP-ThreDS in")  # advice on the dimension, which is beside the point here
    if name in ("workers", "spawned"):
        out = attack_workers(int(kills), int(seed), Path(folder), url, spawn=name == "spawned")
    else:
        for recipe in METHODS.values() if issubclass(DOORS[name], Checkpoint) else ():
            recipe.method  # noqa: B018 - imported before the first fork
        out = attack(DOORS[name], int(kills), int(seed), Path(folder), url)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
