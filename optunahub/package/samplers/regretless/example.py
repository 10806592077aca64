"""Twenty trials of a bowl, and what can be said about the best of them."""

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5.0, 10.0)
    width = trial.suggest_int("width", 1, 9)
    return (x - 3) ** 2 / 25 + 0.02 * (width - 4) ** 2


package = optunahub.load_module("samplers/regretless")
sampler = package.RegretlessSampler("auto", seed=0)
study = optuna.create_study(sampler=sampler)
study.optimize(objective, n_trials=20)
print(sampler.recommend(study), sampler.certificate(study))
