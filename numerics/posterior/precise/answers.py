"""log Z_out, g_out and its derivative in balls, by depth: a closed form, or from moments of the whitened indices."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import flint
import numpy as np
from flint import arb
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from ...model.network import Network
from .grid import Grid
from .integrand import Integrand
from .lattice_sums import Whitened
from .sum import Moments, Progress

__all__ = ["Answer", "Effort", "Problem", "more_layers", "one_layer", "two_layers"]

Balls = NDArray[np.object_]


@dataclass(frozen=True)
class Answer:
    """log_z, g_out (P, M) and dg_out (P, M, P, M) in balls.

    `error` is that of the rules and `rounding` that of the arithmetic, both in the units of
    `PreciseDenoiserResult.error`; `magnified` is `error` over the relative error of the moments.
    """

    log_z: arb
    g_out: Balls
    dg_out: Balls
    error: float
    rounding: float
    magnified: float
    nodes: int


class Problem(NamedTuple):
    """What the posterior depends on, in balls.

    Attributes
    ----------
    model : Network
        Its floats `skip` and `beta` do not count.
    skip, beta : arb
    v : ndarray of arb, shape (M,)
        Readout row, and `log_jacobian` of the readout.
    omega : ndarray of arb, shape (P, M)
    V : ndarray of arb, shape (P, P)
    """

    model: Network
    skip: arb
    beta: arb
    v: Balls
    log_jacobian: arb
    omega: Balls
    V: Balls


class Effort(NamedTuple):
    """Digits of the moments, bound of the nodes, and whom to tell of (nodes done, nodes planned)."""

    digits: int
    max_nodes: int
    progress: Progress | None


def one_layer(problem: Problem) -> Answer:
    """Two-point posterior h = +-v: closed form."""
    v, omega, V = problem.v, problem.omega[0], problem.V
    tokens, variance = len(v), V[0, 0]
    field = (omega * v).sum() / variance
    g = (v * field.tanh() - omega) / variance
    dg = np.multiply.outer(v, v) * (field.sech() / variance) ** 2 - np.eye(tokens, dtype=int) / variance
    log_z = (
        -((v * v).sum() + (omega * omega).sum()) / (2 * variance)
        + abs(field)
        + (-2 * abs(field)).exp().log1p()
        - (2 * arb.pi() * variance).log() * tokens / 2
        - problem.log_jacobian
    )
    growth = _Growth(0.0, (arb(0), arb(0), arb(0)))
    return _answer((log_z, g[None, :], dg[None, :, None, :]), V, growth, 0)


def two_layers(problem: Problem, effort: Effort) -> Answer:
    """Two layers with two tokens."""
    model, skip, beta, v, log_jacobian, omega, V = problem
    digits, max_nodes, progress = effort
    half = arb(0.5).sqrt()

    def modes(row: Balls) -> tuple[arb, arb]:
        return (row[0] + row[1]) * half, (row[0] - row[1]) * half

    slope = V[0, 1] / V[0, 0]
    i1, i2 = V[0, 0].rsqrt(), (V[1, 1] - slope * V[0, 1]).rsqrt()
    exact = (*modes(v), skip, beta, *modes(omega[0]), *modes(omega[1]), i1, slope, i2)
    # A rectangle that is tried costs as much as some hundred nodes.
    nodes_a_try, fewest_tried = 500, 2000
    tried = max(fewest_tried, max_nodes // nodes_a_try)
    integrand = Integrand(model, tuple(float(number) for number in exact), digits, tried, progress)
    moments = Moments(integrand, exact, flint.ctx.prec)
    if moments.planned() > max_nodes:
        raise ConvergenceError(
            f"the precise denoiser (169) needs {moments.planned()} nodes for {digits} digits of the "
            f"moments, and {max_nodes} are left of max_nodes: raise max_nodes, or ask for fewer digits"
        )
    total = moments.total(progress)
    # Rows (index, mode) of z to rows (index, token) of V^{-1} (h - omega).
    log_scale = moments.top - 2 * (2 * arb.pi()).log() + 2 * (i1 * i2).log() - log_jacobian
    whiten = np.array([[i1, arb(0)], [-slope * i2, i2]], dtype=object)
    rotate = np.array([[half, half], [half, -half]], dtype=object)
    shares = _Moments(total, moments.error() / float(total[0, 0]), log_scale, moments.nodes)
    return _summary(shares, whiten, rotate, V)


def more_layers(problem: Problem, effort: Effort) -> Answer:
    """Any depth above one and any number of tokens."""
    model, skip, beta, v, log_jacobian, omega, V = problem
    digits, max_nodes, progress = effort
    factor = _cholesky(V)
    grid = Grid(Whitened(model, skip, beta, v, omega, factor), digits, flint.ctx.prec, max_nodes, progress)
    total, error, top, nodes = grid.total()
    log_scale = top - (2 * arb.pi()).log() * model.layers * model.tokens / 2 - log_jacobian
    log_scale -= factor[-1, -1].log() * model.tokens
    rotate = np.array([[arb(int(i == j)) for j in range(model.tokens)] for i in range(model.tokens)], dtype=object)
    return _summary(_Moments(total, error, log_scale, nodes), _inverse_triangle(factor), rotate, V)


def _cholesky(V: Balls) -> Balls:
    """C, lower triangular, with V = C C^T."""
    out = np.full(V.shape, arb(0), dtype=object)
    for i in range(len(V)):
        for j in range(i + 1):
            left = V[i, j] - sum((out[i, k] * out[j, k] for k in range(j)), arb(0))
            out[i, j] = left.sqrt() if i == j else left / out[j, j]
    return out


def _inverse_triangle(factor: Balls) -> Balls:
    """Inverse of a lower triangular matrix."""
    out = np.full(factor.shape, arb(0), dtype=object)
    for j in range(len(factor)):
        for i in range(j, len(factor)):
            left = arb(int(i == j)) - sum((factor[i, k] * out[k, j] for k in range(j, i)), arb(0))
            out[i, j] = left / factor[i, i]
    return out


class _Moments(NamedTuple):
    """Moments of (1, z), their relative error, the logarithm of what the mass is to be multiplied by, and the nodes."""

    total: flint.arb_mat
    error: float
    log_scale: arb
    nodes: int


class _Growth(NamedTuple):
    """Relative error of the moments, and how much it grows on the way to log_z, g and dg."""

    moments: float
    factors: tuple[arb, arb, arb]


def _summary(moments: _Moments, whiten: Balls, rotate: Balls, V: Balls) -> Answer:
    """Put moments into log_z, g and dg; z = `whiten` (h - omega) `rotate`^T in (indices, tokens)."""
    total, error, log_scale, nodes = moments
    p, m = len(whiten), len(rotate)
    size, mass = p * m, total[0, 0]
    first = np.array([total[0, i] / mass for i in range(1, size + 1)], dtype=object)
    second = np.array([[total[i, j] / mass for j in range(1, size + 1)] for i in range(1, size + 1)], dtype=object)
    covariance = second - np.multiply.outer(first, first) - np.eye(size, dtype=int)
    # h - omega = whiten^-1 z rotate, so that V^{-1} (h - omega) = whiten^T z rotate.
    back = np.array(
        [[whiten[k, i] * rotate[t, token] for k in range(p) for t in range(m)] for i in range(p) for token in range(m)],
        dtype=object,
    )
    g = (back @ first).reshape(p, m)
    dg = (back @ covariance @ back.T).reshape(p, m, p, m)
    # Relative errors of the moments are errors of the mass times them: of z, of z z^T and of the squares of E[z].
    largest = 1 + _largest(first)
    steepest = reduce(arb.max, (sum((abs(entry) for entry in row), arb(0)) for row in back))
    growth = _Growth(error, (arb(1), steepest * largest, steepest**2 * (2 * largest**2 + _largest(second))))
    return _answer((mass.log() + log_scale, g, dg), V, growth, nodes)


def _largest(entries: Balls) -> arb:
    """Largest modulus of the midpoints; not as a float, which it may exceed."""
    return reduce(arb.max, (abs(entry.mid()) for entry in entries.ravel()))


def _answer(found: tuple[arb, Balls, Balls], V: Balls, growth: _Growth, nodes: int) -> Answer:
    """Put errors of log_z, g and dg in the units of the result."""
    log_z, g, dg = found
    parts = (np.array([log_z], dtype=object), g, dg)
    if not all(entry.is_finite() for part in parts for entry in part.ravel()):
        return Answer(log_z, g, dg, math.inf, math.inf, 1.0, nodes)
    trace = sum(V.diagonal(), arb(0))
    scales = [least.max(_largest(part)) for least, part in zip((arb(1), trace.rsqrt(), 1 / trace), parts, strict=True)]
    worst = max(float(factor / scale) for factor, scale in zip(growth.factors, scales, strict=True))
    rounding = max(float(entry.rad() / scale) for scale, part in zip(scales, parts, strict=True) for entry in part.flat)
    return Answer(log_z, g, dg, growth.moments * worst, max(rounding, 1e-300), max(worst, 1.0), nodes)
