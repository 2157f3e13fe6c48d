"""Inverses and factors of the scales of peaks, against LAPACK."""

import numpy as np
import pytest
from numba import njit

from attnlimits.numerics.posterior.student import set_inverse, set_lower_factor


@njit
def _inverse(matrix):
    work, out = matrix.copy(), np.empty_like(matrix)
    set_inverse(work, out)
    return out


@njit
def _factor(matrix, least, inside):
    out = matrix.copy() if inside else np.full_like(matrix, np.nan)
    set_lower_factor(out if inside else matrix, least, out)
    return out


def _positive(size, condition, seed):
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(rng.standard_normal((size, size)))[0]
    return turned * np.geomspace(1.0, condition, size) @ turned.T


@pytest.mark.parametrize("size", [1, 2, 5, 12])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e8])
def test_inverse_of_a_positive_definite_matrix(size, condition):
    matrix = _positive(size, condition, size)
    found = _inverse(matrix)
    # Without exchanging rows the elimination of a positive definite matrix is as stable as with it.
    np.testing.assert_allclose(
        found, np.linalg.inv(matrix), atol=64 * size * 2.0**-53 * condition * np.abs(found).max()
    )


def test_inverse_of_a_singular_matrix_is_not_finite():
    assert not np.isfinite(_inverse(np.zeros((3, 3)))).any()
    assert not np.isfinite(_inverse(np.ones((2, 2)))).all()


@pytest.mark.parametrize("inside", [False, True], ids=["apart", "in its place"])
def test_lower_factor(inside):
    matrix = _positive(6, 1e4, 1)
    np.testing.assert_allclose(_factor(matrix, 1e-12, inside), np.linalg.cholesky(matrix), atol=1e-10)
    flat = np.array([[4.0, 2.0], [2.0, 1.0]])
    np.testing.assert_allclose(_factor(flat, 1e-6, inside), [[2.0, 0.0], [1.0, 1e-3]])
