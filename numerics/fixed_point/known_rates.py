"""Growth rates of a small overlap from zero that are known to many digits, as the threshold has them."""

import sys

from ..core.errors import ConvergenceError, KernelNotFoundError
from ..core.results import Estimate
from ..model.network import Network
from ..thresholds.last_layer import last_layer

__all__ = ["ROUNDING", "last_layer_norm"]

#: Roundings, relative, of a norm, the inverse of a threshold, and of its product with alpha.
ROUNDING = 4 * sys.float_info.epsilon

_NORMS: dict[tuple[object, ...], Estimate | None] = {}


def last_layer_norm(model: Network) -> Estimate | None:
    """Norm of the operator (15) of the last layer, its growth rate over alpha; None where it is not computed."""
    key = (model.layers, model.tokens, model.skip, model.beta, model.activation)
    if key not in _NORMS:
        try:
            found = last_layer(model, digits=6)
            norm = found.operator_norm
            # The error of the threshold without that of its digits, and the rounding of the norm.
            own = max((found.error or 0.0) - abs(float(found.value or 0.0) - 1 / norm), 0.0)
            _NORMS[key] = Estimate(norm, norm * (own * norm + ROUNDING), found.how)
        except (KernelNotFoundError, ConvergenceError):
            _NORMS[key] = None
    return _NORMS[key]
