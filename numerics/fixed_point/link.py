"""State evolution (14) of a user's own link: fixed points of the full P x P overlap."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..channel.link.channel import LinkChannel, by_fibres_or_samples
from ..core.accuracy import LINK_RANGE, Attempt, Effort, as_accurate, checked
from ..core.cluster_pool import Workers
from ..core.errors import ConvergenceError
from ..core.random import seeded
from ..core.results import EvolutionResult, Origin
from ..model.link_symmetry import couplings, exchanges
from ..model.links import LinkKernel
from ..priors import GAUSSIAN, Prior, as_prior, without_samples
from ..thresholds.link.thresholds import unresolved_noise
from .effort import check_effort
from .evolve import check_overlap
from .faces import Faces
from .reached import missed
from .result import finish, stated_with
from .state import Solution

__all__ = ["evolve"]

Array = NDArray[np.float64]


def evolve(
    kernel: LinkKernel,
    alpha: float,
    *,
    start: Literal["uninformed", "informed"] | ArrayLike = "uninformed",
    samples: int = 1024,
    replicas: int = 8,
    inner: int = 1,
    noiseless: LinkKernel | None = None,
    predicted: LinkKernel | None = None,
    tol: float = 1e-5,
    max_iter: int = 200,
    rng: np.random.Generator | int | None = 0,
    workers: Workers = None,
    accuracy: float | None = None,
    prior: Prior | str = GAUSSIAN,
    throw: bool = False,
) -> EvolutionResult:
    """Fixed point of q = F(alpha G(q)) for a link, with the F of the prior and G = E sum_m g_m g_m^T.

    Parameters
    ----------
    kernel : LinkKernel
    alpha : float
        Samples per dimension N/D, >= 0.
    start : {"uninformed", "informed"} or array_like of shape (P, P)
        "uninformed": directions join as they turn unstable, in the whole of S_P, the first ones at the threshold
        (15)-(16). "informed": q just below I. A matrix: iterate from it; what is zero in it stays so.
    samples, replicas : int, optional
        Points per randomisation (a power of two is taken), and independent randomisations. Not used where all is
        deterministic.
    inner : int, optional
        Multiplies the nodes of the posterior.
    noiseless : LinkKernel, optional
        The same link without noise. Its branches place nodes where the noise of a link of several entries is narrow.
    predicted : LinkKernel, optional
        Of the outputs as they were written, where the link is of outputs that hold the same: prediction errors are of
        those.
    tol : float, optional
        On max |F(q) - q| over 1 - q, the smallest of its directions. Where averages over nodes jump and do not get
        there, a tenth of the standard error of F(q) is enough.
    max_iter : int, optional
        Evaluations of the channel averages.
    rng : Generator, int or None, optional
    workers : int, ClusterPool or None
        Of a cluster, to which the randomisations go. Threads are not used.
    accuracy : float, optional
        Of each overlap, absolute, in [1e-12, 0.1]: by as many samples as it takes, up to 2^16 per randomisation, where
        averages are sampled. Where it is not reached `reached` of the result is false, and the status says what it
        would take.
    prior : Prior, optional
        Law of the rows of the weights; Gaussian by default, F(qhat) = qhat (I + qhat)^{-1}.
    throw : bool, optional
        Raise if not converged, instead of marking it.

    Returns
    -------
    EvolutionResult
        `how` is "estimated" where one entry of h, or the square of one combination, is in each output: two resolutions
        of a quadrature. Otherwise "monte-carlo"; the error includes what is left of the bias of the inner nodes.

    Raises
    ------
    ValueError
        An argument is outside its range, or the link is not served; the message says why.
    ConvergenceError
        The posterior is not resolved; or `throw` and no convergence.

    References
    ----------
    troiani2025, (13)-(18), (95).
    """
    check_effort(alpha, samples, replicas, tol, max_iter)
    _check(kernel, inner, noiseless)
    law, (seed, generator) = as_prior(prior), seeded(rng)
    q, mask = _first(kernel, start, law)

    def solve(fibres: bool, samples: int, inner: int) -> tuple[Solution, LinkChannel]:
        channel = LinkChannel(
            kernel,
            samples=samples,
            replicas=int(replicas),
            rng=generator,
            inner=inner,
            mask=mask,
            exchanges=exchanges(kernel, q),
            noiseless=noiseless,
            workers=workers,
            fibres=fibres,
        )
        faces = Faces(channel, float(alpha), tol, int(max_iter), law)
        uninformed = isinstance(start, str) and start == "uninformed" and not q.any()
        return faces.postprocess(faces.grow(q) if uninformed else faces.approach(q)), channel

    def found(fibres: bool) -> tuple[Solution, LinkChannel]:
        if accuracy is None:
            return solve(fibres, int(samples), inner)
        return _as_accurate(partial(solve, fibres), checked(accuracy, *LINK_RANGE, "a link"), int(samples), inner)

    solution, channel = by_fibres_or_samples(found)
    effort = {"samples": samples, "replicas": replicas, "inner": inner, "tol": tol, "max_iter": max_iter, "seed": seed}
    origin = Origin.of(kernel, start=start, **effort, **({} if accuracy is None else {"accuracy": accuracy}))
    result = stated_with(law, finish(solution, channel, seed, generator, origin, predicted))
    if throw and not result.converged:
        raise ConvergenceError(result.status)
    return result


def _check(kernel: LinkKernel, inner: int, noiseless: LinkKernel | None) -> None:
    if isinstance(inner, bool) or not isinstance(inner, int) or inner < 1:
        raise ValueError(f"inner must be an integer >= 1, got {inner!r}")
    if noiseless is not None and (noiseless.text != kernel.text or noiseless.size != kernel.size or noiseless.noise):
        raise ValueError(
            f"noiseless must be {'; '.join(kernel.text)} without noise, as `link_kernels.noiseless_of` derives it, got "
            f"{noiseless.describe()}"
        )
    if reason := unresolved_noise(kernel):
        raise ValueError(f"{reason}; leave it out: state evolution without noise is its limit (14)")


def _first(kernel: LinkKernel, start: str | ArrayLike, prior: Prior) -> tuple[Array, NDArray[np.bool_]]:
    """Overlap of a start, and where overlaps may be other than zero; without another one, what is known of weights."""
    q = without_samples(prior, kernel.indices)
    # How far below I the informed start is.
    informed = 1e-4
    if not isinstance(start, str):
        q = check_overlap(start, kernel.indices)
    elif start == "informed":
        used = sorted({entry % kernel.indices for part in kernel.parts for entry in part.entries})
        q[used, used] = 1 - informed
    elif start != "uninformed":
        raise ValueError(f'start must be "uninformed", "informed" or an overlap matrix, got {start!r}')
    mask = couplings(kernel, q)
    if np.abs(q[~mask]).max(initial=0.0) > 0:
        raise ValueError(
            "start couples indices that share no output, whose overlap the iteration (14) sets to zero; it may be "
            f"non-zero only where {mask.astype(int).tolist()} is 1"
        )
    return q, mask


def _as_accurate(
    solve: Callable[[int, int], tuple[Solution, LinkChannel]], accuracy: float, samples: int, inner: int
) -> tuple[Solution, LinkChannel]:
    """Fixed point whose stated error is at most `accuracy` where a bounded number of points can reach it.

    Parameters
    ----------
    solve : callable
        From points per randomisation, and the factor of the nodes of a posterior, to the fixed point.
    accuracy : float
        Of each overlap, absolute.
    samples, inner : int
        Of the first attempt.

    Returns
    -------
    Solution, LinkChannel
        `reached` of the solution is false where it is not, and its note says what it would take.
    """

    def attempt(effort: Effort) -> Attempt[tuple[Solution, LinkChannel]]:
        solution, channel = solve(effort.samples, effort.inner)
        error = float(solution.error.diagonal().max())
        found, sure = (solution, channel), not solution.doubt
        return Attempt(found, error, accuracy, solution.converged, sure, "samples" if channel.sampled else "all")

    at, effort = as_accurate(attempt, Effort(samples, inner))
    solution, channel = at.found
    return (solution if at.reached else missed(solution, at.missed(effort))), channel
