"""Parameters that exist in some settings only."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.run.evaluation import check_signature
from regretless.space import Space
from regretless.space.parameters import Encoding

TREE = {
    "lr": rg.Float(1e-5, 1e-1, log=True),
    "model": rg.Choice(["svm", "forest", None]),
    "C": rg.Float(1e-3, 1e3, log=True, when={"model": "svm"}),
    "kernel": rg.Choice(["rbf", "poly"], when={"model": "svm"}),
    "degree": rg.Int(2, 5, when={"kernel": "poly"}),
    "depth": rg.Int(1, 12, when={"model": ["forest", None]}),
    "both": rg.Float(-3, 5, when={"kernel": "rbf", "model": "svm"}),
}
FINITE = {
    "a": rg.Choice(["x", "y"]),
    "b": rg.Int(1, 3, when={"a": "x"}),
    "c": rg.Choice([0, 1], when={"b": [2, 3]}),
    "d": rg.Float(0, 1, step=0.5, when={"a": "y"}),
}  # x: 1 + 2 * 2, y: 3


@pytest.mark.parametrize("encoding", ["shares", "onehot"])
def test_a_setting_holds_what_exists_and_nothing_else(encoding: Encoding) -> None:
    space = Space(TREE)
    cube = space.cube(encoding)
    seen = set()
    for u in np.random.default_rng(0).random((300, cube.dim)):
        setting = space.decode(u, encoding)
        svm, kernel = setting["model"] == "svm", setting.get("kernel")
        expected = {"lr", "model"} | ({"C", "kernel"} if svm else {"depth"})
        expected |= {"degree"} if kernel == "poly" else {"both"} if kernel == "rbf" else set()
        assert set(setting) == expected
        assert list(setting) == [name for name in TREE if name in expected], "the user's order is kept"
        x = space.encode(setting, encoding)
        assert x.tobytes() == cube.snap(u).tobytes() == cube.key(u)
        assert space.decode(x, encoding) == setting
        seen.add(frozenset(setting))
    assert len(seen) == 3


@pytest.mark.parametrize("encoding", ["shares", "onehot"])
def test_settings_that_differ_only_where_nothing_exists_are_one(encoding: Encoding) -> None:
    space = Space(TREE)
    base = {"lr": 1e-3, "model": None, "depth": 7}
    same = space.encode({**base, "C": 99.0, "kernel": "poly", "degree": 4, "both": None}, encoding)
    assert same.tobytes() == space.encode(base, encoding).tobytes()
    assert same.tobytes() != space.encode({**base, "depth": 8}, encoding).tobytes()
    opt = rg.Optimizer(space, method="random", seed=0)
    trial = opt.adopt({**base, "C": 99.0})
    assert trial.params == base


def test_the_settings_of_a_finite_tree_are_counted_and_exhausted() -> None:
    for encoding in ("shares", "onehot"):
        assert Space(FINITE).cube(encoding).size == 8  # type: ignore[arg-type]
    result = rg.minimize(
        lambda a, b=0, c=0, d=0.0: b + c + d, FINITE, trials=30, seed=1, progress=False, method="gp-ei"
    )
    assert len({tuple(t.params.items()) for t in result.trials}) == len(result.trials) == 8


def test_a_large_finite_tree_is_not_counted_one_by_one() -> None:
    """Its size is that of the whole grid: more than its settings, and nobody asks for all of them."""
    many = 10**6
    tree = {"a": rg.Choice(["x", "y"]), "b": rg.Int(1, many, when={"a": "x"}), "c": rg.Int(-5, many - 6)}
    assert Space(tree).cube().size == 2.0 * many**2


def test_bad_conditions_are_named() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"x": rg.Float(0, 2, when={"modle": "svm"})}, "there is no parameter 'modle'"),
        ({"m": rg.Choice(["ab"]), "x": rg.Float(0, 2, when={"m": "c"})}, "'c' is not one of the labels"),
        ({"n": rg.Int(1, 4), "x": rg.Float(0, 2, when={"n": [3, 9]})}, "9 is not a number within"),
        ({"y": rg.Float(0, 3), "x": rg.Float(0, 2, when={"y": 1.5})}, "conditions look at choices"),
        ({"a": rg.Int(1, 3, when={"b": 1}), "b": rg.Int(1, 3, when={"a": 2})}, "in a cycle"),
    ]
    for parameters, words in bad:
        with pytest.raises(ValueError, match=words):
            Space(parameters)
    with pytest.raises(ValueError, match="when must name parameters"):
        rg.Float(0, 2, when="model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is empty"):
        rg.Float(0, 2, when={"model": []})
    with pytest.raises(ValueError, match="use a mapping for `when`"):
        Space([rg.Int(1, 3), rg.Float(0, 2, when={"x0": 1})])
    with pytest.raises(ValueError, match="missing"):
        Space(TREE).encode({"lr": 1e-3, "model": "svm", "kernel": "rbf", "both": 0.0})


def test_toml_and_json_hold_conditions(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(
        '[model]\ntype = "choice"\nlabels = ["svm", "forest"]\n'
        '[C]\ntype = "float"\nlow = 1e-3\nhigh = 1e3\nlog = true\nwhen = {model = "svm"}\n'
        '[depth]\ntype = "int"\nlow = 1\nhigh = 12\nwhen = {model = ["forest"]}\n'
    )
    space = Space(path)
    assert space.parameters["C"] == rg.Float(1e-3, 1e3, log=True, when={"model": "svm"})
    assert Space.from_json(space.to_json()) == space
    assert Space.from_json(Space(TREE).to_json()) == Space(TREE)
    assert "when={'model': 'svm'}" in repr(space)
    assert rg.Float(0, 2).__repr__() == "Float(low=0.0, high=2.0, log=False, step=None)"


def test_an_objective_needs_defaults_for_what_may_be_absent() -> None:
    check_signature(lambda lr, model, C=1, kernel="", degree=2, depth=1, both=0: 0.0, Space(TREE))
    check_signature(lambda **params: 0.0, Space(TREE))
    with pytest.raises(TypeError, match="need a default"):
        check_signature(lambda lr, model, C, kernel, degree, depth, both: 0.0, Space(TREE))


def branches(
    model: Any, lr: float, C: float = 1.0, kernel: str = "", degree: int = 2, depth: int = 6, both: float = 0.0
) -> float:
    value = (math.log10(lr) + 2.7) ** 2 / 4
    if model != "svm":
        return value + 0.3 + (depth - 8) ** 2 / 40 + 0.2 * (model is None)
    value += (math.log10(C) - 1.2) ** 2 / 9
    return value + ((both - 1.1) ** 2 / 16 if kernel == "rbf" else 0.1 + 0.1 * abs(degree - 3))


def test_a_tree_is_searched_and_resumed_exactly(tmp_path: Path) -> None:
    whole = rg.minimize(branches, TREE, trials=22, seed=3, progress=False, method="gp-ei")
    file = tmp_path / "run"
    for last in (11, 21):
        parts = rg.minimize(
            branches, TREE, trials=22, seed=3, progress=False, method="gp-ei", checkpoint=file,
            callback=lambda _, trial, last=last: trial.number == last,
        )  # fmt: skip
    assert [t.params for t in parts.trials] == [t.params for t in whole.trials]
    assert whole.value < 0.1  # 22 random settings: 0.17 in the median
    assert set(whole.params) == {"lr", "model", "C", "kernel", "both"}
    other = {**TREE, "C": rg.Float(1e-3, 1e3, log=True, when={"model": "forest"})}
    with pytest.raises(ValueError, match="written for C"):
        rg.minimize(branches, other, trials=23, seed=3, progress=False, checkpoint=file)


@pytest.mark.parametrize("encoding", ["shares", "onehot"])
def test_the_branches_of_a_tree_are_listed_once(encoding: Encoding) -> None:
    space = Space(TREE)
    cube = space.cube(encoding)
    found = [space.decode(branch, encoding) for branch in cube.branches]
    kinds = sorted((str(s["model"]), s.get("kernel", "")) for s in found)
    assert kinds == [("None", ""), ("forest", ""), ("svm", "poly"), ("svm", "rbf")]
    assert np.array_equal(cube.snap(cube.branches), cube.branches)
    assert len(Space({"x": rg.Float(2, 9)}).cube(encoding).branches) == 0


@pytest.mark.parametrize("method", ["gp-ei", "gp-ucb"])
def test_the_first_points_go_round_the_branches(method: str) -> None:
    """Three labels in a nested tree: an even draw would give the deep branch a ninth of the points."""
    tree = {
        "kind": rg.Choice(["a", "b", "c"]),
        "sub": rg.Choice(["d", "e", "f"], when={"kind": "c"}),
        "x": rg.Float(1e-3, 1e2, log=True, when={"sub": "f"}),
        "y": rg.Float(-3.0, 7.5),
    }
    opt = rg.Optimizer(tree, method=method, seed=5, budget=60)
    first = [opt.ask().params for _ in range(10)]
    counts = Counter((p["kind"], p.get("sub")) for p in first)
    assert set(counts.values()) == {2}  # five branches
    assert len({p["x"] for p in first if "x" in p}) == 2
    likely = {**tree, "kind": rg.Choice(["a", "b", "c"], prior=[1, 1, 40])}
    told = [t.params["kind"] for t in rg.Optimizer(likely, method=method, seed=5, budget=60).ask(10)]
    assert told[::2] == ["c"] * 5  # every other point follows a prior
    assert len(set(told[1::2])) == 3


@pytest.mark.parametrize("rule", ["k <= 6", lambda s: s["k"] <= 6 and s["model"] != "net"])
def test_a_branch_that_the_rules_forbid_is_not_searched(rule: Any) -> None:
    """Every fourth ask goes to the branch with the fewest evaluations, and the one without any could not be drawn."""
    space = rg.Space(
        {
            "model": rg.Choice(["svm", "net"]),
            "C": rg.Float(1, 9, when={"model": "net"}),
            "k": rg.Int(3, 8),
            "depth": rg.Float(1, 5, when={"k": [7, 8]}),
        },
        where=[rule],
    )
    result = rg.minimize(lambda **p: p["k"] + p.get("C", 3.0), space, trials=24, seed=0, progress=False)
    assert all(t.params["k"] <= 6 for t in result.trials)
