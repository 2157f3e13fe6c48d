"""State evolution (14) of a user's own link: fixed points of the full P x P overlap."""

from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..channel.averages import Averages, Channel
from ..channel.link.channel import LinkChannel
from ..core.errors import ConvergenceError
from ..core.results import EvolutionResult, How, Origin
from ..core.standard_error import SIGMAS, standard_error
from ..model.link_symmetry import couplings, exchanges
from ..model.links import LinkKernel
from ..thresholds.link.thresholds import leading_direction, threshold, unresolved_noise
from .effort import check_effort
from .evolve import check_overlap, seeded
from .result import finish
from .solver import Solver

__all__ = ["evolve"]

Array = NDArray[np.float64]

# Where a direction that has just turned unstable starts, and how far below I the informed start is.
_SEED, _INFORMED = 0.05, 1e-4
# Overlaps below this are zero, or have died out.
_NOTHING, _DEAD = 1e-12, 1e-5
# Parts of a direction below this share of the largest are not in it.
_MINOR = 0.02
# E ||E[h | y]||^2 along a direction of zero overlap counts from here on, and beyond so many standard errors.
_SURELY, _SIGMAS = 1e-7, 6.0
# Indices whose overlaps feed each other by less than this share of the largest are apart.
_APART = 1e-2


def evolve(
    kernel: LinkKernel,
    alpha: float,
    *,
    start: Literal["uninformed", "informed"] | ArrayLike = "uninformed",
    samples: int = 1024,
    replicas: int = 8,
    inner: int = 1,
    noiseless: LinkKernel | None = None,
    tol: float = 1e-5,
    max_iter: int = 200,
    rng: np.random.Generator | int | None = 0,
    throw: bool = False,
) -> EvolutionResult:
    """Fixed point of q = F(alpha G(q)) for a link, F(qhat) = qhat (I + qhat)^{-1}, G = E sum_m g_m g_m^T.

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
    tol : float, optional
        On max |F(q) - q| over 1 - q, the smallest of its directions. Where averages over nodes jump and do not get
        there, a tenth of the standard error of F(q) is enough.
    max_iter : int, optional
        Evaluations of the channel averages.
    rng : Generator, int or None, optional
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
    if isinstance(inner, bool) or not isinstance(inner, int) or inner < 1:
        raise ValueError(f"inner must be an integer >= 1, got {inner!r}")
    if noiseless is not None and (noiseless.text != kernel.text or noiseless.size != kernel.size or noiseless.noise):
        raise ValueError(
            f"noiseless must be {'; '.join(kernel.text)} without noise, as `link_kernels.noiseless_of` derives it, got "
            f"{noiseless.describe()}"
        )
    if reason := unresolved_noise(kernel):
        raise ValueError(f"{reason}; leave it out: state evolution without noise is its limit (14)")
    seed, generator = seeded(rng)
    q, mask = _first(kernel, start)
    channel = LinkChannel(
        kernel,
        samples=int(samples),
        replicas=int(replicas),
        rng=generator,
        inner=inner,
        mask=mask,
        exchanges=exchanges(kernel, q),
        noiseless=noiseless,
    )
    solver = _LinkSolver(channel, float(alpha), tol, int(max_iter))
    if isinstance(start, str) and start == "uninformed":
        solver.grow(q)
    else:
        solver.approach(q)
    origin = Origin.of(
        kernel,
        start=start,
        samples=samples,
        replicas=replicas,
        inner=inner,
        tol=tol,
        max_iter=max_iter,
        seed=seed,
    )
    result = finish(solver, channel, seed, generator, origin)
    if throw and not result.converged:
        raise ConvergenceError(result.status)
    return result


def _first(kernel: LinkKernel, start: str | ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Overlap of a start, and where overlaps may be other than zero."""
    q = np.zeros((kernel.indices,) * 2)
    if not isinstance(start, str):
        q = check_overlap(start, kernel.indices)
    elif start == "informed":
        used = sorted({entry % kernel.indices for part in kernel.parts for entry in part.entries})
        q[used, used] = 1 - _INFORMED
    elif start != "uninformed":
        raise ValueError(f'start must be "uninformed", "informed" or an overlap matrix, got {start!r}')
    mask = couplings(kernel, q)
    if np.abs(q[~mask]).max(initial=0.0) > 0:
        raise ValueError(
            "start couples indices that share no output, whose overlap the iteration (14) sets to zero; it may be "
            f"non-zero only where {mask.astype(int).tolist()} is 1"
        )
    return q, mask


class _Rotated(Channel):
    """A channel along other orthogonal axes, the columns of a matrix."""

    def __init__(self, channel: LinkChannel, axes: Array) -> None:
        self.model, self.layers, self.sampled = channel.model, channel.layers, channel.sampled
        self._channel, self._axes = channel, axes

    def __call__(self, q: Array) -> Averages:
        """Averages at the overlap q along these axes."""
        a = self._axes
        found = self._channel(a @ q @ a.T)
        return replace(found, g=a.T @ found.g @ a, bias=np.abs(a.T) @ found.bias @ np.abs(a))


class _LinkSolver(Solver):
    """Fixed points on the faces of S_P: overlaps within a subspace, which grows as directions turn unstable."""

    def __init__(self, channel: LinkChannel, alpha: float, tol: float, max_iter: int) -> None:
        super().__init__(channel, alpha, tol, max_iter)
        self._channel = channel
        self._axes = np.eye(channel.kernel.indices)
        # Settles within the present subspace, along the axes above.
        self._stage: Solver | None = None
        self._rates = np.full(channel.kernel.indices, np.nan)
        # Of a direction whose growth the averages do not decide, and of those that are within others.
        self._doubt, self._note = "", ""

    @property
    def how(self) -> How:
        """Kind of the error of the averages, also where the solver stands without having asked for any."""
        return "monte-carlo" if self._channel.sampled else "estimated"

    @property
    def note(self) -> str:
        """Growth of directions of zero overlap that no index has for itself."""
        return self._note

    def grow(self, q: Array) -> None:
        """Let unstable directions join until none is left."""
        self._rest(q)
        for _ in range(2 * len(q) + 1):
            rate, direction = self._instability(self.q)
            if rate <= 1 or not self.converged:
                return
            # What is small beside the rest joins later, if it turns unstable.
            values, vectors = np.linalg.eigh(direction)
            seed = (vectors * np.where(values < _MINOR * values[-1], 0.0, values)) @ vectors.T
            room = 1 - float(np.linalg.eigvalsh(self.q)[-1])
            self.approach(self.q + _SEED * room * np.where(self._channel.mask, seed, 0.0), measure=False)
        self.converged = False

    def approach(self, q: Array, *, measure: bool = True) -> None:
        """Settle within the range of q, and set directions to zero that have died out and are stable."""
        if not q.any():
            self._rest(q)
        else:
            self._settle(q)
            values, vectors = np.linalg.eigh(self.q)
            if values[0] < _DEAD and (values > _NOTHING).sum() > (values >= _DEAD).sum():
                kept = vectors * np.where(values < _DEAD, 0.0, values)
                without = np.where(self._channel.mask, kept @ vectors.T, 0.0)
                if self._instability(without)[0] <= 1:
                    if without.any() and np.linalg.norm(without) > _DEAD:
                        self._settle(without)
                    else:
                        self._rest(np.zeros_like(q))
        if measure:
            self._instability(self.q)

    def stability(self) -> Array:
        """Growth rate of a small overlap of each index of zero overlap; NaN for the others."""
        return self._rates

    def measure(self) -> tuple[Array, str]:
        """Error of q, and what the averages leave in doubt; q is solved for further where that matters."""
        if self._stage is None:
            return np.zeros_like(self.q), self._doubt
        stage, before = self._stage, len(self._stage.history)
        inside, doubt = stage.measure()
        if len(stage.history) > before:
            self.q = np.where(self._channel.mask, self._axes @ stage.q @ self._axes.T, 0.0)
            self.history += [self._axes @ one @ self._axes.T for one in stage.history[before:]]
            self.n_iter, self.residual = self.n_iter + len(stage.history) - before, stage.residual
        self.tolerance = stage.tolerance
        size = np.abs(self._axes)
        error = size @ inside @ size.T
        return np.where(self._channel.mask, np.minimum(error, 1.0), 0.0), doubt or self._doubt

    def _rest(self, q: Array) -> None:
        """Stand at zero overlap."""
        self.q, self._stage = q.copy(), None
        self.history.append(self.q)
        self.converged, self.residual = True, 0.0

    def _settle(self, q: Array) -> None:
        values, vectors = np.linalg.eigh(q)
        rank = int((values > _NOTHING).sum())
        support = [int(i) for i in np.flatnonzero(q.diagonal() > _NOTHING)]
        if rank == len(support):
            self._axes, active = np.eye(len(q)), support
            pairs = [pair for pair in combinations(support, 2) if self._channel.mask[pair]]
        else:
            self._axes, active = vectors[:, ::-1], list(range(rank))
            pairs = list(combinations(active, 2))
        stage = Solver(_Rotated(self._channel, self._axes), self.alpha, self.tol, self.max_iter, relative=True)
        stage.n_iter = self.n_iter
        stage.settle(self._axes.T @ q @ self._axes, active, pairs=pairs)
        self._stage = stage
        self.q = np.where(self._channel.mask, self._axes @ stage.q @ self._axes.T, 0.0)
        self.history += [self._axes @ one @ self._axes.T for one in stage.history]
        self.n_iter, self.converged, self.residual = stage.n_iter, stage.converged, stage.residual

    def _instability(self, q: Array) -> tuple[float, Array]:
        """Largest growth rate of a direction of zero overlap, and the PSD matrix that grows so."""
        values, vectors = np.linalg.eigh(q)
        free = vectors[:, values <= _NOTHING]
        self._rates = np.full(len(q), np.nan)
        self._note = self._doubt = ""
        nothing = np.zeros_like(q)
        if not free.shape[1]:
            return 0.0, nothing
        if not q.any() and (known := self._from_nothing()) is not None:
            return known
        averages, operators = self._channel.operator(q)
        self.n_iter += 1
        projected = np.einsum("ia,rij,jb->rab", free, averages.g, free)
        linear = projected.mean(axis=0)
        error = projected.std(axis=0, ddof=1) / np.sqrt(len(projected))
        matrix = operators.mean(axis=0)
        self._rates = self._each(q, matrix)
        size = np.linalg.norm(linear)
        if size > max(_SURELY, _SIGMAS * float(np.linalg.norm(error))):
            rate, direction = np.inf, linear / size
        else:
            inside = np.einsum("ia,jb,ijkl,kc,ld->abcd", free, free, matrix, free, free)
            norm, direction = leading_direction(inside, 0.0)
            # Zero to within its error, it may come out below.
            rate = self.alpha * max(norm, 0.0)
            full = free @ direction @ free.T
            each = self.alpha * np.einsum("ij,rijkl,kl->r", full, operators, full)
            off = float(standard_error(each))
            if abs(rate - 1) <= SIGMAS * off:
                self._doubt = f"a small overlap grows by {rate:.4g} +- {off:.1g} per iteration"
        # Rounding may leave the cone.
        parts, axes = np.linalg.eigh(free @ direction @ free.T)
        grown = np.where(self._channel.mask, (axes * np.maximum(parts, 0.0)) @ axes.T, 0.0)
        if not any(q[i, i] <= _NOTHING for i in range(len(q))):
            self._note = f"the fastest of the directions of zero overlap grows by {rate:.3g} per iteration"
        return float(rate), grown

    def _from_nothing(self) -> tuple[float, Array] | None:
        """The same at zero overlap by the threshold, closed or by quadrature; None where it is not known."""
        try:
            found = threshold(self._channel.kernel)
        except ValueError:
            return None
        if not found.converged and found.value is None:
            return None
        if self.alpha == 0:
            rate = 0.0
        elif found.value is None:
            rate = 0.0
        else:
            rate = self.alpha / float(found.value) if float(found.value) > 0 else np.inf
        inside = found.eigenvector.diagonal() > 1e-6
        if rate <= 1:
            if inside.all() or found.value is None:
                self._rates[:] = rate
            else:
                self._rates = self._each(self.q, self._channel.operator(np.zeros_like(self.q))[1].mean(axis=0))
                self.n_iter += 1
        self._rates[inside] = rate
        return rate, found.eigenvector

    def _each(self, q: Array, matrix: Array) -> Array:
        """Growth rate of each index of zero overlap, among those that its overlap feeds and is fed by."""
        rates = np.full(len(q), np.nan)
        rest = [i for i in range(len(q)) if q[i, i] <= _NOTHING]
        flow = np.array([[abs(matrix[i, i, j, j]) for j in rest] for i in rest])
        near = (flow > _APART * max(float(flow.max(initial=0.0)), 1e-300)) | self._channel.mask[np.ix_(rest, rest)]
        near = near | near.T
        for _ in rest:
            near = (near.astype(int) @ near) > 0
        for row, i in enumerate(rest):
            some = [rest[k] for k in np.flatnonzero(near[row])]
            rates[i] = self.alpha * max(leading_direction(matrix[np.ix_(some, some, some, some)], 0.0)[0], 0.0)
        return rates
