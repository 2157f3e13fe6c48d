"""Threshold of one layer of heads side by side, each on its own D/H coordinates (30)."""

import math
from dataclasses import replace

import numpy as np

from ..core.results import ThresholdResult
from . import exact
from .last_layer import one_layer

__all__ = ["heads_threshold"]


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
