"""GP-UCB: Srinivas, Krause, Kakade and Seeger, "Gaussian Process Optimization in the Bandit Setting: No Regret and
Experimental Design", ICML 2010.

A Gaussian process models the objective; the next point maximises an upper confidence bound, so it is either good or
informative. The paper's schedule has sublinear regret for a known kernel; with a fitted one a bound of one sd wins.

Notation
    t        evaluations known or under way, + 1       m(x), s(x)   posterior mean and sd, standardised
    beta_t   the paper's width, squared                kappa        the width used: m(x) + kappa s(x)
    a, b     constants of the smoothness assumption    r            side of the domain, here 1

Deviations
    1. Hyper-parameters are fitted by MAP on a schedule (both presets); the paper takes the kernel as known.
    2. An initial design is evaluated first (both presets): a fitted kernel needs data.
    3. Default preset only: kappa = 1, and 0 for the last fifth of a known budget, because theory's widths (10 and more)
       are pure exploration; low values are clipped; Matern-5/2 with a quadratic trend (docs/lab/gp-engine.md).
    4. Pending points are hallucinated (Desautels et al. 2014); proposals keep away from failures.
"""

import math

import numpy as np

from regretless.gp.acquisition import upper_confidence
from regretless.gp.certify import verifying_point
from regretless.gp.design import away_from_known
from regretless.gp.kernels import Kind
from regretless.gp.method import GPMethod
from regretless.gp.posterior import GP
from regretless.options import Preset, in_range, whole_number
from regretless.parameters import Array
from regretless.space import Cube

KAPPA = 1.0  # the default width; 1 to 2 are level (docs/lab/gp-engine.md)
EXPLOIT_FROM = 0.8  # the share of a known budget after which the mean alone is maximised (`experiments/gp_ablation.py`)
CERTIFIED_DELTA = 0.01  # the delta of the bound that verifying asks work on: what `GapBelow` asks for at a check
SCALE_DOWN = 5.0  # the paper divides its beta_t by this in all experiments (Sec. 6)
DELTA = 0.1  # the paper's failure probability (Sec. 6)


class GPUCB(GPMethod):
    """GP-UCB: maximises mean plus kappa standard deviations of a fitted Gaussian process.

    Args:
        preset, kernel, ard, noise_var, quadratic, tame, rotate: see `GPMethod`; the paper preset has the widths of
            Theorem 2 divided by 5 (Sec. 6) and no final exploitation.
        kappa: the width; None: 1 (default preset) or the paper's schedule.
        exploit: maximise the mean alone in the last fifth of a known budget; None: by preset.
        verify: every verify-th ask goes where the certificate's bound is most likely exceeded, for runs that end by
            `GapBelow`; 0: never. Not in paper.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        preset: Preset = "default",
        kappa: float | None = None,
        kernel: Kind | None = None,
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        tame: bool | None = None,
        rotate: bool = False,
        exploit: bool | None = None,
        verify: int = 0,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, preset=preset, kernel=kernel, ard=ard, noise_var=noise_var,
            quadratic=quadratic, tame=tame, rotate=rotate,
        )  # fmt: skip
        in_range("[0, inf) or None", kappa=kappa)
        whole_number(0, verify=verify)
        self.kappa = kappa if kappa is not None or self.paper else KAPPA
        self.verify, self.exploit = verify, not self.paper if exploit is None else exploit

    def _step(self, rng: np.random.Generator) -> Array:
        if self.verify and self.step % self.verify == 0:
            wary = self._wary.gp(*self.basis, self.pending)
            x = verifying_point(wary, self.cube, CERTIFIED_DELTA, rng)
            return x if self.gains_by_repeating() else away_from_known(x, self, rng)
        gp = self._posterior()
        return self._best_step(gp, upper_confidence(gp, self._width(gp)), rng)

    def _width(self, gp: GP) -> float:
        """kappa of this step."""
        if self.exploit and self.budget is not None and self._evaluations >= EXPLOIT_FROM * self.budget:
            return 0.0
        if self.kappa is not None:
            return self.kappa
        b = math.sqrt(0.5) / float(gp.hyper.lengthscale.min())
        return math.sqrt(theory_beta(self._evaluations + 1, self.dim, DELTA, b=b) / SCALE_DOWN)


def theory_beta(t: int, d: int, delta: float, *, a: float = 1.0, b: float = 1.0, r: float = 1.0) -> float:
    """beta_t = 2 log(t^2 2 pi^2 / (3 delta)) + 2 d max(log(t^2 d b r sqrt(log(4 d a / delta))), 0) (Thm. 2)."""
    first = 2 * math.log(t * t * 2 * math.pi**2 / (3 * delta))
    second = 2 * d * math.log(t * t * d * b * r * math.sqrt(math.log(4 * d * a / delta)))
    return first + max(second, 0.0)
