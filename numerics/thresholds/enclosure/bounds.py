"""Proven bounds on cutting and on the trapezoid rule in the outputs, for the rigorous threshold of two layers.

The statements and their proofs are in papers/troiani2025/enclosure.md, by the numbers quoted here. All numbers are
balls of python-flint, so rounding is part of every bound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from flint import arb

from ...arithmetic.ball import ball

__all__ = ["Bin", "OuterBounds", "Support", "cell_exponent", "support"]

# |phase| of the terms of Z on the shifted contours; |Z| >= cos(phase) times the sum of the moduli.
PHASE = 1.5


class Support(NamedTuple):
    """Where the law of (A, tau) lives: |A| <= tau - tau_min, tau_min < tau < tau_max (1)."""

    skip: arb
    tau_min: arb
    tau_max: arb
    slope: arb
    b_min: arb
    b_max: arb


def support(skip: float) -> Support:
    """Return the support (1) at the current precision; `slope` bounds |A|, `b_min`, `b_max` bound A^2 + tau^2.

    skip counts as the decimal that was written: 0.1 is 1/10.

    References
    ----------
    troiani2025, (175)-(183), and (1) of enclosure.md.
    """
    c = ball(repr(float(skip)))
    tau_min, tau_max = 1 / (1 + c), 1 / c
    slope = tau_min * tau_max
    return Support(c, tau_min, tau_max, slope, tau_min**2, slope**2 + tau_max**2)


def cell_exponent(law: Support, u: arb, v_low: arb, v_high: arb) -> arb:
    """Return the least (u' - A v')^2 + tau^2 v'^2 over u' >= u, v_low <= v' <= v_high and the support (5).

    With v_low = v_high it is the exponent of the largest term of Z(u, v); it needs v_high > 0.
    """
    best = (u * v_high - law.tau_min * v_low**2) / (v_high**2 + v_low**2)
    best = best.max(arb(0)).min(law.slope)
    plus, minus = (u - best * v_high).max(arb(0)), (best + law.tau_min) * v_low
    return plus * plus + minus * minus


@dataclass(frozen=True)
class Bin:
    """One cell of the positive quadrant of (u, v), with what bounds the integrand there (5).

    Attributes
    ----------
    u_low, u_high, v_low, v_high : arb
        The cell.
    density : arb
        Bounds tau phi(h_+) phi(h_-) for every (A, tau) of the support.
    square : arb
        Bounds h_+^2 + h_-^2 likewise.
    """

    u_low: arb
    u_high: arb
    v_low: arb
    v_high: arb
    density: arb
    square: arb

    def integrand(self, extra: arb) -> arb:
        """Bound E[(h_+^2 + h_-^2 + extra)^2 tau phi(h_+) phi(h_-)] on the cell."""
        return self.density * (self.square + extra) ** 2


class OuterBounds:
    """Bounds on everything the lattice of outputs (u, v) leaves out.

    Parameters
    ----------
    skip : float
        c > 0.
    reach : float
        Radius in units of the indices up to which the plane is divided into cells; beyond it a Gaussian bound serves.

    Notes
    -----
    The integrand is F(u, v) = (M_++^2 + 2 M_+-^2 + M_--^2)/Z; the lattices are u = (k + 1/2) h_u, v = (j + 1/2) h_v.

    References
    ----------
    troiani2025, (15)-(16), (184)-(185); enclosure.md, (3)-(7).
    """

    def __init__(self, skip: float, reach: float) -> None:
        self.law = law = support(skip)
        self.phase = arb(PHASE)
        # Caps on the shifts: a Gaussian factor exp(shift^2 / 2) in units of the indices is still harmless there.
        self.cap_u, self.cap_v = arb(2), 2 / law.tau_max
        self._half_range = (law.b_max - law.b_min) / 2
        self._soften = self.phase / (self._half_range * self.cap_v)
        self.reach = arb(reach)
        cells = 80
        self.step_u, self.step_v = self.reach / cells, self.reach / law.tau_min / cells
        edges_u = [self.step_u * i for i in range(cells + 1)]
        edges_v = [self.step_v * i for i in range(cells + 1)]
        self.bins = [[self._bin(*edges_u[i : i + 2], *edges_v[j : j + 2]) for i in range(cells)] for j in range(cells)]

    def _bin(self, u_low: arb, u_high: arb, v_low: arb, v_high: arb) -> Bin:
        law = self.law
        exponent = cell_exponent(law, u_low, v_low, v_high)
        density = law.tau_max * (-exponent / 2).exp() / (2 * arb.pi())
        square = (u_high + law.slope * v_high) ** 2 + (law.tau_max * v_high) ** 2
        return Bin(u_low, u_high, v_low, v_high, density, square)

    def shift_u(self, v: arb) -> arb:
        """Return a height a(v) up to which u may be shifted into the complex plane (3)."""
        return self.cap_u.min(self.phase / (self.law.slope * v))

    def shift_v(self, u: arb, v: arb) -> arb:
        """Return a height b(u, v) up to which v may be shifted into the complex plane (4)."""
        return self.phase / (self.law.slope * u + self._half_range * (v**2 + self._soften**2).sqrt())

    def error_u(self, step: arb) -> arb:
        """Bound the error of the trapezoid rule in u, integrated over v (6)."""
        total = arb(0)
        for row in self.bins:
            shift = self.shift_u(row[0].v_high)
            weight = (shift**2 / 2).exp() / _kernel(shift, step)
            total += weight * sum((cell.integrand(shift**2) for cell in row), arb(0))
        total *= self.step_u * self.step_v
        slope = self.law.slope / (self.phase * self.law.tau_min)
        scale = (self.cap_u**2 / 2).exp() * step / (2 * arb.pi())
        far = self._far(scale / self.cap_u, scale * slope, self.cap_u**2)
        return 8 * (total + far) / self.phase.cos()

    def error_v(self, step: arb, step_u: arb) -> arb:
        """Bound the error of the trapezoid rule in v, summed over the lattice of u (7)."""
        law = self.law
        total = arb(0)
        for row in self.bins:
            for cell in row:
                high, low = self.shift_v(cell.u_low, cell.v_low), self.shift_v(cell.u_high, cell.v_high)
                grown = high**2 * law.b_max
                length = (1 + (high**2 * self._half_range / self.phase) ** 2).sqrt()
                total += (grown / 2).exp() * length * cell.integrand(grown) / _kernel(low, step)
        total *= (self.step_u + step_u) * self.step_v
        cap = self.cap_v**2 * law.b_max
        length = (1 + (self.cap_v**2 * self._half_range / self.phase) ** 2).sqrt()
        scale = (cap / 2).exp() * length * step / (2 * arb.pi() * self.phase)
        far = self._far(
            scale * self._half_range * self._soften, scale * (law.slope + self._half_range / law.tau_min), cap, step_u
        )
        return 8 * (total + far) / self.phase.cos()

    def tail(self, step_u: arb, step_v: arb, kept: Callable[[arb, arb, arb], bool]) -> arb:
        """Bound the part of the lattice sum that is left out (5).

        Parameters
        ----------
        step_u, step_v : arb
            Steps of the lattice.
        kept : callable
            kept(u_high, v_low, v_high): whether every lattice point with |u| <= u_high and v_low <= |v| <= v_high is
            part of the sum.
        """
        total = arb(0)
        for row in self.bins:
            for cell in row:
                if not kept(cell.u_high, cell.v_low, cell.v_high):
                    total += cell.integrand(arb(0))
        total *= (self.step_u + step_u) * (self.step_v + step_v)
        return 4 * (total + self._far(arb(1), arb(0), arb(0), step_u, step_v))

    def _far(self, constant: arb, slope: arb, extra: arb, step_u: arb | None = None, step_v: arb | None = None) -> arb:
        """Bound the quadrant beyond the cells, at a weight <= constant + slope X, X^2 = u^2 + (tau_min v)^2 (5)."""
        law, x = self.law, self.reach
        square = 2 * ((1 + 1 / law.skip) * x) ** 2 + extra
        top = (constant + slope * x) * square**2 * law.tau_max / (2 * arb.pi()) * (-3 * x**2 / 16).exp()
        half = (4 * arb.pi()).sqrt()
        return top * (half + (step_u or 0)) * (half / law.tau_min + (step_v or 0))


def _kernel(shift: arb, step: arb) -> arb:
    """Return exp(2 pi shift / step) - 1: what the shifted contour wins over the rule."""
    return (2 * arb.pi() * shift / step).expm1()
