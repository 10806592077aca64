"""Optuna's door to bilevel tuning: a sampler that promotes, and objectives that continue where an earlier trial
stopped.

    sampler = BilevelSampler(space, budget_steps=10_000, folder="states", seed=0)

    def objective(trial):
        lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
        model, start = build(), sampler.start(trial)
        if start:
            model.load(sampler.checkpoint(trial) / f"{start}.safetensors")
        for step in range(start, sampler.horizon(trial)):
            train(model, lr)
            if (step + 1) % 100 == 0:
                trial.report(validation_loss(model), step + 1)
                if trial.should_prune(): raise optuna.TrialPruned
        model.save(sampler.checkpoint(trial) / f"{sampler.horizon(trial)}.safetensors")
        return validation_loss(model)

    optuna.create_study(sampler=sampler).optimize(objective)      # ends when the steps are spent

An Optuna trial cannot be reopened, so every stretch of training is a trial of its own; those of one run share their
parameters, their folder and the attribute "regretless:run". All decisions follow from the study's storage, so a study
goes on in another process, and workers can share one. The run of a pruned or failed trial is not promoted any more;
what it reported counts. A trial whose process died counts as under way until Optuna marks it as failed (heartbeats do
that).
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from regretless.auto import find_recipe
from regretless.bilevel.outer import Outer
from regretless.bilevel.result import RunRecord
from regretless.bilevel.schedule import Job, Run, plan
from regretless.doors.distributions import as_distributions, as_space
from regretless.method import Recipe
from regretless.parameters import Array
from regretless.space import SpaceLike

RUN, START, UNTIL, SEED, UNIT = (
    "regretless:run",
    "regretless:start",
    "regretless:until",
    "regretless:seed",
    "regretless:unit",
)
"""User attributes of a trial: the run it belongs to, its first and last training step, the run's seed and its point of
the cube."""
RACES = 8
"""Times a stretch is chosen again when another worker has taken the same at the same moment."""


class BilevelSampler(BaseSampler):
    """Splits a budget of training steps over the trials of an Optuna study that minimises a validation loss.

    Args:
        search_space: the hyper-parameters, as Optuna distributions or anything `regretless.Space` takes.
        budget_steps: training steps in all; the study is stopped when they are spent.
        folder: where the objective keeps its states, one folder per run.
        method: the outer method.
        seed: makes the study repeatable.
        rungs, final_share: the ladder; by default that of `plan`.
        scale, cap: as in `minimize_bilevel`.
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution] | SpaceLike,
        *,
        budget_steps: int,
        folder: str | Path,
        method: str | Recipe = "bilevel",
        seed: int | None = None,
        rungs: Sequence[int] | None = None,
        final_share: float | None = None,
        scale: Literal["auto", "log", "linear"] = "auto",
        cap: float | None = None,
    ) -> None:
        self.search_space = as_distributions(search_space)
        space = as_space(self.search_space)
        planned = plan(space, budget_steps=budget_steps).promotion
        self.schedule = dataclasses.replace(
            planned,
            rungs=planned.rungs if rungs is None else tuple(rungs),
            final_share=planned.final_share if final_share is None else final_share,
        )
        self.folder = Path(folder)
        self.seed = secrets.randbits(32) if seed is None else seed
        self.outer = Outer(
            space, find_recipe(method) if isinstance(method, str) else method, self.seed, self.schedule, scale, cap
        )

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
        return {name: d for name, d in self.search_space.items() if not d.single()}

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Chooses the stretch of training that this trial is, and writes it into its attributes."""
        self._raise_error_if_multi_objective(study)
        if study.direction != StudyDirection.MINIMIZE:
            raise ValueError("BilevelSampler minimises a validation loss: create the study with direction='minimize'")
        for _ in range(RACES):
            records, spent = self._known(study, trial)
            job = self.schedule.job([r.run for r in records.values()], spent) or Job(
                None, 1, "new"
            )  # a trial asked beyond the budget is a single step
            record = records[job.run] if job.run is not None else self._new(records, job.until)
            chosen = {
                RUN: record.number,
                START: record.steps,
                UNTIL: job.until,
                SEED: record.seed,
                UNIT: record.unit.tolist(),
            }
            for name, value in chosen.items():
                study._storage.set_trial_user_attr(trial._trial_id, name, value)
            earlier = [t for t in self._running(study, trial) if t.number < trial.number]
            if (record.number, record.steps) not in {(t.user_attrs[RUN], t.user_attrs[START]) for t in earlier}:
                return

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        unit = study._storage.get_trial(trial._trial_id).user_attrs[UNIT]
        return self.outer.space.decode(np.array(unit), self.outer.choices)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if param_distribution.single():
            return (
                param_distribution.choices[0]
                if isinstance(param_distribution, CategoricalDistribution)
                else param_distribution.low
            )  # type: ignore[attr-defined]
        raise ValueError(
            f"parameter {param_name!r} is not in the search space of this sampler; a run that is thawed must keep all its parameters"
        )

    def reseed_rng(self) -> None:
        """Nothing to do: draws are keyed on the number of the run."""

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        ended = any(t.number == trial.number for t in self._ended(study))  # Optuna stores the outcome after this hook
        spent = self._known(study, trial)[1] + (0 if ended else _steps(trial, state))
        if spent >= self.schedule.budget_steps and getattr(study._thread_local, "in_optimize_loop", False):
            study.stop()

    # -- what the storage knows

    def _ended(self, study: Study) -> list[FrozenTrial]:
        return [t for t in study.get_trials(deepcopy=False) if t.state.is_finished() and UNIT in t.user_attrs]

    def _running(self, study: Study, trial: FrozenTrial | None) -> list[FrozenTrial]:
        """Trials under way, other than `trial`; one that has not yet written all its attributes is not there yet."""
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return [t for t in running if UNIT in t.user_attrs and (trial is None or t.number != trial.number)]

    def _new(self, records: Mapping[int, RunRecord], until: int) -> RunRecord:
        """A new run: the outer method's proposal, away from the runs that have not reported yet."""
        known = [r for r in records.values() if r.run.ends or r.status == "failed"]
        waiting = [r.unit for r in records.values() if not r.run.ends and r.status != "failed"]
        return self._record(max(records, default=-1) + 1, self.outer.propose(known, until, waiting=waiting))

    def _record(self, number: int, unit: Array) -> RunRecord:
        return RunRecord(
            number, self.outer.space.decode(unit, self.outer.choices), unit, self.outer.run_seed(number), Run(number)
        )

    def _known(self, study: Study, trial: FrozenTrial | None) -> tuple[dict[int, RunRecord], int]:
        """The runs by number, as their trials tell them, and the steps spent."""
        records: dict[int, RunRecord] = {}
        spent = 0
        for t in sorted(
            [*self._ended(study), *self._running(study, trial)], key=lambda t: (t.user_attrs[RUN], t.number)
        ):
            number = t.user_attrs[RUN]
            if number not in records:
                records[number] = self._record(number, np.array(t.user_attrs[UNIT]))
            spent += _steps(t, t.state)
            _take(records[number], t)
        return records, spent


def _attributes(trial: Trial | FrozenTrial) -> dict[str, Any]:
    """A trial's attributes; a live trial's own copy is older than what the sampler has written."""
    return trial.user_attrs if isinstance(trial, FrozenTrial) else trial.storage.get_trial(trial._trial_id).user_attrs


def _steps(trial: FrozenTrial, state: TrialState) -> int:
    """The training steps a trial took, or is charged while it runs."""
    start, until = int(trial.user_attrs[START]), int(trial.user_attrs[UNTIL])
    if state in (TrialState.COMPLETE, TrialState.RUNNING):
        return until - start
    return max(0, (trial.last_step if trial.last_step is not None else start) - start)


def _take(record: RunRecord, trial: FrozenTrial) -> None:
    """Takes one stretch into the record of its run."""
    run = record.run
    run.curve += [
        (n, v if math.isfinite(v) else math.inf) for n, v in sorted(trial.intermediate_values.items()) if n > run.steps
    ]
    if trial.state == TrialState.COMPLETE:
        run.steps = int(trial.user_attrs[UNTIL])
        value = trial.values[0] if trial.values is not None and math.isfinite(trial.values[0]) else math.inf
        run.ends[run.steps] = value
        if not run.curve or run.curve[-1][0] < run.steps:
            run.curve.append((run.steps, value))
        run.thawable, record.status = math.isfinite(value), "ok" if math.isfinite(value) else "diverged"
    elif trial.state == TrialState.PRUNED:
        run.thawable, record.status = False, "finished"
        if trial.last_step is not None and run.curve:
            run.steps = int(trial.last_step)
            run.ends[run.steps] = run.curve[-1][1]
        elif not run.ends:
            record.status = "failed"
    elif trial.state == TrialState.FAIL:
        run.thawable, record.status = False, "failed"
    else:
        run.thawable = False  # under way: not to be taken by another worker
