"""Expected hypervolume improvement on exact Gaussian processes: Emmerich, Deutz and Klinkenberg, "Hypervolume-based
expected improvement" (CEC 2011); Yang, Emmerich, Deutz and Bäck, "Efficient computation of expected hypervolume
improvement using box decomposition algorithms" (Journal of Global Optimization 75, 2019).

Every objective has a model of its own. A point is worth what its values are expected to add to the volume that the
front dominates, so the search goes where the front is missing or can be moved on. With one objective this is expected
improvement.

Notation
    F       posterior means of the evaluated points and of those under way, m x k; the front is that of F
    r       the reference point: what lies below it adds nothing, k
    l, u    corners of the boxes above r that the front leaves free

Deviations
    1. F holds posterior means in place of values, so that a lucky value does not hide what is near it.
    2. Points under way have their means as values: the models are conditioned on them, and F holds them.
    3. From four objectives on there are too many boxes; each ask then draws one scalarisation (`improvement`).
    4. Values far below the front are raised (`FrontSurrogate`), so that neither an outlier nor an objective that spans
       many decades decides where the search goes. r takes turns. As the worst mean in each objective it makes the front
       long, as a point a little below the front it makes it dense; each alone loses on functions on which the other
       wins. A reference that the user names stands in its place.
    5. Where the models find noise that nothing has shown yet, one point is evaluated twice, as `auto` does. The last
       tenth of a noisy budget evaluates members of the front again, those that are known worst first.
    6. In the last fifth of a known budget, and from 150 values on in seven asks of eight, a point is worth what it adds
       if its values lie at the posterior means. The fronts are better, and such an ask takes a fifth of the time
       (docs/lab/fronts.md). Not beside points under way, nor with noise, constraints, costs and priors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from regretless.basics.noise import NoiseEvidence
from regretless.basics.streams import Draws
from regretless.classics.gp_ehvi.improvement import BoxGain, ScalarGain, of_means, of_posteriors
from regretless.fronts.choice import compromise
from regretless.fronts.dominance import nondominated
from regretless.fronts.hypervolume import free_boxes
from regretless.history import History
from regretless.method import State, Traits, is_taken
from regretless.methods.shared import GPMethod
from regretless.models.gp.acquisition import kept_from_failures
from regretless.models.gp.design import away_from_known
from regretless.models.gp.maximiser import USUAL, Acquisition, Effort, maximise
from regretless.models.gp.posterior import GP
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube
from regretless.space.parameters import Array

LATE = 0.8
"""The share of a known budget after which the means alone count, as for one objective."""
MIXED_FROM, WHOLE_EVERY = 150, 8
"""From so many values on the means alone count, but for two asks in a row of twice so many: for either reference."""
BLUR = 1e-4
"""The sd that blurs the means, as a share of the range of the front; .1 and .01 are worse (docs/lab/fronts.md)."""
OF_MEANS = Effort(raw=60, rounds=8)
"""The effort of an ask by the means; 100 candidates and 25 rounds cost half as much again."""


def reference_of(F: Array, front: Array, *, near: bool) -> Array:
    """The point r of the module's text, k, for means F (n x k) with this front (m x k)."""
    margin = 0.1  # how far a near reference lies below the worst of the front, as a share of its range
    if not near:
        return np.asarray(F.min(axis=0))
    worst, best = front.min(axis=0), front.max(axis=0)
    return np.asarray(worst - margin * np.maximum(best - worst, margin * (best - F.min(axis=0))))


class FrontSurrogate(Surrogate):
    """The model of objective j: values that lie below the front, and below the median, by more than half of the range
    above are raised to there. They cannot join the front, and would drown the rest."""

    def __init__(self, cube: Cube, j: int) -> None:
        super().__init__(cube)
        self._j = j
        self.all_values = np.empty((0, 0))
        """The values of all objectives, n x k."""

    def seen_as(self, observed: Array, y: Array) -> tuple[Array, Array]:
        Y = self.all_values[: len(observed)]
        worst = min(float(Y[nondominated(Y), self._j].min()), float(np.median(observed)))
        span = float(observed.max()) - worst
        # 0.5: how far below the front values are kept as they are, as a share of its range (docs/lab/fronts.md)
        return np.maximum(y, worst - 0.5 * span) if span > 0 else y, np.ones(len(y))


class GPEHVI(GPMethod):
    """Expected hypervolume improvement on exact GPs: for several objectives."""

    traits = Traits(constraints=True, belief=True, outside=True, cost=True, objectives=True)

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self._begin()

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        most_around = 20  # members of the front around which candidates are drawn, at most
        gps = self._posteriors(history, history.pending)
        known = np.concatenate([history.worth_using(), history.pending])
        F = np.column_stack([gp.mean_at(known) for gp in gps])
        members = nondominated(F)
        again = self._second(history, gps, known[members], F[members])
        if again is not None:
            return again
        means = self._means_suffice(history, cube, rng.step)
        gain = self._gain(gps, F, F[members], history.reference, rng, means=means)
        if history.n_side_values or cube.belief is not None:
            gain = self._weighed(history, cube, gain)
        gain = kept_from_failures(gain, history.X, history.failed, logarithmic=True)
        around = known[members]
        if len(around) > most_around:
            around = around[rng.permutation(len(around))[:most_around]]
        x = maximise(gain, cube, rng, incumbents=around, effort=OF_MEANS if means else USUAL)
        return x if self._repeats(history) else away_from_known(x, history, cube, rng)

    def _means_suffice(self, history: History, cube: Cube, step: int) -> bool:
        """Whether this ask goes by the means alone."""
        if len(history.pending) or history.n_side_values or cube.belief is not None or self.noise(history).shows:
            return False
        late = self.budget is not None and history.evaluations >= LATE * self.budget
        return late or (len(history) >= MIXED_FROM and step // 2 % WHOLE_EVERY != 0)

    def _gain(
        self, gps: list[GP], F: Array, front: Array, asked: Array, rng: Draws, *, means: bool = False
    ) -> Acquisition:
        """What a point promises to add to the front (m x k) of the means F (n x k), above the reference that is asked
        for, k, NaN where the values decide; by the `means` alone or by whole posteriors."""
        offsets, scales = np.array([(gp.offset, gp.scale) for gp in gps]).T
        reference = np.where(
            np.isnan(asked), reference_of(F, front, near=rng.step % 2 == 0), (asked - offsets) / scales
        )
        above, signals = front.max(axis=0) - reference, [gp.signal for gp in gps]
        span = np.where(np.isnan(asked) | (above > 0), above, 1.0)  # 1: where nothing is better than the reference
        # 3: objectives up to which the free volume is cut into boxes
        if len(gps) <= 3:
            boxes = BoxGain(*free_boxes(front, reference), signals)
            return of_means(gps, boxes, BLUR * span) if means else of_posteriors(gps, boxes)
        direction = np.abs(rng.standard_normal(len(gps)))
        direction = direction / np.sqrt(direction @ direction) * span
        direction = np.maximum(direction, np.finfo(np.float64).tiny)  # of an objective that never varies
        beat = float(((front - reference) / direction).min(axis=1).max())
        along = ScalarGain(reference, direction, beat, signals)
        return of_means(gps, along, BLUR * span) if means else of_posteriors(gps, along)

    # -- noise

    def _second(self, history: History, gps: list[GP], members: Array, front: Array) -> Array | None:
        """A member of the front (m x d, with means m x k) to evaluate once more, d, where that is worth an
        evaluation."""
        if np.isfinite(self.cube.size):
            return None
        if not self.noise(history).shows:
            stated = self._noisy is not None or history.noise_bound > 0
            # 1e-3: the fitted noise variance, relative to the signal's, from which noise is suspected, as in `auto`
            large = any(float(gp.factor.noise.mean()) >= 1e-3 for gp in gps)
            if stated or not large or any(history.is_settled(x) for x in history.pending) or self._settled(history):
                return None
            best: Array = members[compromise(front)]
        else:
            # 0.9: the share of a known budget after which noisy members of the front are evaluated again, as there
            if self.budget is None or history.evaluations < 0.9 * self.budget:
                return None
            width = front.max(axis=0) - front.min(axis=0)
            span = np.where(width > 0, width, 1.0)
            doubt = sum(gp.mean_var(members)[1] / span[j] ** 2 for j, gp in enumerate(gps))
            best = members[int(np.argmax(doubt))]
        return None if is_taken(history, best) or not history.is_known(best) else best

    @staticmethod
    def _settled(history: History) -> bool:
        """Whether a setting gave the same values again, so that there is no noise."""
        evidence = NoiseEvidence()
        evidence.observe(history.X, history.y, history.yvar, 0)
        return evidence.settled

    def _repeats(self, history: History) -> bool:
        return self.noise(history).shows and bool(np.isfinite(self.cube.size))

    def _estimates(self, history: History) -> tuple[Array, Array]:
        found = [(gp, *gp.mean_var(history.X)) for gp in self._posteriors(history)]
        means = np.column_stack([gp.offset + gp.scale * mean for gp, mean, _ in found])
        return means, np.column_stack([gp.scale * np.sqrt(variance) for gp, _, variance in found])

    # -- the models

    def _begin(self) -> None:
        self._models: list[FrontSurrogate] = []

    def _posteriors(self, history: History, pending: Array | None = None) -> list[GP]:
        """The posterior of each objective."""
        return [model.gp(*history.basis_of(j), pending) for j, model in enumerate(self._fitted_to(history))]

    def _fitted_to(self, history: History) -> list[FrontSurrogate]:
        """The models, which follow this history: each depends on the values of all objectives."""
        self._catch_up(history)
        bases = [history.basis_of(j) for j in range(history.objectives)]
        while len(self._models) < len(bases):
            self._models.append(FrontSurrogate(self.cube, len(self._models)))
        for model in self._models:
            model.all_values = np.column_stack([y for _, y, _ in bases])
        return self._models

    def warm(self, history: History) -> State:
        models = enumerate(self._fitted_to(history)) if len(history) else ()
        fits = {f"model-{j}": model.latest_fit(*history.basis_of(j)) for j, model in models}
        if history.n_side_values:
            fits["constraints"] = self._constraint_models(history).latest_fits(history)
        return {name: fit for name, fit in fits.items() if fit}

    def warm_from(self, history: History, state: Mapping[str, State]) -> None:
        for j, model in enumerate(self._fitted_to(history) if len(history) else ()):
            if f"model-{j}" in state:
                model.take_fit(*history.basis_of(j), state[f"model-{j}"])
        if history.n_side_values:
            self._constraint_models(history).take_fits(history, state.get("constraints", {}))

    def _recommend(self, history: History) -> Array:
        values, _ = self._estimates(history)
        rows = np.flatnonzero(history.feasible) if history.n_constraints and history.feasible.any() else None
        best = int(np.argmax(values[:, 0])) if rows is None else int(rows[np.argmax(values[rows, 0])])
        return np.asarray(history.X[best])
