"""Two entries that are coupled: moments under p(w_1) p(w_2) exp(b.w - w^T A w/2), for a law of one entry.

exp(-a w_1 w_2) = exp(-|a| (w_1^2 + w_2^2)/2) E exp(|a|^{1/2} t (w_1 + s w_2)) with t ~ N(0, 1) and s = -sign a, so that
given t the entries are independent, of precisions A_ii + |a| and fields b_1 + |a|^{1/2} t, b_2 + s |a|^{1/2} t. Moments
of one entry as functions of its field are splines; the sum over t is a trapezoidal rule, whose error
exp(-2 pi^2/step^2) is nothing.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

from ..core.errors import ConvergenceError
from .tilted import Entry

__all__ = ["SPLINE_ERROR", "Pairs", "couplings", "paired"]

Array = NDArray[np.float64]

#: Bound of the error that the splines leave, relative to numbers of order one.
SPLINE_ERROR = 1e-11
# Steps of the field of an entry in splines, in units of its scale, and of t; degree of the splines.
_FIELD_STEP, _COUPLING_STEP, _DEGREE = 0.1, 0.6, 7
# Deviations of t beyond which there is nothing, and logarithm of what is nothing beside the largest.
_REACH, _NOTHING = 9.0, 40.0
# Nodes of a spline at most.
_MOST_FIELDS = 1 << 17


class Pairs(NamedTuple):
    """Of two coupled entries at each of n fields: log Z, means (n, 2) and covariances (n, 2, 2)."""

    log_mass: Array
    mean: Array
    covariance: Array


class _Table(NamedTuple):
    """Polynomials of log Z, mean and variance of an entry between equidistant fields, shape (n, degree + 1, 3)."""

    low: float
    step: float
    polynomials: Array


def couplings(a: float, reach: float) -> int:
    """Nodes of t for a coupling a of entries of size up to `reach`."""
    return 1 if a == 0 else 2 * math.ceil((2 * math.sqrt(abs(a)) * reach + _REACH) / _COUPLING_STEP) + 1


def paired(entry: Entry, reach: float, precision: Array, fields: Array) -> Pairs:
    """Posterior of two entries.

    Parameters
    ----------
    entry : Entry
    reach : float
        Size of the entries beyond which there is nothing.
    precision : ndarray, shape (2, 2)
        A.
    fields : ndarray, shape (n, 2)
        b.

    Raises
    ------
    ConvergenceError
        Fields of a range that is too wide for a table.
    """
    a = float(precision[0, 1])
    root, sign = math.sqrt(abs(a)), 1.0 if a < 0 else -1.0
    half = couplings(a, reach) // 2
    t = _COUPLING_STEP * np.arange(-half, half + 1)
    base = -0.5 * t * t + math.log(_COUPLING_STEP) - 0.5 * math.log(2 * math.pi) if a else np.zeros(1)
    pulls = root * np.array([[1.0], [sign]]) * t
    first, second = (
        _table(
            entry,
            float(precision[k, k]) + abs(a),
            float(fields[:, k].min() + pulls[k].min()),
            float(fields[:, k].max() + pulls[k].max()),
        )
        for k in range(2)
    )
    out = np.empty((len(fields), 6))
    _mixed(np.ascontiguousarray(fields), pulls, base, first, second, out)
    covariance = out[:, [3, 4, 4, 5]].reshape(-1, 2, 2)
    return Pairs(out[:, 0], out[:, 1:3], covariance)


@lru_cache(maxsize=8)
def _table(entry: Entry, precision: float, low: float, high: float) -> _Table:
    """Table of the fields of a range."""
    if not precision > -1:
        raise ConvergenceError(f"the posterior precision I + A has the eigenvalue {1 + precision:.3g}")
    count = max(2 * _DEGREE, math.ceil((high - low) / (_FIELD_STEP * math.sqrt(1 + precision))))
    if count > _MOST_FIELDS:
        raise ConvergenceError(
            f"fields of coupled entries reach {max(abs(low), abs(high)):.3g} at a precision of {precision:.3g} (13), "
            "too far for the moments of a density; take a diagonal precision, or the Gaussian prior"
        )
    step = max((high - low) / (count - 2), 1e-9 * max(abs(low), 1e-9))
    fields = np.asarray(low - step + step * np.arange(count + 1), dtype=np.float64)
    found = entry.moments(precision, fields)
    spline = make_interp_spline(fields, np.stack([found.log_mass, found.mean, found.variance], axis=1), k=_DEGREE)
    powers = [spline.derivative(k)(fields[:-1]) * step**k / math.factorial(k) for k in range(1, _DEGREE + 1)]
    return _Table(float(fields[0]), step, np.ascontiguousarray(np.stack([spline(fields[:-1]), *powers], axis=1)))


@njit(error_model="numpy", nogil=True, cache=True)
def _value(table: _Table, field: float, which: int) -> float:
    """One of the functions of a table."""
    at = (field - table.low) / table.step
    k = min(max(int(at), 0), len(table.polynomials) - 1)
    x, found = at - k, 0.0
    for power in range(table.polynomials.shape[1] - 1, -1, -1):
        found = found * x + table.polynomials[k, power, which]
    return found


@njit(error_model="numpy", nogil=True, cache=True)
def _mixed(fields: Array, pulls: Array, base: Array, first: _Table, second: _Table, out: Array) -> None:
    """Fill log Z, both means, and variance, covariance and variance: sums over t."""
    logs = np.empty(len(base))
    for n in range(len(fields)):
        top = -np.inf
        for k in range(len(base)):
            one = _value(first, fields[n, 0] + pulls[0, k], 0)
            logs[k] = base[k] + one + _value(second, fields[n, 1] + pulls[1, k], 0)
            top = max(top, logs[k])
        total = x = y = xx = xy = yy = 0.0
        # Moments around those at the likeliest t.
        about = int(logs.argmax())
        x0 = _value(first, fields[n, 0] + pulls[0, about], 1)
        y0 = _value(second, fields[n, 1] + pulls[1, about], 1)
        for k in range(len(base)):
            if logs[k] < top - _NOTHING:
                continue
            weight = math.exp(logs[k] - top)
            b, c = fields[n, 0] + pulls[0, k], fields[n, 1] + pulls[1, k]
            u, v = _value(first, b, 1) - x0, _value(second, c, 1) - y0
            total += weight
            x += weight * u
            y += weight * v
            xx += weight * (u * u + _value(first, b, 2))
            yy += weight * (v * v + _value(second, c, 2))
            xy += weight * u * v
        x, y = x / total, y / total
        out[n, 0] = top + math.log(total)
        out[n, 1], out[n, 2] = x0 + x, y0 + y
        out[n, 3], out[n, 4], out[n, 5] = xx / total - x * x, xy / total - x * y, yy / total - y * y
