"""Bilevel studies: the schedule, exact budgets, kills and resumption, divergence, failures, and what comes back."""

import math
import os
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from regretless_bench.problems.mnist_training import ConvTraining, DenseTraining, Digits, training

from regretless import METHODS, RandomSearch
from regretless.basics.statefile import StateError, pack, unpack
from regretless.bilevel import Bilevel, BilevelResult, Finished, minimize_bilevel
from regretless.method import keyed_generator
from regretless.space.parameters import Choice, Float

SPACE = {"lr": Float(1e-3, 1.0, log=True), "start": Float(-4.0, 8.0)}
TARGET = 2.0


def init(params: dict[str, Any], seed: int) -> dict[str, Any]:
    return {"theta": np.full(3, params["start"]), "lr": params["lr"], "seed": seed, "steps": 0}


def step(state: dict[str, Any]) -> dict[str, Any]:
    """Noisy gradient descent on |theta - TARGET|^2 / 2; the noise is keyed on the step, so a thawed run goes on
    exactly."""
    noise = keyed_generator(state["seed"], state["steps"]).standard_normal(3)
    return {
        **state,
        "theta": state["theta"] - state["lr"] * (state["theta"] - TARGET + 0.3 * noise),
        "steps": state["steps"] + 1,
    }


def validate(state: dict[str, Any]) -> float:
    return float(((state["theta"] - TARGET) ** 2).mean()) + 0.05


QUADRATIC = Bilevel(init, step, validate)


def study(problem: Bilevel = QUADRATIC, **options: Any) -> BilevelResult:
    """A small study; random settings unless told otherwise, because most of what is tested here has nothing to do with
    the model."""
    return minimize_bilevel(
        problem, SPACE, **{"budget_steps": 400, "seed": 3, "progress": False, "method": "random", **options}
    )


def facts(result: BilevelResult) -> Any:
    """Everything but the clock."""
    runs = [(r.params, r.steps, r.curve, r.status, r.log) for r in result.runs]
    return result.params, result.value, result.state["theta"].tolist(), result.steps, result.spent, runs


# ---------------------------------------------------------------- what comes back


def test_the_result_holds_the_setting_its_trained_state_and_the_whole_record() -> None:
    result = study()
    assert result.success
    assert validate(result.state) == result.value
    assert result.state["steps"] == result.steps
    assert result.value == min(loss for r in result.runs for loss in r.ends.values())
    assert result.runs[result.best_run].params == result.params
    replayed = init(result.params, result.runs[result.best_run].seed)
    for _ in range(result.steps):
        replayed = step(replayed)
    assert np.array_equal(replayed["theta"], result.state["theta"]), "the state is not what plain training gives"


def test_the_budget_is_spent_to_the_last_step_and_not_beyond() -> None:
    taken = []

    def counted(state: dict[str, Any]) -> dict[str, Any]:
        taken.append(1)
        return step(state)

    for budget in (1, 7, 100, 401):
        taken.clear()
        result = study(Bilevel(init, counted, validate), budget_steps=budget)
        assert len(taken) == budget == result.spent == sum(r.spent for r in result.runs)


def test_promotion_is_ahead_of_a_fixed_horizon_at_equal_steps() -> None:
    ours = np.median([study(seed=s).value for s in range(9)])
    fixed = np.median([study(seed=s, budget_steps=None, trials=20, horizon=20).value for s in range(9)])
    assert ours < fixed


def test_same_seed_same_study_and_another_seed_another() -> None:
    assert facts(study(budget_steps=200, method="bilevel")) == facts(study(budget_steps=200, method="bilevel"))
    assert facts(study(seed=4)) != facts(study())


def test_steps_at_once_equal_steps_one_by_one() -> None:
    def steps(state: dict[str, Any], n: int) -> dict[str, Any]:
        for _ in range(n):
            state = step(state)
        return state

    assert facts(study(Bilevel(init, step, validate, steps=steps))) == facts(study())


def test_plots_and_text(tmp_path: Path) -> None:
    result = study(budget_steps=120)
    figure = result.plot_curves(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
    curves = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert len(curves) == len(result.runs)
    assert f"of run {result.best_run}" in str(result)
    assert "certified" not in str(result)  # runs of different length have no bound, and nobody could act on that
    table = result.best_so_far()
    assert table[-1, 0] == 120
    assert table[-1, 1] == result.value
    assert (np.diff(table[:, 1]) <= 0).all()
    assert len(result.to_dataframe()) == sum(len(r.curve) for r in result.runs)


def test_the_bar_runs_over_steps_and_promotions_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    result = study(budget_steps=120, progress=True, verbose=True)
    shown = capsys.readouterr()
    assert "120/120" in shown.err
    assert f"best {result.value:.5g}" in shown.err
    promotions = [why for r in result.runs for why, _, _ in r.log if why != "new"]
    assert shown.out.count("promoted to") == promotions.count("promoted") > 0
    assert shown.out.count("leads on to") == promotions.count("leader") > 0
    study(budget_steps=120)
    assert capsys.readouterr() == ("", "")


def test_the_fixed_split_follows_the_paper() -> None:
    first = study(budget_steps=None, trials=8, horizon=20, method="bbo-printed")
    assert [r.steps for r in first.runs] == [20] * 8
    ucb = METHODS["bbo-printed"](acquisition="ucb", horizon=20)
    last = study(budget_steps=None, trials=8, horizon=20, method=ucb)
    assert last.best_run == 7, "Algorithm 2 returns the last point"
    assert last.value == last.runs[7].loss


def test_choices_and_other_methods_work_as_well() -> None:
    space = {**SPACE, "kind": Choice(["a", "b"])}
    result = minimize_bilevel(QUADRATIC, space, budget_steps=150, method=RandomSearch, seed=0, progress=False)
    assert {r.params["kind"] for r in result.runs} == {"a", "b"}
    assert minimize_bilevel(QUADRATIC, space, budget_steps=60, seed=0, progress=False).success


# ---------------------------------------------------------------- kills


class Killed(BaseException):
    """Ends a study as a kill would: nothing catches it."""


@pytest.mark.parametrize("keep", [64, 3], ids=["roomy", "states are dropped"])
def test_a_study_killed_anywhere_resumes_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int
) -> None:
    """Dies at every few of all its file operations, before and after each, and is resumed every time."""
    whole = facts(study(budget_steps=150, keep=keep))
    operations, left = 0, 10**9

    def counted(real: Any) -> Any:
        def operation(*args: Any, **options: Any) -> Any:
            nonlocal operations, left
            operations += 1
            left -= 1
            if left == 0:
                raise Killed
            out = real(*args, **options)
            left -= 1
            if left == 0:
                raise Killed
            return out

        return operation

    for name in ("replace", "fsync", "unlink"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    for every in (5, 12, 31):
        folder, deaths = tmp_path / str(every), 0
        while True:
            left = every + deaths % 7  # so that deaths fall on other operations each time round
            try:
                result = study(budget_steps=150, keep=keep, snapshot_seconds=0.0, folder=folder)
                break
            except Killed:
                deaths += 1
                assert deaths < 2000, "the study makes no headway"
        left = 10**9
        assert facts(result) == whole
        assert deaths > 5
    assert operations > 500


SCRIPT = """
import os, signal, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import test_minimize_bilevel as t
calls = 0
def step(state):
    global calls
    calls += 1
    if calls == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return t.step(state)
problem = t.Bilevel(t.init, step, t.validate)
t.study(problem, folder=sys.argv[2], snapshot_seconds=0.0, budget_steps=200, method="bilevel")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_study_survives_sigkill(tmp_path: Path) -> None:
    whole = facts(study(budget_steps=200, method="bilevel"))
    folder = tmp_path / "study"
    for at in (30, 90):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, __file__, str(folder), str(at)], capture_output=True, check=False
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    for answer in ("resumed", "asked again"):
        assert facts(study(folder=folder, budget_steps=200, method="bilevel")) == whole, answer


def test_a_study_stopped_late_goes_on_exactly(tmp_path: Path) -> None:
    """In its late part, where settings start high on the ladder and the model knows the length of training."""
    options = {"method": "bilevel", "budget_steps": 300}
    whole = study(**options)
    late = [r.number for r in whole.runs if r.log[0][0] == "new" and min(r.ends, default=0) > whole.schedule.rungs[0]]
    assert late, "noisy gradient descent should flatten"
    stopped = study(**options, folder=tmp_path, callback=lambda record: record.number == late[0])
    assert not stopped.success
    assert facts(study(**options, folder=tmp_path)) == facts(whole)


def test_another_study_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    study(folder=tmp_path, budget_steps=60)
    for other in ({"seed": 9}, {"budget_steps": 61}, {"method": "sobol"}, {"cap": 2.0}):
        with pytest.raises(ValueError, match="holds another study"):
            study(folder=tmp_path, **{"budget_steps": 60, **other})


def test_an_interrupt_keeps_what_is_known_and_the_study_goes_on(tmp_path: Path) -> None:
    calls = 0

    def interrupted(state: dict[str, Any]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 100:
            raise KeyboardInterrupt
        return step(state)

    early = study(Bilevel(init, interrupted, validate), folder=tmp_path)
    assert not early.success
    assert math.isfinite(early.value)
    assert facts(study(folder=tmp_path)) == facts(study())


def test_states_are_bounded_in_number_and_size(tmp_path: Path) -> None:
    most = 0

    def look(record: Any) -> None:
        nonlocal most
        most = max(most, len(list((tmp_path / "states").iterdir())))

    result = study(folder=tmp_path, keep=3, callback=look)
    assert most <= 3
    assert validate(result.state) == result.value
    assert any(not r.thawable and r.status == "ok" for r in result.runs)
    for r in result.runs:
        if not r.thawable:
            assert r.ends[max(r.ends)] >= result.value
    assert facts(study(keep=3)) == facts(result), "memory and disk disagree"
    assert facts(study(keep_bytes=1))[0], "a store too small for one state still keeps the best"


# ---------------------------------------------------------------- things that go wrong


def test_an_error_in_a_step_fails_the_run_and_not_the_study() -> None:
    def brittle(state: dict[str, Any]) -> dict[str, Any]:
        if state["lr"] > 0.3:
            raise ZeroDivisionError("too fast")
        return step(state)

    result = study(Bilevel(init, brittle, validate))
    failed = [r for r in result.runs if r.status == "failed"]
    assert failed
    assert all("ZeroDivisionError: too fast" in r.error and "in brittle" in r.error for r in failed)
    assert result.success
    assert result.params["lr"] <= 0.3


def test_a_problem_that_always_fails_ends_the_study_with_its_traceback() -> None:
    def broken(params: dict[str, Any], seed: int) -> Any:
        raise KeyError("momentum")

    with pytest.raises(RuntimeError, match="KeyError: 'momentum'"):
        study(Bilevel(broken, step, validate))


def test_a_state_that_needs_a_pickle_is_refused_at_once() -> None:
    with pytest.raises(StateError, match=r"state\['losses'\]: a deque cannot be written .* save= and load="):
        study(Bilevel(lambda params, seed: {"losses": deque([1.0])}, lambda s: s, lambda s: 1.0))


def test_an_object_that_init_does_not_make_is_refused_at_once() -> None:
    def late(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "rng": np.random.default_rng(0)}

    taken = []
    with pytest.raises(
        StateError, match=r"state\['rng'\]: the state has a .*Generator here, a fresh one has a .*NoneType"
    ):
        study(Bilevel(lambda params, seed: {}, late, lambda s: taken.append(1) or 1.0))
    assert len(taken) <= 4, "the first stretch of training should have told"


def test_diverged_runs_stop_early_and_the_model_keeps_away() -> None:
    def explosive(state: dict[str, Any]) -> dict[str, Any]:
        grown = {**step(state)}
        if state["lr"] > 0.2:
            grown["theta"] = np.full(3, np.nan)
        return grown

    result = study(Bilevel(init, explosive, validate), budget_steps=300, method="bilevel")
    diverged = [r for r in result.runs if r.status == "diverged"]
    assert diverged
    assert all(math.isinf(r.loss) and r.spent == 1 for r in diverged), (
        "a diverged run must not be trained to the end of its stretch"
    )
    late = result.runs[-8:]
    assert sum(r.status == "diverged" for r in late) <= 2, (
        "the model should have learnt where training explodes (a third of the space)"
    )


# ---------------------------------------------------------------- generators


def losses(params: dict[str, Any], seed: int) -> Any:
    state = init(params, seed)
    for _ in range(60):
        state = step(state)
        yield validate(state), state


def test_a_generator_of_losses_is_a_problem(tmp_path: Path) -> None:
    result = study(Bilevel.from_generator(losses), budget_steps=200)
    plain = study(budget_steps=200, rungs=None)
    same = min(
        len(result.runs), len(plain.runs)
    )  # its runs finish after 60 steps, so that it goes another way in the end
    assert same > 5
    assert [r.params for r in result.runs][:same] == [r.params for r in plain.runs][:same]
    assert result.state.model["steps"] == result.steps <= 60
    assert result.value == validate(result.state.model)
    replaying = study(Bilevel.from_generator(losses, live=1), budget_steps=200, folder=tmp_path)
    assert [(r.params, r.curve) for r in replaying.runs] == [(r.params, r.curve) for r in result.runs]


def test_a_run_that_has_finished_is_not_charged_for_more() -> None:
    def short(params: dict[str, Any], seed: int) -> Any:
        for i in range(5):
            yield abs(params["start"] - TARGET) + 1 / (i + 1)

    result = study(Bilevel.from_generator(short), budget_steps=100)
    assert all(r.steps <= 5 and r.spent == r.steps for r in result.runs)
    assert any(r.status == "finished" for r in result.runs)

    with pytest.raises(RuntimeError, match="before its first step"):
        study(Bilevel.from_generator(lambda params, seed: iter(())))  # type: ignore[arg-type,return-value]

    def once(state: dict[str, Any], n: int) -> dict[str, Any]:
        raise Finished(taken=0)

    assert Bilevel(init, step, validate, steps=once).advance(init({"start": 1.0, "lr": 1.0}, 0), 5)[1] == 0


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 3}, "either budget_steps"),
        ({"budget_steps": None}, "either budget_steps"),
        ({"budget_steps": 0}, "budget_steps"),
        ({"rungs": (5, 5)}, "rungs"),
        ({"final_share": 1.0}, "final_share"),
        ({"cap": 0.0}, "cap"),
        ({"scale": "sqrt"}, "scale"),
        ({"validations": 0}, "validations"),
        ({"keep": 0}, "keep must be a whole number of at least 1, got 0"),
        ({"keep_bytes": -1}, "keep_bytes must be a whole number of at least 1, got -1"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        study(**options)


def test_a_function_is_no_training_problem() -> None:
    with pytest.raises(TypeError, match="problem must be a Bilevel, got <function validate"):
        study(validate)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the MNIST training problems


@pytest.mark.parametrize("name", ["softmax", "mlp", "cnn"])
def test_a_thawed_training_goes_on_exactly(name: str) -> None:
    rng = np.random.default_rng(0)
    templates = rng.standard_normal((10, 14, 14)).astype(np.float32)
    labels = rng.integers(10, size=300)
    data = templates[labels] + rng.standard_normal((300, 14, 14)).astype(np.float32), labels
    digits = Digits(data, data, data)
    inner = (
        ConvTraining(digits)
        if name == "cnn"
        else DenseTraining(digits, () if name == "softmax" else (8,), tune_momentum=True)
    )
    params = {"lr": 0.05, "l2": 1e-4, "momentum": 0.8, "scale": 1.0, "dropout": 0.3, "channels": 4}
    problem = Bilevel(
        inner.init, inner.step, inner.validate, getattr(inner, "save", None), getattr(inner, "load", None), inner.steps
    )
    straight, _ = problem.advance(inner.init(params, 5), 60)
    first, _ = problem.advance(inner.init(params, 5), 25)
    second, _ = problem.advance(problem.thaw(params, 5, unpack(pack(problem.freeze(first)))), 35)
    assert inner.validate(second) == inner.validate(straight)
    assert inner.test(straight)[1] < 40, "sixty steps should beat chance by far"


def test_the_schedule_is_the_method_and_the_model_an_option() -> None:
    """Random settings under promotion, the paper's model for its own fixed split, unless a method is named."""
    default = study(budget_steps=200, method=None)
    assert facts(default) == facts(study(budget_steps=200, method="random"))
    assert facts(default) != facts(study(budget_steps=200, method="bilevel"))
    split = {"budget_steps": None, "trials": 9, "horizon": 12}
    assert facts(study(**split, method=None)) == facts(study(**split, method="bilevel"))


@pytest.mark.slow
def test_the_model_is_not_behind_random_settings_on_the_mlp() -> None:
    try:
        inner = training("mlp")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    problem = Bilevel(inner.init, inner.step, inner.validate, steps=inner.steps)
    gaps = []
    for seed in range(12):
        ours, other = (
            minimize_bilevel(problem, inner.space, budget_steps=2000, seed=seed, method=m, progress=False).value
            for m in ("bilevel", "random")
        )
        gaps.append(math.log(ours) - math.log(other))
    assert np.mean(gaps) < np.std(gaps) / math.sqrt(len(gaps)), "the model should not be behind chance"
