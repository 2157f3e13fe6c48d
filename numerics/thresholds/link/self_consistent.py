"""The grand staircase of a link at its own fixed points: each step where what is learned is known as well as it can be.

Where the fixed point of the state evolution becomes unstable towards a direction without overlap, that direction comes
in; for a committee of two signs its units specialise there.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...channel.link.channel import LinkChannel
from ...core.decimals import pm
from ...core.errors import NotServedError
from ...core.results import Estimate, Origin
from ...fixed_point.fastest import closed, fastest
from ...fixed_point.onset import Begin, next_onset
from ...fixed_point.opening import Onset, opening
from ...model.link_symmetry import couplings, exchanges
from ...model.links import LinkKernel
from ...priors import GAUSSIAN, Prior, as_setting
from ..gained import gained
from .directions import Known, Vectors, named
from .operator import Operator
from .staircase import LinkStaircase, Rotate, ended, least_part, mixed, threshold_given
from .thresholds import LinkThreshold, Maker, threshold

__all__ = ["self_consistent_staircase"]

Array = NDArray[np.float64]

# Eigenvalues of a direction by the linearised iteration that are zero.
_LEAST = 1e-4


def self_consistent_staircase(
    kernel: LinkKernel,
    *,
    digits: int | None = None,
    rotate: Rotate | None = None,
    noiseless: LinkKernel | None = None,
    prior: Prior = GAUSSIAN,
) -> LinkStaircase:
    """Thresholds step by step: each at the fixed point of what is learned before it, at the same alpha.

    Parameters
    ----------
    kernel : LinkKernel
    digits, rotate : optional
        As in `staircase`.
    noiseless : LinkKernel, optional
        The same link without noise.
    prior : Prior, optional
        Law of the rows of the weights, Gaussian by default: the first step is the same for all but a spectrum.

    Returns
    -------
    LinkStaircase
        Of each step after the first one `overlap` is the fixed point that becomes unstable, and `transition` whether
        the overlap along the direction that comes in rises from zero or jumps.

    Raises
    ------
    NotServedError
        A step after the first is wanted of a link whose averages are sampled.
    ConvergenceError
        A fixed point was not found.

    References
    ----------
    troiani2025, (17)-(18), linearised at the fixed point of (13)-(14).
    """
    first = gained(threshold(kernel, digits=digits), prior)
    climbed = _Climbed([first])
    if first.value is not None and first.converged:
        climbed = _climbed(kernel, first, (rotate, noiseless, prior), digits)
    converged, status = (False, climbed.stop) if climbed.stop else ended(climbed.steps)
    named = as_setting(prior)
    origin = Origin.of(kernel, digits=digits, given="self-consistent", **named)
    status += "".join(f"; {name}" for name in named.values())
    steps, vectors = tuple(climbed.steps), climbed.vectors
    return LinkStaircase(steps, converged, status, kernel.kernel_hash, vectors, "self-consistent", origin=origin)


class _Climbed(NamedTuple):
    """Steps, the vectors that `given` counts, and why they stop before all is learned; empty where that is a step's."""

    steps: list[LinkThreshold]
    vectors: Vectors = ()
    stop: str = ""


def _climbed(
    kernel: LinkKernel, first: LinkThreshold, others: tuple[Rotate | None, LinkKernel | None, Prior], digits: int | None
) -> _Climbed:
    """All steps, from the first one on; `others` are the kernels along other axes and without noise, and the prior."""
    rotate, noiseless, prior = others
    channel = _channel(kernel, noiseless)
    if channel.sampled:
        known = Known.nothing(kernel.indices).joined(first.eigenvector, least_part(first))
        if known is not None and known.rank == kernel.indices:
            return _Climbed([first])
        raise NotServedError(
            "the steps after the first are at fixed points, whose averages have to be by quadrature, and those of "
            f"{'; '.join(kernel.text)} are sampled: ask for them with what is learned perfectly known (--given perfect)"
        )
    steps = [_opened(channel, first, prior)]
    vectors: Vectors = ()
    known = Known.nothing(kernel.indices).joined(closed(prior, steps[0].eigenvector), _LEAST)
    nothing = np.zeros((kernel.indices,) * 2)
    begin = Begin(nothing, 1 / first.operator_norm, first.error or 0.0, nothing)  # the norm of "0" is infinite
    while known is not None and known.rank < kernel.indices:
        vectors = known.vectors or vectors
        perfect = cache(partial(_perfect, kernel, known, (rotate, prior), digits))
        onset = next_onset(channel, replace(begin, learned=known.projector), _alpha_of(perfect), prior)
        if onset is None:
            return _Climbed([*steps, perfect()], vectors)
        same = onset.recovered or _apart(kernel, known, onset.direction)
        steps.append(_described(perfect() if same else _step(kernel, known, onset, digits), onset))
        if not steps[-1].converged:
            return _Climbed(steps, vectors)
        known = known.joined(closed(prior, known.projector + onset.projector) - known.projector, _LEAST)
        begin = Begin(nothing, onset.alpha, onset.error, onset.overlap)
    return _Climbed(steps, vectors, "" if known is not None else mixed(steps))


def _channel(kernel: LinkKernel, noiseless: LinkKernel | None) -> LinkChannel:
    """Averages by quadrature of the overlaps that are reached from zero; sampled ones are not used."""
    zero = np.zeros((kernel.indices,) * 2)
    return LinkChannel(
        kernel,
        samples=64,
        replicas=2,
        rng=np.random.default_rng(0),
        mask=couplings(kernel, zero),
        exchanges=exchanges(kernel, zero),
        noiseless=noiseless,
    )


def _perfect(
    kernel: LinkKernel, known: Known, others: tuple[Rotate | None, Prior], digits: int | None
) -> LinkThreshold:
    """Threshold with what is learned perfectly known, which no prior of independent entries changes beside indices."""
    rotate, prior = others
    if known.vectors and not prior.isotropic:
        raise NotServedError(
            f"what is learned along {named(known.projector)} says of the other directions what the {prior.describe()} "
            "makes of it, and thresholds with that perfectly known are of the Gaussian prior"
        )
    return gained(threshold_given(kernel, known, rotate, digits), prior)


def _opened(channel: LinkChannel, first: LinkThreshold, prior: Prior) -> LinkThreshold:
    """The first step with its direction by the averages, and what the branch that begins there does."""
    zero = np.zeros_like(first.eigenvector)
    if first.value is None or float(first.value) == 0:
        direction = fastest(channel, zero, np.eye(len(zero)), prior).direction
        return replace(first, eigenvector=direction, subspace=named(direction), overlap=zero)
    at = Estimate(1 / first.operator_norm, first.error or 0.0, first.how)
    return _described(first, opening(channel, at, zero, first.eigenvector, prior))


def _alpha_of(perfect: Callable[[], LinkThreshold]) -> Callable[[], tuple[float, float]]:
    """Alpha of a threshold and its error, infinite where it has none."""

    def alpha() -> tuple[float, float]:
        found = perfect()
        return (math.inf, 0.0) if found.value is None else (1 / found.operator_norm, found.error or 0.0)

    return alpha


def _step(kernel: LinkKernel, known: Known, onset: Onset, digits: int | None) -> LinkThreshold:
    """The threshold of an onset."""
    size = kernel.indices
    seen = Operator(tuple(range(size)), np.zeros((size,) * 2), np.zeros((size,) * 4), 0.0, 0.0, 0)
    make = Maker(kernel, seen, known.given, None, digits)
    if not onset.alpha:
        found = make.number(1.0, 0.0, onset.direction)
        return replace(found, value="0", error=0.0, operator_norm=math.inf, subspace=known.named(onset.direction))
    found = make.number(1 / onset.alpha, onset.error / onset.alpha**2, onset.direction)
    return replace(found, subspace=known.named(onset.direction))


def _described(step: LinkThreshold, onset: Onset) -> LinkThreshold:
    """A step with what its onset says of the transition."""
    said = ": ".join(text for text in (onset.transition, onset.why) if text)
    if math.isfinite(onset.rise):
        said += f", by {onset.rise:.4g} per alpha"
    if onset.spinodal is not None:
        said += f" to alpha = {pm(onset.spinodal.value, onset.spinodal.error)}, where it turns (spinodal)"
    return replace(
        step,
        overlap=onset.overlap,
        transition=onset.transition,
        spinodal=onset.spinodal,
        status=f"{step.status}; {said}",
    )


def _apart(kernel: LinkKernel, known: Known, direction: Array) -> bool:
    """Whether no output has learned indices and those of a direction, so that what is learned changes nothing."""
    learned, new = (set(np.flatnonzero(m.diagonal() > _LEAST).tolist()) for m in (known.projector, direction))
    touched = [{entry % kernel.indices for entry in part.entries} for part in kernel.parts]
    return not known.vectors and not any(one & learned and one & new for one in touched)
