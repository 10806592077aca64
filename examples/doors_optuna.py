"""Optuna with a method of ours: a study in a SQLite file, interrupted and resumed exactly. Run: python
examples/doors_optuna.py"""

from __future__ import annotations

import tempfile

import optuna

import regretless as rg


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5.0, 10.0)
    width = trial.suggest_int("width", 1, 9)
    return (x - 3) ** 2 / 25 + 0.02 * (width - 4) ** 2


def run(storage: str, trials: int) -> optuna.Study:
    """What every process does: open the study by its name and go on."""
    sampler = rg.Sampler("gp-ucb", seed=0)
    study = optuna.create_study(study_name="demo", storage=storage, sampler=sampler, load_if_exists=True)
    study.optimize(objective, n_trials=trials, callbacks=[rg.GapBelow(0.05, relative=True)])
    return study


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        run(f"sqlite:///{folder}/first.db", 12)
        resumed = run(f"sqlite:///{folder}/first.db", 8)
        whole = run(f"sqlite:///{folder}/second.db", 20)
        assert [t.params for t in resumed.trials] == [t.params for t in whole.trials]
        print("12 + 8 trials are the 20 of one run, bit for bit")
        assert isinstance(whole.sampler, rg.Sampler)
        print(f"best {whole.best_value:.4g} at {whole.best_params}; {whole.sampler.certificate(whole)}")
