"""The command `regretless`: names become objects, objects are called; no logic here."""

from __future__ import annotations

import importlib.metadata
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

EXTENSIONS = "regretless.commands"
"""The group of entry points by which other distributions, such as regretless-bench, add commands."""


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
    """Shows the methods and baselines, and what installed extensions add (peers and problems of `bench`), one line
    each."""
    for title, entries in (
        ("methods", METHODS),
        ("baselines", BASELINES),
        *(section for extension in extensions() for section in extension.listed()),
    ):
        click.echo(click.style(title, bold=True))
        for name, entry in entries.items():
            click.echo(f"  {name:<24} {entry.summary}")


@main.command()
@click.argument("objective", metavar="FILE.py:FUNCTION")
@click.option(
    "--space",
    "space_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="TOML file with one table per parameter.",
)
@click.option("--trials", required=True, type=click.IntRange(1), help="Evaluations in all.")
@click.option("--method", default="auto", show_default=True, help="A name from `regretless list`.")
@click.option("--maximize", is_flag=True, help="Look for the largest value instead of the smallest.")
@click.option("--seed", type=click.IntRange(0), help="Makes the run repeatable.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Evaluations at once.")
@click.option(
    "--checkpoint", type=click.Path(dir_okay=False), help="File to write after every evaluation and to resume from."
)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), help="Seconds after which no new evaluation starts."
)
@click.option(
    "--until-gap", type=click.FloatRange(0, min_open=True), help="Stop once the certified regret is at most this."
)
@click.option("--report", type=click.Path(dir_okay=False), help="Write an HTML page with the result.")
@click.option(
    "--storage",
    help="Keep the run in an Optuna storage and resume it: sqlite:///FILE, postgresql://..., journal:FILE or grpc://HOST:PORT.",
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

    FUNCTION is called with one keyword argument per parameter of the space and returns a number. With --storage the run
    lives in an Optuna study: it resumes where it stopped, and further workers, here or on other machines, join it by
    the same command.
    """
    import regretless

    if storage is None and (study, workers) != ("regretless", 1):
        raise click.UsageError("--study and --workers need --storage; --jobs runs evaluations in threads without one")
    if storage is not None:
        from regretless.storage.export import result_of_study
        from regretless.storage.runner import tune_in_storage

        if checkpoint is not None or jobs != 1:
            raise click.UsageError(
                "--storage keeps the run itself and --workers runs evaluations at once: leave out --checkpoint and --jobs"
            )
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
    from regretless.storage.export import export_study

    for path in export_study(storage, study, out or study):
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


# ---------------------------------------------------------------- extensions


def extensions() -> list[Any]:
    """The extensions that are installed: objects with `commands`, a list of click commands, and `listed()`, sections of
    `regretless list`."""
    return [found.load() for found in importlib.metadata.entry_points(group=EXTENSIONS)]


for _extension in extensions():
    for _command in _extension.commands:
        main.add_command(_command)
