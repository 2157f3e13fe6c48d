"""The grand staircase of a user's own link (17)-(18): thresholds with what is learned before them known."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...core.results import Origin, Result, versions
from ...model.links import LinkKernel
from .thresholds import LinkThreshold, threshold

__all__ = ["LinkStaircase", "staircase"]

Array = NDArray[np.float64]
Vectors = tuple[tuple[int, ...], ...]

# Eigenvalues of a unit matrix below this are zero, also where it is known from samples.
_RANK, _SAMPLED_RANK = 1e-6, 0.05
# Projectors of learned subspaces are known to a few 1e-4; those of vectors of small integers are told apart so.
_LARGEST_DENOMINATOR, _SAME_DIRECTION = 12, 1e-3


@dataclass(frozen=True, repr=False)
class LinkStaircase(Result):
    """Thresholds one after the other, each with the subspaces before it perfectly known (17)-(18).

    Attributes
    ----------
    steps : tuple of LinkThreshold
    converged, status, kernel_hash, versions, origin
        Provenance.
    directions : tuple of tuple of int
        If not empty, a step learned a subspace that no indices span: in the steps after it, `given` counts these
        orthogonal vectors instead of the indices.
    """

    steps: tuple[LinkThreshold, ...]
    converged: bool
    status: str
    kernel_hash: str
    directions: tuple[tuple[int, ...], ...] = ()
    versions: dict[str, str] = field(default_factory=versions)
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """The steps, and the status."""
        for step in self.steps:
            yield f"alpha({step.subspace}) = {'infinite' if step.value is None else step.value} ({step.how})"
        yield self.status


def staircase(
    kernel: LinkKernel, *, digits: int | None = None, rotate: Callable[[Vectors], LinkKernel] | None = None
) -> LinkStaircase:
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
    learned: set[int] = set()
    vectors: Vectors = ()
    here = kernel
    origin = Origin.of(kernel, digits=digits)
    while len(learned) < kernel.indices:
        step = threshold(here, digits=digits, given=sorted(learned))
        steps.append(_back(step, vectors) if vectors else step)
        if step.value is None or not step.converged:
            break
        least = _SAMPLED_RANK if step.how == "monte-carlo" else _RANK
        axes = [i for i in range(kernel.indices) if step.eigenvector[i, i] > least]
        rank = int(np.linalg.matrix_rank(step.eigenvector, tol=least))
        if rank == len(axes):
            learned |= {i + 1 for i in axes}
            continue
        found = () if rotate is None else _axes(step.eigenvector, rank, learned, vectors)
        if not found or rotate is None:
            names = ", ".join(_combination(vectors[i]) if vectors else str(i + 1) for i in axes)
            status = (
                f"stopped: the subspace of step {len(steps)} mixes indices {names}; rotate the indices so that it is "
                "spanned by some of them"
            )
            return LinkStaircase(tuple(steps), False, status, kernel.kernel_hash, vectors, origin=origin)
        learned, vectors, here = set(range(1, len(learned) + rank + 1)), found, rotate(found)
    last = steps[-1]
    if last.value is None:
        status = last.status
    else:
        status = "converged: all indices are learned" if last.converged else last.status
    return LinkStaircase(tuple(steps), last.converged, status, kernel.kernel_hash, vectors, origin=origin)


def _units(vectors: Vectors) -> Array:
    array = np.array(vectors, dtype=float)
    return np.asarray(array / np.linalg.norm(array, axis=1)[:, None])


def _axes(matrix: Array, rank: int, learned: Iterable[int], vectors: Vectors) -> Vectors:
    """Orthogonal vectors of integers: first those that span what is learned with this step, then the others.

    Empty if the subspace is not spanned by vectors of small integers. `matrix` and `learned` count the vectors so far.
    """
    size = len(matrix)
    top = np.linalg.eigh(matrix)[1][:, size - rank :]
    projector = top @ top.T
    for i in learned:
        projector[i - 1, i - 1] = 1.0
    if vectors:
        projector = _units(vectors).T @ projector @ _units(vectors)
    exact = [[Fraction(float(x)).limit_denominator(_LARGEST_DENOMINATOR) for x in row] for row in projector]
    if np.abs(np.array(exact, dtype=float) - projector).max() > _SAME_DIRECTION:
        return ()
    if any(
        sum(exact[i][k] * exact[k][j] for k in range(size)) != exact[i][j] for i in range(size) for j in range(size)
    ):
        return ()
    other = [[(i == j) - x for j, x in enumerate(row)] for i, row in enumerate(exact)]
    found: list[tuple[int, ...]] = []
    for row in (*exact, *other):
        for known in found:
            share = sum(x * y for x, y in zip(row, known, strict=True)) / Fraction(sum(y * y for y in known))
            row = [x - share * y for x, y in zip(row, known, strict=True)]
        if any(row):
            scale = math.lcm(*(x.denominator for x in row))
            whole = [int(x * scale) for x in row]
            divisor = math.gcd(*whole) * (1 if next(x for x in whole if x) > 0 else -1)
            found.append(tuple(x // divisor for x in whole))
    return tuple(found)


def _back(step: LinkThreshold, vectors: Vectors) -> LinkThreshold:
    """Describe a step along other axes by the indices themselves."""
    array = _units(vectors)
    learned = [k for k in range(len(vectors)) if step.eigenvector[k, k] > 1e-6]
    given = ", ".join(_combination(vectors[k - 1]) for k in step.given)
    subspace = ", ".join(_combination(vectors[k]) for k in learned) or "none"
    return replace(step, eigenvector=array.T @ step.eigenvector @ array, subspace=f"{subspace} given {given}")


def _combination(vector: Sequence[int]) -> str:
    """Write a vector as a sum of indices."""
    terms = [(x, f"{abs(x) if abs(x) > 1 else ''}{'*' if abs(x) > 1 else ''}h_{p + 1}") for p, x in enumerate(vector)]
    text = "".join(f" {'-' if x < 0 else '+'} {term}" for x, term in terms if x)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]
