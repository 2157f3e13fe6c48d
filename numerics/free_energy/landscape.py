"""Phi over the overlaps of one or two groups of indices."""

from collections.abc import Callable
from typing import TypedDict

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ..core.results import How
from .entropy import FreeEntropy

__all__ = ["Landscape", "landscape"]

Array = NDArray[np.float64]


class Landscape(TypedDict):
    """Phi(q) - Phi(0) on a grid, see `landscape`."""

    overlaps: list[Array]
    phi: Array
    error: float
    how: How


def landscape(
    free: FreeEntropy, *, points: int = 9, top: float = 0.99, progress: Callable[[int, int], None] | None = None
) -> Landscape:
    """Phi(q) - Phi(0) on a grid.

    Parameters
    ----------
    free : FreeEntropy
        With one or two groups.
    points : int, optional
        Evaluations of Psi_out along each axis, >= 4: nodes of Chebyshev's interpolation in -log(1 - q). What does not
        depend on the output is added exactly.
    top : float, optional
        Largest overlap, in (0, 1).
    progress : callable, optional
        Called with (done, total).

    Returns
    -------
    dict
        `overlaps` (the values of each axis), `phi` (n,) or (n, n), the first axis being the first group, `error` of the
        values (of the averages, and of the interpolation by its last coefficients), and `how`.

    Raises
    ------
    ValueError
        More than two groups, or an argument outside its range.
    """
    output = free.output
    groups = len(output.groups)
    if groups > 2:
        raise ValueError(f"a landscape is drawn over one or two overlaps (10), got {groups}")
    if isinstance(points, bool) or not isinstance(points, int) or points < 4:
        raise ValueError(f"points must be an integer >= 4, got {points!r}")
    if not 0 < top < 1:
        raise ValueError(f"top must be in (0, 1), got {top!r}")
    widest = -np.log1p(-top)
    nodes = 0.5 * widest * (1 - np.cos(np.pi * np.arange(points) / (points - 1)))
    x = -np.expm1(-nodes)
    values, errors = np.zeros((points,) * groups), np.zeros((points,) * groups)
    for done, index in enumerate(np.ndindex(*values.shape)):
        found = output.value(output.matrix(x[list(index)]))
        values[index], errors[index] = found.value, found.error
        if progress is not None:
            progress(done + 1, values.size)
    # At the extrema of T_n the matrix of values and coefficients is square.
    basis = chebyshev.chebvander(2 * nodes / widest - 1, points - 1)
    coefficients = np.linalg.solve(basis, values)
    if groups == 2:
        coefficients = np.linalg.solve(basis, coefficients.T).T
    # Points of the picture along each axis.
    fine = np.linspace(0.0, top, 101)
    rows = chebyshev.chebvander(2 * -np.log1p(-fine) / widest - 1, points - 1)
    psi = rows @ coefficients if groups == 1 else rows @ coefficients @ rows.T
    left_out = sum(float(np.abs(coefficients.take([-1, -2], axis)).max()) for axis in range(groups))
    potentials = [np.array([free.prior.potential(q * np.eye(len(group))) for q in fine]) for group in output.groups]
    prior = potentials[0] if groups == 1 else np.add.outer(*potentials)
    return {
        "overlaps": [fine] * groups,
        "phi": output.channel.share * prior + free.alpha * psi,
        "error": free.alpha * (float(errors.max()) + left_out),
        "how": output.how,
    }
