"""Psi_out, the free entropy of the output channel in (10), with its gradient and Hessian.

Psi_out(q) = E_xi int dy Z_out log Z_out at omega = q^{1/2} xi, V = I - q, relative to q = 0: the measure on y, and what
else does not depend on q, drops out. The gradient is G/2, (103); the Hessian half the operator (15) at q, since g_out
is a martingale in q: d E[g g^T] = E sum_{m,m'} (dg_{mm'}) dq (dg_{mm'})^T.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.averages import SAFETY, Averages, Channel
from ..channel.linear import LinearChannel, linear_map
from ..channel.link.channel import LinkChannel
from ..channel.two_layers.diagonal import DiagonalQuadrature
from ..channel.two_linear.channel import TwoLinearQuadrature
from ..core.cluster_pool import ClusterPool, Recipe, Workers
from ..core.results import Estimate, How
from ..core.shown import few_lines
from ..core.standard_error import standard_error
from ..fixed_point.continuation import default_channel
from ..model.kinds import several_layers
from ..model.links import LinkKernel
from ..model.network import Network
from ..model.routes import CHART, preferred, require
from .integral import along_path
from .solved import solved_entries
from .two_layers import TwoLayerEntropy
from .two_linear import TwoLinearEntropy

__all__ = ["OnCluster", "OutputEntropy", "entropy_on_worker", "output_entropy"]

Array = NDArray[np.float64]
Route = Literal["direct", "integral of the gradient"]


class OnCluster(NamedTuple):
    """The workers of a cluster, and how they make the same output entropy for themselves."""

    pool: ClusterPool
    recipe: Recipe


@few_lines
class OutputEntropy:
    """Psi_out(q) - Psi_out(0) of one channel.

    Parameters
    ----------
    channel : Channel
        Averages G; the gradient.
    direct : callable, optional
        E log Z_out of each randomisation or resolution (the last is the finest), up to a constant; by default the
        channel's own `log_density`. None where there is none: then the gradient is integrated.
    route : {"direct", "integral of the gradient"}, optional
        To ask for one of both.

    Raises
    ------
    ValueError
        "direct" where there is no direct route.

    References
    ----------
    troiani2025, (10), (96)-(103), (160).
    """

    def __init__(
        self, channel: Channel, direct: Callable[[Array], Array | None] | None = None, route: Route | None = None
    ) -> None:
        self.channel = channel
        self.model = channel.model
        #: What prediction errors are of: the model, or the outputs of a link as they were written.
        self.predicted = channel.model
        self.size = self.model.indices
        self._direct = direct if direct is not None else channel.log_density
        self._zero = self._direct(np.zeros((self.size, self.size)))
        if route == "direct" and self._zero is None:
            raise ValueError(
                f"no direct log Z_out (9) for {self.describe()}; ask for the integral of its gradient, (103), instead"
            )
        self.route: Route = "integral of the gradient" if self._zero is None else "direct"
        self.route = route or self.route
        #: Indices that share one overlap.
        self.groups = tuple(
            tuple(i for i, _ in entries) for entries in channel.shared if entries[0][0] == entries[0][1]
        )
        #: Where searches from several starts go; None: they are made here.
        self.on_cluster: OnCluster | None = None
        # Learned together, and yet with overlaps of their own.
        self._joined = len(self.groups) > len(channel.groups)
        self._known: dict[bytes, Averages] = {}
        self._values: dict[bytes, Estimate] = {}

    @property
    def how(self) -> How:
        """Of the averages."""
        return "monte-carlo" if self.channel.sampled else "estimated"

    @property
    def solved(self) -> float:
        """Entries of h that y fixes up to finitely many choices, k: Psi_out = -(k/2) log V + O(1) towards q = I."""
        return solved_entries(self.channel)

    def describe(self) -> str:
        """One line about the model."""
        return self.model.describe()

    def matrix(self, x: Array) -> Array:
        """Diagonal overlap with one value per group."""
        q = np.zeros((self.size, self.size))
        for group, value in zip(self.groups, x, strict=True):
            for i in group:
                q[i, i] = value
        return q

    def averages(self, q: Array) -> Averages:
        """Averages of the channel at q; kept."""
        key = q.tobytes()
        if key not in self._known:
            self._known[key] = self.channel(q)
        return self._known[key]

    def value(self, q: Array) -> Estimate:
        """Psi_out(q) - Psi_out(0), 0 <= q < I.

        `error`: the distance of two resolutions, or a standard error; with what rules leave out.
        """
        key = q.tobytes()
        if key not in self._values:
            self._values[key] = self._value(q)
        return self._values[key]

    def _value(self, q: Array) -> Estimate:
        if not q.any():
            return Estimate(0.0, 0.0, self.how)
        # Share of the errors of two values that is left at least in that of their difference.
        chance = 0.1
        if self.route == "direct":
            found = self._direct(q)
            assert found is not None and self._zero is not None
            if self.how == "estimated":
                # Errors of both values may cancel by chance.
                apart = float(np.ptp(found - self._zero))
                spread = SAFETY * max(apart, chance * float(np.ptp(found) + np.ptp(self._zero)))
                spread += self.channel.log_density_bias(q) + self.channel.log_density_bias(np.zeros_like(q))
                # The difference of two values is rounded as they are.
                return _rounded(float(found[-1] - self._zero[-1]), spread, float(abs(found[-1]) + abs(self._zero[-1])))
            return self._estimate(found - self._zero, self.channel.log_density_bias(q))
        path = along_path(self.channel, q)
        share = self.channel.share
        return self._estimate(share * path.values, share * (path.bias + path.rule))

    def _estimate(self, values: Array, more: float) -> Estimate:
        if self.how == "monte-carlo":
            return Estimate(float(values.mean()), float(standard_error(values)) + more, "monte-carlo")
        mean = float(values.mean())
        return _rounded(mean, float(np.ptp(values)) / 2 + more, 1 + abs(mean))

    def limit(self, function: Callable[[Array], Estimate]) -> Estimate:
        """Limit of a function of q for q = (1 - v) I, v -> 0, that has an expansion in powers of v^{1/2}."""
        # Distances to one from which limits are extrapolated, of deterministic averages and of others.
        near = {"estimated": 1e-6, "monte-carlo": 1e-4}[self.how] * np.array([1.0, 4.0, 16.0])
        found = [function(self.matrix(np.full(len(self.groups), 1 - v))) for v in near]
        roots, values = np.sqrt(near), [one.value for one in found]
        two, three = (float(np.linalg.solve(np.vander(roots[:n], increasing=True), values[:n])[0]) for n in (2, 3))
        return Estimate(three, abs(three - two) + max(one.error for one in found), self.how)

    def gradient(self, q: Array) -> tuple[Array, Array]:
        """Gradient G(q)/2 on the symmetric matrices, and its error, shape (P, P) each; over the `share` of an index."""
        found = self.averages(q)
        mean = 0.5 * found.g.mean(axis=0)
        error = 0.5 * standard_error(found.g) if found.sampled else 0.25 * np.ptp(found.g, axis=0)
        return mean, error + 0.5 * found.bias

    def hessian(self, x: Array) -> Array:
        """Second derivatives of Psi_out by the overlaps of the groups, over the `share` of an index.

        Half the operator (15) where the channel has it; else differences of the gradient, whose points are the same at
        every q.

        Parameters
        ----------
        x : ndarray, shape (n,)

        Returns
        -------
        ndarray, shape (n, n)
        """
        q = self.matrix(x)
        if (both := self.channel.operator(q)) is not None:
            operator = both[1].mean(axis=0)
            return np.array(
                [
                    [0.5 * sum(operator[i, i, j, j] for i in one for j in other) for other in self.groups]
                    for one in self.groups
                ]
            )
        n = len(self.groups)
        out = np.zeros((n, n))
        # An overlap that differs little from zero, for one-sided differences.
        small = 0.02
        for k in range(n):
            if x[k] == 0 and self._joined:
                moved = x.copy()
                moved[k] = small
                mean, _ = self.gradient(self.matrix(moved))
                before, _ = self.gradient(q)
                out[:, k] = [(mean - before)[list(one), list(one)].sum() / small for one in self.groups]
                continue
            if x[k] == 0:
                # By parity the gradient vanishes there with the overlap, and grows as the operator says.
                group = list(self.groups[k])
                out[k, k] = 0.5 * float(self.averages(q).growth[:, group].mean()) * len(group)
                continue
            w = -math.log1p(-x[k])
            # Step of -log(1 - q) for differences of G.
            step = min(0.08, 0.3 * w)
            values = []
            for shift in (-1, -0.5, 0.5, 1):
                moved = x.copy()
                moved[k] = -math.expm1(-(w + shift * step))
                mean, _ = self.gradient(self.matrix(moved))
                values.append(np.array([mean[list(one), list(one)].sum() for one in self.groups]))
            slope = (8 * (values[2] - values[1]) - (values[3] - values[0])) / (6 * step)
            out[:, k] = slope / (1 - x[k])
        # A row at zero overlap has no derivative but its own.
        return 0.5 * (out + out.T)


def _rounded(value: float, error: float, size: float) -> Estimate:
    """Value with its error, and four roundings of the size of what it was made of."""
    return Estimate(value, error + 4 * float(np.finfo(float).eps) * size, "estimated")


def output_entropy(
    model: Network | LinkKernel | Channel,
    *,
    accuracy: float = 1e-3,
    samples: int | None = None,
    replicas: int = 8,
    rng: int = 0,
    workers: Workers = None,
    route: Route | None = None,
    noiseless: LinkKernel | None = None,
) -> OutputEntropy:
    """Psi_out of a model, a link or a channel.

    Parameters
    ----------
    model : Network, Network, LinkKernel or Channel
        Of those that `channel` or `LinkChannel` serve.
    accuracy : float, optional
        Relative accuracy of G by deterministic averages; Psi_out of two layers is asked for a tenth of it, absolute.
    samples, replicas, rng, workers : optional
        Of the averages, see `channel`; the workers of a cluster also search for stationary points.
    route : {"direct", "integral of the gradient"}, optional
    noiseless : LinkKernel, optional
        Of a link with noise: the same outputs without it, whose branches place nodes where the noise is narrow.

    Returns
    -------
    OutputEntropy
    """
    effort = {"accuracy": accuracy, "samples": samples, "replicas": replicas, "rng": rng}
    averages, direct = _averages(model, noiseless, workers, **effort)
    if route is None and isinstance(model, Network) and several_layers(model) and preferred("evolve", model) is CHART:
        # Its controls leave a twentieth of the variance of log Z_out at equal time, over three tokens and two layers.
        route = "integral of the gradient"
    made = OutputEntropy(averages, direct, route)
    if isinstance(workers, ClusterPool):
        settings = effort | {"route": route, "noiseless": noiseless, "workers": 1}
        made.on_cluster = OnCluster(workers, Recipe.of(entropy_on_worker, model, settings))
    return made


def entropy_on_worker(model: Network | LinkKernel | Channel, settings: dict[str, Any]) -> OutputEntropy:
    """Psi_out on a worker of a cluster."""
    return output_entropy(model, **settings)


def _averages(
    model: Network | LinkKernel | Channel, noiseless: LinkKernel | None, workers: Workers, **effort: Any
) -> tuple[Channel, Callable[[Array], Array | None] | None]:
    """Averages, and E log Z_out where it is not the channel's own."""
    # Share of the accuracy to which links are averaged by quadrature, which is cheap.
    quadrature = 1e-4
    if isinstance(model, LinkKernel):
        matrix = linear_map(model) if model.noise > 0 else None
        if matrix is not None:
            return LinearChannel(model, matrix), None
        rng = np.random.default_rng(effort["rng"])
        sizes = {"samples": effort["samples"] or 1024, "replicas": effort["replicas"]}
        tolerance = None if effort["accuracy"] is None else quadrature * effort["accuracy"]
        channel = LinkChannel(model, **sizes, rng=rng, noiseless=noiseless, workers=workers, tolerance=tolerance)
        return channel, None
    if isinstance(model, Network):
        require("free energy", model)
        averages = default_channel(model, **effort, workers=workers)
    else:
        averages = model
    # Direct averages of two layers need this share of the accuracy of G.
    share = 0.1
    if isinstance(averages, DiagonalQuadrature):
        entropy = TwoLinearEntropy if isinstance(averages, TwoLinearQuadrature) else TwoLayerEntropy
        finer = entropy(averages.model, max(share * averages.accuracy, entropy.finest), workers)
        return averages, finer.log_density
    return averages, None
