"""A thousand kills: whoever dies, and whenever, nothing is lost, doubled or hung, and with one worker the points are
those of a run that nobody disturbed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import bounded
from sizes import KINDS, count, long_only, sizes

KILLING = Path(__file__).with_name("killing.py")


def attacked(door: str, kills: int, folder: Path, url: str = "", seed: int = 0) -> None:
    """Runs the killer, which asserts; six seconds for a kill are ten times what it takes on an idle machine."""
    output = bounded(KILLING, door, kills, seed, folder, url, seconds=120 + 6 * kills)
    assert json.loads(output)["kills"] == kills


def test_minimize_with_a_checkpoint(tmp_path: Path) -> None:
    attacked("checkpoint", 5, tmp_path)


@long_only
@pytest.mark.parametrize("part", range(4))
def test_minimize_with_a_checkpoint_by_every_method(part: int, tmp_path: Path) -> None:
    """A run has about ten kills, so each part takes nine methods, from its own seventh of them on."""
    attacked("checkpoint", count(True, 8, 90), tmp_path, seed=7 * part)


@sizes
def test_minimize_with_four_jobs(long: bool, tmp_path: Path) -> None:
    attacked("parallel", count(long, 4, 140), tmp_path)


@pytest.mark.parametrize(("kind", "long"), KINDS)
def test_a_worker_on_a_storage(kind: str, long: bool, tmp_path: Path, storage_url: Callable[[str], str]) -> None:
    attacked("storage", count(long, 3, 60), tmp_path, storage_url(kind))


@long_only
@pytest.mark.parametrize("url", ["sqlite:///FOLDER/s.db", "journal:FOLDER/s.log"])
def test_a_storage_that_is_being_made(url: str, tmp_path: Path) -> None:
    attacked("fresh", count(True, 3, 50), tmp_path, url, seed=1)


@sizes
def test_study_optimize(long: bool, tmp_path: Path) -> None:
    attacked("study", count(long, 4, 60), tmp_path, f"sqlite:///{tmp_path}/s.db")


@sizes
def test_bilevel_studies(long: bool, tmp_path: Path) -> None:
    attacked("bilevel", count(long, 6, 100), tmp_path)


@long_only  # the short form is test_ten_killed_workers_hang_nobody_and_lose_nothing
def test_workers_killed_one_by_one(tmp_path: Path) -> None:
    attacked("workers", count(True, 2, 60), tmp_path, "sqlite:///FOLDER/s.db")


@long_only
def test_workers_on_postgresql_killed_one_by_one(tmp_path: Path, storage_url: Callable[[str], str]) -> None:
    attacked("workers", count(True, 6, 30), tmp_path, storage_url("postgresql"))


@long_only
def test_workers_that_start_as_the_command_starts_them(tmp_path: Path) -> None:
    attacked("spawned", count(True, 4, 20), tmp_path, "sqlite:///FOLDER/s.db")
