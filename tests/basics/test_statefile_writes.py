"""State files: whole or not at all, however many write, with the permissions and links of the file they replace."""

import io
import os
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regretless.basics.statefile import DIGEST_BYTES, StateError, check_writable, read_state, sealed, write_state


def test_threads_that_save_one_path_never_tear_it(tmp_path: Path) -> None:
    path, torn = tmp_path / "run.npz", []
    write_state(path, {"who": 0, "numbers": np.zeros(2000)})

    def write(who: int) -> None:
        for _ in range(40):
            write_state(path, {"who": who, "numbers": np.full(2000, float(who))})

    def read() -> None:
        for _ in range(150):
            state = read_state(path)
            if not (state["numbers"] == state["who"]).all():
                torn.append(state["who"])

    threads = [threading.Thread(target=write, args=(i,)) for i in range(1, 5)] + [threading.Thread(target=read)] * 1
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torn == []
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "there" / "real.npz", tmp_path / "link.npz"
    write_state(real, {"a": 1})
    os.chmod(real, 0o600)
    link.symlink_to(real)
    write_state(link, {"a": 2})
    assert link.is_symlink()
    assert read_state(real) == {"a": 2}
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_link_prepared_by_somebody_else_is_not_written_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".run.npz.{os.getpid()}.tmp").symlink_to(victim)
    write_state(tmp_path / "run.npz", {"a": 1})
    assert victim.read_text() == "mine"


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    left = [tmp_path / f".run.npz.{ended.pid}-abc.tmp", tmp_path / f".other.npz.{ended.pid}-abc.tmp"]
    busy = tmp_path / f".run.npz.{os.getpid()}-def.tmp"
    for file in (*left, busy):
        file.touch()
    check_writable(path)
    assert not left[0].exists()
    assert left[1].exists()
    assert busy.exists()


def bomb(path: Path, *, method: int, claimed: tuple[int, ...] | None) -> None:
    """A small file that would fill the memory: zeros that compress well, or a header that claims what is not there."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("json.npy", npy(np.frombuffer(b'{"a": {"$array": "array0"}}', dtype=np.uint8), None))
        archive.writestr("array0.npy", npy(np.zeros(10**6), claimed))
        archive.comment = bytes(2 * DIGEST_BYTES)
    path.write_bytes(sealed(buffer.getvalue()[: -2 * DIGEST_BYTES]))


def npy(array: np.ndarray, claimed: tuple[int, ...] | None) -> bytes:
    stream = io.BytesIO()
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": claimed or array.shape,
    }
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + array.tobytes()


@pytest.mark.parametrize(
    ("method", "claimed", "words"),
    [(zipfile.ZIP_DEFLATED, None, "compressed"), (zipfile.ZIP_STORED, (10**12,), "claims the shape")],
)
def test_files_that_would_fill_the_memory_are_refused(tmp_path: Path, method: int, claimed, words: str) -> None:
    bomb(tmp_path / "bomb", method=method, claimed=claimed)
    with pytest.raises(ValueError, match=words):
        read_state(tmp_path / "bomb")


def test_what_is_no_regular_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    """Reading /dev/zero would never end, and a pipe without a writer would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(StateError, match="it is no regular file"):
            read_state(path)
        with pytest.raises(OSError, match="cannot write: it is no regular file"):
            write_state(path, {"a": 1})
        with pytest.raises(OSError, match="cannot write: it is no regular file"):
            check_writable(path)
    with pytest.raises(IsADirectoryError, match="cannot write: it is a directory"):
        write_state(tmp_path, {"a": 1})
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]
