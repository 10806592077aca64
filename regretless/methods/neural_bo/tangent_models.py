"""The three models NeuralBO can stand on, each a pure function of the history: closed form, TrainNN as printed, and
warm training.

All answer alike, in the units of the values told: `draw` gives a function to maximise, `mean` and `deviation` the
posterior moments. What they hold follows from the inputs, the values and the seed, never from when they were asked;
caches only save work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from regretless.method import keyed_generator
from regretless.methods.neural_bo.ridge import KernelRidge, SketchRidge, cholesky, solve_lower
from regretless.parameters import Array
from regretless.streams import Stream
from regretless.tangent.branches import EVIDENCE_POINTS, BranchNet, Shape, choose_shape, fit_sizes
from regretless.tangent.ntk import Factors, Mlp, ModuleTangent, Tensor, diagonal, kernel, on_device, on_host
from regretless.tangent.training import Adam, Descent, descend, epoch_batches

Chosen: TypeAlias = Literal["nothing", "noise", "shape"]
"""What the evidence chooses: nothing, the noise level, or the whole shape (a module has no shape but its noise)."""
Warping: TypeAlias = Literal["strong", "gentle", "none"]
WARPINGS: dict[Warping, float] = {"strong": 0.0, "none": -2.0}
"""Warps the evidence chooses among, and the logarithms of their prior odds."""
Path: TypeAlias = Callable[[Array], Array]
"""A drawn function: inputs C x ... to values C."""

FIRST_FIT, GROWTH, LATE_GROWTH = 4, 1.2, 2.0
"""The shape is chosen at 4 values, then whenever a fifth more are known; twice as many once every value must be
sketched anew."""
BEND, TYPICAL = 0.5, 4.5
"""Deviations below the median beyond which values are compressed; a deviation is the standard one or, where outliers
rule that, 4.5 times
the median absolute one (three standard ones of a normal law)."""
MISFIT, MISFIT_SHARE = 4.0, 0.05
"""Too many leave-one-out residuals beyond this many standard deviations, and the model is not trusted with a bound."""
MOST_UNEQUAL = 1e4
"""A value's known noise variance counts as at most this many times the typical one, and at least that share of it."""
NEAREST = 4
"""One in so many values, those closest to another, say how much noise there is at most."""
ROWS = 2048
"""Rows whose features are held at once."""


class ClosedForm:
    """The tangent net linearised at its start, where TrainNN's minimiser is kernel ridge regression (Sec. 4): no
    training, no learning rate.

    Kernel form up to `dual_limit` values, a sketch of `sketch_size` features beyond.
    """

    def __init__(
        self,
        net: BranchNet | ModuleTangent,
        shape: Shape,
        *,
        seed: int,
        chosen: Chosen,
        warping: Warping | None,
        dual_limit: int,
        sketch_size: int,
        device: str,
    ) -> None:
        self._net = net
        self.shape = self._usual = shape
        self._chosen = chosen
        self._warpings: dict[Warping, float] = (
            {warping: 0.0} if warping else WARPINGS if chosen != "nothing" else {"strong": 0.0}
        )
        self.warping: Warping = next(iter(self._warpings))
        """The warp in use."""
        self._seed = seed
        self._dual_limit = dual_limit
        self._sketch_size = sketch_size
        self._device = device
        self._made: BranchNet | None = None
        self._shape_size = 0
        self._posterior: KernelRidge | SketchRidge | None = None
        self._X: Tensor = np.empty((0, 1))
        self._y: Array = np.empty(0)
        self._yvar: Array = np.empty(0)
        self._warp = Warp()

    def refresh(self, X: Array, y: Array, yvar: Array) -> None:
        """Takes the history: inputs n x ..., values n and their known noise variances n (NaN where unknown).

        The sketch's warp is that of the last scheduled size, so that rows stay as they are.
        """
        n = len(y)
        self._X, self._y, self._yvar = X, y, yvar
        self._choose(n)
        self._warp = Warp.of(y if n <= self._dual_limit else y[: self._size(n)], self.warping)
        if n <= self._dual_limit:
            if not isinstance(self._posterior, KernelRidge):
                self._posterior = KernelRidge(self._shaped, self.shape.lam)
            v = self._noise(n)
            self._posterior.extend(self._there(X), None if v is None else self._there(v))
        else:
            if not isinstance(self._posterior, SketchRidge):
                example = self._shaped.factors(self._there(X[:1]))
                self._posterior = SketchRidge(
                    self._shaped,
                    self.shape.lam,
                    self._sketch_size,
                    keyed_generator(self._seed, 0, Stream.NEURAL_BO_SKETCH),
                    example,
                )
            self._posterior.extend(X, self._warp(y), self._there, self._noise(n))

    @property
    def _shaped(self) -> BranchNet | ModuleTangent:
        if not isinstance(self._net, BranchNet):
            return self._net
        if self._made is None or self._made.shape != self.shape:
            self._made = self._net.at(self.shape)
        return self._made

    def _noise(self, n: int) -> Array | None:
        """The values' noise variances over the typical one, n, which lam stands for; None where no variance is known.

        Typical is the median known by the last scheduled size, for the rows in the factor keep what they entered with
        until then.
        """
        known = self._yvar[: self._size(n)]
        known = known[known > 0]  # NaN is not
        if len(known) == 0 or n < FIRST_FIT:
            return None
        v = self._yvar / float(np.median(known))
        made: Array = np.where(np.isnan(v), 1.0, np.clip(v, 1 / MOST_UNEQUAL, MOST_UNEQUAL))
        return made

    def _size(self, n: int) -> int:
        """The last scheduled size."""
        if n > self._dual_limit:
            return fit_sizes(LATE_GROWTH, self._dual_limit, n)
        return fit_sizes(GROWTH, FIRST_FIT, n)

    def _choose(self, n: int) -> None:
        """Chooses the shape anew when n has passed a scheduled size; the values beyond that size play no part."""
        size = self._size(n)
        if size == self._shape_size or n < FIRST_FIT:
            return
        self._shape_size = size
        if n > self._dual_limit or np.any(self._yvar[:size] > 0):
            self._posterior = None  # another warp, or another typical noise: every row enters anew
        if self._chosen == "nothing":
            return
        y = self._y[:size]
        last = slice(max(0, size - EVIDENCE_POINTS), size)
        warps = [Warp.of(y, warping) for warping in self._warpings]
        targets = np.stack([warp(y[last]) for warp in warps], axis=1)
        offsets = np.array([warp.log_jacobian(y[last]) for warp in warps]) + list(self._warpings.values())
        inputs = self._there(self._X[last])
        shape, column = choose_shape(
            self._net, self._usual, inputs, targets, offsets, noise_only=self._chosen == "noise"
        )
        self.warping = list(self._warpings)[column]
        if shape != self.shape:
            self.shape, self._posterior = shape, None

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        """One function of the posterior, nu times as far from the mean as a posterior draw (coherent: defined
        everywhere at once)."""
        nu *= self.shape.variance**0.5
        posterior = self._posterior
        if isinstance(posterior, KernelRidge):
            w = posterior.draw(self._targets, nu, rng)
            return lambda Z: self._over_rows(Z, lambda A: posterior.values(A, w))
        assert posterior is not None
        v = posterior.draw(nu, rng)
        return lambda Z: self._over_rows(Z, lambda A: posterior.values(A, v))

    def mean(self, Z: Array) -> Array:
        """The posterior mean, taken back to the values' units, C."""
        posterior = self._posterior
        if isinstance(posterior, KernelRidge):
            w = posterior.mean(self._targets)
            return self._warp.inverse(self._over_rows(Z, lambda A: posterior.values(A, w)))
        assert posterior is not None
        v = posterior.mean()
        return self._warp.inverse(self._over_rows(Z, lambda A: posterior.values(A, v)))

    def noise_shown(self) -> float:
        """The share, at most 1, of the assumed noise variance that near values show: half of their squared difference,
        which contains the noise.

        What they do not show is misfit of the kernel, which the evidence cannot tell from noise.
        """
        if self._chosen == "nothing" or len(self._y) < FIRST_FIT:
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

    def raw_moments(self, Z: Array) -> tuple[Array, Array]:
        """Mean and sigma of the kernel for the values as they are, not standardised (the setting of Thm. 1), C each."""
        posterior = self.exact
        assert posterior is not None
        w = posterior.mean(self._there(self._y))
        return self._over_rows(Z, lambda A: posterior.values(A, w)), self._over_rows(Z, posterior.deviation)

    def cautious_moments(self, Z: Array, shrink: float) -> tuple[Array, Array] | str:
        """Mean and deviation with length-scales times `shrink` and the variance refitted, C each; or why they cannot be
        trusted."""
        if not isinstance(self._net, BranchNet):
            return "the tangent kernel of a user's module has no length-scale that could be shortened for caution"
        shape = replace(
            self.shape, scale=self.shape.scale / shrink, coordinate_scale=self.shape.coordinate_scale / shrink
        )
        net = self._net.at(shape)
        posterior = KernelRidge(net, shape.lam)
        v = self._noise(len(self._y))
        posterior.extend(self._there(self._X), None if v is None else self._there(v))
        centre, scale = standardisation(self._y)
        targets = self._there((self._y - centre) / scale)
        residual, spread = (on_host(v) for v in posterior.left_out(targets))
        variance = float(np.mean((residual / spread) ** 2))  # the leave-one-out form of the best signal variance
        if np.mean(np.abs(residual) > MISFIT * spread * variance**0.5) > MISFIT_SHARE:
            return "leave-one-out residuals are larger than the model allows"
        w, unit = posterior.mean(targets), scale * variance**0.5
        mean = self._over_rows(Z, lambda A: posterior.values(A, w), net)
        return centre + scale * mean, unit * self._over_rows(Z, posterior.deviation, net)

    @property
    def exact(self) -> KernelRidge | None:
        """The posterior in kernel form, while it is one."""
        return self._posterior if isinstance(self._posterior, KernelRidge) else None

    @property
    def nbytes(self) -> int:
        """Bytes held beside the data."""
        return 0 if self._posterior is None else self._posterior.nbytes

    @property
    def _targets(self) -> Tensor:
        return self._there(self._warp(self._y))

    def _there(self, X: Array) -> Tensor:
        return on_device(X, self._device)

    def _over_rows(self, Z: Array, values: Callable[[Factors], Tensor], other: BranchNet | None = None) -> Array:
        net = other or self._shaped
        made = [values(net.factors(self._there(Z[i : i + ROWS]))) for i in range(0, len(Z), ROWS)]
        return np.concatenate([on_host(v) for v in made])


class TrainNN:
    """Alg. 1 and 2 as printed: the mean is the net trained by SGD from theta0, sigma that of the features at theta0 (in
    kernel form)."""

    def __init__(self, net: Mlp, *, seed: int, lam: float, rate: float, batch: int, epochs: int) -> None:
        self._net = net
        self._seed = seed
        self._lam = lam
        self._rate, self._batch, self._epochs = rate, batch, epochs
        self._posterior = KernelRidge(net, lam)
        self._centre, self._scale = 0.0, 1.0
        self.descent: Descent | None = None
        self._trained = 0

    def refresh(self, X: Array, y: Array) -> None:
        n = len(y)
        self._centre, self._scale = standardisation(y)
        self._posterior.extend(X)
        if n != self._trained:
            batches = epoch_batches(
                keyed_generator(self._seed, n, Stream.NEURAL_BO_TRAINING), n, self._batch, self._epochs
            )
            width = len(self._net.weights[-1])
            targets = (y - self._centre) / self._scale
            self.descent = descend(self._net, X, targets, rate=self._rate, lam=width * self._lam, batches=batches)
            self._trained = n

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        """f(x) ~ N(h(x; theta), nu^2 sigma^2(x)) for each x by itself (Alg. 1, l. 4)."""
        return lambda Z: (
            self._mean(Z) + nu * self._posterior.deviation(self._net.factors(Z)) * rng.standard_normal(len(Z))
        )

    def _mean(self, Z: Array) -> Array:
        assert self.descent is not None
        made: Array = self.descent.net.outputs(Z)
        return made

    def mean(self, Z: Array) -> Array:
        return self._centre + self._scale * self._mean(Z)

    def deviation(self, Z: Array) -> Array:
        made: Array = self._scale * self._posterior.deviation(self._net.factors(Z))
        return made


class WarmTraining:
    """The authors' public code: Adam goes on from where it was after every value, features are those of the moment and
    never redone."""

    def __init__(self, net: Mlp, *, lam: float, rate: float, decay: float, steps: int, skipped: int) -> None:
        self._adam = Adam(net, rate=rate, decay=decay)
        self._norm = net.norm
        self._lam = lam
        self._steps, self._skipped = steps, skipped
        self._rows: list[Factors] = []
        self._done = 0

    @property
    def _net(self) -> Mlp:
        return replace(self._adam.net, norm=self._norm)

    def refresh(self, X: Array, y: Array) -> None:
        for i in range(self._done, len(y)):
            if i >= self._skipped:
                self._rows.append(self._net.factors(X[i : i + 1]))
            for _ in range(self._steps):
                self._adam.step(X[: i + 1], y[: i + 1])
        self._done = len(y)

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        return lambda Z: self.mean(Z) + nu * self.deviation(Z) * rng.standard_normal(len(Z))

    def mean(self, Z: Array) -> Array:
        made: Array = self._net.outputs(Z)
        return made

    def deviation(self, Z: Array) -> Array:
        if not self._rows:
            return np.asarray(diagonal(self._net.factors(Z))) ** 0.5
        data = tuple(
            (np.concatenate([r[k][0] for r in self._rows]), _stacked([r[k][1] for r in self._rows]))
            for k in range(len(self._rows[0]))
        )
        L = cholesky(kernel(data, data) + self._lam * np.eye(len(self._rows)))
        made = []
        for start in range(0, len(Z), ROWS):
            A = self._net.factors(Z[start : start + ROWS])
            v = solve_lower(L, kernel(data, A))
            made.append(np.sqrt((diagonal(A) - (v**2).sum(0)).clip(0.0)))
        return np.concatenate(made)


@dataclass(frozen=True)
class Warp:
    """Values to targets of mean 0 and deviation 1: as they are while good, on a logarithmic scale more than a unit
    below `middle`.

    Bad values say that a place is bad; how bad must not set the scale on which good ones are told apart. "strong"
    compresses all below the median, in units of the best value's lead on it; "gentle" what is BEND deviations below the
    median; "none" nothing.
    """

    middle: float = 0.0
    unit: float = 1.0
    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, y: Array, warping: Warping) -> Warp:
        middle, spread = float(np.median(y)), standardisation(y)[1]
        lead, typical = float(y.max()) - middle, TYPICAL * float(np.median(np.abs(y - middle)))
        rounding = 1e-13 * float(np.abs(y).max())
        if warping == "strong":
            unit = lead if lead > rounding else spread
            middle += unit
        elif warping == "gentle":
            unit = BEND * (typical if rounding < typical < spread else spread)
        else:
            unit = 2 * max(middle - float(y.min()), spread)
        return cls(middle, unit, *standardisation(_bent((y - middle) / unit)))

    def __call__(self, y: Array) -> Array:
        return (_bent((y - self.middle) / self.unit) - self.centre) / self.scale

    def log_jacobian(self, y: Array) -> float:
        """The sum over y of the logarithms of the slope."""
        return -float(np.log(np.maximum((self.middle - y) / self.unit, 1.0)).sum()) - len(y) * math.log(
            self.unit * self.scale
        )

    def inverse(self, targets: Array) -> Array:
        t = targets * self.scale + self.centre
        made: Array = self.middle + self.unit * np.where(t < -1, -np.exp(np.clip(-t - 1, 0.0, 700.0)), t)
        return made


def _bent(z: Array) -> Array:
    made: Array = np.where(z < -1, -1 - np.log(np.maximum(-z, 1.0)), z)
    return made


def standardisation(y: Array) -> tuple[float, float]:
    """Mean and standard deviation of y; the deviation of constant values is taken as 1 or, for huge ones, their size's
    rounding error."""
    centre = float(y.mean())
    spread = float(y.std())
    return centre, spread if spread > 1e-13 * abs(centre) and spread > 0 else max(1.0, 1e-13 * abs(centre))


def _stacked(parts: list[Tensor | None]) -> Tensor | None:
    return None if parts[0] is None else np.concatenate([part for part in parts if part is not None])
