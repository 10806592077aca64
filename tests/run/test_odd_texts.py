"""Halves of surrogate pairs in names, labels and errors, which no encoding has, through every way out of a run."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

import regretless as rg
from regretless.files.earlier import evaluations

ODD = "\ud800lone"


@pytest.mark.filterwarnings("ignore:trial .* failed:RuntimeWarning")
@pytest.mark.parametrize("where", ["name", "label", "error", "constraint"])
def test_texts_that_no_encoding_has(where: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    space = {ODD if where == "name" else "x": rg.Float(1.0, 9.0, log=True)}
    space |= {"c": rg.Choice([ODD, "other"])} if where == "label" else {}
    limits = [ODD] if where == "constraint" else 0

    def objective(**params: object) -> object:
        value = next(iter(params.values()))
        if where == "error" and value > 4.0:
            raise ValueError(ODD)
        return rg.Value(value, constraints={ODD: -1.0}) if limits else value

    options = {"seed": 0, "progress": False, "checkpoint": tmp_path / "c", "constraints": limits, "method": "random"}
    rg.minimize(objective, space, trials=6, max_failures=math.inf, **options)
    result = rg.minimize(objective, space, trials=8, max_failures=math.inf, **options)
    result.to_json(tmp_path / "r.json")
    for found in (result, rg.Result.from_json(tmp_path / "r.json")):
        assert str(found).encode()
        assert found._repr_html_().encode()
        found.report(tmp_path / "r.html")
        assert "\\ud800lone" in (tmp_path / "r.html").read_text(encoding="utf-8")
        table = found.to_dataframe()
        assert len(table) == 8
        table.to_csv(tmp_path / "t.csv")


@pytest.mark.parametrize("kept", [5, math.nan, "text", {"by": {"pid": -1}}, [[[1]]], None, [], [-1.0, 2.0]])
def test_an_attribute_of_others_that_is_called_constraints(kept: object) -> None:
    trial = SimpleNamespace(
        state="COMPLETE", value=1.5, values=[1.5], params={"x": 2.0}, system_attrs={"constraints": kept}, user_attrs={}
    )
    (found,) = evaluations(SimpleNamespace(trials=[trial]))
    assert found.constraints == ((-1.0, 2.0) if kept == [-1.0, 2.0] else ())
    rules = pytest.importorskip("regretless.doors.optuna.rules")
    assert rules.constraints_of(trial) == ({"0": -1.0, "1": 2.0} if kept == [-1.0, 2.0] else {})
