r"""Estimate of the error ||S - Shat||^2/d of message passing, without the teacher.

Two routes. Above recovery, where outputs fix K functionals each and n K is more than the degrees of freedom of S, the
equations have one solution near Shat; it is found by Gauss-Newton steps over matrices of rank r, each by conjugate
gradients in the tangent space, and the error is the distance from it. V carries no information there: with h(Shat) = h
the update g <- Sigma^{-1} (h - h(Shat) + V Sigma g)/V leaves any g as it is, so what is left of g when Shat arrives
stays, and V with it, 10 to 10^4 times the error.

Elsewhere two numbers are compared that would agree as d grows: V, and the MMSE of the state evolution at the alpha that
has the same number of samples per degree of freedom, d r - r (r - 1)/2 of them in place of d^2 (rho - rho^2/2), and at
this alpha times and over 1 + s. With F the information of an output, s^2 = 2/(degrees of freedom) + 2/(n F): relative
variances of a sum of so many squares. The statement is the interval that holds all of these, wider by 2 s of its middle
at both ends. Where outputs do not depend on the scale of S, that of the teacher, a factor 1 + t of variance 2/(r d), is
not known either: it is off by V (1 + 2 t) + t^2 (1 + rho), which adds 4 t^2 to s^2 and the last term, at two standard
deviations, to the upper end.
"""

import math
from collections.abc import Callable

import numpy as np

from ..core.errors import ConvergenceError
from ..learning.blocks import Array
from .passes import Passes
from .results import SelfError
from .state_evolution import evolve

__all__ = ["self_error"]


def self_error(data: Passes, estimate: Array, V: float, rho: float, covariance: str, tol: float) -> SelfError:
    """Error of an estimate at the end of message passing.

    Parameters
    ----------
    data : Passes
    estimate : ndarray, shape (d, d)
    V, rho : float
    covariance : {"gram", "scalar"}
    tol : float
        Of the iteration, on ||dS||^2/d.

    Returns
    -------
    SelfError
        `error` is None where neither route applies; `status` gives the reason.
    """
    d, output = data.dimension, data.output
    rank = min(max(1, round(rho * d)), d)
    freedom = 0.5 * rank * (2 * d - rank + 1)
    square = data.residual(estimate, covariance)[0] if data.functionals else 0.0
    if output.functionals is not None and data.samples * output.functionals > freedom:
        found = _solution(data, estimate, rank, freedom, covariance)
        if found is not None:
            return found
    if square > 2 * max(V + output.noise, tol):
        return SelfError(V, None, f"its error is not known: outputs are off by {square:.1e} where V = {V:.1e}")
    return _interval(data, V, rho, rank, freedom)


def _interval(data: Passes, V: float, rho: float, rank: int, freedom: float) -> SelfError:
    """Between V and the state evolution of as many samples per degree of freedom."""
    d, n, output = data.dimension, data.samples, data.output
    limit = d * d * (rho - rho * rho / 2 if rho < 1 else 0.5)
    alpha = n / d**2 * limit / freedom
    try:
        expected = max(evolve(alpha, rho, output).mmse.value, V * 1e-3, 1e-12)
        information = output.information((1 + rho - min(expected, 1.0)) / expected, expected).value
        scale = 2 / (rank * d) if output.scale_free else 0.0
        s = math.sqrt(2 / freedom + 2 / (n * information) + 4 * scale)
        ends = [V, *(evolve(alpha * factor, rho, output).mmse.value for factor in (1 + s, 1, 1 / (1 + s)))]
    except ConvergenceError as error:
        return SelfError(V, None, f"its error is not known: {error}")
    margin = s * (min(ends) + max(ends))
    low, high = max(min(ends) - margin, 0.0), max(ends) + margin + 4 * scale * (1 + rho)
    origin = "may be zero: too near recovery at this d" if low == 0 else "is from V and the state evolution at this d"
    return SelfError(0.5 * (low + high), 0.5 * (high - low), f"its error {origin}")


def _solution(data: Passes, estimate: Array, rank: int, freedom: float, covariance: str) -> SelfError | None:
    """Distance from the solution of the equations, or None where it is not reached."""
    d = data.dimension
    used, at = 0, estimate
    # Passes over the samples in all.
    most = 160
    while used < most:
        at, outside = _truncated(at, rank)

        def tangent(M: Array, outside: Array = outside) -> Array:
            return np.asarray(M - outside @ (outside.T @ M @ outside) @ outside.T)

        square, pull = data.residual(at, covariance)
        distance = float(((at - estimate) ** 2).sum()) / d
        # A rest r leaves S off by r over the least eigenvalue of the equations, by the law of Marchenko and Pastur.
        least = (1 - math.sqrt(freedom / (data.samples * data.functionals))) ** 2
        rest = square / least
        step, passes = _step(data, at, tangent, tangent(pull), covariance)
        # Some direction may be known worse than that: the next step shows how far it leads.
        rest = max(rest, float((step**2).sum()) / d)
        error = 2 * math.sqrt(distance * rest) + rest
        if error < 0.1 * distance:
            return SelfError(distance, error, "its error is the distance from the solution of the equations")
        at, used = at + step, used + passes
    return None


def _truncated(S: Array, rank: int) -> tuple[Array, Array]:
    """The part of the `rank` largest eigenvalues, and a basis of the rest."""
    if rank == len(S):
        return S, np.zeros((len(S), 0))
    values, vectors = np.linalg.eigh(S)
    kept = vectors[:, -rank:]
    return np.asarray((kept * values[-rank:]) @ kept.T), np.asarray(vectors[:, :-rank])


def _step(
    data: Passes, at: Array, tangent: Callable[[Array], Array], gradient: Array, covariance: str
) -> tuple[Array, int]:
    """Least squares over the tangent space by conjugate gradients; the step, and the passes it took."""
    start = data.residual(at, covariance)[1]
    step, rest, way = np.zeros_like(at), gradient, gradient
    size = first = float((rest**2).sum())
    passes = 1
    # Passes of each Gauss-Newton step.
    most = 40
    # Share of the first gradient where a step ends.
    solved = 1e-3
    while passes <= most:
        passes += 1
        # Residuals are linear in S, so a difference of two pulls is the Hessian times `way`.
        image = tangent(start - data.residual(at + way, covariance)[1])
        share = size / float((way * image).sum())
        step, rest = step + share * way, rest - share * image
        last, size = size, float((rest**2).sum())
        if size < solved**2 * first:
            break
        way = rest + size / last * way
    return step, passes
