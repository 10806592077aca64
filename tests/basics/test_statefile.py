"""Trees of arrays in files: they come back as they were, damage is noticed, and what needs a pickle is refused."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regretless.basics.statefile import StateError, pack, read_state, sealed, unpack, write_state

TREE = {
    "weights": [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 4)), np.array(3.5), np.array(["a", "bc"])],
    "optimiser": {0: {"momentum": torch.arange(4.0)}, 1: {"step": torch.tensor(7)}},
    "half": torch.tensor([1.5, -2.25], dtype=torch.bfloat16),
    "flags": (True, None, "text", 10**30, -0.0, math.inf, np.int16(-3), np.float64(0.1), np.array([True, False])),
    "keys": {"$array": 1, None: 2, 1.5: 3, True: {}},
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


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    assert same(TREE, unpack(pack(TREE)))
    write_state(tmp_path / "state", TREE)
    assert same(TREE, read_state(tmp_path / "state"))


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
    assert same(tree, unpack(pack(tree)))


def test_numpy_reads_the_file_too(tmp_path: Path) -> None:
    write_state(tmp_path / "state.npz", {"w": np.arange(6.0).reshape(2, 3)})
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        assert np.array_equal(file["array0"], np.arange(6.0).reshape(2, 3))


def test_what_only_a_pickle_could_hold_is_refused_by_its_path() -> None:
    with pytest.raises(StateError, match="'/model/1' is a object"):
        pack({"model": [1, object()]})
    with pytest.raises(StateError, match="'/x' is an array of objects"):
        pack({"x": np.array([object()])})
    with pytest.raises(StateError, match=r"key \(1, 2\)"):
        pack({(1, 2): 3})


def test_damage_is_noticed_wherever_a_file_is_cut_or_changed() -> None:
    data = pack(TREE)
    for at in range(len(data)):
        with pytest.raises(StateError):
            unpack(data[:at])
        with pytest.raises(StateError):
            unpack(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


def test_a_digest_alone_does_not_make_a_state() -> None:
    with pytest.raises(StateError, match="BadZipFile"):
        unpack(sealed(b"nonsense"))


def test_a_state_file_holds_a_table(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(pack([1, 2]))
    with pytest.raises(StateError, match="it holds no table"):
        read_state(tmp_path / "state")
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path / "other")
