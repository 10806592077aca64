"""BBO (Fu et al. 2024): Bayesian optimisation outside, stochastic gradient descent inside."""
