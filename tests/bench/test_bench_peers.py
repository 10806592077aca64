"""Every peer through one table of tests: legal proposals, repeatability, foreign points, failures, mixed spaces, global
streams left alone."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
from regretless_bench.peers import LIBRARIES, PEERS, installed
from regretless_bench.problems import make_problem
from regretless_bench.runner import Run, run_all

from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int
from regretless.testing import Loop, run

CHEAPER = {name: {"restarts": 2, "raw": 16} for name in PEERS if name.startswith(("botorch-l", "botorch-s"))}
SPACE = Space(
    {"lr": Float(1e-5, 1e-1, log=True), "n": Int(1, 6), "m": Int(1, 1000, log=True), "act": Choice(["a", "b", "c"])}
)


SLOW = ("botorch-saas",)  # five times logei's seconds for the same code with another model


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PEERS])
def peer(request):
    if not installed(request.param):
        pytest.skip(f"{LIBRARIES[request.param]} is not installed")
    recipe = PEERS[request.param]
    return recipe(**CHEAPER[request.param]) if request.param in CHEAPER else recipe


def walk(peer, steps=9, seed=1):
    """A foreign point, two pending ones (one of them given up later), a failure in between."""
    problem = make_problem("levy", dim=3, shift=0.6)
    loop = Loop(peer.build(3, seed=seed, budget=20))
    foreign = np.full((1, 3), 0.3)
    loop.tell(foreign, -problem.true_unit(foreign))
    asked = [loop.ask()[0], loop.ask()[0]]
    for i in range(steps):
        if i == 1:
            loop.forget(asked[0][None])
        x = loop.ask()
        asked.append(x[0])
        loop.tell(x, np.array([np.nan]) if i == 3 else -problem.true_unit(x))
    return np.array(asked)


def test_repeatable_and_global_streams_untouched(peer):
    torch = pytest.importorskip("torch")
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    first = walk(peer)
    assert ((first >= 0) & (first <= 1)).all()
    assert len(np.unique(first, axis=0)) == len(first)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before[2])
    np.testing.assert_array_equal(walk(peer), first)
    assert not np.array_equal(walk(peer, steps=2, seed=2), first[:4])


def test_mixed_space_proposals_are_legal(peer):
    encoding = peer.method.traits.choices
    loop = Loop(peer.build(SPACE.cube(encoding), seed=0, budget=12))
    for _ in range(8):
        u = loop.ask()
        params = SPACE.decode(u[0], encoding)
        np.testing.assert_allclose(SPACE.encode(params, encoding), u[0], atol=1e-12)  # a legal point stays where it is
        loop.tell(u, -abs(np.log10(params["lr"]) + 3) - abs(params["n"] - 3) - (params["act"] != "b"))
    assert len(loop.history) == 8


def test_another_history_begins_anew(peer):
    """What was asked and told of another run has no part in the first proposals for this one."""
    used, fresh = (Loop(peer.build(2, seed=5, budget=9)) for _ in range(2))
    run(used, 2)
    used.history, used.step = fresh.history, 0
    np.testing.assert_array_equal(run(used, 3), run(fresh, 3))


def test_one_dimension_and_constant_values(peer):
    loop = Loop(peer.build(1, seed=0, budget=8))
    for _ in range(7):
        loop.tell(loop.ask(), np.array([1.0]))
    assert loop.recommend().shape == (1,)


def test_runs_through_the_bench(peer, tmp_path):
    (record,) = run_all(
        [Run(peer, "sphere", {"dim": 2, "shift": 0.6}, budget=8, init=3)], tmp_path, jobs=0, progress=False
    )
    assert record.error is None, record.error
    assert len(record.value) == 8


def test_botorch_beside_pending_points_goes_elsewhere_without_another_fit(monkeypatch):
    """LogEI alone would propose the same peak again; qLogEI knows what is under way."""
    pytest.importorskip("botorch")
    from regretless_bench.peers.botorch import BoTorchLogEI

    fits: list[int] = []
    fit = BoTorchLogEI._fit
    monkeypatch.setattr(BoTorchLogEI, "_fit", lambda self, X, y: fits.append(len(y)) or fit(self, X, y))
    loop = Loop(PEERS["botorch-logei"](restarts=2, raw=32).build(2, seed=3, budget=20))
    X = np.random.default_rng(0).random((8, 2))
    loop.tell(X, -((X - 0.7) ** 2).sum(axis=1))
    batch = loop.ask(3)
    gaps = np.linalg.norm(batch[:, None] - batch[None], axis=2)[np.triu_indices(3, 1)]
    assert gaps.min() > 0.02
    loop.tell(batch[:1], -((batch[:1] - 0.7) ** 2).sum(axis=1))
    loop.ask()
    assert fits == [8, 9]


def test_every_peer_names_its_library():
    assert set(LIBRARIES) == set(PEERS)
    assert installed("random")


def test_an_abandoned_nevergrad_run_does_not_hang_the_process():
    pytest.importorskip("nevergrad")
    code = """
from regretless.testing import Loop
from regretless_bench.peers import PEERS
loop = Loop(PEERS["nevergrad-ngopt"].build(3, seed=0, budget=50))
for _ in range(3):
    loop.tell(loop.ask(), 1.0)
loop.ask()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_every_peer_beats_random_search_on_a_bowl(name, tmp_path):
    """Medians over seven seeds of the best value after 40 evaluations."""
    runs = [
        Run(method, "sphere", {"dim": 3, "shift": 0.6}, seed=seed, budget=40)
        for method in (name, "random")
        for seed in range(7)
    ]
    records = run_all(runs, tmp_path, jobs=2, progress=False)
    assert all(record.error is None for record in records)
    ends = [record.simple_regret()[-1] for record in records]
    assert np.median(ends[:7]) < np.median(ends[7:])


def test_the_largest_mean_is_not_the_luckiest_value():
    """One value of a parabola is lucky; the model takes a point near the top."""
    pytest.importorskip("botorch")
    from regretless_bench.peers.botorch import largest_mean

    X = np.linspace(0.05, 0.95, 19)[:, None]
    y = -4 * (X[:, 0] - 0.6) ** 2 + 0.1 * np.random.default_rng(2).standard_normal(19)
    y[1] = y.max() + 0.1
    assert abs(X[largest_mean(X, y), 0] - 0.6) < 0.2


def test_the_quick_fit_reaches_botorchs_density_or_a_higher_one():
    """In 12 dimensions, judged by BoTorch itself: its own marginal likelihood and priors at both sets of
    hyper-parameters."""
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("botorch.models")
    from botorch.fit import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood
    from regretless_bench.quick_fit import fit_quickly

    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((30, 12))
        y = np.sin(5 * X[:, :2]).sum(axis=1) - ((X - 0.4) ** 2).sum(axis=1)
        values = []
        for quick in (True, False):
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = models.SingleTaskGP(torch.tensor(X), torch.tensor(y)[:, None])
                density = ExactMarginalLogLikelihood(model.likelihood, model)
                fit_quickly(model) if quick else fit_gpytorch_mll(density)
                model.train()
                values.append(density(model(*model.train_inputs), model.train_targets).item())
        assert values[0] >= values[1] - 1e-3  # per value
