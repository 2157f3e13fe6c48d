"""Posterior moments of two layers (169) in ball arithmetic, on the rectangles that `precise_cut` gives.

All moments share nodes and weights. The balls' radii hold the rounding; the error of the rules is the bound that set
their orders.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import flint
import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from .ball import BALLS
from .models import kernel
from .precise_cut import CUT, Array, Integrand

__all__ = ["Moments", "Progress"]

Progress = Callable[[int, int], None]

_ZERO = arb(0)


@lru_cache(maxsize=512)
def _rule(order: int, bits: int) -> tuple[list[arb], list[arb]]:
    """Gauss-Legendre nodes, each rounded to an exact number, and weights on [-1, 1]."""
    with flint.ctx.workprec(bits):
        pairs = [arb.legendre_p_root(order, k, True) for k in range(order)]
        return [node.mid() for node, _ in pairs], [weight for _, weight in pairs]


class Moments:
    """Integrals of the posterior's weight times 1, z_i and z_i z_j, with z = whitened h - omega.

    Parameters
    ----------
    integrand : Integrand
        The float64 copy that steers.
    exact : tuple of arb
        Its parameters.
    bits : int
        Working precision where the weight is largest.
    """

    def __init__(self, integrand: Integrand, exact: tuple[arb, ...], bits: int) -> None:
        self._integrand, self._exact, self._bits = integrand, exact, bits
        self._cut = integrand.rectangles()
        self.top = self._cut.top
        self._rows = [self._grouped_rows(k) for k in range(len(self._cut.boxes))]
        self._least = self.top - integrand.digits * math.log(10) - CUT
        self._node, self._cells = self._kernels()
        self.nodes = 0

    def _kernels(self) -> tuple[Callable[..., Any], Callable[[arb], tuple[arb, ...]]]:
        """Return the emitted kernel at one node, given what depends on its row alone, and the function of the row."""
        vp, vm, c, beta = self._exact[:4]
        mp = kernel(self._integrand.model, "mp")
        # The wrapper's checks and conversions have nothing to do here: arguments are balls, the domain is the plane.
        of_row, of_node = (getattr(f, "__wrapped__", f) for f in (mp.undo_row, mp.undo_node))
        if not hasattr(mp, "undo_exponent"):
            return (
                lambda x, y, cells: of_node(BALLS, x, y, *cells, vp, vm, c, beta),
                lambda y: of_row(BALLS, y, c, beta),
            )
        exponent, exp = getattr(mp.undo_exponent, "__wrapped__", mp.undo_exponent), arb.exp
        return (
            lambda x, y, cells: of_node(BALLS, x, y, *cells, exp(exponent(BALLS, x, y, beta)[0]), vp, vm, c, beta),
            lambda y: of_row(BALLS, y, c, beta),
        )

    # What belongs to one coordinate: (x, z, the prior mean of h_2's mode over its spread, exponent).

    def _column(self, t: arb) -> tuple[arb, arb, arb, arb]:
        return self._along(t, self._exact[4], self._exact[6])

    def _row(self, t: arb) -> tuple[arb, arb, arb, arb, tuple[arb, ...]]:
        y, z, mean, exponent = self._along(t, self._exact[5], self._exact[7])
        return y, z, mean, exponent - arb(self.top), self._cells(y)

    def _along(self, t: arb, first: arb, second: arb) -> tuple[arb, arb, arb, arb]:
        i1, slope, i2 = self._exact[8:]
        z, mean = t * i1, (second + slope * t) * i2
        return first + t, z, mean, (z * z + mean * mean) / -2

    def _at(self, column: Any, row: Any, plus: bool, minus: bool) -> tuple[arb, arb, arb, arb]:
        """Weights of both branches, and the modes of h_2 on the first, over the spread of h_2."""
        x, _, mean_p, exponent_p = column
        y, _, mean_m, exponent_m, cells = row
        a, b, inv_det = self._node(x, y, cells)
        i2 = self._exact[10]
        a, b = a * i2, b * i2
        even = exponent_p + exponent_m - (a * a + b * b) / 2
        odd = a * mean_p + b * mean_m
        return (
            (even + odd).exp() * inv_det if plus else _ZERO,
            (even - odd).exp() * inv_det if minus else _ZERO,
            a,
            b,
        )

    # One rectangle ---------------------------------------------------------------------------------------------------

    def _place(self, box: Array, axis: int, order: int) -> tuple[list[arb], list[arb], Array]:
        """Return nodes along an axis of a rectangle, weights, and the nodes in float64."""
        nodes, weights = _rule(order, self._bits)
        start, length = arb(float(box[axis])), arb(float(box[2 + axis]))
        placed = [start + length * (1 + node) / 2 for node in nodes]
        return placed, [weight * length / 2 for weight in weights], np.array([float(node) for node in placed])

    def _wanted(self, rough_p: Array, rough_m: Array) -> tuple[NDArray[np.bool_], Array]:
        """Which nodes count, by branch; and the largest log-weight of both branches, relative to the peak."""
        _, log_w = self._integrand.logs(rough_p[:, None] + 0 * rough_m, rough_m + 0 * rough_p[:, None])
        return log_w > self._least, log_w.max(axis=0) - self.top

    def _lower_precision(self, log_weight: float) -> int:
        """Bits for a sum whose terms are exp(log_weight) or less."""
        return max(64, self._bits + math.ceil(min(0.0, log_weight) / math.log(2)))

    def _grouped_rows(self, k: int) -> dict[int, list[int]]:
        """Rows of a rectangle by the order of their rule."""
        nodes = np.array([float(node) for node in _rule(int(self._cut.along_m[k]), self._bits)[0]])
        groups: dict[int, list[int]] = {}
        for j, order in enumerate(self._cut.row_orders(k, 0.5 + 0.5 * nodes).tolist()):
            groups.setdefault(order, []).append(j)
        return groups

    def _block(self, box: Array, order: int, rows_m: tuple[list[arb], list[arb], Array]) -> arb_mat:
        """Gram matrix of (1, z_1, z_2, a, b) under the weight, with a and b signed by the branch, on rows of a box."""
        tp, cp, rough_p = self._place(box, 0, order)
        tm, cm, rough_m = rows_m
        wanted, log_w = self._wanted(rough_p, rough_m)
        total = arb_mat(5, 5)
        with flint.ctx.workprec(self._lower_precision(float(log_w.max()))):
            columns = [self._column(t) for t in tp]
            tables: list[list[list[arb]]] = [[] for _ in range(6)]
            kept = []
            for j, t in enumerate(tm):
                plus, minus = wanted[0, :, j].tolist(), wanted[1, :, j].tolist()
                if not (any(plus) or any(minus)):
                    continue
                row = self._row(t)
                kept.append((row[1], cm[j]))
                entries: list[tuple[arb, ...]] = []
                for column, up, down in zip(columns, plus, minus, strict=True):
                    if not (up or down):
                        entries.append((_ZERO,) * 6)
                        continue
                    self.nodes += 1
                    w_plus, w_minus, a, b = self._at(column, row, up, down)
                    even, odd = w_plus + w_minus, w_plus - w_minus
                    even_a, even_b = even * a, even * b
                    entries.append((even, odd * a, odd * b, even_a * a, even_a * b, even_b * b))
                for table, line in zip(tables, zip(*entries, strict=True), strict=True):
                    table.append(list(line))
            if not kept:
                return total
            # Sums over a row of w, w z_1, w z_1^2, then over the rows with powers of z_2.
            powers = arb_mat([[k, k * c[1], k * c[1] * c[1]] for k, c in zip(cp, columns, strict=True)])
            rows = arb_mat([[k for _, k in kept], [k * z for z, k in kept], [k * z * z for z, k in kept]])
            w, wa, wb, waa, wab, wbb = (rows * (arb_mat(table) * powers) for table in tables)
        upper = {
            (0, 0): w[0, 0],
            (0, 1): w[0, 1],
            (0, 2): w[1, 0],
            (1, 1): w[0, 2],
            (1, 2): w[1, 1],
            (2, 2): w[2, 0],
            (0, 3): wa[0, 0],
            (1, 3): wa[0, 1],
            (2, 3): wa[1, 0],
            (0, 4): wb[0, 0],
            (1, 4): wb[0, 1],
            (2, 4): wb[1, 0],
            (3, 3): waa[0, 0],
            (3, 4): wab[0, 0],
            (4, 4): wbb[0, 0],
        }
        for (i, j), value in upper.items():
            total[i, j] = total[j, i] = value
        return total

    # All rectangles --------------------------------------------------------------------------------------------------

    def error(self) -> float:
        """Error of the rules in all moments, where the largest weight is one."""
        return float(np.exp(self._cut.errors).sum())

    def planned(self) -> int:
        """Nodes of all rectangles."""
        return sum(order * len(rows) for groups in self._rows for order, rows in groups.items())

    def total(self, progress: Progress | None) -> arb_mat:
        """Moments of (1, z), shape (5, 5)."""
        out, done, planned = arb_mat(5, 5), 0, self.planned()
        for box, across, groups in zip(self._cut.boxes, self._cut.along_m, self._rows, strict=True):
            tm, cm, rough = self._place(box, 1, int(across))
            for order, rows in groups.items():
                out += self._block(box, order, ([tm[j] for j in rows], [cm[j] for j in rows], rough[rows]))
                done += order * len(rows)
            if progress is not None:
                progress(done, planned)
        i1, slope, i2 = self._exact[8:]
        # z_3 = a - (omega_2p + slope t_p) i2 with t_p = z_1/i1, and the same for the minus mode.
        lean = slope * i2 / i1
        one, zero = arb(1), _ZERO
        to_z = arb_mat(
            [
                [one, zero, zero, zero, zero],
                [zero, one, zero, zero, zero],
                [zero, zero, one, zero, zero],
                [-self._exact[6] * i2, -lean, zero, one, zero],
                [-self._exact[7] * i2, zero, -lean, zero, one],
            ]
        )
        return to_z * out * to_z.transpose()
