"""Generalised approximate message passing (Algorithm 1) for sequence multi-index models."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ConvergenceError
from ..state_evolution import seeded
from ..validation import choice, not_negative, whole
from .damping import Damping
from .data import Source, check_weights, stream
from .outputs import Model, Output, check_model, output_channel
from .passes import Samples
from .results import GAMPResult, GAMPStep
from .symmetry import symmetry

__all__ = ["first_covariance", "gamp", "resolved"]

Array = NDArray[np.float64]

# A start from nothing has this overlap with itself, over D: that with the teacher is then of the same size, as it
# should be of a posterior mean.
_SEED = 1.0
# Overlap with itself, over 1/D, below which the start has died out.
_DEAD = 1e-3
# Overlap with itself beyond which the iteration has left what a posterior mean can be, by far.
_LOST = 4.0
# Variances below this count as it: what is known better is not resolved by the denoisers, nor by float32 data.
_EXACT = 1e-6
# Least eigenvalue of I - What What^T / D that counts as a covariance.
_LEFT = 1e-3
# What C + What What^T / D may differ from I by: a part, and standard deviations of |W|^2 / D.
_OFF, _SIGMAS = 0.25, 5.0


def gamp(
    X: ArrayLike | Source,
    Y: ArrayLike | None,
    model: Model,
    *,
    damping: float | Literal["adaptive"] = 0.3,
    max_iter: int = 200,
    tol: float = 1e-3,
    start: ArrayLike | None = None,
    side_information: ArrayLike | None = None,
    side_strength: float | None = None,
    teacher: ArrayLike | None = None,
    callback: Callable[[GAMPStep], object] | None = None,
    variance: Literal["slope", "nishimori"] = "slope",
    denoiser_tol: float = 1e-4,
    nodes: int | None = None,
    rng: np.random.Generator | int | None = 0,
    workers: int | None = None,
    throw: bool = False,
) -> GAMPResult:
    """Estimate the weights of a sequence multi-index model from its inputs and outputs.

    V = C, omega = What x / sqrt(D) - V g(old), g = g_out(y, omega, V), A = -sum d g / D,
    C = (I + A)^{-1}, What = C (sum g x^T / sqrt(D) + A What).

    Parameters
    ----------
    X : array_like of shape (N, M, D), or callable
        Samples of M tokens, float32 or float64, entries of mean 0 and variance 1; memory-mapped if wanted. Or a
        function without arguments that gives an iterable of blocks (X_block, Y_block), the same at every call.
    Y : array_like, shape (N, M, M), or (N, K) of a link; None where X is a function
        Outputs.
    model : Attention, fibres.LastLayer or LinkKernel
        Attention of rank 1 at any depth, tied layers of rank up to 3, untied layers of rank 1, links.
    damping : float in [0, 1), or "adaptive"
        Share of the old estimate in the new one, also in its covariance and in the term of Onsager; "adaptive" raises
        it where steps turn back.
    max_iter : int
    tol : float
        On the norm of the change of What over that of What.
    start : array_like of shape (P, D), optional
        First estimate, with C = I - What What^T / D if that is positive and C = I if not; by default Gaussian of
        variance 1/D, which knows nothing.
    side_information : array_like of shape (P, D), optional
        S = sqrt(lambda) W + Z, Z standard normal.
    side_strength : float, optional
        lambda, given with S.
    teacher : array_like of shape (P, D), optional
        W, for the overlaps.
    callback : callable, optional
        Called with a `GAMPStep` after every iteration; a true value ends the run.
    variance : {"slope", "nishimori"}
        Take A from the slopes of g, or as sum g g^T / D, which is the same in the mean and takes no slopes. Where only
        g is known (tied rank 2 and 3, untied, sampled posteriors) it is always the latter.
    denoiser_tol : float
        Of the posterior moments of each sample, in [1e-14, 1e-2].
    nodes : int, optional
        Nodes of each posterior that is sampled.
    rng : Generator, int or None, optional
        Of the start and of these nodes.
    workers : int, optional
        Threads; all cores by default.
    throw : bool, optional
        Raise if not converged, instead of marking it.

    Returns
    -------
    GAMPResult
        A run that diverges ends with the best of its iterates and `converged` False.

    Raises
    ------
    ValueError
        Data of a wrong shape or type, not finite or empty; the message says what to do.
    UnreachableOutputError
        An output that the link does not give.
    KernelNotFoundError
        No denoiser for this model.
    ConvergenceError
        `throw` and no convergence.

    Notes
    -----
    X is read once per iteration. With damping the memory of the estimate is in the term of Onsager, too, so that omega
    stays Gaussian around h: see `predicted_overlaps`.

    References
    ----------
    troiani2025, Algorithm 1, (104)-(117).
    """
    check_model(model)
    tol = not_negative("tol", tol, "(104)-(112)")
    max_iter = whole("max_iter", max_iter, 1, "(104)-(112)")
    share = Damping(damping)
    choice("variance", variance, ("slope", "nishimori"), "(110)")
    seed, generator = seeded(rng)
    generator = generator if seed < 0 else stream(seed, 3)
    node_seed = int(generator.integers(2**31))

    def prepare(y: ArrayLike) -> Output:
        found = output_channel(model, y, tol=denoiser_tol, nodes=nodes, rng=node_seed)
        return found if variance == "slope" else _Slopeless(found)

    samples = Samples(X, Y, model, prepare, workers)
    dimension, p = samples.dimension, model.indices
    side, strength = _side(side_information, side_strength, model, dimension)
    if start is None:
        weights = generator.standard_normal((p, dimension)) * math.sqrt(_SEED / dimension)
    else:
        weights = check_weights("start", start, model, dimension).copy()
    truth = None if teacher is None else check_weights("teacher", teacher, model, dimension)
    gauge = symmetry(model)

    def overlap(estimate: Array) -> Array | None:
        return None if truth is None else gauge.align(truth @ estimate.T / dimension)

    own = weights @ weights.T / dimension
    covariance = first_covariance(own)
    history, selves = [overlap(weights)], [own]
    changes: list[float] = []
    dampings: list[float] = []
    best = (math.inf, weights, covariance, 0)
    learned = float(np.trace(own))
    nothing = _DEAD / dimension if start is None and not strength else -1.0
    converged, status = False, ""
    for iteration in range(1, max_iter + 1):
        try:
            moved, covariance, newest = _advanced(samples, weights, covariance, share.value, side, strength)
        except _DivergedError as error:
            if iteration == 1 and isinstance(error.__cause__, ConvergenceError):
                raise error.__cause__ from None
            _, weights, covariance, iteration = best
            status = f"diverged: {error}; restored iteration {iteration}; add damping, check that model and data match"
            break
        step, weights = moved - weights, moved
        own = weights @ weights.T / dimension
        size = float(np.linalg.norm(weights))
        changes.append(float(np.linalg.norm(step)) / size if size > 0 else 0.0)
        dampings.append(share.value)
        history.append(overlap(weights))
        selves.append(own)
        # Of those that have learned about as much, the one that moved least.
        if changes[-1] <= best[0] or np.trace(own) > 2 * learned:
            best, learned = (changes[-1], weights, covariance, iteration), float(np.trace(own))
        seen = GAMPStep(iteration, weights.copy(), covariance.copy(), own, history[-1], changes[-1], dampings[-1])
        stop = callback is not None and callback(seen)
        if reason := _settled(changes[-1], tol, own, nothing, newest):
            converged, status = True, f"converged after {iteration} iterations: {reason}"
            break
        if stop:
            status = f"ended by the callback after {iteration} iterations"
            break
        share.adapt(step)
    else:
        status = f"not converged after {max_iter} iterations: What moved by {changes[-1]:.1e} of its norm > {tol:g}"
        status += "; raise max_iter or add damping"
    own = weights @ weights.T / dimension
    off = float(np.abs(np.linalg.eigvalsh(covariance + own - np.eye(p))).max())
    if converged and off > _OFF + _SIGMAS * math.sqrt(2 / dimension):
        # No posterior of a model that the data are from.
        converged = False
        status = (
            f"settled where C + What What^T / D differs from I by {off:.2g} (Nishimori): check that model and data "
            "match, and that X has independent entries of mean 0 and variance 1"
        )
    result = GAMPResult(
        weights=weights,
        covariance=covariance,
        self_overlap=own,
        overlap=overlap(weights),
        history=None if truth is None else np.array(history),
        self_history=np.array(selves),
        changes=np.array(changes),
        dampings=np.array(dampings),
        converged=converged,
        status=status,
        n_iter=len(changes),
        residual=changes[-1] if changes else math.inf,
        nishimori=off,
        alpha=samples.rows / dimension,
        seed=seed,
        model=model.describe(),
        kernel_hash=model.kernel_hash,
    )
    if throw and not converged:
        raise ConvergenceError(status)
    return result


class _DivergedError(Exception):
    """An iteration has left what posterior means can be; the message says how."""


def _advanced(
    samples: Samples, weights: Array, covariance: Array, old: float, side: Array | float, strength: float
) -> tuple[Array, Array, Array]:
    """One iteration with a share `old` of the last one in it: What, its C, and C without that share."""
    try:
        pull, curvature = samples.sweep(weights, resolved(covariance))
    except ConvergenceError as error:
        raise _DivergedError(str(error)) from error
    precision = (1 + strength) * np.eye(len(weights)) + curvature
    least = float(np.linalg.eigvalsh(precision)[0]) if np.isfinite(precision).all() else math.nan
    if not least > 0:
        raise _DivergedError(f"the posterior precision I + A has the eigenvalue {least:.3g}")
    newest = np.asarray(np.linalg.inv(precision), np.float64)
    moved = (1 - old) * (newest @ (pull + curvature @ weights + side)) + old * weights
    # What the estimate owes to past scores is a mixture likewise.
    for block in samples.blocks:
        block.onsager *= old
        block.onsager += (1 - old) * (newest @ block.g)
    own = moved @ moved.T / moved.shape[1]
    if not np.isfinite(own).all() or np.linalg.eigvalsh(own)[-1] > _LOST:
        raise _DivergedError(f"What What^T / D exceeds {_LOST:g}, and that of a posterior mean stays below 1")
    return moved, (1 - old) * newest + old * covariance, newest


def _settled(change: float, tol: float, own: Array, nothing: float, newest: Array) -> str:
    """Why an iteration is the last one; empty if it is not."""
    if change <= tol:
        return f"What moved by {change:.1e} of its norm"
    if float(own.diagonal().max()) < nothing:
        return "the start has died out, nothing is learned"
    if float(np.linalg.eigvalsh(newest)[-1]) < _EXACT:
        return f"the weights are recovered, C < {_EXACT:g}"
    return ""


def first_covariance(self_overlap: Array) -> Array:
    """C of a first estimate: what is left of I (Nishimori); I if nothing is left, for then it is no posterior mean."""
    rest = np.eye(len(self_overlap)) - self_overlap
    return rest if np.linalg.eigvalsh(rest)[0] > _LEFT else np.eye(len(rest))


def resolved(covariance: Array) -> Array:
    """The covariance with eigenvalues that are at least the smallest that denoisers resolve."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.maximum(values, _EXACT)) @ vectors.T)


class _Slopeless:
    """An output channel whose slopes are not used."""

    def __init__(self, output: Output) -> None:
        self.rows, self._output = output.rows, output

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        return self._output(omega, V, part)[0], None


def _side(
    information: ArrayLike | None, strength: float | None, model: Model, dimension: int
) -> tuple[Array | float, float]:
    """sqrt(lambda) S, and lambda."""
    if (information is None) != (strength is None):
        raise ValueError(
            "side_information S and side_strength lambda belong together: S = sqrt(lambda) W + Z (troiani2025 (113)); "
            "give both or none"
        )
    if information is None or strength is None:
        return 0.0, 0.0
    value = not_negative("side_strength", strength, "(113)")
    return math.sqrt(value) * check_weights("side_information", information, model, dimension), value
