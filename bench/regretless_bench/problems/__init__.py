"""Problems by name: `make_problem("levy", dim=20, shift=0.6, noise_sd=0.1, seed=3)`.

To add one, write a factory (a function with keyword options that returns a `Problem`; an option called `seed` receives
the seed) and give it a line here. Modules are imported on first use, so a family may need an extra that others do not.
"""

from __future__ import annotations

from typing import Any

from regretless_bench.problems.problem import COMMON, Factory, Function, Observation, Problem, wrapped

PROBLEMS = {
    factory.name: factory
    for factory in (
        Factory("sphere", "regretless_bench.problems.synthetic:sphere"),
        Factory("branin", "regretless_bench.problems.synthetic:branin"),
        Factory("branin-threds", "regretless_bench.problems.synthetic:branin_threds"),
        Factory("rosenbrock", "regretless_bench.problems.synthetic:rosenbrock"),
        Factory("rosenbrock-threds", "regretless_bench.problems.synthetic:rosenbrock_threds"),
        Factory("ackley", "regretless_bench.problems.synthetic:ackley"),
        Factory("levy", "regretless_bench.problems.synthetic:levy"),
        Factory("michalewicz", "regretless_bench.problems.synthetic:michalewicz"),
        Factory("styblinski-tang", "regretless_bench.problems.synthetic:styblinski_tang"),
        Factory("rastrigin", "regretless_bench.problems.synthetic:rastrigin"),
        Factory("ellipsoid", "regretless_bench.problems.synthetic:ellipsoid"),
        Factory("camelback", "regretless_bench.problems.synthetic:camelback"),
        Factory("hartmann6", "regretless_bench.problems.synthetic:hartmann6"),
        Factory("turned", "regretless_bench.problems.turned:turned"),
        Factory("go-ucb-f1", "regretless_bench.problems.synthetic:go_ucb_f1"),
        Factory("go-ucb-f2", "regretless_bench.problems.synthetic:go_ucb_f2"),
        Factory("go-ucb-f3", "regretless_bench.problems.synthetic:go_ucb_f3"),
        Factory("bbob", "regretless_bench.problems.bbob:bbob"),
        Factory("bbob-mixint", "regretless_bench.problems.bbob:bbob_mixint"),
        Factory("hpobench-mlp", "regretless_bench.problems.tabular:hpobench_mlp"),
        Factory("nasbench201", "regretless_bench.problems.tabular:nasbench201"),
        Factory("svm-digits", "regretless_bench.problems.sklearn_tasks:svm_digits"),
        Factory("boosting-diabetes", "regretless_bench.problems.sklearn_tasks:boosting_diabetes"),
        Factory("mlp-breast-cancer", "regretless_bench.problems.sklearn_tasks:mlp_breast_cancer"),
        Factory("pushing", "regretless_bench.problems.pushing:pushing"),
        Factory("reviews", "regretless_bench.problems.reviews:reviews"),
        Factory("sensitive", "regretless_bench.problems.sensitive:sensitive"),
        Factory("hill-temperature", "regretless_bench.problems.mechanistic:hill_temperature"),
        Factory("michaelis-inhibition", "regretless_bench.problems.mechanistic:michaelis_inhibition"),
        Factory("gompertz-growth", "regretless_bench.problems.mechanistic:gompertz_growth"),
        Factory("drug-timing", "regretless_bench.problems.mechanistic:drug_timing"),
        Factory("three-gaussians", "regretless_bench.problems.mechanistic:three_gaussians"),
        Factory("teacher-net", "regretless_bench.problems.mechanistic:teacher_net"),
        Factory("random-quadratic", "regretless_bench.problems.mechanistic:random_quadratic"),
        Factory("uci-hpo", "regretless_bench.problems.uci_hpo:uci_hpo"),
        Factory("mnist-net", "regretless_bench.problems.mnist_net:MnistNet"),
        Factory("ramp-loss", "regretless_bench.problems.ramp_loss:RampLoss"),
    )
}


def make_problem(
    name: str,
    *,
    seed: int = 0,
    shift: float = 0.0,
    embed: int = 0,
    noise_sd: float | None = None,
    noise_share: float | None = None,
    **options: Any,
) -> Problem:
    """The named problem.

    Args:
        name: one of PROBLEMS.
        seed: keys the noise, the shift and the embedding (and whatever the family draws to make an instance).
        shift: moves the optimum uniformly within this share of the half-width around the centre (0.6 in our studies).
        embed: hides the coordinates at random places among this many.
        noise_sd: standard deviation of the additive noise.
        noise_share: the same as a share of the function's own standard deviation (0.1 in NeuralBO's experiments).
        **options: the family's own, such as dim; a wrong one is refused with the list of right ones.
    """
    if name not in PROBLEMS:
        raise ValueError(f"no problem is called {name!r}; there are {', '.join(sorted(PROBLEMS))}")
    return wrapped(
        PROBLEMS[name](seed=seed, **options), shift=shift, embed=embed, noise_sd=noise_sd, noise_share=noise_share
    )


__all__ = ["COMMON", "PROBLEMS", "Factory", "Function", "Observation", "Problem", "make_problem"]
