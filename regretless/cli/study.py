"""`regretless ask`, `tell`, `best`, `outlook` and `verify`: a run that its user evaluates elsewhere, in a file or as a
study of an Optuna storage."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from regretless.basics.extras import optional
from regretless.cli.group import COUNT, POSITIVE, SOME_FILE, STORAGES, main
from regretless.cli.spaces import objective_option, objectives_named, space_of, space_options
from regretless.optimizer import Optimizer
from regretless.run.result import Result
from regretless.serve.logs import shelf_at
from regretless.serve.sheets import sheet_of, tell_sheet
from regretless.serve.study import Study, ToldValue, begin
from regretless.serve.verify import verify as verified
from regretless.serve.verify import verify_study
from regretless.serve.words import outlook_json, summary
from regretless.trial import Trial

STORAGE = click.option("--storage", help=f"The Optuna storage of STUDY, which is then a name: {STORAGES}.")
"""An option of every command of this file: where the run is, when it is in no file."""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
"""An option of every command of this file."""


@main.command()
@click.argument("study", metavar="FILE|STUDY")
@STORAGE
@click.option("-n", "n", default=1, show_default=True, type=COUNT, help="How many settings.")
@space_options
@click.option("--method", default="auto", help="A name from `regretless list`, for a run that begins.")
@click.option("--maximize", is_flag=True, help="Look for the largest value, in a run that begins.")
@click.option("--budget", type=COUNT, help="Evaluations planned, in a run that begins.")
@click.option("--seed", type=click.IntRange(0), help="Makes a run that begins repeatable.")
@click.option("--constraints", default=0, type=click.IntRange(0), help="Constraints that come with every value.")
@objective_option
@click.option("--cost", type=click.Choice(["told", "seconds"]), help="Costs that come with every value.")
@click.option("--client", default="", help="Who evaluates them: the same client is given its open settings again.")
@click.option("--fixed", multiple=True, metavar="NAME=VALUE", help="A value to propose the others for.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a sheet to fill in, for `tell --csv`.")
@AS_JSON
def ask(
    study: str,
    storage: str | None,
    n: int,
    maximize: bool,
    client: str,
    fixed: Sequence[str],
    as_csv: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Prints the next settings to evaluate. With a description of the parameters it begins the run where there is none.

    \b
    Examples:
      regretless ask lab.npz --float ph:4:9 --int minutes:5:60 --maximize
      regretless ask lab.npz -n 8 --csv > sheet.csv
    """
    seeded = options["seed"] is not None
    with opened(study, storage, _fresh(options, maximize), seeded=seeded) as run:
        trials = run.ask(n, client, _settings(run.optimizer, fixed))
        run.commit()
        if as_csv:
            click.echo(sheet_of(run, trials), nl=False)
            return
        for trial in trials:
            facts = run.trial_json(trial)
            click.echo(json.dumps(facts) if as_json else _line(trial))


@contextmanager
def opened(study: str, storage: str | None, fresh: Optimizer | None = None, *, seeded: bool = True) -> Iterator[Study]:
    """The run of a file, or of a storage, to write to."""
    if storage is None:
        with Study(study, fresh, seeded=seeded) as run:
            yield run
        return
    # 10.0: how long a command waits for another one that writes to the same run
    shelf = shelf_at(storage, 10.0)
    try:
        yield Study(shelf.log(study), fresh, seeded=seeded)
    finally:
        shelf.close()


def stored(study: str, storage: str | None) -> Optimizer:
    """The run of a file, or of a storage, to look at; there it may be anybody's study."""
    if storage is not None:
        found: Optimizer = optional("regretless.doors.optuna.log", "optuna").run_of(storage, study)
        return found
    if not Path(study).is_file():
        raise ValueError(f"there is no file {study}; a study of an Optuna storage is named with --storage URL")
    return Optimizer.load(study)


def has_run(storage: str, study: str) -> bool:
    """Whether a study of a storage was asked and told by `ask`, `tell` or the service."""
    found: bool = optional("regretless.doors.optuna.log", "optuna").has_run(storage, study)
    return found


def _fresh(options: dict[str, Any], maximize: bool) -> Optimizer | None:
    """The run that the options describe, if they describe one."""
    space = space_of(*(options.pop(name) for name in ("space_file", "floats", "ints", "choices")))
    if space is None:
        return None
    options |= objectives_named(options["objectives"], maximize)
    return begin(space, direction="maximize" if maximize else "minimize", **options)


def _line(trial: Trial) -> str:
    return f"{trial.number}: " + ", ".join(f"{name} = {value!r}" for name, value in trial.params.items())


def _settings(optimizer: Optimizer, given: Sequence[str]) -> dict[str, Any] | None:
    """A setting, or a part of one, of NAME=VALUE texts: numbers and labels as the space has them."""
    out: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name not in optimizer.space.parameters:
            names = ", ".join(optimizer.space.names)
            raise click.UsageError(f"write NAME=VALUE with one of the parameters {names}, got {text!r}")
        out[name] = read_value(optimizer.space.parameters[name], value)
    return out or None


def read_value(parameter: Any, text: str) -> Any:
    """A value of a parameter as somebody wrote it."""
    labels = getattr(parameter, "labels", None)
    if labels is not None:
        return next((label for label in labels if str(label) == text), text)
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no number") from None


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("study", metavar="FILE|STUDY")
@STORAGE
@click.argument("numbers", nargs=-1, type=float, metavar="[NUMBER] [VALUE]...")
@click.option("--var", type=click.FloatRange(0), help="The variance of the noise in the value.")
@click.option(
    "--constraint", "constraints", multiple=True, type=float, help="The value of a constraint, in their order."
)
@click.option("--cost", type=float, help="What the evaluation cost.")
@click.option("--seconds", type=POSITIVE, help="How long it took.")
@click.option("--failed", is_flag=True, help="The evaluation failed.")
@click.option("--error", default="", help="Why it failed.")
@click.option("--again", is_flag=True, help="A second value of a setting that was told: a replicate.")
@click.option("--correct", is_flag=True, help="The value told before was wrong.")
@click.option("--withdraw", is_flag=True, help="Take back what was told, or give up a setting that will not be told.")
@click.option("--params", multiple=True, metavar="NAME=VALUE", help="A setting of your own, in place of a number.")
@click.option("--csv", "sheet", type=SOME_FILE, help="Tell what a sheet of `ask --csv` says.")
@AS_JSON
def tell(
    study: str,
    storage: str | None,
    numbers: Sequence[float],
    constraints: Sequence[float],
    failed: bool,
    error: str,
    again: bool,
    correct: bool,
    withdraw: bool,
    params: Sequence[str],
    sheet: str | None,
    as_json: bool,
    **facts: Any,
) -> None:
    """Tells the value of a setting that was asked; what is told is on the disk when the command ends.

    \b
    Examples:
      regretless tell lab.npz 3 0.82
      regretless tell lab.npz 4 --failed --error "it boiled over"
      regretless tell lab.npz 3 0.79 --again
      regretless tell lab.npz 3 0.28 --correct
      regretless tell lab.npz --params ph=5.5 --params minutes=30 0.64
      regretless tell lab.npz --csv sheet.csv
      regretless tell lab 3 0.82 --storage sqlite:///study.db
    """
    if sum((again, correct, withdraw)) > 1:
        raise click.UsageError("--again, --correct and --withdraw exclude each other")
    facts = {name: fact for name, fact in facts.items() if fact is not None}
    facts |= {"constraints": list(constraints)} if constraints else {}
    with opened(study, storage) as run:
        if sheet is not None:
            told = tell_sheet(run, sheet)
        else:
            own = _settings(run.optimizer, params)
            wanted = (own is None) + (not (failed or withdraw)) * len(run.optimizer.task.directions)
            if len(numbers) != wanted or not all(n.is_integer() for n in numbers[: own is None]):
                raise click.UsageError("tell takes the number of a setting and its value, or --failed, or --withdraw")
            number = int(numbers[0]) if own is None else run.optimizer.adopt(own).number
            values = numbers[own is None :]
            value = None if failed or withdraw else values if len(values) > 1 else values[0]
            told = [_told(run, number, value, {**facts, "error": error}, again, correct, withdraw)]
        run.commit()
        for trial in told:
            click.echo(json.dumps(run.trial_json(trial)) if as_json else _ended(trial))


def _told(
    run: Study, number: int, value: ToldValue, facts: dict[str, Any], again: bool, correct: bool, withdraw: bool
) -> Trial:
    """The trial that ends by what is told."""
    ended = 0 <= number < len(run.optimizer.trials) and run.optimizer.trials[number].state != "pending"
    if again:
        return run.repeat(number, value, **facts)
    if ended and (correct or withdraw):
        run.reopen(number)
    if withdraw:
        run.forget(number)
        return run.optimizer.trials[number]
    try:
        return run.tell(number, value, **facts)
    except ValueError as error:
        hint = ": --correct replaces it, --again adds a second value" if ended else ""
        raise click.UsageError(f"{error}{hint}") from None


def _ended(trial: Trial) -> str:
    state = "without a value" if trial.value is None else f"value {', '.join(map(repr, trial.values))}"
    return f"{trial.number}: {state}"


@main.command()
@click.argument("study", metavar="FILE|STUDY")
@STORAGE
@AS_JSON
def best(study: str, storage: str | None, as_json: bool) -> None:
    """Prints the recommended setting of a run, and what is known of it.

    \b
    Example:
      regretless best lab.npz --json
    """
    result = Result.of(stored(study, storage))
    click.echo(json.dumps(summary(result)) if as_json else str(result))
    if not any(t.value is not None for t in result.trials):
        sys.exit(1)


@main.command()
@click.argument("study", metavar="FILE|STUDY")
@STORAGE
@AS_JSON
def outlook(study: str, storage: str | None, as_json: bool) -> None:
    """Prints what can still be gained, as far as it is known.

    \b
    Example:
      regretless outlook lab.npz
    """
    found = outlook_json(stored(study, storage))
    click.echo(json.dumps(found) if as_json else found["words"])


@main.command()
@click.argument("study", metavar="FILE|STUDY")
@STORAGE
@click.option("--every", default=1, show_default=True, type=COUNT, help="Only every so many-th proposal.")
@AS_JSON
def verify(study: str, storage: str | None, every: int, as_json: bool) -> None:
    """Makes every proposal of a run anew and says how many are equal bit for bit. The exit code is 1 where one is not.

    \b
    Example:
      regretless verify run.npz
    """
    if storage is None or has_run(storage, study):
        found = verified(stored(study, storage), every=every)
    else:  # of a sampler's study
        found = verify_study(storage, study, every=every)
    click.echo(json.dumps(found.to_json()) if as_json else str(found))
    if found.different:
        sys.exit(1)
