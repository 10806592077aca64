"""The ready adapters for bilevel tuning: torch modules and loaders, estimators with partial_fit, Optuna studies."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from regretless.basics.statefile import pack, unpack
from regretless.bilevel import Bilevel, minimize_bilevel
from regretless.bilevel.problem import step_sizes
from regretless.doors.optuna.bilevel import RUN, BilevelSampler
from regretless.doors.sklearn.bilevel import sklearn_bilevel
from regretless.doors.torch import torch_bilevel
from regretless.methods.bbo.theorems import convex_step, dominated_step
from regretless.space.parameters import Float, Int

optuna.logging.set_verbosity(optuna.logging.ERROR)


def blobs(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes in six dimensions, not quite separable."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return rng.standard_normal((n, 6)) + 0.9 * y[:, None], y


X, Y = blobs(300)
X_VAL, Y_VAL = blobs(200, 1)


def refrozen(problem: Bilevel, params: dict[str, Any], seed: int, state: Any) -> Any:
    """The state as another process would read it."""
    return problem.thaw(params, seed, unpack(pack(problem.freeze(state))))


def assert_thaws_exactly(problem: Bilevel, params: dict[str, Any]) -> None:
    straight, _ = problem.advance(problem.init(params, 7), 60)
    broken = problem.init(params, 7)
    for n in (1, 16, 20, 23):
        broken, _ = problem.advance(broken, n)
        broken = refrozen(problem, params, 7, broken)
    assert problem.validate(broken) == problem.validate(straight)
    other, _ = problem.advance(problem.init(params, 8), 60)
    assert problem.validate(other) != problem.validate(straight), "another seed should give another run"


# ---------------------------------------------------------------- torch


class Jittered(Dataset):
    """Training examples with random noise from torch's generator, as augmentation draws it."""

    def __len__(self) -> int:
        return 300

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.tensor(X[i], dtype=torch.float32) + 0.1 * torch.randn(6), int(Y[i])


TENSORS = torch.tensor(X, dtype=torch.float32), torch.tensor(Y)
VAL = torch.tensor(X_VAL, dtype=torch.float32), torch.tensor(Y_VAL)


def net(params: dict[str, Any]) -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, params["width"]),
        nn.BatchNorm1d(params["width"]),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(params["width"], 2),
    )


def adam(weights: Any, params: dict[str, Any]) -> torch.optim.Optimizer:
    return torch.optim.Adam(weights, lr=params["lr"])


@pytest.mark.parametrize(
    "data",
    [
        TENSORS,
        DataLoader(TensorDataset(*TENSORS), batch_size=32, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(*TENSORS), batch_size=32, shuffle=True),
        DataLoader(Jittered(), batch_size=32, shuffle=True),
        DataLoader(Jittered(), batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(1)),
        DataLoader(Jittered(), batch_size=32),
    ],
    ids=["tensors", "loader taken apart", "loader", "augmented", "own generator", "in order"],
)
def test_a_torch_run_thaws_exactly_whatever_feeds_it(data: Any) -> None:
    problem = torch_bilevel(net, data, VAL, optimiser=adam)
    before = torch.get_rng_state()
    assert_thaws_exactly(problem, {"lr": 0.01, "width": 8})
    assert torch.equal(before, torch.get_rng_state()), "torch's global generator was moved"


def test_tuning_a_module_gives_the_trained_module_back(tmp_path: Path) -> None:
    problem = torch_bilevel(net, TENSORS, DataLoader(TensorDataset(*VAL), batch_size=64), optimiser=adam)
    space = {"lr": Float(1e-4, 0.3, log=True), "width": Int(2, 16, log=True)}
    result = minimize_bilevel(problem, space, budget_steps=300, seed=1, folder=tmp_path, progress=False)
    assert result.value < 0.4
    assert problem.validate(result.state) == result.value
    assert result.state.model[0].out_features == result.params["width"]
    again = minimize_bilevel(problem, space, budget_steps=300, seed=1, folder=tmp_path, progress=False)
    assert again.value == result.value


def test_the_theorems_step_sizes_reach_the_optimiser() -> None:
    seen = []

    class Watching(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            seen.append(self.param_groups[0]["lr"])
            return super().step(closure)

    for rule, params, expected in (
        ("convex", {"lr": 0.5}, [convex_step(0.5, 100)] * 3),
        ("dominated", {"mu": 4.0}, [dominated_step(4.0, j) for j in range(3)]),
        ("raw", {"lr": 0.25}, [0.25] * 3),
        (lambda params, j: 1.0 / (j + 1), {}, [1.0, 0.5, 1 / 3]),
    ):
        seen.clear()
        problem = torch_bilevel(
            lambda p: nn.Linear(6, 2),
            TENSORS,
            VAL,
            optimiser=lambda w, p: Watching(w, lr=p.get("lr", 9.0)),
            step_size=rule,
            horizon=100,
        )
        problem.advance(problem.init(params, 0), 3)
        assert seen == expected
    with pytest.raises(ValueError, match="horizon"):
        step_sizes("convex")
    with pytest.raises(ValueError, match="step_size"):
        step_sizes("adaptive")  # type: ignore[arg-type]


def test_bad_data_is_named() -> None:
    with pytest.raises(ValueError, match="equally many rows"):
        torch_bilevel(net, (TENSORS[0], TENSORS[1][:5]), VAL, optimiser=adam)
    with pytest.raises(TypeError, match="partial_fit"):
        sklearn_bilevel(object(), X, Y, X_VAL, Y_VAL)


# ---------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize(
    ("estimator", "params"),
    [
        (SGDClassifier(loss="log_loss", average=True), {"alpha": 1e-3}),
        (SGDClassifier(loss="hinge", learning_rate="constant", eta0=0.01), {"alpha": 1e-4}),
        (MLPClassifier((5,), solver="adam"), {"learning_rate_init": 0.01}),
        (MLPClassifier((5, 3), solver="sgd", momentum=0.8), {"learning_rate_init": 0.05}),
        (SGDRegressor(), {"alpha": 1e-3}),
        (GaussianNB(), {"var_smoothing": 1e-6}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_estimator_thaws_exactly(estimator: Any, params: dict[str, Any]) -> None:
    assert_thaws_exactly(sklearn_bilevel(estimator, X, Y, X_VAL, Y_VAL), params)


def test_tuning_an_estimator() -> None:
    labels = np.array(["no", "yes"])
    problem = sklearn_bilevel(SGDClassifier(loss="log_loss"), X, labels[Y], X_VAL, labels[Y_VAL])
    result = minimize_bilevel(problem, {"alpha": Float(1e-6, 1.0, log=True)}, budget_steps=200, seed=0, progress=False)
    assert result.state.estimator.score(X_VAL, labels[Y_VAL]) > 0.8
    made = sklearn_bilevel(lambda p, seed: SGDRegressor(alpha=p["a"], random_state=seed), X, Y, X_VAL, Y_VAL)
    assert made.validate(made.advance(made.init({"a": 1e-4}, 3), 50)[0]) < 0.25


def test_a_rule_sets_the_estimators_step_size() -> None:
    problem = sklearn_bilevel(
        SGDRegressor(learning_rate="constant"), X, Y, X_VAL, Y_VAL, step_size=lambda p, j: 0.01 / (j + 1)
    )
    run, _ = problem.advance(problem.init({}, 0), 5)
    assert run.estimator.eta0 == 0.01 / 5


# ---------------------------------------------------------------- Optuna


def optuna_study(
    sampler: BilevelSampler, storage: Any = None, n_trials: int | None = None, trained: list[int] | None = None
) -> optuna.Study:
    """Trains theta towards 2 with a tuned rate; states are JSON files, one per step count."""

    def objective(trial: optuna.Trial) -> float:
        lr = trial.suggest_float("lr", 1e-3, 1.0, log=True)
        theta, start, folder = 5.0, sampler.start(trial), sampler.checkpoint(trial)
        if start:
            theta = json.loads((folder / f"{start}.json").read_text())
        for step in range(start, sampler.horizon(trial)):
            theta -= lr * (theta - 2.0)
            if trained is not None:
                trained.append(1)
            if (step + 1) % 5 == 0:
                trial.report(abs(theta - 2.0) + 0.1, step + 1)
                if trial.should_prune():
                    raise optuna.TrialPruned
        (folder / f"{sampler.horizon(trial)}.json").write_text(json.dumps(theta))
        return abs(theta - 2.0) + 0.1

    study = optuna.create_study(
        sampler=sampler, storage=storage, study_name="s", load_if_exists=True, pruner=optuna.pruners.NopPruner()
    )
    study.optimize(objective, n_trials=n_trials)
    return study


SPACE = {"lr": Float(1e-3, 1.0, log=True)}


def told(study: optuna.Study) -> list[Any]:
    return [(t.params, t.value, t.user_attrs[RUN]) for t in study.trials]


def run_of(study: optuna.Study, trial: optuna.Trial) -> int:
    return int(study.trials[trial.number].user_attrs[RUN])


def test_an_optuna_study_promotes_runs_and_stops_when_the_steps_are_spent(tmp_path: Path) -> None:
    trained: list[int] = []
    sampler = BilevelSampler(SPACE, budget_steps=300, folder=tmp_path, seed=0)
    study = optuna_study(sampler, trained=trained)
    assert len(trained) == 300 == sampler.steps_spent(study)
    by_run: dict[int, list[Any]] = {}
    for t in study.trials:
        by_run.setdefault(t.user_attrs[RUN], []).append(t)
    promoted = [trials for trials in by_run.values() if len(trials) > 1]
    assert promoted
    for trials in promoted:
        assert len({t.params["lr"] for t in trials}) == 1
        assert all(sampler.start(later) == sampler.horizon(earlier) for earlier, later in itertools.pairwise(trials))
    assert study.best_value < 0.11


def test_an_optuna_study_goes_on_under_a_fresh_sampler(tmp_path: Path) -> None:
    whole = optuna_study(BilevelSampler(SPACE, budget_steps=80, folder=tmp_path / "a", seed=3))
    storage = optuna.storages.InMemoryStorage()
    for n_trials in (5, 6, None):
        parts = optuna_study(BilevelSampler(SPACE, budget_steps=80, folder=tmp_path / "b", seed=3), storage, n_trials)
    assert told(parts) == told(whole)


def test_pruned_failed_and_running_trials_are_understood(tmp_path: Path) -> None:
    sampler = BilevelSampler(SPACE, budget_steps=500, folder=tmp_path, seed=0, rungs=(5, 15, 45), final_share=0.0)
    study = optuna.create_study(sampler=sampler)
    trials = [study.ask() for _ in range(3)]
    for trial in trials:
        trial.suggest_float("lr", 1e-3, 1.0, log=True)
    assert [run_of(study, t) for t in trials] == [0, 1, 2], "running trials are runs of their own"
    assert len({t.params["lr"] for t in trials}) == 3
    trials[0].report(0.2, 3)
    study.tell(trials[0], state=optuna.trial.TrialState.PRUNED)
    study.tell(trials[1], state=optuna.trial.TrialState.FAIL)
    study.tell(trials[2], 0.5)
    assert sampler.steps_spent(study) == 3 + 0 + 5
    for value in (0.6, 0.7):
        trial = study.ask()
        trial.suggest_float("lr", 1e-3, 1.0, log=True)
        study.tell(trial, value)
    # four runs have a value; of those at the first rung the best third is run 2, since the pruned run may not climb
    climbing = study.ask()
    assert (run_of(study, climbing), sampler.start(climbing), sampler.horizon(climbing)) == (2, 5, 15)
    beside = study.ask()
    assert run_of(study, beside) == 5, "a run under way is not promoted twice"


def test_what_optuna_cannot_do_here_is_refused(tmp_path: Path) -> None:
    sampler = BilevelSampler(SPACE, budget_steps=50, folder=tmp_path, seed=0)
    with pytest.raises(ValueError, match="minimises"):
        optuna.create_study(sampler=sampler, direction="maximize").ask()
    with pytest.raises(ValueError, match="'momentum' is not in the search space"):
        optuna.create_study(sampler=sampler).ask().suggest_float("momentum", 0.0, 1.0)
    assert math.isclose(sampler.schedule.final_share, 0.5)
