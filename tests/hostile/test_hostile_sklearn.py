"""scikit-learn's own tests of its searches, with ours in the place of its randomized one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BY_DESIGN = {
    "test_search_default_iid": "it names the order in which candidates come",
    "test_search_cv_timing": "its first candidate is the first of the list",
    "test_search_cv_results_rank_tie_breaking": "its third candidate is the last of the list",
}
"""Tests of theirs that speak of what another search need not do, and why."""


@pytest.mark.hostile
def test_the_tests_of_scikit_learn_itself() -> None:
    pytest.importorskip("sklearn.callback", reason="the tests are those of scikit-learn 1.9")
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "as_randomized_search", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--pyargs", "sklearn.model_selection.tests.test_search"]
    command += ["-k", " and ".join(f"not {name}" for name in BY_DESIGN)]
    found = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=900)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
    assert int(found.stdout.split(" passed")[0].split()[-1]) > 100
