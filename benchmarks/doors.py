"""What Optuna's door costs: a trial through `Sampler` against the bare method plus Optuna's own work, in memory and
over SQLite.

One trial is ask, the suggestions and tell. The yardstick does the same work without a door: a bare method is asked and
told, and a study whose sampler gives back stored points stores the same trial. Both take turns trial by trial, so that
they meet the same machine; the time is CPU time, best of several runs, because the wall time over SQLite is mostly the
disk's. Any sampler that learns has to read the trials in the storage; the last column counts one such read as Optuna's
own work, the one before it does not.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import optuna
from optuna.samplers import BaseSampler

from regretless.auto import find_recipe
from regretless.doors.optuna.distributions import as_distributions
from regretless.doors.optuna.sampler import Sampler
from regretless.space import Space
from regretless.space.parameters import Float

METHODS = ("random", "gp-ucb", "gp-ei", "gp-threds", "ms-ucb")
LIMIT = 1.3
"""The ratio that the door must stay below."""
SPACE = Space({f"x{i}": Float(-5.0, 10.0) for i in range(3)})
TRIALS, RUNS = 40, 3


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print(
        f"{'storage':>8} {'method':>10} {'ms through':>11} {'bare':>7} {'Optuna':>7} {'a read':>7} {'ratio':>6} "
        f"{'with a read':>12}   (limit {LIMIT})"
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("memory", "sqlite"):
            for method in METHODS:
                runs = [
                    _one_run(method, None if kind == "memory" else f"sqlite:///{Path(folder)}/{method}{i}")
                    for i in range(RUNS)
                ]
                through, bare, own, read = 1e3 * np.min(runs, axis=0)
                ratios = f"{through / (bare + own):>6.2f} {through / (bare + own + read):>12.2f}"
                print(
                    f"{kind:>8} {method:>10} {through:>11.3f} {bare:>7.3f} {own:>7.3f} {read:>7.3f} {ratios}",
                    flush=True,
                )


class _Stored(BaseSampler):
    """Gives back what it is handed: all that is left is Optuna's own work."""

    def __init__(self) -> None:
        self.params: dict[str, float] = {}

    def infer_relative_search_space(self, study, trial):  # type: ignore[no-untyped-def]
        return as_distributions(SPACE)

    def sample_relative(self, study, trial, search_space):  # type: ignore[no-untyped-def]
        return self.params

    def sample_independent(self, study, trial, param_name, param_distribution):  # type: ignore[no-untyped-def]
        raise AssertionError(f"{param_name} is not in the common space")


def _one_run(method: str, url: str | None) -> tuple[float, float, float, float]:
    """CPU seconds per trial: through the door, of the bare method, of Optuna alone, and of one more read of all
    trials."""
    stored, recipe = _Stored(), find_recipe(method)
    ours = optuna.create_study(
        storage=url and f"{url}-ours.db", sampler=Sampler(method, seed=0, search_space=SPACE, budget=TRIALS)
    )
    theirs = optuna.create_study(storage=url and f"{url}-theirs.db", sampler=stored)
    bare = recipe.build(SPACE.cube(recipe.method.choices), seed=0, budget=TRIALS)
    spent = np.zeros(4)
    for _ in range(TRIALS):
        through = _timed(lambda: _one_trial(ours))
        asked = _timed(bare.ask)
        x = bare.pending[-1:]
        bare.forget(x)  # what a storage keeps is the decoded point
        stored.params = SPACE.decode(x[0], recipe.method.choices)
        x, y = SPACE.encode(stored.params, recipe.method.choices)[None], np.array([-_bowl(stored.params)])
        told = _timed(lambda x=x, y=y: bare.tell(x, y))
        spent += (
            through,
            asked + told,
            _timed(lambda: _one_trial(theirs)),
            _timed(lambda: theirs.get_trials(deepcopy=False)),
        )
    assert [t.params for t in ours.trials] == [t.params for t in theirs.trials], "both must have done the same work"
    return tuple(spent / TRIALS)  # type: ignore[return-value]


def _timed(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _one_trial(study: optuna.Study) -> None:
    trial = study.ask()
    study.tell(trial, _bowl({name: trial.suggest_float(name, -5.0, 10.0) for name in SPACE.names}))


def _bowl(params: dict[str, float]) -> float:
    return float(sum((value - 2.0) ** 2 for value in params.values()))
