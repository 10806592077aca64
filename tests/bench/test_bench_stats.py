"""The statistics against numbers a hand can compute, and the condensed records."""

import numpy as np
import pytest
from regretless_bench.record import Run, by_problem
from regretless_bench.runner import run_all
from regretless_bench.stats import benjamini_hochberg, larger, normality, paired, quartiles, ranks, standard_error, wald
from regretless_bench.summary import BEST, QUANTITIES, finals, rank_table, traces
from scipy import stats as scipy_stats


def test_quartiles_leave_out_what_is_missing():
    values = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, np.nan], [4.0, np.nan], [5.0, np.nan]])
    np.testing.assert_array_equal(quartiles(values)[:, 0], [2.0, 3.0, 4.0])
    assert np.isnan(quartiles(values)[:, 1]).all()
    np.testing.assert_array_equal(quartiles(np.array([[1.0], [np.nan], [3.0]]), (0.0, 0.5, 1.0))[:, 0], [1.0, 2.0, 3.0])


def test_ranks_are_joint_and_ties_share():
    np.testing.assert_array_equal(ranks(np.array([[0.1, 0.3, 0.1, np.nan]])), [[1.5, 3.0, 1.5, 4.0]])


def test_the_error_of_a_mean_counts_units_and_not_cases():
    """Four copies of a unit's case say no more than one; with a case per unit it is the usual error, and units that
    agree by chance do not lower it."""
    once = np.array([[1.0, 2.0], [4.0, 2.0], [2.5, 5.0]])
    usual = once.std(axis=0, ddof=1) / 3**0.5
    np.testing.assert_allclose(standard_error(once, ["a", "b", "c"]), usual)
    np.testing.assert_allclose(standard_error(np.repeat(once, 4, axis=0), np.repeat([2, 4, 6], 4).tolist()), usual)
    opposite = np.array([[1.0], [3.0], [1.0], [3.0]])
    np.testing.assert_allclose(standard_error(opposite, ["a", "a", "b", "b"]), opposite.std(ddof=1) / 2)
    assert np.isnan(standard_error(once, ["a", "a", "a"])).all()
    with pytest.raises(ValueError, match="one name per case, got 2 for 3"):
        standard_error(once, ["a", "b"])


def test_paired_counts_and_sign_test():
    a, b = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), np.array([2.0, 3.0, 4.0, 5.0, 6.0, 6.0])
    result = paired(a, b)
    assert (result.wins, result.losses, result.ties, result.median) == (5, 0, 1, -1.0)
    assert result.p == pytest.approx(2 * 0.5**5)
    assert paired(b, a).wins == 0
    assert paired(a, a).p == 1.0
    with pytest.raises(ValueError, match="same length"):
        paired(a, b[:3])


def test_benjamini_hochberg_by_hand():
    """m = 4 at rate .05: thresholds .0125, .025, .0375, .05; the largest p under its threshold is .03, so the two below
    it fall with it."""
    p = [0.03, 0.001, 0.2, 0.028]
    rejected, adjusted = benjamini_hochberg(p)
    np.testing.assert_array_equal(rejected, [True, True, False, True])
    np.testing.assert_allclose(adjusted, [0.04, 0.004, 0.2, 0.04])
    with pytest.raises(ValueError, match="between 0 and 1"):
        benjamini_hochberg([0.5, 1.5])


def test_one_sided_t_test_and_normality():
    a, b = np.array([3.0, 4.0, 5.0]), np.array([1.0, 2.0, 3.0])
    t = 2 / np.sqrt(1 / 3 + 1 / 3)  # both variances are 1
    assert larger(a, b) == pytest.approx(scipy_stats.t.sf(t, df=4))
    assert larger(b, a) == pytest.approx(1 - larger(a, b))
    assert larger(np.ones(3), np.zeros(3)) == 0.0
    draws = np.random.default_rng(0)
    assert normality(draws.normal(5, 3, 200)) > 0.05
    assert normality(draws.exponential(1, 200) ** 3) < 0.001
    assert normality(np.ones(5)) == 0.0


def test_wald_interval_by_hand():
    mean, half = wald(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert mean == 3.0
    assert half == pytest.approx(1.96 * np.sqrt(2.5) / np.sqrt(5))
    assert np.isnan(wald(np.array([1.0])).half)


# ---------------------------------------------------------------- records condensed


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    runs = [
        Run(method, problem, {"dim": 2} if problem == "levy" else {}, seed=seed, budget=8, init=2)
        for method in ("random", "sobol")
        for problem in ("levy", "branin")
        for seed in range(3)
    ]
    return run_all(runs, tmp_path_factory.mktemp("records"), jobs=0, progress=False)


def test_traces_and_finals_are_the_records(records):
    methods = by_problem(records)["branin"]
    by_label = {trace.label: trace for trace in traces(methods)}
    assert tuple(by_label["random"].quantities) == QUANTITIES
    for i, record in enumerate(methods["random"]):
        np.testing.assert_array_equal(by_label["random"].quantities["simple regret"][i], record.simple_regret())
        np.testing.assert_array_equal(by_label["random"].seconds[i], record.seconds)
    final = {f.label: f for f in finals(methods)}["sobol"]
    ends = sorted(record.simple_regret()[-1] for record in methods["sobol"])
    assert final.final[1] == ends[1]
    assert final.seeds == 3
    assert final.ask_ms > 0


def test_rank_table_ranks_each_problem_and_seed_jointly(records):
    table = rank_table(records)
    assert table.labels == ["random", "sobol"]
    by_case = {(r.problem, r.seed, r.label): r.best()[-1] for r in records}
    wins = [by_case[p, s, "random"] < by_case[p, s, "sobol"] for p in ("branin", "levy(dim=2)") for s in range(3)]
    assert table.mean[0] == pytest.approx(np.mean([1.0 if won else 2.0 for won in wins]))
    assert table.mean.sum() == pytest.approx(3.0)
    assert table.error[0] == pytest.approx(np.std([1.0 if won else 2.0 for won in wins], ddof=1) / 6**0.5)
    assert set(table.per_problem()) == {"branin", "levy(dim=2)"}
    missing = [r for r in records if not (r.label == "sobol" and r.seed == 2 and r.problem == "branin")]
    assert rank_table(missing).labels == ["random"]  # a method with a gap is not ranked
    assert (
        len(rank_table(missing, ["random", "sobol"]).ranks) == 5
    )  # unless the field is given: then the shared cases count
    advised = rank_table(records, by="recommended")
    by_case = {(r.problem, r.seed, r.label): r.recommended for r in records}
    wins = [by_case[p, s, "random"] < by_case[p, s, "sobol"] for p in ("branin", "levy(dim=2)") for s in range(3)]
    assert advised.mean[0] == pytest.approx(np.mean([1.0 if won else 2.0 for won in wins]))


def test_without_an_optimum_the_best_value_is_traced(records):
    methods = by_problem(records)["branin"]
    for group in methods.values():
        for record in group:
            record.facts["optimum"] = None
    try:
        assert tuple(traces(methods)[0].quantities) == (BEST,)
        assert np.isnan(finals(methods)[0].average).all()
    finally:
        for group in methods.values():
            for record in group:
                record.facts["optimum"] = 10 / (8 * np.pi)
