"""A crowd on one study, in a process of its own: `python crowding.py URL SPACE WORKERS TRIALS KILLS`.

This process imports everything once and forks the workers; each works with `tune_in_storage` on the same study, as if
started by hand. So many of them as asked are killed at random moments. The survivors must end by themselves, with all
completed points distinct; what they leave is printed as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from typing import Any

import optuna
from killing import HUNG, ended, in_child, killed, started

import regretless as rg
from regretless.doors.optuna.runner import tune_in_storage
from regretless.doors.optuna.urls import open_storage, patiently

SPACES: dict[str, dict[str, Any]] = {
    "log and offset": {
        "lr": rg.Float(1e-5, 1e-1, log=True),
        "far": rg.Float(1e3, 1e3 + 0.7),
        "drop": rg.Float(0.1, 0.9),
    },
    "steps": {"s": rg.Float(0.05, 2.0, step=0.015), "t": rg.Float(-1e-3, 7e-3, step=1e-4), "u": rg.Float(1.1, 1.3)},
    "whole": {"n": rg.Int(3, 300, log=True), "m": rg.Int(-7, 500, step=3), "huge": rg.Int(0, 2**60, step=2**20)},
    "mixed": {"act": rg.Choice(["relu", "tanh", None]), "lr": rg.Float(3e-4, 0.7, log=True), "k": rg.Int(1, 12)},
}
GRACE = 20.0
"""Times longer than other lives may take: a crowd of 64 shares two cores."""


def objective(**params: Any) -> float:
    """Smooth, and over in a moment."""
    time.sleep(0.01)
    return sum((len(str(v)) if v is None or isinstance(v, str) else float(v)) for v in params.values()) % 1.0


def main() -> None:
    url, name, workers, trials, kills = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    rng = random.Random(workers + trials)

    def live() -> None:
        tune_in_storage(
            objective, SPACES[name], storage=url, study="crowd", trials=trials, method="gp-ucb", seed=1, progress=False
        )

    def done() -> int:
        study = patiently(lambda: optuna.load_study(study_name="crowd", storage=open_storage(url)))
        return len(study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)))

    crowd, dead = [started(live) for _ in range(workers)], 0
    deadline = time.monotonic() + GRACE * HUNG
    while dead < kills:
        time.sleep(rng.uniform(0.05, 0.5) if dead else 0.5)
        victim = rng.randrange(len(crowd))
        if ended(crowd[victim], 0):
            crowd.pop(victim)
            assert crowd, "the study was over before all kills were done; give it more trials"
            continue
        killed(crowd.pop(victim))
        dead += 1
    for pid in crowd:
        assert ended(pid, deadline - time.monotonic()), "a worker hung"
    if dead:  # what the last of the dead left is found by whoever comes next
        assert ended(started(live), GRACE * HUNG), "the worker that came last hung"

    def read() -> list[Any]:
        study = patiently(lambda: optuna.load_study(study_name="crowd", storage=open_storage(url)))
        return [[t.number, t.params, t.state.name] for t in study.trials]

    found = in_child(read)
    complete = [json.dumps(t[1], sort_keys=True) for t in found if t[2] == "COMPLETE"]
    assert [t[0] for t in found] == list(range(len(found)))
    assert all(t[2] == "COMPLETE" for t in found), [t for t in found if t[2] != "COMPLETE"]
    assert trials <= len(found) <= trials + workers, f"{len(found)} trials where {trials} were asked for"
    repeated = sorted({p for p in complete if complete.count(p) > 1})
    assert not repeated, f"{len(repeated)} points were evaluated more than once: {repeated[:5]}"
    print(json.dumps({"kills": dead, "complete": len(complete), "trials": len(found)}))


if __name__ == "__main__":
    main()
