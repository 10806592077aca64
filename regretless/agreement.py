"""What a file of `Optimizer.save` must agree with before a run goes on from it: the space and the method given again,
and its own history. A file may come from a stranger."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from regretless.auto import find_recipe
from regretless.fingerprint import is_plain
from regretless.method import LARGEST, Method, Recipe
from regretless.probes import is_due
from regretless.space import Space
from regretless.trial import STATES, column

if TYPE_CHECKING:
    from regretless.optimizer import Optimizer
    from regretless.trial import Trial

MethodLike: TypeAlias = str | Recipe | type[Method]
"""A name, a recipe, a Method class, or "auto"."""
LARGEST_OPTION = 4096
"""The largest whole number that an option in a file may be without being given again: larger ones ask for much memory,
and a file may come from a stranger. No default is larger."""


def as_recipe(method: MethodLike) -> Recipe:
    """The recipe of a name, a recipe or a Method class."""
    if isinstance(method, Recipe):
        return method
    if isinstance(method, type) and issubclass(method, Method):
        return Recipe(method.__name__, method)
    return find_recipe(method)


def same_space(description: Mapping[str, Any], given: Space | None) -> Space:
    """The space of a file, from its description or, where no file could hold that, as given; a given one must be the
    same.

    Points are kept as places in the cube, so with other bounds or labels every one of them would become another
    setting.
    """
    if given is None:
        return Space.from_json(description)
    stored, own = description["parameters"], given.describe()["parameters"]
    written, asked = description.get("where", []), given.describe().get("where", [])
    if list(stored) != list(own):
        raise ValueError(f"the file was written for parameters {list(stored)}, the space given has {list(own)}")
    if written != asked:
        raise ValueError(f"the file was written for where = {written}, the space given has {asked}")
    for name, table in stored.items():
        if _text(table) != _text(own[name]):
            raise ValueError(
                f"the file was written for {name} = {_text(table)}, the space given has {name} = {_text(own[name])}"
            )
    return given


def same_recipe(stored: Mapping[str, Any], given: Recipe | type[Method] | None) -> Recipe:
    """The recipe of a file; options that no file can hold must be given again and agree by content."""
    name, options = stored["name"], stored["options"]
    if given is None:
        if any(isinstance(value, dict) for value in options.values()):
            lost = ", ".join(key for key, value in options.items() if isinstance(value, dict))
            raise ValueError(f"the file could not hold the option {lost} of {name}: pass method=")
        for key, value in options.items():
            if isinstance(value, int) and value > LARGEST_OPTION:
                raise ValueError(f"the option {key} = {value} of {name} asks for much memory: pass method= to confirm")
        _check_version(stored, find_recipe(name))
        return find_recipe(name)(**options)
    recipe = as_recipe(given)
    if recipe.name != name:
        raise ValueError(f"the file was written by method {name!r}, not {recipe.name!r}")
    _check_version(stored, recipe)
    own = recipe.to_json()["options"]
    for key in sorted({*options, *own}):
        if _text(options.get(key)) != _text(own.get(key)):
            raise ValueError(
                f"the file was written by method {name!r} with {key} = {_text(options.get(key))}, "
                f"the method given has {key} = {_text(own.get(key))}"
            )
    return recipe


def _check_version(stored: Mapping[str, Any], recipe: Recipe) -> None:
    """Refuses a file of a time when the default of its method's name was another method; presets of papers stay."""
    before, now = stored.get("version", 1), recipe.version_of(stored["options"])
    if before != now:
        raise ValueError(
            f"the file was written by version {before} of method {recipe.name!r}, this is version {now}; "
            f"{what_it_was(recipe)}: go on with the release that wrote it, or begin anew and pass the "
            "file as earlier=, whose values are then known"
        )


def what_it_was(recipe: Recipe) -> str:
    """What the default of a name was before its present version, in words."""
    former = recipe.method.former
    return f"what it was then is called {former!r} now" if former else "it proposed other points then"


def check_history(
    trials: Sequence[Trial], method: Method, sign: float, earlier: Sequence[tuple[bytes, float]] = ()
) -> None:
    """Raises ValueError unless the trials of a file, whose values times sign are maximised, and the earlier evaluations
    that it learnt are the history of its method."""
    for trial in trials:
        if (trial.value is not None and math.isfinite(trial.value)) != (trial.state == "done"):
            raise ValueError(f"trial {trial.number} is {trial.state} with the value {trial.value}")
    learns = method.n_constraints > 0  # others are told infeasible settings as failures
    known = [t for t in trials if t.value is not None and (learns or t.feasible)]
    of_trials = Counter((t.unit.tobytes(), as_told(sign * t.value), t.var) for t in known if t.value is not None)
    known_before = Counter((key, as_told(sign * value)) for key, value in earlier)
    rows = zip(method.X, method.y.tolist(), method.yvar.tolist(), strict=True)
    of_method = Counter((x.tobytes(), y, None if math.isnan(var) else var) for x, y, var in rows)
    for key, y, var in list(of_method):
        if known_before[key, y] and (left := of_method[key, y, var] - of_trials[key, y, var]) > 0:
            used = min(left, known_before[key, y])
            known_before[key, y] -= used
            of_method[key, y, var] -= used
    of_method = +of_method
    pending = Counter(t.unit.tobytes() for t in trials if t.state == "pending")
    failed = Counter(t.unit.tobytes() for t in trials if t.state == "failed" or not (learns or t.feasible))
    failed += Counter(key for key, _ in earlier)
    if of_trials != of_method or pending != Counter(x.tobytes() for x in method.pending):
        raise ValueError("the trials are not those that the method was told or waits for")
    if not Counter(x.tobytes() for x in method.failed) <= failed:  # a forgotten trial is failed for its user alone
        raise ValueError("the method holds failures that are no trial's")


def as_told(value: float) -> float:
    """A value, turned for a maximisation, as a method keeps it."""
    return min(max(value, -LARGEST), LARGEST)


def _text(value: Any) -> str:
    """Plain values as text that tells 1, 1.0 and True apart and has a NaN equal itself."""
    return json.dumps(value, sort_keys=True)


# ---------------------------------------------------------------- what a file holds


def state_of(optimizer: Optimizer) -> dict[str, Any]:
    """Everything that a file keeps of an optimizer."""
    trials = optimizer.trials
    for t in trials:
        if t.differs is None:
            t.differs = optimizer.space.decode(t.unit, optimizer.method.choices) != t.given
    own = {str(t.number): t.given for t in trials if t.differs}
    return {
        "direction": optimizer.direction,
        "budget": optimizer.budget,
        "seed": optimizer.seed,
        "probes": optimizer.probes,
        "probe_steps": np.array(optimizer.probe_steps, dtype=np.int64),
        "together": optimizer.together,
        "bound": optimizer.bound.value,
        "beyond": optimizer.bound.broken,
        "space": optimizer.space.describe(),
        "recipe": optimizer.recipe.to_json(),
        "why": optimizer._chosen,
        "notes": optimizer.notes,
        "unit": np.array([t.unit for t in trials]).reshape(-1, optimizer.method.dim),
        "state": np.array([STATES.index(t.state) for t in trials], dtype=np.int64),
        "value": column([t.value for t in trials]),
        "var": column([t.var for t in trials]),
        "error": {str(t.number): t.error for t in trials if t.error},
        "own": {number: params for number, params in own.items() if all(map(is_plain, params.values()))},
        **sides_state(optimizer),
        "method": optimizer.method.state_dict(),
    }


def take_trials(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Gives a fresh optimizer the trials that `state_of` kept."""
    units = np.asarray(state["unit"], dtype=np.float64).reshape(-1, optimizer.method.dim)
    inside = ((units >= 0) & (units <= 1)).all(axis=1)  # NaN is neither
    if not inside.all():
        raise ValueError(f"the point of trial {int(np.argmin(inside))} does not lie in the unit cube")
    rows = zip(optimizer.method.cube.snap(units), state["state"], state["value"], state["var"], strict=True)
    for number, (u, code, value, var) in enumerate(rows):
        own = state["own"].get(str(number))
        if own is not None and optimizer._identity(own) != u.tobytes():
            raise ValueError(f"the parameters of trial {number} do not belong to its point")
        trial = optimizer._new_trial(u, own)
        trial.state, trial.error = STATES[int(code)], str(state["error"].get(str(number), ""))
        trial.value = None if math.isnan(value) else float(value)
        trial.var = None if math.isnan(var) else float(var)


def sides_state(optimizer: Optimizer) -> dict[str, Any]:
    """What a file keeps of constraints, costs, durations, earlier evaluations, a stop rule and a bound of the noise,
    where there are any."""
    out: dict[str, Any] = {}
    m, trials = optimizer.n_constraints, optimizer.trials
    if optimizer.watch is not None:
        out["watch"] = {"part": optimizer.watch.part, "proven": list(optimizer.watch.proven or ())}
    if optimizer.noise_bound:
        out["noise_bound"] = optimizer.noise_bound
    if m:
        rows = [t.constraints or (math.nan,) * m for t in trials]
        out["constraints"] = np.array(rows, dtype=np.float64).reshape(-1, m)
        out["constraint_names"] = list(optimizer.constraint_names)
    if optimizer.earlier:
        units = [np.frombuffer(key, dtype=np.float64) for key, _ in optimizer.earlier]
        out["earlier"] = {"unit": np.array(units), "value": np.array([value for _, value in optimizer.earlier])}
    if optimizer.cost is not None or any(t.cost is not None for t in trials):
        out["cost"] = {"kind": optimizer.cost, "costs": column([t.cost for t in trials])}
    if any(t.seconds is not None for t in trials):
        out["seconds"] = column([t.seconds for t in trials])
    return out


def take_sides(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Gives an optimizer and its trials what `sides_state` kept."""
    trials = optimizer.trials
    if "earlier" in state:
        rows = zip(state["earlier"]["unit"], state["earlier"]["value"], strict=True)
        optimizer.earlier = [(np.asarray(u, dtype=np.float64).tobytes(), float(value)) for u, value in rows]
    for trial, row in zip(trials, state.get("constraints", ()), strict=bool(optimizer.n_constraints)):
        trial.constraints = () if np.isnan(row).any() else tuple(row.tolist())
    for trial, cost in zip(trials, state.get("cost", {}).get("costs", ()), strict="cost" in state):
        trial.cost = None if math.isnan(cost) else float(cost)
    for trial, seconds in zip(trials, state.get("seconds", ()), strict="seconds" in state):
        trial.seconds = None if math.isnan(seconds) else float(seconds)


def check_probes(optimizer: Optimizer, trials: int) -> None:
    """Refuses a file that names probes which none of its trials can be. A study says itself which of its trials are
    probes, and it counts those that never ended, which the file of its result does not hold."""
    of_study = "numbers" in optimizer.notes
    for step in optimizer.probe_steps:
        if step < 0 or not (of_study or (step < trials and is_due(step, optimizer.probes))):
            raise ValueError("it names probes that none of its trials can be")
