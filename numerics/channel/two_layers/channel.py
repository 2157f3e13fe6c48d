"""State-evolution averages of two layers of softmax attention with two tokens, without sampling."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.blas import one_blas_thread
from ...core.cluster_pool import parts_of
from ...core.errors import ConvergenceError
from ...model.network import Network
from .diagonal import DiagonalQuadrature
from .nodes import Hidden, around, centred
from .sums import Outcome, output_sum, outputs, silent_sum

__all__ = ["FINENESS", "TwoLayerQuadrature", "weighted"]

Array = NDArray[np.float64]
Functions = tuple[Array, Array, Array]

# All steps are finer than the Gaussians alone ask for, by this.
FINENESS = 1.25


class Point(NamedTuple):
    """A node omega_1 with its weight, and the share of the log-accuracy that it is summed to."""

    weight: float
    centre: Array
    share: float


class TwoLayerQuadrature(DiagonalQuadrature):
    """Averages at a diagonal overlap by nested rules that converge exponentially.

    Parameters
    ----------
    model : Network
        Two layers, two tokens, softmax, rank 1.
    accuracy : float, optional
        Relative accuracy aimed at, 1e-10 to 1e-2; what is reported as the error is the distance of a coarser rule.
    workers : int, ClusterPool or None
        Threads, those of the machine by default; or the workers of a cluster, to which the points of omega_1 go at an
        accuracy of 1e-5 or finer.

    Notes
    -----
    q_12 stays zero: the signs of h_1 and of h_2 are free in y.

    References
    ----------
    troiani2025, (14), (95), (184)-(187).
    """

    activation = "softmax"

    def _summed(self, q1: float, q2: float, share: float) -> Array:
        return self._both(q1, q2, share) if q1 else self._one_known(None, 1.0, q2, share)

    def _both(self, q1: float, q2: float, share: float) -> Array:
        """Sum over omega_1, whose two components may be taken positive."""
        variance = 1 - q1
        # Log-accuracy that sums over omega_1 may do without at q_11 = 1, as they miss several times less than what they
        # neglect; in proportion at other overlaps, which ask for more digits the smaller they are.
        spared = 0.9
        share -= spared * q1 / self._log_accuracy
        log_accuracy = self._log_accuracy * share
        # Scale of the map of omega_1/sqrt(q_11): in units of (V_11/q_11)^(1/2), and at most; its step times the
        # log-accuracy.
        scale_xi, widest_xi, step_xi = 1.5, 2.2, 3.45
        # xi = omega_1/sqrt(q_11) = scale sinh(Y): the sign of h_1 is open at |omega_1|^2 ~ V_11 only.
        scale = min(scale_xi * math.sqrt(variance / q1), widest_xi)
        step = step_xi / log_accuracy
        # Log-accuracy by which omega_1 reaches further than what is neglected: where points come and go with the
        # overlap, the averages jump by what these weigh. At 1e-2 they jump by 1e-4; without it by 1e-3, and searches
        # that move finer ones by these go astray.
        farther = 2.0
        least = log_accuracy + farther
        y = step * (np.arange(math.ceil(math.asinh(math.sqrt(2 * least) / scale) / step)) + 0.5)
        xi = scale * np.sinh(y)
        mass = 2 * step * scale * np.cosh(y) * np.exp(-0.5 * xi * xi) / math.sqrt(2 * math.pi)
        heaviest = float(mass.max()) ** 2
        grid = ((a * b, np.array([x, z])) for x, a in zip(xi, mass, strict=True) for z, b in zip(xi, mass, strict=True))
        # Share of the log-accuracy that omega_1 of the least weight is summed without: what its sums miss has the size
        # of the accuracy, and its weight has it again.
        lighter = 0.5
        points = [
            # Light points need not be summed as finely.
            Point(weight, math.sqrt(q1) * at, share * (1 + lighter * math.log(weight / heaviest) / log_accuracy))
            for weight, at in grid
            if weight > math.exp(-least) * heaviest
        ]
        if self._pool is None:
            with ThreadPoolExecutor(self._workers) as pool:
                found = list(pool.map(lambda point: self.at(point, q1, q2), points))
        else:
            # Points of a task of a cluster: from 2 ms each, and many times that where an overlap is large.
            rows = [{"points": points[part]} for part in parts_of(len(points), 6)]
            about: dict[str, Any] = {"kind": type(self), "model": self.model, "accuracy": self.accuracy}
            parts = self._pool.map(weighted, rows, **about, q1=q1, q2=q2)
            found = [one for part in parts for one in part]
        total = np.sum(found, axis=0)
        total[:2] /= mass.sum() ** 2
        out: Array = total
        return out

    def at(self, point: Point, q1: float, q2: float) -> Array:
        """Weighted averages at one omega_1."""
        return point.weight * self._one_known(point.centre, 1 - q1, q2, point.share)

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
                found = output_sum(nodes, functions, multiplicity, q2, v, rule, workers=self._within)
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
        # Nodes about omega_1 reach this much further, in log-accuracy, than what is neglected elsewhere.
        tail = 2.5
        return around(self.model.skip, self.model.beta, centre, variance, log_accuracy + tail, resolved)

    def _bands(
        self, centre: Array, variance: float, q2: float, log_accuracy: float
    ) -> Iterator[tuple[Hidden, tuple[Array, Array]]]:
        """Bands of outputs v with their weights, each with nodes of h_1 as close as it asks for."""
        sd = math.sqrt(1 - q2)
        nodes = self._near(centre, variance, log_accuracy)
        # Of outputs v given omega_1, whose sums over u and omega_2 are smooth: up to twice this step they have the same
        # error.
        fineness_v = 0.7
        v, dv = outputs(nodes, self.model.skip, sd, log_accuracy, fineness_v)
        # Outputs v within this factor share their nodes of h_1; the lowest band is all that is left.
        bands, most_bands = 1.3, 10
        ends = np.searchsorted(v, v[-1] * bands ** np.arange(-most_bands, 1.0), side="right")
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            if end > start:
                nodes = self._near(centre, variance, log_accuracy, (sd, float(v[end - 1])))
                yield nodes, (v[start:end], dv[start:end])

    def _nodes(self, q2: float, log_accuracy: float) -> Hidden:
        """Nodes of h_1 of overlap zero that are close enough for the posterior of the last indices."""
        reach = math.sqrt(2 * log_accuracy)
        # Neighbouring nodes of h_1, as multiples of the width that the last indices' posterior resolves.
        allowed = 2.6 * 2 * math.pi / reach * math.sqrt(1 - q2)
        fineness = 1.0
        most_fineness = 60.0
        while fineness < most_fineness:
            nodes = centred(self.model.skip, self.model.beta, log_accuracy + 3, fineness)
            spacing = nodes.spacing(reach)
            if spacing <= allowed:
                return nodes
            fineness *= min(2.0, max(1.1, spacing / allowed))
        raise ConvergenceError(
            f"the posterior of the last layer at q_22 = {q2:.8g} is too narrow for the nodes of h_1, (95), "
            f"{self.model.describe()}: ask for fewer digits or a smaller overlap, or take a beta closer to 1"
        )


def weighted(
    points: Sequence[Point], *, kind: type[TwoLayerQuadrature], model: Network, accuracy: float, q1: float, q2: float
) -> list[Array]:
    """Weighted averages at some omega_1 by a quadrature of this kind, on one thread."""
    rule = kind(model, accuracy, 1)
    with one_blas_thread():  # the products are small
        return [rule.at(point, q1, q2) for point in points]
