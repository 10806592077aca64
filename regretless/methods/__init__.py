"""The five published no-regret methods, by name; each is a folder, and its `default` reads like the paper.

A name means its method: the default is the idea of the paper at its best, and what lives by other means has another
name. What two folders need moves to `models`; no folder imports another.
"""

from regretless.method import Recipe

METHODS = {
    recipe.name: recipe
    for recipe in (
        Recipe("go-ucb", "regretless.methods.go_ucb.default:GOUCB"),
        Recipe("go-ucb-printed", "regretless.methods.go_ucb.printed:PrintedGOUCB"),
        Recipe("gp-threds", "regretless.methods.gp_threds.default:GPThreDS"),
        Recipe("gp-threds-printed", "regretless.methods.gp_threds.printed:PrintedGPThreDS"),
        Recipe("bilevel", "regretless.methods.bbo.default:BBO"),
        Recipe("bbo-printed", "regretless.methods.bbo.printed:PrintedBBO"),
        Recipe("neural-bo", "regretless.methods.neural_bo.default:NeuralBO"),
        Recipe("neural-bo-printed", "regretless.methods.neural_bo.printed:PrintedNeuralBO"),
        Recipe("ms-ucb", "regretless.methods.ms_ucb.default:MSUCB"),
        Recipe("ms-ucb-printed", "regretless.methods.ms_ucb.printed:PrintedMSUCB"),
    )
}
"""Recipes by the names that users and records call them."""
