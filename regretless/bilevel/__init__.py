"""Problems with an inner training loop: `minimize_bilevel` spends a budget of training steps on them.

`problem` says what a user gives and `run` what is known of one training run; `schedule` says who trains how long,
`outer` which setting comes next; `study` is the loop; `freeze` takes states apart, `store` keeps them and the journal;
`result` is what comes back.
"""

from regretless.bilevel.minimize import minimize_bilevel
from regretless.bilevel.problem import Bilevel, Finished
from regretless.bilevel.result import BilevelResult
from regretless.bilevel.run import Run
from regretless.bilevel.schedule import Plan, plan

__all__ = ["Bilevel", "BilevelResult", "Finished", "Plan", "Run", "minimize_bilevel", "plan"]
