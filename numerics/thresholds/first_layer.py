"""Threshold of the first layer of two, once the last one is learned, partly or wholly: the second step of (17)-(18)."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from ..channel.averages import SAFETY, Averages
from ..channel.choice import channel
from ..channel.two_layers.choice import quadrature
from ..channel.two_layers.diagonal import DiagonalQuadrature
from ..core.decimals import recorded, significant
from ..core.errors import ConvergenceError
from ..core.results import How, Origin, ThresholdResult
from ..core.standard_error import standard_error
from ..core.validation import choice, whole
from ..model.network import Network
from ..model.routes import require
from ..priors import GAUSSIAN, Prior, as_setting, gain, is_standard
from .gained import gained

__all__ = ["GIVEN", "MAX_DIGITS", "first_layer"]

Array = NDArray[np.float64]
Given = Literal["self-consistent", "perfect"]

GIVEN = ("self-consistent", "perfect")
MAX_DIGITS = {"softmax": 8, "linear": 10}
# Rules are refined from this accuracy on, up to their finest one.
_FIRST_ACCURACY = 1e-3
# Solved for x = -log(1 - q_22), from here to there.
_RANGE = (0.1, 9.0)


def first_layer(
    model: Network,
    *,
    given: Given = "self-consistent",
    digits: int | None = None,
    samples: int | None = None,
    replicas: int = 8,
    rng: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    prior: Prior = GAUSSIAN,
) -> ThresholdResult:
    """Smallest alpha at which the first layer's overlap grows, given what is known of the second layer there.

    Along q = diag(0, q_22) the state evolution gives alpha = q_22 / ((1 - q_22) G_22(q_22)); the first layer turns
    unstable where alpha lambda_1(q_22) = 1, lambda_1 = E || E[h_1^T h_1 | y, omega_2] - I ||_F^2. If lambda_1 at q = 0
    exceeds lambda_2 there (linear attention), the first layer is learned first, at 1/lambda_1(0). Given perfect
    knowledge of the second layer, y fixes h_1 up to its sign, and lambda_1 = M (M + 1).

    Parameters
    ----------
    model : Network
        Depth 2, two tokens, rank 1.
    given : {"self-consistent", "perfect"}
        The second layer at its fixed point at the same alpha, or known exactly, q_22 = 1.
    digits : int, optional
        Significant digits by quadrature, 1 to 8 (softmax) or 10 (linear), default 6.
    samples, replicas, rng : int, optional
        Points per randomisation, for averages that are sampled instead: as many digits as the error allows; independent
        randomisations, which give the error (one standard error), and the seed.
    workers : int, optional
        Threads.
    progress : callable, optional
        Called with each q_22 tried.
    prior : Prior, optional
        Of inputs with a spectrum: alpha = qhat_22(q_22)/G_22, and alpha lambda_1 E lambda^2 = 1. With perfect
        knowledge, and from q = 0, the threshold is that of white inputs over E lambda^2.

    Returns
    -------
    ThresholdResult

    Raises
    ------
    ValueError
        `given` or `digits` is outside its range.
    KernelNotFoundError
        Another architecture.
    ConvergenceError
        The first layer stays stable for every q_22 that is resolved, or the digits were not reached.

    References
    ----------
    troiani2025, (17)-(18), (186)-(187).
    """
    choice("given", given, GIVEN, "(186)-(187)")
    most = MAX_DIGITS.get(model.activation_name, max(MAX_DIGITS.values()))
    if digits is not None and whole("digits", digits, 1, "(187)") > most:
        raise ValueError(f"digits must be from 1 to {most} for a layer before the last, (187), got {digits}")
    require("first layer", model)
    usual_digits = 6
    if given == "perfect":
        found = gained(_perfect(model, usual_digits if digits is None else digits), prior)
    elif samples is None:
        many = usual_digits if digits is None else digits
        at_zero = _from_zero(model, many, workers)
        found = gained(at_zero, prior) if at_zero else _quadrature(model, (many, prior), workers, progress)
    else:
        found = _sampled(model, (samples, replicas, rng), prior, workers, progress)
    origin = Origin.of(model, layer=1, given=given, digits=digits, samples=samples, replicas=replicas, seed=rng)
    return replace(found, origin=origin.with_settings(**as_setting(prior)))


def _perfect(model: Network, digits: int) -> ThresholdResult:
    """From y and h_2 follow the two numbers of B_1, thereby h_1 up to sign: lambda_1 = E || h_1^T h_1 - I ||_F^2."""
    norm = model.tokens * (model.tokens + 1)
    value = significant(1 / norm, digits)
    return _threshold(
        model,
        value,
        math.nextafter(float(abs(Fraction(value) - Fraction(1, norm))), math.inf),
        "rigorous",
        norm,
        1,
        where="y and h_2 fix h_1 up to its sign, lambda_1 = M (M + 1)",
        exact=f"1/{norm}",
    )


def _from_zero(model: Network, digits: int, workers: int | None) -> ThresholdResult | None:
    """Threshold 1/lambda_1 at q = 0 where the first layer is learned first; None where it is not."""
    accuracy, evaluations, off = _FIRST_ACCURACY, 0, math.inf
    while True:
        averages = quadrature(model, accuracy, workers)
        rates = averages.refinements(np.zeros((2, 2)))[:, 2:]
        evaluations += 1
        unsure = SAFETY * np.abs(rates[0] - rates[1])
        if rates[0, 0] + unsure.sum() < rates[0, 1] or (accuracy <= averages.finest and rates[0, 0] <= rates[0, 1]):
            return None
        alphas = 1 / rates[:, 0]
        off = SAFETY * float(abs(alphas[1] - alphas[0]))
        if rates[0, 0] > rates[0, 1] + unsure.sum() and _decided(off, alphas[0], digits):
            value = significant(float(alphas[0]), digits)
            error = off + abs(float(value) - float(alphas[0]))
            where = "the first layer is learned before the second, from q = 0"
            return _threshold(model, value, error, "estimated", float(rates[0, 0]), evaluations, where=where)
        if accuracy <= averages.finest:
            raise _unreached(model, digits, off)
        accuracy = max(0.1 * accuracy, averages.finest)


def _decided(off: float, alpha: float, digits: int) -> bool:
    """Whether an error is at most half a unit of the last digit; rounding adds at most as much."""
    return off <= 0.5 * 10.0 ** (math.floor(math.log10(alpha)) + 1 - digits)


def _unreached(model: Network, digits: int, error: float) -> ConvergenceError:
    return ConvergenceError(
        f"{digits} digits of the first-layer threshold were not reached for {model.describe()}, (187): the error is "
        f"{error:.1e}; ask for fewer digits"
    )


def _qhat(prior: Prior, q: float) -> float:
    """Of the overlap of the last layer, along which alpha = qhat/G."""
    return q / (1 - q) if is_standard(prior) else float(prior.inverse(np.array([[q]]))[0, 0])


def _quadrature(
    model: Network, asked: tuple[int, Prior], workers: int | None, progress: Callable[[float], None] | None
) -> ThresholdResult:
    """Refine the rules until the distance of two of them decides the digits."""
    digits, prior = asked
    rising = gain(prior)
    evaluations = 0
    root: float | None = None
    # Of alpha and of what is solved for, by x.
    slopes: tuple[float, float] | None = None
    accuracy = _FIRST_ACCURACY
    # Step of slopes in x, and the longest step by them in units of the root of the accuracy.
    size, short, tries = 1e-3, 1e-2, 6
    while True:
        averages = quadrature(model, accuracy, workers)
        known: dict[float, Array] = {}

        def at(x: float, averages: DiagonalQuadrature = averages, known: dict[float, Array] = known) -> Array:
            """Alpha along the branch and lambda_1 there, by two rules, shape (2, 2)."""
            if x not in known:
                q22 = -math.expm1(-x)
                fine = averages.refinements(np.diag([0.0, q22]))
                known[x] = np.column_stack([_qhat(prior, q22) / fine[:, 1], rising * fine[:, 2]])
                if progress is not None:
                    progress(q22)
            return known[x]

        def excess(x: float, at: Callable[[float], Array] = at) -> float:
            return float(at(x)[0].prod()) - 1

        if slopes is None or root is None:
            root = float(brentq(excess, *_bracket(model, excess), xtol=1e-3 * accuracy, rtol=1e-14))
            beside = root + size
            slopes = (at(beside)[0, 0] - at(root)[0, 0]) / size, (excess(beside) - excess(root)) / size
        # The root of a finer rule is a step by known slopes away, whose square is to count for nothing.
        for _ in range(tries):
            if abs(step := excess(root) / slopes[1]) <= short * math.sqrt(accuracy):
                break
            root -= step
        else:
            slopes = None  # they were no good: once more, with those of this rule
            continue
        here = at(root)
        root -= step
        alphas = here[:, 0] - slopes[0] * (here.prod(axis=1) - 1) / slopes[1]
        evaluations += len(known)
        value = significant(float(alphas[0]), digits)
        off = SAFETY * float(abs(alphas[1] - alphas[0]))
        error = off + abs(float(value) - float(alphas[0]))
        if _decided(off, float(alphas[0]), digits):
            return _threshold(
                model,
                value,
                error,
                "estimated",
                1 / float(alphas[0]),
                evaluations,
                where=f"at q_22 = {-math.expm1(-root):.8f}",
            )
        if accuracy <= averages.finest:
            raise _unreached(model, digits, error)
        accuracy = max(0.1 * accuracy, averages.finest)


def _bracket(model: Network, excess: Callable[[float], float]) -> tuple[float, float]:
    """Interval of x around the first sign change."""
    low, last = _RANGE
    while low < last:
        high = low + 0.8
        if excess(high) > 0:
            return (low, high) if excess(low) <= 0 else (1e-6, low)
        low = high
    raise _stable(model, -math.expm1(-low))


def _stable(model: Network, q22: float) -> ConvergenceError:
    return ConvergenceError(
        f"the first layer of {model.describe()} stays stable up to q_22 = {q22:.5f}, beyond which the posterior of the "
        "last layer is too narrow for the rules, (187): take a skip and a beta closer to 1, or the last layer as known "
        "exactly (given='perfect', --given perfect)"
    )


def _sampled(
    model: Network,
    many: tuple[int, int, int],
    prior: Prior,
    workers: int | None,
    progress: Callable[[float], None] | None,
) -> ThresholdResult:
    (samples, replicas, rng), rising = many, gain(prior)
    averages = channel(model, samples=samples, replicas=replicas, rng=np.random.default_rng(rng), workers=workers)
    tried: dict[float, Averages] = {}

    def at(q22: float) -> Averages:
        if q22 not in tried:
            tried[q22] = averages(np.diag([0.0, q22]))
            if progress is not None:
                progress(q22)
        return tried[q22]

    def alpha(g22: Array | float, q22: float) -> Array | float:
        return _qhat(prior, q22) / g22

    zero = at(0.0).growth
    if zero[:, 0].mean() > zero[:, 1].mean():
        values = 1 / (rising * zero[:, 0])
        return _result(model, values, 1, "the first layer is learned before the second, from q = 0")

    def excess(q22: float) -> float:
        now = at(q22)
        return float(alpha(now.g[:, 1, 1].mean(), q22) * rising * now.growth[:, 0].mean()) - 1

    low, high = 0.5, 0.9
    while excess(high) < 0:
        low, high = high, 1 - 0.5 * (1 - high)
        if high > 0.9999:
            raise _stable(model, low)
    while excess(low) > 0 and low > 1e-3:
        low, high = 0.5 * low, low
    q22 = float(brentq(excess, low, high, xtol=1e-7, rtol=1e-10))
    now = at(q22)
    # First order: each randomisation moves the curve alpha(q) and the root.
    step = 1e-3 * (1 - q22)
    beside = at(q22 + step)
    g, rate = now.g[:, 1, 1], rising * now.growth[:, 0]
    here = float(alpha(g.mean(), q22))
    slope_alpha = (float(alpha(beside.g[:, 1, 1].mean(), q22 + step)) - here) / step
    slope_excess = (excess(q22 + step) - excess(q22)) / step
    values = alpha(g, q22) - slope_alpha * (alpha(g, q22) * rate - 1) / slope_excess
    return _result(model, np.asarray(values), len(tried), f"at q_22 = {q22:.6f}")


def _result(model: Network, values: Array, evaluations: int, where: str) -> ThresholdResult:
    mean = float(values.mean())
    error = float(standard_error(values))
    return _threshold(model, recorded(mean, error), error, "monte-carlo", 1 / mean, evaluations, where=where)


def _threshold(
    model: Network,
    value: str,
    error: float,
    how: How,
    norm: float,
    evaluations: int,
    *,
    where: str,
    exact: str | None = None,
) -> ThresholdResult:
    return ThresholdResult(
        value=value,
        error=error,
        how=how,
        exact=exact,
        subspace="layer 1",
        eigenvector=np.diag([1.0, 0.0]),
        operator_norm=norm,
        converged=True,
        status=f"converged, {where}",
        n_iter=evaluations,
        kernel_hash=model.kernel_hash,
    )
