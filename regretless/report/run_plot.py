"""The pictures of a run's page as matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from regretless.basics.extras import optional
from regretless.basics.options import one_of
from regretless.report.model_view import ModelView, model_of
from regretless.report.run_data import RunData, text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regretless.run.result import Result

Kind: TypeAlias = Literal["overview", "history", "slices", "importance", "contour", "parallel"]
"""What can be drawn; "overview" is the history and a slice for each parameter."""
CUTS = ("overview", "slices", "contour")
"""The kinds that draw the model through one setting."""
MOST_PANELS = 30
"""Panels of a figure; more could not be read."""
MOST_LINES = 400
"""Trials drawn as lines, as on the page."""
ORDER = "Blues"
"""The colours of trials by their order."""


def figure(
    result: Result,
    kind: Kind = "overview",
    params: Sequence[str] | None = None,
    where: Mapping[str, Any] | None = None,
) -> Figure:
    """A figure of the run (needs matplotlib); `params` are the parameters to draw, two of them for a contour, and
    `where` holds values of others that slices and contours pass through."""
    one_of(get_args(Kind), kind=kind)
    if where and kind not in CUTS:
        raise ValueError(f"where is for {', '.join(CUTS)}; {kind} does not pass through a setting")
    data = RunData(result, where)
    names = data.names if params is None else list(params)
    unknown = [name for name in names if name not in data.names]
    if unknown:
        raise ValueError(
            f"params are not of this space: {', '.join(map(str, unknown))}; it has {', '.join(data.names)}"
        )
    if not data.done:
        raise ValueError("there is nothing to draw: no evaluation has a value")
    if kind == "history":
        drawing, axes = _panels(1)
        _draw_history(axes[0], data)
    elif kind in ("overview", "slices"):
        model, names = model_of(data), names[:MOST_PANELS]
        first = int(kind == "overview")
        drawing, axes = _panels(len(names) + first)
        if first:
            _draw_history(axes[0], data)
        for ax, name in zip(axes[first:], names, strict=True):
            _draw_slice(ax, data, model, name)
    elif kind == "importance":
        drawing, axes = _panels(1)
        _draw_importance(axes[0], _needed(data), names)
    elif kind == "contour":
        model = _needed(data)
        if params is None:
            names = [name for name in model.importance if name in data.setting and name not in data.where][:2]
        if len(names) != 2 or not set(names) <= set(data.setting):
            raise ValueError(f"a contour has two params of the recommended setting, got {', '.join(names)}")
        drawing, axes = _panels(1)
        _draw_contour(drawing, axes[0], data, model, names[0], names[1])
    else:
        drawing, axes = _panels(1, width=1.5 + 1.3 * (len(names[:MOST_PANELS]) + 1))
        _draw_parallel(axes[0], data, names[:MOST_PANELS])
    return drawing


def _panels(count: int, width: float | None = None) -> tuple[Figure, list[Axes]]:
    columns = min(3, count)
    rows = math.ceil(count / columns)
    size = (width or (6.4 if count == 1 else 4.2 * columns), 4.2 if count == 1 else 3.2 * rows)
    drawing: Figure = optional("matplotlib.figure", "plot").Figure(figsize=size, layout="constrained")
    axes = list(drawing.subplots(rows, columns, squeeze=False).ravel())
    for ax in axes[count:]:
        ax.remove()
    return drawing, axes[:count]


def _needed(data: RunData) -> ModelView:
    model = model_of(data)
    if isinstance(model, str):
        raise ValueError(model)
    return model


def _draw_history(ax: Axes, data: RunData) -> None:
    _draw_dots(ax, data, data.numbers.astype(float))
    ax.plot(data.numbers, data.result.best_so_far(), color="tab:orange", label="best so far", drawstyle="steps-post")
    at, low, high = data.brackets
    if len(at):
        ax.fill_between(at, low, high, color="tab:green", alpha=0.15, lw=0, label="where the optimum may be")
    for trial in data.failed:
        ax.plot(data.record.number_of(trial), 0.02, "x", color="tab:red", ms=4, transform=ax.get_xaxis_transform())
    _value_axis(ax, data)
    ax.set_xlabel("trial")
    ax.legend(frameon=False, fontsize="small")


def _draw_slice(ax: Axes, data: RunData, model: ModelView | str, name: str) -> None:
    scale = data.scales[name]
    _draw_dots(ax, data, data.column(name))
    if isinstance(model, ModelView) and name in data.setting:
        along = model.slice_of(name)
        if scale.labels:
            errors = np.array([along.mean - along.low, along.high - along.mean])
            ax.errorbar(along.x, along.mean, errors, fmt="_", color="tab:orange", ms=14, elinewidth=4, alpha=0.7)
        else:
            ax.plot(along.x, along.mean, color="tab:orange")
            ax.fill_between(along.x, along.low, along.high, color="tab:orange", alpha=0.15, lw=0)
    recommended = data.recommended(name)
    if recommended is not None:
        ax.axvline(recommended, color="tab:red", ls="--", lw=1)
    _parameter_axis(ax.xaxis, ax.set_xscale, ax.set_xlim, data, name)
    _value_axis(ax, data)


def _draw_importance(ax: Axes, model: ModelView, names: Sequence[str]) -> None:
    shares = [(name, *model.importance[name]) for name in reversed(model.importance) if name in set(names)]
    labels = [name for name, _, _ in shares]
    ax.barh(labels, [total for _, _, total in shares], fill=False, edgecolor="tab:blue", label="with its interactions")
    ax.barh(labels, [main for _, main, _ in shares], color="tab:blue", label="alone")
    ax.set(xlabel="share of the variance of the model's mean", xlim=(0, 1))
    ax.legend(frameon=False, fontsize="small")


def _draw_contour(drawing: Figure, ax: Axes, data: RunData, model: ModelView, across: str, up: str) -> None:
    x, y, mean = model.surface_of(across, up)
    filled: Any
    if data.scales[across].labels or data.scales[up].labels:
        filled = ax.pcolormesh(x, y, mean, cmap="viridis_r" if data.better < 0 else "viridis", shading="nearest")
    else:
        filled = ax.contourf(x, y, mean, levels=12, cmap="viridis_r" if data.better < 0 else "viridis")
    drawing.colorbar(filled, ax=ax, label="value, by the model")
    done = np.isfinite(data.values)
    ax.plot(data.column(across)[done], data.column(up)[done], "o", ms=3, color="black", mec="white", mew=0.5)
    at = data.recommended(across), data.recommended(up)
    if at[0] is not None and at[1] is not None:
        ax.plot(at[0], at[1], "P", ms=10, color="white", mec="black")
    _parameter_axis(ax.xaxis, ax.set_xscale, ax.set_xlim, data, across)
    _parameter_axis(ax.yaxis, ax.set_yscale, ax.set_ylim, data, up)
    if data.where:
        given = ", ".join(f"{name} = {text_of(value)}" for name, value in data.where.items())
        ax.set_title(f"with {given}", fontsize="small")


def _draw_parallel(ax: Axes, data: RunData, names: Sequence[str]) -> None:
    order = data.some(MOST_LINES)
    scales = [data.scales[name] for name in names]
    columns = [_shares(data.column(n), s.log, s.low, s.high) for n, s in zip(names, scales, strict=True)]
    columns.append(np.clip(_shares(data.values, data.log_values, *data.span), 0, 1))
    places, colours = np.arange(len(columns)), optional("matplotlib", "plot").colormaps[ORDER]
    for rank, i in enumerate(order):
        best = i == data.best
        look = ("tab:red", 2.5, 1.0) if best else (colours(0.25 + 0.7 * rank / len(order)), 0.8, 0.6)
        ax.plot(places, [column[i] for column in columns], color=look[0], lw=look[1], alpha=look[2])
    for at in places.tolist():
        ax.axvline(at, color="0.4", lw=1)
    ax.set_xticks(places, [*names, "value"], rotation=30, ha="right")
    ax.set(ylim=(-0.03, 1.03), ylabel="place within the range")


def _draw_dots(ax: Axes, data: RunData, x: Any) -> None:
    shown = np.isfinite(data.values) & np.isfinite(x)
    colours = 0.3 + 0.7 * np.arange(len(x))[shown] / max(1, len(x) - 1)
    ax.scatter(x[shown], data.values[shown], c=colours, cmap=ORDER, vmin=0, vmax=1, s=14, label="trials, first to last")
    if data.best is not None:
        ax.plot(x[data.best], data.values[data.best], "o", ms=9, mfc="none", mec="tab:red", label="the best trial")


def _value_axis(ax: Axes, data: RunData) -> None:
    ax.set_ylabel("value")
    ax.set_yscale("log" if data.log_values else "linear")
    if data.limit is None:
        return
    low, high = data.span
    pad = 0.05 * (high - low)
    ax.set_ylim(*((low / 1.1, high * 1.1) if data.log_values else (low - pad, high + pad)))
    ax.set_title(f"{data.beyond} of {len(data.done)} values lie beyond this axis", fontsize="small")


def _parameter_axis(axis: Any, set_scale: Any, set_limits: Any, data: RunData, name: str) -> None:
    scale = data.scales[name]
    if scale.labels:
        axis.set_ticks(range(len(scale.labels)), scale.labels)
    else:
        set_scale("log" if scale.log else "linear")
    set_limits(scale.low, scale.high)
    axis.set_label_text(name)


def _shares(values: Any, log: bool, low: float, high: float) -> Any:
    """Where values lie between two ends, 0 to 1."""
    if high <= low:
        return np.full(len(values), 0.5)
    if log:
        return (np.log(values) - math.log(low)) / (math.log(high) - math.log(low))
    return (values - low) / (high - low)
