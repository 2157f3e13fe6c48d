"""Learning a layer from examples by random restarts, by sculpting, or by whichever succeeds, with certificates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.blas import one_blas_thread
from ..core.random import seeded
from .certificates import Certificates, certify, refusal
from .checks import at_least_zero, boolean, count, one_of
from .errors import LearnError, LearnWarning, NoConsistentModel, NotIdentifiable
from .evidence import HeadsEvidence
from .holdout import EXACT, Split, acceptable, hold_out, sampled_error
from .restarts import LM_UNKNOWNS, RestartResult, restarts, unknowns
from .results import MultiheadFit
from .sculpt.body import violation
from .sculpt.sculpt import sculpt
from .selection import Fit, doubt_of_noise, fit_heads, select_heads, spare_head
from .size import refuse_size
from .watch import Watch

__all__ = ["METHODS", "Method", "learn_multihead"]

Array = NDArray[np.float64]
Method = Literal["auto", "sculpt", "restarts"]

METHODS = ("auto", "sculpt", "restarts")

_INSTEAD = "strict=False returns this layer"


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
    evidence: HeadsEvidence | None = None


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
    watch: Watch | None = None,
) -> MultiheadFit:
    """Learn F(X) = sum_i softmax(X Theta_i X^T) X W_i from examples.

    Parameters
    ----------
    X : array_like, shape (n, k, d)
        Tokens in rows; for "sculpt" with entries +-1, uniform and independent.
    Y : array_like, shape (n, k, d)
        F(X), with Gaussian noise or without.
    heads : int or "auto"
        m; "auto" tries 1, 2, .. as long as one or two heads more leave less of held-out examples by more than chance.
        Where a further head could not be seen in these data, there are at least as many, and the fit has not converged.
    method : {"auto", "sculpt", "restarts"}
        "restarts": second-order descents from random starts. "sculpt": from inside a convex body around the Theta_i;
        entries +-1 and d >= m (k - 1). "auto": restarts, and sculpting where these fail.
    noise_std : float, optional
        Of every entry of Y; what is left of held-out examples must neither be more nor less. None: estimated, as what
        the best fit leaves over if more heads leave as much.
    X_val, Y_val : array_like, optional
        Examples for validation; by default a fifth of X and Y, at most 2000.
    starts : int
        Random starts at most, of "restarts"; under noise they end when two have found the best layer.
    strict : bool
        True raises a `LearnError` where no layer is accepted or the parameters are not the only ones; False returns the
        best layer, marked as not converged, with a `LearnWarning`. The error stays where there is no layer to return:
        one token, or a step of "sculpt" that cannot begin.
    rng : Generator, int or None, optional
    watch : Watch, optional
        Progress, and whether an interrupt ends the search with the best layer so far.

    Returns
    -------
    MultiheadFit

    Raises
    ------
    ValueError
        Arguments of a wrong shape, range or type.
    NotIdentifiable
        One token, fewer equations than unknowns, other parameters that give the same layer, or heads that these data
        cannot count.
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
    watch = watch or Watch()
    with one_blas_thread():  # the matrices are small: threads would only wait for each other
        if method == "sculpt":
            assert heads != "auto"
            found = _sculpt(split, heads, noise_std, strict, generator)
        else:
            # Restarts take 0.02 to 0.6 of the time of sculpting where both succeed: papers/chen2024/figures/table.json.
            found = _restarts(split, heads, noise_std, starts, generator, watch)
            if not found.converged and method == "auto" and found.evidence is None and not watch.interrupted:
                found = _second_opinion(split, found, noise_std, generator)
        given = found.noise_std > 0 and found.evidence is None and found.converged and not watch.interrupted
        certificates = certify(
            split.X,
            found.theta,
            found.w,
            noise_std=found.noise_std,
            slack=found.slack,
            doubt=found.doubt,
            spare=spare_head(split, found.theta, found.w) if given else "",
        )
    failure = _unfinished(found) if watch.interrupted else _failure(found, certificates)
    if failure is not None:
        if strict and not watch.interrupted:
            raise failure
        warnings.warn(failure.sentence, LearnWarning, stacklevel=2)
    return _fit(split, found, certificates, failure, seed)


def _fit(
    split: Split, found: _Found, certificates: Certificates, failure: LearnError | None, seed: int
) -> MultiheadFit:
    return MultiheadFit(
        theta=found.theta,
        w=found.w,
        validation_error=found.validation_error,
        validation_deviation=sampled_error(split.X_val, split.Y_val, found.theta, found.w)[1],
        accept=found.accept,
        noise_std=found.noise_std,
        heads=len(found.theta),
        evidence=found.evidence,
        method=found.method,
        certificates=certificates,
        diagnostics=found.diagnostics,
        converged=failure is None,
        status=found.status + ("; " + certificates.status if found.converged or not certificates.passed else ""),
        remedy="" if failure is None else failure.remedy,
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


def _unfinished(found: _Found) -> LearnError:
    return LearnError("the search for a layer", f"interrupted ({found.status})", "its end", "fit again")


def _failure(found: _Found, certificates: Certificates) -> LearnError | None:
    counted = found.evidence is None or found.evidence.exact
    if certificates.counted_out or (found.converged and (counted or not certificates.passed)):
        return refusal(certificates)
    if found.converged and found.evidence is not None:
        return NotIdentifiable(
            "the number of heads",
            found.evidence.status,
            "data in which a further head would be seen",
            "take more samples, or give heads",
            _INSTEAD,
        )
    m = len(found.theta)
    return NoConsistentModel(
        f"the validation error of the best layer of {m} head{'s' if m > 1 else ''}",
        f"{found.validation_error:.3g} ({found.status})",
        f"one that noise alone leaves, {found.accept:.2g} at most,",
        "take another number of heads or noise level, more samples, or more starts",
        _INSTEAD,
    )


def _restarts(
    split: Split,
    heads: int | str,
    noise_std: float | None,
    starts: int,
    generator: np.random.Generator,
    watch: Watch,
) -> _Found:
    if isinstance(heads, str):
        fit = select_heads(split, noise_std, generator, starts=starts, watch=watch)
    elif noise_std is None:
        fit = fit_heads(split, heads, generator, starts=starts, watch=watch)
    else:
        watch.expect(starts)
        found = restarts(split, heads, noise_std=noise_std, starts=starts, rng=generator, watch=watch)
        fit = Fit(found, noise_std, None)
    # Heads that were given are not in doubt.
    return _from_restarts(fit.found, fit, fit.evidence if isinstance(heads, str) else None)


def _from_restarts(result: RestartResult, fit: Fit, evidence: HeadsEvidence | None) -> _Found:
    diagnostics: dict[str, object] = {
        "optimiser": result.optimiser,
        "starts": len(result.errors),
        "found": result.times,
        "start_errors": list(result.errors),
        "start_losses": list(result.losses),
        "samples_per_start": result.samples,
    }
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
        evidence,
    )


def _second_opinion(split: Split, found: _Found, noise_std: float | None, generator: np.random.Generator) -> _Found:
    """Sculpt where the restarts failed; keep their result, with the reason, where sculpting does no better."""
    try:
        boolean(split.X, "")
        other = _sculpt(split, len(found.theta), noise_std, False, generator)
    except (LearnError, ValueError) as error:
        reason = str(error) if isinstance(error, LearnError) else "entries of X other than +-1"
        return replace(found, status=f"{found.status}; sculpting refuses: {reason}")
    # By how much sculpting must do better to be preferred where neither is accepted: both may end at one minimum, at
    # errors that differ by what descents leave of it, 1e-6 of the loss.
    better = 1e-3
    if other.converged or other.validation_error < (1 - better) * found.validation_error:
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
    if noise_std:
        band = acceptable(split, noise_std, unknowns(heads, split.X.shape[2]))
        converged = band.low <= result.validation_error <= band.high
        status = (
            status
            if converged
            else f"validation error {result.validation_error:.2g} {band.verdict(result.validation_error)}"
        )
    if noise_std is None and converged and result.validation_error > EXACT:
        # What is left over was taken for noise: more heads must leave it.
        doubt = doubt_of_noise(split, result.theta, result.w, generator)
        converged = not doubt
        status = f"{status}, {doubt or 'more heads leave no less by more than chance: the rest is taken for noise'}"
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
