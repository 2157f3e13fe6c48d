"""Last-layer thresholds to twenty digits beyond two layers of two tokens, in pairs of float64."""

import math
from fractions import Fraction

import numpy as np

from ...arithmetic.pairs import Pairs
from ...core.errors import ConvergenceError, KernelNotFoundError
from ...model.network import Network
from ...model.routes import PAIRS
from ..digits.threshold import PreciseThreshold
from . import MAX_PAIR_DIGITS
from .linear import norm_three_linear
from .mixing import PairLaw, Progress, pair_law
from .rules import PairRule, cut, sinh_half_line, uniform
from .softmax import norm_from_law
from .tokens3 import norm_three_tokens
from .tokens3_nodes import node_count, three_token_steps

__all__ = ["pairs_threshold"]

_LEVELS = 3


def pairs_threshold(model: Network, digits: int, progress: Progress | None = None) -> PreciseThreshold:
    """Threshold alpha_c of the last layer's weights from the uninformed start.

    Sums of increasing fineness are compared; twice the last difference is taken for the error, and refinement goes on
    until the whole error interval rounds to one decimal.

    Parameters
    ----------
    model : Network
        Rank 1; softmax with two tokens and L >= 2, or three tokens and L = 2; linear with two tokens and L = 3. `skip`
        and `beta` count as the decimals that were written: 0.1 is one tenth.
    digits : int
        Significant digits, 1 to 22.
    progress : callable, optional
        Called with (done, total).

    Returns
    -------
    PreciseThreshold

    Raises
    ------
    ValueError
        digits out of range.
    KernelNotFoundError
        The model is outside the families above.
    ConvergenceError
        The digits were not reached, or would need too many nodes: extreme skip or beta.

    Notes
    -----
    h = Wx/sqrt(D), alpha = N/D.

    References
    ----------
    troiani2025, (15)-(16), (184)-(185).
    """
    if isinstance(digits, bool) or not isinstance(digits, int | np.integer) or not 1 <= digits <= MAX_PAIR_DIGITS:
        raise ValueError(f"digits must be an integer from 1 to {MAX_PAIR_DIGITS} (pairs of float64), got {digits!r}")
    if not PAIRS.serves(model):
        raise KernelNotFoundError(
            f"no sum in pairs for {model.describe()}, (184)-(185); there is one for rank 1: softmax at M = 2, L >= 2 "
            "and at M = 3, L = 2, linear attention at M = 2, L = 3"
        )
    previous, units = Fraction(0), 0
    # Digits aimed at beyond those asked for, by the first sum and by each one after it.
    guard, more = 1.0, 2.0
    # Relative error of the sums themselves.
    arithmetic = Fraction(1, 10**27)
    for level in range(_LEVELS):

        def tick(done: int, total: int, before: int = min(level, 1)) -> None:
            nonlocal units
            units = units or total
            if progress is not None:  # two sums as a rule, in units of the first one's parts
                progress(before * units + done * units // total, 2 * units)

        alpha = 1 / _norm(model, digits + guard + more * level, tick).fraction()
        if level > 0:
            error = 2 * abs(alpha - previous) + arithmetic * alpha
            value = _rounded(alpha, error, int(digits))
            if value is not None:
                return PreciseThreshold(value, float(error + abs(Fraction(value) - alpha)), float(1 / alpha), level + 1)
        previous = alpha
    raise ConvergenceError(
        f"{digits} digits were not reached in {_LEVELS} refinements for {model.describe()}, (184)-(185): "
        "ask for fewer digits, or for skip and beta closer to 1"
    )


def _rounded(value: Fraction, error: Fraction, digits: int) -> str | None:
    """Decimal of so many digits that every number within the error rounds to; None where there are two."""
    exponent = math.floor(math.log10(float(value)))
    unit = Fraction(10) ** (exponent - digits + 1)
    ends = {round((value + side) / unit) for side in (-error, error)}
    if len(ends) > 1:
        return None
    places = max(0, digits - 1 - exponent)
    text = str(int(ends.pop() * unit * 10**places)).rjust(places + 1, "0")
    return f"{text[:-places]}.{text[-places:]}" if places else text


def _norm(model: Network, digits: float, progress: Progress) -> Pairs:
    """Operator norm with cuts and steps for about `digits` digits."""
    skip, beta = (Pairs.exact(Fraction(repr(float(x)))) for x in (model.skip, model.beta))
    if model.activation == "linear":
        return norm_three_linear(skip, beta, digits, progress=progress)
    # Hidden nodes of three tokens; at twenty digits and skip = beta = 1 there are some 200000.
    most_nodes = 1_500_000
    if model.tokens == 3:
        steps = three_token_steps(model.skip, model.beta, digits)
        nodes = node_count(model.beta, steps, digits)
        if nodes > most_nodes:
            raise ConvergenceError(
                f"so many digits need {nodes} nodes of h_1 for {model.describe()}, (184)-(185), more than "
                f"{most_nodes}: ask for fewer digits, or for skip and beta closer to 1"
            )
        return norm_three_tokens(skip, beta, steps, digits, progress)
    return _two_token_norm(pair_law(skip, beta, model.layers - 1, digits, progress), model, digits)


def _two_token_norm(law: PairLaw, model: Network, digits: float) -> Pairs:
    """Outer rules: in v_+ and asinh(v_-/least T) the complex zeros of Z lie half a unit or more off the real axis."""
    top, hidden = cut(digits), model.layers - 1
    minus = sinh_half_line((model.skip / (1 + model.skip)) ** hidden, top, 1.4 / digits)
    plus = uniform(0.0, top * (1 + hidden / (1 + model.skip)), 2.8 / digits)
    half = np.ones(len(plus))
    half[0] = 0.5
    return norm_from_law(law, minus, PairRule(plus.nodes, plus.weights * half), digits)
