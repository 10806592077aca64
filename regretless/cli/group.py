"""The group of all commands: how they answer bad input, and where further ones come from."""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from typing import Any

import click

from regretless import __version__
from regretless.basics.extras import masked

EXTENSIONS = "regretless.commands"
"""The group of entry points by which other distributions, such as regretless-bench, add commands."""
ELSEWHERE = ("bench", "reproduce", "data")
"""Commands of regretless-bench, named so that they can be answered for where it is not installed."""
INSTALL_BENCH = "in a source checkout, pip install ./bench"
"""How the second distribution is installed."""
INTERRUPTED = 130
"""The exit code of a command that was ended by Ctrl-C, as shells have it: 128 and the number of the signal."""


STORAGES = "sqlite:///FILE, postgresql://..., journal:FILE or grpc://HOST:PORT"
"""How a storage is written, for the help texts."""
SOME_FILE, NEW_FILE = click.Path(exists=True, dir_okay=False), click.Path(dir_okay=False)
"""What options of files take: one that must be there, and one that may be."""
COUNT, POSITIVE = click.IntRange(1), click.FloatRange(0, min_open=True)
"""What options of numbers take: whole ones of at least 1, and any above 0."""


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
    """Tune anything that is costly to try, and know when to stop.

    \b
    Example:
      regretless tune train.py:objective --space space.toml --trials 80
    """
