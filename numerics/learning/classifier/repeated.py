"""The classifier trained several times, each from weights of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.results import Estimate
from ...core.shown import few_lines
from ...core.standard_error import standard_error
from .embeddings import Embedded
from .settings import Settings
from .similarity import half_time
from .training import Training, train

__all__ = ["Repeated", "repeated"]


@few_lines
class Repeated(NamedTuple):
    """Trainings and their means: last accuracies, and epochs to half of the last similarity, layer by layer."""

    trainings: list[Training]
    accuracy: Estimate
    train_accuracy: float
    half_time: NDArray[np.float64]
    converged: bool
    status: str


def repeated(
    first: tuple[Embedded, NDArray[np.int64]],
    second: tuple[Embedded, NDArray[np.int64]],
    settings: Settings,
    *,
    count: int = 1,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Repeated:
    """Train from `count` seeds, `seed` and those after it.

    Parameters
    ----------
    first, second, settings : see `train`
    count, seed : int, optional
    progress : callable, optional
        Called with (done, total) epochs of all trainings.
    """
    found = []
    for k in range(count):

        def tick(done: int, epochs: int, k: int = k) -> None:
            if progress is not None:
                progress(k * epochs + done, count * epochs)

        found.append(train(first, second, settings, seed=seed + k, progress=tick))
    ended = [r for r in found if not r.converged]
    accuracy = np.array([r.test_accuracy[-1] for r in found])
    halves = np.array([[half_time(r.similarity[:, k]) for k in range(r.similarity.shape[1])] for r in found])
    status = f"{found[0].n_epochs} epochs, {count} training{'s' if count > 1 else ''}"
    if ended:
        status = f"{len(ended)} of {count} trainings ended early, the first: {ended[0].status}"
    return Repeated(
        trainings=found,
        accuracy=Estimate(float(accuracy.mean()), float(standard_error(accuracy)), "monte-carlo"),
        train_accuracy=float(np.mean([r.accuracy[-1] for r in found])),
        half_time=halves.mean(axis=0),
        converged=not ended,
        status=status,
    )
