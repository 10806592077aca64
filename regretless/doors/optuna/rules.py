"""Stop rules in Optuna studies: what a rule sees of a study, and where a study keeps what its rules have counted.

`GapBelow(0.01)` among the callbacks of `study.optimize` ends up in `ask`, because a rule that is called with an object
of another library asks that library's door.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.basics.values import as_number, numbers_of
from regretless.certificate import Certificate
from regretless.doors.optuna.trials import amount, directions_of, keep, kept
from regretless.doors.optuna.workers import probe_steps, ran_at_once
from regretless.outlook.outlook import Outlook
from regretless.outlook.probes import Probing, Share, Spending, rule_of
from regretless.outlook.stopping import StopRule, check_objectives
from regretless.task import Task

STOP_NOTE = "regretless:stop"
"""The study attribute under which the reason for stopping is kept."""
STOP_STATE = "regretless:stop-state"
"""The study attribute under which a rule keeps its count."""
COST = "regretless:cost"
"""The user attribute of a trial that holds what it cost."""
CONSTRAINTS = "constraints"
"""The system attribute under which Optuna keeps the values of a `constraints_func`, and the beginning of those of
`trial.set_constraint`."""


@dataclass
class Ended:
    """A trial of a study that ended, as rules see trials."""

    value: float | None
    cost: float | None
    state: str
    feasible: bool
    seconds: float | None

    values: tuple[float, ...]


class StudyRun:
    """A study as rules see runs: the trials that had ended when it was made, because other workers end some between two
    looks."""

    def __init__(self, study: Study) -> None:
        self.study, self.directions = study, directions_of(study)
        self._sampler: Any = study.sampler
        self.trials: Sequence[Ended] = [_ended(t) for t in study.get_trials(deepcopy=False) if t.state.is_finished()]

    def certificate_at(self, delta: float) -> Certificate:
        found: Certificate = self._sampler.certificate(self.study, delta)
        return found

    def share_at(self, delta: float, *, rule: Spending | None = None) -> Share:
        found: Share = self._sampler.share(self.study, delta, rule=rule)
        return found

    def outlooks(self, trials: Sequence[int]) -> Sequence[Outlook]:
        from regretless.doors.optuna.outlook import outlooks  # it needs the sampler, which needs this module

        return outlooks(self.study, trials)


def _ended(trial: FrozenTrial) -> Ended:
    """Infinities have failed, although Optuna completes them: the range of the values must stay a number."""
    complete = trial.state == TrialState.COMPLETE
    values = tuple(trial.values) if complete and all(map(math.isfinite, trial.values)) else ()
    feasible = complete and all(c <= 0 for c in constraints_of(trial).values())
    took = None if trial.duration is None else trial.duration.total_seconds()
    value, state = (values[0], "done") if values else (None, "failed")
    return Ended(value, amount(trial.user_attrs.get(COST)), state, feasible and bool(values), took, values)


def ask(rule: StopRule, study: Study) -> str | None:
    """Asks a rule after a trial of a study, and ends the study when it holds."""
    sampler: Any = study.sampler
    if (rule.asks_gap or rule.asks_share) and not hasattr(sampler, "certificate"):
        raise TypeError(
            f"{rule!r} needs a sampler that gives certificates, such as regretless.Sampler; the study has {sampler!r}"
        )
    if rule.asks_share and not sampler.task.probes:
        raise ValueError(f"{rule!r} asks for a share, which needs probes: regretless.Sampler(..., probes=0.2)")
    reason = check_study(rule, study)
    if reason is not None:
        study.stop()
    return reason


def check_study(rule: StopRule, study: Study) -> str | None:
    """The reason to end a study, which keeps the count and the reason: workers that share it share delta too."""
    known: Any = kept(study).get(STOP_STATE, {})
    try:
        rule.catch_up(known)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        where = f"study {study.study_name!r} holds a damaged count of stop rules in its attribute {STOP_STATE!r}"
        raise ValueError(f"{where} ({error!r}); set it to {{}} or choose another study") from None
    check_objectives(rule, len(study.directions))
    reason = rule.check(StudyRun(study))
    keep(study, STOP_STATE, rule.state())
    if reason is not None:
        study.set_user_attr(STOP_NOTE, reason)
    return reason


def kept_state(study: Study) -> dict[str, Any] | None:
    """What the rule that may end a study has counted; None: there is no such rule."""
    state = kept(study).get(STOP_STATE)
    return state if isinstance(state, dict) else None


def probing_of(study: Study, trials: Sequence[FrozenTrial], space: Iterable[str], task: Task) -> Probing:
    """What a statement about the whole space has to know of a study beside its values: which of the trials are a task's
    probes of these parameters, whether trials ran at once, and what its rule has proven."""
    steps = tuple(probe_steps(trials, space, task.seed))
    return Probing(steps if steps or task.probes else None, ran_at_once(trials), rule_of(kept_state(study)))


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """The values of the constraints of a trial by name, those of a `constraints_func` by position; Optuna keeps
    either. What another program keeps under their name, and is no list of numbers, is none."""
    listed = trial.system_attrs.get(CONSTRAINTS)
    numbers = numbers_of(listed) if isinstance(listed, list | tuple) else None
    found = {str(i): value for i, value in enumerate(numbers or ())}
    prefix = f"{CONSTRAINTS}:"
    named = {key.removeprefix(prefix): as_number(v) for key, v in trial.system_attrs.items() if key.startswith(prefix)}
    found |= {name: value for name, value in named.items() if value is not None}
    return {name: value for name, value in found.items() if not math.isnan(value)}
