"""Result of a descent, and the record of an epoch for callbacks."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.results import Origin, versions
from ...core.shown import few_lines
from ..blocks import Array
from ..results import LearnedWeights

__all__ = ["DescentResult", "DescentStep"]


@few_lines
@dataclass(frozen=True)
class DescentStep:
    """Record of an epoch, passed to callbacks.

    Attributes
    ----------
    epoch : int
        From 1.
    weights : ndarray, shape (P, D)
    loss : float
        Mean of ||y - g||^2 / 2 over all samples, without the decay.
    residual : float
        Norm of D dl/dW + weight_decay W over that of W.
    overlap : ndarray of shape (P, P), or None
        W What^T / D at the best of the link's symmetries, where the teacher is given.
    cosine : ndarray of shape (layers,), or None
    """

    epoch: int
    weights: Array
    loss: float
    residual: float
    overlap: Array | None
    cosine: Array | None


@dataclass(frozen=True, repr=False)
class DescentResult(LearnedWeights):
    """Weights at the end of a descent.

    Attributes
    ----------
    weights : ndarray, shape (P, D)
        What: of the last epoch, or of the one of least loss if the run diverged.
    loss : float
        Their loss: mean of ||y - g||^2 / 2 over all samples, without the decay.
    spread : float
        Loss of the best constant output.
    layers : tuple of str
        Names of what has a cosine similarity of its own: layers, keys and queries, indices of a link.
    cosine : ndarray of shape (layers,), or None
        Cosine similarity of each with the teacher at the best of the link's symmetries.
    overlap : ndarray of shape (P, P), or None
        W What^T / D with the teacher at the best of them: rows of the teacher.
    self_overlap : ndarray, shape (P, P)
        What What^T / D.
    losses, residuals : ndarray, shape (n_epochs + 1,)
        Of the start and after each epoch; a residual is the norm of D dl/dW + weight_decay W over that of W.
    cosines : ndarray of shape (n_epochs + 1, layers), or None
    history : ndarray of shape (n_epochs + 1, P, P), or None
        `overlap` of the same.
    self_history : ndarray, shape (n_epochs + 1, P, P)
    converged, status, n_epochs, residual : bool, str, int, float
    method, rate, weight_decay, batch, reuse
        As they were used; `batch` is None for all samples.
    alpha : float
        N / D.
    seed, kernel_hash, model, versions, origin
        Provenance; `model` is one line that names it.
    """

    weights: Array
    loss: float
    spread: float
    layers: tuple[str, ...]
    cosine: Array | None
    overlap: Array | None
    self_overlap: Array
    losses: Array
    residuals: Array
    cosines: Array | None
    history: Array | None
    self_history: Array
    converged: bool
    status: str
    n_epochs: int
    residual: float
    method: str
    rate: float
    weight_decay: float
    batch: int | None
    reuse: int
    alpha: float
    seed: int
    model: str
    kernel_hash: str
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)
