r"""Heads of one width whose scores are added before the activation, y = sigma(sum_l h^l): several layers that close.

sum_l S_l = L^{1/2} S' with S' of width L rho, so that the state evolution, free energy and message passing are those of
one layer of that width, at any rho. The channel of h' has beta L^{1/2} for beta, and noise on the scores over L. Only
the sum is learned; of each head, what it has in common with all, with the error 1 - (1 - V')/L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..core.errors import KernelNotFoundError
from ..core.memory import refuse_memory
from ..core.results import Estimate, Result, versions
from ..learning.blocks import Array, stream
from .channels import Channel, channel
from .checks import CITE, above_zero, count, from_zero
from .data import teacher
from .results import EvolutionPoint
from .score_functions import is_function
from .state_evolution import evolve

__all__ = [
    "HeadsPoint",
    "evolve_heads",
    "head_error",
    "heads_channel",
    "heads_teacher",
    "heads_width",
    "sum_of_heads",
]


@dataclass(frozen=True, repr=False)
class HeadsPoint(Result):
    """Fixed point of the state evolution of heads whose scores are added.

    Attributes
    ----------
    heads : int
        L.
    alpha, rho : float
        n/d^2 and the width of each head; at rho = 0, alpha/(L rho).
    sum : EvolutionPoint
        Of S' = L^{-1/2} sum_l S_l, of width L rho.
    head : Estimate
        (1/d) E ||S_l - E[S_l | data]||^2 of each head, between 1 and 1 - 1/L.
    converged, status, versions
        Provenance.
    """

    papers: ClassVar[tuple[str, ...]] = ("boncoraglio2025",)

    heads: int
    alpha: float
    rho: float
    sum: EvolutionPoint
    head: Estimate
    converged: bool
    status: str
    versions: dict[str, str] = field(default_factory=versions)


def heads_channel(
    activation: str, heads: int, tokens: int = 2, beta: float = 1.0, noise: float = 0.0, *, logarithms: bool = False
) -> Channel:
    """Return the channel of y = sigma(sum_l h^l) as a function of h' = L^{-1/2} sum_l h^l.

    Parameters
    ----------
    activation : str
        "softmax", "hardmax", or a function of one score such as "tanh(z)"; "z" for the sum itself.
    heads : int
        L >= 1.
    tokens, beta, noise, logarithms
        As in `channel`: noise is on the sum of the scores, or on the outputs of a function.

    Returns
    -------
    Channel
        For `amp` with the width L rho, whose estimate is of S'.

    Raises
    ------
    KernelNotFoundError
        "linear" and the published formula.
    """
    number = count("heads", heads, 1, "L layers")
    root = math.sqrt(number)
    if is_function(activation):
        return channel(activation, tokens, beta * root, noise)
    if activation not in ("softmax", "hardmax"):
        raise KernelNotFoundError(
            f"heads are served for softmax, hardmax and functions of one score ({CITE}, (59)), got {activation!r}; "
            'the sum of the scores itself is "z"'
        )
    noise = from_zero("noise", noise, "noisy scores") / number
    return channel(activation, tokens, beta * root, noise, logarithms=logarithms)


def heads_teacher(dimension: int, rho: float, heads: int, rng: np.random.Generator | int | None = None) -> Array:
    """Draw S_1..S_L, shape (L, d, d).

    Parameters
    ----------
    dimension : int
    rho : float
        Width of each.
    heads : int
    rng : Generator, int or None, optional
        One head is that of `teacher` with the same seed.
    """
    number = count("heads", heads, 1, "L layers")
    refuse_memory(f"heads = {number} at dimension = {dimension}", 16.0 * number * dimension**2, "take fewer of either")
    source = stream(rng, 0)
    return np.stack([teacher(dimension, rho, source) for _ in range(number)])


def sum_of_heads(each: Array) -> Array:
    """Return S' = L^{-1/2} sum_l S_l.

    Parameters
    ----------
    each : ndarray, shape (L, d, d)
        As `heads_teacher` draws them.

    Returns
    -------
    ndarray, shape (d, d)
    """
    return np.asarray(each.sum(axis=0) / math.sqrt(len(each)))


def heads_width(heads: int, rho: float, dimension: int) -> float:
    """Width of the sum at a finite d: each head has a whole number of columns, round(rho d) and at least one.

    Parameters
    ----------
    heads : int
        L >= 1.
    rho : float
        Width of each.
    dimension : int
    """
    columns = max(1, round(above_zero("rho", rho, "rho = r/d") * dimension))
    return count("heads", heads, 1, "L layers") * columns / dimension


def head_error(heads: int, mmse: Estimate) -> Estimate:
    """Error of each head, 1 - (1 - V')/L, from that of S' = L^{-1/2} sum_l S_l.

    Parameters
    ----------
    heads : int
        L >= 1.
    mmse : Estimate
        V'.
    """
    number = count("heads", heads, 1, "L layers")
    return Estimate(1 - (1 - mmse.value) / number, mmse.error / number, mmse.how)


def evolve_heads(
    alpha: float,
    rho: float,
    activation: str,
    heads: int,
    *,
    tokens: int = 2,
    beta: float = 1.0,
    noise: float = 0.0,
) -> HeadsPoint:
    """Fixed point of the state evolution of y = sigma(sum_l h^l) with heads of one width.

    Parameters
    ----------
    alpha : float
        n/d^2 >= 0; at rho = 0, alpha/(L rho).
    rho : float
        Width of each head; 0 is the limit of small width.
    activation, heads, tokens, beta, noise
        As in `heads_channel`.

    Returns
    -------
    HeadsPoint

    Notes
    -----
    No other case of several layers closes at finite width: where outputs tell the layers apart, qhat is an L x L matrix
    with entries off its diagonal, and matrices that do not commute are denoised together (`layers`).

    References
    ----------
    boncoraglio2025, (59).
    """
    rho, number = from_zero("rho", rho, "rho = r/d"), count("heads", heads, 1, "L layers")
    point = evolve(alpha, number * rho, heads_channel(activation, number, tokens, beta, noise))
    one = head_error(number, point.mmse)
    return HeadsPoint(number, point.alpha, rho, point, one, point.converged, point.status)
