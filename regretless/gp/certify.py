"""From evaluations to a certificate: how far from the optimum a point may be, by a fitted process, coverage measured.

A fitted model is too sure of itself: its length-scales were chosen because they explain the data, and an optimiser
stops looking where the model says there is nothing to find. So the bounds come from a wary model: a Matern-5/2 process
on the values as told whose length-scales, once fitted, are all shortened (Berkenkamp, Schoellig and Krause 2019, for
unknown hyper-parameters) and whose signal variance is then estimated anew:

    upper = max over the cube of m(x) + b s(x),
    lower = m(r) - b s(r) at the recommended point r,      gap = upper - lower.

The shortening and b are no theory: `experiments/certificate_coverage.py` measures how often the true gap is covered
(docs/certificates.md). Where nothing was measured, or the bound says nothing, the answer is "not certified".
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from regretless.certificate import Certificate
from regretless.gp.acquisition import upper_confidence
from regretless.gp.maximiser import Effort, maximise_many
from regretless.gp.posterior import GP, Factor
from regretless.gp.sides import Border, probability_feasible, within_reach
from regretless.gp.surrogate import Surrogate
from regretless.parameters import Array
from regretless.space import Cube

SHORTENED = 0.25  # every fitted length-scale is multiplied by this; chosen by measured coverage (docs/certificates.md)
WIDTH, WIDTH_PER_DIM, WIDE_FROM = 1.6, 0.2, 3
"""b at delta = 0.05, what each dimension beyond WIDE_FROM adds; chosen by measured coverage (docs/certificates.md)."""
LEAST_PER_DIM = 4  # nothing is certified with fewer values per dimension: the fit would be little more than its prior
MOST_DIMENSIONS = 10  # coverage was measured in up to this many dimensions
VACUOUS = 0.5  # a gap beyond this share of the observed range tells the user nothing, and is not certified
NEAREST = 256  # the values nearest to the recommended point that its smooth lower bound is taken from
STRETCHES, NOISE_LEVELS = (1.0, 2.0), (0.0, 1e-3, 1e-2, 0.1, 1.0)
"""The length-scales, as multiples of the fitted ones, and the least noise variances, relative to the signal, of the
models that the lower bound is taken over: steps of a factor that two dozen values can tell apart."""
LIKELY = 3.0  # models whose log density is within this of the best one's are not ruled out (a ratio of 20)
RAW, STARTS = 2000, 8  # candidates and ascents of the search for the largest bound, more than those of an ask
INCUMBENTS = 5  # the told points with the best posterior means around which a third of the candidates are drawn


def fitted_certificate(
    X: Array,
    y: Array,
    yvar: Array,
    cube: Cube,
    x: Array,
    delta: float,
    rng: np.random.Generator,
    *,
    wary: Surrogate | None = None,
    borders: Sequence[Border] | None = None,
) -> Certificate:
    """The certificate of the point x (d) after values y (n) at X (n x d) with noise variances yvar (n, NaN unknown);
    wary: a `wary_surrogate` that the caller keeps, so that the next certificate need not fit everything again.
    borders: wary models of the constraints; the bound then speaks of the points that may satisfy them."""
    least, why = LEAST_PER_DIM * cube.dim, ""
    spread = float(y.max()) - float(y.min()) if len(y) else 0.0
    if cube.dim > MOST_DIMENSIONS:
        why = f"coverage was measured in up to {MOST_DIMENSIONS} dimensions, here are {cube.dim}"
    elif len(y) < least:
        why = f"a bound needs {LEAST_PER_DIM} values per parameter, {least} here; so far: {len(y)}"
    elif spread == 0.0:
        why = "all values are equal: nothing is known about how the function varies"
    if why:
        return Certificate.none(why, delta)
    gp, b = (wary or wary_surrogate(cube)).gp(X, y, yvar), width(delta, cube.dim)
    mean, variance = gp.mean_var(np.atleast_2d(x))
    lower = gp.offset + gp.scale * (float(mean[0]) - b * float(np.sqrt(variance[0])))
    lower = min(lower, smooth_lower_bound(gp, X, y, np.asarray(x), b))
    upper = max(gp.offset + gp.scale * largest_upper_bound(gp, cube, b, rng, borders)[1], lower)
    if not math.isfinite(upper - lower):
        why = f"the values seen differ by {spread:.3g}: a bound would leave the range of floats"
    elif upper - lower > VACUOUS * spread:
        why = f"the bound {upper - lower:.3g} is no news: the values seen differ by {spread:.3g}"
    if why:
        return Certificate.none(why, delta)
    model = f"a Matern-5/2 process with {SHORTENED:g} times the fitted length-scales"
    assumptions: tuple[str, ...] = (model, "coverage as measured on test functions")
    feasible = None if borders is None else probability_feasible(borders, np.asarray(x))
    if borders is not None:
        assumptions = (*assumptions, f"constraints that hold where their model is within {b:.3g} sds of the border")
    return Certificate(
        gap=upper - lower, lower=lower, upper=upper, delta=delta, kind="fitted", assumptions=assumptions,
        feasible=feasible,
    )  # fmt: skip


def smooth_lower_bound(wary: GP, X: Array, y: Array, x: Array, b: float) -> float:
    """The least m(x) - b s(x), in the units of y, over models that explain the values about as well as the fit does.

    Under noise the wary model's mean at the recommended point is the luckiest value: its short length-scales explain
    noise as function. The models here have longer ones and several levels of noise; those that the values speak
    against are left out. The values nearest to x are enough for them.
    """
    fitted = wary.hyper.lengthscale / SHORTENED
    near = np.argsort((((X - x) / fitted) ** 2).sum(axis=1), kind="stable")[:NEAREST]
    X, y, noise = X[near], y[near], wary.factor.noise[near]
    bounds, densities = [], []
    for stretch in STRETCHES:
        for level in NOISE_LEVELS:
            hyper = replace(wary.hyper, lengthscale=fitted * stretch)
            factor = Factor(wary.factor.kernel, hyper, X, np.maximum(noise, level))
            gp = GP(factor, y, offset=wary.offset, scale=wary.scale, profile=True)
            mean, variance = gp.mean_var(x[None])
            bounds.append(float(mean[0]) - b * math.sqrt(float(variance[0])))
            densities.append(-0.5 * len(y) * math.log(gp.signal) - factor.log_diagonal(len(y)))
    likely = np.array(densities) >= max(densities) - LIKELY
    return wary.offset + wary.scale * float(np.array(bounds)[likely].min())


def width(delta: float, dim: int) -> float:
    """b for a given delta and dimension."""
    return (WIDTH + WIDTH_PER_DIM * max(dim - WIDE_FROM, 0)) * float(ndtri(1 - delta / 2)) / float(ndtri(1 - 0.05 / 2))


def wary_surrogate(cube: Cube) -> Surrogate:
    """The model that the bounds come from."""
    return Surrogate(cube, quadratic=False, tame=False, shorten=SHORTENED)


def largest_upper_bound(
    wary: GP, cube: Cube, b: float, rng: np.random.Generator, borders: Sequence[Border] | None = None
) -> tuple[Array, float]:
    """Where m + b s is largest (d), and how large, in standardised units; with borders among points that may satisfy
    the constraints."""
    order = np.argsort(-wary.mean_at(wary.X), kind="stable")[:INCUMBENTS]
    bound = upper_confidence(wary, b)
    if borders is not None:
        bound = within_reach(bound, borders, b)
    points, values = maximise_many(bound, cube, rng, incumbents=wary.X[order], effort=Effort(RAW, STARTS))
    return points[0], float(values[0])
