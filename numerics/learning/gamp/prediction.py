"""State evolution of GAMP (86)-(95): the overlaps of each iteration, from any start and with the same damping.

Without damping, from a start that is a posterior mean, it is q -> F(alpha G(q)). With damping What_t is no posterior
mean any more: its overlap with the teacher is not that with itself, and noises of different iterations are correlated.
Yet as D grows What_t is W times a matrix + Gaussian noise, linear in the noises of all iterations, so that the law of
(omega_0, .., omega_t) given h is followed exactly; averages over it are taken on a population of (h, y), by the
denoisers that GAMP uses itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ...channel.averages import Averages
from ...channel.choice import channel, is_costly
from ...core.errors import KernelNotFoundError
from ...core.random import seeded
from ...core.results import Origin, Result
from ...core.shown import overlaps
from ...core.standard_error import standard_error
from ...core.validation import not_negative, numbers, whole
from ...fixed_point.balance import symmetric
from ...fixed_point.effort import check_effort
from ...fixed_point.evolve import check_overlap
from ...model.links import LinkKernel
from ...model.routes import require
from ...posterior.choice import posterior
from ...posterior.protocol import Model, Posterior
from ...quadrature.rules import normal_qmc
from ..blocks import Array
from ..damping import Damping
from ..heads import require_one_head
from .course import first_covariance, resolved

__all__ = ["PredictedOverlaps", "predicted_overlaps"]


@dataclass(frozen=True, repr=False)
class PredictedOverlaps(Result):
    """Overlaps of the iterations of GAMP in the limit D -> infinity.

    Attributes
    ----------
    overlap, overlap_error : ndarray, shape (n_iter + 1, P, P)
        W What^T / D before the first iteration and after each, and its standard error.
    self_overlap, self_overlap_error : ndarray, shape (n_iter + 1, P, P)
        What What^T / D; the same as `overlap` without damping from a start where they are the same.
    how : {"channel averages", "population"}
        Method by which the expectations were computed.
    alpha, damping : float
    seed : int
    origin : Origin
        Model and settings.
    """

    overlap: Array
    overlap_error: Array
    self_overlap: Array
    self_overlap_error: Array
    how: str
    alpha: float
    damping: float
    seed: int
    origin: Origin = field(default_factory=Origin)

    def lines(self) -> Iterator[str]:
        """Overlaps after the last iteration, and how they were obtained."""
        last = overlaps(self.overlap[-1], self.overlap_error[-1])
        yield f"alpha = {self.alpha:g}, iteration {len(self.overlap) - 1}: {last}"
        yield f"expectations by {self.how}"


def predicted_overlaps(
    model: Model,
    alpha: float,
    *,
    n_iter: int,
    start: ArrayLike | float = 1e-3,
    self_start: ArrayLike | None = None,
    damping: float = 0.0,
    side_strength: float = 0.0,
    samples: int | None = None,
    replicas: int = 16,
    denoiser_tol: float = 1e-4,
    nodes: int | None = None,
    rng: np.random.Generator | int | None = 0,
) -> PredictedOverlaps:
    """Predict the overlaps of `gamp` per iteration.

    Parameters
    ----------
    model : Network or LinkKernel
    alpha : float
        N / D.
    n_iter : int
        Iterations.
    start : float or array_like of shape (P, P), optional
        Overlap of the first estimate with the teacher, 0 <= q < I; a number for all indices. The sign of an index that
        the link does not see stays what it is.
    self_start : array_like of shape (P, P), optional
        That with itself; default `start`, as of `informed_start`. The default start of `gamp` has I/D, and with the
        teacher some N(0, 1)/D. If it is given, as with damping, averages are taken on a population.
    damping : float in [0, 1)
    side_strength : float
        lambda of S = sqrt(lambda) W + Z.
    samples, replicas : int
        Samples of each population (a power of two is taken), and independent ones, which give the error. Default 4096
        samples, and 256 where the posterior of each takes about a millisecond.
    denoiser_tol, nodes, rng
        As in `gamp`.

    Returns
    -------
    PredictedOverlaps

    Raises
    ------
    ValueError
        An argument is outside its range.
    KernelNotFoundError
        No denoiser for this model.

    References
    ----------
    troiani2025, (86)-(95), (113)-(117).
    """
    require("gamp", model)
    require_one_head("the prediction of overlaps", model)
    if samples is None:
        samples = 256 if not isinstance(model, LinkKernel) and is_costly(model) else 4096
    n_iter = whole("n_iter", n_iter, 1, "(95)")
    check_effort(alpha, samples, replicas, 1.0, n_iter)
    rule = Damping(damping)
    if rule.adaptive:
        raise ValueError("damping must be a number in [0, 1) here: what an adaptive one does depends on the run")
    share = rule.value
    strength = not_negative("side_strength", side_strength, "(113)")
    p = model.indices
    first = _overlap("start", start, p)
    own = first if self_start is None else _overlap("self_start", self_start, p)
    if np.linalg.eigvalsh(own - first @ first.T)[0] < -1e-12:
        raise ValueError("self_start must be at least start^2: no estimate has more overlap with the teacher than that")
    seed, generator = seeded(rng)

    def scores(y: ArrayLike, rng: np.random.Generator) -> Posterior:
        return posterior(model, y, tol=denoiser_tol, nodes=nodes, rng=rng)

    how, runs = "population", []
    for stream in generator.spawn(replicas):
        averages = _averages(model, first, samples, nodes, stream) if self_start is None and not share else None
        if averages is not None:
            how = "channel averages"
            history = _recursion(averages, float(alpha), strength, first, n_iter)
            runs.append(np.array([history, history]))
        else:
            population = _Population(model, float(alpha), strength, samples, scores, stream)
            runs.append(population.run(first, own, share, n_iter))
    values = np.array(runs)
    mean, error = values.mean(axis=0), standard_error(values)
    settings = {"side_strength": strength, "samples": samples, "replicas": replicas, "nodes": nodes}
    origin = Origin.of(model, n_iter=n_iter, damping=share, **settings, denoiser_tol=denoiser_tol, seed=seed)
    return PredictedOverlaps(mean[0], error[0], mean[1], error[1], how, float(alpha), share, seed, origin)


def _overlap(name: str, value: ArrayLike | float, size: int) -> Array:
    matrix = numbers(name, value)
    return check_overlap(matrix * np.eye(size) if matrix.ndim == 0 else matrix, size)


def _averages(
    model: Model, q: Array, samples: int, nodes: int | None, rng: np.random.Generator
) -> Callable[[Array], Averages] | None:
    """G(q) by one randomisation, where there is such a channel for overlaps like q."""
    if isinstance(model, LinkKernel):
        return None
    try:
        averages = channel(model, samples=samples, replicas=1, rng=rng, nodes=nodes or 2048)
    except KernelNotFoundError:
        return None
    # Rows that rotate into each other are averaged at multiples of the identity only.
    return averages if symmetric(averages, q) else None


def _recursion(
    averages: Callable[[Array], Averages], alpha: float, strength: float, q: Array, n_iter: int
) -> list[Array]:
    """q, F(alpha G(q) + lambda I), .. (95), (117)."""
    history, identity = [q], np.eye(len(q))
    # Difference from 1 of the largest overlap that is resolved.
    exact = 1e-6
    for _ in range(n_iter):
        precision = alpha * averages(q).g.mean(axis=0) + (1 + strength) * identity
        values, vectors = np.linalg.eigh(identity - np.linalg.inv(precision))
        # Short of recovery, where the averages end.
        q = np.asarray((vectors * np.minimum(values, 1 - exact)) @ vectors.T)
        history.append(q)
    return history


class _Population:
    """Samples of h and of the noises that GAMP's iterations have seen.

    What_t = m_t^T W + sum_k c_tk n_k with noises n_0 (of the start), n_1 = Z (of the side information), and
    n_{k+2} of iteration k; What_t has P rows and each c_tk is P x P.
    """

    def __init__(
        self,
        model: Model,
        alpha: float,
        strength: float,
        samples: int,
        channel: Callable[[ArrayLike, np.random.Generator], Posterior],
        rng: np.random.Generator,
    ) -> None:
        p, m = model.indices, model.tokens
        self._alpha, self._strength, self._rng = alpha, strength, rng
        log2 = max(4, math.ceil(math.log2(samples)))
        # Every h twice, with noises of opposite sign: what is odd in them cancels, which is all but a small signal at
        # small overlap.
        self._h: Array = np.tile(normal_qmc(p * m, log2 - 1, rng).reshape(-1, p, m), (2, 1, 1))
        y = model.link(self._h)
        if model.random:
            half = rng.standard_normal((len(y) // 2, *y.shape[1:]))
            y = model.observed(y, np.concatenate([half, half]))
        self._output = channel(y, rng)

    def _noise(self) -> Array:
        half = self._rng.standard_normal((len(self._h) // 2, *self._h.shape[1:]))
        return np.concatenate([half, -half])

    def _second(self, a: Array, b: Array) -> Array:
        """E sum_m a_m b_m^T."""
        return np.einsum("nam,nbm->ab", a, b) / len(a)

    def run(self, first: Array, own: Array, share: float, n_iter: int) -> Array:
        """Overlaps with the teacher and with itself, shape (2, n_iter + 1, P, P)."""
        p, h = len(first), self._h
        identity = np.eye(p)
        # E n_j n_k^T in blocks, for the noises so far, and standard normals that they are made of in omega.
        gram = np.zeros((2 * p, 2 * p))
        gram[:p, :p] = own - first.T @ first
        gram[p:, p:] = identity
        normals = [self._noise() for _ in range(2)]
        scores: list[Array] = []
        signal, shares = first.T.copy(), [identity, np.zeros((p, p))]
        covariance = first_covariance(own)
        out = np.empty((2, n_iter + 1, p, p))
        # Added to covariances of noises, which become degenerate as the iteration settles; relative.
        ridge = 1e-10
        for t in range(n_iter + 1):
            flat = np.concatenate(shares, axis=1)
            q = flat @ gram @ flat.T + signal @ signal.T
            out[0, t], out[1, t] = signal.T, q
            if t == n_iter:
                break
            root = np.linalg.cholesky(gram + ridge * np.diag(gram.diagonal() + 1e-300))
            stacked = np.concatenate(normals, axis=1)
            omega = signal @ h + (flat @ root) @ stacked
            g, curvature = self._output(omega, resolved(covariance), slice(0, len(h)))
            n = len(h)
            # Slopes of g in omega and h by Stein's lemma, from E g omega^T and E g h^T.
            gh, gomega = self._second(g, h), self._second(g, omega)
            rest = q - signal @ signal.T
            slope = (gomega - gh @ signal.T) @ np.linalg.pinv(rest, rcond=1e-12, hermitian=True)
            if curvature is not None:
                slope = -0.5 * (curvature + curvature.T) / n
            given = gh - slope @ signal
            a = -self._alpha * slope if curvature is not None else self._alpha * self._second(g, g)
            newest = np.asarray(np.linalg.inv((1 + self._strength) * identity + a), np.float64)
            left = a + self._alpha * slope
            scores.append(g)
            row = [self._alpha * self._second(g, other) for other in scores]
            gram = _extended(gram, row)
            normals.append(self._noise())
            shares.append(np.zeros((p, p)))
            grown = [newest @ left @ c for c in shares]
            grown[-1] = newest
            grown[1] = np.asarray(grown[1] + math.sqrt(self._strength) * newest)
            moved = newest @ (self._alpha * given + self._strength * identity + left @ signal)
            signal = (1 - share) * moved + share * signal
            shares = [np.asarray((1 - share) * new + share * old) for new, old in zip(grown, shares, strict=True)]
            covariance = (1 - share) * newest + share * covariance
        return out


def _extended(gram: Array, row: list[Array]) -> Array:
    """Gram matrix of one more noise, which the first two do not touch; row[-1] is with itself."""
    p = row[0].shape[0]
    size = len(gram)
    out = np.zeros((size + p, size + p))
    out[:size, :size] = gram
    for k, block in enumerate(row):
        at = slice((2 + k) * p, (3 + k) * p)
        out[size:, at] = block
        out[at, size:] = block.T
    return out
