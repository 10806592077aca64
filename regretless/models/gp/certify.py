"""From evaluations to a certificate: how far from the optimum a point may be, by a fitted process, coverage measured.

A fitted model is too sure of itself: its length-scales were chosen because they explain the data, and an optimiser
stops looking where the model says there is nothing to find. So the bounds come from a conservative model and from what
the run itself reveals. The model is a Matern-5/2 process on the values as observed whose length-scales, once fitted,
are shortened (Berkenkamp, Schoellig and Krause 2019). Notation: m(x), s(x) the mean and sd of this model, standardised;
value k lay e_k from what the values before it predict, whose variance relative to the signal was v_k.

    scale    s2 = max(profiled, sum e_k^2 / sum v_k). Whatever rule chose the points, e_k^2 is s2 v_k on average; so
             values around the best one, which are predicted well and have a small v_k, do not make the rest look flat.
    noise    Fitted noise may be roughness: s grows by a share of the noise's sd.
    tail     Student's t with nu = sum v_k degrees of freedom: the steps that went into the unknown, in whole ones.
    cells    C = prod (1 + 1 / (2 l_i)) of length-scales l_i: places that know little of each other. A choice with k
             labels of correlation r counts 1 + (k - 1) (1 - r), a whole number at most its positions.

    upper    the u at which the expected number of cells above u is delta:  C mean_x P(m(x) + s(x) t > u) = delta,
    lower    m(r) - b s(r) at the recommended point r,      gap = upper - lower.

How often the gap is right is an empirical fact, which `experiments/certificate_coverage.py` measures family by family
(docs/lab/certificates.md). Where nothing was measured, or the bound says nothing, the answer is "not certified".
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, stdtr, stdtrit

from regretless.certificate import Certificate
from regretless.models.gp.acquisition import upper_confidence
from regretless.models.gp.constraint_models import Border, probability_feasible
from regretless.models.gp.maximiser import Effort, candidates, maximise_many
from regretless.models.gp.posterior import GP, Factor
from regretless.models.gp.surrogate import LEAST_SCALE, Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

SHORTENED = 0.35  # every fitted length-scale is multiplied by this; measured beside .25, .5 (docs/lab/certificates.md)
SCALED = 0.75  # the sd of the one-step errors is multiplied by this; fitted on families (docs/lab/certificates.md)
ROUGHNESS = 3.0  # what a fitted noise sd, by the signal's sd, adds to that multiple of 1; fitted with SCALED
LEAST_PER_DIM = 4  # nothing is certified with fewer values per dimension: the fit would be little more than its prior
MOST_DIMENSIONS = 10  # coverage was measured in up to this many dimensions
VACUOUS = 0.4  # a gap beyond this share of the observed range says too little to be certified; chosen with SCALED
STRETCHES, NOISE_LEVELS = (1.0, 2.0), (0.0, 1e-3, 1e-2, 0.1, 1.0)
"""The length-scales, as multiples of the fitted ones, and the least noise variances, relative to the signal, of the
models that the lower bound is taken over: steps of a factor that two dozen values can tell apart."""
REACH = 2.6  # sds by which a constraint may be better than its model expects: the two-sided 1 % quantile of a normal
INCUMBENTS = 5  # the evaluated points with the best means around which a third of the candidates are drawn


def fitted_certificate(
    X: Array,
    y: Array,
    yvar: Array,
    cube: Cube,
    x: Array,
    delta: float,
    rng: np.random.Generator,
    *,
    conservative: Surrogate | None = None,
    borders: Sequence[Border] | None = None,
) -> Certificate:
    """The certificate of the point x (d) after values y (n) at X (n x d) with noise variances yvar (n, NaN unknown).

    conservative: a `conservative_surrogate` that the caller keeps, so that the next certificate need not fit everything
        again.
    borders: conservative models of the constraints; the bound then speaks of the points that may satisfy them.
    """
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
    gp = (conservative or conservative_surrogate(cube)).gp(X, y, yvar)
    lower, upper = Evidence.of(gp, cube, np.asarray(x), rng, borders).bounds(delta)
    if not math.isfinite(upper - lower):
        why = f"the values seen differ by {spread:.3g}: a bound would leave the range of floats"
    elif upper - lower > VACUOUS * spread:
        bound = f"the bound, {upper - lower:.3g}, is more than {VACUOUS:g} of the range of the values seen"
        why = f"{bound}, {spread:.3g}"
    if why:
        return Certificate.none(why, delta)
    model = f"a Matern-5/2 process with {SHORTENED:g} times the fitted length-scales"
    assumptions: tuple[str, ...] = (model, "coverage as measured on test functions")
    feasible = None if borders is None else probability_feasible(borders, np.asarray(x))
    if borders is not None:
        assumptions = (*assumptions, f"constraints that hold where their model is within {REACH:.3g} sds of the border")
    return Certificate(
        gap=upper - lower, lower=lower, upper=upper, delta=delta, kind="fitted", assumptions=assumptions,
        feasible=feasible, density=gp.n / cells(gp, cube),
    )  # fmt: skip


class Spread(NamedTuple):
    """What the run says of the conservative model."""

    factor: float
    """What the one-step errors say its sd must be multiplied by, at least 1."""
    noise: float
    """The sd of fitted noise by the signal's; 0 where variances are known."""
    freedom: float
    """The steps into the unknown, at least 1."""

    def widening(self, scaled: float = SCALED, roughness: float = ROUGHNESS) -> float:
        """What the conservative model's sd is multiplied by."""
        return scaled * (1.0 + roughness * self.noise) * self.factor


def step_spread(gp: GP) -> Spread:
    """The scale, the noise and the tail of the module's text. The first value predicts nothing and is left out; one
    more value of variance 1 stands for it, as in the profiled signal variance. Known noise variances pin the signal
    (`GP.profile`); they are noise and no roughness."""
    errors, variances = gp.steps()
    noise = float(gp.factor.noise[: gp.n].mean())
    total = float(variances[1:].sum())
    ratio = (float(errors[1:] @ errors[1:]) + 1.0) / (total + 1.0)
    rough = math.sqrt(noise) if gp.profile else 0.0
    return Spread(math.sqrt(max(ratio / gp.signal, 1.0)), rough, max(total / (1.0 + noise), 1.0))


def cells(gp: GP, cube: Cube) -> float:
    """C of the module's text: the places of the cube that know little of each other."""
    inverse = np.broadcast_to(1.0 / gp.hyper.lengthscale, cube.dim)
    grouped = [(start, stop, 2.0 * float((inverse[start:stop] ** 2).mean())) for start, stop in cube.groups]
    inside = {i for start, stop, _ in grouped for i in range(start, stop)}
    chosen = [(axis.levels, float(inverse[i] ** 2)) for i, axis in enumerate(cube.axes) if axis.categorical]
    counts = [(stop - start, r2) for start, stop, r2 in grouped] + chosen
    total = math.prod(1.0 + (k - 1) * (1.0 - float(gp.factor.kernel.base(np.array([r2]))[0])) for k, r2 in counts)
    for i, axis in enumerate(cube.axes):
        if i not in inside and not axis.categorical:
            # 0.5: cells along an axis by its inverse length-scale; measured beside .25 (docs/lab/certificates.md)
            along = 1.0 + 0.5 * float(inverse[i])
            total *= min(along, float(axis.levels)) if axis.levels else along
    return total


class Unseen(NamedTuple):
    """The conservative model over the space: mean and sd (q each, standardised) at places that stand for `share` cells
    each, and at points around the best ones (p each), where a maximum may lie between places."""

    mean: Array
    sd: Array
    near: tuple[Array, Array]
    share: float
    freedom: float

    @classmethod
    def of(
        cls, gp: GP, cube: Cube, freedom: float, rng: np.random.Generator, borders: Sequence[Border] | None = None
    ) -> Self:
        # 1024, 256, 500_000: the places over which the mean over the cube is taken, at least and at most, and the
        # largest number of places times values between them, so that a check costs no more than an ask at any number of
        # values
        # a third of the places divided by this lies around the best points; hundreds are enough for a hill
        near_share = 2
        count = min(1024, max(256, 500_000 // gp.n))
        far = places(cube, count, rng)
        best = gp.X[np.argsort(-gp.mean_at(gp.X), kind="stable")[:INCUMBENTS]]
        near = candidates(cube, rng, best, count // near_share)[-count // near_share // 3 :]
        share = max(cells(gp, cube), 1.0) / len(far)
        far, near = (P[may_be_feasible(borders or (), P)] for P in (far, near))
        mean, variance = gp.mean_var(np.concatenate([far, near]))
        sd, q = np.sqrt(variance) + LEAST_SCALE, len(far)
        return cls(mean[:q], sd[:q], (mean[q:], sd[q:]), share, freedom)

    def upper(self, delta: float, widening: float) -> float:
        """The level that delta cells exceed on average, standardised, with sds that are `widening` times as large; at
        least the bound of any one point around the best ones."""
        sd, (mean, own) = widening * self.sd, self.near
        least = float((mean + widening * own * float(stdtrit(self.freedom, 1.0 - delta))).max(initial=-math.inf))

        def excess(u: float) -> float:
            return self.share * float(stdtr(self.freedom, (self.mean - u) / sd).sum()) - delta

        if not len(sd):  # no place may satisfy the constraints: the bound is that of the points near the best ones
            return least
        low, reach = max(float(self.mean.max()), least), float(sd.max())
        if excess(low) <= 0.0:
            return low
        while excess(low + reach) > 0.0:
            reach *= 2.0
        return float(brentq(excess, low, low + reach, xtol=1e-6 * reach))

    def width(self, upper: float) -> float:
        """The least b with which m(x) + b s(x) reaches a level somewhere."""
        return float(((upper - self.mean) / self.sd).min())


def may_be_feasible(borders: Sequence[Border], P: Array) -> Array:
    """Which points P (q x d) satisfy all constraints if these are REACH sds better than their models expect, q."""
    kept = np.ones(len(P), dtype=bool)
    for gp, at in borders:
        mean, variance = gp.mean_var(P)
        kept &= mean + REACH * np.sqrt(variance) >= at
    return kept


def places(cube: Cube, count: int, rng: np.random.Generator) -> Array:
    """All legal points of a cube that has at most `count`, otherwise so many evenly spread ones, q x d."""
    if cube.size > count or cube.groups:
        return candidates(cube, rng, np.empty((0, cube.dim)), count)
    grid = np.meshgrid(*[axis.centre(np.arange(axis.levels)) for axis in cube.axes], indexing="ij")
    return np.stack(grid, axis=-1).reshape(-1, cube.dim)


def plausible_at(conservative: GP, x: Array) -> tuple[Array, Array]:
    """Mean and sd of f(x), standardised (k each), by models that explain the values about as well as the fit does.

    Under noise the conservative model's mean at the recommended point is the luckiest value, because its short
    length-scales explain noise as function. The models here have longer ones and several levels of noise; those that
    the values speak against are left out. The values nearest to x are enough for them.
    """
    fitted = conservative.hyper.lengthscale / SHORTENED
    # 256: the values nearest to the recommended point that its smooth lower bound is taken from
    near = np.argsort((((conservative.X - x) / fitted) ** 2).sum(axis=1), kind="stable")[:256]
    X, y, noise = conservative.X[near], conservative.y[near], conservative.factor.noise[: conservative.n][near]
    means, sds, densities = [], [], []
    for stretch in STRETCHES:
        for level in NOISE_LEVELS:
            hyper = replace(conservative.hyper, lengthscale=fitted * stretch)
            factor = Factor(conservative.factor.kernel, hyper, X, np.maximum(noise, level))
            gp = GP(factor, y, offset=conservative.offset, scale=conservative.scale, profile=True)
            mean, variance = gp.mean_var(x[None])
            means.append(float(mean[0]))
            sds.append(math.sqrt(float(variance[0])))
            densities.append(-0.5 * len(y) * math.log(gp.signal) - factor.log_diagonal(len(y)))
    # 3.0: models whose log density is within this of the best one's are not ruled out (a ratio of 20)
    likely = np.array(densities) >= max(densities) - 3.0
    return np.array(means)[likely], np.array(sds)[likely]


class Evidence(NamedTuple):
    """All that the bounds of a point are made from, so that other probabilities cost next to nothing."""

    spread: Spread
    unseen: Unseen
    here: tuple[float, float]
    """Mean and sd of the conservative model at the point."""
    plausible: tuple[Array, Array]
    offset: float
    scale: float

    @classmethod
    def of(
        cls, conservative: GP, cube: Cube, x: Array, rng: np.random.Generator, borders: Sequence[Border] | None = None
    ) -> Self:
        """The evidence about the point x (d) in a conservative model without pending points; borders: such models of
        the constraints."""
        spread, (mean, variance) = step_spread(conservative), conservative.mean_var(x[None])
        here = float(mean[0]), math.sqrt(float(variance[0]))
        unseen = Unseen.of(conservative, cube, spread.freedom, rng, borders)
        return cls(spread, unseen, here, plausible_at(conservative, x), conservative.offset, conservative.scale)

    def bounds(self, delta: float, scaled: float = SCALED, roughness: float = ROUGHNESS) -> tuple[float, float]:
        """The lower bound of f at the point and the upper bound of the largest value, in the units of the values."""
        b, widening, (mean, sd) = float(ndtri(1 - delta / 2)), self.spread.widening(scaled, roughness), self.here
        means, sds = self.plausible
        lower = min(mean - b * max(widening, 1.0) * sd, float((means - b * sds).min()))
        upper = max(self.unseen.upper(delta, widening), mean)
        return self.offset + self.scale * lower, self.offset + self.scale * upper


def conservative_surrogate(cube: Cube) -> Surrogate:
    """The model that the bounds come from."""
    return Surrogate(cube, quadratic=False, clip=False, shorten=SHORTENED)


def verifying_point(conservative: GP, cube: Cube, delta: float, rng: np.random.Generator) -> Array:
    """Where the conservative model is most likely to exceed the certificate's upper bound, d."""
    spread = step_spread(conservative)
    unseen = Unseen.of(conservative, cube, spread.freedom, rng)
    return largest_upper_bound(conservative, cube, unseen.width(unseen.upper(delta, spread.widening())), rng)[0]


def largest_upper_bound(conservative: GP, cube: Cube, b: float, rng: np.random.Generator) -> tuple[Array, float]:
    """Where m + b s is largest (d), and how large, in standardised units."""
    order = np.argsort(-conservative.mean_at(conservative.X), kind="stable")[:INCUMBENTS]
    bound = upper_confidence(conservative, b)
    # 2000, 8: candidates and ascents of the search for the largest bound, more than those of an ask
    points, values = maximise_many(bound, cube, rng, incumbents=conservative.X[order], effort=Effort(2000, 8))
    return points[0], float(values[0])
