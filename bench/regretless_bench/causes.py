"""Why each claim of the papers came to its verdict: one sentence per figure, with what was tested.

Verdicts are computed from records; these sentences are what further experiments showed. The laboratory's page of the
method has the numbers with the command that makes them.
"""

CAUSES: dict[str, str] = {
    "go-ucb-fig2": (
        "The packages' GPs of 2022 read raw values and are near random search; with standardised values a GP is lower "
        "on f2 and f3"
    ),
    "go-ucb-fig3": "Our tuned GP-PI is level, and so is staying at the best of the five random points",
    "go-ucb-fig4": "Good rivals ran on boosting alone; staying at the best of the five random points is level",
    "go-ucb-fig5": "Our tuned GP-PI is level, and so is staying at the best of the five random points",
    "gp-threds-fig4ab": (
        "At equal time 18 % below the standard implementation, which takes 17 to 24 times as long; with a low-rank "
        "posterior IGP-UCB is as fast, and lower"
    ),
    "gp-threds-fig4cd": (
        "From their own starts, in the processor time of GP-ThreDS (0.144), AD is far behind (0.471); IGP-UCB's five "
        "runs scatter around it (0.164 ± 0.099); about 100 would decide, in 3 core hours"
    ),
    "bilevel-tables": (
        "UCB with few inner steps is within 3 % of EI at each sigma^2 tried; the paper's own tables do not show its "
        "advantage either (z = 0.5, 2.0, 0.0)"
    ),
    "neural-bo-fig1": (
        "The printed training hardly leaves its random start: Levy's gap in ten dimensions is 38, with the training "
        "of the authors' code 15, of random points 31, of GP-EI 3"
    ),
    "neural-bo-fig2": (
        "The same training (test R2 0.002 on a quadratic): 4 % of the targets in ten dimensions, where random points "
        "reach 3 % and GP-EI 13 %"
    ),
    "neural-bo-fig3": (
        "With the authors' objective 8 samples of any method, random ones too, detect all; a single one of NeuralBO "
        "detects 55 %, of a GP 64 %, a random one 59 %"
    ),
    "neural-bo-fig4": (
        "Over 49 hidden documents NeuralBO has a mean F1 of 0.62 and random forests 0.70 (p .02 before corrections "
        "for six rivals and two checks); about 130 would decide, in 1.5 core hours"
    ),
    "neural-bo-fig5": "Eight methods, five times, take 18 hours of one core",
    "neural-bo-fig6": (
        "U has p x p numbers, 450 MB, from the first value on; we hold the smaller n x n up to p = 7,500 values, so "
        "memory grows until then"
    ),
    "ms-ucb-fig1": (
        "95 of 100 coordinates of each point are random: an oracle that knows f and may choose among all points of "
        "the printed subspaces ends where random points do"
    ),
    "ms-ucb-fig2": (
        "The regret falls by 6 to 12 %, which is about what the oracle gains; it stays at the level of random points"
    ),
    "ms-ucb-fig3": "From one free coordinate to ten the oracle itself gains 6 %: 90 of 100 coordinates stay random",
    "ms-ucb-fig4": (
        "With 500 weights it ends where random points do (0.42), with a width of 2 for the theory's as well; HeSBO "
        "and REMBO end at 0.37"
    ),
    "ms-ucb-fig5": (
        "4,991 of 5,001 coordinates of each point are random: it ends 3 to 6 % below random points, and SRE, which "
        "moves all, 32 to 41 %"
    ),
}
"""Name of a finding -> a sentence without its full stop."""
