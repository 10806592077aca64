"""The demo behind `make demo`: gradient boosting on scikit-learn's breast-cancer data.

The value is the mean log loss over three folds. The run may take 100 trials, and ends when the outlook says that 20
more would gain less than 0.001 with a chance of 0.9. Then the decision is checked, and what the default setting and
random search give stands beside it.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import cross_val_score

import regretless as rg

PAGE = "regretless-demo.html"
X, y = load_breast_cancer(return_X_y=True)

SPACE = {
    "learning_rate": rg.Float(0.01, 0.5, log=True),
    "n_estimators": rg.Int(10, 80, log=True),
    "max_depth": rg.Int(1, 4),
    "subsample": rg.Float(0.4, 1.0),
    "max_features": rg.Choice(["sqrt", "log2", None]),
}


def log_loss(**params: object) -> float:
    """The mean log loss over three folds."""
    model = GradientBoostingClassifier(random_state=0, **params)
    return float(-cross_val_score(model, X, y, cv=3, scoring="neg_log_loss").mean())


def say_outlook(opt: rg.Optimizer, trial: rg.Trial) -> None:
    """What the run says of itself after every tenth trial."""
    if len(opt.trials) % 10 == 0:
        print(f"  after {len(opt.trials)} trials: log loss {opt.best.value:.4f}. {opt.outlook}", flush=True)


def gain_of_more(opt: rg.Optimizer, trials: int) -> float:
    """How much better the best value becomes in further trials."""
    before = opt.best.value
    for _ in range(trials):
        trial = opt.ask()
        opt.tell(trial, log_loss(**trial.params))
    return float(before - opt.best.value)


def main() -> None:
    rule = rg.StopWhen(gain_below=0.001, in_trials=20)
    result = rg.minimize(log_loss, SPACE, trials=100, seed=0, stop=rule, callback=say_outlook, progress=False)
    used, page = result.nfev, result.report(PAGE)
    print(f"\n{result.message}\n\nbest setting")
    for name, value in result.params.items():
        print(f"  {name:<14} {f'{value:.4g}' if isinstance(value, float) else value}")

    print("\nbeside it (log loss, smaller is better)")
    random = rg.minimize(log_loss, SPACE, trials=used, seed=0, method="random", progress=False)
    print(f"  scikit-learn's defaults      {log_loss():.4f}")
    print(f"  random search, {used} trials     {random.value:.4f}")
    print(f"  regretless, {used} trials        {result.value:.4f}")
    print(f"\nwas it right to stop? 20 more trials, run to see, gained {gain_of_more(result.optimizer, 20):.5f}")
    print(f"\nopen {page} in a browser")


if __name__ == "__main__":
    main()
