"""Where a search for stationary points evaluates at several points, or starts from several: here or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.cluster_pool import Recipe
from ..core.typing import Array
from ..fixed_point.newton import Limits, newton_root
from .prior import Prior
from .rest import Rest

__all__ = ["OFF", "know", "led_to", "told_at", "tried"]

# For Newton's method in w, where several groups have an overlap.
_LIMITS = Limits(tries=25, close=1e-9, enough=1e-4, longest=1.0, rcond=1e-10)
#: Smallest w of a point off the faces.
OFF = 3e-3


def know(rest: Rest, points: Sequence[Array]) -> None:
    """Evaluate at points that do not need each other, where there is a cluster for them; none without.

    Parameters
    ----------
    rest : Rest
        Knows them afterwards.
    points : sequence of ndarray, shape (n,)
        Values of w.
    """
    if (remade := rest.output.remade) is not None:
        rows = [{"w": w} for w in points]
        found = remade.pool.map(told_at, rows, recipe=remade.recipe, prior=rest.prior, closest=rest.closest)
        for w, told in zip(points, found, strict=True):
            rest.take(w, told)


def told_at(w: Array, *, recipe: Recipe, prior: Prior, closest: float) -> Array:
    """Logarithms of the alphas at which the groups are at rest, on a worker of a cluster."""
    return Rest(recipe.made(), prior, closest)(w)


def led_to(rest: Rest, starts: Sequence[Array], free: list[int], log_alpha: float) -> Iterator[Array]:
    """Points at rest that Newton's method finds from some starts, on a cluster where there is one.

    Parameters
    ----------
    rest : Rest
    starts : sequence of ndarray, shape (n,)
        Values of w.
    free : list of int
        Groups whose w is free.
    log_alpha : float
    """
    if (remade := rest.output.remade) is None:
        found: Iterator[Any] = (_newton(rest, start, free, log_alpha) for start in starts)
    else:
        settings: dict[str, Any] = {"recipe": remade.recipe, "prior": rest.prior, "closest": rest.closest}
        tried_there = remade.pool.map(
            tried, [{"start": start} for start in starts], free=free, log_alpha=log_alpha, **settings
        )
        for _, unresolved in tried_there:
            rest.note(unresolved)
        found = (at for at, _ in tried_there)
    return (at for at in found if at is not None)


def tried(
    start: Array, *, free: list[int], log_alpha: float, recipe: Recipe, prior: Prior, closest: float
) -> tuple[Array | None, list[Array]]:
    """Point at rest that Newton's method finds from a start, and unresolved overlaps, on a worker of a cluster."""
    rest = Rest(recipe.made(), prior, closest)
    return _newton(rest, start, free, log_alpha), rest.unresolved


def _newton(rest: Rest, w: Array, free: list[int], log_alpha: float) -> Array | None:
    """Newton's method from w; None where it leaves the face or does not come to rest."""

    def full(z: Array) -> Array:
        at = w.copy()
        at[free] = z
        return at

    def inside(z: Array, moved: Array) -> Array | None:
        out: Array = np.clip(moved, 0.3 * z, rest.top)
        return None if (out < OFF).any() else out

    found = newton_root(
        lambda z: rest(full(z))[free] - log_alpha,
        w[free],
        lambda z: rest.slopes(full(z), free),
        inside,
        _LIMITS,
    )
    if found is None or found.left >= _LIMITS.enough or (found.z >= rest.top).any():
        return None
    return full(found.z)
