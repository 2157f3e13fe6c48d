"""Averages over the first layer of linear attention with two tokens: a function of two eigenvalues, as a table.

With h_1 = sqrt(2 q) n, n = (cos chi, sin chi), B_1 = I + kappa h_1 h_1^T is 1/tau along n, tau = 1/(1 + 2 kappa q).
Given h_1 the vectors w = B_1 h_2 and x = B_1 h_3 are independent and normal, of covariance B_1^2. With l1 >= l2 the
eigenvalues of w w^T + x x^T, D = l1 - l2, and chi counted from the first one's eigenvector,
    (2 pi)^2 p(w) p(x) = tau^2 exp(-l2/2 - l1 tau^2/2 - D (1 - tau^2) sin(chi)^2/2):
all that averages over q and chi give are functions of (l2, D),
    F = E_q[tau^(2 + j) exp(-l1 tau^2/2) <f(chi) exp(-D (1 - tau^2) sin(chi)^2/2)>],
f = 1, sin^2 cos^2, sin^4 and j = 0, 1, 2; the factor exp(-l2/2) is left out. They are entire, and smooth in the
logarithms: Chebyshev series on panels that double. Averages over chi are trapezoidal sums.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...arithmetic.doubledouble import accumulate, add, div, exp, mul
from ...arithmetic.pairs import Pairs, Parts
from .rules import Grid, PairRule, cos_sin, matmul, pi

__all__ = ["COLUMNS", "Table", "average_table", "bound_index", "evaluate"]

Array = NDArray[np.float64]

# (j, f): (0, 1), (0, sin^2 cos^2), (0, sin^4), (1, 1), (1, sin^2 cos^2), (2, 1), (2, sin^2 cos^2), (2, sin^4)
COLUMNS = 8


class Table(NamedTuple):
    """Chebyshev coefficients of F: shape (panel of l2, panel of D, degree in D, degree in l2, COLUMNS).

    `head` is the total degree from which on float64 will do; `bound` is at least F at l1 = 2^(k/4 - 8) and beyond.
    """

    hi: Array
    lo: Array
    head: int
    bound: Array


def average_table(kappa: Pairs, q_rule: PairRule, digits: float, l2_top: float, l1_top: float) -> Table:
    """Tabulate the averages, to about `digits` digits; `q_rule` integrates over q."""
    # Panels [0, 2], [2, 4], [4, 8], ..: singular-like behaviour at 0 is five half-lengths off, 3 + sqrt(8) as axes'
    # sum.
    rate = math.log(3 + math.sqrt(8))
    n = math.ceil(digits * math.log(10) / rate) + 4
    grid = Grid(n, Pairs(-1.0), Pairs(1.0))
    tau = 1.0 / (kappa * q_rule.nodes * 2.0 + 1.0)
    tau2 = tau * tau
    weight = q_rule.weights * (-q_rule.nodes).exp() * tau2
    l2, gap = _panel_nodes(grid, l2_top), _panel_nodes(grid, l1_top)
    averages = Parts.zeros(len(q_rule), gap.hi.size, COLUMNS)
    _circle_averages(_First(tau.parts, tau2.parts, weight.parts), gap.parts, _sine_squares(), digits, averages)
    falling = (l2.reshape(-1, 1) * tau2 * -0.5).exp()
    values = matmul(falling, Pairs(*averages).reshape(len(q_rule), gap.hi.size * COLUMNS))
    panels2, panels1 = l2.hi.size // n, gap.hi.size // n
    # to coefficients, first in l2, then in D
    values = values.reshape(panels2, n, panels1, n, COLUMNS)
    values = _transform(grid, values, (1, 0, 2, 3, 4))  # (l2 degree, l2 panel, D panel, D node, column)
    values = _transform(grid, values, (3, 1, 2, 0, 4))  # (D degree, l2 panel, D panel, l2 degree, column)
    hi, lo = (np.ascontiguousarray(p.transpose(1, 2, 0, 3, 4)) for p in (values.hi, values.lo))
    l1 = 2.0 ** (np.arange(4 * 60) / 4 - 8)
    bound = np.exp(-0.5 * l1[:, None] * tau2.hi) @ weight.hi
    # Coefficients that are smaller by so many digits are multiplied in float64.
    float_digits = 12.0
    return Table(hi, lo, min(n, math.ceil(float_digits * math.log(10) / rate) + 2), bound)


def _panel_nodes(grid: Grid, top: float) -> Pairs:
    """Chebyshev nodes of [0, 2], [2, 4], .. up to `top`, one panel after the other."""
    left = 2.0 ** np.arange(1, max(2, math.ceil(math.log2(top))))[:, None]
    first = (grid.nodes + 1.0).reshape(1, -1)
    others = (grid.nodes + 3.0) * (0.5 * left)
    return Pairs(np.concatenate([first.hi, others.hi]), np.concatenate([first.lo, others.lo])).ravel()


def _transform(grid: Grid, values: Pairs, axes: tuple[int, ...]) -> Pairs:
    """Coefficients of the expansion in what comes first after permuting the axes."""
    hi, lo = values.hi.transpose(axes), values.lo.transpose(axes)
    flat = Pairs(hi.reshape(grid.n, -1), lo.reshape(grid.n, -1))
    return grid.coefficients(flat).reshape(*hi.shape)


class _Circle(NamedTuple):
    """Numbers of points N and sin(chi)^2 at chi = (k + 1/2) pi/(2 N), k < min(N, 48)."""

    numbers: Array
    sin2: Parts


class _First(NamedTuple):
    """The first layer: tau, tau^2 and the weights of q."""

    tau: Parts
    tau2: Parts
    weight: Parts


def _sine_squares() -> _Circle:
    """Tables for all numbers of points."""
    # Points on a quarter circle, by powers of sqrt 2, and how many of them, from chi = 0 on, there are tables of.
    least, doublings, kept = 24, 60, 48
    numbers = np.array([round(least * 2 ** (k / 2)) for k in range(doublings)], dtype=np.float64)
    hi, lo = np.ones((doublings, kept)), np.zeros((doublings, kept))
    for row, number in enumerate(numbers):
        k = np.arange(min(int(number), kept))
        _, sine = cos_sin(pi() * (k + 0.5) / Pairs(2 * number))
        hi[row, : k.size], lo[row, : k.size] = (sine * sine).hi, (sine * sine).lo
    return _Circle(numbers, Parts(hi, lo))


@njit(error_model="numpy", nogil=True, cache=True)
def _circle_averages(first: _First, gap: Parts, circle: _Circle, digits: float, out: Parts) -> None:
    """Set out[q, D, column] = weight tau^j exp(-D tau^2/2) <f exp(-D (1 - tau^2) sin^2/2)>."""
    (th, tl), (t2h, t2l), (wh, wl) = first
    (gh, gl), (out_h, out_l), numbers = gap, out, circle.numbers
    far = digits * math.log(10) + 6
    for q in range(th.size):
        eh, el = add(1.0, 0.0, -t2h[q], -t2l[q])
        for i in range(gh.size):
            xh, xl = mul(0.5 * gh[i], 0.5 * gl[i], eh, el)
            # Aliases are Bessel functions of order 2 N: below exp(-N^2/(x/4 + N/3)).
            row = 0
            while row + 1 < numbers.size and numbers[row] ** 2 < far * (0.25 * xh + numbers[row] / 3):
                row += 1
            (a0h, a0l), (a1h, a1l), (a2h, a2l) = _circle_sums(xh, xl, circle, row, far)
            fh, fl = mul(-0.5 * gh[i], -0.5 * gl[i], t2h[q], t2l[q])
            fh, fl = mul(*exp(fh, fl), wh[q], wl[q])
            fh, fl = div(fh, fl, numbers[row], 0.0)
            out_h[q, i, 0], out_l[q, i, 0] = mul(a0h, a0l, fh, fl)
            out_h[q, i, 1], out_l[q, i, 1] = mul(a1h, a1l, fh, fl)
            out_h[q, i, 2], out_l[q, i, 2] = mul(a2h, a2l, fh, fl)
            fh, fl = mul(fh, fl, th[q], tl[q])
            out_h[q, i, 3], out_l[q, i, 3] = mul(a0h, a0l, fh, fl)
            out_h[q, i, 4], out_l[q, i, 4] = mul(a1h, a1l, fh, fl)
            fh, fl = mul(fh, fl, th[q], tl[q])
            out_h[q, i, 5], out_l[q, i, 5] = mul(a0h, a0l, fh, fl)
            out_h[q, i, 6], out_l[q, i, 6] = mul(a1h, a1l, fh, fl)
            out_h[q, i, 7], out_l[q, i, 7] = mul(a2h, a2l, fh, fl)


@njit(error_model="numpy", nogil=True)
def _circle_sums(xh, xl, circle, row, far):  # type: ignore[no-untyped-def]
    """Sums of f exp(-x sin^2), f = 1, sin^2 cos^2 and sin^4, over the points of one number."""
    sh, sl = circle.sin2
    a0h = a0l = a1h = a1l = a2h = a2l = 0.0
    for k in range(min(int(circle.numbers[row]), sh.shape[1])):
        s2h, s2l = sh[row, k], sl[row, k]
        if xh * s2h > far:
            break
        fh, fl = mul(-xh, -xl, s2h, s2l)
        fh, fl = exp(fh, fl)
        a0h, a0l = add(a0h, a0l, fh, fl)
        fh, fl = mul(fh, fl, s2h, s2l)
        c2h, c2l = add(1.0, 0.0, -s2h, -s2l)
        a1h, a1l = add(a1h, a1l, *mul(fh, fl, c2h, c2l))
        a2h, a2l = add(a2h, a2l, *mul(fh, fl, s2h, s2l))
    return (a0h, a0l), (a1h, a1l), (a2h, a2l)


@njit(error_model="numpy", nogil=True, cache=True)
def bound_index(l1, size):  # type: ignore[no-untyped-def]
    """Where `Table.bound` holds for l1."""
    return min(size - 1, max(0, math.floor(4 * (math.log2(max(l1, 1e-300)) + 8))))


@njit(error_model="numpy", nogil=True)
def _variable(x, panels):  # type: ignore[no-untyped-def]
    """Panel of x >= 0 and Chebyshev variable there; -1 beyond the last."""
    xh, xl = x
    panel = max(0, math.frexp(xh)[1] - 1)
    if panel >= panels:
        return -1, 0.0, 0.0
    if panel == 0:
        yh, yl = add(xh, xl, -1.0, 0.0)
    else:
        scale = 2.0 ** (1 - panel)
        yh, yl = add(xh * scale, xl * scale, -3.0, 0.0)
    return panel, yh, yl


@njit(error_model="numpy", nogil=True)
def _chebyshev(yh, yl, head, th, tl):  # type: ignore[no-untyped-def]
    """Fill t[k] = T_k(y), from `head` on in float64."""
    th[0], tl[0], th[1], tl[1] = 1.0, 0.0, yh, yl
    for k in range(2, th.size):
        if k < head:
            gh, gl = mul(2 * yh, 2 * yl, th[k - 1], tl[k - 1])
            th[k], tl[k] = add(gh, gl, -th[k - 2], -tl[k - 2])
        else:
            th[k], tl[k] = 2 * yh * th[k - 1] - th[k - 2], 0.0


@njit(error_model="numpy", nogil=True, cache=True)
def evaluate(table: Table, l2: tuple[float, float], gap: tuple[float, float], work: Array, out: Parts) -> bool:
    """Set out[column] = F(l2, D); False beyond the table. `work` is scratch of 7 rows of n COLUMNS numbers."""
    n, columns, head = table.hi.shape[2], table.hi.shape[4], table.head
    panel2, y2h, y2l = _variable(l2, table.hi.shape[0])
    panel1, y1h, y1l = _variable(gap, table.hi.shape[1])
    if panel2 < 0 or panel1 < 0:
        return False
    t1h, t1l, t2h, t2l = work[0, :n], work[1, :n], work[2, :n], work[3, :n]
    sum_h, sum_l, rest = work[4], work[5], work[6]
    _chebyshev(y1h, y1l, head, t1h, t1l)
    _chebyshev(y2h, y2l, head, t2h, t2l)
    sum_h[:], sum_l[:], rest[:] = 0.0, 0.0, 0.0
    for k in range(n):
        ch, cl = table.hi[panel2, panel1, k].reshape(-1), table.lo[panel2, panel1, k].reshape(-1)
        middle, end = max(0, head - k) * columns, (n - k) * columns
        accumulate(t1h[k], t1l[k], ch[:middle], cl[:middle], sum_h[:middle], sum_l[:middle])
        t = t1h[k]
        for i in range(middle, end):
            rest[i] += t * ch[i]
    for c in range(columns):
        ah = al = tail = 0.0
        for m in range(n):
            i = m * columns + c
            tail += rest[i] * t2h[m]
            if m < head:
                bh, bl = add(sum_h[i], sum_l[i], 0.0, 0.0)
                ah, al = add(ah, al, *mul(bh, bl, t2h[m], t2l[m]))
        out.hi[c], out.lo[c] = add(ah, al, tail, 0.0)
    return True
