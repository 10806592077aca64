"""What a study was begun with: its method, seed, budget and space, kept in the study so that a resumed run has the
same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import TrialState

from regretless.basics.fingerprint import source_fingerprint
from regretless.doors.optuna.trials import keep, kept
from regretless.space import Space
from regretless.task import Direction, Task

SETTINGS = "regretless:settings"
"""The study attribute that holds them."""
OBJECTIVE = "regretless:objective"
"""The study attribute that holds the fingerprint of the objective's source."""


@dataclass(frozen=True)
class StudySettings:
    """The method of a study, whether "auto" was to choose for a certificate, and what its task says beside the space
    and the direction, which the study has itself."""

    method: str
    seed: int
    certify: bool
    budget: int | None
    probes: float = 0.0
    limit: float | None = None
    """The floor or ceiling."""
    noise_bound: float = 0.0
    noisy: bool | None = None
    objectives: tuple[str, ...] = ()
    """The names of several objectives."""
    reference: tuple[float | None, ...] = ()

    @classmethod
    def of(cls, task: Task, method: str, *, certify: bool) -> StudySettings:
        """Those of a study that begins."""
        named = task.objectives * task.several
        limits = task.probes, task.limit, task.noise_bound, task.noisy
        return cls(method, task.seed, certify, task.budget, *limits, named, task.reference)

    @classmethod
    def read(cls, study: Study) -> StudySettings | None:
        """Those of a study; None when it has none, or none that make sense."""
        stored = kept(study).get(SETTINGS)
        if not isinstance(stored, dict):
            return None
        method, seed, budget = stored.get("method"), stored.get("seed"), stored.get("budget")
        if not isinstance(method, str) or isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            return None
        probes, limit, noise = stored.get("probes"), stored.get("limit"), stored.get("noise_bound")
        return cls(
            method,
            seed,
            stored.get("certify") is True,
            budget if isinstance(budget, int) else None,
            probes if isinstance(probes, float) and 0 <= probes <= 1 else 0.0,
            limit if isinstance(limit, float) and math.isfinite(limit) else None,
            noise if isinstance(noise, float) and 0 <= noise < math.inf else 0.0,
            stored["noisy"] if isinstance(stored.get("noisy"), bool) else None,
            _names(stored.get("objectives"), len(study.directions)),
            _reference(stored.get("reference"), len(study.directions)),
        )

    @classmethod
    def agree(cls, study: Study, fresh: StudySettings, named: Mapping[str, Any]) -> StudySettings:
        """Those the study has, which must be the ones that its caller `named` (None: left out); `fresh` ones where it
        has none."""
        stored = cls.read(study)
        if stored is None:
            return fresh
        method, seed = named["method"], named["seed"]
        if method not in ("auto", stored.method) or seed not in (None, stored.seed):
            runs = f"study {study.study_name!r} runs with method {stored.method!r} and seed {stored.seed}"
            raise ValueError(f"{runs}, not {method!r} and {seed}; leave them out, or choose another study name")
        for name, words in (("probes", "probes"), ("limit", "floor or ceiling"), ("noise_bound",) * 2, ("noisy",) * 2):
            if named[name] not in (None, has := getattr(stored, name)):
                runs = f"study {study.study_name!r} runs with {words} {has}"
                raise ValueError(f"{runs}, not {named[name]}; leave it out, or choose another study name")
        if stored.objectives != fresh.objectives:
            runs = f"study {study.study_name!r} runs with objectives {list(stored.objectives)}"
            raise ValueError(f"{runs}, not {list(fresh.objectives)}; choose another study name")
        if stored.reference != fresh.reference:
            runs = f"study {study.study_name!r} runs with reference {list(stored.reference)}"
            raise ValueError(f"{runs}, not {list(fresh.reference)}; choose another study name")
        return stored

    def task(self, space: Space, directions: tuple[Direction, ...], constraints: tuple[str, ...] = ()) -> Task:
        """What a study with these settings asks for."""
        floor, ceiling = (self.limit, None) if directions[0] == "minimize" else (None, self.limit)
        return Task(
            space, directions, self.budget, self.seed, constraints, probes=self.probes, floor=floor, ceiling=ceiling,
            noise_bound=self.noise_bound, noisy=self.noisy, objectives=self.objectives,
            reference=self.reference,
        )  # fmt: skip

    def write(self, study: Study) -> None:
        """Writes them into the study, unless it has some."""
        if self.read(study) is None:
            keep(study, SETTINGS, asdict(self))


def _names(stored: Any, count: int) -> tuple[str, ...]:
    """The names of several objectives as a study keeps them."""
    listed = isinstance(stored, list) and len(stored) == count and all(isinstance(name, str) for name in stored)
    return tuple(stored) if listed and count > 1 else ()


def _reference(stored: Any, count: int) -> tuple[float | None, ...]:
    """The reference of several objectives as a study keeps it."""
    listed = isinstance(stored, list) and len(stored) == count
    plain = listed and all(v is None or (isinstance(v, float) and math.isfinite(v)) for v in stored)
    return tuple(stored) if plain and count > 1 else ()


def check_space(study: Study, space: Mapping[str, BaseDistribution], conditional: Iterable[str] = ()) -> None:
    """Refuses a space other than the one the study was begun with: its trials would share only some of their
    parameters; those that are `conditional` may be absent."""
    absent = {name: space[name] for name in conditional}
    for t in study.get_trials(deepcopy=False):
        # trials that did not complete may have been cut short
        begun = {**(absent if t.state == TrialState.COMPLETE else space), **t.distributions}
        for name in [n for n in (*space, *begun) if t.distributions and space.get(n) != begun.get(n)]:
            has = f"study {study.study_name!r} has trials with {name} = {begun.get(name)}, the space now has"
            remedy = "go on with the space it was begun with, or choose another study name"
            raise ValueError(f"{has} {space.get(name)}; {remedy}")


def objective_changed(study: Study, objective: object) -> bool:
    """Whether the source of the objective differs from the one the study knows; writes down the present one."""
    now, before = source_fingerprint(objective), kept(study).get(OBJECTIVE)
    if now != before:
        keep(study, OBJECTIVE, now)
    return isinstance(before, str) and before not in ("", now)
