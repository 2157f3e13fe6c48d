"""The flow limit of deep attention: depth L and skip strength c to infinity at L/c = kappa."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.special import expit, gammaln

from .errors import ConvergenceError
from .quadrature import gauss_legendre_panels, normal_qmc, trapezoid

__all__ = ["FlowResult", "flow", "random_networks"]

Array = NDArray[np.float64]

_CUT = 8.6
_MAX_KAPPA = 2.0
_REPLICAS = 8
_LOG2_POINTS = 12


@dataclass(frozen=True)
class FlowResult:
    """The limit B(kappa) = plus J + minus (I - J), with J = 1 1^T/M, and how finite networks differ from it.

    Attributes
    ----------
    kappa : float
        L/c.
    tokens, rank : int
    plus, minus : float
        Eigenvalues of B on the all-ones vector and on its complement.
    error : float
        Estimated error of the larger of the two.
    how : str
        "rigorous" for closed forms (rounding only), "estimated", or "monte-carlo".
    variance_minus, variance_cross : float or None
        c Var[T] and c Var[S] as c -> infinity. Tied softmax at M = 2: B_L = [[a, S], [0, T]] in the modes
        (1, +-1)/sqrt(2). Tied linear: any diagonal and any other entry of B_L, in any orthonormal basis.
    bias_minus : float or None
        c (E[T] - minus) as c -> infinity.
    status : str
        How the number was made.
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
        L/c, from 0; at most 2 for tied softmax; below 1/(2 beta r) for tied linear.
    tokens, rank : int, optional
        M >= 2 and r >= 1, the same in all layers.
    activation : {"softmax", "linear"}, optional
    tied : bool, keyword-only, optional
        Whether keys equal queries.
    beta : float, keyword-only, optional
        Inverse temperature > 0.
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
    _check(kappa, tokens, rank, activation, beta)
    if not 1e-12 <= tol <= 1e-2:
        raise ValueError(f"tol must be from 1e-12 to 1e-2 (float64 sums), got {tol!r}")
    if not tied:
        plus = math.exp(kappa) if activation == "softmax" else 1.0
        return _closed(kappa, tokens, rank, plus, 1.0, "closed form: keys and queries are independent")
    if activation == "linear":
        limit = 1 / (2 * beta * rank)
        if kappa >= limit:
            raise ValueError(
                f"kappa must be below 1/(2 beta r) = {limit:g}, where tied linear attention diverges, got {kappa:g}; "
                "use a smaller L/c or the softmax"
            )
        return _linear(kappa, tokens, rank, beta, kappa / limit)
    if kappa > _MAX_KAPPA:
        raise ValueError(
            f"kappa must be at most {_MAX_KAPPA:g} for tied softmax, got {kappa:g}: the scores grow as exp(2 kappa) "
            "and the quadrature with them"
        )
    if tokens == 2:
        return _pair(kappa, rank, beta, tol)
    return _many(kappa, tokens, rank, beta, np.random.default_rng(rng))


def random_networks(
    kappa: float,
    layers: int,
    samples: int,
    tokens: int = 2,
    rank: int = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
    beta: float = 1.0,
    rng: np.random.Generator | int | None = None,
) -> Array:
    """Mixing matrices of finite networks of L layers at c = L/kappa on random data.

    ``B_l = [I + sigma(B_{l-1} h_l^T h_l B_{l-1}^T)/c] B_{l-1}`` with standard Gaussian h_l.

    Parameters
    ----------
    kappa, tokens, rank, activation, tied, beta
        As in `flow`.
    layers : int
        L >= 1.
    samples : int
        Number of networks.
    rng : Generator, int or None, keyword-only, optional

    Returns
    -------
    ndarray, shape (samples, M, M)

    Raises
    ------
    ValueError
        An argument out of range.

    References
    ----------
    troiani2025, (46)-(47).
    """
    _check(kappa, tokens, rank, activation, beta)
    for name, value in (("layers", layers), ("samples", samples)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    generator = np.random.default_rng(rng)
    mixing = np.broadcast_to(np.eye(tokens), (samples, tokens, tokens)).copy()
    for _ in range(layers):
        key = mixing @ generator.standard_normal((samples, tokens, rank))
        query = key if tied else mixing @ generator.standard_normal((samples, tokens, rank))
        scores = beta * (key @ query.transpose(0, 2, 1))
        attention = _softmax(scores) if activation == "softmax" else scores
        mixing += (kappa / layers) * (attention @ mixing)
    if not np.isfinite(mixing).all():
        raise ValueError(
            f"the networks overflow at kappa {kappa:g} and {layers} layers: linear attention diverges; use a smaller "
            "kappa or the softmax"
        )
    return mixing


def _check(kappa: float, tokens: int, rank: int, activation: str, beta: float) -> None:
    if not (math.isfinite(kappa) and kappa >= 0):
        raise ValueError(f"kappa = L/c must be finite and >= 0, got {kappa!r}")
    if not (math.isfinite(beta) and beta > 0):
        raise ValueError(f"beta must be finite and > 0, got {beta!r}")
    for name, value, least in (("tokens", tokens, 2), ("rank", rank, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    if activation not in ("softmax", "linear"):
        raise ValueError(f"activation must be softmax or linear, got {activation!r}")


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _closed(kappa: float, tokens: int, rank: int, plus: float, minus: float, status: str) -> FlowResult:
    error = 4 * np.finfo(float).eps * max(plus, minus)
    return FlowResult(kappa, tokens, rank, plus, minus, error, "rigorous", None, None, None, status)


def _linear(kappa: float, tokens: int, rank: int, beta: float, share: float) -> FlowResult:
    """Tied linear attention; `share` is kappa over its divergence. Derived in ``derive.flow.linear_fluctuations``."""
    value = 1 / math.sqrt(1 - share)
    cross = beta**2 * rank * kappa * value**6
    bias = 0.75 * beta * value**3 * ((tokens + 1) * share / (1 - share) + (tokens + 1 + rank) * math.log1p(-share))
    # The rounding of share is felt through 1 - share.
    error = 4 * np.finfo(float).eps * value**3
    status = "closed form (1 - 2 beta r kappa)^(-1/2)"
    return FlowResult(kappa, tokens, rank, value, value, error, "rigorous", 2 * cross, cross, bias, status)


@dataclass(frozen=True)
class _Means:
    """Means over the indices of one layer at B = diag(a, b) in modes, named as in ``derive.flow.PairFlow``."""

    tau: float
    tau_variance: float
    s_square: float
    tau_t: float
    tau_tt: float
    tau_a: float
    tau_ss: float
    s_s: float


def _pair_means(plus: float, minus: float, rank: int, beta: float, level: int) -> _Means:
    """Average over rho = |x_m| (chi law of r degrees of freedom) and z (standard normal)."""
    # y_11 = expit(A), y_22 = expit(A at -z): nearest poles in z at distance pi/(beta a b rho).
    steepness = beta * plus * minus * (6.0 + math.sqrt(rank))
    step = min(0.45, 0.75 * math.pi**2 / (10 * steepness)) / (1 + 0.25 * level)
    z_rule = trapezoid(-_CUT, _CUT, step)
    upper = math.sqrt(rank) + _CUT
    scale = beta * minus * (plus * _CUT + minus * upper)
    edges = np.linspace(0.0, upper, int((1 + 0.4 * level) * (3 + 0.25 * scale)) + 2)
    rho_rule = gauss_legendre_panels(edges, 12)
    rho, z = rho_rule.nodes[:, None], z_rule.nodes
    log_chi = (rank - 1) * np.log(rho_rule.nodes) - 0.5 * rho_rule.nodes**2
    log_chi -= (rank / 2 - 1) * math.log(2) + gammaln(rank / 2)
    z_weight = z_rule.weights * np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    rho_weight = rho_rule.weights * np.exp(log_chi)

    def mean(values: Array) -> float:
        return float(rho_weight @ (values @ z_weight))

    first = expit(beta * minus * rho * (minus * rho + plus * z))
    # The rule is symmetric in z.
    second = first[:, ::-1]
    slope = first * expit(-beta * minus * rho * (minus * rho + plus * z))
    curve = slope * (1 - 2 * first)
    tau = first + second - 1
    in_t = beta * rho * (2 * minus * rho + plus * z)
    in_s = beta * minus * rho**2
    tau_mean = mean(tau)
    return _Means(
        tau=tau_mean,
        tau_variance=mean((tau - tau_mean) ** 2),
        s_square=mean((first - second) ** 2),
        tau_t=2 * mean(slope * in_t),
        tau_tt=2 * mean(curve * in_t**2 + slope * 2 * beta * rho**2),
        tau_a=2 * mean(slope * beta * minus * rho * z),
        tau_ss=2 * mean(curve * in_s**2),
        s_s=2 * mean(slope * in_s),
    )


def _pair(kappa: float, rank: int, beta: float, tol: float) -> FlowResult:
    def rates(level: int) -> Callable[[float, Array], list[float]]:
        def at(t: float, state: Array) -> list[float]:
            b, v_t, v_s, bias = state
            a = math.exp(t)
            m = _pair_means(a, b, rank, beta, level)
            growth = m.tau + b * m.tau_t
            second = growth * b * m.tau + b * m.tau_a * a
            return [
                b * m.tau,
                2 * growth * v_t + b**2 * m.tau_variance,
                2 * (1 + b * m.s_s) * v_s + b**2 * m.s_square,
                growth * bias
                + 0.5 * (2 * m.tau_t + b * m.tau_tt) * v_t
                + 0.5 * b * m.tau_ss * v_s
                - 0.5 * t * a * b * m.tau_a
                - 0.5 * second,
            ]

        return at

    def solve(level: int, tolerance: float) -> Array:
        start = np.array([1.0, 0.0, 0.0, 0.0])
        if kappa == 0:
            return start
        solution = solve_ivp(rates(level), (0, kappa), start, "DOP853", rtol=tolerance, atol=tolerance * 1e-2)
        if not solution.success:
            raise ConvergenceError(f"the flow equation stopped at t = {solution.t[-1]:g}: {solution.message}")
        return np.asarray(solution.y[:, -1])

    # Both the quadrature and the solver are refined; the difference is the error of the coarser pair.
    coarse, fine = solve(0, 30 * tol), solve(1, tol)
    error = max(abs(float(fine[0] - coarse[0])), 1e-15 * float(fine[0]))
    # Looser than the tolerances by what errors grow by along the flow; beyond that the rule has failed.
    if error > 1e3 * tol * fine[0]:
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
        float(fine[1]),
        float(fine[2]),
        float(fine[3]),
        "converged: two refinements of quadrature and solver agree",
    )


def _many(kappa: float, tokens: int, rank: int, beta: float, rng: np.random.Generator) -> FlowResult:
    """Any M by randomised Sobol points, the same along the flow, in independent replicas."""
    uniform = np.full((tokens, tokens), 1 / tokens)
    values = []
    for _ in range(_REPLICAS):
        points = normal_qmc(rank * tokens, _LOG2_POINTS, rng).reshape(-1, rank, tokens)

        def rate(t: float, b: Array, points: Array = points) -> Array:
            mixing = math.exp(t) * uniform + b[0] * (np.eye(tokens) - uniform)
            readout = points @ mixing
            attention = _softmax(beta * (readout.transpose(0, 2, 1) @ readout))
            trace = np.trace(attention, axis1=1, axis2=2).mean()
            return np.array([b[0] * (trace - 1) / (tokens - 1)])

        solution = solve_ivp(rate, (0, kappa), [1.0], "RK45", rtol=1e-6, atol=1e-8)
        if not solution.success:
            raise ConvergenceError(f"the flow equation stopped at t = {solution.t[-1]:g}: {solution.message}")
        values.append(float(solution.y[0, -1]))
    error = float(np.std(values, ddof=1)) / math.sqrt(_REPLICAS)
    status = f"mean of {_REPLICAS} replicas of {2**_LOG2_POINTS} Sobol points; error is one standard error"
    minus = float(np.mean(values))
    return FlowResult(kappa, tokens, rank, math.exp(kappa), minus, error, "monte-carlo", None, None, None, status)
