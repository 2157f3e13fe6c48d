"""Averages over y of a link whose outputs carry Gaussian noise: the density of y is a mixture over h."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.errors import NotServedError
from ...model.links import LinkKernel
from ...posterior.link.adaptive import adaptive
from ...posterior.link.quadrature import Piece, by_label
from ...posterior.link.rules import GradedRule
from .moments import Sums, volume

__all__ = ["noisy"]

Array = NDArray[np.float64]


def noisy(kernel: LinkKernel, sums: Sums, parts: Sequence[Piece], order: int) -> tuple[Array, Array, int]:
    """Averages over y where every output carries Gaussian noise.

    Parameters
    ----------
    kernel : LinkKernel
        With noise > 0.
    sums : Sums
    parts : sequence of Piece
        The regions of one part of the link.
    order : int
        Nodes per panel.

    Returns
    -------
    value, error : ndarray, shape (1 + n + r^2 + r^4,)
    evaluations : int

    Raises
    ------
    NotServedError
        More than two outputs, or noise too narrow for a rule over the entries.

    References
    ----------
    troiani2025, (9), (15).
    """
    sigma = math.sqrt(kernel.noise)
    centres, rows, coarse = _mixture(parts, sums, order, sigma)
    if centres.shape[1] > 2:
        raise NotServedError(f"{centres.shape[1]} outputs with noise belong together; a quadrature serves at most 2")
    if centres.shape[1] == 1:
        value, error, count = _noisy_one(sums, centres[:, 0], rows, sigma, order)
    else:
        value, error, count = _noisy_two(sums, centres, rows, sigma, order)
    # What is sampled too coarsely carries that share of the mass, and moments a few times as large.
    return value, error + 10 * coarse * np.abs(value), count


def _mixture(parts: Sequence[Piece], sums: Sums, order: int, sigma: float) -> tuple[Array, Array, float]:
    """Outputs without noise, shape (n, K), the moments carried by each, shape (n, width), and the coarse share.

    Neighbouring nodes must give outputs no further apart than the deviation of the noise: else the mixture is a comb,
    and every refinement of it sees the link without noise.
    """
    centres, rows, coarse = [], [], 0.0
    half = _half(sums, [piece for piece in parts if piece.varying])
    for label, group in by_label([piece for piece in parts if not piece.varying]):
        centres.append(np.array([label]))
        rows.append(volume(group, order)[None])
    for piece in (p for p in parts if p.varying and p.free_mass > 0):
        values, weights, share = _resolved(piece, 2 * order if len(piece.active) < 3 else order, sigma)
        coarse = max(coarse, share if len(piece.active) == 1 else 0.0)
        keep = weights > 1e-19
        for entry in half:
            keep = keep & (values[entry] > 0)
        weights = weights * 2 ** len(half)
        values, weights = {i: v[keep] for i, v in values.items()}, weights[keep]
        outputs = piece.region.output(piece.entries(values))
        centres.append(np.stack([np.broadcast_to(o, weights.shape) for o in outputs], axis=1))
        rows.append(piece.moments(weights, values, np.arange(len(weights)), len(weights)))
    return np.concatenate(centres), np.concatenate(rows), coarse


def _resolved(piece: Piece, order: int, sigma: float) -> tuple[dict[int, Array], Array, float]:
    """Nodes of a piece, doubled until their outputs are no further apart than sigma, but for a share of the mass."""
    # The share of the mass that may be sampled more coarsely than the noise, and how many nodes are too many: the share
    # wanted, and the one that is enough where the nodes run out.
    # Several entries: a coarse step along one of them is resolved by the others.
    coarse_share = {1: (1e-12, 1e-4), 2: (1e-4, 1e-4), 3: (1e-2, 1e-2)}
    many_nodes = 4_000_000
    most_order = 1600
    while True:
        values, weights = piece.nodes(GradedRule(order, 0.05))
        # Even evenly spread outputs would take too many nodes.
        reach = max(float(np.ptp(np.asarray(o)[()])) for o in piece.region.output(piece.entries(values)))
        hopeless = reach / sigma > many_nodes
        share = float(weights[_increments(piece, values) > sigma].sum() / max(weights.sum(), 1e-300))
        wanted, enough = coarse_share[min(len(piece.active), 3)]
        last = hopeless or order > most_order or len(weights) * 4 ** len(piece.active) > many_nodes
        if share < (enough if last else wanted):
            return values, weights, share
        if last:
            raise NotServedError(
                f"noise of deviation {sigma:.2g} is too narrow for a quadrature over {len(piece.active)} entries of h"
            )
        order *= 2


def _increments(piece: Piece, values: dict[int, Array]) -> Array:
    """Largest change of an output from each node to its next one along any entry."""
    last, *outer = sorted(piece.active, reverse=True)
    here = np.stack([np.broadcast_to(o, values[last].shape) for o in piece.region.output(piece.entries(values))])
    # Panels come one after the other, each from an end of its interval: sort within every row.
    by = np.lexsort([values[last], *(values[entry] for entry in outer)])
    row = np.zeros(len(by) - 1, dtype=bool)
    for entry in outer:
        row |= np.diff(values[entry][by]) != 0
    along = np.where(row, 0.0, np.abs(np.diff(here[:, by], axis=1)).max(axis=0))
    found = np.empty(len(by))
    found[by] = np.maximum(np.append(along, 0.0), np.append(0.0, along))
    for entry in outer:
        known = np.unique(values[entry])
        step = np.diff(known, append=known[-1])[np.searchsorted(known, values[entry])]
        there = piece.region.output(piece.entries({**values, entry: values[entry] + step}))
        moved = np.stack([np.broadcast_to(o, here.shape[1:]) for o in there])
        found = np.maximum(found, np.nan_to_num(np.abs(moved - here)).max(axis=0))
    return found


def _half(sums: Sums, moving: Sequence[Piece]) -> list[int]:
    """Entries of h that a symmetry of the link lets run over h > 0 alone: all moments that do not vanish are even."""
    found: list[int] = []
    common = set.intersection(*(set(piece.active) for piece in moving)) if moving else set()
    for entry in sorted(common):
        if any(s[entry] < 0 and all(s[e] > 0 for e in found) for s in sums.signs):
            found.append(entry)
    return found


def _noisy_one(sums: Sums, centres: Array, rows: Array, sigma: float, order: int) -> tuple[Array, Array, int]:
    arrange = np.argsort(centres)
    centres, rows = centres[arrange], rows[arrange]
    calls = [0]

    def f(y: Array) -> Array:
        calls[0] += len(y)
        out = np.zeros((len(y), rows.shape[1]))
        by = np.argsort(y)
        for begin in range(0, len(y), 64):
            take = by[begin : begin + 64]
            # Only centres within ten standard deviations count.
            near = slice(*np.searchsorted(centres, [y[take[0]] - 10 * sigma, y[take[-1]] + 10 * sigma]))
            x = (y[take][:, None] - centres[near]) / sigma
            out[take] = np.exp(-0.5 * x * x) @ rows[near]
        return sums(out / (sigma * math.sqrt(2 * math.pi)))

    low, high = centres[0] - 9 * sigma, centres[-1] + 9 * sigma
    mass = np.abs(rows[:, 0])
    # Marks at quantiles: no peak can hide between the nodes.
    share = np.searchsorted(np.cumsum(mass) / mass.sum(), np.linspace(0.02, 0.98, 25))
    marks = [m for m in centres[np.clip(share, 0, len(centres) - 1)] if low < m < high]
    edges = np.unique(np.concatenate([[low, high], marks]))
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9 * sigma])]
    middle = 0.5 * (edges[1:] + edges[:-1])
    start, end = np.concatenate([edges[:-1], edges[1:]]), np.concatenate([middle, middle])
    least = np.clip(np.sqrt(sigma / np.abs(end - start)), 1e-6, 0.3)
    value, error = adaptive(f, start, end, least, 1e-10)
    return value, error, calls[0]


def _noisy_two(sums: Sums, centres: Array, rows: Array, sigma: float, order: int) -> tuple[Array, Array, int]:
    # Trapezoidal: the integrand is analytic on the scale of sigma. The law of each output is cut at 1e-12.
    step = sigma * (0.5 if order < 8 else 0.4 if order < 12 else 0.33)
    lines = []
    for k in range(2):
        by = np.argsort(centres[:, k])
        share = np.cumsum(np.abs(rows[by, 0]))
        low, high = np.interp([1e-12, 1 - 1e-12], share / share[-1], centres[by, k])
        lines.append(np.arange(low - 7.5 * sigma, high + 7.5 * sigma + step, step))
    if len(lines[0]) * len(lines[1]) > 400_000:
        raise NotServedError(
            f"two outputs with noise of deviation {sigma:g} over a range of {np.ptp(lines[0]):.3g} x "
            f"{np.ptp(lines[1]):.3g} need too many points"
        )
    arrange = np.argsort(centres[:, 0])
    centres, rows = centres[arrange], rows[arrange]
    value = np.zeros(1 + sums.n + sums.r**2 + sums.r**4)
    for y in lines[0]:
        # Only what lies within eight standard deviations counts.
        near = slice(*np.searchsorted(centres[:, 0], [y - 8 * sigma, y + 8 * sigma]))
        other, some = centres[near, 1], rows[near]
        if not len(other):
            continue
        line = lines[1][(lines[1] > other.min() - 8 * sigma) & (lines[1] < other.max() + 8 * sigma)]
        some = some * np.exp(-0.5 * ((y - centres[near, 0]) / sigma) ** 2)[:, None]
        heavy = np.abs(some[:, 0]) > 1e-22
        matrix = np.exp(-0.5 * ((line[:, None] - other[heavy]) / sigma) ** 2)
        value += step * step * sums(matrix @ some[heavy] / (2 * math.pi * sigma**2)).sum(axis=0)
    # The cuts at 1e-12, and the tails beyond them in moments of second order.
    return value, 1e-10 * np.abs(value), len(lines[0]) * len(lines[1])
