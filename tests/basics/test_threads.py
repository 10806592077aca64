"""One BLAS thread inside, what was there before outside: nested, after an error, in several threads, in a forked
child."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - its BLAS must be there before the threads are counted
from threadpoolctl import ThreadpoolController, threadpool_limits

from regretless.basics.threads import OneBlasThread
from regretless.method import Method
from regretless.optimizer import Optimizer


def blas_threads() -> set[int]:
    return {library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers}


@pytest.fixture
def two_threads() -> Iterator[None]:
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("the BLAS of this machine has one thread only")
        yield


def test_one_inside_and_two_again_outside(two_threads: None) -> None:
    with OneBlasThread():
        assert blas_threads() == {1}
        with OneBlasThread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with pytest.raises(ZeroDivisionError), OneBlasThread():
        raise ZeroDivisionError
    assert blas_threads() == {2}


def test_threads_that_leave_in_any_order(two_threads: None) -> None:
    """Somebody who comes while another is inside must not take its one thread for the setting to go back to."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with OneBlasThread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with OneBlasThread():
        thread.start()
        assert inside.wait(10)
    assert blas_threads() == {1}, "the other thread is still inside"
    leave.set()
    thread.join()
    assert blas_threads() == {2}


def in_process(program: str, threads: int) -> str:
    """What a program prints in a process that gives BLAS so many threads."""
    env = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))}
    return subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True, timeout=200
    ).stdout


def test_every_thread_can_come_after_another() -> None:
    """threadpoolctl lets one thread at a time decide; it must be let go."""
    program = (
        "import threading, scipy.linalg\nfrom threadpoolctl import ThreadpoolController\n"
        "from regretless.basics.threads import OneBlasThread\n"
        "def look():\n"
        "    with OneBlasThread(): print({b.num_threads for b in "
        "ThreadpoolController().select(user_api='blas').lib_controllers})\n"
        "look()\nthread = threading.Thread(target=look); thread.start(); thread.join()\nlook()\n"
    )
    assert in_process(program, 2).split() == ["{1}"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_not_locked_out(two_threads: None) -> None:
    """Another thread is inside, and holds the lock, when the child is made: it will never leave there."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with OneBlasThread(), OneBlasThread._lock:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        with OneBlasThread():
            ones = blas_threads() == {1}
        os._exit(7 if ones and blas_threads() == {2} else 8)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_interrupt_while_entering_or_leaving_is_no_thread_lost(
    two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace can also raise where the lock is given back, which a signal cannot: so the lock is this test's own."""
    monkeypatch.setattr(OneBlasThread, "_lock", threading.RLock())

    def interrupted(at: int) -> bool:
        """Whether a use of the context has so many lines; it is interrupted at the last of them."""
        lines = 0

        def trace(frame, event, _):
            nonlocal lines
            if not frame.f_code.co_filename.endswith("threads.py"):
                return None
            lines += event == "line"
            if lines == at and event == "line":
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            with OneBlasThread():
                pass
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    at = 1
    while interrupted(at):
        assert blas_threads() == {2}, f"interrupted at line {at} of the context"
        at += 1
    assert at > 10


def test_the_number_of_threads_does_not_change_the_points() -> None:
    """Bit for bit the same proposals in processes that give BLAS one thread and many."""
    program = (
        "import numpy as np\nfrom regretless.optimizer import Optimizer\n"
        "opt = Optimizer([(0.0, 1.0)] * 6, method='gp-ucb', seed=0)\n"
        "for x in np.random.default_rng(0).random((150, 6)): opt.tell(opt.adopt(x), float(np.sin(9 * x).sum()))\n"
        "print([opt.ask().params for _ in range(3)])\n"
    )
    assert in_process(program, 1) == in_process(program, 4)


def test_an_optimizer_asks_on_one_thread(two_threads: None) -> None:
    seen: list[set[int]] = []

    class Watching(Method):
        """Notes how many threads there are when it proposes and when it learns."""

        def propose(self, history, cube, rng):
            seen.append(blas_threads())
            self._catch_up(history)
            return rng.random(cube.dim)

        def _update(self, history, first):
            seen.append(blas_threads())

    optimizer = Optimizer([(0.0, 1.0)] * 2, method=Watching, seed=0)
    optimizer.tell(optimizer.ask(), float(np.pi))
    optimizer.ask()
    assert seen == [{1}, {1}, {1}]
    assert blas_threads() == {2}
