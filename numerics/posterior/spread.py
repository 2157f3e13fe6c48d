"""Sampled posteriors of parts of the outputs on the workers of a cluster, which draw the same nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.cluster_pool import ClusterPool, Recipe, Workers, parts_of
from ..core.typing import Array

__all__ = ["SpreadPosterior", "part_of"]


class SpreadPosterior:
    """Parts of a posterior whose nodes each worker draws once for all, from the same generator.

    Parameters
    ----------
    pool : ClusterPool
    recipe : Recipe
        Of a posterior whose `part` takes h and omega of some outputs, the number `start` of the first of them, and what
        is the same for all.
    """

    def __init__(self, pool: ClusterPool, recipe: Recipe) -> None:
        self._pool, self._recipe = pool, recipe

    @classmethod
    def over(
        cls, workers: Workers, kind: type, settings: tuple[object, ...], rng: np.random.Generator
    ) -> SpreadPosterior | None:
        """A posterior on the workers of a cluster; None where there are threads.

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

    def __call__(self, h: Array, omega: Array, **shared: Any) -> list[Any]:
        """Parts in the order of their outputs."""
        # Outputs of a task: each takes about a millisecond, a task at the scheduler as well.
        outputs = 128
        rows = [{"h": h[part], "omega": omega[part], "start": part.start} for part in parts_of(len(h), outputs)]
        return self._pool.map(part_of, rows, recipe=self._recipe, **shared)


def part_of(h: Array, omega: Array, start: int, *, recipe: Recipe, **shared: Any) -> Any:
    """One part, by the posterior that this worker has made."""
    return recipe.made().part(h, omega, start=start, **shared)
