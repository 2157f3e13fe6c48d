"""What a curve of fixed points is made of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.colours import CYCLE
from ...core.decimals import pm
from ...core.pictures import plots
from ...core.results import How, Origin, Result, versions
from ...core.shown import few_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import Dataset

__all__ = ["CurvePoint", "CurveResult", "Gap", "Jump", "Onset"]

Array = NDArray[np.float64]
# Of the axis along which a curve goes.
_NAMES = {
    "alpha": r"samples per dimension $\alpha = N/D$",
    "skip": "skip strength $c$",
    "beta": r"inverse temperature $\beta$",
}


@few_lines
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


@few_lines
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
    direction : str
        Name of the directions that come in where no index does by itself, such as "h_1 - h_2"; empty otherwise.
    """

    indices: tuple[int, ...]
    value: float
    error: float
    overlap: Array
    start: str
    direction: str = ""

    @property
    def name(self) -> str:
        """What comes in: overlaps of indices, or directions."""
        return self.direction or ", ".join(f"q_{i + 1}{i + 1}" for i in self.indices)


@few_lines
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


@few_lines
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

    @classmethod
    def between(cls, lower: tuple["CurvePoint", ...], upper: tuple["CurvePoint", ...]) -> "Gap":
        """The largest between points of two starts, or the largest that could have been missed."""
        rows = []
        for below, above in zip(lower, upper, strict=True):
            difference = np.abs(above.overlap - below.overlap)
            error = above.overlap_error + below.overlap_error
            missed = (difference > error + 1e-12).any()
            k = np.unravel_index(int((difference - error if missed else difference + error).argmax()), error.shape)
            rows.append((float(difference[k]), float(error[k]), below.parameter))
        beyond = any(row[0] > row[1] + 1e-12 for row in rows)
        # Where there is none, the largest that could have been missed.
        largest = max(rows, key=lambda row: row[0] if beyond else row[0] + row[1])
        return cls(*largest, beyond)


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
    reached : bool
        Whether every overlap is as accurate as was asked; true where nothing was asked for.
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
    reached: bool = True
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    def largest_error(self, *, absolute: bool = True) -> float:
        """The largest error of an overlap on the diagonal, or of its ratio to the overlap.

        Overlaps that count as recovered have as their error how close to one they are followed, which is not meant.
        """
        found = [0.0]
        for point in (point for points in self.points.values() for point in points):
            chosen = point.overlap.diagonal() > 0
            chosen[list(point.recovered)] = False
            errors, q = point.overlap_error.diagonal()[chosen], point.overlap.diagonal()[chosen]
            found += (errors if absolute else errors / q).tolist()
        return max(found)

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
        """Draw the diagonal overlaps against the parameter, with their errors, onsets and jumps.

        Between the computed points, and from onset to onset, the lines are monotone cubic interpolation.

        Parameters
        ----------
        axes : matplotlib axes, optional
            Default: those of a new figure.

        Returns
        -------
        matplotlib axes
        """
        pictures = plots()
        with pictures.on_axes(axes) as axes:
            size = max((len(points[0].overlap) for points in self.points.values() if points), default=0)
            for (start, points), line, mark in zip(self.points.items(), ("-", "--"), "os", strict=False):
                named = f", {start} start" if len(self.points) > 1 else ""
                for i in range(size if points else 0):
                    x, q, error = np.array([(p.parameter, p.overlap[i, i], p.overlap_error[i, i]) for p in points]).T
                    colour, label = CYCLE[i % len(CYCLE)], f"$q_{{{i + 1}{i + 1}}}${named}"
                    axes.errorbar(x, q, error, fmt=mark, ms=2.5, mfc="none", color=colour)
                    # Where the slope jumps: at onsets, and where an index is recovered.
                    kinks = [one.value for one in self.onsets]
                    kinks += [p.parameter for o, p in pairwise(points) if (i in o.recovered) != (i in p.recovered)]
                    for piece in self._pieces(start, i):
                        axes.plot(*pictures.smooth(*piece.T, kinks), line, color=colour, label=label)
                        label = ""
            marks = [(one.value, f"${one.direction}$ " if one.direction else "") for one in self.onsets]
            for value, name in [*marks, *((one.value, "") for one in self.jumps)]:
                pictures.mark_threshold(axes, value, f"{name}{value:.4g}")
            axes.set_xlabel(_NAMES.get(self.along, self.along))
            axes.set_ylabel("overlap")
            pictures.legend_below(axes, min(size * len(self.points), 4 // len(self.points)))
            return axes

    def _pieces(self, start: str, i: int) -> list[Array]:
        """Points (parameter, q_ii) of one start with its onsets, in pieces from jump to jump."""
        rows = [(p.parameter, float(p.overlap[i, i])) for p in self.points[start]]
        rows += [(one.value, float(one.overlap[i, i])) for one in self.onsets if one.start == start]
        pieces, low = [], -np.inf
        jumps = sorted((jump for jump in self.jumps if jump.start == start), key=lambda jump: jump.value)
        edge: tuple[tuple[float, float], ...] = ()
        for jump in jumps:
            ends = [(jump.value, float(q[i, i])) for q in (jump.before, jump.after)]
            left, right = ends if jump.direction == "up" else ends[::-1]
            pieces.append((*edge, *(row for row in rows if low < row[0] < jump.value), left))
            low, edge = jump.value, (right,)
        pieces.append((*edge, *(row for row in rows if row[0] > low)))
        # An onset may be a point of the curve already.
        return [np.array(list(dict(sorted(piece)).items())) for piece in pieces if len(piece) > 1]

    def lines(self) -> Iterator[str]:
        """What the curve is of, what was met on it, and the status."""
        for start, points in self.points.items():
            ends = f"from {points[0].parameter:g} to {points[-1].parameter:g}" if points else "none"
            yield f"{start}: {len(points)} points along {self.along}, {ends}"
        for onset in self.onsets[:2]:
            yield f"onset of {onset.name} at {pm(onset.value, onset.error)}"
        if self.jumps:
            yield f"{len(self.jumps)} jump(s), the first at {pm(self.jumps[0].value, self.jumps[0].error)}"
        yield self.status
