"""Operator (15) on the overlaps that symmetries leave: its values by randomisations, and what it is made of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Operator", "operator_of_normals", "turn_of"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Operator:
    """Operator (15) on the overlaps of a group that symmetries leave.

    Attributes
    ----------
    table : ndarray, shape (replicas, k, k)
        Symmetric, of each randomisation.
    basis : ndarray, shape (k, n, n)
        Orthonormal symmetric matrices over the n rows of the group, to which it refers.
    bias : ndarray, shape (k, k)
        What the mean of the table may be off by beside its scatter.
    """

    table: Array
    basis: Array
    bias: Array

    def largest(self) -> tuple[Array, Array, float]:
        """Largest eigenvalue of each randomisation, to first order in what scatters; its vector, and the bias."""
        vector = np.linalg.eigh(self.table.mean(axis=0))[1][:, -1]
        return vector @ self.table @ vector, vector, float(np.abs(vector) @ self.bias @ np.abs(vector))


def turn_of(left: Array, right: Array, tokens: int) -> Array:
    """What turns rows of second moments a_{mm'}, shape (P, M, P, M) each, into those of L a_{mm'} R."""
    identity = np.eye(tokens)
    return np.kron(np.kron(left.T, identity), np.kron(right, identity))


def operator_of_normals(left: Array, right: Array, tokens: int) -> float:
    """The mean of the product of h h^T - I, turned, with itself, h standard normal."""
    # E tr(L x_m x_m'^T R x_m' x_m^T) - 2 .. + ..: m = m' and m != m'.
    trace = float(np.trace(left) * np.trace(right))
    return tokens * (tokens * trace + float(np.sum(left * right)))
