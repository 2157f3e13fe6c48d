"""Two layers of tied attention, mean pooling and a linear readout: scores, and the gradient of their cross-entropy."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..blocks import Floats, stream
from .settings import Settings

__all__ = ["LAYERS", "Network"]

LAYERS = 2


class _Layer(NamedTuple):
    """What the gradient of a layer needs: its weights, its tokens, their indices h and the attention."""

    w: Floats
    tokens: Floats
    h: Floats
    attention: Floats


@dataclass(frozen=True)
class Network:
    """The classifier's parameters.

    Attributes
    ----------
    layers : tuple of ndarray, each of shape (r, d)
    readout : ndarray, shape (classes, d)
    bias : ndarray, shape (classes,)
    skip : float
    """

    layers: tuple[Floats, ...]
    readout: Floats
    bias: Floats
    skip: float

    @classmethod
    def random(cls, dimension: int, classes: int, settings: Settings, seed: int) -> "Network":
        """Gaussian weights of mean zero in float32, and no bias."""
        rng = stream(seed, 0)

        def draw(rows: int) -> NDArray[np.float32]:
            return (settings.spread * rng.standard_normal((rows, dimension))).astype(np.float32)

        layers = tuple(draw(settings.rank) for _ in range(LAYERS))
        return cls(layers, draw(classes), np.zeros(classes, np.float32), settings.skip)

    @property
    def parameters(self) -> tuple[Floats, ...]:
        """All that is trained: layers, readout, bias."""
        return (*self.layers, self.readout, self.bias)

    def logits(self, tokens: Floats, mask: NDArray[np.bool_]) -> Floats:
        """Scores of the classes.

        X_l = [c I + softmax(X_{l-1} w_l^T w_l X_{l-1}^T / d)] X_{l-1}, the mean over tokens, and a linear map. No token
        attends to padding, and the mean leaves it out.

        Parameters
        ----------
        tokens : ndarray, shape (n, T, d)
        mask : ndarray of bool, shape (n, T)

        Returns
        -------
        ndarray, shape (n, classes)
        """
        return _pooled(self._forward(tokens, mask)[0], mask) @ self.readout.T + self.bias

    def gradient(self, tokens: Floats, mask: NDArray[np.bool_], labels: NDArray[np.int64]) -> tuple[Floats, ...]:
        """Gradient of the mean cross-entropy in `parameters`, by the chain rule from the last layer to the first.

        Parameters
        ----------
        tokens : ndarray, shape (n, T, d)
        mask : ndarray of bool, shape (n, T)
        labels : ndarray of int, shape (n,)

        Returns
        -------
        tuple of ndarray, of the shapes of `parameters`
        """
        last, layers = self._forward(tokens, mask)
        pooled = _pooled(last, mask)
        residual = softmax(pooled @ self.readout.T + self.bias, axis=1)
        residual[np.arange(len(labels)), labels] -= 1
        residual /= len(labels)
        # The gradient in the tokens after a layer, which the layer turns into the one in those before it.
        back = (residual @ self.readout)[:, None, :] * _shares(mask, tokens.dtype)
        found: list[Floats] = []
        for layer in reversed(layers):
            p, h, state = layer.attention, layer.h, layer.tokens
            in_p = back @ state.swapaxes(1, 2)
            in_scores = p * (in_p - (in_p * p).sum(axis=2, keepdims=True))
            in_h = (in_scores + in_scores.swapaxes(1, 2)) @ h / tokens.shape[2]
            found.append(np.tensordot(in_h, state, ((0, 1), (0, 1))))
            back = self.skip * back + p.swapaxes(1, 2) @ back + in_h @ layer.w
        return (*reversed(found), residual.T @ pooled, residual.sum(axis=0))

    def _forward(self, tokens: Floats, mask: NDArray[np.bool_]) -> tuple[Floats, list[_Layer]]:
        """Tokens after the last layer, and each layer on the way."""
        state, layers = tokens, []
        for w in self.layers:
            h = state @ w.T
            scores = np.where(mask[:, None, :], h @ h.swapaxes(1, 2) / tokens.shape[2], -np.inf)
            layers.append(_Layer(w, state, h, softmax(scores, axis=2)))
            state = self.skip * state + layers[-1].attention @ state
        return state, layers


def _shares(mask: NDArray[np.bool_], dtype: np.dtype[np.floating]) -> Floats:
    """Weight of each token in the mean, shape (n, T, 1): zero for padding."""
    kept = mask[:, :, None].astype(dtype)
    return kept / kept.sum(axis=1, keepdims=True)


def _pooled(tokens: Floats, mask: NDArray[np.bool_]) -> Floats:
    return np.asarray((tokens * _shares(mask, tokens.dtype)).sum(axis=1))
