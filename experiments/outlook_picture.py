"""The picture of the home page: the run of `examples/demo.py`, what it forecast on its way, and where it ended.

    python experiments/outlook_picture.py            a minute; writes docs/images/outlook.svg

Dots are trials, the line is the best value so far. From three moments a fan shows where 4 of 5 times the best value of
the next 20 trials was forecast to be. Twenty trials after the end show what going on brings. The parts appear in their
order, once; readers who want no motion see the whole.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import regretless as rg
from regretless.outlook.forecast import Forecast

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 430, 64, 190, 46, 46
LOW, HIGH = 0.076, 0.15
"""The values drawn; others stand at the edges."""
AHEAD = 20
MOMENTS = (10, 30)
"""The numbers of trials from which fans are drawn, beside the last one of the run."""
TICKS = (0.08, 0.09, 0.1, 0.12, 0.14)
SECONDS = 6.0
"""How long the picture takes to be whole."""
STYLE = """
.card { fill: #0b1f3f } text { font: 14px system-ui, "Segoe UI", sans-serif; fill: #c9d6ea }
.grid { stroke: #24395f; stroke-width: 1 } .big { font-size: 16px; font-weight: 600; fill: #ffffff }
.dot { fill: #6f8fc0 } .after { fill: none; stroke: #8ea5c9; stroke-width: 1.4 }
.best { fill: none; stroke: #ff8a5c; stroke-width: 3 } .fan { fill: #43d1b0; fill-opacity: .28; stroke: #43d1b0 }
.end { stroke: #ffffff; stroke-width: 1.5; stroke-dasharray: 5 4 } .level { stroke: #8ea5c9; stroke-dasharray: 2 5 }
.teal { fill: #43d1b0 } .orange { fill: #ff8a5c }
.late { animation: come .5s both } @keyframes come { from { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { .late { animation: none } }
"""


Scale = Callable[[float], float]


class Story(NamedTuple):
    """A run and what it forecast."""

    values: list[float]
    """Of all trials, those after the end included."""
    end: int
    fans: dict[int, list[Forecast]]
    default: float
    random: float


def story() -> Story:
    """Runs the demo."""
    import demo

    fans: dict[int, list[Forecast]] = {}

    def look(opt: rg.Optimizer, trial: rg.Trial) -> None:
        if len(opt.trials) in MOMENTS:
            fans[len(opt.trials)] = ahead(opt)

    rule = rg.StopWhen(gain_below=0.001, in_trials=AHEAD)
    result = rg.minimize(demo.log_loss, demo.SPACE, trials=100, seed=0, stop=rule, callback=look, progress=False)
    opt, end = result.optimizer, result.nfev
    fans[end] = ahead(opt)
    demo.gain_of_more(opt, AHEAD)
    random = rg.minimize(demo.log_loss, demo.SPACE, trials=end, seed=0, method="random", progress=False)
    values = [trial.value for trial in opt.trials if trial.value is not None]
    return Story(values, end, fans, demo.log_loss(), random.value)


def ahead(opt: rg.Optimizer) -> list[Forecast]:
    """The forecasts for 1 to AHEAD further trials."""
    return [opt.forecast(trials) for trials in range(1, AHEAD + 1)]


def picture(told: Story) -> str:
    """The story as SVG."""
    last = len(told.values)

    def px(n: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * n / last

    def py(value: float) -> float:
        share = (math.log(min(max(value, LOW), HIGH)) - math.log(LOW)) / (math.log(HIGH) - math.log(LOW))
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share

    def late(n: float) -> str:
        return f'class="late" style="animation-delay:{SECONDS * n / last:.2f}s"'

    best = [min(told.values[: n + 1]) for n in range(last)]
    parts = [f'<rect class="card" width="{WIDTH}" height="{HEIGHT}" rx="14"/>']
    for value in TICKS:
        y = py(value)
        parts += [
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>',
            f'<text x="{LEFT - 10}" y="{y + 5:.1f}" text-anchor="end">{value:g}</text>',
        ]
    parts += [
        f'<text x="{px(n):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{n}</text>'
        for n in range(0, last + 1, 20)
    ]
    for words, value in (("default settings", told.default), (f"random search, {told.end} trials", told.random)):
        y = py(value)
        parts += [
            f'<path class="level" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>',
            f'<text x="{WIDTH - RIGHT + 10}" y="{y + 5:.1f}">{words}</text>',
        ]
    for n, fan in told.fans.items():
        parts.append(f'<g {late(n)}><path class="fan" d="{_fan(n, best[n - 1], fan, px, py)}"/></g>')
    for n, value in enumerate(told.values, 1):
        look = "dot" if n <= told.end else "after"
        parts.append(f'<g {late(n)}><circle class="{look}" cx="{px(n):.1f}" cy="{py(value):.1f}" r="3.2"/></g>')
    line = f"M{px(1):.1f} {py(best[0]):.1f}"
    line += "".join(f"H{px(n):.1f}V{py(best[n - 1]):.1f}" for n in range(2, told.end + 1))
    final = told.fans[told.end][-1]
    x, chance = px(told.end), final.chance(0.001)
    parts += [
        f'<path class="best" d="{line}"/>',
        f'<text x="{WIDTH - RIGHT + 10}" y="{py(best[-1]) + 5:.1f}" class="orange">regretless</text>',
        f'<g {late(told.end)}><path class="end" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>',
        f'<text class="big" x="{x - 10:.1f}" y="{TOP + 14}" text-anchor="end">stops after {told.end} trials:</text>',
        f'<text x="{x - 10:.1f}" y="{TOP + 34}" text-anchor="end">20 more gain 0.001 or more</text>',
        f'<text x="{x - 10:.1f}" y="{TOP + 52}" text-anchor="end">with a chance of {chance:.2f}</text></g>',
        f'<g {late(last)}><text x="{x + 8:.1f}" y="{TOP + 14}">20 more, to see:</text>',
        f'<text x="{x + 8:.1f}" y="{TOP + 34}">{best[told.end - 1] - best[-1]:.4f} better</text></g>',
        f'<text x="{LEFT}" y="28"><tspan class="big">log loss</tspan> of gradient boosting, '
        '<tspan class="orange">best so far</tspan> and '
        '<tspan class="teal">where the next 20 trials take it, 4 of 5 times</tspan></text>',
        f'<text x="{WIDTH - RIGHT + 10}" y="{HEIGHT - BOTTOM + 18}">trials</text>',
    ]
    alt = f"A run that stops after {told.end} trials because its forecast says that more would gain nothing."
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{alt}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _fan(n: int, best: float, fan: Sequence[Forecast], px: Scale, py: Scale) -> str:
    """The outline of the intervals ahead of trial n."""
    upper = [(n + k, best - forecast.low) for k, forecast in enumerate(fan, 1)]
    lower = [(n + k, best - forecast.high) for k, forecast in enumerate(fan, 1)]
    points = [(n, best), *upper, *reversed(lower)]
    return "M" + "L".join(f"{px(x):.1f} {py(y):.1f}" for x, y in points) + "Z"


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0]).parse_args()
    (ROOT / "docs" / "images" / "outlook.svg").write_text(picture(story()))
