"""From a fitted Gaussian process to a certificate: how far from the optimum a point may be, with measured coverage.

A fitted model is too sure of itself: its length-scales were chosen because they explain the data, and an optimiser stops looking where the model says
there is nothing to find. So the bounds are taken from the same model with every length-scale shortened (Berkenkamp, Schoellig and Krause 2019, for
unknown hyper-parameters) and its signal variance estimated anew:

    upper = max over the cube of m(x) + b s(x),    lower = m(r) - b s(r) at the recommended point r,    gap = upper - lower.

The shortening and b are no theory: `experiments/certificate_coverage.py` measures how often the true gap is covered, and docs/certificates.md
prints the table. Where the measurements say that the model cannot be trusted (few data, length-scales that the data cannot resolve) the answer is
"not certified".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from regretless.method import Certificate
from regretless.numerics.acquisition import upper_confidence
from regretless.numerics.ascend import maximise_many
from regretless.numerics.gp import GP, Factor
from regretless.space import Array, Cube

SHORTENED = 0.35
"""Every length-scale is multiplied by this before bounds are taken."""
WIDTH = 2.0
"""b at delta = 0.05; other delta scale it by the normal quantile."""
LEAST_PER_DIM = 4.0
"""Values per dimension below which nothing is certified."""
LEAST_SCALE = 0.1
"""A shortest fitted length-scale below this, as a share of the cube's side, means narrow peaks that may have been missed."""
RAW, STARTS = 2000, 8
"""Candidates and ascents of the search for the largest upper bound; it must not be missed."""
INCUMBENTS = 5


def fitted_certificate(gp: GP, cube: Cube, x: Array, delta: float, rng: np.random.Generator) -> Certificate:
    """The certificate of the point x (d) under a fitted gp, in the units of its values; kind "fitted" or "none"."""
    reason = why_not(gp)
    if reason:
        return Certificate.none(reason, delta)
    lower, upper = bounds(gp, cube, x, SHORTENED, width(delta), rng)
    return Certificate(
        gap=max(upper - lower, 0.0),
        lower=lower,
        upper=max(upper, lower),
        delta=delta,
        kind="fitted",
        assumptions=(f"a Gaussian process like the fitted one but with length-scales {SHORTENED:g} times as long", "coverage measured on test functions"),
    )


def why_not(gp: GP) -> str:
    """Why a fitted model is not to be trusted with a certificate; empty when it is."""
    d = gp.X.shape[1]
    if gp.n < LEAST_PER_DIM * d:
        return f"{gp.n} values are fewer than {LEAST_PER_DIM:g} per parameter"
    shortest = float(gp.hyper.lengthscale.min())
    if shortest < LEAST_SCALE:
        return f"the fitted length-scale {shortest:.2g} is too short for {gp.n} values to rule out a peak between them"
    return ""


def width(delta: float) -> float:
    """b for a given delta."""
    return WIDTH * float(ndtri(1 - delta / 2)) / float(ndtri(1 - 0.05 / 2))


def bounds(gp: GP, cube: Cube, x: Array, shortened: float, b: float, rng: np.random.Generator) -> tuple[float, float]:
    """(lower bound of f(x), upper bound of max f), in the units of the values, from the model with shortened length-scales."""
    wary = with_lengthscales(gp, shortened)
    acquisition, score = upper_confidence(wary, b)
    order = np.argsort(-wary.mean_at(wary.X), kind="stable")[:INCUMBENTS]
    _, values = maximise_many(acquisition, cube, rng, incumbents=wary.X[order], raw=RAW, starts=STARTS, score=score)
    mean, variance = wary.mean_var(np.atleast_2d(x))
    lower = float(mean[0]) - b * float(np.sqrt(variance[0]))
    return wary.offset + wary.scale * lower, wary.offset + wary.scale * float(values[0])


def with_lengthscales(gp: GP, factor: float) -> GP:
    """The posterior of the same told values with every length-scale multiplied by factor; pending points are left out."""
    changes: dict[str, Any] = {"lengthscale": gp.hyper.lengthscale * factor}
    hyper = replace(gp.hyper, **changes)
    return GP(Factor(gp.factor.kernel, hyper, gp.X, gp.factor.noise[: gp.n]), gp.y, offset=gp.offset, scale=gp.scale, profile=gp.profile)
