"""The loop of a bilevel study: train what the schedule says, write down what came of it, survive kills.

Every finished stretch of training is a line in the journal, written after the state it speaks of; the records follow
from the journal alone, and decisions and proposals from the records and the seed. So whenever the process is killed,
the next one reads the journal, removes states no line speaks of, and goes on as the first would have done.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

from regretless.bilevel.outer import Outer
from regretless.bilevel.problem import Bilevel, State
from regretless.bilevel.result import BilevelResult, RunRecord, Status
from regretless.bilevel.schedule import Fixed, Job, Run
from regretless.bilevel.store import Journal, StateError, Store
from regretless.certificate import Certificate
from regretless.parameters import Array

MOST_FAILURES = 10
"""So many runs in a row that fail mean a fault in the problem, not bad luck with the settings."""


class Study:
    """The loop: asks the schedule for jobs, trains them, and writes down what came of it."""

    def __init__(
        self,
        problem: Bilevel,
        outer: Outer,
        journal: Journal,
        store: Store,
        validations: int,
        snapshot_seconds: float,
        verbose: bool,
    ) -> None:
        self.problem, self.outer, self.journal, self.store = problem, outer, journal, store
        self.validations, self.snapshot_seconds, self.verbose = validations, snapshot_seconds, verbose
        self.records: list[RunRecord] = []
        self.spent = 0
        for line in journal.lines:
            self._take(line)
        self._tidy()
        self._bound()

    def go(self, progress: bool, callback: Callable[[RunRecord], Any] | None) -> BilevelResult:
        message, success = "the budget was spent", True
        with tqdm(
            total=self.outer.schedule.budget_steps,
            initial=self.spent,
            disable=not progress,
            unit="step",
            desc=self.outer.recipe.name,
        ) as bar:
            try:
                while (job := self.outer.schedule.job([r.run for r in self.records], self.spent)) is not None:
                    before = self.spent
                    record = self._train(job)
                    best = self._best()
                    if not bar.disable and best is not None:
                        bar.set_postfix_str(f"best {self.records[best[0]].run.ends[best[1]]:.5g}", refresh=False)
                    bar.update(self.spent - before)
                    self._say(job, record)
                    self._stop_if_all_fail()
                    if callback is not None and callback(record):
                        message, success = "the callback stopped the study", False
                        break
            except KeyboardInterrupt:
                message, success = "interrupted; this is what was known by then", False
        return self._result(message, success)

    # -- one stretch of training

    def _train(self, job: Job) -> RunRecord:
        """Trains one run for one stretch: its state goes to the store, then a line to the journal, then what is no
        longer needed goes."""
        begin = time.perf_counter()
        record = (
            self._new_record(self.outer.propose(self.records, job.until)) if job.run is None else self.records[job.run]
        )
        stretch = self._stretch(record, job)
        if stretch.status in ("ok", "finished"):
            try:
                self.store.put(_name(record.number, stretch.done), self.problem.freeze(stretch.state))
            except StateError:
                raise  # a fault of the problem, the same for every setting
            except (
                Exception
            ):  # the problem's own code, so anything may come; it fails this run and its traceback is kept
                stretch.status, stretch.error = "failed", traceback.format_exc()
        line = {
            "run": record.number, "unit": record.unit.tolist(), "params": {k: _plain(v) for k, v in record.params.items()}, "why": job.why,
            "from": record.steps, "steps": stretch.done, "curve": [[n, v if math.isfinite(v) else None] for n, v in stretch.curve],
            "status": stretch.status, "error": stretch.error, "spent": stretch.tried - record.steps, "seconds": time.perf_counter() - begin,
        }  # fmt: skip
        self.journal.append(line)
        self._take(line)
        self._tidy()
        self._bound()
        return self.records[record.number]

    def _stretch(self, record: RunRecord, job: Job) -> Stretch:
        """Trains a run from where it stands, or from its last snapshot, until the job is done or something ends it."""
        out = Stretch(done=record.steps, tried=record.steps)
        since = time.perf_counter()
        try:
            out.state, out.done, out.curve = self._thawed(record)
            for target in validation_steps(record.steps, job.until, self.validations):
                if target <= out.done:
                    continue  # the snapshot was taken after this point
                out.tried = target
                out.state, taken = self.problem.advance(out.state, target - out.done)
                out.done += taken
                if out.done == 0:
                    raise RuntimeError("the run had finished before its first step")
                if taken:
                    out.curve.append((out.done, float(self.problem.validate(out.state))))
                if out.done < target:
                    out.status, out.tried = "finished", out.done
                    break
                if not math.isfinite(out.curve[-1][1]):
                    out.status = "diverged"
                    break
                if time.perf_counter() - since > self.snapshot_seconds and target < job.until:
                    note = {"steps": out.done, "curve": out.curve}
                    self.store.put(_name(record.number, record.steps, part=True), self.problem.freeze(out.state), note)
                    since = time.perf_counter()
        except StateError:
            raise
        except Exception:  # the problem's own code, so anything may come; it fails this run and its traceback is kept
            out.status, out.error = "failed", traceback.format_exc()
        return out

    def _thawed(self, record: RunRecord) -> tuple[State, int, list[tuple[int, float]]]:
        """The state a stretch goes on from, its steps, and the part of the stretch's curve that is known already."""
        part, whole = _name(record.number, record.steps, part=True), _name(record.number, record.steps)
        if part in self.store:
            saved, note = self.store.read(part)
            return (
                self.problem.thaw(record.params, record.seed, saved),
                int(note["steps"]),
                [(int(n), float(v)) for n, v in note["curve"]],
            )
        if record.steps == 0:
            return self.problem.init(dict(record.params), record.seed), 0, []
        if whole not in self.store:
            raise StateError(
                f"the state of run {record.number} after {record.steps} steps is missing from {self.store.folder}"
            )
        return self.problem.thaw(record.params, record.seed, self.store.read(whole)[0]), record.steps, []

    # -- what is known

    def _new_record(self, unit: Array) -> RunRecord:
        number = len(self.records)
        return RunRecord(
            number, self.outer.space.decode(unit, self.outer.choices), unit, self.outer.run_seed(number), Run(number)
        )

    def _take(self, line: dict[str, Any]) -> None:
        """Takes a journal line into the records; the records follow from the journal alone."""
        if "dropped" in line:
            for number in line["dropped"]:
                self.records[number].run.thawable = False
            return
        if line["run"] == len(self.records):
            self.records.append(self._new_record(np.array(line["unit"], dtype=np.float64)))
        record, run = self.records[line["run"]], self.records[line["run"]].run
        run.curve += [(n, math.inf if v is None else v) for n, v in line["curve"]]
        record.status, record.error = line["status"], line["error"]
        record.seconds += line["seconds"]
        record.spent += line["spent"]
        record.log.append((line["why"], self.spent, self.spent + line["spent"]))
        self.spent += line["spent"]
        run.thawable = record.status == "ok"
        if record.status != "failed":
            run.steps = line["steps"]
            if line["curve"]:
                run.ends[run.steps] = run.curve[-1][1]

    def _best(self) -> tuple[int, int] | None:
        """The run and its steps with the least loss at the end of a stretch; None while there is none."""
        ends = [(loss, r.number, n) for r in self.records for n, loss in r.run.ends.items() if math.isfinite(loss)]
        return min(ends)[1:] if ends else None

    def _tidy(self) -> None:
        """Removes states nobody will ask for again: superseded ones, and what a kill left behind."""
        wanted = {_name(r.number, r.steps) for r in self.records if r.run.thawable}
        wanted |= {_name(r.number, r.steps, part=True) for r in self.records if r.run.thawable} | {
            _name(len(self.records), 0, part=True)
        }
        best = self._best()
        if best is not None:
            wanted.add(_name(*best))
        for name in [name for name in self.store.sizes if name not in wanted]:
            self.store.drop(name)

    def _bound(self) -> None:
        """Keeps the store within its bounds: the runs with the worst losses lose their states first, never the best
        one.

        The snapshot of a stretch under way does not count: whether there is one depends on the clock, and what is
        dropped must not.
        """
        best = self._best()
        frozen = sorted(
            (r for r in self.records if _name(r.number, r.steps) in self.store), key=lambda r: (-r.loss, -r.number)
        )
        names = {_name(r.number, r.steps): r.number for r in frozen if (r.number, r.steps) != best}
        gone = self.store.surplus(names, beside=[name for name in self.store.sizes if name.startswith("part")])
        if gone:
            line = {"dropped": [names[name] for name in gone]}
            self.journal.append(line)  # first the word, then the deed: a kill in between is caught up with by _tidy
            self._take(line)
            self._tidy()

    def _stop_if_all_fail(self) -> None:
        last = self.records[-MOST_FAILURES:]
        if len(last) == MOST_FAILURES and all(r.status == "failed" for r in last):
            raise RuntimeError(f"the last {MOST_FAILURES} runs failed; the last one with\n{last[-1].error}")

    def _say(self, job: Job, record: RunRecord) -> None:
        if not self.verbose:
            return
        if record.status == "failed":
            tqdm.write(f"run {record.number} failed: {record.error.strip().splitlines()[-1]}")
        elif record.status == "diverged":
            tqdm.write(f"run {record.number} diverged by step {record.steps}: {record.params}")
        elif job.why != "new":
            tqdm.write(
                f"run {record.number} {'promoted' if job.why == 'promoted' else 'leads on'} to {record.steps} steps, loss {record.loss:.5g}"
            )

    def _result(self, message: str, success: bool) -> BilevelResult:
        schedule, best = self.outer.schedule, self._best()
        if best is None:
            nothing = Certificate.none("no run was validated", 0.05)
            return BilevelResult(
                {},
                math.nan,
                None,
                0,
                self.records,
                self.spent,
                f"{message}; no run succeeded",
                False,
                schedule,
                nothing,
            )
        certificate = Certificate.none(
            "runs of different length were compared; a certificate needs equal ones (trials= and horizon=)", 0.05
        )
        if isinstance(
            schedule, Fixed
        ):  # Algorithms 1 and 2 return a setting by their own rule, not the least loss seen
            method = self.outer.method(self.records)
            certificate = method.certificate().scaled(-1.0)
            chosen = method.recommend()
            best = next((r.number, r.steps) for r in self.records if np.array_equal(r.unit, chosen))
        record = self.records[best[0]]
        if _name(*best) in self.store:
            state = self.problem.thaw(record.params, record.seed, self.store.read(_name(*best))[0])
        else:  # the store was too small for it: the run is repeated, which is exact
            state, _ = self.problem.advance(self.problem.init(dict(record.params), record.seed), best[1])
        value = record.run.ends[best[1]]
        return BilevelResult(
            record.params,
            value,
            state,
            best[1],
            self.records,
            self.spent,
            message,
            success,
            schedule,
            certificate,
            best[0],
        )


@dataclass(eq=False)
class Stretch:
    """One stretch of training under way."""

    done: int
    """The run's steps so far."""
    tried: int
    """The steps the budget is charged up to; beyond `done` when a block of steps failed half-way."""
    state: State = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    status: Status = "ok"
    error: str = ""


def validation_steps(start: int, until: int, validations: int) -> list[int]:
    """The steps at which a stretch is validated: `validations` evenly spaced ones, the last at its end."""
    return sorted({start + math.ceil((until - start) * k / validations) for k in range(1, validations + 1)})


def _name(number: int, steps: int, *, part: bool = False) -> str:
    """The store's name for a run's state after so many steps; `part`: for the snapshot of the stretch that began
    there."""
    return f"{'part' if part else 'run'}-{number:05d}-{steps}"


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
