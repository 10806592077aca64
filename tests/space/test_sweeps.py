"""W&B sweeps are read where they mean the same, and refused by the name of the parameter where they do not."""

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from regretless.cli import main
from regretless.space.parameters import Choice, Float, Int, Parameter
from regretless.space.sweeps import read_sweep

SWEEP = """
program: train.py
method: bayes
metric: {name: loss, goal: minimize}
parameters:
  lr: {distribution: log_uniform_values, min: 1e-5, max: 0.1}
  decay: {distribution: log_uniform, min: -9.5, max: -2}
  drop: {min: 0.05, max: 0.6}
  layers: {min: 2, max: 7}
  width: {distribution: q_uniform, min: 16, max: 256, q: 16}
  scale: {distribution: q_uniform, min: 0.3, max: 1.2, q: 0.1}
  act: {values: [relu, 'a "b" $(c)', null]}
  epochs: {value: 12}
"""
MEANT: dict[str, Parameter] = {
    "lr": Float(1e-5, 0.1, log=True),
    "decay": Float(math.exp(-9.5), math.exp(-2), log=True),
    "drop": Float(0.05, 0.6),
    "layers": Int(2, 7),
    "width": Int(16, 256, step=16),
    "scale": Float(0.3, 1.2, step=0.1),
    "act": Choice(["relu", 'a "b" $(c)', None]),
    "epochs": Choice([12]),
}


def test_a_sweep_means_the_same_parameters(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    assert read_sweep(tmp_path / "sweep.yaml") == MEANT


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"distribution": "normal", "mu": 0, "sigma": 1}, "distribution: 'normal'"),
        ({"values": [1, 2], "probabilities": [0.1, 0.9]}, "probabilities"),
        ({"parameters": {"a": {"value": 1}}}, "parameters"),
        ({"distribution": "q_uniform", "min": 1, "max": 10, "q": 4}, "multiples of q = 4"),
        ({"min": "low", "max": 3}, "low"),
        ({"distribution": "int_uniform", "min": 1.5, "max": 3}, "1.5"),
        ({"values": "relu"}, "must be a list"),
        (3, "got 3"),
    ],
)
def test_what_means_something_else_is_refused(tmp_path: Path, table: object, words: str) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps({"parameters": {"odd": table}}))
    with pytest.raises(ValueError, match="parameter 'odd'") as error:
        read_sweep(tmp_path / "sweep.json")
    assert words in str(error.value)


def test_a_shell_tunes_the_space_of_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    file.write_text('{"parameters": {"n": {"min": 3, "max": 9}}}')
    line = ["tune", "echo {n}", "--space", str(file), "--trials", "8", "--seed", "1", "--json"]
    assert json.loads(CliRunner().invoke(main, line).stdout)["params"] == {"n": 3}
    for text, words in (("{", "cannot read the sweep"), ("[]", "has no parameters")):
        file.write_text(text)
        assert words in CliRunner().invoke(main, line).output
