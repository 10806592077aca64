"""The catalogue of data sets: checks, and fetching from a server on this machine."""

import gzip
import http.server
import threading
from dataclasses import replace

import pytest

from regretless.problems import catalogue


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
    good = catalogue.DataSet("toy", {"a.gz": catalogue.checksum(served / "a.gz")}, "here", "tests", f"http://127.0.0.1:{server.server_port}/")
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
