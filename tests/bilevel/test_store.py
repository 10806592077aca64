"""Where a study lives: states by name within bounds, and a journal that survives kills and refuses damage."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from regretless.basics.statefile import StateError
from regretless.bilevel.store import Journal, Store


def test_a_store_on_disk_and_one_in_memory_agree(tmp_path: Path) -> None:
    sizes = []
    for store in (Store(study="a"), Store(tmp_path, study="a")):
        store.put("run", {"old": np.zeros(2)}, {"steps": 1})
        store.put("run", {"new": np.ones(3)}, {"steps": 2})
        tree, note = store.read("run")
        assert list(tree) == ["new"]
        assert np.array_equal(tree["new"], np.ones(3))
        assert note == {"steps": 2}
        assert "run" in store
        sizes.append(store.sizes)
        store.drop("run")
        store.drop("run")
        with pytest.raises(StateError, match="missing"):
            store.read("run")
    assert sizes[0] == sizes[1], "which states are dropped depends on their sizes"
    assert list(tmp_path.iterdir()) == []


def test_a_store_opens_what_another_process_left(tmp_path: Path) -> None:
    Store(tmp_path).put("run", {"w": np.ones(2)})
    (tmp_path / ".run.npz.123.tmp").write_bytes(b"half a file")
    again = Store(tmp_path)
    assert list(again.sizes) == ["run"]
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    (tmp_path / "run.npz").write_bytes(b"damaged")
    with pytest.raises(StateError, match=r"run\.npz: its digest is wrong, so it is damaged"):
        again.read("run")
    (tmp_path / "run.npz").unlink()
    with pytest.raises(StateError, match=r"run\.npz"):
        again.read("run")


def test_the_state_of_another_run_or_study_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path, study="ours")
    store.put("a", 1)
    store.put("b", 2)
    (tmp_path / "a.npz").write_bytes((tmp_path / "b.npz").read_bytes())
    with pytest.raises(StateError, match="another run or study"):
        store.read("a")
    with pytest.raises(StateError, match="another run or study"):
        Store(tmp_path, study="theirs").read("b")


def test_surplus_names_the_first_that_must_go() -> None:
    store = Store(most=2)
    for name in "abcd":
        store.put(name, {})
    assert store.surplus(["c", "a", "b"]) == ["c", "a"]
    assert store.surplus(["c", "a", "b"], beside=["d"]) == ["c"]
    assert store.surplus(["c"]) == ["c"]
    size = store.sizes["a"]
    small = Store(most_bytes=2 * size)
    for name in "abc":
        small.put(name, {})
    assert small.surplus(["b", "c"]) == ["b"]


# ---------------------------------------------------------------- the journal


def journal_of(path: Path, n: int = 4) -> list[bytes]:
    journal = Journal(path, "study")
    for i in range(n):
        journal.append({"n": i, "text": 'a "quoted" line, "checksum": "x'})
    return path.read_bytes().splitlines(keepends=True)


def test_a_line_cut_off_by_a_kill_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = journal_of(path)
    for cut in range(len(lines[3])):
        path.write_bytes(b"".join(lines[:3]) + lines[3][:cut])
        again = Journal(path, "study")
        assert [line["n"] for line in again.lines] == [0, 1, 2]
        again.append({"n": 3, "text": 'a "quoted" line, "checksum": "x'})
        assert path.read_bytes() == b"".join(lines)


def test_every_line_is_json(tmp_path: Path) -> None:
    lines = journal_of(tmp_path / "journal.jsonl")
    assert [json.loads(line)["line"]["n"] for line in lines] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("order", "line"), [([0, 1, 1, 2, 3], 3), ([0, 2, 3], 2), ([0, 2, 1, 3], 2), ([1, 2, 3], 1)], ids=str
)
def test_doubled_missing_and_swapped_lines_are_refused(tmp_path: Path, order: list[int], line: int) -> None:
    path = tmp_path / "journal.jsonl"
    lines = journal_of(path)
    path.write_bytes(b"".join(lines[i] for i in order))
    with pytest.raises(StateError, match=rf"journal\.jsonl, line {line}, does not follow"):
        Journal(path, "study")


def test_the_journal_of_another_study_is_refused(tmp_path: Path) -> None:
    journal_of(tmp_path / "journal.jsonl")
    with pytest.raises(StateError, match="another study"):
        Journal(tmp_path / "journal.jsonl", "theirs")


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    whole = b"".join(journal_of(path))
    rng = random.Random(0)
    for at in range(len(whole) - 1):  # without the last newline the line looks cut off
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        with pytest.raises(StateError, match=r"journal\.jsonl, line \d"):
            Journal(path, "study")
