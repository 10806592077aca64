"""Figures of records (needs matplotlib): simple, cumulative and average regret against evaluations and seconds, as PNG and SVG."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.bench.record import Record, by_problem, load_records
from regretless.bench.stats import quartiles
from regretless.bench.summary import BEST, QUANTITIES, Trace, traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0b62c4", "#d1480d", "#0a8a5f", "#a2339b", "#9a6b00", "#0e8fa8", "#c4214f", "#5b5fc7", "#5f7d12", "#6b6f76")
"""The light palette of the HTML page, so that a method keeps its colour."""
MARKS = ("-", "--", "-.", ":")
"""Line styles, one per round of the palette."""
SOLID = ("-", "-.", ":")
"""The same where dashes mean what others published."""
DPI = 150


def plot_folder(out: str | Path) -> list[Path]:
    """Draws every problem of a folder's records into figures/ inside it; returns the files, PNG and SVG."""
    records = load_records(out)
    if not records:
        raise ValueError(f"there are no finished records in {str(out)!r}; run a comparison first")
    folder = Path(out) / "figures"
    paths: list[Path] = []
    for problem, methods in by_problem(records).items():
        name = re.sub(r"[^A-Za-z0-9.=-]+", "_", problem).strip("_")
        paths += save_figure(regret_figure(methods, problem), folder / name)
    return paths


def regret_figure(
    methods: Mapping[str, Sequence[Record]], title: str = "", *, bands: tuple[float, float] = (0.25, 0.75), log_y: bool = True
) -> Figure:
    """A grid: one column per quantity, against evaluations above and against seconds below; medians with quantile bands."""
    figure_class, _ = _matplotlib()
    found = traces(methods)
    names = [q for q in (*QUANTITIES, BEST) if q in found[0].quantities]
    figure = figure_class(figsize=(4.6 * len(names), 7.2), layout="constrained")
    axes: Any = figure.subplots(2, len(names), squeeze=False)
    for column, name in enumerate(names):
        for row, seconds in enumerate((False, True)):
            draw_traces(axes[row, column], found, name, seconds=seconds, bands=bands, log_y=log_y and name != BEST)
    figure.suptitle(title)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False)
    return figure


def draw_traces(
    axes: Axes,
    found: Sequence[Trace],
    quantity: str,
    *,
    seconds: bool = False,
    bands: tuple[float, float] = (0.25, 0.75),
    log_y: bool = True,
) -> None:
    """One quantity of several methods on given axes: the median over seeds and a band between two quantiles."""
    for i, trace in enumerate(found):
        low, mid, high = quartiles(trace.quantities[quantity], (bands[0], 0.5, bands[1]))
        x = np.median(trace.seconds, axis=0) if seconds else trace.n
        colour, style = COLOURS[i % len(COLOURS)], MARKS[(i // len(COLOURS)) % len(MARKS)]
        if log_y:  # an exact hit has no logarithm
            low, mid, high = (np.where(q > 0, q, np.nan) for q in (low, mid, high))
        axes.plot(x, mid, style, color=colour, label=trace.label, linewidth=1.6)
        if len(trace.seeds) > 1:
            axes.fill_between(x, low, high, color=colour, alpha=0.14, linewidth=0)
    if log_y and any(np.nanmax(trace.quantities[quantity], initial=-np.inf) > 0 for trace in found):
        axes.set_yscale("log")
    if seconds:
        axes.set_xscale("log")
    axes.set_xlabel("seconds in the method" if seconds else "evaluations")
    axes.set_ylabel(quantity)
    axes.grid(alpha=0.25)


def charts_figure(charts: Sequence[tuple[str, Mapping[str, Any]]], title: str = "") -> Figure:
    """The charts of a page (`regretless.page.curves_chart`) as one figure: a column per chart, a row per x axis, the first quantity of each."""
    figure_class, _ = _matplotlib()
    rows = max(len(chart["x"]) for _, chart in charts)
    figure = figure_class(figsize=(max(6.4, 4.6 * len(charts)), 3.4 * rows + 0.9), layout="constrained")
    axes: Any = figure.subplots(rows, len(charts), squeeze=False)
    names = list(dict.fromkeys(series["name"] for _, chart in charts for series in chart["series"]))
    lines: dict[str, Any] = {}
    for column, (name, chart) in enumerate(charts):
        for row in range(rows):
            if row < len(chart["x"]):
                lines |= _draw_chart(axes[row, column], chart, row, names)
            else:
                axes[row, column].set_axis_off()
        axes[0, column].set_title(name, fontsize="medium")
    figure.suptitle(title)
    columns = max(2, int(figure.get_figwidth() / 2.6))
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=min(columns, len(lines)), frameon=False)
    return figure


def _draw_chart(axes: Axes, chart: Mapping[str, Any], axis: int, names: Sequence[str]) -> dict[str, Any]:
    """The first quantity of a chart against one of its x axes.

    A name keeps its colour over the charts of a figure; a dashed line has the colour of the line that its name begins with, if any.
    """
    dashed = {series["name"] for series in chart["series"] if series.get("dash")}
    twins = {name: max((n for n in names if n not in dashed and name.startswith(f"{n},")), key=len, default=name) for name in dashed}
    own = list(dict.fromkeys(twins.get(name, name) for name in names))
    lines = {}
    for series in chart["series"]:
        i = own.index(twins.get(series["name"], series["name"]))
        colour, style = COLOURS[i % len(COLOURS)], "--" if series.get("dash") else SOLID[(i // len(COLOURS)) % len(SOLID)]
        x = np.array(series["x"][axis], dtype=np.float64)
        parts = {part: np.array(values, dtype=np.float64) for part, values in series["y"][0].items()}
        lines[series["name"]] = axes.plot(x, parts["mid"], style, color=colour, linewidth=1.6, marker="o" if len(x) < 12 else None, markersize=3)[0]
        if "low" in parts:
            axes.fill_between(x, parts["low"], parts["high"], color=colour, alpha=0.14, linewidth=0)
    axes.set_xscale("log" if chart["x"][axis]["log"] else "linear")
    positive = any(v is not None and v > 0 for series in chart["series"] for v in series["y"][0]["mid"])
    axes.set_yscale("log" if chart["y"][0]["log"] and positive else "linear")
    axes.set(xlabel=chart["x"][axis]["name"], ylabel=chart["y"][0]["name"])
    axes.grid(alpha=0.25)
    return lines


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Writes stem.png and stem.svg; the SVG is the same bytes for the same figure."""
    _, rc_context = _matplotlib()
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_name(stem.name + end) for end in (".png", ".svg")]
    with rc_context({"svg.hashsalt": "regretless", "svg.fonttype": "path"}):
        figure.savefig(paths[0], dpi=DPI)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def _matplotlib() -> tuple[type[Figure], Any]:
    """Figure and rc_context, without pyplot: no display and no global state."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'regretless[plot]'") from None
    return Figure, rc_context
