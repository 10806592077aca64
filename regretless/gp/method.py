"""What the methods on one fitted Gaussian process share: design, surrogate, recommendation, certificate and state."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.certify import SHORTENED, fitted_certificate, wary_surrogate
from regretless.gp.design import DesignedMethod
from regretless.gp.kernels import Kind
from regretless.gp.maximiser import USUAL, Acquisition, Effort
from regretless.gp.posterior import GP
from regretless.gp.sides import SideModels, belief_weight, log_belief, log_feasible, summed
from regretless.gp.step import best_told, best_weighed, step, worth_using
from regretless.gp.surrogate import Surrogate
from regretless.method import State
from regretless.noise import stated_noise
from regretless.options import Preset
from regretless.parameters import Array
from regretless.space import Cube


class GPMethod(DesignedMethod):
    """An initial design, then steps by the posterior of a surrogate; a subclass gives `_step`.

    Args:
        preset: "default", or "paper": an SE kernel on the values as told, a design without the centre of the cube, and
            what the method's paper does besides.
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise_var: a known noise variance of all values, or None to fit it.
        quadratic: add the quadratic trend to the kernel; None: by preset and dimension.
        tame: clip low values before fitting; None: by preset.
        rotate: let fits turn the axes of the length-scales, for nearly noise-free valleys across the coordinates.
    """

    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_var"}
    models_constraints = weighs_belief = uses_outside = True

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        tame: bool | None = None,
        rotate: bool = False,
    ) -> None:
        self.paper = preset == "paper"
        super().__init__(cube, seed=seed, budget=budget, centre=not self.paper)
        self.known_noise = stated_noise(self.paper, noise_var)
        self._surrogate = Surrogate(
            self.cube, preset=preset, kernel=kernel, ard=ard, noise_var=noise_var, quadratic=quadratic, tame=tame,
            rotate=rotate,
        )  # fmt: skip
        self._wary = wary_surrogate(self.cube)

    def _expect(self) -> None:
        m, first = self.n_constraints, self._design.size
        self._sides = SideModels(self.cube, constraints=m, cost=self.has_cost, first=first)
        self._wary_sides = SideModels(self.cube, constraints=m, cost=False, first=first, shorten=SHORTENED)

    def _best_step(
        self,
        gp: GP,
        acquisition: Acquisition,
        rng: np.random.Generator,
        *,
        logarithmic: bool = False,
        effort: Effort = USUAL,
    ) -> Array:
        """The point that maximises an acquisition, weighed by what is known beside the objective (`gp.sides`), d."""
        if self._n_sides or self.cube.belief is not None:
            acquisition = self._weighed(acquisition)
        return step(self, gp, acquisition, rng, logarithmic=logarithmic, effort=effort, again=self._repeats)

    def _weighed(self, acquisition: Acquisition) -> Acquisition:
        parts, weights = [acquisition], [1.0]
        if self.n_constraints:
            holds = log_feasible(self._sides.borders(self.X, self.constraints, self.pending))
            parts = [acquisition, holds] if self.feasible.any() else [holds]
            weights = [1.0] * len(parts)
        if self.has_cost:
            parts.append(self._sides.log_cost(self.X, self.costs))
            weights.append(-1.0)
        if self.cube.belief is not None:
            parts.append(log_belief(self.cube, self.cube.belief))
            weights.append(belief_weight(len(self.y), self.budget))
        return summed(parts, weights)

    def _posterior(self) -> GP:
        """The posterior of all told values, pending points hallucinated."""
        return self._surrogate.gp(*self.basis, self.pending)

    @property
    def _evaluations(self) -> int:
        """Evaluations known or under way."""
        return len(self.y) + len(self.failed) + len(self.pending)

    def _value_to_beat(self, gp: GP) -> float:
        """The largest mean at a told point (paper preset: value), standardised; pending points count as their means."""
        known = worth_using(self)
        if self.paper and not self.n_constraints:
            best = (float(gp.y.max()) - gp.offset) / gp.scale
        else:
            best = float(gp.mean_at(known).max())
        return max(best, float(gp.mean_at(self.pending).max(initial=best)))

    def _recommend(self) -> Array:
        gp = self._surrogate.gp(*self.basis)
        known = self.paper or self._surrogate.noise_var is not None
        return best_told(gp, worth_using(self)) if known else best_weighed(gp, self)

    def _certificate(self, delta: float) -> Certificate:
        x, rng = self.recommend(), self.fixed_generator()
        borders = None
        if self.n_constraints:
            if not self.feasible.any():
                return Certificate.none("no setting that satisfies all constraints is known yet", delta)
            borders = self._wary_sides.borders(self.X, self.constraints, self.pending[:0])
        return fitted_certificate(*self.basis, self.cube, x, delta, rng, wary=self._wary, borders=borders)

    def _state(self) -> State:
        """The latest hyper-parameters, so that a loaded run fits nothing again."""
        models = {"model": self._surrogate, "wary": self._wary}
        fits = {name: model.latest_fit(*self.basis) for name, model in models.items()}
        if self._n_sides:
            costs = self.costs if self.has_cost else None
            fits["sides"] = self._sides.latest_fits(self.X, self.constraints, costs)
            fits["wary-sides"] = self._wary_sides.latest_fits(self.X, self.constraints, None)
        return {name: fit for name, fit in fits.items() if fit}

    def _load(self, state: Mapping[str, Any]) -> None:
        for name, model in (("model", self._surrogate), ("wary", self._wary)):
            if name in state:
                model.take_fit(*self.basis, state[name])
        if self._n_sides:
            costs = self.costs if self.has_cost else None
            self._sides.take_fits(self.X, self.constraints, costs, state.get("sides", {}))
            self._wary_sides.take_fits(self.X, self.constraints, None, state.get("wary-sides", {}))
