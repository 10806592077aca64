"""`Program`: any command as an objective.

    run = Program("gcc -O{level} k.c -o k && ./k", {"level": Int(0, 3)}, measure="time")
    result = minimize(run, run.space, trials=20)

Each evaluation runs the command in a process group of its own, which is ended as a whole when the time is up or the run
is interrupted. What the command prints, writes or takes is the value (`measure`).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from regretless.basics.options import in_range, whole_number
from regretless.run.evaluation import EvaluationError, Value
from regretless.serve.command import filled, shell_text, shell_variables, steps_of
from regretless.space import Space, SpaceLike
from regretless.space.parameters import Choice

MEASURES = "last, time, regex:PATTERN or file:PATH"
"""How `measure` is written, for messages."""
SHOWN = 2000
"""Letters of the end of an output that the error of a failed trial keeps."""
NAMED = ("value", "var", "constraints", "cost")
"""The entries of a JSON object that a command may print, beside those of its objectives; others are its own affair."""


class Program:
    """A command whose placeholders `{name}` take the values of a setting.

    Without a shell the command is cut into words before the values are put in, and `&&` joins commands; with `shell`
    the command is the shell's, and the values reach it as variables. Either way a value is only ever a value, whatever
    signs are in it. A word that is nothing but a placeholder vanishes where its value is empty; `{name*}` cuts a value
    at its blanks. A setting is in the environment too: REGRETLESS_PARAMS holds all of it as JSON, REGRETLESS_<name>
    each value.

    Args:
        command: the command line.
        space: the parameters.
        shell: whether a shell reads the command, for pipes and redirections.
        measure: what the value is. "last": the last line that the command prints, a number or a JSON object with
            "value" and perhaps "var", "constraints" and "cost". "time": the seconds that the last of the joined
            commands takes. "regex:PATTERN": the last match of the pattern's group in what it prints. "file:PATH": the
            last line of a file that it writes.
        stdin: whether the command reads the setting as JSON from its standard input.
        timeout: seconds after which an evaluation is ended, as a failure.
        folders: where each evaluation gets a folder of its own, 0, 1, 2, ...: the command runs inside it, and its
            setting and output stay there.
        copy: files and folders that are copied into it first.
        repeat: how often the last of the joined commands runs in an evaluation. The value is the mean, and the variance
            of the mean is told with it.
        objectives: the names of several objectives, which the command prints as entries of its JSON object.
    """

    def __init__(
        self,
        command: str,
        space: SpaceLike,
        *,
        shell: bool = False,
        measure: str = "last",
        stdin: bool = False,
        timeout: float | None = None,
        folders: str | Path | None = None,
        copy: tuple[str, ...] = (),
        repeat: int = 1,
        objectives: Sequence[str] = (),
    ) -> None:
        self.command, self.space, self.shell, self.stdin, self.timeout = command, Space(space), shell, stdin, timeout
        in_range("(0, inf) or None", timeout=timeout)
        whole_number(repeat=repeat)
        self.repeat, self.objectives = repeat, tuple(objectives)
        self.kind, self.detail = _checked_measure(measure)
        if self.kind == "time" and self.objectives:
            raise ValueError(f"the time is one value, and there are the objectives {', '.join(self.objectives)}")
        self.folders = None if folders is None else Path(folders).resolve()
        self.copy = tuple(Path(path).resolve() for path in copy)
        names = self.space.names
        self._steps = () if shell else steps_of(command, names)
        self._text = shell_text(command, names) if shell else ""
        _check_texts(self.space)
        if self.copy and self.folders is None:
            raise ValueError("copy= puts files into the folder of an evaluation: give folders= too")
        for path in self.copy:
            if not path.exists():
                raise ValueError(f"there is no file {path} to copy")
        self._running: set[int] = set()
        self._lock, self._over = threading.Lock(), False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_running", "_lock")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._running, self._lock = set(), threading.Lock()

    @property
    def __name__(self) -> str:
        """The command, as pages and files call it."""
        return self.command

    @property
    def __source__(self) -> str:
        """What makes its values: by this a resumed run sees whether the command has changed."""
        more = f"\0{self.repeat}" if self.repeat > 1 else ""
        return f"{self.command}\0{self.shell}\0{self.kind}\0{self.detail}{more}"

    def __call__(self, **params: Any) -> Value:
        texts = {name: text_of(params.get(name)) for name in self.space.names}
        setting = json.dumps(params)
        with self._place() as folder:
            place = Place(folder, _output(folder, "stdout"), _output(folder, "stderr"))
            with place.out, place.err:
                if folder is not None:
                    (folder / "setting.json").write_text(setting + "\n")
                return mean_of(self._values(texts, setting, place))

    def end(self) -> None:
        """Ends whatever this program is running, in any thread, for good: it runs nothing more."""
        with self._lock:
            self._over = True
            groups = list(self._running)
        for group in groups:
            _signal(group, signal.SIGKILL)

    # -- inside

    @contextlib.contextmanager
    def _place(self) -> Iterator[Path | None]:
        """The folder of an evaluation: the next number that nobody has taken."""
        if self.folders is None:
            yield None
            return
        self.folders.mkdir(parents=True, exist_ok=True)
        number = max((int(p.name) + 1 for p in self.folders.iterdir() if p.name.isdecimal()), default=0)
        while True:
            folder = self.folders / str(number)
            try:
                folder.mkdir()
                break
            except FileExistsError:
                number += 1
        for path in self.copy:
            if path.is_dir():
                shutil.copytree(path, folder / path.name)
            else:
                shutil.copy2(path, folder / path.name)
        try:
            yield folder
        except EvaluationError as error:
            raise EvaluationError(f"{error}\n(its output is in {folder})") from None

    def _file(self, folder: Path | None) -> Path:
        return (folder or Path.cwd()) / self.detail

    def _written(self, folder: Path | None) -> tuple[int, int] | None:
        """When the file with the value was last written, and by which file: an old one says nothing."""
        try:
            found = self._file(folder).stat() if self.kind == "file" else None
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_ino)

    def _values(self, texts: Mapping[str, str], setting: str, place: Place) -> list[Value]:
        """Runs the commands, the last one as often as it is to be repeated; the value of each time."""
        environment = {**os.environ, "REGRETLESS_PARAMS": setting, **shell_variables(texts if self.shell else {})}
        environment |= {f"REGRETLESS_{name}": text for name, text in texts.items() if "=" not in name}
        deadline = None if self.timeout is None else time.monotonic() + self.timeout
        lines: list[list[str]] = [["/bin/sh", "-c", self._text]] if self.shell else []
        lines += [filled(step, texts) for step in self._steps]
        run = functools.partial(self._run, setting=setting, environment=environment, place=place, deadline=deadline)
        for line in lines[:-1]:
            run(line)
        values = []
        for again in range(self.repeat):
            begun, written = place.out.seek(0, os.SEEK_END) if again else 0, self._written(place.folder)
            seconds = run(lines[-1])
            values.append(Value(seconds) if self.kind == "time" else self._value(place, begun, written))
        return values

    def _value(self, place: Place, begun: int, written: tuple[int, int] | None) -> Value:
        """What the commands said since the output was so long and the file with the value was as it was."""
        if self.kind == "file" and self._written(place.folder) in (None, written):
            raise EvaluationError(f"the command did not write {self.detail}")
        said = self._file(place.folder).read_text(errors="replace") if self.kind == "file" else ""
        # 1 << 20: bytes of the end of an output in which the value is looked for
        text = said or _tail(place.out, 1 << 20, begun)
        return value_of(text, self.detail if self.kind == "regex" else "", self.objectives)

    def _run(
        self, line: list[str], setting: str, environment: dict[str, str], place: Place, deadline: float | None
    ) -> float:
        """Runs a command; returns how many seconds it took."""
        with tempfile.TemporaryFile() as given:
            given.write(setting.encode() if self.stdin else b"")
            given.seek(0)
            started = time.perf_counter()
            code = self._ended(line, environment, place, given, deadline)
            seconds = time.perf_counter() - started
        if code:
            how = f"was ended by {_name_of(-code)}" if code < 0 else f"ended with exit code {code}"
            said = _tail(place.err, SHOWN).strip() or _tail(place.out, SHOWN).strip()
            raise EvaluationError(f"{said}\n{self._called(line)} {how}".strip())
        return seconds

    def _called(self, line: list[str]) -> str:
        return "the command" if self.shell else line[0]

    def _ended(
        self, line: list[str], environment: dict[str, str], place: Place, given: IO[bytes], deadline: float | None
    ) -> int:
        """The exit code of one command; whatever it left behind in its group ends with it."""
        try:
            process = subprocess.Popen(
                line, stdin=given, stdout=place.out, stderr=place.err, env=environment, cwd=place.folder,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise EvaluationError(f"{line[0]} cannot be run: {error.strerror}") from None
        with self._lock:
            self._running.add(process.pid)
            over = self._over
        try:
            if over:
                raise EvaluationError("the run was interrupted")
            return process.wait(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                # 3.0: seconds that a process group has to end by itself once it is asked to
                process.wait(3.0)
            raise EvaluationError(f"{self._called(line)} took longer than {self.timeout:g} s and was ended") from None
        finally:
            _signal(process.pid, signal.SIGKILL)
            process.wait()
            with self._lock:
                self._running.discard(process.pid)


class Place(NamedTuple):
    """Where an evaluation runs and writes."""

    folder: Path | None
    out: IO[bytes]
    err: IO[bytes]


def text_of(value: Any) -> str:
    """A value as a command reads it: labels as they are, numbers to the last digit, nothing where there is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def value_of(text: str, pattern: str = "", objectives: Sequence[str] = ()) -> Value:
    """What a command said: the last line that is not blank or, with a pattern, its last match."""
    if pattern:
        found = re.findall(pattern, text, re.MULTILINE)
        if not found:
            raise EvaluationError(f"nothing that the command printed matches {pattern!r}")
        said = found[-1]
    else:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if not lines:
            raise EvaluationError("the command printed nothing")
        said = lines[-1]
    try:
        content = json.loads(said) if said.startswith("{") else {"value": float(said)}
        numbers: dict[str, Any] = {name: content[name] for name in NAMED if content.get(name) is not None}
        if not objectives:
            return Value(float(numbers.pop("value")), **numbers)
        values = numbers.pop("value", content)
        return Value({name: float(values[name]) for name in objectives}, **numbers)
    except (ValueError, TypeError, KeyError, RecursionError):
        entries = " and ".join(f'"{name}"' for name in objectives or ["value"])
        what, kind = "match" if pattern else "line", "" if objectives else "number and no "
        wanted = f"{kind}JSON object with {entries}"
        raise EvaluationError(f"the last {what} is no {wanted}: {said[:200]}") from None


def mean_of(values: Sequence[Value]) -> Value:
    """The mean of repeated values, with the variance of that mean; what they cost is added."""
    if len(values) == 1:
        return values[0]
    told = [value.value for value in values]
    constraints = [value.constraints for value in values if value.constraints is not None]
    costs = [value.cost for value in values if value.cost is not None]
    value, var = _moments(told)
    return Value(value, var, _moments(constraints)[0] if constraints else None, sum(costs) if costs else None)


def _moments(told: Sequence[Any]) -> tuple[Any, Any]:
    """The mean of numbers, and its variance; of each entry, where they are mappings or lists."""
    try:
        if isinstance(told[0], Mapping):
            parts = {name: _moments([one[name] for one in told]) for name in told[0]}
            return {name: mean for name, (mean, _) in parts.items()}, {name: var for name, (_, var) in parts.items()}
        if isinstance(told[0], list):
            columns = [_moments(column) for column in zip(*told, strict=True)]
            return [mean for mean, _ in columns], [var for _, var in columns]
        return statistics.fmean(told), statistics.variance(told) / len(told)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        raise EvaluationError(f"the repetitions do not say the same things: {told}"[:SHOWN]) from None


def _checked_measure(measure: str) -> tuple[str, str]:
    kind, _, detail = measure.partition(":")
    if kind not in ("last", "time", "regex", "file") or bool(detail) != (kind in ("regex", "file")):
        raise ValueError(f"measure must be {MEASURES}, got {measure!r}")
    if kind == "regex":
        try:
            groups = re.compile(detail).groups
        except re.error as error:
            raise ValueError(f"measure: {detail!r} is no regular expression: {error}") from None
        if groups != 1:
            raise ValueError(f"measure: the pattern {detail!r} must have one group, such as loss=(\\S+), not {groups}")
    return kind, detail


def _check_texts(space: Space) -> None:
    """Raises ValueError for labels that no command can be given."""
    for name, parameter in space.parameters.items():
        for label in parameter.labels if isinstance(parameter, Choice) else ():
            if "\0" in text_of(label):
                raise ValueError(f"parameter {name!r}: no command can be given a label with the letter 0, {label!r}")


def _output(folder: Path | None, name: str) -> IO[bytes]:
    return tempfile.TemporaryFile() if folder is None else open(folder / name, "w+b")


def _tail(file: IO[bytes], length: int, since: int = 0) -> str:
    """The end of a file, or of what stands behind a place in it."""
    with open(os.dup(file.fileno()), "rb") as copy:
        end = copy.seek(0, os.SEEK_END)
        copy.seek(max(end - length, since, 0))
        return copy.read().decode(errors="replace")


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal(group: int, number: int) -> None:
    """Sends a signal to a process group, if there is still somebody in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
