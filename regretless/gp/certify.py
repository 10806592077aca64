"""From evaluations to a certificate: how far from the optimum a point may be, by a fitted Gaussian process with
measured coverage.

A fitted model is too sure of itself: its length-scales were chosen because they explain the data, and an optimiser
stops looking where the model says there is nothing to find. So the bounds come from a wary model: a Matern-5/2 process
on the values as told (no clipping, no trend) whose length-scales, once fitted, are all shortened (Berkenkamp, Schoellig
and Krause 2019, for unknown hyper-parameters) and whose signal variance is then estimated anew:

    upper = max over the cube of m(x) + b s(x),    lower = m(r) - b s(r) at the recommended point r,    gap = upper - lower.

The shortening and b are no theory: `experiments/certificate_coverage.py` measures how often the true gap is covered,
and docs/certificates.md prints the table. Where nothing was measured, or the bound says nothing, the answer is "not
certified".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from regretless.certificate import Certificate
from regretless.gp.acquisition import upper_confidence
from regretless.gp.maximiser import maximise_many
from regretless.gp.posterior import GP, Factor
from regretless.gp.surrogate import Surrogate
from regretless.parameters import Array
from regretless.space import Cube

SHORTENED = 0.25
"""Every fitted length-scale is multiplied by this before bounds are taken."""
WIDTH, WIDTH_PER_DIM, WIDE_FROM = 1.6, 0.2, 3
"""b at delta = 0.05 up to 3 dimensions, and what each further one adds; other delta scale it by the normal quantile."""
LEAST_PER_DIM = 4
"""Values per dimension below which nothing is certified."""
MOST_DIMENSIONS = 10
"""Dimensions up to which the coverage was measured."""
VACUOUS = 0.5
"""A gap beyond this share of the observed range says nothing, and is not certified."""
RAW, STARTS = 2000, 8
"""Candidates and ascents of the search for the largest upper bound; it must not be missed."""
INCUMBENTS = 5


def fitted_certificate(
    X: Array, y: Array, yvar: Array, cube: Cube, x: Array, delta: float, rng: np.random.Generator
) -> Certificate:
    """The certificate of the point x (d) after values y (n) at X (n x d), noise variances yvar (n, NaN unknown): kind
    "fitted" or "none"."""
    if cube.dim > MOST_DIMENSIONS:
        return Certificate.none(
            f"coverage was measured in up to {MOST_DIMENSIONS} dimensions, here are {cube.dim}", delta
        )
    if len(y) < LEAST_PER_DIM * cube.dim:
        return Certificate.none(
            f"a bound needs {LEAST_PER_DIM} values per parameter, {LEAST_PER_DIM * cube.dim} here; so far: {len(y)}",
            delta,
        )
    spread = float(y.max() - y.min())
    if spread == 0.0:
        return Certificate.none("all values are equal: nothing is known about how the function varies", delta)
    wary, b = wary_model(X, y, yvar, cube), width(delta, cube.dim)
    mean, variance = wary.mean_var(np.atleast_2d(x))
    lower = wary.offset + wary.scale * (float(mean[0]) - b * float(np.sqrt(variance[0])))
    upper = max(wary.offset + wary.scale * largest_upper_bound(wary, cube, b, rng)[1], lower)
    if upper - lower > VACUOUS * spread:
        return Certificate.none(
            f"the bound {upper - lower:.3g} is no news: the values seen differ by {spread:.3g}", delta
        )
    assumptions = (
        f"a Matern-5/2 process with {SHORTENED:g} times the fitted length-scales",
        "coverage as measured on test functions",
    )
    return Certificate(gap=upper - lower, lower=lower, upper=upper, delta=delta, kind="fitted", assumptions=assumptions)


def width(delta: float, dim: int) -> float:
    """b for a given delta and dimension."""
    return (WIDTH + WIDTH_PER_DIM * max(dim - WIDE_FROM, 0)) * float(ndtri(1 - delta / 2)) / float(ndtri(1 - 0.05 / 2))


def wary_model(X: Array, y: Array, yvar: Array, cube: Cube, shortened: float = SHORTENED) -> GP:
    """The process the bounds come from."""
    fitted = Surrogate(cube, seed=0, quadratic=False, tame=False).gp(X, y, yvar)
    hyper = replace(fitted.hyper, lengthscale=fitted.hyper.lengthscale * shortened)
    factor = Factor(fitted.factor.kernel, hyper, fitted.X, fitted.factor.noise)
    return GP(factor, fitted.y, offset=fitted.offset, scale=fitted.scale, profile=fitted.profile)


def largest_upper_bound(wary: GP, cube: Cube, b: float, rng: np.random.Generator) -> tuple[Array, float]:
    """Where m + b s is largest (d), and how large, in standardised units."""
    acquisition, score = upper_confidence(wary, b)
    order = np.argsort(-wary.mean_at(wary.X), kind="stable")[:INCUMBENTS]
    points, values = maximise_many(
        acquisition, cube, rng, incumbents=wary.X[order], raw=RAW, starts=STARTS, score=score
    )
    return points[0], float(values[0])
