"""The model of `tangent-region`: the net linearised at its start, whose mean and draws have a closed form.

It is a pure function of the history and the seed. `draw` gives a function to maximise, in units of the model's own;
`mean` is in the units told. Values enter through `exact_unit`, so that no square overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from regretless.methods.neural_bo.net_method import Path
from regretless.models.tangent.ntk import ROWS, Factors, Tensor, on_device, on_host
from regretless.models.tangent.ridge import (
    EVIDENCE_POINTS,
    EXACT_UP_TO,
    KernelRidge,
    SketchRidge,
    empty_ridge,
    relative_noise,
)
from regretless.models.tangent.values import exact_unit, standardisation, times_unit
from regretless.models.tangent.warp import WARPINGS, Warp, Warping
from regretless.space.parameters import Array
from regretless_bench.methods.small_nets import scheduled_size
from regretless_bench.methods.tangent_region.branches import BranchNet, Shape, choose_shape

if TYPE_CHECKING:
    from regretless.models.tangent.module_tangent import ModuleTangent

Net: TypeAlias = "BranchNet | ModuleTangent"
ShapeRule: TypeAlias = Literal["fixed", "noise", "evidence"]
"""What the evidence chooses: nothing; the noise level and the warp; or the whole shape."""

FIRST_FIT, GROWTH, LATE_GROWTH = 4, 1.2, 2.0
"""The shape is chosen at 4 values, then at each fifth more, or at twice as many once there is a sketch."""
MISFIT, MISFIT_SHARE = 4.0, 0.05  # no bound where a larger share of leave-one-out residuals exceeds so many deviations
NEAREST = 4  # one value in so many, those closest to another one, shows how much noise there is at most; our choice


class ClosedForm:
    """The tangent net linearised at its start, where training ends in kernel ridge regression."""

    def __init__(
        self, net: Net, shape: Shape, *, seed: int, rule: ShapeRule, warping: Warping | None, device: str = "cpu"
    ) -> None:
        self._net, self._seed, self._rule, self._device = net, seed, rule, device
        self.shape = self._usual = shape
        self._warpings: dict[Warping, float] = {"strong": 0.0} if rule == "fixed" else WARPINGS
        if warping is not None:
            self._warpings = {warping: 0.0}
        self.warping: Warping = next(iter(self._warpings))  # the warp in use
        self._shaped: Net = net.at(shape) if isinstance(net, BranchNet) else net
        self._shape_size = 0
        self._posterior: KernelRidge | SketchRidge | None = None
        self._X, self._y, self._yvar = np.empty((0, 1)), np.empty(0), np.empty(0)
        self._unit = 1.0
        self._warp = Warp()

    def refresh(self, X: Array, y: Array, yvar: Array) -> None:
        """Takes the history: inputs n x ..., values n and their known noise variances n (NaN where unknown)."""
        n = len(y)
        self._unit = exact_unit(y)
        self._X, self._y, self._yvar = X, y / self._unit, yvar
        self._choose(n)
        seen = self._y if n <= EXACT_UP_TO else self._y[: self._size(n)]
        self._warp = Warp.of(seen, self.warping, of_equal=1.0 / self._unit)
        if isinstance(self._shaped, BranchNet) and self._shaped.shape != self.shape:
            self._shaped = self._shaped.at(self.shape)
        if self._posterior is None or (n > EXACT_UP_TO) != isinstance(self._posterior, SketchRidge):
            self._posterior = empty_ridge(self._shaped, self.shape.lam, X, seed=self._seed, device=self._device)
        self._posterior.extend(X, self._warp(self._y), self._relative_noise(n))

    def _relative_noise(self, n: int) -> Array | None:
        """Noise variances over the median of those known by the last scheduled size, n; None where none is known."""
        return relative_noise(self._yvar, self._size(n)) if n >= FIRST_FIT else None

    def _size(self, n: int) -> int:
        """The last scheduled size."""
        if n > EXACT_UP_TO:
            return scheduled_size(n, first=EXACT_UP_TO, growth=LATE_GROWTH)
        return scheduled_size(n, first=FIRST_FIT, growth=GROWTH)

    def _choose(self, n: int) -> None:
        """Chooses the shape anew when n has passed a scheduled size; the values beyond that size play no part."""
        size = self._size(n)
        if size == self._shape_size or n < FIRST_FIT:
            return
        self._shape_size = size
        if n > EXACT_UP_TO or np.any(self._yvar[:size] > 0):
            self._posterior = None  # another warp, or another typical noise: every row enters anew
        if self._rule == "fixed":
            return
        y = self._y[:size]
        last = slice(max(0, size - EVIDENCE_POINTS), size)
        warps = [Warp.of(y, warping, of_equal=1.0 / self._unit) for warping in self._warpings]
        targets = np.stack([warp(y[last]) for warp in warps], axis=1)
        offsets = np.array([warp.log_jacobian(y[last]) for warp in warps]) + list(self._warpings.values())
        inputs = on_device(self._X[last], self._device)
        shape, column = choose_shape(self._net, self._usual, inputs, targets, offsets, noise_only=self._rule == "noise")
        self.warping = list(self._warpings)[column]
        if shape != self.shape:
            self.shape, self._posterior = shape, None

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        """One posterior function, defined everywhere at once and nu times as far from the mean."""
        posterior = self._posterior
        assert posterior is not None
        w = posterior.draw(nu * self.shape.variance**0.5, rng)
        return lambda Z: self._over_rows(Z, lambda A: posterior.values(A, w))

    def mean(self, Z: Array) -> Array:
        """The posterior mean, in the units told, C."""
        posterior = self._posterior
        assert posterior is not None
        w = posterior.mean()
        return times_unit(self._warp.inverse(self._over_rows(Z, lambda A: posterior.values(A, w))), self._unit)

    def noise_shown(self) -> float:
        """The share, at most 1, of the assumed noise variance that near values show; the rest is misfit."""
        if self._rule == "fixed" or len(self._y) < FIRST_FIT:
            return 1.0
        X = np.asarray(self._X[-EVIDENCE_POINTS:]).reshape(-1, int(np.prod(self._X.shape[1:])))
        t = self._warp(self._y[-EVIDENCE_POINTS:])
        squares = (X**2).sum(1)
        apart = squares[:, None] + squares - 2 * X @ X.T
        np.fill_diagonal(apart, np.inf)
        other = apart.argmin(axis=1)
        near = np.argsort(apart.min(axis=1), kind="stable")[: max(FIRST_FIT, len(t) // NEAREST)]
        shown = 0.5 * float(np.mean((t[near] - t[other[near]]) ** 2))
        return min(1.0, shown / (self.shape.lam * self.shape.variance))

    def moments_as_told(self, Z: Array) -> tuple[Array, Array]:
        """Mean and sigma of the values as told, neither standardised nor warped (as in NeuralBO, Thm. 1), C each."""
        posterior = self._posterior
        assert isinstance(posterior, KernelRidge)
        w = posterior.mean(on_device(self._y, self._device))
        mean = times_unit(self._over_rows(Z, lambda A: posterior.values(A, w)), self._unit)
        return mean, self._over_rows(Z, posterior.deviation)

    def conservative_moments(self, Z: Array, shortened: float) -> tuple[Array, Array] | str:
        """Mean and deviation with length-scales times `shortened`, C each, or why they cannot be trusted."""
        if not isinstance(self._net, BranchNet):
            return "the tangent kernel of a user's module has no length-scale that could be shortened for caution"
        scale, coordinate_scale = self.shape.scale / shortened, self.shape.coordinate_scale / shortened
        net = self._net.at(replace(self.shape, scale=scale, coordinate_scale=coordinate_scale))
        posterior = KernelRidge(net, self.shape.lam, device=self._device)
        centre, spread = standardisation(self._y, of_equal=1.0 / self._unit)
        posterior.extend(self._X, (self._y - centre) / spread, self._relative_noise(len(self._y)))
        residual, expected = (on_host(v) for v in posterior.leave_one_out())
        variance = float(np.mean((residual / expected) ** 2))  # the leave-one-out form of the best signal variance
        if np.mean(np.abs(residual) > MISFIT * expected * variance**0.5) > MISFIT_SHARE:
            return "leave-one-out residuals are larger than the model allows"
        w = posterior.mean()
        mean = centre + spread * self._over_rows(Z, lambda A: posterior.values(A, w), net)
        deviation = spread * variance**0.5 * self._over_rows(Z, posterior.deviation, net)
        return times_unit(mean, self._unit), times_unit(deviation, self._unit)

    @property
    def is_exact(self) -> bool:
        """Whether the posterior is exact, and no sketch."""
        return isinstance(self._posterior, KernelRidge)

    def _over_rows(self, Z: Array, values: Callable[[Factors], Tensor], net: BranchNet | None = None) -> Array:
        """`values` of the factors of inputs Z (C x ...), ROWS of them at a time, C."""
        tangent = net or self._shaped
        chunks = (on_device(Z[i : i + ROWS], self._device) for i in range(0, len(Z), ROWS))
        return np.concatenate([on_host(values(tangent.factors(chunk))) for chunk in chunks])
