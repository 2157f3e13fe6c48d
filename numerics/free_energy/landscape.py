"""Phi over the overlaps of one or two groups of indices, with its stationary points: the values, and a picture."""

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from ..core.colours import BLUE, GREEN, PURPLE, RED
from ..core.plots import save_figure
from ..core.results import How
from .entropy import FreeEntropy
from .stationary import StationaryPoint

__all__ = ["Landscape", "draw", "landscape"]

Array = NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]

_COLOURS = {"maximum": RED, "saddle": PURPLE, "minimum": BLUE, "recovered": GREEN}
_MARKS = {"maximum": "o", "saddle": "X", "minimum": "v", "recovered": "s"}
# Points of the picture along each axis.
_FINE = 101


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
    fine = np.linspace(0.0, top, _FINE)
    rows = chebyshev.chebvander(2 * -np.log1p(-fine) / widest - 1, points - 1)
    psi = rows @ coefficients if groups == 1 else rows @ coefficients @ rows.T
    left_out = sum(float(np.abs(coefficients.take([-1, -2], axis)).max()) for axis in range(groups))
    potentials = [np.array([free.prior.potential(q * np.eye(len(group))) for q in fine]) for group in output.groups]
    prior = potentials[0] if groups == 1 else np.add.outer(*potentials)
    return {
        "overlaps": [fine] * groups,
        "phi": prior + free.alpha * psi,
        "error": free.alpha * (float(errors.max()) + left_out),
        "how": output.how,
    }


def draw(record: Landscape, stationary: tuple[StationaryPoint, ...], groups: Groups, title: str, path: Path) -> None:
    """Draw Phi with its stationary points; those beyond the grid stand at its edge.

    Parameters
    ----------
    record : dict
        Of `landscape`.
    stationary : tuple of StationaryPoint
    groups : tuple of tuple of int
        Indices of each axis.
    title : str
    path : Path
        .png, .pdf or .svg.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
    fine, phi = np.asarray(record["overlaps"][0]), np.asarray(record["phi"])
    labels = [rf"$q_{{{group[0] + 1}{group[0] + 1}}}$" for group in groups]
    top = float(fine[-1])
    shown: set[str] = set()
    if phi.ndim == 1:
        axes.plot(fine, phi, color="black", lw=1.4)
        axes.set_ylabel(r"$\Phi(q) - \Phi(0)$")
    else:
        # The largest part of the fall towards one says nothing.
        levels = np.linspace(float(np.quantile(phi, 0.1)), float(phi.max()), 25)
        filled = axes.contourf(fine, fine, phi, levels=levels, extend="min", cmap="viridis")
        figure.colorbar(filled, ax=axes, label=r"$\Phi(q) - \Phi(0)$")
        axes.set_ylabel(labels[1])
    for point in stationary:
        x = np.minimum([point.overlap[group[0], group[0]] for group in groups], top)
        y = float(np.interp(x[0], fine, phi)) if phi.ndim == 1 else float(x[1])
        # One entry of the legend for each kind.
        label = "_" if point.kind in shown else point.kind
        shown.add(point.kind)
        colour, mark = _COLOURS[point.kind], _MARKS[point.kind]
        axes.plot(x[0], y, ls="", marker=mark, color=colour, ms=8, mec="white", clip_on=False, zorder=5, label=label)
    axes.set_xlabel(labels[0])
    axes.set_title(title, fontsize=8)
    axes.legend(fontsize=8)
    save_figure(figure, path, dpi=160)
    plt.close(figure)
