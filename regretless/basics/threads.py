"""One BLAS thread while a method computes.

A method's matrices are small, and several runs usually share a machine. Threads that wait for each other can then make
a proposal twenty times slower, so proposals are computed with one thread. One thread also makes a proposal independent
of the number of cores, because BLAS adds in another order when it splits a sum. The user's objective keeps its threads.
"""

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any


class OneBlasThread:
    """A context in which BLAS uses one thread; what was set before holds again outside.

    It costs a microsecond or two where BLAS has one thread anyway, about ten elsewhere. threadpoolctl finds the library
    (OpenBLAS, MKL, BLIS) and keeps its rules: where the setting is one for the whole process, the thread that came
    first decides for those that come while it is inside. torch's own pool is left alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entered = threading.local()
        self._blas: Any = None

    def __enter__(self) -> None:
        limit = None
        with self._lock:
            if self._blas is None:
                self._blas = _blas_controller()
            for library in self._blas.lib_controllers:
                if (library.num_threads or 1) > 1:
                    limit = self._blas.limit(limits=1).__enter__()
                    break
        try:
            self._entered.limits.append(limit)
        except AttributeError:  # the first time in this thread
            self._entered.limits = [limit]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        limit = self._entered.limits.pop()
        if limit is not None:
            with self._lock:
                limit.__exit__(kind, error, trace)

    def renew_lock(self) -> None:
        """For a forked child: the lock of a parent's thread would never be given back there."""
        self._lock = threading.Lock()


def _blas_controller() -> Any:
    """The BLAS libraries of this process; NumPy's and SciPy's are loaded first, so that none comes later."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


one_blas_thread = OneBlasThread()
"""The context of this process."""
_as_it_is: AbstractContextManager[None] = nullcontext()


def threads_for(model_free: bool) -> AbstractContextManager[None]:
    """The context a method's asks and tells run in: those without a model have no linear algebra and need none."""
    return _as_it_is if model_free else one_blas_thread


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.renew_lock)
