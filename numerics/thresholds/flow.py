"""The flow limit of deep attention: depth L and skip strength c to infinity at L/c = kappa."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from ..core.blas import one_blas_thread
from ..core.errors import ConvergenceError
from ..core.results import Result
from ..core.standard_error import standard_error
from ..core.validation import choice, flag, not_negative, positive, whole
from ..model.activations import ACTIVATIONS, activated
from ..quadrature.rules import normal_qmc
from .flow_means import pair_rates

__all__ = ["FlowResult", "flow"]

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class FlowResult(Result):
    """The limit B(kappa) = plus J + minus (I - J), with J = 1 1^T/M, and how finite networks differ from it.

    Attributes
    ----------
    kappa : float
        L/c.
    tokens, rank : int
    plus, minus : float
        Eigenvalues of B on the all-ones vector and on its complement.
    error : float
        Absolute error of `plus` and `minus`, the larger of the two. Closed forms: rounding. Tied softmax: `plus` is
        e^kappa, and the error is that of `minus`; at M = 2 the difference of two refinements, at M >= 3 one standard
        error. It says nothing about the coefficients below: see `coefficient_error`.
    how : str
        "rigorous" for closed forms (rounding only), "estimated", or "monte-carlo".
    variance_minus, variance_cross : float or None
        c Var[T] and c Var[S] as c -> infinity. Tied softmax at M = 2: B_L = [[a, S], [0, T]] in the modes
        (1, +-1)/sqrt(2). Tied linear: any diagonal and any other entry of B_L, in any orthonormal basis.
    bias_minus : float or None
        c (E[T] - minus) as c -> infinity.
    status : str
        How the number was made.
    coefficient_error : float or None
        Absolute error of `variance_minus`, `variance_cross` and `bias_minus`, the largest of the three, found as
        `error`; None where there are none.
    """

    kappa: float
    tokens: int
    rank: int
    plus: float
    minus: float
    error: float
    how: str
    variance_minus: float | None
    variance_cross: float | None
    bias_minus: float | None
    status: str
    coefficient_error: float | None = None

    @property
    def matrix(self) -> Array:
        """B(kappa), shape (M, M)."""
        uniform = np.full((self.tokens, self.tokens), 1 / self.tokens)
        return self.plus * uniform + self.minus * (np.eye(self.tokens) - uniform)


def flow(
    kappa: float,
    tokens: int = 2,
    rank: int = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
    beta: float = 1.0,
    tol: float = 1e-9,
    rng: np.random.Generator | int | None = 0,
) -> FlowResult:
    """Mixing matrix of an infinitely deep network, dB/dt = E[sigma(B h^T h B^T)] B up to t = kappa.

    Parameters
    ----------
    kappa : float
        L/c, from 0; at most 2 for tied softmax; below 1/(2 beta r) for tied linear; at most 354 for untied softmax.
    tokens, rank : int, optional
        M >= 2 and r >= 1, the same in all layers; for tied softmax M <= 128 and r <= 10000, and r M <= 21201 at M >= 3.
    activation : {"softmax", "linear"}, optional
    tied : bool, keyword-only, optional
        Whether keys equal queries.
    beta : float, keyword-only, optional
        Inverse temperature > 0; at most 1000 for tied softmax.
    tol : float, keyword-only, optional
        Relative tolerance of the equation and of the mean in it, from 1e-12; tied softmax at M = 2.
    rng : Generator, int or None, keyword-only, optional
        Randomises the points at M >= 3.

    Returns
    -------
    FlowResult

    Raises
    ------
    ValueError
        An argument out of range; kappa beyond the divergence of linear attention.
    ConvergenceError
        The equation could not be solved to the tolerance.

    Notes
    -----
    Finite networks: B_L = B(kappa) + c^{-1/2} X + O(1/c), so entries fluctuate as L^{-1/2} and their means converge
    as 1/L; the coefficients at M = 2 are part of the result.

    References
    ----------
    troiani2025, (46)-(52) for finite depth; the limit is derived in ``attnlimits.derive.flow``.
    """
    kappa, tokens, rank, beta = _checked(kappa, tokens, rank, activation, tied, beta)
    tol = positive("tol", tol, "(47)")
    if not 1e-12 <= tol <= 1e-2:
        raise ValueError(f"tol must be from 1e-12 to 1e-2 (float64 sums), got {tol!r}")
    # exp(kappa) up to the square root of the largest float64: products of two entries stay finite.
    max_untied = 354.0
    if not tied:
        if activation == "linear":
            return _closed(kappa, tokens, rank, 1.0)
        _at_most("kappa", kappa, max_untied, "untied", "e^kappa, an entry of B, leaves no room in float64 beyond")
        return _closed(kappa, tokens, rank, math.exp(kappa))
    if activation == "linear":
        limit = 1 / (2 * beta * rank)
        if kappa >= limit:
            raise ValueError(
                f"kappa must be below 1/(2 beta r) = {limit:g}, where tied linear attention diverges, got {kappa:g}; "
                "use a smaller L/c or the softmax"
            )
        return _linear(kappa, tokens, rank, beta, 2 * beta * rank * kappa)
    max_kappa = 2.0
    _at_most("kappa", kappa, max_kappa, "tied", "the scores grow as exp(2 kappa) and the quadrature with them")
    # Terms of order beta cancel in the second derivatives: beyond this they leave fewer digits than the solver needs.
    max_beta = 1e3
    max_rank = 10_000
    _at_most("beta", beta, max_beta, "tied", "the softmax is a step function to the accuracy of float64 sums beyond")
    _at_most("rank", rank, max_rank, "tied", "the chi law of r degrees of freedom is as good as a point beyond")
    if tokens == 2:
        return _pair(kappa, rank, beta, tol)
    max_tokens = 128
    _at_most("tokens", tokens, max_tokens, "tied", "every point of the mean costs tokens^2 operations")
    # Dimensions of a Sobol sequence.
    max_dimensions = 21_201
    _at_most("rank times tokens", rank * tokens, max_dimensions, "tied", "a Sobol sequence has no more dimensions")
    return _many(kappa, tokens, rank, beta, np.random.default_rng(rng))


def _at_most(name: str, value: float, most: float, kind: str, why: str) -> None:
    if not value <= most:
        raise ValueError(f"{name} must be at most {most:g} for {kind} softmax, got {value:g} (46)-(47): {why}")


def _checked(
    kappa: float, tokens: int, rank: int, activation: str, tied: bool, beta: float
) -> tuple[float, int, int, float]:
    choice("activation", activation, ACTIVATIONS, "(3)")
    flag("tied", tied, "keys equal queries", "(19)")
    return (
        not_negative("kappa = L/c", kappa, "(46)"),
        whole("tokens", tokens, 2, "(1)"),
        whole("rank", rank, 1, "(2)"),
        positive("beta", beta, "(3)"),
    )


def _closed(kappa: float, tokens: int, rank: int, plus: float) -> FlowResult:
    error = 4 * np.finfo(float).eps * max(plus, 1.0)
    status = "closed form: keys and queries are independent"
    return FlowResult(kappa, tokens, rank, plus, 1.0, error, "rigorous", None, None, None, status)


def _linear(kappa: float, tokens: int, rank: int, beta: float, share: float) -> FlowResult:
    """Tied linear attention; `share` is kappa over its divergence. Derived in ``derive.flow.linear_fluctuations``."""
    value = 1 / math.sqrt(1 - share)
    cross = beta**2 * rank * kappa * value**6
    bias = 0.75 * beta * value**3 * ((tokens + 1) * share / (1 - share) + (tokens + 1 + rank) * math.log1p(-share))
    # The rounding of share is felt through 1 - share.
    error = 4 * np.finfo(float).eps * value**3
    status = "closed form (1 - 2 beta r kappa)^(-1/2)"
    # Powers 6 and 5 of value, and so 6 times its relative error.
    spread = 6 * error / value * max(2 * cross, abs(bias))
    return FlowResult(kappa, tokens, rank, value, value, error, "rigorous", 2 * cross, cross, bias, status, spread)


def _pair(kappa: float, rank: int, beta: float, tol: float) -> FlowResult:
    def solve(level: int, tolerance: float) -> Array:
        start = np.array([1.0, 0.0, 0.0, 0.0])
        if kappa == 0:
            return start
        # The coefficients are of order beta^2 where the softmax is nearly flat.
        absolute = tolerance * 1e-2 * np.array([1.0, *[max(min(1.0, beta) ** 2, 1e-280)] * 3])
        solution = solve_ivp(
            pair_rates, (0, kappa), start, "DOP853", rtol=tolerance, atol=absolute, args=(rank, beta, level)
        )
        if not solution.success:
            raise ConvergenceError(f"the flow equation stopped at t = {solution.t[-1]:g}: {solution.message}")
        return np.asarray(solution.y[:, -1])

    # Both the quadrature and the solver are refined; the difference is the error of the coarser pair.
    with one_blas_thread():  # the sums are small: threads would only wait for each other
        coarse, fine = solve(0, 30 * tol), solve(1, tol)
    # Some hundred roundings are below what two refinements can tell.
    error = max(abs(float(fine[0] - coarse[0])), 2e-14 * float(fine[0]))
    spread = max(float(np.abs(fine[1:] - coarse[1:]).max()), 2e-14 * float(np.abs(fine[1:]).max()))
    # Looser than the tolerances by what errors grow by along the flow; beyond that the rule has failed.
    if not error <= 1e3 * tol * fine[0]:
        raise ConvergenceError(
            f"two refinements of the flow equation differ by {error:.1e} at kappa {kappa:g}; use a larger tol"
        )
    return FlowResult(
        kappa,
        2,
        rank,
        math.exp(kappa),
        float(fine[0]),
        error,
        "estimated",
        # A variance below the solver's tolerance may come out negative: it is zero within its error.
        max(float(fine[1]), 0.0),
        max(float(fine[2]), 0.0),
        float(fine[3]),
        "converged: two refinements of quadrature and solver agree",
        spread,
    )


def _many(kappa: float, tokens: int, rank: int, beta: float, rng: np.random.Generator) -> FlowResult:
    """Any M by randomised Sobol points, the same along the flow, in independent replicas.

    Every point averages over its M tokens, so that fewer points serve more tokens.
    """
    uniform = np.full((tokens, tokens), 1 / tokens)
    log2_points = max(6, 12 - max(0, round(math.log2(tokens**2 / 16))))
    chunk = max(1, 2**20 // (tokens * max(tokens, rank)))
    steps = max(4, math.ceil(16 * kappa))

    def solve(points: Array, count: int) -> float:
        def rate(t: float, b: float) -> float:
            mixing = math.exp(t) * uniform + b * (np.eye(tokens) - uniform)
            trace = 0.0
            for start in range(0, len(points), chunk):
                readout = points[start : start + chunk] @ mixing
                attention = activated(readout.transpose(0, 2, 1) @ readout, "softmax", beta)
                trace += float(np.trace(attention, axis1=1, axis2=2).sum())
            return b * (trace / len(points) - 1) / (tokens - 1)

        # Equal steps: a mean over points of steep functions is rough at the size of its own error.
        b, step = 1.0, kappa / count
        for t in step * np.arange(count):
            k_1 = rate(t, b)
            k_2 = rate(t + step / 2, b + step / 2 * k_1)
            k_3 = rate(t + step / 2, b + step / 2 * k_2)
            k_4 = rate(t + step, b + step * k_3)
            b += step / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
        return float(b)

    values, halving = [], 0.0
    replicas = 8
    for replica in range(replicas):
        points = normal_qmc(rank * tokens, log2_points, rng).reshape(-1, rank, tokens)
        values.append(solve(points, steps))
        if replica == 0:
            halving = abs(values[0] - solve(points, steps // 2))
    minus = float(np.mean(values))
    error = float(standard_error(values)) + halving + 1e-15 * minus
    status = (
        f"mean of {replicas} replicas of {2**log2_points} Sobol points; error is one standard error, plus what half "
        "as many steps change"
    )
    return FlowResult(kappa, tokens, rank, math.exp(kappa), minus, error, "monte-carlo", None, None, None, status)
