"""`Result`: what a run found, readable like scipy's `OptimizeResult`, with its trials, its certificate, a table and a
page."""

from __future__ import annotations

import base64
import html
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.basics.extras import optional
from regretless.basics.statefile import write_whole
from regretless.basics.values import printable
from regretless.certificate import Certificate
from regretless.files.earlier import columns_of
from regretless.method import Method, Recipe
from regretless.optimizer import Optimizer, Trial
from regretless.run.front import Front, Member, observed_values
from regretless.space import SpaceLike
from regretless.space.parameters import Array
from regretless.trial import SO_FAR, last_line

if TYPE_CHECKING:
    import pandas

    from regretless.outlook.advice import Advice
    from regretless.outlook.estimates import Rivals
    from regretless.outlook.outlook import Outlook


FILE_KIND = "regretless-result-1"
"""Marks the files `Result.to_json` writes; the number grows when the layout changes."""


@dataclass(frozen=True, repr=False)
class Result:
    """The outcome of `minimize` or `maximize`.

    `params` is the recommended setting: that of the best value seen or, when the values show noise, the model's choice.
    `value` is the mean of the values observed there (NaN if it was never evaluated itself); `best` is the trial with
    the best single value, which under noise may only be the luckiest.

    With several objectives `front` holds the settings of which none is better in all of them, `pick` chooses one,
    `params` is a compromise, `values` are its values, and `value` is the first of these.
    """

    params: dict[str, Any]
    value: float
    certificate: Certificate
    trials: list[Trial]
    message: str
    """Why the run ended."""
    success: bool
    """Whether it ended by evaluating all trials or by its stop rule."""
    optimizer: Optimizer

    @classmethod
    def of(cls, optimizer: Optimizer, message: str = SO_FAR, *, success: bool = True) -> Result:
        """The result of what an optimizer knows now; a run without a single success has NaN for a value, unless earlier
        evaluations left it nothing to do."""
        failed = not any(t.value is not None for t in optimizer.trials)
        if (failed and (optimizer.trials or not optimizer.book.earlier)) or len(optimizer.history) == 0:
            why = "no evaluation succeeded" if failed else "no evaluated setting satisfies the constraints"
            nothing, message = Certificate.none(why, 0.05), message if why in message else f"{message}; {why}"
            return cls({}, float("nan"), nothing, optimizer.trials, message, False, optimizer)
        params = optimizer.recommend()
        value = observed_values(optimizer, params)[0]
        return cls(params, value, optimizer.certificate, optimizer.trials, message, success, optimizer)

    @property
    def outlook(self) -> Outlook:
        """What 20 more trials would bring; `optimizer.forecast(m)` speaks of another number of them."""
        return self.optimizer.outlook

    @cached_property
    def rivals(self) -> Rivals:
        """The other evaluated settings that cannot be told apart from the recommended one, the likeliest best first."""
        from regretless.run.questions import rivals

        return rivals(self.optimizer)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """What the run bears out to do next, one sentence each; see `regretless.advise`."""
        from regretless.run.questions import advise

        return advise(self.optimizer)

    @cached_property
    def said(self) -> tuple[str, ...]:
        """What to know and to do next: the outlook, settings that are as good, advice, and the certificate where it
        says something."""
        if not self.params or not self.trials:
            return (str(self.certificate),)
        if self.optimizer.task.several:  # a gap speaks of one objective
            share = [self.certificate.share_sentence()] * self.certificate.speaks_of_share
            return (str(self.outlook), *map(str, self.advice), *share)
        found = [str(self.outlook), *[str(self.rivals)] * bool(self.rivals), *map(str, self.advice)]
        return (*found, *[str(self.certificate)] * self.certificate.says_something)

    # -- scipy's names

    @property
    def x(self) -> Any:
        """The recommended setting: an array for a space given as a list, else the parameters."""
        return np.array(list(self.params.values())) if self.optimizer.space.as_array else self.params

    @property
    def fun(self) -> float:
        return self.value

    @property
    def nfev(self) -> int:
        """Evaluations that ended, failed ones included."""
        return sum(t.state != "pending" for t in self.trials)

    @property
    def nit(self) -> int:
        return self.nfev

    @property
    def best(self) -> Trial:
        return self.optimizer.best

    @property
    def values(self) -> tuple[float, ...]:
        """The values observed at `params`, of all objectives."""
        return observed_values(self.optimizer, self.params) if self.params else (self.value,)

    @cached_property
    def front(self) -> Front:
        """The settings of which none is better than another in all objectives."""
        if not self.optimizer.task.several:
            raise ValueError("a run with one objective has no front; name several by objectives=[...]")
        return Front(self.optimizer)

    def pick(
        self,
        *,
        limits: Mapping[str, float] | None = None,
        weights: Mapping[str, float] | None = None,
        prefer: Callable[[Member, Member], Member] | None = None,
    ) -> Member:
        """The member of the front to take; see `Front.pick`."""
        return self.front.pick(limits=limits, weights=weights, prefer=prefer)

    @property
    def value_words(self) -> str:
        """The value, and the best one seen with the reason where that is another."""
        if self.optimizer.task.several:
            taken = next((m.values for m in self.front if m.params == self.params), None)
            named = (taken or dict(zip(self.optimizer.task.objectives, self.values, strict=False))).items()
            return f"a compromise: {', '.join(f'{name} {value:.6g}' for name, value in named)}"
        if not self.params:
            return f"value {self.value:.6g}"
        if all(t.given != self.params for t in self.trials) and not np.isnan(self.value):
            return f"value {self.value:.6g}, of an evaluation before this run"
        if not self.best.feasible:
            return f"value {self.value:.6g}, but the setting breaks a constraint: none was found that keeps them all"
        seen = (
            f"the best value seen is {self.best.value:.6g}, of trial {self.optimizer.book.record.number_of(self.best)}"
        )
        lucky = "" if self.value == self.best.value else f"; {seen}, perhaps by luck"
        if self.optimizer.method.noise(self.optimizer.history).shows:
            expected = self.optimizer.predict(self.params)
            there = "never" if np.isnan(self.value) else f"{self.value:.6g}, {self._counted(expected.values)}"
            return f"value {expected}, because the values are noisy; measured there: {there}{lucky}"
        return f"not evaluated there; {seen}" if np.isnan(self.value) else f"value {self.value:.6g}{lucky}"

    def _counted(self, values: int) -> str:
        """What the value of the recommended setting rests on."""
        told = next((t.var for t in self.trials if t.params == self.params and t.var is not None), None)
        if values > 1 or not told:
            return "once" if values == 1 else f"the mean of {values}"
        return f"with an error of {told**0.5:.2g}"

    def __getattr__(self, name: str) -> Any:
        own = {"best_params": "params", "best_value": "value", "best_trial": "best"}.get(name)
        raise AttributeError(f"a Result has no {name!r}" + (f"; it is called {own!r} here" if own else ""))

    def __repr__(self) -> str:
        most_shown = 8  # parameters that a `repr` names: it should fit on a few lines of a terminal
        shown = [f"{name!r}: {value!r}" for name, value in list(self.params.items())[:most_shown]]
        shown += [f"and {len(self.params) - most_shown} more"] if len(self.params) > most_shown else []
        params = "{" + ", ".join(shown) + "}"
        return f"Result(params={params}, value={self.value:.6g}, {self.nfev} evaluations, {self.message!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the setting, its value, the certificate, and how the run went."""
        told = zip(self.optimizer.task.objectives or ("value",), self.values, strict=False)
        rows = [*self.params.items(), *told]
        texts = [(str(name), f"{value:.6g}" if isinstance(value, float) else str(value)) for name, value in rows]
        cells = "".join(
            f'<tr><th style="text-align:left">{html.escape(printable(name))}</th>'
            f'<td style="text-align:left">{html.escape(printable(text))}</td></tr>'
            for name, text in texts
        )
        front = [str(self.front).replace("\n", "; ")] if self.optimizer.task.several else []
        words = [f"{self.message} ({self.nfev} evaluations, {self.optimizer.recipe})", *front, *self.said]
        return f"<table>{cells}</table>" + "".join(f"<p>{html.escape(printable(word))}</p>" for word in words)

    def __getitem__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self, name):
            raise KeyError(name)
        return getattr(self, name)

    def __str__(self) -> str:
        lines = [f"{self.message} ({self.nfev} evaluation{'s' if self.nfev != 1 else ''}, {self.optimizer.recipe})"]
        lines += [f"  {name} = {value!r}" for name, value in self.params.items()]
        failed = sum(t.state == "failed" for t in self.trials) - len(self.optimizer.book.forgotten)
        failures = [f"  {failed} evaluation{'s' * (failed > 1)} failed"] if failed else []
        if not self.params:
            error = next((last_line(t.error) for t in reversed(self.trials) if t.state == "failed" and t.error), "")
            why = f"; the last one with: {error}" if error and error not in self.message else ""
            return printable("\n".join([*lines, *[words + why for words in failures]]))
        if self.optimizer.task.several:
            told = [f"  {words}" for words in (self.outlook, *self.advice)]
            return printable("\n".join([*lines, f"  {self.value_words}", *failures, str(self.front), *told]))
        said = [f"  {words}" for words in self.said]
        return printable("\n".join([*lines, f"  {self.value_words}", *failures, *said]))

    # -- files

    def to_json(self, path: str | Path) -> Path:
        """Writes the result as JSON, for any program to read, and for `from_json`; returns the path.

        Its entry "state" is the file of `Optimizer.save` in base64, so that a run can go on from it exactly. Labels
        that are no text, finite number or truth value stand as their printed forms elsewhere.
        """
        task, state = self.optimizer.task, BytesIO()
        self.optimizer.save(state)
        content = {
            "kind": FILE_KIND,
            "message": self.message,
            "success": self.success,
            "direction": self.optimizer.direction,
            "method": str(self.optimizer.recipe),
            "params": _plain(self.params),
            "value": None if np.isnan(self.value) else self.value,
            "certificate": self.certificate.to_json(),
            "trials": [
                {"number": self.optimizer.book.record.number_of(t), "state": t.state, "value": t.value, "var": t.var,
                 "error": t.error, "params": _plain(t.params), **({"values": list(t.values)} if task.several else {})}
                for t in self.trials
            ],
            **({"objectives": dict(zip(task.objectives, task.directions, strict=True)),
                "front": [member | {"params": _plain(member["params"])} for member in self.front.to_json()],
                } if task.several else {}),
            "state": base64.b64encode(state.getvalue()).decode(),
        }  # fmt: skip
        write_whole(Path(path), json.dumps(content, indent=1, default=str, allow_nan=False).encode())
        return Path(path)

    @classmethod
    def from_json(
        cls, path: str | Path, *, space: SpaceLike | None = None, method: Recipe | type[Method] | None = None
    ) -> Result:
        """Reads a file of `to_json`; `space` and `method` are needed where `Optimizer.load` needs them."""
        try:
            content = json.loads(Path(path).read_bytes())
            kind, message, success = content.get("kind"), content.get("message"), content.get("success")
            state = base64.b64decode(content.get("state", ""), validate=True)
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is not a file of Result.to_json: {error}") from None
        if kind != FILE_KIND or not isinstance(message, str) or not isinstance(success, bool):
            raise ValueError(f"{path} is not a file of Result.to_json (kind {kind!r})")
        try:
            optimizer = Optimizer.load(state, space=space, method=method)
        except ValueError as error:
            raise ValueError(f"{path} is not a file of Result.to_json: {error}") from None
        return cls.of(optimizer, message, success=success)

    # -- to look at

    def best_so_far(self) -> Array:
        """The best value after each trial that ended, NaN before the first success; of the first objective."""
        sign = 1.0 if self.optimizer.direction == "maximize" else -1.0
        ended = [t for t in self.trials if t.state != "pending"]
        values = np.array([sign * t.value if t.feasible and t.value is not None else -np.inf for t in ended])
        running = np.maximum.accumulate(values) if len(values) else values
        return np.where(np.isfinite(running), sign * running, np.nan)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per trial: number, state, value and variance (or the objectives by their names), parameters, and what
        else is known: the values of constraints, cost, seconds, error (needs pandas). A parameter that is called as
        another column is has "params_" before its name."""
        frames = optional("pandas", "plot")
        trials, opt = self.trials, self.optimizer
        numbers = [opt.book.record.number_of(t) for t in trials]
        facts: dict[str, Any] = {"number": numbers, "state": [t.state for t in trials]}
        if opt.task.several:
            for j, name in enumerate(opt.task.objectives):
                facts[name] = frames.Series([t.values[j] if t.values else None for t in trials], dtype=float)
        else:
            for name in ("value", "var"):  # numbers, also where none was told
                facts[name] = frames.Series([getattr(t, name) for t in trials], dtype=float)
        more: dict[str, list[Any]] = {
            f"constraint_{name}": [t.constraints[k] if t.constraints else math.nan for t in trials]
            for k, name in enumerate(opt.task.constraint_names or range(opt.task.n_constraints))
        }
        for name in ("cost", "seconds", "error"):
            told = [None if getattr(t, name) == "" else getattr(t, name) for t in trials]
            more |= {name: told} if any(x is not None for x in told) else {}
        names = list(opt.space.names)
        params = {
            column: [t.params.get(name) for t in trials]
            for column, name in zip(columns_of(names, {**facts, **more}), names, strict=True)
        }
        columns = {**facts, **params, **more}
        table: pandas.DataFrame = frames.DataFrame(
            {printable(name): _printed(found) for name, found in columns.items()}
        )
        return table

    def report(self, path: str | Path, *, where: Mapping[str, Any] | None = None) -> Path:
        """Writes one self-contained HTML page with the result, its certificate and its plots; returns its path.

        Its slices and contours pass through the recommended setting with the values of `where` in place of its own.
        """
        from regretless.report.run_page import run_page

        check_page_name(path)
        write_whole(path, printable(run_page(self, where, Path(path).stem)).encode())
        return Path(path)


def observed(optimizer: Optimizer, params: Mapping[str, Any]) -> float:
    """The mean of the values told for a setting; NaN when it was never evaluated."""
    return observed_values(optimizer, params)[0]


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """A setting as JSON can hold it: an infinite label stands as its printed form."""
    return {name: str(x) if isinstance(x, float) and not math.isfinite(x) else x for name, x in params.items()}


def _printed(column: Any) -> Any:
    """A column of a table whose texts every file can hold."""
    return [printable(x) if isinstance(x, str) else x for x in column] if isinstance(column, list) else column


def check_page_name(path: str | Path) -> None:
    """Raises ValueError where a path is none of an HTML page."""
    if Path(path).suffix.lower() not in ("", ".html", ".htm"):
        raise ValueError(f"report writes an HTML page, got {str(path)!r}: let its name end in .html")
