"""The five published no-regret methods, by name: a paper is a folder, and its `algorithm` reads like the paper.

Whoever has a paper of its own lives here. What two folders need moves to `gp`, `grid` or `tangent`; no folder imports
another.
"""

from regretless.method import Recipe

METHODS = {
    recipe.name: recipe
    for recipe in (
        Recipe("go-ucb", "regretless.methods.go_ucb.algorithm:GOUCB"),
        Recipe("gp-threds", "regretless.methods.gp_threds.algorithm:GPThreDS"),
        Recipe("bilevel", "regretless.methods.bbo.algorithm:BBO"),
        Recipe("neural-bo", "regretless.methods.neural_bo.algorithm:NeuralBO"),
        Recipe("ms-ucb", "regretless.methods.ms_ucb.algorithm:MSUCB"),
    )
}
"""Recipes by the names that users and records call them."""
