"""The experiments that measure rates: their slopes, their gains, and the figures that run side by side."""

import argparse
import importlib
import os
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from regretless_bench.reproduce import EXPERIMENTS, FIGURES, Figure, read_times

from regretless.models.grid.posterior import correlation, product_grid


@pytest.fixture(autouse=True)
def beside_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXPERIMENTS))


def test_slopes_are_those_of_a_power_law_and_of_its_end() -> None:
    rate = importlib.import_module("gp_threds_rate")
    x = np.log(np.array([10.0, 20.0, 40.0, 80.0, 160.0]))
    bent = np.exp(np.concatenate([0.3 * x[:2], 0.3 * x[1] + 0.9 * (x[2:] - x[1])]))
    records = [{"regret": (7 * np.exp(0.4 * x)).tolist()}, {"regret": bent.tolist()}]
    assert rate.slopes(records, x)[0] == pytest.approx(0.4)
    assert rate.slopes(records, x, 4)[1] == pytest.approx(0.9)
    bilevel = importlib.import_module("bilevel_rate")
    studies = [
        {"T": T, "seed": seed, "test": [9.0, 1 + T**0.6 * (seed + 1)], "returned": [1]}
        for T in (4, 9, 25)
        for seed in (0, 1)
    ]
    assert bilevel.regret(studies[0], 1.0) == pytest.approx(4**0.6)
    assert bilevel.slope(studies, 1.0) == pytest.approx([0.6, 0.6])
    assert len(bilevel.slope(studies[:-1], 1.0)) == 1  # a seed that did not run every T has no slope


def test_the_information_gain_is_the_determinant_of_greedy_points(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = importlib.import_module("gp_threds_rate")
    monkeypatch.setitem(rate.POINTS_PER_AXIS, 2, 5)
    rate.gains.cache_clear()
    found = rate.gains("Matern, d = 2", (3, 7))
    grid, picked = product_grid([np.linspace(0, 1, 5)] * 2), []
    for _ in range(7):

        def gain(at: list[int]) -> float:
            K = correlation("matern52", grid[at], grid[at], rate.LENGTHSCALE)
            return 0.5 * float(np.linalg.slogdet(np.eye(len(at)) + K / rate.NOISE_SD**2)[1])

        picked.append(max(range(25), key=lambda i: gain([*picked, i])))
        if len(picked) in (3, 7):
            assert found[len(picked) // 7] == pytest.approx(gain(picked), rel=1e-6)
    rate.gains.cache_clear()


SCRIPT = """
import argparse, pathlib, sys, time
parser = argparse.ArgumentParser()
for name in ("--out", "--jobs", "--seconds"):
    parser.add_argument(name)
parser.add_argument("--quick", action="store_true")
options = parser.parse_args()
time.sleep(float(options.seconds))
pathlib.Path(options.out, "done.json").write_text("{}")
pathlib.Path(options.out, "points.dat").write_text("not packed")
sys.exit(float(options.seconds) == 0.01)
"""


def test_figures_run_side_by_side_until_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side = importlib.import_module("side_by_side")
    (tmp_path / "sleeps.py").write_text(SCRIPT)
    monkeypatch.setattr(side, "EXPERIMENTS", tmp_path)
    todo = [
        side.Work(
            name, Figure("ms-ucb", name, "", "sleeps.py", ("--seconds", seconds)), False, (), tmp_path / "out" / name
        )
        for name, seconds in (("a", "0.0"), ("b", "0.01"), ("c", "600"))
    ]
    seen: list[float] = []

    def clock() -> float:
        """Stands still until two are through, and for half a second more."""
        if all((tmp_path / "out" / name / "done.json").is_file() for name in "ab"):
            seen.append(time.monotonic())
        return 1e9 if seen and seen[-1] - seen[0] > 0.5 else 0.0

    monkeypatch.setattr(side, "time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
    ended = side.run(todo, [side.Lane(1)] * 3, 1.0)
    assert ended["a (quick)"].endswith(" s")
    assert ended["b (quick)"].startswith("exit code 1 after")
    assert ended["c (quick)"] == "stopped"
    side.pack(todo, tmp_path / "out", tmp_path / "small.tar.xz")
    with tarfile.open(tmp_path / "small.tar.xz") as archive:
        assert sorted(n for n in archive.getnames() if "log" not in n) == ["a/done.json", "b/done.json"]


def test_a_figure_on_a_pair_of_cores_keeps_to_them_and_its_minutes_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = importlib.import_module("side_by_side")
    script = "import os, pathlib, sys; out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1]); "
    script += "(out / 'cores.json').write_text(str(sorted(os.sched_getaffinity(0))) + ' '.join(sys.argv))"
    (tmp_path / "tells.py").write_text(script)
    monkeypatch.setattr(side, "EXPERIMENTS", tmp_path)
    figure, out = Figure("ms-ucb", "a", "", "tells.py"), tmp_path / "out"
    todo = [side.Work(name, figure, False, (), out / "quick" / name) for name in ("a", "b")]
    todo += [side.Work("bilevel-tables", figure, True, (), out / "full" / "bilevel-tables")]
    core = max(os.sched_getaffinity(0))
    lanes = [side.Lane(side.PAIR, (core,)), side.Lane(1, gpu=True)]
    assert all(how.endswith(" s") for how in side.run(todo, lanes, time.monotonic() + 60).values())
    for name in "ab":
        assert (out / "quick" / name / "cores.json").read_text().startswith(f"[{core}]")
    assert "--jobs 1" in (out / "full" / "bilevel-tables" / "cores.json").read_text()
    times = read_times(out / "quick")
    assert {(t.jobs, t.cores, t.sittings, t.open) for t in times.values()} == {(2, 1, 1, False)}
    assert not read_times(out / "full")
    side.pack(todo, out, tmp_path / "small.tar.xz")
    with tarfile.open(tmp_path / "small.tar.xz") as archive:
        assert "quick/times.json" in archive.getnames()


def test_pairs_are_of_cores_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    side = importlib.import_module("side_by_side")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {9, 2, 4, 5, 7, 11})
    lanes = side.lanes_of(argparse.Namespace(pairs=True, jobs=5, gpu=2))
    assert [lane.cores for lane in lanes] == [(2, 4), (5, 7), (), ()]
    assert [lane.gpu for lane in lanes] == [False, False, True, True]


def test_what_is_planned_is_asked_of_the_experiments() -> None:
    side = importlib.import_module("side_by_side")
    options = argparse.Namespace(only="", wider=True, gpu=1, larger_only=False, out=Path("runs"), jobs=os.cpu_count())
    works = side.planned(options)
    names = {f"{f.paper}-{f.name}" for f in FIGURES}
    assert {w.name for w in works if not w.full} == names
    assert {w.name for w in works if w.full} == set(side.WIDER) | set(side.ON_GPU)
    assert set(side.FIRST) <= names
    options.only = "ms-ucb-fig2,go-ucb-fig2"
    assert [side.title(w) for w in side.planned(options)] == [
        "ms-ucb-fig2 (quick)", "go-ucb-fig2 (quick)", "ms-ucb-fig2 (full)",
    ]  # fmt: skip
