"""Ball arithmetic (arb, by python-flint): exact input, working precision, and generated kernels run on balls.

The kernels of arbitrary precision take a context that supplies their functions. `BALLS` is such a context on arb: the
same emitted code that mpmath evaluates gives enclosures, about ten times faster.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from flint import arb, fmpq
from mpmath import mpf
from mpmath.ctx_mp import MPContext

__all__ = ["BALLS", "ball", "to_mpf", "working_bits"]

# python-flint has one working precision per process.
_LOCK = threading.RLock()


class _Balls:
    """What the generated `mp` kernels ask of their context, answered on arb."""

    mpf = arb
    convert = arb
    nan = arb.nan()
    inf = arb.pos_inf()
    cos = staticmethod(arb.cos)
    exp = staticmethod(arb.exp)
    expm1 = staticmethod(arb.expm1)
    isfinite = staticmethod(arb.is_finite)
    log = staticmethod(arb.log)
    sin = staticmethod(arb.sin)
    sqrt = staticmethod(arb.sqrt)


BALLS: Any = _Balls()


@contextmanager
def working_bits(bits: int) -> Iterator[None]:
    """Work at a precision of `bits` inside the block, and leave python-flint's precision as it was.

    Other threads that enter such a block wait, since the precision is one number for all of them.
    """
    with _LOCK, flint.ctx.workprec(bits):
        yield


def ball(value: Any) -> arb:
    """Enclose a number: floats count as the exact binary numbers they are, text as the decimal it spells.

    Parameters
    ----------
    value : float, int, str, fractions.Fraction, decimal.Decimal, mpf or arb
        Text is a decimal such as "0.3" or "-1e-40".

    Raises
    ------
    ValueError
        Not a finite number.
    """
    try:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bool) or value is None:
            raise TypeError
        if isinstance(value, str):
            float(value)  # arb would also read "1 +/- 2"; this is the grammar of one decimal
            made = arb(value.strip().replace("_", ""))
        elif isinstance(value, Fraction):
            made = arb(fmpq(value.numerator, value.denominator))
        elif isinstance(value, Decimal):
            made = arb(str(value))
        else:
            made = arb(value)
    except (TypeError, ValueError):
        raise ValueError(f"expected a number, or a decimal as text, got {value!r}") from None
    if not made.is_finite():
        raise ValueError(f"expected a finite number, got {value!r}")
    return made


def to_mpf(ctx: MPContext, value: arb) -> mpf:
    """Round the midpoint of a ball to a context of mpmath."""
    mantissa, exponent = value.mid().man_exp()
    return +ctx.ldexp(ctx.mpf(int(mantissa)), int(exponent))
