"""Result of GAMP, and the record of an iteration for callbacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...core.results import Origin, versions
from ...core.shown import few_lines
from ..blocks import Array
from ..results import LearnedWeights
from .pictures import draw_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GAMPResult", "GAMPStep"]


@few_lines
@dataclass(frozen=True)
class GAMPStep:
    """Record of an iteration, passed to callbacks.

    Attributes
    ----------
    iteration : int
        From 1.
    weights : ndarray, shape (P, D)
        The estimate What.
    covariance : ndarray, shape (P, P)
        Posterior covariance C of each column.
    self_overlap : ndarray, shape (P, P)
        What What^T / D.
    overlap : ndarray of shape (P, P), or None
        W What^T / D at the best of the link's symmetries, where the teacher is given.
    change : float
        Norm of what What changed by, over its own.
    damping : float
        Share of the old estimate in it.
    """

    iteration: int
    weights: Array
    covariance: Array
    self_overlap: Array
    overlap: Array | None
    change: float
    damping: float


@dataclass(frozen=True, repr=False)
class GAMPResult(LearnedWeights):
    """Estimate of the weights.

    Attributes
    ----------
    weights : ndarray, shape (P, D)
        What: of the last iteration, or of the best one if the run diverged.
    covariance : ndarray, shape (P, P)
        C, the posterior covariance of each of its columns.
    self_overlap : ndarray, shape (P, P)
        What What^T / D; with C it adds up to I in the mean (Nishimori).
    overlap : ndarray of shape (P, P), or None
        W What^T / D with the teacher at the best of the link's symmetries: rows of the teacher.
    history : ndarray of shape (n_iter + 1, P, P), or None
        `overlap` of the start and after each iteration.
    self_history : ndarray, shape (n_iter + 1, P, P)
        `self_overlap` of the same.
    changes, dampings : ndarray, shape (n_iter,)
    converged, status, n_iter, residual : bool, str, int, float
        `residual` is the last relative change of What, the largest of its directions.
    nishimori : float
        Spectral norm of C + What What^T / D - I.
    alpha : float
        N / D.
    seed, kernel_hash, model, versions, origin
        Provenance; `model` is one line that names it.
    """

    weights: Array
    covariance: Array
    self_overlap: Array
    overlap: Array | None
    history: Array | None
    self_history: Array
    changes: Array
    dampings: Array
    converged: bool
    status: str
    n_iter: int
    residual: float
    nishimori: float
    alpha: float
    seed: int
    model: str
    kernel_hash: str
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the overlaps over the iterations, with the teacher where it is known; returns the matplotlib axes."""
        return draw_runs([self], axes=axes)
