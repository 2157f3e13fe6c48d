"""How much a report computes."""

from dataclasses import dataclass

__all__ = ["EFFORTS", "Effort", "effort_named"]


@dataclass(frozen=True)
class Effort:
    """Sizes of the computations of a report.

    Attributes
    ----------
    points, costly_points : int
        Values of alpha on the curve, and where the averages are over sampled posteriors.
    samples, nodes, replicas : int
        Of averages over sampled posteriors: outputs, nodes of each, and independent randomisations.
    accuracy : float or None
        Of overlaps on charts, in place of these numbers.
    dimension, costly_dimension, seeds : int
        Of the instances for message passing.
    digits : int
        Of thresholds that take longer with every digit.
    shares : tuple of float
        In units of the weak-recovery threshold, the alphas of instances and of stationary points.
    overlaps : int
        Values of the overlap at which the free entropy is drawn.
    quick : bool
        Whether what takes minutes is left out.
    thorough : bool
        Whether what takes minutes more is done: digits of a threshold are proved, and fixed points of several overlaps
        followed to where they jump.
    """

    points: int
    costly_points: int
    samples: int
    nodes: int
    replicas: int
    accuracy: float | None
    dimension: int
    costly_dimension: int
    seeds: int
    digits: int
    shares: tuple[float, ...]
    overlaps: int
    quick: bool
    thorough: bool


EFFORTS: dict[str, Effort] = {
    "quick": Effort(6, 5, 32, 256, 8, None, 200, 200, 4, 6, (2.0,), 12, True, False),
    "usual": Effort(14, 6, 64, 512, 8, 0.03, 1000, 500, 4, 8, (1.5, 2.5), 40, False, False),
    "thorough": Effort(30, 12, 256, 2048, 8, 0.01, 2000, 1000, 8, 12, (1.25, 1.5, 2.0, 2.5), 60, False, True),
}


def effort_named(name: str) -> Effort:
    """Return the effort of this name.

    Raises
    ------
    ValueError
        There is none.
    """
    if name not in EFFORTS:
        raise ValueError(f"effort must be one of {', '.join(EFFORTS)}, got {name!r}")
    return EFFORTS[name]
