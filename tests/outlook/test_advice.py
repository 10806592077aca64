"""Advice: what is planted is found, and nothing is said where nothing is borne out."""

from __future__ import annotations

import math

import numpy as np
import optuna
import pytest

import regretless as rg

SPACE = {
    "x": rg.Float(-3, 17), "z": rg.Float(2e-4, 30.0, log=True), "n": rg.Int(5, 800, log=True),
    "kind": rg.Choice(["a", "b", "c"]),
}  # fmt: skip


def bowl(x: float, z: float, n: int, kind: str, *, best_x: float = 6.2) -> float:
    return (x - best_x) ** 2 / 40 + (math.log10(z) + 1) ** 2 / 3 + (math.log(n) - 4) ** 2 / 4 + 0.4 * (kind == "b")


def said(fun, space=None, trials: int = 44, method="auto", **options):
    opt = rg.Optimizer(space or SPACE, method, seed=0, budget=trials, **options)
    for _ in range(trials):
        trial = opt.ask()
        try:
            opt.tell(trial, fun(**trial.params))
        except ValueError:
            opt.tell(trial, failed=True)
    return rg.advise(opt)


def kinds(advice) -> dict[str, tuple[str, ...]]:
    return {a.kind: a.parameters for a in advice}


def test_a_clean_run_gets_no_advice() -> None:
    assert said(bowl) == ()


def run_of_two(fun, trials: int = 44, **options):
    opt = rg.Optimizer(SPACE, seed=0, budget=trials, objectives={"loss": "minimize", "gain": "maximize"}, **options)
    for _ in range(trials):
        trial = opt.ask()
        opt.tell(trial, fun(**trial.params))
    return opt


def test_of_several_objectives_each_is_judged_by_itself() -> None:
    calm = run_of_two(lambda **s: (bowl(**s, best_x=5.0), -bowl(**s, best_x=9.0)))
    assert rg.advise(calm) == ()
    beyond = rg.advise(run_of_two(lambda **s: (bowl(**s, best_x=5.0), -bowl(**s, best_x=24.0))))
    assert kinds(beyond) == {"bound": ("x",)}
    assert str(beyond[0]).startswith("For gain: x = ")
    idle = run_of_two(lambda x, z, n, kind: (bowl(x, z, 55, kind), -bowl(x, z, 55, kind, best_x=9.0)))
    assert kinds(rg.advise(idle)) == {"matters": ("n",)}
    assert "hardly matters to any objective" in str(rg.Result.of(idle))
    some = run_of_two(lambda x, z, n, kind: (bowl(x, z, 55, kind), -bowl(x, z, n, kind, best_x=9.0)))
    assert "matters" not in kinds(rg.advise(some))


def test_noise_of_one_objective_is_said_of_it() -> None:
    rng = np.random.default_rng(4)
    opt = run_of_two(lambda **s: (bowl(**s) + 0.5 * rng.standard_normal(), -bowl(**s, best_x=9.0)), 12)
    for _ in range(3):
        opt.tell(opt.adopt(opt.trials[0].params), (bowl(**opt.trials[0].params) + rng.standard_normal(), -1.0))
    assert any(str(a).startswith("For loss: The same setting gave values that are") for a in rg.advise(opt))


@pytest.mark.parametrize(("best", "word"), [(22.0, "largest"), (-9.0, "smallest")])
def test_an_optimum_beyond_the_range_asks_for_a_wider_one(best: float, word: str) -> None:
    found = said(lambda **s: bowl(**s, best_x=best))
    assert kinds(found)["bound"] == ("x",)
    sentence = next(str(a) for a in found if a.kind == "bound")
    assert word in sentence
    assert "beyond it" in sentence
    mirrored = said(lambda **s: -bowl(**s, best_x=best), direction="maximize")
    assert kinds(mirrored)["bound"] == ("x",)


def test_whole_numbers_are_widened_too_and_labels_never() -> None:
    found = said(lambda n, kind: (n - 60) ** 2 / 800 + (kind != "a"), {"n": rg.Int(3, 30), "kind": SPACE["kind"]}, 20)
    assert kinds(found).get("bound") == ("n",)


def test_a_parameter_without_effect_is_named() -> None:
    found = said(lambda x, z, n, kind: bowl(x, z, 55, kind))
    assert kinds(found) == {"matters": ("n",)}


def test_a_parameter_to_widen_is_not_called_needless_too() -> None:
    advice = said(lambda a, n: (a - 3.2) ** 2 + 0.01 * n, {"a": rg.Float(0.1, 10, log=True), "n": rg.Int(7, 19)}, 25)
    assert kinds(advice)["bound"] == ("n",)
    assert [name for one in advice for name in one.parameters].count("n") == 1


@pytest.mark.parametrize(("best", "side"), [(0.5, "above"), (13.5, "below")])
def test_a_range_that_is_mostly_poor_is_named(best: float, side: str) -> None:
    space = {k: SPACE[k] for k in "xz"}
    found = said(lambda x, z: 30 * (x - best) ** 2 / 400 + (math.log10(z) + 1) ** 2 / 3, space, 30)
    assert kinds(found)["narrow"] == ("x",)
    assert side in next(str(a) for a in found if a.kind == "narrow")


def test_values_that_differ_are_named_unless_their_noise_was_told() -> None:
    rng = np.random.default_rng(0)
    found = said(lambda **s: bowl(**s) + 0.3 * rng.standard_normal())
    assert "the option repeat" in next(str(a) for a in found if a.kind == "noise")
    opt = rg.Optimizer(SPACE, seed=0)
    for _ in range(20):
        trial = opt.ask()
        opt.tell(trial, bowl(**trial.params) + 0.3 * rng.standard_normal(), var=0.09)
    assert "noise" not in kinds(rg.advise(opt))


def test_values_that_agree_by_accident_are_no_measure_of_the_noise() -> None:
    rng = np.random.default_rng(0)
    opt = rg.Optimizer(SPACE, "random", seed=0, noisy=True)
    for _ in range(24):
        trial = opt.ask()
        opt.tell(trial, 3.0 * rng.standard_normal())
    again = opt.trials[5]
    opt.tell(opt.adopt(again.params), again.value + 1e-5)
    sentence = next(str(a) for a in rg.advise(opt) if a.kind == "noise")
    assert "1e-05" not in sentence
    assert "A single value is off by about" in sentence


def test_failures_that_lie_together_are_named_and_scattered_ones_are_not() -> None:
    rng = np.random.default_rng(0)

    def crashes(**s):
        if s["x"] > 9:
            raise ValueError("it crashed")
        return bowl(**s)

    def stumbles(**s):
        if rng.random() < 0.3:
            raise ValueError("it stumbled")
        return bowl(**s)

    found = said(crashes, method=rg.RandomSearch)
    assert kinds(found)["failures"] == ("x",)
    assert "x >=" in next(str(a) for a in found if a.kind == "failures")
    assert "failures" not in kinds(said(stumbles, method=rg.RandomSearch))
    of_label = said(lambda **s: bowl(**s) if s["kind"] != "c" else 1 // 0 if False else _raise(), method="random")
    assert kinds(of_label)["failures"] == ("kind",)


def _raise() -> float:
    raise ValueError("it crashed")


def test_a_study_that_repeats_itself_is_told_so() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda t: (t.suggest_int("n", 3, 9) - 5.5) ** 2, n_trials=20)
    assert "repeated" in kinds(rg.advise(study))


def test_what_says_nothing_gets_none() -> None:
    assert rg.advise(rg.Optimizer(SPACE, seed=0)) == ()
    assert said(lambda **s: 1.0, trials=20) == ()
    several = rg.Optimizer(SPACE, objectives=["a", "b"], seed=0)
    assert rg.advise(several) == ()
    tree = {"kind": rg.Choice(["a", "b"]), "x": rg.Float(-3, 9, when={"kind": "a"})}
    assert isinstance(said(lambda kind, x=0.0: float(x) + (kind == "b"), tree, 15), tuple)
    assert rg.minimize(bowl, SPACE, trials=44, seed=0, progress=False).advice == ()
