"""Losses, residuals and overlaps of the epochs of a descent."""

from dataclasses import dataclass, field

import numpy as np

from ...posterior.protocol import Model
from ..blocks import Array
from ..heads import weight_rows
from ..symmetry import symmetry
from .results import DescentStep
from .similarity import cosines

__all__ = ["Track"]


@dataclass
class Track:
    """Losses, residuals and overlaps, epoch by epoch."""

    model: Model
    teacher: Array | None
    decay: float
    losses: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    overlaps: list[Array] = field(default_factory=list)
    selves: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gauge = symmetry(self.model)
        truth = np.zeros((weight_rows(self.model), 1)) if self.teacher is None else self.teacher
        self.norms = truth @ truth.T / truth.shape[1]

    def overlap(self, weights: Array) -> Array | None:
        """Overlap with the teacher, if it is known."""
        return None if self.teacher is None else self.gauge.align(self.teacher @ weights.T / weights.shape[1])

    def note(self, weights: Array, loss: float, gradient: Array) -> None:
        """Keep an epoch that ended at these weights."""
        size = float(np.linalg.norm(weights))
        self.losses.append(loss)
        # Infinite where the decay takes the weights out of float64.
        with np.errstate(over="ignore", invalid="ignore"):
            slope = float(np.linalg.norm(gradient + self.decay * weights))
        self.residuals.append(slope / size if size > 0 else 0.0)
        self.selves.append(weights @ weights.T / weights.shape[1])
        overlap = self.overlap(weights)
        if overlap is not None:
            self.overlaps.append(overlap)

    def cosines(self) -> Array:
        """Cosine similarities of all epochs."""
        return cosines(self.model, np.array(self.overlaps), np.array(self.selves), self.norms)

    def step(self, epoch: int, weights: Array) -> DescentStep:
        """The latest epoch as a callback gets it."""
        known = self.teacher is not None
        return DescentStep(
            epoch,
            weights.copy(),
            self.losses[-1],
            self.residuals[-1],
            self.overlaps[-1] if known else None,
            cosines(self.model, self.overlaps[-1], self.selves[-1], self.norms) if known else None,
        )
