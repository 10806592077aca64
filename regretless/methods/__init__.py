"""The five published no-regret methods, by name; each in one file."""

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
