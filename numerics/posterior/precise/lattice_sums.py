"""Moments of whitened indices at some nodes of a lattice, in fixed point, at any depth and number of tokens."""

from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from ...arithmetic.fixed_words import Fixed
from ...model.network import Network
from .sum import gram

__all__ = ["GRAIN", "Whitened", "lattice_moments"]

Array = NDArray[np.float64]
Numbers = NDArray[np.object_]

# Nodes are multiples of 2^-GRAIN, and of half of it: exact in fixed point and in float64.
GRAIN = 12


class Whitened(NamedTuple):
    """The posterior of (169) over z, the whitened indices h = omega + C z of the first L - 1 layers, V = C C^T.

    Attributes
    ----------
    model : Network
        Rank 1, two layers or more; its floats steer.
    skip, beta : arb
        Exact values.
    v : ndarray of arb, shape (M,)
        Readout row.
    omega : ndarray of arb, shape (L, M)
    factor : ndarray of arb, shape (L, L)
        C, lower triangular.
    """

    model: Network
    skip: arb
    beta: arb
    v: Numbers
    omega: Numbers
    factor: Numbers


def lattice_moments(posterior: Whitened, z: Array, wanted: NDArray[np.bool_], top: float, words: int) -> arb_mat:
    """Moments of (1, z) from some nodes."""

    def constant(value: arb | float) -> Fixed:
        return Fixed.of([arb(value)], words)

    last, tokens = posterior.model.layers - 1, posterior.model.tokens
    one, minus_half = constant(1), constant(-0.5)
    grain = np.round(z * 2 ** (GRAIN + 1)).astype(np.int64)
    whitened = [[Fixed.dyadic(grain[:, k * tokens + m], GRAIN + 1, words) for m in range(tokens)] for k in range(last)]

    def prior(row: int, token: int) -> Fixed:
        made = constant(posterior.omega[row, token])
        for k in range(min(row + 1, last)):
            made = whitened[k][token] * constant(posterior.factor[row, k]) + made
        return made

    indices, share = _solve(posterior, [[prior(k, m) for m in range(tokens)] for k in range(last)], words)
    narrow = constant(1 / posterior.factor[last, last])
    mean = [prior(last, m) * narrow for m in range(tokens)]
    indices = [entry * narrow for entry in indices]
    flat = [entry for row in whitened for entry in row]
    size = 1 + (last + 1) * tokens
    out = arb_mat(size, size)
    for branch, sign in enumerate((one, constant(-1))):
        at = np.flatnonzero(wanted[branch])
        if not len(at):
            continue
        all_z = [entry[at] for entry in flat]
        all_z += [a[at] * sign - b[at] for a, b in zip(indices, mean, strict=True)]
        squares = all_z[0] * all_z[0]
        for entry in all_z[1:]:
            squares = squares + entry * entry
        weight = (squares * minus_half - constant(top)).exp() * share[at]
        out += gram(weight, (one, *all_z))
    return out


def _solve(posterior: Whitened, h: list[list[Fixed]], words: int) -> tuple[list[Fixed], Fixed]:
    """h_L = B_{L-1}^{-1} v and 1/det B_{L-1} from the indices of the other layers.

    B is a product of factors c I + sigma(beta v_l^T v_l). Elimination needs no pivots: a factor times its softmax'
    normalisation is symmetric and positive, and its pivots are c at least.
    """
    tokens = posterior.model.tokens
    one, c, beta = (Fixed.of([number], words) for number in (arb(1), posterior.skip, posterior.beta))
    factors: list[list[list[Fixed]]] = []
    for row in h:
        v = row
        for factor in factors:
            v = [_inner(line, v) for line in factor]
        scores = _scores(posterior.model.activation_name, v, one, beta)
        for m in range(tokens):
            scores[m][m] = scores[m][m] + c
        factors.append(scores)
    right = [Fixed.of([number], words) for number in posterior.v]
    share = one
    for factor in reversed(factors):
        matrix = [list(line) for line in factor]
        inverses = []
        for k in range(tokens):
            inverses.append(matrix[k][k].reciprocal())
            share = share * inverses[k]
            for i in range(k + 1, tokens):
                ratio = matrix[i][k] * inverses[k]
                for j in range(k + 1, tokens):
                    matrix[i][j] = matrix[i][j] - ratio * matrix[k][j]
                right[i] = right[i] - ratio * right[k]
        for k in range(tokens - 1, -1, -1):
            for j in range(k + 1, tokens):
                right[k] = right[k] - matrix[k][j] * right[j]
            right[k] = right[k] * inverses[k]
    return right, share


def _scores(activation: str, v: list[Fixed], one: Fixed, beta: Fixed) -> list[list[Fixed]]:
    """Entries of sigma(beta v^T v)."""
    steep = [entry * beta for entry in v]
    if activation == "linear":
        return [[a * b for b in v] for a in steep]
    high = low = v[0]
    for entry in v[1:]:
        high = entry.where((high - entry).negative, high)
        low = entry.where((entry - low).negative, low)
    out = []
    for slope in steep:
        # The largest score of the row is at the largest or smallest entry.
        largest = low.where(slope.negative, high)
        terms = [(slope * (entry - largest)).exp() for entry in v]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        inverse = total.reciprocal()
        out.append([term * inverse for term in terms])
    return out


def _inner(line: list[Fixed], v: list[Fixed]) -> Fixed:
    total = line[0] * v[0]
    for a, b in zip(line[1:], v[1:], strict=True):
        total = total + a * b
    return total
