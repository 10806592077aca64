"""Records of several seeds condensed: curves over evaluations, final figures, ranks. What plots and pages draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regretless.bench.record import Record, by_problem
from regretless.bench.stats import mean_ranks, quartiles
from regretless.space import Array

QUANTITIES = ("simple regret", "average regret", "cumulative regret")
"""Where the optimum is known; elsewhere the only quantity is BEST."""
BEST = "best value so far"


@dataclass(frozen=True)
class Trace:
    """One method on one problem: seeds x n arrays over evaluations, cut to the shortest run."""

    label: str
    seeds: tuple[int, ...]
    quantities: Mapping[str, Array]
    seconds: Array
    """Seconds inside the method up to each evaluation, seeds x n."""

    @property
    def n(self) -> Array:
        """The evaluations, 1 .. n."""
        return np.arange(1, self.seconds.shape[1] + 1, dtype=np.float64)


def traces(records: Mapping[str, Sequence[Record]]) -> list[Trace]:
    """The traces of one problem, by method label; every quantity is one that all records know."""
    known = all(record.optimum is not None for group in records.values() for record in group)
    return [_trace(label, group, known) for label, group in records.items()]


def _trace(label: str, records: Sequence[Record], known: bool) -> Trace:
    n = min(len(record.value) for record in records)

    def rows(part: str) -> Array:
        return np.array([getattr(record, part)()[:n] for record in records])

    quantities = {q: rows(q.replace(" ", "_")) for q in QUANTITIES} if known else {BEST: rows("best")}
    return Trace(label, tuple(r.seed for r in records), quantities, np.array([r.seconds[:n] for r in records]))


@dataclass(frozen=True)
class Final:
    """The end of a method's runs on a problem: quartiles over seeds (or the single numbers) of what counts."""

    label: str
    seeds: int
    final: Array
    """Simple regret, or the best value where the optimum is not known: low quartile, median, high quartile."""
    recommended: Array
    """The same of the final recommendation."""
    average: Array
    """Average regret, NaN where the optimum is not known."""
    ask_ms: float
    """Milliseconds per ask and tell, the median over seeds of the mean over evaluations."""


def finals(records: Mapping[str, Sequence[Record]]) -> list[Final]:
    """The final figures of one problem, by method label."""
    known = all(record.optimum is not None for group in records.values() for record in group)
    table = []
    for label, group in records.items():
        end = [r.simple_regret()[-1] if known else r.best()[-1] for r in group]
        advised = [r.recommended_regret() if known else r.recommended for r in group]
        average = [r.average_regret()[-1] if known else np.nan for r in group]
        cost = [1e3 * (r.seconds_ask + r.seconds_tell)[r.settings["init"] :].mean() for r in group if len(r.value) > r.settings["init"]]
        final, recommended, mean = (quartiles(np.array(values)[:, None])[:, 0] for values in (end, advised, average))
        table.append(Final(label, len(group), final, recommended, mean, float(np.median(cost)) if cost else float("nan")))
    return table


def rank_table(records: Sequence[Record]) -> tuple[list[str], dict[str, Array], Array]:
    """Mean ranks of the final noiseless value: method labels, per-problem mean ranks, and the mean over all cases.

    A case is a problem with a seed; the methods of a case are ranked jointly and ties share their mean rank. Only methods that ran every
    case of the records take part, so that every rank is among the same field.
    """
    groups = by_problem(records)
    cases = {(problem, record.seed) for problem, methods in groups.items() for group in methods.values() for record in group}
    done: dict[str, set[tuple[str, int]]] = {}
    for problem, methods in groups.items():
        for label, group in methods.items():
            done.setdefault(label, set()).update((problem, record.seed) for record in group)
    labels = sorted(label for label, have in done.items() if have == cases)
    per_problem: dict[str, Array] = {}
    rows = []
    if len(labels) < 2:
        return labels, {}, np.empty(0)
    for problem, methods in groups.items():
        found = {(r.label, r.seed): -r.sign * r.best()[-1] for group in methods.values() for r in group}
        seeds = sorted({seed for label, seed in found if label == labels[0]})
        table = np.array([[found[label, seed] for label in labels] for seed in seeds])
        per_problem[problem] = mean_ranks(table)
        rows.append(table)
    return labels, per_problem, mean_ranks(np.concatenate(rows))
