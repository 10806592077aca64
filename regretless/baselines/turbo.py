"""TuRBO-1: a trust region with Thompson sampling (Eriksson, Pearce, Gardner, Turner and Poloczek, NeurIPS 2019).

A Gaussian process is fitted to the data gathered since the last restart, and a Thompson draw is maximised over a box
around the best of them. The box doubles after a few successes in a row and halves after many failures; when it has
become too small, everything starts again elsewhere.

Notation: L, the length of the trust region as a share of the cube's side; tau_s successes in a row double it, tau_f
failures halve it; `start`, the told value with which the current region began.

Deviations (both presets unless said)
    1. The Thompson draw is a sample path (pathwise conditioning), not a joint draw over the 5000 candidates, which
       would cost 4e10 operations. The path carries no observation noise.
    2. Hyper-parameters are found by MAP under this library's priors, warm-started, not by 50 steps of Adam.
    3. not in paper: the default takes d + 2 initial points, at most a third of a known budget; the paper takes 2 d.
    4. One point at a time; later points of a batch hallucinate the pending ones. Foreign points count like asked ones.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.sobol import sobol_points
from regretless.gp.step import best_told
from regretless.gp.surrogate import Surrogate
from regretless.gp.trust_region import PERTURBED, TrustRegion
from regretless.method import Method, State, keyed_generator
from regretless.options import PRESETS, Preset, in_range, one_of
from regretless.parameters import Array
from regretless.space import Cube
from regretless.streams import Stream

IMPROVEMENT = 1e-3  # a success improves the best value by more than this share of its size (the authors' settings)
CANDIDATES_PER_DIM, MOST_CANDIDATES = 100, 5000  # candidates of a Thompson draw: min(100 d, 5000) (App. B)


class TuRBO(Method):
    """A trust region around the best point, with Thompson sampling inside it.

    Args:
        preset: "paper" takes 2 d initial points; the default fewer, as users have small budgets.
        initial: the number of initial points of each trust region; None: by the preset.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        initial: int | None = None,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        one_of(PRESETS, preset=preset)
        in_range("[1, inf) or None", initial=initial)
        few = self.dim + 2 if budget is None else max(2, min(self.dim + 2, budget // 3))
        self.initial = initial if initial is not None else 2 * self.dim if preset == "paper" else few
        self._surrogate = Surrogate(self.cube, quadratic=False)
        self.restarts, self.start = -1, 0
        self._begin(0)

    def _begin(self, start: int) -> None:
        self.restarts += 1
        self.start, self.region = start, TrustRegion()

    def _propose(self, rng: np.random.Generator) -> Array:
        at = len(self.y) - self.start
        if at == 0 or at + len(self.pending) < self.initial:
            draws = keyed_generator(self.seed, self.restarts, stream=Stream.TURBO_RESTART)
            design, unused = sobol_points(self.initial + 1, self.dim, draws), at + len(self.pending)
            return np.asarray(design[unused] if unused < len(design) else rng.random(self.dim))
        X, y, yvar = self._since_start()
        gp = self._surrogate.gp(X, y, yvar, self.pending)
        centre = best_told(gp, X)
        candidates = self.cube.snap(trust_region_candidates(centre, self.region.length, gp.hyper.lengthscale, rng))
        candidates = candidates[(candidates != centre).any(axis=1)]
        if len(candidates) == 0:  # a small finite space can be exhausted by its trust region
            return rng.random(self.dim)
        return np.asarray(candidates[int(np.argmax(gp.path(rng).values(candidates)))])

    def _update(self, X: Array, y: Array) -> None:
        """Success and failure counting, told value by told value (Sec. 3)."""
        for n in range(len(self.y) - len(y), len(self.y)):
            if n < self.start + self.initial:
                continue
            best, value = float(self.y[self.start : n].max()), float(self.y[n])
            won = value > best + IMPROVEMENT * abs(best)
            self.region = self.region.after(won, self.dim)
            if self.region.collapsed:
                self._begin(n + 1)

    def _recommend(self) -> Array:
        """The best value ever told, among those that share its trust region by the model's mean."""
        top = int(np.argmax(self.y))
        if top < self.start or len(self.y) == self.start:
            return np.asarray(self.X[top])
        X, y, yvar = self._since_start()
        return best_told(self._surrogate.gp(X, y, yvar), X)

    def _since_start(self) -> tuple[Array, Array, Array]:
        """Points, values and noise variances told since the trust region began."""
        return self.X[self.start :], self.y[self.start :], self.yvar[self.start :]

    def _certificate(self, delta: float) -> Certificate:
        why = "a trust region looks at one part of the space only; nothing is known of the rest"
        return Certificate.none(why, delta)

    def _state(self) -> State:
        return {"model": self._surrogate.latest_fit(*self._since_start())}

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        if state.get("model"):
            self._surrogate.take_fit(*self._since_start(), state["model"])


def trust_region_candidates(centre: Array, length: float, lengthscale: Array, rng: np.random.Generator) -> Array:
    """Sobol points of the box around centre (d) whose sides follow the length-scales, some coordinates left, c x d."""
    d = len(centre)
    weights = np.ones(d) if lengthscale.size == 1 else lengthscale / math.exp(float(np.log(lengthscale).mean()))
    low, high = np.clip(centre - weights * length / 2, 0.0, 1.0), np.clip(centre + weights * length / 2, 0.0, 1.0)
    count = min(CANDIDATES_PER_DIM * d, MOST_CANDIDATES)
    points = low + (high - low) * sobol_points(count, d, rng)
    moved = rng.random((count, d)) < min(PERTURBED / d, 1.0)
    moved[np.arange(count), rng.integers(d, size=count)] = True
    return np.where(moved, points, centre)
