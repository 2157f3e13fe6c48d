"""All stationary points of Phi over the overlaps of the groups, with type, stability and free entropy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from ..core.errors import ConvergenceError
from ..core.results import Estimate
from ..priors import responses
from .balance import GroupBalance
from .entropy import FreeEntropy
from .points import StationaryPoint, in_order
from .starts import OFF, evaluate_ahead, newton_points

__all__ = ["FLAT", "stationary_points"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)
# A line is scanned at these w, and then in steps: of one group, and of more, whose averages take longer.
_BEGIN, _STEP, _COARSE_STEP = np.geomspace(1e-3, 0.3, 7), 0.3, 0.6
#: Eigenvalues of the Hessian below this share of alpha E G^2 have no sign.
FLAT = 1e-9


def stationary_points(
    free: FreeEntropy,
    *,
    closest: float | None = None,
    starts: int = 2,
    rng: np.random.Generator | int = 0,
    balance: GroupBalance | None = None,
) -> tuple[StationaryPoint, ...]:
    """Stationary points with diagonal overlaps, in the order of their free entropy, the global maximum first.

    Parameters
    ----------
    free : FreeEntropy
    closest : float, optional
        Distance to one beyond which an overlap counts as recovered.
    starts : int, optional
        Random starts where several groups have an overlap, beside those near zero, near one and between the points
        that were found.
    rng : Generator or int, optional
    balance : GroupBalance, optional
        Of the same output and prior, whose evaluations are used again.

    Returns
    -------
    tuple of StationaryPoint

    Raises
    ------
    ValueError
        An argument is outside its range.
    ConvergenceError
        None was found.

    Notes
    -----
    Overlaps of a group are zero (stationary by parity), recovered, or free. One free group is scanned along the whole
    line, so that no point wider than the scan is missed; more are looked for by Newton's method from all starts.

    References
    ----------
    troiani2025, (10), (14), (100)-(103).
    """
    if isinstance(starts, bool) or not isinstance(starts, int) or starts < 0:
        raise ValueError(f"starts must be an integer >= 0, got {starts!r}")
    balance = GroupBalance(free.output, free.prior, closest) if balance is None else balance
    if free.alpha == 0:
        given = np.array([balance.given[group[0]] for group in free.output.groups])
        return (_point(free, balance, -np.log1p(-given)),)
    generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
    search = _Search(balance, math.log(free.alpha), starts, generator)
    found = [_point(free, balance, w) for w in search.points()]
    if (limit := free.recovered()).value > -math.inf:
        found.append(_recovered(free, balance, np.full(len(free.output.groups), balance.top), limit))
    if not found:
        raise ConvergenceError(
            f"no stationary point (14) of {free.output.describe()} was found at alpha = {free.alpha:g}: raise starts, "
            "or ask for overlaps closer to one (closest)"
        )
    return in_order(found)


class _Search:
    """Points w at which every group is zero, at the top, or stationary at this alpha."""

    def __init__(self, balance: GroupBalance, log_alpha: float, starts: int, rng: np.random.Generator) -> None:
        self.balance, self.log_alpha, self._starts, self._rng = balance, log_alpha, starts, rng
        self._size = len(balance.output.groups)

    def points(self) -> list[Array]:
        """All that are found, faces first."""
        found: list[Array] = []
        states = product("0f1" if self.balance.apart else "0f", repeat=self._size)
        # Distance of points that are one.
        same = 1e-3
        for state in sorted(states, key=lambda state: state.count("f")):
            if set(state) == {"1"}:
                continue
            w = np.array([self.balance.top if s == "1" else 0.0 for s in state])
            free = [k for k, s in enumerate(state) if s == "f"]
            for at in self._of_face(w, free, found):
                if self._holds(at, state) and not any(np.abs(at - other).max() < same for other in found):
                    found.append(at)
        return found

    def _holds(self, w: Array, state: tuple[str, ...]) -> bool:
        """Whether overlaps of zero are stationary, and those at the top go on to one."""
        log_alphas = self.balance(w)
        zero = all(log_alphas[k] > -math.inf for k, s in enumerate(state) if s == "0")
        return zero and all(log_alphas[k] < self.log_alpha for k, s in enumerate(state) if s == "1")

    def _of_face(self, w: Array, free: list[int], found: list[Array]) -> Iterator[Array]:
        if not free:
            yield w
        elif len(free) == 1:
            yield from self._on_line(w, free[0])
        else:
            yield from newton_points(self.balance, list(self._starting(w, free, found)), free, self.log_alpha)

    def _on_line(self, w: Array, k: int) -> Iterator[Array]:
        """Every change of sign of log alpha_k - log alpha along one group."""
        top = self.balance.top

        def moved(x: float) -> Array:
            at = w.copy()
            at[k] = x
            return at

        def wrong(x: float) -> float:
            return float(np.clip(self.balance(moved(x))[k] - self.log_alpha, -700.0, 700.0))

        step = _STEP if self._size == 1 else _COARSE_STEP
        nodes = np.append(np.concatenate([_BEGIN, np.arange(_BEGIN[-1] + step, top - 0.1, step)]), top)
        tiny = np.geomspace(1e-12, 1e-4, 5)
        if self.balance(w)[k] == -math.inf:
            # Any alpha sets it off, by an overlap of that order.
            nodes = np.concatenate([tiny, nodes])
        evaluate_ahead(self.balance, [moved(float(x)) for x in nodes])
        values = np.array([wrong(float(x)) for x in nodes])
        nodes, values = _with_folds(nodes, values, wrong)
        for a, b, left, right in zip(nodes[:-1], nodes[1:], values[:-1], values[1:], strict=True):
            # Stationary at a node itself, too: zero counts as above.
            if math.isfinite(left + right) and (left < 0) != (right < 0):
                yield moved(brentq(wrong, float(a), float(b), xtol=1e-13, rtol=1e-13))

    def _starting(self, w: Array, free: list[int], found: list[Array]) -> Iterator[Array]:
        top = self.balance.top
        near = [np.full(len(free), level) for level in (0.3, 0.6 * top)]
        near += list(self._rng.uniform(0.05, 0.6, (self._starts, len(free))) * top)
        near += [0.5 * (a + b)[free] for i, a in enumerate(found) for b in found[:i]]
        for one in near:
            start = w.copy()
            start[free] = np.clip(one, 10 * OFF, 0.95 * top)
            yield start


def _with_folds(nodes: Array, values: Array, wrong: Callable[[float], float]) -> tuple[Array, Array]:
    """Nodes of a line, and among them folds between which and their neighbours the sign changes twice.

    Just inside a spinodal both points lie between two nodes. A fold is looked for where a parabola through the node
    nearest to it and its neighbours comes at least half as close to zero.
    """
    more = []
    for i in range(1, len(nodes) - 1):
        x, v = nodes[i - 1 : i + 2], values[i - 1 : i + 2]
        sign = math.copysign(1.0, v[1])
        if not (v * sign > 0).all() or (sign * v).argmin() != 1:
            continue
        bend, slope, height = np.polyfit(x - x[1], sign * v, 2)
        if height - 0.25 * slope**2 / bend < 0.5 * height:
            fold = minimize_scalar(
                lambda at, sign=sign: sign * wrong(float(at)),
                bounds=(float(x[0]), float(x[2])),
                method="bounded",
                options={"xatol": 1e-7},
            )
            more.append((float(fold.x), sign * float(fold.fun)))
    joined = np.concatenate([np.column_stack([nodes, values]), np.reshape(more, (-1, 2))])
    nodes, values = joined[np.argsort(joined[:, 0])].T
    return nodes, values


def _point(free: FreeEntropy, balance: GroupBalance, w: Array) -> StationaryPoint:
    output = free.output
    x = balance.overlaps(w)
    capped = w >= balance.top
    if capped.any():
        return _partial(free, balance, w, capped)
    q = output.matrix(x)
    gradient, error = free.gradient(q)
    hessian = free.hessian(x)
    values = np.sort(np.linalg.eigvalsh(hessian))[::-1]
    flat = FLAT * max(float(np.abs(hessian).max()), 1.0)
    kind = "maximum" if (values < flat).all() else "minimum" if (values > -flat).all() else "saddle"
    each = np.array([sum(error[i, i] for i in group) for group in output.groups])
    wrong = np.array([sum(abs(gradient[i, i]) for i in group) for group in output.groups])
    response = np.abs(np.linalg.pinv(hessian))
    # An overlap cannot be off by more than its range, and is rounded; zero is exact.
    moved = np.where(w > 0, np.minimum(response @ np.where(w > 0, each + wrong, 0.0) + _EPS * x, 1.0), 0.0)
    shrink = responses(free.prior, q)
    residual = max((2 * abs(gradient[i, i]) / shrink[i] for group in output.groups for i in group), default=0.0)
    return StationaryPoint(q, output.matrix(moved), free(q), kind, values, kind == "maximum", float(residual))


def _partial(free: FreeEntropy, balance: GroupBalance, w: Array, capped: NDArray[np.bool_]) -> StationaryPoint:
    """With some overlaps at one: the slope of Phi by -log(1 - q) there gives its direction."""
    output = free.output
    g = output.averages(output.matrix(balance.overlaps(w))).g.mean(axis=0)
    rooms = [(k, i) for k, group in enumerate(output.groups) if capped[k] for i in group]
    excess = sum(free.alpha * math.exp(-balance.top) * g[i, i] - free.prior.dimension for _, i in rooms)
    return _recovered(free, balance, w, Estimate(math.copysign(math.inf, excess), 0.0, output.how))


def _recovered(free: FreeEntropy, balance: GroupBalance, w: Array, value: Estimate) -> StationaryPoint:
    """With the overlaps at the top recovered."""
    output, capped = free.output, w >= balance.top
    x = np.where(capped, 1.0, balance.overlaps(w))
    if capped.all() and free.excess():
        stable = free.excess() > 0
    else:
        log_alphas, log_alpha = balance(w), math.log(free.alpha)
        stable = bool((log_alphas[capped] < log_alpha).all() and (log_alphas[w == 0] > log_alpha).all())
    off = output.matrix(np.where(capped, math.exp(-balance.top), 0.0))
    return StationaryPoint(output.matrix(x), off, value, "recovered", np.zeros(0), stable, 0.0)
