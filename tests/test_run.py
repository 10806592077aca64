"""minimize and maximize: failures, interruptions, executors, checkpoints after a real kill, and the result."""

import importlib.util
import inspect
import linecache
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import regretless as rg
from regretless.auto import AUTO
from regretless.outlook.standing import Standing
from regretless.run.minimize import _Run
from regretless.run.result import observed

pytestmark = pytest.mark.filterwarnings(r"ignore:trial \d+ failed:RuntimeWarning")
"""Failing objectives warn while they run; the test of that says so."""
SPACE = {"a": rg.Float(1, 4), "n": rg.Int(1, 9)}


def cost(a: float, n: int) -> float:
    return (a - 2.2) ** 2 + 0.1 * (n - 4) ** 2


def quiet(fun, space=SPACE, *, search=rg.minimize, **options):
    return search(fun, space, progress=False, **{"trials": 12, "method": "gp-ei", "seed": 0, **options})


def test_minimize_and_maximize_agree() -> None:
    low, high = quiet(cost), quiet(lambda a, n: -cost(a, n), search=rg.maximize)
    assert low.params == high.params
    assert low.value == -high.value < 0.5
    assert low.success
    assert low.nfev == low.nit == 12
    assert low["fun"] == low.fun == low.value
    assert low.message in str(low)


def test_both_take_the_same_arguments_and_pass_each_on(monkeypatch) -> None:
    """The arguments of `minimize` are those of `maximize` and of the run behind both."""
    assert inspect.signature(rg.minimize) == inspect.signature(rg.maximize)
    passed = []
    assert list(inspect.signature(_Run).parameters) == ["direction", *inspect.signature(rg.minimize).parameters]
    monkeypatch.setattr(_Run, "__init__", lambda self, direction, **given: passed.append((direction, given)))
    monkeypatch.setattr(_Run, "result", lambda self: None)
    names = list(inspect.signature(rg.minimize).parameters)
    given = {name: f"<{name}>" for name in names}
    for search in (rg.minimize, rg.maximize):
        search(**given)
    assert passed == [("minimize", given), ("maximize", given)]


@pytest.mark.parametrize("search", [rg.minimize, rg.maximize])
def test_the_bar_shows_the_best_value_so_far(search, capsys, tmp_path) -> None:
    def sometimes(a: float, n: int) -> float:
        return math.nan if n > 7 else cost(a, n)

    for trials in (5, 9):  # the second run resumes the first
        result = search(sometimes, SPACE, trials=trials, method="random", seed=1, checkpoint=tmp_path / search.__name__)
        bar = capsys.readouterr().err.replace("\r", "\n").splitlines()[-1]
        assert f"{trials}/{trials}" in bar
        assert f"best seen {result.best.value:.6g}" in bar


def test_a_list_of_pairs_reads_like_scipy() -> None:
    result = quiet(lambda x: float(np.sum((x - [3, -2]) ** 2)), [(2, 5), (-4, 0)], trials=15)
    assert isinstance(result.x, np.ndarray)
    assert result.fun < 0.5


def test_a_failing_objective_is_recorded_and_the_run_goes_on() -> None:
    def sometimes(a: float, n: int) -> float:
        if n > 5:
            raise ZeroDivisionError("too many")
        return cost(a, n)

    with pytest.warns(RuntimeWarning, match=r"trial \d+ failed: ZeroDivisionError: too many") as caught:
        result = rg.minimize(sometimes, SPACE, trials=12, seed=0, progress=False)
    assert [Path(w.filename).name for w in caught] == [Path(__file__).name]  # the caller's line, not one of ours
    failed = [t for t in result.trials if t.state == "failed"]
    assert failed
    assert result.nfev == 12
    assert all('raise ZeroDivisionError("too many")' in t.error for t in failed)
    assert all(t.seconds is not None for t in result.trials)
    with pytest.raises(ZeroDivisionError):
        quiet(sometimes, catch=KeyError)


def test_an_objective_that_always_fails_ends_the_run_with_a_sentence(tmp_path) -> None:
    calls = []

    def broken(a: float, n: int) -> float:
        calls.append(a)
        raise NameError("lerning_rate")

    with pytest.raises(
        RuntimeError, match=r"all of the first 5 evaluations failed; the last one with: NameError: lern"
    ):
        quiet(broken, trials=50)
    assert len(calls) == 5
    with pytest.raises(RuntimeError, match="all of the first 2 evaluations failed"):
        quiet(broken, trials=50, max_failures=2)
    assert quiet(broken, trials=30, max_failures=math.inf).nfev == 30


def test_twenty_failures_in_a_row_end_a_run_that_had_successes(tmp_path) -> None:
    calls = []

    def dies(a: float, n: int) -> float:
        calls.append(a)
        if len(calls) > 4:
            raise OSError("disk full")
        return cost(a, n)

    result = quiet(dies, trials=60, checkpoint=tmp_path / "c")
    assert len(calls) == 24
    assert not result.success
    assert result.message == "the last 20 evaluations failed; the last one with: OSError: disk full"
    assert sum(t.value is not None for t in result.trials) == 4
    assert "disk full" in rg.Optimizer.load(tmp_path / "c").trials[10].error


def test_no_success_at_all() -> None:
    result = quiet(lambda a, n: math.nan, trials=3)
    assert math.isnan(result.value)
    assert not result.certificate.certified
    assert result.trials[0].error == "the objective returned nan"


def test_interrupt_returns_what_is_known() -> None:
    calls = []

    def interrupted(a: float, n: int) -> float:
        calls.append(a)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return cost(a, n)

    result = quiet(interrupted)
    assert result.nfev == 4
    assert not result.success
    assert "interrupted" in result.message


def test_known_variances_are_told() -> None:
    result = quiet(lambda a, n: rg.Value(cost(a, n), var=0.01))
    assert all(t.var == 0.01 for t in result.trials)


def test_stop_callback_and_timeout() -> None:
    seen = []
    result = quiet(cost, callback=lambda opt, trial: seen.append(trial.number) or trial.number == 3)
    assert seen == [0, 1, 2, 3]
    assert "callback" in result.message
    result = quiet(cost, stop=lambda opt: "enough" if len(opt.trials) == 6 else None)
    assert result.nfev == 6
    assert result.message == "enough"
    assert result.success
    result = quiet(lambda a, n: time.sleep(0.05) or cost(a, n), method="random", trials=1000, timeout=0.3)
    assert result.nfev < 20
    assert "time" in result.message


def test_first_settings() -> None:
    known = [{"a": 2.0, "n": 4}, {"a": 3.0, "n": 1}]
    assert [t.params for t in quiet(cost, x0=known).trials[:2]] == [pytest.approx(k) for k in known]
    assert quiet(cost, x0=known[0]).trials[0].params == pytest.approx(known[0])
    assert np.allclose(quiet(lambda x: x[0], [(0, 2), (1, 3)], x0=[0.5, 1.5]).trials[0].x, [0.5, 1.5])


@pytest.mark.parametrize("jobs", [3, ThreadPoolExecutor, ProcessPoolExecutor])
def test_parallel(jobs) -> None:
    pool = jobs if isinstance(jobs, int) else jobs(2)
    result = quiet(cost, n_jobs=pool)
    assert result.nfev == 12
    assert len({tuple(t.params.items()) for t in result.trials}) == 12
    if not isinstance(jobs, int):
        pool.shutdown()


def test_parallel_errors_propagate() -> None:
    def broken(a: float, n: int) -> float:
        raise ValueError("broken objective")

    with pytest.raises(ValueError, match="broken objective"):
        quiet(broken, n_jobs=2, catch=KeyError)
    with pytest.raises(RuntimeError, match="broken objective"):
        quiet(broken, n_jobs=2)


def test_wrong_signatures_and_arguments_are_named() -> None:
    def training(a: float) -> float:
        return a

    with pytest.raises(TypeError, match=r"^fun is called as fun"):
        quiet(lambda a: a)
    with pytest.raises(TypeError, match=r"^training is called as training"):
        quiet(training)
    with pytest.raises(TypeError, match="one array"):
        quiet(lambda: 1, [(0, 1)])
    with pytest.raises(ValueError, match="trials"):
        quiet(cost, trials=0)
    with pytest.raises(ValueError, match="n_jobs"):
        quiet(cost, n_jobs=0)
    with pytest.raises(ValueError, match="must return a number"):
        quiet(lambda a, n: "0.5")
    with pytest.raises(ValueError, match=r"returned \(0.5, 1000\) at .*Value\(value, var=..., constraints="):
        quiet(lambda a, n: (0.5, 1000))
    with pytest.raises(
        ValueError, match=re.escape("the objective returned None at {'a': 2.5, 'n': 5}; it must return a number")
    ):
        quiet(lambda a, n: None, catch=Exception)
    with pytest.raises(ValueError, match="x0 holds 2 settings, more than trials=1"):
        quiet(cost, trials=1, x0=[{"a": 2, "n": 3}, {"a": 3, "n": 3}])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("timeout", -1, "timeout must be a number in [0, inf] or None, got -1"),
        ("timeout", "1", "timeout must be a number in [0, inf] or None, got '1'"),
        ("catch", True, "catch must be an exception class or a tuple of them, got True"),
        ("catch", [ValueError], "catch must be an exception class or a tuple of them"),
        ("stop", 0.1, "stop must be callable, got 0.1"),
        ("stop", rg.StopWhen, "stop is a rule with what it asks for, StopWhen(...), got the class itself"),
        ("callback", "print", "callback must be callable, got 'print'"),
    ],
)
def test_rules_that_could_not_be_kept_are_refused_before_the_first_evaluation(name, value, words) -> None:
    evaluated = []
    with pytest.raises((ValueError, TypeError), match=re.escape(words)):
        quiet(lambda a, n: evaluated.append(a), **{name: value})
    assert evaluated == []


def test_a_checkpoint_that_cannot_be_written_costs_no_evaluation(tmp_path) -> None:
    (tmp_path / "file").touch()
    evaluated = []
    for path in (tmp_path / "file" / "run.npz", tmp_path):
        with pytest.raises(OSError, match="cannot write") as raised:
            quiet(lambda a, n: evaluated.append(a), checkpoint=path)
        assert raised.value.filename == str(path)
    assert evaluated == []
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_a_checkpoint_of_another_run_is_refused(tmp_path) -> None:
    quiet(cost, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="another run"):
        quiet(cost, checkpoint=tmp_path / "c", method="random")
    with pytest.raises(ValueError, match="another run"):
        quiet(cost, checkpoint=tmp_path / "c", seed=5)
    with pytest.raises(
        ValueError,
        match=r'another run.*written for a = \{"high": 4.0.*the space given has a = \{"high": 5.0',
    ):
        quiet(cost, {**SPACE, "a": rg.Float(1, 5)}, checkpoint=tmp_path / "c")
    with pytest.raises(
        ValueError, match=r"another run.*written by method 'gp-ei' with ard = null, the method given has ard = false"
    ):
        quiet(cost, checkpoint=tmp_path / "c", method=rg.GPEI(ard=False))


def test_a_resumed_run_keeps_what_auto_chose(tmp_path) -> None:
    begun = quiet(cost, checkpoint=tmp_path / "c", method="auto", trials=6)
    assert begun.optimizer.recipe == AUTO
    went_on = quiet(cost, checkpoint=tmp_path / "c", method="auto", trials=9, stop=rg.GapBelow(1e-9))
    assert went_on.optimizer.recipe == AUTO  # a fresh run with a stop rule would verify
    assert [t.params for t in went_on.trials[:6]] == [t.params for t in begun.trials]


def test_what_an_installation_lacks_is_named_with_what_brings_it(monkeypatch) -> None:
    result = quiet(cost, trials=3, method="random")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pandas is not installed: pip install 'pandas>="):
        result.to_dataframe()


def test_a_killed_run_resumes_with_the_same_points(tmp_path) -> None:
    script = tmp_path / "study.py"
    script.write_text(
        textwrap.dedent("""
        import sys, time, regretless as rg
        def cost(a, n):
            time.sleep(0.02)
            return (a - 2.2) ** 2 + 0.1 * (n - 4) ** 2
        space = {"a": rg.Float(1, 4), "n": rg.Int(1, 9)}
        result = rg.minimize(cost, space, trials=20, method="gp-ei", seed=3, progress=False, checkpoint=sys.argv[1])
        print([tuple(t.params.values()) for t in result.trials])
        """)
    )

    def start(checkpoint: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / checkpoint)], stdout=subprocess.PIPE, text=True
        )

    whole = start("whole").communicate()[0]
    for pause in (0.0, 0.15):
        victim = start("killed")
        while not (tmp_path / "killed").exists() and victim.poll() is None:
            time.sleep(0.01)
        time.sleep(pause)
        os.kill(victim.pid, signal.SIGKILL)
        victim.communicate()
    assert start("killed").communicate()[0] == whole != ""


@pytest.mark.filterwarnings("ignore:trial .* failed")
def test_a_constraint_that_is_nan_is_a_failed_evaluation() -> None:
    result = quiet(lambda a, n: rg.Value(a, constraints=[math.nan if n > 6 else -1.0]), constraints=1)
    failed = [t for t in result.trials if t.state == "failed"]
    assert failed
    assert all(t.params["n"] > 6 and t.error == "the objective returned the constraints [nan]" for t in failed)
    with pytest.raises(ValueError, match=r"constraints must be a list of numbers, got 1\.0"):
        quiet(lambda a, n: rg.Value(a, constraints=1.0), constraints=1)
    opt = rg.Optimizer(SPACE, constraints=1)
    with pytest.raises(ValueError, match=r"must be a list of numbers, got 1\.0"):
        opt.tell(opt.ask(), 2.0, constraints=1.0)


def test_a_function_that_says_yes_or_no_is_a_stop_rule() -> None:
    result = quiet(cost, stop=lambda opt: len(opt.trials) >= 5)
    assert (result.nfev, result.message, result.success) == (5, "the stop rule ended the run", True)
    assert quiet(cost, trials=3, stop=lambda opt: False).message == "all trials were evaluated"


@pytest.mark.parametrize("lost", [1, 9, 40, 133, 400])
def test_a_run_goes_on_from_a_file_whose_last_line_was_cut(tmp_path, lost: int) -> None:
    """A kill in the middle of a write leaves a part of a line, which counts for nothing; the points stay the same."""
    path, space = tmp_path / "c", {"lr": rg.Float(1e-5, 1e-1, log=True), "kind": rg.Choice(["a", "b"])}
    arguments = {
        "fun": lambda lr, kind: lr * (1 + (kind == "a")),
        "space": space,
        "method": "cma-es",
        "checkpoint": path,
    }
    whole = [t.params for t in quiet(**arguments).trials]
    content = path.read_bytes()
    assert content.count(b"\n", len(content) - 1000) > 2
    path.write_bytes(content[:-lost])
    assert [t.params for t in quiet(**arguments).trials] == whole
    assert [t.params for t in rg.Optimizer.load(path).trials] == whole


@pytest.mark.filterwarnings("ignore:the source of the objective")
def test_two_runs_that_share_a_checkpoint_do_not_go_on(tmp_path) -> None:
    """The second one takes the file up during the fourth evaluation of the first, which finds a file not its own."""
    path, calls = tmp_path / "run.npz", []

    def first(a: float, n: int) -> float:
        calls.append((a, n))
        if len(calls) == 4:
            second = quiet(cost, checkpoint=path, trials=6)
            assert [tuple(t.params.values()) for t in second.trials[:4]] == calls
        return cost(a, n)

    with pytest.raises(ValueError, match=r"run\.npz was written by another process: this run ends"):
        quiet(first, checkpoint=path)
    assert len(calls) == 4
    assert len(rg.Optimizer.load(path).trials) == 6
    whole = quiet(cost)
    again = quiet(cost, checkpoint=path, callback=lambda opt, trial: opt.save(path))  # one's own writes are no others'
    assert [t.params for t in again.trials] == [t.params for t in whole.trials]


def test_a_parameter_called_value_leaves_the_values_alone() -> None:
    space = {"value": rg.Float(-3, 5), "state": rg.Choice(["a", None, 1]), "params_value": rg.Int(2, 9)}
    result = quiet(
        lambda value, state, params_value: rg.Value(value**2, constraints=[1 - value], cost=0.0), space, constraints=1
    )
    table = result.to_dataframe()
    assert table["value"].tolist() == [t.value for t in result.trials]
    assert table["params_params_value"].tolist() == [t.params["value"] for t in result.trials]
    assert table["params_value"].tolist() == [t.params["params_value"] for t in result.trials]
    assert table["params_state"].tolist() == [t.params["state"] for t in result.trials]
    assert table["constraint_0"].tolist() == [t.constraints[0] for t in result.trials]
    assert table["cost"].notna().all()


def test_what_an_optimizer_knows_is_a_result(tmp_path) -> None:
    opt = rg.Optimizer(SPACE, seed=3)
    for trial in opt.ask(5):
        opt.tell(trial, cost(**trial.params))
    assert rg.Result.of(opt).value == opt.best.value
    nothing = rg.Result.of(rg.Optimizer(SPACE, seed=3))
    assert nothing.to_dataframe()["value"].dtype == float
    again = rg.Result.from_json(nothing.to_json(tmp_path / "nothing.json"))
    assert again.message == nothing.message == "what is known so far; no evaluation succeeded"
    assert rg.Result.of(opt).report(tmp_path / "lab.html").exists()


def test_a_run_without_a_success_says_why_its_evaluations_failed() -> None:
    def broken(a: float, n: int) -> float:
        raise OSError(f"no disk for {n}")

    said = str(rg.minimize(broken, SPACE, trials=3, seed=2, progress=False))
    assert "\n  3 evaluations failed; the last one with: OSError: no disk for" in said
    assert "nan" not in said
    assert "certified" not in said


def test_the_table_and_the_page(tmp_path) -> None:
    result = quiet(lambda a, n, c: cost(a, n) if n < 8 else math.nan, {**SPACE, "c": rg.Choice(["u<b>", "v"])})
    table = result.to_dataframe()
    assert list(table.columns)[:7] == ["number", "state", "value", "var", "a", "n", "c"]
    assert list(table.columns)[7:] == ["seconds", "error"]
    assert len(table) == 12
    assert table["var"].dtype == float
    page = result.report(tmp_path / "page.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "u<b>" not in page
    assert len(page) < 1_000_000
    best = result.best_so_far()
    assert (np.diff(best[np.isfinite(best)]) <= 0).all()


# ---------------------------------------------------------------- what people type


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rg.minimize(cost, SPACE, 50), "write trials=50"),
        (lambda: rg.minimize(cost, SPACE, n_trials=50), "no argument 'n_trials'; here it is trials="),
        (
            lambda: rg.minimize(cost, SPACE, trials=5, direction="maximize"),
            "regretless.minimize or regretless.maximize",
        ),
        (lambda: rg.maximize(cost, SPACE, trials=5, random_state=0), "here it is seed="),
        (lambda: rg.minimize(SPACE, cost, trials=5), r"minimize\(fun, space\)"),
        (lambda: rg.Optimizer(SPACE, n_trials=5), "no argument 'n_trials'; here it is budget="),
        (lambda: rg.Choice("a", "b"), r"write Choice\(\['a', 'b'\]\)"),
        (lambda: rg.Optimizer(SPACE, seed=0).tell({"a": 2.0, "n": 3}, 1.0), r"tell\(adopt\(setting\), value\)"),
    ],
)
def test_words_of_other_libraries_are_answered_with_ours(call, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call()


def test_a_result_says_what_its_names_are_here() -> None:
    result = quiet(cost, trials=3)
    with pytest.raises(AttributeError, match="it is called 'params' here"):
        result.best_params  # noqa: B018
    with pytest.raises(AttributeError, match=r"here it is optimizer.best.params, or optimizer.recommend\(\)"):
        result.optimizer.best_params  # noqa: B018
    assert len(repr(result)) < 300
    with pytest.raises(ValueError, match=r"report writes an HTML page, got 'x.pdf': let its name end in .html"):
        result.report("x.pdf")


def test_all_cores_and_lambdas_in_processes() -> None:
    assert quiet(cost, n_jobs=-1, trials=4).nfev == 4
    with ProcessPoolExecutor(1) as pool, pytest.raises(TypeError, match="define it at the top level of a module"):
        quiet(lambda a, n: 1.0, n_jobs=pool, trials=2)


def test_a_small_finite_space_ends_when_every_setting_was_evaluated() -> None:
    space = {"n": rg.Int(1, 3), "c": rg.Choice(["u", "v"]), "fixed": 7}
    result = rg.minimize(lambda n, c, fixed: n + (c == "u"), space, trials=50, seed=0, method="random", progress=False)
    assert result.success
    assert result.message == "all 6 settings of the space were evaluated"
    assert {(t.params["n"], t.params["c"]) for t in result.trials} == {(n, c) for n in (1, 2, 3) for c in "uv"}
    assert quiet(lambda c: 1.0, {"c": rg.Choice(["u"])}).message == "the only setting of the space was evaluated"


# ---------------------------------------------------------------- resuming


def test_a_changed_objective_is_noticed_on_resume(tmp_path) -> None:
    quiet(cost, trials=4, checkpoint=tmp_path / "c")
    quiet(cost, trials=6, checkpoint=tmp_path / "c")  # the same source: no warning
    with pytest.warns(RuntimeWarning, match="the source of the objective has changed"):
        quiet(lambda a, n: cost(a, n) + 100, trials=8, checkpoint=tmp_path / "c")


def decorated(function):
    """A decorator that leaves no trace of what it decorates but its closure."""

    def called(*args, **options):
        return function(*args, **options)

    return called


def test_a_changed_objective_is_noticed_inside_a_decorator(tmp_path) -> None:
    weight = 2.0
    quiet(decorated(cost), trials=4, checkpoint=tmp_path / "c")
    quiet(decorated(cost), trials=5, checkpoint=tmp_path / "c")
    with pytest.warns(RuntimeWarning, match="the source of the objective has changed"):
        quiet(decorated(lambda a, n: weight * a), trials=6, checkpoint=tmp_path / "c")
    weight = 3.0  # data is not text: the same objective may read other data
    quiet(decorated(decorated(cost)), trials=4, checkpoint=tmp_path / "d")
    with pytest.warns(RuntimeWarning, match="the source of the objective has changed"):
        quiet(decorated(decorated(lambda a, n: weight - a)), trials=6, checkpoint=tmp_path / "d")


def test_a_run_ended_by_its_rule_stays_ended(tmp_path) -> None:
    certificate = rg.Certificate(0.0, 0.0, 0.0, 0.05, "fitted")

    def run(rule: rg.GapBelow):
        calls.clear()
        return quiet(counted, {"a": rg.Float(1, 4), "n": rg.Int(1, 9)}, trials=30, checkpoint=tmp_path / "c", stop=rule)

    calls: list[float] = []

    def counted(a: float, n: int) -> float:
        calls.append(a)
        return cost(a, n)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Standing, "certificate_at", lambda self, delta: certificate)
        first = run(rg.GapBelow(0.1))
        assert "stopped after 2 evaluations" in first.message
        assert len(calls) == 2
        again = run(rg.GapBelow(0.1))
        assert calls == []
        assert again.success
        assert again.message == first.message
        run(rg.GapBelow(0.05))  # another rule looks for itself
        assert len(calls) == 2


def test_adopted_settings_keep_their_digits(tmp_path) -> None:
    opt = rg.Optimizer({"lr": rg.Float(1e-5, 1e-1, log=True), "d": rg.Float(0.1, 0.9)}, method="gp-ei", seed=0)
    opt.tell(opt.adopt({"lr": 0.001, "d": 0.3}), 0.0)
    opt.tell(opt.ask(), 1.0)
    opt.save(tmp_path / "run")
    again = rg.Optimizer.load(tmp_path / "run")
    assert again.trials[0].params == {"lr": 0.001, "d": 0.3}
    assert again.recommend() == opt.recommend() == {"lr": 0.001, "d": 0.3}
    assert observed(again, {"lr": 0.001, "d": 0.3}) == 0.0


# ---------------------------------------------------------------- recipes and files


class Mine(rg.Method):
    """A method of one's own."""

    def __init__(self, cube, *, seed, budget=None, pool=None, transform=None):
        super().__init__(cube, seed=seed, budget=budget)

    def propose(self, history, cube, rng):
        return rng.random(cube.dim)


def test_a_method_class_is_a_method(tmp_path) -> None:
    result = rg.minimize(cost, SPACE, trials=4, method=Mine, seed=0, checkpoint=tmp_path / "c", progress=False)
    assert result.optimizer.recipe.name == "Mine"
    again = rg.minimize(cost, SPACE, trials=6, method=Mine, seed=0, checkpoint=tmp_path / "c", progress=False)
    assert [t.params for t in again.trials[:4]] == [t.params for t in result.trials]
    with pytest.raises(ValueError, match="unknown method 'Mine'"):
        rg.Optimizer.load(tmp_path / "c")


def test_recipes_are_equal_by_content() -> None:
    recipe, pool = rg.Recipe("mine", Mine), np.arange(6.0).reshape(3, 2)
    other = pool.copy()
    assert recipe(pool=pool) == recipe(pool=other)
    assert hash(recipe(pool=pool)) == hash(recipe(pool=other))
    other[1, 0] += 1e-12  # too little for repr to show
    assert recipe(pool=pool) != recipe(pool=other)
    one, two = (lambda x: x), (lambda x: x)
    assert recipe(transform=one) == recipe(transform=one)
    assert recipe(transform=one) != recipe(transform=two)
    assert rg.GPUCB(kappa=2) != rg.GPEI()


PAIRS = rg.Choice([(1, 2), (3, 4)])
"""Labels that no file can hold."""


@pytest.mark.parametrize(
    ("begun", "now", "words"),
    [
        ({"c": PAIRS, "x": rg.Float(1, 2)}, {"c": PAIRS, "x": rg.Float(1, 3)}, "x ="),
        ({"c": rg.Choice([True, False])}, {"c": rg.Choice([1, 0])}, "c ="),
        ({"c": PAIRS}, {"c": rg.Choice([(1, 2), (3, 5)])}, "c ="),
    ],
)  # fmt: skip
def test_another_space_is_refused_whatever_its_labels_are(tmp_path, begun, now, words: str) -> None:
    def any_cost(**params):
        return 1.0

    rg.minimize(any_cost, begun, trials=2, method="random", seed=0, checkpoint=tmp_path / "c", progress=False)
    with pytest.raises(ValueError, match=words):
        rg.minimize(any_cost, now, trials=4, method="random", seed=0, checkpoint=tmp_path / "c", progress=False)


def test_labels_that_are_no_numbers_resume(tmp_path) -> None:
    space = {"c": rg.Choice([math.nan, 0.0]), "x": rg.Float(1, 2)}
    for trials in (3, 5):
        result = rg.minimize(
            lambda c, x: x, space, trials=trials, method="random", seed=0, checkpoint=tmp_path / "c", progress=False
        )
    assert len(result.trials) == 5


def test_another_model_of_the_user_is_refused_on_resume(tmp_path) -> None:
    def line(w, x):
        return w[0] + w[1] * x[:, 0]

    def parabola(w, x):
        return w[0] + w[1] * x[:, 0] ** 2

    def run(model, trials: int):
        method = rg.GOUCB(model=model, w_bounds=[(-5, 5), (-5, 5)])
        return rg.minimize(
            lambda a: a,
            {"a": rg.Float(1, 4)},
            trials=trials,
            method=method,
            seed=0,
            checkpoint=tmp_path / "c",
            progress=False,
        )

    run(line, 3)
    run(line, 4)
    with pytest.raises(ValueError, match="written by method 'go-ucb' with model ="):
        run(parabola, 5)


def test_one_bad_return_costs_one_trial_once_there_are_values() -> None:
    answers = iter([1.0, 2.0, None, rg.Value(3.0, var=math.nan), (1, 2), 0.5])
    result = quiet(lambda a, n: next(answers), trials=6, method="random")
    assert [t.state for t in result.trials] == ["done", "done", "failed", "done", "failed", "done"]
    assert "returned None" in result.trials[2].error
    assert result.trials[3].var is None


def deadly(x: float) -> float:
    if x < 0.5:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_a_pool_whose_process_dies_ends_the_run_and_the_next_goes_on(tmp_path) -> None:
    space = {"x": rg.Float(0, 2)}
    for _ in range(6):
        with ProcessPoolExecutor(1) as pool:
            result = quiet(
                deadly, space, n_jobs=pool, trials=8, method="random", checkpoint=tmp_path / "c", max_failures=math.inf
            )
        if len(result.trials) == 8:
            break
        assert "a process of the pool died" in result.message
    assert len(result.trials) == 8
    assert all((t.value is None) == (t.params["x"] < 0.5) for t in result.trials)


def test_saves_of_many_threads_lose_nothing(tmp_path) -> None:
    for _ in range(5):
        opt = rg.Optimizer(SPACE, method="random", seed=0)

        def work(opt=opt) -> None:
            opt.tell(opt.ask(), 1.0)
            opt.save(tmp_path / "c")

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(t.state == "done" for t in rg.Optimizer.load(tmp_path / "c").trials) == 8


@pytest.mark.parametrize(
    "labels", [(Path("a"), Path("b")), (date(2026, 1, 1), date(2026, 1, 2)), (Fraction(1, 3), Fraction(2, 3))]
)
def test_labels_that_are_objects_are_compared_by_content(tmp_path, labels) -> None:
    for label, same in ((labels[0], True), (labels[0], True), (labels[1], False)):
        space = {"c": rg.Choice([label, 1.5]), "x": rg.Float(1, 2)}
        with nullcontext() if same else pytest.raises(ValueError, match="c ="):
            rg.minimize(
                lambda c, x: x, space, trials=3, method="random", seed=0, checkpoint=tmp_path / "c", progress=False
            )


@pytest.mark.parametrize("now", ["", "\n\n\n\ndef cost(lr):\n    return (lr +\n\n\n\n\n", "x = 1\n" * 8 + "y ="])
def test_a_file_that_is_edited_while_it_runs_ends_nothing(now: str, tmp_path: Path) -> None:
    """The fingerprint of an objective reads its source, which may be another text by then."""
    path = tmp_path / "edited_objective.py"
    path.write_text("# one\n# two\n\n\ndef cost(lr):\n    return lr\n\n\nother = lambda lr: 2 * lr  # noqa: E731\n")
    spec = importlib.util.spec_from_file_location("edited_objective", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text(now)
    linecache.clearcache()
    for objective in (module.cost, module.other):
        result = rg.minimize(objective, {"lr": rg.Float(1e-4, 3.0, log=True)}, trials=3, seed=1, progress=False)
        assert len(result.trials) == 3
