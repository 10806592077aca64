"""Checks of options: the sentences say what is right, and the ends of intervals are meant as they are written."""

import math

import numpy as np
import pytest

from regretless.basics.options import in_range, one_of, whole_number


def test_what_is_right_passes() -> None:
    one_of(("ei", "ucb"), acquisition="ei", other="ucb")
    in_range("[0, 1) or None", a=0, b=0.999, c=np.float32(0.5), d=None)
    in_range("(0, inf]", seconds=math.inf, ttl=1e-300)
    in_range("(0, inf) or None or 'doubling'", norm="doubling", other=None)
    whole_number(trials=1, workers=np.int64(7))
    whole_number(0, also=(None, math.inf), seed=0, budget=None, failures=math.inf)
    whole_number(least=3)  # an option may be called as a parameter of the check


@pytest.mark.parametrize("value", [-1e-300, 1, 2.5, math.nan, math.inf, True, "0.5", [0.5], 10**400, 1j, None])
def test_numbers_outside_an_interval_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"^additive must be a number in \[0, 1\), got "):
        in_range("[0, 1)", additive=value)


def test_ends_of_intervals() -> None:
    for interval, value in (("(0, 1)", 0), ("(0, 1)", 1), ("[0, 1)", 1), ("(0, 1]", 0), ("[0, inf)", math.inf)):
        with pytest.raises(ValueError, match="must be a number in"):
            in_range(interval, share=value)


@pytest.mark.parametrize("value", [0, -3, 1.0, True, None, "2", math.inf])
def test_what_is_no_count_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"^trials must be a whole number of at least 1, got "):
        whole_number(trials=value)


def test_sentences_name_what_is_allowed_beside_numbers() -> None:
    with pytest.raises(
        ValueError, match=r"^patience must be a whole number of at least 1 or None or 'formula', got 0$"
    ):
        whole_number(also=(None, "formula"), patience=0)
    with pytest.raises(ValueError, match=r"^norm must be a number in \(0, inf\) or 'doubling', got 'double'$"):
        in_range("(0, inf) or 'doubling'", norm="double")
    with pytest.raises(ValueError, match=r"^preset must be one of 'default', 'paper', got 'practical'$"):
        one_of(("default", "paper"), preset="practical")
