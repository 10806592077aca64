"""Bilevel problems: tune hyper-parameters of an inner training loop, with a budget in training steps, and get the
trained model back.

    problem = Bilevel(init, step, validate)
    result = minimize_bilevel(problem, {"lr": Float(1e-4, 1, log=True)}, budget_steps=10_000, seed=0, folder="study")
    result.params, result.value, result.state

`BilevelStudy` is the loop: it trains what the schedule says and writes down what came of it. Runs are frozen into a
store when their stretch ends and thawed when the schedule promotes them. Every finished stretch is a line in the
study's journal, written after the state it speaks of. Decisions and proposals are functions of the journal and the
seed, so a study that was killed goes on from its folder and ends with the same result.
"""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from regretless.basics.options import whole_number
from regretless.basics.statefile import StateError, digest, write_whole
from regretless.bilevel.freeze import needs_fresh
from regretless.bilevel.outer import Outer
from regretless.bilevel.problem import Bilevel, TrainingState
from regretless.bilevel.result import BilevelResult
from regretless.bilevel.run import Status, TrainingRun
from regretless.bilevel.schedule import FixedHorizon, Job, Promotion, promotion
from regretless.bilevel.store import Journal, Store
from regretless.certificate import Certificate
from regretless.method import Recipe
from regretless.space import Space, SpaceLike

VALIDATIONS = 4
"""Validations per stretch of training; the last one counts, the earlier ones tell how noisy the curve is."""


def minimize_bilevel(
    problem: Bilevel,
    space: SpaceLike,
    *,
    budget_steps: int | None = None,
    trials: int | None = None,
    horizon: int | None = None,
    method: str | Recipe | None = None,
    rungs: Sequence[int] | None = None,
    final_share: float | None = None,
    scale: Literal["auto", "log", "linear"] = "auto",
    cap: float | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    keep: int = 64,
    keep_bytes: int = 2 * 2**30,
    snapshot_seconds: float = 60.0,
    validations: int = VALIDATIONS,
    progress: bool = True,
    verbose: bool = False,
    callback: Callable[[TrainingRun], Any] | None = None,
) -> BilevelResult:
    """Finds the setting whose training ends with the smallest validation loss, and returns it with the trained state.

    Either `budget_steps`, the total number of training steps, which are split by promotion (`plan` shows how), or
    `trials` and `horizon`, the fixed split of the paper's algorithms.

    Args:
        problem: the inner training problem.
        space: the hyper-parameters; see `regretless.Space`.
        method: what proposes settings, a name or recipe; None: random draws with `budget_steps`, because the schedule
            is what pays (docs/lab/bilevel.md), and "bilevel", the paper's model, with `trials` and `horizon`.
            "bbo-printed" is the paper's own algorithm.
        rungs, final_share: the horizons of the ladder, in steps, and the part of the budget kept for training the
            leaders on; by default those of `plan`.
        scale: whether the outer method sees the log of the loss; "auto" does when all losses are positive.
        cap: losses above it count as equal to it (for cross-entropy, something like 5).
        seed: makes the study repeatable.
        folder: where the journal and the states live; an existing study there is resumed. Without it all is in memory.
        keep, keep_bytes: the most states kept, beside that in training, and their most bytes; the least promising go
            first.
        snapshot_seconds: how often a long stretch of training writes its state, so that a kill costs less.
        validations: validations per stretch of training.
        progress, verbose: whether to show a bar over the steps, and a line for every promotion, divergence and failure.
        callback: called with the run after each stretch; a true return value ends the study.
    """
    if not isinstance(problem, Bilevel):
        raise TypeError(f"problem must be a Bilevel, got {problem!r}")
    whole_number(validations=validations, keep=keep, keep_bytes=keep_bytes)
    space = Space(space)
    if budget_steps is not None and trials is None and horizon is None:
        schedule: Promotion | FixedHorizon = promotion(space, budget_steps, rungs, final_share)
    elif budget_steps is None and trials is not None and horizon is not None:
        if rungs is not None or final_share is not None:
            raise ValueError("rungs and final_share belong to budget_steps, not to trials and horizon")
        schedule = FixedHorizon(trials, horizon)
    else:
        raise ValueError(
            f"give either budget_steps, or trials and horizon; got budget_steps={budget_steps!r}, trials={trials!r}, "
            f"horizon={horizon!r} (plan(space, budget_steps=...) shows how a budget can be split)"
        )
    outer = Outer(space, method, seed, schedule, scale, cap)
    description = {**outer.describe(), "validations": validations, "keep": keep, "keep_bytes": keep_bytes}
    key = _checksum(description)
    folder = None if folder is None else Path(folder)
    if folder is not None:
        _claim(folder, description, key)
    store = Store(None if folder is None else folder / "states", most=keep, most_bytes=keep_bytes, study=key)
    journal = Journal(None if folder is None else folder / "journal.jsonl", key)
    return BilevelStudy(problem, outer, journal, store, validations, snapshot_seconds, verbose).go(progress, callback)


def _checksum(description: dict[str, Any]) -> str:
    return digest(json.dumps(description, sort_keys=True).encode())


def _claim(folder: Path, description: dict[str, Any], checksum: str) -> None:
    """Writes what the study is into its folder, or checks that the study already there is the same."""
    path = folder / "study.json"
    if not path.exists():
        write_whole(path, json.dumps({"study": description, "checksum": checksum}, indent=1).encode())
        return
    try:
        content = json.loads(path.read_bytes())
        stored = content["study"]
        whole = content["checksum"] == _checksum(stored)
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise StateError(f"{path} is damaged; restore the file or start in a new folder")
    if content["checksum"] != checksum:
        written = json.loads(json.dumps(description))
        other = [key for key in {**written, **stored} if stored.get(key) != written.get(key)]
        raise ValueError(f"{folder} holds another study: {', '.join(other)} differ(s); use another folder")


class BilevelStudy:
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
        self.runs: list[TrainingRun] = []
        self.spent = 0
        self._thaws = False  # whether a state has been seen to thaw
        for line in journal.lines:
            self._take(line)
        self._check_states()
        self._tidy()
        self._bound()

    def go(self, progress: bool, callback: Callable[[TrainingRun], Any] | None) -> BilevelResult:
        """Trains until the budget is spent, the callback says so or the user interrupts, and gives what was found."""
        # A study ends when this many runs in a row have failed: a fault in the problem is then likelier than bad luck
        most_failures = 10
        message, success = "the budget was spent", True
        total, name = self.outer.schedule.budget_steps, self.outer.recipe.name
        with tqdm(total=total, initial=self.spent, disable=not progress, unit="step", desc=name) as bar:
            try:
                while (job := self.outer.schedule.job(self.runs, self.spent)) is not None:
                    before = self.spent
                    run = self._train(job)
                    best = self._best()
                    if not bar.disable and best is not None:
                        bar.set_postfix_str(f"best {self.runs[best[0]].ends[best[1]]:.5g}", refresh=False)
                    bar.update(self.spent - before)
                    self._say(job, run)
                    last = self.runs[-most_failures:]
                    if len(last) == most_failures and all(r.status == "failed" for r in last):
                        raise RuntimeError(f"the last {most_failures} runs failed; the last one with\n{last[-1].error}")
                    if callback is not None and callback(run):
                        message, success = "the callback stopped the study", False
                        break
            except KeyboardInterrupt:
                message, success = "interrupted; this is what was known by then", False
        return self._result(message, success)

    def _train(self, job: Job) -> TrainingRun:
        """Trains one run for one stretch: its state goes to the store, then a line to the journal."""
        begin = time.perf_counter()
        number = len(self.runs) if job.run is None else job.run
        if job.run is None:
            run = self.outer.new_run(number, self.outer.propose(self.runs, job.until))
        else:
            run = self.runs[number]
        stretch = Stretch(done=run.steps, tried=run.steps)
        try:
            self._advance(run, job, stretch)
            if stretch.status in ("ok", "finished"):
                frozen = self.problem.freeze(stretch.state)
                if not self._thaws:  # the first state of this process shows whether `init` makes all its objects
                    if self.problem.load is None and needs_fresh(frozen):
                        self.problem.thaw(run.params, run.seed, frozen)
                    self._thaws = True
                self.store.put(_name(run.number, stretch.done), frozen)
        except StateError:
            raise  # a fault of the problem, the same for every setting
        except Exception:  # the problem's own code may raise anything; it fails this run and its traceback is kept
            stretch.status, stretch.error = "failed", traceback.format_exc()
        line = {
            "run": run.number, "unit": run.unit.tolist(), "params": {k: _plain(v) for k, v in run.params.items()},
            "why": job.why, "from": run.steps, "steps": stretch.done, "status": stretch.status, "error": stretch.error,
            "curve": [[n, v if math.isfinite(v) else None] for n, v in stretch.curve],
            "spent": stretch.tried - run.steps, "seconds": time.perf_counter() - begin,
            "bytes": self.store.sizes.get(_name(run.number, stretch.done)),
        }  # fmt: skip
        self.journal.append(line)
        self._take(line)
        self._tidy()
        self._bound()
        return self.runs[run.number]

    def _advance(self, run: TrainingRun, job: Job, out: Stretch) -> None:
        """Trains a run from where it stands, or from its last snapshot, until the job is done or something ends it."""
        since = time.perf_counter()
        out.state, out.done, out.curve = self._thawed(run)
        for target in validation_steps(run.steps, job.until, self.validations):
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
                return
            if not math.isfinite(out.curve[-1][1]):
                out.status = "diverged"
                return
            if time.perf_counter() - since > self.snapshot_seconds and target < job.until:
                note = {"steps": out.done, "curve": out.curve}
                self.store.put(_name(run.number, run.steps, part=True), self.problem.freeze(out.state), note)
                since = time.perf_counter()

    def _thawed(self, run: TrainingRun) -> tuple[TrainingState, int, list[tuple[int, float]]]:
        """The state a stretch goes on from, its steps, and the part of the stretch's curve that is known already."""
        part = _name(run.number, run.steps, part=True)
        if part in self.store:
            saved, note = self.store.read(part)
            curve = [(int(n), float(v)) for n, v in note["curve"]]
            return self.problem.thaw(run.params, run.seed, saved), int(note["steps"]), curve
        if run.steps == 0:
            return self.problem.init(dict(run.params), run.seed), 0, []
        saved, _ = self.store.read(_name(run.number, run.steps))
        return self.problem.thaw(run.params, run.seed, saved), run.steps, []

    def _take(self, line: dict[str, Any]) -> None:
        """Takes a journal line into the runs; what is known of the runs follows from the journal alone."""
        if "dropped" in line:
            for number in line["dropped"]:
                self.runs[number].thawable = False
            return
        if line["run"] == len(self.runs):
            self.runs.append(self.outer.new_run(line["run"], np.array(line["unit"], dtype=np.float64)))
        run = self.runs[line["run"]]
        curve = [(n, math.inf if v is None else v) for n, v in line["curve"]]
        run.add_stretch(curve, line["steps"], line["status"])
        run.error = line["error"]
        run.seconds += line["seconds"]
        run.spent += line["spent"]
        run.log.append((line["why"], self.spent, self.spent + line["spent"]))
        self.spent += line["spent"]

    def _best(self) -> tuple[int, int] | None:
        """The run and its steps with the least loss at the end of a stretch; None while there is none."""
        ends = [(loss, r.number, n) for r in self.runs for n, loss in r.ends.items() if math.isfinite(loss)]
        return min(ends)[1:] if ends else None

    def _check_states(self) -> None:
        """Raises StateError when a state that may be asked for again is missing or has another size than written."""
        last = {line["run"]: line["bytes"] for line in self.journal.lines if "run" in line}
        for run in self.runs:
            name = _name(run.number, run.steps)
            if run.thawable and self.store.sizes.get(name) != last[run.number]:
                where = f"{self.store.folder}/{name}.npz"
                raise StateError(f"{where} is missing or damaged; restore it or start in a new folder")

    def _tidy(self) -> None:
        """Removes states nobody will ask for again: superseded ones, and what a kill left behind."""
        wanted = {_name(r.number, r.steps) for r in self.runs if r.thawable}
        wanted |= {_name(r.number, r.steps, part=True) for r in self.runs if r.thawable}
        wanted.add(_name(len(self.runs), 0, part=True))
        best = self._best()
        if best is not None:
            wanted.add(_name(*best))
        for name in [name for name in self.store.sizes if name not in wanted]:
            self.store.drop(name)

    def _bound(self) -> None:
        """Keeps the store within its bounds: the runs with the worst losses lose their states first, never the best
        one. The snapshot of a stretch under way does not count: whether there is one depends on the clock."""
        best = self._best()
        frozen = sorted(
            (r for r in self.runs if _name(r.number, r.steps) in self.store), key=lambda r: (-r.loss, -r.number)
        )
        names = {_name(r.number, r.steps): r.number for r in frozen if (r.number, r.steps) != best}
        gone = self.store.surplus(names, beside=[name for name in self.store.sizes if name.startswith("part")])
        if gone:
            line = {"dropped": [names[name] for name in gone]}
            self.journal.append(line)  # first the word, then the deed: a kill in between is caught up with by _tidy
            self._take(line)
            self._tidy()

    def _say(self, job: Job, run: TrainingRun) -> None:
        if not self.verbose:
            return
        if run.status == "failed":
            tqdm.write(f"run {run.number} failed: {run.error.strip().splitlines()[-1]}")
        elif run.status == "diverged":
            tqdm.write(f"run {run.number} diverged by step {run.steps}: {run.params}")
        elif job.why != "new":
            word = "promoted" if job.why == "promoted" else "leads on"
            tqdm.write(f"run {run.number} {word} to {run.steps} steps, loss {run.loss:.5g}")

    def _result(self, message: str, success: bool) -> BilevelResult:
        schedule, best = self.outer.schedule, self._best()
        if best is None:
            nothing, message = Certificate.none("no run was validated", 0.05), f"{message}; no run succeeded"
            return BilevelResult({}, math.nan, None, 0, self.runs, self.spent, message, False, schedule, nothing)
        certificate = Certificate.none(
            "runs of different length were compared; a certificate needs equal ones (trials= and horizon=)", 0.05
        )
        if isinstance(
            schedule, FixedHorizon
        ):  # Algorithms 1 and 2 return a setting by their own rule, not the least loss
            optimizer = self.outer.optimizer(self.runs)
            certificate, chosen = optimizer.certificate, optimizer.recommend()
            best = next((r.number, r.steps) for r in self.runs if r.params == chosen)
        number, steps = best
        run = self.runs[number]
        if _name(number, steps) in self.store:
            state = self.problem.thaw(run.params, run.seed, self.store.read(_name(number, steps))[0])
        else:  # the store was too small for it: the run is repeated, which is exact
            state, _ = self.problem.advance(self.problem.init(dict(run.params), run.seed), steps)
        return BilevelResult(
            run.params, run.ends[steps], state, steps, self.runs, self.spent, message, success, schedule, certificate,
            number,
        )  # fmt: skip


@dataclass(eq=False)
class Stretch:
    """One stretch of training under way."""

    done: int
    """The run's steps so far."""
    tried: int
    """The steps the budget is charged up to; beyond `done` when a block of steps failed half-way."""
    state: TrainingState = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    status: Status = "ok"
    error: str = ""


def validation_steps(start: int, until: int, validations: int) -> list[int]:
    """The steps at which a stretch is validated: `validations` evenly spaced ones, the last at its end."""
    return sorted({start + math.ceil((until - start) * k / validations) for k in range(1, validations + 1)})


def _name(number: int, steps: int, *, part: bool = False) -> str:
    """The store's name for a run's state after so many steps; `part`: the snapshot of a stretch begun there."""
    return f"{'part' if part else 'run'}-{number:05d}-{steps}"


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
