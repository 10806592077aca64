"""Verdicts mean their claims: ties are ties, luck does not pass the tests, and what was not run is not judged."""

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_records import BAD, GOOD, record, study
from regretless_bench.claims import fewest, final_loss, grouped
from regretless_bench.compact import read_lines
from regretless_bench.finding import FILE, Finding, counted
from regretless_bench.stats import holm, shifted_t
from regretless_bench.verdicts import (
    AGAINST_NAMED,
    LEAST_SEEDS,
    Check,
    below,
    checks_table,
    common,
    improves,
    judged,
    leads,
    lowest,
    measured,
    not_run,
    outcomes,
    plateau,
    pooled,
    together,
)
from scipy import stats

ROOT = Path(__file__).parents[2]


def outcome(check: Check) -> str:
    return outcomes([check])[0]


def test_a_method_leads_where_it_is_lower_than_every_rival() -> None:
    worse = [2.0, 2.4, 2.2, 2.1, 2.5]
    cases = grouped(
        [*study({"ours": GOOD, "rival": worse, "other": [9.0] * 5}), *study({"ours": worse, "rival": GOOD}, "hill")]
    )
    held, lost = leads(cases, "ours", ["rival", "other", "absent"], final_loss, "regret")
    assert (held.what, outcome(held), outcome(lost)) == ("bowl: regret of ours lowest", "holds", "fails")
    assert "the hardest rival rival 2.24 ± 0.18; lower on 5 of 5 paired runs" in held.found
    assert leads(cases, "absent", ["rival"], final_loss) == []
    assert [outcome(c) for c in leads(cases, "rival", ["ours"], final_loss)] == ["fails", "holds"]


def test_what_is_within_the_noise_or_the_margin_is_a_tie() -> None:
    same = {"a": np.ones(5), "b": np.ones(5)}
    assert outcome(lowest("same", same, "a")) == "tie"
    hardly = {"a": np.array([2.6488e-05] * 5), "b": np.array([2.6492e-05] * 5)}
    assert outcome(lowest("hardly", hardly, "a")) == "tie"
    lucky = {"a": np.array([1.0, 1.2, 5.0, 0.9, 1.1]), "b": np.array([1.3, 1.4, 1.2, 1.5, 1.3])}
    assert np.median(lucky["a"]) < np.median(lucky["b"])
    assert outcome(lowest("lucky", lucky, "a")) == "tie"
    assert outcome(lowest("clearly", {"a": np.full(5, -1.02), "b": -np.ones(5)}, "a")) == "holds"


def test_comparable_means_not_much_worse() -> None:
    rival = np.array([10.0, 11.0, 9.0, 10.5, 10.2])
    assert outcome(lowest("", {"a": rival + 0.5, "b": rival}, "a", level=True)) == "holds"
    assert outcome(lowest("", {"a": rival + 0.5, "b": rival}, "a")) == "fails"
    assert outcome(lowest("", {"a": rival + 2, "b": rival}, "a", level=True)) == "fails"


def test_a_claim_needs_all_its_checks_and_one_refutes_it() -> None:
    """To hold, all checks must, each at 5 %; that one is refuted is corrected over all that were run."""
    once, against = Check("c", "", 0.02, 1.0), Check("d", "", 1.0, 0.02)
    assert outcomes([once] * 13) == ["holds"] * 13
    assert together([once] * 12 + [Check("e", "", 0.06, 0.9)]) == "tie"
    assert outcomes([against]) == ["fails"]
    assert outcomes([against] * 2 + [once]) == ["tie", "tie", "holds"]
    assert outcomes([against, not_run("more", "too large")]) == ["fails", "not run"]  # what was not run costs nothing
    assert together([not_run("more", "too large")]) == together([]) == "not run"
    assert holm([0.01, 0.04, 0.03, 0.005]) == [
        True,
        False,
        False,
        True,
    ]  # 0.005 < .05 / 4, 0.01 < .05 / 3, 0.03 > .05 / 2
    assert holm([]) == []


def test_tasks_of_one_claim_are_tested_together() -> None:
    """A gain of a fifth that no task with five runs shows by itself is shown by nine of them."""
    noisy = np.array([0.4, 0.6, 0.9, 1.0, 1.1])
    ends = [(10.0**-k * noisy, 10.0**-k * np.ones(5)) for k in range(9)]
    cases = grouped(
        [r for k, (a, b) in enumerate(ends) for r in study({"ours": a, "rival": b, "absent": b * 2}, f"bowl{k}")]
    )
    assert set(outcomes(leads(cases, "ours", ["rival"], final_loss))) == {"tie"}
    (check,) = pooled(cases, "ours", ["rival", "absent"], final_loss, quote="q")
    assert (outcome(check), "9 tasks together" in check.what) == ("holds", True)
    assert [outcome(c) for c in pooled(cases, "rival", ["ours"], final_loss)] == ["fails"]
    assert pooled(cases, "nobody", ["ours"], final_loss) == []


def test_a_plateau_has_to_be_shown() -> None:
    before = np.array([1.60, 1.55, 1.62, 1.58, 1.57])
    assert outcome(plateau("", before, before - 0.01 * np.arange(5))) == "holds"
    assert outcome(plateau("", before, before - 0.5)) == "fails"
    assert outcome(plateau("", before, np.array([1.0, 2.1, 1.9, 0.9, 1.9]))) == "tie"  # too wide to say


def test_a_small_gain_refutes_only_where_asked() -> None:
    high = np.array([5.0, 5.1, 4.9, 5.2, 5.0])
    low = high + np.array([-0.01, 0.02, -0.02, 0.01, 0.0])
    assert outcome(below("", low, high)) == "tie"
    assert outcome(below("", low, high, refuted_if_level=True)) == "fails"
    assert outcome(below("", high / 2, high, refuted_if_level=True)) == "holds"


def test_the_test_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(7), rng.standard_normal(7) + 0.4
    assert shifted_t(a - b) == pytest.approx(stats.ttest_rel(a, b, alternative="less").pvalue)
    assert shifted_t(a - b, -0.3) == pytest.approx(stats.ttest_rel(a + 0.3, b, alternative="less").pvalue)
    assert (shifted_t(np.array([-1.0])), shifted_t(-np.ones(3)), shifted_t(np.zeros(3))) == (1.0, 0.0, 1.0)


def test_leads_turns_round_for_what_is_maximised() -> None:
    higher = [
        record(label, "bowl", s, [end], direction="maximize", optimum=None)
        for label, of in (("a", GOOD), ("b", [g + 1 for g in GOOD]))
        for s, end in enumerate(of)
    ]
    assert [outcome(c) for c in leads(grouped(higher), "b", ["a"], final_loss)] == ["holds"]
    assert [outcome(c) for c in leads(grouped(higher), "a", ["b"], final_loss)] == ["fails"]


def test_losses_are_over_common_seeds() -> None:
    lucky = [record("ours", "bowl", seed, [end]) for seed, end in ((0, 5.0), (1, 5.0), (7, 0.0), (8, 0.0), (9, 0.0))]
    cases = grouped([*lucky, *(record("rival", "bowl", seed, [1.0]) for seed in range(3))])
    np.testing.assert_array_equal(common(cases["bowl"], ["ours", "rival"], final_loss)["ours"], [5.0, 5.0])
    assert [outcome(c) for c in leads(cases, "ours", ["rival"], final_loss)] == ["fails"]
    assert fewest(cases) == 3
    apart = grouped([record("ours", "bowl", 0, [1.0]), record("rival", "bowl", 1, [2.0])])
    assert leads(apart, "ours", ["rival"], final_loss) == []
    assert improves(apart, "ours", "rival", final_loss) == []


def test_runs_without_a_value_have_lost() -> None:
    nothing = float("nan")
    cases = grouped([*study({"ours": GOOD}), *(record("rival", "bowl", s, [nothing]) for s in range(5))])
    assert [outcome(c) for c in leads(cases, "ours", ["rival"], final_loss)] == ["holds"]
    assert [outcome(c) for c in leads(cases, "rival", ["ours"], final_loss)] == ["fails"]
    with pytest.raises(ValueError, match="no run of a, b has a loss"):
        leads(grouped([record(label, "bowl", 0, [nothing]) for label in "ab"]), "a", ["b"], final_loss)


def test_improvement_needs_a_difference() -> None:
    cases = grouped(study({"more": GOOD, "less": [g + 1 for g in GOOD], "same": GOOD, "mixed": BAD}))
    for better, worse, found in (("more", "less", "holds"), ("less", "more", "fails"), ("more", "same", "tie")):
        assert [outcome(c) for c in improves(cases, better, worse, final_loss)] == [found]


MADE = {
    "h": measured("c", True, "", "as the paper says"),
    "f": measured("c", False, "", "as the paper says"),
    "t": Check("c", "", 0.3, 0.7, "as the paper says"),
    "n": not_run("c", "too large", "as the paper says"),
}


@pytest.mark.parametrize(
    ("named", "good", "seeds", "verdict"),
    [
        ("hh", "", LEAST_SEEDS, "holds"),
        ("hh", "hh", LEAST_SEEDS, "holds"),
        ("hn", "hn", LEAST_SEEDS, "holds"),  # the sentence names what was not run
        ("hh", "n", LEAST_SEEDS, "holds against the paper's rivals only"),
        ("hh", "hn", LEAST_SEEDS, "holds against the paper's rivals only"),  # good rivals have not run everywhere
        ("hh", "hf", LEAST_SEEDS, "holds against the paper's rivals only"),
        ("hh", "ht", LEAST_SEEDS, "holds against the paper's rivals only"),
        ("hf", "hh", LEAST_SEEDS, "does not hold"),
        ("ft", "", LEAST_SEEDS, "does not hold"),
        ("tth", "hhh", LEAST_SEEDS, "not decided"),
        ("hh", "hh", LEAST_SEEDS - 1, "not decided"),
        ("nn", "hh", LEAST_SEEDS, "not run"),
        ("", "", LEAST_SEEDS, "not run"),
    ],
)
def test_verdicts(named, good, seeds, verdict) -> None:
    checks, others = (
        [MADE[of]._replace(what=f"{w}{i}") for i, of in enumerate(s)] for w, s in (("c", named), ("d", good))
    )
    found, sentence = judged(checks, seeds, others)
    assert found == verdict
    assert sentence.endswith(".")
    if verdict == "does not hold":
        assert f"c{named.index('f')} (no)" in sentence  # names what fails
    if "n" in named:
        assert "c1" in sentence


def test_a_bound_says_that_a_claim_cannot_hold() -> None:
    below_the_oracle = measured("rivals end below the oracle", True, "1.0 against 2.0")
    found, sentence = judged([MADE["f"]], LEAST_SEEDS, [MADE["f"]], bound=below_the_oracle)
    assert (found, "The bound: rivals end below the oracle, 1.0 against 2.0" in sentence) == ("cannot hold", True)
    assert judged([MADE["h"]], LEAST_SEEDS, bound=below_the_oracle)[0] == "holds"  # records come before bounds
    assert judged([MADE["t"]], LEAST_SEEDS, bound=measured("c", False, ""))[0] == "not decided"


def test_a_check_of_a_claim_quotes_the_paper() -> None:
    with pytest.raises(ValueError, match="a check of a claim quotes the paper; this does not: ours"):
        judged([measured("ours", True, "")], 5)
    with_quote = checks_table([measured("a", False, "b", "the words")])
    assert (list(with_quote.columns), with_quote.rows) == (
        ["check", "holds", "found", "the paper says"],
        [["a", "no", "b", "the words"]],
    )
    assert checks_table([measured("a", True, "b")]).rows == [["a", "yes", "b"]]


def test_the_quick_size_never_overrules_a_larger_one(tmp_path, capsys) -> None:
    def found(size: str, verdict: str) -> Finding:
        return Finding("ms-ucb", "fig1", "t", "c", verdict, "s", {"size": size})  # type: ignore[arg-type]

    found("full", "does not hold").write(tmp_path)
    found("quick: smaller", "holds").write(tmp_path)
    assert Finding.read(tmp_path / FILE).verdict == "does not hold"
    assert "has a larger size" in capsys.readouterr().err
    found("full", "not decided").write(tmp_path)
    assert Finding.read(tmp_path / FILE).verdict == "not decided"
    (tmp_path / FILE).write_text("damaged")
    found("quick", "holds").write(tmp_path)
    assert Finding.read(tmp_path / FILE).verdict == "holds"


def test_published_checks_quote_and_published_verdicts_follow() -> None:
    """The findings under docs/results were judged by these rules: each check has a quotation, and where
    a claim holds, all its checks that were run do."""
    for path in sorted((ROOT / "docs" / "results" / "findings").glob("*.json")):
        stored = json.loads(path.read_text())
        (table,) = [t for t in stored["tables"] if t["title"] == AGAINST_NAMED]
        assert table["columns"][-1] == "the paper says", path.name
        assert all(row[-1] for row in table["rows"]), path.name
        held = {row[1] for row in table["rows"]} - {"not run"} == {"yes"}
        assert stored["verdict"].startswith("holds") == held, path.name
    published = [Finding.read(path) for path in (ROOT / "docs" / "results" / "findings").glob("*.json")]
    assert counted(published) in (ROOT / "docs" / "results" / "README.md").read_text(), "run experiments/publish.py"


def test_published_verdicts_are_those_of_the_published_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """`rejudge.py` changes nothing: what each check came to follows from the records beside it, by the present rules,
    the direction of every problem included."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    rejudge = importlib.import_module("rejudge")
    for path in sorted((ROOT / "docs" / "results" / "findings").glob("*.json")):
        pair = rejudge.again(path.stem)
        assert pair is not None, f"{path.stem}: its records do not hold what its checks need"
        tables = [[t for t in found.tables if tuple(t.columns[:2]) == ("check", "holds")][:2] for found in pair]
        before, now = ([[row[:2] for row in table.rows] for table in of] for of in tables)
        assert (before, pair[0].verdict) == (now, pair[1].verdict), f"{path.stem}: run rejudge.py and publish.py"
        assert pair[0].sentence == pair[1].sentence, path.stem
        assert len(pair[0].tables) == len(pair[1].tables), f"{path.stem}: a table is lost or doubled"


def test_regrets_at_equal_times_can_be_judged_again_from_the_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """GP-ThreDS's Fig. 4 (a, b): a method that is slower has fewer samples at that time; the table by seed has it."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    fig4 = importlib.import_module("gp_threds_fig4")
    methods = {
        label: [record(label, "branin", seed, [9.0, 1.0, end + 0.01 * seed]) for seed in range(6)]
        for label, end in ((fig4.PRINTED, 0.5), ("IGP-UCB", 0.2), ("AD", 0.7))
    }
    slow = [replace(r, cpu=10 * r.cpu) for r in methods["IGP-UCB"]]  # has one sample of three by then
    then = fig4.at_equal_time({"branin": {**methods, "IGP-UCB": slow}}, fig4.PRINTED)
    assert then["branin"][1]["IGP-UCB"].tolist() == [9.0] * 6
    tables = fig4.by_seed(then, fig4.PRINTED)
    again = fig4.from_tables(tables, "branin", fig4.PRINTED)
    assert again is not None
    assert again[0] == pytest.approx(0.003)
    first, second = (fig4.converges(of, fig4.PRINTED, fig4.CLAIMED) for of in (then, {"branin": again}))
    assert [c[:2] for c in first] == [c[:2] for c in second]
    assert outcomes(first) == ["holds"]
    assert fig4.from_tables(tables, "rosenbrock", fig4.PRINTED) is None
    level = fig4.converges(fig4.at_equal_time({"branin": methods}, fig4.PRINTED), fig4.PRINTED, fig4.CLAIMED)
    assert outcomes(level) == ["fails"]  # at the same speed IGP-UCB is lower


def test_a_time_stays_where_the_same_commit_made_the_finding_again(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    publish = importlib.import_module("publish")
    path = ROOT / "docs" / "results" / "findings" / "go-ucb-fig2.json"
    old = Finding.read(path)
    assert publish.made_alike(old, path)
    assert not publish.made_alike(replace(old, around={**old.around, "commit": "another"}), path)
    assert not publish.made_alike(replace(old, settings={**old.settings, "size": "quick"}), path)
    assert not publish.made_alike(old, tmp_path / "none.json")


def test_published_runs_are_there_once_and_equally_long() -> None:
    """A run of another length beside those of its method would stand for its seed when verdicts are made again; longer
    ones have a label that says so."""
    for path in sorted((ROOT / "docs" / "results" / "records").glob("*.csv")):
        lines = read_lines(path)
        assert len({(line.problem, line.label, line.seed) for line in lines}) == len(lines), path.name
        lengths: dict[tuple[str, str], set[int]] = {}
        for line in lines:
            lengths.setdefault((line.problem, line.label), set()).add(line.evaluations)
        assert all(len(of) == 1 for of in lengths.values()), path.name


def test_lines_of_compact_records(tmp_path) -> None:
    (line, *_) = read_lines(ROOT / "docs" / "results" / "records" / "go-ucb-fig2.csv")
    assert (line.label, line.seed, line.evaluations, line.initial, line.best[-1]) == ("GO-UCB, net", 0, 30, 5, 26.0)
    assert "noise_sd=" in line.problem  # under its present name
    (tmp_path / "records.csv").write_text("problem,method\na,b\n")
    with pytest.raises(ValueError, match="does not hold the lines of runs"):
        read_lines(tmp_path / "records.csv")


def test_sentences_count_in_plain_words() -> None:
    held, tie = Check("a", "", 1e-6, 1.0, "q"), Check("b", "", 0.5, 0.5, "q")
    beyond = not_run("c", "the quick size has 20 dimensions", "q")
    assert judged([held, tie, tie, beyond], 5)[1].startswith(
        "1 of 3 checks holds (2 are ties, 1 more is beyond this size). "
        "What does not hold: b (tie); b (tie). Not run: c."
    )
    assert judged([held], 5, [tie])[1] == (
        "Against the rivals of the paper 1 of 1 checks holds; against good rivals 0 of 1 checks hold (1 is a tie)."
    )
    assert judged([beyond], 9)[1] == (
        "This size reaches nothing of what the claim says: c: the quick size has 20 dimensions."
    )
    assert judged([held], 3)[1] == "At least 5 repetitions of every method are needed; there are 3."
