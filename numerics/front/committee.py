"""`al.committee`: deep attention with strong skips, to leading order in 1/c, (46)-(54)."""

from attnlimits.numerics.committee import (
    CommitteeState,
    CommitteeThreshold,
    committee_evolution,
    committee_threshold,
    last_layer_threshold,
    limit_threshold,
)

__all__ = [
    "CommitteeState",
    "CommitteeThreshold",
    "committee_evolution",
    "committee_threshold",
    "last_layer_threshold",
    "limit_threshold",
]
