"""`Sampler` inside Optuna: its conformance suites, exactness over storages and processes, parallel workers, zombies,
failures, conditions."""

from __future__ import annotations

import copy
import math
import os
import pickle
import random
import sys
import warnings
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import TrialState
from sqlalchemy import event
from worker import PLANE, SPACE, STORAGES, bowl, bowl_trial, mixed_trial, start_worker, wait_for

import regretless
from regretless.auto import find_recipe, others
from regretless.classics import CLASSICS
from regretless.doors.optuna.distributions import as_distributions
from regretless.doors.optuna.presence import LINE, presence_in
from regretless.doors.optuna.sampler import Sampler
from regretless.doors.optuna.trials import VARIANCE, is_lost
from regretless.doors.optuna.urls import open_storage
from regretless.history import History
from regretless.methods import METHODS
from regretless.models.gp import surrogate
from regretless.models.gp.surrogate import SharedFits
from regretless.outlook.probes import most_better
from regretless.outlook.stopping import StopWhen
from regretless.space.parameters import Float

EVERY = [*METHODS, *CLASSICS, *others()]
ONE_STORAGE = [STORAGES[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in STORAGES[1:])]
"""All kinds of storage, of which `make test` takes the first."""
EXACT = ["random", "gp-ei", "turbo"]
"""The methods of the exactness tests: without a model, with a fitted model, with a trust region that remembers."""
DRAWN = "ignore:parameter .* is not part of:UserWarning"


def replica_of(sampler: Sampler, study: optuna.Study) -> Any:
    """The copy of a study's run that its sampler asks."""
    return sampler._current(study)


def params_of(study: optuna.Study) -> list[dict[str, Any]]:
    return [t.params for t in study.get_trials(deepcopy=False)]


# ---------------------------------------------------------------- Optuna's own suites


class _OfMethods:
    @pytest.fixture
    def sampler(self, method: str) -> Callable[[], BaseSampler]:
        return lambda: Sampler(method, seed=0)


OFTEN = ["auto", "random", *METHODS]
"""Methods that go through Optuna's suites in every run of the tests; all the others do in the slow ones."""
of_every_method = [
    pytest.mark.filterwarnings(DRAWN, "ignore:GP-ThreDS in"),
    pytest.mark.parametrize(
        "method", [pytest.param(m, marks=() if m in OFTEN else pytest.mark.slow) for m in ("auto", *EVERY)]
    ),
]


class TestBasic(_OfMethods, BasicSamplerTestCase):
    pytestmark = of_every_method


FRONTS = ["auto", *(m for m in EVERY if find_recipe(m).method.traits.objectives)]
"""The methods that search several objectives."""


@pytest.mark.parametrize("method", [m for m in EVERY if m not in FRONTS])
class TestSingle(_OfMethods, SingleOnlySamplerTestCase):
    pass


@pytest.mark.parametrize("method", FRONTS)
class TestSeveral(_OfMethods, MultiObjectiveSamplerTestCase):
    pass


class TestRelative(_OfMethods, RelativeSamplerTestCase):
    pytestmark = of_every_method


@pytest.mark.filterwarnings("ignore:GP-ThreDS in")
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("method", EVERY)
def test_every_method_runs_a_mixed_study(method: str, direction: str) -> None:
    study = optuna.create_study(sampler=Sampler(method, seed=1, budget=6), direction=direction)
    study.optimize(mixed_trial, n_trials=6)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 6


@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1.0), ("maximize", -1.0)])
def test_a_model_searches_in_the_study_direction(direction: str, sign: float) -> None:
    study = optuna.create_study(sampler=Sampler("gp-ei", seed=3, search_space=PLANE), direction=direction)
    study.optimize(lambda trial: sign * bowl_trial(trial), n_trials=20)
    random = np.random.default_rng(0).random((2000, 20, 2))
    blind = np.median((((random[..., 0] * 15 - 8.3) / 15) ** 2 + ((random[..., 1] * 3 - 0.9) / 3) ** 2).min(axis=1))
    assert sign * study.best_value < blind


# ---------------------------------------------------------------- exactness


@pytest.fixture(scope="module")
def uninterrupted() -> dict[str, list[dict[str, Any]]]:
    """24 trials in one go, in memory."""
    found = {}
    for method in EXACT:
        study = optuna.create_study(sampler=Sampler(method, seed=7))
        study.optimize(mixed_trial, n_trials=24)
        found[method] = params_of(study)
    return found


def test_16_and_8_in_memory_with_another_sampler(uninterrupted: dict[str, Any]) -> None:
    for method in EXACT:
        study = optuna.create_study(sampler=Sampler(method, seed=7))
        study.optimize(mixed_trial, n_trials=16)
        study.sampler = pickle.loads(pickle.dumps(Sampler(method, seed=7)))
        study.optimize(mixed_trial, n_trials=8)
        assert params_of(study) == uninterrupted[method]


@pytest.mark.parametrize("kind", ONE_STORAGE)
def test_16_and_8_in_a_fresh_process(
    kind: str, storage_url: Callable[[str], str], uninterrupted: dict[str, Any]
) -> None:
    url = storage_url(kind)
    storage = open_storage(url)
    for method in EXACT:
        study = optuna.create_study(sampler=Sampler(method, seed=7), storage=storage, study_name=method)
        study.optimize(mixed_trial, n_trials=16)
    wait_for(start_worker(url, [(m, m) for m in EXACT], 8, "--seed", "7"))
    for method in EXACT:
        resumed = optuna.load_study(study_name=method, storage=open_storage(url))
        assert params_of(resumed) == uninterrupted[method], method


def test_two_studies_can_share_a_sampler(uninterrupted: dict[str, Any]) -> None:
    sampler = Sampler("random", seed=7)
    studies = [optuna.create_study(sampler=sampler) for _ in range(2)]
    for _ in range(24):
        for study in studies:
            study.optimize(mixed_trial, n_trials=1)
    assert [params_of(study) for study in studies] == [uninterrupted["random"]] * 2


def test_the_space_can_be_given_in_either_language() -> None:
    distributions = {
        "x": FloatDistribution(-5.0, 10.0), "lr": FloatDistribution(1e-5, 1e-1, log=True), "k": IntDistribution(1, 8),
        "kind": CategoricalDistribution(["a", "b", "c"]),
    }  # fmt: skip
    assert as_distributions(SPACE) == dict(sorted(distributions.items()))
    runs = []
    for space in (SPACE, distributions):
        study = optuna.create_study(sampler=Sampler("sobol", seed=0, search_space=space))
        study.optimize(mixed_trial, n_trials=5)
        runs.append(params_of(study))
    assert runs[0] == runs[1]


# ---------------------------------------------------------------- workers


@pytest.mark.parametrize("kind", ONE_STORAGE)
def test_four_seeded_processes_do_not_repeat_each_other(kind: str, storage_url: Callable[[str], str]) -> None:
    url = storage_url(kind)
    optuna.create_study(storage=open_storage(url), study_name="shared")
    workers = [start_worker(url, [("shared", "gp-ei")], 10, "--objective", "bowl") for _ in range(4)]
    for worker in workers:
        wait_for(worker)
    study = optuna.load_study(study_name="shared", storage=open_storage(url))
    points = np.array([[t.params["x"], t.params["y"]] for t in study.trials])
    assert [t.number for t in study.trials] == list(range(40))
    assert all(t.state == TrialState.COMPLETE for t in study.trials)
    assert len(np.unique(points, axis=0)) == 40
    random = np.random.default_rng(1).random((4000, 40, 2))
    blind = (((random[..., 0] * 15 - 8.3) / 15) ** 2 + ((random[..., 1] * 3 - 0.9) / 3) ** 2).min(axis=1)
    assert study.best_value < np.quantile(blind, 0.25), "four workers must clearly beat 40 random trials"


def test_threads_do_not_repeat_each_other() -> None:
    study = optuna.create_study(sampler=Sampler("gp-ei", seed=0, search_space=PLANE))
    study.optimize(bowl_trial, n_trials=16, n_jobs=4)
    assert len({(t.params["x"], t.params["y"]) for t in study.trials}) == 16


def test_a_worker_reads_no_trials_that_optuna_has_just_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all trials is what a relational storage is slowest at."""
    study = optuna.create_study(
        sampler=Sampler("random", seed=0, search_space=PLANE), storage=f"sqlite:///{tmp_path}/s.db"
    )
    study.optimize(bowl_trial, n_trials=2)
    read, reads = study._storage.get_all_trials, []
    monkeypatch.setattr(
        study._storage, "get_all_trials", lambda *args, **options: reads.append(1) or read(*args, **options)
    )
    first = study.ask(as_distributions(PLANE))
    assert len(reads) == 1, "Optuna's own look for enqueued trials"
    second = study.ask(as_distributions(PLANE))  # the first is still running
    assert len(reads) == 2, "whoever else is at work is seen in the lines of the study"
    assert first.params != second.params


@pytest.mark.parametrize("search_space", [None, PLANE], ids=["learnt", "given"])
def test_a_trial_takes_few_statements_of_sql_beyond_those_of_optuna(search_space: Any, tmp_path: Path) -> None:
    """A proposal is announced in three, and a look at the announcements takes two."""

    def statements(sampler: BaseSampler, rivals: bool) -> int:
        url = f"sqlite:///{tmp_path}/{type(sampler).__name__}{rivals}.db"
        study, count = optuna.create_study(sampler=sampler, storage=url), 0
        study.optimize(bowl_trial, n_trials=9)
        if rivals:
            optuna.load_study(study_name=study.study_name, storage=url, sampler=sampler).ask(as_distributions(PLANE))

        @event.listens_for(study._storage._backend.engine, "before_cursor_execute")  # type: ignore[attr-defined]
        def _(*_: Any) -> None:
            nonlocal count
            count += 1

        study.optimize(bowl_trial, n_trials=4)
        return count // 4

    for rivals in (False, True):
        own = statements(Sampler("random", seed=0, search_space=search_space), rivals)
        assert own - statements(optuna.samplers.RandomSampler(seed=0), rivals) <= (7 if rivals else 5)


@pytest.mark.parametrize("method", ["gp-ei", "random"])
def test_steps_in_any_order_give_what_they_give_in_memory(method: str, tmp_path: Path) -> None:
    """Trials are asked, suggested, told and added in a random order, and by two copies of the study in turns: what a
    proposal knows is what has been told before it."""

    def points(storage: str | None, copies: int) -> list[Any]:
        rng, under_way = random.Random(method), []
        sampler = Sampler(method, seed=3, search_space=PLANE)
        first = optuna.create_study(sampler=sampler, storage=storage, study_name="s")
        others = [optuna.load_study(study_name="s", storage=storage, sampler=sampler) for _ in range(copies - 1)]
        studies = [first, *others]
        for _ in range(70):
            study, step = rng.choice(studies), rng.random()
            if step < 0.35:
                under_way.append(study.ask())
            elif step < 0.6 and under_way:
                rng.choice(under_way).suggest_float("x", -5.0, 10.0)
            elif step < 0.95 and under_way:
                trial = under_way.pop(rng.randrange(len(under_way)))
                trial.study.tell(trial, bowl_trial(trial))
            elif step >= 0.95:
                params = {"x": rng.uniform(-5, 10), "y": rng.uniform(1, 4)}
                study.add_trial(
                    optuna.create_trial(params=params, distributions=as_distributions(PLANE), value=bowl(**params))
                )
        return [(t.number, t.params, t.values) for t in first.trials]

    assert points(f"sqlite:///{tmp_path}/s.db", 1) == points(None, 1)


def test_workers_tell_each_other_their_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers in turns: each makes half of the fits, and their points are those of workers who make them all."""
    space = {
        "x": FloatDistribution(1e-4, 10.0, log=True),
        "y": FloatDistribution(-3.0, 5.5),
        "k": IntDistribution(3, 9),
    }

    def run(name: str) -> tuple[list[Any], int]:
        url, made = f"sqlite:///{tmp_path}/{name}.db", []
        optuna.create_study(storage=url, study_name="s")
        make = surrogate.fit
        monkeypatch.setattr(surrogate, "fit", lambda *a, **k: made.append(1) or make(*a, **k))
        workers, under_way = [], []
        for _ in range(2):
            sampler = Sampler("gp-ei", seed=0, search_space=space)
            workers.append(optuna.load_study(study_name="s", storage=url, sampler=sampler))
        for i in range(40):
            under_way.append(workers[i % 2].ask(space))
            if len(under_way) > 2:
                trial = under_way.pop(0)
                p = trial.params
                trial.study.tell(trial, (math.log10(p["x"]) + 1) ** 2 + math.sin(2 * p["y"]) + 0.1 * p["k"])
        monkeypatch.setattr(surrogate, "fit", make)
        return params_of(workers[0]), len(made)

    told, few = run("told")
    monkeypatch.setattr(SharedFits, "learn", lambda *_: None)
    alone, many = run("alone")
    assert told == alone
    assert few < 0.7 * many


@pytest.mark.parametrize("fits", [5, {"a": 1}, {"a": [1.0] * 6}, {"a": None}, [1]])
def test_fits_of_others_may_be_anything(fits: Any) -> None:
    def points(more: Any) -> list[dict[str, Any]]:
        study = optuna.create_study(sampler=Sampler("gp-ei", seed=0, search_space=PLANE))
        line = {"by": {"place": "elsewhere"}, "count": 1, "asks": {}, **more}
        study._storage.set_study_system_attr(study._study_id, LINE + "them", line)
        study.optimize(bowl_trial, n_trials=12)
        return params_of(study)

    assert points({"fits": fits}) == points({})


def test_a_trial_that_ends_while_another_process_asks_is_not_repeated(tmp_path: Path) -> None:
    """Its process announces, evaluates and lets go between Optuna's reading of the trials and our look at the lines."""
    space, url = as_distributions(PLANE), f"sqlite:///{tmp_path}/s.db"

    def next_point(rival: dict[str, Any] | None) -> dict[str, Any]:
        name = f"s{rival}"
        sampler = Sampler("gp-ei", seed=0, search_space=PLANE)
        study = optuna.create_study(sampler=sampler, storage=url, study_name=name)
        study.optimize(bowl_trial, n_trials=8)
        other = optuna.load_study(study_name=name, storage=url)._storage
        running = optuna.trial.create_trial(state=TrialState.RUNNING, params={}, distributions={})
        running.datetime_start = datetime.now()
        number = other.create_new_trial(study._study_id, template_trial=running)
        create = study._storage.create_new_trial

        def create_late(study_id: int, template_trial: Any = None) -> int:
            if rival is not None:
                for key, value in rival.items():
                    other.set_trial_param(number, key, value, space[key])
                other.set_trial_state_values(number, TrialState.COMPLETE, [bowl(**rival)])
                line = {"by": {"place": "elsewhere"}, "count": 9, "asks": {}, "past": [8]}
                other.set_study_system_attr(study_id, LINE + "rival", line)
            return create(study_id, template_trial)

        study._storage.create_new_trial = create_late  # type: ignore[method-assign]
        params: dict[str, Any] = study.ask(space).params
        return params

    alone = next_point(None)
    moved = next_point(alone)
    assert abs(moved["x"] - alone["x"]) / 15 > 1e-3 or abs(moved["y"] - alone["y"]) / 3 > 1e-3


@pytest.mark.parametrize("done", [False, True], ids=["still running", "finished already"])
def test_a_race_is_noticed_and_left(done: bool) -> None:
    """Another worker takes our very point between our look at the storage and our own announcement."""
    space = as_distributions(PLANE)

    def next_point(rival: dict[str, Any] | None) -> dict[str, Any]:
        study = optuna.create_study(sampler=Sampler("gp-ei", seed=0, search_space=PLANE))
        study.optimize(bowl_trial, n_trials=8)
        storage, write, rivals = study._storage, study._storage.set_study_system_attr, []

        def write_after_the_rival(study_id: int, key: str, value: Any) -> None:
            if key.startswith(LINE) and rival is not None and not rivals:
                template = optuna.trial.create_trial(state=TrialState.RUNNING, params=rival, distributions=space)
                rivals.append(storage.create_new_trial(study_id, template_trial=template))
                write(study_id, f"{LINE}rival", {"by": {}, "count": 1, "asks": {"9": rival}})
                if done:
                    storage.set_trial_state_values(rivals[0], TrialState.COMPLETE, [bowl(**rival)])
            write(study_id, key, value)

        storage.set_study_system_attr = write_after_the_rival  # type: ignore[method-assign]
        params: dict[str, Any] = study.ask(space).params
        assert len(rivals) == (rival is not None)
        return params

    alone = next_point(None)
    assert next_point(None) == alone
    moved = next_point(alone)
    assert abs(moved["x"] - alone["x"]) / 15 > 1e-3 or abs(moved["y"] - alone["y"]) / 3 > 1e-3


def test_tables_and_dashboards_show_nothing_of_ours(tmp_path: Path) -> None:
    """What the sampler keeps stands in system attributes of the study, which neither shows."""
    url = f"sqlite:///{tmp_path}/s.db"
    study = optuna.create_study(sampler=Sampler("gp-ei", seed=0, search_space=PLANE), storage=url)
    study.enqueue_trial({"x": 1.5})
    study.optimize(bowl_trial, n_trials=6, callbacks=[StopWhen(no_improvement=50)])
    table = study.trials_dataframe(multi_index=True)
    assert not [column for column in table.columns if "regretless" in str(column)]
    assert not [name for name in study.user_attrs if "regretless" in name]
    assert any(key.startswith(LINE) for key in study._storage.get_study_system_attrs(study._study_id))


def test_a_proposal_is_shared_before_its_parameters_are_suggested(tmp_path: Path) -> None:
    space = {f"a_rather_long_parameter_name_{i}": FloatDistribution(0.0, 1.0) for i in range(150)}
    url = f"sqlite:///{tmp_path}/s.db"
    study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=space), storage=url, study_name="s")
    trial = study.ask()
    trial.suggest_float("a_rather_long_parameter_name_0", 0.0, 1.0)
    other = optuna.load_study(study_name="s", storage=url)
    (line,) = presence_in(other).look(other._storage).values()
    assert len(other.trials[0].params) == 1
    assert line.asks == {0: {name: trial.suggest_float(name, 0.0, 1.0) for name in space}}


# ---------------------------------------------------------------- running trials


def zombies(study: optuna.Study, age: timedelta) -> None:
    """Five running trials near the optimum whose worker is dead."""
    for i in range(5):
        dead = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params={"x": 3.3 + 0.05 * i, "y": 1.9 - 0.02 * i},
            distributions=dict(as_distributions(PLANE)),
        )
        dead.datetime_start = datetime.now() - age
        study._storage.create_new_trial(study._study_id, template_trial=dead)


def best_of_30(method: str, seed: int, age: timedelta | None, **options: Any) -> float:
    study = optuna.create_study(sampler=Sampler(method, seed=seed, search_space=PLANE, **options))
    if age is not None:
        zombies(study, age)
    study.optimize(bowl_trial, n_trials=30)
    return study.best_value


@pytest.mark.parametrize("method", ["gp-ei", "gp-ucb"])
@pytest.mark.parametrize("options", [{}, {"pending_ttl": 600}], ids=["by default", "with pending_ttl"])
def test_lost_trials_do_not_change_the_run(method: str, options: dict[str, Any]) -> None:
    """Five trials of a worker that died an hour ago: the same points, so the same best value, as without them."""
    clean = [best_of_30(method, seed, None, **options) for seed in range(3)]
    with_dead = [best_of_30(method, seed, timedelta(hours=1), **options) for seed in range(3)]
    assert with_dead == clean


@pytest.mark.parametrize("method", ["gp-ei", "gp-ucb", "turbo"])
def test_trials_lost_just_now_do_not_spoil_the_run(method: str) -> None:
    """Nobody can know yet that these are dead; the run must still find the optimum."""
    recent = [best_of_30(method, seed, timedelta(seconds=0)) for seed in range(3)]
    assert np.median(recent) < 1e-4  # the range of the bowl is about 0.6; random search: 0.008


def test_running_trials_are_kept_away_from() -> None:
    study = optuna.create_study(sampler=Sampler("gp-ei", seed=0, search_space=PLANE, pending_ttl=math.inf))
    study.optimize(bowl_trial, n_trials=12)
    first = study.ask(as_distributions(PLANE))
    second = study.ask(as_distributions(PLANE))
    again = copy.deepcopy(study)
    again.tell(first.number, state=TrialState.PRUNED)
    assert (first.params["x"], first.params["y"]) != (second.params["x"], second.params["y"])


def test_an_ask_pays_little_for_running_trials_that_have_not_changed() -> None:
    """It looks at each again, and neither parses nor encodes it; counted are the functions that Python enters."""

    def calls(running: int) -> int:
        study, entered = optuna.create_study(sampler=Sampler("random", seed=0, search_space=SPACE)), 0
        for _ in range(4):
            trial = study.ask()
            study.tell(trial, mixed_trial(trial))
        for _ in range(running + 1):
            mixed_trial(study.ask())

        def count(frame: Any, event: str, _: Any) -> None:
            nonlocal entered
            entered += event == "call"

        sys.setprofile(count)
        try:
            study.ask()
        finally:
            sys.setprofile(None)
        return entered

    assert calls(120) - calls(20) < 100 * 80  # to read, decode and encode a trial takes 190


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_stale_heartbeat_is_no_failure_of_the_point(tmp_path: Path) -> None:
    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/s.db", heartbeat_interval=60)
    study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE), storage=storage)

    def objective(trial: optuna.Trial) -> float:
        bowl_trial(trial)
        raise ValueError("infeasible")

    study.optimize(objective, n_trials=1, catch=(ValueError,))
    given_up = study._storage.create_new_trial(
        study._study_id,
        optuna.trial.create_trial(
            state=TrialState.RUNNING, params={"x": 1.0, "y": 2.0}, distributions=dict(as_distributions(PLANE))
        ),
    )
    study._storage.set_trial_state_values(given_up, TrialState.FAIL)
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    replica = replica_of(sampler, study)
    assert replica is not None
    assert len(replica.optimizer.history.failed) == 1
    assert study.trials[0].params == replica.decode(replica.optimizer.history.failed[0])


# ---------------------------------------------------------------- failed, pruned, noisy


class DivergedError(Exception):
    pass


def failing_beyond(x: float) -> Callable[[optuna.Trial], float]:
    def objective(trial: optuna.Trial) -> float:
        value = bowl_trial(trial)
        if trial.params["x"] > x:
            raise DivergedError
        return value

    return objective


@pytest.mark.parametrize("method", ["gp-ei", "gp-ucb", "turbo", "go-ucb"])
def test_failures_are_left_alone(method: str) -> None:
    """A third of the plane fails: nothing is proposed next to a failed point again, and few trials are spent there."""
    study = optuna.create_study(sampler=Sampler(method, seed=0, search_space=PLANE))
    study.optimize(failing_beyond(5.0), n_trials=30, catch=(DivergedError,))
    U = np.array([[(t.params["x"] + 5) / 15, (t.params["y"] - 1) / 3] for t in study.trials])
    failed = np.array([t.state == TrialState.FAIL for t in study.trials])
    assert failed.any()
    assert failed.mean() < 0.4
    for i in range(1, 30):
        assert np.abs(U[i] - U[:i][failed[:i]]).max(axis=1, initial=0.0).min(initial=1.0) > 0.01


@pytest.mark.parametrize("method", ["igp-ucb", "grid-ei", "grid-pi", "neural-ucb"])
def test_methods_on_candidates_leave_failing_regions(method: str) -> None:
    """A third of the plane fails and stays the least known: a method that only leaves out failed points would spend its
    trials there."""
    failed = []
    for seed in range(5):
        study = optuna.create_study(sampler=Sampler(method, seed=seed, search_space=PLANE))
        study.optimize(failing_beyond(5.0), n_trials=20, catch=(DivergedError,))
        failed.append(sum(t.state == TrialState.FAIL for t in study.trials))
    assert np.median(failed) < 20 / 4  # random search: 20 / 3; neural-ucb without the repulsion: 17


@pytest.mark.parametrize("method", ["gp-ei", "gp-ucb"])
def test_an_optimum_behind_failures_is_approached(method: str) -> None:
    """The optimum of the bowl itself fails; the best setting that works lies on the border."""
    study = optuna.create_study(sampler=Sampler(method, seed=0, search_space=PLANE))
    study.optimize(failing_beyond(2.5), n_trials=30, catch=(DivergedError,))
    assert study.best_value < bowl(2.5, 1.9) + 0.005  # random search: 0.03


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.filterwarnings("ignore:GP-ThreDS in")
def test_no_method_repeats_a_failure(method: str) -> None:
    study = optuna.create_study(sampler=Sampler(method, seed=0, search_space=PLANE, budget=12))
    study.optimize(failing_beyond(-6.0), n_trials=12, catch=(DivergedError,))
    U = np.array([[(t.params["x"] + 5) / 15, (t.params["y"] - 1) / 3] for t in study.trials])
    assert min(np.abs(U[i] - U[:i]).max(axis=1).min() for i in range(1, 12)) >= 1e-3


def test_pruned_trials_count_when_asked() -> None:
    def objective(trial: optuna.Trial) -> float:
        value = bowl_trial(trial)
        trial.report(value, step=1)
        trial.report(value + 1, step=3)
        raise optuna.TrialPruned

    for pruned, told in (("ignore", 0), ("last", 5)):
        study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE, pruned=pruned))  # type: ignore[arg-type]
        study.optimize(objective, n_trials=5)
        sampler = study.sampler
        assert isinstance(sampler, Sampler)
        replica = replica_of(sampler, study)
        assert replica is not None
        assert len(replica.optimizer.history.y) == told
        np.testing.assert_allclose(replica.optimizer.history.y, [-(bowl(**t.params) + 1) for t in study.trials][:told])


def test_violated_constraints_are_infeasible_and_variances_are_used() -> None:
    study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE))
    distributions = as_distributions(PLANE)
    study.add_trial(
        optuna.create_trial(
            params={"x": 0.0, "y": 2.0}, distributions=distributions, value=1.0, system_attrs={"constraints:a": 0.5}
        )
    )
    study.add_trial(
        optuna.create_trial(
            params={"x": 1.0, "y": 2.0},
            distributions=distributions,
            value=2.0,
            user_attrs={VARIANCE: 0.25},
            system_attrs={"constraints:a": -0.5},
        )
    )
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    replica = replica_of(sampler, study)
    assert replica is not None
    assert replica.optimizer.history.y.tolist() == [-2.0]
    assert replica.optimizer.history.yvar.tolist() == [0.25]
    assert len(replica.optimizer.history.failed) == 1


# ---------------------------------------------------------------- define by run


def branches(trial: optuna.Trial) -> float:
    if trial.suggest_categorical("kind", ["line", "curve"]) == "line":
        return abs(math.log10(trial.suggest_float("slope", 1e-4, 1e2, log=True)) + 2.3)
    knots = trial.suggest_int("knots", 2, 7)
    bend = trial.suggest_float("bend", 1.0, 3.0) - 1.9 if knots > 3 else 0.6
    return 0.1 * abs(knots - 5) + bend**2


def test_the_sampler_learns_when_parameters_exist() -> None:
    study = optuna.create_study(sampler=Sampler("gp-ei", seed=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(branches, n_trials=24)
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    assert sampler._tree(study).when == {
        "slope": {"kind": (0.0,)}, "knots": {"kind": (1.0,)}, "bend": {"knots": (4.0, 5.0, 6.0, 7.0)},
    }  # fmt: skip
    assert study.best_value < 0.02  # 24 random draws: 0.13 in the median
    assert set(sampler.recommend(study)) in ({"kind", "slope"}, {"kind", "knots", "bend"}, {"kind", "knots"})


def test_a_learnt_tree_goes_on_exactly(tmp_path: Path) -> None:
    whole = optuna.create_study(sampler=Sampler("gp-ei", seed=5))
    whole.optimize(branches, n_trials=14)
    for part in (8, 6):
        study = optuna.create_study(
            study_name="s", storage=f"sqlite:///{tmp_path}/s.db", load_if_exists=True, sampler=Sampler("gp-ei", seed=5)
        )
        study.optimize(branches, n_trials=part)
    assert params_of(study) == params_of(whole)


def test_what_nothing_explains_is_drawn_and_one_warning_says_so() -> None:
    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.5, 3.0)
        if trial.number % 3 == 1:
            x += trial.suggest_float("slope", 0.0, 1.0) + trial.suggest_int("knots", 2, 5)
        return x

    study = optuna.create_study(sampler=Sampler("random", seed=0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study.optimize(objective, n_trials=12)
    said = [str(w.message) for w in caught if "drawn at random" in str(w.message)]
    assert len(said) == 1
    assert "'slope'" in said[0] or "'knots'" in said[0]


def test_a_space_with_conditions_and_rules_is_searched_from_the_first_trial() -> None:
    space = regretless.Space(
        {
            "kind": regretless.Choice(["line", "curve"]),
            "low": regretless.Float(-2.0, 6.0),
            "high": regretless.Float(1.0, 9.0),
            "bend": regretless.Float(1e-3, 1e2, log=True, when={"kind": "curve"}),
        },
        where=["low < high", "kind == 'line' or low <= 3"],
    )
    study = optuna.create_study(sampler=Sampler("gp-ei", seed=1, search_space=space))
    for _ in range(12):
        trial = study.ask()
        params = trial.relative_params
        space.check(params)
        assert ("bend" in params) == (params["kind"] == "curve")
        kind = trial.suggest_categorical("kind", ["line", "curve"])
        value = trial.suggest_float("high", 1.0, 9.0) - trial.suggest_float("low", -2.0, 6.0)
        if kind == "curve":
            value += trial.suggest_float("bend", 1e-3, 1e2, log=True)
        study.tell(trial, value)
    assert study.best_value < 0.5


def test_a_static_space_needs_no_warning() -> None:
    study = optuna.create_study(sampler=Sampler("random", seed=0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(mixed_trial, n_trials=4)


def test_choices_may_be_any_objects() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = {"layers": CategoricalDistribution([[8], [8, 8], math.nan]), "x": FloatDistribution(0.0, 1.0)}  # type: ignore[list-item]
        study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=space))
        for _ in range(6):
            trial = study.ask(dict(space))
            study.tell(trial, 1.0)
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    replica = replica_of(sampler, study)
    assert replica is not None
    assert len(replica.optimizer.history.y) == 6


def test_enqueued_and_foreign_trials_are_told() -> None:
    study = optuna.create_study(sampler=Sampler("random", seed=0, search_space=PLANE))
    study.enqueue_trial({"x": 3.0, "y": 2.0})
    study.enqueue_trial({"x": -4.0})
    study.optimize(bowl_trial, n_trials=3)
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    replica = replica_of(sampler, study)
    assert replica is not None
    assert study.trials[0].params == {"x": 3.0, "y": 2.0}
    assert study.trials[1].params["x"] == -4.0
    np.testing.assert_allclose(replica.optimizer.history.y, [-t.values[0] for t in study.trials])


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_hyperbands_brackets_learn_from_each_other() -> None:
    def objective(trial: optuna.Trial) -> float:
        value = bowl_trial(trial)
        for step in range(1, 10):
            trial.report(value + 1 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study = optuna.create_study(
        sampler=Sampler("gp-ei", seed=0, pruned="last"), pruner=optuna.pruners.HyperbandPruner(max_resource=9)
    )
    study.optimize(objective, n_trials=12)
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    replica = replica_of(sampler, study)
    assert replica is not None
    assert len(sampler._replicas[study._storage]) == 1
    assert len(replica.optimizer.history.y) == 12


def pruned_trial(trial: optuna.Trial, reports: int = 6) -> float:
    """A bowl whose curves fall from above by a common amount."""
    value = bowl_trial(trial)
    for step in range(reports):
        trial.report(value + math.exp(-step), step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return value


@pytest.mark.parametrize("pruned", ["extrapolate", "last", "ignore"])
def test_pruned_points_are_not_proposed_again(pruned: Any) -> None:
    study = optuna.create_study(
        sampler=Sampler("gp-ei", seed=1, pruned=pruned), pruner=optuna.pruners.MedianPruner(n_startup_trials=2)
    )
    study.optimize(pruned_trial, n_trials=14)
    points = [tuple(t.params.values()) for t in study.trials]
    assert len(study.get_trials(states=(TrialState.PRUNED,))) >= 3
    assert len(set(points)) == 14


def test_no_method_repeats_a_pruned_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that proposes the best point again, to see how noisy it is."""

    def again(self: Any, history: History, cube: Any, rng: np.random.Generator) -> Any:
        return history.X[-1] if len(history) else rng.random(cube.dim)

    monkeypatch.setattr(CLASSICS["random"].method, "propose", again)
    study = optuna.create_study(
        sampler=Sampler("random", seed=1), pruner=optuna.pruners.MedianPruner(n_startup_trials=1)
    )
    study.enqueue_trial({"x": 3.1, "y": 1.9})
    study.optimize(pruned_trial, n_trials=1)
    study.enqueue_trial({"x": -4.0, "y": 1.0})
    study.optimize(pruned_trial, n_trials=4)
    states = [t.state for t in study.trials]
    assert states[:2] == [TrialState.COMPLETE, TrialState.PRUNED]
    cut = [tuple(t.params.items()) for t in study.trials if t.state == TrialState.PRUNED]
    assert len(set(cut)) == len(cut)


def test_pruned_trials_tell_what_they_would_have_come_to() -> None:
    """With curves that fall alike the extrapolated values are the final ones, and a resumed study tells the same."""
    storage = optuna.storages.InMemoryStorage()

    def study(method: str) -> optuna.Study:
        return optuna.create_study(
            storage=storage, study_name="s", load_if_exists=True, sampler=Sampler(method, seed=1),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
        )  # fmt: skip

    first = study("random")
    first.optimize(pruned_trial, n_trials=16)
    best = min(t.values[0] for t in first.trials if t.state == TrialState.COMPLETE)
    expected = [max(bowl(**t.params), best if t.state == TrialState.PRUNED else 0.0) for t in first.trials]
    assert any(t.state == TrialState.PRUNED for t in first.trials)
    for sampler in (first.sampler, study("gp-ei").sampler):
        assert isinstance(sampler, Sampler)
        replica = replica_of(sampler, first)
        assert replica is not None
        np.testing.assert_allclose(-replica.optimizer.history.y, expected, rtol=1e-9)
    guided, plain = Sampler("gp-ucb", seed=1), Sampler("gp-ucb", seed=1, pruned="ignore")
    assert guided.certificate(first) == plain.certificate(first)  # guesses are no ground for a certificate


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "no-such"}, "unknown method 'no-such'"),
        ({"pending_ttl": 0}, r"pending_ttl must be a number in \(0, inf\] or None, got 0"),
        ({"seed": "a"}, "seed must be a whole number of at least 0, got 'a'"),
        ({"method": 3}, 'method must be a name, a recipe or "auto", got 3'),
        ({"pruned": "maybe"}, "pruned must be one of 'extrapolate', 'last', 'ignore', got 'maybe'"),
        ({"search_space": {}}, "empty"),
        ({"budget": 0}, "budget must be a whole number of at least 1 or None, got 0"),
        ({"floor": "low"}, r"floor must be a number in \(-inf, inf\) or None, got 'low'"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampler(**options)


def test_a_recommendation_has_the_parameters_of_one_value() -> None:
    """So that it can be passed to the training, as `study.best_params` can; each branch has its own."""

    def objective(trial: optuna.Trial) -> float:
        x, depth = trial.suggest_float("x", 3e-7, 0.2, log=True), trial.suggest_int("depth", 5, 5)
        if trial.suggest_categorical("model", ["svm", "forest"]) == "svm":
            return trial.suggest_float("C", 2.5, 2.5) + (math.log10(x) + 3) ** 2
        return float(depth + trial.suggest_categorical("trees", [100]))

    study = optuna.create_study(sampler=Sampler("gp-ei", seed=0))
    study.optimize(objective, n_trials=8)
    assert study.sampler.recommend(study) == study.best_params  # type: ignore[attr-defined]
    assert set(study.best_params) == {"x", "depth", "model", "C"}


def test_certificate_and_recommendation_follow_the_study() -> None:
    study = optuna.create_study(sampler=Sampler("random", seed=0), direction="maximize")
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    assert "no common search space" in sampler.certificate(study).reason
    with pytest.raises(RuntimeError, match="at least one completed trial"):
        sampler.recommend(study)
    study.optimize(bowl_trial, n_trials=5)
    assert sampler.recommend(study) == pytest.approx(study.best_params)
    assert not sampler.certificate(study, 0.1).certified


def test_probes_of_a_study_count_whatever_became_of_them() -> None:
    """Completed probes are compared; failed, pruned and running ones may be better; enqueued trials are none."""
    space = {"x": Float(-3.7, 11.2)}
    sampler = Sampler("random", seed=3, search_space=space, probes=0.5, floor=-4.0, noisy=False)
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial({"x": 1.0})
    study.enqueue_trial({"x": 2.0})  # trial 1 would have been a probe

    def f(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", -3.7, 11.2)
        if trial.number == 5:
            raise ValueError
        if trial.number == 7:
            raise optuna.TrialPruned
        return x

    study.optimize(f, n_trials=20, catch=(ValueError,))
    found = sampler.share(study, 0.05)
    assert (found.probes, found.undecided) == (9, 2)
    assert found.value == pytest.approx(most_better(9, 2, 0.05))
    certificate = sampler.certificate(study)
    assert certificate.share == found.value
    assert certificate.gap == pytest.approx(study.best_value + 4.0)
    study.ask().suggest_float("x", -3.7, 11.2)  # number 20 is none
    study.ask().suggest_float("x", -3.7, 11.2)
    waiting = sampler.share(study, 0.05)
    assert (waiting.probes, waiting.undecided) == (10, 3)
    assert waiting.value == pytest.approx(most_better(10, 3, 0.05 / 16))
    again = Sampler("random", seed=3, noisy=False, search_space={"x": Float(-3.7, 11.2)}, probes=0.5, floor=-4.0)
    assert again.share(study, 0.05) == waiting  # nothing lives outside the storage
    with pytest.raises(ValueError, match="cut short"):
        Sampler("random", probes=0.5, pruned="last")


# ---------------------------------------------------------------- constraints


def held(trial: optuna.trial.FrozenTrial) -> list[float]:
    """x + log10(y) >= 1.2 and x <= 3.4; the least x + 2 log10(y) under them is 1.2 + log10(y) at x = 3.4: -1."""
    x, y = trial.params["x"], math.log10(trial.params["y"])
    return [1.2 - x - y, x - 3.4]


def weighed(trial: optuna.Trial) -> float:
    return trial.suggest_float("x", 0.5, 5.0) + 2 * math.log10(trial.suggest_float("y", 1e-3, 1e2, log=True))


@pytest.mark.parametrize("given", [0.5, "ab", [math.nan], None])
def test_constraints_that_are_no_list_of_numbers_are_refused(given: Any) -> None:
    study = optuna.create_study(sampler=Sampler("random", seed=0, constraints_func=lambda trial: given))
    with pytest.raises(ValueError, match=r"constraints_func gave .* for trial 0: it must give a list of numbers"):
        study.optimize(lambda trial: trial.suggest_float("x", -2.5, 7.0), n_trials=2)


def test_constraints_come_by_a_function_or_by_the_trial() -> None:
    def by_trial(trial: optuna.Trial) -> float:
        value = weighed(trial)
        for name, constraint in zip("ab", held(trial), strict=True):  # type: ignore[arg-type]
            trial.set_constraint(name, constraint)
        return value

    by_function = optuna.create_study(sampler=Sampler("gp-ei", seed=2, constraints_func=held))
    by_function.optimize(weighed, n_trials=18)
    study = optuna.create_study(sampler=Sampler("gp-ei", seed=2))
    study.optimize(by_trial, n_trials=18)
    assert params_of(study) == params_of(by_function)
    feasible = [t.value for t in study.trials if max(held(t)) <= 0]
    assert min(v for v in feasible if v is not None) < -0.9  # the optimum is -1
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    best = sampler.recommend(study)
    assert 1.2 - best["x"] - math.log10(best["y"]) <= 0
    study.add_trial(
        optuna.create_trial(
            params=study.trials[0].params, distributions=study.trials[0].distributions, value=1.0,
            system_attrs={"constraints": [0.5]},
        )
    )  # fmt: skip
    with pytest.raises(ValueError, match="must not change"):
        weighed(study.ask())


def changing_ranges(*, kept: bool) -> optuna.Study:
    """A study whose range changes twice, by one sampler or by a fresh one for every trial; a worker with the old range
    finishes a trial late."""
    storage, sampler = optuna.storages.InMemoryStorage(), Sampler("gp-ei", seed=0)
    study = optuna.create_study(study_name="s", storage=storage, sampler=sampler)
    for low, high in ((1e-4, 2.0), (1.0, 60.0), (0.5, 3.0)):
        for i in range(6):
            if not kept:
                study = optuna.load_study(study_name="s", storage=storage, sampler=Sampler("gp-ei", seed=0))
            trial = study.ask()
            x, n = trial.suggest_float("x", low, high, log=True), trial.suggest_int("n", 1, 7, step=2)
            assert low <= x <= high
            study.tell(trial, (math.log(x) - 0.7) ** 2 + 0.1 * (n - 3) ** 2)
            if i == 2 and high == 3.0:
                old = {"x": FloatDistribution(1e-4, 2.0, log=True), "n": trial.distributions["n"]}
                study.add_trial(optuna.create_trial(params={"x": 0.3, "n": 5}, distributions=old, value=4.0))
                latest = {"x": 0.9, "n": 1}
                study.add_trial(optuna.create_trial(params=latest, distributions=trial.distributions, value=1.0))
    return study


def test_ranges_may_change_in_mid_study() -> None:
    """What was evaluated outside the present range still counts, nothing is proposed there, and a fresh process goes on
    alike."""
    study = changing_ranges(kept=True)
    assert params_of(study) == params_of(changing_ranges(kept=False))
    sampler = study.sampler
    assert isinstance(sampler, Sampler)
    replica = replica_of(sampler, study)
    assert replica is not None
    xs = np.array([t.params["x"] for t in study.trials])
    within = (xs >= 0.5) & (xs <= 3.0)
    history = replica.optimizer.history
    assert len(history) == within.sum() < len(xs)
    near = (xs >= 0.5 / 6) & (xs <= 18.0) & ~within  # up to one length of the range, on its scale
    assert len(history.outside[1]) == near.sum() > 1
    assert study.best_value < 0.05


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_knows_the_trials_of_before_as_lost() -> None:
    """A worker that died before it could sign leaves a nameless trial; one forked afterwards takes its place."""
    study = optuna.create_study()
    study.ask()  # nobody signs it
    nameless = study.trials[0]
    assert not is_lost(nameless, False, set(), False, False)  # it may be about to be signed by a worker beside us
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks in processes with threads
        pid = os.fork()
    if pid == 0:
        os._exit(0 if is_lost(nameless, False, set(), False, False) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_lies_outside_teaches_the_model() -> None:
    """The values of an earlier range show the slope: the first step inside the new one goes to its end."""

    def first(informed: bool) -> float:
        study = optuna.create_study(sampler=Sampler("gp-ei", seed=4))
        wide = {"x": optuna.distributions.FloatDistribution(-9.0, 4.0)}
        narrow = {"x": optuna.distributions.FloatDistribution(-3.0, 4.0)}
        for x in np.linspace(-9.0, -3.5, 9).tolist() if informed else ():
            study.add_trial(optuna.create_trial(params={"x": x}, distributions=wide, value=(x + 2.6) ** 2))
        for x in (-1.0, 0.5, 2.0, 3.5):
            study.add_trial(optuna.create_trial(params={"x": x}, distributions=narrow, value=(x + 2.6) ** 2))
        return study.ask().suggest_float("x", -3.0, 4.0)

    assert abs(first(informed=True) + 2.6) < 0.02
    assert first(informed=False) != first(informed=True)


def test_proposals_keep_off_bounds_that_nobody_called_legal() -> None:
    """The optimum lies on two bounds; where they may be met both are proposed. A trial on a bound is learnt from."""
    ranges = {"rate": FloatDistribution(1e-3, 10.0, log=True), "share": FloatDistribution(-2.0, 1.0),
              "part": FloatDistribution(0.0, 1.0, step=0.25)}  # fmt: skip

    def bounds_met(inside: bool | None, **options: Any) -> set[float]:
        study = optuna.create_study(sampler=Sampler("gp-ei", seed=1, inside=inside, **options))
        study.enqueue_trial({"rate": 1e-3, "share": 1.0, "part": 0.5})
        for _ in range(9):
            trial = study.ask()
            rate, share = trial.suggest_float("rate", 1e-3, 10.0, log=True), trial.suggest_float("share", -2.0, 1.0)
            study.tell(trial, math.log10(rate) - share + trial.suggest_float("part", 0.0, 1.0, step=0.25))
        assert 0.0 in {t.params["part"] for t in study.trials[1:]}  # steps are values of their own
        values = [t.params[name] for t in study.trials[1:] for name in ("rate", "share")]
        return {bound for bound in (1e-3, 10.0, -2.0, 1.0) if any(math.isclose(v, bound) for v in values)}

    assert {1e-3, 1.0} <= bounds_met(inside=False)
    assert {1e-3, 1.0} <= bounds_met(None, search_space=ranges)
    assert not bounds_met(inside=True)
    assert not bounds_met(None)


# ---------------------------------------------------------------- several objectives


def two_values(trial: optuna.Trial) -> tuple[float, float]:
    x, y = trial.suggest_float("x", -3.0, 4.5), trial.suggest_int("y", 1, 6)
    kind = trial.suggest_categorical("kind", ["a", "b"])
    return (x - 1) ** 2 + y, (x + 1) ** 2 + 7.0 / y + (kind == "b")


TWO = {"x": regretless.Float(-3.0, 4.5), "y": regretless.Int(1, 6), "kind": regretless.Choice(["a", "b"])}


def told_two(x: float, y: int, kind: str) -> dict[str, float]:
    return {"a": (x - 1) ** 2 + y, "b": (x + 1) ** 2 + 7.0 / y + (kind == "b")}


@pytest.mark.parametrize("method", ["auto", "sms-emoa"])
def test_a_study_with_several_objectives_has_the_points_of_minimize(method: str) -> None:
    study = optuna.create_study(
        directions=["minimize", "minimize"], sampler=Sampler(method, seed=3, budget=26, search_space=TWO)
    )
    study.optimize(two_values, n_trials=26)
    result = regretless.minimize(told_two, TWO, objectives=["a", "b"], trials=26, method=method, seed=3, progress=False)
    assert params_of(study) == [t.params for t in result.trials]
    assert [m.number for m in result.front] == [t.number for t in sorted(study.best_trials, key=lambda t: t.values[0])]


def test_several_objectives_go_on_from_the_trials_of_a_study() -> None:
    def fresh() -> optuna.Study:
        sampler = Sampler(seed=5, search_space=TWO, budget=20)
        return optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)

    def turned(trial: optuna.Trial) -> tuple[float, float]:
        a, b = two_values(trial)
        if trial.number == 7:
            raise ArithmeticError
        return a, -b

    whole, other = fresh(), fresh()
    whole.optimize(turned, n_trials=18, catch=ArithmeticError)
    for trial in whole.trials[:11]:
        other.add_trial(trial)
    other.optimize(turned, n_trials=7, catch=ArithmeticError)
    assert params_of(other) == params_of(whole)


def test_a_front_has_no_certificate_and_a_recommendation() -> None:
    sampler = Sampler(seed=0, search_space=TWO)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    study.optimize(two_values, n_trials=14)
    assert not sampler.certificate(study).certified
    assert sampler.recommend(study) in [t.params for t in study.best_trials]
    with pytest.raises(ValueError, match="has 2 objectives, and this is for studies with one"):
        optuna.create_study(directions=["minimize"] * 2, sampler=Sampler("gp-ucb")).optimize(two_values, n_trials=1)
