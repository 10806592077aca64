"""A process's peak memory is its own."""

import subprocess
import sys

import numpy as np

GROWTH = """
import numpy as np
from regretless_bench.memory import peak_megabytes
before = peak_megabytes()
np.ones(20_000_000)
print(before, peak_megabytes())
"""


def test_the_peak_counts_what_was_freed_and_nothing_of_the_parent() -> None:
    held = np.ones(100_000_000)  # 800 MB in this process
    before, after = map(
        float, subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True).stdout.split()
    )
    assert held[-1] == 1
    assert before < 600
    assert 140 < after - before < 200
