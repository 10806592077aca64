"""`regretless list`: the methods and what else there is."""

from __future__ import annotations

from typing import Any

import click

from regretless.classics import CLASSICS
from regretless.cli.group import extensions, main
from regretless.methods import METHODS

USES = {
    "auto": "the default: reads the values as they come, takes the search that suits them, and says why",
    "gp-ucb": "up to 20 parameters and 3,000 evaluations; its certificate can end the run",
    "gp-ei": "the same, and the better one of the two with whole numbers, steps, choices and many parameters",
    "cma-es": "thousands of cheap evaluations of up to 1,000 parameters",
    "neural-bo": "images, texts and pools, read by a trained net, yours if you like; on plain boxes take auto",
    "go-ucb": "10 to 200 evaluations when you give it the formula; without one it is gp-ei at first, so take that",
    "gp-threds": "thousands of cheap and noisy evaluations of 1 to 3 parameters",
    "ms-ucb": "20 to 5,000 parameters when an ask should move few of them; moving all at once found more",
    "bilevel": "training loops with checkpoints, by `minimize_bilevel`, whose schedule is what pays",
}
"""When to use which method, in the words of docs/explanation/choosing.md; what most people need stands first."""


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
