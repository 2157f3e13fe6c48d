"""Fixed points found with rough averages, and refined until the overlaps are as accurate as asked.

With t_l = log(q_ll/(1 - q_ll)), q = F(alpha G(q)) (14) is log alpha = t_l - log G_ll(q) for each layer l. The
right-hand side does not depend on alpha, and its slopes by t serve Newton steps, neighbouring alphas and the error.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import Averages, Refinable
from ..core.standard_error import student
from .error import growth_error
from .solver import DEAD, RECOVERED, Solver

__all__ = ["RefinedSolver", "Slopes"]

Array = NDArray[np.float64]
# From layers that are learned to a log alpha and the slopes there.
Slopes = dict[tuple[int, ...], tuple[float, Array]]

# Accuracy of the search.
_ROUGH = 1e-2
# Steps for slopes: usual, of sampled averages, and towards recovery; what is taken for flat: there the iteration itself
# is followed.
_STEP, _APART, _FAR, _FLAT = 0.05, 0.2, 2.0, 0.02
# Longest step of the search, in t, and its end.
_LONGEST, _FOUND = 1.5, 3e-3
# Where one layer is recovered, others this close to it are on the way; so many standard errors leave no doubt.
_NEARLY, _CLEAR = 1e-2, 5.0
# Evaluations by a rule before the next finer one, and moves that tell something about slopes.
_TRIES, _TELLING = 4, 1e-3
# Rates of growth that rough averages do not mistake for one below 1.
_JOINS = 1.2
# Rates of growth this close to 1 are looked at again.
_MARGINAL = 0.05
# Slopes serve as far as this, in t: those from distant points, and others.
_AWAY, _NEAR = 3.0, 0.8
# A residual leaves this share of the accuracy asked for, and the last step is at most so long in t.
_SHARE, _SHORT = 0.1, 0.1
# Factor between the accuracies of neighbouring refinements, and what it does to their errors, at most.
_CUT = 0.2
# Accuracy of sampled averages that tell slopes, and the share of a step that these may miss.
_TOLD, _UNTOLD = 2e-3, 0.5


def _logit(x: Array) -> Array:
    out: Array = np.log(x) - np.log1p(-x)
    return out


class RefinedSolver(Solver):
    """Newton steps on the layers' own alphas.

    Parameters
    ----------
    averages : Refinable
    alpha, tol, max_iter
        As for `Solver`.
    accuracy : float
        Asked for of each overlap: relative, or absolute where the averages are sampled however accurate they are.
    slopes : dict, optional
        From the layers that are learned to d(t - log G)/dt, shared by the solvers of neighbouring alphas.
    """

    averages: Refinable

    def __init__(
        self,
        averages: Refinable,
        alpha: float,
        tol: float,
        max_iter: int,
        accuracy: float,
        slopes: Slopes | None = None,
    ) -> None:
        super().__init__(averages, alpha, tol, max_iter)
        self._accuracy = accuracy
        self._slopes = {} if slopes is None else slopes
        self._error: Array | None = None

    def settle(self, q: Array, active: list[int], *, pairs: Iterable[tuple[int, int]] = ()) -> None:
        """Find the fixed point with the overlaps of the active layers free."""
        pairs = tuple(pairs)
        self._error = None
        if pairs:
            super().settle(q, active, pairs=pairs)
            return
        layers = tuple(sorted(active))
        self.free = [(i, i) for i in layers]
        self.converged, self.residual, self.q = False, math.inf, q.copy()
        start = _logit(np.clip(q.diagonal()[list(layers)], 0.1 * DEAD, RECOVERED))
        slopes = None
        if layers in self._slopes:  # of another alpha: the way there is known to first order
            log_alpha, slopes = self._slopes[layers]
            if _stable(slopes):
                start = start + np.clip(
                    np.linalg.solve(slopes, np.full(len(layers), math.log(self.alpha) - log_alpha)), -0.5, 0.5
                )
        found = self._search(layers, start, slopes)
        if found is None:
            return
        if self._leads_on(layers):
            self.converged = True
        else:
            self._refine(layers, *found)

    def _leads_on(self, layers: tuple[int, ...]) -> bool:
        """Whether another layer is certain to join: what is found without it is only on the way."""
        rates = self.stability()
        return any(rates[i] > _JOINS for i in range(len(rates)) if i not in {*layers, *self.dead})

    def measure(self) -> tuple[Array, str]:
        """Error of q, that of the averages carried through the slopes and what the last step would have moved."""
        if self._error is None:
            return super().measure()
        return self._error, self._near_growth() if self.silent else ""

    def _near_growth(self) -> str:
        """What is said of layers of zero overlap that grow or not by less than the averages decide."""
        assert self._error is not None
        rates = self.stability()
        silent = [i for i in self.silent if abs(rates[i] - 1) < _MARGINAL]
        if not silent or (self._known_rate() is not None and silent == [len(rates) - 1]):
            return ""
        # The ends of an interval, and what the error of the overlaps makes of it.
        found = self.averages(self.q)
        growth = growth_error(found)
        here = self._rough_growth(self.q)
        for k in np.flatnonzero(self._error.diagonal()).tolist():
            moved = self.q.copy()
            moved[k, k] -= min(_MARGINAL * min(self.q[k, k], 1 - self.q[k, k]), 0.1)
            slope = (self._rough_growth(moved) - here) / (moved[k, k] - self.q[k, k])
            growth = growth + np.abs(slope) * self._error[k, k]
        return self._undecided(growth, found.sampled)

    def _rough_growth(self, q: Array) -> Array:
        self.n_iter += 1
        return np.asarray(self.averages.rough(q, _ROUGH).growth.mean(axis=0))

    def _search(self, layers: tuple[int, ...], t: Array, slopes: Array | None) -> tuple[Array, Array] | None:
        """Fixed point of the rough averages with the slopes there; None where it ended otherwise."""
        before: tuple[Array, Array] | None = None
        while self.n_iter < self.max_iter:
            t = np.minimum(t, _logit(np.array(RECOVERED)))
            found = self._rough(layers, t)
            says = self._says(layers, t, found)
            rest = math.log(self.alpha) - says
            image = 1 / (1 + np.exp(-(t + rest)))
            x = self.q.diagonal()[list(layers)]
            self.residual = float(np.abs(image - x).max())
            if x.min() < DEAD and rest[int(x.argmin())] < 0:  # `release` looks at what is left
                self.converged = True
                return None
            if _recovers(x, rest):
                self._end(layers, t, rest)
                return None
            if slopes is not None and before is not None:
                slopes = _broyden(slopes, t - before[0], says - before[1])
            if np.abs(rest).max() <= _FOUND:
                if slopes is None or not _stable(slopes):
                    slopes = self._differences(layers, t, _ROUGH, found.sampled)
                return t, slopes
            if slopes is None and np.abs(rest).max() < 1:
                slopes = self._differences(layers, t, _ROUGH, found.sampled)
            before = (t, says)
            step = rest if slopes is None else _step(slopes, rest)
            t = t + np.clip(step, -_LONGEST, _LONGEST)
        return None

    def _end(self, layers: tuple[int, ...], t: Array, rest: Array) -> None:
        """Recovery: the last step that is resolved still leads on; by how little decides on the error."""
        chosen, level = list(layers), _ROUGH
        x = self.q.diagonal()[chosen]
        error = 1 - x
        while True:
            assert self.latest is not None
            if (rest > _CLEAR * self._noise(self.latest, chosen, np.eye(len(t)))).all():
                break
            found = self._rough(layers, t, level)
            says = self._says(layers, t, found)
            rest = math.log(self.alpha) - says
            slopes = self._differences(layers, t, max(level, _TOLD), found.sampled)
            inverse = np.asarray(np.linalg.pinv(slopes), np.float64)
            noise = self._noise(found, chosen, inverse)
            # In 1 - q, of which the slopes are those of a line here.
            error = np.clip(x * (1 - x) * (noise - inverse @ rest), 1 - x, 1.0)
            if error.max() <= self._accuracy or level <= self.averages.finest[True]:
                break
            level = max(_CUT * level, self.averages.finest[True])
        self._error = np.zeros_like(self.q)
        self._error[chosen, chosen] = error
        self.converged, self.residual = True, 0.0

    def _refine(self, layers: tuple[int, ...], t: Array, slopes: Array) -> None:
        """Chord steps with finer and finer rules, until two of them agree to the accuracy asked for.

        The error is the distance of the fixed points of the last two: about that of the coarser one, as errors fall by
        several times from one rule to the next. Of sampled averages it is their noise, and part of the last step.
        """
        chosen = list(layers)
        level, tries, coarser, gap = _ROUGH, 0, None, np.full(len(t), math.inf)
        moved: tuple[Array, Array] | None = None
        found: tuple[Array, Array] | None = None
        while True:
            self.q = self._at(layers, t)
            x = self.q.diagonal()[chosen]
            latest = self.latest = self.averages.rough(self.q, level)
            self.n_iter += 1
            self.history.append(self.q.copy())
            says = self._says(layers, t, latest)
            sampled = latest.sampled
            if sampled and level < _ROUGH:
                # Neighbours differ by their noise: slopes are what distant points tell.
                together = len(t) == len(self.averages.layers) and bool((1 - x).max() < _NEARLY)
                if found is None or np.abs(t - found[0]).max() > (_AWAY if together else _NEAR):
                    found = t, self._differences(layers, t, _TOLD, sampled)
                elif moved is not None and not together and np.abs(t - moved[0]).max() > _STEP:
                    # The same samples as before the step: their noise is nearly the same.
                    found = found[0], _broyden(found[1], t - moved[0], says - moved[1])
                slopes = found[1]
                if together:
                    # Where all layers come to recovery, that slope is their distance to it.
                    shrunk = math.expm1(float((found[0] - t).mean()))
                    slopes = slopes + np.outer(slopes.sum(axis=1), np.full(len(t), shrunk / len(t)))
            elif moved is not None and np.abs(t - moved[0]).max() > _TELLING:
                slopes = _broyden(slopes, t - moved[0], says - moved[1])
            rest = math.log(self.alpha) - says
            self.residual = float(np.abs(1 / (1 + np.exp(-(t + rest))) - x).max())
            if x.min() < DEAD and rest[int(x.argmin())] < 0:  # what the search took for a small overlap
                self.converged = True
                return
            if _recovers(x, rest):
                self._end(layers, t, rest)
                return
            inverse: Array = np.asarray(np.linalg.pinv(slopes), np.float64)
            step = np.clip(inverse @ rest, -_LONGEST, _LONGEST)
            finest = self.averages.finest[sampled]
            # Coarse rules may jump where their numbers of nodes change, by less than what they are off.
            coarse = level > finest
            # Of t, for the accuracy asked of q.
            asked = self._accuracy / ((1 - x) * (x if self.averages.absolute else 1.0))
            if sampled:
                gap = self._noise(latest, chosen, inverse)
                error = gap + _UNTOLD * np.abs(step)
                enough = bool((error <= asked).all())
                # At last, steps are to leave less than the noise, or as little as is asked for where they can.
                left = np.where(gap < asked, (asked - gap) / _UNTOLD, _UNTOLD * gap)
                small = np.maximum(_SHARE * asked, gap if coarse or enough else left)
            else:
                error, enough = gap + np.abs(step), bool((gap <= asked).all())
                small = _SHARE * asked
            settled = bool((np.abs(step) <= np.minimum(small, _SHORT)).all()) and self.residual <= self.tol
            tries += 1
            through = (not sampled or coarse) and (settled or (tries >= _TRIES and coarse))
            if through and not sampled:
                if coarser is not None:
                    # Two rules may agree by chance, three hardly.
                    third = bool(np.isfinite(gap).all())
                    gap = np.maximum(np.abs(t + step - coarser), _CUT * gap if third else 0.0)
                    error, enough = gap + np.abs(step), bool((gap <= asked).all()) and third
                coarser = t + step
            done = settled and (enough or not coarse)
            if done or self.n_iter >= self.max_iter:
                break
            if through:
                # Noise falls as the root of what it costs: no stops on the way that would not be enough. That of the
                # roughest averages is mostly bias, which falls faster.
                told = sampled and level < _ROUGH
                needed = float((asked / np.maximum(gap, asked)).min()) ** 2 if told else 1.0
                level, tries, moved = max(min(_CUT, needed) * level, finest), 0, None
            else:
                moved = t, says
            if not settled:
                t = np.minimum(t + step, _logit(np.array(RECOVERED)))
        if sampled and settled:
            self.q = self._at(layers, t + step)
        self.converged = settled
        self._slopes[layers] = (float(says.mean()), slopes)
        self._error = np.zeros_like(self.q)
        self._error[chosen, chosen] = np.minimum(x * (1 - x) * error, 1.0)

    def _at(self, layers: tuple[int, ...], t: Array) -> Array:
        q = np.zeros((self.averages.model.indices,) * 2)
        q[list(layers), list(layers)] = np.minimum(1 / (1 + np.exp(-t)), RECOVERED)
        return q

    def _rough(self, layers: tuple[int, ...], t: Array, level: float = _ROUGH) -> Averages:
        self.q = self._at(layers, t)
        self.latest = self.averages.rough(self.q, level)
        self.history.append(self.q.copy())
        self.n_iter += 1
        return self.latest

    def _says(self, layers: tuple[int, ...], t: Array, averages: Averages) -> Array:
        """Log of the alpha at which each layer would be at rest."""
        g = averages.g.mean(axis=0).diagonal()[list(layers)]
        out: Array = t - np.log(g)
        return out

    def _noise(self, averages: Averages, chosen: list[int], inverse: Array) -> Array:
        """Standard error of t where G is sampled, and what its bias makes of it."""
        g = averages.g[:, chosen, chosen]
        mean = g.mean(axis=0)
        deviations = (g / mean) @ inverse.T
        factor = student(len(g)) if averages.sampled else 1.0
        out: Array = factor * deviations.std(axis=0, ddof=1) / math.sqrt(len(g))
        return out + np.abs(inverse) @ (np.abs(averages.bias[chosen, chosen]) / mean)

    def _differences(self, layers: tuple[int, ...], t: Array, level: float, sampled: bool) -> Array:
        """Slopes by t of averages of this accuracy, from differences.

        log G is nearly a line in t. Near recovery the alphas depend on the ratios of the 1 - q_ll and hardly on their
        size, in which they are lines: that is told by distant points, and a direction of its own.
        """
        size = len(t)
        directions = np.eye(size)
        steps = np.full(size, _APART if sampled else _STEP)
        lengths, centred = steps.copy(), sampled
        x = 1 / (1 + np.exp(-t))
        if size == len(self.averages.layers) and (1 - x).max() < _NEARLY:
            directions[0], steps[0] = 1.0, _FAR
            lengths[0] = math.expm1(_FAR)  # of a line in 1 - q
            centred = False
        here = self.q, self.latest
        says = None if centred else self._says(layers, t, self._rough(layers, t, level))
        slopes = np.empty((size, size))
        for k, (step, direction) in enumerate(zip(steps, directions, strict=True)):
            end = np.minimum(t + 0.5 * step * direction, _logit(np.array(RECOVERED))) if centred else t
            above = says if says is not None else self._says(layers, end, self._rough(layers, end, level))
            below = end - step * direction
            slopes[:, k] = (above - self._says(layers, below, self._rough(layers, below, level))) / lengths[k]
        self.q, self.latest = here
        # Columns belong to directions.
        return np.asarray(slopes @ np.linalg.inv(directions.T), np.float64)


def _step(slopes: Array, rest: Array) -> Array:
    """Newton's step; where overlaps are hardly held, or pushed away, far along the way of the iteration."""
    values, vectors = np.linalg.eig(slopes)
    out: Array = (vectors @ (np.linalg.solve(vectors, rest.astype(complex)) / np.maximum(values.real, _FLAT))).real
    return out


def _recovers(x: Array, rest: Array) -> bool:
    """Whether a layer is pushed beyond the last step that is resolved, with the others on the way."""
    return bool(((x >= RECOVERED - 1e-9) & (rest > 0)).any() and (1 - x).max() < _NEARLY)


def _stable(slopes: Array) -> bool:
    """Whether an overlap that is too large says a larger alpha, in every direction."""
    return bool(np.linalg.eigvals(slopes).real.min() > _FLAT)


def _broyden(slopes: Array, moved: Array, changed: Array) -> Array:
    """Slopes that explain the latest step, too."""
    length = float(moved @ moved)
    if length < 1e-16:
        return slopes
    return slopes + np.outer(changed - slopes @ moved, moved) / length
