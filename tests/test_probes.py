"""The share of the space that can be better: a theorem, so it is simulated where its error is largest."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import regretless as rg
from regretless.optimizer import Optimizer
from regretless.probes import is_due, most_better, probe_point
from regretless.stopping import GapBelow

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
    due = [is_due(step, rate) for step in range(900)]
    for n in (10, 30, 90, 900):
        assert sum(due[:n]) == math.floor(n * rate + 1e-9)


def test_probes_are_uniform_in_the_users_own_parametrisation() -> None:
    space = rg.Space({**LINE, "n": rg.Int(1, 100, log=True), "k": rg.Int(-3, 8), "c": rg.Choice(["a", "b", "c"])})
    drawn = [space.decode(probe_point(space, 4, step, "shares")) for step in range(3000)]
    lr = np.array([p["lr"] for p in drawn])
    assert np.allclose(np.histogram(np.log10(lr), 4, (-4, 0))[0] / 3000, 0.25, atol=0.035)
    for name, levels in (("k", 12), ("c", 3)):
        counts = np.unique([p[name] for p in drawn], return_counts=True)[1] / 3000
        assert np.allclose(counts, 1 / levels, atol=0.035)
    ones = np.mean([p["n"] == 1 for p in drawn])
    assert ones == pytest.approx(math.log(3) / math.log(100.5 / 0.5), abs=0.03)  # by its share of the log scale
    for step in (0, 7):  # the same setting for a method that wants one coordinate per label
        assert space.decode(probe_point(space, 4, step, "onehot"), "onehot") == drawn[step]


# ---------------------------------------------------------------- the theorem


def coverage(make: Callable[[int], Optimizer], better: Callable[[float], float]) -> tuple[float, float]:
    """How often the true share is within the certified one, and the mean of the certified ones."""
    right, shares = 0, []
    for seed in range(RUNS):
        opt = make(seed)
        share = opt.share_at(DELTA).value
        shares.append(1.0 if share is None else share)
        right += better(opt.observed(opt.recommend())) <= shares[-1]
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
    share = opt.share_at(0.05)
    assert share.probes == 10
    assert share.value == pytest.approx(1 - 0.05 ** (1 / 10))
    assert run(LINE, lambda x, lr: x, 8, 3, method="sobol", probes=0).share_at(0.05).value is None


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
        best = opt.observed(opt.recommend())
        true = sum(weight[n] for i, (n, c) in enumerate(cells) if rank[i] < best)
        share = opt.share_at(DELTA)
        assert share.probes == 6  # a draw that was known counts, without an evaluation
        right += true <= (share.value if share.value is not None else 1.0) + 1e-12
    assert right / RUNS >= LEAST


def test_a_space_seen_whole_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    opt = Optimizer(FEW, method="random", seed=0, probes=1.0)
    for n, c in [(n, c) for n in range(1, 10) for c in "abc"][:-1]:
        opt.tell(opt.adopt({"n": n, "c": c}), float(n))
    unseen = math.log(9.5 / 8.5) / math.log(9.5 / 0.5) / 3
    assert opt.share_at(0.05).value == pytest.approx(unseen)
    assert opt.share_at(0.05).certain
    assert opt.certificate.gap == math.inf
    asked, ask = [], opt.method.ask
    monkeypatch.setattr(opt.method, "ask", lambda n, *, step: asked.append(step) or ask(n, step=step))
    known = [step for step in range(26, 34) if opt.method.is_known(opt.probe_at(step))]
    for _ in range(8):
        opt.ask()
    assert opt.probe_steps == list(range(26, 34))
    assert asked[:3] == known[:3]  # a draw that is known spends no evaluation: its trial goes to the method
    opt.tell(opt.adopt({"n": 9, "c": "c"}), 9.0)
    assert opt.share_at(0.05).value == 0.0
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
    assert opt.share_at(0.05).undecided == failed
    assert opt.share_at(0.05).value == pytest.approx(most_better(40, failed, 0.05))


def test_a_pending_probe_may_be_better_and_costs_its_part_of_delta() -> None:
    opt = run(LINE, lambda x, lr: x, 20, 5)
    assert opt.share_at(0.05).value == pytest.approx(1 - 0.05 ** (1 / 20))
    trial = opt.ask()
    assert opt.share_at(0.05).value == pytest.approx(most_better(21, 1, 0.05 / 4))
    opt.forget(trial)  # nobody will ever know
    assert opt.share_at(0.05).value == pytest.approx(most_better(21, 1, 0.05))


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
        share = opt.share_at(DELTA)
        shares.append(1.0 if share.value is None else share.value)
        right += place(opt.recommend()["lr"]) <= shares[-1]  # by what it is worth, not by what was seen
    assert right / RUNS >= LEAST
    assert np.mean(shares) < 0.6


def test_noise_of_unknown_size_is_not_certified() -> None:
    opt = run(LINE, lambda x, lr: x, 12, 0)
    again = opt.adopt(opt.trials[0].params)
    opt.tell(again, 17.0)  # the same setting, another value
    assert opt.method.shows_noise()
    assert opt.share_at(0.05).value is None
    assert "variances" in opt.share_at(0.05).reason
    for i in range(1, 4):
        opt.tell(opt.adopt(opt.trials[i].params), opt.trials[i].value)
    assert opt.share_at(0.05).value is None or opt.share_at(0.05).value > 0.2


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


def test_a_saved_run_goes_on_with_its_probes(tmp_path: Any) -> None:
    whole = run(LINE, lambda x, lr: x + lr, 20, 9, method="gp-ei", probes=0.4, floor=0.0)
    part = run(LINE, lambda x, lr: x + lr, 11, 9, method="gp-ei", probes=0.4, floor=0.0)
    pending = part.ask()
    part.save(tmp_path / "run")
    again = Optimizer.load(tmp_path / "run")
    assert (again.probes, again.bound.value, again.probe_steps) == (0.4, 0.0, part.probe_steps)
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
    assert opt.probe_steps == [1]


def test_a_rate_that_is_none_is_refused() -> None:
    for bad in (-0.1, 1.5, True, "0.2", math.nan):
        with pytest.raises(ValueError, match="probes must be a share"):
            Optimizer(LINE, probes=bad)
