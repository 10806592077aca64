"""The five published no-regret methods, by name; each in one file."""

from regretless.method import Recipe

METHODS = {
    recipe.name: recipe
    for recipe in (
        Recipe("go-ucb", "regretless.methods.go_ucb:GOUCB"),
        Recipe("gp-threds", "regretless.methods.gp_threds:GPThreDS"),
        Recipe("bilevel", "regretless.methods.bilevel:BBO"),
        Recipe("neural-bo", "regretless.methods.neural_bo:NeuralBO"),
        Recipe("ms-ucb", "regretless.methods.ms_ucb:MSUCB"),
    )
}
