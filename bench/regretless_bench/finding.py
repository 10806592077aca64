"""What an experiment found about a figure or table of a paper: the claim, our numbers, a verdict computed from them,
and what it took.

An experiment ends by writing one `Finding` beside its records; `regretless report` gathers them into a page. Verdicts
are computed by the experiment from its records, never typed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from regretless.basics.statefile import write_whole
from regretless.report.page import Chart, Section, TableCell, charts_section, html_page, table_section
from regretless_bench.causes import CAUSES
from regretless_bench.plots import charts_figure, save_figure
from regretless_bench.record import MADE, SUFFIX, surroundings
from regretless_bench.settings import file_name

Verdict: TypeAlias = Literal[
    "holds", "holds against the paper's rivals only", "cannot hold", "does not hold", "not decided", "not run"
]
PILLS = {
    "holds": "good",
    "holds against the paper's rivals only": "part",
    "cannot hold": "bad",
    "does not hold": "bad",
    "not decided": "open",
    "not run": "open",
}
"""How the page colours a verdict."""
COUNTED = {
    "holds": ("holds", "hold"),
    "holds against the paper's rivals only": (
        "holds against the paper's rivals only",
        "hold against the paper's rivals only",
    ),
    "cannot hold": ("cannot hold", "cannot hold"),
    "does not hold": ("does not hold", "do not hold"),
    "not decided": ("is not decided", "are not decided"),
    "not run": ("was not run", "were not run"),
}
"""What one figure does, and what several do."""
SIZES = ("quick", "between", "full")
"""Sizes of an experiment, the paper's own last; `settings["size"]` begins with one."""
FILE = "finding.json"
"""The file an experiment leaves in its folder."""
COMPACT = "records.json"
"""Its JSON records in one file."""
BESIDE = {FILE, COMPACT, "convex.json"}
"""JSON files of an experiment's folder that are no records."""
MOST_BANDS = 8
"""Lines of a chart up to which each has the band of its quartiles: more bands cover each other."""
SHOWN = ("python", "regretless", "numpy", "scipy", "torch")
"""Versions that a page names; the finding holds the others too."""
PAPERS = {
    "go-ucb": "GO-UCB: Global Optimization with Parametric Function Approximation",
    "gp-threds": "GP-ThreDS: A Computationally Efficient Approach to Black-box Optimization "
    "using Gaussian Process Models",
    "bilevel": "BBO: Convergence of Bayesian Bilevel Optimization",
    "neural-bo": "Neural-BO: A Black-box Optimization Algorithm using Deep Neural Networks",
    "ms-ucb": "MS-UCB: Trading Convergence Rate with Computational Budget in High Dimensional Bayesian Optimization",
}


@dataclass(frozen=True)
class Table:
    """A table of a finding; `best` names columns whose "min" or "max" is marked."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell]]
    best: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """One figure or table of a paper, checked.

    Args:
        paper: a key of PAPERS.
        figure: such as "fig4" or "table1".
        title: what is shown, in a few words.
        claim: what the paper says, in our words.
        verdict: one of Verdict, computed from the records.
        sentence: the verdict's reason in one sentence, with its numbers.
        settings: what was run: methods, budgets, seeds, sizes.
        charts: data of charts (`regretless.report.page.curves_chart`), each with its title.
        tables: tables, shown below the charts.
        seconds: what it took on the machine it ran on.
    """

    paper: str
    figure: str
    title: str
    claim: str
    verdict: Verdict
    sentence: str
    settings: dict[str, Any] = field(default_factory=dict)
    charts: Sequence[tuple[str, dict[str, Any]]] = ()
    tables: Sequence[Table] = ()
    seconds: float = 0.0
    around: dict[str, Any] = field(default_factory=surroundings)
    """Versions and commit."""

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise ValueError(f"paper must be one of {', '.join(PAPERS)}, got {self.paper!r}")
        if self.verdict not in get_args(Verdict):
            raise ValueError(f"verdict must be one of {', '.join(get_args(Verdict))}, got {self.verdict!r}")

    @property
    def name(self) -> str:
        """What its files are called."""
        return file_name(f"{self.paper}-{self.figure}")

    @property
    def cause(self) -> str:
        """Why it came to this verdict, in a sentence: what was tested, the oracle, or what a run would cost."""
        return CAUSES.get(self.name, "")

    @property
    def size(self) -> int:
        """The place of its size among SIZES, -1 where it names none: a claim is judged at the largest that was run."""
        word = str(self.settings.get("size", "")).split(":")[0]
        return SIZES.index(word) if word in SIZES else -1

    def write(self, out: str | Path) -> Path:
        """Writes the finding and, where matplotlib is, a figure of its charts into the experiment's folder; returns the
        finding's path. A finding of a larger size that is there stays."""
        path = Path(out) / FILE
        if outranked(self, path):
            print(f"{path} has a larger size, which stays the verdict on {self.paper} {self.figure}", file=sys.stderr)
            return path
        write_whole(
            path, json.dumps({**asdict(self), "around": made_by(out) or self.around}, separators=(",", ":")).encode()
        )
        self.draw(out)
        return path

    def draw(self, out: str | Path) -> None:
        """Draws the charts into the folder's figures/ as PNG and SVG; without matplotlib it says that it does not."""
        if not self.charts:
            return
        name = f"{PAPERS[self.paper].split(':')[0]}, {self.figure}: {self.title}"
        try:
            save_figure(charts_figure(self.charts, name), self.drawn(out))
        except ImportError as error:
            print(
                f"no figure of {self.paper} {self.figure}: {error}; then `regretless report {out}` draws it",
                file=sys.stderr,
            )

    def drawn(self, out: str | Path, ending: str = "") -> Path:
        """Where its figure lies in a folder."""
        return Path(out) / "figures" / f"{self.name}{ending}"

    @classmethod
    def read(cls, path: str | Path) -> Finding:
        """Reads what `write` wrote; anything else raises ValueError."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            stored["tables"] = [Table(**table) for table in stored["tables"]]
            stored["charts"] = [(title, chart) for title, chart in stored["charts"]]
            found = cls(**stored)
            check_finding(found)
            return found
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a finding: {type(error).__name__}: {' '.join(str(error).split())}"
            ) from None


def outranked(finding: Finding, path: Path) -> bool:
    """Whether the finding of the same figure in a file is of a larger size."""
    try:
        there = Finding.read(path)
    except ValueError:  # none, or a damaged one
        return False
    return (there.paper, there.figure) == (finding.paper, finding.figure) and there.size > finding.size


def check_finding(finding: Finding) -> None:
    """Raises ValueError unless every part of a finding is of the kind that its page and its figure need."""
    for word in (finding.figure, finding.title, finding.claim, finding.sentence):
        _need(isinstance(word, str), "a text", word)
    _need(isinstance(finding.settings, dict), "a table of settings", finding.settings)
    _need(_is_number(finding.seconds), "a number of seconds", finding.seconds)
    _need(isinstance(finding.around, dict), "versions and a commit", finding.around)
    _need(isinstance(finding.around.get("versions", {}), dict), "versions", finding.around)
    for table in finding.tables:
        _need(isinstance(table.title, str), "a table's title", table.title)
        _need(_all_texts(table.columns) and len(table.columns) > 0, "columns", table.columns)
        for row in table.rows:
            good = isinstance(row, list) and len(row) == len(table.columns) and all(map(_is_cell, row))
            _need(good, f"a row of {len(table.columns)} cells", row)
        _need(set(table.best) <= set(table.columns), "columns to mark", table.best)
    for title, chart in finding.charts:
        _need(isinstance(title, str), "a chart's title", title)
        _check_chart(chart)


def _check_chart(chart: dict[str, Any]) -> None:
    """A chart has axes and quantities with names, and lines with numbers (or None) for each of them."""
    axes, quantities = chart["x"], chart["y"]
    for axis in (*axes, *quantities):
        _need(isinstance(axis["name"], str) and isinstance(axis["log"], bool), "an axis", axis)
    _need(bool(axes and quantities and chart["series"]), "axes, quantities and lines", list(chart))
    for series in chart["series"]:
        _need(isinstance(series["name"], str), "the name of a line", series["name"])
        lines = [*series["x"], *(values for bands in series["y"] for values in bands.values())]
        complete = all("mid" in bands and ("low" in bands) == ("high" in bands) for bands in series["y"])
        _need(
            complete and len(series["x"]) == len(axes) and len(series["y"]) == len(quantities), "a line", series["name"]
        )
        lengths = {len(values) for values in lines}
        _need(len(lengths) == 1 and lengths != {0}, "lines of one length", series["name"])
        _need(all(v is None or _is_number(v) for values in lines for v in values), "numbers", series["name"])


def _need(good: bool, what: str, found: Any) -> None:
    if not good:
        raise ValueError(f"expected {what}, found {str(found)[:80]!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _all_texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


def own_records(folder: str | Path) -> list[Path]:
    """The records of an experiment that keeps JSON files of its own kind, one per run."""
    folder = Path(folder)
    return [
        path
        for path in sorted(folder.rglob("*.json"))
        if path.name not in BESIDE and "cache" not in path.relative_to(folder).parts
    ]


def made_by(folder: str | Path) -> dict[str, Any]:
    """Versions and commits that the records of a folder name, all that there are where they differ; empty without
    records."""
    versions: dict[str, list[str]] = {}
    commits: list[str] = []
    heads = []
    for path in sorted(Path(folder).glob(f"*{SUFFIX}")):
        with open(path, encoding="utf-8") as file:
            heads.append(json.loads(file.readline()).get("facts", {}))
    stored = (json.loads(path.read_text(encoding="utf-8")) for path in own_records(folder))
    heads += [record[MADE] for record in stored if isinstance(record, dict) and MADE in record]
    for facts in heads:
        for name, version in facts.get("versions", {}).items():
            versions.setdefault(name, []).append(version)
        commits += [facts["commit"]] if facts.get("commit") else []
    joined = {name: " and ".join(dict.fromkeys(found)) for name, found in versions.items()}
    return {"versions": joined, "commit": ", ".join(dict.fromkeys(commits)) or None} if joined else {}


def find_all(folder: str | Path) -> list[Finding]:
    """The findings in a folder and below it, in the order of the papers."""
    order = list(PAPERS)
    found = [Finding.read(path) for path in sorted(Path(folder).rglob(FILE))]
    return sorted(found, key=lambda f: (order.index(f.paper), f.figure))


def draw_missing(folder: str | Path) -> None:
    """Draws the figures of all findings below a folder that have none, or an older one: findings may come from a
    machine without matplotlib."""
    for path in sorted(Path(folder).rglob(FILE)):
        finding = Finding.read(path)
        figure = finding.drawn(path.parent, ".svg")
        if not figure.is_file() or figure.stat().st_mtime < path.stat().st_mtime:
            finding.draw(path.parent)


def findings_page(findings: Sequence[Finding], took: str = "") -> str:
    """One self-contained page: a table of verdicts, then each finding with its charts and tables; `took` is a sentence
    on the time of all."""
    lead = (
        "Every figure and table of the five papers that was run, with the claim, our numbers "
        "and a verdict computed from them."
    )
    sections = [_overview(findings), *map(finding_section, findings)]
    return html_page("Reproducing the papers", sections, lead=f"{lead} {took}".strip(), contents=False)


def _overview(findings: Sequence[Finding]) -> Section:
    """The verdicts by paper, each linked to its section, which `html_page` numbers from this one."""
    rows = ""
    for i, f in enumerate(findings):
        if i == 0 or f.paper != findings[i - 1].paper:
            rows += f'<tr><th class="words" colspan="3">{escape(PAPERS[f.paper])}</th></tr>'
        link, words = f'<a href="#s{i + 1}">{escape(f.figure)}</a>', f'<td class="words">{escape(f.title)}</td>'
        rows += f'<tr><td>{link}</td>{words}<td class="words">{_pill(f)}</td></tr>'
    note = f'<p class="note">{counted(findings)}</p>'
    return Section("Verdicts", f'{note}<div class="scroll"><table class="plain">{rows}</table></div>')


def counted(findings: Sequence[Finding]) -> str:
    """How many figures have which verdict, in a sentence."""
    counts = {verdict: sum(f.verdict == verdict for f in findings) for verdict in get_args(Verdict)}
    words = ", ".join(f"{count} {COUNTED[verdict][count > 1]}" for verdict, count in counts.items() if count)
    return f"Of {len(findings)} figures and tables: {words}."


def _pill(finding: Finding) -> str:
    return f'<span class="verdict {PILLS[finding.verdict]}">{escape(finding.verdict)}</span>'


def legible(chart: Chart) -> Chart:
    """The same chart, without the bands around its lines where there are more than MOST_BANDS of them."""
    if len(chart["series"]) <= MOST_BANDS:
        return chart
    lines = [{**s, "y": [{"mid": y["mid"]} for y in s["y"]]} for s in chart["series"]]
    return {**chart, "series": lines}


def finding_section(finding: Finding) -> Section:
    """One finding: claim, verdict, settings, charts and the first table in sight, the other tables folded."""
    title = f"{PAPERS[finding.paper].split(':')[0]}, {finding.figure}: {finding.title}"
    settings = "; ".join(f"{k} {v}" for k, v in finding.settings.items())
    versions = finding.around.get("versions", {})
    made = [f"{name} {versions[name]}" for name in SHOWN if name in versions]
    made += [f"commit {finding.around['commit']}"] if finding.around.get("commit") else []
    body = (
        f"<p><b>Claim.</b> {escape(finding.claim)}</p>"
        f"<p>{_pill(finding)} {escape(finding.sentence)}</p>"
        f"<p>{escape(finding.cause)}</p>"
        f'<p class="note">{escape(settings)}. {finding.seconds:.0f} seconds of one core; {escape(", ".join(made))}.</p>'
    )
    if finding.charts:
        drawn = [legible(chart) for _, chart in finding.charts]
        body += charts_section("", drawn, titles=[name for name, _ in finding.charts]).body
        if any(len(chart["series"]) > MOST_BANDS for chart in drawn):
            body += '<p class="note">Medians; with so many lines the quartiles are in the tables alone.</p>'
    for i, table in enumerate(finding.tables):
        shown, name = (
            table_section("", list(table.columns), [list(row) for row in table.rows], best=table.best),
            escape(table.title[:1].upper() + table.title[1:]),
        )
        body += (
            f"<h3>{name}</h3>{shown.body}" if i == 0 else f"<details><summary>{name}</summary>{shown.body}</details>"
        )
    return Section(title, body)
