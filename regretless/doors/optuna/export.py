"""Studies as results and as files: any study of any Optuna storage, whoever made it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from regretless.basics.statefile import write_whole
from regretless.doors.optuna.distributions import Distributions, searchable
from regretless.doors.optuna.replica import ConstraintNames
from regretless.doors.optuna.rules import COST, STOP_NOTE, constraints_of, kept_state, probing_of
from regretless.doors.optuna.sampler import ERROR
from regretless.doors.optuna.settings import StudySettings
from regretless.doors.optuna.tree import learn_tree, space_of
from regretless.doors.optuna.trials import amount, directions_of, moments_of, seconds_of, told_variance
from regretless.doors.optuna.urls import open_storage
from regretless.doors.optuna.workers import OWNER, drawn_probes, probe_seed
from regretless.files.codec import method_named
from regretless.files.earlier import columns_of
from regretless.optimizer import Optimizer
from regretless.run.result import Result


def result_of_study(study: Study, *, method: str | None = None) -> Result:
    """A `Result` of any study: its completed and failed trials, told to a method on the parameters
    they share.

    The method is the one the study was tuned with by `tune_in_storage`, with its seed and budget, unless one is given;
    "auto" for studies of others.
    """
    everything = study.get_trials(deepcopy=False)
    own = StudySettings.read(study)
    settings = own or StudySettings("auto", seed=probe_seed(everything), certify=False, budget=None)
    tree = learn_tree(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
    if not tree.distributions:
        raise ValueError(f"study {study.study_name!r} has no completed trials with parameters in common")
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))
    task = settings.task(space_of(tree), directions_of(study), ConstraintNames().read(trials))
    task = replace(task, budget=task.budget or len(trials))
    optimizer = Optimizer(task, method_named(method or settings.method), certify=settings.certify)
    told = [t for t in trials if _took_in(optimizer, t, tree.distributions)]
    searched, record = searchable(tree.distributions), optimizer.book.record
    probing = probing_of(study, everything, searched, task)
    optimizer.book.probe_steps, record.overlapping = list(probing.steps or ()), probing.overlapping
    record.name, record.numbers, record.rule = study.study_name, [t.number for t in told], kept_state(study)
    record.probes = sorted({number for _, number in drawn_probes(everything, searched, task.seed)})
    record.foreign = own is None or any(OWNER not in t.system_attrs for t in trials)
    moments = [moment for t in trials for moment in moments_of(t)]
    if moments:
        record.began, record.ended = min(moments), max(moments)
    note = study.user_attrs.get(STOP_NOTE)
    return Result.of(optimizer, str(note) if note else f"study {study.study_name}", success=True)


def _took_in(optimizer: Optimizer, trial: FrozenTrial, space: Distributions) -> bool:
    """Tells an optimizer a trial that ended; False where the trial does not lie in its space."""
    names, params = optimizer.task.constraint_names, trial.params
    if not all(d._contains(d.to_internal_repr(params[name])) for name, d in space.items() if name in params):
        return False
    try:
        own = optimizer.adopt({name: params[name] for name in optimizer.space.names if name in params})
    except ValueError:  # a parameter is missing
        return False
    found = constraints_of(trial)
    if trial.state == TrialState.COMPLETE and set(found) == set(names):
        var, paid = told_variance(trial, len(optimizer.task.directions)), amount(trial.user_attrs.get(COST))
        value: Any = trial.values if optimizer.task.several else trial.values[0]
        optimizer.tell(own, value, var=var, constraints=found or None, seconds=seconds_of(trial), cost=paid)
    else:
        optimizer.tell(own, failed=True, error=str(trial.user_attrs.get(ERROR, "")))
    return True


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
        values = list(result.optimizer.task.objectives) if result.optimizer.task.several else ["value"]
        writer, facts = csv.writer(file), ["number", "state", *values, "started", "completed"]
        writer.writerow([*facts, *columns_of(names, facts)])
        for t in trials:
            times = ("" if d is None else d.isoformat() for d in (t.datetime_start, t.datetime_complete))
            told = t.values or [""] * len(values)
            writer.writerow([t.number, t.state.name, *told, *times, *(t.params.get(n, "") for n in names)])
    page = out / "study.json"
    description = {**_description(found, trials), "certificate": result.certificate.to_json()}
    write_whole(page, json.dumps(description, indent=1, default=str).encode())
    return [table, page, result.report(out / "report.html")]


def _description(study: Study, trials: list[FrozenTrial]) -> dict[str, Any]:
    rows = [
        {
            "number": t.number,
            "state": t.state.name,
            **({"value": t.values[0] if t.values else None} if len(study.directions) == 1 else {"values": t.values}),
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
    directions = list(directions_of(study))
    way = {"direction": directions[0]} if len(directions) == 1 else {"directions": directions}
    return {"name": study.study_name, **way, "user_attrs": study.user_attrs, "trials": rows}
