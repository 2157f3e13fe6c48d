"""All indices that give an output, where these are finitely many: damped Gauss-Newton steps from draws of the prior.

The output does not depend on the sign of any layer, so that one of the 2^L indices of a branch stands for all.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from ...arithmetic.addresses import MATRIX, VECTOR, address, function_at
from ...arithmetic.copies import copy_matrix
from ...model.jacobians import Jacobian
from ...model.network import Network
from ..student import set_inverse, set_lower_factor

__all__ = ["MOST", "Equations", "branches", "equations_of", "holding", "log_slopes"]

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

#: Branches of one output at most.
MOST = 32

_LINK = types.FunctionType(types.void(MATRIX, VECTOR, VECTOR))
_JACOBIAN = types.FunctionType(types.void(MATRIX, VECTOR, MATRIX))
_link_at, _jacobian_at = function_at(_LINK), function_at(_JACOBIAN)


class Equations(NamedTuple):
    """The equations y = g(h): addresses of g and of its Jacobian, constants, and how many outputs there are.

    They are solved as log g(h) = log y: all entries of a softmax network's output are positive.
    """

    link: int
    jacobian: int
    constants: Array
    outputs: int


def equations_of(model: Network, derived: Jacobian) -> Equations:
    """Equations of a network; `derived` is to be kept as long as they are used."""
    constants = np.ascontiguousarray(model.constants, dtype=np.float64)
    outputs = math.prod(model.output_shape)
    return Equations(address(derived.link, _LINK), address(derived.jacobian, _JACOBIAN), constants, outputs)


class _Work(NamedTuple):
    """Arrays that are used anew."""

    trial: Array
    output: Array
    jacobian: Array
    slopes: Array
    normal: Array
    damped: Array
    inverse: Array


@njit(cache=True, nogil=True, error_model="numpy")
def _off(h: Array, y: Array, equations: Equations, output: Array) -> float:
    """Sum of the squares of what g(h) is off by; `output` becomes g(h)."""
    _link_at(equations.link)(h, equations.constants, output)
    total = 0.0
    for k in range(len(y)):
        total += math.log(output[k] / y[k]) ** 2
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _set_normal(h: Array, y: Array, equations: Equations, work: _Work) -> None:
    """Set J^T J, and J^T of the differences, from the outputs at h in `work.output`."""
    jacobian, normal, slopes, output = work.jacobian, work.normal, work.slopes, work.output
    _jacobian_at(equations.jacobian)(h, equations.constants, jacobian)
    for k in range(len(output)):
        scale = 1.0 / output[k]
        output[k] = math.log(output[k] / y[k])
        for i in range(jacobian.shape[1]):
            jacobian[k, i] *= scale
    _set_gram(jacobian, normal)
    for i in range(jacobian.shape[1]):
        slopes[i] = 0.0
        for k in range(len(output)):
            slopes[i] += jacobian[k, i] * output[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _set_gram(matrix: Array, out: Array) -> None:
    """Set the products of all pairs of columns."""
    for i in range(matrix.shape[1]):
        for j in range(i + 1):
            total = 0.0
            for k in range(matrix.shape[0]):
                total += matrix[k, i] * matrix[k, j]
            out[i, j] = out[j, i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _descended(h: Array, y: Array, equations: Equations, work: _Work) -> bool:
    """Move h to a solution; False where the steps end elsewhere."""
    # Sum of the squares of what the logarithms of the output are off by at a branch; steps from there on, which are
    # those of Newton.
    solved, further = 1e-20, 2
    # Steps from one start, tries of the damping of each, and the damping of the first. In as much time, 25 steps from
    # more starts miss as much (3 tokens, 1500 outputs: 0.7 % by 60 from 128 starts, 0.3 % by 25 from 512 in twice the
    # time).
    steps, tries, first_damping = 60, 8, 1e-2
    value, damping, tokens, more = _off(h, y, equations, work.output), first_damping, h.shape[1], further
    for _ in range(steps):
        if value <= solved:
            more -= 1
            if more < 0:
                break
        _set_normal(h, y, equations, work)
        better = False
        for _ in range(tries):
            copy_matrix(work.normal, work.damped)
            for i in range(len(work.slopes)):
                work.damped[i, i] = work.damped[i, i] * (1.0 + damping) + 1e-300
            set_inverse(work.damped, work.inverse)
            for i in range(len(work.slopes)):
                step = 0.0
                for j in range(len(work.slopes)):
                    step += work.inverse[i, j] * work.slopes[j]
                work.trial[i // tokens, i % tokens] = h[i // tokens, i % tokens] - step
            lower = _off(work.trial, y, equations, work.output)
            if lower < value:
                copy_matrix(work.trial, h)
                value, damping, better = lower, 0.1 * damping, True
                break
            damping *= 10.0
        if not better:
            break
    return bool(value <= solved)


@njit(cache=True, nogil=True, error_model="numpy")
def _alike(one: Array, other: Array) -> bool:
    """Whether two indices differ by signs of their rows only."""
    # Distance of two branches, relative to their size, within which they are one.
    same = 1e-6
    for p in range(one.shape[0]):
        size = apart = reflected = 0.0
        for m in range(one.shape[1]):
            size += one[p, m] ** 2
            apart += (one[p, m] - other[p, m]) ** 2
            reflected += (one[p, m] + other[p, m]) ** 2
        if min(apart, reflected) > same**2 * size:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _holds(points: Array, h: Array) -> bool:
    for point in range(len(points)):
        if _alike(h, points[point]):
            return True
    return False


@njit(cache=True, nogil=True, error_model="numpy")
def holding(found: Array, counts: Whole, h: Array) -> NDArray[np.bool_]:
    """Whether some indices are among the branches of each output, as of `branches`, shape (n,)."""
    out = np.empty(len(h), np.bool_)
    for n in range(len(h)):
        out[n] = _holds(found[n, : counts[n]], h[n])
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def branches(y: Array, starts: Array, wanted: int, equations: Equations, found: Array, counts: Whole) -> None:
    """Set the branches of some outputs.

    Parameters
    ----------
    y : ndarray, shape (n, outputs)
    starts : ndarray, shape (starts, P, M)
        Draws from N(0, I).
    wanted : int
        Branches after which the search ends; at most `MOST`.
    equations : Equations
    found : ndarray, shape (n, MOST, P, M)
        Filled.
    counts : ndarray of int, shape (n,)
        How many there are.
    """
    rows, tokens = starts.shape[1], starts.shape[2]
    size, outputs = rows * tokens, equations.outputs
    work = _Work(
        np.empty((rows, tokens)),
        np.empty(outputs),
        np.empty((outputs, size)),
        np.empty(size),
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty((size, size)),
    )
    h = np.empty((rows, tokens))
    for n in range(len(y)):
        count = 0
        for start in range(len(starts)):
            if count == wanted:
                break
            copy_matrix(starts[start], h)
            if not _descended(h, y[n], equations, work):
                continue
            if not _holds(found[n, :count], h):
                copy_matrix(h, found[n, count])
                count += 1
        counts[n] = count


@njit(cache=True, nogil=True, error_model="numpy")
def log_slopes(h: Array, equations: Equations) -> Array:
    """Logarithms of sqrt(det J^T J) at some indices, shape (n,), for h of shape (n, P, M).

    J has the rows of the outputs that fix the others: rows of softmax have a given sum.
    """
    size = h.shape[1] * h.shape[2]
    jacobian, normal, factor = np.empty((equations.outputs, size)), np.empty((size, size)), np.empty((size, size))
    out = np.zeros(len(h))
    for n in range(len(h)):
        _jacobian_at(equations.jacobian)(h[n], equations.constants, jacobian)
        for k in range(h.shape[2] - 1, equations.outputs, h.shape[2]):
            for i in range(size):
                jacobian[k, i] = 0.0
        _set_gram(jacobian, normal)
        set_lower_factor(normal, 1e-300, factor)
        for i in range(size):
            out[n] += math.log(factor[i, i])
    return out
