"""What an output fixes of the indices that made it."""

import numpy as np
from numpy.typing import NDArray

from ...core.errors import UnreachableOutputError
from ...core.validation import softmax_rows
from ...model.activations import ScoreFunction
from ...model.network import Network
from .density import read_outputs
from .layout import Layout

__all__ = ["output_data"]

Array = NDArray[np.float64]

# y is accepted if the link at indices with its data reproduces it to this (relative to its scale).
_CONSISTENT = 1e-6
# Of an activation of one's own, where it saturates: y in float64 has lost digits of its scores.
_SATURATED = 1e-3
_LOST = "; or take a smaller beta: where the activation saturates, y in float64 has lost the digits of its scores"


def output_data(model: Network, layout: Layout, y: Array) -> Array:
    """What outputs fix.

    Parameters
    ----------
    model : Network
    layout : Layout
        Of its chart.
    y : ndarray, shape (n, HM, M)

    Returns
    -------
    ndarray, shape (n, numbers that an output fixes)

    Raises
    ------
    UnreachableOutputError
        No indices give one of them.
    """
    array = softmax_rows(y) if model.activation == "softmax" else y
    shown = model.activation.scores(array) if isinstance(model.activation, ScoreFunction) else array
    data = np.empty((len(array), layout.data))
    h = np.empty((len(array), len(layout.free), model.tokens))
    # Any indices have coordinates; with the data of y their output is y.
    anywhere = np.random.default_rng(0).standard_normal(h.shape[1:])
    read_outputs(np.array(shown, order="C"), anywhere, layout, data, h)
    if model.noise:
        return data  # every output is one of the model
    off = np.inf
    if np.isfinite(h).all():
        scale = np.abs(array).max(axis=(1, 2))
        off = float((np.abs(model.link(h) - array).max(axis=(1, 2)) / scale).max())
    if not off <= (_CONSISTENT if shown is array else _SATURATED):
        raise UnreachableOutputError(
            f"no indices of {model.describe()} give this y: the link is violated by {off:.3g} (troiani2025 (6)); check "
            "the activation, beta, the ranks and whether the layers are tied" + ("" if shown is array else _LOST)
        )
    return data
