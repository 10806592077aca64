"""The command `regretless`: names become objects, objects are called; no logic here."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from regretless import __version__
from regretless.basics.extras import masked, optional
from regretless.basics.statefile import check_writable
from regretless.classics import CLASSICS
from regretless.methods import METHODS
from regretless.run.evaluation import ObjectiveError
from regretless.run.result import Result, check_page_name

EXTENSIONS = "regretless.commands"
"""The group of entry points by which other distributions, such as regretless-bench, add commands."""
ELSEWHERE = ("bench", "reproduce", "data")
"""Commands of regretless-bench, named so that they can be answered for where it is not installed."""
USES = {
    "auto": "the default: reads the values as they come, takes the search that suits them, and says why",
    "gp-ucb": "up to 20 parameters and 3,000 evaluations; its certificate can end the run",
    "gp-ei": "the same, and the better one of the two with whole numbers, steps, choices and many parameters",
    "cma-es": "thousands of cheap evaluations of up to 1,000 parameters",
    "tangent-region": "thousands of evaluations of 1 to 100 parameters, at some tens of milliseconds an ask",
    "neural-bo": "images, texts and pools, read by a trained net, yours if you like; on plain boxes take auto",
    "go-ucb": "10 to 200 evaluations when you give it the formula; without one it is gp-ei at first, so take that",
    "gp-threds": "thousands of cheap and noisy evaluations of 1 to 3 parameters",
    "ms-ucb": "20 to 5,000 parameters when an ask should move few of them; moving all at once found more",
    "bilevel": "training loops with checkpoints, by `minimize_bilevel`, whose schedule is what pays",
}
"""When to use which method, in the words of docs/explanation/choosing.md; what most people need stands first."""
INSTALL_BENCH = "in a source checkout, pip install ./bench"
"""How the second distribution is installed."""
INTERRUPTED = 130
"""The exit code of a command that was ended by Ctrl-C, as shells have it: 128 and the number of the signal."""


class Commands(click.Group):
    """A group whose commands answer bad input with one line and exit code 2, never with a traceback; installed
    extensions add commands to it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *(c.name for e in extensions() for c in e.commands)})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        own = super().get_command(ctx, name)
        if own is not None:
            return own
        found: dict[str, click.Command] = {c.name: c for e in extensions() for c in e.commands}
        if name in ELSEWHERE and name not in found:
            raise click.ClickException(
                f"`regretless {name}` belongs to the distribution regretless-bench, which is not installed: "
                f"{INSTALL_BENCH}"
            )
        return found.get(name)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as help_text:
            click.echo(help_text.format_message())
            sys.exit(2)
        except click.ClickException as error:
            message, code = error.format_message(), 2
        except click.Abort:
            message, code = "interrupted", INTERRUPTED
        except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
            message, code = str(error), 2
        else:
            sys.exit(code if isinstance(code, int) else 0)
        click.echo(f"regretless: {masked(' '.join(message.split()))}", err=True)
        sys.exit(code)


@functools.cache
def extensions() -> tuple[Any, ...]:
    """The extensions that are installed: objects with `commands`, a list of click commands, `listed()`, sections of
    `regretless list`, and `report(folder)`, which writes the page of a folder and returns its path."""
    return tuple(found.load() for found in importlib.metadata.entry_points(group=EXTENSIONS))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="regretless")
def main() -> None:
    """Black-box optimisation that says how much regret may be left, and when to stop.

    \b
    Example:
      regretless tune train.py:objective --space space.toml --trials 80
    """


@main.command("list")
def list_everything() -> None:
    """Shows the methods with when to use each, the defaults first; then what else there is, one line each.

    \b
    Example:
      regretless list
    """
    others = {name: _summary(entry) for name, entry in {**METHODS, **CLASSICS}.items() if name not in USES}
    sections = [("methods, and when to use them", USES), ("classics, and what the papers print", others)]
    for title, entries in (section for extension in extensions() for section in extension.listed()):
        sections.append((title, {name: _summary(entry) for name, entry in entries.items()}))
    for title, lines in sections:
        click.echo(click.style(title, bold=True))
        for name, line in lines.items():
            click.echo(f"  {name:<24} {line}")


def _summary(entry: Any) -> str:
    """The first line on a method or problem; where a library that it needs is missing, how to install that."""
    try:
        return str(entry.summary)
    except ImportError as error:
        return f"({error})"


TOML = """
\b
A space.toml has one table per parameter:
  [lr]
  type = "float"
  low = 1e-5
  high = 1e-1
  log = true

\b
  [layers]
  type = "int"
  low = 1
  high = 6

\b
  [act]
  type = "choice"
  labels = ["relu", "tanh"]

\b
Examples:
  regretless tune train.py:objective --space space.toml --trials 80 --checkpoint run.npz --report run.html
  regretless tune train.py:objective --space space.toml --trials 80 --storage sqlite:///study.db --workers 4
"""
"""The end of `regretless tune --help`."""
STORAGES = "sqlite:///FILE, postgresql://..., journal:FILE or grpc://HOST:PORT"
"""How a storage is written, for the help texts."""
SOME_FILE, NEW_FILE = click.Path(exists=True, dir_okay=False), click.Path(dir_okay=False)
"""What options of files take: one that must be there, and one that may be."""
COUNT, POSITIVE = click.IntRange(1), click.FloatRange(0, min_open=True)
"""What options of numbers take: whole ones of at least 1, and any above 0."""


@main.command(epilog=TOML)
@click.argument("objective", metavar="FILE.py:FUNCTION")
@click.option("--space", "space_file", required=True, type=SOME_FILE, help="TOML file with one table per parameter.")
@click.option("--trials", required=True, type=COUNT, help="Evaluations in all.")
@click.option("--method", default="auto", show_default=True, help="A name from `regretless list`.")
@click.option("--maximize", is_flag=True, help="Look for the largest value instead of the smallest.")
@click.option("--seed", type=click.IntRange(0), help="Makes the run repeatable.")
@click.option("--jobs", default=1, show_default=True, type=COUNT, help="Evaluations at once.")
@click.option("--checkpoint", type=NEW_FILE, help="File to write after every evaluation and to resume from.")
@click.option("--timeout", type=POSITIVE, help="Seconds after which no new evaluation starts.")
@click.option("--until-gap", type=POSITIVE, help="Stop once the certified regret is at most this; brings --probes 0.2.")
@click.option("--constraints", default=0, type=click.IntRange(0), help="Constraints that FUNCTION returns (Value).")
@click.option("--earlier", help="Earlier evaluations: a checkpoint, a CSV or an Optuna storage.")
@click.option(
    "--until-share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Stop once at most this share of the space is proven to be better.",
)
@click.option("--until-value", type=float, help="Stop once a value is at least this good.")
@click.option("--until-stalled", type=COUNT, help="Stop after so many trials without an improvement.")
@click.option("--until-seconds", type=POSITIVE, help="Stop after so many seconds, those of earlier sessions included.")
@click.option("--until-cost", type=POSITIVE, help="Stop once the costs that FUNCTION returns (Value) come to this.")
@click.option("--floor", type=float, help="A value that no setting can fall below, known beforehand.")
@click.option("--ceiling", type=float, help="A value that no setting can exceed, with --maximize.")
@click.option("--noise-bound", type=POSITIVE, help="How far noise can carry a value from the truth at most.")
@click.option(
    "--probes", type=click.FloatRange(0, 1), help="Share of the trials that are uniform draws, to certify a share."
)
@click.option("--report", type=NEW_FILE, help="Write an HTML page with the result.")
@click.option("--storage", help=f"Keep the run in an Optuna storage and resume it: {STORAGES}.")
@click.option("--study", default="regretless", show_default=True, help="Name of the study in the storage.")
@click.option("--workers", default=1, show_default=True, type=COUNT, help="Processes that share the study.")
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
    constraints: int,
    earlier: str | None,
    floor: float | None,
    ceiling: float | None,
    noise_bound: float | None,
    probes: float | None,
    report: str | None,
    storage: str | None,
    study: str,
    workers: int,
    **until: Any,
) -> None:
    """Tunes a function of a Python file.

    FUNCTION is called with one keyword argument per parameter of the space and returns a number. With --storage the run
    lives in an Optuna study: it resumes where it stopped, and further workers, here or on other machines, join it by
    the same command.
    """
    import regretless

    if (floor if maximize else ceiling) is not None:
        raise click.UsageError("--floor bounds a minimisation, --ceiling goes with --maximize")
    if report is not None:  # better now than after the last evaluation
        check_page_name(report)
        check_writable(report)
    stop = stop_rule(**{option.removeprefix("until_"): limit for option, limit in until.items()})
    common: dict[str, Any] = {"trials": trials, "method": method, "seed": seed, "timeout": timeout, "stop": stop}
    common |= {"probes": probes, "floor": floor, "ceiling": ceiling, "noise_bound": noise_bound}
    if storage is None and (study, workers) != ("regretless", 1):
        raise click.UsageError("--study and --workers need --storage; --jobs runs evaluations in threads without one")
    if storage is None:
        search = regretless.maximize if maximize else regretless.minimize
        with traced(objective):
            result = search(
                load_function(objective), space_file, n_jobs=jobs, checkpoint=checkpoint, constraints=constraints,
                earlier=earlier, **common,
            )  # fmt: skip
        interrupted = result.message.startswith("interrupted")
    else:
        if checkpoint is not None or jobs != 1:
            raise click.UsageError("--storage keeps the run: leave out --checkpoint, and use --workers for --jobs")
        if constraints or earlier is not None:
            raise click.UsageError("a study learns constraints from its trials and has its own past: leave out these")
        common |= {"workers": workers, "direction": "maximize" if maximize else "minimize"}
        result, interrupted = tuned_in_storage(objective, space_file, storage, study, common)
    click.echo(str(result))
    if storage is not None:
        click.echo(f"to look at it: pip install optuna-dashboard; optuna-dashboard {masked(storage)}")
    if report is not None:
        click.echo(f"report: {result.report(report)}")
    if interrupted:
        if storage is not None or checkpoint is not None:
            click.echo("interrupted; the same command goes on from here", err=True)
        sys.exit(INTERRUPTED)
    if not any(trial.value is not None for trial in result.trials):
        sys.exit(1)


def tuned_in_storage(
    objective: str, space_file: str, storage: str, study: str, options: Mapping[str, Any]
) -> tuple[Result, bool]:
    """The result of a study after a run on it, and whether the run was interrupted."""
    runner = optional("regretless.doors.optuna.runner", "optuna")
    exporter = optional("regretless.doors.optuna.export", "optuna")
    interrupted = False
    with traced(objective):
        try:
            tuned = runner.tune_in_storage(
                load_function(objective), space_file, storage=storage, study=study, **options
            )
        except KeyboardInterrupt:
            tuned, interrupted = exporter.find_study(storage, study), True
    if interrupted and not any(t.state.name == "COMPLETE" for t in tuned.get_trials(deepcopy=False)):
        raise click.Abort
    return exporter.result_of_study(tuned), interrupted


def stop_rule(
    gap: float | None,
    share: float | None,
    value: float | None,
    stalled: int | None,
    seconds: float | None = None,
    cost: float | None = None,
) -> Any:
    """The rule that the --until options ask for: --until-gap and --until-share together, either of the others."""
    from regretless import GapBelow, StopWhen

    proven = GapBelow(gap, share=share) if gap is not None or share is not None else None
    asked = {"target": value, "no_improvement": stalled, "seconds": seconds, "cost": cost}
    plain = StopWhen(**asked) if any(limit is not None for limit in asked.values()) else None  # type: ignore[arg-type]
    return proven | plain if proven is not None and plain is not None else proven or plain


@main.command()
@click.argument("study")
@click.option("--storage", required=True, help=f"{STORAGES}.")
@click.option("--out", type=click.Path(file_okay=False), help="Folder to write to; the study's name when not given.")
def export(study: str, storage: str, out: str | None) -> None:
    """Writes a study of any Optuna storage as CSV, JSON and an HTML page.

    \b
    Example:
      regretless export mine --storage sqlite:///study.db --out mine
    """
    exporter = optional("regretless.doors.optuna.export", "optuna")
    for path in exporter.export_study(storage, study, out or study):
        click.echo(path)


@main.command()
@click.argument("source", metavar="SOURCE")
@click.option("--study", help="Name of the study, where the storage has several.")
@click.option("--out", type=NEW_FILE, help="The page to write; by default beside the source, or named like the study.")
def report(source: str, study: str | None, out: str | None) -> None:
    """Writes one HTML page of a run, a study or a comparison.

    SOURCE is a checkpoint of `tune` or `minimize`, or a file of `Result.to_json`; an Optuna storage, with studies of
    any sampler (sqlite:///FILE, postgresql://..., journal:FILE, or the path of an SQLite file); or a folder of
    `bench run` or `reproduce`.

    \b
    Examples:
      regretless report run.npz
      regretless report sqlite:///study.db --study mine --out mine.html
      regretless report runs/first
    """
    from regretless.files.earlier import is_database
    from regretless.optimizer import Optimizer

    if Path(source).is_dir():
        if out is not None or study is not None:
            raise click.UsageError("a folder has its page inside: leave out --out and --study")
        if not extensions():
            raise click.ClickException(f"pages of folders need the distribution regretless-bench: {INSTALL_BENCH}")
        for extension in extensions():
            click.echo(extension.report(Path(source)))
        return
    if "://" in source or source.startswith("journal:") or is_database(Path(source)):
        storage = f"sqlite:///{source}" if is_database(Path(source)) else source
        exporter = optional("regretless.doors.optuna.export", "optuna")
        found = exporter.find_study(storage, study)
        click.echo(exporter.result_of_study(found).report(out or f"{Path(found.study_name).name}.html"))
        return
    if study is not None:
        raise click.UsageError("--study names a study of a storage; this is a file of one run")
    if not Path(source).is_file():
        raise click.UsageError(f"there is no file, folder or storage {source}")
    if Path(source).suffix == ".json":
        result = Result.from_json(source)
    else:
        result = Result.of(Optimizer.load(source), f"as the checkpoint {Path(source).name} has it", success=True)
    click.echo(result.report(out or Path(source).with_suffix(".html")))


@contextmanager
def traced(target: str) -> Iterator[None]:
    """Shows where in the file of "FILE.py:FUNCTION" an error arose: its line alone would not say."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = lambda message, *_: click.echo(f"regretless: {message}", err=True)
            yield
    except ObjectiveError as error:
        _, found, where = error.error.partition(f'  File "{Path(target.rpartition(":")[0]).resolve()}"')
        click.echo(f"{found}{where}".rstrip().rpartition("\n")[0], err=True)
        raise click.ClickException(f"{target}: {error.message}") from error
    except Exception as error:
        frames, file = traceback.extract_tb(error.__traceback__), Path(target.rpartition(":")[0]).resolve()
        first = next((i for i, frame in enumerate(frames) if Path(frame.filename).resolve() == file), None)
        if first is None:
            raise
        click.echo("".join(traceback.format_list(frames[first:])), err=True, nl=False)
        raise click.ClickException(f"{target} raised {type(error).__name__}: {error}") from error


# ---------------------------------------------------------------- functions of files


class FileFunction:
    """A function of a file whose name belongs to another module: other processes load it from the file again."""

    def __init__(self, target: str, function: Callable[..., Any]) -> None:
        self._target, self._function = target, function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return load_function, (self._target,)


def load_function(target: str) -> Callable[..., Any]:
    """The function of a "FILE.py:FUNCTION" text.

    The file becomes a module under its own name, which other processes can import. Where that name belongs to another
    module already (types.py, say), the file gets a name of its own and the function pickles as a `FileFunction`.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise ValueError(f"the objective must be written FILE.py:FUNCTION, got {target!r}")
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"there is no file {file}")
    taken = _is_taken(path)
    if taken:  # processes that start in its folder must not find it under the name of the other module either
        os.environ["PYTHONSAFEPATH"] = "1"
    title = f"regretless_file_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    if str(path.parent) not in sys.path:  # files beside it can be imported; a taken name must not hide its owner
        sys.path.insert(len(sys.path) if taken else 0, str(path.parent))
    module = sys.modules[title] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ValueError(f"{file} is not valid Python: {error}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{file} has no function {name!r}")
    return FileFunction(f"{path}:{name}", function) if taken else function


def _is_taken(path: Path) -> bool:
    """Whether the name of a file belongs to a module from elsewhere, loaded or not."""
    module = sys.modules.get(path.stem)
    try:
        spec = importlib.util.find_spec(path.stem) if module is None else module.__spec__
    except (ImportError, ValueError):  # a module without a description of its own
        return True
    if spec is None:
        return module is not None
    return spec.origin is None or not Path(spec.origin).exists() or Path(spec.origin).resolve() != path
