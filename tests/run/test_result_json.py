"""Results as JSON files: what they say to other programs, and that a run goes on from one."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import pytest

import regretless as rg

SPACE = {"lr": rg.Float(1e-5, 3e-1, log=True), "layers": rg.Int(1, 6), "act": rg.Choice(["relu", "tanh", None])}


def loss(lr: float, layers: int, act: str | None) -> float:
    if layers == 6:
        raise ValueError("too deep")
    return (math.log10(lr) + 2.3) ** 2 + 0.1 * (layers - 2) ** 2 + (act == "relu")


@pytest.mark.filterwarnings("ignore:trial .* failed")
def test_a_result_comes_back_and_goes_on(tmp_path: Path) -> None:
    result = rg.minimize(loss, SPACE, trials=16, method="gp-ei", seed=2, progress=False)
    path = result.to_json(tmp_path / "result.json")
    again = rg.Result.from_json(path)
    assert (again.params, again.value, again.message, again.success) == (
        result.params, result.value, result.message, result.success,
    )  # fmt: skip
    assert again.certificate == result.certificate
    assert [(t.params, t.value, t.state, t.error) for t in again.trials] == [
        (t.params, t.value, t.state, t.error) for t in result.trials
    ]
    told = json.loads(path.read_text())
    assert told["params"] == result.params
    assert told["direction"] == "minimize"
    assert [t["value"] for t in told["trials"]] == [t.value for t in result.trials]
    assert any(t["state"] == "failed" and "too deep" in t["error"] for t in told["trials"])
    assert again.optimizer.ask().params == result.optimizer.ask().params


@pytest.mark.filterwarnings("ignore:trial .* failed")
def test_objects_need_the_space_again(tmp_path: Path) -> None:
    space = {"x": rg.Float(2, 9), "f": rg.Choice([math.sin, math.cos])}
    result = rg.maximize(lambda x, f: f(x), space, trials=4, method="random", seed=0, progress=False)
    path = result.to_json(tmp_path / "result.json")
    with pytest.raises(ValueError, match="labels of parameter 'f': pass space="):
        rg.Result.from_json(path)
    assert rg.Result.from_json(path, space=space).params == result.params


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"kind": "other"}', '{"kind": "regretless-result-1", "message": "m", "success": true}']
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(ValueError, match=r"not a file of Result.to_json|not a readable"):
        rg.Result.from_json(tmp_path / "file.json")


def test_a_changed_state_is_refused(tmp_path: Path) -> None:
    result = rg.minimize(lambda x: x, {"x": rg.Float(2, 9)}, trials=3, method="random", seed=0, progress=False)
    content = json.loads(result.to_json(tmp_path / "result.json").read_text())
    state = content["state"]
    content["state"] = state[:100] + ("A" if state[100] != "A" else "B") + state[101:]
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"damaged|readable"):
        rg.Result.from_json(tmp_path / "result.json")


def test_infinite_labels_are_written_as_they_print(tmp_path: Path) -> None:
    space = {"clip": rg.Choice([0.5, math.inf]), "x": rg.Float(2, 3)}
    result = rg.minimize(lambda clip, x: x - (clip > 1), space, trials=4, method="random", seed=2, progress=False)
    told = json.loads(result.to_json(tmp_path / "result.json").read_text())
    assert told["params"]["clip"] == "inf"
    assert rg.Result.from_json(tmp_path / "result.json").params["clip"] == math.inf


def test_a_damaged_state_is_answered_with_the_name_of_the_file(tmp_path: Path) -> None:
    """Not with that of anything the library made for itself, and the same where the file is learnt from."""
    path, space = tmp_path / "run.json", {"lr": rg.Float(1e-5, 1e-1, log=True)}
    rg.minimize(lambda lr: lr, space, trials=3, seed=0, progress=False).to_json(path)
    content = json.loads(path.read_text())
    state = bytearray(base64.b64decode(content["state"]))
    state[50] ^= 1
    path.write_text(json.dumps({**content, "state": base64.b64encode(bytes(state)).decode()}))
    with pytest.raises(ValueError, match=r"run\.json is not a file of Result\.to_json: its digest is wrong"):
        rg.Result.from_json(path)
    with pytest.raises(ValueError, match=r"earlier: .*run\.json is not a file of Result\.to_json: its digest is wrong"):
        rg.minimize(lambda lr: lr, space, trials=3, seed=0, progress=False, earlier=path)
