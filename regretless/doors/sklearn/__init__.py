"""scikit-learn's door: a search over the parameters of an estimator."""
