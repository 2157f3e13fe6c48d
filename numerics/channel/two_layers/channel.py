"""State-evolution averages of two layers of softmax attention with two tokens, without sampling."""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ...core.errors import ConvergenceError
from ...model.network import Network
from ...model.routes import TWO_LAYER_QUADRATURE
from ..averages import Averages, Channel, ChannelBase, Refinable, interval
from .near_recovery import NearRecovery
from .nodes import Hidden, around, centred
from .sums import Outcome, output_sum, outputs, silent_sum

__all__ = ["CLOSEST", "COARSE", "FINENESS", "TwoLayerAverages", "TwoLayerQuadrature"]

Array = NDArray[np.float64]
Functions = tuple[Array, Array, Array]

# Neighbouring nodes of h_1, as multiples of the width that the last indices' posterior resolves.
_SPACING = 2.6
_MOST_FINENESS = 60.0
# Outputs v within this factor share their nodes of h_1; the lowest band is all that is left.
_BANDS, _MOST_BANDS = 1.3, 10
# All steps are finer than the Gaussians alone ask for, by this; the rule that measures the error is coarser.
FINENESS, COARSE = 1.25, 0.8
# Of outputs v given omega_1, whose sums over u and omega_2 are smooth: no error of theirs is seen up to twice this step.
_FINENESS_V = 0.7
# Nodes about omega_1 reach this much further, in log-accuracy, than what is neglected elsewhere.
_TAIL = 2.5
# Share of the log-accuracy that omega_1 of the least weight is summed without: what its sums miss has the size of the
# accuracy, and its weight has it again.
_LIGHTER = 0.5
# Log-accuracy that sums over omega_1 may do without, as they miss several times less than what they neglect.
_SPARED = 0.9
# Scale of the map of omega_1/sqrt(q_11): in units of (V_11/q_11)^(1/2), and at most; its step times the log-accuracy.
_SCALE_XI, _WIDEST_XI, _STEP_XI = 1.5, 2.2, 3.45
# Below these, G_11/q_11 and G_22/q_22 are lines.
_SMALL = (1e-3, 1e-4)
# Overlaps below this one ask for more digits.
_MODEST = 0.3
# The sum of all weights may miss one by so many times the accuracy.
_MASS = 100.0
# Overlaps closer to one would take too many nodes.
CLOSEST = 3e-5
# Where averages are sampled: least accuracy, and factor for the number of points.
_SAMPLED = ((1e-2, 1), (2e-3, 4), (4e-4, 16))


class TwoLayerQuadrature(ChannelBase):
    """Averages at a diagonal overlap by nested rules that converge exponentially.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, softmax, rank 1.
    accuracy : float, optional
        Relative accuracy aimed at, 1e-10 to 1e-2; what is reported as the error is the distance of a coarser rule.
    workers : int, optional
        Threads; those of the machine by default.

    Notes
    -----
    q_12 stays zero: the signs of h_1 and of h_2 are free in y.

    References
    ----------
    troiani2025, (14), (95), (184)-(187).
    """

    model: Network
    layers = (0, 1)
    sampled = False
    accuracy: float
    # Entries of h that y fixes: it has two.
    solved = 2.0

    def __init__(self, model: Network, accuracy: float = 1e-6, workers: int | None = None) -> None:
        """Keep the model and the effort."""
        if not TWO_LAYER_QUADRATURE.serves(model):
            raise ValueError(f"needs two softmax layers, two tokens and rank 1, got {model.describe()}")
        if not 1e-10 <= accuracy <= 1e-2:
            raise ValueError(f"accuracy must be in [1e-10, 1e-2], got {accuracy!r}")
        self.model = model
        self.accuracy = accuracy
        self._workers = workers or os.cpu_count() or 1
        self._log_accuracy = math.log(10.0 / accuracy)
        self._known: dict[tuple[float, float, float], Array] = {}

    def __call__(self, q: Array) -> Averages:
        """Averages at q, as the two ends of an interval around the value by the finer of two rules.

        Raises
        ------
        ValueError
            q is not diagonal, or an overlap is closer to 1 than the rules resolve.
        ConvergenceError
            The rules do not resolve the posterior.
        """
        ends = interval(*self.refinements(q))
        return Averages.unbiased(np.array([np.diag(end[:2]) for end in ends]), ends[:, 2:], "estimated")

    def rough(self, q: Array) -> Averages:
        """Averages by the finer rule alone, twice; raises as a call does."""
        one = self._averages(*self._checked(q), 1.0)
        return Averages.unbiased(np.array([np.diag(one[:2])] * 2), np.array([one[2:]] * 2), "estimated")

    def refinements(self, q: Array) -> Array:
        """G_11, G_22 and the growth rates by the rule and by a coarser one, shape (2, 4); raises as a call does."""
        at = self._checked(q)
        return np.array([self._averages(*at, share) for share in (1.0, COARSE)])

    def _checked(self, q: Array) -> tuple[float, float]:
        if not _is_diagonal(q):
            raise ValueError(
                f"q must be diagonal, (14): y leaves the signs of h_1 and h_2 free; got q_12 = {q[0, 1]:g}"
            )
        q1, q2 = (float(x) for x in q.diagonal())
        if not (0 <= min(q1, q2) and max(q1, q2) <= 1 - CLOSEST):
            raise ValueError(f"q must be in [0, {1 - CLOSEST}] here, (14); got {q1:g} and {q2:g}")
        return q1, q2

    def _averages(self, q1: float, q2: float, share: float) -> Array:
        """G_11, G_22 and the growth rates of both layers, NaN where the overlap is not zero.

        Below `_SMALL`, G_ll/q_ll lies between the growth rate and its value there.
        """
        key = (q1, q2, share)
        if key not in self._known:
            if 0 < q1 < _SMALL[0]:
                self._known[key] = self._between(0, q1, q2, share)
            elif 0 < q2 < _SMALL[1]:
                self._known[key] = self._between(1, q1, q2, share)
            else:
                # A small overlap leaves small differences of posterior means.
                least = min(x for x in (q1, q2, _MODEST) if x)
                finer = share * (1 + math.log(_MODEST / least) / self._log_accuracy)
                with threadpool_limits(1, "blas"):  # the products are small
                    self._known[key] = self._both(q1, q2, finer) if q1 else self._one_known(None, 1.0, q2, finer)
        return self._known[key]

    def _between(self, layer: int, q1: float, q2: float, share: float) -> Array:
        here = (q1, q2)[layer]
        ends = [(end, q2) if layer == 0 else (q1, end) for end in (0.0, _SMALL[layer])]
        zero, small = (self._averages(*end, share) for end in ends)
        part = here / _SMALL[layer]
        out: Array = zero + part * (small - zero)
        out[layer] = here * (zero[2 + layer] + part * (small[layer] / _SMALL[layer] - zero[2 + layer]))
        out[2 + layer] = np.nan
        return out

    def _both(self, q1: float, q2: float, share: float) -> Array:
        """Sum over omega_1, whose two components may be taken positive."""
        variance = 1 - q1
        share -= _SPARED / self._log_accuracy
        log_accuracy = self._log_accuracy * share
        # xi = omega_1/sqrt(q_11) = scale sinh(Y): the sign of h_1 is open at |omega_1|^2 ~ V_11 only.
        scale = min(_SCALE_XI * math.sqrt(variance / q1), _WIDEST_XI)
        step = _STEP_XI / log_accuracy
        y = step * (np.arange(math.ceil(math.asinh(math.sqrt(2 * log_accuracy) / scale) / step)) + 0.5)
        xi = scale * np.sinh(y)
        mass = 2 * step * scale * np.cosh(y) * np.exp(-0.5 * xi * xi) / math.sqrt(2 * math.pi)
        heaviest = float(mass.max()) ** 2
        grid = ((a * b, np.array([x, z])) for x, a in zip(xi, mass, strict=True) for z, b in zip(xi, mass, strict=True))
        points = [(weight, at) for weight, at in grid if weight > math.exp(-log_accuracy) * heaviest]

        def one(point: tuple[float, Array]) -> Array:
            weight, at = point
            # Light points need not be summed as finely.
            left = 1 + _LIGHTER * math.log(weight / heaviest) / log_accuracy
            return weight * self._one_known(math.sqrt(q1) * at, variance, q2, share * left)

        with ThreadPoolExecutor(self._workers) as pool:
            total = np.sum(list(pool.map(one, points)), axis=0)
        total[:2] /= mass.sum() ** 2
        out: Array = total
        return out

    def _one_known(self, centre: Array | None, variance: float, q2: float, share: float) -> Array:
        """Averages given omega_1; None for q_11 = 0, where the growth of layer 1 takes the place of G_11."""
        model, log_accuracy = self.model, self._log_accuracy * share
        rule = log_accuracy, FINENESS
        sd = math.sqrt(1 - q2)
        if centre is None:
            nodes = self._nodes(q2, log_accuracy)
            # The line z = 0 stands for all its x, E x^2 = 1.
            square = np.where(nodes.z == 0, 1.0, nodes.x**2)
            functions, multiplicity = (square - 1, nodes.x * nodes.z, nodes.z**2 - 1), (1.0, 2.0, 1.0)
            if q2:
                v = outputs(nodes, model.skip, sd, *rule)
                found = output_sum(nodes, functions, multiplicity, q2, v, rule, workers=self._workers)
            else:
                found = silent_sum(nodes, functions, multiplicity, model.skip, *rule)
        else:
            found = self._known_first(centre, variance, q2, log_accuracy)
        self._check(found.mass, math.exp(-log_accuracy), q2)
        first = found.first / variance**2
        last = (found.last / (1 - q2) ** 2, math.nan) if q2 else (0.0, found.last)
        return np.array([0.0, last[0], first, last[1]] if centre is None else [first, last[0], math.nan, last[1]])

    def _known_first(self, centre: Array, variance: float, q2: float, log_accuracy: float) -> Outcome:
        """Averages given omega_1, with nodes of h_1 as close as the outputs up to v ask for."""
        model, rule = self.model, (log_accuracy, FINENESS)

        def moved(nodes: Hidden) -> tuple[Functions, tuple[float, float, float]]:
            return (nodes.x - centre[0], nodes.z - centre[1], np.zeros(len(nodes.x))), (1.0, 1.0, 0.0)

        if not q2:
            nodes = self._near(centre, variance, log_accuracy)
            return silent_sum(nodes, *moved(nodes), model.skip, *rule)
        parts = [
            output_sum(nodes, *moved(nodes), q2, v, rule)
            for nodes, v in self._bands(centre, variance, q2, log_accuracy)
        ]
        return Outcome(*(sum(getattr(part, name) for part in parts) for name in ("last", "first", "mass")))

    def _near(
        self, centre: Array, variance: float, log_accuracy: float, resolved: tuple[float, float] = (math.inf, 0.0)
    ) -> Hidden:
        """Nodes of h_1 about omega_1."""
        return around(self.model.skip, self.model.beta, centre, variance, log_accuracy + _TAIL, resolved)

    def _bands(
        self, centre: Array, variance: float, q2: float, log_accuracy: float
    ) -> Iterator[tuple[Hidden, tuple[Array, Array]]]:
        """Bands of outputs v with their weights, each with nodes of h_1 as close as it asks for."""
        sd = math.sqrt(1 - q2)
        nodes = self._near(centre, variance, log_accuracy)
        v, dv = outputs(nodes, self.model.skip, sd, log_accuracy, _FINENESS_V)
        ends = np.searchsorted(v, v[-1] * _BANDS ** np.arange(-_MOST_BANDS, 1.0), side="right")
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            if end > start:
                nodes = self._near(centre, variance, log_accuracy, (sd, float(v[end - 1])))
                yield nodes, (v[start:end], dv[start:end])

    def _nodes(self, q2: float, log_accuracy: float) -> Hidden:
        """Nodes of h_1 of overlap zero that are close enough for the posterior of the last indices."""
        reach = math.sqrt(2 * log_accuracy)
        allowed = _SPACING * 2 * math.pi / reach * math.sqrt(1 - q2)
        fineness = 1.0
        while fineness < _MOST_FINENESS:
            nodes = centred(self.model.skip, self.model.beta, log_accuracy + 3, fineness)
            spacing = nodes.spacing(reach)
            if spacing <= allowed:
                return nodes
            fineness *= min(2.0, max(1.1, spacing / allowed))
        raise ConvergenceError(
            f"the posterior of the last layer at q_22 = {q2:.8g} is too narrow for the nodes of h_1, (95), "
            f"{self.model.describe()}: ask for a smaller overlap or a lower accuracy"
        )

    def _check(self, mass: float, accuracy: float, q2: float) -> None:
        if not abs(mass - 1) <= max(_MASS * accuracy, 1e-9):
            raise ConvergenceError(
                f"the weights of the quadrature sum to {mass:.9g} instead of 1 at q_22 = {q2:.8g}, (95), "
                f"{self.model.describe()}: ask for a higher accuracy"
            )


class TwoLayerAverages(Refinable, ChannelBase):
    """Averages by quadrature, by a series near recovery, and by sampling where neither goes or q is not diagonal.

    Parameters
    ----------
    model : Network
    accuracy : float
        Of the averages that a call gives, see `TwoLayerQuadrature`.
    sampled : callable
        Makes averages of the same model by sampling, of so many times the usual points.
    workers : int, optional
        Threads.
    """

    model: Network
    layers = (0, 1)
    #: Near recovery, beside the path of fixed points.
    sampled = True
    finest = (1e-9, _SAMPLED[-1][0])
    absolute = False

    def __init__(
        self, model: Network, accuracy: float, sampled: Callable[[int], Channel], workers: int | None = None
    ) -> None:
        """Keep both."""
        self.model = model
        self.accuracy = accuracy
        self._workers = workers
        self._quadratures: dict[float, TwoLayerQuadrature] = {}
        self._sampled = cache(sampled)
        self._near = NearRecovery(model, self._by_quadrature)

    def __call__(self, q: Array) -> Averages:
        """Averages at q."""
        return self._near_recovery(q, self.accuracy) or self._chosen(q, self.accuracy)(q)

    def rough(self, q: Array, accuracy: float) -> Averages:
        """Averages at q by one rule of this accuracy, without its error: the same value twice."""
        if (near := self._near_recovery(q, accuracy)) is not None:
            return near
        chosen = self._chosen(q, accuracy)
        return chosen.rough(q) if isinstance(chosen, TwoLayerQuadrature) else chosen(q)

    def _chosen(self, q: Array, accuracy: float) -> Channel:
        if q.diagonal().max() <= 1 - CLOSEST and _is_diagonal(q):
            return self._quadrature(accuracy)
        return self._sampled(next((times for least, times in _SAMPLED if accuracy >= least), _SAMPLED[-1][1]))

    def _quadrature(self, accuracy: float) -> TwoLayerQuadrature:
        if accuracy not in self._quadratures:
            self._quadratures[accuracy] = TwoLayerQuadrature(self.model, accuracy, self._workers)
        return self._quadratures[accuracy]

    def _by_quadrature(self, v1: float, v2: float, accuracy: float) -> Array | None:
        """G_11 and G_22 by one rule; None where that does not go."""
        if not CLOSEST <= min(v1, v2) <= max(v1, v2) <= 1:
            return None
        try:
            g: Array = self._quadrature(accuracy).rough(np.diag([1 - v1, 1 - v2])).g[0].diagonal()
        except ConvergenceError:
            return None
        return g

    def _near_recovery(self, q: Array, accuracy: float) -> Averages | None:
        """Averages by the series, whose error is a bias; None where it does not serve."""
        v1, v2 = (1 - q).diagonal()
        found = self._near(float(v1), float(v2), accuracy) if _is_diagonal(q) and min(v1, v2) > 0 else None
        if found is None:
            return None
        growth = np.full((2, 2), math.nan)
        return Averages(np.array([np.diag(found.g)] * 2), growth, np.diag(found.g * found.error), "estimated")


def _is_diagonal(q: Array) -> bool:
    return bool(np.abs(q - np.diag(q.diagonal())).max() <= 1e-12)
