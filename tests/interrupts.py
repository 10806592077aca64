"""Ctrl-C at a line of a call of an Optimizer: the call happened or it did not, and the run goes on as if nothing had
been."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import regretless as rg
from regretless.files.checkpoint import Checkpoint

SPACE = {
    "x": rg.Float(1e-3, 10.0, log=True),
    "y": rg.Float(-5, 15),
    "k": rg.Int(3, 9, step=2),
    "c": rg.Choice(["a", "z"]),
}
BEFORE, AFTER = 10, 2
"""Evaluations before the call, enough for a model, and after it."""


def value(params: dict[str, Any]) -> float:
    return (params["y"] - 1.0) ** 2 + params["k"] + params["x"] + (params["c"] == "z")


class Program:
    """A run whose last steps are calls of one kind; `call` makes it, `happened` says whether it did."""

    def __init__(self, kind: str, method: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder
        self.opt = rg.Optimizer(SPACE, method=method, seed=0, budget=40)
        for _ in range(BEFORE):
            trial = self.opt.ask()
            self.opt.tell(trial, value(trial.params))
        self.trial = self.opt.ask() if kind in ("tell", "forget", "fail") else None
        self.file = Checkpoint(folder / "run.npz")
        if kind == "grow":
            self.opt.save(self.file)
            trial = self.opt.ask()
            self.opt.tell(trial, value(trial.params))
        self.counts = self.now()

    def now(self) -> tuple[int, int, int]:
        book = self.opt.book
        return len(book.trials), len(book.ended), len(book.earlier)

    def call(self) -> None:
        setting = {"x": 0.5, "y": 2.5, "k": 5, "c": "z"}
        {
            "ask": lambda: self.opt.ask(),
            "ask 3": lambda: self.opt.ask(3),
            "tell": lambda: self.opt.tell(self.trial, value(self.trial.params)),
            "fail": lambda: self.opt.tell(self.trial, failed=True, error="it fell over"),
            "forget": lambda: self.opt.forget(self.trial),
            "adopt": lambda: self.opt.adopt(setting),
            "learn": lambda: self.opt.learn([(setting, 3.0), ({**setting, "y": 7.5}, 4.0)]),
            "save": lambda: self.opt.save(self.folder / "other.npz"),
            "grow": lambda: self.opt.save(self.file),
        }[self.kind]()

    @property
    def happened(self) -> bool:
        return self.now() != self.counts

    def rest(self) -> list[dict[str, Any]]:
        """Goes on, saves, and goes on from the file; returns all settings."""
        for trial in self.opt.pending:
            self.opt.tell(trial, value(trial.params))
        for _ in range(AFTER):
            trial = self.opt.ask()
            self.opt.tell(trial, value(trial.params))
        self.opt.save(self.file)
        loaded = rg.Optimizer.load(self.file.path)
        loaded.ask()
        return [t.params for t in loaded.trials]


def interrupted(call: Callable[[], None], line: int) -> str:
    """Interrupts a call at its so many-th line in this library; returns where, or "" when it has fewer lines."""
    seen, at = 0, ""

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen, at
        if "/regretless/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                sys.settrace(None)
                at = f"{frame.f_code.co_filename.rpartition('/regretless/')[2]}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return at


KINDS = ("ask", "ask 3", "tell", "fail", "forget", "adopt", "learn", "save", "grow")


def failures(kind: str, method: str, folder: Path, lines: Iterator[int]) -> list[str]:
    """What goes wrong when a call is interrupted at each of these lines, until it has no more."""
    whole = Program(kind, method, folder)
    whole.call()
    wanted, wrong = whole.rest(), []
    for line in lines:
        program = Program(kind, method, folder)
        at = interrupted(program.call, line)
        if not at:
            break
        try:
            if not program.happened and kind not in ("save", "grow"):
                program.call()
            if program.rest() != wanted:
                wrong.append(f"{at}: other points")
        except Exception as error:
            wrong.append(f"{at}: {type(error).__name__}: {error}")
    return wrong
