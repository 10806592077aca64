"""The demo behind `make demo`: gradient boosting on scikit-learn's breast-cancer data, 40 trials, a certificate and a
page to look at.

The space is mixed: a learning rate searched on a log scale, two whole numbers, a fraction and a choice. The value is
the mean log loss over five folds, which cannot fall below 0. Every fifth trial is a uniform probe, so that the
certificate can say how much of the space may be better.
"""

import numpy as np
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
    """The mean log loss over five folds."""
    model = GradientBoostingClassifier(random_state=0, **params)
    return float(-cross_val_score(model, X, y, cv=5, scoring="neg_log_loss").mean())


def main() -> None:
    result = rg.minimize(log_loss, SPACE, trials=40, seed=0, floor=0.0, probes=0.2)
    print(f"\nmethod       {result.optimizer.recipe} ({result.optimizer.why})")
    print("best setting")
    for name, value in result.params.items():
        print(f"  {name:<14} {np.round(value, 5) if isinstance(value, float) else value}")
    print(f"value        {result.value:.5f} (mean log loss over five folds)")
    print(f"certificate  {result.certificate.share_sentence()}")
    print(f"             {result.certificate.gap_sentence()}")
    print(f"report       {result.report(PAGE)}: open it in a browser")


if __name__ == "__main__":
    main()
