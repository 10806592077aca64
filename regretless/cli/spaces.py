"""Spaces on a command line: `--int level:0:3 --float lr:1e-5:0.1:log --choice flags=,-O2`, a file, or both."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from regretless.cli.group import SOME_FILE
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int, Parameter
from regretless.space.spelling import named
from regretless.space.sweeps import is_sweep, read_sweep

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option("--space", "space_file", type=SOME_FILE, help="File of the parameters: TOML, or a W&B sweep."),
    click.option("--float", "floats", multiple=True, metavar="NAME:LOW:HIGH[:log]", help="A real number."),
    click.option("--int", "ints", multiple=True, metavar="NAME:LOW:HIGH[:log]", help="A whole number."),
    click.option("--choice", "choices", multiple=True, metavar="NAME=A,B,...", help="One of some labels."),
)
"""What describes a space; --choice takes commas as in a CSV file, or a JSON list where labels are numbers."""
objective_option = click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="NAME[:min|max[:REFERENCE]]",
    help="One of several objectives, by its name, and the value that it has to be better than to be of interest.",
)
"""What names several objectives."""


def objectives_named(texts: Sequence[str], maximize: bool) -> dict[str, Any]:
    """The options `objectives` and `reference` of those that were named; None: there is one, without a name."""
    found: dict[str, Any] = {}
    reference: dict[str, float] = {}
    for text in texts:
        name, way, least = (*text.split(":", 2), "", "")[:3]
        if way not in ("", "min", "max", "minimize", "maximize") or not name or name in found:
            raise click.UsageError(f"--objective is written NAME, NAME:min or NAME:max, each name once, got {text!r}")
        found[name] = "maximize" if way.startswith("max") or (maximize and not way) else "minimize"
        try:
            reference |= {name: float(least)} if least else {}
        except ValueError:
            raise click.UsageError(f"--objective {text}: the reference is a number, got {least!r}") from None
    if len(found) == 1:
        raise click.UsageError("--objective names one of several; a single one needs no name")
    return {"objectives": found or None, "reference": reference or None}


def space_options(command: Command) -> Command:
    """Adds the options that describe a space."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def space_of(
    space_file: str | None, floats: Sequence[str], ints: Sequence[str], choices: Sequence[str]
) -> Space | None:
    """The space that the options describe; None where none of them was given. Parameters of a file come first."""
    stored = None if space_file is None else Space(read_sweep(space_file) if is_sweep(space_file) else space_file)
    found: dict[str, Parameter] = {} if stored is None else dict(stored.parameters)
    parsed = [(_range, Float, text) for text in floats] + [(_range, Int, text) for text in ints]
    named_here = [read(kind, text) for read, kind, text in parsed] + [_choice(text) for text in choices]
    for name, parameter in named_here:
        if name in found:
            raise click.UsageError(f"there are two parameters {name!r}")
        found[name] = parameter
    if not named_here:
        return stored
    return Space(found, where=() if stored is None else stored.where)


def _range(kind: type[Float] | type[Int], text: str) -> tuple[str, Parameter]:
    """The parameter of NAME:LOW:HIGH[:log]; NAME:LOW:HIGH:step=0.5 has steps."""
    name, *parts = text.split(":")
    flag = f"--{kind.__name__.lower()}"
    options: dict[str, Any] = {}
    for part in parts[2:]:
        key, _, number = part.partition("=")
        if part == "log":
            options["log"] = True
        elif key == "step" and number:
            options["step"] = _number(number, flag, text)
        else:
            raise click.UsageError(f"{flag} takes :log or :step=NUMBER behind NAME:LOW:HIGH, got {text!r}")
    if not name or len(parts) < 2:
        raise click.UsageError(f"{flag} is written NAME:LOW:HIGH, such as {flag} level:0:3, got {text!r}")
    low, high = (_number(part, flag, text) for part in parts[:2])
    return name, named(name, lambda: kind(low, high, **options))


def _number(part: str, flag: str, text: str) -> Any:
    """A number as it was written: one without a point or an exponent is whole."""
    try:
        return int(part) if part.lstrip("+-").isdecimal() else float(part)
    except ValueError:
        raise click.UsageError(f"{flag} {text}: {part!r} is no number") from None


def _choice(text: str) -> tuple[str, Parameter]:
    name, equals, written = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--choice is written NAME=A,B,..., such as --choice act=relu,tanh, got {text!r}")
    try:
        labels = json.loads(written) if written.startswith("[") else next(csv.reader([written], strict=True), [""])
    except (ValueError, csv.Error, RecursionError) as error:
        raise click.UsageError(f"--choice {text}: {error}") from None
    return name, named(name, lambda: Choice(labels))
