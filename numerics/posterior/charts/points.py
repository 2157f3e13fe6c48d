"""Points that nodes on a chart are made of: randomised quasi-Monte Carlo, drawn once for several independent sets."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ...core.quantiles import at_normals, chi_squared_quantile
from ...quadrature.sobol import shifted, sobol
from ..pieces import PIECES
from ..student import freedom
from .layout import LINE, Layout
from .mixture import BROAD_FREEDOM

__all__ = ["Points", "drawn_points"]

Array = NDArray[np.float64]


class Points(NamedTuple):
    """Points that nodes are made of.

    Attributes
    ----------
    normal : ndarray, shape (.., nodes, F)
        Standard normal.
    broad : ndarray, shape (.., nodes, variables)
        Student with three degrees of freedom for variables on the line, uniform on (0, 1) for others.
    tails : ndarray, shape (.., nodes)
        sqrt(nu/chi^2_nu) of the peaks.
    level : ndarray, shape (.., nodes)
        Which part of the mixture draws a node, see `draw_node`. Each piece has half of its nodes from the prior, and
        goes through the shares of the peaks from a random start: every peak has its share in the mean.
    """

    normal: Array
    broad: Array
    tails: Array
    level: Array


def drawn_points(layout: Layout, nodes: int, pairs: int, rng: np.random.Generator, *, shifts: int = 1) -> Points:
    """Points of so many nodes in each of two independent sets, for each of some pairs of sets.

    Parameters
    ----------
    layout : Layout
    nodes, pairs : int
    rng : numpy.random.Generator
    shifts : int, optional
        Pairs that each pair is made to by random shifts, which take less time than scrambles of their own.

    Returns
    -------
    Points
        Leading shape (pairs shifts, 2).
    """
    size, nu = max(1, layout.dimension), freedom(layout.dimension)
    streams = rng.spawn(2 * pairs)
    uniform = np.array([sobol(size + 1, nodes, stream) for stream in streams])
    starts = np.array([stream.random((shifts, PIECES)) for stream in streams]).reshape(pairs, 2, shifts, PIECES)
    if shifts > 1:
        # The two sets of a pair are of two scrambles.
        uniform = shifted(uniform, shifts, rng).reshape(pairs, 2, shifts, nodes, size + 1).swapaxes(1, 2)
    pairs *= shifts
    uniform = np.clip(uniform, 2.0**-31, 1 - 2.0**-31).reshape(pairs, 2, nodes, size + 1)
    normal = ndtri(uniform)
    broad = uniform[..., size - len(layout.kinds) : size].copy()
    for j, kind in enumerate(layout.kinds):
        if kind == LINE:
            broad[..., j] = at_normals(lambda p: stdtrit(BROAD_FREEDOM, p), normal[..., size - len(layout.kinds) + j])
    return Points(
        np.ascontiguousarray(normal[..., :size]),
        np.ascontiguousarray(broad),
        np.ascontiguousarray(at_normals(lambda p: np.sqrt(nu / chi_squared_quantile(p, nu)), normal[..., size])),
        _levels(starts.swapaxes(1, 2).reshape(pairs, 2, PIECES), nodes),
    )


def _levels(starts: Array, nodes: int) -> Array:
    """Levels of all sets, shape (pairs, 2, nodes), where pieces start at these shares, shape (pairs, 2, PIECES)."""
    half = nodes // PIECES // 2
    out = np.full((*starts.shape, nodes // PIECES), -1.0)
    out[..., -half:] = (np.arange(half) + starts[..., None]) / half
    return out.reshape(*starts.shape[:2], nodes)
