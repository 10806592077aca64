"""Every figure and table of the five papers as one command: what there is, what it needs, and how it is run.

The experiments live beside the package, in `experiments/` of a source checkout; each leaves its records, its figure and
a `Finding` in a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from regretless.basics.statefile import write_whole
from regretless_bench.claims import PARENT
from regretless_bench.compact import compact
from regretless_bench.finding import PAPERS, draw_missing, find_all, findings_page
from regretless_bench.problems.data import data_folder

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
EVERYTHING = "all"
"""Stands for every paper."""
TIMES = "times.json"
"""Beside the figures' folders: how long each took."""


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper, and the experiment that checks it."""

    paper: str
    name: str
    title: str
    script: str
    """The file under experiments/."""
    options: tuple[str, ...] = ()
    """What the script is told beside its size."""
    minutes: tuple[float, float] = (5, 60)
    """On two cores: quick, by the clock as docs/results has it, and full, estimated from processor time."""
    data: str = ""
    """The data set it needs, if any."""
    gpu: bool = False
    """Whether the full size wants a GPU."""
    also: tuple[str, ...] = ()
    """Other names of what it shows."""


FIGURES: tuple[Figure, ...] = (
    Figure("go-ucb", "fig2", "three synthetic functions in 20 dimensions", "go_ucb_fig2.py", minutes=(9.5, 17)),
    Figure(
        "go-ucb",
        "fig3",
        "hyper-parameters on Breast-cancer",
        "go_ucb_fig3.py",
        ("--dataset", "breast-cancer"),
        (4, 18),
        "uci",
    ),
    Figure(
        "go-ucb",
        "fig4",
        "hyper-parameters on Australian",
        "go_ucb_fig3.py",
        ("--dataset", "australian"),
        (4.5, 22),
        "uci",
    ),
    Figure(
        "go-ucb", "fig5", "hyper-parameters on Diabetes", "go_ucb_fig3.py", ("--dataset", "diabetes"), (4.5, 23), "uci"
    ),
    Figure(
        "gp-threds",
        "fig4ab",
        "average regret on Branin and Rosenbrock",
        "gp_threds_fig4.py",
        minutes=(2.5, 8),
        also=("fig4b", "fig4d"),
    ),
    Figure(
        "gp-threds",
        "fig4cd",
        "five hyper-parameters of a CNN",
        "gp_threds_cnn.py",
        minutes=(5, 240),
        data="mnist",
        also=("fig4d",),
    ),
    Figure(
        "bilevel",
        "tables",
        "the six tables: EI and UCB, T = 20, 40, 60",
        "bilevel_tables.py",
        minutes=(6, 600),
        data="mnist",
        gpu=True,
        also=tuple(f"table{i}" for i in range(1, 7)),
    ),
    Figure(
        "neural-bo",
        "fig1",
        "synthetic functions and Tables 1 and 2",
        "neural_bo_fig1.py",
        minutes=(9.5, 30_000),
        also=("table1", "table2"),
    ),
    Figure("neural-bo", "fig2", "COCO's bbob", "neural_bo_coco.py", minutes=(11.5, 480)),
    Figure("neural-bo", "fig3", "sensitive samples", "neural_bo_sensitive.py", minutes=(4.5, 50), data="mnist"),
    Figure(
        "neural-bo",
        "fig4",
        "document retrieval",
        "neural_bo_reviews.py",
        minutes=(5, 40),
        data="amazon_reviews_hierarchical",
    ),
    Figure("neural-bo", "fig5", "14-dimensional robot pushing", "neural_bo_pushing.py", minutes=(3.5, 1800)),
    Figure("neural-bo", "fig6", "running time and memory", "neural_bo_fig6.py", minutes=(2, 5)),
    Figure("ms-ucb", "fig1", "four functions in 20 to 100 dimensions", "ms_ucb_fig1.py", minutes=(4, 100)),
    Figure("ms-ucb", "fig2", "the number of subspaces", "ms_ucb_fig2.py", minutes=(3.5, 25)),
    Figure("ms-ucb", "fig3", "the dimension of the subspaces", "ms_ucb_fig3.py", minutes=(1.5, 11)),
    Figure(
        "ms-ucb",
        "fig4",
        "output-layer weights of a network",
        "ms_ucb_real.py",
        ("--task", "mnist-net"),
        (1, 300),
        "mnist",
    ),
    Figure(
        "ms-ucb", "fig5", "ramp loss in 5000 dimensions", "ms_ucb_real.py", ("--task", "ramp-loss"), (2, 120), "mnist"
    ),
)


def listing() -> str:
    """The table `regretless reproduce` prints."""
    lines = [f"{'paper':<10} {'figure':<8} {'quick':>7} {'full':>8}  {'needs':<28} what"]
    for f in FIGURES:
        needs = ", ".join([*([f.data] if f.data else []), *(["a GPU for --full"] if f.gpu else [])]) or "nothing"
        lines.append(f"{f.paper:<10} {f.name:<8} {f.minutes[0]:>3g} min {f.minutes[1]:>4g} min  {needs:<28} {f.title}")
    minutes = f"about {sum(f.minutes[0] for f in FIGURES):g} minutes on two cores"
    lines.append(f"all quick: {minutes}, `regretless reproduce {EVERYTHING}`; one: `regretless reproduce PAPER FIGURE`")
    return "\n".join(lines)


def find_figures(paper: str, name: str | None) -> list[Figure]:
    """The figures of a paper, or those whose name starts as given or that show what is named; unknown names raise with
    the known ones.

    Of every paper ("all"), those that are done soonest come first.
    """
    if paper == EVERYTHING and name is None:
        minutes = {p: sum(f.minutes[0] for f in FIGURES if f.paper == p) for p in PAPERS}
        return sorted(FIGURES, key=lambda f: minutes[f.paper])
    if paper not in PAPERS:
        raise ValueError(f"unknown paper {paper!r}; known are {', '.join(PAPERS)}, and {EVERYTHING} without a figure")
    found = [f for f in FIGURES if f.paper == paper and (name is None or f.name.startswith(name) or name in f.also)]
    if not found:
        raise ValueError(
            f"{paper} has no figure {name!r}; it has {', '.join(f.name for f in FIGURES if f.paper == paper)}"
        )
    return found


def script_options(
    figure: Figure,
    folder: Path,
    *,
    full: bool = False,
    seeds: int | None = None,
    jobs: int = 2,
    data: Path | None = None,
) -> list[str]:
    """What the experiment of a figure is told on its command line."""
    words = ["--out", str(folder), "--jobs", str(jobs), *figure.options, "--full" if full else "--quick"]
    words += ["--seeds", str(seeds)] if seeds is not None else []
    words += ["--data", str(data)] if data is not None else []
    return words


def reproduce(
    figure: Figure,
    out: Path,
    *,
    full: bool = False,
    seeds: int | None = None,
    jobs: int = 2,
    data: Path | None = None,
    extra: Sequence[str] = (),
) -> Path:
    """Runs an experiment (resuming what is there), writes the page of its finding, notes how long it took, and returns
    its folder."""
    script = EXPERIMENTS / figure.script
    if not script.is_file():
        raise ValueError(
            f"the experiments are part of the source checkout; {figure.script} is not beside this installation"
        )
    if figure.data:
        data_folder(figure.data, data)
    folder = out / f"{figure.paper}-{figure.name}"
    command = [
        sys.executable,
        str(script),
        *script_options(figure, folder, full=full, seeds=seeds, jobs=jobs, data=data),
        *extra,
    ]
    print(
        f"{figure.paper} {figure.name}: {figure.title}, about {figure.minutes[full]:g} min on two cores",
        file=sys.stderr,
        flush=True,
    )
    begin = note_start(out, folder.name, jobs, full)
    try:
        done = subprocess.run(command, check=False, env={**os.environ, PARENT: str(os.getpid())})
        if done.returncode:
            raise RuntimeError(
                f"{figure.script} ended with exit code {done.returncode}; run the same command again to resume"
            )
        compact(folder)
        report_findings(folder)
    finally:
        note_end(out, folder.name, time.monotonic() - begin)
    return folder


def reproduce_many(
    figures: Sequence[Figure],
    out: Path,
    *,
    full: bool = False,
    seeds: int | None = None,
    jobs: int = 2,
    data: Path | None = None,
) -> Path:
    """Runs figures one after another and writes one page of all; what fails does not keep the others, and is said at
    the end. Returns the page."""
    failed = []
    for figure in figures:
        try:
            reproduce(figure, out, full=full, seeds=seeds, jobs=jobs, data=data)
        except (RuntimeError, OSError) as error:
            failed.append(f"{figure.paper} {figure.name}: {error}")
            print(failed[-1], file=sys.stderr, flush=True)
    times = read_times(out)
    done = [
        (f, times[f"{f.paper}-{f.name}"])
        for f in figures
        if not any(line.startswith(f"{f.paper} {f.name}:") for line in failed)
    ]
    for figure, took in done:
        print(f"{figure.paper:<10} {figure.name:<8} {took.seconds:>7.0f} s{took.remark}", file=sys.stderr)
    print(
        f"{len(done)} figures, {sum(took.seconds for _, took in done) / 60:.1f} minutes with {jobs} processes",
        file=sys.stderr,
        flush=True,
    )
    if failed:
        raise RuntimeError("; ".join(failed))
    return report_findings(out)


# ---------------------------------------------------------------- how long it took


@dataclass
class Took:
    """How long a figure took, by the clock on the wall, over all calls of the command, those that failed included."""

    seconds: float = 0.0
    sittings: int = 0
    """How often the command was called for it."""
    cut: int = 0
    """Calls that were killed, whose time is not known."""
    open: bool = False
    """Whether the last call has not come to its end (yet)."""
    jobs: int = 2
    size: str = "quick"
    cores: int = 1

    @property
    def remark(self) -> str:
        lost = self.cut + self.open
        return f", and the time of {lost} interrupted call{'s' if lost > 1 else ''}" if lost else ""


def read_times(out: Path) -> dict[str, Took]:
    """What the figures below a folder took, by the names of their folders; nothing where none was run."""
    path = out / TIMES
    try:
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return {name: Took(**took) for name, took in stored.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} does not hold the times of figures: {error}; delete it to begin anew") from None


def note_start(out: Path, name: str, jobs: int, full: bool, cores: int | None = None) -> float:
    """Notes that a figure is begun or resumed, so that a kill shows; returns the time on the clock. `cores`: those it
    has, all of the machine's unless said."""
    times = read_times(out)
    took = times.setdefault(name, Took())
    took.cut, took.sittings, took.open = took.cut + took.open, took.sittings + 1, True
    took.jobs, took.size, took.cores = jobs, "full" if full else "quick", cores or os.cpu_count() or 1
    _write_times(out, times)
    return time.monotonic()


def note_end(out: Path, name: str, seconds: float) -> None:
    """Adds the seconds of a call that came to its end or was stopped on purpose."""
    times = read_times(out)
    times[name].seconds, times[name].open = round(times[name].seconds + seconds, 1), False
    _write_times(out, times)


def _write_times(out: Path, times: dict[str, Took]) -> None:
    write_whole(out / TIMES, json.dumps({name: asdict(took) for name, took in times.items()}, indent=1).encode())


# ---------------------------------------------------------------- the page


def report_findings(folder: Path) -> Path:
    """Writes one page from all findings below a folder, and the figures that are not drawn yet; returns the page's
    path."""
    findings = find_all(folder)
    if not findings:
        raise ValueError(
            f"there is no finding in {folder}: run `regretless reproduce PAPER FIGURE --out {folder}` first"
        )
    draw_missing(folder)
    path = folder / "report.html"
    write_whole(path, findings_page(findings).encode())
    return path
