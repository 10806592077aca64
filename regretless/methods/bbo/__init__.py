"""BBO (Fu et al. 2024): Bayesian optimisation outside, stochastic gradient descent inside.

`algorithm` reads like the paper; its parts stand beside it. What another method needs as well moves to `gp`, `grid` or
`tangent`; no other method imports this folder.
"""
