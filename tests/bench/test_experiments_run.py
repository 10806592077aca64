"""Experiments that ask methods themselves, without the bench's runner, still get points from them: one short run of
each."""

import argparse
import dataclasses

import numpy as np
import pytest
from made_records import GOOD, study
from regretless_bench.claims import grouped
from regretless_bench.verdicts import outcomes

from regretless.space import Cube


def test_the_cnn_is_asked_for_settings_by_every_method(experiment, tmp_path, monkeypatch) -> None:
    cnn = experiment("gp_threds_cnn")
    monkeypatch.setattr(cnn, "T", 6)
    monkeypatch.setattr(cnn, "cached", lambda x, *_: (0.9 - float(np.square(x - 0.4).sum()) / 5, 1.0))
    for label in (cnn.PAPER_CURVE, f"AD{cnn.OWN_START}", "random"):
        cnn.study(label, 0, cnn.MIDDLE, None, "cpu", tmp_path)
    records = cnn.stored(tmp_path.glob("*.json"))
    assert {len(record["accuracy"]) for record in records} == {6}
    assert len({record["accuracy"][0] for record in records}) > 1  # an own start is not the one that is told
    checks, seeds = cnn.by_time(records)
    assert (seeds, outcomes(checks)[1]) == (1, "not run")  # IGP-UCB did not run


def test_an_idea_is_switched_on_and_off(experiment, monkeypatch) -> None:
    worth = experiment("idea_worth")
    short = {name: dataclasses.replace(of, budget=24) for name, of in worth.REPORT.items()}
    monkeypatch.setattr(worth, "REPORT", short)
    for case in (
        ("neural-bo, noisy", "levy-10", "optuna-tpe"),
        ("neural-bo, noisy", "levy-10", "random"),
        ("go-ucb", "hill", "family"),
        ("gp-threds", "ackley-2", "cells are dropped"),
    ):
        study_name, function, label = case
        found = worth.run_one("report", study_name, function, 0, label)
        assert np.isfinite(found["log10"]), case


def test_the_rate_and_the_certificate_of_gp_threds_are_measured(experiment) -> None:
    rate = experiment("gp_threds_rate").study("SE, d = 1", "as printed, B = 4", 0, (10, 20))
    assert (rate["B"], len(rate["regret"])) == (4.0, 2)
    found = experiment("gp_threds_certificate").study(0, 30)
    assert found["checks"] >= 1
    assert found["last"] <= found["first"]


def test_recommendations_are_those_of_the_method(experiment) -> None:
    module = experiment("recommendation")
    X = Cube.box(2).snap(np.random.default_rng(0).random((20, 2)))
    y = -np.square(X - 0.3).sum(axis=1)
    assert module.shipped(X, y, None) == int(np.argmax(y))


@pytest.mark.parametrize("label", ["neural-bo (authors)", "gp-ei (authors)"])
def test_tables_of_neural_bo_have_the_runs_of_the_authors_setting(experiment, label: str) -> None:
    fig1 = experiment("neural_bo_fig1")
    records = study({label: GOOD, "neural-bo": [g + 1 for g in GOOD]}, "levy(dim=10)")
    assert label in fig1.tables(records)


def test_what_a_paper_says_of_all_functions_is_one_test_over_them(experiment) -> None:
    """NeuralBO's Fig. 1: a loss in every function that five runs alone do not show is shown by all of them."""
    fig1 = experiment("neural_bo_fig1")
    rng = np.random.default_rng(4)
    problems = [f"levy(dim={dim}, noise_sd={sd})" for dim in fig1.DIMS for sd in (1, 2, 3)]
    ends = [{fig1.PRINTED: list(4.6 + 3 * rng.random(5)), "dngo": list(3 + 3 * rng.random(5))} for _ in problems]
    cases = grouped([of for problem, end in zip(problems, ends, strict=True) for of in study(end, problem)])
    alone = fig1.one_by_one(cases, fig1.gap)
    assert "tie" in {row[1] for row in alone.rows}
    assert outcomes(fig1.claimed(cases, fig1.PRINTED, 2000)) == ["fails"]
    options = argparse.Namespace(
        methods="neural-bo", full=False, long=False, dims="", budget=None, first_seed=0, seeds=1
    )
    options.forms = "printed"
    assert {run.label for run in fig1.settings(options)} == {"neural-bo"}
