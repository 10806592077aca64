"""One BLAS thread while a method computes.

A method's matrices are small, and several runs usually share a machine. Threads that wait for each other can then make
a proposal twenty times slower, so proposals are computed with one thread. One thread also makes a proposal independent
of the number of cores, because BLAS adds in another order when it splits a sum. The user's objective keeps its threads.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, TypeAlias

Limits: TypeAlias = list[tuple[Any, int]]
"""Libraries that were set to one thread, and how many each had."""


class OneBlasThread:
    """A context in which BLAS uses one thread; what was set before holds again once nobody is inside.

    Most libraries have one setting for the whole process. So those inside are counted: whoever finds several threads
    sets one, and the last to leave sets back. A library built on OpenMP has a setting for each thread, which its own
    thread sets back. threadpoolctl finds the libraries (OpenBLAS, MKL, BLIS); torch's own pool is left alone. A context
    is for one use. It costs a few microseconds. Where an interrupt breaks off the entering or the leaving, the context
    leaves when it is dropped.
    """

    _lock = threading.RLock()
    _inside: ClassVar[dict[int, int]] = {}
    """The contexts that were entered and not left, and their threads."""
    _shared: ClassVar[Limits] = []
    """The libraries of which the process has one setting."""
    _blas: ClassVar[Any] = None

    def __init__(self) -> None:
        self._own: Limits = []
        """The libraries of which each thread has a setting."""

    def __enter__(self) -> None:
        with self._lock:
            if OneBlasThread._blas is None:
                OneBlasThread._blas = _blas_controller()
            self._inside[id(self)] = threading.get_ident()
            for library in self._blas.lib_controllers:
                if (threads := library.num_threads or 1) > 1:
                    limits = self._own if library.info().get("threading_layer") == "openmp" else self._shared
                    limits.append((library, threads))
                    _set(library, 1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            _set_back(self._own)
            if self._inside.keys() <= {id(self)}:
                _set_back(self._shared)
            self._inside.pop(id(self), None)  # at last: until then an interrupt leaves it to `__del__`

    def __del__(self) -> None:
        if id(self) in self._inside:
            self.__exit__()

    @classmethod
    def after_fork(cls) -> None:
        """In a forked child only the thread that forked goes on: others neither leave nor give the lock back."""
        cls._lock, thread = threading.RLock(), threading.get_ident()
        cls._inside = {context: owner for context, owner in cls._inside.items() if owner == thread}
        if not cls._inside:
            _set_back(cls._shared)


def _set_back(limits: Limits) -> None:
    while limits:
        library, threads = limits[-1]
        _set(library, threads)
        limits.pop()


def _set(library: Any, threads: int) -> None:
    """Sets the threads of a library from any thread: threadpoolctl 3.8 lets one thread decide until it is cleared."""
    clear = getattr(library, "clear_controlling_thread", lambda *, force: None)
    clear(force=True)
    library.set_num_threads(threads)
    clear(force=True)


def _blas_controller() -> Any:
    """The BLAS libraries of this process; NumPy's and SciPy's are loaded first, so that none comes later."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


_as_it_is: AbstractContextManager[None] = nullcontext()


def threads_for(model_free: bool) -> AbstractContextManager[None]:
    """The context a method's asks and tells run in: those without a model have no linear algebra and need none."""
    return _as_it_is if model_free else OneBlasThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OneBlasThread.after_fork)
