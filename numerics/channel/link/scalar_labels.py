"""Channel averages of discrete outputs of one entry of h, by quadrature over omega alone.

The posterior of u ~ N(omega, V) given a label is cut to intervals, or with label noise a mixture of such, whose moments
are error functions: averages over omega ~ N(0, q) vary about the ends of the intervals, over the width of V.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ...core.ties import merged
from ...model.links import LinkKernel, Part
from ...quadrature.conditional import Fineness, Marks, normal_rule
from .scalar import ScalarEntry, interval_posterior

__all__ = ["ScalarLabels"]

Array = NDArray[np.float64]


class ScalarLabels(ScalarEntry):
    """Discrete outputs of one entry of h, with label noise or without.

    Parameters
    ----------
    kernel : LinkKernel
    part : Part
        With one entry, and outputs that are constant on each region.
    """

    _rules = (Fineness(1.4, 13, 13.5), Fineness(0.9, 17, 14.0))

    def __init__(self, kernel: LinkKernel, part: Part) -> None:
        super().__init__(kernel, part)
        regions = [region for region in part.regions if self.limits(region)[0] < self.limits(region)[1]]
        values = np.concatenate([self.value(region, np.zeros(1)) for region in regions], axis=1).T
        if kernel.label_noise is None:
            _, number = np.unique(np.apply_along_axis(merged, 0, values), axis=0, return_inverse=True)
        else:
            number = kernel.label_noise.certain(values)
        place = number.ravel()
        # Probability of each label that is seen, on each of the intervals.
        count = int(place.max()) + 1
        seen = np.eye(count) if kernel.label_noise is None else kernel.label_noise.mixed(np.eye(count))
        self._seen = seen[:, place]
        self._ends = [region.interval(self.places[0]) for region in regions]
        self._cuts = np.unique([end for ends in self._ends for end in ends if math.isfinite(end)])

    def __call__(self, q: float) -> tuple[Array, Array]:
        """E g^2 and E (dg/d omega)^2 at the overlap q, each by two resolutions: shape (2,)."""
        v = 1 - q
        values = []
        for rule in self._rules:
            weight, (mass, first, second) = self._posteriors(q, rule)
            mean = first / mass
            change = (second / mass - mean**2) / v - 1
            values.append((float((mass * mean**2).sum(0) @ weight), float((mass * change**2).sum(0) @ weight)))
        return np.array([g for g, _ in values]) / v**2, np.array([change for _, change in values]) / v**2

    def log_density(self, q: float) -> Array:
        """E log Z_out at the overlap q by two resolutions: shape (2,)."""
        found = [self._posteriors(q, rule) for rule in self._rules]
        return np.array([float((sums[0] * np.log(sums[0])).sum(0) @ weight) for weight, sums in found])

    @property
    def solved(self) -> float:
        """Probability that the outputs fix u up to a few points: none, where they are discrete."""
        return 0.0

    def _posteriors(self, q: float, rule: Fineness) -> tuple[Array, Array]:
        """Weights of omega, and integrals of (1, u - omega, (u - omega)^2) for each label, shape (3, labels, n)."""
        sd = math.sqrt(1 - q)
        if q > 0:
            xi, weight = normal_rule(rule, (Marks(self._cuts / math.sqrt(q), sd / math.sqrt(q)),))
            omega, weight = math.sqrt(q) * xi, weight / weight.sum()
        else:
            omega, weight = np.zeros(1), np.ones(1)
        parts = np.array([interval_posterior(np.array(a), np.array(b), omega, sd) for a, b in self._ends])
        sums = np.einsum("sk,ktn->tsn", self._seen, parts)
        sums[0] = np.maximum(sums[0], 1e-300)
        return weight, sums
