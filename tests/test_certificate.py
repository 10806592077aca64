"""The words of a certificate: two sentences, each with its own standing."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import regretless as rg
from regretless.certificate import Certificate
from regretless.outlook.bounds import asked_for
from regretless.report.run_data import certificates_of
from regretless.task import Direction, Task

FITTED = Certificate(0.25, 1.0, 1.25, 0.05, "fitted", ("a process",), share=0.0301, share_reason="", probes=98)


@pytest.mark.parametrize(
    ("certificate", "share", "gap"),
    [
        (
            FITTED,
            "With probability 0.95 at most 3.1 % of the search space holds a better setting (98 independent uniform "
            "probes).",
            "By the model, at nominal probability 0.95, the recommended setting is at most 0.25 worse than the best "
            "one (measured, not proven).",
        ),
        (
            replace(FITTED, kind="theory", share=None, share_reason="nobody probed"),
            "How much of the search space is better is not certified because nobody probed.",
            "With probability 0.95 the recommended setting is at most 0.25 worse than the best one (theory, assuming a "
            "process).",
        ),
        (
            replace(FITTED, kind="theory", certain=True, assumptions=("no value lies below 0",), probes=0, share=0.5),
            "At most 50 % of the search space holds a better setting: all others were evaluated.",
            "The recommended setting is at most 0.25 worse than the best one, because no value lies below 0.",
        ),
        (
            Certificate.none("it is too early", 0.1),
            "How much of the search space is better is not certified because no probes were drawn.",
            "How much is left to gain is not certified because it is too early.",
        ),
    ],
)  # fmt: skip
def test_two_plain_sentences(certificate: Certificate, share: str, gap: str) -> None:
    assert (certificate.share_sentence(), certificate.gap_sentence()) == (share, gap)
    small = certificate.share is not None and certificate.share < 0.5
    mentioned = small or certificate.share_reason == "nobody probed"
    assert str(certificate) == (f"{share} {gap}" if mentioned else gap)
    assert certificate.says_something == (small or certificate.certified)


def test_a_gap_that_only_a_limit_bounds_says_so() -> None:
    only = replace(FITTED, kind="theory", certain=True, assumptions=("no value lies below floor=0",), by_limit="floor")
    assert only.gap_sentence() == (
        "Only your floor bounds the gap: the recommended setting is at most 0.25 worse than the best one, because no "
        "value lies below floor=0."
    )


@pytest.mark.parametrize(("direction", "values", "bracket", "words"), [
    ("minimize", [0.02, 3.0], (-0.1, 0.02), "give 0 as the floor"), ("minimize", [-0.02, 3.0], (-0.1, -0.02), ""),
    ("minimize", [0.02, 3.0], (0.01, 0.02), ""), ("maximize", [0.2, 0.97], (0.97, 1.2), "give 1 as the ceiling"),
    ("maximize", [0.2, 1.3], (1.3, 1.5), ""), ("maximize", [0.2, 0.9], (0.9, 0.99), ""),
])  # fmt: skip
def test_a_gap_beyond_all_values_asks_for_a_limit(
    direction: Direction, values: list[float], bracket: tuple[float, float], words: str
) -> None:
    lower, upper = bracket
    found = replace(FITTED, lower=lower, upper=upper, gap=upper - lower)
    space = rg.Space({"x": rg.Float(-3, 9)})
    asks = asked_for(found, Task(space, (direction,)), np.array(values))
    assert asks.endswith(f"{words}.") if words else asks == ""
    assert str(replace(found, asks=asks)).endswith(asks or "(measured, not proven).")
    limit = {"floor": 0.0} if direction == "minimize" else {"ceiling": 1.0}
    assert asked_for(found, Task(space, (direction,), **limit), np.array(values)) == ""


def test_what_is_proven_is_rounded_up() -> None:
    shares = {0.3123: "32", 0.3: "30", 0.07: "7", 0.00996: "1", 0.98001: "99", 1e-7: "1e-05"}
    for share, shown in shares.items():
        assert f"at most {shown} % of" in replace(FITTED, share=share).share_sentence()
    proven = replace(FITTED, kind="theory", gap=5.22611e-7)
    assert "at most 5.227e-07 worse" in proven.gap_sentence()
    assert "at most 1e+300 worse" in replace(proven, gap=1e300).gap_sentence()
    assert "at most 0 worse" in replace(proven, gap=0.0).gap_sentence()
    assert "at most 5.226e-07 worse" in replace(proven, kind="fitted").gap_sentence()


def test_a_certificate_is_plain_values() -> None:
    for certificate in (FITTED, Certificate.none("it is too early", 0.1)):
        said = json.loads(json.dumps(certificate.to_json(), allow_nan=False))
        assert said["share"] == certificate.share
        assert said["gap"] == (certificate.gap if math.isfinite(certificate.gap) else None)
        assert said["text"] == str(certificate)


def test_known_tops_bound_a_maximisation() -> None:
    assert FITTED.below(1.1, None, "why").upper == 1.1
    assert FITTED.below(1.1, None, "why").gap == pytest.approx(0.1)
    assert FITTED.below(2.0, None, "why") == FITTED
    assert FITTED.below(1.1, 1.0, "why").kind == "theory"
    assert FITTED.below(2.0, 1.0, "why").kind == "fitted"
    none = Certificate.none("it is too early", 0.1)
    assert none.below(2.0, None, "why") == none  # a noisy value proves nothing
    assert none.below(2.0, 1.5, "why").gap == 0.5


def test_the_page_draws_both_over_the_run(tmp_path) -> None:
    space = {"x": rg.Float(-5.1, 10.2), "lr": rg.Float(1e-3, 2.0, log=True)}
    result = rg.minimize(
        lambda x, lr: (x - 3) ** 2 + lr, space, trials=20, seed=0, method="gp-ei", probes=0.5, floor=-1, progress=False
    )  # fmt: skip
    sizes, found = certificates_of(result.optimizer, result.trials)
    assert sizes[-1] == 20
    assert found[-1] == result.certificate
    shares = [c.share for c in found if c.share is not None]
    assert shares == sorted(shares, reverse=True)
    page = result.report(tmp_path / "page.html").read_text()
    for words in ("The certificate over the run", "share of the space", "certified gap"):
        assert words in page


def test_a_share_of_all_is_not_certified() -> None:
    """Under noise four of five probes may be better; "at most 100 %" would say nothing."""
    opt = rg.Optimizer({"x": rg.Float(3, 8), "n": rg.Int(1, 40)}, method="gp-ei", seed=0, probes=1.0)
    for value in (0.0, 0.7, 1.0, 1.2, 1.1):
        opt.tell(opt.ask(), value, var=1.0)
    certificate = opt.certificate
    assert certificate.share is None
    assert certificate.share_reason == "4 of 5 probes may be better"


def test_names_of_constraints_are_told_when_they_are_wrong() -> None:
    opt = rg.Optimizer({"x": rg.Float(3, 8)}, seed=0, constraints=2)
    with pytest.raises(ValueError, match=r"have no names; 2 were announced, got \['a', 'b'\].*constraints=\[\.\.\.\]"):
        opt.tell(opt.ask(), 1.0, constraints={"a": 1.0, "b": 2.0})
    opt = rg.Optimizer({"x": rg.Float(3, 8)}, seed=0, constraints=["a", "c"])
    with pytest.raises(ValueError, match=r"are named \['a', 'c'\], got \['a', 'b'\]"):
        opt.tell(opt.ask(), 1.0, constraints={"a": 1.0, "b": 2.0})


def test_a_result_without_a_feasible_setting_says_so() -> None:
    result = rg.minimize(
        lambda x: rg.Value(x, constraints=[1 + x]), {"x": rg.Float(3, 8)}, trials=6, seed=0, constraints=1,
        method="gp-ei", progress=False,
    )  # fmt: skip
    assert "but the setting breaks a constraint: none was found that keeps them all" in str(result)


def test_probes_that_are_still_to_come_were_asked_for() -> None:
    for probes, words in ((0.2, "no probe was drawn yet"), (0.0, "no probes were asked for")):
        opt = rg.Optimizer({"x": rg.Float(3, 8)}, seed=0, probes=probes)
        opt.tell(opt.ask(), 1.0)
        assert opt.certificate.share_reason.startswith(words)


def test_a_space_that_is_hardly_seen_is_not_certified_by_counting() -> None:
    """Of a range all probes of which failed, and of a million settings ten of which were evaluated, "at most 100 %: all
    others were evaluated" would say nothing, and of the range it would be wrong."""
    opt = rg.Optimizer({"lr": rg.Float(3e-7, 0.2, log=True)}, method="random", seed=0, probes=0.5)
    for trial in opt.ask(6):
        opt.tell(trial, 1.0, failed=trial.number in opt.book.probe_steps)
    assert (opt.certificate.share, opt.certificate.share_reason) == (None, "every probe may be better")
    many = rg.Optimizer({"a": rg.Int(1, 1000), "b": rg.Int(-5, 2995, step=3)}, method="random", seed=0)
    for trial in many.ask(10):
        many.tell(trial, float(trial.params["a"]))
    assert many.certificate.share is None
    assert many.certificate.share_reason.startswith("no probes were asked for")
