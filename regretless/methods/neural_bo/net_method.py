"""What the methods on a net share: inputs, a design, candidates for the maximiser of a drawn function, pools."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless.basics.options import whole_number
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import Traits
from regretless.methods.shared import DesignedMethod
from regretless.models.gp.design import away_from_known
from regretless.models.gp.sobol import sobol_points
from regretless.models.tangent.inputs import Encode, Inputs
from regretless.space import Cube
from regretless.space.parameters import Array

Path: TypeAlias = Callable[[Array], Array]  # a drawn function: inputs C x ... to values C

N_CANDIDATES = 1000  # points over which a draw is maximised; our choice (the authors' code: 512 uniform ones)
POOL_DESIGN = 2  # random rows of a pool before the model is asked: two values are the fewest that differ


class TangentMethod(DesignedMethod):
    """A design, then steps of a subclass, which maximises a drawn function over candidates."""

    traits = Traits(choices="onehot")

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
        squares: bool = False,
    ) -> None:
        initial = None if candidates is None else POOL_DESIGN
        super().__init__(cube, seed=seed, budget=budget, initial=initial, centre=False)
        whole_number(n_candidates=n_candidates)
        self._n_candidates = n_candidates
        self._net_rng = self._fixed_generator()  # theta0 is drawn once for the run
        # 256: points over which inputs and the kernel's diagonal are normalised: averages are good to a few percent
        probe = self.cube.snap(sobol_points(256, self.dim, self._net_rng))
        self.inputs = Inputs(self.cube, probe, pool=candidates, encode=encode, raw=raw, squares=squares)
        self._domain = self.inputs(probe)
        self._read_inputs: Array = np.empty((0, 1))

    def _design_size(self) -> int:
        # 20: evaluations of a design before the model is asked, 2 (d + 1) where that is fewer; our choice
        return min(20, 2 * (self.dim + 1))

    def propose(self, history: History, cube: Cube, rng: Draws) -> Array:
        if self.inputs.pool is None:
            return super().propose(history, cube, rng)
        begun = len(history) > 0 and len(history.known) >= POOL_DESIGN
        return self._step(history, cube, rng) if begun else np.array(self._fresh_rows(history, rng, 1)[0])

    def sample(self, history: History, U: Array, rng: np.random.Generator) -> Array:
        """One draw of the posterior function at cube points U (C x d), C: what a step maximises over its candidates."""
        self._catch_up(history)
        return self._draw(rng)(self.inputs(U))

    def _recommend(self, history: History) -> Array:
        """The largest posterior mean among the best values."""
        self._catch_up(history)
        order, means = self._shortlist(history)
        return np.array(history.X[order[np.argmax(means)]])

    # -- what a subclass gives, beside `_step` and `_update`

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> Path:
        """A function drawn from the posterior, in units of the model's own."""

    @abstractmethod
    def _mean(self, Z: Array) -> Array:
        """The posterior mean at inputs Z (C x ...), in the units of the values, C."""

    @abstractmethod
    def _points_to_try(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        """Points over which a draw is maximised where there is no pool, `n_candidates` x d."""

    # -- what it shares

    def _read(self, history: History, first: int) -> Array:
        """The inputs of all points with values, n x ..., of which those from row `first` on are new."""
        new = self.inputs(history.X[first:])
        self._read_inputs = np.concatenate([self._read_inputs, new]) if first else new
        return self._read_inputs

    def _candidates(self, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        """Where a draw is maximised: fresh rows of a finite pool, or points that are not known."""
        if self.inputs.pool is not None:
            return self._fresh_rows(history, rng, self._n_candidates)
        return unknown(cube.snap(self._points_to_try(history, cube, rng)), history, cube)

    def _off_known(self, x: Array, history: History, cube: Cube, rng: np.random.Generator) -> Array:
        """x (d), in a finite cube without a pool a step away from where it is known."""
        finite = self.inputs.pool is None and np.isfinite(cube.size)
        return away_from_known(x, history, cube, rng) if finite else x

    def _shortlist(self, history: History) -> tuple[NDArray[np.intp], Array]:
        """The best values, by their places in the history, and the posterior means there, k each."""
        # 64: the best values, whose posterior means decide where the search stands; noise disorders fewer
        order = np.argsort(-history.y, kind="stable")[:64]
        return order, self._mean(self._read_inputs[order])

    def _fresh_rows(self, history: History, rng: np.random.Generator, n: int) -> Array:
        """Cube points of at most n unknown rows of the pool, in random order; of all rows when none is left."""
        assert self.inputs.pool is not None
        fresh = np.ones(len(self.inputs.pool), dtype=bool)
        fresh[self.inputs.rows(history.known)] = False
        rows = np.flatnonzero(fresh if fresh.any() else ~fresh)
        return self.inputs.points(rng.permutation(rows)[:n])


def unknown(Z: Array, history: History, cube: Cube) -> Array:
    """Points Z (C x d) without failed and pending ones and, in a finite cube, without those with values (with noise a
    second value is worth something); Z itself when nothing would be left."""
    taken = history.known if np.isfinite(cube.size) else np.concatenate([history.failed, history.pending])
    if len(taken) == 0:
        return Z
    keys = {point.tobytes() for point in cube.snap(taken)}
    keep = np.array([z.tobytes() not in keys for z in Z])
    return Z[keep] if keep.any() else Z


def checked_width(width: int, depth: int, inputs: int) -> int:
    """The width, once a net of it and of this depth is possible and small enough."""
    most_weights = 10**8  # weights of a net at most, 0.8 GB: a mistyped width or depth would ask for all memory
    whole_number(width=width)
    whole_number(2, depth=depth)
    if (depth - 2) * width**2 + inputs * width > most_weights:
        raise ValueError(f"a net of width {width} and depth {depth} has more than {most_weights:.3g} weights")
    return width
