"""Puts findings of `regretless reproduce` into the documentation: the page, the findings, compact records, and the
table of what was run.

    python experiments/publish.py runs/reproduce

The findings under docs/results/findings are kept unless a new one of the same figure and of no smaller size replaces
them; the page, the table of verdicts and the laboratory's table of sizes are made from all of them. Minutes by the
clock are those of the quick sizes, whose sum is what `regretless reproduce all` takes; a folder without times (of
figures that shared cores, `side_by_side.py` without --pairs) leaves the figures whose quick size it brings without
them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regretless_bench.compact import CSV, JSON
from regretless_bench.finding import FILE, PAPERS, SIZES, Finding, counted, findings_page, outranked
from regretless_bench.reproduce import FIGURES, TIMES, Took, read_times
from regretless_bench.verdicts import AGAINST_GOOD, AGAINST_NAMED

from regretless.basics.statefile import write_whole

RESULTS = Path(__file__).parent.parent / "docs" / "results"
BEGIN, END = "<!-- what was run: made by experiments/publish.py -->", "<!-- end -->"
MOST_BYTES = 5_000_000
VERDICTS = Path(__file__).parent.parent / "docs" / "lab" / "verdicts.md"
COUNTS = ("seeds", "repetitions", "runs each", "instances", "targets", "samples")
"""Settings that say how often everything was repeated, the first that a finding has."""
HOLDS = ("yes", "tie", "no", "not run")
"""What a check can come to, as the first two tables of a finding say."""
PAGES = {
    "go-ucb": "go-ucb.md",
    "gp-threds": "gp-threds.md",
    "bilevel": "bilevel.md",
    "neural-bo": "neural-bo.md",
    "ms-ucb": "ms-ucb.md",
}
"""The laboratory's page of each paper."""


def story(findings: list[Finding]) -> str:
    """How many claims have which verdict, and a line for each: what is claimed, both columns, the verdict, its
    cause."""
    columns = ("figure", "the paper says", "the paper's rivals", "good rivals", "verdict", "cause")
    lines = [counted(findings), "", f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for f in findings:
        name = f"[{PAPERS[f.paper].split(':')[0]} {f.figure}](../lab/{PAGES[f.paper]})"
        cells = (name, f.claim, column(f, AGAINST_NAMED), column(f, AGAINST_GOOD), f"**{f.verdict}**", f.cause)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def column(finding: Finding, title: str) -> str:
    """How many of its checks hold in a column; a dash for a claim without rivals."""
    found = [str(row[1]) for table in finding.tables if table.title == title for row in table.rows]
    if unknown := set(found) - set(HOLDS):
        raise ValueError(f"{finding.name}: a check cannot come to {sorted(unknown)[0]!r}")
    ran = [word for word in found if word != "not run"]
    if not ran:
        return "not run" if found else "-"
    said = [f"{ran.count('yes')} of {len(ran)} hold"]
    said += [f"{n} {words}" for word, words in (("tie", "open"), ("no", "refuted")) if (n := ran.count(word))]
    return ", ".join(said)


def table(findings: list[Finding], times: dict[str, Took]) -> str:
    """Every figure of the papers with its size, what it took and what its checks came to; and what all of them
    took."""
    found = {(f.paper, f.figure): f for f in findings}
    columns = ("figure", "size", "repetitions", "core minutes", "minutes, quick", "made at", "checks")
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for figure in FIGURES:
        f = found.get((figure.paper, figure.name))
        if f is None:
            lines.append(f"| {figure.paper} {figure.name}: {figure.title} | - | - | - | - | - | not run |")
            continue
        took = times.get(f"{figure.paper}-{figure.name}")
        clock = f"{took.seconds / 60:.1f}" if took else "-"
        size = str(f.settings.get("size", "-")).split(":")[0]
        often = next((f.settings[word] for word in COUNTS if word in f.settings), "-")
        first, *others = str(f.around.get("commit")).split(", ")
        made = f"{first} and {len(others)} more" if others else first
        name, why = f"{f.paper} {f.figure}: {f.title}", f.sentence.partition(". What does not hold")[0].rstrip(".")
        cells = (name, size, often, f"{f.seconds / 60:.1f}", clock, made, why)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    minutes = sum(f.seconds for f in findings) / 60
    lines += [
        "",
        f"In all {len(findings)} of {len(FIGURES)} figures, {minutes:.0f} core minutes. {sentence(times)}".rstrip(),
    ]
    return "\n".join(lines)


def sentence(times: dict[str, Took]) -> str:
    """What the quick sizes of the figures took by the clock, in all."""
    if not times:
        return ""
    minutes, lost = (
        sum(took.seconds for took in times.values()) / 60,
        sum(took.cut + took.open for took in times.values()),
    )
    jobs = " or ".join(sorted({str(took.jobs) for took in times.values()}))
    cores = " or ".join(sorted({str(took.cores) for took in times.values()}))
    whole = f"By the clock the quick sizes of {len(times)} of {len(FIGURES)} figures took {minutes:.0f} minutes in all"
    whole += f", each with {jobs} processes on {cores} cores"
    return f"{whole}{f', not counting {lost} interrupted call' + 's' * (lost > 1) if lost else ''}."


def write_between(page: Path, text: str) -> None:
    """Puts a text between a page's two marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def made_alike(finding: Finding, published: Path) -> bool:
    """Whether the published finding is of the same size and commit, so that its time is one of this, too."""
    if not published.is_file():
        return False
    old = Finding.read(published)
    return (old.size, old.around.get("commit")) == (finding.size, finding.around.get("commit"))


def coarse(charts: Any) -> Any:
    """Charts whose numbers have as many digits as a picture shows."""
    if isinstance(charts, dict):
        return {name: coarse(of) for name, of in charts.items()}
    if isinstance(charts, list):
        return [coarse(of) for of in charts]
    if not isinstance(charts, float):
        return charts
    rounded = float(f"{charts:.4g}")
    return int(rounded) if rounded == int(rounded) else rounded


def take(folder: Path) -> None:
    """Copies the findings below a folder, the compact records beside them and the times into docs/results."""
    times, new = read_times(RESULTS), read_times(folder)
    for path in sorted(folder.rglob(FILE)):
        finding = Finding.read(path)
        name = finding.name
        if outranked(finding, RESULTS / "findings" / f"{name}.json"):
            print(f"{name}: the published finding has a larger size and stays")
            continue
        if finding.size == 0 and not made_alike(finding, RESULTS / "findings" / f"{name}.json"):
            times.pop(name, None)  # made anew: a time of the old one is none of it
        found = json.loads(path.read_text(encoding="utf-8"))
        found["charts"] = coarse(found["charts"])
        write_whole(RESULTS / "findings" / f"{name}.json", json.dumps(found, separators=(",", ":")).encode())
        for records in (path.with_name(CSV), path.with_name(JSON)):
            if records.is_file():
                write_whole(RESULTS / "records" / f"{name}{records.suffix}", records.read_bytes())
    ended = {name for name in new if (folder / name / FILE).is_file()}
    times |= {name: new[name] for name in ended if new[name].size == SIZES[0]}
    kept = {name: asdict(times[name]) for name in sorted(times)}
    write_whole(RESULTS / TIMES, json.dumps(kept, indent=1).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "folder",
        type=Path,
        nargs="*",
        help="folders `regretless reproduce` wrote to; none: the page and the table again",
    )
    for folder in parser.parse_args().folder:
        take(folder)
    order = [(f.paper, f.name) for f in FIGURES]
    kept = sorted(
        (Finding.read(path) for path in (RESULTS / "findings").glob("*.json")),
        key=lambda f: order.index((f.paper, f.figure)),
    )
    times = read_times(RESULTS)
    write_whole(RESULTS / "report.html", findings_page(kept, sentence(times)).encode())
    write_between(RESULTS / "README.md", story(kept))
    write_between(VERDICTS, table(kept, times))
    size = sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file())
    print(f"{len(kept)} findings, {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        raise SystemExit(f"docs/results holds {size} bytes, more than {MOST_BYTES}")


if __name__ == "__main__":
    main()
