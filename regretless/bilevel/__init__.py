"""Problems with an inner training loop: `minimize_bilevel` spends a budget of training steps on them.

`problem` says what a user gives, `schedule` who trains how long, `outer` which setting comes next, `study` is the loop,
`store` keeps states and the journal, `result` is what comes back.
"""

from regretless.bilevel.minimize import minimize_bilevel
from regretless.bilevel.problem import Bilevel, Finished
from regretless.bilevel.result import BilevelResult, RunRecord
from regretless.bilevel.schedule import Plan, plan

__all__ = ["Bilevel", "BilevelResult", "Finished", "Plan", "RunRecord", "minimize_bilevel", "plan"]
