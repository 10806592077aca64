"""Advice against the truth: runs with one planted fault each, and clean ones.

    python experiments/outlook_advice.py                     # the cases that are reported
    python experiments/outlook_advice.py --first 0           # those on which the limits of `outlook/advice.py` were set

Each case is a run of `auto` in a random space: odd ranges, log scales, whole numbers, a choice. The function is a
bowl, a bowl with ripples, or a smooth random field over a bowl. In clean runs all parameters matter, the optimum lies
well inside, nothing fails and nothing is noisy. A fault that is not named counts as missed; in a clean run, and beside
a planted fault, every other sentence counts as false.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import regretless as rg
from regretless.basics.streams import keyed_generator
from regretless.space import Space

STREAM = 402
FAULTS = ("bound", "narrow", "matters", "noise", "failures", "repeated")
"""What is planted, in turn."""


@dataclass
class Case:
    """A run to be made, and what is planted in it."""

    space: Space
    value: Callable[[dict[str, Any]], float]
    trials: int
    fault: str = ""
    parameter: str = ""
    method: Any = "auto"


def drawn(number: int, fault: str = "") -> Case:
    """The case of a number."""
    rng = keyed_generator(number, len(fault), stream=STREAM)
    d = int(rng.integers(2, 6))
    kinds = [str(rng.choice(["line", "log", "whole"])) for _ in range(d)]
    parameters: dict[str, Any] = {}
    for i, kind in enumerate(kinds):
        low = float(rng.uniform(-20, 20))
        parameters[f"p{i}"] = {
            "line": rg.Float(low, low + float(rng.uniform(1, 60))),
            "log": rg.Float(10.0 ** rng.uniform(-6, -2), 10.0 ** rng.uniform(0, 3), log=True),
            "whole": rg.Int(int(low), int(low) + int(rng.integers(20, 200))),
        }[kind]
    if rng.random() < 0.4 or (fault == "repeated" and d < 3):
        parameters["label"] = rg.Choice([f"kind-{j}" for j in range(int(rng.integers(2, 5)))])
    space = Space(parameters)
    best, weight = rng.uniform(0.25, 0.75, d), rng.uniform(0.6, 1.7, d)
    heights = 0.15 * rng.random(8)
    ripple, waves = float(rng.choice([0.0, 0.02])), rng.uniform(6.0, 14.0, d)
    axes = [f"p{i}" for i in range(d)]
    at = int(rng.integers(d))
    name = axes[at]
    unit, offset = 10.0 ** rng.uniform(-3, 3), float(rng.uniform(-50, 50))
    if fault == "bound":
        best[at] = 1.35 if rng.random() < 0.5 else -0.35
    if fault == "matters":
        weight[at] = 0.0
    if fault == "narrow":
        best[at], weight[at] = (0.12, 14.0) if rng.random() < 0.5 else (0.88, 14.0)
    limit, above = float(rng.uniform(0.55, 0.7)), bool(rng.integers(2))
    noise = 0.1 if fault == "noise" else 0.0
    seen = keyed_generator(number, 1, stream=STREAM)
    places = {n: i for i, n in enumerate(space.coordinates)}

    def value(s: dict[str, Any]) -> float:
        u = space.encode(s)
        x = np.array([u[places[n]] for n in axes])
        if fault == "failures" and (x[at] > limit if above else x[at] < 1 - limit):
            raise ValueError("it crashed")
        found = float((weight * (x - best) ** 2).sum()) + ripple * float(np.sin(waves * x)[weight > 0].sum())
        found += heights[int(s["label"][5:])] if "label" in s else 0.0
        return offset + unit * (found + noise * float(seen.standard_normal()))

    method = rg.RandomSearch if fault == "failures" else "auto"
    return Case(space, value, int(rng.integers(12, 18)) * len(space), fault, name, method)


def advice_of(case: Case, number: int) -> tuple[Any, ...]:
    """What is said after the run."""
    opt = rg.Optimizer(case.space, case.method, budget=case.trials, seed=number)
    again = keyed_generator(number, 2, stream=STREAM)
    for i in range(case.trials):
        repeat = case.fault == "repeated" and i > 5 and again.random() < 0.2
        trial = opt.adopt(opt.trials[int(again.integers(i))].params) if repeat else opt.ask()
        try:
            opt.tell(trial, case.value(trial.params))
        except ValueError as error:
            opt.tell(trial, failed=True, error=str(error))
    return rg.advise(opt)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=500)
    parser.add_argument("--planted", type=int, default=30)
    parser.add_argument("--clean", type=int, default=60)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found, beside, false, kinds = dict.fromkeys(FAULTS, 0), 0, 0, dict.fromkeys(FAULTS, 0)
    for i in range(options.planted):
        fault = FAULTS[i % len(FAULTS)]
        case = drawn(options.first + i, fault)
        said = advice_of(case, options.first + i)
        right = [a for a in said if a.kind == fault and (not a.parameters or case.parameter in a.parameters)]
        wrong = [a for a in said if a not in right or (len(a.parameters) > 1)]
        kinds[fault] += 1
        found[fault] += bool(right)
        beside += bool(wrong)
        if not right or wrong:
            print(f"{options.first + i} {fault} {case.parameter}:", *said, sep="\n    ", flush=True)
    for i in range(options.clean):
        number = options.first + 1000 + i
        said = advice_of(drawn(number), number)
        false += bool(said)
        if said:
            print(f"{number} clean:", *said, sep="\n    ", flush=True)
    for fault in FAULTS:
        print(f"| {fault} | {found[fault]} of {kinds[fault]} |")
    print(f"planted: {sum(found.values())} of {options.planted} found, {beside} with another sentence")
    print(f"clean: {false} of {options.clean} with a sentence")


if __name__ == "__main__":
    main()
