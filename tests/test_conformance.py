"""Every method, classic and rival, and the one made of them, in every configuration, keeps every law."""

import functools
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from regretless.auto import AUTO, others
from regretless.basics.streams import Draws
from regretless.classics import CLASSICS
from regretless.history import History
from regretless.method import Method, Recipe
from regretless.methods import METHODS
from regretless.space import Cube
from regretless.space.parameters import Array
from regretless.testing import (
    METHOD_CHECKS,
    Loop,
    bowl,
    check_caches,
    check_global_random_state,
    check_same_seed,
    run,
)

pytestmark = pytest.mark.filterwarnings("ignore::regretless.methods.gp_threds.default.DimensionWarning")
RECIPES = [AUTO, *METHODS.values(), *CLASSICS.values(), *others().values()]
"""The rivals are there where regretless-bench is installed."""
RANDOM = CLASSICS["random"]
OPTIONS = {
    "noise_var": 1e-4,
    "noise_sd": 1e-2,
    "verify": 2,
    "kappa": 0.7,
    "initial": 3,
    "low_dim": 1,
}
"""Options that change how a method works; every method is also run with each of them that it has."""


def configurations() -> Iterator[Recipe]:
    for recipe in RECIPES:
        yield recipe
        has = inspect.signature(recipe.method).parameters
        yield from (recipe(**{name: value}) for name, value in OPTIONS.items() if name in has)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("recipe", configurations(), ids=str)
def test_law(recipe: Recipe, check: Callable[[Recipe], None]) -> None:
    check(recipe)


class Climber(Method):
    """A step from the best point known, which is found again when the cache says so; the subclasses plant faults."""

    every = 1
    """Every so many-th ask is such a step, the others are uniform draws."""

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.best, self.n, self.asks = np.zeros(self.dim), 0, 0

    def is_stale(self, history: History) -> bool:
        return True

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        self.asks += 1
        if rng.step % self.every < self.every - 1:
            return rng.random(self.dim)
        return self.step(history, rng)

    def step(self, history: History, rng: Draws) -> Array:
        if len(history) and self.is_stale(history):
            self.best, self.n = np.array(history.X[history.best_row()]), len(history)
        return np.asarray(np.clip(self.best + 0.1 * rng.normal(size=self.dim), 0, 1))


class Counting(Climber):
    """Believes that a history with as many values is the same."""

    def is_stale(self, history: History) -> bool:
        return len(history) != self.n


class Remembering(Climber):
    """Keeps the best point that it was ever shown, of whatever history."""

    def is_stale(self, history: History) -> bool:
        return bool(self.n == 0 or bowl(history.X[[history.best_row()]])[0] > bowl(self.best[None])[0])


class Numbering(Climber):
    """Looks at the values at every third of its own asks."""

    def is_stale(self, history: History) -> bool:
        return self.asks % 3 == 1


@pytest.mark.parametrize("every", [1, 2, 3, 4])
@pytest.mark.parametrize("faulty", [Counting, Remembering, Numbering])
def test_a_stale_cache_is_found(faulty: type[Method], every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Climber, "every", every)
    check_caches(Recipe("sound", Climber))
    with pytest.raises(AssertionError, match=r"a dropped cache|two answers"):
        check_caches(Recipe("faulty", faulty))


class Drawing(Climber):
    """Takes one number from NumPy's global generator."""

    def step(self, history: History, rng: Draws) -> Array:
        np.random.random()  # noqa: NPY002
        return super().step(history, rng)


class Seeding(Climber):
    """Draws from Python's global generator, which it seeds."""

    def step(self, history: History, rng: Draws) -> Array:
        random.seed(self.seed + rng.step)
        return np.array([random.random() for _ in range(self.dim)])


class Reading(Climber):
    """Draws from a generator of its own, which it seeds with NumPy's global state."""

    def step(self, history: History, rng: Draws) -> Array:
        state: Any = np.random.get_state()  # noqa: NPY002
        return np.random.default_rng(state[1]).random(self.dim)


@pytest.mark.parametrize("faulty", [Drawing, Seeding, Reading])
def test_a_use_of_global_random_numbers_is_found(faulty: type[Climber], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Climber, "every", 3)
    python, numpy = random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index] # noqa: NPY002
    check_global_random_state(Recipe("sound", Climber))
    with pytest.raises(AssertionError, match="global random state"):
        check_global_random_state(Recipe("faulty", faulty))
    assert random.getstate() == python
    assert np.random.get_state()[1].tobytes() == numpy  # type: ignore[index] # noqa: NPY002


class Sharing(Climber):
    """Keeps the seed where all its instances find it."""

    shared: ClassVar[dict[str, int]] = {}

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.shared["seed"] = seed

    def step(self, history: History, rng: Draws) -> Array:
        return np.random.default_rng((self.shared["seed"], rng.step)).random(self.dim)


def test_a_seed_that_instances_share_is_found() -> None:
    check_same_seed(Recipe("sound", Climber))
    with pytest.raises(AssertionError, match="the same seed"):
        check_same_seed(Recipe("faulty", Sharing))


AS_IT_IS = ("-printed", "-authors", "threds-refit")
LEARNING = [r for r in RECIPES if not (r.method.traits.model_free or r.name.endswith(AS_IT_IS))]
"""Methods that are to learn something; what a paper prints, or its authors run, stands for what it is."""


@pytest.mark.parametrize("recipe", LEARNING, ids=lambda recipe: recipe.name)
def test_beats_the_median_of_random_search_on_a_bowl(recipe: Recipe) -> None:
    """Five runs decide; where they do not show it, nine do."""
    assert any(median_best(recipe, seeds) > median_best(RANDOM, 50) for seeds in (5, 9))


def median_best(recipe: Recipe, seeds: int) -> float:
    return float(np.median([best(recipe, seed) for seed in range(seeds)]))


@functools.cache
def best(recipe: Recipe, seed: int, budget: int = 25) -> float:
    return float(bowl(run(Loop(recipe.build(2, seed=seed, budget=budget)), budget)).max())
