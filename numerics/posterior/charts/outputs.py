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

_LOST = "; or take a smaller beta: where the activation saturates, y in float64 has lost the digits of its scores"


def _checked(model: Network, y: Array) -> Array:
    """Outputs of softmax layers, whose rows have a given sum, or UnreachableOutputError; others as they are."""
    if model.activation != "softmax" or (model.noise and model.output == "sequence"):
        return y
    if model.chain is not None:
        return _masked(y, model.chain.seen)
    total = (1 + model.skip) ** model.layers if model.output == "sequence" else 1.0
    where = f"troiani2025 (25), divided by (1 + c)^L = {total:g}"
    return softmax_rows(y / total, where) * total if model.output == "sequence" else softmax_rows(y)


def _masked(y: Array, seen: NDArray[np.bool_]) -> Array:
    """Rows of a softmax over what each sees, zero elsewhere."""
    if (y[:, ~seen] != 0).any():
        raise UnreachableOutputError("y must be zero where the mask hides a token from the row of another")
    out = np.array(y)
    for i, columns in enumerate(seen):
        out[:, i, columns] = softmax_rows(y[:, i, columns])
    return out


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
    array = _checked(model, y)
    shown = model.activation.scores(array) if isinstance(model.activation, ScoreFunction) else array
    data = np.empty((len(array), layout.data))
    h = np.empty((len(array), len(layout.free), model.tokens))
    rng, told = np.random.default_rng(0), np.array(shown, order="C")
    # Any indices have coordinates; with the data of y their output is y.
    read_outputs(told, rng.standard_normal(h.shape[1:]), layout, data, h)
    if model.noise:
        return data  # every output is one of the model
    # Coordinates that are tried for a sequence output: those of untied layers are not possible for all.
    trials = 256
    for _ in range(trials if model.output == "sequence" else 0):
        # Only some shares of the layers are possible for an output.
        lost = np.flatnonzero(~np.isfinite(h).all(axis=(1, 2)))
        if not len(lost):
            break
        some, known = np.empty((len(lost), *h.shape[1:])), np.empty((len(lost), layout.data))
        read_outputs(told[lost], rng.standard_normal(h.shape[1:]), layout, known, some)
        h[lost] = some
    off = np.inf
    if np.isfinite(h).all():
        scale = np.abs(array).max(axis=(1, 2))
        off = float((np.abs(model.link(h) - array).max(axis=(1, 2)) / scale).max())
    # y is accepted if the link at indices with its data reproduces it to this (relative to its scale).
    consistent = 1e-6
    # Of an activation of one's own, where it saturates: y in float64 has lost digits of its scores.
    saturated = 1e-3
    if not off <= (consistent if shown is array else saturated):
        raise UnreachableOutputError(
            f"no indices of {model.describe()} give this y: the link is violated by {off:.3g} (troiani2025 (6)); check "
            "the activation, beta, the ranks and whether the layers are tied" + ("" if shown is array else _LOST)
        )
    return data
