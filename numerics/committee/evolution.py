"""State evolution of a deep network with strong skips, with the error of taking sums over its layers as Gaussian."""

import math
from dataclasses import dataclass, field

from ..core.results import Estimate, Result, versions
from .gaussian import GaussianCommittee, GaussianPoint
from .thresholds import CommitteeThreshold, committee_threshold, remainder_at_zero

__all__ = ["CommitteeState", "committee_evolution"]


@dataclass(frozen=True, repr=False)
class CommitteeState(Result):
    """Fixed point of the uninformed state evolution at c -> infinity, in the ansatz q = diag(q_c, .., q_c, q_L).

    Attributes
    ----------
    alpha : float
    hidden_overlap : Estimate
        q_c.
    remainder : Estimate
        rho: q_L = 1 - rho/c^2.
    free_entropy : Estimate
        Phi less that at q_c = 0, per dimension.
    recovered : bool
        No fixed point below q_c = 1 was left.
    threshold : CommitteeThreshold
    status : str
    versions : dict
    """

    alpha: float
    hidden_overlap: Estimate
    remainder: Estimate
    free_entropy: Estimate
    recovered: bool
    threshold: CommitteeThreshold
    status: str
    versions: dict[str, str] = field(default_factory=versions)


def committee_evolution(layers: int, alpha: float, *, beta: float = 1.0) -> CommitteeState:
    """Uninformed fixed point, at a cost that does not depend on the depth.

    Parameters
    ----------
    layers : int
        Depth L >= 2 of softmax attention with two tokens, rank 1, each layer rescaled as in (46).
    alpha : float
        N/D > 1/2: below, the last layer is that of one layer alone, and nothing of the others is learned.
    beta : float, optional
        Inverse temperature.

    Returns
    -------
    CommitteeState
        Below the threshold of the hidden layers rho is exact. Above it the sum over the hidden layers is taken as
        Gaussian, at an alpha that is moved so that their threshold is the exact one, and recovery stays at L/2; errors
        are the change due to this, to which rho adds the share by which it is off at the threshold.

    Raises
    ------
    ValueError
        An argument is outside its range.
    ConvergenceError
        The threshold was not found.

    References
    ----------
    troiani2025, (14), (46)-(54).
    """
    model = GaussianCommittee(layers, beta)
    plain = _uninformed(model, alpha)
    exact = committee_threshold(layers, beta=beta)
    if alpha <= exact.alpha.value:
        zero = Estimate(0.0, 0.0, "estimated")
        rho = remainder_at_zero(layers, alpha, beta=beta)
        return CommitteeState(float(alpha), zero, rho, zero, False, exact, "hidden layers below their threshold")
    point = _uninformed(model, _moved(alpha, exact, 0.5 * layers))
    off = abs(exact.remainder.value / model.remainder(exact.gaussian) - 1)

    recovered = point.kind == "recovered"

    def of(name: str, share: float = 0.0) -> Estimate:
        here, there = (getattr(p, name) for p in (point, plain))
        error = 0.0 if recovered and here == there else abs(here - there) + share * here
        return Estimate(here, error, "estimated")

    status = f"sum over {model.hidden} hidden layers taken as Gaussian; to leading order in 1/c"
    if recovered:
        status += "; no fixed point below recovery"
    return CommitteeState(
        float(alpha), of("overlap"), of("remainder", off), of("free_entropy"), recovered, exact, status
    )


def _moved(alpha: float, exact: CommitteeThreshold, recovery: float) -> float:
    """Alpha at which Gaussian sums are as far between threshold and recovery as the exact ones are at alpha."""
    start, gaussian = exact.alpha.value, exact.gaussian
    if not (start < recovery and gaussian < recovery):
        return alpha * gaussian / start
    return gaussian + (alpha - start) * (recovery - gaussian) / (recovery - start) if alpha < recovery else alpha


def _uninformed(model: GaussianCommittee, alpha: float) -> GaussianPoint:
    """Return zero where it is stable, else the first stable point; recovered where there is none."""
    points = model.points(alpha)
    if points[0].stability < 1:
        return points[0]
    stable = [p for p in points if p.kind == "stable"]
    return stable[0] if stable else GaussianPoint(alpha, 1.0, 0.0, math.inf, "recovered", 0.0)
