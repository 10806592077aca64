"""Ray Tune with a method of ours: trials that crash or report NaN are learnt from. Run: python examples/doors_ray.py"""

from __future__ import annotations

import math
import tempfile
from typing import Any

import ray
from ray import tune

from regretless.doors.ray.searcher import Searcher

TRIALS = 16


def train(config: dict[str, Any]) -> dict[str, float]:
    if config["lr"] > 0.01:
        raise RuntimeError("diverged")
    return {"loss": (math.log10(config["lr"]) + 2.3) ** 2 + 0.1 * (config["layers"] - 2) ** 2}


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    with tempfile.TemporaryDirectory() as folder:
        searcher = Searcher(method="gp-ucb", seed=0)
        tuner = tune.Tuner(
            train,
            param_space={"lr": tune.loguniform(1e-5, 1e-1), "layers": tune.randint(1, 6)},
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                metric="loss",
                mode="min",
                num_samples=TRIALS,
                max_concurrent_trials=2,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        best = tuner.fit().get_best_result()
        assert searcher.optimizer is not None
        failed = sum(t.state == "failed" for t in searcher.optimizer.trials)
        print(f"best {best.metrics['loss']:.4g} at {best.config}; {failed} of {TRIALS} trials failed")
    ray.shutdown()
