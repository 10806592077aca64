"""The baselines, by name: the same contract as the five methods, one short file each.

What the papers are measured against lives here, and the classical methods that "auto" chooses from. No file imports
another; what two of them share stands in `gp`, `grid` or `tangent`.
"""

from regretless.method import Recipe

BASELINES = {
    recipe.name: recipe
    for recipe in (
        Recipe("random", "regretless.baselines.random_search:RandomSearch"),
        Recipe("sobol", "regretless.baselines.random_search:SobolSearch"),
        Recipe("stay-at-best", "regretless.baselines.random_search:StayAtBest"),
        Recipe("random-mutation", "regretless.baselines.random_search:RandomMutation"),
        Recipe("gp-ucb", "regretless.baselines.gp_ucb:GPUCB"),
        Recipe("gp-ei", "regretless.baselines.gp_ei:GPEI"),
        Recipe("gp-pi", "regretless.baselines.gp_pi:GPPI"),
        Recipe("gp-ts", "regretless.baselines.gp_ts:GPTS"),
        Recipe("cma-es", "regretless.baselines.cma_es:CMAES"),
        Recipe("turbo", "regretless.baselines.turbo:TuRBO"),
        Recipe("igp-ucb", "regretless.baselines.igp_ucb:IGPUCB"),
        Recipe("adaptive-discretization", "regretless.baselines.adaptive_discretization:AdaptiveDiscretization"),
        Recipe("grid-ei", "regretless.baselines.grid_ei:GridImprovement"),
        Recipe("grid-pi", "regretless.baselines.grid_ei:GridImprovement", {"criterion": "probability"}),
        Recipe("linebo", "regretless.baselines.linebo:LineBO"),
        Recipe("dropout", "regretless.baselines.dropout:Dropout"),
        Recipe("sre", "regretless.baselines.sre:SRE"),
        Recipe("rembo", "regretless.baselines.rembo:REMBO"),
        Recipe("hesbo", "regretless.baselines.hesbo:HeSBO"),
        Recipe("linear-bo", "regretless.baselines.linear_bo:LinearBO"),
        Recipe("neural-greedy", "regretless.baselines.neural_greedy:NeuralGreedy"),
        Recipe("dngo", "regretless.baselines.dngo:DNGO"),
        Recipe("rf-ei", "regretless.baselines.rf_ei:RFEI"),
        Recipe("neural-ucb", "regretless.baselines.neural_ucb:NeuralUCB"),
    )
}
"""Recipes by the names that users and records call them."""
