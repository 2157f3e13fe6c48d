"""Operator norm of the last layer (184)-(185) by sums in float64, and by Monte Carlo for deep linear attention."""

import math

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from ..core.results import Estimate
from ..core.standard_error import standard_error
from ..model.mixing_law import mixing_law, norm_cut, radial
from ..model.network import Network
from ..quadrature.rules import gauss_legendre_panels, gaussian, half_line, normal_qmc, sinh_trapezoid, trapezoid

__all__ = ["linear_deep", "linear_mixing", "linear_two_layers", "softmax"]

Array = NDArray[np.float64]

_CUT = 8.6


def _functional(z: Array, n_pp: Array, n_pm: Array, n_mm: Array) -> Array:
    """|| N / Z ||_F^2 Z, zero where Z underflows (there N does too, and faster)."""
    tiny = z < 1e-60
    return np.where(tiny, 0.0, (n_pp**2 + 2 * n_pm**2 + n_mm**2) / np.where(tiny, 1.0, z))


def softmax(model: Network, level: int) -> float:
    """Operator norm from the law of (S, T); the last layer's modes are b = v_-/T, a = v_+ - S b.

    At rank r they are the norm of one mode and the component of the other along it, with r - 1 free components across:
    E[h^T h | y]/r - I has the entries of N/(r Z), and the operator is a multiple of the identity.
    """
    rank = model.ranks[-1]
    law = mixing_law(model, model.layers - 1, level)
    c = model.skip
    step = 0.12 / (1 + 0.45 * level)
    # The integrand has the parity of v_-^(r - 1).
    minus = (sinh_trapezoid if rank % 2 else half_line)((c / (1 + c)) ** (model.layers - 1), norm_cut(rank), step)
    plus = trapezoid(0.0, _CUT + norm_cut(rank) * (model.layers - 1) / (1 + c), 1.6 * step)
    half = plus.weights.copy()
    half[0] *= 0.5
    v = plus.nodes[:, None]
    total = 0.0
    # exp(-b^2/2) below 1e-60 is invisible beside the ratio N^2/Z it enters.
    blind = 17.0
    for vm, weight in zip(minus.nodes, minus.weights, strict=True):
        b = np.broadcast_to(vm / law.t, law.weights.shape).ravel()
        mass = (law.weights / law.t).ravel() * gaussian(b) / (2 * math.pi)
        keep = np.abs(b) < blind
        if rank > 1:
            mass = mass * radial(b, rank)
        b, mass, shift = b[keep], mass[keep], (law.s[:, None] * (vm / law.t)).ravel()[keep]
        # One exponential per pair of nodes and one matrix product for all moments of a = v - shift and b.
        columns = mass[:, None] * np.stack([np.ones_like(b), shift, shift**2, b, shift * b, b * b], axis=1)
        m = gaussian(v - shift) @ columns
        z, mean, square, mean_b, mixed, square_b = m.T[:, :, None]
        value = _functional(z, v * v * z - 2 * v * mean + square - z, v * mean_b - mixed, square_b - rank * z)
        total += 4 * weight * float(half @ value[:, 0])
    return total / rank**2


def linear_two_layers(model: Network, level: int) -> float:
    """Operator norm for linear attention, two layers: rotation leaves only R = |v|, r = |h_1| and the angle between.

    B = c I + beta h_1 h_1^T stretches the direction of h_1 to t = c + beta r^2, so in the frame of v
    h_2 = R (cos^2/t + sin^2/c, sin cos (1/t - 1/c)).
    """
    c, beta = model.skip, model.beta
    order = 16 + 8 * level
    edge = min(0.25, 0.5 * math.sqrt(c / beta))
    edges = [0.0]
    while edge < 1.0:
        edges.append(edge)
        edge *= 2
    radius = gauss_legendre_panels(np.unique([*edges, *np.linspace(1.0, _CUT, 9)]), order)
    t = (c + beta * radius.nodes**2)[:, None]
    # tan(angle) = sqrt(c/t) tan(psi) makes both ends of the stretched circle equally wide.
    n = int((48 + 32 * level) * (1 + (float(t.max()) / c) ** 0.25))
    psi = (np.arange(n) + 0.5) * (0.5 * math.pi / n)
    cos2, sin2 = t * np.cos(psi) ** 2, c * np.sin(psi) ** 2
    total = cos2 + sin2
    cos2, sin2 = cos2 / total, sin2 / total
    measure = np.sqrt(c * t) / total / n  # d angle / d psi
    measure = measure * (radius.weights * radius.nodes * np.exp(-0.5 * radius.nodes**2))[:, None] / (c * t)
    along = (cos2 / t + sin2 / c).ravel()
    across2 = (cos2 * sin2 * (1 / t - 1 / c) ** 2).ravel()
    size2 = along**2 + across2
    return _radial(size2, along**2, across2, measure.ravel(), level)


def linear_deep(model: Network, rng: np.random.Generator) -> tuple[Estimate, int]:
    """Operator norm for linear attention at any depth, by randomised quasi-Monte Carlo over the hidden layers."""
    from scipy.special import ndtr

    replicas = 16
    values = []
    halves = []
    for stream in rng.spawn(replicas):
        # Two components per hidden layer (the first rotated onto an axis) and the angle of v.
        points = normal_qmc(2 * (model.layers - 1) + 1, 15, stream)
        b, determinant = linear_mixing(model, points)
        u, stretch, w = np.linalg.svd(b)
        # By the determinant the small singular value keeps its digits, and its sign beside these vectors.
        small = determinant / stretch[:, 0]
        turned = np.linalg.det(u) * np.linalg.det(w)
        # The direction of h = B^{-1} v, made uniform on the stretched circle: v-hat = B g / |B g|.
        psi = math.pi * ndtr(points[:, -1])
        ratio = small / stretch[:, 0]
        cos2, sin2 = ratio * np.cos(psi) ** 2, np.sin(psi) ** 2
        total = cos2 + sin2
        sign = np.sign(np.cos(psi) * np.sin(psi))
        direction = np.stack([np.sqrt(cos2 / total), sign * np.sqrt(sin2 / total)], axis=1)
        h_hat = np.einsum("ni,nij->nj", direction, w)
        v_of_h = np.einsum("nij,nj->ni", u, direction * np.stack([stretch[:, 0], turned * small], axis=1))
        size2 = 1 / np.einsum("ni,ni->n", v_of_h, v_of_h)
        v_hat = v_of_h * np.sqrt(size2)[:, None]
        along2 = size2 * np.einsum("ni,ni->n", h_hat, v_hat) ** 2
        # d(angle of h)/d psi, times d(angle of v)/d(angle of h)/|det B| = |g|^2.
        measure = np.sqrt(ratio) / total * size2 / len(points)
        values.append(_radial(size2, along2, size2 - along2, measure, 0))
        half = slice(0, len(points) // 2)
        halves.append(_radial(size2[half], along2[half], (size2 - along2)[half], 2 * measure[half], 0))
    # N^2/Z of sums over n points is biased by O(1/n): extrapolate. Points of large weight are rare where the
    # power of n is less: down to n^-0.74 the extrapolation leaves no more than half of what it takes off.
    bias = np.array(halves) - np.array(values)
    sample = np.array(values) - bias
    error = math.hypot(float(standard_error(sample)), 0.5 * float(bias.mean()))
    return Estimate(float(sample.mean()), error, "monte-carlo"), replicas


def linear_mixing(model: Network, points: Array) -> tuple[Array, Array]:
    """Mixing matrices (5), shape (n, 2, 2), and determinants; the first hidden layer lies along an axis."""
    determinant = np.ones(len(points))
    b = np.broadcast_to(np.eye(2), (len(points), 2, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in range(model.layers - 1):
            v = np.einsum("nij,nj->ni", b, points[:, 2 * layer : 2 * layer + 2])
            determinant = determinant * model.skip * (model.skip + model.beta * np.einsum("ni,ni->n", v, v))
            b = model.skip * b + model.beta * v[:, :, None] * np.einsum("ni,nij->nj", v, b)[:, None, :]
    # Entries of a mixing matrix whose fourth powers are in the range of float64.
    largest = 1e70
    if not np.abs(b).max() < largest:
        raise ConvergenceError(
            f"the outputs of {model.describe()} are beyond the range of float64, as they grow like a power of h that "
            "triples with each layer (5): take fewer layers, or a smaller beta"
        )
    return b, determinant


def _radial(size2: Array, along2: Array, across2: Array, measure: Array, level: int) -> float:
    """Integrate over R = |v| given the law of h/R at fixed direction of v.

    size2 = |h|^2/R^2 and its parts along and across v; measure = probability / |det B|. R = e^x: the integrand
    R^2 (..) falls off exponentially on both sides. All terms of Z are positive: its tails keep their digits.
    """
    top = 0.5 * math.log(1 / float(size2.min())) + math.log(_CUT)
    bottom = 0.5 * math.log(1 / float(size2.max())) - 18.0
    log_r = trapezoid(bottom, top, 0.16 / (1 + 0.5 * level))
    r2 = np.exp(2 * log_r.nodes)
    columns = measure[:, None] * np.stack([np.ones_like(size2), along2, across2], axis=1) / (2 * math.pi)
    sums = np.zeros((len(r2), 3))
    size = np.sqrt(size2)
    for start in range(0, len(size2), 4096):
        part = slice(start, start + 4096)
        sums += gaussian(np.exp(log_r.nodes)[:, None] * size[part]) @ columns[part]
    z, along, across = sums.T
    value = _functional(z, r2 * along - z, np.zeros_like(z), r2 * across - z)
    return 2 * math.pi * float((log_r.weights * r2) @ value)
