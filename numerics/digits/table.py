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

from .balls import Ball, Balls, matrix, precision
from .law import LawNodes

__all__ = ["Compression", "Group", "Moments", "Tables", "compress", "compression", "tables"]

Array = NDArray[np.float64]

# Groups of nodes: light nodes need fewer terms and fewer bits, and those of small A^2/B fewer powers.
_BANDS = 5
# Nodes of one product, for the sake of memory.
_MOST_NODES = 4096
# The fast product of the library needs as many rows, above 128 bits.
_FAST_ROWS = 56
# Largest phases of B on the ellipses that bound the Chebyshev coefficients of exp(-w B/2): Re B > 0.
_PHASES = np.linspace(0.05, 1.5, 30)


@dataclass(frozen=True)
class Group:
    """Nodes of the law that are summed with the same effort.

    Attributes
    ----------
    members : list of int
        Which nodes.
    powers, degrees : int
        Powers of A^2/B and Chebyshev polynomials of log B, each below that number.
    bits : int
        Precision of the sums.
    """

    members: list[int]
    powers: int
    degrees: int
    bits: int


@dataclass(frozen=True)
class Compression:
    """How many terms carry the law; log B lies in [0, log_range]."""

    log_range: float
    groups: Sequence[Group]

    @property
    def powers(self) -> int:
        """Largest number of powers of A^2/B."""
        return max(group.powers for group in self.groups)

    @property
    def degrees(self) -> int:
        """Largest number of Chebyshev polynomials."""
        return max(group.degrees for group in self.groups)


@dataclass(frozen=True)
class Moments:
    """The law as weights on Chebyshev nodes of log B.

    Attributes
    ----------
    b : list of arb, length m
        Nodes B_j.
    sums : arb_mat, shape (n, m)
        Row n summed with f(B_j) is E[(A^2/B)^n f(B)].
    """

    b: Balls
    sums: Ball


@dataclass(frozen=True)
class Tables:
    """exp(-u^2/2) E[tau m exp(p A - w B/2)] for m = 1, A, A^2, B, tau and tau A; each of shape (len(u), len(v))."""

    z: list[Balls]
    a: list[Balls]
    a2: list[Balls]
    b: list[Balls]
    tau: list[Balls]
    tau_a: list[Balls]


def compression(law: LawNodes, log_accuracy: float, bits: int, log_range: float) -> Compression:
    """Find how many powers and degrees carry the law to a relative accuracy of exp(-log_accuracy).

    Parameters
    ----------
    law : LawNodes
    log_accuracy : float
        L > 0.
    bits : int
        Precision of the sums.
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
        inside = band == number
        middle = 0.5 * needed[inside].max(initial=0.0)
        for members in (np.flatnonzero(inside & (needed > middle)), np.flatnonzero(inside & (needed <= middle))):
            if not len(members):
                continue
            rest = [min(log_accuracy, float(left[members].max()))]
            while rest[-1] > 0:
                rest.append(float((left[members] + len(rest) * share[members]).max()))
            rest.pop()
            degrees = max(float(((r - n * cosine) / log_r).min()) for n, r in enumerate(rest))
            spare = math.floor((log_accuracy - rest[0]) / math.log(2))
            for part in np.array_split(members, math.ceil(len(members) / _MOST_NODES)):
                groups.append(Group(part.tolist(), len(rest), math.ceil(degrees) + 2, max(64, bits - spare)))
    return Compression(log_range, groups)


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
    cosines = _cosines(degrees)
    total = matrix(size.powers, degrees, [arb(0)] * (size.powers * degrees))
    for number, group in enumerate(size.groups, 1):
        with precision(min(ctx.prec, group.bits)):
            moments = _moments(law, group, half)
        # From moments to weights on nodes: f(B) = sum_b c_b T_b with c_b a cosine sum over the nodes.
        padded = moments.entries() + [arb(0)] * ((size.powers - group.powers) * group.degrees)
        total += matrix(size.powers, group.degrees, padded) * matrix(
            group.degrees, degrees, cosines[: group.degrees * degrees]
        )
        tick(number / len(size.groups))
    return Moments([(half * (1 + x)).exp() for x in _chebyshev_nodes(degrees)], total)


def _moments(law: LawNodes, group: Group, half: Ball) -> Ball:
    """Sums of weight (A^2/B)^n 2 T_b over a group: matrix of shape (powers, degrees)."""
    count = len(group.members)
    square, tau, power = ([row[i] for i in group.members] for row in (law.square, law.tau, law.weight))
    b = [a2 + t * t for a2, t in zip(square, tau, strict=True)]
    share = [a2 / x for a2, x in zip(square, b, strict=True)]
    rows: Balls = []
    for _ in range(group.powers):
        rows += power
        power = [a * s for a, s in zip(power, share, strict=True)]
    height = group.powers
    if ctx.prec > 128 and height >= _FAST_ROWS // 3:
        height = max(height, _FAST_ROWS)
        rows += [arb(0)] * (count * (height - group.powers))
    right = [entry for row in _chebyshev([x.log() / half - 1 for x in b], group.degrees) for entry in row]
    product = matrix(height, count, rows) * matrix(group.degrees, count, right).transpose()
    return matrix(group.powers, group.degrees, product.entries()[: group.powers * group.degrees])


def tables(moments: Moments, u: Balls, v: Balls) -> Tables:
    """Tables over the outputs u x v, both >= 0.

    Parameters
    ----------
    moments : Moments
    u, v : list of arb
        v_+ = (1 + c) u and v_- = (1 + c) v.

    Returns
    -------
    Tables
    """
    powers, degrees = moments.sums.nrows(), len(moments.b)
    columns = len(v)
    squares = [x * x for x in v]
    kernel = [[(-b * w / 2).exp() for w in squares] for b in moments.b]
    roots = [b.sqrt() for b in moments.b]

    def summed(rows: list[Balls], factor: Balls) -> list[Balls]:
        """E[.. A^{2n} factor(B) exp(-w B/2)] from rows that hold (A^2/B)^n."""
        right = [f * entry for f, row in zip(factor, kernel, strict=True) for entry in row]
        left = matrix(powers, degrees, _scale_rows(rows, moments.b))
        out: list[Balls] = (left * matrix(degrees, columns, right)).tolist()
        return out

    # tau = B^(1/2) (1 - A^2/B)^(1/2), whose binomial series ends where the powers do; tau^2 = B (1 - A^2/B).
    with_tau = (_root_series(powers) * moments.sums).tolist()
    plain = moments.sums.tolist()
    with_tau2 = [
        [a - c for a, c in zip(row, after, strict=True)] for row, after in pairwise([*plain, [arb(0)] * degrees])
    ]
    z = summed(with_tau, roots)
    b = summed(with_tau, [root * x for root, x in zip(roots, moments.b, strict=True)])
    tau = summed(with_tau2, moments.b)
    # u^{2n} exp(-u^2/2)/sqrt((2n)!) stays below one; the other side takes v^{2n}/sqrt((2n)!).
    scale = [1 / arb(2 * n).fac().sqrt() for n in range(powers)]
    factor_v = _powers(v, 2 * powers)
    even = [[factor_v[2 * n][j] * scale[n] for j in range(columns)] for n in range(powers)]
    odd = [
        [factor_v[2 * n - 1][j] * scale[n] * (2 * n) if n else arb(0) for j in range(columns)] for n in range(powers)
    ]
    zeros = [arb(0)] * columns
    right_even: Balls = []
    right_odd: Balls = []
    for n in range(powers):
        for row in (z[n], z[n + 1] if n + 1 < powers else zeros, b[n], tau[n]):
            right_even += [e * x for e, x in zip(even[n], row, strict=True)]
        for row in (z[n], tau[n]):
            right_odd += [o * x for o, x in zip(odd[n], row, strict=True)]
    factor_u = _powers(u, 2 * powers)
    gauss = [(-x * x / 2).exp() for x in u]
    rows_even = [gauss[k] * scale[n] * factor_u[2 * n][k] for k in range(len(u)) for n in range(powers)]
    rows_odd = [
        gauss[k] * scale[n] * factor_u[2 * n - 1][k] if n else arb(0) for k in range(len(u)) for n in range(powers)
    ]
    even_out = matrix(len(u), powers, rows_even) * matrix(powers, 4 * columns, right_even)
    odd_out = matrix(len(u), powers, rows_odd) * matrix(powers, 2 * columns, right_odd)
    a, b_, c, d = _split(even_out.tolist(), columns, 4)
    e, f = _split(odd_out.tolist(), columns, 2)
    return Tables(z=a, a=e, a2=b_, b=c, tau=d, tau_a=f)


def _root_series(count: int) -> Ball:
    """Upper triangular Toeplitz matrix of the coefficients of (1 - x)^(1/2)."""
    coefficients = [arb(1)]
    for k in range(1, count):
        coefficients.append(coefficients[-1] * (2 * k - 3) / (2 * k))
    zero = arb(0)
    return matrix(count, count, (coefficients[j - i] if j >= i else zero for i in range(count) for j in range(count)))


def _split(rows: list[Balls], columns: int, parts: int) -> list[list[Balls]]:
    return [[row[k * columns : (k + 1) * columns] for row in rows] for k in range(parts)]


def _powers(x: Balls, count: int) -> list[Balls]:
    """x^0 .. x^{count - 1}."""
    out = [[arb(1)] * len(x)]
    while len(out) < count:
        out.append([a * b for a, b in zip(out[-1], x, strict=True)])
    return out


def _scale_rows(rows: list[Balls], b: Balls) -> Balls:
    """Row n times b^n, flat."""
    out: Balls = []
    power = [arb(1)] * len(b)
    for row in rows:
        out += [entry * p for entry, p in zip(row, power, strict=True)]
        power = [p * x for p, x in zip(power, b, strict=True)]
    return out


def _chebyshev(x: Balls, count: int) -> list[Balls]:
    """2 T_0 .. 2 T_{count - 1} at all x, by halving: the three-term recurrence would blow up the radii."""
    out = [[arb(2)] * len(x), [value + value for value in x]]
    for k in range(2, count):
        low = k // 2
        out.append([a * b - c for a, b, c in zip(out[k - low], out[low], out[k - 2 * low], strict=True)])
    return out[:count]


def _chebyshev_nodes(count: int) -> Balls:
    return [arb.cos_pi_fmpq(fmpq(2 * j + 1, 2 * count)) for j in range(count)]


def _cosines(count: int) -> Balls:
    """(1 - [b = 0]/2)/count cos(b theta_j), row by row in b."""
    wave = [arb.cos_pi_fmpq(fmpq(k, 2 * count)) for k in range(4 * count)]
    return [
        wave[(b * (2 * j + 1)) % (4 * count)] / (2 * count if b == 0 else count)
        for b in range(count)
        for j in range(count)
    ]
