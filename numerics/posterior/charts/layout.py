"""A chart as compiled code takes it: the addresses of its functions, and what its coordinates are."""

import math
from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ...arithmetic.addresses import MATRIX, VECTOR, address, function_at
from ...model.charts import Chart
from ...model.network import Network

__all__ = [
    "ARC",
    "CIRCLE",
    "LINE",
    "Layout",
    "complete_at",
    "complete_lanes_at",
    "constants_of",
    "from_output_at",
    "layout_of",
    "read_at",
    "token_modes",
]

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

#: Kinds of the variables of a fibre: the real line, a full circle, half of one.
LINE, CIRCLE, ARC = 0, 1, 2
_KINDS = {"line": LINE, "circle": CIRCLE, "arc": ARC}

_READ = types.FunctionType(types.void(MATRIX, VECTOR, VECTOR, VECTOR))
_COMPLETE = types.FunctionType(types.float64(VECTOR, VECTOR, VECTOR, MATRIX))
_COMPLETE_LANES = types.FunctionType(types.void(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR))
_FROM_OUTPUT = types.FunctionType(types.void(MATRIX, VECTOR, VECTOR))
#: The functions of a chart from their addresses.
read_at, complete_at, from_output_at = function_at(_READ), function_at(_COMPLETE), function_at(_FROM_OUTPUT)
complete_lanes_at = function_at(_COMPLETE_LANES)


class Layout(NamedTuple):
    """A chart and the constants of a model.

    The coordinates are first those of the hidden rows of h, in modes over the tokens (`token_modes`), without the mean
    of rows whose mean the output does not depend on; then the variables of the readout's fibre.

    Attributes
    ----------
    read, complete, complete_lanes, from_output : int
        Addresses of the chart's functions.
    constants : ndarray
        Skip strength, inverse temperature, readout weights, deviation of the noise if there is any.
    modes : ndarray, shape (M, M)
        Orthogonal; its first row is constant.
    hidden : ndarray of int
        Rows of h that are coordinates.
    free : ndarray of bool, shape (P,)
        Rows whose mean over the tokens the output does not depend on.
    row, mode : ndarray of int
        Of each hidden coordinate: its place in `hidden`, and its mode.
    kinds : ndarray of int
        Of the variables.
    data, signs : int
        Numbers that the output fixes, and signs that are summed over.
    """

    read: int
    complete: int
    complete_lanes: int
    from_output: int
    constants: Array
    modes: Array
    hidden: Whole
    free: NDArray[np.bool_]
    row: Whole
    mode: Whole
    kinds: Whole
    data: int
    signs: int

    @property
    def dimension(self) -> int:
        """Number of continuous coordinates."""
        return len(self.row) + len(self.kinds)


def token_modes(tokens: int) -> Array:
    """Orthogonal matrix over the tokens whose first row is constant: the mean, and differences from it."""
    out = np.zeros((tokens, tokens))
    out[0] = 1 / math.sqrt(tokens)
    for k in range(1, tokens):
        out[k, :k] = 1 / math.sqrt(k * (k + 1))
        out[k, k] = -k / math.sqrt(k * (k + 1))
    return out


def constants_of(model: Network) -> Array:
    """Constants of a model as its chart takes them: skip, beta, readout weights, deviation of the noise if any."""
    return np.append(model.constants, [math.sqrt(model.noise)] if model.noise else [])


def layout_of(module: Chart, constants: Array) -> Layout:
    """Layout of a chart with the constants of a model.

    Parameters
    ----------
    module : Chart
        Is to be kept as long as the layout is used.
    constants : ndarray, shape (2 + readout weights + (noise or not),)
    """
    free = np.zeros(module.ROWS, dtype=np.bool_)
    free[list(module.FREE)] = True
    places = [
        (number, mode)
        for number, row in enumerate(module.HIDDEN)
        for mode in range(module.TOKENS)
        if mode > 0 or not free[row]
    ]
    return Layout(
        read=address(module.read, _READ),
        complete=address(module.complete, _COMPLETE),
        complete_lanes=address(module.complete_lanes, _COMPLETE_LANES),
        from_output=address(module.from_output, _FROM_OUTPUT),
        constants=np.ascontiguousarray(constants, dtype=np.float64),
        modes=token_modes(module.TOKENS),
        hidden=np.array(module.HIDDEN, dtype=np.int64),
        free=free,
        row=np.array([row for row, _ in places], dtype=np.int64),
        mode=np.array([mode for _, mode in places], dtype=np.int64),
        kinds=np.array([_KINDS[kind] for kind in module.VARIABLES], dtype=np.int64),
        data=module.DATA,
        signs=module.SIGNS,
    )
