"""Many studies on one GPU: each study is a thread that trains one small CNN of a fleet at a time, and all nets step
together.

A `Berth` looks to its study like a training problem of `mnist_training` (init, steps, validate, test): the same digits,
mini-batches and initial weights as `ConvTraining`; only dropout masks come from the fleet's own generator. A call of
`steps` hands the net to the fleet and waits. When every study waits, `run` takes a few steps with all nets at once,
evaluates those that have taken theirs, and wakes their studies. A state is plain arrays and numbers, so that it can be
frozen, thawed and trained on in any slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regretless.bilevel.run import keyed_batches
from regretless.space.parameters import Int, Parameter
from regretless_bench.problems.mnist_fleet import HYPER, Fleet
from regretless_bench.problems.mnist_training import BATCH, CONV_SPACE, Digits

AHEAD = 512
"""Mini-batches given to a net at a time; a longer stretch of training is given in several parts."""
TOGETHER = 8
"""Steps between two looks at who has finished; a net that finishes earlier stands still until then."""


@dataclass(eq=False)
class Berth:
    """One study's place in the fleet; what `mnist_training` calls a training problem."""

    fleet: Fleet
    changed: threading.Condition
    """Tells the fleet that its studies may all be waiting."""
    space: dict[str, Parameter] = field(default_factory=lambda: dict(CONV_SPACE))
    state: dict[str, Any] | None = None
    """The net that its study waits for."""
    left: int = 0
    """Steps that net has still to take."""
    given: int = 0
    """Mini-batches it has been given and not used; -1 while it is not in the fleet."""
    over: bool = False
    """Whether its study has ended."""
    failed: BaseException | None = None
    """What went wrong in the fleet; raised in the study's own thread."""

    def __post_init__(self) -> None:
        self._done = threading.Event()

    def init(self, params: dict[str, Any], seed: int) -> dict[str, Any]:
        hyper = {name: float(params[name]) for name in HYPER}
        return {
            "net": self.fleet.fresh(params, seed),
            "hyper": hyper,
            "seed": int(seed),
            "steps": 0,
            "val": float("nan"),
            "test": [0.0, 0.0],
        }

    def steps(self, state: dict[str, Any], n: int) -> dict[str, Any]:
        """n steps of SGD, in place; then the net is evaluated."""
        self._done.clear()
        with self.changed:
            if self.failed is None:
                self.state, self.left, self.given = state, n, -1
                self.changed.notify()
        if self.failed is None:
            self._done.wait()
        if self.failed is not None:
            raise RuntimeError("the fleet has stopped") from self.failed
        return state

    def step(self, state: dict[str, Any]) -> dict[str, Any]:
        return self.steps(state, 1)

    def validate(self, state: dict[str, Any]) -> float:
        """The mean cross-entropy on the validation digits."""
        return float(state["val"])

    def test(self, state: dict[str, Any]) -> tuple[float, float]:
        """The mean cross-entropy and the error in per cent on the test digits."""
        loss, error = state["test"]
        return float(loss), float(error)

    def hand_back(self, failed: BaseException | None = None) -> None:
        """Ends the wait of its study; called by the fleet, with `changed` held."""
        self.state, self.failed = None, failed
        self._done.set()


def run(
    studies: Sequence[Callable[[Berth], None]],
    digits: Digits,
    *,
    device: str = "cpu",
    seed: int = 0,
    graph: bool = True,
) -> None:
    """Runs all studies at once; the first exception of one of them is raised when all have ended."""
    channels = CONV_SPACE["channels"]
    assert isinstance(channels, Int)
    fleet = Fleet(
        digits, len(studies), channels=channels.high, batch=BATCH, device=device, seed=seed, graph=graph, ahead=AHEAD
    )
    changed = threading.Condition()
    berths = [Berth(fleet, changed) for _ in studies]
    errors: list[BaseException] = []

    def one(study: Callable[[Berth], None], berth: Berth) -> None:
        try:
            study(berth)
        except Exception as error:  # kept, and raised when the other studies have ended
            errors.append(error)
        finally:
            with changed:
                berth.over = True
                changed.notify()

    threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in zip(studies, berths, strict=True)]
    for thread in threads:
        thread.start()
    try:
        while _everybody_waits(berths, changed):
            _advance(fleet, berths, changed)
    except BaseException as error:
        with changed:
            for berth in berths:
                berth.hand_back(error)
        raise
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _everybody_waits(berths: Sequence[Berth], changed: threading.Condition) -> bool:
    """Waits until each study has ended or waits for the fleet; False when all have ended."""
    with changed:
        changed.wait_for(lambda: all(b.over or b.state is not None for b in berths))
    return not all(b.over for b in berths)


def _advance(fleet: Fleet, berths: Sequence[Berth], changed: threading.Condition) -> None:
    """Gives mini-batches to the nets that have none left, takes a few steps, and hands back the nets that have taken
    all of theirs."""
    new = [(i, b.state) for i, b in enumerate(berths) if b.state is not None and b.given < 0]
    if new:
        fleet.put(
            [i for i, _ in new], np.stack([state["net"] for _, state in new]), [state["hyper"] for _, state in new]
        )
    hungry = [(i, b, b.state) for i, b in enumerate(berths) if b.state is not None and b.given <= 0]
    if hungry:
        n_train, batches = len(fleet.data["train"][1]), []
        for _, berth, state in hungry:
            berth.given = min(berth.left, AHEAD)
            batches.append(np.stack(list(keyed_batches(n_train, BATCH, state["seed"], state["steps"], berth.given))))
        fleet.give([i for i, *_ in hungry], batches)
    fleet.steps(TOGETHER)
    ready = []
    for i, berth in enumerate(berths):
        if berth.state is None:
            continue
        taken = min(TOGETHER, berth.given)
        berth.state["steps"] += taken
        berth.left -= taken
        berth.given = berth.given - taken
        if berth.left == 0:
            ready.append(i)
    if not ready:
        return
    nets, (val, _), tests = fleet.read(ready), fleet.evaluate(ready, "val"), fleet.evaluate(ready, "test")
    with changed:
        for i, net, loss, *test in zip(ready, nets, val, *tests, strict=True):
            trained = berths[i].state
            assert trained is not None
            trained.update(net=net, val=loss, test=list(test))
            berths[i].hand_back()
