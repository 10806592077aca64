"""`auto`: one optimiser made of those of this library; not in any paper.

At every ask it decides from the history which of its parts proposes. The decision is a function of the space, the
budget and the history, so the replay law holds for it as for any method, and `why` names each change and the value that
brought it.

    the model        up to 20 parameters: a Gaussian process whose axes turn where that explains the values better
                     (`gp/frame.py`); expected improvement and the confidence bound take turns, because each loses on
                     functions on which the other wins; beside points under way, functions drawn from the posterior and
                     a narrower bound take turns, because a draw spreads them and the bound uses what is known; with
                     whole numbers and steps, and from 8 parameters on, expected improvement alone
    the contest      beyond that: `gp-contest`, where of several models the one is searched that predicted best
    the evolution    many evaluations: CMA-ES with restarts, which learns from all values, also at the model's points
                     and at the tops of quadratics through its latest values, where these lie on one; without a budget
                     it takes ever more of the asks, beginning with the 101st

Noise. A fitted noise variance is a suspicion only, because ripples look like noise to a smooth model. When there is
one, the best point is evaluated a second time, once in a run: equal values say that there is no noise, and nothing
changes; different ones say that there is. Then low values are drawn in by a logarithm instead of clipped, and where the
fitted variance is large, three asks in four go where a value is expected to raise the best mean most (`knowledge.py`),
the fourth to the best point of a drawn function (Thompson); the last tenth of a budget evaluates the best values again,
which tells ripples from noise (`luck.py`), and then the largest mean. Beside points under way drawn functions and a
wider confidence bound take turns. Recommended is the largest mean of the points whose values are among the best fifth,
corrected by these values where there are ripples. Finite spaces are not probed: without noise no setting of them is
evaluated twice. Where noise is certain (told variances, `noisy=True`, a `noise_bound`, two values of one setting) their
settings are evaluated again like any other points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regretless.auto.knowledge import knowledge_step
from regretless.auto.luck import Settings
from regretless.auto.quadratic import quadratic_step
from regretless.baselines import BASELINES
from regretless.certificate import Certificate
from regretless.gp.acquisition import log_expected_improvement, upper_confidence
from regretless.gp.design import away_from_known
from regretless.gp.maximiser import Acquisition, Effort
from regretless.gp.method import GPMethod
from regretless.gp.posterior import GP
from regretless.gp.step import best_told
from regretless.gp.surrogate import Surrogate, near_one
from regretless.method import Method, State
from regretless.methods import METHODS
from regretless.noise import NoiseEvidence
from regretless.parameters import Array
from regretless.space import Cube

if TYPE_CHECKING:
    from regretless.baselines.cma_es import CMAES

MODEL_UP_TO = 20  # parameters that the model is taken for; in 20 it is level with the contest in half the time (docs)
IMPROVE_FROM = 8  # parameters from which expected improvement proposes alone, on axes as they are (docs/lab/auto.md)
LONG = 3000  # a larger budget means cheap evaluations: there an ask of the model would take longer than they do
UNPLANNED = 1000  # values after which the evolution takes over where no budget was given; the model then asks in 0.1 s
SHARES = ((100, 1), (200, 2), (400, 4), (600, 8))
"""Without a budget, noise or steps: up to so many values each so many-th ask is the model's, the others CMA-ES's.
The values are no worse than those of the model alone, after 500 they are better, and asks take a third of the time
(docs/lab/auto.md)."""
TURNS, TURNS_UNTIL = 16, 200
"""In a long run every 16th ask is the model's, until there are 200 values. With every eighth the first hundred asks
take longer than TPE's, and their values are no better (docs/lab/auto.md)."""
LEAP_EVERY, LEAP_RARELY = 8, 32
"""In a search of the evolution every eighth ask, and once it is long every 32nd, goes to the top of a quadratic: that
saves a valley hundreds of evaluations. Later the evolution has learnt the valley itself, and tops of quadratics that
fit by chance would mislead it on sharp ridges (docs/lab/auto.md)."""
LEAP_LONG = 200  # values per parameter from which a search of the evolution counts as long (docs/lab/auto.md)
LEAP_FROM = 500  # the latest values of a search that a quadratic is fitted to are taken from so many
LEAP_UP_TO = 10  # parameters; in more a quadratic has too many coefficients to be cheap
KAPPA = 1.0  # the width of the confidence bound, as in gp-ucb
PENDING_SCALE = 2.0  # with p points pending the squared width is divided by 1 + p / 2 (docs/lab/auto.md)
LATE_WIDTH = 0.3
"""The width of the bound beside points under way in the last fifth of a budget. With 0.1 the mean regret is the same;
without this it is 1.1 to 1.2 times as large (docs/lab/auto.md)."""
CROWD = 4  # points under way from which every second ask is drawn; beside fewer every fourth is (docs/lab/auto.md)
EXPLOIT_FROM = 0.8  # the share of a known budget after which the mean alone is maximised, as in gp-ucb
NOISE_FROM = 1e-3  # the fitted noise variance, relative to the signal's, from which noise is suspected and matters
DRAWN_EVERY = 4
"""Under noise every so many asks follow a drawn function, the others the knowledge gradient, which may overlook a peak
that no value has shown yet; without such asks the losses are level (docs/lab/auto.md)."""
NOISY_EXPLOIT_FROM = 0.9  # as EXPLOIT_FROM, under noise; an end of two evaluations is level (docs/lab/auto.md)
BETTER_PART = 0.2
"""The part of the noisy values, the best ones, whose points may be recommended: the mean decides between them, and a
mean that mistakes ripples for noise cannot choose a point with a poor value (docs/lab/auto.md)."""
TWICE = 5
"""The best settings that are evaluated a second time in the last tenth of a noisy budget; 8 are level, and without them
the best places of functions with ripples are taken for luck (docs/lab/auto.md)."""
NOISY_KAPPA = 2.0  # the width of the confidence bound under noise: one good value may be luck (docs/lab/auto.md)
TREE_MARGIN = 0.3
"""By how much, in standard deviations of the values, two asks of four in a tree must beat the best: a branch whose best
is found promises ever smaller gains, and without a margin these outweigh the other branches (docs/lab/spaces.md)."""
BRANCH_EVERY = 4
"""Every so many asks in a tree the branch with the fewest evaluations is searched: its first values may have been
unlucky, and a model that has seen nothing else in it would never come back (docs/lab/spaces.md)."""
DRAWN = Effort(raw=96)  # a drawn function is valued at a quarter of an ask's candidates: each costs 20 times more
LISTED = 10_000  # settings of a finite space up to which one that is left is found by listing all of them
NEIGHBOURS = 10  # values whose mean ranks the points of a long noisy run
LOCAL = 300  # values nearest to the best of them that the recommendation of a long noisy run is modelled on


class Auto(GPMethod):
    """Reads the history and takes, ask by ask, the search that suits it: the default.

    Args:
        noisy: whether values are noisy, where that is known: True makes a finite space evaluate settings again, False
            means that no setting is ever evaluated twice; None: it is found out.
    """

    version = 5  # since a search of the evolution has its time

    def __init__(self, cube: int | Cube, *, seed: int, budget: int | None = None, noisy: bool | None = None) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        self.long = self.budget is not None and self.budget > LONG
        self.wide = self.cube.widest > MODEL_UP_TO
        self.uses_outside, self.weighs_belief = not self.wide, not (self.wide or self.long)  # the model alone does
        self.stepped = bool((self.cube.discrete & ~self.cube.categorical).any())
        self.many = self.dim >= IMPROVE_FROM or bool(self.cube.gates)
        """Whether expected improvement proposes alone; in trees the bound would stay in its branch (docs/lab)."""
        self.cells = self.cube.size
        self.known_noise = noisy
        self.evidence = NoiseEvidence(exact=noisy is False)
        self._models = {
            certain: Surrogate(self.cube, tame=not certain, soften=certain, rotate=not self.many, seldom=self.long)
            for certain in (False, True)
        }
        """The models without and with certain noise, where a clip would depend on the luckiest value."""
        self._surrogate = self._models[False]
        self._members: dict[str, Method] = {}
        self._whole = self.cube
        """The cube with nothing held, whenever a member is built."""

    def _expect(self) -> None:
        super()._expect()
        self.long = self.wide = False  # of the parts the model alone learns constraints
        self.uses_outside = self.weighs_belief = True
        for model in self._models.values():
            model.seldom = False

    # -- who proposes

    def _propose(self, rng: np.random.Generator) -> Array:
        part = self._part()
        leap = self._leap() if part == "cma-es" else None
        if leap is not None:
            x = leap
        elif part == "model":
            x = super()._propose(rng)
        else:
            x = self._proposed_by(self._member(part), rng)
        if self.cells > LISTED or self._certainly_noisy or not self.is_known(x):
            return x
        return nearest_unknown(self, x)

    @property
    def _certainly_noisy(self) -> bool:
        """Whether noise was stated or has shown."""
        return self._noise_stated or self.evidence.noisy_at is not None

    @property
    def _noise_stated(self) -> bool:
        return self.known_noise is True or self.noise_bound > 0

    @property
    def _repeats(self) -> bool:
        return self._certainly_noisy and bool(np.isfinite(self.cells))

    def _part(self) -> str:
        """The part that proposes now."""
        n = self._evaluations
        if self.long:
            model = not self.wide and (n < self._design.size or (n < TURNS_UNTIL and self.step % TURNS == 0))
            return "model" if model else "cma-es"
        if self._shared:
            turn = next((k for limit, k in SHARES if n < limit), 0)
            return "model" if turn and self.step % turn == 0 else "cma-es"
        if self._handed:
            return "cma-es"
        return "gp-contest" if self.wide else "model"

    @property
    def _shared(self) -> bool:
        """Whether the model and the evolution take turns ever more in the evolution's favour."""
        return self._may_share and self.evidence.noisy_at is None

    @property
    def _may_share(self) -> bool:
        """Whether they do unless the values show noise."""
        return self.budget is None and self._lines and not (self.wide or self._n_sides or self._noise_stated)

    @property
    def _lines(self) -> bool:
        """Whether every point of the cube is legal, so that a quadratic has lines in all directions."""
        return self.cube.plain and self.cube.region is None

    @property
    def _handed(self) -> bool:
        """Whether the run was handed over to the evolution."""
        return len(self.y) >= self._alone_from and not self._n_sides

    @property
    def _alone_from(self) -> int:
        """The number of values from which the evolution goes on alone."""
        if self.budget is not None:
            return LONG
        return SHARES[-1][0] if self._shared else UNPLANNED

    @property
    def _evolves(self) -> bool:
        """Whether the run is the evolution's, so that there is no model of all values."""
        return self.long or self._handed

    def _member(self, name: str) -> Method:
        """A method that reads this one's history."""
        if name not in self._members:
            recipe = METHODS[name] if name in METHODS else BASELINES[name]
            member = self._members[name] = recipe.build(self._whole, seed=self.seed, budget=self.budget)
            member.follow(self)
            if len(self.y):
                member._update(self.X, self.y)
        return self._members[name]

    def _proposed_by(self, member: Method, rng: np.random.Generator) -> Array:
        """What a member proposes at this step, d, for the coordinates that are held at present."""
        member.step, member.cube = self.step, self.cube
        try:
            return member._propose(rng)
        finally:
            member.cube = self._whole

    def _leap(self) -> Array | None:
        """The top of a quadratic through the latest values of the evolution's search, d, where it is its turn."""
        evolution = cast("CMAES", self._member("cma-es"))
        values = len(self.y) - evolution.begun
        every = LEAP_EVERY if values < LEAP_LONG * self.dim else LEAP_RARELY
        exact = self._lines and not (self._n_sides or self._certainly_noisy)
        if self.step % every != every - 1 or self.dim > LEAP_UP_TO or not exact:
            return None
        late = max(evolution.begun, len(self.y) - LEAP_FROM)
        x = quadratic_step(self.X[late:], self.y[late:], must_fit=True)
        return None if x is None or self.is_known(self.cube.snap(x)) else self.cube.snap(x)

    # -- the model's step

    def _step(self, rng: np.random.Generator) -> Array:
        gp = self._posterior()
        if self._wants_probe(gp):
            best = best_told(gp, self.X)
            if not self._is_taken(best):  # a second evaluation that failed is not tried again
                return best
        noisy = self._certainly_noisy and self._noise_shows(gp)
        return self._noisy_step(gp, rng) if noisy else self._exact_step(gp, rng)

    def _exact_step(self, gp: GP, rng: np.random.Generator) -> Array:
        """The next point, d, where values are exact or their noise is too small to matter."""
        crowd, late = len(self._pending), self._spent(EXPLOIT_FROM) and not self.many
        if late and not crowd:  # with others under way the largest mean would be proposed to all of them
            top = quadratic_step(self.X, self.y) if self._lines and self.step % 2 else None
            return self._bound_step(gp, 0.0, rng) if top is None else away_from_known(self.cube.snap(top), self, rng)
        if self.stepped or self.many:
            return self._improving_step(gp, rng)
        if late:
            return self._bound_step(gp, LATE_WIDTH, rng)
        if not crowd:
            return self._bound_step(gp, KAPPA, rng) if self.step % 2 else self._improving_step(gp, rng)
        drawn = self.step % 2 == 0 if crowd >= CROWD else self.step % 4 == 2
        return self._drawn_step(rng) if drawn else self._bound_step(gp, narrowed(KAPPA, crowd), rng)

    def _noisy_step(self, gp: GP, rng: np.random.Generator) -> Array:
        """The next point, d, where noise is certain and large."""
        crowd, late = len(self._pending), self._spent(NOISY_EXPLOIT_FROM)
        if late and not crowd:
            again = self._to_repeat() if self._noise_is_fitted else None
            return self._bound_step(gp, 0.0, rng) if again is None else again
        weighed = self._n_sides > 0 or self.cube.belief is not None  # the knowledge gradient knows the objective alone
        if not (late or crowd or weighed) and self.step % DRAWN_EVERY:
            x = knowledge_step(gp, self, rng)
            if x is not None:
                return x if self._repeats else away_from_known(x, self, rng)
        return self._bound_step(gp, narrowed(NOISY_KAPPA, crowd), rng) if self.step % 2 else self._drawn_step(rng)

    def _spent(self, share: float) -> bool:
        """Whether so large a share of a known budget is spent or under way."""
        return self.budget is not None and self._evaluations >= share * self.budget

    def _to_repeat(self) -> Array | None:
        """The best of the settings, d, that are to be evaluated a second time; None when all of them were, whether or
        not that evaluation failed."""
        rows = Settings.of(self.X, near_one(self.y)).best_once(TWICE)
        return next((np.array(self.X[row]) for row in rows if not self._is_taken(self.X[row])), None)

    def _bound_step(self, gp: GP, width: float, rng: np.random.Generator) -> Array:
        """The largest confidence bound of a width, d; of width 0 it is the largest mean."""
        return self._best_step(gp, upper_confidence(gp, width), rng)

    def _drawn_step(self, rng: np.random.Generator) -> Array:
        """The best point of a function drawn from the posterior, d; each draw is another, so pending points need no
        care."""
        told = self._surrogate.gp(*self.basis)
        path = told.path(rng)
        return self._best_step(told, Acquisition(path, path.values), rng, effort=DRAWN)

    def _improving_step(self, gp: GP, rng: np.random.Generator) -> Array:
        """The largest expected improvement, d; in a tree, now and then within the branch with the fewest values."""
        turn = self.step % BRANCH_EVERY if self.cube.gates else 0
        if turn == BRANCH_EVERY - 1:
            x = self._in_rarest_branch(gp, rng)
            if x is not None and not self.is_known(x):
                return x
        beat = self._value_to_beat(gp) + (TREE_MARGIN if turn else 0.0)
        return self._best_step(gp, log_expected_improvement(gp, beat), rng, logarithmic=True)

    def _in_rarest_branch(self, gp: GP, rng: np.random.Generator) -> Array | None:
        """A point of the branch that has the fewest evaluations, d: a draw while they are no more than its coordinates,
        because expected improvement begins in the corners, and then the largest expected improvement. None when the
        branches cannot be listed, or coordinates are held already."""
        whole = self.cube
        if whole.pins or not len(whole.branches):
            return None
        at = [i for first, last, _ in whole.parents for i in range(first, last)]
        known = self.known[:, at]
        visits = [(known == branch[at]).all(axis=1).sum() for branch in whole.branches]
        rarest = int(np.argmin(visits))
        branch = whole.branches[rarest]
        self.cube = whole.pinned({i: float(branch[i]) for i in at})
        try:
            if visits[rarest] <= whole.active(branch).sum():
                drawn = None if whole.belief is None else whole.belief.drawn(rng.random((1, self.dim)))
                return self.cube.draw(rng) if drawn is None else np.asarray(self.cube.allowed(drawn)[0])
            return self._best_step(gp, log_expected_improvement(gp, self._value_to_beat(gp)), rng, logarithmic=True)
        finally:
            self.cube = whole

    def _noise_shows(self, gp: GP) -> bool:
        return float(gp.factor.noise.mean()) >= NOISE_FROM

    def _wants_probe(self, gp: GP) -> bool:
        """Whether noise is suspected and nothing has settled the question, nor will when a pending point is told."""
        stated = self.known_noise is not None or self.noise_bound > 0
        if stated or self.evidence.settled or np.isfinite(self.cells) or not self._noise_shows(gp):
            return False
        return not any(key in self._settled for key in self._pending_keys)

    # -- what follows from the values

    def _update(self, X: Array, y: Array) -> None:
        n = len(self.y)
        self.evidence.take_in(X, y, self.yvar[n - len(y) :], n - len(y))
        self._surrogate = self._models[self._certainly_noisy]
        for member in self._members.values():
            member._update(X, y)

    def _recommend(self) -> Array:
        if self._evolves:
            exact = not self._certainly_noisy
            return self.X[self.best_row()] if exact else best_of_many(self.cube, self.X, self.y, self.yvar)
        if self.wide:
            return self._member("gp-contest")._recommend()
        return self._best_of_the_better() if self._noise_is_fitted else super()._recommend()

    @property
    def _noise_is_fitted(self) -> bool:
        """Whether noise is certain, its size is the model's guess, and nothing is promised by a point's own values."""
        guessed = self._certainly_noisy and not np.isfinite(self.yvar).all()
        return guessed and not (self.n_constraints or self.noise_bound)

    def _best_of_the_better(self) -> Array:
        """The told point, d, that is believed best of those whose own values are among the best."""
        gp = self._surrogate.gp(*self.basis)
        settings = Settings.of(self.X, (gp.y[gp.n - len(self.y) :] - gp.offset) / gp.scale)
        better = np.argsort(-settings.values, kind="stable")[: max(3, math.ceil(BETTER_PART * len(self.y)))]
        points = self.X[settings.rows]
        believed = settings.believed(gp.mean_at(points), float(gp.factor.noise.mean() * gp.signal))
        return np.asarray(points[better[int(np.argmax(believed[better]))]])

    def _certificate(self, delta: float) -> Certificate:
        if self._evolves:
            return Certificate.none("an evolution strategy keeps no model that could bound the regret", delta)
        return super()._certificate(delta)

    def _state(self) -> State:
        return {} if self._evolves else super()._state()

    def _load(self, state: Mapping[str, Any]) -> None:
        if len(self.y):
            self._update(self.X, self.y)
        super()._load(state)

    @property
    def why(self) -> str:
        """How the run began and each change, with the number of values or evaluations at which it came."""
        n = self.dim
        if self.long:
            first = f"{self.budget} evaluations: CMA-ES, whose asks take microseconds, learns from all values"
        elif self.wide:
            first = f"{n} parameters: of several GPs the one that predicted best is searched (gp-contest)"
        elif self.stepped:
            first = f"{n} parameters, some of them whole numbers or steps: an exact GP with expected improvement"
        elif self.many:
            first = f"{n} parameters: an exact GP with expected improvement"
        else:
            first = f"{n} parameters: an exact GP; expected improvement and a confidence bound take turns"
            first += " (beside points under way: drawn functions and a narrower bound)"
        if self._noise_stated:
            first += "; noise was stated"
        changes = sorted(self._noise_changes() + self._evolution_changes())
        return "; ".join([first, *(f"after {at} {of}{'s' * (at > 1)}: {change}" for at, of, change in changes)])

    def _noise_changes(self) -> list[tuple[int, str, str]]:
        """What the values said about noise, and what followed: after how many, of what, and the sentence."""
        changes, noisy_at, exact_at = [], self.evidence.noisy_at, self.evidence.exact_at
        if exact_at is not None and not self._noise_stated:
            changes.append((exact_at, "value", "a setting gave the same value again, so there is no noise"))
        if noisy_at is not None and not self._noise_stated:
            found = "a noise variance was told" if self.evidence.told else "a setting gave two different values"
            follows = "evaluations go where they tell most about the best"
            if self.long or self.wide or noisy_at >= self._alone_from:
                follows = "the best value may be luck"
            elif self._may_share and noisy_at > SHARES[0][0]:
                follows += ", and the model alone chooses them again"
            changes.append((noisy_at, "value", f"{found}, so {follows}"))
        return changes

    def _evolution_changes(self) -> list[tuple[int, str, str]]:
        """The same of the changes from the model to the evolution. Where they take turns, failures and evaluations
        under way count, as in `_part`."""
        alone = "asks of a model would take long, so CMA-ES goes on"
        noisy_at = self.evidence.noisy_at
        begun = self._evaluations if noisy_at is None else noisy_at - 1
        parts = [(SHARES[0][0], "CMA-ES takes turns with the model, whose asks become long"), (SHARES[-1][0], alone)]
        changes = [(at, "evaluation", change) for at, change in parts if self._may_share and begun >= at]
        if self._handed and not (self.long or (self._may_share and begun >= self._alone_from)):
            changes.append((self._alone_from, "value", alone))
        return changes


def narrowed(width: float, crowd: int) -> float:
    """The width of a confidence bound beside so many points under way."""
    return width / math.sqrt(1.0 + crowd / PENDING_SCALE)


def nearest_unknown(history: Method, x: Array) -> Array:
    """The legal point nearest to x (d) that is not known; x itself when all of them are."""
    every = history.cube.all_points()
    order = np.argsort(((every - x) ** 2).sum(axis=1), kind="stable")
    return next((every[i] for i in order if not history.is_known(every[i])), x)


def best_of_many(cube: Cube, X: Array, y: Array, yvar: Array) -> Array:
    """The point, d, to recommend among many noisy values y (n) at X (n x d): the best by a model of those around the
    point whose neighbours have the best mean value."""
    top = np.argsort(-y, kind="stable")[:LOCAL]
    squares = (X * X).sum(axis=1)
    distances = squares[top][:, None] + squares - 2.0 * X[top] @ X.T
    near = np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]
    centre = top[int(np.argmax(y[near].mean(axis=1)))]
    around = np.sort(np.argsort(((X - X[centre]) ** 2).sum(axis=1), kind="stable")[:LOCAL])
    gp = Surrogate(cube).gp(X[around], y[around], yvar[around])
    return best_told(gp, X[around])
