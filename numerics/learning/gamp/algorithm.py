"""Generalised approximate message passing (Algorithm 1) for sequence multi-index models."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from ...core.errors import ConvergenceError
from ...core.validation import choice
from ...model.routes import require
from ...posterior.choice import posterior
from ...posterior.protocol import Crossed, Model, Scores
from ...priors import GAUSSIAN, Prior, as_prior, as_setting, is_standard, without_samples
from ..blocks import Array, Source
from ..heads import weight_rows
from ..passes import Passes
from ..placement import placed
from ..side import Side, side_of
from .course import DivergedError, guarded, resolved
from .double_loop import DoubleLoop
from .loop import Loop
from .results import GAMPResult, GAMPStep
from .seen import Given, seen

if TYPE_CHECKING:
    import dask.array
    from distributed import Client

__all__ = ["gamp"]


def gamp(
    X: ArrayLike | Source | str | os.PathLike[str] | dask.array.Array,
    Y: ArrayLike | str | os.PathLike[str] | dask.array.Array | None,
    model: Model,
    *,
    damping: float | Literal["adaptive"] = 0.3,
    max_iter: int = 500,
    tol: float = 1e-3,
    start: ArrayLike | None = None,
    side_information: ArrayLike | None = None,
    side_strength: float | None = None,
    known: ArrayLike | None = None,
    teacher: ArrayLike | None = None,
    callback: Callable[[GAMPStep], object] | None = None,
    variance: Literal["slope", "nishimori"] = "slope",
    solver: Literal["damped", "double-loop"] = "damped",
    denoiser_tol: float = 1e-4,
    nodes: int | None = None,
    rng: np.random.Generator | int | None = 0,
    workers: int | None = None,
    client: Client | str | None = None,
    prior: Prior | str = GAUSSIAN,
    throw: bool = False,
) -> GAMPResult:
    """Estimate the weights of a sequence multi-index model from its inputs and outputs.

    V = C, omega = What x / sqrt(D) - V g(old), g = g_out(y, omega, V), A = -sum d g / D, and What and C are the mean of
    the rows of W under their prior times exp(b.w - w^T A w/2), b = sum g x^T / sqrt(D) + A What, and its covariance, of
    the Gaussian prior C = (I + A)^{-1}, What = C b.

    Parameters
    ----------
    X : array_like of shape (N, M, D), or callable
        Samples of M tokens, float32 or float64, entries of mean 0 and variance 1; memory-mapped if wanted. Or a
        function without arguments that gives an iterable of blocks (X_block, Y_block), the same at every call. Or the
        path of a folder of row blocks, .npy files of shape (n, M, D) in the order of their names. With `client` such a
        folder, or a dask array.
    Y : array_like, shape (N, M, M), or (N, K) of a link; None where X is a function
        Outputs; the path of a folder of blocks of the same names where X is one.
    model : Network or LinkKernel
        Network of rank 1 at any depth, tied layers of rank up to 3, untied layers of rank 1, links.
    damping : float in [0, 1), or "adaptive"
        Share of the old estimate in the new one, also in its covariance and in the term of Onsager; "adaptive" raises
        it where steps turn back.
    max_iter : int
    tol : float
        On the norm of the change of What over that of What, in the eigenvector of What What^T where it is largest, so
        that indices which are learned later than others are waited for. Where a direction has shrunk to nothing it
        is to hold for more than thirty iterations.
    start : array_like of shape (P, D), optional
        First estimate, with C = I - What What^T / D if that is positive and C = I if not; by default Gaussian of
        variance 1/D, without information on the teacher.
    side_information : array_like of shape (P, D), optional
        S = sqrt(lambda) W + Z, Z standard normal.
    side_strength : float, optional
        lambda, given with S.
    known : array_like of shape (P, D), optional
        Weights that are known, NaN where one is not: they are what they are in every iterate, and those of others are
        conditional on them.
    teacher : array_like of shape (P, D), optional
        W, for the overlaps.
    callback : callable, optional
        Called with a `GAMPStep` after every iteration; a true value ends the run.
    variance : {"slope", "nishimori"}
        Take A from the slopes of g, or as sum g g^T / D, which is the same in the mean and scatters less: it may settle
        where slopes do not, next to an onset. Where only g is known (tied rank 2 and 3, untied of one layer, links
        of several coupled indices) it is always the latter.
    solver : {"damped", "double-loop"}
        "damped" iterates with `damping` to the end. "double-loop" goes over to two loops once that oscillates and comes
        no closer to anything: the estimate moves slowly and the term of Onsager follows it, to the same fixed points.
        Before that, a direction that is not learned is set to the size of a start. The status states how many
        iterations were made in two loops. These take memory for 120 vectors of the size of What and the terms of
        Onsager, or as many as 2 GiB hold (at least 20), and `damping` has no part in them.
    denoiser_tol : float
        Of the posterior moments of each sample, in [1e-14, 1e-2].
    nodes : int, optional
        Nodes of each posterior that is sampled, the most of them where their number is that which an output needs.
    rng : Generator, int or None, optional
        Of the start and of these nodes.
    workers : int, optional
        Threads; all cores by default. Of a local cluster the number of its processes; of another one how many workers
        are waited for before the blocks are shared among them, by default one.
    client : distributed.Client or str, optional
        Dask cluster on whose workers the rows of X stay (see `Spread`): a client, the address of a scheduler, the path
        of a scheduler file, or "local" for a cluster on this machine. The numbers are those without it, for the same
        blocks, to the last bit.
    prior : Prior, optional
        Law of a row of W, Gaussian by default; or that of inputs with a spectrum.
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
    ClusterError
        The cluster cannot be reached, or was lost.

    Notes
    -----
    X is read once per iteration. With damping the memory of the estimate is in the term of Onsager, too, so that omega
    stays Gaussian around h: see `predicted_overlaps`.

    References
    ----------
    troiani2025, Algorithm 1, (104)-(117).
    """
    require("gamp", model)
    prior, chosen = as_prior(prior), choice("solver", solver, ("damped", "double-loop"), "(104)-(112)")
    # Denoisers of links whose outputs are apart take V without what is between them.
    without_samples(prior, weight_rows(model))
    loop = Loop(model, damping, max_iter, tol, variance=variance, rng=rng, prior=prior)

    prepare = _Prepare(model, denoiser_tol, nodes, loop.node_seed, loop.slopes)
    with placed(X, Y, model, prepare, workers, client) as there:
        side = side_of(side_information, side_strength, known, model, there.dimension)
        whole = seen(there, model, prior, Given(start, teacher, callback), side)
        samples = whole.passes
        image = partial(_image, samples, side, prior)

        def advance(weights: Array, covariance: Array, old: float) -> tuple[Array, Array, Array]:
            newest, best = image(weights, covariance)
            # What the estimate owes to past scores is a mixture likewise.
            samples.remember(newest, old)
            return guarded((1 - old) * best + old * weights), (1 - old) * newest + old * covariance, newest

        result = loop.run(
            advance,
            samples.dimension,
            lambda: samples.rows,
            start=whole.given.start,
            teacher=whole.given.teacher,
            callback=whole.given.callback,
            throw=throw,
            algorithm="gamp",
            settle=DoubleLoop(image, samples) if chosen == "double-loop" else None,
            solver=chosen,
            side=side,
            denoiser_tol=denoiser_tol,
            nodes=nodes,
            **as_setting(prior),
        )
        noise = _sampling_noise(samples, result.covariance, prior)
        result = whole.told(result, prior)
    if noise is None:
        return result
    added = f"; the sampling of the posteriors adds {noise:.1e} to What What^T / D in some direction"
    return replace(result, status=result.status + added)


@dataclass(frozen=True)
class _Prepare:
    """Scores of outputs; it travels to the workers of a cluster."""

    model: Model
    tol: float
    nodes: int | None
    seed: int
    slopes: bool

    def __call__(self, y: ArrayLike) -> Scores:
        """Prepare the outputs of a block."""
        found = posterior(self.model, y, tol=self.tol, nodes=self.nodes, rng=self.seed)
        if self.slopes:
            return found
        return _Products(found) if isinstance(found, Crossed) else _Slopeless(found)


def _sampling_noise(samples: Passes, covariance: Array, prior: Prior) -> float | None:
    """What errors of sampled scores add to What What^T / D, in the direction of the most; None where none is sampled.

    The errors of different samples are independent, and so are the entries of x: C sum e x^T / sqrt(D). With a
    spectrum each coordinate has its own C, whose products are the derivative of F.
    """
    noise = samples.noise()
    if noise is None:
        return None
    added = covariance @ noise @ covariance
    if prior.isotropic and not is_standard(prior):
        added = prior.slope(prior.inverse(np.eye(len(covariance)) - covariance), noise)
    return float(np.linalg.eigvalsh(added)[-1]) / samples.dimension


def _image(samples: Passes, side: Side, prior: Prior, weights: Array, covariance: Array) -> tuple[Array, Array]:
    """C and What by a pass over the samples, without damping."""
    try:
        pull, curvature = samples.sweep(weights, resolved(covariance))
        try:
            best, newest = side.posterior(prior, curvature, pull + curvature @ weights)
        except ConvergenceError:
            # Slopes of few samples may have a small negative mean, which laws with heavy tails do not bear.
            curvature = _without_negative(curvature)
            best, newest = side.posterior(prior, curvature, pull + curvature @ weights)
    except ConvergenceError as error:
        raise DivergedError(str(error)) from error
    return newest, best


def _without_negative(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix to a symmetric one."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


class _Slopeless:
    """Scores whose slopes are not used."""

    def __init__(self, output: Scores) -> None:
        self.rows, self._output = output.rows, output

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        return self._output(omega, V, part)[0], None


class _Products:
    """Sampled scores, with their products in place of their slopes: sums of g g^T without the squares of errors."""

    def __init__(self, output: Crossed) -> None:
        self.rows, self._output = output.rows, output

    @property
    def noise(self) -> Array:
        """Products of the errors of the latest scores."""
        return self._output.noise

    def __call__(self, omega: Array, V: Array, part: slice) -> tuple[Array, Array | None]:
        return self._output(omega, V, part)[0], self._output.products(part)
