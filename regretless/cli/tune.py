"""`regretless tune`: names become objects, objects are called; no logic here."""

from __future__ import annotations

import functools
import json
import operator
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from regretless.basics.extras import masked, optional
from regretless.basics.statefile import check_writable
from regretless.cli.group import COUNT, INTERRUPTED, NEW_FILE, POSITIVE, STORAGES, main
from regretless.cli.spaces import objective_option, objectives_named, space_of, space_options
from regretless.cli.target import is_function, load_function, spoken_warnings, traced
from regretless.run.evaluation import ObjectiveError
from regretless.run.result import Result, check_page_name
from regretless.serve.program import MEASURES, Program
from regretless.serve.words import summary
from regretless.space import Space

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
  regretless tune 'gcc -O{level} {flags} k.c -o k && ./k' --int level:0:3 --choice flags=,-march=native --trials 20
"""
"""The end of `regretless tune --help`."""


SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)
"""A share or a probability, neither 0 nor 1."""
PROGRAM_OPTIONS = (
    click.option("--shell", is_flag=True, help="Let a shell read the command, for pipes and redirections."),
    click.option("--measure", metavar="WHAT", help=f"What the command's value is: {MEASURES}; last when not given."),
    click.option("--stdin", is_flag=True, help="Give the command the setting as JSON on its standard input."),
    click.option("--trial-timeout", type=POSITIVE, help="Seconds after which an evaluation is ended, as a failure."),
    click.option(
        "--folders", type=click.Path(file_okay=False), help="Run each evaluation in a folder of its own here."
    ),
    click.option(
        "--repeat",
        default=1,
        type=COUNT,
        help="Calls of the function, or runs of the last command, for a value: the mean.",
    ),
    click.option("--copy", multiple=True, type=click.Path(exists=True), help="File to copy into each of the folders."),
)
"""What says how a command is run; the rest of `tune` is the same for both kinds of objectives."""


def program_options(command: Any) -> Any:
    """Adds the options of objectives that are commands."""
    for option in reversed(PROGRAM_OPTIONS):
        command = option(command)
    return command


@main.command(epilog=TOML)
@click.argument("objective", metavar="FILE.py:FUNCTION|COMMAND")
@space_options
@click.option("--trials", required=True, type=COUNT, help="Evaluations in all.")
@click.option("--method", default="auto", show_default=True, help="A name from `regretless list`.")
@click.option("--maximize", is_flag=True, help="Look for the largest value instead of the smallest.")
@click.option("--seed", type=click.IntRange(0), help="Makes the run repeatable.")
@click.option("--jobs", default=1, show_default=True, type=COUNT, help="Evaluations at once.")
@click.option("--checkpoint", type=NEW_FILE, help="File to write after every evaluation and to resume from.")
@click.option("--timeout", type=POSITIVE, help="Seconds after which no new evaluation starts.")
@click.option("--until-gap", type=POSITIVE, help="Stop once the certified regret is at most this; brings --probes 0.2.")
@click.option("--constraints", default=0, type=click.IntRange(0), help="Constraints that come with every value.")
@objective_option
@click.option("--noisy/--exact", default=None, help="Values are noisy, or are not; without it noise has to show.")
@click.option("--cost", type=click.Choice(["told", "seconds"]), help="Weigh proposals by what evaluations cost.")
@click.option("--earlier", help="Earlier evaluations: a checkpoint, a CSV or an Optuna storage.")
@click.option(
    "--until-share",
    type=SHARE,
    help="Stop once at most this share of the space is proven to be better.",
)
@click.option("--until-value", type=float, help="Stop once a value is at least this good.")
@click.option("--until-stalled", type=COUNT, help="Stop after so many trials without an improvement.")
@click.option("--until-seconds", type=POSITIVE, help="Stop after so many seconds, those of earlier sessions included.")
@click.option("--until-cost", type=POSITIVE, help="Stop once the costs that are told come to this.")
@click.option("--until-gain", type=POSITIVE, help="Stop once 20 more trials gain less than this, with a chance of 0.9.")
@click.option("--until-noise", is_flag=True, help="The same with the measurement error of the values.")
@click.option("--in-trials", type=COUNT, help="How many more trials these two look ahead, in place of 20.")
@click.option("--chance", type=SHARE, help="How sure they must be, in place of 0.9.")
@click.option("--per-unit", type=POSITIVE, help="What it is worth that the value is better by one.")
@click.option("--per-trial", type=POSITIVE, help="What a trial costs: stop once trials cost more than they bring.")
@click.option("--per-hour", type=POSITIVE, help="The same by what an hour of evaluations costs.")
@click.option("--floor", type=float, help="A value that no setting can fall below, known beforehand.")
@click.option("--ceiling", type=float, help="A value that no setting can exceed, with --maximize.")
@click.option("--noise-bound", type=POSITIVE, help="How far noise can carry a value from the truth at most.")
@click.option(
    "--probes", type=click.FloatRange(0, 1), help="Share of the trials that are uniform draws, to certify a share."
)
@program_options
@click.option("--report", type=NEW_FILE, help="Write an HTML page with the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.option("--storage", help=f"Keep the run in an Optuna storage and resume it: {STORAGES}.")
@click.option("--study", default="regretless", show_default=True, help="Name of the study in the storage.")
@click.option("--workers", default=1, show_default=True, type=COUNT, help="Processes that share the study.")
def tune(objective: str, maximize: bool, report: str | None, as_json: bool, **options: Any) -> None:
    """Tunes a function of a Python file, or any command.

    FUNCTION is called with one keyword argument per parameter of the space and returns a number. In a COMMAND, {name}
    takes the value of a parameter, && joins commands, and the last line that is printed is the value. With --storage
    the run lives in an Optuna study: it resumes where it stopped, and further workers, here or on other machines, join
    it by the same command.
    """
    if options["floor" if maximize else "ceiling"] is not None:
        raise click.UsageError("--floor bounds a minimisation, --ceiling goes with --maximize")
    if report is not None:  # better now than after the last evaluation
        check_page_name(report)
        check_writable(report)
    described = {name: options.pop(name) for name in ("space_file", "floats", "ints", "choices")}
    space = space_of(**described)
    if space is None:
        raise click.UsageError("the parameters are missing: give --space, --int, --float or --choice")
    with traced(objective):
        options |= objectives_named(options["objectives"], maximize)
        of_programs = {name: options.pop(name) for name in OF_PROGRAMS}
        options["repeat"] = 1
        if is_function(objective):  # a program repeats its last command alone
            options["repeat"], of_programs["repeat"] = of_programs["repeat"], 1
        function = objective_of(objective, space, of_programs, list(options["objectives"] or ()))
    until = {name: options.pop(name) for name in list(options) if name.startswith("until_") or name in OF_RULES}
    kept = options["storage"] or options["checkpoint"]
    with ended_by_signals(function) if isinstance(function, Program) else traced(objective):
        result, interrupted = run(function, space, maximize, {**options, "stop": stop_rule(until)})
    tell_user(result, options["storage"], report, as_json)
    if interrupted:
        if kept:
            click.echo("interrupted; the same command goes on from here", err=True)
        sys.exit(INTERRUPTED)
    if not any(trial.value is not None for trial in result.trials):
        sys.exit(1)


OF_PROGRAMS = ("shell", "measure", "stdin", "trial_timeout", "folders", "copy", "repeat")
"""The options of objectives that are commands."""


def objective_of(
    target: str, space: Space, options: Mapping[str, Any], objectives: Sequence[str] = ()
) -> Callable[..., Any]:
    """The function of a FILE.py:FUNCTION text, or the program of any other one."""
    if is_function(target):
        given = [name for name, value in options.items() if value and (name, value) != ("repeat", 1)]
        if given:
            raise click.UsageError(f"--{given[0].replace('_', '-')} is for commands, and {target} is a function")
        return load_function(target)
    absent = [name for name in space.names if f"{{{name}" not in target]
    if len(absent) < len(space.names) and not (options["stdin"] or options["folders"]):
        for name in absent:
            click.echo(f"{{{name}}} is not in the command; the program can read REGRETLESS_{name}", err=True)
    return Program(
        target, space, shell=options["shell"], measure=options["measure"] or "last", stdin=options["stdin"],
        timeout=options["trial_timeout"], folders=options["folders"], copy=options["copy"], repeat=options["repeat"],
        objectives=objectives,
    )  # fmt: skip


def run(function: Callable[..., Any], space: Space, maximize: bool, options: dict[str, Any]) -> tuple[Result, bool]:
    """The result of a run, and whether it was interrupted."""
    import regretless

    own = {
        name: options.pop(name)
        for name in ("constraints", "cost", "earlier", "jobs", "checkpoint", "objectives", "reference", "repeat")
    }
    storage, study, workers = (options.pop(name) for name in ("storage", "study", "workers"))
    if storage is None:
        if (study, workers) != ("regretless", 1):
            raise click.UsageError("--study and --workers need --storage; --jobs runs evaluations in threads without")
        search = regretless.maximize if maximize else regretless.minimize
        result = search(function, space, n_jobs=own.pop("jobs"), **own, **options)
        return result, result.message.startswith("interrupted")
    if own["checkpoint"] is not None or own["jobs"] != 1:
        raise click.UsageError("--storage keeps the run: leave out --checkpoint, and use --workers for --jobs")
    if own["repeat"] > 1:
        raise click.UsageError("--repeat of a function is for runs without --storage")
    if own["constraints"] or own["earlier"] is not None or own["cost"] is not None:
        raise click.UsageError("a study learns constraints and costs from its trials and has its own past: leave these")
    options |= {"direction": "maximize" if maximize else "minimize", "objectives": own["objectives"]}
    options["reference"] = own["reference"]
    return tuned_in_storage(function, space, storage, study, options | {"workers": workers})


def tell_user(result: Result, storage: str | None, report: str | None, as_json: bool) -> None:
    """Prints a result, and writes its page."""
    page = None if report is None else result.report(report)
    if as_json:
        click.echo(json.dumps(summary(result) | ({} if page is None else {"report": str(page)})))
        return
    click.echo(str(result))
    if storage is not None:
        click.echo(f"to look at it: pip install optuna-dashboard; optuna-dashboard {masked(storage)}")
    if page is not None:
        click.echo(f"report: {page}")


@contextmanager
def ended_by_signals(program: Program) -> Iterator[None]:
    """Ends what a program is running when this process is to end: its groups get no signal from a terminal."""

    def end(*_: object) -> None:
        program.end()
        raise KeyboardInterrupt

    known = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, end) for number in known}
    try:
        with spoken_warnings():
            yield
    except ObjectiveError as error:
        raise click.ClickException(error.message) from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tuned_in_storage(
    function: Callable[..., Any], space: Space, storage: str, study: str, options: Mapping[str, Any]
) -> tuple[Result, bool]:
    """The result of a study after a run on it, and whether the run was interrupted."""
    runner = optional("regretless.doors.optuna.runner", "optuna")
    exporter = optional("regretless.doors.optuna.export", "optuna")
    interrupted = False
    try:
        tuned = runner.tune_in_storage(function, space, storage=storage, study=study, **options)
    except KeyboardInterrupt:
        tuned, interrupted = exporter.find_study(storage, study), True
    if interrupted and not any(t.state.name == "COMPLETE" for t in tuned.get_trials(deepcopy=False)):
        raise click.Abort
    return exporter.result_of_study(tuned), interrupted


OF_RULES = ("in_trials", "chance", "per_unit", "per_trial", "per_hour")
"""The options of stop rules whose names do not begin with --until."""


def stop_rule(given: Mapping[str, Any]) -> Any:
    """The rule that the options ask for: --until-gap and --until-share together, or any of the others."""
    from regretless import GapBelow, StopWhen, Worth

    asked = {name.removeprefix("until_"): value for name, value in given.items() if value is not None}
    asked = {name: value for name, value in asked.items() if value is not False}
    proven: dict[str, Any] = {name: asked.pop(name) for name in ("gap", "share") if name in asked}
    worth = {name: asked.pop(name) for name in OF_RULES[2:] if name in asked}
    words = {"value": "target", "stalled": "no_improvement", "gain": "gain_below", "noise": "below_noise"}
    plain = {words.get(name, name): value for name, value in asked.items()}
    if worth and ("per_unit" not in worth or len(worth) != 2):  # a worth and one price
        raise click.UsageError("--per-unit, what a value better by one is worth, goes with --per-trial or --per-hour")
    rules = [rule(**options) for rule, options in ((GapBelow, proven), (StopWhen, plain), (Worth, worth)) if options]
    return functools.reduce(operator.or_, rules) if rules else None
