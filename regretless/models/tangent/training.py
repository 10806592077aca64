"""Small fully connected nets trained in NumPy: gradient steps whose rate is kept stable.

The gradient of half the squared error is sum_i (h(x_i) - y_i) g(x_i), which is `ntk.combine` with the residuals; so
training and the tangent kernel share one forward and one backward pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regretless.models.tangent.ntk import ROWS, Mlp, Tensor, WeightDirection, combine, inner, kernel
from regretless.models.tangent.ridge import Tangent
from regretless.space.parameters import Array

Batches = NDArray[np.int64]
POWER_STEPS = 30  # steps of power iteration; the error is far below the factor 2 left to the stable limit
NEW_MEAN, NEW_SQUARE, TINY = 0.1, 0.001, 1e-8  # Adam's 1 - beta_1, 1 - beta_2 and epsilon (Kingma and Ba, ICLR 2015)


def whole_epochs(rng: np.random.Generator, n: int, size: int, epochs: int) -> list[Batches]:
    """Index rows of `epochs` passes over n points in batches of `size`, the last of a pass as small as it comes."""
    return [rows for _ in range(epochs) for rows in np.split(rng.permutation(n), range(size, n, size))]


@dataclass(frozen=True)
class Descent:
    """A trained net and how it was trained: the learning rate used, and the one that was asked for."""

    net: Mlp
    rate: float
    asked: float


def stable_rate(net: Mlp, X: Array, ridge: float, batch: int) -> float:
    """Half of 2 / (lambda_max(G G') b / n + ridge), the largest stable step on batches of b; G the gradients, `ridge`
    that of a batch."""
    net = replace(net, norm=1.0)
    if len(X) > min(net.features, ROWS):
        largest = largest_eigenvalue(net, X)
    else:
        A = net.factors(X)
        K = kernel(A, A)
        v = np.ones(len(K)) / len(K) ** 0.5
        for _ in range(POWER_STEPS):
            v = K @ v
            norm = float(np.linalg.norm(v))
            if norm == 0.0:
                return 1.0 / ridge
            v /= norm
        largest = float(v @ K @ v)
    return 1.0 / (largest * min(batch, len(X)) / len(X) + ridge)


def largest_eigenvalue(net: Tangent, X: Tensor) -> float:
    """lambda_max(G G') of the features G of rows X (n x ...) by power iteration on G'G, some rows at a time: no n x n
    matrix, and no factors of n rows, are held. 0 where all features are."""
    parts = [X[i : i + ROWS] for i in range(0, len(X), ROWS)]
    u: WeightDirection = ()
    largest = 0.0
    for step in range(POWER_STEPS + 1):
        total: WeightDirection = ()
        for part in parts:
            A = net.factors(part)
            beta = inner(A, u) if step else A[0][0][:, 0] * 0.0 + 1.0
            new = combine(A, beta)
            total = tuple(a + b for a, b in zip(total, new, strict=True)) if total else new
        largest = sum(float((a**2).sum()) for a in total) ** 0.5
        if largest == 0.0:
            return 0.0
        u = tuple(a / largest for a in total)
    return largest


def descend(
    net: Mlp,
    X: Array,
    y: Array,
    *,
    rate: float,
    ridge: float,
    batches: Batches | Sequence[Batches],
    shared: bool = False,
) -> Descent:
    """One step per row of `batches` (indices of rows of X) on sum (h - y)^2 / 2 + ridge |theta - theta0|^2 / 2, from
    theta0 = net.weights. The rate is clipped to the stable limit, and halved while the error still runs away.

    shared: the ridge is a term of the objective over all n values, of which a batch of b has the share b / n; a pass
    then sums to one gradient of the objective. Otherwise every batch has the whole of it.
    """
    net, given = replace(net, norm=1.0), net
    batch = max(len(rows) for rows in batches)
    used = min(rate, stable_rate(net, X, ridge * batch / len(X) if shared else ridge, batch))
    first = max(float(np.abs(net.outputs(X[i : i + ROWS])).max()) for i in range(0, len(X), ROWS))
    # 1e3: training has diverged when an output exceeds the targets and first outputs by this factor
    limit = 1e3 * (1.0 + float(np.abs(y).max()) + first)
    # 30: halvings of the learning rate while the error of the non-linear net grows without bound
    for _ in range(30):
        weights = net.weights
        for rows in batches:
            h, A = net.at(weights).outputs_and_factors(X[rows])
            if not np.abs(h).max() < limit:
                break
            step = combine(A, h - y[rows])
            pull = ridge * len(rows) / len(X) if shared else ridge
            weights = tuple(w - used * (g + pull * (w - w0)) for w, g, w0 in zip(weights, step, net.weights))
        else:
            return Descent(given.at(weights), used, rate)
        used /= 2
    raise FloatingPointError("training diverges at every learning rate; are the inputs finite?")
