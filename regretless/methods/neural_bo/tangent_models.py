"""The two models NeuralBO can stand on: the linearised net in closed form (default), and TrainNN as printed (paper).

Both are pure functions of the history and the seed. `draw` gives a function to maximise, in units of the model's own;
`mean` is in the units told. Values enter through `exact_unit`, so that no square overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from regretless.method import keyed_generator
from regretless.methods.neural_bo.branches import EVIDENCE_POINTS, BranchNet, Shape, choose_shape
from regretless.methods.neural_bo.ridge import KernelRidge, SketchRidge
from regretless.parameters import Array
from regretless.streams import Stream
from regretless.tangent.ntk import Factors, Mlp, Tensor, on_device, on_host
from regretless.tangent.training import Batches, Descent, descend, scheduled_size, whole_epochs
from regretless.tangent.values import ROUNDING, Scale, exact_unit, standardisation, times_unit

if TYPE_CHECKING:
    from regretless.methods.neural_bo.module_tangent import ModuleTangent

Net: TypeAlias = "BranchNet | ModuleTangent"
Warping: TypeAlias = Literal["strong", "gentle", "none"]
ShapeRule: TypeAlias = Literal["fixed", "noise", "evidence"]
"""What the evidence chooses: nothing; the noise level and the warp; or the whole shape."""
Path: TypeAlias = Callable[[Array], Array]  # a drawn function: inputs C x ... to values C

WARPINGS: dict[Warping, float] = {"strong": 0.0, "none": -2.0}
"""Warps the evidence chooses among, and the logarithms of their prior odds, our choice (docs/lab/neural-bo.md)."""
EXACT_UP_TO, SKETCH_SIZE = 1500, 1000
"""Values up to which the posterior is exact, and the features of the sketch beyond (docs, Cost)."""
FIRST_FIT, GROWTH, LATE_GROWTH = 4, 1.2, 2.0
"""The shape is chosen at 4 values, then at each fifth more, or at twice as many once there is a sketch."""
MISFIT, MISFIT_SHARE = 4.0, 0.05  # no bound where a larger share of leave-one-out residuals exceeds so many deviations
MOST_UNEQUAL = 1e4  # a known noise variance counts as at most this many times the typical one, at least its inverse
NEAREST = 4  # one value in so many, those closest to another one, shows how much noise there is at most; our choice
ROWS = 2048  # rows whose features are held at once: 2048 x 256 numbers per layer are 4 MB
BEND = 0.5  # the gentle warp compresses values that lie more than this many deviations below the median; our choice
ROBUST = 4.5  # the gentle warp's deviation is at most this many median absolute deviations, for outliers; our choice
LARGEST_EXPONENT = 700.0  # exp of this is a float, with room for a factor of 10,000
PAPER_RATE, PAPER_BATCH, PAPER_EPOCHS = 1e-3, 50, 50  # SGD's learning rate, batch and epochs (Sec. 7)
ALPHA = 0.1  # alpha of Theorem 1, one minus the probability of its bound; the paper leaves it open


class ClosedForm:
    """The tangent net linearised at its start, where TrainNN's minimiser is kernel ridge regression (Sec. 4)."""

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
            self._posterior = self._empty_posterior(n)
        self._posterior.extend(X, self._warp(self._y), self._relative_noise(n))

    def _empty_posterior(self, n: int) -> KernelRidge | SketchRidge:
        if n <= EXACT_UP_TO:
            return KernelRidge(self._shaped, self.shape.lam, device=self._device)
        rng = keyed_generator(self._seed, 0, Stream.NEURAL_BO_SKETCH)
        example = self._shaped.factors(on_device(self._X[:1], self._device))
        return SketchRidge(self._shaped, self.shape.lam, SKETCH_SIZE, rng, example, device=self._device)

    def _relative_noise(self, n: int) -> Array | None:
        """Noise variances over the median of those known by the last scheduled size, n; None where none is known."""
        known = self._yvar[: self._size(n)]
        known = known[known > 0]  # NaN is not
        if len(known) == 0 or n < FIRST_FIT:
            return None
        typical = float(np.median(known))
        v = np.clip(self._yvar, typical / MOST_UNEQUAL, typical * MOST_UNEQUAL) / typical
        return np.asarray(np.where(np.isnan(v), 1.0, v))

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
        """One posterior function, defined everywhere at once and nu times as far from the mean (Alg. 1, l. 4)."""
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
        """Mean and sigma of the values as told, neither standardised nor warped (the setting of Thm. 1), C each."""
        posterior = self._posterior
        assert isinstance(posterior, KernelRidge)
        w = posterior.mean(on_device(self._y, self._device))
        mean = times_unit(self._over_rows(Z, lambda A: posterior.values(A, w)), self._unit)
        return mean, self._over_rows(Z, posterior.deviation)

    def cautious_moments(self, Z: Array, shortened: float) -> tuple[Array, Array] | str:
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


class TrainNN:
    """Alg. 1 and 2: the mean is the net trained by gradient steps from theta0, sigma that of the features at theta0.

    The objective is sum (h - y)^2 / 2 + m lam |theta - theta0|^2 / 2 (Alg. 2, l. 1): a batch of b of n values has the
    share b / n of its ridge. `steps` None: the SGD of Sec. 7; a number: as many steps on all values (Thm. 1).
    """

    def __init__(self, net: Mlp, *, seed: int, lam: float, rate: float = PAPER_RATE, steps: int | None = None) -> None:
        self._net, self._seed, self._lam, self._rate, self._steps = net, seed, lam, rate, steps
        self._posterior = KernelRidge(net, lam)
        self._scale = Scale()
        self.descent: Descent | None = None
        self._trained = 0

    def refresh(self, X: Array, y: Array, yvar: Array) -> None:
        """Takes the history: inputs n x q and values n; the paper knows no noise variances (yvar)."""
        n = len(y)
        if n == self._trained:
            return
        self._scale = Scale.of(y)
        targets = self._scale.targets(y)
        self._posterior.extend(X, targets)
        width = len(self._net.weights[-1])
        ridge, batches = width * self._lam, self._batches(n)
        self.descent = descend(self._net, X, targets, rate=self._rate, ridge=ridge, batches=batches, shared=True)
        self._trained = n

    def _batches(self, n: int) -> list[Batches]:
        if self._steps is not None:
            return [np.arange(n)] * self._steps
        rng = keyed_generator(self._seed, n, Stream.NEURAL_BO_TRAINING)
        return whole_epochs(rng, n, PAPER_BATCH, PAPER_EPOCHS)

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        """f(x) ~ N(h(x; theta), nu^2 sigma^2(x)) for each x by itself (Alg. 1, l. 4)."""
        return lambda Z: (
            self._outputs(Z) + nu * self._posterior.deviation(self._net.factors(Z)) * rng.standard_normal(len(Z))
        )

    def mean(self, Z: Array) -> Array:
        """The trained net, in the units told, C."""
        return self._scale.values(self._outputs(Z))

    def _outputs(self, Z: Array) -> Array:
        assert self.descent is not None
        return np.asarray(self.descent.net.outputs(Z))


def paper_net(
    rng: np.random.Generator, inputs: int, width: int, depth: int, *, variance: float = 1.0, zero: bool = False
) -> Mlp:
    """sqrt(m) W_L relu(... relu(W_1 x)), every weight N(0, variance / m), no bias; features g / sqrt(m). The
    experiments have variance 1 (Sec. 7), the theorem 2 and a last layer that is zero, so that h(x; theta0) = 0 (Sec.
    4)."""
    shapes: list[tuple[int, ...]] = [(inputs, width), *[(width, width)] * (depth - 2), (width,)]
    weights = [rng.standard_normal(shape) * (variance / width) ** 0.5 for shape in shapes]
    weights[-1] *= 0.0 if zero else 1.0
    return Mlp(tuple(weights), (False,) * depth, "relu", output_gain=width**0.5, norm=float(width))


class TheoremConstants(NamedTuple):
    """lam, eta and J of Theorem 1."""

    lam: float
    rate: float
    steps: int


def theorem_constants(T: int, width: int, depth: int, alpha: float = ALPHA) -> TheoremConstants:
    """lam = 1 + 1/T, eta = 1 / (m lam + m L T), J = (1 + L T / lam) (1 + log(T^3 L log(1/alpha) / lam)) (Thm. 1; the
    power of T is that of Zhang et al., ICLR 2021, which the theorem follows)."""
    lam = 1 + 1 / T
    steps = (1 + depth * T / lam) * (1 + math.log(T**3 * depth * math.log(1 / alpha) / lam))
    return TheoremConstants(lam, 1 / (width * lam + width * depth * T), math.ceil(steps))


@dataclass(frozen=True)
class Warp:
    """The increasing map from values to targets of mean 0 and deviation 1: linear down to `middle` - `unit`,
    logarithmic below. "strong" compresses all values below the median, in units of the best value's lead on it;
    "gentle" those more than BEND deviations below the median; "none" no value."""

    middle: float = 0.0
    unit: float = 1.0
    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, y: Array, warping: Warping, *, of_equal: float = 1.0) -> Warp:
        """The warp that standardises y (n); `of_equal` is the deviation of equal values."""
        middle, spread = float(np.median(y)), standardisation(y, of_equal=of_equal)[1]
        lead, robust = float(y.max()) - middle, ROBUST * float(np.median(np.abs(y - middle)))
        rounding = ROUNDING * float(np.abs(y).max())
        if warping == "strong":
            unit = lead if lead > rounding else spread
            middle += unit
        elif warping == "gentle":
            unit = BEND * (robust if rounding < robust < spread else spread)
        else:
            unit = 2 * max(middle - float(y.min()), spread)
        return cls(middle, unit, *standardisation(_bend((y - middle) / unit)))

    def __call__(self, y: Array) -> Array:
        return (_bend((y - self.middle) / self.unit) - self.centre) / self.scale

    def log_jacobian(self, y: Array) -> float:
        """The sum over y of the logarithms of the slope."""
        below = np.maximum((self.middle - y) / self.unit, 1.0)
        return -float(np.log(below).sum()) - len(y) * math.log(self.unit * self.scale)

    def inverse(self, targets: Array) -> Array:
        """The values of targets (n); none lies further below than exp(LARGEST_EXPONENT) units."""
        t = targets * self.scale + self.centre
        exponent = np.clip(-t - 1, 0.0, LARGEST_EXPONENT)
        return np.asarray(self.middle + self.unit * np.where(t < -1, -np.exp(exponent), t))


def _bend(z: Array) -> Array:
    """z, below -1 replaced by -1 - log(-z), which continues it with the same slope."""
    return np.asarray(np.where(z < -1, -1 - np.log(np.maximum(-z, 1.0)), z))
