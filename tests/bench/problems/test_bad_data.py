"""Files of data sets that are missing, cut off or hold something else: a sentence names the file and a remedy."""

import argparse
import gzip
import io
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from regretless_bench.claims import experiment_options, stored
from regretless_bench.problems import reviews, tabular, uci_hpo
from regretless_bench.problems.catalogue import DATA_SETS
from regretless_bench.problems.data import BadDataError, read_idx, whole_data

READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "mnist": (
        "train-images-idx3-ubyte.gz",
        lambda folder: read_idx(Path(folder, "mnist", "train-images-idx3-ubyte.gz")),
    ),
    "uci": ("australian.csv.gz", lambda folder: uci_hpo.table("australian", folder)),
    "amazon_reviews_hierarchical": ("reviews.csv.gz", reviews.corpus),
    "hpo_tables": ("nasbench201.npz", lambda folder: tabular.nasbench201(data=folder)),
}
"""Data set -> a file of it and what reads it from the folder above."""
IMAGES = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (3, 4, 5)) + bytes(range(60))


def table(text: str) -> bytes:
    return gzip.compress(text.encode())


def arrays(**stored: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **stored)
    return file.getvalue()


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name / READERS[name][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


GOOD = {
    "mnist": gzip.compress(IMAGES),
    "uci": table("id,a,b,class\n1,2,3,0\n2,5,4,1\n"),
    "amazon_reviews_hierarchical": table("Text,Cat1,Cat2,Cat3\ngood dog food,a,b,c\n"),
    "hpo_tables": arrays(param_names=np.array(["op"]), cifar10=np.zeros((2, 1))),
}
WRONG = {
    "mnist": [(gzip.compress(b"words"), "no IDX file"), (gzip.compress(IMAGES[:40]), "does not hold")],
    "uci": [
        (table("a,b\n1,2\n"), "no column 'class'; it has a, b"),
        (table("a,class\n1,2\n3\n"), "row 3 has another number of cells"),
        (table("a,class\nyes,1\n"), "could not convert string to float"),
        (table("a,class\n"), "no rows"),
    ],
    "amazon_reviews_hierarchical": [(table("Text,Cat1,Cat2\na,b,c\n"), "no column 'Cat3'")],
    "hpo_tables": [(GOOD["hpo_tables"], "no table 'cifar100'"), (arrays(), "no table 'param_names'")],
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_cut_off_is_named_with_a_remedy(name: str, tmp_path: Path) -> None:
    content = GOOD[name]
    for share in (0.0, 0.3, 0.9):
        path = put(tmp_path / str(share), name, content[: int(share * len(content))])
        with pytest.raises(BadDataError, match=r"is damaged|no IDX file|no column|does not hold") as caught:
            READERS[name][1](str(tmp_path / str(share)))
        assert str(path) in str(caught.value)
        assert "brings it back" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [pytest.param(n, *case, id=f"{n}-{case[1]}") for n, cases in WRONG.items() for case in cases],
)
def test_a_file_of_something_else_says_what_is_missing(name: str, content: bytes, why: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, content)
    with pytest.raises(BadDataError, match=why) as caught:
        READERS[name][1](str(tmp_path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_a_missing_file_and_a_missing_folder_are_different_sentences(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not there" if name != "mnist" else "is missing"):
        READERS[name][1](str(tmp_path))
    (tmp_path / "half" / name).mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=f"{READERS[name][0]} is missing: the data set '{name}' is not whole"):
        READERS[name][1](str(tmp_path / "half"))


def test_good_files_are_read(tmp_path: Path) -> None:
    for name in ("mnist", "uci", "amazon_reviews_hierarchical"):
        put(tmp_path, name, GOOD[name])
    assert READERS["mnist"][1](str(tmp_path)).shape == (3, 4, 5)
    X, y = READERS["uci"][1](str(tmp_path))
    assert X.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert y.tolist() == [0.0, 1.0]
    counts, paths = READERS["amazon_reviews_hierarchical"][1](str(tmp_path))
    assert counts.sum() > 0
    assert paths.shape == (1, 3)


def test_an_experiment_ends_with_one_line_before_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(**data: str) -> argparse.Namespace:
        words = ["--out", str(tmp_path / "out"), "--data", str(tmp_path)]
        return experiment_options(argparse.ArgumentParser(prog="fig"), "runs/x", words=words, **data)  # type: ignore[arg-type]

    monkeypatch.setenv("REGRETLESS_DATA", "")
    with pytest.raises(SystemExit, match="fig: the data set 'uci' is not there"):
        start(data="uci")
    assert start(beside="uci").seeds == 5
    for file in DATA_SETS["uci"].files:
        path = tmp_path / "uci" / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(GOOD["uci"])
    assert start(data="uci").seeds == 5  # other contents than the catalogue's, but whole
    path.write_bytes(GOOD["uci"][:-10])
    for option in ("data", "beside"):
        with pytest.raises(SystemExit, match=f"fig: .*{path.name} is damaged"):
            start(**{option: "uci"})
    path.unlink()
    with pytest.raises(SystemExit, match=f"{path.name} is missing"):
        start(data="uci")
    shutil.rmtree(tmp_path / "uci")


def idx(*lengths: int) -> bytes:
    """A gzipped IDX file of zeros."""
    head = b"\0\0\x08" + bytes([len(lengths)]) + b"".join(n.to_bytes(4, "big") for n in lengths)
    return gzip.compress(head + bytes(math.prod(lengths)), 1)


@pytest.mark.parametrize(
    ("name", "contents", "why"),
    [
        ("uci", {}, r"australian.csv.gz does not hold what it should \(no column 'class'; it has a, b\)"),
        ("amazon_reviews_hierarchical", {}, "no column 'Text'; it has a, b"),
        ("mnist", {}, "train-images-idx3-ubyte.gz is no IDX file"),
        (
            "mnist",
            {"train-images": idx(100, 28, 28), "train-labels": idx(60_000)},
            r"train-images-idx3-ubyte.gz does not hold what it should \(100 x 28 x 28 bytes, where 60000 x 28 x 28",
        ),
        (
            "mnist",
            {"train-images": idx(60_000, 28, 28), "train-labels": idx(10_000)},
            r"train-labels-idx1-ubyte.gz does not hold what it should \(10000 bytes, where 60000 are wanted\)",
        ),
    ],
    ids=["uci", "reviews", "mnist", "mnist-images", "mnist-labels"],
)
def test_whole_files_of_something_else_are_found_before_the_run(
    name: str, contents: dict[str, bytes], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that can be read to its end may hold another table, or images that are not those of the labels."""
    for file in DATA_SETS[name].files:
        path = tmp_path / name / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(contents.get(file.partition("-idx")[0], table("a,b\n1,2\n")))
    monkeypatch.setenv("REGRETLESS_DATA", "")
    words = ["--out", str(tmp_path / "out"), "--data", str(tmp_path)]
    with pytest.raises(SystemExit, match=f"fig: .*{why}") as caught:
        experiment_options(argparse.ArgumentParser(prog="fig"), "runs/x", words=words, data=name)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_damaged_array_file_is_found_before_the_run(tmp_path: Path) -> None:
    for file in DATA_SETS["hpo_tables"].files:
        path = tmp_path / "hpo_tables" / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(GOOD["hpo_tables"])
    assert whole_data("hpo_tables", tmp_path) == path.parent
    path.write_bytes(GOOD["hpo_tables"][:-30])
    with pytest.raises(BadDataError, match=f"{path.name} is damaged"):
        whole_data("hpo_tables", tmp_path)


def test_a_damaged_record_is_named_and_the_others_stay(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.json", tmp_path / "b.json"
    good.write_text('{"x": 1}')
    bad.write_text('{"x": ')
    assert stored([good, tmp_path / "none.json"]) == [{"x": 1}]
    for text in ('{"x": ', "[1]"):
        bad.write_text(text)
        with pytest.raises(SystemExit, match=r"b.json is no record .*; delete it, and the same command makes it again"):
            stored([good, bad])
    assert good.read_text() == '{"x": 1}'
