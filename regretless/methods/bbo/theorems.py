"""The formulas of the bilevel paper's theorems, for both forms of the method and for inner training loops."""

import math

from regretless.basics.options import in_range


def confidence_width(t: int, B: float, phi: float, noise_var: float, horizon: int) -> float:
    """beta_t = sqrt(B^2 + t phi(N)^2 / (sigma^2 N)) (Lemma 2, Thm. 4)."""
    return math.sqrt(B * B + t * phi * phi / (noise_var * horizon))


def paper_phi(horizon: int) -> float:
    """phi(N) = log^1.5 N (Thm. 1), its unknown constant taken as 1."""
    return float(math.log(horizon) ** 1.5)


def convex_step(c: float, horizon: int) -> float:
    """eta = c / sqrt(N) (Thm. 1); its bound of 2 / gamma is left out, because the smoothness gamma is never known."""
    return c / math.sqrt(horizon)


def dominated_step(mu: float, j: int) -> float:
    """eta_j = (2 j + 1) / (2 mu (j + 1)^2), for losses with a mu-dominant gradient (Thm. 18)."""
    return (2 * j + 1) / (2 * mu * (j + 1) ** 2)


def nonsmooth_step(c: float, horizon: int, p: float = 0.75) -> float:
    """eta = c N^-p with p > 1/2, for losses that are convex and not smooth (Thm. 19)."""
    in_range("(0.5, inf)", p=p)
    return float(c * horizon**-p)
