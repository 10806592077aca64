"""Problems with an inner training loop: `minimize_bilevel` spends a budget of training steps on them."""

from regretless.bilevel.problem import Bilevel, Finished
from regretless.bilevel.result import BilevelResult
from regretless.bilevel.run import TrainingRun
from regretless.bilevel.schedule import Plan, plan
from regretless.bilevel.study import minimize_bilevel

__all__ = ["Bilevel", "BilevelResult", "Finished", "Plan", "TrainingRun", "minimize_bilevel", "plan"]
