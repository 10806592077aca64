"""scikit-learn with a method of ours, in place of RandomizedSearchCV. Run: python examples/doors_sklearn.py"""

from __future__ import annotations

from scipy.stats import loguniform
from sklearn.datasets import load_wine
from sklearn.model_selection import RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import regretless as rg

if __name__ == "__main__":
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVC())
    space = {"svc__C": loguniform(1e-3, 1e3), "svc__gamma": loguniform(1e-5, 1e1), "svc__kernel": ["rbf", "linear"]}
    ours = rg.RegretlessSearchCV(model, space, n_trials=15, cv=3, random_state=0).fit(X, y)
    theirs = RandomizedSearchCV(model, space, n_iter=15, cv=3, random_state=0).fit(X, y)
    print(f"RegretlessSearchCV {ours.best_score_:.4f} at {ours.best_params_}; {ours.certificate_}")
    print(f"RandomizedSearchCV {theirs.best_score_:.4f}")
