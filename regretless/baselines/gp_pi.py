"""GP-PI: Kushner, "A New Method of Locating the Maximum Point of an Arbitrary Multipeak Curve in the Presence of
Noise", J. Basic Engineering 1964.

A Gaussian process models the objective; the next point maximises the probability of beating the best value so far by a
margin. Without a margin the search is local, with a large one it is global.

Notation
    m(x), s(x)   posterior mean and sd, standardised       b   the value to beat, without the margin
    xi           margin, in standardised units             log PI = log Phi((m(x) - b - xi) / s(x))

Deviations
    1. The paper's process is Wiener's, in one dimension; ours is a fitted Matern-5/2 (default preset) or SE
       (preset="paper") in any.
    2. b is the best posterior mean at a told point (default preset); preset="paper" takes the best observation.
    3. xi = 0.01 by default, the customary value; Kushner lets the user lower it by hand as the search goes on: with a
       known budget it falls linearly to 0 (preset="paper").
    4. Pending points are hallucinated; proposals keep away from failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import log_probability_of_improvement
from regretless.gp.certify import certificate_of, wary_surrogate
from regretless.gp.design import Design, design_size
from regretless.gp.kernels import Kind
from regretless.gp.step import load_fits, recommended_by_mean, state_of_fits, step, value_to_beat
from regretless.gp.surrogate import Surrogate
from regretless.method import Method, State
from regretless.parameters import Array
from regretless.space import Cube

XI = 0.01
"""The margin that implementations of PI customarily take on values of unit scale."""
FIRST_XI = 0.3
"""The falling margin of the paper preset starts here, in standard deviations of the values; not in paper, which gives
no number."""


class GPPI(Method):
    """GP-PI: maximises the log probability of improvement of a fitted Gaussian process.

    Args:
        preset: "default", or "paper": SE kernel, values as told, improvement over the best observation by a margin that
            falls with the budget.
        xi: the margin in standardised units; None: by preset.
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise_var: a known noise variance of all values, or None to fit it.
    """

    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_var"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        xi: float | None = None,
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise_var: float | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.paper = preset == "paper"
        self.xi = xi
        self._design = Design(self.cube, design_size(self.dim, budget), self.fixed_generator())
        self._surrogate = Surrogate.by_preset(preset, self.cube, kernel=kernel, ard=ard, noise_var=noise_var)
        self._wary = wary_surrogate(self.cube)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        b = value_to_beat(self, gp, observed=self.paper) + self._margin()
        return step(self, gp, log_probability_of_improvement(gp, b), rng, logarithmic=True)

    def _margin(self) -> float:
        """xi of this step."""
        if self.xi is not None:
            return self.xi
        if not self.paper or self.budget is None:
            return XI
        known = len(self.y) + len(self.failed) + len(self.pending)
        return FIRST_XI * max(0.0, 1.0 - known / self.budget)

    def _recommend(self) -> Array:
        return recommended_by_mean(self, self._surrogate)

    def _certificate(self, delta: float) -> Certificate:
        return certificate_of(self, self._wary, delta)

    def _state(self) -> State:
        return state_of_fits(self, model=self._surrogate, wary=self._wary)

    def _load(self, state: Mapping[str, Any]) -> None:
        load_fits(self, state, model=self._surrogate, wary=self._wary)
