"""What those who watch a run see, live: in a browser or as lines in a terminal, of a service or of a file that another
process writes."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regretless.basics.extras import optional
from regretless.optimizer import Optimizer
from regretless.report import page
from regretless.report.page import Chart, Section
from regretless.run.result import Result
from regretless.serve.words import counts, outlook_json
from regretless.trial import Trial, last_line

MOST_RUNNING, MOST_ERRORS = 50, 10
"""Trials under way, and different errors, that are shown; a thousand would hide the rest."""
UnderWay = Callable[[], Mapping[int, tuple[str, float | None]]]


class View:
    """A run as it is now.

    Args:
        optimizer: gives the run.
        name: what it is called.
        under_way: gives who evaluates what, and since when.
    """

    def __init__(self, optimizer: Callable[[], Optimizer], name: str, under_way: UnderWay = dict) -> None:
        self._optimizer, self.name, self._under_way = optimizer, name, under_way
        self._outlook, self._looked, self._took, self._at = "", -math.inf, 0.0, -1
        self._ahead: list[Section] = []
        """What is drawn of the outlook, or of the front."""
        self._ended: list[tuple[float, int]] = []

    def state(self) -> dict[str, Any]:
        """The state in plain values, and as the parts of a page."""
        optimizer = self._optimizer()
        trials = list(optimizer.trials)
        count = counts(optimizer)
        best = optimizer.best if count["done"] and not optimizer.task.several else None
        stopped = "" if count["pending"] else (optimizer.book.record.rule or {}).get("reason") or ""
        facts = {
            "name": self.name,
            "direction": optimizer.direction,
            "method": str(optimizer.recipe),
            "planned": optimizer.task.budget,
            **count,
            "best": None if best is None else best.value,
            "several": optimizer.task.several,
            "params": {} if best is None else {name: page_text(x) for name, x in best.params.items()},
            "left": 0.0 if stopped else self._left(sum(count.values()) - count["pending"], optimizer.task.budget),
            "stopped": stopped,
            "outlook": self._said(optimizer, count["done"]),
        }
        return {**facts, "html": body(facts, optimizer, trials, self._under_way(), self._ahead)}

    def _left(self, ended: int, planned: int | None) -> float | None:
        """Seconds until the planned number of trials has ended, by the pace that was seen; None: nobody knows."""
        now = time.monotonic()
        if not self._ended or self._ended[-1][1] != ended:
            self._ended = [*self._ended[-200:], (now, ended)]
        (began, first), gained = self._ended[0], ended - self._ended[0][1]
        if planned is None or ended >= planned or gained < 1 or now - began <= 0:
            return 0.0 if planned is not None and ended >= planned else None
        del first
        return (planned - ended) * (now - began) / gained

    def _said(self, optimizer: Optimizer, done: int) -> str:
        """The outlook in words; it is computed now and then, because that may take as long as a proposal."""
        now = time.monotonic()
        # 5.0, 50.0: the outlook is computed anew at most so often, and its computing takes at most a fiftieth of the
        # time
        if done and done != self._at and now - self._looked > max(5.0, 50.0 * self._took):
            self._outlook, self._at = outlook_json(optimizer)["words"], done
            self._ahead = front_of(optimizer) if optimizer.task.several else fan_of(optimizer)
            self._looked = time.monotonic()
            self._took = self._looked - now
        return self._outlook


def body(
    facts: Mapping[str, Any],
    optimizer: Optimizer,
    trials: list[Trial],
    under_way: Mapping[int, tuple[str, float | None]],
    ahead: list[Section],
) -> str:
    """The parts of the page that change, of the components of the report."""
    drawn = [*_values(optimizer, trials), *ahead]
    sections = [_now(facts), *drawn, *_running(optimizer, under_way), *_failures(trials, optimizer.book.forgotten)]
    return "".join(f"<section><h2>{html.escape(s.title)}</h2>{s.body}</section>" for s in sections)


def _now(facts: Mapping[str, Any]) -> Section:
    ended = facts["done"] + facts["failed"] + facts["forgotten"]
    of = f" of {facts['planned']}" if facts["planned"] else ""
    words = {
        "Trials": f"{ended}{of} ended, {facts['pending']} under way"
        + f", {facts['failed']} failed" * (facts["failed"] > 0),
        "Ended because": facts["stopped"],
        "Ends": "" if not facts["left"] else f"in about {span(facts['left'])}",
        "Best seen": "" if facts["several"] else "nothing yet" if facts["best"] is None else f"{facts['best']:.6g}",
        "Setting": ", ".join(f"{name} = {value}" for name, value in facts["params"].items()),
        "Outlook": facts["outlook"],
        "Method": facts["method"],
    }
    rows = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in words.items() if text)
    return Section("Now", f'<dl class="facts">{rows}</dl>')


def _values(optimizer: Optimizer, trials: list[Trial]) -> list[Section]:
    done = [t for t in trials if t.value is not None]
    if not done:
        return []
    task, keep = optimizer.task, page.thinned(len(done))
    numbers = [page.numbers(np.array([t.number for t in done]), keep)]
    values = np.array([t.values if task.several else (t.value,) for t in done], dtype=float) * task.signs
    usable = np.array([t.feasible for t in done])[:, None]
    best = np.maximum.accumulate(np.where(usable, values, -math.inf))
    parts = {"values": ("dots", values * task.signs), "best so far": ("steps", best * task.signs)}
    chart: Chart = {
        "x": [{"name": "trial", "log": False, "margin": 0.02}],
        "y": [{"name": name, "log": False} for name in (task.objectives if task.several else ("value",))],
        "series": [
            {"name": name, "kind": kind, "x": numbers, "y": [{"mid": page.numbers(y, keep)} for y in columns.T]}
            for name, (kind, columns) in parts.items()
        ],
    }
    return [page.charts_section("Values over the run", [chart])]


def fan_of(optimizer: Optimizer) -> list[Section]:
    """What further trials would bring, against their number."""
    fan = [forecast for forecast in optimizer.outlook.fan if not forecast.unknown]
    if not fan:
        return []
    gains = page.Band([f.median for f in fan], [f.low for f in fan], [f.high for f in fan])
    curve = page.Curve("gain", {"further trials": [f.trials for f in fan]}, {"gain": gains})
    note = "The line is the gain that is as likely to be exceeded as not; 4 of 5 times it lies in the band."
    return [page.charts_section("What further trials would bring", [page.curves_chart([curve])], note=note)]


def front_of(optimizer: Optimizer) -> list[Section]:
    """The front of several objectives."""
    front = Result.of(optimizer).front
    heads, cells = setting_columns(optimizer)
    rows = [[m.number, *(f"{value:.6g}" for value in m.values.values()), *cells(m.params)] for m in front]
    columns = ["trial", *front.objectives, *heads]
    # 50: settings of a front that are shown; its table in the report has them all
    note = f"{len(front)} settings; none is better than another in all objectives."
    return [page.table_section("The front", columns, rows[:50], note=note)]


def setting_columns(optimizer: Optimizer) -> tuple[list[str], Callable[[Mapping[str, Any]], list[str]]]:
    """The heads of a table's columns for settings, and the cells of one: a column per parameter, or one for all."""
    names = list(optimizer.space.names)
    # 8: parameters that have columns of their own; more would make a table that nobody reads across
    if len(names) <= 8:
        return names, lambda params: [page_text(params[name]) if name in params else "" for name in names]
    return ["setting"], lambda params: [setting_text(params)]


def setting_text(params: Mapping[str, Any]) -> str:
    """A setting in one line."""
    return ", ".join(f"{name} = {page_text(x)}" for name, x in params.items())


def _running(optimizer: Optimizer, under_way: Mapping[int, tuple[str, float | None]]) -> list[Section]:
    pending = [t for t in optimizer.trials if t.state == "pending"]
    if not pending:
        return []
    heads, cells = setting_columns(optimizer)
    rows: list[list[page.TableCell]] = []
    for trial in pending[:MOST_RUNNING]:
        client, seconds = under_way.get(trial.number, ("", None))
        rows.append([trial.number, client, "" if seconds is None else span(seconds), *cells(trial.params)])
    more = len(pending) - len(rows)
    note = f"The first {MOST_RUNNING} of {len(pending)}." if more else ""
    return [page.table_section("Under way", ["trial", "who", "since", *heads], rows, note=note)]


def _failures(trials: list[Trial], forgotten: set[int]) -> list[Section]:
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.state == "failed" and trial.number not in forgotten:
            found.setdefault(last_line(trial.error), []).append(trial)
    if not found:
        return []
    most = sorted(found.items(), key=lambda item: -len(item[1]))[:MOST_ERRORS]
    rows: list[list[page.TableCell]] = [[line[:300], len(failed), failed[-1].number] for line, failed in most]
    return [page.table_section("Failures", ["what was said", "trials", "the last one"], rows)]


def live_page(name: str, events: str = "events") -> str:
    """The page that follows a run: it shows what the server sends as events."""
    waiting = Section("Now", "<p>Waiting for the first word of the run.</p>")
    return page.html_page(f"Live: {name}", [waiting], foot="Made by regretless.", contents=False, live=events)


def page_text(value: Any) -> str:
    """A value of a setting in a few letters."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def span(seconds: float) -> str:
    """A length of time in words."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


class Followed:
    """A run that another process writes, read again when something has changed.

    Args:
        load: reads the run.
        mark: gives what changes whenever the run does.
    """

    def __init__(self, load: Callable[[], Optimizer], mark: Callable[[], Any]) -> None:
        self._load, self._changing = load, mark
        self._mark: Any = None
        self._optimizer = load()
        self.changes = 0
        self._seen: dict[int, float] = {}
        self.news()

    @classmethod
    def file(cls, path: str | Path) -> Followed:
        """The run of a file."""
        path = Path(path)

        def mark() -> tuple[int, int]:
            found = path.stat()
            return found.st_mtime_ns, found.st_size

        return cls(lambda: Optimizer.load(path), mark)

    @classmethod
    def study(cls, storage: str, name: str) -> Followed:
        """A study of an Optuna storage, whoever made it."""
        found = optional("regretless.doors.optuna.log", "optuna").StudyReader(storage, name)
        return cls(found.load, found.mark)

    def news(self) -> bool:
        """Whether there was something new, which is then read."""
        try:
            mark = self._changing()
            if mark == self._mark:
                return False
            self._optimizer = self._load()
        except (OSError, ValueError):  # it is being replaced, or its last line is not whole yet
            return False
        self._mark, self.changes = mark, self.changes + 1
        now = time.monotonic()
        self._seen = {t.number: self._seen.get(t.number, now) for t in self._optimizer.pending}
        return True

    def optimizer(self) -> Optimizer:
        """The run as it was last read."""
        return self._optimizer

    def under_way(self) -> dict[int, tuple[str, float | None]]:
        """Each pending trial with its client, and since when it has been seen."""
        clients, now = dict(self._optimizer.book.handed), time.monotonic()
        return {number: (clients.get(number, ""), now - since) for number, since in self._seen.items()}


def terminal_line(state: Mapping[str, Any]) -> str:
    """The state in one line."""
    ended = state["done"] + state["failed"] + state["forgotten"]
    of = f" of {state['planned']}" if state["planned"] else ""
    words = [f"{state['name']}: {ended}{of} ended", f"{state['pending']} under way"]
    words += [f"{state['failed']} failed"] if state["failed"] else []
    words += [] if state["best"] is None else [f"best {state['best']:.6g}"]
    words += [f"ends in about {span(state['left'])}"] if state["left"] else []
    words += [state["stopped"]] if state.get("stopped") else []
    return ", ".join(words)
