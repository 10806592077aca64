"""What a study was begun with: its method, seed, budget and space, kept in the study so that a resumed run has the
same."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import TrialState

from regretless.agreement import as_recipe, what_it_was
from regretless.bounds import checked_noise_bound
from regretless.fingerprint import source_fingerprint

SETTINGS = "regretless:settings"
"""The study attribute that holds them."""
OBJECTIVE = "regretless:objective"
"""The study attribute that holds the fingerprint of the objective's source."""


@dataclass(frozen=True)
class Settings:
    """The method and the seed of a study, whether "auto" was to choose for a certificate, the planned trials, the share
    of probes, the floor or ceiling and the bound of the noise."""

    method: str
    seed: int
    certify: bool
    budget: int | None
    probes: float = 0.0
    bound: float | None = None
    version: int = 1
    """Of the method; see `Method.version`."""
    noise_bound: float = 0.0

    @classmethod
    def read(cls, study: Study) -> Settings | None:
        """Those of a study; None when it has none, or none that make sense."""
        stored = study.user_attrs.get(SETTINGS)
        if not isinstance(stored, dict):
            return None
        method, seed, budget = stored.get("method"), stored.get("seed"), stored.get("budget")
        if not isinstance(method, str) or isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            return None
        probes, bound, noise = stored.get("probes"), stored.get("bound"), stored.get("noise_bound")
        return cls(
            method,
            seed,
            stored.get("certify") is True,
            budget if isinstance(budget, int) else None,
            probes if isinstance(probes, float) and 0 <= probes <= 1 else 0.0,
            bound if isinstance(bound, float) and math.isfinite(bound) else None,
            stored["version"] if isinstance(stored.get("version"), int) else 1,
            noise if isinstance(noise, float) and 0 <= noise < math.inf else 0.0,
        )

    @classmethod
    def agree(
        cls,
        study: Study,
        method: str,
        seed: int | None,
        certify: bool,
        budget: int,
        *,
        probes: float | None = None,
        fresh: float = 0.0,
        bound: float | None = None,
        noise_bound: float | None = None,
    ) -> Settings:
        """Those the study has, or the ones given, for `write`; given ones that differ are refused.
        fresh: the share of probes of a study that begins now."""
        stored = cls.read(study)
        if stored is None:
            seed = secrets.randbits(32) if seed is None else seed
            noise = checked_noise_bound(noise_bound)
            stored = cls(method, seed, certify, budget, fresh, bound, version_of(method), noise)
        elif stored.version != version_of(stored.method):
            begun = f"study {study.study_name!r} was begun with version {stored.version} of {stored.method!r}"
            was = what_it_was(as_recipe(stored.method))
            raise ValueError(f"{begun}; {was}: go on with the release that began it, or choose another study name")
        if method not in ("auto", stored.method) or seed not in (None, stored.seed):
            runs = f"study {study.study_name!r} runs with method {stored.method!r} and seed {stored.seed}"
            raise ValueError(f"{runs}, not {method!r} and {seed}; leave them out, or choose another study name")
        for name, given, kept in (
            ("probes", probes, stored.probes),
            ("floor or ceiling", bound, stored.bound),
            ("noise_bound", noise_bound, stored.noise_bound),
        ):
            if given not in (None, kept):
                runs = f"study {study.study_name!r} runs with {name} {kept}"
                raise ValueError(f"{runs}, not {given}; leave it out, or choose another study name")
        return stored

    def write(self, study: Study) -> None:
        """Writes them into the study, unless it has some."""
        if self.read(study) is None:
            study.set_user_attr(SETTINGS, asdict(self))


def version_of(method: str) -> int:
    """The version of a method's name; raises for names that are none."""
    return as_recipe(method).version_of({})


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
    now, before = source_fingerprint(objective), study.user_attrs.get(OBJECTIVE, "")
    if now != before:
        study.set_user_attr(OBJECTIVE, now)
    return before not in ("", now)
