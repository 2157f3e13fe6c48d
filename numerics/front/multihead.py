"""`al.multihead`: a multi-head attention layer learned from random examples of its inputs and outputs."""

from attnlimits.numerics.multihead.checks import count
from attnlimits.numerics.multihead.comparison import compared
from attnlimits.numerics.multihead.errors import LearnWarning
from attnlimits.numerics.multihead.hardness import METHODS, hardness
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.learner import MultiheadLearner, fit
from attnlimits.numerics.multihead.matching import parameter_error
from attnlimits.numerics.multihead.results import MultiheadFit
from attnlimits.numerics.multihead.sculpt.plots import hull_net, hull_singular_values, residual_histogram
from attnlimits.numerics.multihead.sculpt.results import SculptResult
from attnlimits.numerics.multihead.sculpt.sculpt import sculpt
from attnlimits.numerics.multihead.size import refuse_size
from attnlimits.numerics.multihead.teachers import TeacherData, make_examples, make_teacher
from attnlimits.numerics.multihead.watch import Watch

__all__ = [
    "METHODS",
    "LearnWarning",
    "MultiheadFit",
    "MultiheadLearner",
    "SculptResult",
    "TeacherData",
    "Watch",
    "compared",
    "count",
    "fit",
    "hardness",
    "hull_net",
    "hull_singular_values",
    "learn_multihead",
    "make_examples",
    "make_teacher",
    "parameter_error",
    "refuse_size",
    "residual_histogram",
    "sculpt",
]
