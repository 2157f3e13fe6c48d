"""The grand staircase of a user's own link (17)-(18): thresholds with what is learned before them known."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...core.results import Origin, Result, versions
from ...model.links import LinkKernel
from .directions import Known, Vectors
from .thresholds import LinkThreshold, threshold

__all__ = ["Given", "LinkStaircase", "Rotate", "ended", "least_part", "mixed", "staircase", "threshold_given"]

Array = NDArray[np.float64]
Given = Literal["self-consistent", "perfect"]
Rotate = Callable[[Vectors], LinkKernel]


@dataclass(frozen=True, repr=False)
class LinkStaircase(Result):
    """Thresholds one after the other, each with the subspaces before it known (17)-(18).

    Attributes
    ----------
    steps : tuple of LinkThreshold
    converged, status, kernel_hash, versions, origin
        Provenance.
    reached : bool
        Whether every threshold is as accurate as was asked; true where nothing was asked for.
    directions : tuple of tuple of int
        If not empty, a step learned a subspace that no indices span: in the steps after it, `given` counts these
        orthogonal vectors instead of the indices.
    given : {"self-consistent", "perfect"}
        How the subspaces before a step are known: as far as they can be at the same alpha, or exactly.
    """

    steps: tuple[LinkThreshold, ...]
    converged: bool
    status: str
    kernel_hash: str
    directions: Vectors = ()
    given: Given = "perfect"
    reached: bool = True
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    @property
    def largest_error(self) -> float:
        """The largest error of a step that has a number."""
        return max((step.error for step in self.steps if step.error is not None), default=0.0)

    def lines(self) -> Iterator[str]:
        """The steps, and the status."""
        for step in self.steps:
            kind = f", {step.transition}" if step.transition else ""
            yield f"alpha({step.subspace}) = {'infinite' if step.value is None else step.value} ({step.how}{kind})"
        yield self.status


def staircase(kernel: LinkKernel, *, digits: int | None = None, rotate: Rotate | None = None) -> LinkStaircase:
    """Thresholds step by step: each with the subspaces before it perfectly known.

    Parameters
    ----------
    kernel : LinkKernel
    digits : int, optional
        As in `threshold`.
    rotate : callable, optional
        Kernel of the same link along other orthogonal axes, given as P vectors of integers
        (`attnlimits.derive.links.link.rotated`). Without it the staircase stops after a step that learns a subspace
        which no indices span.

    Returns
    -------
    LinkStaircase
        Steps until all indices are learned, or the rest cannot be at this order. A step of value "0" is learned
        as soon as the steps before it are. The smallest alpha of a step is the largest value so far, and not
        less: below perfect knowledge of the earlier indices its threshold can only be higher.

    References
    ----------
    troiani2025, (17)-(18): linearised at q* = the projector on what is learned.
    """
    steps: list[LinkThreshold] = []
    known = Known.nothing(kernel.indices)
    vectors: Vectors = ()
    origin = Origin.of(kernel, digits=digits)
    while known.rank < kernel.indices:
        vectors = known.vectors or vectors
        step = threshold_given(kernel, known, rotate, digits)
        steps.append(step)
        if step.value is None or not step.converged:
            break
        after = known.joined(step.eigenvector, least_part(step))
        if after is None or (after.vectors and rotate is None):
            return LinkStaircase(tuple(steps), False, mixed(steps), kernel.kernel_hash, vectors, origin=origin)
        known = after
    converged, status = ended(steps)
    return LinkStaircase(tuple(steps), converged, status, kernel.kernel_hash, vectors, origin=origin)


def threshold_given(kernel: LinkKernel, known: Known, rotate: Rotate | None, digits: int | None) -> LinkThreshold:
    """Threshold of the next step with a subspace perfectly known.

    Parameters
    ----------
    kernel : LinkKernel
    known : Known
    rotate : callable, optional
        As in `staircase`; needed where no indices span the subspace.
    digits : int, optional
    """
    if not known.vectors:
        return threshold(kernel, digits=digits, given=known.given)
    assert rotate is not None
    step = threshold(rotate(known.vectors), digits=digits, given=known.given)
    matrix = known.in_indices(step.eigenvector)
    return replace(step, eigenvector=matrix, subspace=known.named(matrix))


def least_part(step: LinkThreshold) -> float:
    """Eigenvalues of the eigenvector of a step below this are zero."""
    # Eigenvalues of a unit matrix below this are zero, also where it is known from samples.
    rank, sampled_rank = 1e-6, 0.05
    return sampled_rank if step.how == "monte-carlo" else rank


def mixed(steps: list[LinkThreshold]) -> str:
    """Status of a staircase whose last step learns a subspace that nothing here spans."""
    names = ", ".join(str(i + 1) for i in np.flatnonzero(steps[-1].eigenvector.diagonal() > least_part(steps[-1])))
    return (
        f"stopped: the subspace of step {len(steps)} mixes indices {names}; rotate the indices so that it is spanned "
        "by some of them"
    )


def ended(steps: list[LinkThreshold]) -> tuple[bool, str]:
    """Whether a staircase has converged that ends with the last of these steps, and its status."""
    last = steps[-1]
    if last.value is None or not last.converged:
        return last.converged, last.status
    return True, "converged: all indices are learned"
