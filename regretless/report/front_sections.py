"""The parts of a run's page that several objectives have: the front in pictures and as a table, how it grew, and each
objective against each parameter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.fronts.dominance import layers
from regretless.fronts.hypervolume import hypervolume
from regretless.report import page
from regretless.report.page import Chart, Section
from regretless.report.run_data import RunData, text_of
from regretless.space.parameters import Array

if TYPE_CHECKING:
    from regretless.run.front import Front


def told(data: RunData) -> Array:
    """The values of the trials in all objectives, n x k, NaN where there is none."""
    k = len(data.task.signs)
    return np.array([t.values or (math.nan,) * k for t in data.trials]).reshape(-1, k)


def to_maximise(data: RunData) -> Array:
    """The same as a maximisation sees them; infeasible ones are as bad as failed ones."""
    usable = np.array([t.feasible for t in data.trials])
    return np.where(usable[:, None], told(data) * data.task.signs, -np.inf)


def trial_columns(data: RunData) -> dict[str, list[float | None]]:
    """The columns of the objectives, for the page's trials."""
    return {f"v:{name}": page.numbers(column) for name, column in zip(data.task.objectives, told(data).T, strict=True)}


def by_layers(data: RunData) -> list[int]:
    """Positions of the trials with values, those that the most fronts lie before first."""
    Y = to_maximise(data)
    Y = np.where(np.isfinite(Y), Y, np.finfo(float).min)
    rank = layers(Y) if len(Y) else np.empty(0, dtype=int)
    done = [i for i, t in enumerate(data.trials) if t.value is not None]
    return sorted(done, key=lambda i: (-int(rank[i]), i))


def front_positions(front: Front, data: RunData) -> list[int]:
    """Positions of the front's members among the trials."""
    places = {number: i for i, number in enumerate(data.numbers.tolist())}
    return [places[m.number] for m in front if m.number in places]


def front_section(front: Front, data: RunData) -> Section:
    """Each pair of objectives with the front in it, and the members as a table."""
    most_rows = 100  # members of a front in the page's table
    pairs = list(itertools.combinations(range(len(front.objectives)), 2))
    charts = [_pair(front, data, a, b) for a, b in pairs]
    words = [
        "Strong dots are the front: no setting is better than one of them in all objectives. Faint dots are worse."
    ]
    words += ["The ring is the compromise."]
    words += ["A dot that is looked at is marked in the other pictures too; arrow keys walk along the front."]
    words += [front.share_words] if front.share.value is not None else []
    uncertain = any(low < high for m in front for low, high in m.intervals.values())
    words += ["Dashed lines are the front at the worst and at the best ends of its values' intervals."] * uncertain
    words += front.notes
    if len(front.objectives) == 2 and (np.ptp(front.values, axis=0) > 0).all():
        there, back = (str(front.exchange(*pair)) for pair in itertools.permutations(front.objectives))
        words += [f"At the compromise {there}, and {back}."]
    names = [*front.objectives, *data.names]
    rows: list[list[page.TableCell]] = [
        [_cell(m.values[n], m.intervals[n]) for n in front.objectives]
        + [text_of(m.params[n]) if n in m.params else "" for n in data.names]
        for m in front[:most_rows]
    ]
    words += [f"The table has {most_rows} of its {len(front)} members."] * (len(front) > most_rows)
    pictures = page.figures(charts, least=340 if len(charts) > 1 else 0)
    table = page.table_section("The front", names, rows).body
    return Section("The front", page.note_html(" ".join(words)) + pictures + table)


def _cell(value: float, interval: tuple[float, float]) -> page.TableCell:
    low, high = interval
    return f"{value:.4g} ({low:.4g} to {high:.4g})" if low < high else float(value)


def _pair(front: Front, data: RunData, a: int, b: int) -> Chart:
    names, signs = front.objectives, data.task.signs
    at = {"x": [f"v:{names[a]}"], "y": [{"mid": f"v:{names[b]}"}], "kind": "dots", "trials": True}
    members = {"name": "the front", **at, "only": front_positions(front, data), "best": data.best}
    series: list[dict[str, Any]] = [members, {"name": "all trials", **at, "faded": True}]
    values = front.values
    if len(names) == 2 and len(values):
        series.append(_stairs("where the front runs", values[:, a], values[:, b], signs))
        ends = np.array([[m.intervals[n] for n in names] for m in front])
        if np.isfinite(ends).all() and (ends[..., 0] < ends[..., 1]).any():
            for word, best in (("at the worst ends", False), ("at the best ends", True)):
                sides = [1 if (sign > 0) == best else 0 for sign in signs]
                x, y = ends[:, a, sides[a]], ends[:, b, sides[b]]
                series.append({**_stairs(word, x, y, signs), "dash": True})
    axes = [{"name": names[j], "log": _wide(told(data)[:, j])} for j in (a, b)]
    return {"x": [{**axes[0], "margin": 0.04}], "y": [axes[1]], "series": series}


def _stairs(name: str, x: Array, y: Array, signs: Sequence[float]) -> dict[str, Any]:
    """The border of what values x and y (m each) dominate, from the best x to the worst."""
    order = np.lexsort((-signs[1] * y, -signs[0] * x))
    best = np.maximum.accumulate(signs[1] * y[order])
    keep = order[np.append(True, best[1:] > best[:-1])]
    return {"name": name, "kind": "steps", "x": [page.numbers(x[keep])], "y": [{"mid": page.numbers(y[keep])}]}


def growth_section(data: RunData) -> list[Section]:
    """The hypervolume of the front over the run, as a share of the last one."""
    Y = to_maximise(data)
    good = np.asarray(np.isfinite(Y).all(axis=1))
    if good.sum() < 2:
        return []
    final = Y[good]
    worst, best = np.quantile(final, 0.1, axis=0), final.max(axis=0)
    # 0.1: how far below the worst of the front the hypervolume begins, as a share of the front's range
    span = np.where(best > worst, best - worst, 1.0)
    asked = data.optimizer.history.reference
    scaled = (Y - np.where(np.isnan(asked), worst - 0.1 * span, asked)) / span
    # 80: moments of a run at which the hypervolume is drawn
    sizes = np.unique(np.rint(np.linspace(1, len(Y), min(len(Y), 80))).astype(int))
    volumes = np.array([hypervolume(scaled[:n][good[:n]], np.zeros(len(span))) for n in sizes])
    if volumes[-1] <= 0:
        return []
    chart = page.curves_chart([page.Curve("front", {"trial": data.numbers[sizes - 1]}, {
        "hypervolume": volumes / volumes[-1]}, steps=True)])  # fmt: skip
    note = (
        "The volume that the front of so many trials dominates, as a share of the last one's; it begins below the "
        "worst tenth of all values in each objective."
    )
    return [page.charts_section("How the front grew", [chart], note=note)]


def slices_section(data: RunData, most: int, axis: Any) -> Section:
    """Each objective against each parameter; `axis` describes a parameter's axis."""
    names, values = data.names[:most], told(data)
    charts: list[Chart] = []
    for name in names:
        y = [{"mid": f"v:{objective}"} for objective in data.task.objectives]
        at = {"kind": "dots", "x": [f"p:{name}"], "y": y, "trials": True}
        series = [{"name": "the front", **at, "only": "front", "best": data.best}]
        series += [{"name": "all trials", **at, "faded": True}]
        shown = [{"name": n, "log": _wide(values[:, j])} for j, n in enumerate(data.task.objectives)]
        charts.append({"x": [{**axis(name), "at": data.recommended(name)}], "y": shown, "series": series})
    note = "Strong dots are the front, the dashed line is the compromise; buttons choose the objective."
    note += f" {len(data.names) - len(names)} further parameters are not drawn." * (len(data.names) > len(names))
    return Section(
        "Each objective against each parameter", page.note_html(note) + page.figures(charts, least=340, shared=True)
    )


def _wide(values: Array) -> bool:
    """Whether values start on a logarithmic axis."""
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and bool(finite.min() > 0 and finite.max() > 100 * finite.min())
