"""What is met on the way along a parameter: points with their errors, onsets and jumps."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...channel.two_layers.diagonal import DiagonalQuadrature
from .equations import Equations, Local
from .records import CurvePoint, Jump, Onset
from .settle import eigenvalues
from .walk import Walker

__all__ = ["Trace"]

Array = NDArray[np.float64]


class _Resting(NamedTuple):
    """A fixed point: overlaps x of the groups, their errors, eigenvalues of F', growth rates, groups at the top."""

    x: Array
    error: Array
    values: Array
    growth: Array
    capped: list[int]
    residual: float


class Trace:
    """Points, onsets and jumps from one start.

    Parameters
    ----------
    equations : Equations
    start : {"uninformed", "informed"}
    tol : float
    done : callable
        Called after each point.
    """

    def __init__(self, equations: Equations, start: str, tol: float, done: Callable[[], None]) -> None:
        self._equations, self.start, self._tol, self._done = equations, start, tol, done
        self.points: list[CurvePoint] = []
        self.onsets: list[Onset] = []
        self.jumps: list[Jump] = []
        self._count = equations.n_iter

    def point(self, walker: Walker, parameter: float, note: str = "") -> None:
        """Add the fixed point at which a walker stands."""
        equations, t = self._equations, walker.t
        local, free = walker.local(), walker.free
        alpha = math.exp(equations.log_alpha(t))
        residual = walker.residual()
        x = local.x
        error, values = np.zeros(len(x)), np.zeros(0)
        # The residual counts this much more than the Jacobian says.
        slack = 2.0
        if free:
            walker.renew()
            by_w = walker.jacobian()[:, :-1]
            response = np.asarray(np.linalg.pinv(by_w), dtype=np.float64)
            told = local.log_alpha[free] - equations.log_alpha(t)
            moved = equations.combined(local, free, response) + slack * np.abs(response @ told)
            # An overlap cannot be off by more than its range.
            error[free] = np.minimum((1 - x[free]) * np.expm1(np.minimum(moved, 50.0)), 1.0)
            values = eigenvalues(walker)
        for k in walker.capped:
            error[k] = 1 - x[k]
        growth = np.full(len(x), math.nan)
        silent = [k for k in range(len(x)) if k not in walker.active and math.isfinite(local.log_alpha[k])]
        growth[silent] = [math.exp(equations.log_alpha(t) - local.log_alpha[k]) for k in silent]
        self._add(parameter, alpha, t, _Resting(x, error, values, growth, walker.capped, residual), note)

    def nothing(self, t: float, parameter: float) -> None:
        """Add the fixed point of zero overlap."""
        size = len(self._equations.groups(t))
        zero = np.zeros(size)
        growth = zero
        if parameter > 0 or self._equations.alpha is not None:
            told = self._equations.at(zero, t).log_alpha
            alpha = self._equations.log_alpha(t)
            growth = np.array([math.exp(alpha - x) if math.isfinite(x) else math.nan for x in told])
        alpha = parameter if self._equations.alpha is None else self._equations.alpha
        self._add(parameter, alpha, t, _Resting(zero, zero, np.zeros(0), growth, [], 0.0), "")

    def _add(self, parameter: float, alpha: float, t: float, found: _Resting, note: str) -> None:
        equations, groups = self._equations, self._equations.groups(t)
        converged = found.residual <= self._tol and not note
        recovered = tuple(i for k in found.capped for i in groups[k])
        error = found.error
        if recovered and isinstance(equations.channel(t), DiagonalQuadrature):
            # Attention recovers all layers or none: the others are solved for beside one that is held below one.
            error = np.maximum(error, np.where(found.x > 0, 1 - found.x, 0.0))
        status = f"max |F(q) - q| = {found.residual:.1e}"
        if recovered:
            status += f"; recovered to within {math.exp(-equations.top):.1g}: " + _names(recovered)
        status = f"{'converged' if converged else 'not converged'}: {status}{'; ' if note else ''}{note}"
        wide = np.full(equations.channel(t).model.indices, math.nan)
        for group, value in zip(groups, found.growth, strict=True):
            wide[list(group)] = value
        self.points.append(
            CurvePoint(
                parameter=parameter,
                alpha=alpha,
                overlap=equations.matrix(found.x, t),
                overlap_error=equations.matrix(error, t),
                eigenvalues=found.values,
                growth=wide,
                recovered=recovered,
                converged=converged,
                residual=found.residual,
                n_iter=equations.n_iter - self._count,
                status=status,
            )
        )
        self._count = equations.n_iter
        self._done()

    def onset(self, t: float, local: Local, group: int, error: float) -> None:
        """Add the place where a group turns unstable, unless the way here has met it before."""
        value, equations = math.exp(t), self._equations
        overlap = equations.matrix(local.x, t)
        indices = equations.groups(t)[group]
        known = [one for one in self.onsets if one.indices == indices and abs(one.value - value) <= 1e-3 * value]
        if not known:
            # Two rules share what float64 rounds: of some thousand terms, and of the logarithm of their sum.
            rounding = 64 * np.finfo(float).eps * (1 + abs(t))
            off = value * math.expm1(min(error + rounding, 50.0))
            self.onsets.append(Onset(indices, value, off, overlap, self.start))

    def jump(self, t: float, error: float, before: Array, after: Array, *, rising: bool) -> None:
        """Add a jump between two fixed points, given by their w."""
        q, then = (self._equations.matrix(-np.expm1(-w), t) for w in (before, after))
        self.jumps.append(Jump(math.exp(t), error, "up" if rising else "down", q, then, self.start))


def _names(indices: tuple[int, ...]) -> str:
    return ", ".join(f"q_{i + 1}{i + 1}" for i in indices)
