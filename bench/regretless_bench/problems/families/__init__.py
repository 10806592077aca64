"""A library of families of functions with known optima, each of another character, for what must hold on all of them.

    problem = family_case("warped", seed=3, dim=2, noise=0.1)
    problem.evaluate({...}), problem.regret({...})

Instances of one suite are one family: what was chosen on some families is judged on the others. A family is a function
`(seed, dim) -> Problem`. Those with `needles` hide their best value where no smooth trace leads to it, so that no model
can know of it before an evaluation has touched it. Noise is Gaussian, given as a share of the interquartile range of
the noiseless values over the space.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from regretless.method import keyed_generator
from regretless.models.gp.sobol import sobol_points
from regretless_bench.problems.problem import Problem
from regretless_bench.streams import BenchStream

QUARTILE_POINTS = 2048
"""Sobol points over which the interquartile range is measured: its error is then a few per cent."""


@dataclass(frozen=True)
class Family:
    """A family of functions: where its generator stands, its dimensions in the order in which seeds take them."""

    name: str
    path: str
    dims: tuple[int, ...]
    needles: bool = False
    """Whether its best value leaves no trace before it is touched."""
    aside: bool = False
    """Whether it is kept out of every choice and read at the end only."""

    def __call__(self, seed: int, dim: int) -> Problem:
        module, _, function = self.path.partition(":")
        make: Callable[[int, int], Problem] = getattr(importlib.import_module(f"{__name__}.{module}"), function)
        problem = make(seed, dim)
        problem.seed = seed
        return problem


LOW = (2, 3, 1, 2, 5, 3, 2, 4, 8, 2, 3, 6, 2, 3, 10)
"""Dimensions from 1 to 10, the low ones more often: a run of ten costs as much as eight runs of two."""

FAMILIES = {
    family.name: family
    for family in (
        Family("bbob", "formulas:bbob_case", (2, 3, 2, 3, 5, 2, 3, 5, 2, 3, 10)),
        Family("classics", "formulas:classic", (2, 3, 2, 4, 2, 5, 3, 2, 6, 2, 3, 8, 2, 10)),
        Family("bowls", "formulas:bowl", LOW),
        Family("gp-smooth", "fields:smooth_field", LOW),
        Family("gp-rough", "fields:rough_field", (2, 1, 3, 2, 1, 4, 2, 5)),
        Family("warped", "fields:warped_field", LOW),
        Family("additive", "fields:additive", LOW),
        Family("networks", "fields:network", LOW),
        Family("peaks", "landscapes:wide_peaks", LOW),
        Family("steps", "landscapes:terraces", LOW),
        Family("rough", "landscapes:rough", (2, 1, 3, 2, 1, 4, 2, 5)),
        Family("labels", "discrete:labels", (1, 2, 3, 2, 4)),
        Family("mixed", "discrete:mixed", (3, 2, 4, 5)),
        Family("tables", "discrete:table", (5, 6)),
        Family("tuning", "discrete:tuning", (2, 3)),
        Family("needles", "landscapes:needle", LOW, needles=True),
        Family("narrow-peaks", "landscapes:narrow_peaks", LOW, needles=True),
        Family("gkls", "landscapes:gkls", (2, 3, 2, 4, 3, 5), needles=True),
        Family("facets", "landscapes:facets", LOW, aside=True),
    )
}


def family_case(name: str, *, seed: int, dim: int | None = None, noise: float = 0.0) -> Problem:
    """One problem of a family.

    Args:
        name: one of FAMILIES.
        seed: keys the instance and its noise.
        dim: the dimension; None: the family's own for this seed. Families of tables have the dimension of their table.
        noise: the noise's standard deviation as a share of the interquartile range of the noiseless values.
    """
    if name not in FAMILIES:
        raise ValueError(f"no family is called {name!r}; there are {', '.join(FAMILIES)}")
    if not noise >= 0:
        raise ValueError(f"noise must be at least 0, got {noise!r}")
    family = FAMILIES[name]
    problem = family(seed, family.dims[seed % len(family.dims)] if dim is None else dim)
    if noise:
        problem.noise_sd = noise * interquartile_range(problem)
    return problem


def interquartile_range(problem: Problem) -> float:
    """The interquartile range of the noiseless values over Sobol points of the space; their range where it is 0."""
    cube = problem.space.cube()
    U = cube.snap(sobol_points(QUARTILE_POINTS, cube.dim, keyed_generator(0, 0, stream=BenchStream.SPREAD)))
    values = problem.true_unit(U)
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) or float(np.ptp(values))


__all__ = ["FAMILIES", "Family", "family_case", "interquartile_range"]
