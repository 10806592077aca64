"""The catalogue of data sets: checks, and fetching from a server on this machine."""

import gzip
import hashlib
import http.server
import threading
from dataclasses import replace

import pytest
from regretless_bench.problems import catalogue
from regretless_bench.problems.data import data_folder


def test_check_tells_missing_changed_and_good_files_apart(tmp_path) -> None:
    assert {state for _, _, state in catalogue.check(tmp_path)} == {"missing"}
    folder = tmp_path / "uci"
    folder.mkdir()
    (folder / "diabetes.csv.gz").write_bytes(gzip.compress(b"other"))
    (folder / "australian.csv.gz").write_bytes(b"no gzip at all")
    states = {name: state for _, name, state in catalogue.check(tmp_path)}
    assert states["diabetes.csv.gz"] == states["australian.csv.gz"] == "differs"


def test_fetch_downloads_checks_and_refuses_what_differs(tmp_path, monkeypatch) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (served / "a.gz").write_bytes(gzip.compress(b"contents"))
    handler = lambda *args: http.server.SimpleHTTPRequestHandler(*args, directory=str(served))  # noqa: E731
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    good = catalogue.DataSet(
        "toy", {"a.gz": catalogue.checksum(served / "a.gz")}, "here", "tests", f"http://127.0.0.1:{server.server_port}/"
    )
    monkeypatch.setitem(catalogue.DATA_SETS, "toy", good)
    assert catalogue.fetch("toy", tmp_path) == [tmp_path / "toy" / "a.gz"]
    monkeypatch.setitem(catalogue.DATA_SETS, "toy", replace(good, files={"a.gz": "0" * 64}))
    with pytest.raises(ValueError, match="checksum differs"):
        catalogue.fetch("toy", tmp_path)
    assert not (tmp_path / "toy" / "a.gz").exists()
    server.shutdown()
    server.server_close()
    with pytest.raises(ValueError, match="cannot fetch"):
        catalogue.fetch("toy", tmp_path)


def test_sets_that_cannot_be_fetched_say_what_to_do(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"make reviews\.csv\.gz from: Kaggle"):
        catalogue.fetch("amazon_reviews_hierarchical", tmp_path)
    with pytest.raises(ValueError, match="unknown data set"):
        catalogue.fetch("nothing", tmp_path)


ORIGINALS = {
    "australian.csv.gz": (" ", "", ("0", "1")),
    "diabetes.csv.gz": (
        ",",
        "% Pima\n@relation diabetes\n@attribute preg real\n@data\n",
        ("tested_negative", "tested_positive"),
    ),
    "breast_cancer_wisconsin_original.csv.gz": (",", "", ("2", "4")),
}


@pytest.mark.parametrize("file", ORIGINALS)
def test_published_tables_become_ours(file) -> None:
    """Our tables turned back into the form in which they are published (separators, classes, question marks) are read
    as ours, to the byte."""
    try:
        folder = data_folder("uci")
    except FileNotFoundError:
        pytest.skip("the UCI tables are not here")
    ours = gzip.decompress((folder / file).read_bytes()).decode()
    separator, head, classes = ORIGINALS[file]
    lines = [line.split(",") for line in ours.splitlines()[1:]]
    theirs = head + "\n".join(
        separator.join([*(cell or "?" for cell in cells), classes[int(last)]]) for *cells, last in lines
    )
    origin = catalogue.DATA_SETS["uci"].origins[file]
    assert catalogue.as_csv(theirs, origin) == ours
    assert hashlib.sha256(ours.encode()).hexdigest() == catalogue.DATA_SETS["uci"].files[file]


def test_a_table_is_made_from_what_is_published(tmp_path, monkeypatch) -> None:
    (tmp_path / "t.data").write_text("1, 2.50 ,?,2\n\n3,4,5,4\n")
    text = "a,b,c,class\n1,2.5,,0\n3,4,5,1\n"
    origin = catalogue.Origin((tmp_path / "t.data").as_uri(), "a,b,c,class", {"2": "0", "4": "1"}, trim=True)
    files = {"t.csv.gz": hashlib.sha256(text.encode()).hexdigest()}
    monkeypatch.setitem(
        catalogue.DATA_SETS, "toy", catalogue.DataSet("toy", files, "here", "tests", origins={"t.csv.gz": origin})
    )
    (path,) = catalogue.fetch("toy", tmp_path)
    assert gzip.decompress(path.read_bytes()).decode() == text
    path.unlink()
    (tmp_path / "t.data").write_text("1,2.5,?,4\n")
    with pytest.raises(ValueError, match=r"t\.data does not give the file expected, t\.csv\.gz"):
        catalogue.fetch("toy", tmp_path)
