"""Gauss rules for a normal variable within an interval."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from .rules import Rule, gauss_legendre_panels

__all__ = ["truncated_normal"]

Array = NDArray[np.float64]


@lru_cache(maxsize=256)
def truncated_normal(low: float, high: float, n: int) -> Rule:
    """Nodes and weights of E f(x) 1[low < x < high] for x ~ N(0, 1), exact for polynomials below degree 2n.

    Parameters
    ----------
    low, high : float
        Finite; beyond 8.8 the normal density is below 1e-17 of its maximum.
    n : int
        Nodes, at most a few hundred.

    Notes
    -----
    The recurrence of the orthogonal polynomials is found by Stieltjes' procedure with all of them made orthogonal
    twice; its matrix has the nodes as eigenvalues. For a Gaussian times the normal density, which is what posterior
    sums are of, it converges faster than exponentially.

    References
    ----------
    Golub and Welsch, Math. Comp. 23 (1969) 221; Gautschi, Orthogonal Polynomials (2004), section 2.2.

    Examples
    --------
    >>> rule = truncated_normal(0.0, 8.8, 5)
    >>> round(float(rule.weights @ rule.nodes**2), 9)
    0.5
    """
    # Panels of the rule by which polynomials are made orthogonal, and their nodes.
    width, order = 0.25, 20
    edges = np.linspace(low, high, max(2, math.ceil((high - low) / width)) + 1)
    fine = gauss_legendre_panels(edges, order)
    density = fine.weights * np.exp(-0.5 * fine.nodes**2) / math.sqrt(2 * math.pi)
    mass = float(density.sum())
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    x = (fine.nodes - middle) / half
    found = np.zeros((n, len(x)))
    found[0] = np.sqrt(density / mass)
    diagonal, beside = np.zeros(n), np.zeros(n)
    for k in range(n):
        further = x * found[k]
        diagonal[k] = further @ found[k]
        for _ in range(2):
            further -= found[: k + 1].T @ (found[: k + 1] @ further)
        beside[k] = np.linalg.norm(further)
        if k + 1 < n:
            found[k + 1] = further / beside[k]
    nodes, vectors = eigh_tridiagonal(diagonal, beside[: n - 1])
    return Rule(middle + half * nodes, mass * vectors[0] ** 2, 2 * n - 1)
