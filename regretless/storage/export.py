"""Studies as results and as files: any single-objective study of any Optuna storage, whoever made it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.bounds import KnownBound
from regretless.doors.optuna import ERROR
from regretless.doors.replica import ConstraintNames
from regretless.doors.tree import learn_tree, space_of
from regretless.doors.trials import VARIANCE, check_one_objective
from regretless.doors.workers import OWNER, drawn_probes, probe_seed, ran_together
from regretless.earlier import columns_of
from regretless.optimizer import Optimizer
from regretless.result import Result
from regretless.statefile import write_whole
from regretless.stopping import COST, STOP_NOTE, STOP_STATE, constraints_of, watch_of
from regretless.storage.settings import Settings
from regretless.storage.urls import open_storage


def result_of_study(study: Study, *, method: str | None = None) -> Result:
    """A `Result` of any single-objective study: its completed and failed trials, told to a method on the parameters
    they share.

    The method is the one the study was tuned with by `tune_in_storage`, with its seed and budget, unless one is given;
    "auto" for studies of others.
    """
    check_one_objective(study)
    own = Settings.read(study)
    everything = study.get_trials(deepcopy=False)
    settings = own or Settings("auto", seed=probe_seed(everything), certify=False, budget=None)
    tree = learn_tree(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
    space = tree.distributions
    if not space:
        raise ValueError(f"study {study.study_name!r} has no completed trials with parameters in common")
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
    names = ConstraintNames().read(trials)
    optimizer = Optimizer(
        space_of(tree),
        method=method or settings.method,
        direction="maximize" if study.direction.name == "MAXIMIZE" else "minimize",
        budget=settings.budget or len(trials),
        seed=settings.seed,
        certify=settings.certify,
        constraints=names,
        probes=settings.probes,
        noise_bound=settings.noise_bound,
    )
    optimizer.bound = KnownBound.of(optimizer.direction, settings.bound, noise_bound=settings.noise_bound)
    numbers: list[int] = []
    for t in trials:
        if not all(d._contains(d.to_internal_repr(t.params[name])) for name, d in space.items() if name in t.params):
            continue
        found = constraints_of(t)
        try:
            trial = optimizer.adopt({name: t.params[name] for name in optimizer.space.names if name in t.params})
        except ValueError:  # a parameter is missing
            continue
        numbers.append(t.number)
        if t.state == TrialState.COMPLETE and set(found) == set(names):
            took = None if t.duration is None else t.duration.total_seconds()
            var = t.user_attrs.get(VARIANCE)
            paid = t.user_attrs.get(COST)
            optimizer.tell(trial, t.values[0], var=var, constraints=found or None, seconds=took, cost=paid)
        else:
            optimizer.tell(trial, failed=True, error=str(t.user_attrs.get(ERROR, "")))
    chosen = own is not None and all(OWNER in t.system_attrs for t in trials)
    optimizer.notes |= {"name": study.study_name, "foreign": not chosen, "numbers": numbers}
    moments = [moment.timestamp() for t in trials for moment in (t.datetime_start, t.datetime_complete) if moment]
    if moments:
        optimizer.notes["began"], optimizer.notes["ended"] = min(moments), max(moments)
    searched = {name for name, d in space.items() if not d.single()}
    drawn = drawn_probes(everything, searched, settings.seed)
    optimizer.probe_steps = sorted({step for step, _ in drawn})
    optimizer.notes["probes"] = sorted({number for _, number in drawn})
    optimizer.together = ran_together(everything)
    rule = study.user_attrs.get(STOP_STATE)
    optimizer.watch = watch_of(rule) if isinstance(rule, dict) else None
    note = study.user_attrs.get(STOP_NOTE)
    return Result.of(optimizer, str(note) if note else f"study {study.study_name}", success=True)


def find_study(storage: str | BaseStorage, study: str | None) -> Study:
    """The study of a name, or the only one; one that is not there raises ValueError with the names of those that
    are."""
    opened = open_storage(storage, create=False) if isinstance(storage, str) else storage
    if study is None:
        names = sorted(optuna.get_all_study_names(opened))
        if len(names) != 1:
            raise ValueError(f"the storage has {len(names)} studies; name one of them: {', '.join(names)}")
        study = names[0]
    try:
        return optuna.load_study(study_name=study, storage=opened)
    except KeyError:
        names = sorted(optuna.get_all_study_names(opened))
        raise ValueError(f"there is no study {study!r} in the storage; it has {', '.join(names) or 'none'}") from None


def export_study(storage: str | BaseStorage, study: str, out: str | Path) -> list[Path]:
    """Writes a study of any Optuna storage as `trials.csv`, `study.json` and `report.html` into a folder; returns the
    paths."""
    found = find_study(storage, study)
    result, out = result_of_study(found), Path(out)
    trials = found.get_trials(deepcopy=False)
    names = sorted({name for t in trials for name in t.params})
    out.mkdir(parents=True, exist_ok=True)
    table = out / "trials.csv"
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer, facts = csv.writer(file), ["number", "state", "value", "started", "completed"]
        writer.writerow([*facts, *columns_of(names, facts)])
        for t in trials:
            times = ("" if d is None else d.isoformat() for d in (t.datetime_start, t.datetime_complete))
            value = "" if not t.values else t.values[0]
            writer.writerow([t.number, t.state.name, value, *times, *(t.params.get(n, "") for n in names)])
    page = out / "study.json"
    description = {**_description(found, trials), "certificate": result.certificate.to_json()}
    write_whole(page, json.dumps(description, indent=1, default=str).encode())
    return [table, page, result.report(out / "report.html")]


def _description(study: Study, trials: list[FrozenTrial]) -> dict[str, Any]:
    rows = [
        {
            "number": t.number,
            "state": t.state.name,
            "value": t.values[0] if t.values else None,
            "params": t.params,
            "distributions": {
                name: json.loads(optuna.distributions.distribution_to_json(d)) for name, d in t.distributions.items()
            },
            "intermediate": {str(step): value for step, value in t.intermediate_values.items()},
            "user_attrs": t.user_attrs,
            "started": t.datetime_start,
            "completed": t.datetime_complete,
        }
        for t in trials
    ]
    direction = study.direction.name.lower()
    return {"name": study.study_name, "direction": direction, "user_attrs": study.user_attrs, "trials": rows}
