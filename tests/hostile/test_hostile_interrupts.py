"""The same with methods that have a model: hundreds of thousands of lines, of which some of every kind are tried."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from interrupts import KINDS, failures

SHORT = ("ask", "ask 3", "tell", "grow")
"""The kinds of calls in which methods differ."""


@pytest.mark.hostile
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_at_every_line_leaves_nothing_half_done(kind: str, tmp_path: Path) -> None:
    assert failures(kind, "random", tmp_path, itertools.count(1)) == []


@pytest.mark.hostile
@pytest.mark.filterwarnings("ignore:GP-ThreDS in")
@pytest.mark.parametrize("method", ["gp-ei", "auto", "cma-es", "turbo", "gp-threds"])
@pytest.mark.parametrize("kind", SHORT)
def test_an_interrupt_leaves_nothing_half_done(kind: str, method: str, tmp_path: Path) -> None:
    """The first lines, and then one in ten and fewer: the first fit of a model takes 24,000."""
    first, later = range(1, 40), (int(40 * 1.1**k) for k in range(80))
    assert failures(kind, method, tmp_path, iter([*first, *later])) == []
