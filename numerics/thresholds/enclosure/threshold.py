"""A proven interval for the threshold of the last layer: two softmax layers, two tokens, rank 1.

1/alpha = int F du dv - 2 with F = (M_++^2 + 2 M_+-^2 + M_--^2)/Z. The integral is a lattice sum over a finite law of
the first layer (`sum`), up to errors that are bounded by theorems (`bounds`, `law`). The
statements and their proofs are in papers/troiani2025/enclosure.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from ...arithmetic.ball import working_bits
from ...core.errors import ConvergenceError
from ...core.results import Result
from ...model.network import Network
from ...model.routes import require
from .bounds import OuterBounds
from .law import InnerRule, inner_rule
from .sum import Lattice, lattice_sum, orders

__all__ = ["Enclosure", "enclose_last_layer", "inner_sensitivity"]


@dataclass(frozen=True, repr=False)
class Enclosure(Result):
    """An interval that holds alpha_c, and what it was proved with.

    Attributes
    ----------
    lower, upper : str
        Exact decimals: lower <= alpha_c <= upper. skip and beta count as the decimals that were written: 0.1 is 1/10.
    tail, discretisation_outer, discretisation_inner, rounding : float
        Bounds on the error of 1/alpha_c: lattice points (u, v) left out; trapezoid rule in u and v; finite law in place
        of that of h_1; balls of the sum (rounding, and the ends of two series).
    steps : tuple of float
        (h_u, h_v, h_y): steps in u, in v, and of the radii of h_1.
    nodes : int
        Size of the finite law.
    points : int
        Number of points (u, v), of one quadrant.
    bits : int
        Working precision.
    """

    lower: str
    upper: str
    tail: float
    discretisation_outer: float
    discretisation_inner: float
    rounding: float
    steps: tuple[float, float, float]
    nodes: int
    points: int
    bits: int

    @property
    def width(self) -> float:
        """Upper end minus lower end."""
        return float(Fraction(self.upper) - Fraction(self.lower))


def enclose_last_layer(model: Network, *, width: float = 1e-30, progress: bool = False) -> Enclosure:
    """Enclose the threshold alpha_c of layer 2 from the uninformed start.

    Parameters
    ----------
    model : Network
        Two softmax layers, two tokens, rank 1; 0.3 <= skip <= 10, 0.1 <= beta <= 10.
    width : float, optional
        Largest width of the interval, 1e-60 to 1e-3.
    progress : bool, optional
        Show progress bars on stderr.

    Returns
    -------
    Enclosure

    Raises
    ------
    ValueError
        width, skip or beta out of range.
    KernelNotFoundError
        Another architecture.
    ConvergenceError
        The interval found is wider than asked for.

    Notes
    -----
    h = Wx/sqrt(D), alpha = N/D. The work grows with about the fourth power of the number of digits, with beta, and fast
    with 1/skip below 1: 1e-30 at skip 1 takes little more than a minute of one core, 1e-12 at skip 0.5 most of
    one. The precision of python-flint is left as it was.

    References
    ----------
    troiani2025, (15)-(16), (184)-(185); enclosure.md.
    """
    require("enclosure", model)
    # Bounds need no more: they are only compared with what is wanted.
    bound_bits = 64
    widths = (1e-60, 1e-3)
    skips = (0.3, 10.0)
    betas = (0.1, 10.0)
    _inside("width", width, widths)
    _inside("skip", model.skip, skips)
    _inside("beta", model.beta, betas)

    target = 2 * width  # of the error of 1/alpha; the interval for alpha is 2 alpha^2 times as wide as the error
    with working_bits(bound_bits):
        outer = OuterBounds(model.skip, _reach(target, model.skip))
        step_u = _largest_step(lambda h: outer.error_u(arb(h)), 0.2 * target)
        step_v = _largest_step(lambda h: outer.error_v(arb(h), arb(step_u)), 0.2 * target)
        error_outer = outer.error_u(arb(step_u)) + outer.error_v(arb(step_v), arb(step_u))
        lattice, tail = _cut(outer, step_u, step_v, 0.1 * target)
        # The suprema on the contours depend on the model alone, so a coarse rule tells what accuracy is needed.
        sensitivity = inner_sensitivity(inner_rule(model.skip, model.beta, 1e-2), lattice)
        rule = inner_rule(model.skip, model.beta, 0.3 * target / float(sensitivity))
        error_inner = rule.error * inner_sensitivity(rule, lattice)
        order = orders(outer.law, lattice, math.log(float(sensitivity) / target) + 5)
    with working_bits(order.bits):
        total = lattice_sum(rule, lattice, order, progress=progress)
        error = tail + error_outer + error_inner
        inverse = total + arb(0, error.abs_upper()) - 2
        if not inverse > 0:
            raise ConvergenceError(f"the sum lost all its digits at {order.bits} bits: got {inverse} for 1/alpha")
        alpha = 1 / inverse
        digits = 4 - math.floor(math.log10(width))
        lower, upper = _decimal(alpha.lower(), digits, math.floor), _decimal(alpha.upper(), digits, math.ceil)
    result = Enclosure(
        lower,
        upper,
        tail=_above(tail),
        discretisation_outer=_above(error_outer),
        discretisation_inner=_above(error_inner),
        rounding=_above(total.rad()),
        steps=(step_u, step_v, rule.step),
        nodes=rule.size,
        points=lattice.size,
        bits=order.bits,
    )
    if not result.width <= width:
        raise ConvergenceError(
            f"the interval [{lower}, {upper}] is proved, but wider than {width:g}; ask for a smaller width"
        )
    return result


def inner_sensitivity(rule: InnerRule, lattice: Lattice) -> arb:
    """Bound the change of the lattice sum per unit of the rule's error (14).

    |F~ - F| <= 3 error tau (2 pi)^-1 (h_+^2 + h_-^2)^2 at every point: M/Z is a mean under either law.
    """
    total = arb(0)
    for j, count in enumerate(lattice.counts):
        total += count * rule.height(lattice.u(count), lattice.v(j)) ** 2
    return total * 4 * lattice.step_u * lattice.step_v * 3 * rule.tau / (2 * arb.pi())


def _cut(outer: OuterBounds, step_u: float, step_v: float, target: float) -> tuple[Lattice, arb]:
    """Return the smallest lattice, of a few, whose tail is bounded by the target, and that bound."""
    exponent = math.log(1 / target) + 10
    while True:
        lattice = Lattice.within(outer.law, step_u, step_v, exponent)
        tail = outer.tail(arb(step_u), arb(step_v), lattice.covers)
        if tail <= target:
            return lattice, tail
        exponent += 1.5


def _largest_step(bound: Callable[[float], arb], target: float) -> float:
    """Return the largest step, to 2 per cent, whose bound is below the target."""
    low, high = 1e-4, 4.0
    if not bound(low) <= target:
        raise ConvergenceError(f"no step of the outer rule is fine enough for {target:.1e}; ask for a larger width")
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if bound(middle) <= target else (low, middle)
    return low


def _reach(target: float, skip: float) -> float:
    """Return a radius beyond which the Gaussian bound is far below the target: exp(-3 reach^2/16) times a power."""
    return math.sqrt(16 / 3 * (math.log(1 / target) + 35 + 4 * math.log1p(1 / skip)))


def _inside(name: str, value: float, bounds: tuple[float, float]) -> None:
    if not bounds[0] <= value <= bounds[1]:
        raise ValueError(
            f"{name} must be in [{bounds[0]:g}, {bounds[1]:g}] for an enclosure of (184)-(185), got {value!r}; "
            "thresholds.last_layer gives an estimate elsewhere"
        )


def _decimal(value: arb, digits: int, rounding: Callable[[Fraction], int]) -> str:
    """Return an exact ball's value with `digits` decimals, rounded as told."""
    mantissa, exponent = value.man_exp()
    number = rounding(Fraction(int(mantissa)) * Fraction(2) ** int(exponent) * 10**digits)
    return f"{number // 10**digits}.{number % 10**digits:0{digits}d}"


def _above(bound: arb) -> float:
    """Return a float that is not below the bound."""
    return math.nextafter(float(bound.abs_upper()), math.inf)
