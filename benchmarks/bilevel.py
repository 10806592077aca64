"""What a bilevel study costs beside the training itself: the outer asks, and the inner loop against a plain training
loop.

An ask in a study is a cold one: promotion rewrites earlier values, so the method is built and fitted afresh each time.
The inner loop is compared with a bare loop that takes the same steps and validates as often, on a stretch of a run that
is frozen at its end.
"""

import time

import numpy as np
from regretless_bench.problems.mnist_training import ConvTraining, DenseTraining, training

from regretless.bilevel import Bilevel
from regretless.bilevel.outer import Outer
from regretless.bilevel.schedule import Job, plan
from regretless.bilevel.store import Journal, Store
from regretless.bilevel.study import Study, validation_steps
from regretless.classics import CLASSICS
from regretless.methods import METHODS
from regretless.space import Space
from regretless.space.parameters import Float

ASK_LIMIT = 50e-3
OVERHEAD_LIMIT = 0.02
STEPS = 2000
VALIDATIONS = 4
ROUNDS = 7


def main() -> None:
    print(f"{'outer ask':34s} {'ms':>8} {'limit':>8}")
    for trials, late in ((20, False), (50, False), (100, False), (100, True)):
        limit = f"{1e3 * ASK_LIMIT:.0f}" if trials == 100 else "-"
        kind = "late" if late else "cold"
        print(f"{f'{kind}, T = {trials}, 5 hyper-parameters':34s} {1e3 * ask_seconds(trials, late):>8.1f} {limit:>8}")
    inner = training("mlp")
    print(f"\n{'inner loop, MLP, ' + str(STEPS) + ' steps':34s} {'overhead':>8} {'limit':>8}")
    for name, bulk in (("one call per step", False), ("many steps per call", True)):
        print(f"{name:34s} {100 * overhead(inner, bulk):>7.2f}% {100 * OVERHEAD_LIMIT:>7.0f}%")


def ask_seconds(trials: int, late: bool, dim: int = 5) -> float:
    """CPU seconds of one proposal after so many runs, a third of them promoted once: median over five studies.

    late: for a run that starts high on the ladder, when the model has the length of training as one more coordinate.
    """
    space = Space({f"x{i}": Float(0.0, 1.0) for i in range(dim)})
    seconds = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        outer = Outer(space, METHODS["bilevel"], seed, plan(space, budget_steps=10_000).promotion)
        runs = []
        for i in range(trials):
            unit = rng.random(dim)
            loss = 0.3 + float(((unit - 0.4) ** 2).sum()) + 0.02 * rng.random()
            ends = {62: loss, 185: 0.7 * loss} if i % 3 == 0 else {62: loss}
            run = outer.new_run(i, unit)
            run.steps, run.ends = max(ends), ends
            run.curve = [(n // 2 * k, v * (1.2 - 0.1 * k)) for n, v in ends.items() for k in (1, 2)]
            runs.append(run)
        until = outer.rungs[-2 if late else 0]
        start = time.process_time()
        outer.propose(runs, until)
        seconds.append(time.process_time() - start)
    return float(np.median(seconds))


def overhead(inner: DenseTraining | ConvTraining, bulk: bool) -> float:
    """How much longer a study's stretch of training takes than a bare loop, as a share: median of pairs taken in
    turns."""
    params = {"lr": 0.05, "l2": 1e-4, "momentum": 0.5, "scale": 1.0}
    problem = Bilevel(inner.init, inner.step, inner.validate, steps=inner.steps if bulk else None)
    outer = Outer(Space(inner.space), CLASSICS["random"], 0, plan(inner.space, budget_steps=STEPS).promotion)

    def bare() -> float:
        start = time.process_time()
        state = inner.init(params, 0)
        at = 0
        for until in validation_steps(0, STEPS, VALIDATIONS):
            if bulk:
                state = inner.steps(state, until - at)
            else:
                for _ in range(until - at):
                    state = inner.step(state)
            inner.validate(state)
            at = until
        return time.process_time() - start

    def studied() -> float:
        study = Study(problem, outer, Journal(None), Store(), VALIDATIONS, 60.0, False)
        study.outer.space.decode = lambda u, choices="shares": params  # type: ignore[method-assign] # the same setting as the bare loop
        start = time.process_time()
        study._train(Job(None, STEPS, "new"))
        return time.process_time() - start

    bare(), studied()
    return float(np.median([studied() / bare() - 1 for _ in range(ROUNDS)]))


if __name__ == "__main__":
    main()
