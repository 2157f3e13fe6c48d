"""Posterior moments of two layers (169) in fixed point, on the rectangles that `cut` gives.

All moments share nodes and weights. The bounds that `Fixed` carries hold the rounding; the error of the rules is the
bound that set their orders.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import flint
import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from attnlimits.generated.pair_softmax_m2.plain import numerators

from ...arithmetic.fixed_words import Fixed, words_for
from .cut import cut_plane
from .integrand import CUT, Array, Integrand

__all__ = ["Moments", "Progress", "gram"]

Progress = Callable[[int, int], None]
Flags = NDArray[np.bool_]
Index = NDArray[np.int64]

# Nodes that are worked on together: their numbers stay in the cache.
_BATCH = 4096


@lru_cache(maxsize=512)
def _rule(order: int, words: int) -> tuple[Fixed, Fixed, Array]:
    """Gauss-Legendre nodes and weights on [0, 1], and the nodes in float64."""
    with flint.ctx.workprec(64 * words):
        first = [arb.legendre_p_root(order, k, True) for k in range((order + 1) // 2)]
        pairs = first + [(-node, weight) for node, weight in first[: order // 2][::-1]]
        nodes, weights = [(1 + node) / 2 for node, _ in pairs], [weight / 2 for _, weight in pairs]
        return Fixed.of(nodes, words), Fixed.of(weights, words), np.array([float(x) for x in nodes])


@dataclass(frozen=True)
class _Piece:
    """Rows of one rectangle that share their columns.

    Attributes
    ----------
    box : int
    order, across : int
        Nodes of the rules along the rows and across them.
    rows : ndarray of int
        Which nodes of the rule across.
    wanted : ndarray of bool, shape (2, len(rows), order)
        Nodes that count, by branch.
    """

    box: int
    order: int
    across: int
    rows: Index
    wanted: Flags


class _Softmax:
    """Modes of h_2 = B_1^{-1} v over its spread, and |det B_1|^{-1} over its largest value, for softmax attention.

    With u = beta y^2, w = beta x y, E = e^-u, F = e^-|w| and r = e^-||w| - u|, the exponentials of u and |w| times
    E F/max(E, F) are at most one, and the determinant that the generated `numerators` makes of them is above c.
    """

    def __init__(self, exact: tuple[arb, ...], words: int) -> None:
        vp, vm, c, beta = exact[:4]
        i2 = exact[10]
        self._vp, self._vm, self._c, self._beta, self._va, self._one = (
            Fixed.of([number], words) for number in (vp * i2 / (1 + c), vm * i2, c, beta, vm * i2 / (1 + c), arb(1))
        )

    def row(self, y: Fixed) -> tuple[Fixed, ...]:
        """What depends on the row alone."""
        slope = self._beta * y
        u = slope * y
        e = (-u).exp()
        return slope, u, e

    def node(self, x: Fixed, row: tuple[Fixed, ...]) -> tuple[Fixed, Fixed, Fixed]:
        slope, u, e = row
        w = slope * x
        left = w.negative
        w = w.signed(left)
        f = (-w).exp()
        gap = w - u
        below = gap.negative
        r = gap.signed(~below).exp()
        # F and E over the larger of them.
        f_share, e_share = self._one.where(below, r), r.where(below, self._one)
        both = f * e
        upper, lower, total = numerators(f_share, both * e_share, e_share, both * f_share, self._c)
        inverse = lower.reciprocal()
        share, lean = total * inverse, upper * inverse * self._va
        return self._vp - lean.signed(left), share * self._vm, share


class _Linear:
    """The same for linear attention, det B_1 = c (c + beta (x^2 + y^2))."""

    def __init__(self, exact: tuple[arb, ...], words: int) -> None:
        vp, vm, c, beta = exact[:4]
        i2 = exact[10]
        self._vp, self._vm, self._bp, self._bm, self._beta, self._c, self._inverse = (
            Fixed.of([number], words)
            for number in (vp * i2, vm * i2, beta * vp * i2 / c, beta * vm * i2 / c, beta, c, 1 / c)
        )

    def row(self, y: Fixed) -> tuple[Fixed, ...]:
        """What depends on the row alone."""
        return y, self._beta * y * y + self._c, self._bp * y

    def node(self, x: Fixed, row: tuple[Fixed, ...]) -> tuple[Fixed, Fixed, Fixed]:
        y, square, turned = row
        inverse = (self._beta * x * x + square).reciprocal()
        cross = turned - self._bm * x
        return (self._vp + cross * y) * inverse, (self._vm - cross * x) * inverse, inverse


class Moments:
    """Integrals of the posterior's weight times 1, z_i and z_i z_j, with z = whitened h - omega.

    Parameters
    ----------
    integrand : Integrand
        The float64 copy that steers.
    exact : tuple of arb
        Its parameters.
    bits : int
        Bits below the largest weight that the sums keep.
    """

    def __init__(self, integrand: Integrand, exact: tuple[arb, ...], bits: int) -> None:
        self._integrand, self._exact, self._bits = integrand, exact, bits
        self._words = words_for(bits)
        self._cut = cut_plane(integrand)
        self.top = self._cut.top
        self._rows = [self._grouped_rows(k) for k in range(len(self._cut.boxes))]
        self._least = self.top - integrand.digits * math.log(10) - CUT
        self.nodes = 0

    # Which nodes ----------------------------------------------------------------------------------------------------

    def _grouped_rows(self, k: int) -> dict[int, Index]:
        """Rows of a rectangle by the order of their rule."""
        orders = self._cut.row_orders(k, _rule(int(self._cut.along_m[k]), self._words)[2])
        return {int(order): np.flatnonzero(orders == order) for order in np.unique(orders)}

    def _pieces(self, k: int) -> Iterator[tuple[int, _Piece]]:
        """Yield rows of a rectangle, not too many, and the words that its weights need."""
        left, bottom, width, height = self._cut.boxes[k].tolist()
        across = int(self._cut.along_m[k])
        below = _rule(across, self._words)[2]
        for order, rows in self._rows[k].items():
            tp = left + width * _rule(order, self._words)[2]
            for part in np.array_split(rows, -(-len(rows) * order // _BATCH)):
                log_w = self._integrand.logs(tp, (bottom + height * below[part])[:, None]).log_weight
                wanted = log_w > self._least
                if wanted.any():
                    # Weights in proportion to their largest, with as many bits as are left of it.
                    bits = self._bits + math.ceil(min(0.0, float(log_w.max()) - self.top + 1.0) / math.log(2))
                    yield min(words_for(max(bits, 0)), self._words), _Piece(k, order, across, part, wanted)

    # Sums -----------------------------------------------------------------------------------------------------------

    def _placed(self, rules: list[tuple[Fixed, Fixed]], pieces: list[_Piece], axis: int) -> tuple[Fixed, Fixed]:
        """Nodes and weights of all pieces along an axis."""
        words = rules[0][0].words.shape[1]
        owner = np.repeat(np.arange(len(pieces)), [len(nodes) for nodes, _ in rules])
        start, length = (
            Fixed.of([arb(float(self._cut.boxes[piece.box, column])) for piece in pieces], words)[owner]
            for column in (axis, 2 + axis)
        )
        nodes, weights = (Fixed.together(parts) for parts in zip(*rules, strict=True))
        return start + length * nodes, length * weights

    def _batch(self, words: int, pieces: list[_Piece]) -> arb_mat:
        """Moments of (1, z), shape (5, 5), from the nodes of some pieces."""
        c = self._exact[2]
        first, second = self._exact[4:6], self._exact[6:8]
        i1, slope, i2 = self._exact[8:]
        shift = max(0, self._bits - 64 * (words - 1))
        linear = self._integrand.model.activation == "linear"
        base = arb(2).log() * shift - arb(self.top) - (c if linear else 1 + c).log()

        def constant(value: arb | float) -> Fixed:
            return Fixed.of([arb(value)], words)

        def rule(order: int, rows: int | slice | NDArray[np.int64] = slice(None)) -> tuple[Fixed, Fixed]:
            nodes, weights, _ = _rule(order, self._words)
            return nodes.shortened(words)[rows], weights.shortened(words)[rows]

        one, minus_half = constant(1), constant(-0.5)
        steep, lean = constant(i1), constant(slope * i2)
        along = (
            self._placed([rule(piece.order) for piece in pieces], pieces, 0),
            self._placed([rule(piece.across, piece.rows) for piece in pieces], pieces, 1),
        )
        # Along each axis: h_1 - omega_1 whitened, the prior mean of h_2's mode over its spread, and the exponent.
        z, mean, exponent = [], [], []
        for axis, (t, _) in enumerate(along):
            z.append(t * steep)
            mean.append(t * lean + constant(second[axis] * i2))
            exponent.append(z[axis] * z[axis] * minus_half + constant(base * axis))
        link = (_Linear if linear else _Softmax)(self._exact, words)
        cells = link.row(along[1][0] + constant(first[1]))
        x = along[0][0] + constant(first[0])

        column, row = self._pairs(pieces)
        wanted = np.concatenate([piece.wanted.reshape(2, -1) for piece in pieces], axis=1)
        some = wanted.any(axis=0)
        column, row, wanted = column[some], row[some], wanted[:, some]
        self.nodes += len(row)
        a, b, share = link.node(x[column], tuple(cell[row] for cell in cells))
        area = along[0][1][column] * along[1][1][row] * share
        total = arb_mat(5, 5)
        for branch, sign in enumerate((one, constant(-1))):
            at = np.flatnonzero(wanted[branch])
            if not len(at):
                continue
            p, m = column[at], row[at]
            z3, z4 = a[at] * sign - mean[0][p], b[at] * sign - mean[1][m]
            weight = (exponent[0][p] + exponent[1][m] + (z3 * z3 + z4 * z4) * minus_half).exp() * area[at]
            total += gram(weight, (one, z[0][p], z[1][m], z3, z4))
        return total * (arb(2) ** -shift)

    def _pairs(self, pieces: list[_Piece]) -> tuple[Index, Index]:
        """Columns and rows of the nodes of all pieces."""
        columns, rows, left, below = [], [], 0, 0
        for piece in pieces:
            column, row = np.meshgrid(np.arange(piece.order) + left, np.arange(len(piece.rows)) + below)
            columns.append(column.ravel())
            rows.append(row.ravel())
            left, below = left + piece.order, below + len(piece.rows)
        return np.concatenate(columns), np.concatenate(rows)

    def error(self) -> float:
        """Error of the rules in all moments, where the largest weight is one."""
        return float(np.exp(self._cut.errors).sum())

    def planned(self) -> int:
        """Nodes of all rectangles."""
        return sum(order * len(rows) for groups in self._rows for order, rows in groups.items())

    def total(self, progress: Progress | None) -> arb_mat:
        """Moments of (1, z), shape (5, 5)."""
        out, done, planned = arb_mat(5, 5), 0, self.planned()
        waiting: dict[int, list[_Piece]] = {}
        for k, groups in enumerate(self._rows):
            for words, piece in self._pieces(k):
                pieces = waiting.setdefault(words, [])
                pieces.append(piece)
                if sum(part.wanted[0].size for part in pieces) >= _BATCH:
                    out += self._batch(words, waiting.pop(words))
            done += sum(order * len(rows) for order, rows in groups.items())
            if progress is not None:
                progress(done, planned)
        for words, pieces in waiting.items():
            out += self._batch(words, pieces)
        return out


def gram(weight: Fixed, z: tuple[Fixed, ...]) -> arb_mat:
    """Sums of weight z_i z_j; the first of z is the number one."""
    out = arb_mat(len(z), len(z))
    for i, left in enumerate(z):
        weighted = weight if i == 0 else weight * left
        for j in range(i, len(z)) if i else range(len(z)):
            out[i, j] = out[j, i] = weighted.dot(z[j]).balls()[0]
    return out
