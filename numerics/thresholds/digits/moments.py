"""Moments of a hidden law that carry it into the table of the output density, from its nodes.

With B = A^2 + tau^2, A^{2n} = B^n (A^2/B)^n, and Chebyshev polynomials of log B carry functions of B: each node of the
law costs one product per power and degree.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from ...arithmetic.ball import working_bits
from ...arithmetic.balls import Ball, Balls
from ...arithmetic.digit_runs import multiply_row
from ...arithmetic.fixed_digits import Fixed, Scale, add_product, carried, dot, from_balls
from ...core.errors import ConvergenceError
from .law import LawNodes

__all__ = ["Compression", "Group", "Moments", "compress", "compression"]

Array = NDArray[np.float64]

# Powers of one product: the later ones meet fewer polynomials and have fewer digits.
_ROWS = 12


@dataclass(frozen=True)
class Group:
    """Nodes of the law that are summed with the same effort.

    Attributes
    ----------
    members : list of int
        Which nodes.
    degrees : list of int
        For each power of A^2/B, how many Chebyshev polynomials of log B; the later powers have no more of them.
    """

    members: list[int]
    degrees: list[int]


@dataclass(frozen=True)
class Compression:
    """How many terms carry the law to exp(-log_accuracy); log B lies in [0, log_range]."""

    log_range: float
    log_accuracy: float
    groups: Sequence[Group]

    @property
    def powers(self) -> int:
        """Largest number of powers of A^2/B."""
        return max(len(group.degrees) for group in self.groups)

    @property
    def degrees(self) -> int:
        """Largest number of Chebyshev polynomials."""
        return max(group.degrees[0] for group in self.groups)


@dataclass(frozen=True)
class Moments:
    """The law as weights on Chebyshev nodes of log B.

    Attributes
    ----------
    b : list of arb, length m
        Nodes B_j, in increasing order.
    sums : Fixed, shape (n, m)
        Row n summed with f(B_j) is E[(A^2/B)^n f(B)].
    log_sizes : array, shape (n,)
        log E[(A^2/B)^n], roughly.
    log_range, log_accuracy : float
        Upper bound of log B; what is below exp(-log_accuracy) is neglected.
    """

    b: Balls
    sums: Fixed
    log_sizes: Array
    log_range: float
    log_accuracy: float

    @property
    def powers(self) -> int:
        """Number of powers of A^2/B."""
        return len(self.log_sizes)


def compression(law: LawNodes, log_accuracy: float, log_range: float) -> Compression:
    """Find how many powers and degrees carry the law to a relative accuracy of exp(-log_accuracy).

    Parameters
    ----------
    law : LawNodes
    log_accuracy : float
        L > 0.
    log_range : float
        Upper bound of log B; the lower one is 0.

    Returns
    -------
    Compression

    Notes
    -----
    max over u, w of (p A)^{2n}/(2n)! exp(-u^2/2 - w B/2) is below (A^2/B)^n: that ends the powers. On the ellipse of
    sum of half axes r about [0, log_range], |arg B| <= phi = log_range (r - 1/r)/4, and
    max over w of |(w B)^n exp(-w B/2)| is (cos phi)^{-n} that on the real axis: coefficients beyond degree k are below
    r^{-k} (cos phi)^{-n}.
    """
    tau, square = (np.array([float(x) for x in row]) for row in (law.tau, law.square))
    log_mass = np.log(np.maximum(1e-300, np.array([float(w) for w in law.weight])) * tau)
    share = np.log(np.maximum(1e-300, square / (square + tau**2)))
    # Largest phases of B on the ellipses that bound the Chebyshev coefficients of exp(-w B/2): Re B > 0.
    phases = np.linspace(0.05, 1.5, 30)
    axes = 4 * phases / log_range
    log_r = np.arcsinh(axes / 2)
    cosine = np.log(np.cos(phases))
    groups = []
    left = log_mass + log_accuracy
    # Groups of nodes: light nodes need fewer terms, and those of small A^2/B fewer powers.
    bands = 5
    band = np.ceil(left / (log_accuracy / bands)).clip(0, bands)
    needed = left / -share
    # Nodes of one product: they stay in the cache, and their digits add up exactly.
    most_nodes = 384
    for number in range(bands, 0, -1):
        inside = np.flatnonzero(band == number)
        # Those that need similar powers together.
        inside = inside[np.argsort(-needed[inside])]
        half = int(np.count_nonzero(needed[inside] > 0.5 * needed[inside].max(initial=0.0)))
        for half_band in (inside[:half], inside[half:]):
            if not len(half_band):
                continue
            for members in np.array_split(half_band, math.ceil(len(half_band) / most_nodes)):
                rest = [min(log_accuracy, float(left[members].max()))]
                while rest[-1] > 0:
                    rest.append(float((left[members] + len(rest) * share[members]).max()))
                rest.pop()
                degrees = [max(2, math.ceil(float(((r - n * cosine) / log_r).min())) + 2) for n, r in enumerate(rest)]
                groups.append(Group(members.tolist(), np.maximum.accumulate(degrees[::-1])[::-1].tolist()))
    return Compression(log_range, log_accuracy, groups)


def compress(law: LawNodes, size: Compression, tick: Callable[[float], None]) -> Moments:
    """Sum the law once, into its moments of A^2/B and of the Chebyshev polynomials of log B.

    Parameters
    ----------
    law : LawNodes
    size : Compression
    tick : callable
        Called with the share that is done.
    """
    degrees = size.degrees
    half = arb(size.log_range) / 2
    scale = Scale.for_bits(ctx.prec)
    with working_bits(scale.bits):
        b = [a2 + t * t for a2, t in zip(law.square, law.tau, strict=True)]
        ratio = [a2 / x for a2, x in zip(law.square, b, strict=True)]
        log_b = [x.log() / half - 1 for x in b]
    weight, share, place = (from_balls(numbers, scale) for numbers in (law.weight, ratio, log_b))
    levels = np.zeros((scale.last + 1, size.powers, degrees), dtype=np.int64)
    for number, group in enumerate(size.groups, 1):
        members = group.members
        left = np.empty((scale.last + 1, len(group.degrees), len(members)))
        left[:, 0] = weight.digits[:, members]
        factor = np.ascontiguousarray(share.digits[:, None, members])
        for n in range(1, len(group.degrees)):
            multiply_row(left, n, n - 1, factor, 0, -1)
        right = np.empty((scale.last + 1, group.degrees[0], len(members)))
        right[:, 0] = 0
        right[0, 0] = 1
        right[:, 1] = place.digits[:, members]
        for k in range(2, group.degrees[0]):
            # Halving: the three-term recurrence would blow up the errors.
            multiply_row(right, k, k - k // 2, right, k // 2, k % 2)
        for start in range(0, len(group.degrees), _ROWS):
            rows = slice(start, min(start + _ROWS, len(group.degrees)))
            columns = slice(group.degrees[start])
            add_product(levels[:, rows, columns], np.ascontiguousarray(left[:, rows]), right[:, columns])
        tick(number / len(size.groups))
    # Errors of nodes whose squares do not count.
    tiny = 1e-10
    # Summed over the nodes, to first order and a thousandth more: of a power, the errors of its factors, all at most
    # one; of T_k, those of its parts, times the weight; of a product, what `fixed` leaves out.
    if not all(part.error.max() <= tiny for part in (weight, share, place)):
        raise ConvergenceError(f"nodes of the hidden law came out with errors above {tiny}, (184)-(185): c too small")
    count, rounding = len(law), scale.rounding
    mass = np.array([float(x) for x in law.weight])
    power_error = weight.error.sum() + np.arange(size.powers) * (mass @ share.error + count * rounding)
    place_error = [0.0, float(mass @ place.error)]
    for k in range(2, degrees):
        high, low = place_error[k - k // 2], place_error[k // 2]
        place_error.append(2.001 * (high + low + rounding) + place_error[k % 2])
    moments = carried(levels, 1.01 * (power_error[:, None] + np.array(place_error) + count * rounding))
    log_sizes = np.log(np.maximum(1e-300, moments[:, 0].value))
    # From moments to weights on nodes: f(B) = sum_b c_b T_b with c_b a cosine sum over the nodes.
    sums = dot(moments, _cosines(degrees, scale))
    return Moments(_nodes(degrees, half), sums, log_sizes, size.log_range, size.log_accuracy)


def _nodes(count: int, half: Ball) -> Balls:
    """Nodes B of log B in [0, 2 half], the smallest one first."""
    return [(half * (1 - arb.cos_pi_fmpq(fmpq(2 * j + 1, 2 * count)))).exp() for j in range(count)]


def _cosines(count: int, scale: Scale) -> Fixed:
    """(2 - [b = 0])/count T_b at node j, shape (j, b)."""
    wave = from_balls([2 * arb.cos_pi_fmpq(fmpq(k, 2 * count)) / count for k in range(4 * count)], scale)
    degree, node = np.arange(count)[None, :], np.arange(count)[:, None]
    # cos of b (pi - theta_j)
    found = wave[degree * (2 * count - 2 * node - 1) % (4 * count)]
    found.digits[:, :, 0], found.error[:, 0] = from_balls([arb(1) / count], scale).digits, scale.unit
    return found
