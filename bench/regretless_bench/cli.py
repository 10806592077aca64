"""What the distribution adds to the command `regretless`: `bench`, `reproduce` and `data`, and the pages of folders; no
logic here."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click


@click.group()
def bench() -> None:
    """Compares methods on problems, over seeds.

    \b
    Example:
      regretless bench run --methods gp-ucb,gp-ei,random --problems branin,hartmann6 --budget 40 --out runs/first
    """


@bench.command("run")
@click.option("--methods", required=True, help="Comma-separated names.")
@click.option("--problems", required=True, help="Comma-separated names.")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(1), help="Runs per method and problem.")
@click.option("--budget", default=50, show_default=True, type=click.IntRange(1), help="Evaluations per run.")
@click.option(
    "--init", default=0, show_default=True, type=click.IntRange(0), help="How many of them are common initial points."
)
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes at once.")
@click.option(
    "--out",
    default="runs",
    show_default=True,
    type=click.Path(file_okay=False),
    help="Folder of the records; finished runs in it are kept.",
)
def bench_run(methods: str, problems: str, seeds: int, budget: int, init: int, jobs: int, out: str) -> None:
    """Runs methods x problems x seeds, resumably, one record each, and prints their mean ranks; exit code 1 when a run
    failed.

    Options follow a name after a colon: levy:dim=20,shift=0.6.

    \b
    Examples:
      regretless bench run --methods gp-ucb,gp-ei,random --problems branin,hartmann6 --budget 40 --out runs/first
      regretless bench run --methods gp-ucb:kappa=2,optuna-tpe --problems levy:dim=5,shift=0.6 --out runs/second
    """
    from regretless_bench.record import failures
    from regretless_bench.runner import run_from_names
    from regretless_bench.summary import rank_table

    records = run_from_names(
        methods.split(","), problems.split(","), seeds=seeds, budget=budget, init=init, out=Path(out), jobs=jobs
    )
    finished = [record for record in records if record.error is None]
    if finished:
        click.echo(rank_table(finished).text)
        click.echo(f"for the curves: regretless report {shlex.quote(out)}")
    failed = failures(records)
    for line in failed:
        click.echo(line, err=True)
    if failed:
        sys.exit(1)


@bench.command("plot")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def bench_plot(folder: str) -> None:
    """Draws regret curves from the records of a folder.

    \b
    Example:
      regretless bench plot runs/first
    """
    from regretless_bench.plots import plot_folder

    for path in plot_folder(Path(folder)):
        click.echo(path)


@click.command()
@click.argument("paper", required=False)
@click.argument("figure", required=False)
@click.option(
    "--size",
    type=click.Choice(["quick", "full"]),
    help="quick: on two cores in 90 minutes, all figures; full: the paper's own. By default quick.",
)
@click.option("--full", is_flag=True, help="The same as --size full.")
@click.option(
    "--seeds", type=click.IntRange(1), help="Repetitions; by default 5 quick, 10 full, or what the paper has."
)
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes at once.")
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder that holds the data sets."
)
@click.option(
    "--out",
    default="runs/reproduce",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the results.",
)
def reproduce(
    paper: str | None,
    figure: str | None,
    size: str | None,
    full: bool,
    seeds: int | None,
    jobs: int,
    data: Path | None,
    out: Path,
) -> None:
    """Reruns a figure or table of a paper, all of a paper's, or those of "all" papers; without arguments, lists them.

    A run that was killed resumes with the same command: a full size may take several days, in as many sittings as
    there are. A quick run in the same folder leaves the finding of a full one as it is.

    \b
    Examples:
      regretless reproduce gp-threds fig4
      regretless reproduce gp-threds fig4 --size full --jobs 8
    """
    from regretless_bench.reproduce import find_figures, listing, reproduce_many
    from regretless_bench.reproduce import reproduce as run_figure

    if full and size == "quick":
        raise click.UsageError("--full and --size quick contradict each other")
    full = full or size == "full"
    if paper is None:
        click.echo(listing())
        return
    chosen = find_figures(paper, figure)
    if len(chosen) == 1:
        click.echo(run_figure(chosen[0], out, full=full, seeds=seeds, jobs=jobs, data=data))
    else:
        click.echo(reproduce_many(chosen, out, full=full, seeds=seeds, jobs=jobs, data=data))


@click.group()
def data() -> None:
    """The data sets some experiments need.

    \b
    Example:
      regretless data list
    """


@data.command("list")
def data_list() -> None:
    """Shows every data set: its files, who uses it, and where it comes from.

    \b
    Example:
      regretless data list
    """
    from regretless_bench.problems.catalogue import DATA_SETS

    for entry in DATA_SETS.values():
        name = click.style(entry.name, bold=True)
        click.echo(f"{name} (used by {entry.used_by}): {', '.join(entry.files)}\n  {entry.source}")


@data.command("check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def data_check(folder: Path) -> None:
    """Verifies the files under a folder by their checksums; exit code 1 when one is missing or differs.

    \b
    Example:
      regretless data check data
    """
    from regretless_bench.problems.catalogue import check

    states = check(folder)
    for name, file, state in states:
        click.echo(f"{state:<8} {name}/{file}")
    sys.exit(0 if all(state == "ok" for _, _, state in states) else 1)


@data.command("fetch")
@click.argument("name")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def data_fetch(name: str, folder: Path) -> None:
    """Downloads a data set into a folder and verifies it.

    \b
    Example:
      regretless data fetch mnist data
    """
    from regretless_bench.problems.catalogue import fetch

    for path in fetch(name, folder):
        click.echo(path)


class Extension:
    """The commands of this distribution, its sections of `regretless list`, and the pages of folders."""

    commands = (bench, reproduce, data)

    @staticmethod
    def listed() -> tuple[tuple[str, Any], ...]:
        from regretless_bench.peers import PEERS
        from regretless_bench.problems import PROBLEMS

        return ("peers", PEERS), ("problems", PROBLEMS)

    @staticmethod
    def report(folder: Path) -> Path:
        """Writes one page from what a folder holds: findings of `reproduce`, or records of `bench run`."""
        from regretless_bench.finding import FILE
        from regretless_bench.report import report_folder
        from regretless_bench.reproduce import report_findings

        write = report_findings if any(folder.rglob(FILE)) else report_folder
        return write(folder)


extension = Extension()
