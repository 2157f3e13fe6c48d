"""`al.learning`: instances of a teacher at random, starts of iterations, and the state evolution beside them."""

from attnlimits.numerics.core.standard_error import standard_error
from attnlimits.numerics.fixed_point.expected import expected
from attnlimits.numerics.learning.data import alpha_of, informed_start, refuse_size
from attnlimits.numerics.learning.descent import DescentResult, DescentStep, spectral_start
from attnlimits.numerics.learning.gamp import GAMP, GAMPResult, GAMPStep, draw_runs, predicted_overlaps
from attnlimits.numerics.learning.inputs import Inputs, measure_inputs
from attnlimits.numerics.learning.instances import Instances, mean_of, on_instances
from attnlimits.numerics.learning.row_files import RowFiles
from attnlimits.numerics.learning.side import side_information
from attnlimits.numerics.posterior.protocol import Model as Source
from attnlimits.numerics.priors import spectrum_of
from attnlimits.verbs.write_data import write_data

__all__ = [
    "GAMP",
    "DescentResult",
    "DescentStep",
    "GAMPResult",
    "GAMPStep",
    "Inputs",
    "Instances",
    "RowFiles",
    "Source",
    "alpha_of",
    "draw_runs",
    "expected",
    "informed_start",
    "mean_of",
    "measure_inputs",
    "on_instances",
    "predicted_overlaps",
    "refuse_size",
    "side_information",
    "spectral_start",
    "spectrum_of",
    "standard_error",
    "write_data",
]
