"""Self-contained HTML pages with interactive charts: no network, no libraries, light and dark, readable on a phone.

    curve = Curve("random", {"evaluations": n}, {"simple regret": Band(mid, low, high)})
    section = curves_section("Regret", [curve], log_y=True)
    Path("page.html").write_text(html_page("A comparison", [section]))

A `Curve` may bring several x axes (evaluations, seconds) and several quantities (simple regret, average regret); the
page switches between them. `charts_section` draws any charts, `table_section` a sortable table, `text_section` text.

The charts are our own script (`js/`, 40 kB): plotly.js with contours weighs 1.5 MB and Vega 0.8 MB, in every page, and
what a run needs beside lines and dots, such as parallel coordinates with ten thousand trials, is a hundred lines here.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

MOST_POINTS = 240
"""A curve keeps at most this many points: more cannot be seen, and the page stays small."""
MOST_LINES = 8
"""A chart of more lines than this starts with the best of them; a button draws the others."""
SCRIPTS = ("kit", "chart", "table", "surface", "parallel", "page")
"""The parts of a page's script, in the order in which they need each other."""

TableCell: TypeAlias = str | float | int | None
Chart: TypeAlias = dict[str, Any]
LogAxes: TypeAlias = bool | Iterable[str]
"""Which axes start logarithmic: all, none, or those named."""


@dataclass(frozen=True)
class Section:
    """A titled block of a page; `body` is HTML."""

    title: str
    body: str


@dataclass(frozen=True)
class Band:
    """A curve's middle and, perhaps, the band around it, each n."""

    mid: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None


@dataclass(frozen=True)
class Curve:
    """A line of a chart: x values by axis name, y values (an array or a `Band`) by quantity; `dash` is for what others
    published, `steps` for a quantity that keeps its value until the next x."""

    name: str
    x: Mapping[str, ArrayLike]
    y: Mapping[str, ArrayLike | Band]
    dash: bool = False
    steps: bool = False


def html_page(
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    foot: str = "Made by regretless.",
    contents: bool = True,
    live: str = "",
) -> str:
    """A complete page; `lead` and `foot` are plain text, `contents` lists the sections on top when more than three,
    `live` is the address from which a server sends the sections anew (`js/live.js`)."""
    ids = [f"s{i}" for i in range(len(sections))]
    links = "".join(f'<a href="#{i}">{html.escape(s.title)}</a>' for i, s in zip(ids, sections, strict=True))
    body = "\n".join(
        f'<section id="{i}"><h2>{html.escape(s.title)}</h2>\n{s.body}\n</section>'
        for i, s in zip(ids, sections, strict=True)
    )
    return Template(_asset("page.html")).substitute(
        title=html.escape(title),
        lead=f'<p class="lead">{html.escape(lead)}</p>' if lead else "",
        contents=f"<nav>{links}</nav>" if contents and len(sections) > 3 else "",
        body=body,
        foot=html.escape(foot),
        css=_asset("page.css"),
        live=f' data-live="{html.escape(live, quote=True)}"' if live else "",
        js="\n".join(_asset(f"js/{name}.js") for name in (*SCRIPTS, *(["live"] if live else []))),
    )


def _asset(name: str) -> str:
    return files("regretless.report").joinpath(name).read_text(encoding="utf-8")


def text_section(title: str, *paragraphs: str) -> Section:
    """Paragraphs of plain text."""
    return Section(title, "".join(f"<p>{html.escape(p)}</p>" for p in paragraphs))


def curves_section(
    title: str,
    curves: Sequence[Curve],
    *,
    log_x: LogAxes = False,
    log_y: LogAxes = False,
    note: str = "",
    largest: bool = False,
) -> Section:
    """Lines with bands; see `curves_chart`."""
    chart = curves_chart(curves, log_x=log_x, log_y=log_y, largest=largest)
    return Section(title, note_html(note) + figures([chart]))


def charts_section(title: str, charts: Sequence[Chart], *, titles: Sequence[str] = (), note: str = "") -> Section:
    """Charts whose data are at hand (as of `curves_chart`), side by side where there is room."""
    return Section(title, note_html(note) + figures(charts, least=420 if len(charts) > 1 else 0, titles=titles))


def table_section(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[TableCell]],
    *,
    best: Mapping[str, str] | None = None,
    note: str = "",
) -> Section:
    """A table that sorts by a click on a column's head; `best` names columns whose "min" or "max" is marked."""
    marked = {
        columns.index(column): _best([row[columns.index(column)] for row in rows], kind)
        for column, kind in (best or {}).items()
    }
    wordy = [any(isinstance(row[j], str) and not _numeric(row[j]) for row in rows) for j in range(len(columns))]
    looks = [' class="words"' if words else "" for words in wordy]
    head = "".join(f'<th scope="col"{look}>{html.escape(c)}</th>' for look, c in zip(looks, columns, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell(v, wordy[j], i in marked.get(j, ())) for j, v in enumerate(row)) + "</tr>"
        for i, row in enumerate(rows)
    )
    # 8: A table with more columns than this has narrower cells
    many = ' class="many"' if len(columns) > 8 else ""
    table = f"<table{many}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return Section(title, note_html(note) + scrolled(table, title))


def scrolled(table: str, title: str) -> str:
    """A table that scrolls sideways where it is wider than the page, by keys too."""
    name = html.escape(f"table: {title}" if title else "table", quote=True)
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{name}">{table}</div>'


def curves_chart(
    curves: Sequence[Curve], *, log_x: LogAxes = False, log_y: LogAxes = False, largest: bool = False
) -> Chart:
    """The data of a chart of lines; all curves share axes and quantities. Of more than MOST_LINES those are drawn at
    first whose first quantity ends smallest (`largest`: largest)."""
    if not curves:
        raise ValueError("a chart needs at least one curve")
    axes, quantities = list(curves[0].x), list(curves[0].y)
    for curve in curves:
        if list(curve.x) != axes or list(curve.y) != quantities:
            own = f"axes {list(curve.x)} and quantities {list(curve.y)}"
            raise ValueError(f"curve {curve.name!r} has {own}, expected {axes} and {quantities}")
    series = []
    for curve in curves:
        keep, kind = thinned(len(np.asarray(curve.x[axes[0]]))), "steps" if curve.steps else "line"
        x = [numbers(curve.x[axis], keep) for axis in axes]
        bands = [vars(y if isinstance(y, Band) else Band(y)).items() for y in curve.y.values()]
        y = [{part: numbers(values, keep) for part, values in band if values is not None} for band in bands]
        series.append({"name": curve.name, "kind": kind, "dash": curve.dash, "x": x, "y": y})
    chart: Chart = {
        "x": [{"name": axis, "log": _says(log_x, axis)} for axis in axes],
        "y": [{"name": quantity, "log": _says(log_y, quantity)} for quantity in quantities],
        "series": series,
    }
    return chart if len(curves) <= MOST_LINES else {**chart, "first": _leaders(curves, largest=largest)}


def _leaders(curves: Sequence[Curve], *, largest: bool) -> list[str]:
    """The names of the MOST_LINES curves that end best."""
    ends = {}
    for curve in curves:
        y = next(iter(curve.y.values()))
        mid = np.asarray(y.mid if isinstance(y, Band) else y, dtype=np.float64)
        seen = mid[np.isfinite(mid)]
        ends[curve.name] = float(seen[-1]) * (-1 if largest else 1) if len(seen) else math.inf
    return sorted(ends, key=lambda name: ends[name])[:MOST_LINES]


def thinned(n: int, most: int = MOST_POINTS) -> np.ndarray[Any, Any]:
    """At most about `most` of the positions 0 .. n - 1: the ends, dense at the start where curves bend most."""
    if n <= most:
        return np.arange(n)
    even = np.linspace(0, n - 1, most // 2)
    early = np.geomspace(1, n, most // 2) - 1
    return np.unique(np.rint(np.concatenate([even, early])).astype(int))


def figures(charts: Sequence[Chart], least: int = 0, titles: Sequence[str] = (), *, shared: bool = False) -> str:
    """Charts side by side where there is room for `least` pixels each; `shared` ones have their buttons in common."""
    style = f' style="--least:{least}px"' if least else ""
    captions = [f"<figcaption>{html.escape(title)}</figcaption>" for title in titles] or [""] * len(charts)
    drawn = "".join(
        f'<figure class="chart">{caption}<script type="application/json">{to_json(chart)}</script></figure>'
        for caption, chart in zip(captions, charts, strict=True)
    )
    return f'<div class="charts{" shared" if shared else ""}"{style}>{drawn}</div>'


def to_json(chart: Any) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(chart, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def numbers(values: ArrayLike, keep: np.ndarray[Any, Any] | slice = slice(None)) -> list[float | None]:
    """Numbers for JSON: a few digits, more where the values differ only in later ones; None for what is not finite."""
    kept = np.asarray(values, dtype=np.float64)[keep]
    finite = kept[np.isfinite(kept)]
    span, size = (float(np.ptp(finite / 2)), float(np.abs(finite / 2).max())) if len(finite) else (0.0, 0.0)
    # 5, 15: significant digits of a number in a chart, and of a float
    digits = min(5 + max(0, math.floor(math.log10(size / span))), 15) if span > 1e-15 * size else 5
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in kept.tolist()]


def _says(log: LogAxes, name: str) -> bool:
    return log if isinstance(log, bool) else name in set(log)


def note_html(note: str) -> str:
    """A remark below a title."""
    return f'<p class="note">{html.escape(note)}</p>' if note else ""


def _numeric(text: Any) -> bool:
    """Whether a cell starts with a number, such as "0.12 (0.1 to 0.2)"."""
    return bool(re.match(r"^\s*[-+]?(\d|\.\d|inf|nan)", str(text)))


def _value(cell: TableCell) -> float:
    if isinstance(cell, int | float):
        return float(cell)
    found = re.match(r"^\s*[-+]?\d*\.?\d+(e[-+]?\d+)?", cell or "", re.IGNORECASE)
    return float(found.group()) if found else math.nan


def _best(cells: Sequence[TableCell], kind: str) -> set[int]:
    values = np.array([_value(cell) for cell in cells])
    if np.isnan(values).all():
        return set()
    target = np.nanmin(values) if kind == "min" else np.nanmax(values)
    return set(np.flatnonzero(values == target).tolist())


def _cell(value: TableCell, words: bool, marked: bool) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    number = _value(value)
    # 10: A number with more letters than this, such as one with its quartiles, may be broken at its spaces
    long = not words and len(text) > 10
    # 12: words of at most this many letters stay on one line, and their column may be as narrow as they are
    brief = words and len(text) <= 12
    kinds = (("words", words), ("brief", brief), ("mark", marked), ("long", long))
    names = " ".join(name for name, on in kinds if on)
    look = f' class="{names}"' if names else ""
    sort = f' data-v="{number:.10g}"' if math.isfinite(number) and not words else ""
    shown = html.escape(text).replace("_", "_<wbr>") if words else html.escape(text)  # names may break there
    return f"<td{look}{sort}>{shown}</td>"
