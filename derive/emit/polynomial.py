"""Coefficients of the polynomial behind the branch-free exponential.

On |r| <= log(2)/2 the generated code uses ``exp(r) - 1 = r + r^2 q(r)`` with a polynomial q.  Interpolation
at Chebyshev nodes makes its error as small as a degree allows up to a factor close to one.
"""

from mpmath.ctx_mp import MPContext

__all__ = ["DEGREE", "exponential_coefficients", "exponential_error"]

#: Degree of r + r^2 q(r): 11 leaves 2e-17, far below half an ulp; 10 would leave 1e-15.
DEGREE = 11

# Rounding of the reduced argument reaches just beyond log(2)/2.
_MARGIN = 2**-11


def _context() -> MPContext:
    ctx = MPContext()
    ctx.dps = 60
    return ctx


def _quotient(ctx: MPContext, r: object) -> object:
    """(exp(r) - 1 - r)/r^2, as its series, which needs no limit at r = 0."""
    term, total = ctx.mpf(1) / 2, ctx.mpf(0)
    for k in range(3, 60):
        total += term
        term = term * r / k
    return total


def exponential_coefficients(degree: int = DEGREE) -> tuple[float, ...]:
    """Return the float64 coefficients of q, lowest order first.

    Parameters
    ----------
    degree : int
        Degree >= 2 of r + r^2 q(r).

    Returns
    -------
    tuple of float
        ``degree - 1`` numbers.
    """
    ctx = _context()
    count = degree - 1
    half = ctx.log(2) / 2 * (1 + _MARGIN)
    nodes = [half * ctx.cos((2 * k + 1) * ctx.pi / (2 * count)) for k in range(count)]
    vandermonde, values = ctx.matrix(count, count), ctx.matrix(count, 1)
    for row, node in enumerate(nodes):
        values[row] = _quotient(ctx, node)
        for column in range(count):
            vandermonde[row, column] = node**column
    return tuple(float(value) for value in ctx.lu_solve(vandermonde, values))


def exponential_error(coefficients: tuple[float, ...], samples: int = 400) -> float:
    """Return the largest relative error of 1 + r + r^2 q(r) on a grid of |r| <= log(2)/2."""
    ctx = _context()
    worst = ctx.mpf(0)
    for k in range(-samples, samples + 1):
        r = ctx.log(2) / 2 * k / samples
        q = ctx.polyval(list(reversed(coefficients)), r)
        worst = max(worst, abs((1 + r + r * r * q) / ctx.exp(r) - 1))
    return float(worst)
