"""The lattice sum of the rigorous threshold, for a finite law of (A, tau), in ball arithmetic.

Z(u, v) = (2 pi)^-1 e^(-u^2/2) sum_n (u v)^(2n) / (2n)! E[tau A^(2n) exp(-v^2 B/2)] with B = A^2 + tau^2, and the
moments likewise: positive series, so a table over (u, v) is a product of matrices. exp(-v^2 B/2) is expanded in
Chebyshev polynomials of B, so that the nodes are summed once for all v. What both expansions leave out is part of the
balls. The proofs of (15)-(17) are in papers/troiani2025/enclosure.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from flint import arb, arb_mat, ctx, fmpz, fmpz_mat

from ...arithmetic.ball import working_bits
from ...core.errors import ConvergenceError
from ...core.progress import Bar
from .bounds import Support, support
from .law import InnerRule, Node

__all__ = ["Lattice", "Orders", "Table", "lattice_sum", "orders"]

_ROWS = 48


@dataclass(frozen=True)
class Lattice:
    """The outputs (u, v) = ((k + 1/2) h_u, (j + 1/2) h_v) that are summed: k < counts[j], and their mirror images."""

    step_u: float
    step_v: float
    counts: tuple[int, ...]

    @classmethod
    def within(cls, law: Support, step_u: float, step_v: float, exponent: float) -> "Lattice":
        """Keep the points whose largest term of Z is above exp(-exponent) or so."""
        low, high, slope = float(law.tau_min), float(law.tau_max), float(law.slope)
        size = 2 * exponent
        counts = []
        for j in range(math.ceil(math.sqrt(size) / (low * step_v))):
            v = (j + 0.5) * step_v
            if 2 * (low * v) ** 2 >= size:
                u = math.sqrt(max(0.0, size - (low * v) ** 2))
            elif (u := math.sqrt(2 * size) - low * v) > (2 * slope + low) * v:
                u = slope * v + math.sqrt(size - (high * v) ** 2)
            counts.append(max(0, math.ceil(u / step_u)))
        return cls(step_u, step_v, tuple(counts))

    @property
    def size(self) -> int:
        """Number of points of the positive quadrant."""
        return sum(self.counts)

    def u(self, k: int) -> arb:
        """Return the k-th u > 0."""
        return (arb(k) + 0.5) * self.step_u

    def v(self, j: int) -> arb:
        """Return the j-th v > 0."""
        return (arb(j) + 0.5) * self.step_v

    def covers(self, u_high: arb, v_low: arb, v_high: arb) -> bool:
        """Tell whether all lattice points with |u| <= u_high, v_low <= |v| <= v_high are summed; False if in doubt."""
        start = max(0, math.floor(float(v_low) / self.step_v - 0.5) - 1)
        stop = math.ceil(float(v_high) / self.step_v - 0.5) + 2
        if stop > len(self.counts):
            return False
        return self.u(min(self.counts[start:stop])) > u_high


@dataclass(frozen=True)
class Orders:
    """Where the two series stop, and the bits that their cancellations take."""

    powers: int
    chebyshev: int
    bits: int


def orders(law: Support, lattice: Lattice, exponent: float) -> Orders:
    """Choose orders such that what is left out is about exp(-exponent); the sums themselves bound it anew."""
    from scipy.special import gammaln, ive

    low, slope, range_b = float(law.tau_min), float(law.slope), float(law.b_max - law.b_min)
    rows = np.unique(np.linspace(0, len(lattice.counts) - 1, 80).astype(int))
    v = (rows + 0.5) * lattice.step_v
    u_max = (np.array([lattice.counts[j] for j in rows]) + 1) * lattice.step_u

    # A term of the power series: exp(-(u^2 + v^2 B)/2) (u v A)^(2n) / (2n)!, with B >= A^2 + (A + tau_min)^2.
    u = u_max[:, None, None] * np.linspace(0.02, 1, 50)[None, :, None]
    a = slope * np.linspace(0.02, 1, 50)
    w = v[:, None, None]
    gaussian, product = -(u**2 + w**2 * (a**2 + (a + low) ** 2)) / 2, u * w * a
    powers = max(2, math.ceil(0.55 * float((v * u_max).max()) * slope))
    while np.max(gaussian + 2 * powers * np.log(product) - gammaln(2 * powers + 1)) > -exponent:
        powers += 1 + powers // 50

    # A Chebyshev term, beside exp(-v^2 B_min/2) and the most that the power series multiplies it by.
    best = np.minimum(u_max, v * slope)
    grown = best * v * slope - (best**2 + (low * v) ** 2) / 2
    z = v**2 * range_b / 4
    chebyshev = 4
    while np.max(grown + np.log(2 * ive(chebyshev, z) + 1e-300)) > -exponent:
        chebyshev += 1 + chebyshev // 50
    return Orders(powers, chebyshev + 2, math.ceil((exponent + max(0.0, float(grown.max()))) / math.log(2)) + 30)


class Table:
    """Sums over a finite law, and from them the integrand F(u, v) on a lattice.

    Parameters
    ----------
    law : Support
        At the current precision.
    nodes : iterator of Node
        The finite law.
    powers, chebyshev : int
        Orders of the two series.
    bar : Bar, optional
    size : int, optional
        Number of nodes, for the bar.
    """

    def __init__(
        self, law: Support, nodes: Iterator[Node], powers: int, chebyshev: int, bar: Bar | None = None, size: int = 0
    ) -> None:
        self.law, self.powers, self.chebyshev = law, powers, chebyshev
        # Row n of the first half: E[tau a^(2n) T_b(B)]; of the second: E[tau^2 a^(2n) T_b(B)]; a = A / slope.
        self.moments = _moments(nodes, powers + 2, chebyshev + 1, bar, size)

    def _at(self, values: Sequence[arb]) -> tuple[arb_mat, arb_mat, arb_mat]:
        """Return E[tau^m a^(2n) exp(-v^2 B/2)], m = 1, 2, 3, as matrices [n, v]; n <= powers at least."""
        law, rows, order = self.law, self.powers + 2, self.chebyshev
        middle, half = (law.b_max + law.b_min) / 2, (law.b_max - law.b_min) / 2
        columns, rests = zip(*(_exponential(v**2 / 2, middle, half, order) for v in values), strict=True)
        zero = arb(0)
        plain = arb_mat([[*column, zero] for column in columns]).transpose()
        # B T_b, with B = middle + half x and 2 x T_b = T_(b+1) + T_|b-1|.
        lifted = []
        for column in columns:
            row = [middle * value for value in column] + [zero]
            for b, value in enumerate(column):
                row[b + 1] += half * value / 2
                row[abs(b - 1)] += half * value / 2
            lifted.append(row)
        first = self.moments * plain
        third = arb_mat([[self.moments[n, b] for b in range(order + 1)] for n in range(rows)])
        third = third * arb_mat(lifted).transpose()
        slope2 = law.slope**2
        out: list[list[list[arb]]] = [[], [], []]
        for n in range(rows):
            size1, size2 = self.moments[n, 0], self.moments[rows + n, 0]
            out[0].append([first[n, i] + rest * size1 for i, rest in enumerate(rests)])
            out[1].append([first[rows + n, i] + rest * size2 for i, rest in enumerate(rests)])
            out[2].append([third[n, i] + rest * law.b_max * size1 for i, rest in enumerate(rests)])
        # tau^3 = tau (B - A^2)
        thirds = [
            [b - slope2 * a2 for b, a2 in zip(out[2][n], out[0][n + 1], strict=True)] for n in range(self.powers + 1)
        ]
        return arb_mat(out[0]), arb_mat(out[1]), arb_mat(thirds)

    def integrand(self, u: Sequence[arb], v: Sequence[arb], counts: Sequence[int]) -> Iterator[list[arb]]:
        """Yield, for each v, F(u_k, v) exp(u_k^2/2) 2 pi for k < counts: F = (M_++^2 + 2 M_+-^2 + M_--^2)/Z.

        u must increase. Where Z is so small that its ball is of no use, F is only known to lie between 0 and
        (h_+^2 + h_-^2)^2 Z: that is what the ball says.
        """
        law, last = self.law, self.powers
        top = u[-1]
        left = arb_mat([_ladder((x / top) ** 2, last + 1) for x in u])
        one, two, three = self._at(v)
        slope2 = law.slope**2
        columns: list[list[arb]] = []
        for i, (value, count) in enumerate(zip(v, counts, strict=True)):
            scale = (top * value * law.slope) ** 2
            ratio = (u[max(count, 1) - 1] * value * law.slope) ** 2 / ((2 * last + 1) * (2 * last + 2))
            # The last term stands for itself and all after it: between once and 1/(1 - ratio) times itself (15).
            rest = (1 / (1 - ratio)).union(arb(1)) if ratio < 1 else arb.nan()
            even, odd, factor = [], [], arb(1)
            for n in range(last + 1):
                even.append(factor)
                odd.append(factor / (2 * n + 1))
                factor = factor * scale / ((2 * n + 1) * (2 * n + 2))
            even[last] *= rest
            odd[last] *= rest
            w = value**2
            z = [e * one[n, i] for n, e in enumerate(even)]
            bent = w * slope2
            shifted1 = [bent * one[n + 1, i] for n in range(last + 1)]
            shifted2 = [bent * two[n + 1, i] for n in range(last + 1)]
            columns += [
                z,
                [x - 2 * o * y for x, o, y in zip(z, odd, shifted1, strict=True)],
                [e * y for e, y in zip(even, shifted1, strict=True)],
                [value * (e * two[n, i] - odd[n] * shifted2[n]) for n, e in enumerate(even)],
                [w * e * three[n, i] for n, e in enumerate(even)],
            ]
        table = (left * arb_mat(columns).transpose()).tolist()
        squares = [x**2 for x in u]
        least_bits = 8
        for i, count in enumerate(counts):
            values = []
            for k in range(count):
                z0, bend, lift, mixed, minus = table[k][5 * i : 5 * i + 5]
                if z0.rel_accuracy_bits() < least_bits:
                    height = (u[k] + law.slope * v[i]) ** 2 + (law.tau_max * v[i]) ** 2
                    values.append((height**2 * z0.abs_upper()).union(arb(0)))
                    continue
                plus = squares[k] * bend + lift
                values.append((plus * plus + 2 * squares[k] * mixed * mixed + minus * minus) / z0)
            yield values


def lattice_sum(rule: InnerRule, lattice: Lattice, order: Orders, *, progress: bool = False) -> arb:
    """Sum h_u h_v F over the lattice at the current precision."""
    law = support(rule.skip)
    bar = Bar("nodes", show=progress)
    table = Table(law, rule.nodes(), order.powers, order.chebyshev, bar, rule.size)
    bar.close()
    total = arb(0)
    weights = [(-(lattice.u(k) ** 2) / 2).exp() for k in range(max(lattice.counts))]
    rows = [j for j, count in enumerate(lattice.counts) if count]
    bar = Bar("outputs", show=progress)
    for start in range(0, len(rows), _ROWS):
        block = rows[start : start + _ROWS]
        counts = [lattice.counts[j] for j in block]
        u = [lattice.u(k) for k in range(max(counts))]
        for values in table.integrand(u, [lattice.v(j) for j in block], counts):
            total += sum((value * weight for value, weight in zip(values, weights, strict=False)), arb(0))
        bar.to(min(start + _ROWS, len(rows)), len(rows))
    bar.close()
    return total * 4 * lattice.step_u * lattice.step_v / (2 * arb.pi())


def _moments(nodes: Iterator[Node], rows: int, columns: int, bar: Bar | None, size: int) -> arb_mat:
    """Sum weight tau^m a^(2n) T_b(B) over the nodes, m = 1, 2, in integers of 2^-shift, and bound their error (17)."""
    shift = ctx.prec + 12
    total = fmpz_mat(2 * rows, columns)
    count, blur = 0, fmpz(0)
    while True:
        with working_bits(shift + 10):
            chunk = [
                [_fixed(x, shift) for x in (node.a2, node.b, node.weight * node.tau, node.weight * node.tau * node.tau)]
                for node in islice(nodes, 250)
            ]
        if not chunk:
            break
        a2, b, first, second = np.array(chunk, dtype=object).T
        # Light nodes need fewer bits of T_b: the products count in units of 2^-(2 shift) anyway.
        spare = max(0, shift - max(first.max(), second.max()).bit_length() - 8)
        short = shift - spare
        b = b >> spare
        polynomials = [b * 0 + (fmpz(1) << short), b]
        while len(polynomials) < columns:
            polynomials.append((b * polynomials[-1] >> (short - 1)) - polynomials[-2])
        powers = []
        for power in (first, second):
            for _ in range(rows):
                powers.append(power)
                power = power * a2 >> shift
        left = fmpz_mat(len(powers), len(chunk), list(np.concatenate(powers)))
        right = fmpz_mat(columns, len(chunk), list(np.concatenate(polynomials[:columns]))).transpose()
        total += left * right * (fmpz(1) << spare)
        count += len(chunk)
        blur += (first.sum() + second.sum() + 4 * len(chunk)) << spare
        if bar is not None:
            bar.to(count, size)
    unit = arb(2) ** -shift
    entries = []
    for row, values in enumerate(total.tolist()):
        steps = 3 * (row % rows) + 3
        for column, value in enumerate(values):
            error = unit * (2 * steps * count + (blur * unit) * (3 * column * column + 2))
            entries.append(arb(value) * unit * unit + arb(0, error.abs_upper()))
    return arb_mat(2 * rows, columns, entries)


def _fixed(x: arb, shift: int) -> fmpz:
    """Return x in units of 2^-shift, off by at most two, and in [-1, 1]."""
    one = fmpz(1) << shift
    if not x.rad() * one < 1:
        raise ConvergenceError(f"a node is known to fewer than {shift} bits: {x}")
    mantissa, exponent = x.mid().man_exp()
    places = int(exponent) + shift
    value = mantissa << places if places >= 0 else mantissa >> -places
    if not -one - 2 <= value <= one + 2:
        raise ConvergenceError(f"integers of 2^-{shift} serve numbers in [-1, 1], got {x}; ask for a smaller width")
    return max(-one, min(one, value))


def _ladder(base: arb, count: int) -> list[arb]:
    """Return base^n for n < count."""
    out = [arb(1)]
    for _ in range(count - 1):
        out.append(out[-1] * base)
    return out


def _exponential(w: arb, middle: arb, half: arb, order: int) -> tuple[list[arb], arb]:
    """Return the coefficients of exp(-w B) in T_b((B - middle)/half), b < order, and a ball for the rest (16)."""
    z = w * half
    # Upwards in value, so that every step adds positive terms: I_(b-1) = I_(b+1) + (2 b / z) I_b.
    above, value = z.bessel_i(order), z.bessel_i(order - 1)
    bessel = [value]
    for b in range(order - 1, 0, -1):
        above, value = value, above + 2 * b / z * value
        bessel.append(value)
    bessel.reverse()
    scale = (-w * middle).exp()
    coefficients = [scale * value * (2 if b % 2 == 0 else -2) for b, value in enumerate(bessel)]
    coefficients[0] = scale * bessel[0]
    # exp(z) = I_0 + 2 (I_1 + I_2 + ...), all positive: what is missing from it bounds the rest.
    rest = scale * (z.exp() - 2 * sum(bessel, arb(0)) + bessel[0]).abs_upper()
    return coefficients, arb(0, rest.abs_upper())
