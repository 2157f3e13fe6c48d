"""Two layers of tied attention, mean pooling and a linear readout, on PyTorch's tensors."""

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from .settings import Settings

__all__ = ["LAYERS", "Network", "Tensor", "require_torch"]

LAYERS = 2
#: A tensor of PyTorch, which is the same to a type checker whether the package is installed or not.
Tensor: TypeAlias = Any


def require_torch() -> ModuleType:
    """Return the package torch.

    Raises
    ------
    ValueError
        It is not installed; the message names the command that installs it.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ValueError(
            f"training needs PyTorch, which cannot be imported ({error}): pip install 'attnlimits[torch]', with the "
            "build for your device"
        ) from None


@dataclass(frozen=True)
class Network:
    """The classifier's parameters.

    Attributes
    ----------
    layers : tuple of Tensor, each of shape (r, d)
    readout : Tensor, shape (classes, d)
    bias : Tensor, shape (classes,)
    skip : float
    """

    layers: tuple[Tensor, ...]
    readout: Tensor
    bias: Tensor
    skip: float

    @classmethod
    def random(cls, dimension: int, classes: int, settings: Settings, seed: int) -> "Network":
        """Gaussian weights of mean zero, and no bias."""
        torch = require_torch()
        generator = torch.Generator().manual_seed(seed)

        def draw(rows: int) -> Tensor:
            return (settings.spread * torch.randn(rows, dimension, generator=generator)).requires_grad_()

        layers = tuple(draw(settings.rank) for _ in range(LAYERS))
        return cls(layers, draw(classes), torch.zeros(classes, requires_grad=True), settings.skip)

    @property
    def parameters(self) -> list[Tensor]:
        """All that is trained."""
        return [*self.layers, self.readout, self.bias]

    def logits(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Scores of the classes.

        X_l = [c I + softmax(X_{l-1} w_l^T w_l X_{l-1}^T / d)] X_{l-1}, the mean over tokens, and a linear map. No token
        attends to padding, and the mean leaves it out.

        Parameters
        ----------
        tokens : Tensor, shape (n, T, d)
        mask : Tensor of bool, shape (n, T)

        Returns
        -------
        Tensor, shape (n, classes)
        """
        state = tokens
        for w in self.layers:
            h = state @ w.T
            scores = (h @ h.transpose(1, 2) / tokens.shape[2]).masked_fill(~mask[:, None, :], -float("inf"))
            state = self.skip * state + scores.softmax(dim=2) @ state
        kept = mask[:, :, None].to(state.dtype)
        return ((state * kept).sum(dim=1) / kept.sum(dim=1)) @ self.readout.T + self.bias
