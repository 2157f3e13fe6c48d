"""Tables of the output density and its second moments over a grid of outputs, from the nodes of a hidden law.

With p = u v, w = v^2 and B = A^2 + tau^2 the density of (u, v) is exp(-u^2/2)/(2 pi) E[tau exp(p A - w B/2)], and
    E[tau exp(p A - w B/2)] = sum_n p^{2n}/(2n)! E[tau A^{2n} exp(-w B/2)]
has positive terms only. A^{2n} = B^n (A^2/B)^n, and Chebyshev polynomials of log B carry exp(-w B/2): each node of the
law costs one product per power and degree, and everything over the grid of outputs is matrix products.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from ..ball import working_bits
from ..errors import ConvergenceError
from .balls import Ball, Balls, matrix
from .law import LawNodes

__all__ = ["Compression", "Group", "Moments", "Tables", "compress", "compression", "tables"]

Array = NDArray[np.float64]

# Groups of nodes: light nodes need fewer terms, and those of small A^2/B fewer powers.
_BANDS = 5
# Powers of one product: the later ones meet fewer polynomials and have fewer digits.
_ROWS = 12
# Nodes of one product: they stay in the cache, and their digits add up exactly.
_MOST_NODES = 384
# Errors of nodes whose squares do not count.
_TINY = 1e-10
# Parts of the powers, with their own outputs v and bits.
_PARTS = 2
# Largest phases of B on the ellipses that bound the Chebyshev coefficients of exp(-w B/2): Re B > 0.
_PHASES = np.linspace(0.05, 1.5, 30)


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
        Nodes B_j.
    sums : arb_mat, shape (n, m)
        Row n summed with f(B_j) is E[(A^2/B)^n f(B)].
    log_sizes : array, shape (n,)
        log E[(A^2/B)^n], roughly.
    log_range, log_accuracy : float
        Upper bound of log B; what is below exp(-log_accuracy) is neglected.
    """

    b: Balls
    sums: Ball
    log_sizes: Array
    log_range: float
    log_accuracy: float


@dataclass(frozen=True)
class Tables:
    """Density and N = E[h h^T ..] - Z I over the outputs, each of shape (len(u), len(v)).

    Attributes
    ----------
    z : list of list of arb
        Z = exp(-u^2/2) E[tau exp(p A - w B/2)], 2 pi times the density.
    pp, pm, mm : list of list of arb
        N_++, N_+- and N_-- in the same unit: the same expectation with (u - A v)^2 - 1, (u - A v) tau v and
        tau^2 v^2 - 1.
    """

    z: list[Balls]
    pp: list[Balls]
    pm: list[Balls]
    mm: list[Balls]


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
    axes = 4 * _PHASES / log_range
    log_r = np.arcsinh(axes / 2)
    cosine = np.log(np.cos(_PHASES))
    groups = []
    left = log_mass + log_accuracy
    band = np.ceil(left / (log_accuracy / _BANDS)).clip(0, _BANDS)
    needed = left / -share
    for number in range(_BANDS, 0, -1):
        inside = np.flatnonzero(band == number)
        # Those that need similar powers together.
        inside = inside[np.argsort(-needed[inside])]
        half = int(np.count_nonzero(needed[inside] > 0.5 * needed[inside].max(initial=0.0)))
        for half_band in (inside[:half], inside[half:]):
            if not len(half_band):
                continue
            for members in np.array_split(half_band, math.ceil(len(half_band) / _MOST_NODES)):
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
    # Its compiled loops take a while to load.
    from .fixed import Scale, add_product, from_balls, multiply_row, to_balls

    degrees = size.degrees
    half = arb(size.log_range) / 2
    scale = Scale.for_bits(ctx.prec)
    with working_bits(scale.bits):
        b = [a2 + t * t for a2, t in zip(law.square, law.tau, strict=True)]
        ratio = [a2 / x for a2, x in zip(law.square, b, strict=True)]
        log_b = [x.log() / half - 1 for x in b]
    weight, off_weight = from_balls(law.weight, scale)
    share, off_share = from_balls(ratio, scale)
    place, off_place = from_balls(log_b, scale)
    levels = np.zeros((scale.last + 1, size.powers, degrees), dtype=np.int64)
    for number, group in enumerate(size.groups, 1):
        members = group.members
        left = np.empty((scale.last + 1, len(group.degrees), len(members)))
        left[:, 0] = weight[:, members]
        factor = np.ascontiguousarray(share[:, None, members])
        for n in range(1, len(group.degrees)):
            multiply_row(left, n, n - 1, factor, 0, -1)
        right = np.empty((scale.last + 1, group.degrees[0], len(members)))
        right[:, 0] = 0
        right[0, 0] = 1
        right[:, 1] = place[:, members]
        for k in range(2, group.degrees[0]):
            # Halving: the three-term recurrence would blow up the errors.
            multiply_row(right, k, k - k // 2, right, k // 2, k % 2)
        for start in range(0, len(group.degrees), _ROWS):
            rows = slice(start, min(start + _ROWS, len(group.degrees)))
            columns = slice(group.degrees[start])
            add_product(levels[:, rows, columns], np.ascontiguousarray(left[:, rows]), right[:, columns])
        tick(number / len(size.groups))
    # Summed over the nodes, to first order and a thousandth more: of a power, the errors of its factors, all at most
    # one; of T_k, those of its parts, times the weight; of a product, what `fixed` leaves out.
    if max(off_weight.max(), off_share.max(), off_place.max()) > _TINY:
        raise ConvergenceError(f"nodes of the hidden law came out with errors above {_TINY}, (184)-(185): c too small")
    count, rounding = len(law), scale.rounding
    mass = np.array([float(x) for x in law.weight])
    power_error = off_weight.sum() + np.arange(size.powers) * (mass @ off_share + count * rounding)
    place_error = [0.0, float(mass @ off_place)]
    for k in range(2, degrees):
        high, low = place_error[k - k // 2], place_error[k // 2]
        place_error.append(2.001 * (high + low + rounding) + place_error[k % 2])
    error = (1.01 * (power_error[:, None] + np.array(place_error) + count * rounding)).ravel().tolist()
    moments = matrix(size.powers, degrees, to_balls(levels.reshape(len(levels), -1), scale, error))
    log_sizes = np.log([max(1e-300, float(moments[n, 0].mid())) for n in range(size.powers)])
    # From moments to weights on nodes: f(B) = sum_b c_b T_b with c_b a cosine sum over the nodes.
    nodes = [(half * (1 + x)).exp() for x in _chebyshev_nodes(degrees)]
    return Moments(nodes, moments * _cosines(degrees), log_sizes, size.log_range, size.log_accuracy)


def tables(moments: Moments, u: Balls, v: Balls) -> Tables:
    """Tables over the outputs u x v, both >= 0.

    Parameters
    ----------
    moments : Moments
    u, v : list of arb
        v_+ = (1 + c) u and v_- = (1 + c) v, both in increasing order.

    Returns
    -------
    Tables
    """
    powers = moments.sums.nrows()
    # tau = B^(1/2) (1 - A^2/B)^(1/2), whose binomial series ends where the powers do; tau^2 = B (1 - A^2/B).
    first = (_root_series(powers) * moments.sums).tolist()
    roots = [b.sqrt() for b in moments.b]
    law = [
        (first, roots),
        (_less_next(moments.sums.tolist()), moments.b),
        (_less_next(first), [b * x for b, x in zip(moments.b, roots, strict=True)]),
    ]
    out: list[list[Balls]] = [[], [], [], []]
    full = ctx.prec
    halves = [-y * y / 2 for y in v]
    kernel = [[(x * w).exp() for w in halves] for x in moments.b]
    length = -(-powers // _PARTS)
    for start in range(0, powers, length):
        part = range(start, min(start + length, powers))
        column = _first_output(moments, start, math.exp(moments.log_range), v)
        line = _first_output(moments, start, 1.0, u)
        # Later powers are smaller throughout: fewer bits.
        with working_bits(max(64, full + math.ceil(moments.log_sizes[start] / math.log(2)))):
            one, two, three = _right(law, moments.b, part, v[column:], [row[column:] for row in kernel])
            even, twice, odd = _left(part, u[line:])
            products = (even * one, twice * one, odd * two, even * three)
        for rows, product in zip(out, products, strict=True):
            if not rows:
                rows += product.tolist()
                continue
            for row, more in zip(rows[line:], product.tolist(), strict=True):
                row[column:] = [a + b for a, b in zip(row[column:], more, strict=True)]
    return Tables(*out)


def _first_output(moments: Moments, n: int, most: float, v: Balls) -> int:
    """First output v, with `most` the largest B, or u, with one, to which powers n and later still matter.

    Notes
    -----
    x^n exp(-x/2) <= (2n/e)^n for x = u^2 and for x = v^2 B, and the product of the two over (2n)! is below one: what
    is lost on the way to x = 2 n is computed, at the largest x. Factors u^2, v^2 and B are left to 8 of L and B^(3/2).
    """
    if n == 0:
        return 0
    reach = 0.5 * np.array([float(y) for y in v]) ** 2 * most / n
    lost = n * np.where(reach < 1, np.log(np.maximum(reach, 1e-300)) - reach + 1, 0.0)
    # tau^2, tau^3 and v^2 tau^3 instead of tau: some powers of B.
    matters = moments.log_sizes[n] + lost + 1.5 * moments.log_range > -moments.log_accuracy
    return int(np.argmax(matters)) if matters.any() else len(v) - 1


def _right(
    law: Sequence[tuple[list[Balls], Balls]], b: Balls, part: range, v: Balls, kernel: list[Balls]
) -> tuple[Ball, Ball, Ball]:
    """Right factors (v A)^{2n}/sqrt((2n)!) of Z and N_++, of N_+- and of N_--, for some powers n."""
    left: Balls = []
    for rows, factor in law:
        left += _scale_rows([rows[n] for n in part], [f * x**part.start for f, x in zip(factor, b, strict=True)], b)
    squares = [y * y for y in v]
    right = matrix(len(b), len(v), [x for row in kernel for x in row])
    sums = (matrix(3 * len(part), len(b), left) * right).tolist()
    one: Balls = []
    two: Balls = []
    three: Balls = []
    scale = _root_factorials(part)
    power = [w**part.start for w in squares]
    for f, z, zt, ztt in zip(scale, *(sums[k * len(part) : (k + 1) * len(part)] for k in range(3)), strict=True):
        factor = [f * w for w in power]
        power = [p * w for p, w in zip(power, squares, strict=True)]
        row = [x * y for x, y in zip(factor, z, strict=True)]
        one += row
        two += [x * (y * e) for x, y, e in zip(factor, v, zt, strict=True)]
        # tau^2 v^2 - 1
        three += [x * w * e - y for x, w, e, y in zip(factor, squares, ztt, row, strict=True)]
    shape = len(part), len(v)
    return matrix(*shape, one), matrix(*shape, two), matrix(*shape, three)


def _left(part: range, u: Balls) -> tuple[Ball, Ball, Ball]:
    """Left factors u^{2n} exp(-u^2/2)/sqrt((2n)!), below one, and with (u - A v)^2 - 1 and u - A v, for some powers n.

    A v is the derivative by u: sum_n (u v A)^{2n}/(2n)! times A v is sum_n (2n/u) (u v A)^{2n}/(2n)!.
    """
    even: Balls = []
    twice: Balls = []
    odd: Balls = []
    scale = _root_factorials(part)
    for x in u:
        w = x * x
        gauss = (-w / 2).exp()
        # u^{2n - 2} exp(-u^2/2)
        low = gauss * w ** (part.start - 1) if part.start else arb(0)
        for n, f in zip(part, scale, strict=True):
            high = low * w if n else gauss
            even.append(f * high)
            twice.append(f * ((w - (4 * n + 1)) * high + 2 * n * (2 * n - 1) * low))
            odd.append(f * x * (high - 2 * n * low))
            low = high
    shape = len(u), len(part)
    return matrix(*shape, even), matrix(*shape, twice), matrix(*shape, odd)


def _root_factorials(part: range) -> Balls:
    """1/sqrt((2n)!)."""
    return [1 / arb(2 * n).fac().sqrt() for n in part]


def _less_next(rows: list[Balls]) -> list[Balls]:
    """Row n less row n + 1: from powers of x to those times 1 - x."""
    return [
        [a - c for a, c in zip(row, after, strict=True)] for row, after in pairwise([*rows, [arb(0)] * len(rows[0])])
    ]


def _root_series(count: int) -> Ball:
    """Upper triangular Toeplitz matrix of the coefficients of (1 - x)^(1/2)."""
    coefficients = [arb(1)]
    for k in range(1, count):
        coefficients.append(coefficients[-1] * (2 * k - 3) / (2 * k))
    zero = arb(0)
    return matrix(count, count, (coefficients[j - i] if j >= i else zero for i in range(count) for j in range(count)))


def _scale_rows(rows: list[Balls], factor: Balls, base: Balls) -> Balls:
    """Row n times factor base^n, flat."""
    out: Balls = []
    for row in rows:
        out += [entry * f for entry, f in zip(row, factor, strict=True)]
        factor = [f * x for f, x in zip(factor, base, strict=True)]
    return out


def _chebyshev_nodes(count: int) -> Balls:
    return [arb.cos_pi_fmpq(fmpq(2 * j + 1, 2 * count)) for j in range(count)]


def _cosines(count: int) -> Ball:
    """(2 - [b = 0])/count cos(b theta_j), one row for each b."""
    wave = [arb.cos_pi_fmpq(fmpq(k, 2 * count)) for k in range(4 * count)]
    entries = [
        wave[(b * (2 * j + 1)) % (4 * count)] * (1 if b == 0 else 2) / count for b in range(count) for j in range(count)
    ]
    return matrix(count, count, entries)
