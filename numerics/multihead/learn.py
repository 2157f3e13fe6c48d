"""Learning a layer from examples by random restarts, by sculpting, or by whichever succeeds, with certificates."""

import warnings
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ..core.random import seeded
from ..core.results import How, Result, versions
from .certificates import Certificates, certify, refusal
from .checks import at_least_zero, boolean, count, one_of
from .errors import LearnError, LearnWarning, NoConsistentModel, NotIdentifiable
from .holdout import Split, hold_out, sampled_error
from .restarts import LM_UNKNOWNS, RestartResult, restarts, unknowns
from .sculpt.body import violation
from .sculpt.sculpt import sculpt
from .selection import Fit, fit_noise, gain_of_one_more, only_noise, select_heads
from .size import refuse_size

__all__ = ["METHODS", "Method", "MultiheadFit", "learn_multihead"]

Array = NDArray[np.float64]
Method = Literal["auto", "sculpt", "restarts"]

METHODS = ("auto", "sculpt", "restarts")
# Validation error that needs no noise.
_EXACT = 1e-10


@dataclass(frozen=True, repr=False)
class MultiheadFit(Result):
    """A layer learned from examples.

    Attributes
    ----------
    theta, w : ndarray, shape (m, d, d)
        In no particular order of the heads.
    validation_error : float
        |F(X) - Y|^2 / |Y|^2 on held-out examples, noise included.
    validation_deviation : float
        One standard error of it, over held-out examples.
    accept : float
        Up to where it is accepted.
    noise_std : float
        Standard deviation of the noise on the entries of Y, given or estimated.
    heads : int
        m, given or selected.
    method : str
        "restarts" or "sculpt": the method that found the layer.
    certificates : Certificates
    diagnostics : dict
        Of the steps of the method.
    converged : bool
        The validation error is accepted and the certificates are passed.
    status : str
    remedy : str
        What to try where it has not converged; empty where it has.
    how : str
        "estimated": the error on held-out examples stands for the one on all inputs.
    seed : int
        -1 for a generator of the caller's.
    versions : dict of str to str
    """

    papers: ClassVar[tuple[str, ...]] = ("chen2024",)

    theta: Array
    w: Array
    validation_error: float
    validation_deviation: float
    accept: float
    noise_std: float
    heads: int
    method: str
    certificates: Certificates
    diagnostics: dict[str, object]
    converged: bool
    status: str
    remedy: str
    how: How
    seed: int
    versions: dict[str, str] = field(default_factory=versions)


@dataclass(frozen=True)
class _Found:
    theta: Array
    w: Array
    validation_error: float
    accept: float
    noise_std: float
    converged: bool
    status: str
    slack: Array | None
    doubt: str
    diagnostics: dict[str, object]
    method: str


def learn_multihead(
    X: ArrayLike,
    Y: ArrayLike,
    heads: int | Literal["auto"],
    method: Method = "auto",
    *,
    noise_std: float | None = None,
    X_val: ArrayLike | None = None,
    Y_val: ArrayLike | None = None,
    starts: int = 8,
    strict: bool = True,
    rng: np.random.Generator | int | None = 0,
) -> MultiheadFit:
    """Learn F(X) = sum_i softmax(X Theta_i X^T) X W_i from examples.

    Parameters
    ----------
    X : array_like, shape (n, k, d)
        Tokens in rows; for "sculpt" with entries +-1, uniform and independent.
    Y : array_like, shape (n, k, d)
        F(X), with Gaussian noise or without.
    heads : int or "auto"
        m; "auto" tries 1, 2, .. until held-out examples are explained and one head more explains no more of them.
    method : {"auto", "sculpt", "restarts"}
        "restarts": second-order descents from random starts. "sculpt": from inside a convex body around the Theta_i;
        entries +-1 and d >= m (k - 1). "auto": restarts, and sculpting where these fail.
    noise_std : float, optional
        Of every entry of Y. None: estimated, as what the best fit leaves over if one more head leaves as much.
    X_val, Y_val : array_like, optional
        Examples for validation; by default a fifth of X and Y, at most 2000.
    starts : int
        Random starts at most, of "restarts".
    strict : bool
        True raises a `LearnError` where no layer is accepted or the parameters are not the only ones; False returns the
        best layer, marked as not converged, with a `LearnWarning`. The error stays where there is no layer to return:
        one token, or a step of "sculpt" that cannot begin.
    rng : Generator, int or None, optional

    Returns
    -------
    MultiheadFit

    Raises
    ------
    ValueError
        Arguments of a wrong shape, range or type.
    NotIdentifiable
        One token, or other parameters that give the same layer.
    NoConsistentModel
        No layer with this many heads explains the held-out examples.
    Degenerate, DegenerateSum, InsufficientCertifiedRows, LinearProgramFailure
        Method "sculpt" only: what its steps need is missing.

    Notes
    -----
    Restarts are a heuristic; what is accepted is so by held-out examples alone, whatever found it.

    References
    ----------
    chen2024, the algorithm and identifiability.
    """
    one_of("method", method, METHODS)
    if heads != "auto":
        heads = count("heads", heads)
    elif method == "sculpt":
        raise ValueError('heads must be an integer for method "sculpt" (chen2024); "auto" is for restarts and auto')
    if noise_std is not None:
        noise_std = at_least_zero("noise_std", noise_std)
    count("starts", starts)
    seed, generator = seeded(rng)
    split = hold_out(X, Y, X_val, Y_val, generator)
    _check(split, 1 if heads == "auto" else heads, method)
    with threadpool_limits(1, "blas"):  # the matrices are small: threads would only wait for each other
        if method == "sculpt":
            assert heads != "auto"
            found = _sculpt(split, heads, noise_std, strict, generator)
        else:
            found = _restarts(split, heads, noise_std, starts, generator)
            if not found.converged and method == "auto":
                found = _second_opinion(split, found, noise_std, generator)
        certificates = certify(
            split.X, found.theta, found.w, noise_std=found.noise_std, slack=found.slack, doubt=found.doubt
        )
    failure = _failure(found, certificates)
    if failure is not None:
        if strict:
            raise failure
        warnings.warn(str(failure), LearnWarning, stacklevel=2)
    return MultiheadFit(
        theta=found.theta,
        w=found.w,
        validation_error=found.validation_error,
        validation_deviation=sampled_error(split.X_val, split.Y_val, found.theta, found.w)[1],
        accept=found.accept,
        noise_std=found.noise_std,
        heads=len(found.theta),
        method=found.method,
        certificates=certificates,
        diagnostics=found.diagnostics,
        converged=failure is None,
        status=found.status + ("; " + certificates.status if found.converged else ""),
        remedy="" if failure is None else failure.remedy.partition(";")[0],
        how="estimated",
        seed=seed,
    )


def _check(split: Split, heads: int, method: Method) -> None:
    """Refuse examples that are too many, or that the method or the layer cannot be learned from."""
    n, k, d = split.X.shape
    normal = unknowns(heads, d) <= LM_UNKNOWNS
    refuse_size(f"X of shape ({n}, {k}, {d}) with heads = {heads}", n, k, d, heads, normal=normal)
    if method == "sculpt":
        boolean(split.X, 'sculpting needs uniform +-1 inputs; use method="restarts"')
        boolean(split.X_val, 'sculpting needs uniform +-1 inputs; use method="restarts"', "X_val")
    if k == 1:
        raise NotIdentifiable(
            "the number of tokens k",
            "1, where the attention is 1 for every Theta",
            "k >= 2",
            "regress Y on X for the sum of the W_i, which is all that one token determines",
        )


def _failure(found: _Found, certificates: Certificates) -> LearnError | None:
    if found.converged:
        return refusal(certificates)
    m = len(found.theta)
    return NoConsistentModel(
        f"the validation error of the best layer of {m} head{'s' if m > 1 else ''}",
        f"{found.validation_error:.3g} ({found.status})",
        f"at most {found.accept:.2g}",
        "take another number of heads or noise level, more samples, or more starts; strict=False returns this layer",
    )


def _restarts(
    split: Split, heads: int | str, noise_std: float | None, starts: int, generator: np.random.Generator
) -> _Found:
    if isinstance(heads, str):
        fit = select_heads(split, noise_std, generator, starts=starts)
    elif noise_std is None:
        fit = fit_noise(split, heads, generator, starts=starts)
    else:
        fit = Fit(restarts(split, heads, noise_std=noise_std, starts=starts, rng=generator), noise_std, None)
    return _from_restarts(fit.found, fit)


def _from_restarts(result: RestartResult, fit: Fit) -> _Found:
    diagnostics: dict[str, object] = {
        "optimiser": result.optimiser,
        "starts": len(result.errors),
        "start_errors": list(result.errors),
        "start_losses": list(result.losses),
        "samples_per_start": result.samples,
    }
    if fit.gain is not None:
        diagnostics["gain_of_one_more_head"] = fit.gain
    return _Found(
        result.theta,
        result.w,
        result.validation_error,
        result.accept,
        fit.noise_std,
        result.converged,
        result.status,
        None,
        result.doubt,
        diagnostics,
        "restarts",
    )


def _second_opinion(split: Split, found: _Found, noise_std: float | None, generator: np.random.Generator) -> _Found:
    """Sculpt where the restarts failed; keep their result, with the reason, where sculpting does no better."""
    try:
        boolean(split.X, "")
        other = _sculpt(split, len(found.theta), noise_std, False, generator)
    except (LearnError, ValueError) as error:
        reason = str(error) if isinstance(error, LearnError) else "entries of X other than +-1"
        return replace(found, status=f"{found.status}; sculpting refuses: {reason}")
    if other.converged or other.validation_error < found.validation_error:
        return other
    return replace(found, status=f"{found.status}; sculpting: {other.status}")


def _sculpt(split: Split, heads: int, noise_std: float | None, strict: bool, generator: np.random.Generator) -> _Found:
    result = sculpt(
        split.X,
        split.Y,
        heads,
        noise_std=noise_std,
        X_val=split.X_val,
        Y_val=split.Y_val,
        strict=strict,
        rng=generator,
    )
    diagnostics: dict[str, object] = {
        "certified_rows": result.certified,
        "spectral_gap": result.hull.gap,
        "least_level": result.least_level,
        "constraints": len(result.body),
        "one_sided_constraints": len(result.one_sided),
        "boxes": [net.box for net in result.nets],
        "attempts": list(result.attempts),
        "seconds": result.seconds,
    }
    converged, status = result.converged, result.status
    if noise_std is None and converged and result.validation_error > _EXACT:
        # What is left over was taken for noise: one more head must leave it.
        gain = diagnostics["gain_of_one_more_head"] = gain_of_one_more(
            split, result.theta, result.validation_error, generator
        )
        converged = only_noise(result.validation_error, gain)
        status = f"{status}, times {gain:.3g} with one head more" + ("" if converged else ": this is not noise alone")
    return _Found(
        result.theta,
        result.w,
        result.validation_error,
        result.accept,
        result.noise_std,
        converged,
        status,
        np.asarray(violation(result.body, result.theta)),
        "",
        diagnostics,
        "sculpt",
    )
