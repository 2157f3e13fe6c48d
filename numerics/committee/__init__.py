"""Deep attention with strong skips, to leading order in 1/c: a linear last layer and a committee, (46)-(54)."""

from .evolution import CommitteeState, committee_evolution
from .gaussian import GaussianCommittee, GaussianPoint, limit_threshold
from .thresholds import CommitteeThreshold, committee_threshold, last_layer_threshold, remainder_at_zero

__all__ = [
    "CommitteeState",
    "CommitteeThreshold",
    "GaussianCommittee",
    "GaussianPoint",
    "committee_evolution",
    "committee_threshold",
    "last_layer_threshold",
    "limit_threshold",
    "remainder_at_zero",
]
