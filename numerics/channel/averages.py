"""Averages over the output channel at a given overlap: what state evolution and thresholds are made of.

For omega = q^{1/2} xi and h = omega + V^{1/2} zeta, V = I - q, every channel gives the matrix
G(q) = E sum_m g_m g_m^T = 2 dPsi_out/dq, troiani2025 (14), (95), and the operator blocks
lambda_l(q) = E || E[h_l^T h_l | y, omega] - I ||_F^2 of the layers l of zero overlap, (15), (187), as one value per
independent randomisation, so that means and standard errors follow. Points are fixed once: G is a smooth
function of q.

This module holds the value (`Averages`), the protocol (`Channel`) and what channels have in common (`ChannelBase`);
the channels are in modules of their own, and `channel_choice` chooses one for a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.results import How
from ..core.shown import few_lines
from ..posterior.protocol import Model

__all__ = [
    "NEARLY",
    "ROUNDING",
    "SAFETY",
    "Averages",
    "Channel",
    "ChannelBase",
    "Refinable",
    "controlled",
    "interval",
    "matrix_root",
    "normal_solution",
    "pooled",
    "regression",
]

Array = NDArray[np.float64]

#: Where all learned layers are left with less variance than this, linearised posteriors are control variates.
NEARLY = 0.1
#: The distance of two rules may be small by chance: times this, it is the error that is stated.
SAFETY = 2.0
#: Rounding of sums over nodes, relative to their largest term.
ROUNDING = 2e-15


@few_lines
@dataclass(frozen=True)
class Averages:
    """Channel averages at one overlap; nothing in it changes, and the arrays are read-only.

    Attributes
    ----------
    g : ndarray, shape (replicas, P, P)
        E sum_m g_m g_m^T of each randomisation, or at both ends of an interval.
    growth : ndarray, shape (replicas, P)
        lambda_l of the layers of zero overlap (of one layer with several indices: that of the direction in which they
        grow together); NaN elsewhere and where it is not computed.
    bias : ndarray, shape (P, P)
        What the mean of g may be off by beside its scatter; zero where nothing is known of it.
    how : {"rigorous", "estimated", "monte-carlo"}
        Kind of the error: "monte-carlo" where the values scatter over randomisations, otherwise they are the ends of
        an interval.
    note : str
        What a result made of these averages has to state, such as a restriction; empty otherwise.
    growth_bias : ndarray, shape (P,)
        What the mean of the growth rates may be off by beside its scatter; shape (1,), zero, where nothing is known.
    method : str
        Name of another method than rules and sampling, such as a series near recovery; empty otherwise. Averages by two
        methods differ by more than those of neighbouring overlaps, see `Refinable.alike`.
    orders : ndarray, shape (orders, P, P)
        Parts of the bias with their signs, of which independent averages at one overlap have the mean (`pooled`); their
        absolute values are in the bias.
    """

    g: Array
    growth: Array
    bias: Array
    how: How
    note: str = ""
    growth_bias: Array = field(default_factory=lambda: np.zeros(1))
    method: str = ""
    orders: Array = field(default_factory=lambda: np.zeros((0, 1, 1)))

    def __post_init__(self) -> None:
        for array in (self.g, self.growth, self.bias, self.growth_bias, self.orders):
            array.setflags(write=False)

    @classmethod
    def unbiased(cls, g: Array, growth: Array, how: How, note: str = "") -> "Averages":
        """Averages whose mean is off by nothing but what g shows."""
        return cls(g, growth, np.zeros(g.shape[1:]), how, note)

    @property
    def sampled(self) -> bool:
        """Whether the values scatter over independent randomisations."""
        return self.how == "monte-carlo"


def pooled(found: Sequence[Averages]) -> Averages:
    """Averages at one overlap by the randomisations of several independent ones.

    The estimates of what is left of the bias scatter; their mean scatters less.
    """
    orders = np.mean([one.orders for one in found], axis=0)
    unsigned = np.mean([one.bias - np.abs(one.orders).sum(axis=0) for one in found], axis=0)
    return replace(
        found[0],
        g=np.concatenate([one.g for one in found]),
        growth=np.concatenate([one.growth for one in found]),
        bias=unsigned + np.abs(orders).sum(axis=0),
        growth_bias=np.mean([one.growth_bias for one in found], axis=0),
        orders=orders,
    )


class Channel(Protocol):
    """Averages over the output channel of one model: a function of the overlap, without a memory of its calls.

    The attributes are fixed when the channel is made.

    Attributes
    ----------
    model : Network or LinkKernel
    layers : tuple of int
        Layers whose overlap may be non-zero.
    sampled : bool
        Whether averages are sampled at some overlap; `Averages.how` has it for each.
    accuracy : float or None
        Accuracy that is asked for; None where it follows from the effort.
    smooth : bool
        Whether G follows q without jumps. Where nodes are placed by a search, it jumps within its standard error.
    share : float
        Weights of each index over D, on the scale of which G is: 2 d E log Z_out/dq = share G. One of several heads,
        each with all blocks of D/H coordinates for an index, has 1/H^2.
    rounding : float
        Bound of the rounding of G that does not vanish with it; zero where G is a sum of positive terms.
    tolerance : float
        Error of overlaps at which averages are resolved no further; zero where they do not ask.
    """

    model: Model
    layers: tuple[int, ...]
    sampled: bool
    accuracy: float | None
    smooth: bool
    share: float
    rounding: float
    tolerance: float

    def __call__(self, q: Array) -> Averages:
        """Averages at the overlap q, shape (P, P)."""

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Indices that are learned together."""

    @property
    def shared(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Entries (i, j), i <= j, of the overlap that have one value, by symmetry; those in none of them stay zero."""

    @property
    def solved(self) -> float | None:
        """How many entries of h the output fixes up to finitely many choices; None where only the model has it."""

    def log_density(self, q: Array) -> Array | None:
        """E log Z_out of each randomisation, or by each resolution, up to a constant; None where it is not known."""

    def log_density_bias(self, q: Array) -> float:
        """What the mean of `log_density` may be off by beside what it shows."""

    def operator(self, q: Array) -> tuple[Averages, Array] | None:
        """Averages, and the operator (15) at q, shape (replicas, P, P, P, P): image[i, j] = [i, j, k, l] M[k, l].

        None where the operator is not known.
        """

    def derivative(self, q: Array) -> Array | None:
        """Mean of dG[i, j]/dq[k, l] by posterior moments, shape (P, P, P, P); None where G is smooth."""

    def coarse(self, q: Array) -> tuple[Averages, Array] | None:
        """Averages of few digits, which state what they are off by, and their derivative; None where none are cheaper.

        They lead an iteration to where more digits are needed.
        """


@few_lines
class ChannelBase(Channel):
    """The usual channel: indices are learned one by one, no accuracy is asked for, log Z_out and (15) are not known."""

    accuracy: float | None = None
    smooth: bool = True
    share: float = 1.0
    rounding: float = 0.0
    tolerance: float = 0.0

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Every index by itself."""
        return tuple((i,) for i in self.layers)

    @property
    def shared(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Every index has an overlap of its own."""
        return tuple(((i, i),) for i in self.layers)

    @property
    def solved(self) -> float | None:
        """None: as of the model."""
        return None

    def log_density(self, q: Array) -> Array | None:
        """None: not known."""
        return None

    def log_density_bias(self, q: Array) -> float:
        """0: nothing."""
        return 0.0

    def operator(self, q: Array) -> tuple[Averages, Array] | None:
        """None: not known."""
        return None

    def derivative(self, q: Array) -> Array | None:
        """None: differences serve."""
        return None

    def coarse(self, q: Array) -> tuple[Averages, Array] | None:
        """None: no averages are cheaper."""
        return None


class Refinable(Channel, Protocol):
    """Averages that are as accurate as asked."""

    accuracy: float
    #: Finer accuracies than these change nothing: of quadratures, and of sampled averages.
    finest: tuple[float, float]
    #: Whether accuracies asked for are absolute.
    absolute: bool

    def rough(self, q: Array, accuracy: float) -> Averages:
        """Averages at q of about this relative accuracy."""

    def with_error(self, q: Array, accuracy: float) -> Averages:
        """Averages at q of about this accuracy that state what they are off by, where rough ones do not."""
        return self.rough(q, accuracy)

    def alike(self, q: Array, accuracy: float, neighbour: Averages | None) -> Averages:
        """Averages at q by the same method as those of a nearby overlap, where both methods serve.

        Methods differ by more than neighbouring overlaps do, and a search that changes between them does not converge.
        """
        return self.rough(q, accuracy)

    def beside(self, q: Array, accuracy: float, coarse: float, neighbour: Averages | None) -> Averages:
        """Averages for the ratio to those at another overlap, by which averages of this accuracy are moved.

        Those of the accuracy `coarse` by the method of a neighbour, unless there are others that follow them more
        closely.
        """
        return self.alike(q, coarse, neighbour)


def matrix_root(q: Array) -> Array:
    """Symmetric square root of a PSD matrix; rounding below zero is cut."""
    values, vectors = np.linalg.eigh(q)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def interval(fine: float | Array, coarse: float | Array) -> Array:
    """Ends of the interval about the finer of two rules, its half width the stated error, shape (2, ...)."""
    gap = SAFETY * np.abs(fine - coarse)
    return np.array([fine - gap, fine + gap])


def regression(values: Array, columns: Array) -> Array:
    """Weights of the columns that explain the values best, means aside."""
    centred = columns - columns.mean(axis=0)
    return normal_solution(centred.T @ centred, centred.T @ (values - values.mean()))


def normal_solution(gram: Array, goal: Array) -> Array:
    """Solution of normal equations, shapes (..., k, k) and (..., k), with what keeps the gram matrix regular."""
    ridge = 1e-12 * np.maximum(np.trace(gram, axis1=-2, axis2=-1), 1e-300)[..., None, None]
    return np.asarray(np.linalg.solve(gram + ridge * np.eye(gram.shape[-1]), goal[..., None])[..., 0])


def controlled(values: Array, controls: list[Array], replicas: int) -> Array:
    """Replica means of values minus the regression on controls of known mean zero."""
    columns = np.stack(controls, axis=1)
    weights = regression(values, columns)
    return np.asarray((values - columns @ weights).reshape(replicas, -1).mean(axis=1))
