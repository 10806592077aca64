"""Trials of an Optuna study whose settings come from a `regretless serve`.

The service holds what is known and proposes; the study keeps its trials, its callbacks and its pruner. Each trial is a
client of its own, so that any number of threads, processes and studies may work for one study of the service.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.distributions import CategoricalDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.client import RemoteStudy, ServiceError
from regretless.doors.optuna.curves import Curves
from regretless.doors.optuna.distributions import Distributions, searchable
from regretless.doors.optuna.rules import constraints_of
from regretless.doors.optuna.trials import directions_of, ended_at, told_variance
from regretless.files.codec import MethodLike
from regretless.optimizer import Optimizer
from regretless.space import Space
from regretless.task import Task

SERVED = "regretless:served"
"""The system attribute of a trial that keeps which trial of the service it is, and at which setting."""


@dataclass
class Service:
    """The studies of a service as a sampler uses them: a study of Optuna has the one of its name.

    Args:
        url, token: where the service is, and what opens it.
        distributions: the parameters as Optuna knows them.
        space: the same as the service knows them; `labels`: with the labels of choices, not their positions.
        task: what is asked of every study, but for the space and the directions.
        seed: of every study; None: the service draws one.
        pruned, reference: see `Sampler`.
    """

    url: str
    token: str
    distributions: Distributions
    space: Space
    labels: bool
    task: Task
    seed: int | None
    method: MethodLike
    pruned: str
    reference: tuple[float | None, ...] = ()
    _begun: dict[str, RemoteStudy] = field(default_factory=dict)

    def propose(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        """The setting for a trial."""
        self._remote(study)
        own = RemoteStudy(self.url, study.study_name, token=self.token)
        asked = own.ask()[0]
        params = self._searched(asked["params"])
        served = {"number": asked["number"], "params": asked["params"]}
        study._storage.set_trial_system_attr(trial._trial_id, SERVED, served)
        return params

    def tell(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Tells what came of a trial."""
        served: Any = trial.system_attrs.get(SERVED)
        asked = None if served is None else self._searched(served["params"])
        if asked is None or {name: value for name, value in trial.params.items() if name in asked} != asked:
            warnings.warn(
                f"trial {trial.number} was evaluated at another setting than the service proposed, so the service is "
                "not told its value",
                RuntimeWarning,
                stacklevel=2,
            )
            if asked is not None:
                self._remote(study).forget(served["number"])
            return
        if constraints_of(trial):
            raise ValueError("a study of a service is told its constraints by RemoteStudy, not through rg.Sampler")
        found = self._pruned_value(study, trial) if state == TrialState.PRUNED else values
        if state == TrialState.PRUNED and found is None:
            return  # it stays under way, so that its setting is not proposed again
        facts: dict[str, Any] = {"error": "the evaluation failed"}
        if found is not None and all(map(math.isfinite, found)):
            variances = told_variance(trial, len(found))
            if not isinstance(variances, tuple):
                facts = {"value": found[0], "var": variances}
            elif None not in variances:
                facts = {"value": list(found), "var": list(variances)}
            else:
                facts = {"value": list(found)}
        try:
            self._remote(study).tell(served["number"], **facts)
        except ServiceError as error:
            if error.status != 409:  # another client was given the trial, because this one was silent for too long
                raise
            warnings.warn(f"the value of trial {trial.number} came too late: {error}", RuntimeWarning, stacklevel=2)

    def optimizer(self, study: Study) -> Optimizer:
        """The run of the service, with all that it knows."""
        return Optimizer.load(self._remote(study).export())

    def recommend(self, study: Study) -> dict[str, Any]:
        """The parameters to use."""
        return self._outer(self.optimizer(study).recommend())

    def _remote(self, study: Study) -> RemoteStudy:
        """The study of the service, begun when it is used first."""
        name = study.study_name
        if name not in self._begun:
            directions, task = directions_of(study), self.task
            names = [f"value_{i}" for i in range(len(directions))]
            self._begun[name] = Optimizer.remote(
                self.url,
                name,
                self.space,
                self.method,
                token=self.token,
                direction=directions[0],
                budget=task.budget,
                seed=self.seed,
                probes=task.probes,
                floor=task.floor,
                ceiling=task.ceiling,
                noise_bound=task.noise_bound,
                objectives=dict(zip(names, directions, strict=True)) if len(names) > 1 else None,
                noisy=task.noisy,
                reference=self.reference,
            )
        return self._begun[name]

    def _pruned_value(self, study: Study, trial: FrozenTrial) -> tuple[float, ...] | None:
        """What a pruned trial tells; None: nothing."""
        if self.pruned == "ignore" or trial.last_step is None:
            return None
        if self.pruned == "last":
            return (trial.intermediate_values[trial.last_step],)
        curves = Curves(1.0 if directions_of(study)[0] == "maximize" else -1.0)
        for other in sorted(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)), key=ended_at):
            curves.add(other)
        final = curves.final(trial)
        return None if final is None else (final,)

    def _searched(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The same, without those of a single value, which a study sets itself."""
        names = searchable(self.distributions)
        return {name: value for name, value in self._outer(params).items() if name in names}

    def _outer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of the service as the study knows them."""
        choices = {n: d for n, d in self.distributions.items() if isinstance(d, CategoricalDistribution)}
        labels = {} if self.labels else {n: d.choices[params[n]] for n, d in choices.items() if n in params}
        return {**params, **labels}
