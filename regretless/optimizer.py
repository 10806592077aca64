"""`Optimizer`: a task and a method behind ask and tell.

Here, and only here, signs and units are turned, settings become cube points, and "auto" becomes a method: users see
their own parameters and values, methods see a maximisation on the cube. Every door and every runner holds one of these,
so the same task, method and history give the same points whichever way one comes in.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, overload

import numpy as np

from regretless.auto import choose_method
from regretless.basics.machine import machine
from regretless.basics.statefile import pack
from regretless.basics.values import checked_amount, checked_value, checked_values, checked_variance
from regretless.certificate import Certificate
from regretless.files.book import Book, Earlier, as_seen, empty_history, history_of, with_earlier
from regretless.files.checkpoint import Checkpoint, apply_change, read_run, unpack_run
from regretless.files.codec import (
    MethodLike,
    as_recipe,
    book_from_arrays,
    book_to_arrays,
    check_book,
    same_recipe,
)
from regretless.files.earlier import evaluations, placed
from regretless.history import History
from regretless.method import Method, Recipe, next_points
from regretless.outlook.bounds import first_beyond, warn_of_wrong_limit
from regretless.outlook.probes import is_due, probe_point
from regretless.outlook.standing import Standing
from regretless.outlook.stopping import USUAL_TRIALS
from regretless.space import Space, SpaceLike
from regretless.space.parameters import Array
from regretless.task import CostKind, Direction, Reference, Task, objectives_of
from regretless.trial import Trial as Trial
from regretless.trial import checked_constraints, checked_cost, own_values

if TYPE_CHECKING:
    from regretless.client import RemoteStudy
    from regretless.outlook.estimates import Prediction
    from regretless.outlook.forecast import Forecast
    from regretless.outlook.outlook import Outlook

FILE_KIND = "regretless-run-1"
"""Marks the files `Optimizer.save` writes; the number grows when the layout changes."""
ELSEWHERE = {"n_trials": "budget=", "trials": "budget=", "random_state": "seed=", "sampler": "method="}
"""What other libraries, and `minimize`, call our arguments."""

_optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
"""The optimizers of this process."""


class Optimizer:
    """Ask for settings, evaluate them anywhere, tell the values. Threads may share one: its methods exclude each other.

        opt = Optimizer({"x": Float(-5, 10)}, method="gp-ei", budget=30, seed=0)
        for _ in range(30):
            trial = opt.ask()
            opt.tell(trial, objective(**trial.params))
        print(opt.recommend(), opt.certificate)

    Args:
        space: a `Space` or anything it is made from: a mapping of parameters, a list of (low, high) pairs, the path of
            a TOML file. Or a whole `Task`, which then says all that follows but the method.
        method: a name (`regretless list` shows them), a recipe such as `regretless.GPUCB(kappa=2)`, a Method class, or
            "auto"; `why` tells what was chosen.
        direction: "minimize" or "maximize".
        budget: the number of evaluations planned; methods use it to plan and it may be exceeded.
        seed: makes the run repeatable; drawn at random, and kept in `seed`, when not given.
        certify: lets "auto" take a method whose certificate shrinks, for runs that are to end by it.
        constraints: how many values of constraints are told with every value, or their names; a constraint holds where
            its value is at most 0. Methods that cannot learn them are told infeasible settings as failures.
        cost: "told" when costs are told with the values, "seconds" when the duration is the cost: proposals then weigh
            what they promise by what they cost.
        probes: the share of the trials that are independent uniform draws of the space; they prove how much of it can
            be better (`Certificate.share`), whatever the function, and cost their evaluations.
        floor, ceiling: a value that no setting can fall below, for a minimisation, or exceed, for a maximisation. The
            certified gap is never larger than what lies between.
        noise_bound: how far noise can carry a value from the truth at most, where that is known.
        objectives: the names of several objectives, or a mapping of names to directions; values are then told by name,
            or in this order.
        noisy: whether values are noisy, where that is known; None: the values have to show it.
        reference: of several objectives, the value that each has to be better than to be of interest, by name or in
            their order; None: the values say from where on hypervolume counts.
    """

    def __new__(cls, *args: Any, **options: Any) -> Optimizer:
        for name in options:
            if name in ELSEWHERE:
                raise TypeError(f"Optimizer has no argument {name!r}; here it is {ELSEWHERE[name]}")
        return super().__new__(cls)

    def __init__(
        self,
        space: SpaceLike | Task,
        method: MethodLike = "auto",
        *,
        direction: Direction = "minimize",
        budget: int | None = None,
        seed: int | None = None,
        certify: bool = False,
        constraints: int | Sequence[str] = 0,
        cost: CostKind | None = None,
        probes: float = 0.0,
        floor: float | None = None,
        ceiling: float | None = None,
        noise_bound: float | None = None,
        objectives: Sequence[str] | Mapping[str, Direction] | None = None,
        noisy: bool | None = None,
        reference: Reference | None = None,
    ) -> None:
        names, directions = objectives_of(objectives, direction)
        self.task = space if isinstance(space, Task) else Task(
            space, directions, budget, seed, constraints, cost, probes, floor, ceiling, noise_bound, names,
            noisy, reference,
        )  # fmt: skip
        """What was asked."""
        self.space, self.direction, self.seed = self.task.space, self.task.direction, self.task.seed
        if method == "auto":
            weighed = bool(self.task.n_constraints or self.task.cost)
            self.recipe, self._chosen = choose_method(
                self.space, certify=certify, weighed=weighed, several=self.task.several
            )
        else:
            self.recipe, self._chosen = as_recipe(method), "given"
        """The recipe in use, and the reason it was chosen."""
        self._method = self._fresh_method()
        if self.task.several and not self._method.traits.objectives:
            raise ValueError(f"{self.recipe.name} searches one objective; auto, gp-ehvi and sms-emoa search several")
        if self.task.cost is not None and not self._method.traits.cost:
            raise ValueError(f"{self.recipe.name} cannot weigh gains by cost; gp-ei and gp-pi can")
        self._book, self._history = Book(), empty_history(self.task, self._method)
        self._corrections = 0
        """How often the book had been corrected when the history was made from it."""
        self._change: _Change | None = None
        """What has happened and is not yet written into the book."""
        self._interrupted = False
        """Whether a computation of the method was broken off, so that its caches cannot be trusted."""
        self._file: Checkpoint | None = None
        """The file that the run is written to."""
        self._new_locks()

    def __repr__(self) -> str:
        done = sum(t.state == "done" for t in self.trials)
        words = f"direction={self.direction!r}, seed={self.seed}, {done} of {len(self.trials)} trials done"
        return f"Optimizer({self.recipe}, {words})"

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            own = {"best_params": "best.params", "best_value": "best.value", "best_trial": "best"}.get(name)
            hint = f"; here it is optimizer.{own}, or optimizer.recommend()" if own else ""
            raise AttributeError(f"Optimizer has no attribute {name!r}{hint}")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_writing", "_saving")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self._new_locks()

    def _new_locks(self) -> None:
        self._lock = threading.RLock()
        """Held while the method computes."""
        self._writing = threading.RLock()
        """Held while the book changes; taken after the other one, never before it. So values may come in while a
        proposal is being computed, which does not see them."""
        self._saving = threading.RLock()
        """Held while a file is written; taken before the other two."""
        _optimizers.add(self)

    # -- ask and tell

    @overload
    def ask(self, n: None = None, *, fixed: Mapping[str, Any] | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, fixed: Mapping[str, Any] | None = None) -> list[Trial]: ...
    def ask(self, n: int | None = None, *, fixed: Mapping[str, Any] | None = None) -> Trial | list[Trial]:
        """The next trial, or the next n of them; legal at any time, however many are pending. `fixed` sets some
        parameters, `ask(fixed={"act": "relu"})`: the others are proposed for these values."""
        with self._lock:
            self._say_where_it_began()
            with self._writing:
                step, history = len(self.book.trials), self.history
                seen = len(self.book.ended), len(self.book.earlier)
            several = (n or 1) > 1 or len(history.pending) > 0
            part = self.method.cube.pinned(self.space.pins(fixed, self._encoding)) if fixed else None
            own = own_values(self.space.parameters, fixed) if fixed else {}
            due: list[int] = []
            if part is not None or not self.task.probes:
                with self.computing() as method:
                    X = next_points(method, history, n or 1, step=step, cube=part)
            else:
                X, due = self._probes_and_proposals(history, step, n or 1)
            settings = [self.space.decode(u, self._encoding) | own for u in X]
            rests_on = None if fixed else seen
            trials = [Trial(step + i, p, unit=u, seen=rests_on) for i, (p, u) in enumerate(zip(settings, X))]
            with self._writing:
                after = self.history.with_pending(X)
                self._happened(_Change(after, asked=trials, probe_steps=due, overlapping=several))
        return trials[0] if n is None else trials

    def _probes_and_proposals(self, history: History, step: int, n: int) -> tuple[Array, list[int]]:
        """The points of the next n trials, and which of their steps were to be probes; a probe whose draw is known
        already needs no evaluation."""
        points: list[Array] = []
        with self.computing() as method:
            for i in range(step, step + n):
                points.append(proposal(self.task, method, history, i))
                history = history.with_pending(points[-1])
        return np.array(points), [i for i in range(step, step + n) if is_due(i, self.task)]

    def adopt(self, params: Mapping[str, Any] | Sequence[float] | Array) -> Trial:
        """A pending trial at a setting of your own: a known good one, or one evaluated before."""
        u = self.space.encode(params, self._encoding)
        named = params if isinstance(params, Mapping) else dict(zip(self.space.names, params, strict=True))
        self.space.check(named)
        with self._lock:
            own = own_values(self.space.parameters, self.space.only_active(named))
            with self._writing:
                trial = Trial(len(self.book.trials), own, unit=u)
                self._happened(_Change(self.history.with_pending(u), asked=[trial]))
        return trial

    def tell(
        self,
        trial: Trial | int,
        value: float | Sequence[float] | Mapping[str, float] | None = None,
        var: float | Sequence[float | None] | Mapping[str, float | None] | None = None,
        *,
        failed: bool = False,
        error: str = "",
        constraints: Sequence[float] | Mapping[str, float] | None = None,
        cost: float | None = None,
        seconds: float | None = None,
    ) -> None:
        """The value of a pending trial (or of its number); NaN, infinities and `failed=True` mean that the evaluation
        failed. With several objectives all their values are told, by name or in their order, and one that is not finite
        makes the evaluation a failure.

        Args:
            var: the known noise variance of the value, for instance the squared standard error of a mean over
                repetitions.
            error: why the evaluation failed; the trial keeps it.
            constraints: the values of the constraints, by position or by name, at most 0 where they hold.
            cost: what the evaluation cost; with cost="seconds" its duration is taken.
            seconds: how long the evaluation took; the trial keeps it.
        """
        with self._writing:
            trial, task = self._pending_trial(trial), self.task
            trial.settle()
            seconds = None if seconds is None else checked_amount("seconds", seconds)
            if failed:
                paid = checked_cost(None, cost, seconds)
                told = replace(trial, state="failed", error=error, cost=paid, seconds=seconds)
            else:
                if task.several:
                    values, variances = checked_values(value, var, task.objectives)
                else:
                    values, variances = (checked_value(value),), (checked_variance(var),)
                limits = checked_constraints(constraints, task.n_constraints, task.constraint_names)
                facts: dict[str, Any] = {"cost": checked_cost(task.cost, cost, seconds), "seconds": seconds}
                if all(map(math.isfinite, values)):
                    facts |= {"state": "done", "value": values[0], "var": variances[0], "constraints": limits}
                    told = replace(trial, **facts, further=values[1:], further_var=variances[1:])
                else:
                    told = replace(trial, **facts, state="failed", error=error or _not_finite(values, task))
            y, seen_var, side_values = as_seen(told, task, self.history)
            after = self.history.with_values(
                trial.unit[None],
                [y],
                yvar=[seen_var],
                side_values=[side_values] if self.history.n_side_values else None,
            )
            wrong = self._newly_beyond([told.value], [told.var])
            self._happened(_Change(after, ended=told))
        if wrong is not None:
            warn_of_wrong_limit(task, wrong)

    def learn(self, source: Any, *, missing: Mapping[str, Any] | None = None) -> int:
        """Takes in what was evaluated before this run and returns how many evaluations that were; they are no trials.

        source: a `Result` or its JSON, an `Optimizer`, the file of a checkpoint, a CSV with a column per parameter and
            one called "value", an Optuna study or storage URL, or (setting, value) pairs. Ranges may differ: settings
            outside of this space are used by the model and never proposed. `Earlier` evaluations, which doors make,
            are places in the cube and taken as they are.
        missing: values for parameters that the earlier settings do not have.
        """
        task, method = self.task, self.method
        if task.cost is not None:
            raise ValueError("earlier evaluations say nothing about costs; learn them without cost=")
        if isinstance(source, list) and all(isinstance(e, Earlier) for e in source):
            return self._learn(source)
        read = placed(evaluations(source, task.objectives), self.space, self._encoding, missing or {}, task)
        with self._lock, self._writing:
            # a second time they would look like repetitions, and as if there were no noise
            before = {(e.unit.tobytes(), e.value, *e.further) for e in self.book.earlier}
            inside = [(u, e) for u, e in read.inside if (u.tobytes(), e.value, *e.further) not in before]
            beyond = read.beyond if method.uses_outside(self.history) and not task.n_constraints else []
            found = [(e, u, True) for u, e in beyond] + [(e, u, False) for u, e in inside]
            self._learn([
                Earlier(
                    u, e.value, math.nan if e.var is None else e.var, tuple(e.constraints), outside,
                    further=e.further, further_var=e.further_var,
                )
                for e, u, outside in found
            ])  # fmt: skip
        unused = {f"outside the ranges, which {self.recipe.name} cannot use": len(read.beyond) - len(beyond)}
        unused["they were learnt before"] = len(read.inside) - len(inside)
        for why, count in (read.left_out | unused).items():
            if count:
                warnings.warn(f"{count} earlier evaluations were left out: {why}", RuntimeWarning, stacklevel=2)
        return len(inside) + len(beyond)

    def forget(self, trial: Trial | int) -> None:
        """Gives up a pending trial that will never be told, without holding the failure against its setting."""
        with self._writing:
            trial = self._pending_trial(trial)
            told = replace(trial, state="failed")
            self._happened(_Change(self.history.without_pending(trial.unit), ended=told, forgotten=True))

    def _learn(self, found: Sequence[Earlier]) -> int:
        with self._writing:
            history, ended = self.history, len(self.book.ended)
            found = [e._replace(after=ended) for e in found]
            inside = [e for e in found if not e.outside]
            wrong = self._newly_beyond([e.value for e in inside], [e.var for e in inside])
            for _, batch in itertools.groupby(found, key=lambda e: e.outside):
                history = with_earlier(history, self.task, list(batch))
            if found:
                self._happened(_Change(history, earlier=found))
        if wrong is not None:
            warn_of_wrong_limit(self.task, wrong)
        return len(found)

    # -- what is known

    @property
    def book(self) -> Book:
        """Everything that was asked and told."""
        with self._writing:
            self._write_down()
            return self._book

    @property
    def history(self) -> History:
        """What the method sees of it."""
        with self._writing:
            self._write_down()
            if self._book.corrections != self._corrections:
                self._history = history_of(self.task, self._method, self._book)
                self._corrections = self._book.corrections
            return self._history

    @property
    def method(self) -> Method:
        """The method in use; one whose computation was broken off is made anew, because its caches may be half
        written."""
        with self._lock:
            if self._interrupted:
                self._method, self._interrupted = self._fresh_method(), False
            return self._method

    @property
    def trials(self) -> list[Trial]:
        """All trials, in the order of their numbers."""
        return self.book.trials

    @property
    def pending(self) -> list[Trial]:
        """Trials asked and not yet told."""
        return [t for t in self.trials if t.state == "pending"]

    @property
    def best(self) -> Trial:
        """The trial with the best value observed (with noise, perhaps only the luckiest; see `recommend`)."""
        if self.task.several:
            raise ValueError(f"no trial is the best in all objectives, {list(self.task.objectives)}; see recommend()")
        return Trial.best_of(self.trials, self.task.sign)

    @property
    def why(self) -> str:
        """Why this method was taken; of one that chooses as it goes, why it searches as it does and what changed."""
        history = self.history
        with self.computing() as method:
            found = method.why(history)
        return found or self._chosen

    def recommend(self) -> dict[str, Any]:
        """The setting to use: the best value seen, or with noise the model's choice, not the luckiest value; of several
        objectives a compromise."""
        with self._lock:
            history = self.history
            with self.computing() as method:
                u = method.recommend(history)
        key = u.tobytes()
        for trial in self.trials:
            if trial.unit.tobytes() == key:
                return dict(trial.given)  # to the last digit
        return self.space.decode(u, self._encoding)

    @property
    def certificate(self) -> Certificate:
        """How much worse than the optimum `recommend()` may be, with probability 0.95, or why that is not known."""
        return self.certificate_at(0.05)

    def certificate_at(self, delta: float) -> Certificate:
        """The same with probability 1 - delta."""
        return Standing(self).certificate_at(delta)

    @property
    def outlook(self) -> Outlook:
        """What 20 more trials would bring, and how this run's earlier forecasts turned out."""
        return Standing(self).outlooks([USUAL_TRIALS])[0]

    def forecast(self, trials: int = USUAL_TRIALS) -> Forecast:
        """How much better the recommended setting will be after so many more trials, in the unit of the objective."""
        return Standing(self).outlooks([trials])[0].forecast

    def predict(
        self, params: Mapping[str, Any] | Sequence[float] | Array, *, objective: str | None = None
    ) -> Prediction:
        """What is expected of a setting, evaluated or not: mean and interval in the unit of the objective, without the
        noise of a measurement. With several objectives one of them is named."""
        from regretless.outlook.estimates import estimates_of

        names: list[str | None] = list(self.task.objectives) or [None]
        if objective not in names:
            raise ValueError(f"objective must be one of {names}, got {objective!r}")
        u = self.space.encode(params)
        with self.computing() as method:
            return estimates_of(self.task, method, self.history, names.index(objective)).at(u)

    @contextmanager
    def computing(self) -> Iterator[Method]:
        """The method, to be asked about any history: threads exclude each other, and when the question is broken off
        what the method keeps is dropped, because it may be half written."""
        with self._lock:
            method = self.method
            self._interrupted = True  # and it stays so when the answer is not reached
            yield method
            self._interrupted = False

    # -- files

    def save(self, path: str | Path | Checkpoint | BinaryIO) -> None:
        """Writes everything to a file (no pickle); a kill at any moment leaves the old file or the new one, never half
        of one. Into a `Checkpoint` that holds the run's beginning, it writes only what is new. An open binary file gets
        the same bytes."""
        if not isinstance(path, str | Path | Checkpoint):
            with self._lock, self._writing:
                content = pack(self._state())
            path.write(content)
            return
        with self._saving:
            with self._writing:
                file = self._file_at(path)
                grow = None
                if file is path and file.can_grow(self.book):
                    grow = file.growth(self.book, self.task, self._method)
            if grow is not None:  # while the disk writes, proposals are made and values come in
                grow()
                return
            with self._lock, self._writing:  # an older state must not be renamed over a newer one
                file.write(self._state(), self.book)

    def _file_at(self, path: str | Path | Checkpoint) -> Checkpoint:
        """The file at a path; the `Checkpoint` of the run where it is that one, which then knows who wrote it last."""
        if isinstance(path, Checkpoint):
            self._file = path
            return path
        other = Checkpoint(path)
        return self._file if self._file is not None and self._file.path == other.path else other

    def _say_where_it_began(self) -> None:
        """Warns, once in the life of a run, that it goes on where bits may differ."""
        record = self.book.record
        if record.machine not in ("", machine()):
            warnings.warn(
                f"this run was begun on another machine ({record.machine}) and goes on here ({machine()}) from what "
                "was recorded: settings stay what they were, and what is proposed from now on may differ in its last "
                "digits from what would have been proposed there",
                RuntimeWarning,
                stacklevel=3,
            )
            record.machine = machine()

    def _state(self) -> dict[str, Any]:
        record, history = self.book.record, self.history
        record.machine = record.machine or machine()
        with self.computing() as method:
            cache = method.warm(history)
        return {
            "kind": FILE_KIND,
            "task": self.task.to_json(),
            "recipe": self.recipe.to_json(),
            "why": self._chosen,
            **book_to_arrays(self.book, self.task, self.method),
            "cache": cache,
        }

    @classmethod
    def load(
        cls, path: str | Path | bytes, *, space: SpaceLike | None = None, method: Recipe | type[Method] | None = None
    ) -> Optimizer:
        """Reads a file of `save`, or its content, and goes on as if never interrupted.

        `space` and `method` are needed only when they hold what no file can: labels that are objects, options that are
        functions or arrays, a method of your own. Given ones that differ from those of the file raise ValueError.
        """
        state, changes = unpack_run(path) if isinstance(path, bytes) else read_run(path)
        where = "the file" if isinstance(path, bytes) else path
        if state.get("kind") != FILE_KIND:
            kind = f"its kind is {state.get('kind')!r}, this one reads {FILE_KIND!r}"
            raise ValueError(f"{where} is not a file of Optimizer.save, or one of another release ({kind})")
        try:
            optimizer = cls._from_state(state, space, method)
            now = optimizer._state()
            given = {"cache", *(["task"] if space is not None else []), *(["recipe"] if method is not None else [])}
            elsewhere = optimizer._book.record.machine not in ("", machine())
            odd = [key for key in now if key not in given and not _agree(key, now[key], state[key], elsewhere)]
            optimizer._go_on(state["cache"], changes)
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError, RuntimeError) as error:
            raise ValueError(f"{where} is damaged: {type(error).__name__}: {error}") from None
        if odd:
            raise ValueError(f"{where} is damaged: its {', '.join(odd)} cannot be taken as written")
        return optimizer

    # -- in a service

    @classmethod
    def remote(
        cls,
        url: str,
        name: str,
        space: SpaceLike | None = None,
        method: MethodLike = "auto",
        *,
        client: str = "",
        token: str = "",
        direction: Direction = "minimize",
        budget: int | None = None,
        seed: int | None = None,
        constraints: int | Sequence[str] = 0,
        cost: CostKind | None = None,
        probes: float = 0.0,
        floor: float | None = None,
        ceiling: float | None = None,
        noise_bound: float | None = None,
        objectives: Sequence[str] | Mapping[str, Direction] | None = None,
        noisy: bool | None = None,
        reference: Reference | None = None,
    ) -> RemoteStudy:
        """The study of this name of a `regretless serve`, which is begun where there is none yet: its points are those
        of an `Optimizer` with the same arguments.

            study = Optimizer.remote("http://127.0.0.1:8765", "mine", {"x": Float(-5, 10)}, budget=30, client="node-7")
            for trial in study.work(30):
                study.tell(trial["number"], objective(**trial["params"]))

        Args:
            space: as in `Optimizer`; None: the study must be there.
            client: who evaluates; it is given its open trials again. Drawn at random when not given.
            token: that of the service, where it wants one.
        """
        from regretless.client import RemoteStudy

        study = RemoteStudy(url, name, client=client, token=token)
        if space is None:
            study.heartbeat()  # says that there is none, or that the token is wrong
            return study
        if method != "auto" and (recipe := as_recipe(method)).options:
            raise ValueError(f"a service takes methods by name, without options; got {recipe}")
        described = Space(space).to_json()
        options = {
            "method": "auto" if method == "auto" else as_recipe(method).name, "direction": direction, "budget": budget,
            "seed": seed, "constraints": constraints if isinstance(constraints, int) else list(constraints),
            "cost": cost, "probes": probes, "floor": floor, "ceiling": ceiling, "noise_bound": noise_bound,
            "objectives": dict(zip(*objectives_of(objectives, direction))) if objectives else None, "noisy": noisy,
            "reference": reference if reference is None or isinstance(reference, Mapping) else list(reference),
        }  # fmt: skip
        tables = described["parameters"] | ({"where": described["where"]} if "where" in described else {})
        study.create(tables, **options)
        return study

    @classmethod
    def _from_state(
        cls, state: Mapping[str, Any], space: SpaceLike | None, method: Recipe | type[Method] | None
    ) -> Optimizer:
        task = Task.from_json(state["task"], None if space is None else Space(space))
        optimizer = cls(task, same_recipe(state["recipe"], method))
        optimizer._chosen = str(state["why"])
        optimizer._book = book_from_arrays(state, task, optimizer.method)
        return optimizer

    def _go_on(self, cache: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> None:
        """Takes over what a method kept for the book as it is, then what changed since."""
        if not isinstance(cache, Mapping):
            raise TypeError(f"its cache is a {type(cache).__name__}")
        self._history = history_of(self.task, self.method, self._book)
        self.method.warm_from(self._history, cache)
        for change in changes:
            apply_change(change, self._book, self.task, self.method)
        check_book(self._book, self.task)
        if changes:
            self._history = history_of(self.task, self.method, self._book)

    # -- inside

    @property
    def _encoding(self) -> Any:
        return self._method.traits.choices

    def _fresh_method(self) -> Method:
        task = self.task
        return self.recipe.build(task.space, seed=task.seed, budget=task.budget, sign=task.sign, noisy=task.noisy)

    def _happened(self, change: _Change) -> None:
        """From here on something has happened: one assignment says so, and writing it down can be done again, so an
        interrupt leaves nothing half done."""
        with self._writing:
            self._change = change
            self._write_down()

    def _write_down(self) -> None:
        change, book = self._change, self._book
        if change is None:
            return
        for trial in change.asked:
            book.trials[trial.number : trial.number + 1] = [trial]
        if (told := change.ended) is not None:
            own = book.trials[told.number]
            own.value, own.var, own.error, own.cost = told.value, told.var, told.error, told.cost
            own.further, own.further_var = told.further, told.further_var
            own.constraints, own.seconds, own.state = told.constraints, told.seconds, told.state
            if told.number not in book.ended[-1:]:
                book.ended.append(told.number)
            if change.forgotten:
                book.forgotten.add(told.number)
        if change.earlier and (not book.earlier or book.earlier[-1] is not change.earlier[-1]):
            book.earlier += change.earlier
        if change.probe_steps and change.probe_steps[-1] not in book.probe_steps[-1:]:
            book.probe_steps += change.probe_steps
        book.record.overlapping |= change.overlapping
        self._history, self._change = change.history, None

    def _newly_beyond(self, values: Sequence[float | None], variances: Sequence[float | None]) -> float | None:
        """The first of new values that lies beyond the floor or ceiling, unless another did so before."""
        known = [(y, math.nan if v is None else v) for y, v in zip(values, variances, strict=True) if y is not None]
        found = first_beyond(self.task, *zip(*known, strict=True)) if known else None
        return None if found is None or first_beyond(self.task, *self.book.values()) is not None else found

    def _pending_trial(self, trial: Trial | int) -> Trial:
        if isinstance(trial, Mapping):
            raise TypeError("tell takes a trial of ask(); for a setting of your own: tell(adopt(setting), value)")
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < len(self.trials):
            raise ValueError(f"trial {number!r} was never asked of this optimizer ({len(self.trials)} trials so far)")
        own = self.trials[number]
        if isinstance(trial, Trial) and trial is not own:
            raise ValueError(
                f"trial {number} belongs to another optimizer; tell the trial that ask() gave, or its number"
            )
        if own.state != "pending":
            now = f"(state {own.state!r}, value {own.value!r})"
            how = "another measurement of its setting: tell(adopt(trial.params), value)"
            raise ValueError(f"trial {number} has been told already, or was forgotten {now}; {how}")
        return own


def is_exhausted(optimizer: Optimizer) -> bool:
    """Whether the space is finite and every setting of it has been asked, or was evaluated earlier."""
    trials, earlier = optimizer.trials, [e.unit for e in optimizer.book.earlier if not e.outside]
    size, most = optimizer.method.cube.size, len(trials) + len(earlier)
    return size <= most and len({u.tobytes() for u in [*(t.unit for t in trials), *earlier]}) >= size


def proposal(task: Task, method: Method, history: History, step: int, *, ahead: int = 0) -> Array:
    """The cube point of trial number `step`, d. This is the law: nothing else decides it.

    history: what is known, and what is being evaluated at the moment.
    ahead: how many workers with smaller trial numbers are asking right now; the point is the (ahead + 1)-th of a batch,
        so that they all differ.
    """
    if is_due(step, task):
        probe = probe_point(task, step, method.traits.choices)
        if not history.is_known(probe):
            return probe
    return np.asarray(next_points(method, history, 1 + ahead, step=step)[-1])


def _agree(key: str, now: Any, written: Any, elsewhere: bool) -> bool:
    """Whether an entry of a file is what it became when it was read. A point that was written elsewhere may have moved
    by rounding."""
    if key == "unit" and elsewhere and np.shape(now) == np.shape(written):
        # 2.0**-41: how far the last bits of another machine can move a point: half a cell of the finest line
        return bool((np.abs(now - written) <= 2.0**-41).all())
    return pack(now) == pack(written)


def _renew_locks() -> None:
    """In a forked child no other thread goes on: one that held a lock in the parent will never give it back. What it
    had begun is as if it had been interrupted."""
    for optimizer in list(_optimizers):
        optimizer._new_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def _not_finite(values: Sequence[float], task: Task) -> str:
    """Why an evaluation failed whose values are not all finite."""
    if not task.several:
        return f"the value was {values[0]}"
    named = zip(task.objectives, values, strict=True)
    return " and ".join(f"the value of {name!r} was {value}" for name, value in named if not math.isfinite(value))


@dataclass(frozen=True)
class _Change:
    """One thing that happened to a run."""

    history: History
    """What the method sees afterwards."""
    asked: Sequence[Trial] = ()
    ended: Trial | None = None
    """A trial as it is afterwards."""
    forgotten: bool = False
    earlier: Sequence[Earlier] = ()
    probe_steps: Sequence[int] = ()
    overlapping: bool = False
