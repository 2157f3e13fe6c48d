"""What the precise denoiser is given, in balls: entries of y, omega and V, and the readout row that y determines."""

from itertools import combinations

import numpy as np
from flint import arb
from numpy.typing import NDArray

from ...arithmetic.ball import BALLS, ball
from ...core.errors import UnreachableOutputError
from ...model.network import Network, kernel
from ..readout import invert_readout

__all__ = ["covariance", "entries", "invert"]

Balls = NDArray[np.object_]


def entries(name: str, value: object, shape: tuple[int, ...]) -> Balls:
    """Balls of an array of that shape."""
    array = np.asarray(value, dtype=object)
    if array.shape != shape:
        raise ValueError(f"{name} must be a single one, of shape {shape}, got {array.shape}")
    out = np.empty(shape, dtype=object)
    # Sizes of the entries of y, omega and V.
    smallest, largest = 1e-307, 1e307
    for index in np.ndindex(shape):
        try:
            out[index] = ball(array[index])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        # Searches and errors are numbers of float64; entries of y enter by their logarithms or roots.
        least = 0.0 if name == "y" else smallest
        if not (least <= abs(out[index]) <= largest or out[index] == 0):
            raise ValueError(
                f"{name} must have entries that are 0 or between {least:g} and {largest:g} in size, got "
                f"{_shown(array[index])}; take other units for the indices"
            )
    return out


def _shown(entry: object) -> str:
    text = str(entry)
    return text if len(text) <= 40 else f"{text[:20]}..{text[-15:]}"


def covariance(v: Balls) -> Balls:
    """Validate V: symmetric up to the rounding of float64, and then exactly, and positive definite."""
    scale = max(abs(float(entry)) for entry in v.ravel())
    for i, j in combinations(range(len(v)), 2):
        if abs(float(v[i, j] - v[j, i])) > 1e-12 * scale:
            raise ValueError(f"V must be symmetric (troiani2025 (9)), got {v[i, j]} and {v[j, i]}")
        v[i, j] = v[j, i] = (v[i, j] + v[j, i]) / 2
    left = v.copy()
    for k in range(len(v)):
        if not left[k, k] > 0:
            raise ValueError(
                f"V must be positive definite (troiani2025 (9), (12)), but pivot {k + 1} of its elimination is "
                f"{float(left[k, k]):.3g}; take q slightly below I, e.g. V + 1e-12 I"
            )
        for i in range(k + 1, len(v)):
            left[i, k:] -= left[i, k] / left[k, k] * left[k, k:]
    return v


def invert(model: Network, y: Balls, beta: arb) -> tuple[Balls, arb]:
    """Return the readout row v, tokens, and the log-Jacobian; `invert_readout` checks the range and picks the pivot."""
    if model.tokens == 2:
        return _invert_two(model, y, beta)
    rough = invert_readout(model, y.astype(float))[0]
    if model.activation == "linear":
        row = int(np.abs(rough).argmax())
        return y[row] / (beta * y[row, row]).sqrt(), arb(0)
    # d_ab = log(y_aa/y_ab)/beta = v_a (v_a - v_b), on the pair furthest apart.
    a, b = int(rough.argmax()), int(rough.argmin())
    if abs(rough[a]) < abs(rough[b]):
        a, b = b, a
    distances = np.array(
        [[(y[i, i] / y[i, j]).log() / beta for j in range(model.tokens)] for i in (a, b)], dtype=object
    )
    pivot = distances[0, b] / (distances[0, b] + distances[1, a]).sqrt()
    return pivot - distances[0] / pivot, arb(0)


def _invert_two(model: Network, y: Balls, beta: arb) -> tuple[Balls, arb]:
    """Invert by the generated kernel; outputs closer to the edge of the range than float64 resolves are served."""
    try:
        vp, vm, log_jacobian = kernel(model, "mp").invert(BALLS, *y.ravel(), beta)
        inside = all(entry.is_finite() for entry in (vp, vm, log_jacobian))
    except ValueError:
        inside = False
    try:
        invert_readout(model, y.astype(float))
    except ValueError as error:
        rows_sum_to_one = all(abs(float(row.sum() - 1)) < 1e-9 for row in y)
        if not (inside and model.activation == "softmax" and rows_sum_to_one and all(entry > 0 for entry in y.ravel())):
            raise error
    if not inside:
        raise UnreachableOutputError(
            "y lies on the edge of the link's range, where its density is singular (equal tokens, y_12 + y_21 = 1, or "
            "an entry 0; troiani2025 (177), (182)); such outputs have probability zero"
        )
    return np.array([vp + vm, vp - vm], dtype=object) / arb(2).sqrt(), log_jacobian
