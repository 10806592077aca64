"""One BLAS thread for every test, because results and timings must not depend on the number of cores; and the folder of
the data sets, where a checkout has one beside it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from hypothesis import settings

settings.register_profile("busy", deadline=None)  # a machine under test may be busy
settings.load_profile("busy")

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

DATA = Path(__file__).parents[2] / "shared" / "data"
if DATA.is_dir():
    os.environ.setdefault("REGRETLESS_DATA", str(DATA))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests that look at pages."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    with Browser() as opened:
        yield opened


@pytest.fixture(autouse=True)
def safe_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command keeps modules of the user's folder away from its workers by a variable; it must not reach other
    tests."""
    monkeypatch.setenv("PYTHONSAFEPATH", "")
