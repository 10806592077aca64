"""MS-UCB: Tran-The, Gupta, Rana and Venkatesh, "Trading Convergence Rate with Computational Budget in High Dimensional
Bayesian
Optimization", AAAI 2020.

The acquisition is maximised not over the whole cube but over a growing set of low-dimensional subspaces: each fixes all
but d coordinates at a random z. More subspaces cost more computation and bring less regret, and the number of free
coordinates replaces the dimension in the width of the confidence bound. Done with random blocks of coordinates, base
points near the incumbents, blocks chained one after the other and a final ascent in all coordinates, the idea is this
library's answer for 20 to 5000 dimensions.

Notation
    D, d        coordinates in all, and free ones in each subspace       t         iterations after the initial points, from 1
    Z_t         base points drawn up to t: N_k = N0 k^alpha at each k     S(A, z)   the subspace with base point z (Def. 1)
    beta_t      squared width of the confidence bound                     a, b      constants of the smoothness assumption (Assumption 1)

Deviations (numbers as in docs/methods/ms-ucb.md)
    1. sqrt(beta) sigma, as the appendix has it; the main text prints sqrt(beta sigma) (both presets).
    2. "10 D starts" is read as a total: so many random points are scored over all subspaces, and the best 40 of them
       ascended (paper preset). 10 D ascents in each subspace find the same values at hundreds of times the cost.
    3. Hyper-parameters are fitted on the library's schedule, by maximum a posteriori with a broad prior (both presets;
       the paper fits by likelihood).
    4. Default preset only: coordinates are drawn at random for every subspace instead of always being the last d; base
       points are also copied from the incumbents; subspaces are chained and the best points polished in all D
       coordinates; where few coordinates matter every second step moves them alone; LogEI (or a width given as kappa)
       replaces beta_t, which is pure exploration on standardised values; the model is the one that predicted best of
       late (`methods/ms_ucb/contest.py`) among an additive trend, isotropic and per-coordinate kernels, and in few
       dimensions a model of clipped values has every third turn; at most `cap` points of Z_t are searched in one step.
       The uniform draws of Z_t stay: they are what the guarantee rests on.
    5. Pending points are hallucinated; a proposal that coincides with a known point is moved a little (both presets).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import (
    Acquire,
    confidence_bound,
    kept_from_failures,
    log_improvement,
    of_posterior,
    upper_confidence,
)
from regretless.gp.certify import fitted_certificate
from regretless.gp.design import Design, away_from_known, design_size
from regretless.gp.maximiser import Acquisition, maximise
from regretless.gp.posterior import GP
from regretless.gp.surrogate import Surrogate
from regretless.method import Method, keyed_generator
from regretless.methods.ms_ucb.additive import AdditiveGP, AdditiveSurrogate
from regretless.methods.ms_ucb.contest import Contest
from regretless.methods.ms_ucb.subspace import (
    Anchors,
    Fields,
    Indices,
    Subspaces,
    Sums,
    maximise_subspaces,
    random_blocks,
)
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream

FREE, INITIAL = 5, 20
"""Free coordinates and initial points of the paper's experiments (Sec. 5)."""
STARTS_PER_DIM = 10
"""Random starts per dimension of the space, in all (Sec. 5)."""
ASCENTS, ASCENT_ROUNDS = 40, 50
"""How many of those are ascended, and the evaluations of an ascent; see deviation 2."""
INCUMBENTS, COPIES = 3, 16
"""not in paper: told points with the best posterior means, and the subspaces through each of them."""
CHAIN = 2
"""not in paper: further random blocks through which an ascent goes on."""
POLISHED = 5
"""not in paper: best points of the subspaces that are handed to the ascent in all coordinates."""
MODELS = ((2, True), (2, False), (0, True), (0, False))
"""not in paper: orders of the trend, and whether low values are drawn in, of the isotropic models that compete."""
ARD_UP_TO = 1000
"""not in paper: dimensions up to which two models with a length-scale per coordinate compete as well, one of them with
low values drawn in."""
CURVED_UP_TO = 50
"""not in paper: dimensions up to which one with a full quadratic trend does; it is not stationary, so its acquisition
is maximised in all coordinates
only, without subspaces."""
FEW, CURVED_START, CLIPPED_EVERY = 20, 0.25, 3
"""not in paper: up to FEW dimensions that one is ahead by CURVED_START from the start, and every CLIPPED_EVERY-th
proposal comes from the model that
`gp-ei` uses, of clipped values. Those have no density, so it cannot compete; on valleys its steps bring the others
further."""
FEW_MATTER, SHARE = 0.1, 0.999
"""not in paper: where this share of the coordinates, or less, holds that share of the sum of l^-2, every second
proposal moves them alone. The
length-scales of the others are long, not infinite: in a hundred of them there is always variance to gain, and the
search would never settle."""
EFFORT, EFFORT_LARGE, LARGE = (420, 4, 25), (96, 2, 16), 1_000_000
"""not in paper: candidates, ascents and rounds of the search in all coordinates, and the same where values times
dimensions exceed LARGE."""
CAP = 500
"""not in paper: points of Z_t searched in one step by default."""


class MSUCB(Method):
    """MS-UCB: maximises the acquisition over many low-dimensional subspaces; for 20 to 5000 dimensions.

    Args:
        preset: "default", or "paper": Algorithm 1 to the letter.
        d: free coordinates of a subspace; 0 picks among sampled points, D is GP-UCB.
        N0, alpha: N_t = N0 t^alpha base points are added at iteration t.
        coords: which coordinates are free, "last" (Def. 1) or "random"; None: by preset.
        kappa: the width of the confidence bound; None: sqrt(beta_t) in the paper preset, LogEI instead of a bound in
            the default one.
        a, b, delta: constants of Assumption 1 for standardised values, and the failure probability in beta_t.
        cap: most points of Z_t searched in one step, the newest first; 0: all of them, as the proof needs; None: all in
            the paper preset, 500 else.
        initial: points of the initial design; None: 20 in the paper preset (Sec. 5), else what the library's other
            methods take (`design_size`).
        noise: a known noise variance of all values, or None to fit it.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        d: int = FREE,
        N0: int = 1,
        alpha: float = 0.0,
        coords: Literal["last", "random"] | None = None,
        kappa: float | None = None,
        a: float = 1.0,
        b: float = 1.0,
        delta: float = 0.1,
        cap: int | None = None,
        initial: int | None = None,
        noise: float | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if preset not in ("default", "paper"):
            raise ValueError(f"preset must be 'default' or 'paper', got {preset!r}")
        if coords not in (None, "last", "random"):
            raise ValueError(f"coords must be 'last', 'random' or None, got {coords!r}")
        if d < 0 or N0 < 1 or alpha < 0 or not (a > 0 and b > 0 and 0 < delta < 1):
            raise ValueError(
                f"need d >= 0, N0 >= 1, alpha >= 0, a > 0, b > 0, 0 < delta < 1; got {d!r}, {N0!r}, {alpha!r}, {a!r}, {b!r}, {delta!r}"
            )
        if kappa is not None and not kappa >= 0:
            raise ValueError(f"kappa must be at least 0, got {kappa!r}")
        if (cap is not None and cap < 0) or (initial is not None and initial < 1):
            raise ValueError(f"cap must be at least 0 and initial at least 1, got {cap!r} and {initial!r}")
        self.paper = preset == "paper"
        self._lines = np.array([i for i in range(self.dim) if not self._held(i)], dtype=np.intp)
        self.d = min(d, len(self._lines))
        self.N0, self.alpha, self.kappa, self.a, self.b, self.delta = N0, alpha, kappa, a, b, delta
        self.coords = coords or ("last" if self.paper else "random")
        self.cap = cap if cap is not None else 0 if self.paper else CAP
        self.initial = initial if initial is not None else INITIAL if self.paper else design_size(self.dim, budget)
        self._design = Design(self.cube, self.initial, self.fixed_generator())
        self._surrogate = Surrogate(self.cube, ard=not self.paper, quadratic=False, noise_var=noise, tame=False)
        common: dict[int, tuple[Array, ...]] = {}
        additive = [
            AdditiveSurrogate(self.cube, noise=noise, orders=orders, soften=soften, common=common)
            for orders, soften in MODELS
        ]
        curved = Surrogate(self.cube, ard=True, quadratic=True, noise_var=noise, tame=False)
        drawn_in = Surrogate(self.cube, ard=True, quadratic=False, noise_var=noise, tame=False, soften=True)
        per_coordinate = [self._surrogate, drawn_in] if 1 < self.dim <= ARD_UP_TO else []
        first = [curved] if self.dim <= CURVED_UP_TO else []
        self._contest = Contest([*first, *additive, *per_coordinate], start=CURVED_START if self.dim <= FEW else 0.0)
        self._clipped = Surrogate(self.cube, noise_var=noise) if self.dim <= FEW else None
        self._anchors = Anchors(self.dim, 1 if self.paper else 2)
        self._sizes = [0]  # |Z_t| for every t drawn so far

    def _held(self, i: int) -> bool:
        """Whether coordinate i takes certain positions only and so cannot be free."""
        return bool(self.cube.discrete[i]) or any(start <= i < stop for start, stop in self.cube.groups)

    # -- Algorithm 1

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)  # (Alg. 1, l. 1)
        if first is not None:
            return first
        gp = self._hedged_model() if not self.paper else self._model(self.pending)  # (Alg. 1, l. 2 and 9)
        means = gp.mean_at(self.X)
        incumbents = self.X[np.argsort(-means, kind="stable")[:INCUMBENTS]]
        acquire = self._acquire(gp, float(means.max()))
        pair = kept_from_failures(of_posterior(gp, acquire), self.X, self.failed, logarithmic=self._by_improvement)
        if self.paper and self.d == self.dim:  # the limit: GP-UCB (Sec. 4, "On Dimension d")
            assert isinstance(gp, GP)
            pair = kept_from_failures(upper_confidence(gp, self._width()), self.X, self.failed)
            x = maximise(pair[0], self.cube, rng, incumbents=incumbents, score=pair[1])
        elif self.paper:
            x, _ = self._best_of_subspaces(gp, acquire, self.pending, rng)
        else:
            x = self._default_step(gp, acquire, pair, incumbents, rng)
        return away_from_known(x, self, rng)

    def _model(self, pending: Array) -> GP | AdditiveGP:
        """The posterior. not in paper: by default of the model that predicted best of late."""
        surrogate = self._surrogate if self.paper else self._contest.choose(self.X, self.y, self.yvar)
        return surrogate.gp(self.X, self.y, self.yvar, pending)

    def _hedged_model(self) -> GP | AdditiveGP:
        """not in paper: the posterior that the next proposal rests on."""
        if self._clipped is not None and (len(self.y) + len(self.pending)) % CLIPPED_EVERY == 0:
            return self._clipped.gp(self.X, self.y, self.yvar, self.pending)
        return self._model(self.pending)

    def _best_of_subspaces(
        self, gp: GP | AdditiveGP, acquire: Acquire, pending: Array, rng: np.random.Generator
    ) -> tuple[Array, float]:
        """The maximiser over the subspaces of Z_t and its value (Alg. 1, l. 4-6; Eq. 8)."""
        fields = Fields.of(gp)
        bases, sums = self._base_points(fields, pending)
        each = math.ceil(STARTS_PER_DIM * self.dim / len(bases))
        subspaces = Subspaces(bases, self._free(len(bases), rng), np.zeros(len(bases), dtype=bool), sums)
        X, values = maximise_subspaces(
            gp,
            acquire,
            subspaces,
            rng,
            second=len(bases),
            third=ASCENTS,
            looks=each - 1,
            rounds=ASCENT_ROUNDS,
            fields=fields,
        )
        return X[0], float(values[0])

    def _default_step(
        self,
        gp: GP | AdditiveGP,
        acquire: Acquire,
        pair: Acquisition,
        incumbents: Array,
        rng: np.random.Generator,
    ) -> Array:
        """not in paper: an ascent in all coordinates from the best points of the subspaces, or in the few that matter
        from the incumbent."""
        few = None
        if isinstance(gp, GP) and gp.hyper.lengthscale.size > 1 and len(self._lines):
            few = coordinates_that_matter(gp.hyper.lengthscale[self._lines])
        if few is not None and len(few) <= FEW_MATTER * self.dim and (len(self.y) + len(self.pending)) % 2:
            return self._in_few(self._lines[few], pair, incumbents, rng)
        starts = (
            incumbents if isinstance(gp, GP) and gp.hyper.quadratic else self._chained(gp, acquire, incumbents, rng)
        )
        raw, ascents, rounds = EFFORT if len(self.y) * self.dim <= LARGE else EFFORT_LARGE
        return maximise(
            pair[0], self.cube, rng, incumbents=starts, raw=raw, starts=ascents, rounds=rounds, score=pair[1]
        )

    def _in_few(self, free: Indices, pair: Acquisition, incumbents: Array, rng: np.random.Generator) -> Array:
        """not in paper: the best point of the subspace through the incumbent in which the given coordinates are
        free."""

        def whole(Y: Array) -> Array:
            X = np.repeat(incumbents[:1], len(Y), axis=0)
            X[:, free] = Y
            return X

        def acquisition(Y: Array) -> tuple[Array, Array]:
            value, gradient = pair[0](whole(Y))
            return value, gradient[:, free]

        y = maximise(
            acquisition, Cube.box(len(free)), rng, incumbents=incumbents[:, free], score=lambda Y: pair[1](whole(Y))
        )
        best: Array = whole(y[None])[0]
        return best

    def _chained(self, gp: GP | AdditiveGP, acquire: Acquire, incumbents: Array, rng: np.random.Generator) -> Array:
        """not in paper: the best points of chained blocks in the subspaces of Z_t and around the incumbents, then the
        incumbents themselves."""
        fields = Fields.of(gp)
        bases, sums = self._base_points(fields, self.pending)
        near = np.repeat(incumbents, COPIES, axis=0)
        if sums is not None:
            sums = sums.and_rows(fields.sums(incumbents).at(np.repeat(np.arange(len(incumbents)), COPIES)))
        local = np.arange(len(bases) + len(near)) >= len(bases)
        subspaces = Subspaces(np.concatenate([bases, near]), self._free(len(local), rng), local, sums)
        weights = (
            gp.hyper.lengthscale[self._lines] ** -2.0 if isinstance(gp, GP) else None
        )  # short length-scales say what matters
        X, _ = maximise_subspaces(
            gp, acquire, subspaces, rng, chain=CHAIN, lines=self._lines, weights=weights, fields=fields
        )
        return np.concatenate([X[:POLISHED], incumbents])

    def _base_points(self, fields: Fields, pending: Array) -> tuple[Array, Sums | None]:
        """Z_t, or its newest `cap` points, and their sums with the points of the posterior where these are cached (Alg.
        1, l. 4-5)."""
        count = len(self._z())
        chosen = slice(max(0, count - self.cap) if self.cap else 0, count)
        sums = self._anchors.sums(fields, self.X, pending)
        return self._anchors.Z[chosen], None if sums is None else sums.at(chosen)

    def _z(self) -> Array:
        """Z_t, m x D: the draws of iteration k are keyed on k, so that Z_t follows from the seed and t alone."""
        t = self._t()
        for k in range(len(self._sizes), t + 1):
            count = subspaces_at(k, self.N0, self.alpha)
            self._anchors.extend(
                self.cube.snap(keyed_generator(self.seed, k, stream=Stream.MS_UCB_BASES).random((count, self.dim)))
            )
            self._sizes.append(self._sizes[-1] + count)
        return self._anchors.Z[: self._sizes[t]]

    def _free(self, count: int, rng: np.random.Generator) -> Indices:
        """The free coordinates of each subspace, count x d."""
        if self.coords == "last":
            return np.tile(self._lines[len(self._lines) - self.d :], (count, 1))
        return random_blocks(count, self.d, self._lines, None, rng)

    def _t(self) -> int:
        """The paper's iteration: evaluations known or under way since the initial design, + 1."""
        return max(1, len(self.y) + len(self.failed) + len(self.pending) - self.initial + 1)

    # -- acquisition

    def _width(self) -> float:
        """kappa: given, or sqrt(beta_t)."""
        return (
            self.kappa
            if self.kappa is not None
            else math.sqrt(theory_beta(self._t(), self.d, self.dim, self.delta, self.a, self.b))
        )

    def _acquire(self, gp: GP | AdditiveGP, best: float) -> Acquire:
        """mean + kappa sd (Eq. 2 with the root over beta only), or in the default preset without kappa LogEI over the
        best posterior mean."""
        return log_improvement(best, gp.signal) if self._by_improvement else confidence_bound(self._width(), gp.signal)

    @property
    def _by_improvement(self) -> bool:
        """not in paper: whether LogEI is maximised and no confidence bound."""
        return not self.paper and self.kappa is None

    # -- answers

    def _recommend(self) -> Array:
        best: Array = self.X[int(np.argmax(self._model(self.pending[:0]).mean_at(self.X)))]
        return best

    def _certificate(self, delta: float) -> Certificate:
        left_out = len(self._z()) - self.cap if self.cap else 0
        note = (
            f"the proof needs all of Z_t; {left_out} of its points were left out by cap={self.cap}"
            if left_out > 0
            else ""
        )
        if self.paper:
            return Certificate.none(note, delta) if note else self._paper_certificate(delta)
        found = fitted_certificate(
            self.X, self.y, self.yvar, self.cube, self.recommend(), delta, self.fixed_generator()
        )
        return replace(found, assumptions=(*found.assumptions, *([note] if note else []))) if found.certified else found

    def _paper_certificate(self, delta: float) -> Certificate:
        """f* - f(r) <= max over X_t of the upper bound + 1 / t^2 + what Z_t leaves uncovered - the lower bound at r
        (Prop. 1), r recommended."""
        gp, t = self._model(self.pending[:0]), self._t()
        width = math.sqrt(theory_beta(t, self.d, self.dim, delta, self.a, self.b))
        bound = confidence_bound(width, gp.signal)
        if self.d == self.dim:
            pair = of_posterior(gp, bound)
            highest = float(
                pair[1](
                    maximise(pair[0], self.cube, self.fixed_generator(), incumbents=self.X[:0], score=pair[1])[None]
                )[0]
            )
        else:
            highest = self._best_of_subspaces(gp, bound, self.pending[:0], self.fixed_generator())[1]
        mean, variance = gp.mean_var(self.recommend()[None])
        lower = float(mean[0]) - width * math.sqrt(float(variance[0]))
        upper = highest + 1 / t**2 + uncovered(len(self._z()), self.d, self.dim, delta / 3, self.a, self.b)
        return Certificate(
            gap=gp.scale * max(upper - lower, 0.0),
            lower=gp.offset + gp.scale * lower,
            upper=gp.offset + gp.scale * max(upper, lower),
            delta=delta,
            kind="fitted",
            assumptions=(
                f"Assumption 1 with a = {self.a:g}, b = {self.b:g} for standardised values",
                "a Gaussian process like the fitted one",
            ),
        )


def coordinates_that_matter(lengthscale: Array) -> Indices:
    """The fewest coordinates, of those with the given length-scales (d), that together hold SHARE of the sum of
    l^-2."""
    weights = lengthscale**-2.0
    order: Indices = np.argsort(-weights, kind="stable")
    held = np.cumsum(weights[order])
    return np.sort(order[: int(np.searchsorted(held, SHARE * held[-1])) + 1])


# ---------------------------------------------------------------- the paper's formulas


def subspaces_at(t: int, N0: int, alpha: float) -> int:
    """N_t = N0 t^alpha, the base points added at iteration t >= 1 (Alg. 1, l. 4), rounded down."""
    return math.floor(N0 * math.pow(t, alpha) + 1e-9)


def theory_beta(t: int, d: int, D: int, delta: float, a: float = 1.0, b: float = 1.0) -> float:
    """beta_t = 2 log(pi^2 t^2 / delta) + 2 d log(2 b d sqrt(log(6 D a / delta)) t^2) (Prop. 1); 4 log(pi^2 t^2 / (2
    delta)) for d = 0 (Thm. 5)."""
    if d == 0:
        return 4 * math.log(math.pi**2 * t * t / (2 * delta))
    inner = 2 * b * d * math.sqrt(max(math.log(6 * D * a / delta), 0.0)) * t * t
    return 2 * math.log(math.pi**2 * t * t / delta) + max(2 * d * math.log(inner), 0.0)


def uncovered(count: int, d: int, D: int, delta: float, a: float = 1.0, b: float = 1.0) -> float:
    """What f* may exceed the best value on `count` subspaces by, with probability 1 - delta (Lemma 4):

        v0 (log(2 / delta) / count)^(1 / (D - d)),      v0 = 2 b sqrt(log(2 D a / delta)) Gamma(D - d + 1)^(1 / (D - d)).

    On the paper's cube [-1, 1]^D, on which b is meant; Gamma(k + 1) = k!, which the paper also prints as (k + 1)!.
    """
    k = D - d
    if k == 0:
        return 0.0
    v0 = 2 * b * math.sqrt(max(math.log(2 * D * a / delta), 0.0)) * math.exp(math.lgamma(k + 1) / k)
    return v0 * math.pow(math.log(2 / delta) / count, 1 / k)
