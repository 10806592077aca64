"""What a claim of a paper comes to: checks, each a quoted sentence of the claim, and the verdict over them.

    checks = leads(cases, "ms-ucb (paper)", RIVALS, final_loss, quote="our method does better than all the baselines")
    verdict, sentence = judged(checks, fewest(cases), ours)

A check compares losses seed by seed: a one-sided paired t-test, with a margin. Holm's method corrects over the checks
of a claim, so that a claim of thirteen parts is not proved by the luckiest of them. What is neither shown nor refuted
is a tie. A part of the claim that the size at hand does not reach is a check too, one that was not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from regretless.space.parameters import Array
from regretless_bench.finding import Table, Verdict
from regretless_bench.stats import holm, paired, shifted_t

LEAST_SEEDS = 5
"""With fewer repetitions of any method nothing is decided."""
IN_PART = 0.5
"""A claim reproduces in part when at least this share of the checks that were run holds, and in full when all do."""
LEVEL = 0.05
"""The error rate of a claim's tests, all its checks together: the level that GO-UCB and NeuralBO test at."""
MARGIN = 0.01
"""To be lower means lower by more than this share of the rival's median loss: less is nothing a user would notice."""
COMPARABLE = 0.1
"""To be comparable means to be higher by less than this share; the papers that say "comparable" give no number."""
WORST = 1e100
"""The loss of a run that found nothing; finite, so that losses have differences and their squares."""
NAMED = 4
"""A verdict's sentence names at most this many checks that do not hold."""

Outcome: TypeAlias = Literal["holds", "tie", "fails", "not run"]
WORDS: dict[Outcome, str] = {"holds": "yes", "tie": "tie", "fails": "no", "not run": "not run"}
"""How a table says it."""
Runs: TypeAlias = Mapping[str, Mapping[str, Sequence[Any]]]
"""Problem -> method label -> runs ordered by seed; a run has a `seed` and a loss."""


class Check(NamedTuple):
    """One thing a claim says, and the evidence for and against it.

    Args:
        what: what is checked, in our words.
        found: the numbers it is judged by.
        better: p-value of the test whose alternative is that it holds; NaN where it was not run.
        worse: p-value of the test whose alternative is the opposite.
        quote: the paper's words.
    """

    what: str
    found: str
    better: float
    worse: float
    quote: str = ""


def measured(what: str, held: bool, found: str, quote: str = "") -> Check:
    """A check of something measured without repetitions (bytes, counts): it holds or fails."""
    return Check(what, found, 0.0 if held else 1.0, 1.0 if held else 0.0, quote)


def not_run(what: str, why: str, quote: str = "") -> Check:
    """A part of the claim that the size at hand does not reach."""
    return Check(what, why, math.nan, math.nan, quote)


def outcomes(checks: Sequence[Check]) -> list[Outcome]:
    """What each check of a claim came to, the tests corrected over all checks that were run."""
    ran = [i for i, check in enumerate(checks) if not math.isnan(check.better)]
    shown = holm([checks[i].better for i in ran], LEVEL)
    refuted = holm([checks[i].worse for i in ran], LEVEL)
    found: list[Outcome] = ["not run"] * len(checks)
    for i, yes, no in zip(ran, shown, refuted, strict=True):
        found[i] = "holds" if yes else "fails" if no else "tie"
    return found


# ---------------------------------------------------------------- checks from losses


def common(
    methods: Mapping[str, Sequence[Any]], labels: Sequence[str], loss: Callable[[Any], float]
) -> dict[str, Array]:
    """Losses over the seeds that all these methods ran, label -> one per seed; methods without runs are left out.

    A run that found nothing (NaN) has lost: its loss is WORST. Where no run has a loss, the loss is not one of these
    records, which raises.
    """
    values = {label: {r.seed: loss(r) for r in methods[label]} for label in labels if methods.get(label)}
    if values and all(math.isnan(value) for of in values.values() for value in of.values()):
        raise ValueError(f"no run of {', '.join(values)} has a loss: these records hold no noiseless values?")
    values = {
        label: {seed: WORST if math.isnan(value) else value for seed, value in of.items()}
        for label, of in values.items()
    }
    shared = sorted(set.intersection(*(set(v) for v in values.values()))) if values else []
    return {label: np.array([of[seed] for seed in shared]) for label, of in values.items()}


def leads(
    cases: Runs,
    label: str,
    rivals: Sequence[str],
    loss: Callable[[Any], float],
    what: str = "loss",
    *,
    quote: str = "",
    level: bool = False,
) -> list[Check]:
    """Per problem that `label` and a rival ran: `lowest` over their common seeds."""
    checks = []
    for problem, methods in cases.items():
        losses = common(methods, [label, *(r for r in rivals if r != label)], loss)
        if label in losses and len(losses) > 1 and len(losses[label]):
            checks.append(lowest(problem, losses, label, what, quote=quote, level=level))
    return checks


def lowest(
    problem: str, losses: Mapping[str, Array], label: str, what: str = "loss", *, quote: str = "", level: bool = False
) -> Check:
    """Is the loss of `label` lower than that of each other method (`level`: comparable to each, or lower)?

    `losses` has one value per seed and method. It must be so against every rival, so the largest of the p-values
    counts; that some rival is lower is tested with Bonferroni's correction over the rivals.
    """
    rivals = [name for name in losses if name != label]
    share = -COMPARABLE if level else MARGIN
    p = {name: _both(losses[label], losses[name], share) for name in rivals}
    hardest = max(rivals, key=lambda name: (p[name][0], -float(np.median(losses[name]))))
    against = paired(losses[label], losses[hardest])
    found = (
        f"median {np.median(losses[label]):.4g}, the hardest rival {hardest} {np.median(losses[hardest]):.4g}; "
        f"lower on {against.wins} of {len(losses[label])} paired seeds (p {p[hardest][0]:.2g})"
    )
    text = f"{problem}: {what} of {label} {'comparable or lower' if level else 'lowest'}"
    worse = min(1.0, len(rivals) * min(p[name][1] for name in rivals))
    return Check(text, found, p[hardest][0], worse, quote)


def improves(
    cases: Runs, better: str, worse: str, loss: Callable[[Any], float], what: str = "loss", *, quote: str = ""
) -> list[Check]:
    """Per problem that both ran: is the loss of `better` lower than that of `worse`? Over common seeds."""
    checks = []
    for problem, methods in cases.items():
        losses = common(methods, [better, worse], loss)
        if len(losses) < 2 or not len(losses[better]):
            continue
        a, b = losses[better], losses[worse]
        p, against = _both(a, b, MARGIN), paired(a, b)
        found = (
            f"median {what} {np.median(a):.4g} against {np.median(b):.4g}; "
            f"lower on {against.wins} of {len(a)} paired seeds (p {p[0]:.2g})"
        )
        checks.append(Check(f"{problem}: {better} below {worse}", found, *p, quote))
    return checks


def _both(a: Array, b: Array, share: float) -> tuple[float, float]:
    """p-values of "a is below b by more than `share` of it" and of its opposite, "a is above b" (with a negative share:
    above by more than that)."""
    scale = abs(float(np.median(b)))
    return shifted_t(a - b, -share * scale), shifted_t(b - a, min(share, 0.0) * scale)


# ---------------------------------------------------------------- verdicts


def judged(
    checks: Sequence[Check], seeds: int, ours: Sequence[Check] = (), called: str = "our default"
) -> tuple[Verdict, str]:
    """The verdict on a claim and its reason in one sentence.

    Args:
        checks: what the claim says of the method as printed; each quotes the paper.
        seeds: repetitions behind every check.
        ours: the same checks of our default; where these hold and the printed method's do not, the claim reproduces
            only with our default. A default that holds in part leaves the verdict to the printed method.
        called: how the sentence calls what the checks `ours` are of.
    """
    if silent := [check.what for check in (*checks, *ours) if not check.quote]:
        raise ValueError(f"a check of a claim quotes the paper; this does not: {silent[0]}")
    found, mine = outcomes(checks), outcomes(ours)
    if seeds < LEAST_SEEDS or not _ran(found):
        beyond = "; ".join(f"{c.what}: {c.found}" for c in checks if math.isnan(c.better))
        if _ran(found):
            why = f"At least {LEAST_SEEDS} repetitions of every method are needed; there are {seeds}."
        else:
            why = "This size reaches nothing of what the claim says."
        return "not decided yet", f"{why}{f' Not run: {beyond}.' * bool(beyond)}"
    whole = _counted(found)
    whole += f" for the method as printed; for {called} {_counted(mine)}" if _ran(mine) else ""
    open_ends = [f"{c.what} ({WORDS[of]})" for c, of in zip(checks, found, strict=True) if of != "holds"]
    if open_ends:
        whole += f". What does not hold{' as printed' if ours else ''}: {'; '.join(open_ends[:NAMED])}"
        whole += f"; and {len(open_ends) - NAMED} more" if len(open_ends) > NAMED else ""
    return _verdict(found, mine), f"{whole}."


def _verdict(found: Sequence[Outcome], mine: Sequence[Outcome]) -> Verdict:
    if set(found) == {"holds"}:
        return "reproduces"
    if set(mine) == {"holds"}:
        return "reproduces only with our default"
    if found.count("holds") >= IN_PART * _ran(found):
        return "reproduces only in part"
    return "does not reproduce" if "fails" in found else "not decided yet"


def _ran(found: Sequence[Outcome]) -> int:
    return len(found) - found.count("not run")


def _counted(found: Sequence[Outcome]) -> str:
    held, beyond = found.count("holds"), found.count("not run")
    text = f"{held} of {_ran(found)} checks {'holds' if held == 1 else 'hold'}"
    parts: dict[Outcome, tuple[str, str]] = {"tie": ("is a tie", "are ties"), "fails": ("fails", "fail")}
    said = [f"{n} {words[n > 1]}" for of, words in parts.items() if (n := found.count(of))]
    said += [f"{beyond} more {'is' if beyond == 1 else 'are'} beyond this size"] if beyond else []
    return f"{text} ({', '.join(said)})" if said else text


def checks_table(checks: Sequence[Check], title: str = "checks") -> Table:
    """What was checked and found, with the paper's words where a check has them."""
    rows = zip(checks, outcomes(checks), strict=True)
    if any(check.quote for check in checks):
        cells = [[c.what, WORDS[of], c.found, c.quote] for c, of in rows]
        return Table(title, ["check", "holds", "found", "the paper says"], cells)
    return Table(title, ["check", "holds", "found"], [[c.what, WORDS[of], c.found] for c, of in rows])
