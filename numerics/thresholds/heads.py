"""Thresholds of heads side by side, each on its own D/H coordinates (30): that of one head over H."""

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ..core.results import ThresholdResult
from ..model.network import Network
from . import exact
from .last_layer import one_layer

__all__ = ["heads_threshold", "of_one_head"]

Array = NDArray[np.float64]


def heads_threshold(
    tokens: int,
    rank: int = 1,
    activation: str = "softmax",
    *,
    heads: int = 1,
    tied: bool = True,
    output: str = "last",
    digits: int = 12,
) -> ThresholdResult:
    """Threshold of one layer of H heads, of its attention or of the tokens that leave it, which hold as much.

    Parameters
    ----------
    tokens, rank, activation, tied, digits : optional
        As in `one_layer`, which gives the threshold of one head.
    heads : int, optional
        H >= 1.
    output : {"last", "sequence"}, optional
        Attention of the layer, or all tokens that leave it.

    Returns
    -------
    ThresholdResult
    """
    result = one_layer(tokens, rank, activation, tied=tied, digits=digits)
    if heads > 1:
        found = exact.single_layer(tokens, rank, activation, tied, heads=heads, digits=digits)
        assert found is not None and found.value is not None
        status = f"{result.status}; alpha = N/D, every head sees D/{heads} coordinates"
        if output == "sequence":
            status += " (heads with a readout weight that is not zero)"
        result = replace(
            result,
            value=found.value,
            exact=found.exact,
            error=found.error,
            operator_norm=result.operator_norm * heads,
            eigenvector=np.asarray(np.kron(np.eye(heads), result.eigenvector) / math.sqrt(heads), np.float64),
            status=status,
        )
    return replace(result, origin=result.origin.with_model(heads=heads, output=output))


def of_one_head(one: ThresholdResult, model: Network) -> ThresholdResult:
    """Threshold of heads that do not mix, at any depth, from that of one of them.

    Parameters
    ----------
    one : ThresholdResult
        Of `model.one_head`, or of the same whose output is all tokens.
    model : Network
        Several heads with o = I.

    Returns
    -------
    ThresholdResult
    """
    heads = model.heads
    exact_value = Decimal(one.value) / heads
    places = max(0, -int(Decimal(one.value).as_tuple().exponent)) + 1
    value = round(exact_value, places)
    return replace(
        one,
        value=str(value),
        error=one.error / heads + abs(float(value - exact_value)),
        exact=None,
        operator_norm=one.operator_norm * heads,
        eigenvector=_of_all_heads(one.eigenvector, model),
        status=f"{one.status}; heads do not mix: alpha = N/D, every head sees D/{heads} coordinates",
        origin=one.origin.with_model(heads=heads, readouts=model.readouts, output=model.output),
    )


def _of_all_heads(direction: Array, model: Network) -> Array:
    """The direction of one head for all of them: every weight row meets every block of coordinates alike."""
    source, place, start = [], [], 0
    for rank in model.ranks:
        for head, kind, block, row in np.ndindex(model.heads, model.kinds, model.heads, rank):
            source.append(start + kind * rank + row)
            place.append(head * model.heads + block)
        start += model.kinds * rank
    same = np.equal.outer(place, place)
    return np.asarray(direction[np.ix_(source, source)] * same / model.heads, np.float64)
