"""sigma of NeuralBO as printed: one posterior in two forms, in the memory of the smaller."""

import tracemalloc

import numpy as np
import pytest
from inside import net_of

from regretless.methods.neural_bo import uncertainty
from regretless.methods.neural_bo.printed import PrintedNeuralBO
from regretless.methods.neural_bo.train_nn import paper_net
from regretless.methods.neural_bo.uncertainty import Uncertainty, WeightRidge
from regretless.models.tangent.ntk import dense
from regretless.models.tangent.training import largest_eigenvalue, stable_rate
from regretless.space import Space
from regretless.space.parameters import Choice, Float, Int
from regretless.testing import Loop

LAM = 0.03
NET = paper_net(np.random.default_rng(3), 3, 7, 3)
P = 7 * 3 + 7 * 7 + 7


def inputs(n: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.5, 2.0, (n, 3))


def told(n: int) -> Uncertainty:
    posterior = Uncertainty(NET, LAM, P)
    posterior.extend(inputs(n), np.zeros(n))
    return posterior


def printed(n: int, Z: np.ndarray) -> np.ndarray:
    """Alg. 1, l. 3 and 7, as they stand: U_t = U_{t-1} + g g', then lam g' U^-1 g."""
    U = LAM * np.eye(P)
    for g in dense(NET.factors(inputs(n))):
        U += np.outer(g, g)
    G = dense(NET.factors(Z))
    return np.sqrt(LAM * np.sum(G * np.linalg.solve(U, G.T).T, axis=1))


@pytest.mark.parametrize("n", [1, P - 1, P, P + 1, 96, 3 * P + 5])
def test_both_forms_are_alg_1_as_it_stands(n: int) -> None:
    assert NET.features == P
    Z = inputs(150, seed=6)
    posterior = told(n)
    assert isinstance(posterior.form, WeightRidge) == (n > P)
    np.testing.assert_allclose(posterior.deviation(NET.factors(Z)), printed(n, Z), rtol=1e-9, atol=1e-12)


def test_a_ridge_below_rounding_is_raised_and_features_that_are_no_numbers_are_refused() -> None:
    posterior = Uncertainty(NET, 1e-18, P)
    posterior.extend(np.repeat(inputs(2), 200, axis=0), np.zeros(400))  # two rows leave U singular to rounding
    assert np.isfinite(posterior.deviation(NET.factors(inputs(9, seed=7)))).all()
    broken = WeightRidge(NET, LAM, P)
    broken.extend(np.full((128, 3), np.nan), np.zeros(128))
    with pytest.raises(FloatingPointError, match="are all features finite"):
        broken.deviation(NET.factors(inputs(2)))


def test_rows_one_by_one_give_the_same_bits_as_all_at_once() -> None:
    bit_by_bit, Z = Uncertainty(NET, LAM, P), NET.factors(inputs(9, seed=7))
    for n in range(1, P + 60):
        bit_by_bit.extend(inputs(P + 60)[:n], np.zeros(n))
        if n in (P, P + 1, P + 40, P + 59):
            once = Uncertainty(NET, LAM, P)
            once.extend(inputs(P + 60)[:n], np.zeros(n))
            assert np.array_equal(bit_by_bit.deviation(Z), once.deviation(Z))


def test_beyond_p_values_nothing_that_is_held_grows() -> None:
    """Peaks of what Python allocates, over the inputs themselves; 40 P are more rows than are taken at a time."""
    peaks = []
    for n in (40 * P, 120 * P):
        X = inputs(n)
        tracemalloc.start()
        posterior = Uncertainty(NET, LAM, P)
        for some in (P - 9, P + 9, n):
            posterior.extend(X[:some], X[:some, 0])
        posterior.deviation(NET.factors(inputs(30)))
        stable_rate(NET, X, LAM, 50)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0] < 2.5e6  # 683 MB in the n x n form


def test_the_stable_rate_is_the_same_without_the_kernel_matrix() -> None:
    X = inputs(5000)
    G = dense(NET.factors(X))
    assert largest_eigenvalue(NET, X) == pytest.approx(np.linalg.norm(G, 2) ** 2, rel=1e-6)
    assert largest_eigenvalue(NET, np.zeros((3000, 3))) == 0.0  # no gradient at the origin of a net without biases
    assert stable_rate(NET, np.zeros((3000, 3)), 0.5, 50) == 2.0


SPACE = Space({"rate": Float(1e-4, 10.0, log=True), "step": Float(-3.0, 4.0, step=0.25), "k": Int(2, 9),
               "kind": Choice(["a", "b"])})  # fmt: skip


@pytest.mark.parametrize("cut", [15, 21, 26])
def test_a_run_goes_on_exactly_across_the_border(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A net of 18 weights: the form changes within the run, which is loaded before and after."""
    monkeypatch.setattr(uncertainty, "BLOCK", 8)

    def value(X: np.ndarray) -> np.ndarray:
        return -np.sum((X - 0.37) ** 2, axis=1)

    def fresh() -> Loop:
        return Loop(PrintedNeuralBO(SPACE.cube("onehot"), seed=4, width=3, n_candidates=64))

    whole, replayed = fresh(), fresh()
    for step in range(30):
        x = whole.ask()
        whole.tell(x, value(x))
        if step + 1 == cut:
            part = whole.resumed(fresh().method)
    method = whole.method
    assert isinstance(method, PrintedNeuralBO)
    assert net_of(method).features == 18
    method.sample(whole.history, x, np.random.default_rng(0))
    assert isinstance(method.U.form, WeightRidge)
    replayed.tell(whole.history.X[:cut], whole.history.y[:cut])
    for other in (part, replayed):
        while len(other.history) < 30:
            x = other.ask(step=len(other.history))
            other.tell(x, value(x))
        assert np.array_equal(other.history.X, whole.history.X)
