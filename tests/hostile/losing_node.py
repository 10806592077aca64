"""A Ray cluster that loses a node: `python losing_node.py FOLDER` prints what became of the trials as JSON."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.cluster_utils import Cluster

from regretless.doors.ray.searcher import Searcher

TRIALS = 12


def train(config: dict[str, Any]) -> dict[str, float]:
    time.sleep(0.5)
    (Path(config["notes"]) / f"{config['far']!r}").touch()
    return {"loss": (config["far"] - 1000.3) ** 2 + config["lr"]}


def lose(notes: Path, cluster: Any, node: Any) -> None:
    """Takes the second node away once four trials have come to their end."""
    while len(list(notes.iterdir())) < 4:
        time.sleep(0.05)
    cluster.remove_node(node, allow_graceful=False)


def main() -> None:
    warnings.simplefilter("ignore")
    memory = {"object_store_memory": 80_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, **memory})
    node = cluster.add_node(num_cpus=2, object_store_memory=80_000_000)
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    searcher = Searcher(method="gp-ei", seed=0, budget=TRIALS)
    notes = Path(sys.argv[1]) / "notes"
    notes.mkdir(parents=True)
    losing = threading.Thread(target=lose, args=(notes, cluster, node), daemon=True)
    losing.start()
    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-4, 1e-1), "far": tune.uniform(1000.0, 1000.7), "notes": str(notes)},
        tune_config=tune.TuneConfig(
            search_alg=searcher, metric="loss", mode="min", num_samples=TRIALS, max_concurrent_trials=4
        ),
        run_config=tune.RunConfig(
            storage_path=sys.argv[1], name="lost", verbose=0, failure_config=tune.FailureConfig(max_failures=3)
        ),
    )  # fmt: skip
    results = tuner.fit()
    states = [t.state for t in searcher.optimizer.trials]
    points = {json.dumps(result.config, sort_keys=True) for result in results}
    print(json.dumps({"lost": not losing.is_alive(), "errors": len(results.errors), "ended": len(results),
                      "distinct": len(points), "states": sorted(states)}))  # fmt: skip
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
