"""Puts findings of `regretless reproduce` into the documentation: the page, the findings, compact records, and the table of what was run.

    python experiments/publish.py runs/reproduce

The findings under docs/results/findings are kept unless a new one of the same figure replaces them; the page and the table are made from all of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from regretless.bench.compact import CSV, JSON
from regretless.bench.finding import FILE, Finding, findings_page
from regretless.reproduce import FIGURES
from regretless.statefile import write_whole

RESULTS = Path(__file__).parent.parent / "docs" / "results"
BEGIN, END = "<!-- what was run: made by experiments/publish.py -->", "<!-- end -->"
MOST_BYTES = 5_000_000
COUNTS = ("seeds", "repetitions", "runs each", "instances", "targets", "samples")
"""Settings that say how often everything was repeated, the first that a finding has."""


def table(findings: list[Finding]) -> str:
    """Every figure of the papers with its verdict, or that it was not run; and what all of them took."""
    found = {(f.paper, f.figure): f for f in findings}
    lines = ["| paper | figure | size | repetitions | core minutes | made at | verdict |", "|" + " --- |" * 7]
    for figure in FIGURES:
        f = found.get((figure.paper, figure.name))
        if f is None:
            lines.append(f"| {figure.paper} | {figure.name}: {figure.title} | - | - | - | - | not run yet |")
            continue
        size = str(f.settings.get("size", "-")).split(":")[0]
        times = next((f.settings[word] for word in COUNTS if word in f.settings), "-")
        first, *others = str(f.around.get("commit")).split(", ")
        made = f"{first} and {len(others)} more" if others else first
        lines.append(f"| {f.paper} | {f.figure}: {f.title} | {size} | {times} | {f.seconds / 60:.1f} | {made} | {f.verdict} |")
    minutes = sum(f.seconds for f in findings) / 60
    lines += ["", f"In all {len(findings)} of {len(FIGURES)} figures, {minutes:.0f} core minutes."]
    return "\n".join(lines)


def take(folder: Path) -> None:
    """Copies the findings below a folder, and the compact records beside them, into docs/results."""
    for path in sorted(folder.rglob(FILE)):
        finding = Finding.read(path)
        name = f"{finding.paper}-{finding.figure}"
        write_whole(RESULTS / "findings" / f"{name}.json", path.read_bytes())
        for records in (path.with_name(CSV), path.with_name(JSON)):
            if records.is_file():
                write_whole(RESULTS / "records" / f"{name}{records.suffix}", records.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="*", help="folders `regretless reproduce` wrote to; none: the page and the table again")
    for folder in parser.parse_args().folder:
        take(folder)
    order = [(f.paper, f.name) for f in FIGURES]
    kept = sorted((Finding.read(path) for path in (RESULTS / "findings").glob("*.json")), key=lambda f: order.index((f.paper, f.figure)))
    write_whole(RESULTS / "report.html", findings_page(kept).encode())
    readme = RESULTS / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    readme.write_text(f"{before}{BEGIN}\n\n{table(kept)}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    size = sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file())
    print(f"{len(kept)} findings, {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        raise SystemExit(f"docs/results holds {size} bytes, more than {MOST_BYTES}")


if __name__ == "__main__":
    main()
