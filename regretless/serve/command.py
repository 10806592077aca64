"""Command lines with placeholders: `gcc -O{level} {flags} k.c -o k && ./k`.

A command is cut into words before any value is put in, so a value never becomes another word, another command or
anything that a shell would read. `&&` joins commands that run one after the other; nothing else that a shell knows has
a meaning. With a shell, values reach the command as variables, which a shell does not read again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

NAME = r"([A-Za-z_][\w.-]*)"  # of a parameter, as a placeholder can hold it
PLACEHOLDER, ESCAPED = re.compile(rf"\{{{NAME}(\*?)\}}"), re.compile(rf"\{{\{{{NAME}\}}\}}")
"""A parameter's name in braces, with a star where its value is cut into words; a name in two braces means the name in
one."""
FOR_SHELLS = re.compile(r"[|;<>()&`]|\$[\w({?@*#!$-]")
"""What means something to a shell outside of quotes; in double quotes the dollar and the backtick do."""
VARIABLE = "REGRETLESS_VALUE_"
"""What the variables of a shell command are called, followed by the place of the parameter in the setting."""


@dataclass(frozen=True)
class Slot:
    """The place of a value in a word; `split`: the value is cut at its blanks, and each part is a word."""

    name: str
    split: bool = False


@dataclass(frozen=True)
class Piece:
    """A part of a command line."""

    kind: Literal["text", "blank", "and", "shell", "slot"]
    raw: str
    """As it was written."""
    text: str = ""
    """What it means; nothing for a quotation mark."""
    slot: Slot = Slot("")
    quotes: str = ""
    """The quotation marks around it."""


Word: TypeAlias = tuple[str | Slot, ...]
Step: TypeAlias = tuple[Word, ...]


def steps_of(command: str, names: Collection[str]) -> tuple[Step, ...]:
    """The commands of a line that `&&` joins, each as its words; raises ValueError for what only a shell could do."""
    steps: list[list[Word]] = [[]]
    word: list[str | Slot] | None = None
    for piece in [*pieces_of(command, names), Piece("blank", "")]:
        if piece.kind == "shell":
            raise ValueError(f"the command has {piece.raw!r}, which only a shell understands: quote it, or add --shell")
        if piece.kind in ("text", "slot"):
            word = [*(word or []), piece.slot if piece.kind == "slot" else piece.text]
            continue
        if word is not None:
            steps[-1].append(tuple(word))
        if piece.kind == "and":
            steps.append([])
        word = None
    if not all(steps):
        raise ValueError(f"there is no command {'beside &&' if len(steps) > 1 else 'to run'} in {command!r}")
    for one in (word_ for step in steps for word_ in step):
        for part in one:
            if isinstance(part, Slot) and part.split and len(one) > 1:
                raise ValueError(f"{{{part.name}*}} gives several words, so it stands alone between blanks")
    return tuple(map(tuple, steps))


def filled(step: Step, texts: Mapping[str, str]) -> list[str]:
    """The words of a command with the values in their places. A word that is nothing but an empty value is left
    out."""
    words: list[str] = []
    for word in step:
        if len(word) == 1 and isinstance(word[0], Slot):
            text = texts[word[0].name]
            words += text.split() if word[0].split else [text] if text else []
        else:
            words.append("".join(texts[part.name] if isinstance(part, Slot) else part for part in word))
    return words


def shell_text(command: str, names: Sequence[str]) -> str:
    """The command for a shell, with references to variables (`shell_variables`) in place of the values."""
    out = ""
    for piece in pieces_of(command, names):
        if piece.kind != "slot":
            out += piece.text if piece.raw.startswith("{{") else piece.raw
            continue
        if piece.slot.split:
            raise ValueError(f"{piece.raw} is for commands without a shell; in one, write {{{piece.slot.name}}}")
        variable = f"{VARIABLE}{list(names).index(piece.slot.name)}"
        out += {
            "": f'${{{variable}:+"${variable}"}}',  # nothing at all where the value is empty
            '"': f"${{{variable}}}",
            "'": f"'\"${{{variable}}}\"'",
        }[piece.quotes]
    return out


def shell_variables(texts: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold the values of a setting."""
    return {f"{VARIABLE}{i}": text for i, text in enumerate(texts.values())}


def pieces_of(command: str, names: Collection[str]) -> Iterator[Piece]:
    """A command line in pieces, read as a shell would read its quotation marks and backslashes."""
    i, quotes = 0, ""
    while i < len(command):
        char, piece = command[i], None
        if quotes != "'":
            piece = _escape(command, i, quotes) or _braces(command, i, quotes, names) or _for_shells(command, i, quotes)
        elif (found := PLACEHOLDER.match(command, i)) and found[1] in names:
            piece = Piece("slot", found[0], slot=Slot(found[1], bool(found[2])), quotes=quotes)
        if piece is None and char in ("'", '"') and quotes in ("", char):
            quotes = "" if quotes else char
            piece = Piece("text", char)
        elif piece is None:
            piece = Piece("blank" if not quotes and char.isspace() else "text", char, char)
        yield piece
        i += len(piece.raw)
    if quotes:
        raise ValueError(f"the quotation mark {quotes} in the command {command!r} is not closed")


def _escape(command: str, i: int, quotes: str) -> Piece | None:
    if command[i] != "\\" or i + 1 == len(command):
        return None
    raw = command[i : i + 2]
    return Piece("text", raw, raw[1] if not quotes or raw[1] in '"\\$`' else raw)


def _braces(command: str, i: int, quotes: str, names: Collection[str]) -> Piece | None:
    if command[i] != "{" or command[i - 1 : i] == "$":  # a shell's own variable
        return None
    if found := ESCAPED.match(command, i):
        return Piece("text", found[0], f"{{{found[1]}}}")
    if not (found := PLACEHOLDER.match(command, i)):
        return None
    if found[1] not in names:
        known = ", ".join(names)
        raise ValueError(f"{found[0]} names no parameter (there are {known}); {{{found[0]}}} means the text itself")
    return Piece("slot", found[0], slot=Slot(found[1], bool(found[2])), quotes=quotes)


def _for_shells(command: str, i: int, quotes: str) -> Piece | None:
    if not quotes and command.startswith("&&", i):
        return Piece("and", "&&")
    found = FOR_SHELLS.match(command, i)
    if found and (not quotes or found[0][0] in "$`"):
        return Piece("shell", found[0][0])
    home = not quotes and command[i] == "~" and (i == 0 or command[i - 1].isspace())
    return Piece("shell", "~") if home else None
