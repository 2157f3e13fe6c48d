"""Growth rates of a small overlap from zero that are known to many digits, as the threshold has them."""

from ..core.errors import ConvergenceError, KernelNotFoundError
from ..model.network import Network
from ..thresholds.last_layer import last_layer

__all__ = ["last_layer_norm"]

_NORMS: dict[tuple[object, ...], float | None] = {}


def last_layer_norm(model: Network) -> float | None:
    """Norm of the operator (15) of the last layer, its growth rate over alpha; None where it is not computed."""
    key = (model.layers, model.tokens, model.skip, model.beta, model.activation)
    if key not in _NORMS:
        try:
            _NORMS[key] = last_layer(model, digits=6).operator_norm
        except (KernelNotFoundError, ConvergenceError):
            _NORMS[key] = None
    return _NORMS[key]
