"""Where a search for stationary points evaluates at several points, or starts from several: here or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.cluster_pool import Recipe
from ..core.typing import Array
from ..fixed_point.newton import Limits, newton_root
from ..priors import Prior
from .balance import GroupBalance

__all__ = ["OFF", "balance_at", "evaluate_ahead", "newton_point_at", "newton_points"]

#: Smallest w of a point off the faces.
OFF = 3e-3


def evaluate_ahead(balance: GroupBalance, points: Sequence[Array]) -> None:
    """Evaluate at independent points that are not known yet on the workers of a cluster; without a cluster, at none.

    Parameters
    ----------
    balance : GroupBalance
        Keeps the values.
    points : sequence of ndarray, shape (n,)
        Values of w.
    """
    if (on_cluster := balance.output.on_cluster) is not None:
        points = balance.missing(points)
        rows = [{"w": w} for w in points]
        found = on_cluster.pool.map(
            balance_at, rows, recipe=on_cluster.recipe, prior=balance.prior, closest=balance.closest
        )
        for w, log_alphas in zip(points, found, strict=True):
            balance.accept(w, log_alphas)


def balance_at(w: Array, *, recipe: Recipe, prior: Prior, closest: float) -> Array:
    """Logarithms of the alphas at which the groups are stationary, on a worker of a cluster."""
    return GroupBalance(recipe.made(), prior, closest)(w)


def newton_points(balance: GroupBalance, starts: Sequence[Array], free: list[int], log_alpha: float) -> Iterator[Array]:
    """Stationary points that Newton's method finds from some starts, on a cluster where there is one.

    Parameters
    ----------
    balance : GroupBalance
    starts : sequence of ndarray, shape (n,)
        Values of w.
    free : list of int
        Groups whose w is free.
    log_alpha : float
    """
    if (on_cluster := balance.output.on_cluster) is None:
        found: Iterator[Array | None] = (_newton(balance, start, free, log_alpha) for start in starts)
    else:
        settings: dict[str, Any] = {"recipe": on_cluster.recipe, "prior": balance.prior, "closest": balance.closest}
        tried_there = on_cluster.pool.map(
            newton_point_at, [{"start": start} for start in starts], free=free, log_alpha=log_alpha, **settings
        )
        for _, unresolved in tried_there:
            balance.note(unresolved)
        found = (at for at, _ in tried_there)
    return (at for at in found if at is not None)


def newton_point_at(
    start: Array, *, free: list[int], log_alpha: float, recipe: Recipe, prior: Prior, closest: float
) -> tuple[Array | None, list[Array]]:
    """Stationary point that Newton's method finds from a start, and unresolved overlaps, on a worker of a cluster."""
    balance = GroupBalance(recipe.made(), prior, closest)
    return _newton(balance, start, free, log_alpha), balance.unresolved


def _newton(balance: GroupBalance, w: Array, free: list[int], log_alpha: float) -> Array | None:
    """Newton's method from w; None where it leaves the face or does not converge."""

    def full(z: Array) -> Array:
        at = w.copy()
        at[free] = z
        return at

    def inside(z: Array, moved: Array) -> Array | None:
        out: Array = np.clip(moved, 0.3 * z, balance.top)
        return None if (out < OFF).any() else out

    # For Newton's method in w, where several groups have an overlap.
    limits = Limits(tries=25, close=1e-9, enough=1e-4, longest=1.0, rcond=1e-10)
    found = newton_root(
        lambda z: balance(full(z))[free] - log_alpha,
        w[free],
        lambda z: balance.slopes(full(z), free),
        inside,
        limits,
    )
    if found is None or found.left >= limits.enough or (found.z >= balance.top).any():
        return None
    return full(found.z)
