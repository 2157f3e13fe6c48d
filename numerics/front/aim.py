"""`al.aim`: attention of extensive width, S = W W^T/sqrt(r d) with r of the order of d."""

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import Channel, Noisy, Softmax, channel
from attnlimits.numerics.aim.checks import above_zero
from attnlimits.numerics.aim.data import Single, indices, instance, refuse_size, teacher, whole_sizes
from attnlimits.numerics.aim.deep_descent import LayersDescent, descend_layers
from attnlimits.numerics.aim.free_energy import FreeEntropyPoint, free_entropy, free_entropy_at
from attnlimits.numerics.aim.gd import descend
from attnlimits.numerics.aim.heads import HeadsPoint, evolve_heads, head_error, heads_channel, heads_teacher
from attnlimits.numerics.aim.instances import amp_instances, descent_instances
from attnlimits.numerics.aim.last_layer import LastLayer, unmixed
from attnlimits.numerics.aim.law import SpectrumResult, spectrum
from attnlimits.numerics.aim.layers import deep_outputs, network_matrix
from attnlimits.numerics.aim.precise import exact_number, mmse_digits
from attnlimits.numerics.aim.prediction import errors_on_data, predict, prediction_errors
from attnlimits.numerics.aim.results import AMPResult, AMPStep, DescentResult, EvolutionPoint, PredictionErrors
from attnlimits.numerics.aim.rie import denoise_matrix
from attnlimits.numerics.aim.spectrum import mmse
from attnlimits.numerics.aim.state_evolution import curve, evolve
from attnlimits.numerics.aim.thresholds import (
    Threshold,
    hardmax_tail,
    noisy_tail,
    perfect_recovery,
    weak_recovery,
)
from attnlimits.numerics.aim.width import WidthEstimate, estimate_rho

__all__ = [
    "AMPResult",
    "AMPStep",
    "Channel",
    "DescentResult",
    "EvolutionPoint",
    "FreeEntropyPoint",
    "HeadsPoint",
    "LastLayer",
    "LayersDescent",
    "Noisy",
    "PredictionErrors",
    "Single",
    "Softmax",
    "SpectrumResult",
    "Threshold",
    "WidthEstimate",
    "above_zero",
    "amp",
    "amp_instances",
    "channel",
    "curve",
    "deep_outputs",
    "denoise_matrix",
    "descend",
    "descend_layers",
    "descent_instances",
    "errors_on_data",
    "estimate_rho",
    "evolve",
    "evolve_heads",
    "exact_number",
    "free_entropy",
    "free_entropy_at",
    "hardmax_tail",
    "head_error",
    "heads_channel",
    "heads_teacher",
    "indices",
    "instance",
    "mmse",
    "mmse_digits",
    "network_matrix",
    "noisy_tail",
    "perfect_recovery",
    "predict",
    "prediction_errors",
    "refuse_size",
    "spectrum",
    "teacher",
    "unmixed",
    "weak_recovery",
    "whole_sizes",
]
