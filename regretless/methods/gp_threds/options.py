"""The options of GP-ThreDS: what each preset takes where nothing is given, and which values make sense."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from regretless.methods.gp_threds.widths import Gain

POINTS_PER_AXIS = {1: 64, 2: 20, 3: 8, 4: 5, 5: 4, 6: 3}  # of a cell's grid; 20 in the plane as in the authors' code


class Preset(NamedTuple):
    """What a preset takes for the options that are not given; None: found from the data."""

    assumed_norm: float
    threshold_slack: float
    patience: int
    gain: Gain
    least_noise_sd: float  # beta takes at least this for R
    interval: tuple[float, float] | None
    lengthscale: float | None
    noise_sd: float | None


PRESETS: dict[Literal["default", "paper"], Preset] = {
    "default": Preset(0.5, 0.05, 20, "realised", 0.1, None, None, None),
    "paper": Preset(0.5, 0.2, 50, "log", 0.0, (0.0, 1.0), 0.2, 0.1),
}
"""The paper's numbers are those of Fig. 4 for Branin and of the authors' code. The default's slack and patience were
chosen on Branin and Rosenbrock with seeds 0 to 9; with less than its least noise the tests are rash."""

WORDS = {
    "preset": ("default", "paper"),
    "search": ("heuristic", "walk"),
    "kernel": ("se", "matern52"),
    "gain": (None, "realised", "log", "root"),
}
OPEN_RANGES = {
    "delta": (0.0, 1.0), "walk_error": (0.0, 0.5), "lengthscale": (0.0, math.inf), "assumed_norm": (0.0, math.inf),
    "norm_bound": (0.0, math.inf),
}  # fmt: skip


def check_options(given: Mapping[str, Any], dim: int) -> None:
    """Raises ValueError for an option that makes no sense, naming it."""
    for name, legal in WORDS.items():
        if given[name] not in legal:
            raise ValueError(f"{name} must be one of {legal}, got {given[name]!r}")
    for name, (low, high) in OPEN_RANGES.items():
        if given[name] is not None and not low < given[name] < high:
            raise ValueError(f"{name} must be between {low:g} and {high:g}, got {given[name]!r}")
    for name in ("noise_sd", "threshold_slack"):
        if given[name] is not None and not 0 <= given[name] < math.inf:
            raise ValueError(f"{name} must be finite and at least 0, got {given[name]!r}")
    patience, points = given["patience"], given["points_per_axis"]
    if patience not in (None, "formula") and not (isinstance(patience, int) and patience >= 1):
        raise ValueError(f"patience must be a whole number of at least 1 or 'formula', got {patience!r}")
    each = points if isinstance(points, tuple) else (2 if points is None else points,) * dim
    if len(each) != dim or not all(isinstance(m, int) and m >= 2 for m in each):
        raise ValueError(f"points_per_axis must be a whole number of at least 2, or one for each axis, got {points!r}")
    a, b = given["interval"] or (0.0, 1.0)
    if not -math.inf < a < b < math.inf:
        raise ValueError(f"interval must be two finite numbers a < b, got {given['interval']!r}")
    if given["norm_bound"] is not None and (given["lengthscale"] is None or given["noise_sd"] is None):
        raise ValueError("norm_bound is a bound in a known kernel: give lengthscale and noise_sd with it")
