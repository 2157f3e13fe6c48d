"""The two matrix products of a pass: few weight vectors against many long tokens, each read once from memory.

BLAS is made for matrices that are large both ways: with the two weight vectors of two layers it takes three times as
long. And threads leave the interpreter alone: to wait for it costs more than a hundred samples.
"""

import numpy as np
from numba import float32, float64, njit, types

from .blocks import Array, Floats

__all__ = ["project", "pull"]

# Entries of a token that stay in the first cache while all weights use them.
_PIECE = 1024

# Sums may be taken in any order; NaN and infinity stay.
_OPTIONS: dict[str, object] = {
    "error_model": "numpy",
    "fastmath": {"contract", "nsz", "arcp", "reassoc"},
    "cache": True,
    "nogil": True,
}


def _read_only(kind: types.Float, axes: int) -> types.Array:
    return types.Array(kind, axes, "C", readonly=True)


@njit(
    [
        types.void(_read_only(kind, 2), _read_only(kind, 3), float64, _read_only(float64, 3), float64[:, :, ::1])
        for kind in (float32, float64)
    ],
    **_OPTIONS,
)
def _project(weights, x, scale, offset, out):  # type: ignore[no-untyped-def]
    p, dimension = weights.shape
    m = x.shape[1]
    tokens = x.reshape(-1, dimension)
    n = len(tokens)
    zero = weights.dtype.type(0)
    sums = np.empty((p, 4))
    # Four tokens at a time share what is loaded of the weights; the last few are taken with some of these again.
    for first in range(0, n, 4):
        i = max(0, min(first, n - 4))
        rows = i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
        sums[:] = 0.0
        for start in range(0, dimension, _PIECE):
            stop = min(start + _PIECE, dimension)
            x0, x1 = tokens[rows[0], start:stop], tokens[rows[1], start:stop]
            x2, x3 = tokens[rows[2], start:stop], tokens[rows[3], start:stop]
            for a in range(p):
                w = weights[a, start:stop]
                s0, s1, s2, s3 = zero, zero, zero, zero
                for k in range(stop - start):
                    s0 += w[k] * x0[k]
                    s1 += w[k] * x1[k]
                    s2 += w[k] * x2[k]
                    s3 += w[k] * x3[k]
                sums[a, 0] += s0
                sums[a, 1] += s1
                sums[a, 2] += s2
                sums[a, 3] += s3
        for a in range(p):
            for k in range(4):
                sample, token = rows[k] // m, rows[k] % m
                out[sample, a, token] = scale * sums[a, k] - offset[sample, a, token]


@njit(
    [
        types.void(_read_only(float64, 3), _read_only(kind, 3), kind[:, ::1], float64[:, ::1])
        for kind in (float32, float64)
    ],
    **_OPTIONS,
)
def _pull(scores, x, part, total):  # type: ignore[no-untyped-def]
    p, dimension = part.shape
    m = x.shape[1]
    tokens = x.reshape(-1, dimension)
    n = len(tokens)
    of_type = part.dtype.type
    part[:] = of_type(0)
    for i in range(0, n - 3, 4):
        for start in range(0, dimension, _PIECE):
            stop = min(start + _PIECE, dimension)
            x0, x1 = tokens[i, start:stop], tokens[i + 1, start:stop]
            x2, x3 = tokens[i + 2, start:stop], tokens[i + 3, start:stop]
            for a in range(p):
                g0 = of_type(scores[i // m, a, i % m])
                g1 = of_type(scores[(i + 1) // m, a, (i + 1) % m])
                g2 = of_type(scores[(i + 2) // m, a, (i + 2) % m])
                g3 = of_type(scores[(i + 3) // m, a, (i + 3) % m])
                sums = part[a, start:stop]
                for k in range(stop - start):
                    sums[k] += (g0 * x0[k] + g1 * x1[k]) + (g2 * x2[k] + g3 * x3[k])
    for i in range(n - n % 4, n):
        for a in range(p):
            g0, sums, row = of_type(scores[i // m, a, i % m]), part[a], tokens[i]
            for k in range(dimension):
                sums[k] += g0 * row[k]
    for a in range(p):
        for k in range(dimension):
            total[a, k] += part[a, k]


def project(weights: Floats, x: Floats, offset: Array) -> Array:
    """Weights times tokens, over sqrt(D), less an offset.

    Parameters
    ----------
    weights : ndarray, shape (P, D)
        Of the type of x, contiguous.
    x : ndarray, shape (n, M, D)
        float32 or float64, contiguous; products are summed in its type over pieces, in float64 beyond.
    offset : ndarray, shape (n, P, M)

    Returns
    -------
    ndarray, shape (n, P, M)
    """
    out = np.empty(offset.shape)
    _project(weights, x, 1 / np.sqrt(x.shape[2]), offset, out)
    return out


def pull(scores: Array, x: Floats, total: Array) -> None:
    """Add the sum over samples and tokens of scores times tokens to `total`.

    Parameters
    ----------
    scores : ndarray, shape (n, P, M)
        Rounded to the type of x.
    x : ndarray, shape (n, M, D)
        float32 or float64, contiguous; products are summed in its type.
    total : ndarray, shape (P, D)
        Changed in place.
    """
    _pull(scores, x, np.empty(total.shape, x.dtype), total)
