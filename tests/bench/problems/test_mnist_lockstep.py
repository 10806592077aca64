"""A study in a fleet trains what it would train alone, whatever the other studies do."""

from typing import Any

import numpy as np
import pytest
from regretless_bench.problems.mnist_lockstep import AHEAD, Berth, run
from regretless_bench.problems.mnist_training import CONV_SPACE, ConvTraining, Digits

from regretless.bilevel import Bilevel, minimize_bilevel

PARAMS = {"lr": 0.05, "momentum": 0.5, "l2": 1e-3, "dropout": 0.0, "channels": 4}


def made_digits(side: int = 14) -> Digits:
    rng = np.random.default_rng(0)
    templates = rng.standard_normal((10, side, side)).astype(np.float32)
    labels = [rng.integers(10, size=n) for n in (200, 60, 60)]
    return Digits(*((templates[y] + rng.standard_normal((len(y), side, side)).astype(np.float32), y) for y in labels))


DIGITS = made_digits()


def test_nets_of_all_widths_train_as_they_would_alone() -> None:
    """Without dropout, whose masks are the fleet's own: stretches of different lengths, thawed in between, other nets
    beside."""
    single = ConvTraining(DIGITS)
    stretches = {4: (3, 9, 2), 7: (17,), 16: (1, 1, 20)}
    found: dict[int, Any] = {}

    def study(channels: int) -> Any:
        def go(berth: Berth) -> None:
            state = berth.init({**PARAMS, "channels": channels}, seed=channels)
            for n in stretches[channels]:
                state = berth.steps({**state}, n)
            found[channels] = state["steps"], berth.validate(state), berth.test(state)

        return go

    run([study(c) for c in stretches], DIGITS)
    for channels, parts in stretches.items():
        state = single.steps(single.init({**PARAMS, "channels": channels}, channels), sum(parts))
        assert found[channels][0] == sum(parts)
        assert found[channels][1] == pytest.approx(single.validate(state), rel=1e-3)
        assert found[channels][2] == pytest.approx(single.test(state), rel=1e-3)


def test_a_stretch_longer_than_what_is_given_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regretless_bench.problems.mnist_lockstep.AHEAD", 5)
    assert AHEAD > 5
    single, found = ConvTraining(DIGITS), []
    run([lambda berth: found.append(berth.steps(berth.init(PARAMS, 3), 13))], DIGITS)
    assert found[0]["steps"] == 13
    assert found[0]["val"] == pytest.approx(single.validate(single.steps(single.init(PARAMS, 3), 13)), rel=1e-3)


def test_whole_studies_run_side_by_side() -> None:
    results: dict[int, Any] = {}

    def study(seed: int) -> Any:
        def go(berth: Berth) -> None:
            problem = Bilevel(berth.init, berth.step, berth.validate, steps=berth.steps)
            results[seed] = minimize_bilevel(
                problem, CONV_SPACE, budget_steps=24, method="random", seed=seed, progress=False
            )

        return go

    run([study(seed) for seed in range(2)], DIGITS)
    assert sorted(results) == [0, 1]
    assert all(r.spent == 24 and r.success for r in results.values())
    assert len({r.value for r in results.values()}) == 2


def test_what_goes_wrong_is_raised_and_nobody_waits_forever() -> None:
    def fine(berth: Berth) -> None:
        ended.append(berth.steps(berth.init(PARAMS, 0), 4))

    def broken(berth: Berth) -> None:
        raise ValueError("no such study")

    def impossible(berth: Berth) -> None:
        berth.steps({**berth.init(PARAMS, 0), "net": np.zeros(3, dtype=np.float32)}, 4)

    ended: list[Any] = []
    with pytest.raises(ValueError, match="no such study"):
        run([fine, broken], DIGITS)
    assert ended[0]["steps"] == 4
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        run([impossible], DIGITS)
