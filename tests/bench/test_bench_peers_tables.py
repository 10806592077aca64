"""`python -m benchmarks.peers`: who runs where, ranks computed by hand, and tables that outlive the records."""

import numpy as np
import pytest
from regretless_bench.record import SUFFIX, Run
from regretless_bench.runner import run_all

from benchmarks.peers import (
    BEGIN,
    COSTLY,
    END,
    Outcome,
    as_markdown,
    gathered,
    key_of,
    main,
    runs_of,
    suites,
    table,
    tables,
)
from regretless.classics import CLASSICS


def test_costly_peers_run_on_the_first_seeds_with_the_same_budgets() -> None:
    suite = suites(range(1, 25))["noisy"]
    runs = runs_of(suite, suite.methods, 5, 2, 1.0)
    seeds = {m: {run.seed for run in runs if run.title == m} for m in suite.methods}
    assert all(seeds[m] == ({0, 1} if m in COSTLY else set(range(5))) for m in suite.methods)
    per_case = {}
    for run in runs:
        per_case.setdefault(key_of(run)[:2], set()).add((run.budget, run.init))
    assert all(len(settings) == 1 for settings in per_case.values())


def test_every_suite_of_the_promise_is_there() -> None:
    found = suites(range(1, 25))
    assert list(found) == ["bbob-2", "bbob-5", "bbob-10", "noisy", "high-dim", "tabular", "sklearn"]
    wanted = {"optuna-tpe", "optuna-gp", "optuna-cmaes", "botorch-logei", "turbo", "smac", "nevergrad-ngopt", "cma"}
    assert all(wanted <= set(suite.methods) for name, suite in found.items() if name != "high-dim")


def outcomes(best: dict[str, list[float]]) -> dict:
    return {
        m: {("p", seed, 10): Outcome("p", seed, 10, v, -v, 1.0 + seed) for seed, v in enumerate(of)}
        for m, of in best.items()
    }


class Cell:
    """Stands for a run: what `key_of` reads."""

    def __init__(self, seed: int) -> None:
        self.problem, self.options, self.seed, self.budget = "p", {}, seed, 10


def test_ranks_are_joint_over_the_cases_that_all_finished() -> None:
    found = outcomes({"a": [1.0, 5.0, 1.0], "b": [2.0, 1.0, 2.0], "c": [3.0, 3.0, 3.0], "smac": [0.0, 0.0]})
    runs = [Cell(seed) for seed in range(4)]
    cases, rows = table(found, runs, ["a", "b", "smac"])
    assert cases == 2
    assert [(r.method, r.rank, r.advised) for r in rows] == [("smac", 1.0, 3.0), ("a", 2.5, 1.5), ("b", 2.5, 1.5)]
    assert rows[1].error == pytest.approx(np.std([2, 3], ddof=1) / 2**0.5)
    assert rows[0].ms == 1.5
    several = tables(found, runs, ["a", "b", "c", "smac"])
    assert [(cases, len(rows)) for cases, rows in several] == [(2, 4), (3, 3)]
    assert {row.method for row in several[1][1]} == {"a", "b", "c"}
    assert tables(found, runs, ["a", "nobody"]) == []
    assert "| a | 2.50 ± 0.50 | 1.50 | 1.5 |" in as_markdown("x", cases, rows)


def test_records_of_another_experiment_serve(tmp_path, capsys) -> None:
    """The bbob runs are those of experiments/gp_quality.py, under other labels."""
    options = {"function": 1, "dim": 2, "instance": 1}
    there = Run(CLASSICS["random"], "bbob", options, seed=100, budget=20, label="random#0", checkpoints=(5,))
    (record,) = run_all([there], tmp_path / "there", jobs=0, progress=False)
    words = [
        "--quick",
        "--suites",
        "bbob-2",
        "--methods",
        "random sobol",
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--out",
        str(tmp_path / "here"),
    ]
    main([*words, "--records", str(tmp_path / "there")])
    assert "== bbob-2: 3 cases, 2 methods" in capsys.readouterr().out
    assert len(list((tmp_path / "here" / "bbob-2").glob(f"random*{SUFFIX}"))) == 2  # the third was there
    found = gathered(tmp_path / "here" / "bbob-2", [])["random"]["bbob(function=1, dim=2, instance=1)", 100, 20]
    assert found.best == record.best()[-1]


def test_tables_outlive_the_records(tmp_path, capsys) -> None:
    words = ["--quick", "--suites", "bbob-2", "--methods", "random sobol", "--jobs", "1", "--out", str(tmp_path)]
    main(words)
    first = capsys.readouterr().out
    assert "== bbob-2: 6 cases, 2 methods" in first
    records = list((tmp_path / "bbob-2").glob(f"*{SUFFIX}"))
    assert len(records) == 12
    for record in records:
        record.unlink()
    main(words)  # nothing is run again
    assert not list((tmp_path / "bbob-2").glob(f"*{SUFFIX}"))
    assert capsys.readouterr().out == first
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n")
    for _ in range(2):
        main([*words, "--tables", "--into", str(page)])
    text = page.read_text()
    assert text.startswith(f"Before.\n{BEGIN}\n\n### bbob-2: 6 cases, 2 methods\n")
    assert text.endswith(f"\n\n{END}\nAfter.\n")
    assert "old" not in text
    capsys.readouterr()
    (tmp_path / "bbob-2" / "outcomes" / "sobol.json").unlink()
    main([*words, "--tables"])
    assert "==" not in capsys.readouterr().out  # one method alone has no ranks
    assert set(gathered(tmp_path / "bbob-2", [])) == {"random"}
