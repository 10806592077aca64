"""Every public call of an Optimizer happened or did not, wherever Ctrl-C comes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from interrupts import KINDS, failures


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_at_any_line_leaves_nothing_half_done(kind: str, tmp_path: Path) -> None:
    """Every seventh line here; `make test-hostile` tries all of them."""
    assert failures(kind, "random", tmp_path, itertools.count(1, 7)) == []
