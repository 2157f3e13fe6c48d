"""Weak-recovery threshold of the last layer: the operator (15)-(16) in its form for tied layers (184)-(185)."""

import math
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from threadpoolctl import threadpool_limits

from ..core.decimals import significant
from ..core.errors import ConvergenceError, KernelNotFoundError
from ..core.identity import source_hash
from ..core.results import Estimate, How, Origin, ThresholdResult
from ..core.standard_error import standard_error
from ..model.mixing_law import mixing_law
from ..model.network import ACTIVATIONS, Network
from ..model.routes import BALLS, FLOAT64, PAIRS, require
from ..quadrature.rules import gauss_legendre_panels, gaussian, normal_qmc, refine, sinh_trapezoid, trapezoid
from . import exact
from .digits.threshold import MAX_DIGITS as PRECISE_DIGITS
from .digits.threshold import Progress, precise_threshold
from .enclosure.threshold import Enclosure, enclose_last_layer

__all__ = ["MAX_DIGITS", "PRECISE_DIGITS", "last_layer", "one_layer", "proved_last_layer"]

Array = NDArray[np.float64]

# What float64 sums can promise.
MAX_DIGITS = 13
_LEAST_SKIP = 1e-6
_CUT = 8.6
# exp(-b^2/2) below 1e-60 is invisible beside the ratio N^2/Z it enters.
_BLIND = 17.0
# Entries of a mixing matrix whose fourth powers are in the range of float64.
_LARGEST = 1e70


def last_layer(model: Network, *, digits: int = 12, rng: int = 0, progress: Progress | None = None) -> ThresholdResult:
    """Threshold alpha_c of the last layer's weights from the uninformed start.

    By parity the operator (15) is diagonal over the layers; on the last one it is
    E || E[h_L^T h_L | y] - I ||_F^2 at omega = 0, V = I, and alpha_c is its inverse.

    Parameters
    ----------
    model : Network
        Depth 1 with any rank and number of tokens (see `one_layer`); rank 1 at depth >= 2: two tokens; three tokens at
        depth 2; any number of tokens for linear attention at depth 2.
    digits : int, optional
        Significant digits: to 40 at depth 1; to 50 at depth 2 with two tokens or linear; to 22 for deeper softmax, for
        three tokens, and for three linear layers; about 2 for deeper linear ones.
    rng : int, optional
        Seed; used only where the integral needs Monte Carlo (linear activation, depth >= 4).
    progress : callable, optional
        Called with (done, total) during sums in ball arithmetic or in pairs of float64.

    Returns
    -------
    ThresholdResult
        `converged` is False if the digits asked for were not reached by Monte Carlo; value and error still hold.

    Raises
    ------
    ValueError
        digits or skip out of range.
    KernelNotFoundError
        The model is outside the families above.
    ConvergenceError
        The digits were not reached by the sums beyond float64.

    Notes
    -----
    h = Wx/sqrt(D), alpha = N/D. The value is rounded to `digits` digits; `error` includes that rounding. Where
    float64 cannot decide the rounding, more precise sums take over: ball arithmetic at depth 2, pairs of float64 for
    deeper softmax. Then skip and beta count as the decimals that were written (0.1 is one tenth).

    References
    ----------
    troiani2025, (15)-(16), (184)-(185).
    """
    require("last layer", model)
    if model.layers == 1:
        found = one_layer(model.tokens, model.ranks[0], model.activation_name, tied=model.tied, digits=digits)
    else:
        found = _deep(model, digits, rng, progress)
    return replace(found, origin=Origin.of(model, digits=digits, seed=rng))


def _deep(model: Network, digits: int, rng: int, progress: Progress | None) -> ThresholdResult:
    most = _most_digits(model)
    if isinstance(digits, bool) or not isinstance(digits, int | np.integer) or not 1 <= digits <= most:
        raise ValueError(f"digits must be an integer from 1 to {most} for {model.describe()}, got {digits!r}")
    if not _LEAST_SKIP <= model.skip <= 1 / _LEAST_SKIP:
        raise ValueError(
            f"skip must be in [{_LEAST_SKIP:g}, {1 / _LEAST_SKIP:g}] for thresholds at depth >= 2, got {model.skip:g}: "
            "the mixing matrix (5) spans a factor (1 + c)/c per layer, and the work grows with it"
        )
    if not FLOAT64.serves(model) or digits > MAX_DIGITS:
        return _precise(model, digits, progress)
    # Relative to the norm, so to alpha; refinement stops when its last step was below half a unit.
    tolerance = 0.4 * 10.0**-digits
    with threadpool_limits(1, "blas"):  # the products are small: threads would only wait for each other
        if model.activation == "softmax":
            norm, steps = refine(lambda level: _softmax(model, level), relative=tolerance)
        elif model.layers == 2:
            norm, steps = refine(lambda level: _linear_two_layers(model, level), relative=tolerance)
        else:
            norm, steps = _linear_deep(model, np.random.default_rng(rng))
    result = _result(model, norm, digits, steps)
    if most > MAX_DIGITS and not (result.converged and _decided(norm, digits)):
        return _precise(model, digits, progress)
    return result


def _most_digits(model: Network) -> int:
    if BALLS.serves(model):
        return PRECISE_DIGITS
    if not PAIRS.serves(model):
        return MAX_DIGITS
    from .pairs.thresholds import MAX_PAIR_DIGITS  # its compiled loops take a while to load

    return MAX_PAIR_DIGITS


def proved_last_layer(model: Network, *, digits: int = 12, progress: bool = False) -> tuple[ThresholdResult, Enclosure]:
    """Threshold of the last layer with a proof that every digit is right.

    Parameters
    ----------
    model : Network
        Two softmax layers, two tokens, rank 1; see `enclose_last_layer`.
    digits : int, optional
        Significant digits, 1 to 50; 30 take minutes.
    progress : bool, optional
        Show progress bars on stderr.

    Returns
    -------
    ThresholdResult, Enclosure
        The value is what all numbers of the interval round to.

    Raises
    ------
    ValueError, KernelNotFoundError
        As `enclose_last_layer`; digits out of range.
    ConvergenceError
        The interval straddles a rounding boundary however narrow.

    References
    ----------
    troiani2025, (15)-(16), (184)-(185).
    """
    if isinstance(digits, bool) or not isinstance(digits, int | np.integer) or not 1 <= digits <= PRECISE_DIGITS:
        raise ValueError(f"digits must be an integer from 1 to {PRECISE_DIGITS}, got {digits!r}")
    # A twentieth of a unit of the last digit of 0.1..; the second width is for an interval on a rounding boundary.
    for finer in (0, 3):
        found = enclose_last_layer(model, width=min(1e-3, 5e-3 * 10.0 ** (-digits - finer)), progress=progress)
        low, high = Fraction(found.lower), Fraction(found.upper)
        with localcontext(prec=digits, rounding=ROUND_HALF_EVEN):
            value, other = (Decimal(x.numerator) / Decimal(x.denominator) for x in (low, high))
        if value == other:
            error = float(max(abs(Fraction(value) - low), abs(high - Fraction(value))))
            text = f"{value:f}"
            result = _threshold(model, text, error, 2 / float(low + high), 1, "rigorous", None)
            status = f"proved: {found.lower} <= alpha <= {found.upper}"
            return replace(result, status=status, origin=Origin.of(model, digits=digits, rigorous=True)), found
    raise ConvergenceError(
        f"{digits} digits of the threshold of {model.describe()} are not decided by [{found.lower}, {found.upper}] "
        "(16): ask for one digit less"
    )


def one_layer(
    tokens: int, rank: int = 1, activation: str = "softmax", *, tied: bool = True, digits: int = 12
) -> ThresholdResult:
    """Threshold alpha_c of one attention layer, from its exact form.

    Parameters
    ----------
    tokens : int
        M >= 2.
    rank : int, optional
        r >= 1.
    activation : {"softmax", "linear"}, optional
    tied : bool, optional
        Whether keys equal queries; untied layers need rank 1.
    digits : int, optional
        Significant digits, 1 to 40.

    Returns
    -------
    ThresholdResult
        `exact` holds the form, which SymPy parses; `error` is that of the rounding.

    Raises
    ------
    ValueError
        tokens, rank, activation or digits out of range.
    KernelNotFoundError
        No exact form is known: untied layers of rank above 1.

    Notes
    -----
    h = Wx/sqrt(D), alpha = N/D. Neither the skip strength nor beta matters: both are known and undone, and the output
    B_1 of a sequence-to-sequence layer holds as much as its attention matrix.

    References
    ----------
    troiani2025, (15)-(16), (19)-(26).
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    found = exact.single_layer(tokens, rank, activation, tied, digits=digits)
    if found is None or found.value is None:
        raise KernelNotFoundError(
            f"no threshold is known for one untied layer of rank {rank}: y leaves a matrix of GL(r) free (19); use "
            "rank 1 or tied weights"
        )
    # To all of float64, whatever the digits shown.
    full = exact.single_layer(tokens, rank, activation, tied, digits=max(digits, 25))
    assert full is not None and full.value is not None
    return ThresholdResult(
        value=found.value,
        error=found.error,
        how="rigorous" if found.closed else "estimated",
        exact=found.exact,
        subspace="layer 1",
        eigenvector=np.diag(found.direction),
        operator_norm=float(1 / Decimal(full.value)),
        converged=True,
        status="converged: closed form" if found.closed else "converged: one integral, to all digits",
        n_iter=0,
        kernel_hash=source_hash(exact.__name__),
        origin=Origin(
            {"layers": 1, "tokens": tokens, "rank": rank, "activation": activation, "untied": not tied},
            {"digits": digits},
        ),
    )


def _decided(norm: Estimate, digits: int) -> bool:
    """Whether all values within the error round to the same digits."""
    low, high = (1 / (norm.value + sign * norm.error) for sign in (1, -1))
    return significant(low, digits) == significant(high, digits)


def _precise(model: Network, digits: int, progress: Progress | None) -> ThresholdResult:
    if BALLS.serves(model):
        found = precise_threshold(model, int(digits), progress)
    else:
        from .pairs.thresholds import pairs_threshold

        found = pairs_threshold(model, int(digits), progress)
    return _threshold(model, found.value, found.error, found.norm, found.levels, "estimated", None)


def _result(model: Network, norm: Estimate, digits: int, steps: int) -> ThresholdResult:
    alpha = 1 / norm.value
    error = norm.error * alpha * alpha
    text = significant(alpha, digits)
    # One unit in the last digit is what the caller asked for; rounding alone may take half of it.
    unit = 10.0 ** (math.floor(math.log10(alpha)) - digits + 1)
    failure = f"{digits} digits were not reached: the error is {error:.1e}; ask for fewer digits"
    error_all = error + abs(float(text) - alpha)
    return _threshold(model, text, error_all, norm.value, steps, norm.how, None if error <= 0.5 * unit else failure)


def _threshold(
    model: Network, value: str, error: float, norm: float, steps: int, how: How, failure: str | None
) -> ThresholdResult:
    eigenvector = np.zeros((model.indices, model.indices))
    eigenvector[-1, -1] = 1.0
    return ThresholdResult(
        value=value,
        error=error,
        how=how,
        exact=None,
        subspace=f"layer {model.layers}",
        eigenvector=eigenvector,
        operator_norm=norm,
        converged=failure is None,
        status=failure or "converged: two refinements agree",
        n_iter=steps,
        kernel_hash=model.kernel_hash,
    )


def _functional(z: Array, n_pp: Array, n_pm: Array, n_mm: Array) -> Array:
    """|| N / Z ||_F^2 Z, zero where Z underflows (there N does too, and faster)."""
    tiny = z < 1e-60
    return np.where(tiny, 0.0, (n_pp**2 + 2 * n_pm**2 + n_mm**2) / np.where(tiny, 1.0, z))


def _softmax(model: Network, level: int) -> float:
    """Operator norm from the law of (S, T); the last layer's modes are b = v_-/T, a = v_+ - S b."""
    law = mixing_law(model, model.layers - 1, level)
    c = model.skip
    step = 0.12 / (1 + 0.45 * level)
    minus = sinh_trapezoid((c / (1 + c)) ** (model.layers - 1), _CUT, step)
    plus = trapezoid(0.0, _CUT * (1 + (model.layers - 1) / (1 + c)), 1.6 * step)
    half = plus.weights.copy()
    half[0] *= 0.5
    v = plus.nodes[:, None]
    total = 0.0
    for vm, weight in zip(minus.nodes, minus.weights, strict=True):
        b = np.broadcast_to(vm / law.t, law.weights.shape).ravel()
        mass = (law.weights / law.t).ravel() * gaussian(b) / (2 * math.pi)
        keep = np.abs(b) < _BLIND
        b, mass, shift = b[keep], mass[keep], (law.s[:, None] * (vm / law.t)).ravel()[keep]
        # One exponential per pair of nodes and one matrix product for all moments of a = v - shift and b.
        columns = mass[:, None] * np.stack([np.ones_like(b), shift, shift**2, b, shift * b, b * b], axis=1)
        m = gaussian(v - shift) @ columns
        z, mean, square, mean_b, mixed, square_b = m.T[:, :, None]
        value = _functional(z, v * v * z - 2 * v * mean + square - z, v * mean_b - mixed, square_b - z)
        total += 4 * weight * float(half @ value[:, 0])
    return total


def _linear_two_layers(model: Network, level: int) -> float:
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


def _linear_deep(model: Network, rng: np.random.Generator) -> tuple[Estimate, int]:
    """Operator norm for linear attention at any depth, by randomised quasi-Monte Carlo over the hidden layers."""
    replicas = 16
    values = []
    halves = []
    for stream in rng.spawn(replicas):
        # Two components per hidden layer (the first rotated onto an axis) and the angle of v.
        points = normal_qmc(2 * (model.layers - 1) + 1, 15, stream)
        b = _linear_mixing(model, points)
        _, stretch, w = np.linalg.svd(b)
        # The direction of h = B^{-1} v, made uniform on the stretched circle: v-hat = B g / |B g|.
        psi = math.pi * ndtr(points[:, -1])
        ratio = stretch[:, 1] / stretch[:, 0]
        cos2, sin2 = ratio * np.cos(psi) ** 2, np.sin(psi) ** 2
        total = cos2 + sin2
        sign = np.sign(np.cos(psi) * np.sin(psi))
        direction = np.stack([np.sqrt(cos2 / total), sign * np.sqrt(sin2 / total)], axis=1)
        h_hat = np.einsum("ni,nij->nj", direction, w)
        v_of_h = np.einsum("nij,nj->ni", b, h_hat)
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


def _linear_mixing(model: Network, points: Array) -> Array:
    """Mixing matrices (5) of the last layer, for hidden layers whose first one lies along an axis; shape (n, 2, 2)."""
    b = np.broadcast_to(np.eye(2), (len(points), 2, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in range(model.layers - 1):
            v = np.einsum("nij,nj->ni", b, points[:, 2 * layer : 2 * layer + 2])
            b = model.skip * b + model.beta * v[:, :, None] * np.einsum("ni,nij->nj", v, b)[:, None, :]
    if not np.abs(b).max() < _LARGEST:
        raise ConvergenceError(
            f"the outputs of {model.describe()} are beyond the range of float64, as they grow like a power of h that "
            "triples with each layer (5): take fewer layers, or a smaller beta"
        )
    return b


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
