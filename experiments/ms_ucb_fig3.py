"""MS-UCB, Fig. 3: the number of free coordinates d on Ackley and the Hyper-Ellipsoid in 100 dimensions, for the literal
method and the default.

    python experiments/ms_ucb_fig3.py --jobs 2 --out runs/ms_ucb_fig3           D = 20, 5 seeds, 100 evaluations
    python experiments/ms_ucb_fig3.py --jobs 16 --out runs/ms_ucb_fig3 --full   D = 100, 10 seeds, 200 evaluations
    python experiments/ms_ucb_fig3.py --out runs/ms_ucb_fig3 --report           the finding from the records there are

The two limits are shown as well: d = 0 picks among sampled points, d = D is GP-UCB.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

from ms_ucb_fig1 import FIRST_SEED, compare_variants, variants_finding
from regretless_bench.claims import experiment_options

VARIANTS = {f"d = {d}": {"low_dim": d} for d in (0, 1, 2, 5, 10)} | {"d = D": {"low_dim": 10_000}}
"""The paper's 1, 2, 5 and 10, and the limits; more than D means D."""
QUOTE = "there is a faster convergence rate for a larger d"
ORDERS = [(more, less) for less, more in pairwise(f"d = {d}" for d in (1, 2, 5, 10))]
"""Pairs, the first of which is to be better."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--first", type=int, default=FIRST_SEED, help="the first seed; the default was tuned on 0 to 2")
    parser.add_argument("--budget", type=int, help="evaluations in the full size; fewer than 200 are a size between")
    options = experiment_options(parser, "runs/ms_ucb_fig3")
    variants_finding(
        "fig3",
        "the dimension of the subspaces",
        "The more coordinates a subspace leaves free (d = 1, 2, 5, 10), the faster the regret falls.",
        *compare_variants(VARIANTS, ORDERS, QUOTE, options),
        options,
    )


if __name__ == "__main__":
    main()
