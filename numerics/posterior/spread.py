"""Sampled posteriors of parts of the outputs on the workers of a cluster, which draw the same nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.cluster_pool import ClusterPool, Recipe, Workers, parts_of
from ..core.typing import Array

__all__ = ["SpreadSums", "sums_of"]

# Outputs of a task: each takes about a millisecond, a task at the scheduler as well.
_OUTPUTS = 128


class SpreadSums:
    """Sums over nodes that each worker draws once, from the same generator, by a posterior of its own.

    Parameters
    ----------
    pool : ClusterPool
    recipe : Recipe
        Of an object whose `sums` takes h, omega, what is the same for all outputs, and the number `start` of the first
        of them.
    """

    def __init__(self, pool: ClusterPool, recipe: Recipe) -> None:
        self._pool, self._recipe = pool, recipe

    @classmethod
    def over(
        cls, workers: Workers, kind: type, settings: tuple[object, ...], rng: np.random.Generator
    ) -> SpreadSums | None:
        """Sums on the workers of a cluster; None where there are threads.

        Parameters
        ----------
        workers : int, ClusterPool or None
        kind : type
            Of the posterior; made of the settings, the generator and the number of threads.
        settings : tuple
        rng : numpy.random.Generator
            Before any node is drawn.
        """
        return cls(workers, Recipe.of(kind, *settings, rng, 1)) if isinstance(workers, ClusterPool) else None

    def __call__(self, h: Array, omega: Array, **shared: object) -> list[Any]:
        """Sums of the parts of the outputs, in their order."""
        rows = [{"h": h[part], "omega": omega[part], "start": part.start} for part in parts_of(len(h), _OUTPUTS)]
        return self._pool.map(sums_of, rows, recipe=self._recipe, **shared)


def sums_of(h: Array, omega: Array, start: int, *, recipe: Recipe, **shared: object) -> Any:
    """Sums of some outputs, by the posterior that this worker has made."""
    return recipe.made().sums(h, omega, start=start, **shared)
