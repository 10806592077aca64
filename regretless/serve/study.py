"""`Study`: a run that is kept, asked and told from outside.

What a shell command, the service and the tools of agents do to a run is here, once. Nothing is in the log before
`commit`, and everything is after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from regretless.optimizer import Optimizer
from regretless.serve.logs import FileLog, Log
from regretless.serve.words import trial_json
from regretless.space import Space
from regretless.trial import Trial

ToldValue: TypeAlias = float | Sequence[float] | Mapping[str, float] | None
"""A value, or those of several objectives; None: the evaluation failed."""


class Study:
    """A run that this process owns.

    Args:
        log: where the run is kept, or the path of its file.
        fresh: the run to begin where there is none yet; without one a missing run raises ValueError.
        seeded: whether the seed of `fresh` was asked for; a drawn one says nothing against that of the log.
    """

    def __init__(self, log: Log | str | Path, fresh: Optimizer | None = None, *, seeded: bool = True) -> None:
        if isinstance(log, str | Path) and fresh is None and not Path(log).is_file():
            raise ValueError(f"there is no run {log}; say its parameters to begin one")
        self.log: Log = FileLog(log) if isinstance(log, str | Path) else log
        self.name = self.log.name
        try:
            self._open(fresh, seeded)
        except BaseException:
            self.close()
            raise

    def _open(self, fresh: Optimizer | None, seeded: bool) -> None:
        stored = self.log.read()
        if stored is None and fresh is None:
            raise ValueError(f"there is no run {self.name}; say its parameters to begin one")
        if stored is not None:
            self.optimizer = stored
            if fresh is not None:
                self.check(fresh, seeded=seeded)
        elif fresh is not None:
            self.optimizer = self.log.begin(fresh)
        self.clients: dict[int, str] = {}
        """Who evaluates each pending trial, where it was given to somebody."""
        self.open: dict[str, list[int]] = {}
        """The pending trials of each client, in the order in which it was given them."""
        self.ready: list[int] = []
        """Pending trials that nobody was given yet."""
        pending = {t.number for t in self.optimizer.pending}
        for number, client in self.optimizer.book.handed:
            if number in pending:
                self._gave(number, client)
        self.ready += [number for number in sorted(pending) if number not in self.clients]

    def check(self, fresh: Optimizer, *, seeded: bool) -> None:
        """Raises ValueError where this run is not the one that another would begin."""
        stored = self.optimizer.task
        asked = fresh.task if seeded else replace(fresh.task, seed=stored.seed)
        if differs := stored.differs_from(asked):
            raise ValueError(f"{self.name} belongs to another run: {differs}")

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the log back."""
        self.log.close()

    def reload(self) -> None:
        """Goes back to what the log holds."""
        self._open(None, True)

    def commit(self) -> None:
        """Writes what has happened; when this returns it is on the disk."""
        self.log.write(self.optimizer)

    # -- asking

    def held(self, client: str, n: int = 1) -> list[Trial]:
        """The trials that a client was given and has not told: an ask that is repeated gives them again."""
        return [self.optimizer.trials[number] for number in self.open.get(client, [])[:n]] if client else []

    def hand(self, client: str) -> Trial | None:
        """A trial that was proposed and given to nobody, now given to this client; None where there is none."""
        if not self.ready:
            return None
        trial = self.optimizer.trials[self.ready.pop(0)]
        self._gave(trial.number, client)
        self.optimizer.book.handed.append((trial.number, client))
        return trial

    def propose(self, n: int = 1, fixed: Mapping[str, Any] | None = None) -> None:
        """Proposes n further trials, which are then ready to be given to somebody."""
        self.ready += [t.number for t in self.optimizer.ask(n, fixed=fixed)]

    def ask(self, n: int = 1, client: str = "", fixed: Mapping[str, Any] | None = None) -> list[Trial]:
        """n trials for a client: those it holds, then those that nobody has, then new ones."""
        trials = [] if fixed else self.held(client, n)
        if fixed:
            self.ready, kept = [], self.ready
        for _ in range(n - len(trials)):
            if not self.ready:
                self.propose(1, fixed)
            trial = self.hand(client)
            assert trial is not None, "one was just proposed"
            trials.append(trial)
        if fixed:
            self.ready = kept
        return trials

    def give_again(self, number: int, client: str) -> Trial:
        """Gives a trial whose client is lost to another one."""
        self._took(number)
        self._gave(number, client)
        self.optimizer.book.handed.append((number, client))
        return self.optimizer.trials[number]

    # -- telling

    def tell(self, number: int, value: ToldValue = None, **facts: Any) -> Trial:
        """What came of a trial. What was told already may be told again: the same is no news, another value raises."""
        trial = self._trial(number)
        if trial.state != "pending":
            if _is_same(trial, value, facts, self.optimizer.task.objectives):
                return trial
            raise ValueError(f"trial {number} was told before, and something else ({_ending(trial)})")
        if value is None:
            paid = {name: facts.get(name) for name in ("cost", "seconds")}
            self.optimizer.tell(number, failed=True, error=facts.get("error") or "", **paid)
        else:
            facts.pop("error", None)
            self.optimizer.tell(number, value, **facts)
        self._took(number)
        return trial

    def forget(self, number: int) -> None:
        """Gives up a trial that nobody will tell; giving it up again is no news."""
        if self._trial(number).state == "pending":
            self.optimizer.forget(number)
            self._took(number)
        elif number not in self.optimizer.book.forgotten:
            raise ValueError(f"trial {number} was told before ({_ending(self._trial(number))})")

    def repeat(self, number: int, value: ToldValue = None, **facts: Any) -> Trial:
        """A second value of a setting that was told: it becomes a trial of its own."""
        trial = self.optimizer.adopt(self._trial(number).given)
        return self.tell(trial.number, value, **facts)

    def reopen(self, number: int) -> None:
        """Takes back what was told of a trial, which is then pending again."""
        self.log.check_corrections()
        self.optimizer.book.reopen(self._trial(number).number)
        self.ready.append(number)

    def trial_json(self, trial: Trial) -> dict[str, Any]:
        """A trial in plain values, with its client."""
        facts = trial_json(self.optimizer, trial)
        client = self.clients.get(trial.number)
        return {**facts, "client": client} if client else facts

    # -- inside

    def _trial(self, number: int) -> Trial:
        trials = self.optimizer.trials
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(trials):
            raise ValueError(f"there is no trial {number!r}; the run has {len(trials)}")
        return trials[number]

    def _gave(self, number: int, client: str) -> None:
        self._took(number)
        self.clients[number] = client
        self.open.setdefault(client, []).append(number)

    def _took(self, number: int) -> None:
        client = self.clients.pop(number, None)
        if client is not None:
            self.open[client].remove(number)
            if not self.open[client]:
                del self.open[client]
        if number in self.ready:
            self.ready.remove(number)


def begin(
    space: Mapping[str, Any] | Space,
    *,
    method: str = "auto",
    direction: str = "minimize",
    budget: int | None = None,
    seed: int | None = None,
    constraints: int | Sequence[str] = 0,
    cost: str | None = None,
    probes: float = 0.0,
    floor: float | None = None,
    ceiling: float | None = None,
    noise_bound: float | None = None,
    objectives: Sequence[str] | Mapping[str, Any] | None = None,
    noisy: bool | None = None,
    reference: Mapping[str, float] | Sequence[float | None] | None = None,
) -> Optimizer:
    """A run that begins, from plain values: the space as tables (`type`, `low`, `high`, `log`, `step`, `labels`), which
    may have a list of rules called `where`, and a method's name. Nothing of it is code, a module or a path."""
    from regretless.files.codec import method_named
    from regretless.space.spelling import from_table
    from regretless.task import Task, objectives_of

    if not isinstance(space, Space):
        tables = dict(space)
        rules = tables.pop("where", []) if isinstance(tables.get("where"), list) else []
        if not all(isinstance(rule, str) for rule in rules):
            raise ValueError('where must be a list of texts such as "a < b"')
        space = Space({name: from_table(name, table) for name, table in tables.items()}, where=rules)
    names, directions = objectives_of(objectives, direction)  # type: ignore[arg-type]
    task = Task(
        space, directions, budget, seed, constraints, cost, probes, floor, ceiling, noise_bound, names, noisy,  # type: ignore[arg-type]
        reference,
    )  # fmt: skip
    return Optimizer(task, method_named(method))


def _is_same(trial: Trial, value: ToldValue, facts: Mapping[str, Any], objectives: Sequence[str]) -> bool:
    """Whether what is told now was told before."""
    if isinstance(value, Mapping):
        value = [value.get(name, math.nan) for name in objectives]
    values = () if value is None else (value,) if isinstance(value, int | float) else tuple(value)
    if not values or not all(map(math.isfinite, values)):
        return trial.value is None and trial.state == "failed"
    var = facts.get("var")
    return trial.values == values and (var is None or trial.further != () or trial.var == var)


def _ending(trial: Trial) -> str:
    if trial.value is None:
        return "it failed or was given up"
    return f"values {list(trial.values)}" if trial.further else f"value {trial.value!r}"
