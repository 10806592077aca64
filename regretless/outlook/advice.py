"""Advice: sentences about a run, each only where the values bear it out (`advise`).

    bound       the recommended value lies on a bound, and the model expects more beyond it
    narrow      a large part of a range holds nothing that is among the best quarter of the space
    matters     a parameter that hardly changes the value
    noise       the same setting gave different values, so a single value may be luck
    repeated    settings were evaluated again although values are exact
    failures    failures lie together in one part of a range
    reference   of several objectives: no setting is better than what the user asks for

With several objectives each is judged by itself, from the end of the front that is best in it; a parameter hardly
matters where it does to none of them.

How often each is found where it is planted, and said where it is not, is measured (docs/lab/outlook.md).

**Notation** n values at d coordinates, to be maximised; u a position on an axis of the cube.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.models.gp.sobol import sobol_points
from regretless.outlook.estimates import Estimates
from regretless.outlook.forecast import shown
from regretless.space import Space
from regretless.space.parameters import Array, Choice, Float, Int

PLAIN = 1.645
"""Standard deviations of a difference from which it is taken to be there: one-sided, 19 of 20."""
SLICES, PER_SLICE = 16, 48
"""Parts of a range that are judged, and settings with a value in each."""
HARDLY = 0.05
"""A parameter hardly matters when moving it changes the value by less than this share of what another one does."""
PLACES, STEPS = 24, 7
"""Settings at which a parameter is moved, and the most positions that it is moved to."""
SIDES: dict[str, Any] = {">=": np.greater_equal, "<=": np.less_equal}
"""The parts of a range of numbers."""


@dataclass(frozen=True)
class Advice:
    """One thing to do, and why."""

    kind: str
    """Which of the kinds of the module's text."""
    sentence: str
    parameters: tuple[str, ...] = ()
    """What it is about."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class Known:
    """What advice rests on. Points are on the cube in which each label has a share."""

    space: Space
    estimates: Estimates
    failed: Array
    """Points that failed, f x d."""
    best: Array
    """The recommended setting, d."""
    params: dict[str, Any]
    """The same in the user's words."""
    variances_told: bool
    """Whether noise variances were told."""

    @property
    def asks_model(self) -> bool:
        """Whether there are enough values for a model, and not too many."""
        n, d = self.estimates.X.shape
        # 4: values per parameter from which the model is asked
        # 20, 600: coordinates and values up to which the model is asked
        return 4 * d <= n <= 600 and d <= 20 and bool(np.ptp(self.estimates.y) > 0)


def advice_on(run: Known) -> tuple[Advice, ...]:
    """What the run bears out, the most useful first."""
    found: list[Advice] = []
    if run.asks_model:
        found += [*on_bounds(run), *_wasted(run)]
    found += [*noise(run), *failures(run)]
    if run.asks_model:
        on_a_bound = {name for advice in found if advice.kind == "bound" for name in advice.parameters}
        found += hardly_matter(run, but=on_a_bound)
    return (*found, *repeated(run))


def advice_on_several(runs: Mapping[str, Known]) -> tuple[Advice, ...]:
    """The same for a run with several objectives, each known by its name, with its best setting as the recommended."""
    first, found = next(iter(runs.values())), []
    for name, run in runs.items():
        of_one = [*(on_bounds(run) if run.asks_model else ()), *noise(run)]
        found += [replace(advice, sentence=f"For {name}: {advice.sentence}") for advice in of_one]
    found += failures(first)
    if all(run.asks_model for run in runs.values()):
        on_a_bound = {name for advice in found if advice.kind == "bound" for name in advice.parameters}
        of_each = [hardly_matter(run, but=on_a_bound) for run in runs.values()]
        small = [{name for advice in of_one for name in advice.parameters} for of_one in of_each]
        if none := [name for name, _ in _axes(first) if all(name in of_one for of_one in small)]:
            words = f"{_listed(none)} hardly {'matters' if len(none) == 1 else 'matter'} to any objective"
            way = f"Fix {'it' if len(none) == 1 else 'them'} to make the search smaller."
            found.append(Advice("matters", f"{words}. {way}", tuple(none)))
    return (*found, *(() if any(run.estimates.noisy for run in runs.values()) else repeated(first)))


def beyond_reference(
    names: Sequence[str], reference: Sequence[float | None], better: NDArray[np.bool_]
) -> list[Advice]:
    """What to say where no setting is better than the reference; `better` says where it is, n x k."""
    if not any(value is not None for value in reference) or better.all(axis=1).any():
        return []
    for name, value, some in zip(names, reference, better.T, strict=True):
        if not some.any():
            says = f"No setting has {name} better than its reference {value:g}: is it on the right side?"
            return [Advice("reference", says)]
    return [Advice("reference", "No setting is better than the reference in all objectives: ask for less in one.")]


# ---------------------------------------------------------------- ranges


def on_bounds(run: Known) -> list[Advice]:
    """Numbers whose recommended value lies on a bound where the model rises towards it."""
    found = []
    for name, i in _numbers(run):
        u = float(run.best[i])
        width = 0.5 / run.estimates.cube.axes[i].levels if run.estimates.cube.axes[i].levels else 0.0
        for side, word in ((0.0, "smallest"), (1.0, "largest")):
            # 0.02: A value counts as lying on a bound within this share of the range
            if abs(u - side) > max(0.02, 1.01 * width):
                continue
            inwards = 1.0 if side == 0.0 else -1.0
            # 0.15: how far inside the range the model is asked whether it is worse there
            near, far = _moved(run, i, side), _moved(run, i, side + inwards * 0.15, snap=True)
            ahead, sd = _difference(run, far, near)
            # 0.02: A bound is named when the value there is better by this share of the reach than inside
            if ahead > PLAIN * sd and ahead > 0.02 * _reach(run):
                # 0.1: how far outside the range the model is asked what it expects there, as a share of it
                more, more_sd = _difference(run, near, _moved(run, i, side - inwards * 0.1))
                gain = run.estimates.unit * run.estimates.gp.scale * more
                expects = (
                    f"a tenth of the range beyond it the model expects a value about {shown(gain)} better"
                    if more > PLAIN * more_sd
                    else "the values get better towards it"
                )
                value = _short(run.params[name])
                found.append(
                    Advice(
                        "bound",
                        f"{name} = {value} is the {word} value it may take, and {expects}: widen it "
                        f"if {'larger' if side else 'smaller'} values make sense.",
                        (name,),
                    )
                )
    return found


def _wasted(run: Known) -> list[Advice]:
    """Numbers of whose range a large end holds nothing as good as the best quarter of all settings."""
    wasted = 0.6  # the share of a range from which its poor part is named
    found = []
    gp, cube, d = run.estimates.gp, run.estimates.cube, run.estimates.X.shape[1]
    anywhere = cube.snap(sobol_points(256, d, np.random.default_rng(0)))
    decent = float(np.quantile(gp.mean_at(anywhere), 0.75))
    others = np.concatenate([sobol_points(PER_SLICE, d, np.random.default_rng(1)), run.best[None]])
    for name, i in _numbers(run):
        at = (np.arange(SLICES) + 0.5) / SLICES
        X = np.tile(others, (SLICES, 1))
        X[:, i] = np.repeat(at, len(others))
        mean, variance = gp.mean_var(cube.snap(X))
        tops = (mean + PLAIN * np.sqrt(variance)).reshape(SLICES, -1).max(axis=1)
        good = np.flatnonzero(tops >= decent)
        if not len(good):
            continue
        low, high = good[0] / SLICES, (good[-1] + 1) / SLICES
        parameter = run.space.parameters[name]
        if 1.0 - high >= wasted:
            found.append(_narrower(run, name, parameter, i, high, "above"))
        elif low >= wasted:
            found.append(_narrower(run, name, parameter, i, low, "below"))
    return found


def _narrower(run: Known, name: str, parameter: Any, i: int, u: float, side: str) -> Advice:
    place = np.array(run.best)
    place[i] = u
    edge = run.space.decode(place).get(name, parameter.low)
    says = f"no setting with {name} {side} {_short(edge)} is among the best quarter of the space: narrow its range"
    return Advice("narrow", f"{says}.", (name,))


# ---------------------------------------------------------------- parameters


def hardly_matter(run: Known, *, but: Collection[str] = ()) -> list[Advice]:
    """Parameters that change the value by less than HARDLY of what another one does, for all that the model knows; but
    not those whose range is to be widened."""
    sizes = {name: _size(run, i) for name, i in _axes(run)}
    top = max(sizes, key=lambda name: sizes[name], default="")
    small = [name for name in sizes if sizes[name] < HARDLY * sizes[top] and name not in but]
    if not small:
        return []
    one, most = len(small) == 1, max(sizes[name] for name in small) / sizes[top]
    return [
        Advice(
            "matters",
            f"{_listed(small)} hardly {'matters' if one else 'matter'}: moved over the whole range, "
            f"{'it changes' if one else 'each changes'} the value by at most {math.ceil(100 * most)} % of what {top} "
            f"does. Fix {'it' if one else 'them'} to make the search smaller.",
            tuple(small),
        )
    ]


def _size(run: Known, i: int) -> float:
    """How much moving along axis i changes the value, in the model's scale: the root of the mean square of the change,
    what the model does not know of it included."""
    cube, total = run.estimates.cube, 0.0
    axis, d = cube.axes[i], cube.dim
    steps = axis.centre(np.arange(axis.levels)) if 0 < axis.levels <= STEPS else np.linspace(0.02, 0.98, STEPS)
    places = np.concatenate([sobol_points(PLACES, d, np.random.default_rng(2)), run.best[None]])
    for place in places:
        X = np.tile(place, (len(steps), 1))
        X[:, i] = steps
        mean, C = run.estimates.joint(cube.snap(X))
        unknown = np.maximum(C.diagonal() - 2.0 * C.mean(axis=1) + C.mean(), 0.0)
        total += float(np.mean((mean - mean.mean()) ** 2 + unknown))
    return math.sqrt(total / len(places))


# ---------------------------------------------------------------- values


def noise(run: Known) -> list[Advice]:
    """Values of one setting that differ."""
    if not run.estimates.noisy or run.variances_told:
        return []
    squares, spare, widest = 0.0, 0, 0.0
    for rows in _groups(run):
        own = run.estimates.y[rows]
        squares, spare = squares + float(((own - own.mean()) ** 2).sum()), spare + len(rows) - 1
        widest = max(widest, float(np.ptp(own)))
    if not squares:
        return []
    error = math.sqrt(run.estimates.noise) / run.estimates.unit
    sd = max(math.sqrt(squares / spare), error)
    found = f"The same setting gave values that are {shown(run.estimates.unit * widest)} apart"
    if widest < error:  # few values of one setting may agree by accident
        found = f"A single value is off by about {shown(run.estimates.unit * error)}"
    # 0.1, 5: how small, as a share of the spread of the values, the error of a mean should be, and the most repetitions
    # that are advised
    k = int(np.clip(math.ceil((sd / (0.1 * run.estimates.bend[1])) ** 2), 2, 5))
    return [
        Advice(
            "noise",
            f"{found}: evaluate each setting {k} times (the option repeat), or the best ones again before you choose.",
        )
    ]


def repeated(run: Known) -> list[Advice]:
    """Settings that were evaluated again to the same value."""
    again = sum(len(rows) - 1 for rows in _groups(run))
    n = len(run.estimates.y)
    if run.estimates.noisy or again < max(2, 0.05 * n):
        return []
    return [
        Advice(
            "repeated",
            f"{again} of {n} evaluations repeated a setting and gave the value that was known: look it up instead.",
        )
    ]


def _groups(run: Known) -> list[Any]:
    """The rows of each setting that has several values."""
    rows: dict[bytes, list[int]] = {}
    for i, x in enumerate(run.estimates.X):
        rows.setdefault(x.tobytes(), []).append(i)
    return [np.array(found) for found in rows.values() if len(found) > 1]


# ---------------------------------------------------------------- failures


def failures(run: Known) -> list[Advice]:
    """The part of a range in which failures lie, where it is no accident that they do."""
    # failures that there must be, and the share of them that lies in the part that is named
    least_failures, most_of_them = 3, 0.8
    f, n = len(run.failed), len(run.estimates.y)
    tries = [(*part, name, i) for name, i in _axes(run) for part in _parts(run, name, i)]
    if f < least_failures or n < least_failures or not tries:
        return []
    chance, lost, kept, u, sign, name, i = min(tries, key=itemgetter(0))
    # 0.001: the chance below which failures are taken to lie together, all parameters and both sides counted
    if chance * len(tries) > 0.001 or lost < least_failures or lost < most_of_them * f:
        return []
    edge = run.space.decode(run.failed[np.argmin(np.abs(run.failed[:, i] - u))]).get(name)
    return [
        Advice(
            "failures",
            f"{lost} of {f} failures have {name} {sign} {_short(edge)}, where {lost} of {lost + kept} evaluations "
            f"failed; elsewhere {f - lost} of {f - lost + n - kept} did: leave that part out of the space.",
            (name,),
        )
    ]


def _parts(run: Known, name: str, i: int) -> list[tuple[float, int, int, float, str]]:
    """Parts of a range that hold failures: how likely so many are by accident, failures and values there, where the
    part ends, and on which side of that it lies."""
    lost, kept = run.failed[:, i], run.estimates.X[:, i]
    sides = {"=": np.equal} if isinstance(run.space.parameters[name], Choice) else SIDES
    counts = [
        (int(side(lost, u).sum()), int(side(kept, u).sum()), float(u), sign)
        for sign, side in sides.items()
        for u in np.unique(lost)
    ]
    return [(_tail(len(lost), len(kept), a, b), a, b, u, sign) for a, b, u, sign in counts]


def _tail(f: int, n: int, lost: int, kept: int) -> float:
    """The chance that so many of f failures and no more than so many of n values lie in a part, were it all the same
    (Fisher's exact test)."""
    from scipy.special import gammaln

    def log_choose(a: Any, b: Any) -> Any:
        return gammaln(a + 1.0) - gammaln(b + 1.0) - gammaln(a - b + 1.0)

    inside = lost + kept
    k = np.arange(lost, min(f, inside) + 1)
    terms = log_choose(f, k) + log_choose(n, inside - k) - log_choose(f + n, inside)
    return float(np.exp(terms).sum())


# ---------------------------------------------------------------- inside


def _axes(run: Known) -> list[tuple[str, int]]:
    """The parameters that can change and always exist, with their coordinates."""
    cube = run.estimates.cube
    free = [(name, i) for i, name in enumerate(run.space.coordinates) if name not in run.space.conditional]
    return [(name, i) for name, i in free if cube.axes[i].levels != 1 and not _fixed(run.space.parameters[name])]


def _numbers(run: Known) -> list[tuple[str, int]]:
    return [(name, i) for name, i in _axes(run) if isinstance(run.space.parameters[name], Float | Int)]


def _fixed(parameter: Any) -> bool:
    return not isinstance(parameter, Choice) and parameter.low == parameter.high


def _moved(run: Known, i: int, u: float, *, snap: bool = False) -> Array:
    """The recommended setting with another position on axis i, which may lie outside the cube."""
    x = np.array(run.best)
    x[i] = u
    return run.estimates.cube.snap(x) if snap else x


def _difference(run: Known, a: Array, b: Array) -> tuple[float, float]:
    """How much better b is than a, in the model's scale, and the sd of that."""
    mean, C = run.estimates.joint(np.stack([a, b]))
    return float(mean[1] - mean[0]), math.sqrt(max(float(C[0, 0] + C[1, 1] - 2.0 * C[0, 1]), 0.0))


def _reach(run: Known) -> float:
    """How far the best mean lies above the median of the values, in the model's scale."""
    gp = run.estimates.gp
    means = gp.mean_at(run.estimates.X)
    return float(means.max() - np.median(means))


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
