"""The linear operator of weak recovery, its diagonal form for tied layers, and the exact one-layer thresholds.

Near zero overlap the state evolution of an even model is linear: q -> alpha F(q) with the operator F of (15).
"""

from .operator import LayerTerm, apply_operator, curvature_blocks, layer_multipliers, layer_term, prove_parity
from .single_layer import single_layer_direction, single_layer_eigenvalue, single_layer_threshold
from .strong_skip import strong_skip_loss
from .tied import gram_eigenvalue, shift_loss
from .untied import UntiedOperator, fibre_moment, scale_mean_square, untied_operator

__all__ = [
    "LayerTerm",
    "UntiedOperator",
    "apply_operator",
    "curvature_blocks",
    "fibre_moment",
    "gram_eigenvalue",
    "layer_multipliers",
    "layer_term",
    "prove_parity",
    "scale_mean_square",
    "shift_loss",
    "single_layer_direction",
    "single_layer_eigenvalue",
    "single_layer_threshold",
    "strong_skip_loss",
    "untied_operator",
]
