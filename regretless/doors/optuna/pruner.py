"""A pruner for Optuna's studies that stops a trial when it has little chance to become the best.

Completed trials show what curves come to (`doors.curves`), and how far such forecasts are off. A trial is stopped at a
report when its probability of ending better than every completed trial is below `chance`. Where early reports say
little, the forecasts scatter, and nothing is stopped early.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from optuna.pruners import BasePruner
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.basics.options import in_range, whole_number
from regretless.doors.optuna.curves import Curves
from regretless.doors.optuna.trials import direction_of, ended_at, whole_study

CHANCE = 0.05
"""A trial that becomes the best with a smaller probability is stopped; one in twenty is the usual level of a test."""
COMPLETE = 4
"""Trials that must be complete before any is stopped: the fewest that leave two degrees of freedom for the scatter."""


class Pruner(BasePruner):
    """Stops a trial whose chance to end better than every completed trial is small, by the curves of those.

        study = optuna.create_study(sampler=rg.Sampler(seed=0), pruner=rg.Pruner())

    Args:
        chance: the probability below which a trial is stopped.
        complete: the number of trials that must be complete before any is stopped, at least 3: two trials always lie on
            a line.
        warmup: reports of a trial before this step stop nothing.
    """

    def __init__(self, chance: float = CHANCE, *, complete: int = COMPLETE, warmup: int = 0) -> None:
        in_range("(0, 1)", chance=chance)
        whole_number(3, complete=complete)
        self.chance, self.complete, self.warmup = chance, complete, warmup
        self._forget_caches()

    def __repr__(self) -> str:
        return f"Pruner({self.chance}, complete={self.complete}, warmup={self.warmup})"

    def __getstate__(self) -> dict[str, Any]:
        return {"chance": self.chance, "complete": self.complete, "warmup": self.warmup}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_caches()

    def _forget_caches(self) -> None:
        self._lock = threading.Lock()
        self._read: weakref.WeakKeyDictionary[BaseStorage, dict[int, tuple[int, Curves]]] = weakref.WeakKeyDictionary()

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Optuna's hook: whether the trial is to be stopped at its last report."""
        if trial.last_step is None or trial.last_step < self.warmup:
            return False
        with self._lock:
            count, curves = self._curves(whole_study(study))
        return count >= self.complete and curves.chance(trial) < self.chance

    def _curves(self, study: Study) -> tuple[int, Curves]:
        """How many trials of a study are complete, and their curves."""
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        kept = self._read.setdefault(study._storage, {})
        count, curves = kept.get(study._study_id, (-1, None))
        if count != len(done) or curves is None:
            curves = Curves(1.0 if direction_of(study) == "maximize" else -1.0)
            for t in sorted(done, key=ended_at):
                curves.add(t)
            kept[study._study_id] = len(done), curves
        return len(done), curves
