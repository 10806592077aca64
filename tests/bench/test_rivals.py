"""The papers' rivals run as the papers describe them."""

import numpy as np
import pytest
from inside import surrogate_of
from regretless_bench.rivals import IN_TWO_FORMS, RIVALS, as_printed, with_printed

from regretless.models.gp.design import Design


def test_labels() -> None:
    assert with_printed(("gp-ei", "dngo")) == ("gp-ei", "dngo", "gp-ei (paper)")
    new, old = {"f": {"gp-ei (paper)": [], "gp-ei": [], "dngo": []}}, {"f": {"gp-ei": [], "dngo": []}}
    assert as_printed(new, ("gp-ei", "dngo")) == ["gp-ei (paper)", "dngo"]
    assert as_printed(old, ("gp-ei", "dngo")) == ["gp-ei", "dngo"]  # records of earlier versions


@pytest.mark.parametrize("name", [name for name in IN_TWO_FORMS if name != "turbo"])
def test_printed_rivals_are_plain(name) -> None:
    """An SE kernel on the values as observed, and no centre of the cube among the first points, which is the optimum of
    Ackley, Rastrigin and GO-UCB's f3."""
    method = RIVALS[f"{name} (paper)"].build(3, seed=4, budget=60)
    process = surrogate_of(method)
    assert process.kernel.kind == "se"
    assert not process.clip
    assert not process.prior.quadratic
    design = method._design
    assert isinstance(design, Design)
    assert not (np.abs(design.points - 0.5) < 1e-6).all(axis=1).any()
