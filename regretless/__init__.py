"""regretless: tune anything that is costly to try, and know when to stop.

The shortest way in:

    import regretless as rg

    result = rg.minimize(train, {"lr": rg.Float(1e-5, 1e-1, log=True), "layers": rg.Int(1, 6)}, trials=80)
    print(result.params, result.value)
    print(result.outlook)  # what more trials would bring
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regretless.auto.recipes import (
    BBO,
    GOUCB,
    GPEI,
    GPPI,
    GPTS,
    GPUCB,
    MSUCB,
    Auto,
    GPThreDS,
    NeuralBO,
    RandomSearch,
    SobolSearch,
    TuRBO,
)
from regretless.basics.extras import optional
from regretless.certificate import Certificate
from regretless.classics import CLASSICS
from regretless.method import Method, Recipe
from regretless.methods import METHODS
from regretless.optimizer import Optimizer, Trial
from regretless.run.evaluation import Value
from regretless.run.minimize import maximize, minimize
from regretless.run.result import Result
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int

if TYPE_CHECKING:
    from regretless.bilevel import Bilevel, minimize_bilevel, plan
    from regretless.doors.optuna.certify import certify
    from regretless.doors.optuna.pruner import Pruner
    from regretless.doors.optuna.sampler import Sampler
    from regretless.doors.sklearn.search import RegretlessSearchCV
    from regretless.outlook.outlook import Outlook
    from regretless.outlook.stopping import GapBelow, StopWhen
    from regretless.outlook.worth import Worth
    from regretless.run.questions import advise, compare

__version__ = "1.0.0"

_LATER = {
    "Sampler": "regretless.doors.optuna.sampler",
    "Pruner": "regretless.doors.optuna.pruner",
    "RegretlessSearchCV": "regretless.doors.sklearn.search",
    "GapBelow": "regretless.outlook.stopping",
    "certify": "regretless.doors.optuna.certify",
    "StopWhen": "regretless.outlook.stopping",
    "Worth": "regretless.outlook.worth",
    "advise": "regretless.run.questions",
    "compare": "regretless.run.questions",
    "Bilevel": "regretless.bilevel",
    "minimize_bilevel": "regretless.bilevel",
    "plan": "regretless.bilevel",
}
"""Names whose modules import a library most runs do not need; loaded on first use."""
_EXTRAS = {"Sampler": "optuna", "Pruner": "optuna", "certify": "optuna", "RegretlessSearchCV": "sklearn"}
"""The group of optional dependencies that a name needs, where it is not "bilevel"."""

__all__ = [
    "BBO",
    "CLASSICS",
    "GOUCB",
    "GPEI",
    "GPPI",
    "GPTS",
    "GPUCB",
    "METHODS",
    "MSUCB",
    "Auto",
    "Bilevel",
    "Certificate",
    "Choice",
    "Cube",
    "Float",
    "GPThreDS",
    "GapBelow",
    "Int",
    "Method",
    "NeuralBO",
    "Optimizer",
    "Pruner",
    "RandomSearch",
    "Recipe",
    "RegretlessSearchCV",
    "Result",
    "Sampler",
    "SobolSearch",
    "Space",
    "StopWhen",
    "Trial",
    "TuRBO",
    "Value",
    "Worth",
    "advise",
    "certify",
    "compare",
    "maximize",
    "minimize",
    "minimize_bilevel",
    "outlook",
    "plan",
]  # fmt: skip


def outlook(study: Any, trials: int = 20, *, search_space: Any = None) -> Outlook:
    """How much better an Optuna study of any sampler will be after so many more trials
    (`regretless.doors.optuna.outlook`)."""
    found: Outlook = optional("regretless.doors.optuna.outlook", "optuna").outlook(
        study, trials, search_space=search_space
    )
    return found


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(optional(_LATER[name], _EXTRAS.get(name, "bilevel")), name)
    raise AttributeError(f"module 'regretless' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
