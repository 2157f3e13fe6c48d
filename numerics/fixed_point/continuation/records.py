"""What a curve of fixed points is made of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.decimals import pm
from ...core.results import How, Origin, Result, new_figure, versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import Dataset

__all__ = ["CurvePoint", "CurveResult", "Gap", "Jump", "Onset"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CurvePoint:
    """A fixed point of the state evolution (14) on a curve.

    Attributes
    ----------
    parameter, alpha : float
        Value of what varies, and samples per dimension N/D.
    overlap, overlap_error : ndarray, shape (P, P)
        q, and the error of the averages carried through (1 - F')^{-1} plus that of the residual.
    eigenvalues : ndarray
        Of F' in the directions of positive overlap, largest first: stable if all are below one.
    growth : ndarray, shape (P,)
        Growth per iteration of a small overlap of each index without one; NaN for the others and where not known.
    recovered : tuple of int
        Indices whose overlap is at least the closest to one that the averages resolve; that value is in `overlap`.
    converged, residual, n_iter, status
        Provenance; `residual` is max |F(q) - q| over the indices that are not recovered, `n_iter` the number of
        evaluations of the averages that this point took.
    """

    parameter: float
    alpha: float
    overlap: Array
    overlap_error: Array
    eigenvalues: Array
    growth: Array
    recovered: tuple[int, ...]
    converged: bool
    residual: float
    n_iter: int
    status: str


@dataclass(frozen=True)
class Onset:
    """Where indices begin to be learned along a curve, or stop.

    Attributes
    ----------
    indices : tuple of int
        Counted from 0.
    value, error : float
        Of the parameter that varies.
    overlap : ndarray, shape (P, P)
        Fixed point there, without these indices.
    start : str
        On which curve it was met.
    """

    indices: tuple[int, ...]
    value: float
    error: float
    overlap: Array
    start: str


@dataclass(frozen=True)
class Jump:
    """A first-order jump: the fixed point that was followed ends in a fold.

    Attributes
    ----------
    value, error : float
        Parameter at the fold, the spinodal.
    direction : {"up", "down"}
        Whether the parameter was rising or falling.
    before, after : ndarray, shape (P, P)
        Overlap at the fold, and where the iteration settles beyond it.
    start : str
        On which curve it was met.
    """

    value: float
    error: float
    direction: str
    before: Array
    after: Array
    start: str


@dataclass(frozen=True)
class Gap:
    """Largest difference of an overlap between the informed and the uninformed start.

    Attributes
    ----------
    value, error : float
        The difference and its error, at the point where it is the largest.
    parameter : float
    beyond_error : bool
        Whether any difference exceeds its error.
    """

    value: float
    error: float
    parameter: float
    beyond_error: bool


@dataclass(frozen=True, repr=False)
class CurveResult(Result):
    """Fixed points along a parameter.

    Attributes
    ----------
    along : str
        "alpha", "skip" or "beta".
    points : dict
        Start -> tuple of `CurvePoint`, in the order of the parameter.
    onsets, jumps : tuple
        `Onset` and `Jump`, as met.
    gap : Gap or None
        Between the starts, where both were followed.
    how : {"estimated", "monte-carlo"}
    converged : bool
        Whether every point is.
    status : str
    n_iter : int
        Evaluations of the averages in all.
    seed : int
    kernel_hash : str
    versions : dict
    origin : Origin
        Model and settings; where skip or beta varies, the model has the value before that.
    """

    along: str
    points: dict[str, tuple[CurvePoint, ...]]
    onsets: tuple[Onset, ...]
    jumps: tuple[Jump, ...]
    gap: Gap | None
    how: How
    converged: bool
    status: str
    n_iter: int
    seed: int
    kernel_hash: str
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    def to_xarray(self) -> "Dataset":
        """Overlaps and their errors over the start and the parameter, as an `xarray.Dataset`; needs xarray."""
        import xarray  # optional: takes half a second

        axis = [point.parameter for point in next(iter(self.points.values()))]
        names = {"overlap": ("i", "j"), "overlap_error": ("i", "j"), "growth": ("i",)}
        names |= {name: () for name in ("alpha", "converged", "residual", "n_iter", "status")}
        data = {
            name: (
                ("start", self.along, *inner),
                np.array([[getattr(point, name) for point in points] for points in self.points.values()]),
            )
            for name, inner in names.items()
            if name != self.along
        }
        about = {"status": self.status, "kernel_hash": self.kernel_hash, "seed": self.seed}
        return xarray.Dataset(data, {"start": list(self.points), self.along: axis}, about)

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the diagonal overlaps against the parameter, with their errors; returns the matplotlib axes."""
        axes = new_figure().subplots() if axes is None else axes
        for start, points in self.points.items():
            x = [point.parameter for point in points]
            for i in range(len(points[0].overlap)):
                q, error = (np.array([getattr(p, name)[i, i] for p in points]) for name in ("overlap", "overlap_error"))
                axes.errorbar(x, q, error, label=f"$q_{{{i + 1}{i + 1}}}$, {start}")
        axes.set_xlabel(self.along)
        axes.set_ylabel("overlap")
        axes.legend()
        return axes

    def lines(self) -> Iterator[str]:
        """What the curve is of, what was met on it, and the status."""
        for start, points in self.points.items():
            ends = f"from {points[0].parameter:g} to {points[-1].parameter:g}" if points else "none"
            yield f"{start}: {len(points)} points along {self.along}, {ends}"
        for onset in self.onsets[:2]:
            yield f"onset of {', '.join(f'q_{i + 1}{i + 1}' for i in onset.indices)} at {pm(onset.value, onset.error)}"
        if self.jumps:
            yield f"{len(self.jumps)} jump(s), the first at {pm(self.jumps[0].value, self.jumps[0].error)}"
        yield self.status
