"""Several layers: the curve of fixed points by predictor and corrector.

The unknowns are w = -log(1 - q) of the layers of positive overlap, and the logarithm t of the parameter. Their Jacobian
comes from finite differences at the points asked for and is carried between them by Broyden's updates.
Steps follow the arc of the curve, which may turn back in t.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..newton import broyden
from .equations import Equations, Local
from .fold import turning_point

__all__ = ["Stop", "Walker"]

Array = NDArray[np.float64]

# Evaluations of a corrector, its largest step in w, and points after which the Jacobian is taken afresh.
_MOST, _STEP, _REFRESH = 14, 0.6, 5


@dataclass(frozen=True)
class Stop:
    """Where a walk ends.

    Attributes
    ----------
    reason : {"target", "fold", "joins", "leaves", "lost"}
    w : ndarray
    t : float
    group : int
        Which one joins or leaves.
    """

    reason: str
    w: Array
    t: float
    group: int = -1


class _Aim(NamedTuple):
    """Where a step leads: w, and (free w, t), row @ which is to be `value`; `last` if it ends at the target."""

    w: Array
    predicted: Array
    t: float
    row: Array
    value: float
    step: float
    last: bool


class Walker:
    """Follows one branch.

    Parameters
    ----------
    equations : Equations
    w : ndarray, shape (n,)
        Near a fixed point.
    t : float
        Logarithm of the parameter there.
    active : list of int
        Groups of positive overlap.
    tol : float
        On max |F(q) - q|.
    capped : iterable of int, optional
        Groups at the closest overlap to one that is asked for.
    """

    # Arc steps: the first, the longest, and the shortest.
    _first, _longest, _shortest = 0.4, 1.0, 1e-4

    # Largest disagreement in log alpha, in units of `tol`.
    _agreed = 3.0

    def __init__(
        self,
        equations: Equations,
        w: Array,
        t: float,
        active: list[int],
        tol: float,
        *,
        capped: Iterable[int] = (),
    ) -> None:
        self.equations, self.tol = equations, tol
        self.w, self.t = w.copy(), t
        self.active = sorted(active)
        self.capped = list(capped)
        self._jacobian: Array | None = None
        self._age = 0
        self._length = self._first

    @property
    def free(self) -> list[int]:
        """Groups whose overlap is solved for."""
        return [k for k in self.active if k not in self.capped]

    def local(self) -> Local:
        """Averages where the walker stands."""
        return self.equations.at(self.w, self.t)

    def residual(self) -> float:
        """Max |F(q) - q| there."""
        return self.equations.residual(self.local(), self.t, self.free)

    # --- Jacobian -----------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take the Jacobian afresh."""
        by_w, by_t = self.equations.slopes(self.w, self.t, self.free)
        self._jacobian = np.column_stack([by_w, by_t])[self.free]
        self._age = 0

    def renew(self) -> None:
        """Take it afresh if it has only been carried here: errors and stability need it at this point."""
        if self._age:
            self.refresh()

    def jacobian(self) -> Array:
        """Derivatives of the equations by the free w and t."""
        if self._jacobian is None or self._jacobian.shape[0] != len(self.free):
            self.refresh()
        assert self._jacobian is not None
        return self._jacobian

    def set_jacobian(self, jacobian: Array) -> None:
        """Take a Jacobian that is known otherwise."""
        self._jacobian, self._age = jacobian, 0

    def _tangent(self, before: Array) -> Array:
        """Unit null vector of the Jacobian, on the side of a direction."""
        out: Array = np.linalg.svd(self.jacobian())[2][-1]
        return out if out @ before >= 0 else -out

    # --- corrector ----------------------------------------------------------------------------------------------------

    def correct(self, w: Array, t: float, row: Array, value: float) -> int | None:
        """Solve the equations with row @ (free w, t) = value, from a prediction; None once solved.

        Otherwise the group whose overlap goes through zero or beyond the closest, or -1.
        """
        free, jacobian = self.free, self.jacobian()
        z = np.append(w[free], t)
        before: tuple[Array, Array] | None = None
        for tried in range(_MOST):
            low = [k for k, at in zip(free, z, strict=False) if at <= 0]
            if low:
                return low[0]
            at = w.copy()
            at[free] = np.minimum(z[:-1], self.equations.top)
            z = np.append(at[free], z[-1])
            local = self.equations.at(at, float(z[-1]))
            log_alpha = self.equations.log_alpha(float(z[-1]))
            wrong = local.log_alpha[free] - log_alpha
            if not np.isfinite(wrong).all():
                return -1
            if before is not None:
                step = z - before[0]
                # The derivative by log alpha is known.
                learned = step * np.append(np.ones(len(free)), self.equations.alpha is not None)
                jacobian = broyden(jacobian, step, wrong - before[1], along=learned)
            missed = float(row @ z - value)
            near = self.equations.residual(local, float(z[-1]), free) <= self.tol and abs(missed) <= 1e-10
            # Close to recovery the residual is small wherever one stands: the layers have to agree, too.
            if near and (float(np.abs(wrong).max()) <= self._agreed * self.tol or tried >= _MOST // 2):
                self.w, self.t, self._jacobian = at, float(z[-1]), jacobian
                return None
            capped = [k for i, k in enumerate(free) if at[k] >= self.equations.top and wrong[i] < 0]
            if capped:
                return capped[0]
            before = z.copy(), wrong
            try:
                step = np.linalg.solve(np.vstack([jacobian, row]), -np.append(wrong, missed))
            except np.linalg.LinAlgError:
                return -1
            longest = float(np.abs(step[:-1]).max())
            z = z + step * min(1.0, _STEP / max(longest, 1e-300))
        return -1

    def solve_at(self, w: Array, t: float) -> bool:
        """Fixed point at one value of the parameter from a guess; groups that exceed the closest overlap are capped."""
        for _ in range(len(self.active) + 1):
            row = np.append(np.zeros(len(self.free)), 1.0)
            if not self.free:
                self.w, self.t = w.copy(), t
                return True
            if self._jacobian is None or self._age >= _REFRESH:
                held = self.w, self.t
                self.w, self.t = w, t
                self.refresh()
                self.w, self.t = held
            found = self.correct(w, t, row, t)
            if found is None:
                self._age += 1
                return True
            if found < 0 or w[found] < 0.5 * self.equations.top:
                return False
            w = w.copy()
            self._cap(found)
            w[found] = self.equations.top
        return False

    def _cap(self, group: int) -> None:
        self.capped.append(group)
        self.w = self.w.copy()
        self.w[group] = self.equations.top
        self._jacobian = None

    def _back(self) -> int | None:
        """Group at the closest overlap that would rest below it."""
        told = self.local().log_alpha - self.equations.log_alpha(self.t)
        back = [k for k in self.capped if told[k] > self._agreed * self.tol]
        return max(back, key=lambda k: float(told[k])) if back else None

    # --- walking ------------------------------------------------------------------------------------------------------

    def to(self, target: float) -> Stop:
        """Follow the branch to a value of t; stops where a layer joins or leaves, and past a fold."""
        way = 1.0 if target > self.t else -1.0
        peak, slack = (self.w, self.t), 0.0
        length, tangent = self._length, np.append(np.zeros(len(self.free)), way)
        # An arc that has come back in t by so many times what the layers disagree has turned.
        turned = 5.0
        # An overlap that goes through zero within an arc step of this has left; longer steps are shortened first.
        leaves = 0.02
        most_steps = 100
        for _ in range(most_steps):
            back = self._back()
            if back is not None:
                freed = self._leave_corner(back, way)
                if isinstance(freed, Stop):
                    return freed
                tangent, peak, slack = freed, (self.w, self.t), 0.0
            if self.t == target:
                return self._arrived(target)
            if not self.free:
                self.t = target
                continue
            tangent, here = self._direction(tangent, way), (self.w, self.t)
            aim = self._aim(tangent, target, way, length)
            gone = [k for k, at in zip(self.free, aim.predicted, strict=False) if at <= 0]
            if gone:
                if aim.step > leaves:
                    length = 0.5 * aim.step
                    continue
                return Stop("leaves", self.w, self.t, gone[0])
            found = self.correct(aim.w, aim.t, aim.row, aim.value)
            if found is None and self._missed(aim):
                self.w, self.t = here
                found = -1
            if found is not None:
                near_top = found >= 0 and aim.w[found] > 0.8 * self.equations.top
                if near_top and self._enter_corner(found, target, way):
                    peak, slack = (self.w, self.t), 0.0
                elif found >= 0 and aim.step <= leaves:
                    return Stop("leaves", self.w, self.t, found)
                elif aim.step < self._shortest:
                    return Stop("lost", self.w, self.t)
                else:
                    length = 0.4 * aim.step
                    self._jacobian = None if aim.step < 0.05 else self._jacobian
                continue
            self._age += 1
            length = self._length = max(length, 0.1) if aim.last else min(1.6 * max(aim.step, 0.1), self._longest)
            if (self.t - target) * way > 0:
                # Beyond the target, to which the next step leads back.
                continue
            if (self.t - peak[1]) * way > 0:
                peak, slack = (self.w, self.t), self._disagreement()
            elif (peak[1] - self.t) * way > turned * (slack + self._disagreement()):
                return Stop("fold", *turning_point(self, peak, way))
            joins = self.unstable()
            if joins is not None:
                return Stop("joins", self.w, self.t, joins)
        return Stop("lost", self.w, self.t)

    def _direction(self, before: Array, way: float) -> Array:
        """Tangent of the branch on the side of the one before; along t where other overlaps are free."""
        if self._jacobian is None or self._age >= _REFRESH:
            self.refresh()
        if len(before) != len(self.free) + 1:
            before = np.append(np.zeros(len(self.free)), way)
        return self._tangent(before)

    def _aim(self, tangent: Array, target: float, way: float, length: float) -> _Aim:
        """Step along the tangent; a target a little farther than the next step is met at once."""
        straight = (target - self.t) / tangent[-1] if tangent[-1] * way > 1e-3 else math.inf
        last = straight <= 1.5 * length
        step = straight if last else length
        w = self.w.copy()
        predicted = np.append(self.w[self.free], self.t) + step * tangent
        w[self.free] = np.minimum(predicted[:-1], self.equations.top)
        if last:
            return _Aim(w, predicted, target, np.append(np.zeros(len(self.free)), 1.0), target, step, last)
        return _Aim(w, predicted, float(predicted[-1]), tangent, float(tangent @ predicted), step, last)

    def _missed(self, aim: _Aim) -> bool:
        """Whether the corrector has gone to another branch."""
        return bool(np.abs(np.append(self.w[self.free], self.t) - aim.predicted).max() > max(0.1, aim.step))

    def _enter_corner(self, group: int, target: float, way: float) -> bool:
        """Go to where the overlap of a group reaches the closest one, if that is before the target."""
        w = self.w.copy()
        w[group] = self.equations.top
        w, t, _, left = self.equations.meet(w, self.t, [k for k in self.free if k != group], group)
        if left > self._agreed * self.tol or (t - self.t) * way < 0 or (target - t) * way < 0:
            return False
        self._cap(group)
        self.w, self.t = w, t
        return True

    def _leave_corner(self, group: int, way: float) -> Stop | Array:
        """Free a group that would rest below the closest overlap, where it begins to; the tangent from there.

        If its overlap falls as the parameter turns back, there is no fixed point beyond.
        """
        w, t, *_ = self.equations.meet(self.w, self.t, self.free, group)
        self.w, self.t = w, t
        self.capped.remove(group)
        self.refresh()
        inwards = -(np.append(np.array(self.free) == group, 0.0))
        tangent = self._tangent(inwards)
        return Stop("fold", w, t) if tangent[-1] * way <= 0 else tangent

    def _disagreement(self) -> float:
        told = self.local().log_alpha[self.free] - self.equations.log_alpha(self.t)
        return max(float(np.abs(told).max(initial=0.0)), 1e-2 * self.tol)

    def _arrived(self, target: float) -> Stop:
        joins = self.unstable()
        return Stop("target" if joins is None else "joins", self.w, target, -1 if joins is None else joins)

    def unstable(self) -> int | None:
        """Group of zero overlap that grows fastest, if any does."""
        told = self.local().log_alpha - self.equations.log_alpha(self.t)
        silent = [k for k in range(len(told)) if k not in self.active and told[k] < 0]
        return min(silent, key=lambda k: float(told[k])) if silent else None
