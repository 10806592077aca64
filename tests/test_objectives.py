"""Several objectives through the loop and the files: ask and tell, failures, checkpoints, errors in one sentence."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rg
from regretless.fronts.dominance import nondominated

SPACE = {
    "rate": rg.Float(3e-6, 0.2, log=True),
    "layers": rg.Int(2, 9),
    "drop": rg.Float(-0.7, 1.9, step=0.13),
    "act": rg.Choice(["relu", "tanh", None]),
}
OBJECTIVES: dict[str, Any] = {"score": "maximize", "ms": "minimize"}


def both(rate: float, layers: int, drop: float, act: Any) -> dict[str, float]:
    score = -((math.log10(rate) + 2.5) ** 2) + 0.3 * layers - (drop - 0.4) ** 2 + (act == "tanh")
    return {"score": score, "ms": layers**1.7 + 2.0 * (act == "tanh") + 0.1 * abs(math.log10(rate))}


def fails_sometimes(**params: Any) -> dict[str, float]:
    told = both(**params)
    return told | {"ms": math.nan} if params["layers"] == 5 else told


def asked(n: int, method: str = "auto", **options: Any) -> rg.Optimizer:
    opt = rg.Optimizer(SPACE, method, objectives=OBJECTIVES, seed=3, budget=40, **options)
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, fails_sometimes(**trial.params))
    return opt


def test_the_front_is_what_nothing_dominates() -> None:
    result = rg.minimize(both, SPACE, objectives=OBJECTIVES, trials=24, seed=1, progress=False)
    told = np.array([t.values for t in result.trials]) * [1.0, -1.0]
    members = {tuple(row) for row in (told[nondominated(told)] * [1.0, -1.0]).tolist()}
    assert {tuple(m.values.values()) for m in result.front} == members
    assert all(both(**m.params) == m.values for m in result.front)
    assert [m.values["score"] for m in result.front] == sorted((m.values["score"] for m in result.front), reverse=True)
    assert result.params in [m.params for m in result.front]
    assert result.values == tuple(both(**result.params).values())
    assert all(low == value == high for m in result.front for value, (low, high) in zip(
        m.values.values(), m.intervals.values(), strict=True))  # fmt: skip


def test_objectives_may_be_told_in_any_form() -> None:
    by_name = rg.minimize(both, SPACE, objectives=OBJECTIVES, trials=14, seed=5, progress=False)
    other = rg.minimize(
        lambda **p: rg.Value(tuple(both(**p).values())), SPACE, objectives=OBJECTIVES, trials=14, seed=5, progress=False
    )
    turned = rg.maximize(
        lambda **p: np.array(list(both(**p).values())) * [1.0, -1.0], SPACE, objectives=["score", "fast"], trials=14,
        seed=5, progress=False,
    )  # fmt: skip
    assert [t.params for t in by_name.trials] == [t.params for t in other.trials] == [t.params for t in turned.trials]
    assert [t.values for t in by_name.trials] == [t.values for t in other.trials]


@pytest.mark.parametrize("method", ["auto", "gp-ehvi", "sms-emoa"])
@pytest.mark.parametrize("cut", [1, 13, 22])
def test_a_saved_run_goes_on_as_if_never_interrupted(tmp_path: Path, method: str, cut: int) -> None:
    whole, part = asked(26, method), asked(cut, method)
    part.save(tmp_path / "run")
    again = rg.Optimizer.load(tmp_path / "run")
    assert [t.values for t in again.trials] == [t.values for t in part.trials]
    assert [t.error for t in again.trials] == [t.error for t in part.trials]
    for _ in range(26 - cut):
        trial = again.ask()
        again.tell(trial, fails_sometimes(**trial.params))
    assert [t.params for t in again.trials] == [t.params for t in whole.trials]


def test_a_checkpoint_resumes_a_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"objectives": OBJECTIVES, "seed": 2, "progress": False}
    whole = rg.minimize(both, SPACE, trials=20, **options)
    rg.minimize(both, SPACE, trials=20, checkpoint=tmp_path / "c", callback=lambda o, t: t.number == 11, **options)
    resumed = rg.minimize(both, SPACE, trials=20, checkpoint=tmp_path / "c", **options)
    assert [t.params for t in resumed.trials] == [t.params for t in whole.trials]
    assert resumed.front.to_json() == whole.front.to_json()
    with pytest.raises(ValueError, match="this run asks for"):
        rg.minimize(both, SPACE, trials=20, checkpoint=tmp_path / "c", **{**options, "objectives": ["score", "ms"]})


def test_variances_survive_a_file(tmp_path: Path) -> None:
    opt = rg.Optimizer([(-3, 5)], objectives=["a", "b"], seed=0)
    for value in (1.0, 2.0):
        opt.tell(opt.ask(), {"b": -value, "a": value}, var={"a": 0.25, "b": None})
    again = rg.Optimizer.load(opt.save(tmp_path / "run") or tmp_path / "run")
    assert [t.variances for t in again.trials] == [(0.25, None)] * 2
    assert [t.values for t in again.trials] == [(1.0, -1.0), (2.0, -2.0)]


def test_one_objective_that_fails_fails_the_trial() -> None:
    opt = asked(20)
    failed = [t for t in opt.trials if t.params["layers"] == 5]
    assert failed
    assert all(t.state == "failed" and t.values == () and "'ms' was nan" in t.error for t in failed)
    assert len(opt.history.failed) == len(failed)
    assert np.isfinite(opt.history.Y).all()


def test_values_of_earlier_runs_are_taken_in(tmp_path: Path) -> None:
    first = rg.minimize(both, SPACE, objectives=OBJECTIVES, trials=12, seed=1, progress=False)
    first.to_json(tmp_path / "r.json")
    first.to_dataframe().to_csv(tmp_path / "r.csv", index=False)
    first.optimizer.save(tmp_path / "run")
    histories = []
    for source in (first, tmp_path / "r.json", tmp_path / "run", tmp_path / "r.csv"):
        opt = rg.Optimizer(SPACE, objectives=OBJECTIVES, seed=9)
        assert opt.learn(source) == 12
        histories.append((opt.history.X, opt.history.Y))
        opt.save(tmp_path / "again")
        assert np.array_equal(rg.Optimizer.load(tmp_path / "again").history.Y, opt.history.Y)
        assert np.array_equal(rg.Optimizer.load(tmp_path / "again").ask().unit, opt.ask().unit)
    assert all(np.allclose(Y, histories[0][1]) and np.allclose(X, histories[0][0]) for X, Y in histories[1:])
    alone = rg.Optimizer(SPACE, seed=9)
    with pytest.warns(RuntimeWarning, match="2 objectives where this run has 1"):
        assert alone.learn(first) == 0


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ((1.0,), "this run has 2 objectives, .*'score', 'ms'.*got 1 values"),
        ({"score": 1.0, "cost": 2.0}, "are named .*'score', 'ms'.*got values of .*'cost'"),
        (3.0, "each of them needs a number; got 3.0"),
        ((1.0, "fast"), "'ms'.*it must return a number"),
        (rg.Value((1.0, 2.0), var=(0.1,)), "got 1 variances"),
        (rg.Value((1.0, 2.0), var=(0.1, -1.0)), "var must be a finite number of at least 0"),
    ],
)
def test_what_an_objective_may_not_return(told: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rg.minimize(lambda **_: told, SPACE, objectives=OBJECTIVES, trials=3, seed=0, progress=False)


def test_what_a_task_may_not_be() -> None:
    for objectives, words in (
        ("loss", "list of names"), (["a", "a"], "different names"), ({"a": "up", "b": "minimize"}, "direction"),
        ([], "list of names"), (["a", ""], "different names"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            rg.Optimizer(SPACE, objectives=objectives)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one objective"):
        rg.Optimizer(SPACE, objectives=["a", "b"], floor=0.0)
    with pytest.raises(ValueError, match="gp-ucb searches one objective; auto, gp-ehvi and sms-emoa"):
        rg.Optimizer(SPACE, "gp-ucb", objectives=["a", "b"])
    opt = rg.Optimizer(SPACE, objectives=["a", "b"], seed=0)
    with pytest.raises(ValueError, match=r"2 objectives.*got 3 values"):
        opt.tell(opt.ask(), (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="no trial is the best in all objectives"):
        _ = opt.best
    with pytest.raises(ValueError, match=r"name several objectives by objectives=\[...\]"):
        rg.minimize(lambda **_: (1.0, 2.0), SPACE, trials=3, progress=False)


@pytest.mark.parametrize("method", ["auto", "gp-ehvi", "sms-emoa"])
def test_a_reference_says_what_is_of_interest(method: str, tmp_path: Path) -> None:
    asks = {"score": -0.5, "ms": 30.0}

    def good(opt: rg.Optimizer) -> list[bool]:
        return [t.values[0] > asks["score"] and t.values[1] < asks["ms"] for t in opt.trials if t.values]

    trials = 90 if method == "sms-emoa" else 40  # it learns by generations
    free, bound = asked(trials, method), asked(trials, method, reference=asks)
    assert sum(good(bound)[20:]) > sum(good(free)[20:])
    assert bound.task.reference == (-0.5, 30.0)
    for taken in (bound.recommend(), rg.Result.of(bound).pick().params):
        values = both(**taken)
        assert values["score"] > asks["score"]
        assert values["ms"] < asks["ms"]
    bound.save(tmp_path / "run")
    again = rg.Optimizer.load(tmp_path / "run")
    assert again.task == bound.task
    assert np.array_equal(again.ask().unit, bound.ask().unit)
    same = rg.Optimizer(SPACE, method, objectives=OBJECTIVES, seed=3, budget=40, reference=[-0.5, 30])
    assert same.task == bound.task


def test_a_reference_of_one_objective_leaves_the_other_to_the_values(tmp_path: Path) -> None:
    told: dict[str, Any] = {"objectives": OBJECTIVES, "seed": 0, "progress": False}
    result = rg.minimize(both, SPACE, trials=24, reference={"ms": 12.0}, **told)
    assert result.optimizer.task.reference == (None, 12.0)
    assert result.values[1] < 12.0
    assert rg.minimize(both, SPACE, trials=3, reference={}, **told).optimizer.task.reference == ()
    file = tmp_path / "run"
    rg.minimize(both, SPACE, trials=3, checkpoint=file, reference={"ms": 12.0}, **told)
    with pytest.raises(ValueError, match=r"it holds reference = \[None, 12.0\], this run asks for \[\]"):
        rg.minimize(both, SPACE, trials=5, checkpoint=file, **told)


def test_a_reference_that_nothing_reaches_breaks_nothing() -> None:
    for k in (2, 4):
        opt = rg.Optimizer([(-3, 5), (0.1, 7)], objectives=[f"f{j}" for j in range(k)], seed=1, reference=[-9.0] * k)
        for _ in range(14):
            trial = opt.ask()
            opt.tell(trial, tuple(float(np.sum((trial.x - j) ** 2)) for j in range(k)))
        assert any("better than its reference -9: is it on the right side?" in str(a) for a in rg.advise(opt))
        assert "nothing is better than the reference" in str(opt.outlook)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"points": 1.0}, r"named \['score', 'ms'\], got 'points'"),
        ([1.0], "a value or None for each"),
        ("ab", "a value or None for each"),
        ({"ms": math.nan}, "reference of ms must be a number"),
        ({"ms": "20"}, "reference of ms must be a number"),
    ],
)
def test_what_a_reference_may_not_be(reference: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rg.Optimizer(SPACE, objectives=OBJECTIVES, reference=reference)
    with pytest.raises(ValueError, match="reference= is for several objectives, this task has one"):
        rg.Optimizer(SPACE, reference=[1.0])


def test_an_objective_that_never_varies_is_named() -> None:
    result = rg.minimize(
        lambda x: {"a": (x[0] - 1) ** 2, "b": 7.0}, [(-3, 5)], objectives=["a", "b"], trials=12, seed=0, progress=False
    )
    assert "'b' was 7 in all 12 evaluations" in str(result)
    assert len(result.front) == 1
    assert result.values == (min(t.values[0] for t in result.trials), 7.0)


def test_a_member_is_picked_by_limits_and_weights() -> None:
    front = rg.minimize(both, SPACE, objectives=OBJECTIVES, trials=30, seed=4, progress=False).front
    under = front.pick(limits={"ms": 12.0})
    assert under.values["ms"] <= 12.0
    assert under.values["score"] == max(m.values["score"] for m in front if m.values["ms"] <= 12.0)
    good = front.pick(limits={"score": 0.0})
    assert good.values["ms"] == min(m.values["ms"] for m in front if m.values["score"] >= 0.0)
    assert front.pick(weights={"ms": 0.0}).values["score"] == max(m.values["score"] for m in front)
    with pytest.raises(ValueError, match="no member of the front keeps"):
        front.pick(limits={"ms": -1.0})
    with pytest.raises(ValueError, match=r"named .*'score', 'ms'.*got 'loss'"):
        front.pick(weights={"loss": 1.0})


def test_tables_and_json_hold_the_front(tmp_path: Path) -> None:
    result = rg.minimize(both, SPACE, objectives=OBJECTIVES, trials=16, seed=4, progress=False)
    table = result.to_dataframe()
    assert table["ms"].tolist() == [t.values[1] for t in result.trials]
    members = result.front.to_dataframe()
    assert members["score"].tolist() == [m.values["score"] for m in result.front]
    assert members["layers"].tolist() == [m.params["layers"] for m in result.front]
    again = rg.Result.from_json(result.to_json(tmp_path / "r.json"))
    assert again.front.to_json() == result.front.to_json()
    assert str(again) == str(result)


def test_constraints_are_kept_by_the_front() -> None:
    def limited(x: np.ndarray) -> rg.Value:
        return rg.Value((float(x[0] ** 2 + x[1]), float((x[0] - 2) ** 2 + x[1])), constraints=[1.0 - x[0] - x[1]])

    result = rg.minimize(
        limited, [(-1, 4), (0, 3)], objectives=["a", "b"], constraints=1, trials=30, seed=0, progress=False
    )
    assert result.optimizer.recipe.name == "gp-ehvi"
    assert len(result.front) > 3
    assert all(x["x0"] + x["x1"] >= 1.0 for x in (m.params for m in result.front))


def test_workers_get_different_settings() -> None:
    opt = asked(14)
    batch = opt.ask(6)
    assert len({t.unit.tobytes() for t in batch}) == 6
    free = rg.Optimizer([(0, 1)] * 3, objectives=["a", "b"], seed=0)
    for trial in free.ask(8):
        free.tell(trial, (float(trial.x.sum()), float(((trial.x - 0.7) ** 2).sum())))
    X = np.array([t.unit for t in free.ask(5)])
    apart = np.abs(X[:, None] - X).max(axis=2) + np.eye(5)
    assert apart.min() > 1e-3


def test_noise_that_is_told_makes_the_front_that_of_the_models() -> None:
    rng = np.random.default_rng(0)

    def noisy(x: np.ndarray) -> rg.Value:
        return rg.Value((x[0] ** 2 + 0.1 * rng.standard_normal(), (x[0] - 2) ** 2 + 0.1 * rng.standard_normal()),
                        var=(0.01, 0.01))  # fmt: skip

    result = rg.minimize(noisy, [(-1, 3.5)], objectives=["a", "b"], trials=30, seed=0, progress=False)
    told = {t.number: t.values for t in result.trials}
    assert any(tuple(m.values.values()) != told[m.number] for m in result.front if m.number is not None)
    for member in result.front:
        x = member.params["x0"]
        assert all(low < high for low, high in member.intervals.values())
        assert abs(member.values["a"] - x**2) < 0.3
    frame = result.front.to_dataframe()
    assert (frame["a_low"] < frame["a"]).all()


# ---------------------------------------------------------------- what a run may hold, with replay

TREE = {
    "kind": rg.Choice(["svm", "net"]),
    "C": rg.Float(3e-3, 7e2, log=True, when={"kind": "svm"}),
    "layers": rg.Int(2, 9, when={"kind": "net"}),
    "rate": rg.Float(-0.7, 1.9),
}
RULES = rg.Space({"a": rg.Float(0.3, 40, log=True), "b": rg.Int(-4, 19)}, where=["a + b <= 25", "b != 3"])
LIKELY = {"a": rg.Float(0.3, 40, log=True, prior=(2.0, 3.0)), "b": rg.Int(-4, 19)}


def of_tree(kind: str, rate: float, C: float = 1.0, layers: int = 0) -> tuple[float, ...]:
    return (rate - 0.3) ** 2 + math.log10(C) ** 2 + 0.1 * layers, abs(rate - 1) + layers + 2.0 * (kind == "svm")


def of_pair(a: float, b: int) -> tuple[float, ...]:
    return math.log(a) ** 2 + 0.1 * b, (b - 7) ** 2 + a


def noisily(a: float, b: int) -> rg.Value:
    f, g = of_pair(a, b)
    return rg.Value((f + 0.3 * math.sin(1e4 * a), g), var=(0.09, None))


def differing(a: float, b: int) -> tuple[float, ...]:
    """Values of a finite space that a second evaluation does not repeat."""
    noisy.append(1.0)
    f, g = of_pair(round(a), b)
    return f + math.sin(len(noisy)), g


noisy: list[float] = []
KINDS: dict[str, tuple[Any, Callable[..., Any], dict[str, Any]]] = {
    "tree": (TREE, of_tree, {}),
    "rules": (RULES, of_pair, {}),
    "prior": (LIKELY, of_pair, {}),
    "constraints": (
        LIKELY, lambda a, b: rg.Value(of_pair(a, b), constraints={"small": a - 9.0, "even": float(b % 2)}),
        {"constraints": ["small", "even"]},
    ),
    "cost": (LIKELY, lambda a, b: rg.Value(of_pair(a, b), cost=1.0 + a), {"cost": "told"}),
    "noise told": (LIKELY, noisily, {}),
    "noise found": ({"a": rg.Float(1, 4, step=1.5), "b": rg.Int(0, 2)}, differing, {}),
    "probes": (LIKELY, of_pair, {"probes": 0.3}),
    "four": (LIKELY, lambda a, b: (*of_pair(a, b), -a, abs(b - a)), {}),
}  # fmt: skip


def told(kind: str, opt: rg.Optimizer, n: int) -> None:
    """n trials, of which every fifth is pinned, one fails, and two overlap."""
    space, fun, _ = KINDS[kind]
    names = list(rg.Space(space).names)
    for _ in range(n):
        step = len(opt.trials)
        fixed = {names[0]: "net" if kind == "tree" else 4.0} if step % 5 == 4 else None
        trial = opt.ask(fixed=fixed)
        if fixed:
            assert trial.params[names[0]] == fixed[names[0]]
        noisy[:] = [1.0] * step
        value = fun(**trial.params)
        held = value if isinstance(value, rg.Value) else rg.Value(value)
        if step == 6:
            opt.tell(trial, failed=True, cost=held.cost)
        else:
            opt.tell(trial, held.value, var=held.var, constraints=held.constraints, cost=held.cost)


@pytest.mark.parametrize("method", ["auto", "sms-emoa"])
@pytest.mark.parametrize("kind", KINDS)
def test_everything_a_run_may_hold_is_replayed(kind: str, method: str, tmp_path: Path) -> None:
    space, _, options = KINDS[kind]
    if method == "sms-emoa" and kind == "cost":
        pytest.skip("an evolution cannot weigh costs, and says so")
    k = 4 if kind == "four" else 2
    given: dict[str, Any] = {"objectives": [f"f{j}" for j in range(k)], "seed": 5, "budget": 26, **options}
    whole, part = rg.Optimizer(space, method, **given), rg.Optimizer(space, method, **given)
    told(kind, whole, 20)
    told(kind, part, 13)
    part.save(tmp_path / "run")
    again = rg.Optimizer.load(tmp_path / "run", space=rg.Space(space))
    told(kind, again, 7)
    assert [t.params for t in again.trials] == [t.params for t in whole.trials]
    again.ask(2)
    whole.ask(2)
    assert np.array_equal(again.pending[-1].unit, whole.pending[-1].unit)
    rows, values, _ = whole.method.front(whole.history)
    assert len(rows) > 0
    assert nondominated(values).all()
    if kind == "constraints":
        assert whole.history.feasible[rows].all() or method == "sms-emoa"
    if kind.startswith("noise"):
        assert whole.method.noise(whole.history).shows


def test_a_prior_moves_the_first_settings() -> None:
    def near(prior: tuple[float, float]) -> float:
        space = {"a": rg.Float(0.3, 4e4, log=True, prior=prior), "b": rg.Int(-4, 19)}
        opt = rg.Optimizer(space, objectives=["f", "g"], seed=5, budget=26)
        for _ in range(14):
            opt.tell(trial := opt.ask(), (float(trial.params["b"]), -float(trial.params["b"])))
        return float(np.median([math.log10(t.params["a"]) for t in opt.trials]))

    assert near((1.0, 3.0)) < 2.0 < near((1e4, 3.0))


KILLED = """
import os, sys
import regretless as rg

def f(x, n):
    with open(sys.argv[2], "a") as file:
        file.write("|")
    if sys.argv[3] == "die" and os.path.getsize(sys.argv[2]) in (4, 13):
        os._exit(9)
    return {"loss": (x - 1) ** 2 + n, "speed": x * n}

result = rg.minimize(f, {"x": rg.Float(-3, 5), "n": rg.Int(1, 7)}, trials=20, seed=3, progress=False,
                     objectives={"loss": "minimize", "speed": "maximize"}, checkpoint=sys.argv[1])
print([t.params for t in result.trials], [m.params for m in result.front])
"""


def test_a_run_that_is_killed_again_and_again_ends_like_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(KILLED)

    def started(name: str, fate: str) -> subprocess.CompletedProcess[str]:
        words = [str(tmp_path / name), str(tmp_path / f"{name}.count"), fate]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(
            [sys.executable, str(tmp_path / "run.py"), *words], capture_output=True, text=True, env=environment
        )

    whole = started("whole", "live")
    assert whole.returncode == 0, whole.stderr
    for code in (9, 9, 0):
        killed = started("killed", "die")
        assert killed.returncode == code, killed.stderr
    assert killed.stdout == whole.stdout
