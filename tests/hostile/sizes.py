"""How much a hostile test does: a short form for `make test`, and the long form for `make test-hostile`."""

from __future__ import annotations

import os

import pytest

SHARE = float(os.environ.get("REGRETLESS_HOSTILE", "1"))
"""The share of the long form that is run: 0.1 is a tenth of it, for a look at one piece."""

sizes = pytest.mark.parametrize(
    "long", [pytest.param(False, id="short"), pytest.param(True, id="long", marks=pytest.mark.hostile)]
)
"""Runs a test twice: with long=False always, with long=True under the marker `hostile`."""
KINDS = [
    pytest.param("sqlite", False, id="sqlite-short"),
    *(pytest.param(k, True, id=f"{k}-long", marks=pytest.mark.hostile) for k in ("sqlite", "journal", "postgresql")),
]
"""Kinds of storage with long=False or True: the short form takes one of them."""
long_only = pytest.mark.hostile
"""Marks a test that has no short form."""


def count(long: bool, short_form: int, long_form: int) -> int:
    """How often to do something."""
    return max(short_form, round(SHARE * long_form)) if long else short_form
