"""The command `regretless`: names become objects, objects are called; no logic here."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from regretless import __version__
from regretless.baselines import BASELINES
from regretless.methods import METHODS


class OneLineErrors(click.Group):
    """A group whose commands answer bad input with one line and exit code 2, never with a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as help_text:
            click.echo(help_text.format_message())
            sys.exit(2)
        except click.ClickException as error:
            message = error.format_message()
        except click.Abort:
            message = "interrupted"
        except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
            message = str(error)
        else:
            sys.exit(code if isinstance(code, int) else 0)
        click.echo(f"regretless: {' '.join(message.split())}", err=True)
        sys.exit(2)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="regretless")
def main() -> None:
    """Black-box optimisation that says how much regret may be left, and when to stop."""


@main.command("list")
def list_everything() -> None:
    """Shows the methods, baselines, peers (for `bench`) and problems, one line each."""
    from regretless.bench.peers import PEERS
    from regretless.problems import PROBLEMS

    for title, entries in (("methods", METHODS), ("baselines", BASELINES), ("peers", PEERS), ("problems", PROBLEMS)):
        click.echo(click.style(title, bold=True))
        for name, entry in entries.items():
            click.echo(f"  {name:<24} {entry.summary}")


@main.command()
@click.argument("objective", metavar="FILE.py:FUNCTION")
@click.option("--space", "space_file", required=True, type=click.Path(exists=True, dir_okay=False), help="TOML file with one table per parameter.")
@click.option("--trials", required=True, type=click.IntRange(1), help="Evaluations in all.")
@click.option("--method", default="auto", show_default=True, help="A name from `regretless list`.")
@click.option("--maximize", is_flag=True, help="Look for the largest value instead of the smallest.")
@click.option("--seed", type=click.IntRange(0), help="Makes the run repeatable.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Evaluations at once.")
@click.option("--checkpoint", type=click.Path(dir_okay=False), help="File to write after every evaluation and to resume from.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), help="Seconds after which no new evaluation starts.")
@click.option("--until-gap", type=click.FloatRange(0, min_open=True), help="Stop once the certified regret is at most this.")
@click.option("--report", type=click.Path(dir_okay=False), help="Write an HTML page with the result.")
@click.option(
    "--storage", help="Keep the run in an Optuna storage and resume it: sqlite:///FILE, postgresql://..., journal:FILE or grpc://HOST:PORT."
)
@click.option("--study", default="regretless", show_default=True, help="Name of the study in the storage.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1), help="Processes that share the study.")
def tune(
    objective: str,
    space_file: str,
    trials: int,
    method: str,
    maximize: bool,
    seed: int | None,
    jobs: int,
    checkpoint: str | None,
    timeout: float | None,
    until_gap: float | None,
    report: str | None,
    storage: str | None,
    study: str,
    workers: int,
) -> None:
    """Tunes a function of a Python file.

    FUNCTION is called with one keyword argument per parameter of the space and returns a number. With --storage the run lives in an Optuna study: it
    resumes where it stopped, and further workers, here or on other machines, join it by the same command.
    """
    import regretless

    if storage is None and (study, workers) != ("regretless", 1):
        raise click.UsageError("--study and --workers need --storage; --jobs runs evaluations in threads without one")
    if storage is not None:
        from regretless.doors.studies import result_of_study, tune_in_storage

        if checkpoint is not None or jobs != 1:
            raise click.UsageError("--storage keeps the run itself and --workers runs evaluations at once: leave out --checkpoint and --jobs")
        with traced(objective):
            tuned = tune_in_storage(
                load_function(objective), space_file, storage=storage, study=study, trials=trials, workers=workers, method=method,
                direction="maximize" if maximize else "minimize", seed=seed, until_gap=until_gap, timeout=timeout,
            )  # fmt: skip
        outcome = result_of_study(tuned)
        click.echo(str(outcome))
        click.echo(f"to look at it: pip install optuna-dashboard; optuna-dashboard {storage}")
        if report is not None:
            click.echo(f"report: {outcome.report(report)}")
        return
    search = regretless.maximize if maximize else regretless.minimize
    stop = None if until_gap is None else regretless.GapBelow(until_gap)
    with traced(objective):
        result = search(
            load_function(objective), space_file, trials=trials, method=method, seed=seed, n_jobs=jobs, timeout=timeout, checkpoint=checkpoint,
            stop=stop,
        )  # fmt: skip
    click.echo(str(result))
    if report is not None:
        click.echo(f"report: {result.report(report)}")


@main.command()
@click.argument("study")
@click.option("--storage", required=True, help="sqlite:///FILE, postgresql://..., journal:FILE or grpc://HOST:PORT.")
@click.option("--out", type=click.Path(file_okay=False), help="Folder to write to; the study's name when not given.")
def export(study: str, storage: str, out: str | None) -> None:
    """Writes a study of any Optuna storage as CSV, JSON and an HTML page."""
    from regretless.doors.studies import export_study

    for path in export_study(storage, study, out or study):
        click.echo(path)


@main.group()
def bench() -> None:
    """Compares methods on problems, over seeds."""


@bench.command("run")
@click.option("--methods", required=True, help="Comma-separated names.")
@click.option("--problems", required=True, help="Comma-separated names.")
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(1), help="Runs per method and problem.")
@click.option("--budget", default=50, show_default=True, type=click.IntRange(1), help="Evaluations per run.")
@click.option("--init", default=0, show_default=True, type=click.IntRange(0), help="How many of them are common initial points.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes at once.")
@click.option(
    "--out", default="runs", show_default=True, type=click.Path(file_okay=False), help="Folder of the records; finished runs in it are kept."
)
def bench_run(methods: str, problems: str, seeds: int, budget: int, init: int, jobs: int, out: str) -> None:
    """Runs methods x problems x seeds, resumably, one record each; exit code 1 when a run failed."""
    from regretless.bench.record import failures
    from regretless.bench.runner import run_from_names

    records = run_from_names(methods.split(","), problems.split(","), seeds=seeds, budget=budget, init=init, out=Path(out), jobs=jobs)
    failed = failures(records)
    for line in failed:
        click.echo(line, err=True)
    if failed:
        sys.exit(1)


@bench.command("plot")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def bench_plot(folder: str) -> None:
    """Draws regret curves from the records of a folder."""
    from regretless.bench.plots import plot_folder

    for path in plot_folder(Path(folder)):
        click.echo(path)


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def report(folder: str) -> None:
    """Writes one HTML page from what a folder holds: findings of `reproduce`, or records of `bench run`."""
    from regretless.bench.finding import FILE
    from regretless.bench.report import report_folder
    from regretless.reproduce import report_findings

    write = report_findings if any(Path(folder).rglob(FILE)) else report_folder
    click.echo(write(Path(folder)))


@main.command()
@click.argument("paper", required=False)
@click.argument("figure", required=False)
@click.option("--full", is_flag=True, help="The paper's own sizes instead of the quick ones.")
@click.option("--seeds", type=click.IntRange(1), help="Repetitions; by default 5 quick, 10 full, or what the paper has.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Processes at once.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder that holds the data sets.")
@click.option("--out", default="runs/reproduce", show_default=True, type=click.Path(file_okay=False, path_type=Path), help="Folder for the results.")
def reproduce(paper: str | None, figure: str | None, full: bool, seeds: int | None, jobs: int, data: Path | None, out: Path) -> None:
    """Reruns a figure or table of a paper, all of a paper's, or those of "all" papers; without arguments, lists them.

    A run that was killed resumes with the same command.
    """
    from regretless.reproduce import find_figures, listing, reproduce_many
    from regretless.reproduce import reproduce as run_figure

    if paper is None:
        click.echo(listing())
        return
    chosen = find_figures(paper, figure)
    if len(chosen) == 1:
        click.echo(run_figure(chosen[0], out, full=full, seeds=seeds, jobs=jobs, data=data))
    else:
        click.echo(reproduce_many(chosen, out, full=full, seeds=seeds, jobs=jobs, data=data))


@main.group()
def data() -> None:
    """The data sets some experiments need."""


@data.command("list")
def data_list() -> None:
    """Shows every data set: its files, who uses it, and where it comes from."""
    from regretless.problems.catalogue import DATA_SETS

    for entry in DATA_SETS.values():
        click.echo(f"{click.style(entry.name, bold=True)} (used by {entry.used_by}): {', '.join(entry.files)}\n  {entry.source}")


@data.command("check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def data_check(folder: Path) -> None:
    """Verifies the files under a folder by their checksums; exit code 1 when one is missing or differs."""
    from regretless.problems.catalogue import check

    states = check(folder)
    for name, file, state in states:
        click.echo(f"{state:<8} {name}/{file}")
    sys.exit(0 if all(state == "ok" for _, _, state in states) else 1)


@data.command("fetch")
@click.argument("name")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def data_fetch(name: str, folder: Path) -> None:
    """Downloads a data set into a folder and verifies it."""
    from regretless.problems.catalogue import fetch

    for path in fetch(name, folder):
        click.echo(path)


@contextmanager
def traced(target: str) -> Iterator[None]:
    """Shows where in the file of "FILE.py:FUNCTION" an error arose: its line alone would not say."""
    try:
        yield
    except Exception as error:
        frames, file = traceback.extract_tb(error.__traceback__), Path(target.rpartition(":")[0]).resolve()
        first = next((i for i, frame in enumerate(frames) if Path(frame.filename).resolve() == file), None)
        if first is None:
            raise
        click.echo("".join(traceback.format_list(frames[first:])), err=True, nl=False)
        raise click.ClickException(f"{target} raised {type(error).__name__}: {error}") from error


def load_function(target: str) -> Callable[..., Any]:
    """The function of a "FILE.py:FUNCTION" text."""
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise ValueError(f"the objective must be written FILE.py:FUNCTION, got {target!r}")
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = module  # so that process pools can find the function again
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ValueError(f"{file} is not valid Python: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{file} has no function {name!r}")
    loaded: Callable[..., Any] = function
    return loaded
