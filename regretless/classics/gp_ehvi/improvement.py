"""What a point promises to add to a front, in closed form, in logarithms, with gradients.

With independent normal posteriors of the objectives and disjoint boxes [l, u] that fill what the front leaves free, the
expected gain in hypervolume is

    sum over boxes of  prod over objectives of  h(l) - h(u),      h(a) = E max(f - a, 0),

because a box gains the volume of its part below f (Emmerich et al. 2008; Yang et al. 2019). It is kept as a logarithm
(Ament et al. 2023; Daulton et al. 2023): far from the front the gain itself has neither digits nor a gradient.

Beyond three objectives there are too many boxes. There the gain is that of one scalarisation, drawn anew for each ask,

    E max(min_j (f_j - r_j) / w_j - t, 0) = integral from t of  prod_j P(f_j > r_j + w_j v) dv,

t the largest value of the minimum on the front. Over random directions w its k-th power adds up to the hypervolume
(Zhang and Golovin 2020).
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import erfcx, log_ndtr

from regretless.models.gp.acquisition import LEAST_SHARE, log_h_of
from regretless.models.gp.maximiser import Acquisition
from regretless.models.gp.posterior import GP
from regretless.space.parameters import Array


class BoxGain:
    """The expected hypervolume that free boxes gain, as a function of the posteriors' means and variances.

    Args:
        lower, upper: the corners of the boxes, b x k each, in the posteriors' units; upper ones may be infinite.
        signals: the signal variance of each posterior, k.
    """

    def __init__(self, lower: Array, upper: Array, signals: Sequence[float]) -> None:
        self._signals = signals
        self._levels: list[tuple[Array, Array, Array]] = []
        """Of each objective: the levels that occur, and where in them the lower and the upper corners are."""
        for low, high in zip(lower.T, upper.T, strict=True):
            levels = np.unique(np.concatenate([low, high[np.isfinite(high)]]))
            above = np.where(np.isfinite(high), np.searchsorted(levels, high), len(levels))
            self._levels.append((levels, np.searchsorted(levels, low), above))

    def value(self, means: Sequence[Array], variances: Sequence[Array]) -> Array:
        """The logarithm of the gain, q."""
        factors = [self._factor(j, means[j], variances[j])[0] for j in range(len(means))]
        return _log_sum(np.sum(factors, axis=0))[0]

    def with_slopes(self, means: Sequence[Array], variances: Sequence[Array]) -> tuple[Array, list[Array], list[Array]]:
        """The same and its derivatives in each mean and each variance, q each."""
        factors = [self._factor(j, means[j], variances[j], slopes=True) for j in range(len(means))]
        value, share = _log_sum(np.sum([factor[0] for factor in factors], axis=0))
        by_mean = [np.einsum("qb,qb->q", share, factor[1]) for factor in factors]
        return value, by_mean, [np.einsum("qb,qb->q", share, factor[2]) for factor in factors]

    def _factor(self, j: int, mean: Array, variance: Array, *, slopes: bool = False) -> tuple[Array, Array, Array]:
        """log(h(l) - h(u)) of every box in objective j, and its derivatives in the mean and the variance, q x b each
        (where `slopes` are wanted)."""
        levels, low, high = self._levels[j]
        s = np.sqrt(np.maximum(variance, LEAST_SHARE * self._signals[j]))[:, None]
        z = (mean[:, None] - levels) / s
        log_h, slope = log_h_of(z)
        log_h = np.column_stack([log_h, np.full(len(z), -np.inf)])  # h(infinity) = 0
        at_low, at_high = log_h[:, low], log_h[:, high]
        ratio = np.exp(at_high - at_low)
        # 1e-14: the least difference 1 - h(u) / h(l): a thinner box has lost its digits
        left = np.maximum(1.0 - ratio, 1e-14)
        value = at_low + np.log(left) + np.log(s)
        if not slopes:
            return value, value, value
        zero = np.zeros((len(z), 1))
        by_mean = np.column_stack([slope / s, zero])
        by_variance = np.column_stack([(1.0 - z * slope) / (2.0 * s * s), zero])
        return value, *((d[:, low] - ratio * d[:, high]) / left for d in (by_mean, by_variance))


class ScalarGain:
    """The expected gain of one scalarisation, as a function of the posteriors' means and variances.

    Args:
        reference: r, k. direction: w, k, positive. beat: t. signals: as for `BoxGain`.
    """

    def __init__(self, reference: Array, direction: Array, beat: float, signals: Sequence[float]) -> None:
        # 24: points of the integral, geometric from a thousandth of the front's range; 48 move no digit that matters
        steps = np.geomspace(1e-3, 4.0, 24)
        edges = np.concatenate([[0.0], (steps[1:] + steps[:-1]) / 2, [steps[-1]]])
        self._levels = reference[:, None] + direction[:, None] * (beat + steps)
        self._log_widths, self._signals = np.log(np.diff(edges)), signals

    def value(self, means: Sequence[Array], variances: Sequence[Array]) -> Array:
        """The logarithm of the gain, q."""
        return _log_sum(self._log_widths + sum(log_ndtr(z) for z, _ in self._scores(means, variances)))[0]

    def with_slopes(self, means: Sequence[Array], variances: Sequence[Array]) -> tuple[Array, list[Array], list[Array]]:
        """The same and its derivatives in each mean and each variance, q each."""
        scores = self._scores(means, variances)
        value, share = _log_sum(self._log_widths + sum(log_ndtr(z) for z, _ in scores))
        by_mean, by_variance = [], []
        for z, s in scores:
            slope = share * np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2)) / s  # phi(z) / Phi(z) / s
            by_mean.append(slope.sum(axis=1))
            by_variance.append(-(slope * z / (2.0 * s)).sum(axis=1))
        return value, by_mean, by_variance

    def _scores(self, means: Sequence[Array], variances: Sequence[Array]) -> list[tuple[Array, Array]]:
        found = []
        for j, levels in enumerate(self._levels):
            s = np.sqrt(np.maximum(variances[j], LEAST_SHARE * self._signals[j]))[:, None]
            found.append(((means[j][:, None] - levels) / s, s))
        return found


def of_means(gps: Sequence[GP], gain: BoxGain | ScalarGain, widths: Array) -> Acquisition:
    """The gain as a function of points whose values are taken to lie at the means, blurred by sds (k) that give it a
    slope everywhere; a point costs O(n) where one with its variances costs O(n^2)."""
    variances = widths**2

    def value_and_gradient(X: Array) -> tuple[Array, Array]:
        found = [gp.mean_grad(X) for gp in gps]
        value, by_mean, _ = gain.with_slopes([mean for mean, _ in found], _columns(variances, len(X)))
        return value, np.asarray(sum(a[:, None] * dm for a, (_, dm) in zip(by_mean, found, strict=True)))

    def value_alone(X: Array) -> Array:
        return gain.value([gp.mean_at(X) for gp in gps], _columns(variances, len(X)))

    return Acquisition(value_and_gradient, value_alone)


def _columns(numbers: Array, q: int) -> list[Array]:
    """Each of the numbers q times."""
    return [np.full(q, number) for number in numbers]


def _log_sum(terms: Array) -> tuple[Array, Array]:
    """The logarithm of the sum of exponentials along each row of terms (q x b), and each one's share in it, q x b."""
    top = terms.max(axis=1, keepdims=True)
    parts = np.exp(terms - top)
    total = parts.sum(axis=1, keepdims=True)
    return np.asarray((top + np.log(total))[:, 0]), parts / total


def of_posteriors(gps: Sequence[GP], gain: BoxGain | ScalarGain) -> Acquisition:
    """The gain as a function of points."""

    def value_and_gradient(X: Array) -> tuple[Array, Array]:
        found = [gp.mean_var_grad(X) for gp in gps]
        value, by_mean, by_variance = gain.with_slopes([f[0] for f in found], [f[1] for f in found])
        slopes = zip(by_mean, by_variance, found, strict=True)
        return value, np.asarray(sum(a[:, None] * dm + b[:, None] * dv for a, b, (_, _, dm, dv) in slopes))

    def value_alone(X: Array) -> Array:
        found = [gp.mean_var(X) for gp in gps]
        return gain.value([f[0] for f in found], [f[1] for f in found])

    return Acquisition(value_and_gradient, value_alone)
