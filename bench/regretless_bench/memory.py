"""The memory a process has needed, counted from its own start."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_megabytes() -> float:
    """The most memory this program ever held. Linux's VmHWM counts from its start; `getrusage` may carry over its
    parent's peak."""
    if STATUS.is_file():
        line = next(
            line
            for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines()
            if line.startswith("VmHWM")
        )
        return int(line.split()[1]) / 1024
    import resource  # not on Windows

    unit = 1024**2 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
