"""Compiled averages over outputs and omega of squares of posterior moments."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["totals"]

Array = NDArray[np.float64]


@njit(error_model="numpy", nogil=True, cache=True)
def totals(
    sums: Array, measure: Array, weights: Array, omega: Array, log_prior: Array, left: Array
) -> tuple[Array, Array, float]:
    """Sums over outputs y and omega of the products of entries of g and of dg/domega, and of log Z.

    Parameters
    ----------
    sums : ndarray, shape (outputs, 1 + k or 1 + k + k(k + 1)/2, n)
        Densities Z of y, and integrals of h_a and of h_a h_b, a <= b, with them.
    measure : ndarray, shape (outputs,)
        Weights of the outputs.
    weights : ndarray, shape (n,)
        Of omega.
    omega : ndarray, shape (k, n)
    log_prior : ndarray, shape (n,)
        Logarithm of the density of omega, which Z has beside that of y given omega.
    left : ndarray, shape (k,)
        Variances V of h given omega.

    Returns
    -------
    score : ndarray, shape (k, k)
        Of g = V^{-1}(E[h | y, omega] - omega).
    change : ndarray, shape (p, p)
        Of dg/domega = V^{-1} Cov V^{-1} - V^{-1}, by pairs a <= b; zero where there are no h_a h_b.
    log_density : float
    """
    k, pairs = len(left), len(left) * (len(left) + 1) // 2
    second = sums.shape[1] > 1 + k
    score, change, log_density = np.zeros((k, k)), np.zeros((pairs, pairs)), 0.0
    mean, g, slope = np.empty(k), np.empty(k), np.empty(pairs)
    # Densities below this are not divided by.
    tiny = 1e-250
    for y in range(len(sums)):
        for n in range(sums.shape[2]):
            zero = sums[y, 0, n]
            if not zero > tiny:
                continue
            share = measure[y] * weights[n] * zero
            log_density += share * (math.log(zero) - log_prior[n])
            for a in range(k):
                mean[a] = sums[y, 1 + a, n] / zero
                g[a] = (mean[a] - omega[a, n]) / left[a]
                for b in range(a + 1):
                    score[a, b] += share * g[a] * g[b]
            if second:
                p = 0
                for a in range(k):
                    for b in range(a, k):
                        slope[p] = (sums[y, 1 + k + p, n] / zero - mean[a] * mean[b]) / (left[a] * left[b])
                        if a == b:
                            slope[p] -= 1 / left[a]
                        p += 1
                for p in range(pairs):
                    for q in range(p + 1):
                        change[p, q] += share * slope[p] * slope[q]
    for a in range(k):
        for b in range(a):
            score[b, a] = score[a, b]
    for p in range(pairs):
        for q in range(p):
            change[q, p] = change[p, q]
    return score, change, log_density
