"""What rounding costs the posterior of two layers (see `rounding`): compiled when it is imported."""

import math

from numba import boolean, float64, njit, types, void

from ..arithmetic.addresses import MATRIX, VECTOR
from .rounding import UNIT

__all__ = ["two_layers_rounding"]

_INPUT = types.Array(float64, 1, "C", readonly=True)


@njit(
    void(boolean, MATRIX, MATRIX, MATRIX, _INPUT, VECTOR, VECTOR, VECTOR),
    error_model="numpy",
    cache=True,
    nogil=True,
)
def two_layers_rounding(linear, parameters, moments, info, inexact, log_z, error, log_z_error):  # type: ignore[no-untyped-def]
    """Fill in the errors of `DenoiserResult` for two layers, from what `lattice.compiled` takes and gives.

    `inexact` bounds the error of the entries of v. The rule and what it left out count in `error` as they are.
    """
    # Half the nodes of the longest piece of a row, `LONGEST` of the kernels, with two and a half of the four roundings
    # of `UNIT` each: that of a product, and that of the ratio of two nodes.
    powers = 12.0 * 2.5 / 4.0
    for s in range(len(parameters)):
        p = parameters[s]
        i1, slope, i2 = p[8], abs(p[9]), p[10]
        mass = moments[s, 0]
        squares = 1.0 + max(max(moments[s, 5], moments[s, 9]) / mass, max(moments[s, 12], moments[s, 14]) / mass)
        # Sizes of h_1, h_2 and v where the posterior lives.
        far = math.sqrt(squares) / i1
        x = max(abs(p[4]), abs(p[5])) + far
        spread = slope * far + math.sqrt(squares) / i2
        h = max(abs(p[6]), abs(p[7])) + spread
        v = math.sqrt(2.0) * max(abs(p[0]), abs(p[1]))
        c = p[2]
        if linear:
            # h_2 = v/c - beta x (x.v)/(c (c + beta |x|^2)).
            square = p[3] * x * x
            undone = v / c * (c + 2.0 * square) / (c + square)
            lever = 1.0 / c
        else:
            # The modes of h_2 are b = v_-/(c + tau) and a = (v_+ - s b)/(1 + c), |s| <= 1.
            undone = (v + h) / (1.0 + c)
            lever = min(1.0 / c, (abs(p[7]) + spread) / (abs(p[1]) + 1e-300))
            lever = max(lever, (1.0 + lever) / (1.0 + c))
            # The exponentials of the kernel are powers along a row: their relative errors grow from node to node. Those
            # of the modes are 1/(4 c) of it at most, where the exponential is as large as all else in c + tau.
            undone += powers * h * min(1.0, 0.25 / c)
        # Nodes lie where their rounding left them, and the exponentials of the kernel are as uncertain as these.
        z_error = (UNIT * (h + undone) + lever * inexact[s]) * i2 + UNIT * x * info[s, 5]
        # Exponents are half the sums of squares of z; sums of n positive terms err by chance.
        reach = math.sqrt(squares)
        weight = z_error * reach + UNIT * (squares + 0.25 * math.sqrt(info[s, 2]))
        rule = info[s, 0] + info[s, 1]
        error[s] = rule + z_error + weight
        log_z_error[s] = rule + weight + UNIT * (1.0 + abs(log_z[s]) + abs(math.log(i1)) + abs(math.log(i2)))
