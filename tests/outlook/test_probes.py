"""The share of the space that can be better: a theorem, so it is simulated where its error is largest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import regretless as rg
from regretless.certificate import rounded_up
from regretless.method import next_points
from regretless.optimizer import Optimizer
from regretless.outlook.probes import is_due, last_look, most_better, probe_point, rule_of, share_unseen
from regretless.outlook.standing import Standing
from regretless.outlook.stopping import GapBelow, StopWhen, probes_for
from regretless.run.result import observed
from regretless.task import Task

DELTA, RUNS = 0.2, 200
LEAST = 1 - DELTA - 3 * math.sqrt(DELTA * (1 - DELTA) / RUNS)
"""The coverage below which a run of the simulation contradicts 1 - delta, three standard errors down."""
LINE = {"x": rg.Float(3.0, 5.5), "lr": rg.Float(1e-4, 1.0, log=True)}
"""A space off zero; the first coordinate of its cube is lr, the second x."""


def run(
    space: Any, f: Callable[..., float], trials: int, seed: int, method: Any = "random", **options: Any
) -> Optimizer:
    opt = Optimizer(space, method=method, seed=seed, probes=options.pop("probes", 1.0), **options)
    for _ in range(trials):
        trial = opt.ask()
        value = f(**trial.params)
        opt.tell(trial, value, failed=math.isnan(value))
    return opt


def place(lr: float) -> float:
    return math.log10(lr) / 4 + 1


# ---------------------------------------------------------------- numbers


def test_the_limit_is_that_of_clopper_and_pearson() -> None:
    for m, k, delta in [(1, 0, 0.05), (58, 0, 0.05), (58, 3, 0.01), (300, 40, 0.2)]:
        s = most_better(m, k, delta)
        assert s == pytest.approx(beta.ppf(1 - delta, k + 1, m - k), rel=1e-9)
        assert binom.cdf(k, m, s) == pytest.approx(delta, rel=1e-6)
    assert most_better(58, 0, 0.05) == pytest.approx(1 - 0.05 ** (1 / 58))
    assert most_better(4, 4, 0.05) == 1.0


@pytest.mark.parametrize("rate", [0.0, 0.2, 1 / 3, 0.1, 1.0])
def test_probes_are_evenly_spaced(rate: float) -> None:
    task = Task(rg.Space(LINE), seed=0, probes=rate)
    due = [is_due(step, task) for step in range(900)]
    for n in (10, 30, 90, 900):
        assert sum(due[:n]) == math.floor(n * rate + 1e-9)


@pytest.mark.parametrize(("rate", "budget"), [(0.2, 30), (1 / 3, 30), (0.5, 7), (0.5, 2), (0.1, 10), (0.2, 1)])
def test_the_last_trial_of_a_budget_is_no_probe(rate: float, budget: int) -> None:
    """The probe that was due there comes one trial earlier; beyond the budget they go on as ever."""
    planned, endless = (Task(rg.Space(LINE), budget=n, seed=0, probes=rate) for n in (budget, None))
    due, ever = ([is_due(step, task) for step in range(3 * budget)] for task in (planned, endless))
    assert not due[budget - 1]
    assert sum(due[:budget]) == sum(ever[:budget])
    assert due[: max(budget - 2, 0)] == ever[: max(budget - 2, 0)]
    assert due[budget:] == ever[budget:]
    result = rg.minimize(lambda x: x, {"x": rg.Float(-3, 9)}, trials=budget, probes=rate, seed=0, progress=False)
    assert sum(result.optimizer.book.probe_steps) == sum(i for i, probe in enumerate(due[:budget]) if probe)


def test_probes_are_uniform_in_the_users_own_parametrisation() -> None:
    space = rg.Space({**LINE, "n": rg.Int(1, 100, log=True), "k": rg.Int(-3, 8), "c": rg.Choice(["a", "b", "c"])})
    task = Task(space, seed=4)
    drawn = [space.decode(probe_point(task, step, "shares")) for step in range(3000)]
    lr = np.array([p["lr"] for p in drawn])
    assert np.allclose(np.histogram(np.log10(lr), 4, (-4, 0))[0] / 3000, 0.25, atol=0.035)
    for name, levels in (("k", 12), ("c", 3)):
        counts = np.unique([p[name] for p in drawn], return_counts=True)[1] / 3000
        assert np.allclose(counts, 1 / levels, atol=0.035)
    ones = np.mean([p["n"] == 1 for p in drawn])
    assert ones == pytest.approx(math.log(3) / math.log(100.5 / 0.5), abs=0.03)  # by its share of the log scale
    for step in (0, 7):  # the same setting for a method that wants one coordinate per label
        assert space.decode(probe_point(task, step, "onehot"), "onehot") == drawn[step]


# ---------------------------------------------------------------- the theorem


def coverage(make: Callable[[int], Optimizer], better: Callable[[float], float]) -> tuple[float, float]:
    """How often the true share is within the certified one, and the mean of the certified ones."""
    right, shares = 0, []
    for seed in range(RUNS):
        opt = make(seed)
        share = Standing(opt).share_at(DELTA).value
        shares.append(1.0 if share is None else share)
        right += better(observed(opt, opt.recommend())) <= shares[-1]
    return right / RUNS, float(np.mean(shares))


def test_needles_are_covered_and_no_more() -> None:
    """A needle a little larger than the certified share is missed with probability delta: the bound is sharp."""
    m = 15
    p = most_better(m, 0, DELTA) * 1.0001

    def needle(x: float, lr: float) -> float:
        return -1.0 if place(lr) < p else (x - 4) ** 2

    found, share = coverage(
        lambda seed: run(LINE, needle, m, seed), lambda v: p * (v > -1) + (1 - p) * min(math.sqrt(max(v, 0)) / 1.25, 1)
    )
    assert LEAST <= found <= 1 - DELTA + 0.1
    assert share == pytest.approx(p, rel=1e-3)


def test_plateaus_and_ties_are_covered() -> None:
    def steps(x: float, lr: float) -> float:
        return float(np.searchsorted([0.13, 0.5], place(lr)))

    found, _ = coverage(lambda seed: run(LINE, steps, 11, seed), lambda v: {0.0: 0.0, 1.0: 0.13, 2.0: 0.5}[v])
    assert found >= LEAST


def test_searching_besides_only_helps_and_does_not_count() -> None:
    """Every third trial is a probe, the others chase the best value: the share is that of the probes alone."""
    opt = run(LINE, lambda x, lr: (x - 4.1) ** 2 + place(lr), 30, 3, method="gp-ei", probes=1 / 3)
    share = Standing(opt).share_at(0.05)
    assert share.probes == 10
    assert share.value == pytest.approx(1 - 0.05 ** (1 / 10))
    assert Standing(run(LINE, lambda x, lr: x, 8, 3, method="sobol", probes=0)).share_at(0.05).value is None


FEW = {"n": rg.Int(1, 9, log=True), "c": rg.Choice(["a", "b", "c"])}


def test_few_cells_are_drawn_with_replacement() -> None:
    cells = [(n, c) for n in range(1, 10) for c in "abc"]
    weight = {n: math.log((n + 0.5) / (n - 0.5)) / math.log(9.5 / 0.5) / 3 for n in range(1, 10)}

    def make(seed: int) -> Optimizer:
        rank = np.random.default_rng(seed).permutation(27)
        return run(FEW, lambda n, c: float(rank[cells.index((n, c))]), 9, seed, probes=2 / 3)

    right = 0
    for seed in range(RUNS):
        opt = make(seed)
        rank = np.random.default_rng(seed).permutation(27)
        best = observed(opt, opt.recommend())
        true = sum(weight[n] for i, (n, c) in enumerate(cells) if rank[i] < best)
        share = Standing(opt).share_at(DELTA)
        assert share.probes == 6  # a draw that was known counts, without an evaluation
        right += true <= (share.value if share.value is not None else 1.0) + 1e-12
    assert right / RUNS >= LEAST


def test_a_space_seen_whole_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = Optimizer(FEW, method="random", seed=0, probes=1.0, noisy=False)
    for n, c in [(n, c) for n in range(1, 10) for c in "abc"][:-1]:
        opt.tell(opt.adopt({"n": n, "c": c}), float(n))
    unseen = math.log(9.5 / 8.5) / math.log(9.5 / 0.5) / 3
    assert Standing(opt).share_at(0.05).value == pytest.approx(unseen)
    assert Standing(opt).share_at(0.05).certain
    assert opt.certificate.gap == math.inf
    asked: list[int] = []
    monkeypatch.setattr(
        "regretless.optimizer.next_points",
        lambda method, history, n, *, step: asked.append(step) or next_points(method, history, n, step=step),
    )
    known = [step for step in range(26, 34) if opt.history.is_known(probe_point(opt.task, step, "shares"))]
    for _ in range(8):
        opt.ask()
    assert opt.book.probe_steps == list(range(26, 34))
    assert asked[:3] == known[:3]  # a draw that is known spends no evaluation: its trial goes to the method
    opt.tell(opt.adopt({"n": 9, "c": "c"}), 9.0)
    assert Standing(opt).share_at(0.05).value == 0.0
    assert (opt.certificate.gap, opt.certificate.certain, opt.certificate.kind) == (0.0, True, "theory")


def test_a_failed_probe_may_be_better() -> None:
    """Where evaluations fail nothing is known: those draws count against the recommendation."""

    def f(x: float, lr: float) -> float:
        u = place(lr)
        return math.nan if u < 0.1 else float(u > 0.2)

    found, _ = coverage(lambda seed: run(LINE, f, 14, seed), lambda v: 0.1 if v > 0 else 0.0)
    assert found >= LEAST
    opt = run(LINE, f, 40, 1)
    failed = sum(t.state == "failed" for t in opt.trials)
    assert failed >= 2
    assert Standing(opt).share_at(0.05).undecided == failed
    assert Standing(opt).share_at(0.05).value == pytest.approx(most_better(40, failed, 0.05))


def test_a_pending_probe_may_be_better_and_costs_its_part_of_delta() -> None:
    opt = run(LINE, lambda x, lr: x, 20, 5)
    assert Standing(opt).share_at(0.05).value == pytest.approx(1 - 0.05 ** (1 / 20))
    trial = opt.ask()
    assert Standing(opt).share_at(0.05).value == pytest.approx(most_better(21, 1, 0.05 / 4))
    opt.forget(trial)  # nobody will ever know
    assert Standing(opt).share_at(0.05).value == pytest.approx(most_better(21, 1, 0.05))


def test_slow_probes_are_covered_too() -> None:
    """The better a setting the longer it takes: what is pending at the look is the best there is."""

    def make(seed: int) -> Optimizer:
        opt = Optimizer(LINE, method="random", seed=seed, probes=1.0)
        for trial in opt.ask(14):
            if place(trial.params["lr"]) >= 0.15:
                opt.tell(trial, trial.params["x"])
        return opt

    found, _ = coverage(make, lambda v: 0.15 + 0.85 * (v - 3) / 2.5)
    assert found >= LEAST


def test_noise_with_told_variances_is_covered() -> None:
    sd = 0.02

    def make(seed: int) -> Optimizer:
        rng = np.random.default_rng(seed)
        opt = Optimizer(LINE, method="random", seed=seed, probes=1.0)
        for _ in range(25):
            trial = opt.ask()
            opt.tell(trial, place(trial.params["lr"]) + sd * rng.standard_normal(), var=sd**2)
        return opt

    right, shares = 0, []
    for seed in range(RUNS):
        opt = make(seed)
        share = Standing(opt).share_at(DELTA)
        shares.append(1.0 if share.value is None else share.value)
        right += place(opt.recommend()["lr"]) <= shares[-1]  # by what it is worth, not by what was seen
    assert right / RUNS >= LEAST
    assert np.mean(shares) < 0.6


def test_exact_values_beside_noisy_ones_count_as_they_are() -> None:
    """A weight of one over a variance of zero, times a value, would be infinite, and nothing would beat that."""

    def share(exact: float) -> float | None:
        opt = Optimizer(LINE, method="random", seed=2, probes=0.5)
        for i in range(24):
            trial = opt.ask()
            opt.tell(trial, 50.0 * place(trial.params["lr"]), var=exact if i % 2 else 1.0)
        return Standing(opt).share_at(DELTA).value

    assert share(0.0) == share(1e-12)


def test_noise_of_unknown_size_is_not_certified() -> None:
    opt = run(LINE, lambda x, lr: x, 12, 0)
    again = opt.adopt(opt.trials[0].params)
    opt.tell(again, 17.0)  # the same setting, another value
    assert opt.method.noise(opt.history).shows
    assert Standing(opt).share_at(0.05).value is None
    assert "variances" in Standing(opt).share_at(0.05).reason
    for i in range(1, 4):
        opt.tell(opt.adopt(opt.trials[i].params), opt.trials[i].value)
    assert Standing(opt).share_at(0.05).value is None or Standing(opt).share_at(0.05).value > 0.2


# ---------------------------------------------------------------- noise with a known bound


def bounded_run(seed: int, f: Callable[[float, float], float], b: float, n: int = 25, **options: Any) -> Optimizer:
    """Probes alone, whose values carry the worst noise there is: always the whole bound, to one side or the other."""
    opt, rng = (
        Optimizer(LINE, method="random", seed=seed, probes=1.0, noise_bound=b, **options),
        np.random.default_rng(seed),
    )
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, f(place(trial.params["lr"]), trial.params["x"]) + b * rng.choice([-1.0, 1.0]))
    return opt


@pytest.mark.parametrize("needle", [0.0, 0.09])
def test_bounded_noise_is_covered_needles_too(needle: float) -> None:
    """A needle that beats all by more than the noise, a little smaller than what 25 probes exclude; else a slope."""

    def f(u: float, x: float) -> float:
        return -1.0 if u < needle else u

    right, shares = 0, []
    for seed in range(RUNS):
        opt = bounded_run(seed, f, 0.03)
        share = Standing(opt).share_at(DELTA).value
        shares.append(1.0 if share is None else share)
        u = place(opt.recommend()["lr"])
        right += (0.0 if u < needle else u) <= shares[-1]  # by what it is worth, not by what was seen
    assert right / RUNS >= LEAST
    assert np.mean(shares) < 0.45


def test_bounded_noise_spends_no_probability_on_the_noise() -> None:
    """A plateau of noise and one value below all of it: no probe is undecided, and all of delta is the draw's."""
    opt = Optimizer(LINE, method="random", seed=2, probes=1.0, noise_bound=0.2)
    for i in range(20):
        opt.tell(opt.ask(), -1.0 if i == 7 else 0.1 * (-1) ** i)
    assert opt.method.noise(opt.history).shows
    assert Standing(opt).share_at(0.05).undecided == 0
    assert Standing(opt).share_at(0.05).value == pytest.approx(most_better(20, 0, 0.05 / 2))
    opt.tell(opt.ask(), -0.7)  # within twice the bound of the best: it may be better
    assert Standing(opt).share_at(0.05).undecided == 1
    assert Standing(opt).share_at(0.05).value == pytest.approx(most_better(21, 1, 0.05 / 4))
    opt.tell(opt.adopt(opt.trials[7].params), -1.35)  # now it is worth -1.2 to -1.15, and the probe at least -0.9
    assert Standing(opt).share_at(0.05).undecided == 0
    opt.tell(opt.adopt(opt.trials[7].params), -1.45)
    assert "noise_bound=0.2 was wrong" in Standing(opt).share_at(0.05).reason


def test_bounded_noise_and_a_floor_bound_the_gap() -> None:
    opt = Optimizer(LINE, method="random", seed=2, noise_bound=0.2, floor=0.0)
    for value in (1.0, 0.4, -0.1):  # the last is below the floor by less than the noise
        opt.tell(opt.ask(), value)
    assert opt.certificate.gap == pytest.approx(0.1)
    assert opt.certificate.certain
    with pytest.warns(RuntimeWarning, match="floor=0 was wrong"):
        opt.tell(opt.ask(), -0.3)
    few = Optimizer({"c": rg.Choice(["a", "b"])}, method="random", seed=0, noise_bound=0.5)
    for label, value in (("a", 3.0), ("b", 2.8)):
        opt = few
        opt.tell(opt.adopt({"c": label}), value)
    assert few.certificate.gap == pytest.approx(1.0)  # b is worth at most 3.3, and the best of both at least 2.3
    assert "every setting" in str(few.certificate)


def test_a_bound_of_the_noise_travels(tmp_path: Any) -> None:
    opt = bounded_run(1, lambda u, x: u, 0.03, n=6, floor=-1.0)
    opt.save(tmp_path / "run")
    again = Optimizer.load(tmp_path / "run")
    assert again.task.noise_bound == again.history.noise_bound == 0.03
    assert again.certificate == opt.certificate
    options: dict[str, Any] = {"trials": 3, "method": "random", "seed": 0, "progress": False}
    rg.minimize(lambda x, lr: x, LINE, checkpoint=tmp_path / "b", noise_bound=0.1, **options)
    with pytest.raises(ValueError, match="noise_bound"):
        rg.minimize(lambda x, lr: x, LINE, checkpoint=tmp_path / "b", **options)
    for bad in (-1.0, math.inf, "0.1", True):
        with pytest.raises(ValueError, match="noise_bound must be"):
            Optimizer(LINE, noise_bound=bad)


# ---------------------------------------------------------------- at any time


def test_a_share_for_any_time_is_wrong_at_no_time() -> None:
    """The share better than the best of m probes is the least of m uniform numbers: it may exceed the certified one at
    some moment of a run of 300 probes with probability delta at most."""
    runs, most = 4000, 300
    shares = np.ones(most)
    for m in range(1, most + 1):
        k, used = last_look(m)
        if k:
            shares[m - 1] = most_better(used, 0, DELTA / (k * (k + 1)))
    left = np.minimum.accumulate(np.random.default_rng(0).random((runs, most)), axis=1)
    wrong = (left > shares).any(axis=1).mean()
    assert 0.2 * DELTA < wrong <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / runs)
    once = np.array([most_better(m, 0, DELTA) for m in range(1, most + 1)])
    assert (left > once).any(axis=1).mean() > 1.5 * DELTA  # what one look proves is no statement for any time
    assert [last_look(m) for m in (3, 4, 5, 6, 12, 13)] == [(0, 0), (1, 4), (1, 4), (2, 6), (3, 9), (4, 13)]


def test_a_run_with_a_rule_certifies_for_any_time() -> None:
    opt = run(LINE, lambda x, lr: x, 20, 5)
    assert opt.certificate.share == pytest.approx(1 - 0.05 ** (1 / 20))
    GapBelow(1e-9)(opt)  # the rule has looked, and it may look again
    assert opt.certificate.share == pytest.approx(most_better(19, 0, 0.05 / 5 / 6))
    assert opt.certificate.probes == 19
    # the rule spends for its own looks
    assert Standing(opt).share_at(0.05).value == pytest.approx(1 - 0.05 ** (1 / 20))
    few = run(LINE, lambda x, lr: x, 3, 5)
    GapBelow(1e-9)(few)
    assert "a run that a rule ends needs 4 probes; so far: 3" in str(few.certificate)


@pytest.mark.parametrize(
    ("stop", "probes", "rate"),
    [
        (None, None, 0.0),
        (GapBelow(0.1), None, 0.2),
        (GapBelow(share=0.1), None, 0.2),
        (StopWhen(target=0.0) | GapBelow(0.1), None, 0.2),
        (StopWhen(target=0.0), None, 0.0),
        (lambda optimizer: None, None, 0.0),
        (GapBelow(0.1), 0.0, 0.0),
        (StopWhen(target=0.0), 0.5, 0.5),
    ],
)
def test_a_rule_that_speaks_of_a_certificate_brings_probes(stop: Any, probes: float | None, rate: float) -> None:
    assert probes_for(stop, probes) == rate


def test_the_reason_of_a_stop_says_both_sentences() -> None:
    result = rg.minimize(
        lambda x, lr: x + (place(lr) - 0.3) ** 2, LINE, trials=80, method="random", seed=9, floor=3.0, progress=False,
        noisy=False, stop=GapBelow(1e-4) | GapBelow(0.05),
    )  # fmt: skip
    assert result.optimizer.task.probes == 0.2
    assert "of the search space holds a better setting" in result.message
    assert "at most" in result.message.partition("probes).")[2]
    assert result.certificate.share is not None
    assert "independent uniform probes" in str(result.certificate)


# ---------------------------------------------------------------- looking again and again


@pytest.mark.parametrize("share", [0.25])
def test_a_rule_that_looks_after_every_evaluation_keeps_its_delta(share: float) -> None:
    """The worst needle for a rule: a little larger than what it asks for."""
    p = share * 1.001
    wrong = stopped = 0
    for seed in range(RUNS):
        opt, rule = Optimizer(LINE, method="random", seed=seed, probes=0.7), GapBelow(share=share, delta=DELTA)
        for _ in range(60):
            trial = opt.ask()
            u = place(trial.params["lr"])
            opt.tell(trial, float(u >= p) + u)
            if rule(opt) is not None:
                stopped += 1
                wrong += opt.best.params["lr"] > 10 ** (4 * p - 4)
                break
    assert stopped == RUNS
    assert wrong / RUNS <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / RUNS)
    assert "with probability 0.8 at most" in (rule.reason or "").lower()


def test_a_proven_share_is_what_the_certificate_says(tmp_path: Any) -> None:
    """The rule and the certificate share delta: after the proof they say the same, also in a file."""
    asked = rg.minimize(
        lambda x, lr: x, LINE, trials=400, method="random", seed=1, probes=0.5, stop=GapBelow(share=0.1),
        progress=False, checkpoint=tmp_path / "run",
    )  # fmt: skip
    share = asked.certificate.share
    assert share is not None
    assert 0.09 < share <= 0.1
    assert f"at most {rounded_up(100 * share, 2)} %" in asked.message
    opt = Optimizer.load(tmp_path / "run")
    assert opt.certificate == asked.certificate
    rule = rule_of(opt.book.record.rule)
    assert rule is not None
    assert rule.part == pytest.approx(0.2)
    assert opt.certificate_at(0.01).share > share  # proven with probability 0.95 only
    k, m = last_look(len(opt.book.probe_steps))
    unproven = Standing(opt).share_at(0.05, rule=rule._replace(proven=None)).value
    assert unproven == pytest.approx(most_better(m, 0, 0.2 * 0.05 / (k * (k + 1))))


def test_a_saved_run_goes_on_with_its_probes(tmp_path: Any) -> None:
    whole = run(LINE, lambda x, lr: x + lr, 20, 9, method="gp-ei", probes=0.4, floor=0.0)
    part = run(LINE, lambda x, lr: x + lr, 11, 9, method="gp-ei", probes=0.4, floor=0.0)
    pending = part.ask()
    part.save(tmp_path / "run")
    again = Optimizer.load(tmp_path / "run")
    assert (again.task.probes, again.task.limit, again.book.probe_steps) == (0.4, 0.0, part.book.probe_steps)
    again.tell(pending.number, pending.params["x"] + pending.params["lr"])
    while len(again.trials) < 20:
        trial = again.ask()
        again.tell(trial, trial.params["x"] + trial.params["lr"])
    assert [t.params for t in again.trials] == [t.params for t in whole.trials]
    assert again.certificate == whole.certificate


def test_adopted_trials_are_no_probes() -> None:
    opt = Optimizer(LINE, method="random", seed=0, probes=1.0)
    opt.tell(opt.adopt({"x": 4.0, "lr": 0.01}), 1.0)
    opt.tell(opt.ask(), 2.0)
    assert opt.book.probe_steps == [1]


def test_a_rate_that_is_none_is_refused() -> None:
    for bad in (-0.1, 1.5, True, "0.2", math.nan):
        with pytest.raises(ValueError, match="probes must be a number in"):
            Optimizer(LINE, probes=bad)


@pytest.mark.parametrize("choices", ["shares", "onehot"])
def test_settings_of_trees_and_rules_own_what_uniform_draws_give_them(choices: Any) -> None:
    tree = {
        "a": rg.Choice(["u", "v", "w"]),
        "b": rg.Choice([5, 7], when={"a": ["u", "v"]}),
        "c": rg.Int(2, 5, log=True, when={"b": 5}),
    }
    ruled = rg.Space({"a": rg.Int(1, 5, log=True), "b": rg.Int(2, 6), "c": rg.Choice(["u", "v"])}, where=["a < b"])
    for space in (rg.Space(tree), ruled):
        cube, draws = space.cube(choices), np.random.default_rng(3)
        points = np.unique(cube.all_points(), axis=0)
        met = Counter(space.cube().uniform(draws).tobytes() for _ in range(4000))
        for i in (0, len(points) // 2, len(points) - 1):
            left = share_unseen(cube, np.delete(points, i, axis=0))
            alike = space.encode(space.decode(points[i], choices)).tobytes()
            assert left == pytest.approx(met[alike] / 4000, abs=0.03)
            assert left > 0


@pytest.mark.parametrize("method", ["gp-ucb", "gp-ts", "ms-ucb", "neural-bo"])
def test_no_setting_of_a_finite_space_is_evaluated_twice(method: str) -> None:
    """The last settings are rarely met by chance; neural-bo had no candidates left."""
    space = {"n": rg.Int(1, 8, log=True), "s": rg.Float(0.1, 1, step=0.45)}
    result = rg.minimize(lambda n, s: len(str(n)) + s, space, trials=40, seed=0, method=method, progress=False)
    assert len(result.trials) == len({tuple(t.params.values()) for t in result.trials}) == 24
    assert str(result.certificate).startswith("No part of the search space holds a better setting: all others")


def test_what_was_evaluated_earlier_or_by_a_verifying_run_is_not_evaluated_again() -> None:
    space = {"c": rg.Choice(["u", "v", "w"]), "n": rg.Int(2, 6)}

    def bowl(c: str, n: int) -> float:
        return (n - 4) ** 2 + (c == "u")

    before = [({"c": c, "n": n}, bowl(c, n)) for c in ("u", "v") for n in range(2, 7)]
    fresh = rg.minimize(bowl, space, trials=40, seed=0, earlier=before, noisy=False, progress=False)
    assert {t.params["c"] for t in fresh.trials} == {"w"}
    assert len(fresh.trials) == 5
    assert fresh.message == "all 15 settings of the space were evaluated"
    verified = rg.minimize(bowl, space, trials=40, seed=0, stop=GapBelow(0.01), progress=False)
    assert len(verified.trials) == len({tuple(t.params.values()) for t in verified.trials})


@pytest.mark.parametrize(
    ("told", "options", "supposed"),
    [
        (None, {}, ", if the noise of the values is Gaussian and everywhere alike."),
        (1e-6, {}, ", if the noise of the values is Gaussian."),
        (None, {"noise_bound": 0.01}, " independent uniform probes)."),
    ],
)
def test_a_share_beside_noise_says_what_it_supposes_of_it(told: float | None, options: dict, supposed: str) -> None:
    """Repeated values of a nearly exact function, whose differences are small and there."""
    space = {"x": rg.Float(1e-3, 10.0, log=True), "k": rg.Int(3, 21, step=3)}
    optimizer = rg.Optimizer(space, "random", seed=1, probes=1.0, noisy=None if options else True, **options)
    rng = np.random.default_rng(4)
    for _ in range(16):
        trial = optimizer.ask()
        value = np.log10(trial.params["x"]) ** 2 + trial.params["k"]
        optimizer.tell(trial, value + rng.normal(0, 1e-4), var=told)
        again = optimizer.adopt(trial.params)
        optimizer.tell(again, value + rng.normal(0, 1e-4), var=told)
    assert optimizer.certificate.share is not None, optimizer.certificate.share_reason
    assert optimizer.certificate.share_sentence().endswith(supposed)
