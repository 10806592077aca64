"""What settles the question of noise, and when."""

import numpy as np
import pytest

from regretless.basics.noise import NoiseEvidence

UNKNOWN = np.nan


@pytest.mark.parametrize(
    ("values", "variances", "noisy_at", "exact_at"),
    [
        ([3.0, 1.0, 2.0], [UNKNOWN] * 3, None, None),
        ([3.0, 1.0, 3.5, 2.0], [UNKNOWN] * 4, 3, None),  # the third is the first point again
        ([3.0, 1.0, 3.0, 2.0], [UNKNOWN] * 4, None, 3),
        ([-3e8, 1.0, -3e8 - 1e-3, 2.0], [UNKNOWN] * 4, None, 3),  # rounding
        ([3.0, 1.0, 2.0], [UNKNOWN, 0.25, UNKNOWN], 2, None),
        ([3.0, 1.0, 2.0], [0.0, 0.0, 0.0], None, None),  # told to be exact: nothing to reckon with
    ],
)
def test_verdicts(values, variances, noisy_at, exact_at) -> None:
    X = np.random.default_rng(0).random((len(values), 2))
    if len(values) == 4:
        X[2] = X[0]
    bulk, one_by_one = NoiseEvidence(), NoiseEvidence()
    bulk.observe(X, np.array(values), np.array(variances), 0)
    for i in range(len(values)):
        one_by_one.observe(X[i : i + 1], np.array(values[i : i + 1]), np.array(variances[i : i + 1]), i)
    for evidence in (bulk, one_by_one):
        assert (evidence.noisy_at, evidence.exact_at) == (noisy_at, exact_at)
        assert evidence.settled is (noisy_at is not None or exact_at is not None)
        assert evidence.by_variance is (noisy_at == 2)


def test_later_noise_outweighs_an_early_repetition() -> None:
    evidence, X = NoiseEvidence(), np.full((3, 1), 0.3)
    evidence.observe(X, np.array([1.0, 1.0, 1.2]), np.full(3, np.nan), 0)
    assert (evidence.exact_at, evidence.noisy_at) == (2, 3)
