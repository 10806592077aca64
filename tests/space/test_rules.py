"""Known constraints: every proposal obeys them, whatever the method."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.space import Space

NUMBERS: dict[str, Any] = {"a": rg.Float(-3, 5), "b": rg.Float(2, 9), "n": rg.Int(1, 6), "c": rg.Choice(["x", "y"])}


def allowed(where: Any, **params: Any) -> bool:
    space = Space(NUMBERS, where=where)
    try:
        space.check({"a": 1.5, "b": 4.0, "n": 2, "c": "x", **params})
    except ValueError:
        return False
    return True


def test_texts_mean_what_they_say() -> None:
    assert allowed("a < b")
    assert not allowed("a < b", a=4.5)
    assert allowed("a + 2*b <= 9.5")
    assert not allowed("a + 2*b < 9.5")
    assert allowed("0 < a <= b - 1 < 20", a=3.0)
    assert not allowed("0 < a <= b - 1 < 20", a=3.1)
    assert allowed("n*a <= 3 and not (c == 'y' or n > 4)")
    assert not allowed("n*a <= 3 and not (c == 'y' or n > 4)", c="y")
    assert allowed("abs(a) - max(n, b)/4 < 1 or sqrt(b) > 2.9")
    assert allowed("a**2 + b**2 > 18.2")
    assert not allowed("a**2 + b**2 > 18.2", a=1.4)
    assert not allowed(["a < b", lambda s: s["n"] % 2 == 1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a <", "cannot be read"),
        ("a < q", "names 'q'"),
        ("a + b", "compares nothing"),
        ("1 < 2", "names no parameter"),
        ("a.real < 1", "not understood"),
        ("__import__('os').system('x') < a", "names '__import__'"),
        ("a ** b < 1", "exponent"),
        ("[a] < b", "not understood"),
        ("a*b == 2", "linear"),
        ("a + n == 2", "without log, step and when"),
    ],
)
def test_bad_texts_are_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Space(NUMBERS, where=[text])


def test_what_does_not_exist_breaks_no_rule() -> None:
    space = Space(
        {"m": rg.Choice(["u", "v"]), "x": rg.Float(0.5, 3), "y": rg.Float(1, 9, when={"m": "v"})}, where="x > y"
    )
    space.check({"m": "u", "x": 1.0})
    with pytest.raises(ValueError, match="breaks a rule of where: x > y"):
        space.check({"m": "v", "x": 1.0, "y": 2.0})


def test_an_empty_region_and_contradictions_are_named() -> None:
    with pytest.raises(ValueError, match="no setting that satisfies where"):
        rg.Optimizer(Space({"a": rg.Float(0, 1), "b": rg.Float(2, 3)}, where="a > b"), method="random", seed=0).ask()
    with pytest.raises(ValueError, match="contradict or repeat"):
        Space({"a": rg.Float(0, 1), "b": rg.Float(0, 3)}, where=["a + b == 1", "2*a + 2*b == 3"]).cube()
    opt = rg.Optimizer(Space(NUMBERS, where="a < b"), method="random", seed=0)
    with pytest.raises(ValueError, match="breaks a rule"):
        opt.adopt({"a": 4.5, "b": 4.0, "n": 2, "c": "x"})


def test_mixtures_sum_to_one_in_many_dimensions() -> None:
    space = Space({f"p{i}": rg.Float(0, 1) for i in range(9)}, where=["+".join(f"p{i}" for i in range(9)) + " == 1"])
    for method in ("random", "sobol", "gp-ei"):
        opt = rg.Optimizer(space, method=method, seed=2, budget=24)
        for trial in opt.ask(3):
            assert abs(sum(trial.params.values()) - 1) < 1e-12
            assert space.encode(trial.params).tobytes() == trial.unit.tobytes()
            opt.tell(trial, trial.params["p3"])
    with pytest.raises(ValueError, match="does not satisfy"):
        opt.adopt({f"p{i}": 0.2 for i in range(9)})


def test_the_optimum_of_a_mixture_on_the_border_is_found() -> None:
    """min (p1 - .7)^2 + (p2 - .6)^2 + (p3 + .1)^2 on the simplex: (.55, .45, 0)."""
    space = Space({f"p{i}": rg.Float(0, 1) for i in (1, 2, 3)}, where="p1 + p2 + p3 == 1")
    result = rg.minimize(
        lambda p1, p2, p3: (p1 - 0.7) ** 2 + (p2 - 0.6) ** 2 + (p3 + 0.1) ** 2, space, trials=20, seed=0, progress=False
    )
    assert result.value < 0.055 + 1e-3


def test_predicates_that_few_settings_satisfy() -> None:
    space = Space(
        {"x": rg.Float(-2, 6), "y": rg.Float(1e-3, 1e3, log=True)}, where=lambda s: abs(s["x"] - s["y"]) < 0.05
    )
    for method in ("gp-ucb", "sobol", "turbo"):
        opt = rg.Optimizer(space, method=method, seed=4, budget=16)
        for _ in range(8):
            trial = opt.ask()
            assert abs(trial.params["x"] - trial.params["y"]) < 0.05
            opt.tell(trial, (trial.params["x"] - 2.2) ** 2)


def test_files_hold_texts_and_compare_functions(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text('where = ["a < b"]\n[a]\ntype = "float"\nlow = 0\nhigh = 3\n[b]\ntype = "int"\nlow = 1\nhigh = 4\n')
    space = Space(path)
    assert space.where == ("a < b",)
    assert Space.from_json(space.to_json()) == space
    assert Space(space) == space
    opt = rg.Optimizer(space, method="gp-ei", seed=1)
    for _ in range(4):
        opt.tell(trial := opt.ask(), trial.params["a"])
    opt.save(tmp_path / "run")
    assert rg.Optimizer.load(tmp_path / "run").ask().params == opt.ask().params
    with pytest.raises(ValueError, match="where"):
        rg.Optimizer.load(tmp_path / "run", space=Space(space.parameters, where="a <= b"))
    (tmp_path / "bad.toml").write_text("where = [3]\n")
    with pytest.raises(ValueError, match="list of texts"):
        Space(tmp_path / "bad.toml")


def test_probes_are_uniform_draws_of_what_is_allowed() -> None:
    space = Space({"a": rg.Float(0, 4), "b": rg.Float(1e-2, 1e2, log=True)}, where="a > 3")
    opt = rg.Optimizer(space, method="sobol", seed=0, probes=1.0)
    values = [trial.params["a"] for trial in opt.ask(60)]
    assert min(values) > 3
    assert abs(np.mean(values) - 3.5) < 0.12


@pytest.mark.parametrize("method", ["auto", "gp-ucb", "cma-es", "neural-bo", "tangent-region"])
def test_a_finite_space_with_rules_is_evaluated_once(method: str) -> None:
    """A step off a known setting may be forbidden; moved back to an allowed one it was known again."""
    space = rg.Space({"a": rg.Int(2, 6), "b": rg.Int(2, 6)}, where=["a < b"])
    result = rg.minimize(lambda a, b: (a - 4) ** 2 + b, space, trials=40, seed=0, method=method, progress=False)
    assert result.message == "all 10 settings of the space were evaluated"
    assert len(result.trials) == len({tuple(t.params.values()) for t in result.trials}) == 10


@pytest.mark.parametrize("method", ["random", "gp-ei"])
def test_a_run_over_mixtures_is_saved_and_goes_on(method: str, tmp_path: Path) -> None:
    """A part that follows from the others has one place, alone, among others and where it is the one that is fixed."""
    mortar = rg.Space(
        {"sand": rg.Float(0.2, 1), "lime": rg.Float(0, 0.6), "ash": rg.Float(0, 0.4), "clay": rg.Float(0, 0.3)},
        where=["sand + lime + ash + clay == 1", "lime < sand"],
    )
    opt = rg.Optimizer(mortar, method=method, seed=5)
    for fixed in [None, None, {"lime": 0.2}, {"sand": 0.55}, {"ash": 0.1, "clay": 0.05}] * 3:
        trial = opt.ask(fixed=fixed)
        assert sum(trial.params.values()) == pytest.approx(1, abs=1e-12)
        opt.save(tmp_path / "run")
        assert rg.Optimizer.load(tmp_path / "run").pending[0].params == trial.params
        opt.tell(trial, trial.params["sand"] ** 2 + trial.params["ash"])
        assert len(opt.history.pending) == 0
    opt.save(tmp_path / "run")
    assert rg.Optimizer.load(tmp_path / "run").ask().params == opt.ask().params


def test_a_pull_ends_at_the_border() -> None:
    cube = Space({"a": rg.Float(0, 4), "b": rg.Float(0, 2)}, where="a + b <= 3").cube()
    X = cube.allowed(np.array([[1.0, 1.0], [0.9, 0.8], [0.1, 0.2]]))
    assert np.array_equal(X[2], cube.snap(np.array([0.1, 0.2])))
    sums = 4 * X[:2, 0] + 2 * X[:2, 1]
    assert (sums <= 3).all()
    assert (sums > 3 - 1e-5).all()


def rising(setting: dict[str, Any]) -> bool:
    return bool(setting["a"] < setting["b"])


@pytest.mark.parametrize("choices", ["shares", "onehot"])
def test_spaces_and_optimizers_with_rules_travel_to_other_processes(choices: Any) -> None:
    """Workers are sent the space; a text became a function that no process could be sent."""
    space = Space(NUMBERS, where=["a + n < 4", "not a*b > 10 or c == 'x'", rising])
    points = np.random.default_rng(0).random((50, space.cube(choices).dim))
    kept = space.cube(choices).allowed(points)
    again = pickle.loads(pickle.dumps(space))
    assert again == space
    np.testing.assert_array_equal(again.cube(choices).allowed(points), kept)
    opt = rg.Optimizer(space, method="gp-ei", seed=0)
    for value in range(9):
        opt.tell(opt.ask(), float(value))
    twin = pickle.loads(pickle.dumps(opt))
    assert twin.ask().params == opt.ask().params
