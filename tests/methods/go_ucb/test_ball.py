"""The low-rank ball against the dense formulas (Eq. 3-6 of GO-UCB)."""

import numpy as np
import pytest

from regretless.methods.go_ucb.ball import Ball


def dense(anchor, lam, G, r):
    Sigma = lam * np.eye(len(anchor)) + G.T @ G
    return Sigma, np.linalg.solve(Sigma, G.T @ r + lam * anchor)  # (Eq. 3), (Eq. 5)


@pytest.mark.parametrize(("p", "T"), [(7, 3), (7, 7), (7, 40), (120, 30)])
@pytest.mark.parametrize("how", ["append", "at once"])
def test_the_low_rank_form_equals_the_dense_form(p, T, how):
    rng = np.random.default_rng(p + T)
    G, r, anchor, lam = rng.standard_normal((T, p)), rng.standard_normal(T), rng.standard_normal(p), 0.3
    if how == "append":
        ball = Ball(anchor, lam)
        for g, target in zip(G, r):
            ball.append(g, target)
    else:
        ball = Ball(anchor, lam, G, r)
    Sigma, centre = dense(anchor, lam, G, r)
    Q = rng.standard_normal((9, p))
    np.testing.assert_allclose(ball.centre(), centre, atol=1e-10)
    np.testing.assert_allclose(
        ball.norms(Q), np.sqrt(np.einsum("ij,ij->i", Q, np.linalg.solve(Sigma, Q.T).T)), atol=1e-10
    )
    assert ball.log_det() == pytest.approx(np.linalg.slogdet(Sigma)[1] - p * np.log(lam), abs=1e-9)
    V, c = ball.root()
    root = (Q - (c * (Q @ V)) @ V.T) / np.sqrt(lam)
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", root, Sigma, root), (Q**2).sum(axis=1), rtol=1e-10)


def test_rows_never_exceed_twice_the_parameters():
    rng = np.random.default_rng(0)
    ball = Ball(np.zeros(4), 1.0)
    for _ in range(50):
        ball.append(rng.standard_normal(4), 1.0)
    assert len(ball.G) <= 8


def test_repeated_rows_keep_the_factor_positive():
    ball = Ball(np.zeros(3), 1e-12)
    for _ in range(20):
        ball.append(np.array([1.0, 2.0, 3.0]), 14.0)
    assert ball.centre() @ [1, 2, 3] == pytest.approx(14.0, rel=1e-6)


def test_an_empty_ball_is_its_prior():
    ball = Ball(np.array([1.0, -2.0]), 4.0)
    assert ball.centre().tolist() == [1.0, -2.0]
    assert ball.norms(np.eye(2)).tolist() == [0.5, 0.5]
    assert ball.log_det() == 0.0


def test_lam_must_be_positive():
    with pytest.raises(ValueError, match="lam must be a number in"):
        Ball(np.zeros(2), 0.0)
