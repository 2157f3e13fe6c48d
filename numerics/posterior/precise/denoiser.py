"""Denoiser at any precision: the oracle of the float64 one, by another quadrature in other coordinates.

`denoise` sums a sheared trapezoidal lattice that certified ranges prune. Here the plane of h_1 is cut into rectangles
(`cut`), on each of which Gauss-Legendre rules are tuned and summed in fixed point with bounds of the rounding (`sum`,
`fixed_words`). More layers or tokens are served by a trapezoidal rule (`grid`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from mpmath import mpf
from mpmath.ctx_mp import MPContext
from numpy.typing import NDArray

from ...arithmetic.ball import ball, to_mpf, working_bits
from ...arithmetic.balls import Ball
from ...core.errors import ConvergenceError
from ...core.results import How, Origin, Result, as_dict
from ...core.typing import JSON
from ...model.network import Network
from ...model.routes import require
from .answers import Answer, Effort, Problem, more_layers, one_layer, two_layers
from .inputs import covariance, entries, invert
from .sum import Progress

__all__ = ["PreciseDenoiserResult", "denoise_mp"]

Balls = NDArray[np.object_]

# Decimal digits carried beyond those asked for.
_GUARD = 8
_CLOSED_FORM = "closed form"


@dataclass(frozen=True, repr=False)
class PreciseDenoiserResult(Result):
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
        tr(V)^{-1/2}, and of dg_out relative to its largest entry or to 1/tr(V), whichever is larger. That of the
        numbers as they are printed and saved is `printed_error`.
    how : {"rigorous", "estimated", "monte-carlo"}
        Rigorous at depth 1, where ball arithmetic encloses a closed form.
    digits : int
        Digits asked for; error <= 10^-digits.
    nodes : int
        Evaluations of the integrand.
    route : str
        How the integral was done.
    origin : Origin
        Model and settings.
    """

    log_z: mpf
    g_out: Balls
    dg_out: Balls
    error: float
    how: How
    digits: int
    nodes: int
    route: str
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """Log Z, its error, and how it was computed."""
        yield f"log Z = {self.texts()[0]}"
        yield f"error {self.printed_error:.1e} ({self.how}); {self.route}, {self.nodes} nodes"

    @property
    def printed_error(self) -> float:
        """Error of the numbers as `texts` gives them: with half a unit of their last digits."""
        return self.error + 0.5 * 10.0**-self.digits

    def to_dict(self) -> dict[str, JSON]:
        """All fields as plain JSON types, numbers as in `texts`, with their error."""
        log_z, g_out, dg_out = self.texts()
        found: dict[str, JSON] = {f.name: as_dict(getattr(self, f.name)) for f in fields(self)}
        printed = {"log_z": log_z, "g_out": as_dict(g_out), "dg_out": as_dict(dg_out), "error": self.printed_error}
        return found | printed

    def texts(self) -> tuple[str, list[list[str]], list[list[list[list[str]]]]]:
        """log_z, g_out and dg_out in decimal, with one more significant digit than was asked for."""
        ctx = MPContext()
        ctx.dps = self.digits + 10

        def text(entries: Any) -> Any:
            if isinstance(entries, list):
                return [text(entry) for entry in entries]
            return ctx.nstr(entries, self.digits + 1, strip_zeros=False)

        return text(self.log_z), text(self.g_out.tolist()), text(self.dg_out.tolist())


def denoise_mp(
    model: Network,
    y: object,
    omega: object,
    V: object,
    *,
    digits: int = 30,
    skip: object = None,
    beta: object = None,
    max_nodes: int = 10_000_000,
    progress: Progress | None = None,
) -> PreciseDenoiserResult:
    """Posterior of the indices given one output, to any number of digits.

    log_z = log Z_out(y; omega, V), g_out = V^{-1} (E[h | y] - omega) and its derivative in omega.

    Parameters
    ----------
    model : Network
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
    require("denoise-mp", model)

    def attempt(inner: int, bits: int, progress: Progress | None, spent: int) -> Answer:
        with working_bits(bits):
            rows, mean = entries("y", y, (m, m)), entries("omega", omega, (p, m))
            prior = covariance(entries("V", V, (p, p)))
            c, b = (ball(own if given is None else given) for own, given in ((model.skip, skip), (model.beta, beta)))
            problem = Problem(model, c, b, *invert(model, rows, b), mean, prior)
            if model.layers == 1:
                return one_layer(problem)
            summarise = two_layers if model.layers == m == 2 else more_layers
            return summarise(problem, Effort(inner, max_nodes - spent, progress))

    # Digits of a first pass, and those that its arithmetic carries beyond what is asked for.
    pilot, wide = 8, 40
    # How much the answer magnifies an error of the moments, and a rounding, shows at few digits.
    bits = _bits(digits + wide)
    answer = attempt(pilot, bits, None if progress is None else lambda _, total: progress(0, total), 0)
    nodes, more = answer.nodes, 0
    for _ in range(5):
        reached = answer.error + answer.rounding
        if reached <= 10.0**-digits:
            found = _result(answer, digits, nodes, _route(model))
            return replace(found, origin=Origin.of(model, digits=digits, max_nodes=max_nodes))
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


def _route(model: Network) -> str:
    if model.layers == 1:
        return _CLOSED_FORM
    return "Gauss-Legendre rules in fixed point" if model.layers == model.tokens == 2 else "lattice in fixed point"


def _result(answer: Answer, digits: int, nodes: int, route: str) -> PreciseDenoiserResult:
    ctx = MPContext()
    ctx.prec = _bits(digits + _GUARD)

    def convert(balls: Balls) -> Balls:
        out = np.empty(balls.shape, dtype=object)
        for index in np.ndindex(balls.shape):
            entry: Ball = balls[index]
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
