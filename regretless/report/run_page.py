"""The figure and the HTML page of a `Result`: best so far, every value, and the value against each parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.extras import optional
from regretless.parameters import Choice
from regretless.report import page
from regretless.report.page import Curve, Points, Section
from regretless.statefile import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regretless.optimizer import Trial
    from regretless.result import Result

WIDE = 20
"""Positive values that differ by more than this factor start on a logarithmic axis."""
MOST_SLICES = 30
"""Parameters drawn on a page; a space of thousands would make one that nobody reads."""


def write_page(result: Result, path: Path) -> Path:
    """Writes the page and returns its path."""
    optimizer = result.optimizer
    goal = "smallest" if optimizer.direction == "minimize" else "largest"
    count = f"{result.nfev} evaluation{'s' if result.nfev != 1 else ''}"
    lead = f"{count} of {optimizer.recipe} looking for the {goal} value; {result.message}."
    text = page.html_page(
        "Tuning report", _sections(result), lead=lead, foot=f"Seed {optimizer.seed}. Made by regretless."
    )
    write_whole(path, text.encode())
    return path


def _sections(result: Result) -> list[Section]:
    optimizer, done = result.optimizer, [t for t in result.trials if t.value is not None]
    setting = [[name, _text(value)] for name, value in result.params.items()]
    sections = [
        page.table_section("Recommended setting", ["parameter", "value"], setting),
        page.text_section(
            "How much better could it be?",
            f"Value at the recommended setting: {result.value:.6g}.",
            str(result.certificate),
        ),
    ]
    if not done:
        return sections
    values = np.array([t.value for t in done])
    evaluations = {"evaluations": np.arange(1, result.nfev + 1)}
    best_so_far = Curve("best so far", evaluations, {"value": result.best_so_far()}, steps=True)
    sections.append(page.curves_section("Best so far", [best_so_far]))
    words = [_words(t) for t in done]
    wide = bool(values.min() > 0 and values.max() > WIDE * values.min())
    every = {"trial": [Points("value", [t.number for t in done], values, words)]}
    sections.append(page.scatter_section("Every value", every, log_y=wide))
    names = list(optimizer.space.names)[:MOST_SLICES]
    logs = [name for name in names if getattr(optimizer.space.parameters[name], "log", False)]
    panels = {name: [_points(name, done)] for name in names}
    left_out = len(optimizer.space) - len(names)
    note = f"{left_out} further parameters are not drawn." if left_out else ""
    sections.append(page.scatter_section("Value against each parameter", panels, x_log=logs, log_y=wide, note=note))
    failed = sum(t.state == "failed" for t in result.trials)
    rows = [
        [t.number, t.value, *(_text(t.params.get(name, "")) for name in names)]
        for t in sorted(done, key=lambda t: t.number)
    ]
    note = f"{failed} evaluation{'s' if failed != 1 else ''} failed." if failed else ""
    best = {"value": "min" if optimizer.direction == "minimize" else "max"}
    sections.append(page.table_section("All trials", ["trial", "value", *names], rows, best=best, note=note))
    return sections


def figure(result: Result) -> Figure:
    """Every value with the best so far, and one panel per parameter (needs matplotlib)."""
    done = [t for t in result.trials if t.value is not None]
    names = list(result.optimizer.space.names)[:MOST_SLICES]
    columns = min(3, len(names) + 1)
    rows = math.ceil((len(names) + 1) / columns)
    drawing: Figure = optional("matplotlib.figure", "plot").Figure(
        figsize=(4.2 * columns, 3.2 * rows), layout="constrained"
    )
    axes = drawing.subplots(rows, columns, squeeze=False).ravel()
    values = [t.value for t in done]
    axes[0].plot([t.number for t in done], values, ".", color="0.6", label="every value")
    axes[0].plot(
        np.arange(result.nfev), result.best_so_far(), color="tab:blue", label="best so far", drawstyle="steps-post"
    )
    axes[0].set(xlabel="trial", ylabel="value")
    axes[0].legend(frameon=False)
    for ax, name in zip(axes[1:], names, strict=False):
        parameter = result.optimizer.space.parameters[name]
        having = [t for t in done if name in t.params]
        if isinstance(parameter, Choice):
            labels = [_text(label) for label in parameter.labels]
            ax.plot([parameter.index(t.params[name]) for t in having], [t.value for t in having], ".", color="tab:blue")
            ax.set_xticks(range(len(labels)), labels)
        else:
            ax.plot([t.params[name] for t in having], [t.value for t in having], ".", color="tab:blue")
            ax.set_xscale("log" if parameter.log else "linear")
        ax.set(xlabel=name, ylabel="value")
    for ax in axes[len(names) + 1 :]:
        ax.remove()
    return drawing


def _points(name: str, done: Sequence[Trial]) -> Points:
    """The values of the trials in which a parameter exists, against it."""
    having = [t for t in done if name in t.params]
    values = np.array([t.value for t in having])
    return Points("value", [_place(t.params[name]) for t in having], values, [_words(t) for t in having])


def _words(trial: Trial) -> str:
    shown = list(trial.params.items())[:MOST_SLICES]
    return f"trial {trial.number}: {trial.value:.6g}; " + ", ".join(f"{name} {_text(value)}" for name, value in shown)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _place(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
