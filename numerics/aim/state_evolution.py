"""State evolution of one layer: q = Q - MMSE_rho(1/qhat), qhat = (2 alpha/V) F(q/V), V = Q - q, Q = 1 + rho.

Delta = 1/qhat is the parameter in which nothing is iterated: V = MMSE_rho(Delta), alpha = V/(2 Delta F((Q - V)/V)).
At small width (rho -> 0, alpha of the order of rho) it is t = rho/qhat: V = t (2 - t), alpha/rho = (2 - t)/(2 F(q/V)).
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy.optimize import brentq

from ..core.errors import ConvergenceError
from ..core.results import Estimate
from .branches import at_onset, check_single, nearly_recovered, scanned
from .channels import Channel, Entries
from .checks import CITE, above_zero, from_zero
from .results import EvolutionPoint
from .spectrum import mmse, overlap_gain

Ends = tuple[float, float]
__all__ = ["alpha_at", "curve", "evolve", "iterate", "recovery"]

_EPS = float(np.finfo(float).eps)
_LARGEST = 1e25
# Relative widths of the bracket that is returned: the least with signs at its ends that are beyond their errors.
_WIDTHS = tuple(10.0 ** (k / 4) for k in range(-52, 13))


def recovery(rho: float) -> float:
    """2 alpha_c K, the value of 2 alpha K at which S is recovered: 2 rho - rho^2 below rho = 1, else 1.

    It is twice the number of degrees of freedom of S over d^2.
    """
    return rho * (2 - rho) if rho < 1 else 1.0


class _Route:
    """V, q and alpha as functions of Delta (or, at small width, of t)."""

    def __init__(self, rho: float, output: Channel) -> None:
        self.rho, self.output = rho, output
        self.evaluations = 0

    def state(self, x: float) -> tuple[Estimate, Estimate]:
        """V and q."""
        if self.rho == 0:
            return Estimate(x * (2 - x), 2 * _EPS, "estimated"), Estimate((1 - x) ** 2, 2 * _EPS, "estimated")
        gain = overlap_gain(self.rho, x)
        return mmse(self.rho, x), Estimate(self.rho + gain.value, gain.error + _EPS * self.rho, "estimated")

    def alpha(self, x: float) -> Estimate:
        """The alpha that belongs to it."""
        self.evaluations += 1
        V, q = self.state(x)
        if V.value <= 0:
            raise ConvergenceError(
                f"MMSE_rho(Delta) at rho = {self.rho:g}, Delta = {x:g} is below its error {V.error:.1e}; "
                "spectrum.mmse_digits has more digits"
            )
        F = self.output.information(q.value / V.value, V.value)
        value = (2 - x) / (2 * F.value) if self.rho == 0 else V.value / (2 * x * F.value)
        relative = V.error / V.value + F.error / F.value + 4 * _EPS
        return Estimate(value, relative * value, "estimated")


def alpha_at(delta: float, rho: float, output: Channel) -> Estimate:
    """Alpha at which 1/qhat = Delta is a fixed point; at rho = 0 Delta stands for t, and alpha for alpha/rho.

    Parameters
    ----------
    delta : float
        Positive, below 1 at rho = 0.
    rho : float
        Width r/d >= 0; 0 is the limit of small width.
    output : Channel

    Returns
    -------
    Estimate

    References
    ----------
    boncoraglio2025, state evolution and Corollary 4.2.
    """
    rho = from_zero("rho", rho, "rho = r/d")
    delta = above_zero("delta", delta, "1/qhat")
    if rho == 0 and delta > 1:
        raise ValueError(f"delta must be <= 1 at rho = 0, where it stands for t ({CITE}, Corollary 4.2), got {delta!r}")
    return _Route(rho, output).alpha(delta)


def evolve(alpha: float, rho: float, output: Channel) -> EvolutionPoint:
    """Fixed point of the state evolution, by the root of alpha(Delta) = alpha inside a bracket.

    Parameters
    ----------
    alpha : float
        n/d^2 >= 0; at rho = 0, alpha/rho.
    rho : float
        Width r/d, in [1e-30, 1e30], or 0 for the limit of small width.
    output : Channel
        See `channels.channel`.

    Returns
    -------
    EvolutionPoint
        Its errors bound V between the ends of the bracket, if alpha(Delta) decreases (which it does in every case
        tried; it is not proved).

    Raises
    ------
    ValueError
        An argument out of range.

    References
    ----------
    boncoraglio2025, state evolution and Corollary 4.2.
    """
    return _evolve(alpha, rho, output, None)


def _evolve(alpha: float, rho: float, output: Channel, guess: float | None) -> EvolutionPoint:
    alpha = from_zero("alpha", alpha, "alpha = n/d^2")
    rho = from_zero("rho", rho, "rho = r/d")
    if rho:
        rho = above_zero("rho", rho, "rho = r/d")
    route = _Route(rho, output)
    none = Estimate(0.0, 0.0, "rigorous")

    def point(
        V: Estimate, q: Estimate, x: float, ends: tuple[float, float], residual: float, say: str
    ) -> EvolutionPoint:
        q_hat = 0.0 if math.isinf(x) else math.inf if x == 0 else (1 if rho else 0) / x
        return EvolutionPoint(
            alpha=alpha,
            rho=rho,
            activation=output.name,
            tokens=output.tokens,
            mmse=V,
            overlap=q,
            q_hat=q_hat,
            bracket=ends,
            converged=True,
            status=f"converged: {say}",
            n_iter=route.evaluations,
            residual=residual,
            history=np.empty(0),
        )

    if output.functionals is not None:
        needed = 2.0 if rho == 0 else recovery(rho)
        if 2 * alpha * output.functionals >= needed:
            full = Estimate(1 + rho, 0.0, "rigorous")
            return point(none, full, 0.0, (0.0, 0.0), 0.0, "recovered, for 2 alpha K >= lim MMSE/Delta")
    if alpha == 0:
        one = Estimate(1.0, 0.0, "rigorous")
        return point(one, Estimate(rho, 0.0, "rigorous"), math.inf, (math.inf, math.inf), 0.0, "alpha = 0")
    start = output.information(rho)
    first = 0.5 if rho == 0 else 1 / (2 * alpha * start.value)
    if isinstance(output, Entries):
        check_single(route, alpha, scanned(rho, output.noise, min(first, _LARGEST)))
    if rho == 0 and 2 * alpha * (start.value - start.error) <= 1:
        if 2 * alpha * (start.value + start.error) > 1:
            V, q, least = at_onset(route, alpha, _WIDTHS)
            residual = abs(route.alpha(1 - math.sqrt(q.value)).value - alpha)
            said = "alpha/rho is that of weak recovery, within the error of F(0)"
            return point(V, q, least, (least, 1.0), residual, said)
        say = "below weak recovery, alpha/rho <= 1/(2 F(0))"
        one, none = Estimate(1.0, 0.0, start.how), Estimate(0.0, 0.0, start.how)
        return point(one, none, math.inf, (math.inf, math.inf), 0.0, say)
    # Of Delta: below, S counts as recovered, and V as zero up to it.
    recovered = 1e-15
    low, high = (recovered, 1.0) if rho == 0 else (recovered, _LARGEST)
    first = guess if guess is not None else first
    return _solve(route, alpha, min(max(first, 2 * low), high / 2), low, high, point)


def _solve(
    route: _Route, alpha: float, first: float, low: float, high: float, point: Callable[..., EvolutionPoint]
) -> EvolutionPoint:
    def off(log_x: float) -> float:
        return math.log(route.alpha(math.exp(log_x)).value / alpha)

    root = _root(off, math.log(first), math.log(low), math.log(high))
    if root == math.inf:
        raise ConvergenceError(
            f"no fixed point at alpha = {alpha:g} with Delta <= {high:g} ({CITE}, state evolution); for alpha "
            "this small MMSE = 1 - 2 alpha F(rho)"
        )
    if root == -math.inf:
        V, q = route.state(low)
        bound = Estimate(0.0, V.value + V.error, "estimated")
        residual = abs(route.alpha(low).value - alpha)
        return point(bound, Estimate(q.value, bound.error, "estimated"), low, (0.0, low), residual, "recovered")
    x = math.exp(root)
    V, q = route.state(x)

    def ends_at(width: float) -> Ends:
        return x / (1 + width), min(x * (1 + width), high)

    def holds(width: float) -> bool:
        above, below = (route.alpha(end) for end in ends_at(width))
        return above.value - above.error > alpha > below.value + below.error

    width = _least_width(holds)
    if width is None:
        above = route.alpha(ends_at(_WIDTHS[-1])[0])
        nearly = nearly_recovered(route, alpha, x, high) if route.output.functionals is not None else None
        if nearly is not None:
            return point(
                *nearly, x, (0.0, x), abs(above.value - alpha), "recovered to within the error of alpha(Delta)"
            )
        raise ConvergenceError(
            f"alpha(Delta) at Delta = {x:g} is not known well enough to bracket alpha = {alpha:g}: error "
            f"{above.error:.1e} ({CITE}, state evolution)"
        )
    ends = ends_at(width)
    outer = [route.state(end)[0] for end in ends]
    error = max(abs(V.value - v.value) + v.error for v in outer)
    return point(
        Estimate(V.value, error, "estimated"),
        Estimate(q.value, error + q.error, "estimated"),
        x,
        ends,
        abs(route.alpha(x).value - alpha),
        f"alpha(Delta) = alpha inside a bracket of relative width {2 * width:.0e}",
    )


def _root(off: Callable[[float], float], first: float, floor: float, ceiling: float) -> float:
    """Where a falling function of log Delta is zero, looked for from `first` on; infinite if beyond one of the ends."""
    left, at_left = first, off(first)
    # alpha(Delta) falls, so Delta grows while alpha is too large.
    step = 1.0 if at_left > 0 else -1.0
    while True:
        right = min(max(left + step, floor), ceiling)
        at_right = off(right)
        if at_left * at_right <= 0:
            return float(brentq(off, *sorted((left, right)), xtol=1e-14, rtol=1e-15)) if at_right else right
        if right in (floor, ceiling):
            return math.copysign(math.inf, step)
        left, at_left, step = right, at_right, 2 * step


def _least_width(holds: Callable[[float], bool]) -> float | None:
    """Least width of the bracket whose ends are beyond their errors, as those of all wider ones are; None: of none."""
    if holds(_WIDTHS[0]):
        return _WIDTHS[0]
    if not holds(_WIDTHS[-1]):
        return None
    not_yet, enough = 0, len(_WIDTHS) - 1
    while enough - not_yet > 1:
        middle = (not_yet + enough) // 2
        not_yet, enough = (not_yet, middle) if holds(_WIDTHS[middle]) else (middle, enough)
    return _WIDTHS[enough]


def curve(
    alphas: Iterable[float],
    rho: float,
    output: Channel,
    *,
    progress: Callable[[EvolutionPoint], None] | None = None,
) -> list[EvolutionPoint]:
    """Fixed points along alpha, in the order given; each starts its search where the last one ended.

    Parameters
    ----------
    alphas : iterable of float
        Each >= 0.
    rho, output
        As in `evolve`.
    progress : callable, keyword-only, optional
        Called with every point.
    """
    points: list[EvolutionPoint] = []
    guess = None
    for alpha in alphas:
        points.append(_evolve(alpha, rho, output, guess))
        x = points[-1].bracket[1]
        guess = x if 0 < x < math.inf else None
        if progress is not None:
            progress(points[-1])
    return points


def iterate(
    alpha: float, rho: float, output: Channel, *, tol: float = 1e-10, max_iter: int = 2000, throw: bool = False
) -> EvolutionPoint:
    """Fixed point by iterating both equations from q = rho, as the algorithm goes; the check of `evolve`.

    Parameters
    ----------
    alpha, rho, output
        As in `evolve`, rho > 0.
    tol : float, keyword-only
        On the change of q; rounding, 1e-15, at least.
    max_iter : int, keyword-only
    throw : bool, keyword-only
        Raise if not converged, instead of marking it.

    Raises
    ------
    ConvergenceError
        `throw` and no convergence.
    """
    alpha, rho = from_zero("alpha", alpha, "alpha = n/d^2"), above_zero("rho", rho, "rho = r/d")
    # Iterates may go round in the last bits of V <= 1.
    tol = max(above_zero("tol", tol, "change of q"), 4 * _EPS)
    V, history, change, q_hat = Estimate(1.0, 0.0, "estimated"), [1.0], math.inf, 0.0
    for _ in range(max_iter):
        if V.value <= 0 or alpha == 0:
            change = 0.0
            break
        F = output.information((1 + rho - V.value) / V.value, V.value)
        q_hat = 2 * alpha / V.value * F.value
        old, V = V.value, mmse(rho, 1 / q_hat) if q_hat < _LARGEST else Estimate(0.0, 1 / q_hat, "estimated")
        change = abs(V.value - old)
        history.append(V.value)
        if change <= tol:
            break
    converged, steps = change <= tol, len(history) - 1
    # What is left of a geometric approach, by the ratio of its last two steps.
    steps_taken = np.abs(np.diff(history[-3:]))
    ratio = min(float(steps_taken[-1] / steps_taken[-2]), 1 - 1e-6) if len(history) > 2 and steps_taken[-2] > 0 else 0.0
    error = change / (1 - ratio) + V.error
    status = (
        f"converged after {steps} iterations"
        if converged
        else (f"not converged: q changes by {change:.1e} > {tol:g} after {steps} iterations; raise max_iter")
    )
    if throw and not converged:
        raise ConvergenceError(status)
    return EvolutionPoint(
        alpha=alpha,
        rho=rho,
        activation=output.name,
        tokens=output.tokens,
        mmse=Estimate(V.value, error, "estimated"),
        overlap=Estimate(1 + rho - V.value, error, "estimated"),
        q_hat=q_hat,
        bracket=(math.nan, math.nan),
        converged=converged,
        status=status,
        n_iter=steps,
        residual=change,
        history=np.array(history),
    )
