"""Bilevel problems: tune hyper-parameters of an inner training loop, with a budget in training steps, and get the
trained model back.

    problem = Bilevel(init, step, validate)
    result = minimize_bilevel(problem, {"lr": Float(1e-4, 1, log=True)}, budget_steps=10_000, seed=0, folder="study")
    result.params, result.value, result.state

Runs are frozen into a store when their stretch ends and thawed when the schedule promotes them. Every finished stretch
is a line in the study's journal, written after the state it speaks of. Decisions and proposals are functions of the
journal and the seed, so a study that was killed goes on from its folder and ends with the same result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from regretless.bilevel.outer import Outer
from regretless.bilevel.problem import Bilevel
from regretless.bilevel.result import BilevelResult
from regretless.bilevel.run import Run
from regretless.bilevel.schedule import Fixed, Promotion, promotion
from regretless.bilevel.store import Journal, Store
from regretless.bilevel.study import Study
from regretless.method import Recipe
from regretless.space import Space, SpaceLike
from regretless.statefile import StateError, digest, write_whole

VALIDATIONS = 4
"""Validations per stretch of training; the last one counts, the earlier ones tell how noisy the curve is."""


def minimize_bilevel(
    problem: Bilevel,
    space: SpaceLike,
    *,
    budget_steps: int | None = None,
    trials: int | None = None,
    horizon: int | None = None,
    method: str | Recipe = "bilevel",
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
    callback: Callable[[Run], Any] | None = None,
) -> BilevelResult:
    """Finds the setting whose training ends with the smallest validation loss, and returns it with the trained state.

    Either `budget_steps`, the total number of training steps, which are split by promotion (`plan` shows how), or
    `trials` and `horizon`, the fixed split of the paper's algorithms.

    Args:
        problem: the inner training problem.
        space: the hyper-parameters; see `regretless.Space`.
        method: the outer method, a name or recipe; `regretless.BBO(preset="paper")` is the paper's own.
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
    for name, number in (("validations", validations), ("keep", keep), ("keep_bytes", keep_bytes)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
    space = Space(space)
    outer = Outer(space, method, seed, _schedule(space, budget_steps, trials, horizon, rungs, final_share), scale, cap)
    description = {**outer.describe(), "validations": validations, "keep": keep, "keep_bytes": keep_bytes}
    key = _checksum(description)
    folder = None if folder is None else Path(folder)
    if folder is not None:
        _claim(folder, description, key)
    store = Store(None if folder is None else folder / "states", most=keep, most_bytes=keep_bytes, study=key)
    journal = Journal(None if folder is None else folder / "journal.jsonl", key)
    return Study(problem, outer, journal, store, validations, snapshot_seconds, verbose).go(progress, callback)


def _schedule(
    space: Space,
    budget_steps: int | None,
    trials: int | None,
    horizon: int | None,
    rungs: Sequence[int] | None,
    final_share: float | None,
) -> Promotion | Fixed:
    if budget_steps is not None and trials is None and horizon is None:
        return promotion(space, budget_steps, rungs, final_share)
    if budget_steps is None and trials is not None and horizon is not None:
        if rungs is not None or final_share is not None:
            raise ValueError(
                "rungs and final_share belong to budget_steps; with trials and horizon all settings train equally long"
            )
        return Fixed(trials, horizon)
    raise ValueError(
        f"give either budget_steps, or trials and horizon; got budget_steps={budget_steps!r}, trials={trials!r}, "
        f"horizon={horizon!r} (plan(space, budget_steps=...) shows how a budget can be split)"
    )


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
        raise ValueError(
            f"{folder} holds another study: {', '.join(other)} differ(s); use another folder or the same arguments"
        )
