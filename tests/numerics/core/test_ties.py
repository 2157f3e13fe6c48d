import numpy as np
import pytest

from attnlimits.numerics.core.ties import canonical_axes, canonical_basis, first_largest, merged


def rotated(basis, seed):
    """Another basis of the same subspace, rounded otherwise."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((basis.shape[1],) * 2))[0]
    return basis @ turn


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_a_basis_depends_on_the_subspace_alone(rank):
    subspace = np.linalg.qr(np.random.default_rng(rank).standard_normal((4, rank)))[0]
    found = [canonical_basis(rotated(subspace, seed)) for seed in range(20)]
    np.testing.assert_allclose(found[0].T @ found[0], np.eye(rank), atol=1e-14)
    np.testing.assert_allclose(found[0] @ found[0].T, subspace @ subspace.T, atol=1e-14)
    for other in found:
        np.testing.assert_allclose(other, found[0], atol=1e-13)


def test_parts_that_are_rounding_do_not_begin_a_vector():
    """Beside (1, 1, 1) in three dimensions the third unit vector has nothing left but rounding."""
    beside = np.array([[1, 1, -2], [1, -1, 0]]).T / np.sqrt([6, 2])
    found = canonical_basis(rotated(beside, 3))
    np.testing.assert_allclose(found, np.array([[2, -1, -1], [0, 1, -1]]).T / np.sqrt([6, 2]), atol=1e-14)


def test_axes_of_equal_eigenvalues_do_not_follow_the_last_bit():
    matrix = np.ones((4, 4)) + 0.3 * np.eye(4)
    found = []
    for seed in range(20):
        noise = np.random.default_rng(seed).integers(-1, 2, (4, 4)) * np.finfo(float).eps
        values, vectors = np.linalg.eigh(matrix + noise + noise.T)
        found.append(canonical_axes(values, vectors))
    np.testing.assert_allclose(found[0].T @ matrix @ found[0], np.diag([0.3, 0.3, 0.3, 4.3]), atol=1e-14)
    for other in found:
        np.testing.assert_allclose(other, found[0], atol=1e-13)


def test_of_equal_numbers_the_first_is_taken():
    up, down = np.nextafter(0.3, 1), np.nextafter(0.3, 0)
    for values in ([0.1, 0.3, up], [0.1, 0.3, down], [0.1, up, 0.3], [0.1, down, 0.3]):
        assert first_largest(values) == 1
    assert first_largest([-1.0, np.nan, np.inf, np.inf]) == 2
    assert first_largest([-np.inf, -np.inf]) == 0


def test_values_that_differ_by_rounding_are_one():
    values = np.array([0.1 + 0.2, 0.3, 0.1 + 0.2 - 0.3, 0.0, np.nextafter(0.3, 1), 0.3 + 1e-6])
    found = merged(values)
    assert found[0] == found[1] == found[4] == 0.3 and found[2] == found[3] and found[5] == values[5]
    assert np.abs(found - values).max() <= 1e-15
    wide = np.array([1e-3, 1.0, 2.0, 1e300, np.inf, -np.inf, 0.0])
    assert (merged(wide) == wide).all()
    exact = np.array([3.0, -1.0, 2.0, 3.0])
    assert (merged(exact) == exact).all() and merged(np.zeros(0)).shape == (0,)
