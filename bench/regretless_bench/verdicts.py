"""What a claim of a paper comes to: checks, each a quoted sentence of the claim, and the verdict over them.

    checks = leads(cases, "ms-ucb (paper)", NAMED, final_loss, quote="our method does better than all the baselines")
    verdict, sentence = judged(checks, fewest(cases), good)

The same checks are made twice: against the rivals that the paper names, as it ran them, and against good rivals. A
check compares losses pair by pair: a one-sided paired t-test, with a margin. A claim holds when every check of it does,
each at 5 %; as all must, none of these tests needs a correction (Berger, Technometrics 1982: an intersection-union
test). It is refuted when one check is, so these tests are corrected by Holm's method. What is neither shown nor refuted
is a tie. A part of the claim that the size at hand does not reach is a check too, one that was not run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from regretless.space.parameters import Array
from regretless_bench.finding import Table, Verdict
from regretless_bench.stats import Paired, holm, paired, shifted_t, wald

LEAST_SEEDS = 5
"""With fewer repetitions of any method nothing is decided."""
LEVEL = 0.05
"""The error rate of a claim's tests: the level that GO-UCB and NeuralBO test at."""
MARGIN = 0.01
"""To be lower means lower by more than this share of the rival's median loss: less is nothing a user would notice."""
COMPARABLE = 0.1
"""To be comparable means to be higher by less than this share, and a plateau is a gain of less than it; the papers that
say "comparable" and "plateau" give no number."""
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
    """What each check of a claim came to: shown at LEVEL, or refuted at LEVEL corrected over all checks that were
    run."""
    ran = [i for i, check in enumerate(checks) if not math.isnan(check.better)]
    refuted = holm([checks[i].worse for i in ran], LEVEL)
    found: list[Outcome] = ["not run"] * len(checks)
    for i, no in zip(ran, refuted, strict=True):
        found[i] = "holds" if checks[i].better <= LEVEL else "fails" if no else "tie"
    return found


def together(checks: Sequence[Check]) -> Outcome:
    """What a claim comes to in one column: it holds when all checks that were run do, and fails when one does."""
    found = set(outcomes(checks)) - {"not run"}
    return "fails" if "fails" in found else "tie" if "tie" in found else "holds" if found else "not run"


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
    pairs = {name: (losses[label], values) for name, values in losses.items() if name != label}
    return hardest(f"{problem}: {what} of {label}", pairs, quote, level=level)


def pooled(
    cases: Runs,
    label: str,
    rivals: Sequence[str],
    loss: Callable[[Any], float],
    what: str = "loss",
    *,
    quote: str = "",
    level: bool = False,
) -> list[Check]:
    """One check over all tasks of a claim: `lowest` over every pair of runs with the same task and seed, losses as
    shares of the rival's mean on the task. Nothing where no task has both."""
    pairs: dict[str, tuple[Array, Array]] = {}
    tasks = 0
    for rival in (r for r in rivals if r != label):
        both = [common(methods, [label, rival], loss) for methods in cases.values()]
        found = [(of[label], of[rival]) for of in both if len(of) == 2 and len(of[label])]
        if found:
            pairs[rival], tasks = pooled_pairs(found), max(tasks, len(found))
    text = f"{tasks} task{'s' * (tasks != 1)} together: {what} of {label}"
    return [hardest(text, pairs, quote, level=level, unit=" of it")] if pairs else []


def hardest(
    what: str, pairs: Mapping[str, tuple[Array, Array]], quote: str, *, level: bool = False, unit: str = ""
) -> Check:
    """The check against the rival it is hardest to be shown against; `pairs` has our losses and the rival's."""
    share = -COMPARABLE if level else MARGIN
    p = {name: _both(*both, share) for name, both in pairs.items()}
    most = max(pairs, key=lambda name: (p[name][0], -float(np.mean(pairs[name][1]))))
    mine, theirs = pairs[most]
    found = f"mean {interval(mine)}{unit}, the hardest rival {most} {interval(theirs)}; {_wins(paired(mine, theirs))}"
    text = f"{what} {'comparable or lower' if level else 'lowest'}"
    worse = min(1.0, len(pairs) * min(of[1] for of in p.values()))
    return Check(text, f"{found} (p {p[most][0]:.2g})", p[most][0], worse, quote)


def interval(values: Array) -> str:
    """A mean and its 95 % Wald interval, as GO-UCB's figures have them."""
    mean, half = wald(values)
    return f"{mean:.3g}" if math.isnan(half) else f"{mean:.3g} ± {half:.2g}"


def _wins(against: Paired) -> str:
    return f"lower on {against.wins} of {against.wins + against.losses + against.ties} paired runs"


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
        checks.append(below(f"{problem}: {better} below {worse}", a, b, what, quote=quote))
    return checks


def pooled_pairs(pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Losses of two methods on several tasks as one sample of pairs, as shares of the second one's mean on the task."""
    scales = [float(np.abs(b).mean()) or 1.0 for _, b in pairs]
    first, second = (
        np.concatenate([pair[i] / scale for pair, scale in zip(pairs, scales, strict=True)]) for i in (0, 1)
    )
    return first, second


def below(
    what: str, low: Array, high: Array, unit: str = "loss", *, quote: str = "", refuted_if_level: bool = False
) -> Check:
    """Is `low` lower than `high`, pair by pair? With `refuted_if_level` a gain that is shown to be less than COMPARABLE
    refutes it, where otherwise only the opposite does."""
    p = _both(low, high, MARGIN)
    if refuted_if_level:
        p = p[0], shifted_t(high - low, COMPARABLE * abs(float(np.mean(high)))) if p[0] > LEVEL else 1.0
    found = f"mean {unit} {interval(low)} against {interval(high)}; {_wins(paired(low, high))} (p {p[0]:.2g})"
    return Check(what, found, *p, quote)


def plateau(what: str, before: Array, after: Array, unit: str = "loss", *, quote: str = "") -> Check:
    """Is the gain from `before` to `after` less than COMPARABLE of the former? An equivalence test: without enough
    runs it is not shown."""
    least = COMPARABLE * abs(float(np.mean(before)))
    gain = before - after
    p, opposite = shifted_t(gain, least), shifted_t(-gain, -least)
    found = f"mean {unit} {interval(before)}, then {interval(after)}: a gain of {interval(gain)} (p {p:.2g})"
    return Check(what, found, p, opposite, quote)


def _both(a: Array, b: Array, share: float) -> tuple[float, float]:
    """p-values of "a is below b by more than `share` of it" and of its opposite, "a is above b" (with a negative share:
    above by more than that)."""
    scale = abs(float(np.median(b)))
    return shifted_t(a - b, -share * scale), shifted_t(b - a, min(share, 0.0) * scale)


# ---------------------------------------------------------------- verdicts


def judged(
    checks: Sequence[Check], seeds: int, good: Sequence[Check] = (), *, bound: Check | None = None
) -> tuple[Verdict, str]:
    """The verdict on a claim and its reason in one sentence.

    Args:
        checks: what the claim says, against the rivals that the paper names; each quotes the paper.
        seeds: repetitions behind every check.
        good: the same against good rivals; empty for a claim without rivals.
        bound: of a claim that fails or is open, what makes it impossible: that an oracle, which knows the function
            and chooses among all the points that the method could ask, is no better than what the claim must beat.
    """
    if silent := [check.what for check in (*checks, *good) if not check.quote]:
        raise ValueError(f"a check of a claim quotes the paper; this does not: {silent[0]}")
    named = together(checks)
    if named == "not run":
        beyond = "; ".join(f"{c.what}: {c.found}" for c in checks)
        return "not run", f"This size reaches nothing of what the claim says{f': {beyond}' * bool(beyond)}."
    if seeds < LEAST_SEEDS:
        return "not decided", f"At least {LEAST_SEEDS} repetitions of every method are needed; there are {seeds}."
    both = together(good) != "not run"
    whole = f"{'Against the rivals of the paper ' * both}{_counted(outcomes(checks))}"
    whole += f"; against good rivals {_counted(outcomes(good))}" if both else ""
    impossible = bound is not None and named != "holds" and together([bound]) == "holds"
    if bound is not None and impossible:
        whole += f". The bound: {bound.what}, {bound.found}"
    found = outcomes(checks)
    for title, words in (("What does not hold", ("tie", "fails")), ("Not run", ("not run",))):
        parts = [f"{c.what} ({WORDS[of]})" if of != "not run" else c.what for c, of in zip(checks, found, strict=True)
                 if of in words]  # fmt: skip
        if parts:
            whole += f". {title}: {'; '.join(parts[:NAMED])}"
            whole += f"; and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return "cannot hold" if impossible else _verdict(checks, good), f"{whole[0].upper()}{whole[1:]}."


def _verdict(checks: Sequence[Check], good: Sequence[Check]) -> Verdict:
    """A claim that holds in the first column holds when it has no rivals, or when the second column holds as well and
    reaches as many of its parts."""
    if together(checks) == "holds":
        reached = outcomes(good).count("not run") <= outcomes(checks).count("not run")
        if not good or (reached and together(good) == "holds"):
            return "holds"
        return "holds against the paper's rivals only"
    return "does not hold" if together(checks) == "fails" else "not decided"


def _ran(found: Sequence[Outcome]) -> int:
    return len(found) - found.count("not run")


def _counted(found: Sequence[Outcome]) -> str:
    held, beyond = found.count("holds"), found.count("not run")
    text = f"{held} of {_ran(found)} checks {'holds' if held == 1 else 'hold'}"
    parts: dict[Outcome, tuple[str, str]] = {"tie": ("is a tie", "are ties"), "fails": ("fails", "fail")}
    said = [f"{n} {words[n > 1]}" for of, words in parts.items() if (n := found.count(of))]
    said += [f"{beyond} more {'is' if beyond == 1 else 'are'} beyond this size"] if beyond else []
    return f"{text} ({', '.join(said)})" if said else text


AGAINST_NAMED, AGAINST_GOOD = "checks against the rivals that the paper names", "the same checks against good rivals"
"""Titles of the first two tables of a finding."""


def both_columns(checks: Sequence[Check], good: Sequence[Check] = ()) -> list[Table]:
    """The first tables of a finding: a claim's checks in both columns, or in one for a claim without rivals."""
    return [checks_table(checks, AGAINST_NAMED), *([checks_table(good, AGAINST_GOOD)] if good else [])]


def checks_table(checks: Sequence[Check], title: str = "checks") -> Table:
    """What was checked and found, with the paper's words where a check has them."""
    rows = zip(checks, outcomes(checks), strict=True)
    if any(check.quote for check in checks):
        cells = [[c.what, WORDS[of], c.found, c.quote] for c, of in rows]
        return Table(title, ["check", "holds", "found", "the paper says"], cells)
    return Table(title, ["check", "holds", "found"], [[c.what, WORDS[of], c.found] for c, of in rows])
