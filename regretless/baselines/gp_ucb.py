"""GP-UCB: Srinivas, Krause, Kakade and Seeger, "Gaussian Process Optimization in the Bandit Setting: No Regret and
Experimental Design", ICML 2010.

A Gaussian process models the objective; the next point maximises an upper confidence bound, so it is either good or
informative. The regret of the paper's schedule is sublinear for a known kernel; in practice the kernel is fitted and a
bound of one standard deviation wins.

Notation
    t        evaluations known or under way, + 1       m(x), s(x)   posterior mean and sd, standardised
    beta_t   the paper's width, squared                kappa        the width used: m(x) + kappa s(x)
    a, b     constants of the smoothness assumption    r            side of the domain, here 1

Deviations
    1. Hyper-parameters are fitted by MAP on a schedule (both presets); the paper takes the kernel as known.
    2. An initial design is evaluated first (both presets): a fitted kernel needs data.
    3. Default preset only: kappa = 1, and 0 for the last fifth of a known budget, because theory's widths (beta_t^(1/2)
       of 10 and more) are pure exploration on standardised values; values are tamed by a clip; Matern-5/2 with a
       quadratic trend. Measured in docs/gp-engine.md.
    4. Pending points are hallucinated (Desautels et al. 2014); proposals keep away from failures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from regretless.certificate import Certificate
from regretless.gp.acquisition import upper_confidence
from regretless.gp.certify import certificate_of, largest_upper_bound, wary_surrogate, width
from regretless.gp.design import Design, design_size
from regretless.gp.kernels import Kind
from regretless.gp.posterior import GP
from regretless.gp.step import load_fits, recommended_by_mean, state_of_fits, step
from regretless.gp.surrogate import Surrogate
from regretless.method import Method, State
from regretless.parameters import Array
from regretless.space import Cube

KAPPA = 1.0
"""The default width; 1 to 2 are level (docs/gp-engine.md)."""
EXPLOIT_FROM = 0.8
"""The posterior mean alone is maximised after this share of a known budget (`experiments/gp_ablation.py` switches it
off)."""
CERTIFIED_DELTA = 0.05
"""The delta of the certificate that verifying asks work on: the default of `certificate`."""
SCALE_DOWN = 5.0
"""The paper divides its beta_t by this in all experiments (Sec. 6)."""


class GPUCB(Method):
    """GP-UCB: maximises mean plus kappa standard deviations of a fitted Gaussian process.

    Args:
        preset: "default", or "paper": SE kernel, untamed values, the widths of Theorem 2 divided by 5 (Sec. 6), no
            final exploitation.
        kappa: the width; None: 1 (default preset) or the paper's schedule.
        kernel: "matern52" or "se"; None: by preset.
        ard: one length-scale per coordinate; None: by dimension.
        noise_var: a known noise variance of all values, or None to fit it.
        quadratic: add the quadratic trend to the kernel; None: by preset and dimension.
        tame: clip low values before fitting; None: by preset.
        rotate: let fits turn the axes of the length-scales, for nearly noise-free valleys across the coordinates.
        exploit: maximise the mean alone in the last fifth of a known budget; None: by preset.
        delta: the paper's failure probability (Sec. 6: 0.1).
        verify: every verify-th ask goes where the certificate's upper bound is largest, so that the certified gap
            shrinks; 0: never. Meant for runs that end by `GapBelow`; not in paper.
    """

    renamed: ClassVar[Mapping[str, str]] = {"noise": "noise_var"}

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Literal["default", "paper"] = "default",
        kappa: float | None = None,
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        tame: bool | None = None,
        rotate: bool = False,
        exploit: bool | None = None,
        delta: float = 0.1,
        verify: int = 0,
    ) -> None:
        super().__init__(cube, seed=seed, budget=budget)
        if kappa is not None and not kappa >= 0:
            raise ValueError(f"kappa must be at least 0, got {kappa!r}")
        paper = preset == "paper"
        self.kappa = kappa if kappa is not None or paper else KAPPA
        if verify < 0:
            raise ValueError(f"verify must be at least 0, got {verify!r}")
        self.delta, self.verify = delta, verify
        self.exploit = not paper if exploit is None else exploit
        self._design = Design(self.cube, design_size(self.dim, budget), self.fixed_generator())
        self._surrogate = Surrogate.by_preset(
            preset,
            self.cube,
            kernel=kernel,
            ard=ard,
            noise_var=noise_var,
            quadratic=quadratic,
            tame=tame,
            rotate=rotate,
        )
        self._wary = wary_surrogate(self.cube)

    def _propose(self, rng: np.random.Generator) -> Array:
        first = self._design.next_point(self, rng)
        if first is not None:
            return first
        if self.verify and self.step % self.verify == 0:
            wary = self._wary.gp(self.X, self.y, self.yvar, self.pending)
            return largest_upper_bound(wary, self.cube, width(CERTIFIED_DELTA, self.dim), rng)[0]
        gp = self._surrogate.gp(self.X, self.y, self.yvar, self.pending)
        return step(self, gp, upper_confidence(gp, self._width(gp)), rng)

    def _width(self, gp: GP) -> float:
        """kappa of this step."""
        known = len(self.y) + len(self.failed) + len(self.pending)
        if self.exploit and self.budget is not None and known >= EXPLOIT_FROM * self.budget:
            return 0.0
        if self.kappa is not None:
            return self.kappa
        b = math.sqrt(0.5) / float(gp.hyper.lengthscale.min())
        return math.sqrt(theory_beta(known + 1, self.dim, self.delta, b=b) / SCALE_DOWN)

    def _recommend(self) -> Array:
        return recommended_by_mean(self, self._surrogate)

    def _certificate(self, delta: float) -> Certificate:
        return certificate_of(self, self._wary, delta)

    def _state(self) -> State:
        return state_of_fits(self, model=self._surrogate, wary=self._wary)

    def _load(self, state: Mapping[str, Any]) -> None:
        load_fits(self, state, model=self._surrogate, wary=self._wary)


def theory_beta(t: int, d: int, delta: float, *, a: float = 1.0, b: float = 1.0, r: float = 1.0) -> float:
    """beta_t = 2 log(t^2 2 pi^2 / (3 delta)) + 2 d log(t^2 d b r sqrt(log(4 d a / delta))) (Thm. 2), not below its
    first term."""
    first = 2 * math.log(t * t * 2 * math.pi**2 / (3 * delta))
    second = 2 * d * math.log(t * t * d * b * r * math.sqrt(math.log(4 * d * a / delta)))
    return first + max(second, 0.0)
