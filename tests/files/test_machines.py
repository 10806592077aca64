"""A run goes on where numbers are rounded differently: points are the same ones, and it says once where it began."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest

import regretless as rg
from regretless.basics.machine import even_log, machine
from regretless.space.parameters import Axis, Int

SPACE = {"k": Int(3, 5000, log=True), "x": rg.Float(1e-5, 10.0, log=True), "n": rg.Int(1, 9, step=2)}


def value(params: dict) -> float:
    return (params["x"] - 0.1) ** 2 + abs(params["k"] - 40) + params["n"]


def of_this_many(opt: rg.Optimizer, n: int) -> rg.Optimizer:
    for _ in range(n):
        trial = opt.ask()
        opt.tell(trial, value(trial.params))
    return opt


def test_the_logarithm_is_the_logarithm() -> None:
    near_one = 1.0 + np.linspace(-1, 1, 99) / 1e5
    x = np.concatenate([np.arange(1.0, 2000.0) - 0.5, np.geomspace(1e-300, 1e300, 997), near_one])
    with localcontext(prec=40):
        exact = [Decimal(v).ln() for v in x.tolist()]
        ulps = [abs(Decimal(a) - b) / Decimal(math.ulp(a)) for a, b in zip(even_log(x).tolist(), exact, strict=True)]
    assert max(ulps) < 2
    assert even_log(np.array([1.0])) == 0.0


def test_its_bits_are_those_of_other_machines() -> None:
    """A digest of what processors of three kinds and NumPy 1.26 and 2.4 gave."""
    assert [x.hex() for x in even_log(np.array([2.0, 3.0, 39.5, 1e5 + 0.5])).tolist()] == BITS


BITS = ["0x1.62e42fefa39efp-1", "0x1.193ea7aad030bp+0", "0x1.d691053a0d46ap+1", "0x1.7069ed2683b25p+3"]


def test_points_do_not_rest_on_the_logarithm_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    places = np.arange(5000)
    axis = Axis(levels=5000, log_low=1)
    before = axis.centre(places)
    real = np.log
    monkeypatch.setattr(np, "log", lambda x, *args, **kwargs: np.nextafter(real(x, *args, **kwargs), np.inf))
    again = Axis(levels=5000, log_low=1)
    assert (again.centre(places) == before).all()
    assert (again.index(before) == places).all()


@pytest.mark.parametrize("method", ["random", "gp-ei"])
def test_a_run_of_another_machine_goes_on_and_says_so_once(method: str, tmp_path: Path) -> None:
    of_this_many(rg.Optimizer(SPACE, method=method, seed=0, budget=20), 12).save(tmp_path / "run.npz")
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\nimport warnings\nwarnings.simplefilter('error')\n"
        f"import regretless as rg\nopt = rg.Optimizer.load({str(tmp_path / 'run.npz')!r})\n"
        "print(opt.trials[5].params)\ntry: opt.ask()\nexcept RuntimeWarning as words: print(words)\n"
    )
    plain = {"NPY_DISABLE_CPU_FEATURES": " ".join(np.show_config(mode="dicts")["SIMD Extensions"]["found"])}
    found = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | plain, capture_output=True, text=True, timeout=200
    )
    assert found.returncode == 0, found.stderr
    assert "from what was recorded" in found.stdout or not plain["NPY_DISABLE_CPU_FEATURES"]


def test_what_was_written_elsewhere_is_read_here(tmp_path: Path) -> None:
    """The first file says that another machine wrote it; the points lie an ulp beside those of this one."""
    from regretless.basics.statefile import write_state
    from regretless.files.checkpoint import Checkpoint, read_run

    opt = of_this_many(rg.Optimizer(SPACE, method="random", seed=0), 9)
    opt.save(tmp_path / "here.npz")
    state, _ = read_run(tmp_path / "here.npz")
    there = {**state, "unit": np.nextafter(state["unit"], 0.5), "record": {**state["record"], "machine": "a Cray-1"}}
    write_state(tmp_path / "there.npz", there)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # reading alone says nothing
        read = rg.Optimizer.load(tmp_path / "there.npz")
    assert [t.params for t in read.trials] == [t.params for t in opt.trials]
    file = Checkpoint(tmp_path / "there.npz")
    file.go_on_from(read.book)
    with pytest.warns(RuntimeWarning, match="begun on another machine .a Cray-1. and goes on here"):
        trial = read.ask()
    assert trial.params == opt.ask().params
    read.save(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rg.Optimizer.load(tmp_path / "there.npz").ask()

    write_state(tmp_path / "edited.npz", {**state, "unit": np.nextafter(state["unit"], 0.5)})
    with pytest.raises(ValueError, match="its unit cannot be taken as written"):
        rg.Optimizer.load(tmp_path / "edited.npz")


def test_a_machine_names_its_versions() -> None:
    assert f"numpy {np.__version__}" in machine()
