"""Pictures of the steps of sculpting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.colours import BLUE, GREEN, RED
from .certification import interior
from .results import SculptResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["hull_net", "hull_singular_values", "residual_histogram"]

_INSIDE, _BORDER, _TRUE = BLUE, RED, GREEN


def residual_histogram(axes: Axes, result: SculptResult) -> None:
    """Draw how many rows have which residual rho, inside the simplex and on its boundary.

    Parameters
    ----------
    axes : matplotlib axes
    result : SculptResult
    """
    patterns = result.certification.patterns
    inside = interior(patterns)
    size = np.log10(np.maximum(patterns.rho, 1e-16))
    edges = np.linspace(size.min() - 1e-9, size.max() + 1e-9, 61).tolist()
    for rows, label, colour in ((inside, "inside the simplex", _INSIDE), (~inside, "on its boundary", _BORDER)):
        axes.hist(size[rows], edges, histtype="step", color=colour, label=f"{label} ({int(rows.sum())} rows)")
    axes.set_yscale("log")
    axes.set_xlabel(r"$\log_{10}\,|y - \alpha^T X \hat S|$")
    axes.set_ylabel("rows")
    axes.legend()


def hull_singular_values(axes: Axes, result: SculptResult) -> None:
    """Draw the singular values of the weighted constraints, those of the hull directions marked.

    Parameters
    ----------
    axes : matplotlib axes
    result : SculptResult
    """
    values = result.hull.singular_values
    number = np.arange(1, len(values) + 1)
    on_hull = len(result.hull.directions)
    kept = len(values) - on_hull
    axes.semilogy(number[:kept], values[:kept], ".", color=_INSIDE, label="fixed by the body")
    if on_hull:
        label = f"directions of the hull, gap {result.hull.gap:.3g}"
        axes.semilogy(number[kept:], values[kept:], "o", color=_BORDER, label=label)
    axes.set_xlabel("number")
    axes.set_ylabel("singular value")
    axes.legend()


def hull_net(axes: Axes, result: SculptResult, theta: ArrayLike | None = None) -> None:
    """Draw the last net in the first two hull coordinates, its best tuple, and the heads that were learned.

    Parameters
    ----------
    axes : matplotlib axes
    result : SculptResult
        Of two heads or more; with two, there is one coordinate.
    theta : array_like, shape (m, d, d), optional
        True matrices.

    Raises
    ------
    ValueError
        One head: its hull is a point.
    """
    if len(result.theta) < 2:
        raise ValueError("result must have two heads or more: the affine hull of one is a point; draw another step")
    net = result.nets[-1]
    best = net.points[net.tuples[np.argmin(net.error)]]
    axes.plot(*_plane(net.points), ".", color="0.7", label=f"net of the body at t = {net.box.level:.3g}")
    axes.plot(*_plane(best), "s", mfc="none", color=_BORDER, label="best tuple")
    axes.plot(*_plane(_coordinates(result, result.theta)), "x", color=_INSIDE, label="learned")
    if theta is not None:
        known = _coordinates(result, np.asarray(theta, dtype=np.float64))
        axes.plot(*_plane(known), "o", mfc="none", color=_TRUE, label="true")
    axes.set_xlabel(r"$\langle D_1, \Theta - \Theta^*\rangle$")
    axes.set_ylabel(r"$\langle D_2, \Theta - \Theta^*\rangle$" if net.points.shape[1] > 1 else "")
    axes.legend()


def _coordinates(result: SculptResult, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.tensordot(theta - result.hull.proxy, result.hull.directions, ([1, 2], [1, 2])))


def _plane(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """First two coordinates; zero for the second where there is only one."""
    return points[:, 0], points[:, 1] if points.shape[1] > 1 else np.zeros(len(points))
