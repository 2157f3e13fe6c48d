"""Thresholds of a link as it is written: of its limit without noise where float64 does not resolve the noise.

They carry the exact form of the table of derived thresholds where it has the link.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...core.accuracy import LINK_RANGE, Attempt, checked, stated
from ...model.link import Link
from ...model.links import LinkKernel
from ...priors import (
    GAUSSIAN,
    OF_V,
    Prior,
    SpectrumLike,
    as_prior,
    independent,
    is_standard,
    prior_with,
    refuse_informed,
)
from .. import exact
from ..gained import gained
from .directions import Vectors
from .self_consistent import self_consistent_staircase
from .staircase import Given, LinkStaircase, staircase
from .thresholds import LinkThreshold, threshold, unresolved_noise

__all__ = ["link_staircase", "link_threshold"]


def link_threshold(link: Link, *, digits: int | None = None, prior: Prior = GAUSSIAN) -> LinkThreshold:
    """Threshold of a link, whatever its noise.

    Parameters
    ----------
    link : Link
    digits : int, optional
        As in `threshold`.
    prior : Prior, optional
        Of inputs with a spectrum.

    Returns
    -------
    LinkThreshold
    """
    asked = link.kernel
    limit = unresolved_noise(asked)
    kernel = link.limit if limit else asked
    result = _with_exact(threshold(kernel, digits=digits), kernel, digits)
    return gained(_as_limit(result, limit, asked) if limit else result, prior)


def link_staircase(
    link: Link,
    *,
    digits: int | None = None,
    given: Given = "self-consistent",
    prior: Prior | str = GAUSSIAN,
    spectrum: SpectrumLike | None = None,
    accuracy: float | None = None,
) -> LinkStaircase:
    """Thresholds of a link one after the other, each with what was learned before it known (17)-(18).

    Parameters
    ----------
    link : Link
    digits : int, optional
        As in `threshold`.
    given : {"self-consistent", "perfect"}, optional
        How what was learned before a step is known: at its fixed point at the same alpha, where a direction comes in as
        the fixed point becomes unstable; or perfectly, which gives lower bounds.
    prior : Prior, optional
        Law of the rows of the weights where steps are self-consistent, Gaussian by default.
    spectrum : optional
        Of the covariance of the inputs, as of `al.threshold`.
    accuracy : float, optional
        Of every threshold, absolute, instead of `digits`. Where it is not reached `reached` of the result is false, and
        the status says so.

    Returns
    -------
    LinkStaircase

    Raises
    ------
    ValueError
        Self-consistent steps after the first are wanted of a link whose averages are not by quadrature; a prior is
        given for steps with perfect knowledge; or an accuracy beside digits, or out of its range.

    Examples
    --------
    >>> for step in link_staircase(Link("sign(h[1])*abs(h[2])"), digits=4).steps:
    ...     print(step.subspace, step.value)
    index 1 0
    index 2 given index 1 0.5000
    """
    if accuracy is not None and digits is not None:
        raise ValueError(f"digits are an accuracy: give accuracy = {accuracy!r} or digits = {digits!r}")
    asked = None if accuracy is None else checked(accuracy, *LINK_RANGE, "a link")
    law = prior_with(as_prior(prior), spectrum)
    model, _, rows = independent(link, law)
    if rows is not None:
        assert isinstance(model, Link)
        stairs = _climbed(model, digits, given, GAUSSIAN)
        stairs = replace(stairs, status=f"{stairs.status}; {rows.describe()}: steps are of {OF_V}")
    else:
        stairs = _climbed(link, digits, given, law)
    if asked is None:
        return stairs
    return stated(Attempt(stairs, stairs.largest_error, asked, stairs.converged, True, "all"))


def _climbed(link: Link, digits: int | None, given: Given, prior: Prior) -> LinkStaircase:
    """The steps by one effort."""
    asked = link.kernel
    limit = unresolved_noise(asked)
    kernel, noise = (link.limit, "0") if limit else (asked, link.noise)

    def rotate(axes: Vectors) -> LinkKernel:
        return link.along(axes, noise=noise)

    refuse_informed(prior, kernel.indices, "thresholds are")
    if given == "perfect" and not prior.isotropic:
        raise ValueError(
            f"the {prior.describe()} is of the steps at fixed points; with what is learned perfectly known thresholds "
            'are of the Gaussian prior: give "self-consistent", or no prior'
        )
    if given == "perfect":
        stairs = staircase(kernel, digits=digits, rotate=rotate)
        if not is_standard(prior):
            stairs = replace(stairs, steps=tuple(gained(step, prior) for step in stairs.steps))
    elif given == "self-consistent":
        noiseless = None if limit else link.noiseless
        stairs = self_consistent_staircase(kernel, digits=digits, rotate=rotate, noiseless=noiseless, prior=prior)
    else:
        raise ValueError(f'given must be "self-consistent" or "perfect", got {given!r}')
    if not limit:
        return stairs
    return replace(
        stairs,
        steps=tuple(_as_limit(step, limit, asked) for step in stairs.steps),
        origin=stairs.origin.with_model(noise=asked.noise),
    )


def _as_limit(result: LinkThreshold, reason: str, asked: LinkKernel) -> LinkThreshold:
    """The threshold without noise, given where the noise is too small for float64."""
    status = f"{result.status}; {reason}: this is the threshold without noise, its limit"
    result = replace(result, origin=result.origin.with_model(noise=asked.noise))
    # Noise keeps what vanishes and what does not; a closed number it changes, if by less than float64 tells.
    if result.exact in (None, "0", "oo"):
        return replace(result, status=status)
    return replace(result, status=status, exact=None, how="estimated")


def _with_exact(result: LinkThreshold, kernel: LinkKernel, digits: int | None) -> LinkThreshold:
    """Add the exact form of the table of derived thresholds, if it has this link and agrees; and digits it has more."""
    if result.exact is not None or result.value is None or result.error is None or kernel.noise or not kernel.table:
        return result
    found = exact.link(kernel.table) if digits is None else exact.link(kernel.table, digits=digits)
    if found is None or found.value is None:
        return result
    # What the table gives where no digits are asked for.
    table_digits = 15
    # Half a unit of the last digit of each.
    rounding = 0.5 * 10.0 ** (math.floor(math.log10(float(found.value))) - (digits or table_digits) + 1)
    if not abs(float(found.value) - float(result.value)) <= result.error + rounding:
        status = f"{result.status}; but the derived value of this link is {found.value}: please report it"
        return replace(result, converged=False, status=status)
    if result.converged:
        return replace(result, exact=found.exact)
    status = f"converged: the derived integral, with which the quadrature agrees to {result.error:.0e}"
    return replace(result, exact=found.exact, value=found.value, error=rounding, converged=True, status=status)
