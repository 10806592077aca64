"""Random programs of all kinds, interrupted and whole, are equal bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import count

EACH = count(True, 7, 200)
"""How many programs a part has; there are ten parts, two thousand programs in all."""


@pytest.mark.hostile
@pytest.mark.parametrize("part", range(10))
def test_random_programs_are_interrupted(part: int) -> None:
    command = [sys.executable, str(Path(__file__).parent / "programs.py"), str(part * EACH), str((part + 1) * EACH)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"ok": EACH}, done.stdout


def test_a_program_of_each_kind_is_interrupted() -> None:
    """Of each that needs no server."""
    command = [sys.executable, str(Path(__file__).parent / "programs.py"), "0", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"ok": 7}, done.stdout
