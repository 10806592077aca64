"""Uniform probes, and what they prove: how much of the search space can be better than the recommended setting.

A probe is a trial at a point drawn uniformly, and independently of everything else, from the space as the user wrote
it: log scales by their logarithm, each label and each whole number with its share of the axis. Which trials are probes,
and where they lie, follows from (seed, step) alone, so the replay law holds.

The statement needs no assumption on the function f. Write S(v) for the share of the space whose value is better than v,
and let m probes be drawn.

1. The share better than the best of them. S falls as v gets better. Let v_s be the worst v with S(v) <= s. The best
   probe leaves more than s only if every probe is worse than v_s, and a probe is at least as good as v_s with
   probability s or more; so P(S(best probe) > s) <= (1 - s)^m, which is delta for s = 1 - delta^(1/m). Ties and
   plateaus change nothing. The recommended setting is at least as good as the best probe, whoever found it, so its S
   is no larger.
2. k probes that may be better. If at most k probes beat a value v, then v is at least as good as the (k+1)-th best
   probe, and the other way round. By the argument of 1, S of that probe is larger than s with probability at most
   P(Bin(m, s) <= k). So the limit s_k of Clopper and Pearson, P(Bin(m, s_k) <= k) = delta_k, holds for every value
   that at most k probes beat, however the value was chosen. Which k it will be is known only afterwards. The statement
   is therefore made for all k at once, with delta_k = delta / 2^(k+1), which add up to delta.
3. Failures alone. Without noise, and in a run that never had two trials under way, only failed probes count as possibly
   better, and no spending is needed. For given which probes failed, the others are independent draws from where
   evaluations succeed, and (1 - s_k)^(m - k) <= P(Bin(m, s_k) <= k). So delta_k = delta is right, for the share of
   settings whose evaluation returns a better value. In a run with several trials at once how many probes are pending at
   the look is left to chance, also when it is none; there 2 applies.
4. A draw that repeats a known setting (spaces of few cells) counts with the value known there, and its trial goes to
   the method. The draws that count are those of all probe steps, so they stay independent; an evaluation would only
   have repeated the value.
5. Noise. Each told setting gets an interval that holds for all of them at once with probability 1 - delta / 2; a
   probe may be better when the top of its interval lies above the bottom of the recommended one's. The rest is 2 at
   delta / 2. Where noise never exceeds a known bound b, the interval is the value plus and minus b, it holds without
   a probability, and the rest is 2 at delta.
6. At any time. A rule that looks at the values ends a run at a moment that depends on them. So the statement of such a
   run is made for m_1 = 4, m_2 = 6, m_3 = 9, ... first probes, each at delta_k = delta / (k (k + 1)), which add up to
   delta. It then holds for all m_k at once, and the last of them that has been drawn speaks. In between nothing
   is lost: without noise a later recommendation is at least as good.

A probe that is pending, failed or pruned, or whose trial was lost, may be better. Settings chosen by a design, a method
or the user do not count: they are not independent uniform draws, and neither are Sobol points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from regretless.basics.options import in_range
from regretless.basics.streams import Stream, keyed_generator
from regretless.certificate import EXACT, Certificate
from regretless.history import History
from regretless.method import Method
from regretless.outlook.bounds import asked_for, limit_name, within_limit
from regretless.space import Cube, Encoding
from regretless.space.cube import MOST_COUNTED
from regretless.space.parameters import Array, Axis
from regretless.task import Task

DEFAULT_RATE = 0.2
"""The share of trials that are probes where a stop rule speaks of a certificate and the user names none: 59 probes
prove 5 %, and what a fifth of the trials costs the search is measured (docs/lab/shares.md)."""
FIRST_LOOK, NEXT_LOOK = 4, 1.5
"""The probes with which the statement for any time begins, and the factor from one number of probes to the next. With
fewer than four the share is above a half; factors from 1.3 to 2 are level in the middle of a step."""
FOR_THE_ASKED = 0.8
"""A rule that asks for a share spends this part of delta on it. Certificates name shares at other moments too, and they
spend the rest. With 0.8 a share of 5 % needs 4 probes more than with all of delta."""
NO_NEWS = 0.99
"""Larger shares are not certified: rounded up, they would read that at most 100 % of the space is better."""
NOT_ASKED = "no probes were asked for; with probes=0.2 every fifth trial is an independent uniform draw"
"""Why a run without probes says nothing about the space as a whole."""


def checked_rate(probes: Any) -> float:
    """The share of trials that are probes, if it is one."""
    in_range("[0, 1]", probes=probes)
    return float(probes)


def is_due(step: int, task: Task) -> bool:
    """Whether the trial of this step is a probe: evenly spaced, so that n trials hold the whole part of n times the
    rate. The last trial of a planned budget is none, because nothing can be made of what it shows: the probe that was
    due there comes one trial earlier."""
    if task.budget is None or task.probes == 1.0 or step < task.budget - 2 or step >= task.budget:
        return _counts_on(step, task.probes)
    return step == task.budget - 2 and (_counts_on(step, task.probes) or _counts_on(step + 1, task.probes))


def _counts_on(step: int, rate: float) -> bool:
    """Whether the whole part of n rate grows with this step."""
    rounding = 1e-9  # keeps 5 times 0.2 from falling below 1
    return math.floor((step + 1) * rate + rounding) > math.floor(step * rate + rounding)


def probe_point(task: Task, step: int, choices: Encoding) -> Array:
    """The canonical cube point of a task's probe at a step, d; the same setting however a method encodes choices."""
    u = task.space.cube().uniform(keyed_generator(task.seed, step, Stream.PROBE))
    return u if choices == "shares" else task.space.encode(task.space.decode(u), choices)


# ---------------------------------------------------------------- the statement


@dataclass(frozen=True)
class Share:
    """At most `value` of the space is better, with the probability asked for; None: not certified, for `reason`."""

    value: float | None
    reason: str = ""
    probes: int = 0
    """The probes drawn."""
    undecided: int = 0
    """Those of them that may be better than the recommended setting."""
    certain: bool = False
    """Whether the statement holds without a probability: the settings of a finite space were counted."""
    least: float = 1.0
    """What `value` would be if no probe were undecided."""
    exact: bool = True
    """Whether the values show no noise, so that a later recommendation is at least as good."""
    supposes: str = ""
    """What it rests on that nobody has promised."""


def most_better(m: int, k: int, delta: float) -> float:
    """The limit of Clopper and Pearson: P(Bin(m, s) <= k) = delta at this s; 1 - delta^(1/m) for k = 0."""
    if k >= m:
        return 1.0
    if k == 0:
        return -math.expm1(math.log(delta) / m)
    from scipy.special import betaincinv  # half of the time of `import regretless`, so only where it is needed

    return float(betaincinv(k + 1, m - k, 1 - delta))


class Proven(NamedTuple):
    """A share that a rule has proven for good, by so many probes, with all that it may spend: its delta."""

    share: float
    probes: int
    delta: float


class Spending(NamedTuple):
    """What a statement has to know of a rule that may end the run by its values."""

    part: float = 1.0
    """The part of delta that shares at any moment may spend: what a rule that asks for a share leaves of it."""
    proven: Proven | None = None
    """The share that the rule asked for, once it is proven."""


def rule_of(state: Mapping[str, Any] | None) -> Spending | None:
    """What a statement has to know of a rule, from the kept state of the rule; None: there is no rule."""
    if state is None:
        return None
    parts = [rule_of(part) for part in state.get("parts", {}).values()]
    if parts:
        return next((part for part in parts if part is not None and part.part < 1.0), parts[0])  # it asks for a share
    if not state.get("asks_share"):
        return Spending()
    by = int(state.get("proven_by", 0))
    proven = Proven(float(state["share"]), by, float(state["delta"])) if by else None
    return Spending(1.0 - FOR_THE_ASKED, proven)


class Probing(NamedTuple):
    """What a statement about the whole space has to know of a run beside its values."""

    steps: tuple[int, ...] | None = None
    """The steps whose trials were to be probes; None: no probes were asked for."""
    overlapping: bool = False
    """Whether several trials were ever under way at once."""
    rule: Spending | None = None
    """The rule that may end the run by its values, if there is one: shares then hold at every moment."""


def last_look(probes: int) -> tuple[int, int]:
    """The largest k with m_k <= probes, and m_k; (0, 0) before the first."""
    k = m = 0
    following = FIRST_LOOK
    while following <= probes:
        k, m = k + 1, following
        following = math.floor(m * NEXT_LOOK)
    return k, m


def or_proven(found: Share, rule: Spending | None, delta: float) -> Share:
    """A share, or the one that the rule of the run has proven for good where that says more."""
    if rule is None or rule.proven is None or rule.proven.delta > delta:
        return found
    value, probes, _ = rule.proven
    proven = Share(value, probes=probes, supposes=found.supposes)
    return found if found.value is not None and found.value <= value else proven


def share_left(task: Task, method: Method, history: History, probing: Probing, delta: float) -> Share:
    """The share of the space that can be better than what the method recommends, by the probes of the run."""
    found = _share_left(task, method, history, probing, delta)
    return or_proven(replace(found, supposes=supposition(method, history)), probing.rule, delta)


def _share_left(task: Task, method: Method, history: History, probing: Probing, delta: float) -> Share:
    rule = probing.rule
    anytime, delta = rule is not None, delta * (1.0 if rule is None else rule.part)
    if len(history) == 0:
        return Share(None, "nothing has been evaluated yet")
    exact, bounded = not method.noise(history).shows, history.noise_bound > 0
    unseen = share_unseen(method.cube, history.X) if exact else 1.0
    looked = _look(probing.steps, delta, anytime)
    if isinstance(looked, str):
        return Share(unseen, certain=True) if unseen <= NO_NEWS else Share(None, looked)
    steps, spent = looked
    n, bounds = len(steps), _bounds(method, history, len(steps), delta / 2, anytime)
    if isinstance(bounds, str):
        return Share(None, bounds, n, exact=False)
    tops, bottom = bounds
    keys = [probe_point(task, step, method.traits.choices).tobytes() for step in steps]
    undecided = sum(not tops.get(key, math.inf) <= bottom for key in keys)
    by_chance = probing.overlapping or not exact or len(history.pending) > 0
    whole = spent if exact or bounded else spent / 2
    share = most_better(n, undecided, whole / 2 ** (undecided + 1) if by_chance else whole)
    least = most_better(n, 0, whole / 2 if by_chance else whole)
    if unseen <= min(share, NO_NEWS):
        return Share(unseen, undecided=undecided, certain=True)
    if share > NO_NEWS:
        may = "every probe" if undecided == n else f"{undecided} of {n} probes"
        return Share(None, f"{may} may be better", n, undecided, least=least, exact=exact)
    return Share(share, "", n, undecided, least=least, exact=exact)


def counted_probes(probing: Probing, delta: float) -> tuple[list[int], float] | str:
    """The same for what is known of a run, whose rule may leave a part of delta."""
    rule = probing.rule
    return _look(probing.steps, delta * (1.0 if rule is None else rule.part), rule is not None)


def _look(steps: tuple[int, ...] | None, delta: float, anytime: bool) -> tuple[list[int], float] | str:
    """The steps of the probes that count and how much of delta they may spend, or why there is nothing to look at. A
    statement that must hold at every moment is made at the looks of `last_look` alone."""
    if steps is None:
        return NOT_ASKED
    probes = sorted(set(steps))
    if not probes:
        return "no probe was drawn yet"
    if not anytime:
        return probes, delta
    k, m = last_look(len(probes))
    if k == 0:
        return f"a run that a rule ends needs {FIRST_LOOK} probes; so far: {len(probes)}"
    return probes[:m], delta / (k * (k + 1))


def share_unseen(cube: Cube, X: Array) -> float:
    """The share of the space that lies outside the settings X (n x d): 1 unless every coordinate has few positions."""
    if not math.isfinite(cube.size):
        return 1.0
    seen = np.unique(X, axis=0)
    if len(seen) >= cube.size:
        return 0.0
    counted = cube.region is not None and cube.size <= MOST_COUNTED
    whole = _weights(cube, np.unique(cube.all_points(), axis=0)).sum() if counted else 1.0  # what the rules leave
    return max(1.0 - float(_weights(cube, seen).sum() / whole), 0.0)


def _weights(cube: Cube, X: Array) -> Array:
    """The share of a cube without rules that each of its points X (n x d) owns, n; coordinates that do not exist at a
    point divide nothing."""
    exists, weight = cube.active(X), np.ones(len(X))
    grouped = {i for start, stop in cube.groups for i in range(start, stop)}
    for start, stop in cube.groups:
        weight /= np.where(exists[:, start], float(stop - start), 1.0)
    for i, axis in enumerate(cube.axes):
        if i not in grouped:
            weight *= np.where(exists[:, i], _width(axis, X[:, i]), 1.0)
    return weight


def _width(axis: Axis, u: Array) -> Array:
    """The share of an axis that each position u (n) owns."""
    if not axis.log_low:
        return np.full(len(u), 1.0 / axis.levels)
    number = axis.index(u) + float(axis.log_low)
    whole = math.log(axis.log_low + axis.levels - 0.5) - math.log(axis.log_low - 0.5)
    return np.asarray((np.log(number + 0.5) - np.log(number - 0.5)) / whole)


# ---------------------------------------------------------------- values and their intervals

SettingBounds = tuple[dict[bytes, float], float]
"""The most that each told setting can be worth, by identity, and the least that the recommended one is worth."""


def _bounds(method: Method, history: History, probes: int, delta: float, anytime: bool) -> SettingBounds | str:
    """The bounds of all told settings, which may fail with probability delta where noise is Gaussian, or why they
    cannot be had. The recommended setting does not beat itself."""
    if method.noise(history).shows and not history.noise_bound:
        return _noisy_bounds(method, history, probes, delta, anytime)
    found = certain_bounds(history)
    if isinstance(found, str):
        return found
    tops, bottoms = found
    best = method.recommend(history).tobytes()
    if best not in tops and method.noise(history).shows:
        return NEVER_EVALUATED
    bottom = bottoms.get(best, -math.inf)
    return {**tops, best: bottom}, bottom


def certain_bounds(history: History) -> tuple[dict[bytes, float], dict[bytes, float]] | str:
    """The most and the least that each told setting can be worth, by identity, where noise is absent or bounded: a
    value told is at most the bound away from the truth, and so is each further value of the setting."""
    b = history.noise_bound
    usable = np.where(history.feasible, history.y, -math.inf)  # a setting that breaks a constraint is none to use
    tops: dict[bytes, float] = {}
    bottoms: dict[bytes, float] = {}
    for x, value in zip(history.X, usable.tolist(), strict=True):
        key = x.tobytes()
        tops[key] = min(tops.get(key, math.inf), value + b)
        bottoms[key] = max(bottoms.get(key, -math.inf), value - b)
    if b and any(tops[key] < bottoms[key] for key in tops):
        return f"noise_bound={b:g} was wrong: two values of one setting differ by more than twice as much"
    return tops, bottoms


TO_PROMISE = "If values hold no noise, say noisy=False, and a smaller gap is proven."
"""What a user can do who knows a limit."""
TO_PROVE = "Say noisy=False if that is so, and this is proven."
"""What a user can do who has seen all of a space."""


def gap_left(task: Task, method: Method, history: History, delta: float, *, limit_holds: bool = True) -> Certificate:
    """The certificate of a method, in the user's units, with what the user knows, or a space seen whole, adds."""
    found = method.certificate(history, delta)
    if len(history) == 0:
        return found.scaled(task.sign)
    value, top = _certain_range(method, history)
    whole = value is not None and share_unseen(method.cube, history.X) == 0.0
    promise = ""
    if supposes_exact(method, history):
        why = _without_promise(task, whole=whole, limited=limit_holds)
        room = 0.0 if whole else math.inf if task.limit is None or value is None else task.sign * task.limit - value
        says = TO_PROVE if whole else TO_PROMISE
        promise = says if why and (whole or (found.certified and room <= found.gap)) else ""
        found, value = replace(found, reason=why) if why and not found.certified else found, None
    if whole and value is not None and top is not None:
        return found.below(top, value, "every setting of the space was evaluated").scaled(task.sign)
    found = (within_limit(found, task, value) if limit_holds else found).scaled(task.sign)
    return replace(found, asks=promise or asked_for(found, task, task.sign * history.y))


def supposes_exact(method: Method, history: History) -> bool:
    """Whether values that show no noise may hold some, because nobody has said that they do not: one value of each
    setting shows nothing of it."""
    noise = method.noise(history)
    return not noise.shows and noise.stated is not False


def supposition(method: Method, history: History) -> str:
    """What a share rests on that nobody has promised."""
    if not method.noise(history).shows:
        return EXACT if supposes_exact(method, history) else ""
    alike = "" if np.isfinite(history.yvar).all() else " and everywhere alike"
    return "" if history.noise_bound else f"the noise of the values is Gaussian{alike}"


def _without_promise(task: Task, *, whole: bool, limited: bool) -> str:
    """Why values that show no noise prove no gap; empty where exact ones would not prove one either."""
    given = f"{limit_name(task)}={task.limit:g}" if limited and task.limit is not None else ""
    given = "every setting was evaluated, but that" if whole else given
    return f"{given} proves something only if values hold no noise; noisy=False promises that" if given else ""


def _certain_range(method: Method, history: History) -> tuple[float | None, float | None]:
    """What the recommended setting is worth at least, and the most that any known setting can be worth, where both are
    certain."""
    if not method.noise(history).shows:
        row = history.best_row()
        value = float(history.y[row]) if history.feasible[row] else None
        return value, value
    if not history.noise_bound or isinstance(bounds := certain_bounds(history), str):
        return None, None
    tops, bottoms = bounds
    value = bottoms.get(method.recommend(history).tobytes())
    return (value, max(tops.values())) if value is not None and math.isfinite(value) else (None, None)


def _noisy_bounds(method: Method, history: History, probes: int, delta: float, anytime: bool) -> SettingBounds | str:
    """The same from values with Gaussian noise, all at once with probability 1 - delta and, with `anytime`, at every
    moment of the run; or why they cannot be had."""
    # repeated evaluations from which the noise is estimated when no variances are told; with fewer the quantiles of
    # Student's distribution are too wide to separate any two settings
    least_repeats = 3
    groups: dict[bytes, list[int]] = {}
    for i, x in enumerate(history.X):
        groups.setdefault(x.tobytes(), []).append(i)
    best = method.recommend(history).tobytes()
    if best not in groups:
        return NEVER_EVALUATED
    known = np.isfinite(history.yvar)
    spare = sum(len(rows) - 1 for rows in groups.values())
    if not known.all() and spare < least_repeats:
        return (
            "the values are noisy, and neither are their variances told nor "
            f"{least_repeats} evaluations repeated: whether a probe is better cannot be said"
        )
    from scipy.special import ndtri, stdtrit

    tops: dict[bytes, float] = {}
    bottom = -math.inf
    with np.errstate(over="ignore"):  # of enormous values: an infinite variance tells no two settings apart
        squares = sum(float(((history.y[rows] - history.y[rows].mean()) ** 2).sum()) for rows in groups.values())
    for i, (key, rows) in enumerate(groups.items(), 1):
        level = delta * LOOKS_AT_ONE / i**2 if anytime else delta / (len(groups) + probes)
        share = level * LOOKS_AT_ONE / len(rows) ** 2
        if anytime and not known.all():
            share *= LOOKS_AT_ONE / spare**2  # the variance is estimated anew with every repetition
        if known.all():
            variances = np.maximum(history.yvar[rows], np.finfo(np.float64).tiny)
            w = variances.min() / variances  # relative, because 1 / 0.0 times a value would be infinite
            mean, sd = float(w @ history.y[rows] / w.sum()), math.sqrt(variances.min() / w.sum())
            width = -float(ndtri(share))
        else:
            mean, sd = float(history.y[rows].mean()), math.sqrt(squares / spare / len(rows))
            width = -float(stdtrit(spare, share))
        tops[key] = mean + width * sd
        if key == best:
            bottom = mean - width * sd
    tops[best] = bottom  # the recommended setting does not beat itself
    return tops, bottom


NEVER_EVALUATED = "the recommended setting was never evaluated itself, and the values are noisy"
"""Why the share is not certified for methods that recommend places between their evaluations."""
LOOKS_AT_ONE = 6 / math.pi**2
"""The k-th value of one setting spends this share over k^2 of its delta, because the run decides how often it looks."""
