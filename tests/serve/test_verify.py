"""Every proposal of a run can be made anew from its file, and a changed value is noticed."""

import math

import numpy as np
import pytest

import regretless as rg
from regretless.optimizer import Optimizer
from regretless.serve.verify import verify

SPACE = {
    "lr": rg.Float(3e-5, 0.7, log=True),
    "width": rg.Int(17, 900, log=True),
    "step": rg.Float(-0.3, 1.2, step=0.25),
    "act": rg.Choice(["relu", 'a "quoted" label', "$(ls)"]),
}


def value(p: dict) -> float:
    return math.log(p["lr"] / 1e-2) ** 2 + (p["width"] / 300 - 1) ** 2 + p["step"] ** 2 + len(p["act"]) / 9


def crowd(optimizer: Optimizer, rounds: int, seed: int) -> None:
    """Asks and tells in an order that a crowd of workers might have."""
    rng, away = np.random.default_rng(seed), []
    for _ in range(rounds):
        if rng.random() < 0.1:
            away.append(optimizer.adopt({"lr": 1e-3, "width": int(rng.integers(20, 800)), "step": -0.3, "act": "relu"}))
        elif rng.random() < 0.55 or not away:
            away += optimizer.ask(int(rng.integers(1, 4)))
        else:
            trial = away.pop(int(rng.integers(len(away))))
            what = rng.random()
            if what < 0.1:
                optimizer.forget(trial)
            elif what < 0.2:
                optimizer.tell(trial, failed=True, error="it broke")
            else:
                optimizer.tell(trial, value(trial.params))
        if rng.random() < 0.05:
            optimizer.learn([({"lr": 2e-4, "width": int(rng.integers(20, 800)), "step": 0.2, "act": "relu"}, 7.5)])


@pytest.mark.parametrize(
    ("method", "options"), [("auto", {}), ("random", {}), ("gp-ei", {"budget": 50}), ("auto", {"probes": 0.25})]
)
def test_a_crowd_s_proposals_are_equal_when_they_are_made_anew(tmp_path, method: str, options: dict) -> None:
    optimizer = Optimizer(SPACE, method, seed=5, **options)
    crowd(optimizer, 40, seed=2)
    optimizer.save(tmp_path / "run.npz")
    found = verify(tmp_path / "run.npz")
    assert found.different == ()
    assert found.equal > 20
    assert found.given == sum(t.seen is None for t in optimizer.trials) > 0
    assert f"{found.equal} of {found.equal} proposals are equal bit for bit" in str(found)


def test_a_run_of_minimize_is_verified_through_the_lines_of_its_file(tmp_path) -> None:
    path = tmp_path / "run.npz"
    for trials in (9, 14):
        rg.minimize(lambda **p: value(p), SPACE, trials=trials, seed=3, checkpoint=path, progress=False)
    assert verify(path).to_json()["equal"] == 14


def test_a_value_or_a_point_that_was_changed_afterwards_is_noticed() -> None:
    optimizer = Optimizer(SPACE, "gp-ei", seed=5)
    for _ in range(12):
        trial = optimizer.ask()
        optimizer.tell(trial, value(trial.params))
    assert verify(optimizer).different == ()
    optimizer.trials[4].value -= 3.0
    assert verify(optimizer).different
    optimizer.trials[4].value += 3.0
    optimizer.trials[8].unit = optimizer.trials[2].unit
    assert 8 in verify(optimizer, every=4).different
