"""Figures of records (needs matplotlib): simple, cumulative and average regret against evaluations and seconds, as PNG
and SVG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.basics.extras import optional
from regretless.basics.statefile import write_whole
from regretless.space.parameters import Array
from regretless_bench.record import Record, by_problem, load_records
from regretless_bench.settings import file_name
from regretless_bench.stats import quartiles
from regretless_bench.summary import BEST, QUANTITIES, Trace, traces

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS = ("#0b62c4", "#d1480d", "#0a8a5f", "#a2339b", "#9a6b00", "#0e8fa8", "#c4214f", "#5b5fc7", "#5f7d12", "#6b6f76")
"""The light palette of the HTML page, so that a method keeps its colour."""
MARKS = ("-", "--", "-.", ":")
"""Line styles, one per round of the palette."""
SOLID = ("-", "-.", ":")
"""The same where dashes mean what others published."""
DPI = 150
FEW = 12
"""Lines of fewer points show them."""


def plot_folder(out: str | Path) -> list[Path]:
    """Draws every problem of a folder's records into figures/ inside it; returns the files, PNG and SVG."""
    records = load_records(out)
    if not records:
        raise ValueError(f"there are no finished records in {str(out)!r}; run a comparison first")
    folder = Path(out) / "figures"
    paths: list[Path] = []
    for problem, methods in by_problem(records).items():
        paths += save_figure(regret_figure(methods, problem), folder / file_name(problem))
    return paths


def regret_figure(
    methods: Mapping[str, Sequence[Record]],
    title: str = "",
    *,
    bands: tuple[float, float] = (0.25, 0.75),
    log_y: bool = True,
) -> Figure:
    """A grid: one column per quantity, against evaluations above and against seconds below; medians with quantile
    bands."""
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
    drawn = [
        (np.median(t.seconds, axis=0) if seconds else t.n, quartiles(t.quantities[quantity], (bands[0], 0.5, bands[1])))
        for t in found
    ]
    log_x, log_y = _logarithmic([(x, mid) for x, (_, mid, _) in drawn], seconds, log_y)
    axes.set(xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
    for i, (trace, (x, (low, mid, high))) in enumerate(zip(found, drawn, strict=True)):
        colour, style = COLOURS[i % len(COLOURS)], MARKS[(i // len(COLOURS)) % len(MARKS)]
        _draw(axes, x, mid, (low, high) if len(trace.seeds) > 1 else None, log_x, log_y, colour, style).set_label(
            trace.label
        )
    axes.set_xlabel("seconds in the method" if seconds else "evaluations")
    axes.set_ylabel(quantity)
    axes.grid(alpha=0.25)


def charts_figure(charts: Sequence[tuple[str, Mapping[str, Any]]], title: str = "") -> Figure:
    """The charts of a page (`regretless.report.page.curves_chart`) as one figure: a column per chart, a row per x axis,
    the first quantity of each."""
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
    figure.legend(
        list(lines.values()), list(lines), loc="outside lower center", ncols=min(columns, len(lines)), frameon=False
    )
    return figure


def _draw_chart(axes: Axes, chart: Mapping[str, Any], axis: int, names: Sequence[str]) -> dict[str, Any]:
    """The first quantity of a chart against one of its x axes.

    A name keeps its colour over the charts of a figure; a dashed line has the colour of the line that its name begins
    with, if any.
    """
    dashed = {series["name"] for series in chart["series"] if series.get("dash")}
    twins = {
        name: max((n for n in names if n not in dashed and name.startswith(f"{n},")), key=len, default=name)
        for name in dashed
    }
    own = list(dict.fromkeys(twins.get(name, name) for name in names))
    points = [(_numbers(series["x"][axis]), _numbers(series["y"][0]["mid"])) for series in chart["series"]]
    log_x, log_y = _logarithmic(points, chart["x"][axis]["log"], chart["y"][0]["log"])
    axes.set(xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
    lines = {}
    for series, (x, mid) in zip(chart["series"], points, strict=True):
        i = own.index(twins.get(series["name"], series["name"]))
        colour, style = (
            COLOURS[i % len(COLOURS)],
            "--" if series.get("dash") else SOLID[(i // len(COLOURS)) % len(SOLID)],
        )
        band = (_numbers(series["y"][0]["low"]), _numbers(series["y"][0]["high"])) if "low" in series["y"][0] else None
        lines[series["name"]] = _draw(axes, x, mid, band, log_x, log_y, colour, style)
        if len(x) < FEW:
            lines[series["name"]].set(marker="o", markersize=3)
    axes.set(xlabel=chart["x"][axis]["name"], ylabel=chart["y"][0]["name"])
    axes.grid(alpha=0.25)
    return lines


def _numbers(values: Sequence[float | None]) -> Array:
    """The values with NaN for what is missing."""
    return np.array(values, dtype=np.float64)


def _logarithmic(points: Sequence[tuple[Array, Array]], wish_x: bool, wish_y: bool) -> tuple[bool, bool]:
    """Which axes can be logarithmic as wished: those on which something can be seen then."""
    x, y = (np.concatenate(parts) for parts in zip(*points, strict=True))
    seen = np.isfinite(x) & np.isfinite(y)
    log_y = wish_y and bool((seen & (y > 0)).any())
    return wish_x and bool((seen & (x > 0) & ((y > 0) | (not log_y))).any()), log_y


def _draw(
    axes: Axes,
    x: Array,
    mid: Array,
    band: tuple[Array, Array] | None,
    log_x: bool,
    log_y: bool,
    colour: str,
    style: str,
) -> Line2D:
    """A line and its band; what has no logarithm is left out, and a band that reaches down to 0 ends at the line's
    lowest point."""
    x = np.where(x > 0, x, np.nan) if log_x else x
    seen = mid[mid > 0]
    mid = np.where(mid > 0, mid, np.nan) if log_y else mid
    if band is not None and (len(seen) or not log_y):
        low, high = (np.where(part > 0, part, seen.min()) for part in band) if log_y else band
        axes.fill_between(x, low, high, color=colour, alpha=0.14, linewidth=0)
    return axes.plot(x, mid, style, color=colour, linewidth=1.6)[0]


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Writes stem.png and stem.svg; the SVG is the same bytes for the same figure."""
    _, rc_context = _matplotlib()
    if stem.parent.is_symlink():
        raise ValueError(f"{stem.parent} is a link; figures are written into the folder itself")
    paths = [stem.with_name(stem.name + end) for end in (".png", ".svg")]
    for path in paths:
        content, kind = io.BytesIO(), path.suffix[1:]
        with rc_context({"svg.hashsalt": "regretless", "svg.fonttype": "path"}):
            if kind == "png":
                figure.savefig(content, format=kind, dpi=DPI)
            else:
                figure.savefig(content, format=kind, metadata={"Date": None})
        write_whole(path, content.getvalue())
    return paths


def _matplotlib() -> tuple[type[Figure], Any]:
    """Figure and rc_context, without pyplot: no display and no global state."""
    return optional("matplotlib.figure", "plot").Figure, optional("matplotlib", "plot").rc_context
