"""The knowledge gradient: against posteriors with one more value, where it is nothing, and where it sends a search."""

from typing import Any

import inside
import numpy as np
import pytest
from inside import surrogate_of
from scipy.stats import norm

from regretless.auto import AUTO
from regretless.auto import noisy as steps
from regretless.auto.knowledge import knowledge_gradient, knowledge_step
from regretless.models.gp.posterior import GP
from regretless.models.gp.step import best_weighed
from regretless.models.gp.surrogate import Surrogate
from regretless.space import Cube, Space
from regretless.space.parameters import Choice, Float, Int
from regretless.testing import Loop, bowl, run

SPACE = Space({"lr": Float(1e-5, 1e-1, log=True), "n": Int(3, 40), "c": Choice(["x", "y", "z"])})
LINES = Space({"lr": Float(1e-5, 1e-1, log=True), "m": Float(-3, 8)})


def noisy_bowl(sd: float, seed: int = 3):
    rng = np.random.default_rng(seed)
    return lambda X: bowl(X) + sd * rng.standard_normal(len(X))


def model_of(loop: Loop) -> Any:
    """The part of auto that models the values."""
    return inside.model_of(loop.method)


def posterior(loop: Loop) -> GP:
    """The posterior of auto's model for all values of a run."""
    loop.method.recommend(loop.history)  # takes the history in
    return surrogate_of(model_of(loop)).gp(*loop.history.basis)


def told(cube: Cube, n: int, sd: float = 0.1) -> tuple[GP, np.ndarray]:
    rng = np.random.default_rng(5)
    X = np.array([cube.draw(rng) for _ in range(n)])
    y = 7e3 * (bowl(X) + sd * rng.standard_normal(n))
    return Surrogate(cube, clip=False, noise_var=(7e3 * sd) ** 2).gp(X, y), X


@pytest.mark.parametrize("cube", [Cube.box(3), SPACE.cube()])
def test_it_is_what_one_more_value_adds_to_the_largest_mean(cube: Cube) -> None:
    """The slow form: the posterior with each possible value at x appended, its largest mean averaged over them; twelve
    nodes are right to a tenth or so."""
    gp, rng = told(cube, 12)[0], np.random.default_rng(0)
    D, X = (np.array([cube.draw(rng) for _ in range(n)]) for n in (9, 3))
    noise, gains = float(gp.factor.noise.mean()), []
    for x, mean, variance in zip(X, *gp.mean_var(X), strict=True):
        factor, sd = gp.factor.extended(x[None], np.array([noise])), np.sqrt(variance + gp.signal * noise)
        for value in norm(mean, sd).ppf((np.arange(500) + 0.5) / 500):
            away = np.append((gp.y - gp.offset) / gp.scale, value) - gp.mean
            after = gp.mean + factor.cross(D) @ factor.upper(factor.lower(away[None]))[0]
            gains.append(after.max() - gp.mean_at(D).max())
    assert knowledge_gradient(gp, D)(X).mean() == pytest.approx(np.mean(gains), rel=0.15)
    assert np.mean(gains) > 0


def test_nothing_is_learnt_for_one_point_nor_where_all_is_known() -> None:
    gp, X = told(Cube.box(2), 15)
    D = np.random.default_rng(1).random((6, 2))
    assert np.allclose(knowledge_gradient(gp, D[:1])(X), 0.0)
    exact = Surrogate(Cube.box(2), noise_var=0.0).gp(X[:6], np.sin(9 * X[:6].sum(axis=1)))
    assert knowledge_gradient(exact, D)(D).max() > 0.01
    assert knowledge_gradient(exact, D)(X[:6]).max() < 1e-3


def test_the_point_is_legal_and_kept_from_failures() -> None:
    cube = SPACE.cube()
    loop = Loop(AUTO(noisy=True).build(cube, seed=1, budget=60))
    run(loop, 20, noisy_bowl(0.3))
    gp = posterior(loop)
    x = knowledge_step(gp, loop.history, cube, np.random.default_rng(0))
    assert np.array_equal(cube.snap(x), x)
    loop.tell(np.clip(x + 1e-3 * np.random.default_rng(0).standard_normal((12, 3)), 0, 1), np.full(12, np.nan))
    assert not np.allclose(knowledge_step(gp, loop.history, cube, np.random.default_rng(0)), x, atol=0.01)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_it_is_asked_under_noise_only(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three asks in four under certain noise, up to the last tenth; without noise none."""
    asked = []

    def noted(gp, history, cube, rng):
        asked.append(rng.step)
        return knowledge_step(gp, history, cube, rng)

    monkeypatch.setattr(steps, "knowledge_step", noted)
    loop = Loop(AUTO.build(LINES.cube(), seed=1, budget=50))
    run(loop, 50, noisy_bowl(noise))
    model = model_of(loop)
    assert surrogate_of(model).compress == (noise > 0), "under noise low values are compressed, not clipped"
    if noise:
        first = model.evidence(loop.history).noisy_at
        assert asked == [step for step in range(first, 45) if step % steps.DRAWN_EVERY]
    else:
        assert asked == []


def test_under_noise_the_recommended_point_has_a_good_value_and_a_good_mean() -> None:
    """While no setting has two values, it has the largest mean of the best fifth of them, which is not what the other
    GP methods recommend; where a bound of the noise was stated it is, because a promise then rests on the point's own
    value."""
    differ, lucky, found = 0, [], []
    for seed in range(3):
        loop = Loop(AUTO(noisy=True).build(2, seed=seed, budget=30))
        run(loop, 27, noisy_bowl(0.3, seed))
        history, gp, x = loop.history, posterior(loop), loop.recommend()
        better = history.X[np.argsort(-history.y)[:6]]
        assert np.array_equal(x, better[np.argmax(gp.mean_at(better))])
        bounded = Loop(loop.method, noise_bound=0.9)
        bounded.tell(history.X, history.y)
        assert np.array_equal(bounded.recommend(), best_weighed(gp, history))
        differ += not np.array_equal(x, best_weighed(gp, history))
        lucky.append(bowl(history.X[int(np.argmax(history.y))]))
        found.append(bowl(x))
    assert differ
    assert np.mean(found) > np.mean(lucky)


def test_a_noisy_run_resumes_and_replays_bit_for_bit() -> None:
    """Also across the value that shows noise, which brings another model, and from a state taken after it."""
    noise = 0.3 * np.random.default_rng(3).standard_normal(50)

    def advance(loop: Loop, n: int) -> None:
        for _ in range(n):
            x = loop.ask()
            loop.tell(x, bowl(x) + noise[len(loop.history)])

    whole = Loop(AUTO.build(LINES.cube(), seed=1, budget=50))
    advance(whole, 36)
    shown = model_of(whole).evidence(whole.history).noisy_at
    later = whole.resumed(AUTO.build(LINES.cube(), seed=1, budget=50))
    for loop in (whole, later):
        advance(loop, 4)
    X, y = whole.history.X, whole.history.y
    assert np.array_equal(X, later.history.X)
    for n in (shown - 2, shown + 1, 38):
        bulk = Loop(AUTO.build(LINES.cube(), seed=1, budget=50))
        bulk.tell(X[:n], y[:n])
        assert np.array_equal(bulk.ask(1, step=n)[0], X[n])
    assert np.array_equal(whole.recommend(), later.recommend())
