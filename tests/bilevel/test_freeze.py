"""States that users have: taken apart into arrays and put together again in a fresh state, exactly."""

import random
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regretless.basics.statefile import StateError, pack, unpack
from regretless.bilevel import Bilevel
from regretless.bilevel.freeze import freeze, needs_fresh, thaw

Pair = namedtuple("Pair", ["mean", "rng"])


def through_a_file(fresh: Any, state: Any) -> Any:
    return thaw(fresh, unpack(pack(freeze(state))))


@dataclass
class Adam:
    """An optimiser that shares the weights of its model."""

    weights: list[np.ndarray]
    rate: float = 0.1


@dataclass
class Model:
    weights: list[np.ndarray]
    loss: Any = np.square
    optimiser: Adam | None = None
    parent: Any = None
    notes: dict[str, Any] = field(default_factory=dict)


def model(value: float) -> Model:
    made = Model([np.full(3, value), np.full(2, value)])
    made.optimiser, made.parent = Adam(made.weights), made
    return made


def test_plain_states_need_no_fresh_one_and_shared_arrays_stay_shared() -> None:
    theta = np.array([1.5, -2.0])
    state = {"theta": theta, "best": theta, "steps": 3, "history": [(1, 0.5)], 4: None}
    frozen = freeze(state)
    assert not needs_fresh(frozen)
    again = thaw(None, unpack(pack(frozen)))
    assert again["theta"] is again["best"]
    assert np.array_equal(again["theta"], theta)
    assert again["theta"] is not theta
    assert (again["steps"], again["history"], again[4]) == (3, [(1, 0.5)], None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.random.default_rng(5),
        lambda: np.random.Generator(np.random.MT19937(5)),
        lambda: np.random.Generator(np.random.Philox(5)),
        lambda: np.random.RandomState(5),
        lambda: random.Random(5),
    ],
    ids=["PCG64", "MT19937", "Philox", "RandomState", "Random"],
)
def test_random_generators_go_on_where_they_were(make: Any) -> None:
    draw = (lambda g: g.random()) if isinstance(make(), random.Random) else (lambda g: g.standard_normal())
    original, fresh = make(), make()
    [draw(original) for _ in range(7)]
    again = through_a_file({"rng": fresh}, {"rng": original})["rng"]
    assert again is fresh
    assert [draw(again) for _ in range(5)] == [draw(original) for _ in range(5)]


def test_objects_keep_their_parts_their_ties_and_their_code() -> None:
    state, fresh = model(1.0), model(0.0)
    state.weights[0] += 4.0
    state.notes = {"seen": np.int64(3)}
    again = through_a_file(fresh, state)
    assert again is fresh
    assert np.array_equal(again.weights[0], np.full(3, 5.0))
    assert again.optimiser.weights[0] is again.weights[0], "the optimiser would train other weights than the model's"
    assert again.parent is again
    assert again.loss is np.square
    assert again.notes == {"seen": 3}


def test_a_fresh_states_own_arrays_are_left_alone() -> None:
    start = np.zeros(3)  # as a module's constant that init hands out
    again = through_a_file(
        {"theta": start, "rng": np.random.default_rng(0)}, {"theta": np.ones(3), "rng": np.random.default_rng(1)}
    )
    assert np.array_equal(again["theta"], np.ones(3))
    assert np.array_equal(start, np.zeros(3))


def test_containers_keep_their_kind() -> None:
    def make(n: int) -> Any:
        counts: Any = defaultdict(int, {"a": n})
        return {"pair": Pair(float(n), np.random.default_rng(n)), "counts": counts, "order": OrderedDict(z=n, a=n)}

    again = through_a_file(make(0), make(7))
    assert again["pair"].mean == 7.0
    assert again["counts"]["unseen"] == 0
    assert list(again["order"]) == ["z", "a"]
    assert isinstance(again["order"], OrderedDict)


def test_slots_and_setstate_are_respected() -> None:
    class Slotted:
        __slots__ = ("w",)

    class Custom:
        def __init__(self, w: float) -> None:
            self.w, self.cache = w, threading.Lock()

        def __getstate__(self) -> dict[str, Any]:
            return {"w": self.w}

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.w = state["w"]

    slotted, fresh = Slotted(), Slotted()
    slotted.w, fresh.w = 3.0, 0.0
    assert through_a_file(fresh, slotted).w == 3.0
    again = through_a_file(Custom(0.0), Custom(2.5))
    assert again.w == 2.5
    assert again.cache.acquire(blocking=False)


@pytest.mark.parametrize(
    "value",
    [deque([1]), iter([1]), (i for i in [1]), threading.Lock(), {1, 2}, b"bytes", np.ma.masked_array([1.0], [True])],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_taken_apart_is_refused_by_its_place(value: Any) -> None:
    with pytest.raises(StateError, match=r"state\['part'\]\[1\]: a .* cannot be written .* save= and load="):
        freeze({"part": [0, value]})


def test_an_array_of_objects_is_refused() -> None:
    with pytest.raises(StateError, match="a ndarray cannot be written"):
        pack(freeze({"x": np.array([object()])}))


def test_a_fresh_state_with_something_else_in_that_place_is_refused() -> None:
    state = {"rng": np.random.default_rng(0)}
    for fresh in ({}, {"rng": None}, {"rng": np.random.RandomState(0)}):
        with pytest.raises(StateError, match=r"state\['rng'\]: the state has a .*Generator here"):
            through_a_file(fresh, state)


# ---------------------------------------------------------------- whole problems without save and load


def torch_init(params: dict[str, Any], seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1))
    with torch.no_grad():
        for weights in net.parameters():
            weights.copy_(torch.randn(weights.shape, generator=generator))
    optimiser = torch.optim.Adam(net.parameters(), lr=params["lr"])
    decay = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
    return {"net": net, "optimiser": optimiser, "decay": decay, "generator": generator}


def torch_step(state: dict[str, Any]) -> dict[str, Any]:
    x = torch.randn(8, 4, generator=state["generator"])
    state["optimiser"].zero_grad()
    ((state["net"](x) - x.sum(1, keepdim=True)) ** 2).mean().backward()
    state["optimiser"].step()
    state["decay"].step()
    return state


def torch_validate(state: dict[str, Any]) -> float:
    x = torch.linspace(-1, 2, 20).reshape(5, 4)
    state["net"].eval()
    with torch.no_grad():
        loss = float(((state["net"](x) - x.sum(1, keepdim=True)) ** 2).mean())
    state["net"].train()
    return loss


class Descent:
    """A user's own class: weights, momentum and a NumPy generator."""

    def __init__(self, lr: float, seed: int) -> None:
        self.lr, self.rng = lr, np.random.default_rng(seed)
        self.weights, self.momentum = self.rng.standard_normal(3), np.zeros(3)

    def step(self) -> "Descent":
        self.momentum = 0.9 * self.momentum + self.weights - 2.0 + 0.1 * self.rng.standard_normal(3)
        self.weights -= self.lr * self.momentum
        return self


@pytest.mark.parametrize(
    "problem",
    [
        Bilevel(torch_init, torch_step, torch_validate),
        Bilevel(lambda p, seed: Descent(p["lr"], seed), Descent.step, lambda d: float(((d.weights - 2.0) ** 2).sum())),
    ],
    ids=["torch", "own class"],
)
def test_a_run_that_is_thawed_goes_on_exactly(problem: Bilevel) -> None:
    params = {"lr": 0.03}
    straight, _ = problem.advance(problem.init(params, 3), 30)
    state = problem.init(params, 3)
    for n in (1, 12, 17):
        state, _ = problem.advance(state, n)
        state = problem.thaw(params, 3, unpack(pack(problem.freeze(state))))
    assert problem.validate(state) == problem.validate(straight)
    other, _ = problem.advance(problem.init(params, 4), 30)
    assert problem.validate(other) != problem.validate(straight)
