"""What strategies for a fixed point share: the problem, the state that a step takes and gives, and the solution."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Channel
from ..core.results import How
from ..priors import GAUSSIAN, OverlapMap, gain
from .balance import AT_RECOVERY, Entries, FreeEntries, overlap
from .slopes import Passed

__all__ = ["DEAD", "FAINT", "Problem", "Slopes", "Solution", "State", "Strategy", "Tolerance"]

Array = NDArray[np.float64]
# From layers that are learned to the fixed point of a neighbouring alpha.
Slopes = Mapping[tuple[int, ...], Passed]

#: Overlap below which a layer may be dropped again.
DEAD = 1e-5
#: The same of averages that jump.
FAINT = 1e-3


class Tolerance(NamedTuple):
    """Largest max |F(q) - q| at which an iteration ends, and why it is not the one asked for, where it is larger."""

    value: float
    why: str = ""


@dataclass(frozen=True)
class Problem:
    """q = F(alpha G(q)) on the symmetric matrices, and when it counts as solved.

    Attributes
    ----------
    averages : Channel
        G.
    alpha : float
        Samples per dimension.
    tolerance : Tolerance
        On max |F(q) - q|.
    max_iter : int
        Evaluations of the averages.
    relative : bool
        Whether the tolerance is in units of 1 - q (plain steps from near recovery are short wherever they lead), and a
        tenth of the statistical error is enough for averages that are not smooth.
    prior : OverlapMap
        Law of the weights, which gives F.
    """

    averages: Channel
    alpha: float
    tolerance: Tolerance
    max_iter: int
    relative: bool = False
    prior: OverlapMap = GAUSSIAN

    @property
    def zero(self) -> Array:
        """Zero overlap."""
        return np.zeros((self.averages.model.indices,) * 2)

    @property
    def rising(self) -> float:
        """Alpha times the derivative of F at zero: what growth rates over alpha become growth by."""
        return self.alpha * gain(self.prior)

    def group(self, index: int) -> tuple[int, ...]:
        """Indices that are learned together with this one."""
        return next(group for group in self.averages.groups if index in group)

    def image(self, g: Array) -> Array:
        """F(alpha g), for g of shape (..., P, P)."""
        return self.prior.overlap(self.alpha * g)

    def balance(self, free: Entries, matrix: Callable[[Array], Array] | None = None) -> FreeEntries:
        """Equations for these entries, the others zero or what `matrix` says."""
        matrix = partial(self.overlap, free) if matrix is None else matrix
        return FreeEntries(self.averages, self.alpha, free, matrix, self.prior)

    def overlap(self, free: Entries, x: Array) -> Array:
        """Overlap whose free entries are x, within the range that is resolved."""
        return overlap(self.averages, free, x)


@dataclass(frozen=True)
class State:
    """Where a strategy stands.

    Attributes
    ----------
    q : ndarray, shape (P, P)
    tolerance : Tolerance
        What was asked for in the end.
    averages : Averages, optional
        At q, or where a last step that was taken without them began; None before the first evaluation.
    residual : float
        Max |F(q) - q| over the free entries, where the averages were taken.
    converged : bool
    free : tuple of (int, int)
        Entries that are solved for, the diagonal first.
    n_iter : int
        Evaluations of the averages.
    history : tuple of ndarray
        Overlaps at which they were taken.
    path : tuple of (ndarray, Averages)
        Free entries and averages of the iteration over the present free entries.
    dead, silent : frozenset of int
        Layers that were learned and have died out, and those that were found to stay at zero overlap.
    slopes : mapping
        Slopes of the latest fixed points, from which those of neighbouring alphas are found.
    error : ndarray, optional
        Error of q, where the strategy has measured it.
    recovered : bool
        Whether the strategy has shown that the iteration leads to recovery of all that is learned, beyond q.
    """

    q: Array
    tolerance: Tolerance
    averages: Averages | None = None
    residual: float = 0.0
    converged: bool = False
    free: Entries = ()
    n_iter: int = 0
    history: tuple[Array, ...] = ()
    path: tuple[tuple[Array, Averages], ...] = ()
    dead: frozenset[int] = frozenset()
    silent: frozenset[int] = frozenset()
    slopes: Slopes = field(default_factory=dict)
    error: Array | None = None
    recovered: bool = False

    @classmethod
    def start(cls, problem: Problem, slopes: Slopes | None = None) -> "State":
        """State before the first evaluation."""
        return cls(problem.zero, problem.tolerance, slopes={} if slopes is None else slopes)

    @property
    def known(self) -> Averages:
        """Averages at q, once there are some."""
        assert self.averages is not None
        return self.averages

    @property
    def entries(self) -> tuple[Array, Array]:
        """Rows and columns of the free entries."""
        rows, columns = np.array(self.free).T
        return rows, columns

    def visited(self, q: Array, averages: Averages) -> "State":
        """State after an evaluation at q."""
        return replace(self, q=q, averages=averages, n_iter=self.n_iter + 1, history=(*self.history, q.copy()))

    def beside(self, *tried: Array) -> "State":
        """State that stays where it is after evaluations elsewhere."""
        return replace(self, n_iter=self.n_iter + len(tried), history=(*self.history, *tried))


@dataclass(frozen=True)
class Solution:
    """A fixed point with its error, as every strategy gives it.

    Attributes
    ----------
    alpha : float
    q, error : ndarray, shape (P, P)
        The error is one standard error of q where the averages scatter, and a bound elsewhere.
    rates : ndarray, shape (P,)
        Growth rate of a small overlap of each index of zero overlap; NaN elsewhere and where not computed.
    how : {"estimated", "monte-carlo"}
        Kind of the error of the averages.
    converged, residual, n_iter, history, tolerance
        As of `State`.
    doubt : str
        What the averages do not decide; empty otherwise.
    note : str
        What a result has to state beside whether it converged.
    reached : bool
        Whether it is as accurate as was asked (`reached.is_reached`); true where nothing was asked for.
    rates_error : ndarray
        Error of `rates`; empty where it was not wanted.
    eigenvalues : ndarray
        Of F' over the free entries, largest first; empty where they were not wanted.
    """

    alpha: float
    q: Array
    error: Array
    rates: Array
    how: How
    converged: bool
    residual: float
    n_iter: int
    history: tuple[Array, ...]
    tolerance: Tolerance
    doubt: str = ""
    note: str = ""
    reached: bool = True
    rates_error: Array = field(default_factory=lambda: np.zeros(0))
    eigenvalues: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def recovered(self) -> bool:
        """Whether an overlap is the largest one that is resolved."""
        return bool((self.q.diagonal() >= AT_RECOVERY).any())


class Strategy(Protocol):
    """A way to the fixed point with some layers learned; state in, state out."""

    @property
    def problem(self) -> Problem:
        """What is solved."""

    def settle(self, state: State, q: Array, active: list[int], pairs: Entries = ()) -> State:
        """Solve from q with the diagonal over the active layers free, and these entries off it."""

    def postprocess(self, state: State) -> Solution:
        """Fixed point with its error; it is solved for further where that matters."""
