"""The classical methods, by name: the same contract as the five of the papers, one short file each.

No file imports another; what two of them share stands in `models`.
"""

from regretless.method import Recipe

CLASSICS = {
    recipe.name: recipe
    for recipe in (
        Recipe("random", "regretless.classics.random_search:RandomSearch"),
        Recipe("sobol", "regretless.classics.random_search:SobolSearch"),
        Recipe("gp-ucb", "regretless.classics.gp_ucb:GPUCB"),
        Recipe("gp-ei", "regretless.classics.gp_ei:GPEI"),
        Recipe("gp-pi", "regretless.classics.gp_pi:GPPI"),
        Recipe("gp-ts", "regretless.classics.gp_ts:GPTS"),
        Recipe("gp-ehvi", "regretless.classics.gp_ehvi.default:GPEHVI"),
        Recipe("cma-es", "regretless.classics.cma_es:CMAES"),
        Recipe("sms-emoa", "regretless.classics.sms_emoa:SMSEMOA"),
        Recipe("turbo", "regretless.classics.turbo:TuRBO"),
    )
}
"""Recipes by the names that users and records call them."""
