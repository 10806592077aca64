"""What the methods on a net share: inputs, a design, the maximiser of a drawn function over candidates, pools."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.gp.design import Design, away_from_known
from regretless.gp.sobol import sobol_points
from regretless.method import Method
from regretless.options import whole_number
from regretless.parameters import Array
from regretless.space import Cube
from regretless.tangent.inputs import Encode, Inputs

Path: TypeAlias = Callable[[Array], Array]  # a drawn function: inputs C x ... to values C

N_CANDIDATES = 1000  # points over which a draw is maximised (NeuralBO, Sec. 7)
DESIGN = 20  # evaluations of a design before the model is asked, 2 (d + 1) where that is fewer; our choice
POOL_DESIGN = 2  # random rows of a pool before the model is asked: two values are the fewest that differ
SHORTLIST = 64  # the best values told, whose posterior means decide where the search stands; noise disorders fewer
MOST_WEIGHTS = 10**8  # weights of a net at most, 0.8 GB: a mistyped width or depth would ask for all memory
PROBE = 256  # points over which inputs and the kernel's diagonal are normalised: averages are good to a few percent


class DrawnModel(Protocol):
    """A model of the history from which functions can be drawn; a pure function of the history and the seed."""

    def refresh(self, X: Array, y: Array, yvar: Array) -> None:
        """Takes the history: inputs n x ..., values n and their known noise variances n (NaN where unknown)."""

    def draw(self, nu: float, rng: np.random.Generator) -> Path:
        """A drawn function, nu posterior deviations from the mean, in units of the model's own."""

    def mean(self, Z: Array) -> Array:
        """The mean, in the units told, C."""


class TangentMethod(Method):
    """A design, then the maximiser of a drawn function over candidates, which a subclass gives with the model."""

    choices = "onehot"
    renamed: ClassVar = {"nu": "exploration", "lam": "ridge", "noise": "noise_sd"}
    _model: DrawnModel
    exploration: float

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None,
        candidates: Array | None,
        encode: Encode | None,
        raw: bool,
        n_candidates: int,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        whole_number(n_candidates=n_candidates)
        self._n_candidates = n_candidates
        n_design = min(DESIGN, 2 * (self.dim + 1)) if candidates is None else POOL_DESIGN
        self._design = Design(self.cube, n_design, self.fixed_generator(), centre=False)
        self._net_rng = self.fixed_generator()  # theta0 is drawn once for the run
        probe = self.cube.snap(sobol_points(PROBE, self.dim, self._net_rng))
        self._inputs = Inputs(self.cube, probe, pool=candidates, encode=encode, raw=raw)
        self._domain = self._inputs(probe)
        self._told_inputs: Array = np.empty((0, 1))

    # -- the algorithm

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design_point(rng)
        if first is not None:
            return first
        self._refresh()  # theta_{t-1} and U_{t-1} (NeuralBO, Alg. 1, l. 6-7)
        Z = self._candidates(rng)
        f = self._model.draw(self.exploration, rng)  # f_t ~ N(h, nu^2 sigma^2) (NeuralBO, Alg. 1, l. 3-4)
        x = self._maximiser(f, Z, rng)  # x_t = argmax f_t (NeuralBO, Alg. 1, l. 5)
        finite = self._inputs.pool is None and np.isfinite(self.cube.size)
        return away_from_known(x, self, rng) if finite else x

    def _maximiser(self, f: Path, Z: Array, rng: np.random.Generator) -> Array:
        """The best of the candidates Z (C x d) by a drawn function, d."""
        best: Array = Z[int(np.argmax(f(self._inputs(Z))))]
        return best

    def _refresh(self) -> None:
        """Gives the model the history."""
        done = len(self._told_inputs)
        if done < len(self.y):
            new = self._inputs(self.X[done:])
            self._told_inputs = np.concatenate([self._told_inputs, new]) if done else new
        self._model.refresh(self._told_inputs, self.y, self._variances())

    def _variances(self) -> Array:
        """The known noise variance of each value, n, as the model is to take it."""
        return self.yvar

    def sample(self, U: Array, rng: np.random.Generator) -> Array:
        """One draw of the posterior function at cube points U (C x d), C: what `ask` maximises over its candidates."""
        self._refresh()
        return self._model.draw(self.exploration, rng)(self._inputs(U))

    def _design_point(self, rng: np.random.Generator) -> Array | None:
        """The next point of the design, or None when that is complete; over a pool, random rows."""
        if self._inputs.pool is None:
            return self._design.next_point(self, rng)
        return None if len(self.y) and len(self.known) >= POOL_DESIGN else np.array(self._fresh_rows(rng, 1)[0])

    def _candidates(self, rng: np.random.Generator) -> Array:
        """Where a draw is maximised: fresh rows of a finite pool, or points that are not known."""
        if self._inputs.pool is not None:
            return self._fresh_rows(rng, self._n_candidates)
        return self._unknown(self.cube.snap(self._points_to_try(rng)))

    @abstractmethod
    def _points_to_try(self, rng: np.random.Generator) -> Array:
        """Points over which a draw is maximised where there is no pool, `n_candidates` x d."""

    def _shortlist(self) -> tuple[NDArray[np.intp], Array]:
        """The best values told, by their places in the history, and the posterior means there, k each."""
        order = np.argsort(-self.y, kind="stable")[:SHORTLIST]
        return order, self._model.mean(self._told_inputs[order])

    def _fresh_rows(self, rng: np.random.Generator, n: int) -> Array:
        """Cube points of at most n unknown rows of the pool, in random order; of all rows when none is left."""
        assert self._inputs.pool is not None
        fresh = np.ones(len(self._inputs.pool), dtype=bool)
        fresh[self._inputs.rows(self.known)] = False
        rows = np.flatnonzero(fresh if fresh.any() else ~fresh)
        return self._inputs.points(rng.permutation(rows)[:n])

    def _unknown(self, Z: Array) -> Array:
        """Z without failed and pending points and, in a finite cube, without told ones (with noise a second value is
        worth something); Z itself when nothing would be left."""
        taken = self.known if np.isfinite(self.cube.size) else np.concatenate([self.failed, self.pending])
        if len(taken) == 0:
            return Z
        keys = {point.tobytes() for point in self.cube.snap(taken)}
        keep = np.array([z.tobytes() not in keys for z in Z])
        return Z[keep] if keep.any() else Z


def checked_width(width: int, depth: int, inputs: int) -> int:
    """The width, once a net of it and of this depth is possible and small enough."""
    whole_number(width=width)
    whole_number(2, depth=depth)
    if (depth - 2) * width**2 + inputs * width > MOST_WEIGHTS:
        raise ValueError(f"a net of width {width} and depth {depth} has more than {MOST_WEIGHTS:.3g} weights")
    return width
