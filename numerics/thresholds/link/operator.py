"""The operator (15) of a user's own link at zero overlap: closed, by quadrature, or from samples."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.blas import one_blas_thread
from ...core.errors import NotServedError
from ...core.standard_error import standard_error, student
from ...core.ties import merged
from ...model.links import LinkKernel, Part
from ...posterior.link.rules import BEYOND_CUT
from ...quadrature.rules import normal_qmc
from .averages import average
from .moments import Sums
from .sampling import MOST_SORTED, pair_averages

__all__ = ["ZERO", "Operator", "correlation", "operator"]

Array = NDArray[np.float64]

#: The norm of an operator below this is zero for sums in float64.
ZERO = 1e-11
# Correlations of h with functions of y: randomised quasi-random points, and what counts as beyond doubt.
_REPLICAS = 8
# Samples of one replica for links that no quadrature serves, and the relative error above which they are tried.
_LOG2_SAMPLES = 18


@dataclass(frozen=True)
class Operator:
    """Averages over y at zero overlap of the indices that are not known.

    Attributes
    ----------
    rest : tuple of int
        Indices, counted from 0.
    linear : ndarray, shape (R, R)
        E sum_m E[h_m | y] E[h_m | y]^T.
    matrix : ndarray, shape (R, R, R, R)
        The operator (15): image[i, j] = sum_kl matrix[i, j, k, l] M[k, l].
    error : float
        Estimated error of both in the spectral norm, from two refinements, the quadrature's own estimate, and how well
        probability and second moments are conserved.
    defect : float
        The last of these alone; of samples, the bias seen.
    evaluations : int
        Values of y at which moments were computed, or samples.
    spread : ndarray, shape (replicas, R, R, R, R), or None
        The operator from each independent sample, if some part of it was sampled.
    unserved : str
        Why it was.
    """

    rest: tuple[int, ...]
    linear: Array
    matrix: Array
    error: float
    defect: float
    evaluations: int
    spread: Array | None = None
    unserved: str = ""


def operator(kernel: LinkKernel, learned: Sequence[int] = ()) -> Operator:
    """Averages (15) of a link at zero overlap of all indices but the learned ones, which are known exactly.

    Parameters
    ----------
    kernel : LinkKernel
    learned : sequence of int
        Indices counted from 0.

    Returns
    -------
    Operator

    Raises
    ------
    ValueError
        The link couples more entries of h than the quadrature serves; the message says which and what to do.

    References
    ----------
    troiani2025, (12), (15)-(18).
    """
    rest = tuple(i for i in range(kernel.indices) if i not in learned)
    size = len(rest)
    found = [one for part in kernel.parts if (one := _part_operator(kernel, part, tuple(learned))) is not None]
    linear, matrix = np.zeros((size, size)), np.zeros((size,) * 4)
    spreads = []
    for one in found:
        place = np.array([rest.index(i) for i in one.rest])
        linear[np.ix_(place, place)] += one.linear
        matrix[np.ix_(place, place, place, place)] += one.matrix
        spread = np.zeros((_REPLICAS, *matrix.shape))
        spread[np.ix_(np.arange(_REPLICAS), place, place, place, place)] = (
            one.matrix if one.spread is None else one.spread
        )
        spreads.append(spread)
    return Operator(
        rest,
        linear,
        matrix,
        sum(one.error for one in found),
        max((one.defect for one in found), default=0.0),
        sum(one.evaluations for one in found),
        np.sum(spreads, axis=0) if any(one.spread is not None for one in found) else None,
        "; ".join(one.unserved for one in found if one.unserved),
    )


def _part_operator(kernel: LinkKernel, part: Part, learned: tuple[int, ...]) -> Operator | None:
    """Operator of one part on its own indices; None if they are all known."""
    sums = Sums(kernel, part, learned)
    if not sums.rest:
        return None
    if part.fixed and not sums.known:
        return _fixed_operator(sums, part)
    try:
        with one_blas_thread():
            found = _integrated(kernel, part, sums)
    except NotServedError as reason:
        return _sampled(kernel, part, sums, str(reason))
    # Relative error above which samples are tried.
    poor = 1e-3
    if found.error <= poor * float(np.linalg.norm(_flat(found.matrix), 2)) or found.error < ZERO:
        return found
    # What the quadrature does not resolve, samples may.
    sampled = _sampled(kernel, part, sums, f"the quadrature leaves an error of {found.error:.0e}", optional=True)
    return found if sampled is None or sampled.error >= found.error else sampled


def _fixed_operator(sums: Sums, part: Part) -> Operator:
    """By the fourth moments of the normal law: E G_ab G_cd = delta_ac delta_bd + delta_ad delta_bc."""
    if part.direction:
        # G = (u^2 - 1) a a^T, E (u^2 - 1)^2 = 2.
        value = dict(zip(part.entries, part.direction, strict=True))
        a = np.array([value.get(entry, 0.0) for entry in sums.entries]).reshape(sums.tokens, sums.r)
        square = a.T @ a
        return Operator(sums.rest, 0 * square, 2 * np.multiply.outer(square, square), 0.0, 0.0, 0)
    inside = np.array([entry in part.entries for entry in sums.entries], dtype=float).reshape(sums.tokens, sums.r)
    one = np.eye(sums.r)
    within = inside.T @ inside
    # delta_ij delta_kl over all pairs of tokens, delta_il delta_jk over equal ones.
    pairs = np.outer(inside.sum(axis=0), inside.sum(axis=0))
    matrix = np.einsum("ij,kl,ik->ijkl", one, one, pairs) + np.einsum("il,jk,ij->ijkl", one, one, within)
    return Operator(sums.rest, np.zeros((sums.r,) * 2), matrix, 0.0, 0.0, 0)


def _integrated(kernel: LinkKernel, part: Part, sums: Sums) -> Operator:
    """Operator of a part by quadrature, at two orders."""
    active = max(len(set(region.active) - set(sums.known)) for region in part.regions)
    coarse, fine = (12, 16) if active <= 2 else (6, 8)
    first = average(kernel, part, sums, coarse)
    # Probability that a quadrature may lose before it is given up.
    lost = 0.1
    if (defect := sums.split(first[0])[2]) > lost:
        raise NotServedError(f"the quadrature conserves probability to {defect:.0e} only")
    last = average(kernel, part, sums, fine)
    linear, matrix, defect = sums.split(last[0])
    own_linear, own_matrix, _ = sums.split(last[1])
    before_linear, before_matrix, _ = sums.split(first[0])
    # In the spectral norm: an eigenvalue moves by no more.
    size = max(1.0, float(np.linalg.norm(_flat(matrix), 2)))
    error = max(
        float(np.linalg.norm(_flat(matrix - before_matrix), 2) + np.linalg.norm(_flat(own_matrix), 2)),
        float(np.linalg.norm(linear - before_linear, 2) + np.linalg.norm(own_linear, 2)),
    )
    # Where alone the rare outputs far out inform, what the rules cut off counts beside so little.
    error += (4 * defect + 1e-15) * size + sums.n * BEYOND_CUT
    return Operator(sums.rest, linear, matrix, error, defect, first[2] + last[2])


def _sampled(kernel: LinkKernel, part: Part, sums: Sums, reason: str, optional: bool = False) -> Operator | None:
    """Operator of a part from random samples."""
    # Outputs of known entries alone say nothing more.
    outputs = [number for number in part.outputs if not kernel.entries_of(number) <= set(sums.known)]
    count = (len(outputs) if kernel.label_noise is None else 1) + len(sums.known)
    if count > MOST_SORTED:
        if optional:
            return None
        raise ValueError(
            f"{reason}; and samples serve at most {MOST_SORTED} outputs and known entries that belong together, "
            f"got {count}: add noise (--noise), or drop outputs (15)"
        )
    # Fewer where each sample is large: the memory is bounded.
    n = 2 ** (_LOG2_SAMPLES - max(0, sums.n - 4))
    found = []
    own = zlib.crc32("; ".join(kernel.text).encode())
    few_values = 64
    for replica in range(_REPLICAS):
        # Samples of its own for each link: errors of several links are independent.
        rng = np.random.default_rng([replica, 15, own])
        h = rng.standard_normal((n, kernel.size))
        y = kernel.link(h.reshape(n, kernel.tokens, kernel.indices).swapaxes(1, 2))
        if kernel.label_noise is not None:
            # All outputs are one label, whose number tells as much.
            y = kernel.label_noise.number(kernel.observed(y, rng.standard_normal(y.shape)))[:, None].astype(float)
        else:
            y = y[:, outputs] + math.sqrt(kernel.noise) * rng.standard_normal((n, len(outputs)))
        # Outputs of few values first, as their ties are told apart by the others; then what scales the others.
        few = np.array([len(np.unique(merged(column[:4096]))) < few_values for column in y.T], dtype=bool)
        # Equal values by sums in another order are no information.
        y[:, few] = np.apply_along_axis(merged, 0, y[:, few]) if few.any() else y[:, few]
        keys = np.concatenate([y[:, few], h[:, sums.known], y[:, ~few]], axis=1)
        found.append(pair_averages(h[:, sums.entries], keys, sums.mean, sums.pair, sums.tokens))
    spread = np.array([one.matrix for one in found])
    linear = np.array([one.linear for one in found])
    matrix = spread.mean(axis=0)
    bias = float(np.mean([one.bias for one in found]))
    deviation = (spread - matrix).reshape(_REPLICAS, sums.r**2, sums.r**2)
    noise = [np.linalg.norm(one, 2) for one in deviation]
    error = student(_REPLICAS) * math.sqrt(float(np.square(noise).sum()) / (_REPLICAS * (_REPLICAS - 1))) + bias
    of_linear = np.linalg.norm(standard_error(linear))
    return Operator(
        sums.rest, linear.mean(axis=0), matrix, max(error, float(of_linear)), bias, n * _REPLICAS, spread, reason
    )


def _flat(matrix: Array) -> Array:
    r = len(matrix)
    return matrix.reshape(r * r, r * r)


def correlation(kernel: LinkKernel) -> Operator | None:
    """What correlates with functions of y, beyond doubt; None if nothing does.

    E[h f(y)] = E[E[h | y] f(y)], so one correlation that is not zero shows that E[h | y] is not. Noise on y changes
    nothing: the convolution of E[h | g] p(g) with a Gaussian vanishes only where it does. It takes milliseconds, and
    the quadrature of E[h | y] need not converge for it.
    """
    means = []
    log2_points = 13
    for replica in range(_REPLICAS):
        h = normal_qmc(kernel.size, log2_points, np.random.default_rng(replica))
        y = kernel.link(h.reshape(-1, kernel.indices, kernel.tokens))
        if not np.isfinite(y).all():
            return None
        centred = y - np.median(y, axis=0)
        # A discrete y may have most of its mass at the median, where the scale is then zero.
        with np.errstate(over="ignore"):
            scaled = centred / (np.median(np.abs(centred), axis=0) + np.finfo(float).tiny)
            features = [f(scaled * s) for s in (0.5, 1.0, 2.0) for f in (np.tanh, lambda z: 1 / (1 + z * z))]
        means.append(h.T @ np.concatenate(features, axis=1) / len(h))
    mean = np.mean(means, axis=0)
    sigma = np.std(means, axis=0, ddof=1) / math.sqrt(_REPLICAS)
    # What counts as beyond doubt.
    sigmas = 30.0
    least = 1e-3
    sure = np.where(np.abs(mean) > np.maximum(sigmas * sigma, least), mean, 0.0)
    if not sure.any():
        return None
    rows = sure.reshape(kernel.indices, -1)
    size = (kernel.indices,) * 4
    everything = tuple(range(kernel.indices))
    return Operator(everything, rows @ rows.T, np.zeros(size), float(sigma.max()), 0.0, _REPLICAS * 2**log2_points)
