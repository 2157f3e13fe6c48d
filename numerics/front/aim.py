"""`al.aim`: attention of extensive width, S = W W^T/sqrt(r d) with r of the order of d."""

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import Channel, Softmax, channel
from attnlimits.numerics.aim.checks import above_zero
from attnlimits.numerics.aim.data import instance, refuse_size, teacher
from attnlimits.numerics.aim.instances import amp_instances
from attnlimits.numerics.aim.precise import exact_number, mmse_digits
from attnlimits.numerics.aim.results import AMPResult, AMPStep, EvolutionPoint
from attnlimits.numerics.aim.rie import denoise_matrix
from attnlimits.numerics.aim.spectrum import mmse
from attnlimits.numerics.aim.state_evolution import curve, evolve
from attnlimits.numerics.aim.thresholds import hardmax_tail, perfect_recovery, weak_recovery

__all__ = [
    "AMPResult",
    "AMPStep",
    "Channel",
    "EvolutionPoint",
    "Softmax",
    "above_zero",
    "amp",
    "amp_instances",
    "channel",
    "curve",
    "denoise_matrix",
    "evolve",
    "exact_number",
    "hardmax_tail",
    "instance",
    "mmse",
    "mmse_digits",
    "perfect_recovery",
    "refuse_size",
    "teacher",
    "weak_recovery",
]
