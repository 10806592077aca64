"""Every method under its public name: `rg.GPUCB` is the recipe "gp-ucb".

`recipes.pyi` beside this file tells type checkers and editors the options of each; `tests/stubs.py` makes it.
"""

from typing import Literal, TypeAlias

from regretless.auto import AUTO
from regretless.classics import CLASSICS
from regretless.methods import METHODS

Auto = AUTO
GOUCB = METHODS["go-ucb"]
GPThreDS = METHODS["gp-threds"]
BBO = METHODS["bilevel"]
NeuralBO = METHODS["neural-bo"]
MSUCB = METHODS["ms-ucb"]
RandomSearch = CLASSICS["random"]
SobolSearch = CLASSICS["sobol"]
GPUCB = CLASSICS["gp-ucb"]
GPEI = CLASSICS["gp-ei"]
GPPI = CLASSICS["gp-pi"]
GPTS = CLASSICS["gp-ts"]
TuRBO = CLASSICS["turbo"]

MethodName: TypeAlias = Literal[(AUTO.name, *METHODS, *CLASSICS)]  # type: ignore[valid-type]
"""The names of the methods of this library. Those of other distributions are passed as recipes."""
