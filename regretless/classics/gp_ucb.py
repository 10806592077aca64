"""GP-UCB: Srinivas, Krause, Kakade and Seeger, "Gaussian Process Optimization in the Bandit Setting: No Regret and
Experimental Design", ICML 2010.

A Gaussian process models the objective; the next point maximises an upper confidence bound, so it is either good or
informative. The paper's schedule has sublinear regret for a known kernel; with a fitted one a bound of one sd wins.

Notation
    m(x), s(x)   posterior mean and sd, standardised       kappa   the width: m(x) + kappa s(x)

Deviations
    1. Hyper-parameters are fitted by MAP on a schedule; the paper takes the kernel as known.
    2. An initial design is evaluated first: a fitted kernel needs data.
    3. kappa = 1, and 0 for the last fifth of a known budget, because theory's widths (10 and more) are pure
       exploration; low values are clipped; Matern-5/2 with a quadratic trend (docs/lab/gp-engine.md).
    4. Pending points are hallucinated (Desautels et al. 2014); proposals keep away from failures.
"""

from regretless.basics.options import in_range, whole_number
from regretless.basics.streams import Draws
from regretless.history import History
from regretless.method import gains_by_repeating
from regretless.methods.shared import GPMethod
from regretless.models.gp.acquisition import upper_confidence
from regretless.models.gp.certify import verifying_point
from regretless.models.gp.design import away_from_known
from regretless.models.gp.kernels import KernelKind
from regretless.space import Cube
from regretless.space.parameters import Array

KAPPA = 1.0  # the default width; 1 to 2 are level (docs/lab/gp-engine.md)


class GPUCB(GPMethod):
    """GP-UCB: maximises mean plus kappa standard deviations of a fitted Gaussian process.

    Args:
        kernel, ard, noise_var, quadratic, clip, rotate: see `GPMethod`.
        kappa: the width.
        exploit: maximise the mean alone in the last fifth of a known budget.
        verify: every verify-th ask goes where the certificate's bound is most likely exceeded, for runs that end by
            `GapBelow`; 0: never. Not in paper.
    """

    def __init__(
        self,
        cube: int | Cube,
        *,
        seed: int,
        budget: int | None = None,
        kappa: float = KAPPA,
        kernel: KernelKind = "matern52",
        ard: bool | None = None,
        noise_var: float | None = None,
        quadratic: bool | None = None,
        clip: bool = True,
        rotate: bool = False,
        exploit: bool = True,
        verify: int = 0,
    ) -> None:
        super().__init__(
            cube, seed=seed, budget=budget, kernel=kernel, ard=ard, noise_var=noise_var, quadratic=quadratic,
            clip=clip, rotate=rotate,
        )  # fmt: skip
        in_range("[0, inf)", kappa=kappa)
        whole_number(0, verify=verify)
        self.kappa, self.verify, self.exploit = kappa, verify, exploit

    def _step(self, history: History, cube: Cube, rng: Draws) -> Array:
        if self.verify and rng.step % self.verify == 0:
            return self._verifying_step(history, cube, rng)
        gp = self._posterior(history)
        return self._best_step(history, cube, gp, upper_confidence(gp, self._width(history)), rng)

    def _verifying_step(self, history: History, cube: Cube, rng: Draws) -> Array:
        """Where the certificate's bound is most likely exceeded, d."""
        # 0.01: the delta of the bound that verifying asks work on: what `GapBelow` asks for at a check
        x = verifying_point(self._conservative.gp(*history.basis, history.pending), cube, 0.01, rng)
        return x if gains_by_repeating(self, history) else away_from_known(x, history, cube, rng)

    def _width(self, history: History) -> float:
        """The width of this step."""
        # 0.8: the share of a known budget after which the mean alone is maximised (`experiments/gp_ablation.py`)
        late = self.budget is not None and history.evaluations >= 0.8 * self.budget
        return 0.0 if self.exploit and late else self.kappa
