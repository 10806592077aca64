"""What several methods share: an initial design, and everything around the steps on one fitted Gaussian process."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from regretless.basics.noise import stated_noise
from regretless.basics.streams import Draws
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, State, Traits
from regretless.models.gp.certify import SHORTENED, conservative_surrogate, fitted_certificate
from regretless.models.gp.constraint_models import (
    ConstraintModels,
    belief_weight,
    log_belief,
    log_feasible,
    weighted_sum,
)
from regretless.models.gp.design import Design, design_size
from regretless.models.gp.kernels import KernelKind
from regretless.models.gp.maximiser import USUAL, Acquisition, Effort
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import best_evaluated, best_weighed, step
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array


class DesignedMethod(Method):
    """An initial design (`initial`, else `design_size` points, the centre first), then steps that a subclass gives."""

    def __init__(
        self, cube: int | Cube, *, seed: int, budget: int | None, initial: int | None = None, centre: bool = True
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        size = self._design_size() if initial is None else initial
        self._design = Design(self.cube, size, self._fixed_generator(), centre=centre)

    def _design_size(self) -> int:
        return design_size(self.dim, self.budget)

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        first = self._design.next_point(history, cube, rng)
        return self._step(history, cube, rng) if first is None else first

    @abstractmethod
    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        """The next point, d, once the design is complete."""


class GPMethod(DesignedMethod):
    """An initial design, then steps by the posterior of a surrogate; a subclass gives `_step`.

    Args:
        kernel: "matern52" or "se".
        ard: one length-scale per coordinate; None: by dimension.
        noise_var: a known noise variance of all values, or None to fit it.
        quadratic: add the quadratic trend to the kernel; None: by dimension.
        clip: clip low values before fitting.
        rotate: let fits turn the axes of the length-scales, for nearly noise-free valleys across the coordinates.
        centre: begin the initial design with the centre of the cube.
    """

    traits = Traits(constraints=True, belief=True, outside=True)

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        kernel: KernelKind = "matern52",
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        clip: bool = True,
        rotate: bool = False,
        centre: bool = True,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget, centre=centre)
        self._noisy = stated_noise(noise_var)
        self._surrogate = Surrogate(
            self.cube, kernel=kernel, ard=ard, noise_var=noise_var, quadratic=quadratic, clip=clip, rotate=rotate
        )
        self._conservative = conservative_surrogate(self.cube)
        self._beside: dict[tuple[int, bool, float], ConstraintModels] = {}

    def _best_step(
        self,
        history: History,
        cube: Cube,
        gp: GP,
        acquisition: Acquisition,
        rng: np.random.Generator,
        *,
        logarithmic: bool = False,
        effort: Effort = USUAL,
    ) -> Array:
        """The point that maximises an acquisition, weighed by what is known beside the objective
        (`constraint_models`), d."""
        if history.n_side_values or cube.belief is not None:
            acquisition = self._weighed(history, cube, acquisition)
        again = self._repeats(history)
        return step(history, cube, gp, acquisition, rng, logarithmic=logarithmic, effort=effort, again=again)

    def _weighed(self, history: History, cube: Cube, acquisition: Acquisition) -> Acquisition:
        parts, models = [(acquisition, 1.0)], self._constraint_models(history)
        if history.n_constraints:
            holds = log_feasible(models.borders(history.X, history.constraints, history.pending)), 1.0
            parts = [*parts, holds] if history.feasible.any() else [holds]
        if history.has_cost:
            parts.append((models.log_cost(history.X, history.costs), -1.0))
        if cube.belief is not None:
            parts.append((log_belief(cube, cube.belief), belief_weight(len(history), self.budget)))
        return weighted_sum(*zip(*parts, strict=True))

    def _constraint_models(self, history: History, *, conservative: bool = False) -> ConstraintModels:
        """The models of the constraints and the cost; or the conservative ones of the constraints, for certificates."""
        shorten = SHORTENED if conservative else 1.0
        key = history.n_constraints, history.has_cost and not conservative, shorten
        if key not in self._beside:
            self._beside[key] = ConstraintModels(
                self.cube, constraints=key[0], cost=key[1], first=self._design.size, shorten=shorten
            )
        return self._beside[key]

    def _posterior(self, history: History) -> GP:
        """The posterior of all values, pending points hallucinated."""
        return self._surrogate.gp(*history.basis, history.pending)

    def _value_to_beat(self, history: History, gp: GP) -> float:
        """The largest mean at an evaluated point, standardised; pending points count as their means."""
        best = float(gp.mean_at(history.worth_using()).max())
        return max(best, float(gp.mean_at(history.pending).max(initial=best)))

    def _recommend(self, history: History) -> Array:
        gp = self._surrogate.gp(*history.basis)
        known = self._surrogate.noise_var is not None
        return best_evaluated(gp, history.worth_using()) if known else best_weighed(gp, history)

    def _certificate(self, history: History, delta: float) -> Certificate:
        x, borders = self.recommend(history), None
        if history.n_constraints:
            if not history.feasible.any():
                return Certificate.none("no setting that satisfies all constraints is known yet", delta)
            models = self._constraint_models(history, conservative=True)
            borders = models.borders(history.X, history.constraints, history.pending[:0])
        rng, model = self._fixed_generator(), self._conservative
        return fitted_certificate(*history.basis, self.cube, x, delta, rng, conservative=model, borders=borders)

    def warm(self, history: History) -> State:
        """The latest hyper-parameters, so that a loaded run fits nothing again."""
        fits = {
            "model": self._surrogate.latest_fit(*history.basis),
            "conservative": self._conservative.latest_fit(*history.basis),
        }
        if history.n_side_values:
            fits["constraints"] = self._constraint_models(history).latest_fits(history)
            fits["conservative-constraints"] = self._constraint_models(history, conservative=True).latest_fits(history)
        return {name: fit for name, fit in fits.items() if fit}

    def warm_from(self, history: History, state: Mapping[str, Any]) -> None:
        for name, model in (("model", self._surrogate), ("conservative", self._conservative)):
            if name in state:
                model.take_fit(*history.basis, state[name])
        if history.n_side_values:
            self._constraint_models(history).take_fits(history, state.get("constraints", {}))
            conservative = self._constraint_models(history, conservative=True)
            conservative.take_fits(history, state.get("conservative-constraints", {}))
