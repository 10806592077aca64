"""Realizable problems: objectives drawn at random from families a scientist would write down, each with the model
itself.

Every instance is drawn (parameters uniform within 0.9 of the bounds) and re-drawn until it is a fair test: less than 1
% of the box lies within 5 % of the range of the optimum, and the optimum is interior. `model` is the family as a
function f(w, x) on float64 tensors with an attribute `w_bounds`, ready for `GOUCB(model=...)`; `regret_unit` is f* -
median, so that random search pays about 1 per evaluation.

    problem = make_problem("hill-temperature", seed=3)
    GOUCB(model=problem.model)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regretless.method import keyed_generator
from regretless.methods.go_ucb.parametric import (
    Family,
    ParameterBounds,
    TwoLayerNet,
    quadratic,
    user_units,
    with_gradient,
)
from regretless.models.gp.lbfgs import minimise
from regretless.models.gp.sobol import sobol_points
from regretless.space import Cube, Space
from regretless.space.parameters import Array, Float
from regretless_bench.problems.problem import Problem
from regretless_bench.streams import BenchStream

if TYPE_CHECKING:
    import torch

NOISE_SHARE = 0.015
"""Standard deviation of the noise as a share of the function's range."""
NEAR, RARE = 0.05, 0.01
"""A fair instance has less than RARE of the box within NEAR of the range of the optimum."""
INNER = 0.03
"""An interior optimum is at least this share of the side away from every face."""
SURVEY = 4096
"""Sobol points that survey an instance."""
DRAWS = 400
"""Instances drawn before giving up."""
SMALL = 1e-9
"""Stands for a dose of zero where a power is taken."""


class Realizable(Problem):
    """A member of a known family: `rows` maps points in the problem's units (n x d) to values (n); maximised."""

    def __init__(
        self,
        name: str,
        space: Space,
        rows: Callable[[Array], Array],
        *,
        model: Any,
        optimum: float,
        best: Array,
        unit: float,
        noise_sd: float,
    ) -> None:
        """best: the place of the optimum on the cube, d."""
        optima = [space.decode(best)]
        super().__init__(name, space, direction="maximize", optimum=optimum, optima=optima, noise_sd=noise_sd)
        self.rows, self.model, self.regret_unit = rows, model, unit

    def _true(self, params: dict[str, Any]) -> float:
        return float(self.rows(np.array([[params[name] for name in self.space.names]], dtype=np.float64))[0])

    def _true_unit(self, U: Array) -> Array:
        return self.rows(user_units(self.space)(U))


def drawn(
    name: str,
    space: Space,
    draw: Callable[[np.random.Generator], Callable[[Array], Array]],
    model: Any,
    seed: int,
    *,
    interior: bool = True,
) -> Realizable:
    """The first fair instance of a family: `draw` makes the rows of an instance from a generator.

    interior: also demand that the optimum is inside the box; a random net nearly always has it in a corner.
    """
    d = len(space)
    ends = np.array([[p.low, p.high] for p in space.parameters.values() if isinstance(p, Float)])
    survey = sobol_points(SURVEY, d, keyed_generator(0, 0, stream=BenchStream.INSTANCE))
    for attempt in range(DRAWS):
        rows = draw(keyed_generator(seed, attempt, stream=BenchStream.INSTANCE))

        def unit_rows(U: Array, rows: Callable[[Array], Array] = rows) -> Array:
            return rows((1 - U) * ends[:, 0] + U * ends[:, 1])

        values = unit_rows(survey)
        best, optimum = _maximum(unit_rows, survey, values)
        size = optimum - float(values.min())
        rare = float(np.mean(values >= optimum - NEAR * size)) < RARE
        inner = bool(((best >= INNER) & (best <= 1 - INNER)).all())
        best = best[[space.names.index(name) for name in space.coordinates]]
        if rare and (inner or not interior):
            unit = optimum - float(np.median(values))
            return Realizable(
                name, space, rows, model=model, optimum=optimum, best=best, unit=unit, noise_sd=NOISE_SHARE * size
            )
    raise RuntimeError(f"no fair instance of {name} in {DRAWS} draws with seed {seed}")


def _maximum(rows: Callable[[Array], Array], survey: Array, values: Array) -> tuple[Array, float]:
    """The maximiser (d) and maximum on the cube, climbed from the twelve best points of a survey."""
    climb = with_gradient(rows, Cube.box(survey.shape[1]))

    def down(U: Array) -> tuple[Array, Array]:
        f, g = climb(U)
        return -f, -g

    X, f = minimise(down, survey[np.argsort(-values)[:12]], 0.0, 1.0, rounds=200, tolerance=1e-14)
    i = int(np.argmin(f))
    return X[i], -float(f[i])


def _from_model(
    name: str, space: Space, model: Any, seed: int, *, more: Callable[[Array], Array] | None = None
) -> Realizable:
    """An instance of a tensor model with parameters uniform within 0.9 of its bounds, plus `more` (on the cube) where
    the family is to be wrong."""
    bounds, _ = ParameterBounds.of(model.w_bounds)
    ends = np.array([[p.low, p.high] for p in space.parameters.values() if isinstance(p, Float)])

    def draw(rng: np.random.Generator) -> Callable[[Array], Array]:
        w = bounds.user(rng.uniform(-0.9, 0.9, len(bounds.low)))[0]
        return functools.partial(_rows, model, w, ends, more)

    return drawn(name, space, draw, model, seed)


def _rows(model: Any, w: Array, ends: Array, more: Callable[[Array], Array] | None, X: Array) -> Array:
    import torch

    values: Array = model(torch.from_numpy(w), torch.from_numpy(np.ascontiguousarray(X))).numpy()
    return values if more is None else values + more((X - ends[:, 0]) / (ends[:, 1] - ends[:, 0]))


# ---------------------------------------------------------------- mechanistic families


def hill_temperature_model(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Hill response to a dose, bell-shaped in temperature, saturating in time; dose and time have known prices. w: V,
    K, h, T0, s, k."""
    import torch

    dose, temperature, hours = x[:, 0].clamp(min=SMALL), x[:, 1], x[:, 2]
    response = 1 / (1 + torch.exp(w[2] * (torch.log(w[1]) - torch.log(dose))))
    bell = torch.exp(-0.5 * ((temperature - w[3]) / w[4]) ** 2)
    return w[0] * response * bell * (1 - torch.exp(-w[5] * hours)) - 0.06 * dose - 0.0125 * hours


hill_temperature_model.w_bounds = {  # type: ignore[attr-defined]
    "V": Float(0.8, 2.0), "K": Float(0.4, 4, log=True), "h": Float(1.0, 4.0), "T0": Float(290.0, 320.0),
    "s": Float(4.0, 15.0), "k": Float(0.1, 1, log=True),
}  # fmt: skip


def hill_temperature(*, bump: float = 0.0, seed: int = 0) -> Realizable:
    """Dose, temperature and time of a Hill response with prices; `bump` adds a ripple of that share of V that the
    family does not know."""
    space = Space({"dose": Float(0, 8), "temperature": Float(280, 330), "hours": Float(0, 24)})

    def ripple(U: Array) -> Array:
        return bump * np.sin(2 * np.pi * (1.5 * U[:, 0] + U[:, 2])) * np.cos(3 * np.pi * U[:, 1])

    return _from_model(
        "hill-temperature" if not bump else f"hill-temperature bump {bump:g}",
        space,
        hill_temperature_model,
        seed,
        more=ripple if bump else None,
    )


def michaelis_inhibition_model(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Enzyme rate with substrate inhibition, two ionisations and a saturating amount of enzyme at a price. w: V, K, I,
    pa, pb, L."""
    import torch

    substrate, ph, enzyme = x[:, 0], x[:, 1], x[:, 2]
    rate = substrate / (w[1] + substrate + substrate**2 / w[2])
    active = 1 / (1 + torch.pow(10, w[3] - ph) + torch.pow(10, ph - w[4]))
    return w[0] * rate * active * enzyme / (w[5] + enzyme) - 0.06 * enzyme


michaelis_inhibition_model.w_bounds = {  # type: ignore[attr-defined]
    "V": Float(1.0, 3.0), "K": Float(1, 20, log=True), "I": Float(5, 100, log=True), "pa": Float(4.5, 6.5),
    "pb": Float(7.0, 9.5), "L": Float(0.3, 3, log=True),
}  # fmt: skip


def michaelis_inhibition(*, seed: int = 0) -> Realizable:
    """Substrate, pH and enzyme of an inhibited Michaelis-Menten reaction."""
    space = Space({"substrate": Float(0, 50), "ph": Float(4, 10), "enzyme": Float(0, 5)})
    return _from_model("michaelis-inhibition", space, michaelis_inhibition_model, seed)


def gompertz_growth_model(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Gompertz growth in time, inhibited nutrient uptake, a temperature bell, and a cost of time. w: A, b, c, K, I, T0,
    s, m."""
    import torch

    days, nutrient, temperature = x[:, 0], x[:, 1], x[:, 2]
    growth = torch.exp(-w[1] * torch.exp(-w[2] * days))
    uptake = nutrient / (w[3] + nutrient + nutrient**2 / w[4])
    return w[0] * growth * uptake * torch.exp(-0.5 * ((temperature - w[5]) / w[6]) ** 2) - w[7] * days / 30


gompertz_growth_model.w_bounds = {  # type: ignore[attr-defined]
    "A": Float(1.0, 3.0), "b": Float(2.0, 8.0), "c": Float(0.1, 0.8, log=True), "K": Float(2, 30, log=True),
    "I": Float(20, 300, log=True), "T0": Float(20.0, 38.0), "s": Float(3.0, 12.0), "m": Float(0.1, 0.6),
}  # fmt: skip


def gompertz_growth(*, seed: int = 0) -> Realizable:
    """Harvest time, nutrient and temperature of a Gompertz culture whose time costs."""
    space = Space({"days": Float(0, 30), "nutrient": Float(0, 100), "temperature": Float(10, 45)})
    return _from_model("gompertz-growth", space, gompertz_growth_model, seed)


def drug_timing_model(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Effect of an oral dose taken some hours ahead (Bateman curve), a booster that slows elimination, toxicity. w: ka,
    ke, E, C50, q, B50."""
    import torch

    dose, hours, booster = x[:, 0], x[:, 1].clamp(min=SMALL), x[:, 2]
    slow = w[1] / (1 + booster / w[5])
    level = dose * w[0] / (w[0] - slow) * (torch.exp(-slow * hours) - torch.exp(-w[0] * hours))
    return w[2] / (1 + (w[3] / level.clamp(min=SMALL)) ** 3) - w[4] * (dose / 100) ** 2 - 0.1 * booster


drug_timing_model.w_bounds = {  # type: ignore[attr-defined]
    "ka": Float(0.8, 3, log=True), "ke": Float(0.2, 0.7, log=True), "E": Float(1.0, 2.0),
    "C50": Float(10, 40, log=True), "q": Float(0.3, 1.5), "B50": Float(0.5, 4, log=True),
}  # fmt: skip


def drug_timing(*, seed: int = 0) -> Realizable:
    """Dose, timing and booster of a one-compartment drug with toxicity."""
    space = Space({"dose": Float(0, 100), "hours": Float(0, 12), "booster": Float(0, 5)})
    return _from_model("drug-timing", space, drug_timing_model, seed)


def three_gaussians_model(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Three bumps in four dimensions: amplitudes w[0:3], widths w[3:6], centres w[6:18]."""
    import torch

    total = torch.zeros_like(x[:, 0])
    for c in range(3):
        squared = sum((x[:, j] - w[6 + 4 * c + j]) ** 2 for j in range(4))
        total = total + w[c] * torch.exp(-squared / (2 * w[3 + c] ** 2))
    return total


three_gaussians_model.w_bounds = {  # type: ignore[attr-defined]
    **{f"a{c}": Float(0.2, 1.2) for c in range(3)},
    **{f"s{c}": Float(0.4, 2, log=True) for c in range(3)},
    **{f"m{c}{j}": Float(-2.0, 2.0) for c in range(3) for j in range(4)},
}


def three_gaussians(*, seed: int = 0) -> Realizable:
    """The highest of three bumps in a box of four dimensions."""
    return _from_model("three-gaussians", Space({f"x{j}": Float(-2, 2) for j in range(4)}), three_gaussians_model, seed)


# ---------------------------------------------------------------- more parameters than data


def _from_family(
    name: str,
    family: Family,
    d: int,
    seed: int,
    weights: Callable[[np.random.Generator], Array],
    model: Any,
    *,
    interior: bool,
) -> Realizable:
    space = Space({f"x{j}": Float(-1, 1) for j in range(d)})

    def draw(rng: np.random.Generator) -> Callable[[Array], Array]:
        v = weights(rng)
        return lambda X: family.jacobian(v[None], X)[0][0]

    return drawn(name, space, draw, model, seed, interior=interior)


def teacher_net(*, dim: int = 5, width: int = 5, act: str = "tanh", seed: int = 0) -> Realizable:
    """A random two-layer net, the family "mlp" (tanh) or "sigmoid-net" of that width."""
    if act not in ("tanh", "sigmoid"):
        raise ValueError(f"act must be 'tanh' or 'sigmoid', got {act!r}")
    family = TwoLayerNet(dim, width, "tanh" if act == "tanh" else "sigmoid")
    model = "mlp" if act == "tanh" else "sigmoid-net"
    return _from_family(
        f"teacher-net {act} {dim} x {width}",
        family,
        dim,
        seed,
        lambda rng: rng.standard_normal(family.p),
        model,
        interior=False,
    )


def random_quadratic(*, dim: int = 8, seed: int = 0) -> Realizable:
    """A random concave quadratic with its top inside the box."""
    family = quadratic(dim)
    i, j = np.triu_indices(dim)

    def weights(rng: np.random.Generator) -> Array:
        A = rng.standard_normal((dim, dim)) / np.sqrt(dim)
        A = -(A @ A.T) - 0.1 * np.eye(dim)
        top = rng.uniform(-0.8, 0.8, dim)
        cross = np.where(i == j, A[i, j], 2 * A[i, j])
        return np.concatenate([[top @ A @ top], -2 * A @ top, cross])

    return _from_family(f"random-quadratic {dim}", family, dim, seed, weights, "quadratic", interior=True)


MODELS: Sequence[str] = (
    "hill-temperature",
    "michaelis-inhibition",
    "gompertz-growth",
    "drug-timing",
    "three-gaussians",
)
"""The mechanistic problems, by name."""
