"""The integrand at one output, exp(-Q(x)/2)/|det B_1(x)|, and the compiled functions of a kernel that it is made of."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import float64, int64, njit, types
from numpy.typing import NDArray

from ...arithmetic.addresses import MATRIX, VECTOR, address, function_at
from ...arithmetic.references import INNER

__all__ = [
    "N_MOMENTS", "N_PARAMETERS", "SQUARING", "Compiled", "Integrand", "Scales",
    "bind", "branch_at", "distance", "distances", "pair_at", "range_at", "rows_at", "undo_at",
]  # fmt: skip

# (vp, vm, c, beta, w1p, w1m, w2p, w2m, i1, slope, i2, shift): see `posterior64`.
N_PARAMETERS = 12
# 1, z_i, z_i z_j for i <= j.
N_MOMENTS = 15
# An analytic integrand squares its error when the step is halved; the rest is margin.
SQUARING = 1.7

_PAIR = types.FunctionType(types.void(VECTOR, MATRIX, int64, float64, MATRIX))
_BRANCH = types.FunctionType(types.void(VECTOR, MATRIX, int64, float64, float64, MATRIX))
_RANGE = types.FunctionType(types.UniTuple(float64, 4)(VECTOR, float64, float64, float64, float64))
_ROWS = types.FunctionType(types.void(VECTOR, MATRIX, int64, float64))
_UNDO = types.FunctionType(types.UniTuple(float64, 3)(float64, float64, float64, float64, float64, float64))
pair_at, branch_at, range_at = function_at(_PAIR), function_at(_BRANCH), function_at(_RANGE)
rows_at, undo_at = function_at(_ROWS), function_at(_UNDO)

Compiled = Callable[..., object]


def bind(pair: Compiled, branch: Compiled, ranges: Compiled, undo_rows: Compiled, undo: Compiled) -> tuple[int, ...]:
    """What `run` takes for the compiled functions of a kernel and its `ranges`; they must be kept while it is used."""
    kinds = (_PAIR, _BRANCH, _RANGE, _ROWS, _UNDO)
    return tuple(address(*both) for both in zip((pair, branch, ranges, undo_rows, undo), kinds, strict=True))


class Integrand(NamedTuple):
    """The integrand at one output: its parameters as above, whether it is even in x, and functions from `bind`."""

    p: NDArray[np.float64]
    even: bool
    ranges: Compiled
    undo: Compiled


class Scales(NamedTuple):
    """On what lengths a kernel varies, near the origin and far out, and the bound of 1/|det B_1|; see `run`."""

    near: float
    stiffness: float
    det_bound: float


@njit(**INNER)
def distance(f, xp, xm, sign, z):  # type: ignore[no-untyped-def]
    """Fill z(x) of one branch and return Q = |z|^2."""
    p = f.p
    a, b, _ = f.undo(xp, xm, p[0], p[1], p[2], p[3])
    dp = xp - p[4]
    dm = xm - p[5]
    z[0] = dp * p[8]
    z[1] = dm * p[8]
    z[2] = (sign * a - p[6] - p[9] * dp) * p[10]
    z[3] = (sign * b - p[7] - p[9] * dm) * p[10]
    return z[0] * z[0] + z[1] * z[1] + z[2] * z[2] + z[3] * z[3]


@njit(**INNER)
def distances(f, xp, xm):  # type: ignore[no-untyped-def]
    """Q of the branches plus and minus at x: `distance` for both at the price of one."""
    p = f.p
    a, b, _ = f.undo(xp, xm, p[0], p[1], p[2], p[3])
    dp = xp - p[4]
    dm = xm - p[5]
    hp = p[6] + p[9] * dp
    hm = p[7] + p[9] * dm
    outer = (dp * dp + dm * dm) * p[8] * p[8]
    scale = p[10] * p[10]
    return (
        outer + ((a - hp) * (a - hp) + (b - hm) * (b - hm)) * scale,
        outer + ((a + hp) * (a + hp) + (b + hm) * (b + hm)) * scale,
    )
