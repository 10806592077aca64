"""Optimizer: ask and tell in the user's units, refusals, and files that resume exactly."""

import errno
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import regretless as rg
from regretless.basics.statefile import read_state, write_state
from regretless.files.checkpoint import Checkpoint
from regretless.optimizer import Optimizer
from regretless.space import Space

SPACE = {"lr": rg.Float(1e-5, 1e-1, log=True), "layers": rg.Int(2, 6), "act": rg.Choice(["relu", "tanh"])}


def objective(lr: float, layers: int, act: str) -> float:
    return (math.log10(lr) + 3.2) ** 2 + 0.3 * (layers - 3) ** 2 + (act == "relu")


def run(opt: Optimizer, n: int) -> list[dict]:
    out = []
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, objective(**trial.params))
        out.append(trial.params)
    return out


def test_both_directions_find_the_same_settings() -> None:
    low, high = (
        Optimizer(SPACE, method="gp-ei", seed=3, budget=15),
        Optimizer(SPACE, method="gp-ei", seed=3, budget=15, direction="maximize"),
    )
    for _ in range(15):
        a, b = low.ask(), high.ask()
        assert a.params == b.params
        low.tell(a, objective(**a.params))
        high.tell(b, -objective(**b.params))
    assert low.best.value == -high.best.value
    assert low.recommend() == high.recommend()


def test_best_is_the_best_observed() -> None:
    for direction, best in (("minimize", 1.0), ("maximize", 5.0)):
        opt = Optimizer([(0, 1)], method="random", seed=0, direction=direction)
        for value in (3.0, 1.0, 5.0, math.nan):
            opt.tell(opt.ask(), value)
        assert opt.best.value == best
        assert [t.state for t in opt.trials] == ["done"] * 3 + ["failed"]


def test_tells_out_of_order_unknown_and_twice() -> None:
    opt = Optimizer(SPACE, method="random", seed=0)
    trials = opt.ask(4)
    opt.tell(trials[2], 1.0)
    opt.tell(trials[0].number, 2.0)
    with pytest.raises(ValueError, match="told already"):
        opt.tell(trials[2], 1.0)
    with pytest.raises(ValueError, match="never asked"):
        opt.tell(9, 1.0)
    with pytest.raises(ValueError, match="another optimizer"):
        opt.tell(Optimizer(SPACE, method="random", seed=0).ask(), 1.0) or opt.tell(
            Optimizer(SPACE, seed=1).ask(2)[1], 1.0
        )
    with pytest.raises(ValueError, match="needs a value"):
        opt.tell(trials[1])
    with pytest.raises(ValueError, match="must be a number"):
        opt.tell(trials[1], "fast")
    with pytest.raises(ValueError, match="var must be"):
        opt.tell(trials[1], 1.0, var=-1)
    assert [t.number for t in opt.pending] == [1, 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_failures_never_reach_the_model(bad) -> None:
    opt = Optimizer(SPACE, method="gp-ei", seed=0)
    run(opt, 5)
    trial = opt.ask()
    opt.tell(trial, bad, failed=bad is None)
    assert trial.state == "failed"
    assert trial.value is None
    assert len(opt.history.y) == 5
    assert len(opt.history.failed) == 1


def test_sixteen_pending_trials_differ() -> None:
    opt = Optimizer({"x": rg.Float(1, 2), "n": rg.Int(1, 30)}, method="gp-ei", seed=0)
    for t in opt.ask(5):
        opt.tell(t, t.params["x"] + t.params["n"])
    assert len({tuple(t.params.items()) for t in opt.ask(16)}) == 16


def test_a_file_of_another_release_is_named_as_one(tmp_path) -> None:
    opt = Optimizer(SPACE, method="random", seed=0)
    opt.save(tmp_path / "run")
    write_state(tmp_path / "run", {**read_state(tmp_path / "run"), "kind": "regretless-optimizer-99"})
    with pytest.raises(
        ValueError, match=r"or one of another release \(its kind is 'regretless-optimizer-99', this one"
    ):
        Optimizer.load(tmp_path / "run")


def test_callers_may_take_the_dict_of_a_trial_apart(tmp_path) -> None:
    opt = Optimizer(SPACE, method="gp-ei", seed=3)
    trial = opt.ask()
    asked = dict(trial.params)
    trial.params.pop("act")
    trial.params["note"] = "mine"
    opt.tell(trial, 0.5)
    assert trial.params == asked
    opt.best.params.clear()  # after it was told, too
    assert opt.recommend() == asked
    opt.save(tmp_path / "run")
    assert Optimizer.load(tmp_path / "run").trials[0].params == asked


def test_a_trial_whose_values_were_changed_is_refused() -> None:
    opt = Optimizer(SPACE, method="gp-ei", seed=3)
    trial = opt.ask()
    trial.params["layers"] += 1
    with pytest.raises(ValueError, match=r"'layers' of trial 0 was 4 when it was asked, and is 5 now; .*tell\(adopt"):
        opt.tell(trial, 0.5)
    assert opt.pending == [trial]


def test_adopted_trials_are_evaluated_like_any_other() -> None:
    opt = Optimizer(SPACE, method="random", seed=0)
    trial = opt.adopt({"lr": 1e-3, "layers": 3, "act": "tanh"})
    assert trial.params["lr"] == pytest.approx(1e-3)
    opt.tell(trial, 0.1)
    assert opt.best is trial
    with pytest.raises(ValueError, match="parameter 'layers'"):
        opt.adopt({"lr": 1e-3, "layers": 9, "act": "tanh"})


def test_adopted_values_of_numpy_are_kept_as_plain_ones(tmp_path) -> None:
    space = {"lr": rg.Float(1e-5, 0.1, log=True), "n": rg.Int(2, 6), "c": rg.Choice([16, 32])}
    opt = Optimizer(space, method="random", seed=0)
    trial = opt.adopt({"lr": np.float32(0.1), "n": np.int32(3), "c": np.int64(32)})  # in binary just above 0.1
    assert trial.params == {"lr": 0.1, "n": 3, "c": 32}
    assert [type(v) for v in trial.params.values()] == [float, int, int]
    inner = opt.adopt({"lr": np.float32(0.003), "n": np.float32(4), "c": 16})
    assert inner.params["lr"] == float(np.float32(0.003))
    assert isinstance(inner.params["n"], int)  # an objective may say range(n)
    fixed = opt.ask(fixed={"n": 5.0, "c": np.int64(32)}).params
    assert [type(fixed[name]) for name in ("n", "c")] == [int, int]
    opt.save(tmp_path / "run")
    assert [t.params for t in Optimizer.load(tmp_path / "run").trials] == [trial.params, inner.params, fixed]
    with pytest.raises(ValueError, match="a setting is a mapping of names to values, got None"):
        opt.adopt(None)


@pytest.mark.parametrize("method", ["random", "gp-ei", "gp-ucb"])
def test_saved_and_loaded_runs_go_on_bit_for_bit(tmp_path, method: str) -> None:
    whole = run(Optimizer(SPACE, method=method, seed=7, budget=24), 24)
    first = Optimizer(SPACE, method=method, seed=7, budget=24)
    head = run(first, 16)
    first.save(tmp_path / "run")
    resumed = Optimizer.load(tmp_path / "run")
    assert head + run(resumed, 8) == whole
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch) -> None:
    opt = Optimizer(SPACE, method="random", seed=7)
    opt.save(tmp_path / "run")
    before = (tmp_path / "run").read_bytes()
    opt.tell(opt.ask(), 1.0)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"cannot write: No space left on device: '.*run'"):
        opt.save(tmp_path / "run")
    assert (tmp_path / "run").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def test_a_file_decodes_settings_of_others_once(tmp_path, monkeypatch) -> None:
    """A checkpoint is written after every trial, and decoding all trials each time would take 80 ms at 4,000."""
    opt = Optimizer({"x": rg.Float(3e-7, 0.2, log=True), "n": rg.Int(1, 10, step=4)}, method="random", seed=0)
    opt.tell(opt.adopt({"x": 0.1, "n": 5}), 1.0)
    for trial in opt.ask(5):
        opt.tell(trial, 2.0)
    seen, decode = [], Space.decode
    monkeypatch.setattr(Space, "decode", lambda self, u, *choices: seen.append(u) or decode(self, u, *choices))
    for _ in range(3):
        opt.save(tmp_path / "run")
    assert len(seen) == 1
    assert Optimizer.load(tmp_path / "run").trials[0].params == {"x": 0.1, "n": 5}


def test_pending_trials_survive_a_file(tmp_path) -> None:
    opt = Optimizer(SPACE, method="random", seed=7)
    trials = opt.ask(3)
    opt.tell(trials[1], 2.0, var=0.5)
    opt.save(tmp_path / "run")
    again = Optimizer.load(tmp_path / "run")
    assert [t.number for t in again.pending] == [0, 2]
    assert again.trials[1].var == 0.5
    assert [t.params for t in again.trials] == [t.params for t in trials]
    again.tell(0, 1.0)


def test_labels_that_no_file_can_hold_need_the_space_again(tmp_path) -> None:
    space = {"c": rg.Choice([(1, 2), (3, 4)])}
    opt = Optimizer(space, method="random", seed=7)
    opt.tell(opt.ask(), 1.0)
    opt.save(tmp_path / "run")
    with pytest.raises(ValueError, match="pass space="):
        Optimizer.load(tmp_path / "run")
    assert Optimizer.load(tmp_path / "run", space=space).best.value == 1.0
    with pytest.raises(ValueError, match="written for parameters"):
        Optimizer.load(tmp_path / "run", space={"d": rg.Float(0, 1)})


def test_damaged_files_give_one_clear_error(tmp_path) -> None:
    opt = Optimizer(SPACE, method="random", seed=7)
    opt.tell(opt.ask(), 1.0)
    opt.save(tmp_path / "run")
    content = (tmp_path / "run").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        broken = bytearray(content)
        if rng.random() < 0.3:
            broken = broken[: rng.integers(len(broken))]
        else:
            for i in rng.integers(len(broken), size=5):
                broken[i] = rng.integers(256)
        (tmp_path / "broken").write_bytes(bytes(broken))
        try:
            Optimizer.load(tmp_path / "broken")
        except ValueError:
            refused += 1
    assert refused > 50
    with pytest.raises(FileNotFoundError):
        Optimizer.load(tmp_path / "absent")


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="direction"):
        Optimizer(SPACE, direction="up")
    with pytest.raises(ValueError, match="unknown method 'magic'"):
        Optimizer(SPACE, method="magic")
    with pytest.raises(ValueError, match="budget"):
        Optimizer(SPACE, method="random", budget=0)
    with pytest.raises(RuntimeError, match="no value has been told"):
        _ = Optimizer(SPACE, method="random").best


def test_the_objective_sees_boxes_off_zero_and_uneven() -> None:
    opt = Optimizer([(10, 11), (-300, -200), (1e-6, 2e-6)], method="sobol", seed=0)
    points = np.array([t.x for t in opt.ask(64)])
    assert ((points >= [10, -300, 1e-6]) & (points <= [11, -200, 2e-6])).all()
    assert np.allclose(points.mean(axis=0), [10.5, -250, 1.5e-6], rtol=0.05)


def test_auto_says_why() -> None:
    assert "exact GP" in Optimizer(SPACE, budget=50).why
    assert "gp-ei" in Optimizer([(0, 1)] * 100, budget=50).why


IN_ANOTHER = """
import pathlib, pickle, sys
opt = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
print(opt.ask().unit.tobytes().hex())
"""


@pytest.mark.parametrize("method", ["auto", "gp-ei", "ms-ucb"])
def test_an_optimizer_goes_on_in_another_process(method: str, tmp_path: Path) -> None:
    """A fresh process has fitted nothing yet, and knew no sizes at which models are fitted."""
    opt = Optimizer(SPACE, method=method, seed=1)
    run(opt, 14)
    opt.ask()
    (tmp_path / "opt").write_bytes(pickle.dumps(opt))
    command = [sys.executable, "-c", IN_ANOTHER, str(tmp_path / "opt")]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout.strip() == opt.ask().unit.tobytes().hex(), found.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("lock", ["_lock", "_writing", "_saving"])
def test_a_child_forked_while_another_thread_asks_or_tells_can_ask(lock: str, tmp_path: Path) -> None:
    opt = Optimizer(SPACE, method="gp-ei", seed=0)
    run(opt, 12)
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with getattr(opt, lock):
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        opt.tell(opt.ask(), 1.0)
        opt.save(tmp_path / "run")
        os._exit(7)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    run(opt, 1)


def test_a_slow_disk_holds_up_neither_asks_nor_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opt, file = Optimizer(SPACE, method="random", seed=0), Checkpoint(tmp_path / "run")
    opt.ask(3)
    opt.save(file)
    opt.tell(0, 1.5)
    inside, leave, fsync = threading.Event(), threading.Event(), os.fsync

    def slow(descriptor: int) -> None:
        inside.set()
        assert leave.wait(20)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    savers = [threading.Thread(target=opt.save, args=(file,)) for _ in range(2)]
    savers[0].start()
    assert inside.wait(20)
    others = threading.Thread(target=lambda: (opt.tell(1, 2.5), opt.ask()))
    others.start()
    others.join(10)
    assert [t.state for t in opt.trials] == ["done", "done", "pending", "pending"]
    savers[1].start()  # the line of the second saver comes behind that of the first
    leave.set()
    for thread in savers:
        thread.join()
    read = Optimizer.load(tmp_path / "run").trials
    assert [(t.unit.tobytes(), t.state, t.value) for t in read] == [
        (t.unit.tobytes(), t.state, t.value) for t in opt.trials
    ]


def test_a_failed_trial_keeps_how_long_it_took(tmp_path) -> None:
    opt = Optimizer({"x": rg.Float(-5, 10)}, method="sobol", seed=0)
    opt.tell(opt.ask(), failed=True, seconds=2.5)
    opt.tell(opt.ask(), math.nan, seconds=3.5)
    opt.tell(opt.ask(), failed=True)
    opt.save(tmp_path / "run")
    for known in (opt, Optimizer.load(tmp_path / "run")):
        assert [(t.state, t.seconds) for t in known.trials] == [("failed", 2.5), ("failed", 3.5), ("failed", None)]
    with pytest.raises(ValueError, match="seconds must be a finite number of at least 0, got -1"):
        opt.tell(opt.ask(), failed=True, seconds=-1)
