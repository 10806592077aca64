"""How much of the space can still extend a front of several objectives, proven by uniform probes.

The argument for one objective (`probes`) does not carry over: which of the probes the final front leaves undecided
depends on the probes that it was made of. So every probe is judged when it is drawn, against the front of that moment.

Let V_i be the share of the space that holds a setting which no value known when probe i was asked equals or exceeds in
all objectives, V the share that the final front leaves, and Z_i whether probe i was such a setting.

1. Probe i is drawn uniformly and independently of all that was known then, so P(Z_i = 1 | what was known) = V_i. A
   front only moves outwards, so V_i >= V: what extends the final front extends every earlier one.
2. Hence the Z_i can be written as Z_i = [U_i < V_i] >= [U_i < V] with independent uniform U_i. For a fixed s and k:
   V > s and sum of Z_i <= k imply that at most k of the U_i are below s. So their probability is at most P(Bin(m, s) <=
   k), which is delta_k at the limit s_k of Clopper and Pearson.
3. Which k it will be is known only afterwards; the statement holds at all k at once when the delta_k add up to delta.
   Here delta_k = delta / 2^(k+1).
4. Early probes extend an early front and say little, so the first quarter of them is not counted; which these are
   follows from the number of probes alone.

Nothing is assumed of the objectives, of the method, or of how many trials run at once: what was known when a probe was
asked is written in its trial. A probe that failed, is pending or was lost counts as one that extends the front; one
that breaks a constraint does not. A draw that repeats a known setting extends nothing. Under noise it is not known
which values extend a front, and nothing is certified.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from regretless.history import History
from regretless.method import Method
from regretless.outlook.probes import (
    NO_NEWS,
    Probing,
    Share,
    counted_probes,
    most_better,
    or_proven,
    probe_point,
    share_unseen,
    supposition,
)
from regretless.space.parameters import Array
from regretless.task import Task

SKIPPED = 0.25
"""The share of the probes that are not counted, the first ones: with 40 probes a half is no better, with none or
several choices the limit is a tenth larger (docs/lab/fronts.md)."""


def front_share(task: Task, method: Method, history: History, book: Any, probing: Probing, delta: float) -> Share:
    """The share of the space that holds a setting which would extend the front, with probability 1 - delta."""
    found = replace(_share(task, method, history, book, probing, delta), supposes=supposition(method, history))
    return or_proven(found, probing.rule, delta)


def _share(task: Task, method: Method, history: History, book: Any, probing: Probing, delta: float) -> Share:
    if len(history) == 0:
        return Share(None, "nothing has been evaluated yet")
    looked = counted_probes(probing, delta)
    if method.noise(history).shows:
        noisy = "the values are noisy, so it is not known which of them extend the front"
        return Share(None, looked if isinstance(looked, str) else noisy, exact=False)
    unseen = share_unseen(method.cube, history.X)
    if isinstance(looked, str):
        return Share(unseen, certain=True) if unseen <= NO_NEWS else Share(None, looked)
    steps, spent = looked
    if steps[-1] >= len(book.trials):
        return Share(None, "the trials of a study do not say what was known when each of them was asked")
    late = steps[int(SKIPPED * len(steps)) :]
    n, k = len(late), sum(_extended(task, method, book, late))
    share, least = (most_better(n, count, spent / 2 ** (count + 1)) for count in (k, 0))
    if unseen <= min(share, NO_NEWS):
        return Share(unseen, undecided=k, certain=True)
    if share > NO_NEWS:
        why = f"{k} of the last {n} probes extended the front when they were drawn"
        return Share(None, why, len(steps), k, least=least)
    return Share(share, "", len(steps), k, least=least)


def _extended(task: Task, method: Method, book: Any, steps: list[int]) -> list[bool]:
    """Whether the probe of each step extended, or may have extended, the front of when it was asked."""
    signs, choices = np.array(task.signs), method.traits.choices
    ended = [book.trials[number] for number in book.ended if number not in book.forgotten]
    values = [signs * t.values if t.feasible else None for t in ended]
    before = [
        signs * (e.value, *e.further) if np.isfinite(e.value) and all(c <= 0 for c in e.constraints) else None
        for e in book.earlier
        if not e.outside
    ]
    places = {number: at for at, number in enumerate(book.ended)}
    kept = np.cumsum([0, *(number not in book.forgotten for number in book.ended)])
    inside = np.cumsum([0, *(not e.outside for e in book.earlier)])
    found = []
    for step in steps:
        trial = book.trials[step]
        if trial.unit.tobytes() != (draw := probe_point(task, step, choices).tobytes()):
            own = [t for t in book.trials[:step] if t.unit.tobytes() == draw]
            known = any(t.value is not None for t in own) or any(e.unit.tobytes() == draw for e in book.earlier)
            found.append(not known)  # a draw that is known already, with a value or without
        elif trial.seen is None or step not in places or trial.value is None:
            found.append(True)
        else:
            ended, earlier = trial.seen
            rows = [v for v in [*values[: kept[ended]], *before[: inside[earlier]]] if v is not None]
            found.append(trial.feasible and not _covered(signs * trial.values, rows))
    return found


def _covered(y: Array, rows: list[Array]) -> bool:
    """Whether one of the rows equals or exceeds y (k) in all objectives."""
    return len(rows) > 0 and bool((np.array(rows) >= y).all(axis=1).any())
