"""The knowledge gradient: against posteriors with one more value, where it is nothing, and where it sends a search."""

import numpy as np
import pytest
from scipy.stats import norm

from regretless.auto import AUTO
from regretless.auto import algorithm as auto
from regretless.auto.knowledge import knowledge_gradient, knowledge_step
from regretless.gp.posterior import GP
from regretless.gp.step import best_weighed
from regretless.gp.surrogate import Surrogate
from regretless.parameters import Choice, Float, Int
from regretless.space import Cube, Space
from regretless.testing import bowl, run

SPACE = Space({"lr": Float(1e-5, 1e-1, log=True), "n": Int(3, 40), "c": Choice(["x", "y", "z"])})
LINES = Space({"lr": Float(1e-5, 1e-1, log=True), "m": Float(-3, 8)})


def noisy_bowl(sd: float, seed: int = 3):
    rng = np.random.default_rng(seed)
    return lambda X: bowl(X) + sd * rng.standard_normal(len(X))


def told(cube: Cube, n: int, sd: float = 0.2) -> tuple[GP, np.ndarray]:
    rng = np.random.default_rng(5)
    X = np.array([cube.draw(rng) for _ in range(n)])
    return Surrogate(cube, tame=False, soften=True).gp(X, 7e3 * (bowl(X) + sd * rng.standard_normal(n))), X


@pytest.mark.parametrize("cube", [Cube.box(3), SPACE.cube()])
def test_it_is_what_one_more_value_adds_to_the_largest_mean(cube: Cube) -> None:
    """The slow form: the posterior with each possible value at x appended, its largest mean averaged over them."""
    gp = told(cube, 12)[0]
    rng = np.random.default_rng(0)
    D, x = np.array([cube.draw(rng) for _ in range(9)]), cube.draw(rng)
    mean, variance = (float(part[0]) for part in gp.mean_var(x[None]))
    sd = np.sqrt(variance + gp.signal * gp.hyper.noise)
    both, gains = gp.condition(x[None]), []
    for value in mean + sd * norm.ppf((np.arange(1000) + 0.5) / 1000):
        away = np.append((gp.y - gp.offset) / gp.scale - gp.mean, value - gp.mean)
        alpha = both.factor.upper(both.factor.lower(away[None]))[0]
        gains.append((gp.mean + both.factor.cross(D) @ alpha).max())
    expected = np.mean(gains) - gp.mean_at(D).max()
    assert knowledge_gradient(gp, D)(x[None])[0] == pytest.approx(expected, rel=0.05)
    assert expected > 0


def test_nothing_is_learnt_for_one_point_nor_where_all_is_known() -> None:
    gp, X = told(Cube.box(2), 15)
    D = np.random.default_rng(1).random((6, 2))
    assert np.allclose(knowledge_gradient(gp, D[:1])(X), 0.0)
    exact = Surrogate(Cube.box(2), noise_var=0.0).gp(X[:6], np.sin(9 * X[:6].sum(axis=1)))
    assert knowledge_gradient(exact, D)(D).max() > 0.01
    assert knowledge_gradient(exact, D)(X[:6]).max() < 1e-3


def test_the_point_is_legal_and_kept_from_failures() -> None:
    cube = SPACE.cube()
    method = AUTO(noisy=True).build(cube, seed=1, budget=60)
    run(method, 20, noisy_bowl(0.3))
    gp = method._posterior()
    x = knowledge_step(gp, method, np.random.default_rng(0))
    assert np.array_equal(cube.snap(x), x)
    method.tell(np.clip(x + 1e-3 * np.random.default_rng(0).standard_normal((12, 3)), 0, 1), np.full(12, np.nan))
    assert not np.allclose(knowledge_step(gp, method, np.random.default_rng(0)), x, atol=0.01)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_it_is_asked_under_noise_only(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three asks in four under certain noise, up to the last tenth; without noise none."""
    asked = []

    def noted(gp, history, rng):
        asked.append(history.step)
        return knowledge_step(gp, history, rng)

    monkeypatch.setattr(auto, "knowledge_step", noted)
    method = AUTO.build(LINES.cube(), seed=1, budget=50)
    run(method, 50, noisy_bowl(noise))
    if noise:
        first = method.evidence.noisy_at
        assert asked == [step for step in range(first, 45) if step % auto.DRAWN_EVERY]
    else:
        assert asked == []


def test_under_noise_the_recommended_point_has_a_good_value_and_a_good_mean() -> None:
    """Over four runs it is better than the luckiest value, and its own value is among the best fifth."""
    lucky, found = [], []
    for seed in range(4):
        method = AUTO(noisy=True).build(2, seed=seed, budget=40)
        run(method, 40, noisy_bowl(0.3, seed))
        x = method.recommend()
        own = method.y[(x == method.X).all(axis=1)].max()
        assert (method.y > own).sum() < auto.BETTER_PART * 40
        lucky.append(bowl(method.X[int(np.argmax(method.y))]))
        found.append(bowl(x))
    assert np.mean(found) > np.mean(lucky)
    method.noise_bound = 0.9
    assert np.array_equal(method.recommend(), best_weighed(method._surrogate.gp(*method.basis), method)), "own values"


def test_a_noisy_run_resumes_and_replays_bit_for_bit() -> None:
    """Also across the value that shows noise, which brings another model, and from a state taken after it."""
    noise = 0.3 * np.random.default_rng(3).standard_normal(50)

    def advance(method, n: int) -> None:
        for _ in range(n):
            x = method.ask()
            method.tell(x, bowl(x) + noise[len(method.y)])

    whole, later = (AUTO.build(LINES.cube(), seed=1, budget=50) for _ in range(2))
    advance(whole, 36)
    shown = whole.evidence.noisy_at
    later.load_state_dict(whole.state_dict())
    for method in (whole, later):
        advance(method, 4)
    assert np.array_equal(whole.X, later.X)
    for n in (shown - 2, shown + 1, 38):
        bulk = AUTO.build(LINES.cube(), seed=1, budget=50)
        bulk.tell(whole.X[:n], whole.y[:n])
        assert np.array_equal(bulk.ask(1, step=n)[0], whole.X[n])
    assert np.array_equal(whole.recommend(), later.recommend())
