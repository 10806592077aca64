"""`Certificate`: how much of the space can be better, how much regret may be left, or why that is not known."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from typing import Any, Literal

SOUGHT_FRONT = "a setting that would extend the front"
"""What the share speaks of where there are several objectives."""
HALF = 0.5
"""Shares of the space from this one on tell nobody anything, and are not mentioned."""


EXACT = "values hold no noise"
"""What a share supposes of values that show no noise."""


@dataclass(frozen=True)
class Certificate:
    """Two statements about the recommended setting, each with its own standing.

    The share: with probability at least 1 - delta, at most `share` of the search space holds a better setting. It
    rests on `probes` independent uniform draws and on nothing else (`regretless.outlook.probes`); None: not certified,
    and `share_reason` says why.

    The gap: f* - f(recommended) <= gap. `lower` and `upper` bracket the optimal value f*. `kind` is "theory", "fitted"
    or "none". "theory": the bounds follow from stated, known constants, and hold with probability at least 1 - delta
    (`certain`: without any exception). "fitted": the model was fitted to the data; how often the bounds hold was
    measured and is published in the docs. "none": not certified, and `reason` says why. Values are in the caller's
    units; in a minimisation `lower <= f* <= upper` still brackets the optimum.
    """

    gap: float
    lower: float
    upper: float
    delta: float
    kind: Literal["theory", "fitted", "none"]
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    feasible: float | None = None
    """With constraints: the probability that the recommended setting satisfies them; the bounds then speak of settings
    that do."""
    density: float | None = None
    """Of a fitted gap: the values told for each place of the space that knows little of the others. Below 1 some places
    have none, and the bound there is the model's prior alone."""
    certain: bool = False
    share: float | None = None
    share_reason: str = "no probes were drawn"
    probes: int = 0
    sought: str = "a better setting"
    """What the share speaks of."""
    by_limit: str = ""
    """"floor" or "ceiling" where nothing but that of the user bounds the gap."""
    asks: str = ""
    """What the user could say that would make the gap smaller."""
    supposes: str = ""
    """What the share rests on that nobody has promised: that values hold no noise (`noisy=False` promises it), or of
    what kind their noise is (a `noise_bound` needs no kind)."""

    @property
    def certified(self) -> bool:
        """Whether the gap is."""
        return self.kind != "none"

    @classmethod
    def none(cls, reason: str, delta: float) -> Certificate:
        """The honest answer when the model cannot be trusted."""
        return cls(gap=math.inf, lower=-math.inf, upper=math.inf, delta=delta, kind="none", reason=reason)

    def scaled(self, sign: float) -> Certificate:
        """The same statement about sign * f, sign being 1 or -1."""
        return self if sign > 0 else replace(self, lower=-self.upper, upper=-self.lower)

    def below(self, top: float, value: float | None, why: str) -> Certificate:
        """The certificate with an upper limit: no value exceeds `top`, and `why` says how that is known. value: the
        noise-free value of the recommended setting, None where it is not known."""
        if value is not None and (not self.certified or top - value <= self.gap):
            gap = max(top - value, 0.0)
            sure = replace(self, kind="theory", certain=True, assumptions=(why,), reason="")
            return replace(sure, gap=gap, lower=value, upper=value + gap)
        if not self.certified or top >= self.upper:
            return self
        upper = max(top, self.lower)
        return replace(self, upper=upper, gap=upper - self.lower, assumptions=(*self.assumptions, why))

    def for_any_sampler(self, *, maximises: bool, bound: float | None) -> Certificate:
        """The same statement where another sampler than ours may have chosen the settings: a fitted gap is wider, as
        far as a known bound of the values lets it be."""
        # what a fitted gap of another sampler's trials is multiplied by: our methods look where their model is unsure,
        # other samplers do not, and the model is too sure of what they left out. Chosen on Branin, Hartmann, Ackley and
        # Rosenbrock (docs/lab/doors.md)
        widened = 2.0
        if self.kind != "fitted":
            return self
        if maximises:
            upper = min(self.lower + widened * self.gap, math.inf if bound is None else bound)
            lower, gap = self.lower, upper - self.lower
        else:
            lower = max(self.upper - widened * self.gap, -math.inf if bound is None else bound)
            upper, gap = self.upper, self.upper - lower
        why = f"{widened:g} times the gap of a run of ours, because another sampler may have chosen the settings"
        return replace(self, lower=lower, upper=upper, gap=gap, assumptions=(*self.assumptions, why))

    def to_json(self) -> dict[str, Any]:
        """The statements as plain values; infinite numbers stand as None."""
        numbers = {name: getattr(self, name) for name in ("gap", "lower", "upper", "delta", "share")}
        finite = {name: x if x is not None and math.isfinite(x) else None for name, x in numbers.items()}
        words = {"kind": self.kind, "assumptions": list(self.assumptions), "reason": self.reason}
        share = {"certain": self.certain, "share_reason": self.share_reason, "probes": self.probes}
        share |= {"density": self.density, "supposes": self.supposes}
        return {**finite, **words, **share, "text": str(self)}

    def __str__(self) -> str:
        """What there is to say, at least one sentence: shares of a half and more, and probes that nobody asked for, are
        not mentioned, nor what a model thinks of a space that was seen whole."""
        whole = self.share == 0 and (self.kind == "fitted" or self.supposes == EXACT)
        gap = self.asks if whole else self.gap_sentence()
        return " ".join(filter(None, [*[self.share_sentence()] * self.speaks_of_share, gap]))

    @property
    def speaks_of_share(self) -> bool:
        """Whether there is something to say of the share: less than a half, or why probes proved nothing."""
        return self.share < HALF if self.share is not None else not self.share_reason.startswith("no probes")

    @property
    def says_something(self) -> bool:
        """Whether it bounds anything that a reader could act on."""
        return self.certified or (self.share is not None and self.share < HALF)

    def share_sentence(self) -> str:
        """What is known of the space as a whole, in one sentence."""
        if self.share is None:
            better = "is better" if self.sought == Certificate.sought else f"holds {self.sought}"
            return f"How much of the search space {better} is not certified because {self.share_reason}."
        most = f"at most {rounded_up(100 * self.share, 2)} % of the search space holds {self.sought}"
        given = f", if {self.supposes}" if self.supposes else ""
        if not self.probes and self.share == 0:
            return f"No part of the search space holds {self.sought}: all others were evaluated{given}."
        if not self.probes:
            return f"{most[0].upper()}{most[1:]}: all others were evaluated{given}."
        return f"With probability {1 - self.delta:.4g} {most} ({self.probes} independent uniform probes){given}."

    def gap_sentence(self) -> str:
        """What is known of the best value, in one sentence."""
        if not self.certified:
            return f"How much is left to gain is not certified because {self.reason}."
        rests = f"assuming {', '.join(self.assumptions)}" if self.assumptions else ""
        one = "one"
        if self.feasible is not None:
            one = f"feasible one, and itself feasible with probability {self.feasible:.3g}"
        gap = rounded_up(self.gap, 4) if self.kind == "theory" else f"{self.gap:.4g}"
        says = f"the recommended setting is at most {gap} worse than the best {one}"
        if self.certain and self.by_limit:
            return f"Only your {self.by_limit} bounds the gap: {says}, because {', '.join(self.assumptions)}."
        if self.certain:
            return f"{says[0].upper()}{says[1:]}, because {', '.join(self.assumptions)}."
        if self.kind == "theory":
            return f"With probability {1 - self.delta:.4g} {says} (theory, {rests})."
        asks = f" {self.asks}" if self.asks else ""
        return f"By the model, at nominal probability {1 - self.delta:.4g}, {says} (measured, not proven).{asks}"


def rounded_up(number: float, digits: int) -> str:
    """A number with so many digits that is not smaller: what is proven of 31.2 % is not proven of 31 %. Excesses of a
    part in 10^12, which come from rounding, do not count."""
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(number * (1 - 1e-12))):.{digits + 1}g}"
