"""The constants of GO-UCB's Theorem 4.1, which ask for what nobody knows of a problem: they say how large the
numbers of its guarantee are.

The paper states them up to universal constants and logarithms; both are taken as 1 here, so values are orders of
magnitude.

Notation
    d_w           parameters of the family                F            bound of |f|
    C_h           bound of |grad f_x(w)| and its Hessian    sigma        sd of the noise
    mu, gamma     strong convexity of the expected loss near w*, and its growth farther away (Assumption 3.3)
    tau, zeta, c  the other constants of that assumption    T            points of Phase II
"""

import math


def theorem_beta(t: int, T: int, d_w: int, mu: float, sigma: float) -> float:
    """beta_t = d_w sigma^2 + d_w^3 / mu^2 + d_w^3 t / (mu^2 T) (Eq. 7), the squared radius of the ball at round t."""
    return d_w * sigma**2 + d_w**3 / mu**2 * (1 + t / T)


def regularization_factor(d_w: int, mu: float, F: float = 1.0, C_h: float = 1.0) -> float:
    """C_lambda = 4 sqrt(C_h^2 d_w^2 F^2 + 16 C_h^4 d_w^4 F^4 / mu^2) (Eq. 16); lambda is C_lambda sqrt(T)."""
    return 4 * math.sqrt(C_h**2 * d_w**2 * F**2 + 16 * C_h**4 * d_w**4 * F**4 / mu**2)


def least_horizon(
    d_w: int, mu: float, F: float = 1.0, *, gamma: float = 1.0, tau: float = 1.0, zeta: float = 1.0, c: float = 1.0
) -> float:
    """The T that the theorem needs at least: d_w^2 F^4 max(mu^(gamma / (2 - gamma)) / tau^(2 / (2 - gamma)), zeta / (mu
    c^2))^2 (Eq. 8), for gamma in (0, 2)."""
    far = mu ** (gamma / (2 - gamma)) / tau ** (2 / (2 - gamma))
    return float(d_w**2 * F**4 * max(far, zeta / (mu * c**2)) ** 2)
