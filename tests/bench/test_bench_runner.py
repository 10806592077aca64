"""The runner and its records: equal starts, resuming, failing, dying, being killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from faulty_methods import DAWDLES, DIES, HOT, RAISES
from regretless_bench.problems import make_problem
from regretless_bench.record import SUFFIX, UNFINISHED, Record, RecordWriter, Run, by_problem, load_records, read_record
from regretless_bench.runner import initial_points, method_named, run_all, run_from_names, with_options

from regretless.certificate import Certificate
from regretless.classics import CLASSICS
from regretless.method import Recipe


def test_methods_of_a_seed_share_points_and_noise(tmp_path):
    options = {"dim": 3, "shift": 0.6, "noise_sd": 0.2}
    runs = [
        Run(method, "levy", options, seed=seed, budget=12, init=5) for method in ("random", "sobol") for seed in (0, 1)
    ]
    records = {(r.label, r.seed): r for r in run_all(runs, tmp_path, jobs=0, progress=False)}
    for seed in (0, 1):
        a, b = records["random", seed], records["sobol", seed]
        np.testing.assert_array_equal(a.x[:5], b.x[:5])
        assert not np.array_equal(a.x[5:], b.x[5:])
        np.testing.assert_allclose(a.y - a.value, b.y - b.value, atol=1e-12)
        problem = make_problem("levy", seed=seed, **options)
        np.testing.assert_allclose(a.value, problem.true_unit(a.x), rtol=1e-9)
        np.testing.assert_array_equal(a.x[:5], initial_points(runs[0] if seed == 0 else runs[1], problem))
    assert not np.array_equal(records["random", 0].x[:5], records["random", 1].x[:5])


def test_a_record_is_the_run(tmp_path):
    run = Run("random", "branin-threds", {"noise_sd": 0.1}, seed=2, budget=9, checkpoints=(4,), label="chance")
    (record,) = run_all([run], tmp_path, jobs=0, progress=False)
    problem = make_problem("branin-threds", seed=2, noise_sd=0.1)
    regret = problem.optimum - problem.true_unit(record.x)
    np.testing.assert_allclose(record.regret(), regret)
    np.testing.assert_allclose(record.simple_regret(), np.minimum.accumulate(regret))
    np.testing.assert_allclose(record.cumulative_regret(), np.cumsum(regret))
    np.testing.assert_allclose(record.average_regret(), np.cumsum(regret) / np.arange(1, 10))
    assert record.label == "chance"
    assert record.problem == "branin-threds(noise_sd=0.1)"
    assert [c.n for c in record.checkpoints] == [4, 9]
    assert record.checkpoints[0].value == record.value[int(np.argmax(record.y[:4]))]
    assert record.recommended == record.value[int(np.argmax(record.y))]
    assert record.recommended_regret() == pytest.approx(problem.optimum - record.recommended)
    assert isinstance(record.checkpoints[-1].certificate, Certificate)
    assert record.facts["versions"]["numpy"] == np.__version__
    assert record.seconds[-1] >= record.seconds[0] >= 0
    assert (record.cpu >= 0).all()
    assert record.cpu.sum() > 0
    lines = record.path.read_text().splitlines()
    assert all(json.loads(line) for line in lines)
    assert json.loads(lines[-1])["end"] == "done"


def test_one_hot_methods_are_recorded_in_common_coordinates(tmp_path):
    (record,) = run_all([Run(HOT, "svm-digits", {}, budget=3, init=1)], tmp_path, jobs=0, progress=False)
    assert record.error is None, record.error
    assert record.x.shape == (3, 6)
    problem = make_problem("svm-digits")
    assert record.value[2] == problem.true(problem.space.decode(record.x[2]))


def test_processes_failures_and_resuming(tmp_path):
    """Two processes; one method raises, one takes its process down; the others finish, and nothing is run twice."""
    good = [Run("random", "sphere", {"dim": 2}, seed=seed, budget=6) for seed in range(3)]
    bad = [
        Run(RAISES, "sphere", {"dim": 2}, budget=6),
        Run(DIES, "sphere", {"dim": 2}, budget=6),
        Run("random", "sphere", {"dims": 2}, budget=6),
    ]
    records = run_all([bad[1], *good, *bad[::2]], tmp_path, jobs=2, progress=False)
    by_label = {(r.label, r.seed, r.problem): r for r in records}
    assert [by_label["random", s, "sphere(dim=2)"].error for s in range(3)] == [None] * 3
    raised = by_label["raises", 0, "sphere(dim=2)"].error
    assert "ArithmeticError" in raised
    assert "threads=1" in raised
    assert "propose" in raised
    assert "exit code 7" in by_label["dies", 0, "sphere(dim=2)"].error
    assert "no option 'dims'" in by_label["random", 0, "sphere(dims=2)"].error
    assert len(load_records(tmp_path)) == 3
    assert len(load_records(tmp_path, failed=True)) == 6

    inside = run_all(good, tmp_path / "inside", jobs=0, progress=False)
    for a, b in zip(inside, [by_label["random", s, "sphere(dim=2)"] for s in range(3)], strict=True):
        np.testing.assert_array_equal(a.x, b.x)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "inside").glob(f"*{SUFFIX}")}
    run_all([*good, Run("sobol", "sphere", {"dim": 2}, budget=6)], tmp_path / "inside", jobs=0, progress=False)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "inside").glob(f"*{SUFFIX}")}
    assert len(after) == 4
    assert all(after[path] == when for path, when in before.items())


def test_a_run_that_takes_too_long_is_given_up(tmp_path):
    slow = Run(DAWDLES, "sphere", {"dim": 2}, budget=100_000)
    quick = Run("random", "sphere", {"dim": 2}, budget=5)
    records = run_all([slow, quick], tmp_path, jobs=1, progress=False, timeout=4.0)
    assert "given up after 4.0 seconds" in records[0].error
    assert records[1].error is None


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
from faulty_methods import DAWDLES
from regretless_bench.runner import Run, run_all
if __name__ == "__main__":
    runs = [Run("random", "sphere", {{"dim": 2}}, budget=20), Run(DAWDLES, "sphere", {{"dim": 2}}, budget=400)]
    run_all(runs, {out!r}, jobs=1, progress=False)
"""


@pytest.mark.parametrize(
    "whole", [pytest.param(True, id="all of it", marks=pytest.mark.slow), pytest.param(False, id="the parent only")]
)
def test_a_kill_leaves_finished_records_and_the_rest_can_be_done(tmp_path, whole):
    script = tmp_path / "sweep.py"
    out = tmp_path / "out"
    script.write_text(SCRIPT.format(here=str(Path(__file__).parent), out=str(out)))
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            parts = list(out.glob(f"dawdles*{UNFINISHED}"))
            if parts and len(parts[0].read_text().splitlines()) > 3:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the sweep did not get going")
    finally:
        (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
    if not whole:  # the worker notices that it is alone: a resumed sweep must not meet it at its files
        (part,) = out.glob(f"dawdles*{UNFINISHED}")
        seen, deadline = "", time.monotonic() + 20
        while (
            part.read_text() != seen and time.monotonic() < deadline
        ):  # it adds a line every tenth of a second while it lives
            seen = part.read_text()
            time.sleep(1.5)
        assert part.read_text() == seen
    (record,) = load_records(out)
    assert record.label == "random"
    assert len(record.value) == 20
    assert list(out.glob(f"*{UNFINISHED}"))
    rest = run_all(
        [Run("random", "sphere", {"dim": 2}, budget=20), Run("sobol", "sphere", {"dim": 2}, budget=5)],
        out,
        jobs=0,
        progress=False,
    )
    assert [len(r.value) for r in rest] == [20, 5]


# ---------------------------------------------------------------- records without runs


def writer(tmp_path, run, **facts):
    return RecordWriter(
        run, tmp_path, {"title": "t", "direction": "minimize", "optimum": 1.0, "noise_sd": 0.0, "dim": 2, **facts}
    )


def test_many_coordinates_and_failures_survive_the_file(tmp_path):
    x = np.random.default_rng(0).random((3, 150))
    run = Run("random", "levy", {"dim": 150}, budget=3)
    book = writer(tmp_path, run, dim=150)
    for row, y in zip(x, (3.0, np.nan, 2.0), strict=True):
        book.step(row, y, y, 0.1, 0.2, 0.3, 0.4)
    book.finish(1.0)
    record = read_record(book.path)
    np.testing.assert_array_equal(record.x, x)
    np.testing.assert_array_equal(record.simple_regret(), [2.0, 2.0, 1.0])
    np.testing.assert_array_equal(record.cumulative_regret(), [2.0, 4.0, 5.0])
    np.testing.assert_allclose(record.seconds, [0.4, 0.8, 1.2])
    assert np.isnan(record.recommended)


def test_an_unknown_optimum_is_said(tmp_path):
    book = writer(tmp_path, Run("random", "svm-digits", {}, budget=1), optimum=None, direction="maximize")
    book.step(np.zeros(2), 0.5, 0.5, 0, 0, 0, 0)
    book.finish(0.0)
    record = read_record(book.path)
    with pytest.raises(ValueError, match="no known optimum"):
        record.simple_regret()
    assert record.simple_regret(optimum=0.75) == pytest.approx([0.25])
    assert record.best() == pytest.approx([0.5])


def test_damaged_and_foreign_files_are_refused(tmp_path):
    for text in ("", "{}", '{"kind": "other"}', "[1, 2", '{"kind":"regretless-record-1"}'):
        (tmp_path / f"bad{SUFFIX}").write_text(text)
        with pytest.raises(ValueError, match="bad"):
            read_record(tmp_path / f"bad{SUFFIX}")
    with pytest.raises(ValueError, match="there is no folder"):
        load_records(tmp_path / "nowhere")


def test_keys_differ_with_every_setting():
    base = {"method": "random", "problem": "levy", "options": {"dim": 3}, "seed": 0, "budget": 10, "init": 0}
    others = [
        {"method": "sobol"},
        {"problem": "ackley"},
        {"options": {"dim": 4}},
        {"seed": 1},
        {"budget": 11},
        {"init": 2},
        {"label": "x"},
    ]
    keys = [Run(**{**base, **other}).key for other in [{}, *others]]
    assert len(set(keys)) == len(keys)
    assert Run(**base).key == keys[0]
    assert Run(**{**base, "method": CLASSICS["gp-ucb"]}).key != Run(**{**base, "method": CLASSICS["gp-ei"]}).key
    with pytest.raises(ValueError, match="0 <= init <= budget"):
        Run("random", "levy", budget=3, init=4)


def test_keys_go_by_the_content_of_options():
    """A pool, a function or an object is known by what it holds: its printed form leaves things out or has an
    address."""

    def key(value, **options):
        return Run(Recipe("hot", "faulty_methods:OneHot", {"model": value}), "levy", options, budget=10).key

    pool = np.random.default_rng(0).random((2000, 3))
    other = pool.copy()
    other[1000, 1] += 1e-9
    assert repr(pool) == repr(other)
    assert key(pool) == key(pool.copy()) != key(other)
    assert key({"pool": [pool]}) != key({"pool": [other]})
    same, again, opposite = lambda x: x, lambda x: x, lambda x: -x
    assert key(same) == key(again) != key(opposite)
    assert repr(same) != repr(again)
    first, second = ((lambda x, a=a: a * x) for a in (1, 2))
    assert key(first) != key(second)
    assert key(1, data=pool) == key(1, data=pool.copy()) != key(1, data=other)


@pytest.mark.parametrize(
    ("method", "problem", "options", "key"),
    [
        ("random", "levy", {"dim": 20, "shift": 0.6}, "random-levy_dim=20_shift=0.6-s3-fe9cabfb35"),
        (CLASSICS["gp-ucb"](kappa=2.0), "branin", {}, "gp-ucb_kappa=2.0_-branin-s3-2f6d018408"),
        ("gp-threds", "branin-threds", {"noise_sd": 0.1}, "gp-threds-branin-threds_noise=0.1-s3-dc686c08fd"),
        (
            Recipe("gp-threds", "faulty_methods:OneHot", {"interval": (0.5, 1.2), "kernel": "se", "lengthscale": 0.2}),
            "branin",
            {"x": (1, 2.5), "y": [1, "a"], "z": {"k": None}},
            "gp-threds_interval=_0.5_1.2_kernel=se_lengthscale=0.2_-branin_x=_1_2.5_y=_1_a_z=_k_None-s3-865c08aa1f",
        ),
    ],
)
def test_keys_of_plain_options_are_those_of_released_records(method, problem, options, key):
    """The keys were made by the first released form of the record; a record that is not found is run again."""
    assert Run(method, problem, options, seed=3, budget=40, init=5).key == key


def test_former_records_are_read_under_present_names(tmp_path):
    run = Run("random", "sphere", {"dim": 2, "noise_sd": 0.1}, budget=3)
    (record,) = run_all([run], tmp_path, jobs=0, progress=False)
    text = record.path.read_text()
    record.path.write_text(text.replace('"noise_sd"', '"noise"'))
    again = read_record(record.path)
    assert again.settings == record.settings
    assert again.facts == record.facts
    assert run_all([run], tmp_path, jobs=0, progress=False)[0].path.read_text() == record.path.read_text()
    with pytest.raises(ValueError, match="problem 'levy': the option 'noise' is called 'noise_sd'"):
        make_problem("levy", noise=0.1)


def test_names_with_options(tmp_path):
    assert with_options("levy:dim=20,shift=0.6") == ("levy", {"dim": 20, "shift": 0.6})
    assert with_options("hpobench-mlp:data_set=car") == ("hpobench-mlp", {"data_set": "car"})
    assert method_named("auto") == "auto"
    assert method_named("botorch-logei:restarts=2").options == {"restarts": 2}
    with pytest.raises(ValueError, match="key=value"):
        with_options("levy:20")
    with pytest.raises(
        ValueError, match=r"unknown method 'rendom'; did you mean 'random'\? .*, and the peers optuna-tpe"
    ):
        method_named("rendom")
    with pytest.raises(ValueError, match="no problem is called"):
        run_from_names(["random"], ["leevy"], 1, 5, tmp_path, jobs=0)
    with pytest.raises(ValueError, match="no option 'dims'"):
        run_from_names(["random"], ["levy:dims=3"], 1, 5, tmp_path, jobs=0)
    records = run_from_names(
        ["random", "sobol"], ["levy:dim=3", "shift=0.5", "branin"], 2, 5, tmp_path, jobs=0, progress=False
    )
    assert len(records) == 8
    assert set(by_problem(records)) == {"levy(dim=3, shift=0.5)", "branin"}
    assert all(isinstance(r, Record) and r.error is None for r in records)
