"""Panels on which a density of one variable is smooth: found by halving, cut where nothing is left, standardised."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Panels", "legendre", "resolved"]

Array = NDArray[np.float64]
Density = Callable[[Array], Array]

# Nodes of a panel.
_NODES = 16
# First edges are powers of two from 2^-20 to 2^60 on both sides, with so many panels between neighbours.
_LOWEST, _HIGHEST, _BETWEEN = -20, 60, 4
# Halvings at most, and panels at most.
_HALVINGS, _MOST = 60, 4000
# Disagreement of a panel with its halves, relative to the whole mass, and to its own.
_WHOLE, _OWN = 1e-16, 1e-12
# Shares of the mass, and of the second moment, that are nothing; and that the last panels may have at most.
_NOTHING, _LEFT = 1e-36, 1e-15
# Distance of edges, in standard deviations, at which they are one; means below this are rounding.
_NEAR, _ROUNDING = 1e-6, 1e-14
# Share of the largest value at which a density has vanished.
_VANISHED = 1e-200
# Largest range of log p on a panel, down to panels of this width in standard deviations.
_RANGE, _NARROW = 8.0, 1e-3


@dataclass(frozen=True)
class Panels:
    """A density of mean 0 and variance 1: w = (v - mean)/deviation of a density of v that need not be normalised.

    Attributes
    ----------
    edges : ndarray, shape (K + 1,)
        Of w, rising.
    kinks : ndarray
        Edges at which the density is not smooth.
    mean, deviation, log_mass : float
        Of v.
    fourth_moment : float
        E w^4.
    """

    edges: Array
    kinks: Array
    mean: float
    deviation: float
    log_mass: float
    fourth_moment: float


def legendre(order: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return np.asarray(nodes), np.asarray(weights)


def resolved(density: Density, kinks: list[float], name: str) -> Panels:
    """Panels of a density.

    Parameters
    ----------
    density : callable
        Values >= 0 at an array of v, not normalised.
    kinks : list of float
        Where it is not smooth, as far as is known; others are found by halving.
    name : str
        Of the density, for messages.

    Raises
    ------
    ValueError
        It is negative or not finite somewhere, vanishes everywhere, is too steep to be resolved, or its second or
        fourth moment is not finite.
    """
    powers = np.exp2(np.arange(_LOWEST * _BETWEEN, _HIGHEST * _BETWEEN + 1) / _BETWEEN)
    known = [v for v in kinks if abs(v) < powers[-1]]
    left, right = _halved(density, np.unique(np.concatenate([-powers, [0.0], powers, known])), name)
    found = _Moments.of(density, left, right)
    _check_tails(found, name)
    # Once more, from as few panels as the scale of the density allows.
    left, right = left[found.held], right[found.held]
    wide = np.exp2(np.arange(_HIGHEST + 1)) * found.deviation
    inside = np.concatenate([found.mean - wide, [found.mean], found.mean + wide])
    for kink in known:
        inside = inside[np.abs(inside - kink) > _NEAR * found.deviation]
    inside = np.concatenate([inside, known])
    inside = inside[(inside > left[0]) & (inside < right[-1])]
    left, right = _halved(density, np.unique(np.concatenate([inside, [left[0], right[-1]]])), name)
    found = _Moments.of(density, left, right)
    edges = np.append(left, right[-1])
    kinks = [*(v for v in known if edges[0] <= v <= edges[-1]), *(edges[[0, -1]] if _ends(density, edges) else ())]
    return Panels(
        (edges - found.mean) / found.deviation,
        (np.unique(kinks) - found.mean) / found.deviation,
        found.mean,
        found.deviation,
        found.log_mass,
        found.fourth,
    )


@dataclass(frozen=True)
class _Moments:
    """Mass, mean, deviation, and the shares of second and fourth moments in the panels that have the most of them."""

    log_mass: float
    mean: float
    deviation: float
    fourth: float
    second_shares: Array
    fourth_shares: Array
    held: Array

    @classmethod
    def of(cls, density: Density, left: Array, right: Array) -> "_Moments":
        """By sums over panels."""
        masses = _moments(density, left, right, 0.0)
        total = float(masses[0].sum())
        mean, size = float(masses[1].sum()) / total, float(np.abs(masses[1]).sum()) / total
        mean = mean if abs(mean) > _ROUNDING * size else 0.0
        central = _moments(density, left, right, mean)
        with np.errstate(all="ignore"):
            variance, fourth = float(central[2].sum()) / total, float(central[4].sum()) / total
            held = np.flatnonzero((central[0] > _NOTHING * total) | (central[2] > _NOTHING * variance * total))
            return cls(
                math.log(total),
                mean,
                math.sqrt(variance),
                fourth / variance**2,
                central[2] / (variance * total),
                central[4] / (fourth * total),
                np.arange(held[0], held[-1] + 1),
            )


def _values(density: Density, v: Array, name: str) -> Array:
    """Values of a density; beyond where it has vanished, what overflows is nothing."""
    with np.errstate(all="ignore"):
        found = np.asarray(density(v), dtype=np.float64)
    bad = ~np.isfinite(found)
    if bad.any():
        # A product such as cosh(v) exp(-v^2) is inf times 0 far out.
        least = _VANISHED * float(np.max(found, where=~bad, initial=0.0))
        for side in (v < 0, v > 0):
            gone = np.abs(v[side & ~bad & (found <= least)])
            found = np.where(np.isnan(found) & side & (np.abs(v) > gone.min(initial=math.inf)), 0.0, found)
        if not np.isfinite(found).all():
            where = float(v[~np.isfinite(found)].ravel()[0])
            raise ValueError(f"the density {name} must be finite everywhere, and is not at {where:.4g}")
    if (found < 0).any():
        where = float(v[found < 0].ravel()[0])
        raise ValueError(
            f"the density {name} must be >= 0 everywhere, got {float(found[found < 0][0]):.3g} at {where:.4g}"
        )
    return found


def _halved(density: Density, edges: Array, name: str) -> tuple[Array, Array]:
    """Panels that are as good as their halves, from some edges on."""
    left, right = edges[:-1], edges[1:]
    x, weights = legendre(_NODES)
    done: list[tuple[Array, Array]] = []
    total = 0.0
    for depth in range(_HALVINGS + 1):
        middle = 0.5 * (left + right)
        whole, first, second = (
            (_values(density, _at(a, b, x), name), 0.5 * (b - a))
            for a, b in ((left, right), (left, middle), (middle, right))
        )
        sums = [half * (values @ weights) for values, half in (whole, first, second)]
        total = max(total, float((sums[1] + sums[2]).sum() + sum(float(_mass(density, *one).sum()) for one in done)))
        if total == 0:
            raise ValueError(f"the density {name} vanishes everywhere, or nearly; write it with values of order one")
        off, own = np.abs(sums[0] - sums[1] - sums[2]), np.abs(sums[1] + sums[2])
        fine = (off <= _WHOLE * total) & ((off <= _OWN * own) | (own <= _NOTHING * total))
        # Of what there is, so that posteriors that lie to one side of a panel are resolved.
        fine &= (
            (_range(whole[0]) <= _RANGE)
            | (right - left <= _NARROW * np.maximum(1.0, np.abs(middle)))
            | (own <= _NOTHING * total)
        )
        tiny = right - left <= 1e-14 * np.maximum(np.abs(middle), 1e-300)
        done.append((left[fine | tiny], right[fine | tiny]))
        left, middle, right = (one[~(fine | tiny)] for one in (left, middle, right))
        if not len(left):
            break
        if depth == _HALVINGS or len(left) > _MOST:
            raise ValueError(
                f"the density {name} is not resolved near {float(left[0]):.4g}: it must be bounded, and smooth between "
                "a few kinks"
            )
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    starts, ends = (np.concatenate(one) for one in zip(*done, strict=True))
    order = np.argsort(starts)
    return starts[order], ends[order]


def _at(left: Array, right: Array, x: Array) -> Array:
    return np.asarray(0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * x)


def _mass(density: Density, left: Array, right: Array) -> Array:
    x, weights = legendre(_NODES)
    with np.errstate(all="ignore"):
        return np.asarray(0.5 * (right - left) * (np.nan_to_num(density(_at(left, right, x))) @ weights))


def _range(values: Array) -> Array:
    """Range of log p over the nodes of each panel, of those where it is positive."""
    low = np.where(values > 0, values, np.inf).min(axis=1)
    high = values.max(axis=1)
    with np.errstate(all="ignore"):
        return np.where(high > 0, np.log(high / low), 0.0)


def _moments(density: Density, left: Array, right: Array, mean: float) -> Array:
    """Integrals of (v - mean)^k p over every panel, shape (5, K)."""
    x, weights = legendre(_NODES)
    v = _at(left, right, x)
    with np.errstate(all="ignore"):
        mass = np.nan_to_num(density(v)) * weights * 0.5 * (right - left)[:, None]
        return np.array([np.where(mass > 0, (v - mean) ** k * mass, 0.0).sum(axis=1) for k in range(5)])


def _check_tails(found: _Moments, name: str) -> None:
    """Refuse a density whose second and fourth moments have not converged on the last panels."""
    for what, shares in (("variance", found.second_shares), ("fourth moment", found.fourth_shares)):
        if not np.isfinite(shares).all() or max(shares[0], shares[-1]) > _LEFT:
            raise ValueError(
                f"the density {name} must be integrable and of finite variance and fourth moment (small overlaps grow "
                f"as qhat only then), and its {what} diverges, or nearly; cut its tails off, as by exp(-abs(w))"
            )


def _ends(density: Density, edges: Array) -> bool:
    """Whether the density vanishes beyond the edges: its support is bounded."""
    beyond = 1e-9 * (edges[-1] - edges[0])
    with np.errstate(all="ignore"):
        outside = np.nan_to_num(density(np.array([edges[0] - beyond, edges[-1] + beyond])))
    return bool((outside == 0).any())
