"""The direction of zero overlap in which a small overlap grows fastest beside a fixed point of a link."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..channel.link.channel import LinkChannel
from ..core.standard_error import standard_error
from ..priors import GAUSSIAN, Prior, is_standard
from ..thresholds.link.leading import leading_direction

__all__ = ["MINOR", "NOTHING", "SEED", "Fastest", "closed", "fastest", "without_overlap"]

Array = NDArray[np.float64]

#: Overlaps below this are zero.
NOTHING = 1e-12
#: Where a direction that has just turned unstable starts, of what is left to one.
SEED = 0.05
#: Parts of a direction below this share of the largest are not in it.
MINOR = 0.02


class Fastest(NamedTuple):
    """What the linearised iteration makes of a small overlap beside what is learned.

    Attributes
    ----------
    linear : bool
        Whether E[h | y, omega] does not vanish along some direction of zero overlap: it is learned whatever alpha.
    norm, error : float
        Growth per iteration of the fastest direction, over alpha; not used where `linear`.
    direction : ndarray, shape (P, P)
        PSD, of unit Frobenius norm.
    matrix : ndarray, shape (P, P, P, P)
        The operator (15), with the derivatives of F.
    """

    linear: bool
    norm: float
    error: float
    direction: Array
    matrix: Array


def without_overlap(q: Array) -> Array:
    """Orthonormal directions of zero overlap, in columns."""
    values, vectors = np.linalg.eigh(q)
    return np.asarray(vectors[:, values <= NOTHING])


def closed(prior: Prior, q: Array) -> Array:
    """An overlap near q within whose range F stays, of a prior that is not the same along all axes."""
    if prior.isotropic:
        return q
    for _ in q:
        free = without_overlap(q)
        outside = free @ free.T @ prior.overlap(q) @ free @ free.T
        if np.linalg.norm(outside) <= NOTHING * max(1.0, float(np.linalg.norm(q))):
            break
        q = q + outside
    return q


def _slopes(prior: Prior, qhat: Array) -> Array:
    """Derivatives of F, shape (P, P, P, P)."""
    units = np.eye(qhat.size).reshape(-1, *qhat.shape)
    slopes = np.array([prior.slope(qhat, unit) for unit in units])
    return np.moveaxis(slopes.reshape(qhat.shape * 2), (0, 1), (2, 3))


def fastest(
    channel: LinkChannel,
    q: Array,
    free: Array,
    prior: Prior = GAUSSIAN,
    alpha: float = 0.0,
    coarse: bool = False,
) -> Fastest:
    """Growth of small overlaps in the span of some directions of zero overlap.

    It is that of the operator (15) within them: where E[h | y, omega] vanishes along them, it does for every omega, and
    what is learned neither feeds them nor is fed.

    Parameters
    ----------
    channel : LinkChannel
    q : ndarray, shape (P, P)
    free : ndarray, shape (P, n)
        Orthonormal columns.
    prior : Prior, optional
        Where it is not the same along all axes, F has other derivatives than one beside what is learned; of inputs
        with a spectrum, at zero overlap, too.
    alpha : float, optional
        At which q is a fixed point, for these.
    coarse : bool, optional
        By averages of few digits, where there are some: `linear` is then whether E[h | y, omega] may not vanish.

    References
    ----------
    troiani2025, (15)-(18).
    """
    averages, operators = channel.coarse_operator(q) if coarse else channel.operator(q)
    if not is_standard(prior) and (q.any() or prior.isotropic):
        slopes = _slopes(prior, alpha * averages.g.mean(axis=0))
        operators = np.einsum("ijab,rabkl->rijkl", slopes, operators)
    projected = np.einsum("ia,rij,jb->rab", free, averages.g, free)
    linear = projected.mean(axis=0)
    error = projected.std(axis=0, ddof=1) / np.sqrt(len(projected))
    matrix = operators.mean(axis=0)
    size = float(np.linalg.norm(linear))
    # E ||E[h | y, omega]||^2 along a direction of zero overlap counts from here on, and beyond so many standard errors.
    surely, sigmas = 1e-7, 6.0
    if size > max(surely, 0.0 if coarse else sigmas * float(np.linalg.norm(error))):
        return Fastest(True, np.inf, 0.0, free @ linear @ free.T / size, matrix)
    norm, direction = leading_direction(np.einsum("ia,jb,ijkl,kc,ld->abcd", free, free, matrix, free, free), 0.0)
    full = free @ direction @ free.T
    if channel.sampled:
        off = float(standard_error(np.einsum("ij,rijkl,kl->r", full, operators, full)))
    else:
        # Entries may be off in any direction.
        off = float(np.einsum("ij,ijkl,kl->", np.abs(full), 0.5 * np.ptp(operators, axis=0), np.abs(full)))
    return Fastest(False, norm, off, full, matrix)
