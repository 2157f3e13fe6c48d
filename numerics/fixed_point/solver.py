"""Anderson-accelerated iteration of state evolution, and the error of the fixed point it finds."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Channel
from ..core.results import How
from ..core.standard_error import SIGMAS, standard_error
from ..model.routes import SAMPLED_LAYERS
from .anderson import anderson
from .error import blocked, fixed_point_error, growth_error
from .free_entries import FreeEntries
from .known_rates import last_layer_norm

__all__ = ["DEAD", "RECOVERED", "SEED", "Solver", "Tolerance"]

Array = NDArray[np.float64]

# The largest overlap that is resolved; beyond it the weights count as recovered.
RECOVERED = 1 - 1e-6
# Where a layer that has just turned unstable starts.
SEED = 0.05
_MEMORY = 4
# Least overlap of an active layer, and the overlap below which a layer may be dropped again.
_TINY = 1e-9
DEAD = 1e-5
# An overlap this close to 1 may be on the way to recovery.
_NEARLY = 1e-2
# Overlaps that may be left by steps below `tol` on the way to zero, in units of it.
_WAY = 20.0
# Evaluations after which a share of the statistical error is enough, for averages that need it.
_PATIENCE, _ROUGH = 24, 0.1


class Tolerance(NamedTuple):
    """Largest max |F(q) - q| at which an iteration ends, and why it is not the one asked for, where it is larger."""

    value: float
    why: str = ""


class Solver:
    """Anderson-accelerated iteration of q -> F(alpha G(q)) on the symmetric matrices over the active layers."""

    def __init__(self, averages: Channel, alpha: float, tol: float, max_iter: int, *, relative: bool = False) -> None:
        self.averages = averages
        # Whether `tol` is in units of 1 - q (plain steps from near recovery are short wherever they lead), and a tenth
        # of the statistical error is enough for averages that are not smooth.
        self.relative = relative
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.q = np.zeros((averages.model.indices,) * 2)
        self.latest: Averages | None = None
        self.residual = 0.0
        self.history: list[Array] = []
        self.n_iter = 0
        self.converged = False
        self.free: list[tuple[int, int]] = []
        # Layers that were learned and have died out, and those that were found to stay at zero overlap.
        self.dead: set[int] = set()
        self.silent: set[int] = set()
        # What was asked for in the end.
        self.tolerance = Tolerance(tol)
        self._path: list[tuple[Array, Averages]] = []
        # Indices that are learned together, and whether they share one overlap.
        self.groups = averages.groups
        self.equal = averages.equal

    def image(self, g: Array) -> Array:
        """F(alpha g), for g of shape (..., P, P)."""
        qhat = self.alpha * g
        out: Array = qhat @ np.linalg.inv(np.eye(g.shape[-1]) + qhat)
        return 0.5 * (out + np.swapaxes(out, -1, -2))

    def grow(self, q: Array) -> None:
        """Settle on the layers of q, then let unstable layers join until none is left."""
        active = [int(i) for i in np.flatnonzero(q.diagonal())]
        self.silent = set(self.averages.layers)
        # Averages of several accuracies need not agree on what is marginal: what has died out does not join again.
        self.dead.clear()
        while True:
            if active:
                before = set(active)
                self.settle(q, active)
                self.release(active)
                self.dead |= before - set(active)
            if not active:
                self.rest()
            unstable = [i for i, rate in enumerate(self.stability()) if rate > 1 and i not in {*active, *self.dead}]
            if not unstable or not self.converged:
                return
            # The fastest direction first: it may change the stability of the others.
            rates = self.stability()
            joining = self._group(max(unstable, key=lambda i: float(rates[i])))
            active += joining
            q = self.q.copy()
            q[joining, joining] = SEED

    def _group(self, index: int) -> list[int]:
        return list(next(group for group in self.groups if index in group))

    def release(self, active: list[int], below: float = DEAD) -> None:
        """Set overlaps that have died out to zero, and take their layers off the list, if they are stable there."""
        for group in [g for g in self.groups if g[0] in active and all(self.q[i, i] < below for i in g)]:
            q = self.q.copy()
            for i in group:
                q[i, :] = q[:, i] = 0.0
            latest = self.averages(q)
            self.n_iter += 1
            if not self.alpha * latest.growth[:, group[0]].mean() > 1:
                self.q, self.latest = q, latest
                self.free = [pair for pair in self.free if not set(pair) & set(group)]
                self.silent |= set(group)
                active[:] = [i for i in active if i not in group]

    def stability(self) -> Array:
        """Growth rate of a small overlap in each direction of zero overlap; NaN elsewhere and where not computed."""
        assert self.latest is not None
        rates = self.alpha * self.latest.growth.mean(axis=0)
        if (known := self._known_rate()) is not None:
            rates[-1] = known
        return rates

    def _known_rate(self) -> float | None:
        """Growth rate of the last layer from zero overlap: the operator (15) has it to many digits, where computed."""
        model = self.averages.model
        if self.q.any() or not SAMPLED_LAYERS.serves(model):
            return None
        norm = last_layer_norm(model)
        return None if norm is None else self.alpha * norm

    def rest(self) -> None:
        """Stand at zero overlap."""
        self.q = np.zeros_like(self.q)
        self.latest = self.averages(self.q)
        self.history.append(self.q.copy())
        self.n_iter += 1
        self.converged, self.residual, self.free = True, 0.0, []

    def settle(self, q: Array, active: list[int], *, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """Iterate from q with the diagonal over the active layers free, and these entries off it."""
        diagonal = [(i, i) for i in sorted(active) if not self.equal or i == self._group(i)[0]]
        free = [*diagonal, *pairs]
        self.free = free
        rows, columns = np.array(free).T
        x = q[rows, columns].copy()
        points: list[Array] = []
        images: list[Array] = []
        self.converged, self._path = False, []
        self.q, self.residual = q.copy(), math.inf
        while self.latest is None or self.n_iter < self.max_iter:
            self.q = self._matrix(x)
            x = self.q[rows, columns]
            self.history.append(self.q.copy())
            self.latest = self.averages(self.q)
            self.n_iter += 1
            self._path.append((x, self.latest))
            fx = self.image(self.latest.g.mean(axis=0))[rows, columns]
            # What dies out may stay at the noise of its averages.
            dying = (x < DEAD) & (fx < DEAD) if len(free) == len(diagonal) else np.zeros(len(x), bool)
            self.residual = float(np.abs(np.where(dying, 0.0, fx - x)).max())
            # The diagonal comes first.
            least, reached = (float(v[: len(diagonal)].min()) for v in (x, fx))
            if self.residual <= self._allowed() or (reached > RECOVERED and least >= RECOVERED - 1e-9):
                self.converged = True
                return
            points, images = [*points, x][-_MEMORY:], [*images, fx][-_MEMORY:]
            x = self._trusted(anderson(points, images), x, fx)

    def _allowed(self) -> float:
        """Residual that is small enough."""
        assert self.latest is not None
        if self.relative:
            allowed = self.tol * (1 - float(np.linalg.eigvalsh(self.q)[-1]))
            self.tolerance = Tolerance(allowed)
            if len(self.history) > _PATIENCE and self.latest.sampled:
                # Sums over finitely many nodes jump where a link does: far below the statistical error is enough.
                rows, columns = np.array(self.free).T
                spread = self.image(self.latest.g)[:, rows, columns].std(axis=0, ddof=1)
                rough = _ROUGH * float(spread.max()) / math.sqrt(len(self.latest.g))
                if rough > allowed and self.residual > allowed:
                    why = (
                        f"the tolerance was {rough:.1e} instead of {allowed:.1e} (tol = {self.tol:g} times the least "
                        "1 - q): a tenth of the standard error of F(q), as averages over finitely many nodes jump"
                    )
                    self.tolerance = Tolerance(rough, why)
        return self.tolerance.value

    def _trusted(self, trial: Array, x: Array, fx: Array) -> Array:
        """Let an extrapolation from x go the way of the plain step to fx, and not much further.

        Extrapolation is drawn to unstable fixed points (q = 0, and q = I before recovery) as to stable ones; the plain
        step leads away from them. Beyond fx, q may shrink by 0.3 and 1 - q by 0.1, no more.
        """
        if all(i == j for i, j in self.free):
            bounded = np.clip(trial, 0.3 * fx, 1 - 0.1 * (1 - fx))
            return np.where((bounded - x) * (fx - x) >= 0, bounded, fx)
        far, near = (np.linalg.eigvalsh(self._block(point)) for point in (trial, fx))
        inside = far[0] >= 0.3 * near[0] and 1 - far[-1] >= 0.1 * (1 - near[-1])
        return trial if inside and (trial - x) @ (fx - x) >= 0 else fx

    def _block(self, x: Array) -> Array:
        """Matrix over the active layers."""
        q = np.zeros_like(self.q)
        for (i, j), value in zip(self.free, x, strict=True):
            q[i, j] = q[j, i] = value
        active = sorted({i for i, _ in self.free})
        block: Array = q[np.ix_(active, active)]
        return block

    def _matrix(self, x: Array) -> Array:
        q = np.zeros_like(self.q)
        for (i, j), value in zip(self.free, x, strict=True):
            q[i, j] = q[j, i] = value
        if all(i == j for i, j in self.free):
            for i, _ in self.free:
                value = min(max(q[i, i], _TINY), RECOVERED)
                for same in self._group(i) if self.equal else [i]:
                    q[same, same] = value
            return q
        values, vectors = np.linalg.eigh(q)
        clipped: Array = (vectors * np.clip(values, 0.0, RECOVERED)) @ vectors.T
        return clipped

    def measure(self) -> tuple[Array, str]:
        """Error of q, shape (P, P), and what the averages leave in doubt; q is solved for further where that matters.

        The error is one standard error of q where the averages scatter, and a bound elsewhere.
        """
        error = np.zeros_like(self.q)
        if self.latest is None:
            return error, ""
        if not self.free:
            return error, self._undecided(growth_error(self.latest), self.latest.sampled) if self.silent else ""
        rows, columns = np.array(self.free).T
        if not math.isfinite(self.residual):  # the evaluations ran out before the first one here
            error[rows, columns] = error[columns, rows] = 1.0
            return error, ""
        if self.converged:
            self._push()
        x = self.q[rows, columns]
        held = self._held()
        error[rows[held], columns[held]] = 1 - x[held]
        free = [pair for k, pair in enumerate(self.free) if k not in held]
        doubt = ""
        if free:
            error, doubt = self._measure_free(free, error)
        elif self.silent:
            doubt = self._undecided(growth_error(self.latest), self.latest.sampled)
        if self.equal:
            for i, _ in self.free:
                same = self._group(i)
                error[same, same] = error[i, i]
        # An overlap cannot be off by more than its range.
        return np.minimum(error, 1.0), doubt

    def _decided(self) -> NDArray[np.bool_]:
        """Free entries that the iteration raises whatever the averages are off by."""
        assert self.latest is not None
        rows, columns = np.array(self.free).T
        image = self.image(self.latest.g)[:, rows, columns]
        low: Array = image.mean(axis=0) - (SIGMAS * standard_error(image) if self.latest.sampled else 0.0)
        return np.asarray(low > self.q[rows, columns])

    def _held(self) -> list[int]:
        """Free entries that are pushed beyond the last overlap that is resolved."""
        at = [k for k, (i, j) in enumerate(self.free) if i == j and self.q[i, i] >= RECOVERED - 1e-9]
        return np.array(at, int)[self._decided()[at]].tolist() if at else []

    def _push(self) -> None:
        """On the way to recovery, where |F - q| is small long before: take the rest of it at once."""
        if any(i != j for i, j in self.free):
            return
        x = self.q[tuple(np.array(self.free).T)]
        pushed = (x < RECOVERED - 1e-9) & (1 - x < _NEARLY) & self._decided()
        if not pushed.any():
            return
        here = self.q, self.latest
        self.q = self._matrix(np.where(pushed, RECOVERED, x))
        self.latest = self.averages(self.q)
        self.n_iter += 1
        if self._decided()[pushed].all():
            self.history.append(self.q.copy())
        else:
            self.q, self.latest = here

    def _measure_free(self, free: list[tuple[int, int]], error: Array) -> tuple[Array, str]:
        """Enter the errors of these entries, the others being held."""
        assert self.latest is not None
        rows, columns = np.array(free).T

        def matrix(x: Array) -> Array:
            q = self.q.copy()
            q[rows, columns] = q[columns, rows] = x
            return self._matrix(q[tuple(np.array(self.free).T)])

        balance = FreeEntries(self.averages, free, matrix, self.image, RECOVERED)
        found = fixed_point_error(balance, self.q[rows, columns], self.latest)
        if self.converged and found.visited:
            self.history += [matrix(x) for x in found.visited]
            self.n_iter += len(found.visited)
            self.q, self.latest = self.history[-1], found.found
            self.residual = float(np.abs(self.image(self.latest.g.mean(axis=0)) - self.q)[rows, columns].max())
            if len(self.free) - len(free) < len(self._held()):
                return self.measure()
        error[rows, columns] = error[columns, rows] = found.error
        # Where it is no fixed point, steps below `tol` came to rest on the way to zero. Links have rates of their own.
        dying = bool(found.doubt) and not self.relative
        below = max(DEAD, _WAY * self.tol) if dying else DEAD
        if self.converged and (found.visited or dying) and float(self.q.diagonal()[rows].min()) < below:
            before = {i for i, _ in self.free}
            active = sorted(before)
            self.release(active, below)
            if len(active) < len(before):
                self.dead |= before - set(active)
                return self.measure()
        doubt = found.doubt
        if not doubt and len(free) == len(self.free):
            doubt = blocked(balance, self._path, found)
        return error, doubt or self._undecided(found.growth, found.found.sampled)

    def _undecided(self, growth: Array, sampled: bool) -> str:
        """What is said of the growth of layers of zero overlap whose rates have these errors, in units of alpha."""
        rates, error = self.stability(), (SIGMAS if sampled else 1.0) * self.alpha * growth
        if self._known_rate() is not None:
            error[-1] = 0.0
        for i in sorted(self.silent & set(np.flatnonzero(self.q.diagonal() == 0).tolist())):
            if rates[i] + error[i] > 1 and (rates[i] - error[i] <= 1 or i in self.dead):
                return (
                    f"a small overlap q_{i + 1}{i + 1} grows by {rates[i]:.4g} +- {error[i] / SIGMAS:.1g} per iteration"
                )
        return ""

    @property
    def how(self) -> How:
        """Kind of the error of the averages where the solver stands."""
        assert self.latest is not None
        return "monte-carlo" if self.latest.sampled else "estimated"

    @property
    def note(self) -> str:
        """What a result has to state beside whether it converged."""
        assert self.latest is not None
        return self.latest.note
