"""Nodes of the first layer's indices for one length of the readout.

A rotation of the tokens turns the readout v = B_1 h_2 into (rho, 0), rho >= 0; h_1 = (x, y) then fixes
h_2 = B_1^{-1} v. Both are analytic up to beta (x^2 + y^2) = -c. |h_2| grows with |y| on each line of constant x.

The trapezoidal rule of an analytic function errs by max |f(Y + i d)| exp(-2 pi d/step) for any shift d short of the
singularities. Of a Gaussian in h about omega, at the omega where it weighs most with the distribution of omega, what
grows is exp(|Im h_1|^2/(2 V_11) + |Im h_2|^2/(2 V_22)).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from attnlimits.generated.attention_tied_linear_m2.numba64 import undo

__all__ = ["Nodes", "nodes_at"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# Places in x and on a line at which growth is looked up, shifts as parts of the distance of the singularities, and
# scales of the maps that are tried.
_LOOKS, _SHIFTS, _SCALES = 13, 8, 5


class Nodes(NamedTuple):
    """Nodes of h_1, one of h_1 and -h_1 for both, on lines of constant x > 0 and rising y.

    Attributes
    ----------
    mass : ndarray, shape (n,)
        dx dy/det B_1.
    x, y, a, b : ndarray, shape (n,)
        h_1 and h_2.
    starts : ndarray of int, shape (lines + 1,)
        Where lines start.
    """

    mass: Array
    x: Array
    y: Array
    a: Array
    b: Array
    starts: Ints

    def weighted(self, factor: float) -> "Nodes":
        """The same with their mass times a factor."""
        return self._replace(mass=self.mass * factor)


@njit(error_model="numpy", nogil=True, cache=True)
def _left(model: tuple[float, float], rho: float, x: float, y: float, log_accuracy: float) -> float:
    """Log-accuracy that is left where the weight is that of h_1 and h_2."""
    a, b, _ = undo(x, y, rho, 0.0, *model)
    return log_accuracy - 0.5 * (x * x + y * y + a * a + b * b)


@njit(error_model="numpy", nogil=True, cache=True)
def _growth(model: tuple[float, float], rho: float, x: complex, y: complex, variances: tuple[float, float]) -> float:
    """Logarithm of the largest weight at shifted indices, less that of the density at their real parts."""
    a, b, density = undo(x, y, rho, 0.0, *model)
    _, _, real = undo(x.real, y.real, rho, 0.0, *model)
    first = (x.imag**2 + y.imag**2) / variances[0] - x.real**2 - y.real**2
    last = (a.imag**2 + b.imag**2) / variances[1] - a.real**2 - b.real**2
    return 0.5 * (first + last) + math.log(abs(density) / real)


@njit(error_model="numpy", nogil=True, cache=True)
def _end(model: tuple[float, float], rho: float, x: float, log_accuracy: float) -> float:
    """Largest |y| at which anything is left; 0 where nothing is."""
    low, high = 0.0, math.sqrt(2 * log_accuracy)
    if _left(model, rho, x, 0.0, log_accuracy) <= 0:
        return 0.0
    halvings = 30
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        if _left(model, rho, x, middle, log_accuracy) > 0:
            low = middle
        else:
            high = middle
    return low


@njit(error_model="numpy", nogil=True, cache=True)
def _far(variances: tuple[float, float]) -> float:
    """Part of the log-accuracy up to which growth counts: off the axis wide densities grow where they are nothing."""
    return 1 + max(variances)


@njit(error_model="numpy", nogil=True, cache=True)
def _step(most: Array, strip: float, log_accuracy: float) -> float:
    """Longest step that some shift allows: `most` has the growth at the parts of the strip."""
    step = 0.0
    for k in range(_SHIFTS):
        remains = max(log_accuracy + most[k], 1e-3)
        step = max(step, 2 * math.pi * strip * (k + 0.5) / _SHIFTS / remains)
    # Longest step of a map.
    longest = 1.0
    return min(step, longest)


@njit(error_model="numpy", nogil=True, cache=True)
def _map_of_lines(
    model: tuple[float, float], rho: float, variances: tuple[float, float], log_accuracy: float
) -> tuple[float, float]:
    """Scale and step of x = scale sinh(X) with the fewest lines."""
    reach = math.sqrt(2 * log_accuracy)
    pole = math.sqrt(model[0] / model[1])
    best_scale, best_step, fewest = pole, 1.0, math.inf
    far = _far(variances) * log_accuracy
    most = np.empty(_SHIFTS)
    for n in range(_SCALES):
        scale = pole * 2.0**n
        strip = math.asin(min(1.0, pole / scale))
        most[:] = -1e300
        top = math.asinh(reach / scale)
        for i in range(_LOOKS):
            at = top * (i + 0.5) / _LOOKS
            end = _end(model, rho, scale * math.sinh(at), far)
            if end == 0.0:
                continue
            for k in range(_SHIFTS):
                x = scale * np.sinh(complex(at, strip * (k + 0.5) / _SHIFTS))
                for j in range(_LOOKS):
                    y = complex(end * j / _LOOKS, 0.0)
                    most[k] = max(most[k], _growth(model, rho, x, y, variances))
        step = _step(most, strip, log_accuracy)
        if top / step < fewest:
            best_scale, best_step, fewest = scale, step, top / step
    return best_scale, best_step


@njit(error_model="numpy", nogil=True, cache=True)
def _map_of_line(
    model: tuple[float, float], rho: float, x: float, end: float, variances: tuple[float, float], log_accuracy: float
) -> tuple[float, float]:
    """Scale and step of y = scale sinh(Y) on a line with the fewest nodes."""
    pole = math.hypot(math.sqrt(model[0] / model[1]), x)
    beyond = _end(model, rho, x, _far(variances) * log_accuracy)
    best_scale, best_step, fewest = pole, 1.0, math.inf
    most = np.empty(_SHIFTS)
    for n in range(_SCALES):
        scale = pole * 2.0**n
        strip = math.asin(min(1.0, pole / scale))
        most[:] = -1e300
        top, farthest = math.asinh(end / scale), math.asinh(beyond / scale)
        for k in range(_SHIFTS):
            for j in range(_LOOKS):
                y = scale * np.sinh(complex(farthest * j / _LOOKS, strip * (k + 0.5) / _SHIFTS))
                most[k] = max(most[k], _growth(model, rho, complex(x, 0.0), y, variances))
        step = _step(most, strip, log_accuracy)
        if top / step < fewest:
            best_scale, best_step, fewest = scale, step, top / step
    return best_scale, best_step


@njit(error_model="numpy", nogil=True, cache=True)
def nodes_at(
    model: tuple[float, float], rho: float, variances: tuple[float, float], log_accuracy: float, tail: float, most: int
) -> Nodes:
    """Nodes of h_1 that resolve the posterior at one rho.

    Parameters
    ----------
    model : two floats
        c > 0 and beta > 0.
    rho : float
        Length of v, > 0.
    variances : two floats
        V_11 and V_22, which are resolved.
    log_accuracy : float
        L: what is below exp(-L) is neglected.
    tail : float
        Log-accuracy that nodes reach further than their steps are chosen for.
    most : int
        Of more nodes there are none: the arrays are empty but for `starts`, whose last one tells.
    """
    scale, step = _map_of_lines(model, rho, variances, log_accuracy)
    reach = math.sqrt(2 * (log_accuracy + tail))
    lines = math.ceil(math.asinh(reach / scale) / step)
    starts, half = np.zeros(lines + 1, np.int64), np.zeros(lines, np.int64)
    maps = np.zeros((lines, 2))
    for i in range(lines):
        x = scale * math.sinh((i + 0.5) * step)
        end = _end(model, rho, x, log_accuracy + tail)
        starts[i + 1] = starts[i]
        if end > 0:
            maps[i, 0], maps[i, 1] = _map_of_line(model, rho, x, end, variances, log_accuracy)
            half[i] = math.ceil(math.asinh(end / maps[i, 0]) / maps[i, 1])
            starts[i + 1] += 2 * half[i] + 1
        if starts[i + 1] > most:
            starts[i + 1 :] = starts[i + 1]
            break
    out = np.empty((5, starts[lines] if starts[lines] <= most else 0))
    for i in range(lines if starts[lines] <= most else 0):
        x, dx = scale * math.sinh((i + 0.5) * step), scale * math.cosh((i + 0.5) * step) * step
        for k in range(starts[i], starts[i + 1]):
            along = (k - starts[i] - half[i]) * maps[i, 1]
            y, dy = maps[i, 0] * math.sinh(along), maps[i, 0] * math.cosh(along) * maps[i, 1]
            a, b, density = undo(x, y, rho, 0.0, *model)
            out[0, k], out[1, k], out[2, k], out[3, k], out[4, k] = dx * dy * density, x, y, a, b
    return Nodes(out[0], out[1], out[2], out[3], out[4], starts)
