"""The rivals that the papers compare with, NeuralBO as its authors' code trains it, and this project's own
`tangent-region`, by name.

`regretless` finds them by name where this distribution is installed. No file imports another; what two of them share
stands in a module beside them, such as `grid_method`, or in the library's `models`.
"""

from regretless.method import Recipe

RIVALS = {
    recipe.name: recipe
    for recipe in (
        Recipe("stay-at-best", "regretless_bench.methods.from_the_best:StayAtBest"),
        Recipe("random-mutation", "regretless_bench.methods.from_the_best:RandomMutation"),
        Recipe("passive", "regretless_bench.methods.passive:Passive"),
        Recipe("igp-ucb", "regretless_bench.methods.igp_ucb:IGPUCB"),
        Recipe("gp-threds-refit", "regretless_bench.methods.gp_threds_refit:RefittedGPThreDS"),
        Recipe("igp-ucb-refit", "regretless_bench.methods.igp_ucb:IGPUCB", {"refit": True}),
        Recipe("ad-refit", "regretless_bench.methods.adaptive_discretization:AdaptiveDiscretization", {"refit": True}),
        Recipe("adaptive-discretization", "regretless_bench.methods.adaptive_discretization:AdaptiveDiscretization"),
        Recipe("grid-ei", "regretless_bench.methods.grid_ei:GridImprovement"),
        Recipe("grid-pi", "regretless_bench.methods.grid_ei:GridImprovement", {"criterion": "probability"}),
        Recipe("linebo", "regretless_bench.methods.linebo:LineBO"),
        Recipe("dropout", "regretless_bench.methods.dropout:Dropout"),
        Recipe("sre", "regretless_bench.methods.sre:SRE"),
        Recipe("rembo", "regretless_bench.methods.rembo:REMBO"),
        Recipe("hesbo", "regretless_bench.methods.hesbo:HeSBO"),
        Recipe("linear-bo", "regretless_bench.methods.linear_bo:LinearBO"),
        Recipe("neural-greedy", "regretless_bench.methods.neural_greedy:NeuralGreedy"),
        Recipe("dngo", "regretless_bench.methods.dngo:DNGO"),
        Recipe("rf-ei", "regretless_bench.methods.rf_ei:RFEI"),
        Recipe("tangent-region", "regretless_bench.methods.tangent_region.default:TangentRegion"),
        Recipe("neural-bo-authors", "regretless_bench.methods.neural_bo_authors:AuthorsNeuralBO"),
        Recipe("neural-ucb", "regretless_bench.methods.neural_ucb:NeuralUCB"),
        Recipe("gp-ucb-printed", "regretless_bench.methods.textbook:PrintedGPUCB"),
        Recipe("gp-ei-printed", "regretless_bench.methods.textbook:PrintedGPEI"),
        Recipe("gp-pi-printed", "regretless_bench.methods.textbook:PrintedGPPI"),
        Recipe("gp-ts-printed", "regretless_bench.methods.textbook:PrintedGPTS"),
        Recipe("turbo-printed", "regretless_bench.methods.textbook:PrintedTuRBO"),
    )
}
"""Recipes by the names that users and records call them."""
