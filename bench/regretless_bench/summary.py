"""Records of several seeds condensed: curves over evaluations, final figures, ranks. What plots and pages draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regretless.report.page import Band
from regretless.space.parameters import Array
from regretless_bench.record import Record
from regretless_bench.stats import quartiles, ranks

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
    """CPU milliseconds per ask and tell, the median over seeds of the mean over evaluations."""


def ms_per_ask(record: Record) -> float:
    """Mean CPU milliseconds per ask and tell after the common initial points; NaN when there were no others."""
    own = record.cpu[record.settings["init"] :]
    return 1e3 * float(own.mean()) if len(own) else float("nan")


def band(values: Array) -> Band:
    """The median over seeds of values seeds x n, and the quartiles around it where there is more than one seed."""
    low, mid, high = quartiles(values)
    return Band(mid, low, high) if len(values) > 1 else Band(mid)


def median_text(quarters: Sequence[float] | Array) -> str:
    """A median with its quartiles (low, median, high) as text."""
    low, median, high = quarters
    return f"{median:.4g} ({low:.3g} to {high:.3g})"


def finals(records: Mapping[str, Sequence[Record]]) -> list[Final]:
    """The final figures of one problem, by method label."""
    known = all(record.optimum is not None for group in records.values() for record in group)
    table = []
    for label, group in records.items():
        end = [r.simple_regret()[-1] if known else r.best()[-1] for r in group]
        advised = [r.recommended_regret() if known else r.recommended for r in group]
        average = [r.average_regret()[-1] if known else np.nan for r in group]
        cost = [ms_per_ask(r) for r in group]
        final, recommended, mean = (quartiles(np.array(values)[:, None])[:, 0] for values in (end, advised, average))
        table.append(Final(label, len(group), final, recommended, mean, float(np.median(cost))))
    return table


@dataclass(frozen=True)
class RankTable:
    """Joint ranks, 1 being best, over cases; a case is a problem with a seed."""

    labels: list[str]
    problems: list[str]
    """The problem of each case."""
    ranks: Array
    """Cases x methods."""

    @property
    def mean(self) -> Array:
        """Mean rank of each method."""
        result: Array = self.ranks.mean(axis=0)
        return result

    @property
    def error(self) -> Array:
        """Standard error of each mean rank; the seeds of a problem count as independent cases."""
        n = len(self.ranks)
        result: Array = self.ranks.std(axis=0, ddof=1) / n**0.5 if n > 1 else np.full(len(self.labels), np.nan)
        return result

    @property
    def text(self) -> str:
        """The methods with their mean ranks, best first, as lines for a terminal."""
        if not self.ranks.size:
            return "no two methods ran the same cases; there is no ranking"
        where = f"{len(set(self.problems))} problem{'s' * (len(set(self.problems)) > 1)}, {len(self.problems)} cases"
        lines = [f"mean rank by the best value found (1 is best; {where}):"]
        for i in np.argsort(self.mean, kind="stable"):
            error = f" +- {self.error[i]:.2f}" if np.isfinite(self.error[i]) else ""
            lines.append(f"  {self.labels[i]:<32} {self.mean[i]:5.2f}{error}")
        return "\n".join(lines)

    def per_problem(self) -> dict[str, Array]:
        """Mean rank of each method on each problem."""
        names = np.array(self.problems)
        return {name: self.ranks[names == name].mean(axis=0) for name in dict.fromkeys(self.problems)}


def rank_table(
    records: Sequence[Record], labels: Sequence[str] | None = None, *, by: Literal["best", "recommended"] = "best"
) -> RankTable:
    """Ranks the methods of each case jointly, ties sharing their mean rank.

    Args:
        records: finished runs.
        labels: the field; the cases are those that all of it ran. By default the methods that ran every case of the
            records.
        by: the best noiseless value evaluated, or the noiseless value of the final recommendation.
    """
    loss = {(r.problem, r.seed, r.label): -r.sign * (r.best()[-1] if by == "best" else r.recommended) for r in records}
    cases = sorted({(problem, seed) for problem, seed, _ in loss})
    every = sorted({label for _, _, label in loss})
    field = (
        [label for label in every if all((*case, label) in loss for case in cases)] if labels is None else list(labels)
    )
    shared = [case for case in cases if all((*case, label) in loss for label in field)]
    table = np.array([[loss[(*case, label)] for label in field] for case in shared]).reshape(len(shared), len(field))
    return RankTable(field, [problem for problem, _ in shared], ranks(table))
