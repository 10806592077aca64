"""Random programs, whole and interrupted: `python programs.py FIRST LAST` compares both bit for bit, prints each that
differs and ends with a count as JSON.

A program is a random space (`random_spaces`), a method, a budget, failures, noise, variances, probes, earlier
evaluations and a first setting, and one of the ways to run it in `WAYS`. The interrupted form is broken off at random
evaluations, by Ctrl-C or by SIGKILL in a forked child, and goes on from what is there.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

sys.path.insert(0, str(Path(__file__).parents[1] / "doors"))  # this file runs as a process of its own
sys.path.insert(0, str(Path(__file__).parent))
from killing import started
from postgres import PostgresServer, find_binaries, free_port
from random_spaces import random_space

import regretless as rg
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.optuna.urls import open_storage

METHODS = ["auto", "auto", "gp-ei", "gp-ucb", "gp-ts", "turbo", "random", "sobol", "ms-ucb", "cma-es"]
Told = list[Any]


@dataclass
class Program:
    """One random program; its values follow from the setting alone, so the order of evaluations says nothing."""

    number: int
    space: rg.Space
    method: str
    trials: int
    seed: int
    failing: float
    noise: float
    told: float
    probes: float
    jobs: int

    @classmethod
    def drawn(cls, number: int) -> Program:
        rng = random.Random(number)
        return cls(
            number, random_space(rng), rng.choice(METHODS), rng.randint(6, 18), rng.randrange(1000),
            rng.choice([0, 0, 0.15, 0.4]), rng.choice([0, 0, 0.05]), rng.choice([0, 0, 0.5, 1]),
            rng.choice([0.0, 0.0, 0.3]), rng.randint(2, 4),
        )  # fmt: skip

    def rng_of(self, params: dict[str, Any]) -> random.Random:
        text = repr(sorted((name, repr(v)) for name, v in params.items())) + str(self.number)
        return random.Random(hashlib.blake2b(text.encode()).digest())

    def value(self, params: dict[str, Any]) -> rg.Value:
        rng = self.rng_of(params)
        if rng.random() < self.failing:
            if rng.random() < 0.3:
                return rg.Value(math.nan)
            raise ValueError("bad \udcff \x00 thing")
        total = self.noise * rng.uniform(-1, 1)
        for name, v in params.items():
            p = self.space.parameters[name]
            if isinstance(p, rg.Choice):
                total += 0.3 * [repr(label) for label in p.labels].index(repr(v))
            else:
                u = p.to_unit(v)
                total += 3 * (u - 0.37) ** 2 + 0.2 * math.sin(9 * u)
        return rg.Value(total, var=0.01 * rng.random()) if rng.random() < self.told else rg.Value(total)

    def options(self) -> dict[str, Any]:
        return {"trials": self.trials, "method": self.method, "seed": self.seed, "probes": self.probes,
                "max_failures": math.inf, "progress": False}  # fmt: skip


class Broken:
    """The objective of a program, which ends its life at some of its calls; it counts in a file, across lives."""

    def __init__(self, program: Program, folder: Path | None = None, at: set[int] | None = None, end: str = "") -> None:
        self.program, self.at, self.end = program, at or set(), end
        self.log = None if folder is None else folder / "evaluations"

    def __call__(self, /, **params: Any) -> rg.Value:
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(json.dumps(sorted((name, repr(v)) for name, v in params.items())) + "\n")
            calls = len(self.log.read_text().splitlines())
            if calls in self.at and self.end == "ctrl-c":
                raise KeyboardInterrupt
            if calls in self.at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.program.value(params)


def trials_of(trials: Any) -> Told:
    return [[t.number, repr(sorted(t.params.items())), t.state, repr(t.value), repr(t.var)] for t in trials]


def study_of(study: optuna.Study) -> Told:
    return [[t.number, repr(sorted(t.params.items())), t.state.name, repr(t.values)] for t in study.trials]


def breaks(program: Program) -> set[int]:
    rng = random.Random(f"breaks {program.number}")
    return set(rng.sample(range(1, program.trials + 1), rng.randint(1, 3)))


def lives(live: Callable[[], Any]) -> None:
    """Lives in forked children until one comes to its end; the others were killed."""
    for _ in range(10):
        _, status = os.waitpid(started(live), 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "a life ended with an exception (above)"
            return
    raise AssertionError("ten lives were not enough")


# ---------------------------------------------------------------- ways to run a program


def by_interrupts(program: Program, folder: Path) -> tuple[Told, Told]:
    """`minimize` with a checkpoint and Ctrl-C."""
    whole = rg.minimize(Broken(program), program.space, **program.options())
    broken = Broken(program, folder, breaks(program), "ctrl-c")
    for _ in range(10):
        part = rg.minimize(broken, program.space, checkpoint=folder / "run", **program.options())
        if not part.message.startswith("interrupted"):
            break
    said = [repr(whole.params), repr(whole.value), str(whole.certificate)]
    return [said, *trials_of(whole.trials)], [[repr(part.params), repr(part.value), str(part.certificate)],
                                              *trials_of(part.trials)]  # fmt: skip


def by_kills(program: Program, folder: Path) -> tuple[Told, Told]:
    """`minimize` with a checkpoint and SIGKILL."""
    whole = rg.minimize(Broken(program), program.space, **program.options())
    broken = Broken(program, folder, breaks(program))
    lives(lambda: rg.minimize(broken, program.space, checkpoint=folder / "run", **program.options()))
    return trials_of(whole.trials), trials_of(rg.Optimizer.load(folder / "run").trials)


def by_storage(program: Program, folder: Path, url: str, read: str = "") -> tuple[Told, Told]:
    """`tune_in_storage` and SIGKILL; `read`: where the study can be read, if not there."""
    name = f"s{program.number}"
    options = program.options() | {"study": name}
    whole = tune_in_storage(Broken(program), program.space, storage=optuna.storages.InMemoryStorage(), **options)
    broken = Broken(program, folder, breaks(program))
    lives(lambda: tune_in_storage(broken, program.space, storage=url, **options))
    return study_of(whole), study_of(optuna.load_study(study_name=name, storage=open_storage(read or url)))


@functools.cache
def postgres() -> PostgresServer:
    """A server for the programs of this process."""
    server = PostgresServer(find_binaries() or Path())
    atexit.register(server.close)
    return server


PROXY = """
import sys, optuna
optuna.storages.run_grpc_proxy_server(optuna.storages.get_storage(sys.argv[1]), host="localhost", port=int(sys.argv[2]))
"""


@functools.cache
def proxy() -> tuple[str, str]:
    """The URLs of a gRPC proxy and of the SQLite storage behind it: a process that speaks gRPC had better not fork."""
    folder, port = tempfile.mkdtemp(), free_port()
    url = f"sqlite:///{folder}/s.db"
    process = subprocess.Popen([sys.executable, "-c", PROXY, url, str(port)], stderr=subprocess.DEVNULL)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(process.kill)
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                break
        time.sleep(0.1)
    return f"grpc://localhost:{port}", url


def by_asks(program: Program, folder: Path) -> tuple[Told, Told]:
    """Ask and tell with fixed parameters and several asks at once, kept and saved after every step."""
    found = []
    for saves in (False, True):
        rng = random.Random(f"asks {program.number}")
        opt = rg.Optimizer(program.space, program.method, seed=program.seed, budget=program.trials)
        while len(opt.trials) < program.trials:
            free = [n for n in program.space.names if n not in program.space.conditional]
            if rng.random() < 0.4 and not program.space.where:
                name = rng.choice(free)
                opt.ask(fixed={name: program.space.parameters[name].from_unit(rng.random())})
            else:
                opt.ask(rng.randint(1, 3))
            for trial in rng.sample(opt.pending, rng.randint(0, len(opt.pending))):
                try:
                    told = program.value(trial.params)
                    opt.tell(trial, told.value, var=told.var)
                except ValueError:
                    opt.tell(trial, failed=True)
            if saves:
                opt.save(folder / "asked")
                opt = rg.Optimizer.load(folder / "asked")
        found.append(trials_of(opt.trials))
    return found[0], found[1]


def by_pruned_study(program: Program, folder: Path) -> tuple[Told, Told]:
    """An Optuna study with trials that are pruned or fail: one sampler, or a file and a new one for each trial."""

    def objective(trial: optuna.Trial) -> float:
        params: dict[str, Any] = {}
        space = program.space
        for name in [*(n for n in space.names if n not in space.conditional), *space.conditional]:
            if space.active(params)[name]:
                params[name] = suggested(trial, name, space.parameters[name])
        value, rng = program.value(params).value, program.rng_of(params)
        for step in range(3):
            trial.report(value + 1 / (step + 1), step)
            if rng.random() < 0.1:
                raise optuna.TrialPruned
        return value

    def study(storage: Any) -> optuna.Study:
        sampler = rg.Sampler(program.method, seed=program.seed, search_space=program.space, budget=program.trials,
                             probes=program.probes)  # fmt: skip
        return optuna.create_study(storage=storage, study_name="s", load_if_exists=True, sampler=sampler)

    whole, url = study(None), f"sqlite:///{folder}/s.db"
    whole.optimize(objective, n_trials=program.trials, catch=ValueError)
    for _ in range(program.trials):
        study(url).optimize(objective, n_trials=1, catch=ValueError)
    return study_of(whole), study_of(study(url))


def suggested(trial: optuna.Trial, name: str, p: Any) -> Any:
    from regretless.doors.optuna.distributions import as_distributions

    return trial._suggest(name, as_distributions({name: p})[name])


def by_jobs(program: Program, folder: Path) -> tuple[Told, Told]:
    """`minimize` with several threads and SIGKILL: their order is nobody's, so each trial must have been evaluated, and
    a kill may repeat no more than what was under way."""
    broken = Broken(program, folder, breaks(program))
    lives(lambda: rg.minimize(broken, program.space, checkpoint=folder / "run", n_jobs=program.jobs,
                              **program.options()))  # fmt: skip
    assert broken.log is not None
    trials, seen = rg.Optimizer.load(folder / "run").trials, broken.log.read_text().splitlines()
    own = [json.dumps(sorted((name, repr(v)) for name, v in t.params.items())) for t in trials]
    most = len(own) + len(broken.at) * program.jobs
    return [[], True, "pending"], [sorted(set(own) - set(seen)), len(seen) <= most,
                                   "pending" if all(t.state != "pending" for t in trials) else "left"]  # fmt: skip


WAYS: dict[str, Callable[[Program, Path], tuple[Told, Told]]] = {
    "interrupts": by_interrupts, "kills": by_kills, "asks": by_asks, "pruned": by_pruned_study, "jobs": by_jobs,
    "sqlite": lambda program, folder: by_storage(program, folder, f"sqlite:///{folder}/s.db"),
    "journal": lambda program, folder: by_storage(program, folder, f"journal:{folder}/s.log"),
    "grpc": lambda program, folder: by_storage(program, folder, *proxy()),
}  # fmt: skip
if find_binaries() is not None:
    WAYS["postgresql"] = lambda program, folder: by_storage(program, folder, postgres().url(f"p{program.number}"))


def compared(number: int) -> str:
    """What came of a program: "ok", or how its two forms differ."""
    way = list(WAYS)[number % len(WAYS)]
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = WAYS[way](Program.drawn(number), Path(folder))
    if whole == broken:
        return "ok"
    first = next((pair for pair in zip(whole, broken, strict=False) if pair[0] != pair[1]), (len(whole), len(broken)))
    return f"{way}: {first}"


def main() -> None:
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    count: Counter[str] = Counter()
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        said = compared(number)
        count["ok" if said == "ok" else "different"] += 1
        if said != "ok":
            print(number, Program.drawn(number), said, flush=True)
    print(json.dumps(count))


if __name__ == "__main__":
    main()
