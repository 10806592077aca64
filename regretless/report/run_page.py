"""The HTML page of a `Result`: what was found and by which method, how sure that is, and what each parameter does."""

from __future__ import annotations

import datetime
import html
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.report import page
from regretless.report.front_sections import (
    by_layers,
    front_positions,
    front_section,
    growth_section,
    slices_section,
    told,
    trial_columns,
)
from regretless.report.model_view import SURFACE, ModelView, model_of
from regretless.report.page import Chart, Curve, Section
from regretless.report.run_data import WIDE, AxisScale, RunData, text_of
from regretless.space.parameters import Array
from regretless.trial import SO_FAR, last_line

if TYPE_CHECKING:
    from regretless.certificate import Certificate
    from regretless.files.book import Record
    from regretless.run.result import Result

MOST_SLICES = 30
"""Parameters drawn on a page; a space of thousands would make one that nobody reads."""
MOST_DOTS, MOST_LINES = 2000, 400
"""Trials drawn against a parameter, and as lines (`RunData.some`); more only blacken a picture."""


def run_page(result: Result, where: Mapping[str, Any] | None = None, name: str = "") -> str:
    """The text of the page; slices and contours have the values of `where` in place of the recommended ones. `name`:
    what the page is called when the run has no name."""
    data = RunData(result, where)
    goal = "smallest" if data.better < 0 else "largest"
    title = ", ".join(["Tuning report"] + [text for text in (data.record.name or name, _day(data.record)) if text])
    by = "a study" if data.record.foreign else str(data.optimizer.recipe)
    sought = f"the front of {' and '.join(data.task.objectives)}" if data.task.several else f"the {goal} value"
    lead = f"{_count(result.nfev, 'evaluation')} of {by} looking for {sought}."
    foot = f"Seed {data.optimizer.seed}. Made by regretless."
    return page.html_page(title, _sections(data), lead=lead, foot=foot)


def _sections(data: RunData) -> list[Section]:
    sections = [_found(data), _certificate(data)]
    if not data.done:
        return [*sections, *_failures(data)]
    if data.task.several:
        return [
            *sections,
            front_section(data.result.front, data),
            *growth_section(data),
            slices_section(data, MOST_SLICES, lambda name: _axis(name, data.scales[name])),
            _lines(data),
            *_durations(data),
            *_failures(data),
            Section("All trials", '<div class="trials"></div>'),
        ]
    model = model_of(data)
    return [
        *sections,
        *_history(data),
        *_importance(model),
        _slices(data, model),
        *_surfaces(data, model),
        _lines(data),
        *_durations(data),
        *_failures(data),
        Section("All trials", '<div class="trials"></div>'),
    ]


# ---------------------------------------------------------------- in words


def _found(data: RunData) -> Section:
    """The recommended setting beside the facts of the run, and the trials, from which the pictures are drawn."""
    result, optimizer = data.result, data.optimizer
    rows: list[list[page.TableCell]] = [[name, text_of(value)] for name, value in result.params.items()]
    setting = page.table_section("Recommended setting", ["parameter", "value"], rows).body
    method, why = str(optimizer.recipe), "given by the caller" if optimizer.why == "given" else optimizer.why
    if data.record.foreign:
        method, why = "the study's own sampler", f"{method} was told its trials; it recommends and certifies"
    ended = [_count(len(data.done), "value")] + [_count(len(data.failed), "failure")] * bool(data.failed)
    broken, probes = len(_broken(data)), len(_probes(data))
    ended += [f"{broken} of the values break a constraint"] if broken else []
    best = f"trial {data.record.number_of(result.best)} with {result.best.value:.6g}" if _has_best(data) else ""
    goals = [f"{way} {name}" for name, way in zip(data.task.objectives, data.task.directions)] or [optimizer.direction]
    there = result.value_words if data.task.several and data.done else f"{result.value:.6g}"
    facts = {
        "Objective" if data.record.numbers is None else "Study": data.record.name,
        "Goal": ", ".join(goals),
        "Value there": there if np.isfinite(result.value) else "not evaluated at that setting",
        "Best trial": best,
        "Method": method,
        "Recommendation" if data.record.foreign else "Why this method": why,
        "Evaluations": ", ".join(ended),
        "Probes": f"{probes} of the evaluations are independent uniform draws, on which the share below rests"
        * (probes > 0),
        "Ran": _when(data.record),
        "One evaluation": _took(data),
        **_state(data),
    }
    words = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in facts.items() if text)
    body = f'<div class="columns"><dl class="facts">{words}</dl><div>{setting if rows else ""}</div></div>'
    trials = f'<script type="application/json" id="trials">{page.to_json(_trials(data))}</script>'
    return Section("Recommended setting", body + trials)


def _has_best(data: RunData) -> bool:
    return len(data.done) > 0 and not data.task.several


def _state(data: RunData) -> dict[str, str]:
    """Why a run ended, or how far one is that has not ended."""
    message, budget = data.result.message, data.task.budget
    if not message.startswith(SO_FAR):
        return {"Ended because": "" if message == f"study {data.record.name}" else message}
    done, pending = len(data.trials), len(data.result.trials) - len(data.trials)
    words = f"{done} of {_count(budget, 'evaluation')}" if budget else _count(done, "evaluation")
    return {"So far": words + (f", {pending} under way" if pending else "")}


def _trials(data: RunData) -> dict[str, Any]:
    """The trials as columns; charts and tables name them instead of repeating them."""
    columns: dict[str, Any] = {"number": data.numbers.tolist(), "value": page.numbers(data.values)}
    if data.sd is not None:
        sd = np.nan_to_num(data.sd)
        columns |= {"sd": page.numbers(data.sd), "low": page.numbers(data.values - 2 * sd)}
        columns["high"] = page.numbers(data.values + 2 * sd)
    if data.seconds is not None:
        columns["seconds"] = page.numbers(data.seconds)
    names = data.names[:MOST_SLICES]
    columns |= trial_columns(data) if data.task.several else {}
    columns |= {f"p:{name}": page.numbers(data.column(name)) for name in names}
    columns |= {f"c:{name}": page.numbers(values) for name, values in data.constraints.items()}
    labels = {f"p:{name}": data.scales[name].labels for name in names if data.scales[name].labels}
    errors = {str(i): last_line(t.error) for i, t in enumerate(data.trials) if t.value is None}
    some = {"some": data.some(MOST_DOTS).tolist()} if len(data.done) > MOST_DOTS else {}
    kinds = {"broken": _broken(data), "probes": _probes(data)}
    some |= {kind: positions for kind, positions in kinds.items() if positions}
    if data.task.several:
        some |= {"objectives": list(data.task.objectives), "front": front_positions(data.result.front, data)}
    return {"columns": columns, "labels": labels, "errors": errors, "best": data.best, **some}


def _broken(data: RunData) -> list[int]:
    """Positions of trials that break a constraint."""
    return [i for i, t in enumerate(data.trials) if t.value is not None and not t.feasible]


def _probes(data: RunData) -> list[int]:
    """Positions of trials that were independent uniform draws."""
    own = data.optimizer.book.probe_steps
    drawn = set(own if data.record.probes is None else data.record.probes)
    return [i for i, number in enumerate(data.numbers.tolist()) if number in drawn]


def _day(record: Record) -> str:
    """The day of a run's last trial, where its record says when that was."""
    at = record.ended if record.ended is not None else record.began
    return "" if at is None else f"{datetime.datetime.fromtimestamp(at, datetime.UTC):%Y-%m-%d}"


def _when(record: Record) -> str:
    """When a run began and ended, where its record says so; a clock that was set back between leaves no end."""
    if record.began is None or record.ended is None:
        return ""
    began, ended = (datetime.datetime.fromtimestamp(at, datetime.UTC) for at in (record.began, record.ended))
    to = f"{ended:%H:%M:%S}" if ended.date() == began.date() else f"{ended:%Y-%m-%d %H:%M:%S}"
    return f"{began:%Y-%m-%d %H:%M:%S}{f' to {to}' if ended >= began else ''} UTC"


def _took(data: RunData) -> str:
    if data.seconds is None:
        return ""
    return f"median {np.nanmedian(data.seconds):.3g} s, all together {np.nansum(data.seconds):.3g} s"


def _certificate(data: RunData) -> Section:
    result, title = data.result, "How much better could it be?"
    if data.task.several:
        return page.text_section(title, *result.said)
    there = f"At the recommended setting: {result.value_words}."
    return page.text_section(title, there, *result.said)


def _failures(data: RunData) -> list[Section]:
    """Each error once, with the trials that had it, folded."""
    most_errors = 30  # different errors shown in full
    if not data.failed:
        return []
    found: dict[str, list[Any]] = {}
    for trial in data.failed:
        found.setdefault(last_line(trial.error), []).append(trial)
    body = ""
    for line, trials in sorted(found.items(), key=lambda item: -len(item[1]))[:most_errors]:
        numbers = [str(data.record.number_of(t)) for t in trials[:most_errors]]
        which = ", ".join(numbers) + (", ..." if len(trials) > most_errors else "")
        full = html.escape(trials[-1].error.strip() or line)
        body += (
            f"<details><summary>{_count(len(trials), 'evaluation')}: {html.escape(line)}</summary>"
            f'<p class="note">Trial{"s" * (len(trials) > 1)} {which}; the last one said:</p>'
            f'<pre tabindex="0">{full}</pre></details>'
        )
    return [Section(f"Failures: {len(data.failed)}", body)]


# ---------------------------------------------------------------- in pictures


def _history(data: RunData) -> list[Section]:
    sizes, certificates = data.certificates
    running = data.result.best_so_far()
    keep = page.thinned(len(running))
    chart: Chart = {
        "x": [{"name": "trial", "log": False, "margin": 0.02}],
        "y": [{"name": "value", "log": data.log_values, **_cut(data)}],
        "series": [
            _dots(data, "number", failed=True),
            _series("best so far", "steps", data.numbers[keep], running[keep]),
        ],
    }
    at, low, high = data.brackets
    if len(at) > 1:
        keep = page.thinned(len(at))
        numbers, bounds = (
            at[keep].astype(int).tolist(),
            {"low": page.numbers(low[keep]), "high": page.numbers(high[keep])},
        )
        chart["series"].insert(1, {"name": "where the optimum may be", "kind": "band", "x": [numbers], "y": [bounds]})
    words = ["Dots are values, from pale (the first) to strong (the last); the ring is the best trial."]
    words += ["Hollow dots break a constraint."] if _broken(data) else []
    words += ["Crosses at the bottom are failures."] if data.failed else []
    words += ["Bars are two standard errors to both sides."] if data.sd is not None else []
    words += ["The band is where the last certificate put the best possible value."] if len(at) > 1 else []
    words += ["Values are noisy: the best one seen is partly luck, and the band may lie beyond it."] * (
        len(at) > 1 and data.noisy
    )
    fan = _fan(data)
    chart["series"] += fan
    words += ["The fan is what the outlook forecasts."] if fan else []
    section = page.charts_section("Values over the run", [chart], note=" ".join(words) + _cut_note(data))
    return [section, *_certificates(sizes, certificates)]


def _fan(data: RunData) -> list[dict[str, Any]]:
    """Where the value of the recommended setting is forecast to be after further trials, 4 of 5 times."""
    outlook = data.result.outlook
    if data.task.several or outlook.value is None or not outlook.fan or outlook.forecast.unknown:
        return []
    near = [f for f in outlook.fan if f.trials <= outlook.forecast.trials]
    gains = np.array([[0.0, 0.0, 0.0], *([f.low, f.median, f.high] for f in near)]).T
    low, mid, high = np.sort(outlook.value + data.better * gains, axis=0)
    ahead = float(data.numbers[-1]) + np.array([0, *(f.trials for f in near)])
    band = {"low": page.numbers(low), "high": page.numbers(high)}
    return [_series("forecast, 4 of 5 times", "line", ahead, mid, **band)]


def _certificates(sizes: Sequence[int], found: Sequence[Certificate]) -> list[Section]:
    """What the certificate would have said during the run: the gap and the share against evaluations."""
    x = {"evaluations": np.array(sizes)}
    # what follows from a floor is the distance to it, which the values show
    gaps = np.array([c.gap if c.certified and c.kind != "theory" else np.nan for c in found])
    shares = np.array([np.nan if c.share is None else c.share for c in found])
    drawn = {"certified gap": gaps, "share of the space": shares}
    charts = [
        page.curves_chart([Curve(name, x, {name: values}, steps=True)], log_y=_wide(values))
        for name, values in drawn.items()
        if np.isfinite(values).sum() > 1
    ]
    note = "What could be better, as certified at that time; nothing is drawn where nothing was certified."
    given = {c.supposes: None for c in found if c.supposes and c.share is not None}
    note += f" The share holds if {' and '.join(given)}." if given else ""
    return [page.charts_section("The certificate over the run", charts, note=note)] if charts else []


def _importance(model: ModelView | str) -> list[Section]:
    if isinstance(model, str) or len(model.importance) < 2:
        return []
    rows = ""
    for name, (main, total) in model.importance.items():
        bar = (
            f'<span class="total" style="width:{100 * total:.1f}%"></span><span style="width:{100 * main:.1f}%"></span>'
        )
        cells = f'<td data-v="{total:.6g}">{total:.0%}</td><td data-v="{main:.6g}">{main:.0%}</td>'
        label = html.escape(name).replace("_", "_<wbr>")
        rows += f'<tr><td>{label}</td><td class="share" data-v="{total:.6g}">{bar}</td>{cells}</tr>'
    heads = {"parameter": "words", "share": "words", "with others": "", "alone": ""}
    head = "".join(f'<th scope="col" class="{look}">{head}</th>' for head, look in heads.items())
    note = (
        "Shares of the variance of the model's mean when settings are drawn evenly from the space (functional ANOVA): "
        "of a parameter alone (filled), and with its interactions with others (outlined). " + model.note
    )
    table = f'<table class="importance"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return [Section("Which parameters matter", page.note_html(note) + page.scrolled(table, "importance"))]


def _slices(data: RunData, model: ModelView | str) -> Section:
    names = (data.names if isinstance(model, str) else list(model.importance))[:MOST_SLICES]
    charts = []
    for name in names:
        series = [{**_dots(data, f"p:{name}"), "some": True}]
        if isinstance(model, ModelView) and name in data.setting:
            along = model.slice_of(name)
            kind = "bars" if data.scales[name].labels else "line"
            band = {"low": page.numbers(along.low), "high": page.numbers(along.high)}
            series.append(_series("model", kind, along.x, along.mean, **band))
        axis = {**_axis(name, data.scales[name]), "at": data.recommended(name)}
        y = {"name": "value", "log": data.log_values, **_cut(data)}
        charts.append({"x": [axis], "y": [y], "series": series})
    words = [f"Dots are trials; the dashed line is the recommended setting.{_some_note(data, MOST_DOTS)}"]
    words += [model] if isinstance(model, str) else [
        f"The line is the model's mean when {data.through}; the band is two standard deviations of the model."
    ]  # fmt: skip
    words[-1] += _absent(data) if isinstance(model, ModelView) else ""
    left_out = len(data.names) - len(names)
    words += [f"{_count(left_out, 'further parameter')} not drawn."] if left_out else []
    return Section(
        "Value against each parameter",
        page.note_html(" ".join(words) + _cut_note(data)) + page.figures(charts, least=340, shared=True),
    )


def _surfaces(data: RunData, model: ModelView | str) -> list[Section]:
    if isinstance(model, str) or len(data.setting) < 2:
        return []
    # 12: parameters of which any pair can be drawn, the most important ones: their 66 pairs take 200 kB of a page
    names = [name for name in model.importance if name in data.setting][:12]
    pairs, counts = {}, dict.fromkeys(names, 0)
    for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
        x, y, mean = model.surface_of(a, b)
        low, high = page.numbers([mean.min(), mean.max()])
        # 999: values of a surface are whole numbers from 0 to this: three digits are finer than the colours
        z = np.rint((mean - mean.min()) / (float(np.ptp(mean)) or 1.0) * 999).astype(int)
        pairs[f"{i},{j}"] = {"low": low, "high": high, "z": z.ravel().tolist()}
        counts |= {a: len(x), b: len(y)}
    levels = [model.cube.axes[model.places[name]].levels for name in names]
    axes = [
        {**_axis(name, data.scales[name]), "key": f"p:{name}", "count": counts[name], "cells": 0 < k <= SURFACE}
        for name, k in zip(names, levels, strict=True)
    ]
    chart = {
        "axes": axes,
        "values": "value",
        "minimize": data.better < 0,
        "pairs": pairs,
        "recommended": [data.recommended(name) for name in names],
    }
    note = f"The model's mean when {data.through}; brighter is better. Arrow keys walk through the picture."
    note += f" The {len(names)} most important parameters can be chosen." if len(data.setting) > len(names) else ""
    note += _absent(data)
    return [Section("Two parameters at once", page.note_html(note) + _figure("surface", chart))]


def _lines(data: RunData) -> Section:
    kept = data.some(MOST_LINES)
    names = data.names[:MOST_SLICES]
    axes = [{**_axis(name, data.scales[name]), "key": f"p:{name}"} for name in names]
    if data.task.several:
        kept = np.array(by_layers(data)[-MOST_LINES:])
        ranges = [data.range_of(column) for column in told(data).T]
        named = [(name, f"v:{name}", *ends) for name, ends in zip(data.task.objectives, ranges, strict=True)]
        note = "Each line is a trial, the front strongest; the thick one is the compromise."
    else:
        named = [("value", "value", *data.value_range)]
        note = "Each line is a trial; the stronger the better, and the thick one is the best."
    axes += [{"name": n, "key": key, "low": low, "high": high, "log": log} for n, key, low, high, log in named]
    note += " A line is interrupted where a trial does not have the parameter." if data.space.conditional else ""
    note += _some_note(data, MOST_LINES)
    chart = {"axes": axes, "lines": kept.tolist()}
    if data.limit is not None and not data.task.several:
        note += f" {_count(data.beyond, 'value')} beyond {data.limit:.4g} stand at the end of their axis."
    return Section("All parameters at once", page.note_html(note) + _figure("parallel", chart))


def _durations(data: RunData) -> list[Section]:
    if data.seconds is None:
        return []
    dots = {**_dots(data, "number"), "y": [{"mid": "seconds"}]}
    chart = {
        "x": [{"name": "trial", "log": False, "margin": 0.02}],
        "y": [{"name": "seconds", "log": _wide(data.seconds)}],
        "series": [dots],
    }
    return [page.charts_section("How long evaluations took", [chart])]


# ---------------------------------------------------------------- inside


def _dots(data: RunData, key: str, *, failed: bool = False) -> dict[str, Any]:
    """All trials as dots, coloured by their order."""
    bars = {} if data.sd is None else {"low": "low", "high": "high"}
    y = [{"mid": "value", **bars}]
    dots: dict[str, Any] = {"name": "trials, first to last", "kind": "dots", "x": [key], "y": y}
    lost = {"failed": [data.record.number_of(t) for t in data.failed]} if failed and data.failed else {}
    return {**dots, "order": True, "trials": True, "best": data.best, **lost}


def _series(name: str, kind: str, x: Any, mid: Any, **band: list[float | None]) -> dict[str, Any]:
    return {"name": name, "kind": kind, "x": [page.numbers(x)], "y": [{"mid": page.numbers(mid), **band}]}


def _axis(name: str, scale: AxisScale) -> dict[str, Any]:
    axis: dict[str, Any] = {"name": name, "low": scale.low, "high": scale.high, "log": scale.log, "whole": scale.whole}
    return {**axis, "ticks": [[i, label] for i, label in enumerate(scale.labels)]} if scale.labels else axis


def _cut(data: RunData) -> dict[str, Any]:
    if data.limit is None:
        return {}
    within = data.better * data.values >= data.better * data.limit
    drawn = page.numbers(data.values)  # the limit is rounded as the values are, so that the worst one lies within
    kept = [v for v, inside in zip(drawn, within, strict=True) if inside and v is not None]
    limit = max(kept) if data.better < 0 else min(kept)
    return {"cut": [None, limit] if data.better < 0 else [limit, None]}


def _cut_note(data: RunData) -> str:
    if not data.beyond:
        return ""
    side = "above" if data.better < 0 else "below"
    return (
        f" {_count(data.beyond, 'value')} far {side} {data.limit:.4g} would flatten the others: they are drawn at the "
        'edge until "all values" is pressed.'
    )


def _some_note(data: RunData, most: int) -> str:
    if len(data.done) <= most:
        return ""
    return f" Of {len(data.done)} trials {most} are drawn: the best {most // 4}, and others spread evenly by rank."


def _absent(data: RunData) -> str:
    """Which parameters slices and contours cannot have, in words."""
    names = [name for name in data.names if name not in data.setting]
    if not names:
        return ""
    verb = "does" if len(names) == 1 else "do"
    return f" {', '.join(names)} {verb} not exist in that setting; where= draws through another one."


def _wide(values: Array) -> bool:
    """Whether values start on a logarithmic axis."""
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and bool(finite.min() > 0 and finite.max() > WIDE * finite.min())


def _figure(kind: str, chart: Chart) -> str:
    return f'<figure class="{kind}"><script type="application/json">{page.to_json(chart)}</script></figure>'


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"
