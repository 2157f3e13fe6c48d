"""Fixed point of a network of heads side by side: of each head, on D/H of the D coordinates (30)."""

from dataclasses import replace
from typing import Any

from ..core.results import EvolutionResult
from ..model.network import Network
from .evolve import evolve

__all__ = ["evolve_heads"]


def evolve_heads(
    model: Network, alpha: float, *, heads: int = 1, output: str = "last", **settings: Any
) -> EvolutionResult:
    """Fixed point of each of H equal heads, at alpha = N/D of all of them.

    Parameters
    ----------
    model : Network
        One head.
    alpha : float
        Samples per dimension N/D; each head sees alpha H samples per coordinate of its own.
    heads : int, optional
        H >= 1.
    output : {"last", "sequence"}, optional
        Attention of the layer, or all tokens that leave it, which hold as much at depth 1.
    settings : optional
        As in `evolve`.

    Returns
    -------
    EvolutionResult
    """
    result = evolve(model, alpha * heads, **settings)
    if heads > 1:
        status = f"{result.status}; of each head, which sees D/{heads} coordinates of N samples"
        result = replace(result, alpha=alpha, status=status)
    return replace(result, origin=result.origin.with_model(heads=heads, output=output))
