"""`Checkpoint`: the file of a run that is being written to.

The file holds a whole state (`basics.statefile`) and behind it a line for each change since. A line is JSON, followed
by a digest of the state and all lines up to it, so adding a trial costs the same however long the run is. A kill in the
middle of a line leaves one without an end, which is as if it had never been begun. When the lines outgrow the state, a
new whole state replaces the file in one step.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regretless.basics.statefile import DIGEST_BYTES, StateError, pack, unpack_state, write_whole
from regretless.files.book import Book, Record
from regretless.files.codec import checked_handed, checked_seen, checked_units, own_params, trial_at
from regretless.method import Method
from regretless.task import Task
from regretless.trial import Trial

END_OF_STATE, AFTER = b"PK\x05\x06", 22 + 2 * DIGEST_BYTES
"""How the last record of a zip archive begins, and its bytes with the digest of the state as its comment. Lines are
text, so they never hold it."""
LINE_DIGEST = 2 * DIGEST_BYTES
"""Letters of the digest that ends a line."""
LEAST_LINES = 1 << 16
"""Bytes of lines that a file may always have before it is written anew: a small state would be rewritten at once."""


@dataclass(frozen=True)
class Position:
    """How much of a book a file holds, and how the file ends."""

    asked: int
    ended: int
    earlier: int
    probe_steps: int
    handed: int
    corrections: int
    record: dict[str, Any]
    whole: int
    """Bytes of the whole state."""
    size: int
    """Bytes of the file."""
    digest: str
    """The digest at its end."""


class Checkpoint:
    """The file of a run; it stays the same file when the process changes its folder.

    `lines` are the bytes of lines that it may always have before it is written anew.
    """

    def __init__(self, path: str | Path, *, lines: int = LEAST_LINES) -> None:
        self.path, self.lines = Path(os.path.abspath(path)), lines
        self._at: Position | None = None

    def write(self, state: Mapping[str, Any], book: Book) -> None:
        """Replaces the file by a whole state: completely or not at all, whenever the process is killed."""
        content = pack(state)
        write_whole(os.path.realpath(self.path), content)
        self._at = position(book, len(content), len(content), content[-LINE_DIGEST:].decode())

    def can_grow(self, book: Book) -> bool:
        """Whether a line can say what the file lacks of a book, and pays."""
        at = self._at
        if at is None or at.corrections != book.corrections or len(book.earlier) != at.earlier:
            return False
        return at.size - at.whole <= max(at.whole, self.lines)

    def growth(self, book: Book, task: Task, method: Method) -> Callable[[], None]:
        """What adds a line with what the file lacks of a book as it is now, to be called before the next growth is
        asked for; a line that cannot be written whole leaves no trace."""
        at = self._at
        assert at is not None, "can_grow comes first"
        change = change_since(at, book, task, method)
        if not change:
            return lambda: None
        text = json.dumps(change, separators=(",", ":")).encode()
        digest = chained(at.digest, text)
        line = text + digest.encode() + b"\n"
        after = position(book, at.whole, at.size + len(line), digest)

        def grow() -> None:
            append(self.path, at.size, line)
            self._at = after

        return grow

    def is_own(self) -> bool:
        """Whether the file still ends as this process left it, or is gone; else another process writes to it too. A
        last line without an end is what a killed writer left, and counts for nothing."""
        at = self._at
        if at is None:
            return True
        try:
            with open(self.path, "rb") as file:
                file.seek(max(at.size - LINE_DIGEST - 1, 0))
                tail = file.read()
        except OSError:
            return True
        own, beyond = tail[: LINE_DIGEST + 1], tail[LINE_DIGEST + 1 :]
        return own.rstrip(b"\n").endswith(at.digest.encode()) and b"\n" not in beyond

    def go_on_from(self, book: Book) -> None:
        """Says that a book was read from the file as it is, so that the next line goes on from there."""
        content = self.path.read_bytes()
        whole, lines = split(content)
        digest = lines[-1][1] if lines else content[whole - LINE_DIGEST : whole].decode()
        self._at = position(book, whole, lines[-1][2] if lines else whole, digest)


def position(book: Book, whole: int, size: int, digest: str) -> Position:
    """Where a file stands that holds all of a book."""
    counts = len(book.trials), len(book.ended), len(book.earlier), len(book.probe_steps), len(book.handed)
    return Position(*counts, book.corrections, asdict(book.record), whole, size, digest)


def append(path: Path, size: int, line: bytes) -> None:
    """Writes a line at this place of a file; what a killed writer left behind it goes, and so does what a full disk
    left of the line."""
    try:
        with open(path, "r+b") as file:
            file.truncate(size)
            file.seek(size)
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error


def chained(before: str, text: bytes) -> str:
    """The digest of a line behind what ends with the digest `before`."""
    return hashlib.blake2b(before.encode() + text, digest_size=DIGEST_BYTES).hexdigest()


# ---------------------------------------------------------------- reading


def read_run(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The whole state that a file holds, and the changes behind it; anything else raises StateError with one line."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a device may never end, and a pipe never begin
            raise StateError("it is no regular file")
        return unpack_run(Path(path).read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, StateError) as error:
        raise StateError(f"{path} is not a readable state file: {error}") from None


def unpack_run(content: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The same of the content of a file."""
    whole, lines = split(content)
    return unpack_state(content[:whole]), [change for change, _, _ in lines]


def split(content: bytes) -> tuple[int, list[tuple[dict[str, Any], str, int]]]:
    """The bytes of the whole state, and each line behind it: what it says, its digest and where it ends. A last line
    without an end was never written."""
    found = content.rfind(END_OF_STATE)
    whole = len(content) if found < 0 else min(found + AFTER, len(content))
    digest, at, lines = content[whole - LINE_DIGEST : whole].decode("latin-1"), whole, []
    while (end := content.find(b"\n", at)) >= 0:
        text, said = content[at : end - LINE_DIGEST], content[end - LINE_DIGEST : end].decode("latin-1")
        digest, at = chained(digest, text), end + 1
        if said != digest:
            raise StateError("the digest of a line is wrong, so it is damaged")
        try:
            change = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StateError(f"a line is no JSON: {error}") from None
        lines.append((change, digest, at))
    return whole, lines


# ---------------------------------------------------------------- changes


def change_since(at: Position, book: Book, task: Task, method: Method) -> dict[str, Any]:
    """What a book holds beyond a position, in plain values; empty where it holds nothing more."""
    record = {name: value for name, value in asdict(book.record).items() if value != at.record[name]}
    change = {
        "asked": [[t.unit.tolist(), own_params(t, task, method), t.seen] for t in book.trials[at.asked :]],
        "ended": [_ending(book.trials[n], n in book.forgotten) for n in book.ended[at.ended :]],
        "probe_steps": book.probe_steps[at.probe_steps :],
        "handed": book.handed[at.handed :],
        "record": record,
    }
    return {name: part for name, part in change.items() if part}


def _ending(trial: Trial, forgotten: bool) -> list[Any]:
    facts = [trial.number, trial.value, trial.var, list(trial.constraints), trial.cost, trial.seconds]
    return [*facts, list(trial.further), list(trial.further_var), trial.error, forgotten]


def apply_change(change: Mapping[str, Any], book: Book, task: Task, method: Method) -> None:
    """Adds to a book what a line says; raises ValueError where that is impossible."""
    for unit, own, seen in change.get("asked", ()):
        (u,) = checked_units([unit], method)
        decoded = task.space.decode(u, method.traits.choices)
        book.trials.append(trial_at(len(book.trials), u, own, decoded, task, method))
        book.trials[-1].seen = None if seen is None else checked_seen(seen)
    for number, *facts, error, forgotten in change.get("ended", ()):
        trial = book.trials[number]
        value, var, constraints, cost, seconds, further, further_var = facts
        numbers = [x for x in (value, var, cost, seconds, *constraints, *further, *further_var) if x is not None]
        if trial.state != "pending" or not all(isinstance(x, float) and math.isfinite(x) for x in numbers):
            raise ValueError(f"a line ends trial {number} in a way in which none ends")
        if len(further) != len(further_var) or len(further) != (len(task.directions) - 1) * (value is not None):
            raise ValueError(f"a line ends trial {number} with values of {1 + len(further)} objectives")
        trial.further, trial.further_var = tuple(further), tuple(further_var)
        trial.value, trial.var, trial.cost, trial.seconds = value, var, cost, seconds
        trial.constraints, trial.error = tuple(constraints), str(error)
        trial.state = "failed" if value is None else "done"
        book.ended.append(trial.number)
        if forgotten:
            book.forgotten.add(trial.number)
    book.probe_steps += [int(step) for step in change.get("probe_steps", ())]
    book.handed += checked_handed(change.get("handed", ()), len(book.trials))
    if "record" in change:
        book.record = Record.from_json(asdict(book.record) | change["record"])
