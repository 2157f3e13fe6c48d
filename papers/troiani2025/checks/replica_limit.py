"""The replica computation for a symbolic number of replicas: (155), (160)."""

import math
from collections.abc import Callable
from functools import partial

from attnlimits.derive.proof import ProofError
from attnlimits.derive.registry import CheckOutcome
from attnlimits.derive.replica import channel as replica_channel
from attnlimits.derive.replica import entropy as replica_entropy
from attnlimits.derive.replica import replica


def _proved(proofs: list[Callable[[], None]], detail: str) -> CheckOutcome:
    """Run the proofs; the first that fails is told."""
    try:
        for prove in proofs:
            prove()
    except ProofError as error:
        return CheckOutcome(math.inf, 0.0, "symbolic", f"{detail}; {error}")
    return CheckOutcome(0.0, 0.0, "symbolic", detail)


def check_155() -> CheckOutcome:
    """Decouple the replicas for every n: the law (145)-(148), and plane waves in place of the channel."""
    proofs: list[Callable[[], None]] = [replica_channel.prove_gaussian_integral, replica_channel.prove_decoupled_law]
    proofs += [partial(replica_channel.prove_decoupled_law_at, n) for n in (2, 3, 4)]
    proofs.append(replica_channel.prove_decoupled_channel)
    return _proved(proofs, "law of N replicas and channel part against the decoupled ones, symbolic N and N = 2, 3, 4")


def check_160() -> CheckOutcome:
    """Take n to zero: the algebra of the overlaps, prior and channel part, the stationary point; a channel solved."""
    proofs: list[Callable[[], None]] = [
        replica.prove_algebra,
        replica.prove_inverse,
        replica.prove_determinant,
        replica.prove_zero_replicas,
        replica_entropy.prove_prior_slope,
        replica_channel.prove_small_channel,
    ]
    proofs += [partial(replica_entropy.prove_stationarity, size) for size in (1, 2, 3)]
    proofs.append(replica_entropy.prove_linear_channel)
    return _proved(proofs, "slope in n of the replicated exponent against the functional of (10), and its gradients")
