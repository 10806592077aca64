"""The statistics of comparisons: quartiles over seeds, paired differences, joint ranks, and the tests the papers
use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from regretless.space.parameters import Array

WALD_95 = 1.96
"""Half-width of a 95 % interval in standard errors, as GO-UCB prints it (Sec. 6.1)."""


def quartiles(values: Array, shares: Sequence[float] = (0.25, 0.5, 0.75)) -> Array:
    """Quantiles over seeds, k x n, of values seeds x n; NaN (a failure, or nothing found yet) counts as missing."""
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    known = ~np.isnan(values).all(axis=0)
    result = np.full((len(shares), values.shape[1]), np.nan)
    if known.any():
        result[:, known] = np.nanquantile(values[:, known], shares, axis=0)
    return result


class Paired(NamedTuple):
    """How a differs from b seed by seed, lower being better: quartiles of a - b, counts, and a two-sided sign-test
    p-value."""

    low: float
    median: float
    high: float
    wins: int
    losses: int
    ties: int
    p: float


def paired(a: Array, b: Array) -> Paired:
    """Compares values of equal seeds, n and n; lower is better."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise ValueError(f"paired values must be two arrays of the same length, got shapes {a.shape} and {b.shape}")
    difference = a - b
    wins, losses = int((difference < 0).sum()), int((difference > 0).sum())
    p = float(stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    low, median, high = (float(q) for q in quartiles(difference[:, None])[:, 0])
    return Paired(low, median, high, wins, losses, len(a) - wins - losses, p)


def shifted_t(differences: Array, least: float = 0.0) -> float:
    """p-value of the one-sided t-test whose alternative is that the mean difference lies below `least`; 1 for fewer
    than two differences.

    Equal differences have no spread to test by: they decide by themselves.
    """
    values = np.asarray(differences, dtype=np.float64) - least
    if len(values) < 2:
        return 1.0
    if np.ptp(values) == 0:
        return 0.0 if values[0] < 0 else 1.0
    t = values.mean() / (values.std(ddof=1) / len(values) ** 0.5)
    return float(stats.t.cdf(t, len(values) - 1))


def holm(p: Sequence[float], rate: float = 0.05) -> list[bool]:
    """Which hypotheses Holm's method rejects: the smallest p-value is held against rate / k, the next against
    rate / (k - 1), until one is too large."""
    rejected = [False] * len(p)
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] > rate / (len(p) - rank):
            break
        rejected[i] = True
    return rejected


def ranks(table: Array) -> Array:
    """Joint ranks within each row of cases x methods, 1 being best (lowest); ties share their mean rank, NaN ranks
    last."""
    table = np.asarray(table, dtype=np.float64)
    result: Array = stats.rankdata(np.where(np.isnan(table), np.inf, table), axis=-1)
    return result


def standard_error(values: Array, units: Sequence[object]) -> Array:
    """The standard error of the column means of cases x columns, where the cases of a unit (a function in several
    dimensions, noises and instances) are not independent of each other; NaN for a single unit.

    Residuals are added up within each unit first, as in errors that are robust to clusters. The result is at least the
    error over cases, because few units can have a small one by chance; with a case per unit both are the same.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(units) != len(values):
        raise ValueError(f"units must have one name per case, got {len(units)} for {len(values)} cases")
    names = list(dict.fromkeys(units))
    if len(names) < 2:
        return np.full(values.shape[1:], np.nan)
    residual = values - values.mean(axis=0)
    sums = np.array([residual[[unit == name for unit in units]].sum(axis=0) for name in names])
    over_units = np.sqrt(len(names) / (len(names) - 1) * (sums**2).sum(axis=0)) / len(values)
    error: Array = np.maximum(over_units, values.std(axis=0, ddof=1) / len(values) ** 0.5)
    return error


def normality(values: Array) -> float:
    """p-value of the Kolmogorov-Smirnov test against the normal law with the sample's mean and deviation (NeuralBO,
    Table 1).

    As in the paper, the two parameters are taken from the sample and the null distribution is not corrected for it, so
    the test is too kind: it says little at ten runs.
    """
    values = np.asarray(values, dtype=np.float64)
    deviation = values.std(ddof=1)
    return float(stats.kstest((values - values.mean()) / deviation, "norm").pvalue) if deviation > 0 else 0.0


def larger(a: Array, b: Array) -> float:
    """p-value of the one-sided t-test (unequal variances) whose alternative is mean(a) > mean(b) (NeuralBO, Table
    2)."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return 0.0 if a[0] > b[0] else 1.0
    return float(stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue)


def benjamini_hochberg(p: Sequence[float] | Array, rate: float = 0.05) -> tuple[NDArray[np.bool_], Array]:
    """Which hypotheses are rejected at this false-discovery rate, and the adjusted p-values, in the order given."""
    adjusted = stats.false_discovery_control(np.asarray(p, dtype=np.float64))
    return adjusted <= rate, adjusted


class Wald(NamedTuple):
    """A mean and the half-width of its interval."""

    mean: float
    half: float


def wald(values: Array) -> Wald:
    """The mean and 1.96 standard errors, the standard deviation with n - 1; the half-width of a single value is NaN."""
    values = np.asarray(values, dtype=np.float64)
    half = WALD_95 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return Wald(float(values.mean()), half)
