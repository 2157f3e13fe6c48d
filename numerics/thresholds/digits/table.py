"""Tables of the output density and its second moments over a grid of outputs, from the moments of a hidden law.

With p = u v, w = v^2 and B = A^2 + tau^2 the density of (u, v) is exp(-u^2/2)/(2 pi) E[tau exp(p A - w B/2)], and
    E[tau exp(p A - w B/2)] = sum_n p^{2n}/(2n)! E[tau A^{2n} exp(-w B/2)]
has positive terms only. Powers of t = u^2 and of t = v^2 B under their Gaussians stay below one (`powers`), and
everything over the grid of outputs is matrix products in fixed point (`fixed`).
"""

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from ...arithmetic.balls import Balls
from ...arithmetic.fixed_digits import Fixed, Scale, add_product, carried, dot, from_balls, product_error
from .moments import Moments
from .powers import Norms, Window, gaussian_powers

__all__ = ["Tables", "tables"]


@dataclass(frozen=True)
class Tables:
    """Density and N = E[h h^T ..] - Z I over the outputs, each of shape (len(u), len(v)).

    Attributes
    ----------
    z : Fixed
        Z = exp(-u^2/2) E[tau exp(p A - w B/2)], 2 pi times the density.
    pp, pm, mm : Fixed
        N_++, N_+- and N_-- in the same unit: the same expectation with (u - A v)^2 - 1, (u - A v) tau v and
        tau^2 v^2 - 1.
    """

    z: Fixed
    pp: Fixed
    pm: Fixed
    mm: Fixed


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
    norms = Norms.up_to(moments.powers)
    # Power n + 1, times (2n + 2)(2n + 1) to the half, also meets E[(A^2/B)^n].
    growth = np.log(2.0 * np.arange(1, norms.most + 1))
    sizes = np.append(moments.log_sizes[:1], moments.log_sizes + growth)
    # tau^2, tau^3 and v^2 tau^3 instead of tau: some powers of B.
    window = Window.of(sizes, -moments.log_accuracy - 1.5 * moments.log_range)
    even, twice, odd = _left(u, norms, window, moments.sums.scale)
    one, two, three = _right(moments, v, norms, window)
    return Tables(*(_sum(a, b) for a, b in ((even, one), (twice, one), (odd, two), (even, three))))


def _sum(left: Fixed, right: Fixed) -> Fixed:
    """Sum over n of factors (n, u) and (n, v), shape (u, v)."""
    left, right = left.turned, right.turned
    levels = np.zeros((len(left.digits), *right.error.shape[:1], *left.error.shape[:1]), dtype=np.int64)
    # Powers of one product: the later ones have fewer digits.
    some = 25
    for start in range(0, left.error.shape[1], some):
        # Right factors of later powers are smaller throughout: they begin with zeros.
        rows = slice(start, start + some)
        add_product(levels, np.ascontiguousarray(right.digits[..., rows]), left.digits[..., rows])
    return carried(levels, product_error(right.size, right.error, left.size, left.error, left.scale)).turned


def _right(moments: Moments, v: Balls, norms: Norms, window: Window) -> tuple[Fixed, Fixed, Fixed]:
    """Right factors v^{2n} E[A^{2n} ..] of Z and N_++, of N_+- and of N_--, for all powers n, shape (n, v)."""
    sums, scale, powers = moments.sums, moments.sums.scale, moments.powers
    # Numbers in fixed point are below 2^20.
    unit = arb(2) ** max(0, math.ceil(moments.log_range / math.log(2)) - 19)
    # tau = B^(1/2) (1 - A^2/B)^(1/2), whose binomial series ends where the powers do; tau^2 = B (1 - A^2/B).
    roots = from_balls([b.sqrt() for b in moments.b], scale)[None]
    first = dot(_root_series(powers, scale), sums.turned)
    factors = np.zeros((scale.last + 1, powers + 1, 3, len(moments.b))), np.zeros((powers + 1, 3, len(moments.b)))
    for which, shift, part in (
        (0, 0, first * roots),
        (1, 0, _less_next(sums) * from_balls([b / unit for b in moments.b], scale)[None]),
        # v^2 B times one power is the next one.
        (2, 1, _less_next(first) * roots),
    ):
        rows = slice(shift, shift + powers)
        factors[0][:, rows, which], factors[1][rows, which] = part.digits, part.error
    law = Fixed(*factors)
    law_size = law.size
    levels = np.zeros((scale.last + 1, powers + 1, 3, len(v)), dtype=np.int64)
    error = np.zeros((powers + 1, 3, len(v)))
    for n, rows, found, size in gaussian_powers([y * y for y in v], moments.b, norms, window, scale):
        add_product(levels[:, n, :, rows], np.ascontiguousarray(law.digits[:, n]), found.digits)
        error[n, :, rows] += product_error(law_size[n], law.error[n], size, found.error, scale)
    sums_over_b = carried(levels, error)
    rest = from_balls(norms.rest(), scale)[:powers, None]
    one = sums_over_b[:powers, 0] * rest
    two = sums_over_b[:powers, 1] * rest * from_balls([y * unit for y in v], scale)[None]
    back = from_balls([1 / arb(ratio) for ratio in norms.ratios()[1:]], scale)[:, None]
    # tau^2 v^2 - 1
    return one, two, sums_over_b[1:, 2] * rest * back - one


def _left(u: Balls, norms: Norms, window: Window, scale: Scale) -> tuple[Fixed, Fixed, Fixed]:
    """Left factors u^{2n} exp(-u^2/2), and with (u - A v)^2 - 1 and u - A v, for all powers n, shape (n, u).

    A v is the derivative by u: sum_n (u v A)^{2n}/(2n)! times A v is sum_n (2n/u) (u v A)^{2n}/(2n)!.
    """
    powers = norms.most
    squares = [x * x for x in u]
    digits, error = np.zeros((scale.last + 1, powers, len(u))), np.zeros((powers, len(u)))
    for n, _, found, _ in gaussian_powers([arb(1)], squares, norms, window, scale):
        if n < powers and len(found.error):
            digits[: len(found.digits), n] += found.digits[:, 0]
            error[n] += found.error[0]
    even = Fixed(digits, error)
    # u^{2n - 2} exp(-u^2/2)
    low = Fixed(np.zeros_like(digits), np.zeros_like(error))
    low.digits[:, 1:], low.error[1:] = digits[:, :-1], error[:-1]
    ratios = norms.ratios()[:powers]
    less, again = (
        from_balls([arb(k * ratio) for k, ratio in zip(numbers, ratios, strict=True)], scale)[:, None]
        for numbers in (range(0, 2 * powers, 2), (2 * n * (2 * n - 1) for n in range(powers)))
    )
    middle = from_balls([arb(4 * n + 1) for n in range(powers)], scale)[:, None]
    square = from_balls(squares, scale)[None]
    twice = (square - middle) * even + again * low
    return even, twice, (even - less * low) * from_balls(u, scale)[None]


def _less_next(rows: Fixed) -> Fixed:
    """Row n less row n + 1: from powers of x to those times 1 - x."""
    after = Fixed(np.zeros_like(rows.digits), np.zeros_like(rows.error))
    after.digits[:, :-1], after.error[:-1] = rows.digits[:, 1:], rows.error[1:]
    return rows - after


def _root_series(count: int, scale: Scale) -> Fixed:
    """Upper triangular Toeplitz matrix of the coefficients of (1 - x)^(1/2)."""
    coefficients = [arb(1)]
    for k in range(1, count):
        coefficients.append(coefficients[-1] * (2 * k - 3) / (2 * k))
    row = from_balls([*coefficients, arb(0)], scale)
    place = np.arange(count)[None, :] - np.arange(count)[:, None]
    return row[np.where(place >= 0, place, count)]
