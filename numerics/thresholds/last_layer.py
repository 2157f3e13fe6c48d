"""Weak-recovery threshold of the last layer: the operator (15)-(16) in its form for tied layers (184)-(185)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.scores_untied_softmax_m2 import DERIVATION_HASH as PAIR_KERNEL

from ..core.blas import one_blas_thread
from ..core.decimals import significant
from ..core.errors import ConvergenceError, KernelNotFoundError
from ..core.identity import source_hash
from ..core.results import Estimate, How, Origin, ThresholdResult
from ..model.network import ACTIVATIONS, Network
from ..model.routes import BALLS, CHART_OPERATOR, FLOAT64, PAIRS, SCORES, require
from ..quadrature.rules import refine
from . import exact
from .charts import chart_threshold
from .digits.threshold import MAX_DIGITS as PRECISE_DIGITS
from .digits.threshold import Progress, precise_threshold
from .enclosure.threshold import Enclosure, enclose_last_layer
from .last_layer_sums import linear_deep, linear_two_layers, softmax
from .pairs import MAX_PAIR_DIGITS
from .untied.operator import MAX_SCORE_DIGITS, last_operator

__all__ = ["MAX_DIGITS", "PRECISE_DIGITS", "last_layer", "one_layer", "proved_last_layer"]

# What float64 sums can promise.
MAX_DIGITS = 13


def last_layer(
    model: Network, *, digits: int | None = None, rng: int = 0, progress: Progress | None = None
) -> ThresholdResult:
    """Threshold alpha_c of the last layer's weights from the uninformed start.

    By parity the operator (15) is diagonal over the layers; on the last one it is
    E || E[h_L^T h_L | y] - I ||_F^2 at omega = 0, V = I, and alpha_c is its inverse.

    Parameters
    ----------
    model : Network
        Depth 1 with any rank and number of tokens (see `one_layer`); at depth >= 2 softmax of two tokens and any ranks
        up to 64, tied or untied; at rank 1 three tokens at depth 2, and any number of tokens for linear attention at
        depth 2; all others are sampled (`chart_threshold`).
    digits : int, optional
        Significant digits, by default 12, or those that samples give: at depth 1 up to 40; at rank 1 up to 50 at depth
        2 with two tokens or linear, up to 22 for deeper softmax, for three tokens, and for three linear layers, about 2
        for deeper linear ones; 13 at other ranks, 12 for untied layers (10 by default).
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
    if require("last layer", model) is CHART_OPERATOR:
        return chart_threshold(model, digits=digits, rng=rng)
    # Of keys and queries, where two more take several times as long.
    score_digits = 10
    if digits is None:
        digits = score_digits if require("last layer", model) is SCORES else 12
    if model.layers == 1:
        found = one_layer(model.tokens, model.ranks[0], model.activation_name, tied=model.tied, digits=digits)
    else:
        found = _deep(model, digits, rng, progress)
    return replace(found, origin=Origin.of(model, digits=digits, seed=rng))


def _deep(model: Network, digits: int, rng: int, progress: Progress | None) -> ThresholdResult:
    most = _most_digits(model)
    if isinstance(digits, bool) or not isinstance(digits, int | np.integer) or not 1 <= digits <= most:
        raise ValueError(f"digits must be an integer from 1 to {most} for {model.describe()}, got {digits!r}")
    least_skip = 1e-6
    if not least_skip <= model.skip <= 1 / least_skip:
        raise ValueError(
            f"skip must be in [{least_skip:g}, {1 / least_skip:g}] for thresholds at depth >= 2, got {model.skip:g}: "
            "the mixing matrix (5) spans a factor (1 + c)/c per layer, and the work grows with it"
        )
    if SCORES.serves(model):
        return _by_scores(model, digits)
    if not FLOAT64.serves(model) or digits > MAX_DIGITS:
        return _precise(model, digits, progress)
    # Relative to the norm, so to alpha; refinement stops when its last step was below half a unit.
    tolerance = 0.4 * 10.0**-digits
    with one_blas_thread():  # the products are small: threads would only wait for each other
        if model.activation == "softmax":
            norm, steps = refine(lambda level: softmax(model, level), relative=tolerance)
        elif model.layers == 2:
            norm, steps = refine(lambda level: linear_two_layers(model, level), relative=tolerance)
        else:
            norm, steps = linear_deep(model, np.random.default_rng(rng))
    result = _result(model, norm, digits, steps)
    if most > MAX_DIGITS and not (result.converged and _decided(norm, digits)):
        return _precise(model, digits, progress)
    return result


def _by_scores(model: Network, digits: int) -> ThresholdResult:
    """Keys and queries: the largest eigenvalue of an operator on the overlaps of both."""
    operators: list[NDArray[np.float64]] = []

    def largest(level: int) -> float:
        operators.append(last_operator(model, level))
        return float(np.linalg.eigvalsh(operators[-1])[-1])

    with one_blas_thread():
        norm, steps = refine(largest, relative=0.4 * 10.0**-digits, last=3)
    return _result(model, norm, digits, steps, np.abs(np.linalg.eigh(operators[-1])[1][:, -1]))


def _most_digits(model: Network) -> int:
    if SCORES.serves(model):
        return MAX_SCORE_DIGITS
    if BALLS.serves(model):
        return PRECISE_DIGITS
    return MAX_PAIR_DIGITS if PAIRS.serves(model) else MAX_DIGITS


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
            result = _threshold(model, text, error, 2 / float(low + high), 1, "rigorous")
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
        from .pairs.thresholds import pairs_threshold  # its compiled loops take a while to load

        found = pairs_threshold(model, int(digits), progress)
    return _threshold(model, found.value, found.error, found.norm, found.levels, "estimated")


def _result(
    model: Network, norm: Estimate, digits: int, steps: int, shares: Sequence[float] = (1.0,)
) -> ThresholdResult:
    alpha = 1 / norm.value
    error = norm.error * alpha * alpha
    text = significant(alpha, digits)
    # One unit in the last digit is what the caller asked for; rounding alone may take half of it.
    unit = 10.0 ** (math.floor(math.log10(alpha)) - digits + 1)
    failure = None
    if not error <= 0.5 * unit:
        failure = f"{digits} digits were not reached: the error is {error:.1e}; ask for fewer digits"
    off = error + abs(float(text) - alpha)
    return _threshold(model, text, off, norm.value, steps, norm.how, failure=failure, shares=shares)


def _threshold(
    model: Network,
    value: str,
    error: float,
    norm: float,
    steps: int,
    how: How,
    *,
    failure: str | None = None,
    shares: Sequence[float] = (1.0,),
) -> ThresholdResult:
    """Result, with the shares of the keys and of the queries of the last layer in the eigenvector."""
    last = np.repeat(shares, model.ranks[-1]) / math.sqrt(model.ranks[-1])
    # The kernel of two tokens serves every rank.
    kernel = replace(model, rank=1).kernel_hash if model.tied else PAIR_KERNEL
    return ThresholdResult(
        value=value,
        error=error,
        how=how,
        exact=None,
        subspace=f"layer {model.layers}",
        eigenvector=np.diag(np.concatenate([np.zeros(model.indices - last.size), last])),
        operator_norm=norm,
        converged=failure is None,
        status=failure or "converged: two refinements agree",
        n_iter=steps,
        kernel_hash=kernel,
    )
