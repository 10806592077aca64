"""A reason to stop: `GapBelow` ends a run when a certificate says that little regret is left, and never on a guess."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from regretless.certificate import Certificate

CHECKS_IN_A_ROW = 2
"""A single lucky fit must not end a run: the certificate has to hold at this many checks in a row."""
SPENT_PER_CHECK = 0.2
"""The share of delta that one check may spend: a rule that looks after every evaluation has many chances to meet a
bound that is too low."""
STOP_NOTE = "regretless:stop"
"""The study attribute under which the reason for stopping is kept."""
STOP_STATE = "regretless:stop-state"
"""The study attribute under which a rule keeps its count."""

_log = logging.getLogger(__name__)


class GapBelow:
    """Stops when, with probability at least 1 - delta, the recommended setting is within eps of the optimum.

        minimize(train, space, trials=200, stop=GapBelow(0.01))
        study.optimize(objective, n_trials=200,
        callbacks=[GapBelow(0.01)])        # with regretless.Sampler as the study's sampler

    It asks for the certificate after every `every`-th evaluation and stops once the certificate is certified with a gap
    of at most eps at two checks in a row. Each check asks for a fifth of delta, because many checks are made. "Not
    certified" never stops a run and starts the count afresh. `reason` then says what the stop rests on. The count is
    kept with the run. Optuna calls a callback only after a trial: a study that the rule has ended evaluates one more
    each time it is started again (`minimize` and `regretless tune` none).

    Args:
        eps: the regret that is acceptable, in the units of the objective.
        delta: the probability with which the statement may be wrong.
        relative: whether eps is a share of the range of the values seen so far instead.
        every: evaluations between two checks.
    """

    def __init__(self, eps: float, delta: float = 0.05, relative: bool = False, *, every: int = 1) -> None:
        if not (isinstance(eps, int | float) and math.isfinite(eps) and eps > 0):
            raise ValueError(f"eps must be a positive number, got {eps!r}")
        if not 0 < delta < 1:
            raise ValueError(f"delta must be between 0 and 1, got {delta!r}")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be a whole number of at least 1, got {every!r}")
        self.eps, self.delta, self.relative, self.every = float(eps), delta, relative, every
        self.certificate = Certificate.none("not checked yet", SPENT_PER_CHECK * delta)
        """The last certificate looked at."""
        self.reason: str | None = None
        """Why the run was stopped, or None."""
        self._held = 0
        self._checked_at = 0

    def __repr__(self) -> str:
        return f"GapBelow({self.eps:g}, delta={self.delta:g}, relative={self.relative})"

    def __call__(self, run: Any, trial: Any = None) -> str | None:
        """The rule itself, `rule(optimizer)`, which gives the reason to stop or None; and Optuna's callback,
        `rule(study, trial)`."""
        if trial is None:
            return self.check(run, [t.value for t in run.trials if t.value is not None])
        certified = getattr(run.sampler, "certificate", None)
        if certified is None:
            raise TypeError(
                "GapBelow needs a sampler that gives certificates, such as regretless.Sampler; the study has "
                f"{run.sampler!r}"
            )
        values = [t.value for t in run.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
        if self._checked_at == 0:  # a study that goes on: what it knew of this rule counts
            self.load(run.user_attrs.get(STOP_STATE, {}))
        reason = self.check(_StudyRun(run), values)
        run.set_user_attr(STOP_STATE, self.state())
        if reason is not None:
            run.set_user_attr(STOP_NOTE, reason)
            run.stop()
        return reason

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of the rule, so that a run that it ended stays ended."""
        return {"rule": repr(self), "held": self._held, "checked_at": self._checked_at, "reason": self.reason}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a state of the same rule; with that of another, or with none, it starts afresh."""
        same = state.get("rule") == repr(self)
        self._held, self._checked_at = (int(state["held"]), int(state["checked_at"])) if same else (0, 0)
        self.reason = str(state["reason"]) if same and state["reason"] is not None else None

    def check(self, run: Any, values: list[float]) -> str | None:
        """Looks at `run.certificate` if it is time to; values are those evaluated so far. Returns the reason to stop or
        None."""
        if len(values) < self._checked_at:  # another run: nothing of the last one counts
            self._held, self._checked_at, self.reason = 0, 0, None
        if len(values) < self._checked_at + self.every:
            return self.reason
        self._checked_at = len(values)
        self.certificate = run.certificate_at(SPENT_PER_CHECK * self.delta)
        allowed = self.eps * (max(values) - min(values)) if self.relative else self.eps
        good = self.certificate.certified and self.certificate.gap <= allowed
        self._held = self._held + 1 if good else 0
        self.reason = None
        if self._held >= CHECKS_IN_A_ROW:
            self.reason = f"stopped after {len(values)} evaluations: {self.certificate}"
            _log.info(self.reason)
        return self.reason


class _StudyRun:
    """A study seen as something that gives certificates."""

    def __init__(self, study: Any) -> None:
        self.study = study

    def certificate_at(self, delta: float) -> Certificate:
        found: Certificate = self.study.sampler.certificate(self.study, delta)
        return found
