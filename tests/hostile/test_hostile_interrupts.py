"""The same with methods that have a model: hundreds of thousands of lines, of which some of every kind are tried."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from interrupts import KINDS, failures


@pytest.mark.hostile
@pytest.mark.parametrize("method", ["random", "gp-ei", "auto"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_leaves_nothing_half_done(kind: str, method: str, tmp_path: Path) -> None:
    if method == "random":
        assert failures(kind, method, tmp_path, itertools.count(1)) == []
        return
    first, later = range(1, 120), (int(120 * 1.07**k) for k in range(100))
    assert failures(kind, method, tmp_path, iter([*first, *later])) == []
