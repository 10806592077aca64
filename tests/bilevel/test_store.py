"""States without pickles: round trips, damage, bounds, and lines cut off by a kill."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

from regretless.bilevel.store import Journal, StateError, Store, pack, unpack

TREE = {
    "weights": [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 4)), np.array(3.5)],
    "optimiser": {0: {"momentum": torch.arange(4.0)}, 1: {"step": torch.tensor(7)}},
    "half": torch.tensor([1.5, -2.25], dtype=torch.bfloat16),
    "flags": (True, None, "text", 10**30, -0.0, math.inf, np.int16(-3), np.array([True, False])),
}


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and repr(a) == repr(b)


def test_a_tree_comes_back_as_it_was() -> None:
    tree, note = unpack(pack(TREE, {"steps": 3}))
    assert same(TREE, tree)
    assert note == {"steps": 3}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda children: (
            st.lists(children) | st.dictionaries(st.text() | st.integers(), children) | st.tuples(children, children)
        ),
        max_leaves=20,
    )
)
def test_any_plain_tree_comes_back(tree: object) -> None:
    assert same(tree, unpack(pack(tree))[0])


def test_other_readers_of_the_format_read_it_too() -> None:
    data = pack({"w": np.arange(6.0).reshape(2, 3), "n": np.array([1, 2], dtype=np.int64)})
    read = safetensors.numpy.load(data)
    assert np.array_equal(read["a0"], np.arange(6.0).reshape(2, 3))
    assert np.array_equal(read["a1"], [1, 2])


def test_what_only_a_pickle_could_hold_is_refused_by_its_path() -> None:
    with pytest.raises(StateError, match=r"state\['model'\]\[1\]: a object"):
        pack({"model": [1, object()]})
    with pytest.raises(StateError, match="arrays of object"):
        pack({"x": np.array([object()])})
    with pytest.raises(StateError, match="key"):
        pack({(1, 2): 3})


def test_damage_is_noticed_wherever_a_file_is_cut() -> None:
    data = pack(TREE)
    for cut in range(len(data)):
        with pytest.raises(StateError):
            unpack(data[:cut])
    with pytest.raises(StateError):
        unpack(data[:8] + data[8:].replace(b'"F32"', b'"F99"', 1))


def test_a_store_on_disk_and_one_in_memory_agree(tmp_path: Path) -> None:
    for store in (Store(), Store(tmp_path)):
        store.put("a", TREE, {"steps": 1})
        store.put("a", {"new": np.ones(3)}, {"steps": 2})
        assert same(store.read("a"), ({"new": np.ones(3)}, {"steps": 2}))
        assert "a" in store
        store.drop("a")
        store.drop("a")
        with pytest.raises(KeyError):
            store.read("a")
    assert list(tmp_path.iterdir()) == []


def test_a_store_opens_what_another_process_left(tmp_path: Path) -> None:
    Store(tmp_path).put("run", {"w": np.ones(2)})
    (tmp_path / ".run.safetensors.123.tmp").write_bytes(b"half a file")
    again = Store(tmp_path)
    assert list(again.sizes) == ["run"]
    assert [p.name for p in tmp_path.iterdir()] == ["run.safetensors"]
    (tmp_path / "run.safetensors").write_bytes(b"damaged")
    with pytest.raises(StateError, match=r"run\.safetensors"):
        again.read("run")


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


def test_a_line_cut_off_by_a_kill_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append({"n": 1})
    journal.append({"n": 2})
    with open(path, "ab") as file:
        file.write(b'{"n": 3, "half')
    again = Journal(path)
    assert again.lines == [{"n": 1}, {"n": 2}]
    again.append({"n": 3})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"n": 1}, {"n": 2}, {"n": 3}]
    path.write_text('{"n": 1}\nnonsense\n{"n": 2}\n')
    with pytest.raises(StateError, match="line 2"):
        Journal(path)
