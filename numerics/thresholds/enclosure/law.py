"""A finite law of (A, tau) in place of the one of the first layer's indices, with a proven bound on what that changes.

In polar coordinates of h_1, Q = |h_1|^2/2 is exponential and psi, twice the angle, is uniform; the diagonal of the
attention matrix is sigma(beta Q (1 - cos psi +- sin psi)). The rule is trapezoidal in y, Q = exp(y - k e^-y), and in
psi, with as many angles as each radius needs. The proofs of (8)-(13) are in papers/troiani2025/enclosure.md.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from flint import arb, fmpq

from attnlimits.generated.pair_softmax_m2.plain import numerators

from ...arithmetic.ball import ball
from ...core.errors import ConvergenceError
from .bounds import support

__all__ = ["InnerRule", "Node", "Shift", "admissible", "disc", "inner_rule", "lens", "sector"]

# The slope of the radii's map near Q = 0, and how far the sum p + r may sink below one on the shifted angles, over c.
_SHARP = 0.1
_SAG = 0.1


class Shift(NamedTuple):
    """What complex shifts of h_1 leave true of t and s: Re t >= t_min, |Re s| <= real, |Im t| and |Im s| <= imag."""

    t_min: arb
    real: arb
    imag: arb


class Node(NamedTuple):
    """One point of the finite law: (A/slope)^2, B scaled to [-1, 1], tau, and the weight of it together with -A."""

    a2: arb
    b: arb
    tau: arb
    weight: arb


def lens(c: arb, phase: arb, sag: arb) -> Shift:
    """Return the bounds when |Im| of both arguments is <= phase <= pi/2 and their real parts sum to >= -2 sag (10)."""
    imag = (phase / 2).tan()
    return Shift(c - imag**2 / arb(27).sqrt() - sag, arb(1), imag)


def sector(c: arb, angle: arb) -> Shift:
    """Return the bounds when both arguments lie on one line through 0, at most angle < pi/4 off the real axis (9)."""
    start = arb.pi() / 2 * angle.cot()
    excess = (1 + (-start).exp()) / (start.cosh() - 1)
    return Shift(c - excess, 1 + excess, 1 / (2 * (angle.cot() ** 2 - 1).sqrt()))


def disc(c: arb, radius: arb) -> Shift:
    """Return the bounds when both arguments are at most radius < pi in modulus (9)."""
    imag = (radius / 2).tan()
    return Shift(c - imag, imag, imag)


def admissible(c: arb, shift: Shift) -> bool:
    """Tell whether (8) is proved: then |phi(u - A v) phi(tau v)| <= 1/(2 pi) for all real u, v, and t has no zero."""
    if not shift.t_min > 0:
        return False
    left = shift.imag**2 * ((1 + shift.real / shift.t_min) ** 2 + ((1 + c) / shift.t_min) ** 2)
    return bool(left <= (1 + c) ** 2)


@dataclass(frozen=True)
class InnerRule:
    """Radii and numbers of angles of the finite law, and its proven error.

    Attributes
    ----------
    skip, beta : float
    step : float
        Step in y.
    first, last : int
        The radii are y = j step, first <= j <= last.
    angles : tuple of int
        Number of angles at each radius, even; the half with psi < pi is used, for the law of A is even.
    error : arb
        |int g dh_1 - rule(g)| <= error sup|g| for g = tau h_a h_b phi(h_+) phi(h_-) or tau phi phi (13).
    tau, slope : arb
        The suprema of |tau| and |A| on all the shifted contours.
    """

    skip: float
    beta: float
    step: float
    first: int
    last: int
    angles: tuple[int, ...]
    error: arb
    tau: arb
    slope: arb

    @property
    def size(self) -> int:
        """Number of nodes."""
        return sum(self.angles) // 2

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes at the current precision."""
        law = support(self.skip)
        c, beta, gain = law.skip, ball(repr(float(self.beta))), 1 / (1 + law.skip)
        middle, half, one = (law.b_max + law.b_min) / 2, (law.b_max - law.b_min) / 2, arb(1)
        for j, count in zip(range(self.first, self.last + 1), self.angles, strict=True):
            q, density = _radius(j, self.step)
            weight = density * 2 / count
            scale = beta * q
            for i in range(count // 2):
                sine, cosine = arb.sin_cos_pi_fmpq(fmpq(2 * i + 1, count))
                # Over the larger one of e^u and e^w, whichever it is: no rounding of an exponent is magnified.
                gap, both = scale * (1 - cosine - sine), (-scale * (1 - cosine + sine)).exp()
                rise_u, rise_w = (one, (-gap).exp()) if gap > 0 else (gap.exp(), one)
                upper, lower, total = numerators(rise_u, both * rise_w, rise_w, both * rise_u, c)
                inverse = 1 / lower
                a, tau = upper * inverse * gain, total * inverse
                yield Node(a * a / law.slope**2, (a * a + tau * tau - middle) / half, tau, weight)

    def height(self, u: arb, v: arb) -> arb:
        """Bound h_+^2 + h_-^2 on the shifted contours, at outputs up to u and v in modulus."""
        return (u + self.slope * v) ** 2 + (self.tau * v) ** 2


def inner_rule(skip: float, beta: float, error: float) -> InnerRule:
    """Build a rule whose proven error is at most `error`.

    Raises
    ------
    ConvergenceError
        A shift that the floating-point search proposed could not be proved.

    References
    ----------
    troiani2025, (175)-(183); enclosure.md, (8)-(13).
    """
    c, beta_ball = support(skip).skip, ball(repr(float(beta)))
    slowest = beta_ball * (1 + arb(2).sqrt())
    low, height = _search_radii(skip, beta)
    edge = (arb(low) - _SHARP * (-arb(low)).exp() * arb(height).cos()).exp()
    angle = arb(height) + _SHARP * (-arb(low)).exp() * arb(height).sin()
    phase = _search_phase(skip)
    sag = c * _SAG
    shifts = [sector(c, angle), disc(c, slowest * edge), lens(c, arb(phase), sag)]
    if not (angle < arb.pi() / 4 and slowest * edge < arb.pi() and all(admissible(c, shift) for shift in shifts)):
        raise ConvergenceError(
            f"no strip of analyticity is proved for skip = {skip:g}, beta = {beta:g} (enclosure.md, (8)); use a skip "
            "strength nearer 1"
        )

    # The radii: the norm of the weight on either line |Im y| = height, the error there, and the two ends.
    norm = 1 / (arb(height).cos() * angle.cos()) + edge * edge.exp() / arb(height).cos()
    share = error / 4
    step = 2 * math.pi * height / math.log(2 * float(norm) / share + 1)
    step = math.floor(step * 2**40) / 2**40
    first, last = _ends(step, share / 2)
    total = 2 * norm / (2 * arb.pi() * height / step).expm1()
    lowest, highest = _radius(first, step)[0], _radius(last, step)[0]
    if not (lowest <= 0.5 and highest >= 1):
        raise ConvergenceError(f"the radii end too early for (12): from {lowest} to {highest}; ask for a smaller width")
    total += lowest + (-highest).exp()

    angles = []
    each = 0.45 * error / (last - first + 1)
    cap = 2.0
    for j in range(first, last + 1):
        q, weight = _radius(j, step)
        scale = beta_ball * q
        shift = (arb(phase) / (arb(2).sqrt() * scale)).asinh().min((1 + sag / scale).acosh()).min(arb(cap))
        count = 2 * max(1, math.ceil(math.log(1 + 2 * float(weight) / each) / (2 * float(shift))))
        angles.append(count)
        total += 2 * weight / (count * shift).expm1()
    tau = 1 / min((shift.t_min for shift in shifts), key=float)
    slopes = [(shift.real**2 + shift.imag**2).sqrt() / shift.t_min for shift in shifts]
    return InnerRule(skip, beta, step, first, last, tuple(angles), total.upper(), tau, max(slopes, key=float) / (1 + c))


def _radius(j: int, step: float) -> tuple[arb, arb]:
    """Return Q and the weight step e^-Q dQ/dy at y = j step."""
    y = arb(j) * step
    fall = _SHARP * (-y).exp()
    q = (y - fall).exp()
    return q, step * q * (1 + fall) * (-q).exp()


def _ends(step: float, error: float) -> tuple[int, int]:
    """Return the first and last radius: Q <= error below, exp(-Q) <= error above."""
    low = math.log(_SHARP / -math.log(error))
    while low - _SHARP * math.exp(-low) < math.log(error):
        low += step
    high = math.log(-math.log(error))
    while high - _SHARP * math.exp(-high) < math.log(-math.log(error)):
        high += step
    return math.floor(low / step) - 1, math.ceil(high / step) + 1


def _search_phase(skip: float) -> float:
    """Return the largest phase (10) that is admissible, of a few."""
    c = support(skip).skip
    trials = (1.5 * 0.97**i for i in range(200))
    return next((x for x in trials if admissible(c, lens(c, arb(x), c * _SAG))), 0.01)


def _search_radii(skip: float, beta: float) -> tuple[float, float]:
    """Return where the disc (9) takes over from the sector, and the largest height of the strip in y, of a few."""
    c = support(skip).skip
    angle = next((x for x in (0.75 * 0.97**i for i in range(150)) if admissible(c, sector(c, arb(x)))), 0.01)
    radius = next((x for x in (1.5 * 0.97**i for i in range(150)) if admissible(c, disc(c, arb(x)))), 0.01)
    target = math.log(radius * 0.999 / (beta * (1 + math.sqrt(2))))
    low, height = target, angle
    for _ in range(100):  # two monotone equations, each solved for one unknown in turn
        low = _root(lambda y: y - _SHARP * math.exp(-y) * math.cos(height) - target, -12.0, 12.0)  # noqa: B023
        height = _root(lambda x: x + _SHARP * math.exp(-low) * math.sin(x) - angle * 0.999, 0.0, angle)  # noqa: B023
    return low, height


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Bisect an increasing function."""
    for _ in range(60):
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return low
