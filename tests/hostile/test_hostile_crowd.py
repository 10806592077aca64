"""Crowds on one study: however many work at once, and who is killed, no point is completed twice; the study ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import bounded
from sizes import KINDS, count, long_only

CROWDING = Path(__file__).with_name("crowding.py")


def crowded(url: str, space: str, workers: int, trials: int, kills: int, seconds: float = 300) -> None:
    found = json.loads(bounded(CROWDING, url, space, workers, trials, kills, seconds=seconds))
    assert found["kills"] == kills
    assert found["complete"] >= trials - kills


@long_only
@pytest.mark.parametrize("space", ["log and offset", "mixed"])
def test_64_workers_on_postgresql_of_whom_ten_are_killed(space: str, storage_url: Callable[[str], str]) -> None:
    crowded(storage_url("postgresql"), space, 64, 256, 10, seconds=800)


@pytest.mark.parametrize(("kind", "long"), KINDS)
def test_crowds_on_awkward_spaces(kind: str, long: bool, storage_url: Callable[[str], str], tmp_path: Path) -> None:
    """The short form takes one space and four workers; the long form all of them, and 1, 4 and 16."""
    spaces = ["log and offset", "steps", "whole", "mixed"]
    for number, workers in enumerate((1, 4, 16) if long else (4,)):
        for i, space in enumerate(spaces[: count(long, 1, 4)]):
            url = storage_url(kind)
            if kind != "postgresql":
                url = url.replace("study.", f"study-{number}-{i}.")
            crowded(url, space, workers, 4 * max(workers, 4), workers // 4)
