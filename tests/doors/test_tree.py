"""What the trials of a study say about when its parameters exist."""

from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from regretless.doors.optuna.tree import TreeLearner, learn_tree, space_of

KINDS: dict[str, BaseDistribution] = {
    "m": CategoricalDistribution(["svm", "net", "tree"]),
    "k": CategoricalDistribution(["rbf", "poly"]),
    "g": FloatDistribution(1e-3, 1e2, log=True),
    "d": IntDistribution(1, 6),
    "w": FloatDistribution(-2.0, 7.0),
    "x": FloatDistribution(0.5, 3.0),
}


def trial(**params: Any) -> optuna.trial.FrozenTrial:
    return optuna.create_trial(params=params, distributions={name: KINDS[name] for name in params}, value=1.0)


def test_parents_are_found_level_by_level() -> None:
    trials = [
        trial(m="svm", k="rbf", g=0.1, x=1.0),
        trial(m="svm", k="poly", x=1.0),
        trial(m="net", d=2, x=1.0),
        trial(m="net", d=5, w=0.0, x=2.0),
        trial(m="tree", x=2.5),
        trial(m="net", d=4, w=1.0, x=2.0),
    ]
    tree = learn_tree(trials)
    assert set(tree.distributions) == set(KINDS)
    assert tree.when == {"k": {"m": (0.0,)}, "g": {"k": (0.0,)}, "d": {"m": (1.0,)}, "w": {"d": (4.0, 5.0, 6.0)}}
    space = space_of(tree)
    assert dict(space.parameters["g"].when) == {"k": ("rbf",)}
    assert dict(space.parameters["w"].when) == {"d": (4, 5, 6)}
    for t in trials:
        assert space.only_active(t.params) == {name: t.params[name] for name in space.names if name in t.params}


def test_two_conditions_may_be_needed() -> None:
    trials = [
        trial(m=m, k=k, x=1.0, **({"w": 0.5} if (m, k) == ("svm", "rbf") else {}))
        for m in ("svm", "net")
        for k in ("rbf", "poly")
    ]
    assert learn_tree(trials).when == {"w": {"m": (0.0,), "k": (0.0,)}}


def test_what_nothing_explains_is_left_out() -> None:
    tree = learn_tree([trial(x=1.0), trial(x=1.0, w=2.0), trial(x=2.0)])
    assert set(tree.distributions) == {"x"}
    assert "w" in tree.seen


def test_a_flat_study_is_read_once() -> None:
    learner, trials = TreeLearner(), [trial(x=1.0, w=0.1)]
    assert learner.learn(trials).when == {}
    trials.append(trial(x=2.0, w=1.0))
    for number, t in enumerate(trials):
        t.number = number
    assert set(learner.learn(trials).distributions) == {"x", "w"}
    again = learner.learn(trials)
    assert again is learner.learn(trials)
