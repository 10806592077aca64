"""What the methods on one fitted Gaussian process share: design, surrogate, recommendation, certificate and state."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from regretless.certificate import Certificate
from regretless.gp.certify import fitted_certificate, wary_surrogate
from regretless.gp.design import DesignedMethod
from regretless.gp.kernels import Kind
from regretless.gp.posterior import GP
from regretless.gp.step import best_of_shortlist, best_told
from regretless.gp.surrogate import Surrogate
from regretless.method import State
from regretless.noise import stated_noise
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

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        tame: bool | None = None,
        rotate: bool = False,
    ) -> None:
        self.paper = preset == "paper"
        super().__init__(cube, seed=seed, budget=budget, centre=not self.paper)
        self._surrogate = Surrogate(
            self.cube, preset=preset, kernel=kernel, ard=ard, noise_var=noise_var, quadratic=quadratic, tame=tame,
            rotate=rotate,
        )  # fmt: skip
        self._wary = wary_surrogate(self.cube)

    def _posterior(self) -> GP:
        """The posterior of all told values, pending points hallucinated."""
        return self._surrogate.gp(self.X, self.y, self.yvar, self.pending)

    @property
    def _evaluations(self) -> int:
        """Evaluations known or under way."""
        return len(self.y) + len(self.failed) + len(self.pending)

    def _value_to_beat(self, gp: GP) -> float:
        """The largest mean at a told point (paper preset: value), standardised; pending points count as their means."""
        best = (float(gp.y.max()) - gp.offset) / gp.scale if self.paper else float(gp.mean_at(self.X).max())
        return max(best, float(gp.mean_at(self.pending).max(initial=best)))

    def _known_noise(self) -> bool | None:
        return stated_noise(self.paper, self._surrogate.noise_var)

    def _recommend(self) -> Array:
        gp = self._surrogate.gp(self.X, self.y, self.yvar)
        known = self.paper or self._surrogate.noise_var is not None
        return best_told(gp, self.X) if known else best_of_shortlist(gp, self)

    def _certificate(self, delta: float) -> Certificate:
        x, rng = self.recommend(), self.fixed_generator()
        return fitted_certificate(self.X, self.y, self.yvar, self.cube, x, delta, rng, wary=self._wary)

    def _state(self) -> State:
        """The latest hyper-parameters, so that a loaded run fits nothing again."""
        models = {"model": self._surrogate, "wary": self._wary}
        fits = {name: model.latest_fit(self.X, self.y, self.yvar) for name, model in models.items()}
        return {name: fit for name, fit in fits.items() if fit}

    def _load(self, state: Mapping[str, Any]) -> None:
        for name, model in (("model", self._surrogate), ("wary", self._wary)):
            if name in state:
                model.take_fit(self.X, self.y, self.yvar, state[name])
