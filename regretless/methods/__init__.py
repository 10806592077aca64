"""The five published no-regret methods and two of this project's own, by name; each is a folder, and its `algorithm`
reads like the paper.

A name means its method: the default is the idea of the paper at its best, and what lives by other means has another
name. `gp-contest` and `tangent-region` came out of MS-UCB and NeuralBO in this way. What two folders need moves to
`gp`, `grid` or `tangent`; no folder imports another.
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
        Recipe("gp-contest", "regretless.methods.gp_contest.algorithm:GPContest"),
        Recipe("tangent-region", "regretless.methods.tangent_region.algorithm:TangentRegion"),
    )
}
"""Recipes by the names that users and records call them."""
