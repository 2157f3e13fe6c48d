"""Averages over the output channel at a given overlap: what state evolution and thresholds are made of.

For omega = q^{1/2} xi and h = omega + V^{1/2} zeta, V = I - q, every class here gives the matrix
G(q) = E sum_m g_m g_m^T = 2 dPsi_out/dq, troiani2025 (14), (95), and the operator blocks
lambda_l(q) = E || E[h_l^T h_l | y, omega] - I ||_F^2 of the layers l of zero overlap, (15), (187), as one value per
independent randomisation, so that means and standard errors follow. Points are fixed once: G is a smooth
function of q.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .deep.linearised import Linearised
from .denoiser import denoise_readout
from .mixing_law import MixingLaw, mixing_law
from .models import Attention
from .quadrature import gauss_legendre_panels, normal_qmc

__all__ = [
    "NEARLY",
    "ROUNDING",
    "SAFETY",
    "Averages",
    "Channel",
    "channel",
    "controlled",
    "interval",
    "is_costly",
    "is_sampled",
    "matrix_root",
    "regression",
]

Array = NDArray[np.float64]

#: Where all learned layers are left with less variance than this, linearised posteriors are control variates.
NEARLY = 0.1
#: The distance of two rules may be small by chance: times this, it is the error that is stated.
SAFETY = 2.0
#: Rounding of sums over nodes, relative to their largest term.
ROUNDING = 2e-15


@dataclass(frozen=True)
class Averages:
    """Channel averages at one overlap.

    Attributes
    ----------
    g : ndarray, shape (replicas, P, P)
        E sum_m g_m g_m^T of each randomisation.
    growth : ndarray, shape (replicas, P)
        lambda_l of the layers of zero overlap (of one layer with several indices: that of the direction in which they
        grow together); NaN elsewhere and where it is not computed.
    """

    g: Array
    growth: Array
    # What the mean of g may be off by beside its scatter, shape (P, P), where that is known.
    bias: Array | None = None


class Channel(Protocol):
    """Averages over the output channel of one model.

    These attributes are optional: `groups`, the indices that are learned together (default: each by itself), and
    `equal`, whether a group shares one overlap; `log_density(q)`, E log Z_out of each randomisation up to a constant,
    and `solved`, how many entries of h the output fixes up to finitely many choices.
    """

    # What `prediction_errors` takes.
    model: Any
    how: str
    note: str
    # Layers whose overlap may be non-zero.
    layers: tuple[int, ...]

    def __call__(self, q: Array) -> Averages:
        """Averages at the overlap q, shape (P, P)."""


def matrix_root(q: Array) -> Array:
    """Symmetric square root of a PSD matrix; rounding below zero is cut."""
    values, vectors = np.linalg.eigh(q)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


def interval(fine: float | Array, coarse: float | Array) -> Array:
    """Ends of the interval about the finer of two rules, its half width the stated error, shape (2, ...)."""
    gap = SAFETY * np.abs(fine - coarse)
    return np.array([fine - gap, fine + gap])


def regression(values: Array, columns: Array) -> Array:
    """Weights of the columns that explain the values best, means aside."""
    centred = columns - columns.mean(axis=0)
    gram = centred.T @ centred
    gram += 1e-12 * max(float(np.trace(gram)), 1e-300) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram, centred.T @ (values - values.mean())))


def controlled(values: Array, controls: list[Array], replicas: int) -> Array:
    """Replica means of values minus the regression on controls of known mean zero."""
    columns = np.stack(controls, axis=1)
    weights = regression(values, columns)
    return np.asarray((values - columns @ weights).reshape(replicas, -1).mean(axis=1))


def is_sampled(model: Any) -> bool:
    """Whether the posterior has no rule but is sampled: beyond two layers, or two layers of more than two tokens."""
    return bool(model.layers > 2 or (model.layers == 2 and model.tokens > 2))


def is_costly(model: Any) -> bool:
    """Whether the posterior of one output takes about a millisecond."""
    shifted = model.activation == "softmax" and model.layers == 1 and 3 == model.indices >= model.tokens
    return is_sampled(model) or bool(shifted)


def channel(
    model: Any,
    *,
    samples: int,
    replicas: int,
    rng: np.random.Generator,
    workers: int | None = None,
    nodes: int = 2048,
    accuracy: float | None = None,
) -> Channel:
    """Choose the averages for a model.

    Parameters
    ----------
    model : Attention or fibres.LastLayer
        Rank 1; at depth 1 to 3, and untied.
    samples : int
        Points per randomisation (rounded up to a power of two).
    replicas : int
        Number of independent randomisations, at least 2.
    rng : numpy.random.Generator
    workers : int, optional
        Threads of the denoiser.
    nodes : int, optional
        Nodes of the posterior of each output, where it is sampled.
    accuracy : float, optional
        Of two or more softmax layers and two tokens, by quadrature as far as it goes; None samples them.
    """
    if isinstance(model, Attention) and model.indices == 1:
        return OneLayer(model)
    log2_n = max(4, math.ceil(math.log2(samples)))
    streams = rng.spawn(replicas)
    points = [normal_qmc(2 * model.indices * model.tokens, log2_n, s) for s in streams]
    if model.layers == 1:
        from .fibre_channel import TiedLayer, UntiedLayer

        return TiedLayer(model, points) if isinstance(model, Attention) else UntiedLayer(model, points)
    if not is_sampled(model):
        if accuracy is None:
            return TwoLayers(model, points, workers)
        from .two_layers.channel import TwoLayerAverages

        def sampled(times: int) -> Channel:
            more = points if times == 1 else [normal_qmc(8, log2_n + int(math.log2(times)), s) for s in streams]
            return TwoLayers(model, more, workers)

        return TwoLayerAverages(model, accuracy, sampled, workers)
    if accuracy is not None:
        from .deep.averages import DeepAverages

        return DeepAverages(model, accuracy, replicas=replicas, rng=rng, workers=workers)
    from .deep_channel import DeepChannel

    return DeepChannel(model, points, nodes=nodes, rng=rng, workers=workers)


class OneLayer:
    """Depth 1: the posterior is h = +-v, and two variables remain, r = |omega| and the component of h along omega.

    With Nishimori's identity G = (E[|h|^2 tanh^2(omega.h/V)] - M q)/V^2; deterministic quadrature.
    """

    how = "estimated"
    note = ""

    def __init__(self, model: Attention) -> None:
        """Keep the model; rank 1 is checked by the caller."""
        self.model = model
        self.layers: tuple[int, ...] = (0,)

    def __call__(self, q: Array) -> Averages:
        """Averages as the ends of an interval about the finer of two resolutions."""
        scalar = float(q[0, 0])
        coarse, fine = (self._value(scalar, order) for order in (24, 32))
        m = self.model.tokens
        growth = np.full((2, 1), float(m * (m + 1)) if scalar == 0 else np.nan)
        # Differences of M/V leave their rounding.
        rounding = ROUNDING * m / (1 - scalar) if scalar else 0.0
        return Averages(interval(fine, coarse)[:, None, None], growth, np.array([[rounding]]))

    def log_density(self, q: Array) -> Array:
        """E log Z_out by the two resolutions, shape (2,), Z_out the density of v up to its sign.

        It is the prior's entropy of h given omega, and E log(1 + exp(-2 omega.h/V)) for the other sign.
        """
        m, scalar = self.model.tokens, float(q[0, 0])
        constant = -0.5 * m * (math.log(2 * math.pi * (1 - scalar)) + 1)
        return constant + np.array([self._doubt(scalar, order) for order in (24, 32)])

    @property
    def solved(self) -> float:
        """Entries of h that the output fixes, up to a sign."""
        return float(self.model.tokens)

    def _doubt(self, q: float, order: int) -> float:
        """E log(1 + exp(-2 omega.h/V)): minus E log of the posterior probability of the true sign."""
        if q == 0:
            return math.log(2.0)
        outer, inner, r, along = self._plane(q, order)
        return float(outer @ (np.logaddexp(0.0, -2 * r * along / (1 - q)) @ inner))

    def _value(self, q: float, order: int) -> float:
        m, v = self.model.tokens, 1 - q
        if q == 0:
            return 0.0
        outer, inner, r, along = self._plane(q, order)
        # E[|h|^2 tanh^2] - M q = M V - E[|h|^2 sech^2]: no cancellation as V -> 0.
        decay = np.exp(-2 * np.abs(r * along) / v)
        sech2 = 4 * decay / (1 + decay) ** 2
        missing = ((along**2 + v * (m - 1)) * sech2) @ inner
        return float((m * v - outer @ missing) / v**2)

    def _plane(self, q: float, order: int) -> tuple[Array, Array, Array, Array]:
        """Weights of r = |omega| and of the component of h along it, given r; and both."""
        m, sd = self.model.tokens, math.sqrt(1 - q)
        # chi_M law of r = sqrt(q) rho; tanh switches at r ~ sd.
        edge = min(0.5, 0.5 * sd / math.sqrt(q))
        edges = [0.0]
        while edge < 1.0:
            edges.append(edge)
            edge *= 2
        top = math.sqrt(m) + 9.0
        rho = gauss_legendre_panels(np.unique([*edges, *np.linspace(1.0, top, 2 * math.ceil(top))]), order)
        log_density = (m - 1) * np.log(rho.nodes) - 0.5 * rho.nodes**2
        log_density -= (0.5 * m - 1) * math.log(2) + math.lgamma(0.5 * m)
        r = math.sqrt(q) * rho.nodes[:, None]
        # In z the switch is at -r/sd with width sd/r, narrow only where it is out of reach.
        z = gauss_legendre_panels(np.linspace(-9.0, 9.0, 37), order // 2)
        along = r + sd * z.nodes
        weight = np.exp(-0.5 * z.nodes**2) * z.weights / math.sqrt(2 * math.pi)
        return rho.weights * np.exp(log_density), weight, r, along


class TwoLayers:
    """Depth 2, two tokens: randomised quasi-Monte Carlo over (omega, h) with the exact denoiser."""

    how = "monte-carlo"
    note = ""
    # Of the denoiser; far below the sampling error.
    tolerance = 1e-5

    def __init__(self, model: Attention, points: list[Array], workers: int | None) -> None:
        """Keep standard normal points, one array of shape (n, 8) per randomisation."""
        self.model = model
        self.layers: tuple[int, ...] = (0, 1)
        self._replicas = len(points)
        normals = np.concatenate(points).reshape(-1, 2, 2, 2)
        self._xi, self._zeta = normals[:, 0], normals[:, 1]
        self._workers = workers
        self._linearised = Linearised(model, len(points), workers, points=16 * len(points[0]))

    def __call__(self, q: Array) -> Averages:
        """Averages with control variates: Nishimori's identities and, as V -> 0, the linearised posterior."""
        v = np.eye(2) - q
        omega = matrix_root(q) @ self._xi
        h = omega + np.linalg.cholesky(v) @ self._zeta
        readout = (h[:, 1:2] @ np.swapaxes(self.model.mixing(h), 1, 2))[:, 0]
        post = denoise_readout(self.model, readout, omega, v, tol=self.tolerance, workers=self._workers)
        g, dg = post.g_out, post.dg_out
        precision = np.linalg.inv(v)
        u = precision @ (h - omega)
        pairs = [(a, b) for a in range(2) for b in range(a, 2)]
        out = np.zeros((self._replicas, 2, 2))
        curvature = np.einsum("nambm->nab", dg)
        nearly = q.diagonal().min() > 1 - NEARLY
        linear = self._linearised(matrix_root(q), h, omega, v) if nearly else {}
        for a, b in pairs:
            gg = (g[:, a] * g[:, b]).sum(axis=1)
            controls = [
                gg + curvature[:, a, b],
                gg - 0.5 * (g[:, a] * u[:, b] + g[:, b] * u[:, a]).sum(axis=1),
                (u[:, a] * u[:, b]).sum(axis=1) - 2 * precision[a, b],
                *linear.get((a, b), []),
            ]
            out[:, a, b] = out[:, b, a] = controlled(gg, controls, self._replicas)
        growth = np.full((self._replicas, 2), np.nan)
        for layer in (0, 1):
            if not q[layer].any():
                growth[:, layer] = self._mean((dg[:, layer, :, layer, :] ** 2).sum(axis=(1, 2)))
        return Averages(out, growth)

    def _mean(self, values: Array) -> Array:
        return values.reshape(self._replicas, -1).mean(axis=1)


class LastLayer:
    """Any depth, two tokens, overlap on the last layer only: hidden layers through the law of (S, T).

    q = diag(0, .., 0, q_LL) is invariant under the state evolution by parity.
    """

    how = "monte-carlo"
    note = "restricted to the last layer: the overlaps of the layers before it are held at 0"

    def __init__(self, model: Attention, points: list[Array]) -> None:
        """Keep standard normal points, one array of shape (n, 2 L + 2) per randomisation."""
        if model.activation != "softmax":
            from .errors import KernelNotFoundError

            raise KernelNotFoundError(
                f"state evolution at depth >= 3 needs the softmax activation, got {model.describe()}"
            )
        self.model = model
        self.layers: tuple[int, ...] = (model.layers - 1,)
        self._law: MixingLaw = mixing_law(model, model.layers - 1, 0)
        self._replicas = len(points)
        normals = np.concatenate(points)
        n, depth = len(normals), model.layers
        hidden = normals[:, : 2 * (depth - 1)].reshape(n, depth - 1, 2)
        h = np.concatenate([hidden, np.zeros((n, 1, 2))], axis=1)
        mixing = model.mixing(h)
        # Rows and columns of B in token modes.
        rotation = np.array([[1.0, 1.0], [1.0, -1.0]]) * math.sqrt(0.5)
        modes = rotation @ mixing @ rotation
        self._s, self._t = modes[:, 0, 1] / modes[:, 0, 0], modes[:, 1, 1] / modes[:, 0, 0]
        self._xi, self._zeta = normals[:, -4:-2], normals[:, -2:]

    def __call__(self, q: Array) -> Averages:
        """Averages over (omega_L, h_L, S, T); the posterior sums over the grid of (S, T) and both branches."""
        scalar = float(q[-1, -1])
        v = 1 - scalar
        omega = math.sqrt(scalar) * self._xi
        h = omega + math.sqrt(v) * self._zeta
        plus, minus = h[:, 0] + self._s * h[:, 1], self._t * h[:, 1]
        g2 = np.empty(len(h))
        s, t = self._law.s[:, None], self._law.t[None, :]
        log_weight = -np.log(np.broadcast_to(t, self._law.weights.shape))
        for start in range(0, len(h), 64):
            part = slice(start, start + 64)
            b = minus[part, None, None] / t
            a = plus[part, None, None] - s * b
            om_a, om_b = omega[part, 0, None, None], omega[part, 1, None, None]
            even = log_weight - 0.5 * (a * a + b * b) / v
            odd = (a * om_a + b * om_b) / v
            top = (even + np.abs(odd)).max(axis=(1, 2), keepdims=True)
            up = np.exp(even + odd - top) * self._law.weights
            down = np.exp(even - odd - top) * self._law.weights
            mass = (up + down).sum(axis=(1, 2))
            mean_a = ((up - down) * a).sum(axis=(1, 2)) / mass
            mean_b = ((up - down) * b).sum(axis=(1, 2)) / mass
            g2[part] = (mean_a - omega[part, 0]) ** 2 + (mean_b - omega[part, 1]) ** 2
        # E|<h> - omega|^2 from E|<h>|^2 = E h.<h>: control variates as in two layers.
        values = g2.reshape(self._replicas, -1).mean(axis=1) / v**2
        out = np.zeros((self._replicas, self.model.indices, self.model.indices))
        out[:, -1, -1] = values if scalar > 0 else 0.0
        return Averages(out, np.full((self._replicas, self.model.layers), np.nan))
