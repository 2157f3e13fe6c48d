"""What two processors must decide alike where rounding alone tells candidates apart: bases, and the first of equals.

Products of matrices, exponentials and decompositions differ by their last bits from one processor to another. Which of
two equal numbers is larger, the sign of an eigenvector and the basis of an eigenspace are made of nothing else.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["canonical_axes", "canonical_basis", "first_largest", "merged"]

Array = NDArray[np.float64]

# Eigenvalues closer than this share of the largest are one; a decomposition moves them by some 1e-16 of it.
_SAME = 1e-9


def canonical_basis(vectors: Array) -> Array:
    """Orthonormal basis of a subspace that its projector alone decides.

    The projections of the unit vectors, in order, made orthogonal to those before. What differs from zero first in a
    vector of the basis is positive.

    Parameters
    ----------
    vectors : ndarray, shape (n, r)
        Orthonormal columns.

    Returns
    -------
    ndarray, shape (n, r)

    Examples
    --------
    >>> canonical_basis(np.array([[0.6, -0.8], [-0.8, -0.6]])).round(12) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    basis = np.zeros((len(vectors), 0))
    # Length of the part of a unit vector in a subspace from which on it counts: some part is at least 1/sqrt(n), and
    # one that vanishes is left with some 1e-16.
    part = 1e-3
    for row in vectors:
        if basis.shape[1] == vectors.shape[1]:
            break
        left = vectors @ row
        for _ in range(2):  # the second time what rounding has left of the first
            left = left - basis @ (basis.T @ left)
        length = float(np.linalg.norm(left))
        if length > part:
            basis = np.column_stack([basis, left / length])
    return basis


def canonical_axes(values: Array, vectors: Array) -> Array:
    """Eigenvectors with the basis of each eigenspace decided by its projector.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Eigenvalues in ascending order.
    vectors : ndarray, shape (n, n)
        Columns.
    """
    scale = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    ends = [k + 1 for k in range(len(values)) if k + 1 == len(values) or values[k + 1] - values[k] > _SAME * scale]
    parts = [canonical_basis(vectors[:, begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]
    return np.hstack(parts) if parts else vectors


def merged(values: Array) -> Array:
    """Values of which those that differ by rounding are one: each becomes the least of its run.

    A run are values whose neighbours are closer than 1e-12 of themselves, or of the median modulus, of which sums that
    cancel are rounding. 0.1 + 0.2 and 0.3 are two numbers of float64.

    Parameters
    ----------
    values : ndarray, shape (n,)

    Examples
    --------
    >>> len(set(merged(np.array([0.1 + 0.2, 0.3, 0.4])).tolist()))
    2
    """
    distinct, place = np.unique(values, return_inverse=True)
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    usual = float(np.median(size)) if size.size else 0.0
    # Relative differences of values that are sums of a few terms in another order: some 1e-16 a term.
    equal = 1e-12
    with np.errstate(invalid="ignore"):
        near = np.diff(distinct) <= equal * np.maximum(np.abs(distinct[1:]), usual)
    near &= np.isfinite(distinct[1:])
    begins = np.append(True, ~near)[: len(distinct)]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(distinct)), 0))
    return np.asarray(distinct[first][place.reshape(values.shape)])


def first_largest(values: Sequence[float] | Array, within: float = _SAME) -> int:
    """Place of the largest number, the first of those that are as large but for this share of it.

    Parameters
    ----------
    values : sequence of float
        NaN counts as none.
    within : float, optional

    Examples
    --------
    >>> first_largest([0.1, 0.3, 0.1 + 0.2])
    1
    """
    array = np.asarray(values, dtype=np.float64)
    largest = np.nanmax(array)
    if not np.isfinite(largest):
        return int(np.flatnonzero(array == largest)[0])
    return int(np.flatnonzero(array >= largest - within * abs(largest))[0])
