"""The public functions that take a network or a link: each chooses the function of the numerics that serves it."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.core.results import DenoiserResult, EvolutionResult, ThresholdResult
from attnlimits.numerics.fixed_point.continuation import CurveResult
from attnlimits.numerics.fixed_point.continuation.curve import curve as network_curve
from attnlimits.numerics.fixed_point.evolve import evolve as network_evolve
from attnlimits.numerics.fixed_point.heads import evolve_heads
from attnlimits.numerics.fixed_point.link_limit import evolve_link
from attnlimits.numerics.free_energy import FreeEntropy, output_entropy
from attnlimits.numerics.free_energy.prior import Prior
from attnlimits.numerics.learning.blocks import Source
from attnlimits.numerics.learning.data import make_data as make_samples
from attnlimits.numerics.learning.descent import descend as descend_on
from attnlimits.numerics.learning.descent.results import DescentResult
from attnlimits.numerics.learning.gamp import gamp as gamp_on
from attnlimits.numerics.learning.gamp.results import GAMPResult
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise as denoise_64
from attnlimits.numerics.posterior.precise.denoiser import PreciseDenoiserResult, denoise_mp
from attnlimits.numerics.thresholds.choice import layer_threshold
from attnlimits.numerics.thresholds.heads import heads_threshold
from attnlimits.numerics.thresholds.link.choice import link_staircase, link_threshold
from attnlimits.numerics.thresholds.link.staircase import LinkStaircase
from attnlimits.numerics.thresholds.link.thresholds import LinkThreshold

__all__ = [
    "curve",
    "denoise",
    "descend",
    "evolve",
    "free_entropy",
    "gamp",
    "make_data",
    "staircase",
    "threshold",
]

Model: TypeAlias = Network | Link


def threshold(model: Model, *, digits: int | None = None, **settings: Any) -> ThresholdResult | LinkThreshold:
    """Weak-recovery threshold: the least alpha = N/D at which a layer, or an index of a link, is learned from nothing.

    Parameters
    ----------
    model : Network or Link
    digits : int, optional
        Significant digits: by default 12 for the last layer, what is cheap for others.
    settings : optional
        Of a network: `layer` (by default the last one), `given` ("self-consistent" or "perfect", for one before it),
        `samples`, `replicas`, `rng`, `workers`, `progress`.

    Returns
    -------
    ThresholdResult or LinkThreshold
        With `value` in decimal, `error`, `how`.

    Raises
    ------
    ValueError, KernelNotFoundError
        An argument is out of range, or nothing serves the model; the message says what does.

    References
    ----------
    troiani2025, (15)-(18).

    Examples
    --------
    >>> threshold(Network(layers=1, tokens=2)).exact
    '1/6'
    """
    if isinstance(model, Link):
        return link_threshold(model, digits=digits, **settings)
    if model.layers == 1 and (model.heads > 1 or not model.tied or model.output == "sequence"):
        return heads_threshold(
            model.tokens,
            model.ranks[0],
            model.activation_name,
            heads=model.heads,
            tied=model.tied,
            output=model.output,
            digits=12 if digits is None else digits,
        )
    return layer_threshold(model, digits=digits, **settings)


def staircase(model: Link, *, digits: int | None = None) -> LinkStaircase:
    """Thresholds of a link one after the other, each with what was learned before it known (17)-(18)."""
    return link_staircase(model, digits=digits)


def evolve(model: Model, alpha: float, **settings: Any) -> EvolutionResult:
    """Fixed point of the state evolution (14) at alpha = N/D samples per dimension.

    Parameters
    ----------
    model : Network or Link
    alpha : float
    settings : optional
        `start` ("uninformed", "informed" or an overlap), `accuracy` where a quadrature serves, `samples`, `replicas`,
        `rng`, `tol`, `max_iter`, `workers`.

    Examples
    --------
    >>> round(float(evolve(Network(layers=1), 0.4).overlap[0, 0]), 6)
    0.592012
    """
    if isinstance(model, Link):
        return evolve_link(model, alpha, **settings)
    if model.layers == 1 and (model.heads > 1 or model.output == "sequence"):
        one = Network(1, model.tokens, model.rank, model.skip, model.beta, model.activation, model.tied)
        return evolve_heads(one, alpha, heads=model.heads, output=model.output, **settings)
    return network_evolve(model, alpha, **settings)


def curve(model: Model, values: Iterable[float], *, samples: int = 1024, rng: int = 0, **settings: Any) -> CurveResult:
    """Fixed points along alpha, skip strength or inverse temperature, with onsets, jumps and hysteresis.

    Parameters
    ----------
    model : Network or Link
    values : iterable of float
        Of the parameter `along` ("alpha", "skip" or "beta"; of a link "alpha").
    samples, rng : int, optional
        Points per randomisation and seed, where the averages are sampled.
    settings : optional
        `start` ("uninformed", "informed" or "both"), `alpha` where another parameter varies, `accuracy`, `replicas`,
        `tol`, `workers`, `progress`.
    """
    if isinstance(model, Network):
        return network_curve(model, values, samples=samples, rng=rng, **settings)
    averages = LinkChannel(
        model.kernel,
        samples=samples,
        replicas=settings.get("replicas", 8),
        rng=np.random.default_rng(rng),
        noiseless=model.noiseless,
    )
    return network_curve(averages, values, samples=samples, rng=rng, **settings)


def denoise(
    model: Network, y: ArrayLike, omega: ArrayLike, V: ArrayLike, *, digits: int | None = None, **settings: Any
) -> DenoiserResult | PreciseDenoiserResult:
    """Posterior of the indices given an output y and the prior N(omega, V): log Z_out, g_out and its derivative (12).

    Parameters
    ----------
    model : Network
    y : array_like, shape (..., M, M)
    omega : array_like, shape (..., P, M)
    V : array_like, shape (..., P, P)
    digits : int, optional
        For one output, to so many digits; by default float64.
    settings : optional
        `tol`, `workers`; with digits `max_nodes`.
    """
    if digits is None:
        return denoise_64(model, y, omega, V, **settings)
    return denoise_mp(model, y, omega, V, digits=digits, **settings)


def free_entropy(model: Model, alpha: float, *, prior: Prior | None = None, **settings: Any) -> FreeEntropy:
    """Variational free entropy Phi(q) - Phi(0) of (10) at alpha = N/D, a function of the overlap.

    Parameters
    ----------
    model : Network or Link
    alpha : float
    prior : Prior, optional
        Of a row of the weights, by default Gaussian.
    settings : optional
        `accuracy`, `samples`, `replicas`, `rng`, `workers`.
    """
    if isinstance(model, Link):
        return FreeEntropy(output_entropy(model.kernel, noiseless=model.noiseless, **settings), alpha, prior)
    return FreeEntropy(output_entropy(model, **settings), alpha, prior)


def gamp(model: Model, X: ArrayLike | Source, Y: ArrayLike | None = None, **settings: Any) -> GAMPResult:
    """Weights estimated from data by generalised approximate message passing (Algorithm 1).

    Parameters
    ----------
    model : Network or Link
    X : array_like of shape (N, M, D), or callable
        Samples of M tokens; or a function that gives pairs of blocks (X, Y).
    Y : array_like, shape (N, M, M) or of the outputs of the link
    settings : optional
        `damping`, `max_iter`, `tol`, `start`, `teacher`, `rng`, `workers`, ..
    """
    return gamp_on(X, Y, _plain(model), **settings)


def descend(model: Model, X: ArrayLike | Source, Y: ArrayLike | None = None, **settings: Any) -> DescentResult:
    """Weights estimated from data by gradient descent on the square loss; arguments as of `gamp`.

    Parameters
    ----------
    model : Network or Link
    X, Y : as of `gamp`
    settings : optional
        `method` ("sgd", "gd" or "adam"), `rate`, `batch`, `reuse`, `epochs`, `start`, `teacher`, `rng`, ..
    """
    return descend_on(X, Y, _plain(model), **settings)


def make_data(model: Model, weights: ArrayLike, alpha: float, **settings: Any) -> tuple[Any, Any]:
    """Gaussian samples X of shape (N, M, D), N = round(alpha D), and their outputs Y by a teacher of these weights."""
    return make_samples(_plain(model), weights, alpha, **settings)


def _plain(model: Model) -> Any:
    return model.kernel if isinstance(model, Link) else model
