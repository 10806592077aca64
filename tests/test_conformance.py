"""Every method and baseline keeps every law of the contract; no exceptions by name."""

from collections.abc import Callable

import numpy as np
import pytest

from regretless.baselines import BASELINES
from regretless.method import Recipe
from regretless.methods import METHODS
from regretless.testing import METHOD_CHECKS, bowl, run

pytestmark = pytest.mark.filterwarnings("ignore::regretless.methods.gp_threds.algorithm.DimensionWarning")
RECIPES = [*METHODS.values(), *BASELINES.values()]
RANDOM = BASELINES["random"]


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_law(recipe: Recipe, check: Callable[[Recipe], None]) -> None:
    check(recipe)


@pytest.mark.parametrize("recipe", [r for r in RECIPES if not r.method.model_free], ids=lambda recipe: recipe.name)
def test_beats_the_median_of_random_search_on_a_bowl(recipe: Recipe) -> None:
    budget = 25
    random_best = np.median([bowl(run(RANDOM.build(2, seed=s, budget=budget), budget)).max() for s in range(50)])
    ours = np.median([bowl(run(recipe.build(2, seed=s, budget=budget), budget)).max() for s in range(3)])
    assert ours > random_best
