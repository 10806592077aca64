"""Other libraries as methods, so that every comparison can include them under the same seeds, points and noise.

Each peer gets the cube's coordinates with their true kinds (a line, whole numbers, unordered labels), not a relaxation,
where the library knows kinds. Initial points and other foreign ones are told to it in its own way. Unlike our methods
the peers keep state of their own, so what they propose depends on what they were asked before, and a run cannot be
resumed from its history; records of whole runs are all the bench needs. What reads a global random stream runs inside
`own_stream`, which seeds it from (seed, step) and puts it back.
"""

from __future__ import annotations

import importlib.util

from regretless.method import Recipe

PEERS = {
    recipe.name: recipe
    for recipe in (
        Recipe("optuna-tpe", "regretless_bench.peers.optuna:OptunaPeer", {"sampler": "tpe"}),
        Recipe("optuna-gp", "regretless_bench.peers.optuna:OptunaPeer", {"sampler": "gp"}),
        Recipe("optuna-cmaes", "regretless_bench.peers.optuna:OptunaPeer", {"sampler": "cmaes"}),
        Recipe("botorch-logei", "regretless_bench.peers.botorch:BoTorchLogEI"),
        Recipe("botorch-lognei", "regretless_bench.peers.botorch:BoTorchLogEI", {"noisy": True}),
        Recipe("botorch-saas", "regretless_bench.peers.botorch:BoTorchLogEI", {"saas": True}),
        Recipe("hebo", "regretless_bench.peers.hebo:HEBOPeer"),
        Recipe("smac", "regretless_bench.peers.smac:SMAC3"),
        Recipe("nevergrad-ngopt", "regretless_bench.peers.nevergrad:NGOpt"),
        Recipe("cma", "regretless_bench.peers.cma:PyCMA"),
        Recipe("skopt-ei", "regretless_bench.peers.skopt:SkOpt"),
        Recipe("skopt-pi", "regretless_bench.peers.skopt:SkOpt", {"acquisition": "PI"}),
        Recipe("skopt-lcb", "regretless_bench.peers.skopt:SkOpt", {"acquisition": "LCB"}),
        Recipe("botorch-2022-ei", "regretless_bench.peers.botorch:BoTorch2022"),
        Recipe("botorch-2022-pi", "regretless_bench.peers.botorch:BoTorch2022", {"acquisition": "PI"}),
        Recipe("botorch-2022-ucb", "regretless_bench.peers.botorch:BoTorch2022", {"acquisition": "UCB"}),
    )
}

LIBRARIES = {
    "optuna-tpe": "optuna",
    "optuna-gp": "optuna",
    "optuna-cmaes": "cmaes",
    "botorch-logei": "botorch",
    "botorch-lognei": "botorch",
    "botorch-saas": "botorch",
    "hebo": "hebo",
    "smac": "smac",
    "nevergrad-ngopt": "nevergrad",
    "cma": "cma",
    "skopt-ei": "skopt",
    "skopt-pi": "skopt",
    "skopt-lcb": "skopt",
    "botorch-2022-ei": "botorch",
    "botorch-2022-pi": "botorch",
    "botorch-2022-ucb": "botorch",
}
"""The module each peer needs."""


def installed(name: str) -> bool:
    """Whether the library of a peer is there; any other method needs none."""
    return name not in LIBRARIES or importlib.util.find_spec(LIBRARIES[name]) is not None
