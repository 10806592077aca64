"""What several tests of GO-UCB share."""

import numpy as np
import pytest


@pytest.fixture
def assert_derivatives():
    """A check of a family's derivatives against finite differences at random parameters and points."""

    def compare(family, d, rng, k=3, n=5, tolerance=1e-7):
        V, X = family.starts(k, rng), rng.random((n, d))
        F, J = family.jacobian(V, X)
        assert F.shape == (k, n)
        assert J.shape == (k, n, family.p)
        h = 1e-6
        numeric = np.stack(
            [(family.jacobian(V + h * e, X)[0] - family.jacobian(V - h * e, X)[0]) / (2 * h) for e in np.eye(family.p)],
            axis=2,
        )
        np.testing.assert_allclose(J, numeric, atol=tolerance * max(1.0, np.abs(J).max()))
        assert len(family.names) == len(set(family.names)) == family.p

    return compare
