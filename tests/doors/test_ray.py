"""Ray Tune on a real local cluster: crashed and NaN trials, exact resumption, ASHA beside us, stopping, executors
(Ray's and Dask's)."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import sys
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "180")  # 30 s are too few on a machine busy with other tests
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "0")
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'regretless[ray]'")
from ray import tune  # noqa: E402
from ray.tune.schedulers import ASHAScheduler  # noqa: E402

from regretless import Choice, Float, Int, minimize  # noqa: E402
from regretless.certificate import Certificate  # noqa: E402
from regretless.classics.random_search import RandomSearch  # noqa: E402
from regretless.doors.ray.searcher import GapStopper, RayExecutor, Searcher  # noqa: E402
from regretless.doors.ray.spaces import read_space  # noqa: E402
from regretless.outlook.stopping import GapBelow  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]
SPACE = {
    "x": tune.uniform(-5.0, 10.0),
    "net": {"lr": tune.loguniform(1e-5, 1e-1), "act": tune.choice(["relu", "tanh"])},
    "fixed": 3,
}


@contextlib.contextmanager
def local_cluster(cpus: int) -> Iterator[None]:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import a test file
    ray.init(num_cpus=cpus, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with local_cluster(2):
        yield


def value(config: dict[str, Any]) -> float:
    return (config["x"] - 2) ** 2 / 25 + (math.log10(config["net"]["lr"]) + 3) ** 2 + (config["net"]["act"] == "relu")


def train(config: dict[str, Any]) -> dict[str, float]:
    if config["x"] > 6:
        raise ValueError("diverged")
    return {"loss": math.nan if config["x"] < -2 else value(config)}


def drive(searcher: Searcher, n: int, *, first: int = 0) -> list[dict[str, Any]]:
    """n trials one after another, without a cluster; every fifth crashes and every seventh reports NaN."""
    configs = []
    for i in range(first, first + n):
        config = searcher.suggest(f"t{i}")
        assert isinstance(config, dict)
        configs.append(config)
        if i % 5 == 4:
            searcher.on_trial_complete(f"t{i}", error=True)
        else:
            searcher.on_trial_complete(f"t{i}", {"loss": math.nan if i % 7 == 6 else value(config)})
    return configs


def make(method: str = "gp-ei", **options: Any) -> Searcher:
    return Searcher(SPACE, metric="loss", mode="min", method=method, seed=3, **options)


# ---------------------------------------------------------------- the searcher by itself


def test_failures_are_told_and_nothing_stays_pending() -> None:
    searcher = make("random")
    drive(searcher, 15)
    assert searcher.optimizer is not None
    assert [t.state for t in searcher.optimizer.trials] == [
        "failed" if i % 5 == 4 or i % 7 == 6 else "done" for i in range(15)
    ]
    assert not searcher.optimizer.pending
    searcher.on_trial_complete("never seen", {"loss": 1.0})
    searcher.suggest("stopped early")
    searcher.on_trial_complete("stopped early")
    assert not searcher.optimizer.pending
    assert len(searcher.optimizer.history.failed) == 5


@pytest.mark.parametrize("method", ["random", "gp-ei", "turbo"])
def test_save_and_restore_resume_exactly(method: str, tmp_path: Path) -> None:
    whole = drive(make(method), 24)
    first = make(method)
    assert drive(first, 16) == whole[:16]
    first.save(str(tmp_path / "searcher"))
    second = make(method)
    second.restore(str(tmp_path / "searcher"))
    assert drive(second, 8, first=16) == whole[16:]
    third = pickle.loads(pickle.dumps(first))
    assert drive(third, 8, first=16) == whole[16:]


def test_a_search_that_its_rule_ended_stays_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sure = Certificate(0.0, 0.0, 0.0, 0.05, "fitted")
    monkeypatch.setattr(RandomSearch, "certificate", lambda self, history, delta=0.05: sure)
    first = make("random", stop=GapBelow(0.1))
    drive(first, 1)
    first.suggest("held once")
    first.save(str(tmp_path / "once"))
    first.on_trial_complete("held once", {"loss": 1.0})
    assert first.suggest("none") == Searcher.FINISHED
    first.save(str(tmp_path / "twice"))
    once, twice = make("random", stop=GapBelow(0.1)), make("random", stop=GapBelow(0.1))
    once.restore(str(tmp_path / "once"))
    once.on_trial_complete("held once", {"loss": 1.0})
    assert once.suggest("none") == Searcher.FINISHED
    monkeypatch.undo()
    twice.restore(str(tmp_path / "twice"))
    assert twice.suggest("none") == Searcher.FINISHED


def test_running_trials_survive_a_restore(tmp_path: Path) -> None:
    searcher = make("gp-ei")
    drive(searcher, 6)
    running = searcher.suggest("running")
    searcher.save(str(tmp_path / "searcher"))
    again = make("gp-ei")
    again.restore(str(tmp_path / "searcher"))
    assert again.suggest("running") == running
    again.on_trial_complete("running", {"loss": 1.0})
    assert again.optimizer is not None
    assert not again.optimizer.pending
    with pytest.raises(ValueError, match=r"not a file of|not a readable"):
        again.restore(__file__)


def test_a_restored_search_needs_no_space_unless_its_categories_are_objects(tmp_path: Path) -> None:
    searcher = Searcher(metric="loss", mode="min", method="random", seed=3)
    searcher.set_search_properties("loss", "min", {**SPACE, "q": tune.qloguniform(0.1, 10, 0.1), "n": tune.randn(5, 2)})
    searcher.save(str(tmp_path / "plain"))
    again = Searcher(method="random", seed=3)
    again.restore(str(tmp_path / "plain"))
    assert [again.suggest(f"t{i}") for i in range(5)] == [searcher.suggest(f"t{i}") for i in range(5)]
    objects = Searcher(
        {"c": tune.choice([[1], [2]]), "x": tune.uniform(0, 1)}, metric="loss", mode="min", method="random", seed=3
    )
    objects.save(str(tmp_path / "objects"))
    blank = Searcher(method="random", seed=3)
    with pytest.raises(ValueError, match="categories of parameter 'c': pass space="):
        blank.restore(str(tmp_path / "objects"))


def test_points_and_values_known_before() -> None:
    searcher = make("random", points_to_evaluate=[{"x": 1.0, "net": {"lr": 1e-3, "act": "tanh"}}])
    searcher.add_evaluated_point({"x": 2.0, "net": {"lr": 1e-3, "act": "relu"}}, 1.0)
    first = searcher.suggest("a")
    assert first == {"x": 1.0, "net": {"lr": pytest.approx(1e-3), "act": "tanh"}}
    assert searcher.optimizer is not None
    assert searcher.optimizer.best.value == 1.0


def test_spaces_are_read_as_ray_means_them() -> None:
    read = read_space({
        "u": tune.uniform(-1, 2), "l": tune.loguniform(1e-4, 1), "q": tune.quniform(0.5, 2.0, 0.5),
        "i": tune.randint(2, 9),
        "li": tune.lograndint(1, 65), "qi": tune.qrandint(0, 10, 2), "c": tune.choice([[1], {"a": 2}]),
        "n": tune.randn(5, 2),
        "ql": tune.qloguniform(0.1, 10, 0.1), "deep": {"er": tune.uniform(0, 1)},
    })  # fmt: skip
    p, readers = read.space.parameters, read.readers
    assert p["u"] == Float(-1.0, 2.0)
    assert p["l"] == Float(1e-4, 1.0, log=True)
    assert p["q"] == Float(0.5, 2.0, step=0.5)
    assert p["i"] == Int(2, 8)
    assert p["li"] == Int(1, 64, log=True)
    assert p["qi"] == Int(0, 10, step=2)
    assert p["c"] == Choice(range(2))
    assert readers["c"](1) == {"a": 2}
    assert readers["n"](0.5) == pytest.approx(5)
    assert readers["ql"](0.333) == pytest.approx(0.3)
    assert p["deep/er"] == Float(0.0, 1.0)
    with pytest.raises(ValueError, match=r"write tune.choice for \['g'\], or leave search_alg out"):
        read_space({"g": tune.grid_search([1, 2])})
    with pytest.raises(ValueError, match=r"parameter 'f'.*cannot be searched"):
        read_space({"f": tune.sample_from(lambda spec: 1)})
    with pytest.raises(ValueError, match=r'the key \'a/b\' holds "/"'):
        read_space({"a/b": tune.uniform(0, 1)})
    with pytest.raises(ValueError, match=r"nothing to search.*leave search_alg out"):
        read_space({"lr": 0.1})


LISTS = {
    "layers": [tune.randint(8, 65), tune.randint(8, 65)],
    "betas": (0.9, tune.uniform(0.99, 0.9999)),
    "blocks": [{"width": tune.lograndint(1, 9), "act": "relu"}, {"width": 3}],
    "plain": [1, 2],
}


def test_lists_of_domains_stay_lists(tmp_path: Path) -> None:
    searcher = Searcher(LISTS, metric="loss", mode="min", method="random", seed=3)
    config = searcher.suggest("a")
    assert isinstance(config, dict)
    assert type(config["layers"]) is list
    assert len(config["layers"]) == 2
    assert all(8 <= width <= 64 for width in config["layers"])
    assert type(config["betas"]) is tuple
    assert config["betas"][0] == 0.9
    assert config["blocks"][0]["act"] == "relu"
    assert config["blocks"][1] == {"width": 3}
    assert "plain" not in config  # Ray has it
    searcher.save(str(tmp_path / "lists"))
    again = Searcher(method="random", seed=3)
    with pytest.raises(ValueError, match="fixed values beside the parameters: pass space="):
        again.restore(str(tmp_path / "lists"))
    plain = {"layers": LISTS["layers"], "betas": LISTS["betas"]}
    searcher = Searcher(plain, metric="loss", mode="min", method="random", seed=3)
    searcher.save(str(tmp_path / "plain"))
    again = Searcher(method="random", seed=3)
    again.restore(str(tmp_path / "plain"))
    assert [again.suggest(f"t{i}") for i in range(3)] == [searcher.suggest(f"t{i}") for i in range(3)]


def test_points_to_evaluate_may_leave_parameters_out() -> None:
    points = [{"net": {"act": "tanh"}}, {"net/lr": 1e-3}, {}]
    searcher, other = (make(method, points_to_evaluate=points) for method in ("gp-ei", "gp-ei"))
    configs = [searcher.suggest(f"t{i}") for i in range(4)]
    assert configs == [other.suggest(f"t{i}") for i in range(4)]
    assert all(isinstance(c, dict) and set(c) == {"x", "net"} and set(c["net"]) == {"lr", "act"} for c in configs)
    assert isinstance(configs[0], dict)
    assert configs[0]["net"]["act"] == "tanh"
    assert isinstance(configs[1], dict)
    assert configs[1]["net"]["lr"] == pytest.approx(1e-3)
    with pytest.raises(ValueError, match=r"parameter 'net/act': 'sin' is not one of \['relu', 'tanh'\]"):
        make(points_to_evaluate=[{"net": {"act": "sin"}}]).suggest("a")
    normal = Searcher({"n": tune.randn(5, 2)}, metric="m", mode="min", seed=0, points_to_evaluate=[{"n": 6.5}])
    assert normal.suggest("a") == {"n": pytest.approx(6.5, abs=1e-9)}


MODELS = {
    "lr": Float(1e-4, 1e-1, log=True),
    "kind": Choice(["svm", "forest", "none"]),
    "C": Float(1e-2, 1e3, log=True, when={"kind": "svm"}),
    "depth": Int(1, 8, when={"kind": "forest"}),
    "leaves": Int(2, 39, when={"kind": "forest"}),
}


def test_a_space_of_ours_may_have_conditions() -> None:
    searcher = Searcher(MODELS, metric="loss", mode="min", method="gp-ei", seed=3)
    configs = []
    for i in range(20):
        config = searcher.suggest(f"t{i}")
        assert isinstance(config, dict)
        configs.append(config)
        searcher.on_trial_complete(f"t{i}", {"loss": config.get("C", 50.0)})
    assert {config["kind"] for config in configs} == {"svm", "forest", "none"}
    for config in configs:
        further = {"svm": {"C"}, "forest": {"depth", "leaves"}, "none": set()}[config["kind"]]
        assert set(config) == {"lr", "kind", *further}
    points = [{"kind": "forest", "depth": 3}, {"kind": "none", "lr": 1e-2}]
    known = Searcher(MODELS, metric="loss", mode="min", method="random", seed=3, points_to_evaluate=points)
    first, second = known.suggest("a"), known.suggest("b")
    assert isinstance(first, dict)
    assert first["depth"] == 3
    assert 2 <= first["leaves"] < 40
    assert second == {"lr": pytest.approx(1e-2), "kind": "none"}


def test_a_choice_among_domains_is_refused_with_what_to_write() -> None:
    space = {"model": tune.choice([{"kind": "svm", "C": tune.loguniform(1e-2, 1e3)}, "none"])}
    with pytest.raises(ValueError, match="parameter 'model': a choice cannot hold domains; pass space= with"):
        Searcher(space, metric="loss", mode="min")


def test_spaces_of_other_libraries_are_answered() -> None:
    foreign = type("Apply", (), {"__module__": "hyperopt.pyll.base"})()
    for space in (foreign, {"steps": 100, "width": foreign}):
        with pytest.raises(ValueError, match="a space of hyperopt cannot be read"):
            Searcher(space, metric="loss", mode="min")


def test_several_metrics_are_said_in_full() -> None:
    with pytest.raises(ValueError, match="need a mode for each"):
        Searcher(metric=["loss", "gain"], mode=["min"])
    with pytest.raises(ValueError, match="mode is a list where metric is one"):
        Searcher(metric="loss", mode=["min", "max"])
    with pytest.raises(ValueError, match="Ray's Tuner takes one metric"):
        Searcher().set_search_properties(["loss", "gain"], ["min", "max"], {})  # type: ignore[arg-type]


def test_several_metrics_have_a_front(tmp_path: Path) -> None:
    def metrics(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": (math.log10(config["lr"]) + 2) ** 2, "speed": config["lr"] * 100, "time_total_s": 1.0}

    def driven(searcher: Searcher, first: int, last: int) -> None:
        for i in range(first, last):
            config = searcher.suggest(f"t{i}")
            assert isinstance(config, dict)
            searcher.on_trial_complete(f"t{i}", {**metrics(config), **({"speed": math.nan} if i == 4 else {})})

    options: dict[str, Any] = {"metric": ["loss", "speed"], "mode": ["min", "max"], "seed": 3, "budget": 20}
    options["reference"] = {"speed": 0.5}
    space = {"lr": tune.loguniform(1e-5, 1.0), "act": tune.choice(["relu", "tanh"])}
    whole, part, again = (Searcher(space, **options) for _ in range(3))
    driven(whole, 0, 16)
    driven(part, 0, 9)
    part.save(str(tmp_path / "search"))
    again.restore(str(tmp_path / "search"))
    driven(again, 9, 16)
    assert again.optimizer is not None
    assert whole.optimizer is not None
    assert [t.params for t in again.optimizer.trials] == [t.params for t in whole.optimizer.trials]
    assert again.optimizer.trials[4].state == "failed"
    assert again.optimizer.task.directions == ("minimize", "maximize")
    assert again.optimizer.task.reference == (None, 0.5)
    assert len(again.front) > 2
    assert {tuple(m.values.values()) for m in again.front} <= {t.values for t in again.optimizer.trials}


def run_slowly(config: dict[str, Any]) -> None:
    tune.report({"loss": config["x"] ** 2, "speed": config["x"]})


def test_an_experiment_searches_a_front(cluster: None, tmp_path: Path) -> None:
    searcher = Searcher(metric=["loss", "speed"], mode=["min", "max"], seed=0)
    tune.Tuner(
        run_slowly,
        param_space={"x": tune.uniform(-3.0, 5.0)},
        tune_config=tune.TuneConfig(search_alg=searcher, num_samples=5, max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert searcher.optimizer is not None
    assert sum(t.state == "done" for t in searcher.optimizer.trials) == 5
    assert all(m.values["loss"] == pytest.approx(m.params["x"] ** 2) for m in searcher.front)


def test_the_scheduler_of_bohb_is_answered() -> None:
    with pytest.raises(RuntimeError, match="use HyperBandScheduler or ASHAScheduler"):
        make().on_pause("t0")


def test_a_search_without_a_space_says_what_is_missing() -> None:
    with pytest.raises(RuntimeError, match="pass space= and mode="):
        Searcher().suggest("a")


# ---------------------------------------------------------------- on a cluster


def test_remote_trials_crash_and_report_nan_without_zombies(cluster: None, tmp_path: Path) -> None:
    searcher = Searcher(method="gp-ei", seed=0)
    results = tune.Tuner(
        train,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            search_alg=searcher, metric="loss", mode="min", num_samples=14, max_concurrent_trials=2, reuse_actors=True
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="zombies", verbose=0),
    ).fit()
    assert len(results) == 14
    assert searcher.optimizer is not None
    trials = searcher.optimizer.trials
    assert not searcher.optimizer.pending
    for trial in trials:
        x = trial.params["x"]
        assert trial.state == ("failed" if x > 6 or x < -2 else "done")
    assert {t.state for t in trials} == {"failed", "done"}
    assert results.get_best_result().metrics["loss"] == searcher.optimizer.best.value
    assert all(result.config["fixed"] == 3 for result in results if result.config)


def train_slowly(config: dict[str, Any]) -> None:
    for step in range(1, 5):
        tune.report({"loss": value(config) + 1 / step})


def test_asha_stops_trials_beside_us(cluster: None, tmp_path: Path) -> None:
    searcher = Searcher(method="sobol", seed=0)
    scheduler = ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2)
    results = tune.Tuner(
        train_slowly,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=scheduler,
            metric="loss",
            mode="min",
            num_samples=8,
            max_concurrent_trials=2,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="asha", verbose=0),
    ).fit()
    steps = [result.metrics["training_iteration"] for result in results]
    assert min(steps) < 4
    assert searcher.optimizer is not None
    assert sorted(t.value for t in searcher.optimizer.trials if t.value is not None) == pytest.approx(
        sorted(r.metrics["loss"] for r in results)
    )


def test_an_experiment_resumes_with_what_the_search_knew(cluster: None, tmp_path: Path) -> None:
    """The driver dies after six of ten trials; Tuner.restore goes on with the saved search."""
    searcher = Searcher(method="gp-ei", seed=0)

    class DriverDies(tune.Callback):  # type: ignore[misc]
        def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
            if sum(t.status == "TERMINATED" for t in trials) >= 6:
                raise KeyboardInterrupt

    config = tune.TuneConfig(
        search_alg=searcher, metric="loss", mode="min", num_samples=10, max_concurrent_trials=1, reuse_actors=True
    )
    tuner = tune.Tuner(
        value_of,
        param_space=SPACE,
        tune_config=config,
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="resumed", verbose=0, callbacks=[DriverDies()]),
    )
    with contextlib.suppress(KeyboardInterrupt):
        tuner.fit()
    restored = tune.Tuner.restore(str(tmp_path / "resumed"), trainable=value_of, restart_errored=False)
    limiter = restored._local_tuner._tune_config.search_alg
    restored._local_tuner._run_config.callbacks = []
    results = restored.fit()
    assert len(results) == 10
    found = limiter if hasattr(limiter, "optimizer") else limiter.searcher
    assert len(found.optimizer.trials) >= 10
    assert sum(t.state == "done" for t in found.optimizer.trials) >= 9


def value_of(config: dict[str, Any]) -> dict[str, float]:
    return {"loss": value(config)}


def test_a_certificate_ends_the_experiment(cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        RandomSearch,
        "_certificate",
        lambda self, history, delta: Certificate(1.0 / len(history), -1.0, 0.0, delta, "fitted", ("a fake",)),
    )
    for stop_running in (False, True):
        rule = GapBelow(0.25)
        searcher = Searcher(method="random", seed=0, stop=None if stop_running else rule)
        results = tune.Tuner(
            value_of,
            param_space=SPACE,
            tune_config=tune.TuneConfig(
                search_alg=searcher,
                metric="loss",
                mode="min",
                num_samples=20,
                max_concurrent_trials=1,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                storage_path=str(tmp_path),
                name=f"gap{stop_running}",
                verbose=0,
                stop=GapStopper(rule, searcher) if stop_running else None,
            ),
        ).fit()
        assert rule.reason is not None
        assert "at most 0.2 worse" in rule.reason
        assert 5 <= len(results) <= 8


# ---------------------------------------------------------------- executors


def bowl(x: float, y: float) -> float:
    if y > 0.9:
        raise ArithmeticError("too far")
    return (x - 0.3) ** 2 + (y - 0.6) ** 2


PLANE = {"x": Float(0, 1), "y": Float(0, 1)}


def test_minimize_on_a_ray_cluster(cluster: None) -> None:
    with RayExecutor() as executor:
        assert executor._max_workers == 2
        result = minimize(
            bowl, PLANE, trials=16, method="gp-ei", seed=0, n_jobs=executor, catch=ArithmeticError, progress=False
        )
    assert result.nfev == 16
    assert result.best.value is not None
    assert result.best.value < 0.05
    with RayExecutor(1) as executor, pytest.raises(ArithmeticError, match="too far"):
        minimize(
            bowl,
            {"x": Float(0, 1), "y": Float(0.95, 1)},
            trials=2,
            method="random",
            n_jobs=executor,
            catch=KeyError,
            progress=False,
        )
    with pytest.raises(ValueError, match="no room"):
        RayExecutor(num_gpus=1)


def test_minimize_on_dask() -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'regretless[dask]'")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        result = minimize(
            bowl,
            PLANE,
            trials=16,
            method="gp-ei",
            seed=0,
            n_jobs=client.get_executor(),
            catch=ArithmeticError,
            progress=False,
        )
    assert result.nfev == 16
    assert result.best.value is not None
    assert result.best.value < 0.05
    assert len({t.params["x"] for t in result.trials}) == 16


class Timed(Searcher):
    """A searcher that adds up the wall time it spends."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.spent = 0.0

    def suggest(self, trial_id: str) -> Any:
        start = time.perf_counter()
        found = super().suggest(trial_id)
        self.spent += time.perf_counter() - start
        return found

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        start = time.perf_counter()
        super().on_trial_complete(trial_id, result, error)
        self.spent += time.perf_counter() - start


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gp-ucb"])
def test_64_workers_leave_the_suggester_idle(method: str) -> None:
    """64 concurrent trials that sleep: the search may cost a fifth of the wall time at most."""
    ray.shutdown()
    with local_cluster(64):
        searcher = Timed({"x": Float(-5, 10), "y": Float(0, 3)}, metric="loss", mode="min", method=method, seed=0)
        executor = RayExecutor(64)
        wait(
            [executor.submit(sleep_and_score, {"x": 0.0, "y": 0.0, "seconds": 1.0}) for _ in range(64)]
        )  # all workers have started
        start = time.perf_counter()
        running: dict[Any, str] = {}
        for i in range(192):
            config = searcher.suggest(str(i))
            running[executor.submit(sleep_and_score, {**config, "seconds": 5.0})] = str(i)
            while len(running) >= 64:
                for future in wait(running, return_when="FIRST_COMPLETED").done:
                    searcher.on_trial_complete(running.pop(future), {"loss": future.result()})
        for future in wait(running).done:
            searcher.on_trial_complete(running.pop(future), {"loss": future.result()})
        share = searcher.spent / (time.perf_counter() - start)
        print(f"the suggester took {share:.1%} of the wall time")
        assert share < 0.2
        assert searcher.optimizer is not None
        assert len(np.unique([t.unit for t in searcher.optimizer.trials], axis=0)) == 192


def sleep_and_score(config: dict[str, Any]) -> float:
    time.sleep(config["seconds"])
    return (config["x"] - 2) ** 2 / 25 + (config["y"] - 1) ** 2
