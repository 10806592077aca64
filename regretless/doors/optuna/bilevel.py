"""Optuna's door to bilevel tuning: `BilevelSampler` decides which runs of an Optuna study are trained on, and how long.

    sampler = BilevelSampler(space, budget_steps=10_000, folder="states", seed=0)
    optuna.create_study(sampler=sampler).optimize(objective)      # ends when the steps are spent

The objective trains from `sampler.start(trial)` to `sampler.horizon(trial)` steps and keeps its states in
`sampler.checkpoint(trial)`; docs/how-to/steps-in-optuna.md has one. Optuna cannot reopen a trial, so a run that is
trained on gets another trial with the same parameters, the same folder and the same attribute "regretless:run". All
decisions follow from the study's storage, so a study can go on in another process and have several workers. A run whose
trial was pruned or failed is not trained on; what it reported counts. A trial whose process died counts as under way
until Optuna marks it as failed (heartbeats do that).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from regretless.bilevel.outer import Outer
from regretless.bilevel.run import TrainingRun
from regretless.bilevel.schedule import Job, promotion
from regretless.doors.optuna.distributions import as_distributions, as_space, only_value, own_space, searchable
from regretless.method import Recipe
from regretless.space import SpaceLike

RUN, START, UNTIL, SEED, UNIT = (f"regretless:{name}" for name in ("run", "start", "until", "seed", "unit"))
"""User attributes of a trial: the run, its first and last training step, the run's seed and its point of the cube."""


class BilevelSampler(BaseSampler):
    """Splits a budget of training steps over the trials of an Optuna study that minimises a validation loss.

    Args:
        search_space: the hyper-parameters, as Optuna distributions or anything `regretless.Space` takes.
        budget_steps: training steps in all; the study is stopped when they are spent.
        folder: where the objective keeps its states, one folder per run.
        method, seed, rungs, final_share, scale, cap: as in `minimize_bilevel`.
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution] | SpaceLike,
        *,
        budget_steps: int,
        folder: str | Path,
        method: str | Recipe | None = None,
        seed: int | None = None,
        rungs: Sequence[int] | None = None,
        final_share: float | None = None,
        scale: Literal["auto", "log", "linear"] = "auto",
        cap: float | None = None,
    ) -> None:
        self.search_space = as_distributions(search_space)
        space = own_space(search_space) or as_space(self.search_space)
        self.schedule = promotion(space, budget_steps, rungs, final_share)
        self.folder = Path(folder)
        self.seed = secrets.randbits(32) if seed is None else seed
        self.outer = Outer(space, method, self.seed, self.schedule, scale, cap)

    # -- for the objective

    def start(self, trial: Trial | FrozenTrial) -> int:
        """The training steps behind the state this trial continues; 0: a new run."""
        return int(_attributes(trial)[START])

    def horizon(self, trial: Trial | FrozenTrial) -> int:
        """The training steps this trial's run is to have taken when it returns."""
        return int(_attributes(trial)[UNTIL])

    def run_seed(self, trial: Trial | FrozenTrial) -> int:
        """A seed for the run: the same for all its trials."""
        return int(_attributes(trial)[SEED])

    def checkpoint(self, trial: Trial | FrozenTrial) -> Path:
        """The folder of the run's states, made when missing."""
        folder = self.folder / f"run-{int(_attributes(trial)[RUN]):05d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def steps_spent(self, study: Study) -> int:
        """Training steps of all trials, those under way counted in full."""
        return self._known(study, None)[1]

    # -- Optuna's hooks

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return searchable(self.search_space)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Chooses the stretch of training that this trial is, and writes it into its attributes."""
        self._raise_error_if_multi_objective(study)
        if study.direction != StudyDirection.MINIMIZE:
            raise ValueError("BilevelSampler minimises a validation loss: create the study with direction='minimize'")
        # 8: times a stretch is chosen again when another worker has taken the same at the same moment; two workers need
        # one
        for _ in range(8):
            runs, spent = self._known(study, trial)
            job = self.schedule.job(list(runs.values()), spent)
            job = job or Job(None, 1, "new")  # a trial asked beyond the budget is a single step
            if job.run is not None:
                run = runs[job.run]
            else:  # at the outer method's proposal, away from the runs that have not reported yet
                unit = self.outer.propose(list(runs.values()), job.until)
                run = self.outer.new_run(max(runs, default=-1) + 1, unit)
            chosen = {RUN: run.number, START: run.steps, UNTIL: job.until, SEED: run.seed, UNIT: run.unit.tolist()}
            for name, value in chosen.items():
                study._storage.set_trial_user_attr(trial._trial_id, name, value)
            running = [t for t in _signed(study) if t.state == TrialState.RUNNING and t.number < trial.number]
            if (run.number, run.steps) not in {(t.user_attrs[RUN], t.user_attrs[START]) for t in running}:
                return

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        unit = study._storage.get_trial(trial._trial_id).user_attrs[UNIT]
        found = self.outer.space.decode(np.array(unit), self.outer.choices)
        return {name: value for name, value in found.items() if name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if param_distribution.single():
            return only_value(param_distribution)
        raise ValueError(f"parameter {param_name!r} is not in the search space of this sampler, which runs must keep")

    def reseed_rng(self) -> None:
        """Nothing to do: draws are keyed on the number of the run."""

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        ended = any(t.number == trial.number and t.state.is_finished() for t in _signed(study))
        spent = self._known(study, trial)[1] + (0 if ended else _steps(trial, state))  # Optuna stores the outcome later
        if spent >= self.schedule.budget_steps and getattr(study._thread_local, "in_optimize_loop", False):
            study.stop()

    def _known(self, study: Study, trial: FrozenTrial | None) -> tuple[dict[int, TrainingRun], int]:
        """The runs by number, as the trials other than a running `trial` tell them, and the steps spent."""
        runs: dict[int, TrainingRun] = {}
        spent = 0
        trials = [t for t in _signed(study) if trial is None or t.number != trial.number or t.state.is_finished()]
        for t in sorted(trials, key=lambda t: (t.user_attrs[RUN], t.number)):
            number = t.user_attrs[RUN]
            if number not in runs:
                runs[number] = self.outer.new_run(number, np.array(t.user_attrs[UNIT]))
            spent += _steps(t, t.state)
            _add_trial(runs[number], t)
        return runs, spent


def _signed(study: Study) -> list[FrozenTrial]:
    """Trials that run or have ended; one that has not yet written all its attributes is not there yet."""
    return [t for t in study.get_trials(deepcopy=False) if UNIT in t.user_attrs and t.state != TrialState.WAITING]


def _attributes(trial: Trial | FrozenTrial) -> dict[str, Any]:
    """A trial's attributes; a live trial's own copy is older than what the sampler has written."""
    return trial.user_attrs if isinstance(trial, FrozenTrial) else trial.storage.get_trial(trial._trial_id).user_attrs


def _steps(trial: FrozenTrial, state: TrialState) -> int:
    """The training steps a trial took, or is charged while it runs."""
    start, until = int(trial.user_attrs[START]), int(trial.user_attrs[UNTIL])
    if state in (TrialState.COMPLETE, TrialState.RUNNING):
        return until - start
    return max(0, (trial.last_step if trial.last_step is not None else start) - start)


def _add_trial(run: TrainingRun, trial: FrozenTrial) -> None:
    """Takes one trial into its run, as one more stretch of training."""
    reported = sorted(trial.intermediate_values.items())
    curve = [(n, v if math.isfinite(v) else math.inf) for n, v in reported if n > run.steps]
    if trial.state == TrialState.COMPLETE:
        until = int(trial.user_attrs[UNTIL])
        value = trial.values[0] if trial.values is not None and math.isfinite(trial.values[0]) else math.inf
        curve = [*((n, v) for n, v in curve if n < until), (until, value)]
        run.add_stretch(curve, until, "ok" if math.isfinite(value) else "diverged")
    elif trial.state == TrialState.PRUNED:
        steps = curve[-1][0] if curve else run.steps
        run.add_stretch(curve, steps, "finished" if curve or run.ends else "failed")
    elif trial.state == TrialState.FAIL:
        run.add_stretch(curve, run.steps, "failed")
    else:
        run.thawable = False  # under way: not to be taken by another worker
