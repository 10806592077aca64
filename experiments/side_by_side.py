"""Every figure at once, on a machine of many cores: all quick sizes, and what is given of the full ones.

    python experiments/side_by_side.py --out runs/all --jobs 16 --minutes 9                 the quick sizes
    python experiments/side_by_side.py --out runs/all --jobs 16 --minutes 9 --wider         the larger sizes as well
    python experiments/side_by_side.py --out runs/all --jobs 16 --only neural-bo-fig2       some of them
    python experiments/side_by_side.py --out runs/all --jobs 16 --pairs                     each on two cores of its own
    python experiments/publish.py runs/all                                                  then the page

`regretless reproduce all` runs one figure after another, which is right for two cores and leaves sixteen idle at the
end of each. Here several figures share the cores. After --minutes everything is stopped; the same command goes on from
the records that are there. Quick sizes are kept below OUT/quick, larger ones below OUT/full.

With --pairs a figure has two processes on two cores that no other figure uses, so its minutes by the clock are those of
a machine of two cores, and the sum over the figures is what `regretless reproduce all` takes there. They are kept in
times.json beside the figures' folders. What needs a GPU runs beside the pairs, on any core.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import NamedTuple

from regretless_bench.compact import compact
from regretless_bench.finding import FILE, Finding
from regretless_bench.reproduce import (
    EXPERIMENTS,
    FIGURES,
    TIMES,
    Figure,
    note_end,
    note_start,
    read_times,
    script_options,
)

LANES = 5
"""Figures that run at a time; each has half of the jobs, so that the tail of one is filled by the others."""
PAIR = 2
"""Cores of a lane with --pairs: what `regretless reproduce` is told by default."""
FIRST = ("neural-bo-fig6", "gp-threds-fig4ab", "bilevel-tables", "gp-threds-fig4cd", "neural-bo-fig2", "neural-bo-fig1")
"""Those with the longest single runs, and those that measure time, which also run at a better priority."""
TIMED = FIRST[:2]
LONGER = (
    "ms-ucb",
    "ms-ucb (paper)",
    "gp-ucb (paper)",
    "linebo",
    "dropout",
    "sre",
    "rembo",
    "hesbo",
    "random",
)
"""Methods of MS-UCB's Fig. 1 in the larger size: the claim's, and ours beside."""
REAL = ("ms-ucb", "ms-ucb (paper)", "rembo", "linebo", "sre", "hesbo", "random")
"""Of its Figs. 4 and 5, likewise."""
NEURAL = (
    "neural-bo",
    "neural-bo (paper)",
    "neural-greedy",
    "gp-ucb (paper)",
    "gp-ts (paper)",
    "gp-ei (paper)",
    "dngo",
    "rf-ei",
)
"""Of NeuralBO's Fig. 1."""
CNN = ("GP-ThreDS (paper)", "GP-ThreDS", "IGP-UCB", "AD", "GP-EI", "GP-PI", "random")
"""Of GP-ThreDS's CNN."""
COCO = ("neural-bo-paper", "neural-bo", "neural-greedy", "gp-ucb-paper", "gp-ei-paper")
"""Of its Fig. 2 in 5 and 10 dimensions: those of the quick size that the claim is about, and ours."""
FIVE = ("--seeds", "5")
WIDER: dict[str, tuple[str, ...]] = {
    "go-ucb-fig3": FIVE,
    "go-ucb-fig4": FIVE,
    "go-ucb-fig5": FIVE,
    "ms-ucb-fig5": (*FIVE, "--budget", "60", "--methods", ",".join(REAL)),
    "ms-ucb-fig3": FIVE,
    "neural-bo-fig3": ("--methods", ",".join((*NEURAL, "random"))),
    "ms-ucb-fig4": (*FIVE, "--short", "--methods", ",".join(REAL)),
    "neural-bo-fig1": (*FIVE, "--budget", "100", "--forms", "printed", "--methods", ",".join(NEURAL)),
    "ms-ucb-fig1": (*FIVE, "--methods", ",".join(LONGER)),
    "ms-ucb-fig2": FIVE,
    "neural-bo-fig2": (*FIVE, "--methods", ",".join(COCO)),
}
"""Figure -> options of what of its full size takes an hour of one core or less, cheapest first; NeuralBO's Fig. 2 takes
two."""
ON_GPU: dict[str, tuple[str, ...]] = {
    "bilevel-tables": ("--device", "cuda", "--outer", "20,40,60", "--printed", "--seeds", "5"),
    "gp-threds-fig4cd": ("--device", "cuda", "--seeds", "5", "--methods", ";".join(CNN)),
}
"""The same, where there is a GPU."""
PAUSE = 0.2
PRESET = 1
"""Of xz: points compress little, and the time of packing is time of the machine."""
SMALL = (".json", ".csv", ".txt", ".md")
"""Kinds of files that are packed: findings, compact records, records of an experiment's own kind, logs."""
MOST_PACKED, MOST_UNFINISHED = 2_000_000, 20_000_000
"""Runs of the bench are packed, too, while a figure's take fewer bytes (points of 5001 dimensions do not); more of a
figure that has not come to its end, which then goes on elsewhere."""


class Work(NamedTuple):
    """One figure in one size."""

    name: str
    figure: Figure
    full: bool
    extra: tuple[str, ...]
    folder: Path


class Lane(NamedTuple):
    """Where a figure runs: its processes, and its cores where it has some of its own."""

    jobs: int
    cores: tuple[int, ...] = ()
    gpu: bool = False


def lanes_of(options: argparse.Namespace) -> list[Lane]:
    """Pairs of the first --jobs cores, and lanes for the GPU; or LANES that share all cores."""
    if not options.pairs:
        return [Lane(max(1, options.jobs // 2))] * LANES
    cores = sorted(os.sched_getaffinity(0))[: options.jobs]
    pairs = [Lane(PAIR, tuple(cores[i : i + PAIR])) for i in range(0, len(cores) - 1, PAIR)]
    return pairs + [Lane(1, gpu=True)] * options.gpu


def planned(options: argparse.Namespace) -> list[Work]:
    """What is to be run, the longest first."""
    only = {name: i for i, name in enumerate(options.only.split(","))} if options.only else {}
    larger = {**WIDER, **(ON_GPU if options.gpu else {})} if options.wider else {}
    quick, full = [], []
    for figure in FIGURES:
        name = f"{figure.paper}-{figure.name}"
        if only and name not in only:
            continue
        if not options.larger_only:
            quick.append(Work(name, figure, False, (), options.out / "quick" / name))
        if name in larger:
            full.append(Work(name, figure, True, larger[name], options.out / "full" / name))
    order = only or {name: i for i, name in enumerate(FIRST)}
    quick.sort(key=lambda work: (order.get(work.name, len(order)), -work.figure.minutes[0]))
    full.sort(key=lambda work: list(larger).index(work.name))
    return [work for work in full if work.name in ON_GPU] + quick + [work for work in full if work.name not in ON_GPU]


def start(work: Work, lane: Lane) -> subprocess.Popen[bytes]:
    """Begins or resumes a figure; what it prints goes into its folder."""
    work.folder.mkdir(parents=True, exist_ok=True)
    words = [*script_options(work.figure, work.folder, full=work.full, jobs=lane.jobs), *work.extra]
    before = [] if work.name in TIMED or lane.cores or lane.gpu else ["nice"]
    command = [*before, sys.executable, str(EXPERIMENTS / work.figure.script), *words]
    mine = os.sched_getaffinity(0) if lane.cores else set()
    try:
        if lane.cores:
            os.sched_setaffinity(0, lane.cores)  # which the new process inherits
        with open(work.folder / "log.txt", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    finally:
        if lane.cores:
            os.sched_setaffinity(0, mine)


def run(todo: list[Work], lanes: list[Lane], until: float) -> dict[str, str]:
    """Runs what is planned, one figure per lane, until all is done or the time is over; what each came to."""
    ended: dict[str, str] = {}
    going: dict[subprocess.Popen[bytes], tuple[Work, Lane, float]] = {}
    waiting, free = list(todo), list(lanes)
    apart = any(lane.gpu for lane in lanes)

    def leave(process: subprocess.Popen[bytes]) -> tuple[Work, str]:
        work, lane, begin = going.pop(process)
        free.append(lane)
        took = time.monotonic() - begin
        if lane.cores:
            note_end(work.folder.parent, work.folder.name, took)
        return work, f"{took:.0f} s"

    while (waiting or going) and time.monotonic() < until:
        for lane in list(free):
            work = next((w for w in waiting if lane.gpu == (apart and _needs_gpu(w))), None)
            if work is None:
                continue
            waiting.remove(work)
            free.remove(lane)
            work.folder.parent.mkdir(parents=True, exist_ok=True)
            if lane.cores:
                note_start(work.folder.parent, work.folder.name, lane.jobs, work.full, len(lane.cores))
            going[start(work, lane)] = (work, lane, time.monotonic())
        for process in [p for p in going if p.poll() is not None]:
            work, took = leave(process)
            ended[title(work)] = took if not process.returncode else f"exit code {process.returncode} after {took}"
            print(f"{title(work)}: {ended[title(work)]}", flush=True)
        time.sleep(PAUSE)
    for process in list(going):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        ended[title(leave(process)[0])] = "stopped"
    return ended | {title(work): "not begun" for work in waiting}


def _needs_gpu(work: Work) -> bool:
    return work.full and work.name in ON_GPU


def title(work: Work) -> str:
    """How a piece of work is called."""
    return f"{work.name} ({'full' if work.full else 'quick'})"


def core_minutes(folder: Path) -> float:
    """Processor minutes of the findings below a folder."""
    return sum(Finding.read(path).seconds for path in folder.rglob(FILE)) / 60 if folder.is_dir() else 0.0


def pack(todo: list[Work], out: Path, path: Path) -> None:
    """Everything that is small, in one archive; unpacked at OUT, the same command goes on elsewhere."""
    with tarfile.open(path, "w:xz", preset=PRESET) as archive:
        for work in todo:
            files = sorted(file for file in work.folder.rglob("*") if file.is_file())
            runs = [file for file in files if file.suffix == ".jsonl"]
            most = MOST_PACKED if (work.folder / FILE).is_file() else MOST_UNFINISHED
            whole = sum(file.stat().st_size for file in runs) < most
            for file in [f for f in files if f.suffix in SMALL] + (runs if whole else []):
                archive.add(file, str(file.relative_to(out)))
        for file in sorted({work.folder.parent / TIMES for work in todo}):
            if file.is_file():
                archive.add(file, str(file.relative_to(out)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/all"), help="folder of the results")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="cores")
    parser.add_argument("--minutes", type=float, default=1e6, help="everything is stopped after so many")
    parser.add_argument("--only", default="", help="names such as ms-ucb-fig2, separated by commas, in this order")
    parser.add_argument("--wider", action="store_true", help="larger sizes as well: what is known to fit")
    parser.add_argument("--larger-only", action="store_true", help="with --wider: no quick sizes")
    parser.add_argument("--gpu", type=int, default=0, help="with --wider: as many figures at a time that need a GPU")
    parser.add_argument("--pairs", action="store_true", help="two cores for each figure, and its minutes by the clock")
    parser.add_argument("--pack", type=Path, help="an archive (.tar.xz) of what is small enough to travel")
    options = parser.parse_args()
    begin = time.monotonic()
    todo = planned(options)
    ended = run(todo, lanes_of(options), begin + 60 * options.minutes)
    for work in todo:
        if (work.folder / FILE).is_file():
            compact(work.folder)
    if options.pack is not None:
        pack(todo, options.out, options.pack)
    open_ends = {name: how for name, how in ended.items() if not how.endswith(" s") or how.startswith("exit")}
    for name, how in open_ends.items():
        print(f"{name}: {how}; the same command goes on")
    for size in ("quick", "full"):
        print(f"{size}: {core_minutes(options.out / size):.1f} core minutes of finished figures")
    took = read_times(options.out / "quick")
    if took:
        minutes = sum(t.seconds for t in took.values()) / 60
        print(f"{len(took)} quick figures: {minutes:.1f} minutes in all, each on {PAIR} cores")
    print(f"{(time.monotonic() - begin) / 60:.1f} minutes by the clock with {options.jobs} cores")
    sys.exit(1 if open_ends else 0)


if __name__ == "__main__":
    main()
