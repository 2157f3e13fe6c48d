"""Fixed points of a link along alpha."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...channel.link.channel import LinkChannel, by_fibres_or_samples
from ...channel.link.rotated import SymmetricLink
from ...core.cluster_pool import Workers
from ...model.link import Link
from ...model.link_symmetry import couplings, exchanges, symmetric_axes
from ...model.links import LinkKernel
from ...thresholds.link.directions import named
from .curve import curve
from .kept import Kept
from .records import CurvePoint, CurveResult, Jump, Onset

__all__ = ["curve_link"]

Array = NDArray[np.float64]

# Parts of an axis that are zero.
_NOTHING = 1e-9


def curve_link(
    link: Link,
    values: Iterable[float],
    *,
    samples: int = 1024,
    replicas: int = 8,
    rng: int = 0,
    closest: float | None = None,
    keep: Path | str | None = None,
    workers: Workers = None,
    **settings: Any,
) -> CurveResult:
    """Fixed points of a link along alpha, with onsets and jumps.

    Parameters
    ----------
    link : Link
    values : iterable of float
        Samples per dimension N/D.
    samples, replicas, rng : int, optional
        Points per randomisation, randomisations and seed, where the averages are sampled.
    closest : float, optional
        Distance to one at which an overlap counts as recovered; by default what the averages resolve, and 1e-3 where
        indices are learned together.
    keep, workers, settings : optional
        As in `continuation.curve`.

    Returns
    -------
    CurveResult

    Raises
    ------
    ValueError
        Indices are learned together, and no symmetry fixes axes in which their overlap is diagonal; or as
        `continuation.curve`.

    Notes
    -----
    Indices that are learned one by one have overlaps of their own. Where they are not, the exchanges and changes of
    sign that leave the link as it is fix the axes in which the overlap is diagonal, and those are followed, as `evolve`
    does: of a committee of P equal units, q = b I + (a - b) 11^T/P with a the overlap along (1, .., 1)/sqrt(P) and b
    that beside it. The onset of b is where the units specialise. `growth` is then that along axes without overlap.
    """
    asked, alphas = {"rng": rng, "closest": closest, "keep": keep, **settings}, list(values)
    made: dict[str, Any] = {"samples": samples, "replicas": replicas}
    there: dict[str, Any] = {"noiseless": link.noiseless, "workers": workers}
    return by_fibres_or_samples(lambda fibres: _followed(link, alphas, made, there | {"fibres": fibres}, **asked))


def _followed(
    link: Link,
    values: list[float],
    made: dict[str, Any],
    there: dict[str, Any],
    *,
    rng: int,
    closest: float | None,
    keep: Path | str | None,
    **settings: Any,
) -> CurveResult:
    """The curve by averages of this effort."""
    averages = LinkChannel(link.kernel, **made, **there, rng=np.random.default_rng(rng))
    # On max |F(q) - q|.
    usual = 1e-5
    settings["tol"] = _resolved(averages, settings.get("tol", usual))
    found = _axes(link.kernel)
    if found is None:
        return curve(averages, values, **made, rng=rng, closest=closest, keep=keep, **settings)
    zero = np.zeros((link.kernel.indices,) * 2)
    averages = LinkChannel(
        link.kernel,
        **made,
        **there,
        rng=np.random.default_rng(rng),
        mask=couplings(link.kernel, zero),
        exchanges=exchanges(link.kernel, zero),
    )
    followed = SymmetricLink(averages, *found)
    # Distance to one at which an overlap along an axis counts as recovered: nearer than that, with nothing known along
    # the other axes, the posterior of a committee on its inner nodes is not resolved.
    closest = 1e-3 if closest is None else closest
    kept = None if keep is None else Kept(keep, partial(_point_back, channel=followed, closest=closest))
    found_curve = curve(followed, values, **made, rng=rng, closest=closest, keep=kept, **settings)
    return _back(found_curve, followed, closest)


def _resolved(averages: LinkChannel, tol: float) -> float:
    """Tolerance of fixed points: that asked for, or what averages by quadrature resolve if that is less."""
    if averages.sampled:
        return tol
    zero = np.zeros((averages.model.indices,) * 2)
    error = 0.5 * float(np.ptp(averages(zero).g, axis=0).max())
    # On max |F(q) - q|, at least; and in units of the error of averages by quadrature.
    finest, times = 1e-10, 10.0
    return min(tol, max(finest, times * error))


def _axes(kernel: LinkKernel) -> tuple[Array, tuple[tuple[int, ...], ...]] | None:
    """The axes of `symmetric_axes` where indices in one output are learned together; None where each has its own."""
    if all(len({entry % kernel.indices for entry in part.entries}) == 1 for part in kernel.parts):
        return None
    found = symmetric_axes(kernel)
    # Without such axes `equations` refuses indices that feed one another.
    own = found is None or (len(found[1]) == len(found[0]) and np.abs(found[0]).max(axis=0).min() > 1 - _NOTHING)
    return None if own else found


def _point_back(one: CurvePoint, channel: SymmetricLink, closest: float) -> CurvePoint:
    """The same point with overlaps of the indices."""
    axes = channel.axes
    size = np.abs(axes)
    known = np.where((size > _NOTHING) & np.isfinite(one.growth), one.growth, -np.inf).max(axis=1)
    overlap = np.asarray(axes @ one.overlap @ axes.T)
    return replace(
        one,
        overlap=overlap,
        overlap_error=size @ one.overlap_error @ size.T,
        growth=np.where(np.isfinite(known), known, np.nan),
        recovered=tuple(int(i) for i in np.flatnonzero(overlap.diagonal() >= 1 - 1.001 * closest)),
    )


def _back(result: CurveResult, channel: SymmetricLink, closest: float) -> CurveResult:
    """The same curve with overlaps of the indices in place of those along the axes."""
    axes = channel.axes
    size = np.abs(axes)
    inside = size > _NOTHING

    def turned(q: Array) -> Array:
        return np.asarray(axes @ q @ axes.T)

    def onset(one: Onset) -> Onset:
        members = tuple(int(i) for i in np.flatnonzero(inside[:, list(one.indices)].any(axis=1)))
        chosen = axes[:, list(one.indices)]
        name = "" if len(members) == len(one.indices) else named(chosen @ chosen.T)
        return replace(one, indices=members, overlap=turned(one.overlap), direction=name)

    def jump(one: Jump) -> Jump:
        return replace(one, before=turned(one.before), after=turned(one.after))

    onsets = tuple(onset(one) for one in result.onsets)
    told = [f"{one.direction} comes in at alpha = {one.value:.6g}" for one in onsets if one.direction]
    return replace(
        result,
        points={
            start: tuple(_point_back(one, channel, closest) for one in points)
            for start, points in result.points.items()
        },
        onsets=onsets,
        jumps=tuple(jump(one) for one in result.jumps),
        status="; ".join([result.status, *told]),
    )
