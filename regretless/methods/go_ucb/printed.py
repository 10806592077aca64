"""GO-UCB as printed: Algorithm 1 of C. Liu and Y.-X. Wang, "Global Optimization with Parametric Function
Approximation", ICML 2023. `default.py` has the notation, and what the method is at its best.

    Input: time horizon T, uniform exploration phase length n, uniform distribution U, regression oracle Oracle,
    regularisation weight lambda, confidence sequence beta_t for t = 1, 2, ..., T.

    Phase I (uniform exploration)
    1   for j = 1, ..., n do
    2       sample x_j ~ U(X)
    3       observe y_j = f(x_j) + eta_j
    4   end for
    5   estimate w_0 <- Oracle(x_1, y_1, ..., x_n, y_n)

    Phase II (optimistic exploration)
    1   for t = 1, ..., T do
    2       update Sigma_t by Eq. 3 with the input lambda
    3       update w_t by Eq. 5 with the input lambda
    4       update Ball_t by Eq. 6 with the input beta_t
    5       select x_t = argmax_x max_{w in Ball_t} f_x(w)
    6       observe y_t = f(x_t) + eta_t
    7   end for

    Output: x ~ U({x_1, ..., x_T})

Oracle, lambda, beta_t and the way to select x_t come from one of two settings: those that App. D.1 prints (`Printed`),
or those of Theorem 4.1 with an oracle that works (`working_oracle.Theorem`).
"""

import math
from typing import Literal, Protocol, TypeAlias, get_args

import numpy as np

from regretless.basics.options import in_range, one_of
from regretless.basics.streams import Draws, Stream, keyed_generator
from regretless.certificate import Certificate
from regretless.history import History
from regretless.method import Method, Traits
from regretless.methods.go_ucb.ball import Ball
from regretless.methods.go_ucb.oracle import Oracle
from regretless.methods.go_ucb.parametric import BoundsLike, Family, ModelInputs, TwoLayerNet, checked_inputs
from regretless.methods.go_ucb.user_model import Gradients, UserModel, family_of
from regretless.methods.go_ucb.working_oracle import Theorem
from regretless.models.gp.sobol import MAX_DIM
from regretless.space import Cube, Space
from regretless.space.parameters import Array

Start: TypeAlias = Literal["incumbent", "random", "centre", "last"]
OracleName: TypeAlias = Literal["printed", "least-squares"]

UNKNOWN_T = 64  # T when no budget is known; the larger one of the paper's experiments (Sec. 6)
SGD_STEPS, SGD_RATE = 2000, 1e-11  # steps and rate of the oracle (App. D.1)


class UserChoices(Protocol):
    """What Algorithm 1 leaves to its user."""

    def oracle(self, X: Array, y: Array, yvar: Array) -> tuple[Array, float]:
        """w_0 (p) and lambda from the n values of Phase I."""

    def linearised(self, w: Array, x: Array, y: float) -> tuple[Array, float]:
        """The gradient g = grad f_x(w) (p), and g.w + y - f_x(w)."""

    def select(self, history: History, cube: Cube, rng: Draws, w: Array, ball: Ball) -> Array:
        """x_t, d, with the ball of radius sqrt(beta_t) around w = w_t (p)."""


class PrintedGOUCB(Method):
    """GO-UCB as its paper prints it: Algorithm 1 with the settings of App. D.1, or with those of Theorem 4.1 and an
    oracle that works.

    Args:
        model, w_bounds, gradients: the family, as for GOUCB; None: the two-layer sigmoid net of Sec. 6 or, with the
            least-squares oracle, a quadratic.
        width: hidden units of the nets (Sec. 6: 25).
        initial: n, the points of Phase I; None: n = sqrt(T), so that n + T is the budget (Thm. 4.1).
        start: where the printed ascent begins, which the paper leaves open: "incumbent", "random", "centre" or "last".
        oracle: "printed" (SGD with the rate of App. D.1, which trains nothing) or "least-squares", Algorithm 1 as
            Theorem 4.1 has it: a fit that works, lambda = C sqrt(T), the ridge around w_0.
        noise_sd: the standard deviation of the noise in the units of y, when known; for the least-squares oracle.
        largest_value: F, a bound of |f|, which App. D.1 leaves open; it widens the ball of the printed settings, which
            an ascent does not reach even at 1.
    """

    traits = Traits(max_dim=MAX_DIM)
    _noisy = True

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        model: UserModel = None,
        w_bounds: BoundsLike | None = None,
        gradients: Gradients = "auto",
        width: int = 25,
        initial: int | None = None,
        start: Start = "incumbent",
        oracle: OracleName = "printed",
        noise_sd: float | None = None,
        largest_value: float = 1.0,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(get_args(Gradients), gradients=gradients)
        one_of(get_args(Start), start=start)
        one_of(get_args(OracleName), oracle=oracle)
        in_range("[1, inf) or None", initial=initial)
        in_range("(0, inf) or None", noise_sd=noise_sd)
        in_range("(0, inf)", largest_value=largest_value)
        self.largest_value = float(largest_value)
        self.start, self.oracle, self.noise_sd = start, oracle, noise_sd
        self.family: Family
        if model is None and oracle == "printed":  # (Sec. 6)
            self.family = TwoLayerNet(self.dim, width, "sigmoid", plain=True)
        else:
            self.family = family_of(model, w_bounds, self.dim, width, gradients)
        self.initial = phase_one(budget) if initial is None else int(initial)
        """n, the points of Phase I."""
        self.horizon = max(budget - self.initial, 2) if budget else UNKNOWN_T
        """T, the points of Phase II."""
        self.settings: UserChoices | None = None
        self.w: Array = np.empty(0)
        self.ball: Ball | None = None

    # -- Algorithm 1

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        if len(history) < self.initial:  # Phase I, 1
            return rng.random(self.dim)  # 2: x_j ~ U(X)
        settings = self._bound()
        self._catch_up(history)
        assert self.ball is not None
        return settings.select(history, cube, rng, self.w, self.ball)  # Phase II, 4-5: (Eq. 6)

    def _update(self, history: History, first: int) -> None:
        settings, n = self._bound(), self.initial
        with np.errstate(over="ignore", invalid="ignore"):  # huge values may leave the range of floats
            if self.ball is None:
                self.w, lam = settings.oracle(history.X[:n], history.y[:n], history.yvar[:n])  # Phase I, 5: (Eq. 2)
                self.ball = Ball(self.w, lam)
            for i in range(max(first, n), len(history)):  # Phase II, 1
                self.ball.append(*settings.linearised(self.w, history.X[i], float(history.y[i])))  # 2: (Eq. 3)
                self.w = self.ball.centre()  # 3: (Eq. 5)

    def _recommend(self, history: History) -> Array:
        """The output, uniform over x_1, ..., x_T; over Phase I while that is all there is."""
        points = history.X[self.initial :] if len(history) > self.initial else history.X
        drawn = keyed_generator(self.seed, len(history), Stream.GO_UCB_OUTPUT)
        return np.asarray(points[int(drawn.integers(len(points)))])

    # -- around it

    def bind(self, space: Space, sign: float) -> None:
        """Shows the method the user's own units: the space, and the sign of told values (-1 in a minimisation)."""
        inputs = checked_inputs(self.family, space, self.cube, self._fixed_generator())
        self._seen, n, T = None, self.initial, self.horizon
        if self.oracle == "printed":
            w = initial_weights(self.family, self.dim, self._fixed_generator())
            self.settings = Printed(
                self.family, inputs, sign=float(sign), w=w, n=n, T=T, start=self.start, F=self.largest_value
            )
        else:
            oracle = Oracle(self.family, inputs, sign=float(sign), seed=self.seed, block=n, noise_sd=self.noise_sd)
            self.settings = Theorem(oracle, T=T)

    def _bound(self) -> UserChoices:
        """The settings in the user's units; those of the unit cube where there is no user."""
        if self.settings is None:
            self.bind(Space([(0.0, 1.0)] * self.dim), 1.0)
        assert self.settings is not None
        return self.settings

    def _begin(self) -> None:
        self.ball = None

    def _certificate(self, history: History, delta: float) -> Certificate:
        return Certificate.none("Algorithm 1 reports a point drawn at random, about which it knows nothing", delta)


def phase_one(budget: int | None) -> int:
    """n = sqrt(T) (Thm. 4.1) with n + T = budget."""
    return math.isqrt(UNKNOWN_T) if budget is None else round((math.sqrt(1 + 4 * budget) - 1) / 2)


# ---------------------------------------------------------------- App. D.1


class Printed:
    """The settings that App. D.1 prints: w_0 by SGD, lambda = sqrt(T) log^2 T, beta_t = d_w^3 F^4 t / T, and x_t by
    gradient ascent over x and w. A proposal hardly differs from the point where its ascent starts, which the paper does
    not name (docs/lab/go-ucb.md). `sign` is -1 where values are the negatives of the user's; w: where SGD starts, p."""

    def __init__(
        self, family: Family, inputs: ModelInputs, *, sign: float, w: Array, n: int, T: int, start: Start, F: float
    ) -> None:
        self._family, self._inputs, self._sign, self._F = family, inputs, sign, F
        self._first, self._n, self._T, self._start = w, n, T, start

    def oracle(self, X: Array, y: Array, yvar: Array) -> tuple[Array, float]:
        w = sgd_oracle(self._family, self._inputs(X), self._sign * y, self._first)
        return w, math.sqrt(self._T) * math.log(self._T) ** 2

    def linearised(self, w: Array, x: Array, y: float) -> tuple[Array, float]:
        F, J = self._family.jacobian(w[None], self._inputs(x[None]))
        return J[0, 0], float(J[0, 0] @ w + self._sign * y - F[0, 0])

    def select(self, history: History, cube: Cube, rng: Draws, w: Array, ball: Ball) -> Array:
        begin = {
            "incumbent": history.X[int(np.argmax(history.y))],
            "random": rng.random(history.dim),
            "centre": np.full(history.dim, 0.5),
            "last": history.X[-1],
        }[self._start]
        beta = self._family.p**3 * self._F**4 * (len(history) - self._n + 1) / self._T
        with np.errstate(over="ignore", invalid="ignore"):
            reached = ascend(self._family, self._inputs, self._sign, begin, w, ball, beta)
        return reached if np.isfinite(reached).all() else np.array(begin)


def initial_weights(family: Family, d: int, rng: np.random.Generator) -> Array:
    """Where the oracle starts, p: layers of a net as torch draws them, U(-1, 1) / sqrt(fan-in); other families at 0."""
    if not isinstance(family, TwoLayerNet):
        return np.zeros(family.p)
    first = rng.uniform(-1, 1, family.width * (d + 1)) / math.sqrt(d)
    second = rng.uniform(-1, 1, family.width + 1) / math.sqrt(family.width)
    return np.concatenate([first, second])


def sgd_oracle(family: Family, x: Array, y: Array, w: Array) -> Array:
    """w_0 (p) from w: SGD_STEPS gradient steps on the mean squared error; n values are fewer than any batch."""
    for _ in range(SGD_STEPS):
        F, J = family.jacobian(w[None], x)
        following = w - SGD_RATE * (2 / len(y)) * ((F[0] - y) @ J[0])
        if not np.isfinite(following).all():
            break
        w = following
    return w


def ascend(family: Family, inputs: ModelInputs, sign: float, u: Array, w: Array, ball: Ball, beta: float) -> Array:
    """The cube point (d) reached from u by joint steps over x (in the model's units) and w, w kept in the ball."""
    ascent_steps, ascent_rate = 2000, 1e-4  # steps and rate of the ascent over x and w (App. D.1)
    d, centre = len(u), w
    ends = inputs(np.stack([np.zeros(d), np.ones(d)]))
    low, high = ends.min(axis=0), ends.max(axis=0)
    x = inputs(u[None])[0]
    for i in range(ascent_steps):
        dx, dw = family.ascent_direction(w, x)
        x = np.clip(x + sign * ascent_rate * dx, low, high)
        w = w + sign * ascent_rate * dw
        # 50: steps of the ascent between two projections onto the ball, which it never reaches: each costs time
        if i % 50 == 0 or i == ascent_steps - 1:
            away = w - centre
            squared = ball.lam * float(away @ away) + float(((ball.G @ away) ** 2).sum())
            if squared > beta:
                w = centre + math.sqrt(beta / squared) * away
    return np.asarray(inputs.back(x[None])[0])
