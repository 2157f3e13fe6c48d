"""Where the iteration settles from any overlap: after a jump, and from the informed start."""

import numpy as np
from numpy.typing import NDArray

from .equations import Equations
from .walk import Walker

__all__ = ["SEED", "eigenvalues", "settled"]

Array = NDArray[np.float64]

# Where a layer that joins starts, in w.
SEED = 0.02


def settled(equations: Equations, tol: float, w: Array, t: float) -> Walker:
    """Walker where the iteration goes from w: other layers join as they turn unstable."""
    walker = Walker(equations, w, t, [], tol)
    for _ in range(len(w) + 1):
        walker = _rested(equations, tol, w, t)
        joins = walker.unstable()
        if joins is None:
            break
        w = walker.w.copy()
        w[joins] = SEED
    return walker


def _rested(equations: Equations, tol: float, w: Array, t: float) -> Walker:
    """Iterate to the neighbourhood of a stable fixed point, and solve for it."""
    walker = Walker(equations, w, t, [], tol)
    # The last change of w before the equations are solved, how much further the solution may be, and how often a
    # smaller one is tried.
    first_within, times, attempts = 0.02, 15.0, 4
    within = first_within
    # After a jump, overlaps below this may be dying out.
    least = 0.05
    for _ in range(attempts):
        w = _relaxed(equations, w, t, within)
        active = [k for k in range(len(w)) if w[k] > 0]
        walker = Walker(equations, w, t, active, tol, capped=[k for k in active if w[k] >= equations.top])
        near = walker.solve_at(w, t) and float(np.abs(walker.w - w).max()) <= times * within
        if near and (not walker.free or eigenvalues(walker)[0] < 1):
            return walker
        weak = [k for k in active if w[k] < least]
        if weak:
            # A layer that dies out slowly is stationary at zero, if it is stable there.
            w = np.where(np.isin(np.arange(len(w)), weak), 0.0, w)
            without = _rested(equations, tol, w, t)
            if without.unstable() is None:
                return without
            w = walker.w
        # The bottleneck that a fold leaves is passed slowly.
        within /= 5
    return walker


def _relaxed(equations: Equations, w: Array, t: float, within: float) -> Array:
    """Iterate q -> F(alpha G(q)) with longer steps while it goes one way, until w changes by little."""
    before, speed = np.zeros(len(w)), 1.0
    log_alpha = equations.log_alpha(t)
    # After a jump, overlaps below this have died out.
    dead = 1e-5
    # Evaluations after a jump.
    settling = 100
    for _ in range(settling):
        told = equations.at(w, t).log_alpha
        # What an overlap has as qhat, times alpha/alpha_l, is alpha G.
        moved = equations.law(t).image(w, log_alpha - told)
        step = np.minimum(moved, equations.top) - w
        speed = 1.0 if (step * before < 0).any() else min(1.3 * speed, 4.0)
        w = np.clip(w + speed * step, 0.2 * w, equations.top)
        w = np.where((w < dead) & (step < 0), 0.0, w)
        before = step
        if float(np.abs(step).max()) <= within:
            break
    return w


def eigenvalues(walker: Walker) -> Array:
    """Of F' in the directions of positive overlap, largest first."""
    free, law = walker.free, walker.equations.law(walker.t)
    rise, left = law.rise(walker.w)[np.ix_(free, free)], 1 - walker.local().x[free]
    feedback = np.eye(len(left)) - rise @ (walker.jacobian()[:, :-1] / left)
    return np.sort(np.real(np.linalg.eigvals(feedback)))[::-1]
