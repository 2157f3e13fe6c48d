"""Denoiser at any precision: the oracle of the float64 one, by another quadrature in other coordinates.

`denoise` sums a sheared trapezoidal lattice that certified ranges prune. Here the plane of h_1 is cut into rectangles
(`precise_cut`), on each of which Gauss-Legendre rules are tuned and summed in fixed point with bounds of the rounding
(`precise_sum`, `precise_fixed`). More layers or tokens are served by a trapezoidal rule (`precise_grid`).
"""

import math
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import flint
import numpy as np
from flint import arb
from mpmath.ctx_mp import MPContext
from numpy.typing import NDArray

from ...arithmetic.ball import BALLS, ball, to_mpf, working_bits
from ...core.errors import ConvergenceError, KernelNotFoundError, UnreachableOutputError
from ...core.results import How
from ...model.attention import Attention, kernel
from ..readout import invert_readout
from .cut import Integrand
from .grid import Grid
from .sum import Moments, Progress

__all__ = ["PreciseDenoiserResult", "denoise_mp"]

Balls = NDArray[np.object_]

# Decimal digits carried beyond those asked for.
_GUARD = 8
# Digits of a first pass, and those that its arithmetic carries beyond what is asked for.
_PILOT, _WIDE = 8, 40
_CLOSED_FORM = "closed form"
# A rectangle that is tried costs as much as some hundred nodes.
_NODES_A_TRY, _FEWEST_TRIED = 500, 2000
# Sizes of the entries of y, omega and V.
_SMALLEST, _LARGEST = 1e-307, 1e307


@dataclass(frozen=True)
class PreciseDenoiserResult:
    """Posterior summary of one output (12), in numbers of an mpmath context of its own.

    Attributes
    ----------
    log_z : mpf
        log Z_out(y; omega, V), normalised as in `denoise`.
    g_out : ndarray of mpf, shape (P, M)
        V^{-1} (E[h | y] - omega).
    dg_out : ndarray of mpf, shape (P, M, P, M)
        V^{-1} Cov[h | y] V^{-1} - V^{-1} delta_{mm'}.
    error : float
        Largest of the errors of log_z (relative where |log_z| > 1), of g_out relative to its largest entry or to
        tr(V)^{-1/2}, and of dg_out relative to its largest entry or to 1/tr(V), whichever is larger.
    how : {"rigorous", "estimated", "monte-carlo"}
        Rigorous at depth 1, where ball arithmetic encloses a closed form.
    digits : int
        Digits asked for; error <= 10^-digits.
    nodes : int
        Evaluations of the integrand.
    route : str
        How the integral was done.
    """

    log_z: Any
    g_out: Balls
    dg_out: Balls
    error: float
    how: How
    digits: int
    nodes: int
    route: str


@dataclass(frozen=True)
class _Answer:
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


def denoise_mp(
    model: Attention,
    y: Any,
    omega: Any,
    V: Any,
    *,
    digits: int = 30,
    skip: Any = None,
    beta: Any = None,
    max_nodes: int = 10_000_000,
    progress: Progress | None = None,
) -> PreciseDenoiserResult:
    """Posterior of the indices given one output, to any number of digits.

    log_z = log Z_out(y; omega, V), g_out = V^{-1} (E[h | y] - omega) and its derivative in omega.

    Parameters
    ----------
    model : Attention
        Rank 1, any depth and any number of tokens. The cost of depth L > 1 with M tokens grows like the digits to the
        power M (L - 1) or more: beyond depth 2 with two tokens, ask for few digits.
    y : array_like, shape (M, M)
        One output. Entries may be floats, which count as the exact binary numbers they are, decimals as text, mpf,
        Decimal, Fraction or balls of python-flint. With more than two tokens y has more entries than v, which is
        taken from the pair of tokens that are furthest apart: the rounding of y makes other choices differ.
    omega : array_like, shape (P, M)
        Prior means of the indices; entries as for y.
    V : array_like, shape (P, P)
        Prior covariance of the indices, positive definite; entries as for y.
    digits : int, optional
        log_z, g_out and dg_out are within 10^-digits in the sense of `PreciseDenoiserResult.error`; 5 to 200.
    skip, beta : optional
        Exact values in place of the model's floats, such as "0.1"; entries as for y. The floats count as the exact
        binary numbers they are.
    max_nodes : int, optional
        Bound of the work, of the search for the posterior too. At depth 2 with two tokens fifty digits usually take
        5 10^4 to 3 10^5 nodes, a second or
        two, and eighty three times as many; more where softmax is steep (large beta, small skip). Depth 2 with three
        tokens takes about 10^6 nodes for ten digits, and depth 3 with two tokens for six.
    progress : callable, optional
        Called with (nodes done, nodes planned) during the last summation, and with none done before it.

    Returns
    -------
    PreciseDenoiserResult

    Raises
    ------
    ValueError
        Shapes, NaN, digits, V not positive definite.
    UnreachableOutputError
        y outside the range of the link.
    KernelNotFoundError
        A rank above 1.
    ConvergenceError
        `max_nodes` do not suffice, V is too near a singular one, or y too unlikely.

    Notes
    -----
    Z_out is a density as in `denoise`. The global precision of mpmath is neither read nor set; that of python-flint is
    set during the call, in which other calls from other threads wait, and restored.

    References
    ----------
    troiani2025, (9), (12), (163)-(170).
    """
    if isinstance(digits, bool) or not isinstance(digits, int) or not 5 <= digits <= 200:
        raise ValueError(f"digits must be an integer in [5, 200], got {digits!r}")
    p, m = model.indices, model.tokens
    if set(model.ranks) != {1}:
        raise KernelNotFoundError(
            f"no precise denoiser for {model.describe()}: it solves for the readout row, which takes rank 1; "
            "there is one for rank 1, any depth and any number of tokens"
        )

    def attempt(inner: int, bits: int, progress: Progress | None, spent: int) -> _Answer:
        with working_bits(bits):
            rows, mean = _entries("y", y, (m, m)), _entries("omega", omega, (p, m))
            covariance = _covariance(_entries("V", V, (p, p)))
            c, b = (ball(own if given is None else given) for own, given in ((model.skip, skip), (model.beta, beta)))
            v, log_jacobian = _invert(model, rows, b)
            if model.layers == 1:
                return _one_layer(v, log_jacobian, mean[0], covariance)
            summarise = _two_layers if model.layers == m == 2 else _more_layers
            return summarise(model, c, b, v, log_jacobian, mean, covariance, inner, max_nodes - spent, progress)

    # How much the answer magnifies an error of the moments, and a rounding, shows at few digits.
    bits = _bits(digits + _WIDE)
    answer = attempt(_PILOT, bits, None if progress is None else lambda _, total: progress(0, total), 0)
    nodes, more = answer.nodes, 0
    for _ in range(5):
        reached = answer.error + answer.rounding
        if reached <= 10.0**-digits:
            return _result(answer, digits, nodes, _route(model))
        lost = math.ceil(math.log10(answer.rounding) + bits * math.log10(2)) if answer.rounding < math.inf else bits
        bits = _bits(digits + _GUARD + max(0, lost))
        inner = digits + more + max(0, math.ceil(math.log10(3 * answer.magnified)))
        answer = attempt(inner, bits, progress, nodes)
        nodes, more = nodes + answer.nodes, more + 1
    raise ConvergenceError(
        f"the precise denoiser (169) reached an error of {reached:.1e} where {digits} digits "
        "were asked for: V is too near a singular matrix, or y too near the edge of its range; ask for fewer digits"
    )


def _bits(digits: int) -> int:
    return math.ceil(digits * math.log2(10))


# Input ---------------------------------------------------------------------------------------------------------------


def _entries(name: str, value: Any, shape: tuple[int, ...]) -> Balls:
    array = np.asarray(value, dtype=object)
    if array.shape != shape:
        raise ValueError(f"{name} must be a single one, of shape {shape}, got {array.shape}")
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        try:
            out[index] = ball(array[index])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        # Searches and errors are numbers of float64; entries of y enter by their logarithms or roots.
        least = 0.0 if name == "y" else _SMALLEST
        if not (least <= abs(out[index]) <= _LARGEST or out[index] == 0):
            raise ValueError(
                f"{name} must have entries that are 0 or between {least:g} and {_LARGEST:g} in size, got "
                f"{_shown(array[index])}; take other units for the indices"
            )
    return out


def _shown(entry: Any) -> str:
    text = str(entry)
    return text if len(text) <= 40 else f"{text[:20]}..{text[-15:]}"


def _covariance(v: Balls) -> Balls:
    """Validate V: symmetric up to the rounding of float64, and then exactly, and positive definite."""
    scale = max(abs(float(entry)) for entry in v.ravel())
    for i, j in combinations(range(len(v)), 2):
        if abs(float(v[i, j] - v[j, i])) > 1e-12 * scale:
            raise ValueError(f"V must be symmetric (troiani2025 (9)), got {v[i, j]} and {v[j, i]}")
        v[i, j] = v[j, i] = (v[i, j] + v[j, i]) / 2
    left = v.copy()
    for k in range(len(v)):
        if not left[k, k] > 0:
            raise ValueError(
                f"V must be positive definite (troiani2025 (9), (12)), but pivot {k + 1} of its elimination is "
                f"{float(left[k, k]):.3g}; take q slightly below I, e.g. V + 1e-12 I"
            )
        for i in range(k + 1, len(v)):
            left[i, k:] -= left[i, k] / left[k, k] * left[k, k:]
    return v


def _invert(model: Attention, y: Balls, beta: arb) -> tuple[Balls, arb]:
    """Return the readout row v, tokens, and the log-Jacobian; `invert_readout` checks the range and picks the pivot."""
    if model.tokens == 2:
        return _invert_two(model, y, beta)
    rough = invert_readout(model, y.astype(float))[0]
    if model.activation == "linear":
        row = int(np.abs(rough).argmax())
        return y[row] / (beta * y[row, row]).sqrt(), arb(0)
    # d_ab = log(y_aa/y_ab)/beta = v_a (v_a - v_b), on the pair furthest apart.
    a, b = int(rough.argmax()), int(rough.argmin())
    if abs(rough[a]) < abs(rough[b]):
        a, b = b, a
    distances = np.array(
        [[(y[i, i] / y[i, j]).log() / beta for j in range(model.tokens)] for i in (a, b)], dtype=object
    )
    pivot = distances[0, b] / (distances[0, b] + distances[1, a]).sqrt()
    return pivot - distances[0] / pivot, arb(0)


def _invert_two(model: Attention, y: Balls, beta: arb) -> tuple[Balls, arb]:
    """Invert by the generated kernel; outputs closer to the edge of the range than float64 resolves are served."""
    try:
        vp, vm, log_jacobian = kernel(model, "mp").invert(BALLS, *y.ravel(), beta)
        inside = all(entry.is_finite() for entry in (vp, vm, log_jacobian))
    except ValueError:
        inside = False
    try:
        invert_readout(model, y.astype(float))
    except ValueError as error:
        rows_sum_to_one = all(abs(float(row.sum() - 1)) < 1e-9 for row in y)
        if not (inside and model.activation == "softmax" and rows_sum_to_one and all(entry > 0 for entry in y.ravel())):
            raise error
    if not inside:
        raise UnreachableOutputError(
            "y lies on the edge of the link's range, where its density is singular (equal tokens, y_12 + y_21 = 1, or "
            "an entry 0; troiani2025 (177), (182)); such outputs have probability zero"
        )
    return np.array([vp + vm, vp - vm], dtype=object) / arb(2).sqrt(), log_jacobian


# Output --------------------------------------------------------------------------------------------------------------


def _largest(entries: Balls) -> arb:
    """Largest modulus of the midpoints; not as a float, which it may exceed."""
    return reduce(arb.max, (abs(entry.mid()) for entry in entries.ravel()))


def _answer(
    log_z: arb, g: Balls, dg: Balls, V: Balls, moments: float, magnified: tuple[Any, Any, Any], nodes: int
) -> _Answer:
    """Put errors in the units of the result.

    `moments` is the relative error of the moments, and `magnified` how much it grows on the way to log_z, g and dg.
    """
    parts = (np.array([log_z], dtype=object), g, dg)
    if not all(entry.is_finite() for part in parts for entry in part.ravel()):
        return _Answer(log_z, g, dg, math.inf, math.inf, 1.0, nodes)
    trace = sum(V.diagonal(), arb(0))
    scales = [least.max(_largest(part)) for least, part in zip((arb(1), trace.rsqrt(), 1 / trace), parts, strict=True)]
    worst = max(float(growth / scale) for growth, scale in zip(magnified, scales, strict=True))
    rounding = max(float(entry.rad() / scale) for scale, part in zip(scales, parts, strict=True) for entry in part.flat)
    return _Answer(log_z, g, dg, moments * worst, max(rounding, 1e-300), max(worst, 1.0), nodes)


def _route(model: Attention) -> str:
    if model.layers == 1:
        return _CLOSED_FORM
    return "Gauss-Legendre rules in fixed point" if model.layers == model.tokens == 2 else "lattice in fixed point"


def _result(answer: _Answer, digits: int, nodes: int, route: str) -> PreciseDenoiserResult:
    ctx = MPContext()
    ctx.prec = _bits(digits + _GUARD)

    def convert(entries: Balls) -> Balls:
        out = np.empty(entries.shape, dtype=object)
        for index in np.ndindex(entries.shape):
            entry: Any = entries[index]
            out[index] = to_mpf(ctx, entry)
        return out

    return PreciseDenoiserResult(
        to_mpf(ctx, answer.log_z),
        convert(answer.g_out),
        convert(answer.dg_out),
        # The conversion rounds once more.
        answer.error + answer.rounding + 10.0 ** (-digits - _GUARD + 1),
        "rigorous" if route == _CLOSED_FORM else "estimated",
        digits,
        nodes,
        route,
    )


# One layer -----------------------------------------------------------------------------------------------------------


def _one_layer(v: Balls, log_jacobian: arb, omega: Balls, V: Balls) -> _Answer:
    """Two-point posterior h = +-v: closed form."""
    tokens, variance = len(v), V[0, 0]
    field = (omega * v).sum() / variance
    g = (v * field.tanh() - omega) / variance
    dg = np.multiply.outer(v, v) * (field.sech() / variance) ** 2 - np.eye(tokens, dtype=int) / variance
    log_z = (
        -((v * v).sum() + (omega * omega).sum()) / (2 * variance)
        + abs(field)
        + (-2 * abs(field)).exp().log1p()
        - (2 * arb.pi() * variance).log() * tokens / 2
        - log_jacobian
    )
    return _answer(log_z, g[None, :], dg[None, :, None, :], V, 0.0, (arb(0), arb(0), arb(0)), 0)


# Two layers ----------------------------------------------------------------------------------------------------------


def _two_layers(
    model: Attention,
    skip: arb,
    beta: arb,
    v: Balls,
    log_jacobian: arb,
    omega: Balls,
    V: Balls,
    digits: int,
    max_nodes: int,
    progress: Progress | None,
) -> _Answer:
    half = arb(0.5).sqrt()

    def modes(row: Balls) -> tuple[arb, arb]:
        return (row[0] + row[1]) * half, (row[0] - row[1]) * half

    slope = V[0, 1] / V[0, 0]
    i1, i2 = V[0, 0].rsqrt(), (V[1, 1] - slope * V[0, 1]).rsqrt()
    exact = (*modes(v), skip, beta, *modes(omega[0]), *modes(omega[1]), i1, slope, i2)
    tried = max(_FEWEST_TRIED, max_nodes // _NODES_A_TRY)
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
    return _summary(total, moments.error() / float(total[0, 0]), log_scale, whiten, rotate, V, moments.nodes)


def _more_layers(
    model: Attention,
    skip: arb,
    beta: arb,
    v: Balls,
    log_jacobian: arb,
    omega: Balls,
    V: Balls,
    digits: int,
    max_nodes: int,
    progress: Progress | None,
) -> _Answer:
    """Any depth above one and any number of tokens."""
    factor = _cholesky(V)
    grid = Grid(model, skip, beta, v, omega, factor, digits, flint.ctx.prec, max_nodes, progress)
    total, error, top, nodes = grid.total()
    log_scale = top - (2 * arb.pi()).log() * model.layers * model.tokens / 2 - log_jacobian
    log_scale -= factor[-1, -1].log() * model.tokens
    rotate = np.array([[arb(int(i == j)) for j in range(model.tokens)] for i in range(model.tokens)], dtype=object)
    return _summary(total, error, log_scale, _inverse_triangle(factor), rotate, V, nodes)


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


def _summary(
    total: flint.arb_mat, error: float, log_scale: arb, whiten: Balls, rotate: Balls, V: Balls, nodes: int
) -> _Answer:
    """Put moments of (1, z), of relative error `error`, into log_z = log of the mass + log_scale, g and dg.

    z = `whiten` (h - omega) `rotate`^T in (indices, tokens).
    """
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
    growth = (arb(1), steepest * largest, steepest**2 * (2 * largest**2 + _largest(second)))
    return _answer(mass.log() + log_scale, g, dg, V, error, growth, nodes)
