"""Threshold of any layer of a network: of the last one, or of one before it."""

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from ..core.memory import refuse_memory
from ..core.results import Origin, ThresholdResult
from ..model.network import Network
from ..model.routes import CHART_OPERATOR, preferred, require
from .charts import chart_threshold
from .digits.threshold import Progress
from .heads import of_one_head
from .last_layer import last_layer

if TYPE_CHECKING:
    from ..priors import Prior
    from .first_layer import Given

__all__ = ["layer_threshold"]


class _Many(TypedDict):
    """Effort of sampled averages."""

    samples: int | None
    replicas: int
    rng: int
    workers: int | None


def layer_threshold(
    model: Network,
    *,
    layer: int | None = None,
    given: "Given | None" = None,
    digits: int | None = None,
    samples: int | None = None,
    replicas: int = 8,
    rng: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    prior: "Prior | None" = None,
) -> ThresholdResult:
    """Weak-recovery threshold of a layer.

    Parameters
    ----------
    model : Network
    layer : int, optional
        From 1 to the depth, by default the last one.
    given : {"self-consistent", "perfect"}, optional
        What is known of the other layers, for one before the last.
    digits, samples, replicas, rng, workers : optional
        As in `last_layer`, `first_layer` and `hidden_layer`.
    progress : callable, optional
        Called with (done, total).
    prior : Prior, optional
        Of inputs with a spectrum; white ones by default.

    Returns
    -------
    ThresholdResult

    Raises
    ------
    ValueError
        There is no such layer, or `given` is for another one.
    KernelNotFoundError, ConvergenceError
        As `last_layer` and `first_layer`.
    """
    if prior is not None and model.heads > 1:
        raise ValueError(
            f"a spectrum is served for one head (30), got {model.heads}: each head reads coordinates of its own, and "
            "their spectra may differ"
        )
    if model.layers > 1 and model.side_by_side and not model.noise:
        # Noise on the readout of all heads may be shared by them.
        refuse_memory(f"heads = {model.heads}", 8 * model.indices**2, "the direction of all heads asks for fewer")
        one = layer_threshold(
            replace(model, heads=1, readouts=None),
            layer=layer,
            given=given,
            digits=digits,
            samples=samples,
            replicas=replicas,
            rng=rng,
            workers=workers,
            progress=progress,
        )
        return of_one_head(one, model)
    layer = model.layers if layer is None else layer
    if not 1 <= layer <= model.layers:
        raise ValueError(f"layer must be from 1 to {model.layers}, got {layer}")
    if layer == model.layers and model.chain is not None and model.chain.informed:
        return _at_once(model)
    if layer == model.layers:
        if given is not None:
            raise ValueError("given is for a layer before the last one; the last layer is learned from nothing")
        if require("last layer", model) is CHART_OPERATOR:
            last = chart_threshold(model, digits=digits, samples=samples, replicas=replicas, rng=rng, workers=workers)
        else:
            last = last_layer(model, digits=digits, rng=rng, progress=progress)
        return last if prior is None else _gained(last, prior)
    many: _Many = {"samples": samples, "replicas": replicas, "rng": rng, "workers": workers}
    return _before_the_last(model, layer, (given, digits, prior), many, progress)


def _at_once(model: Network) -> ThresholdResult:
    """Threshold of the weights of a readout, which what it shows is linear in: zero."""
    rows = [row for kind in model.parts[-1] for part in kind for row in range(part.start, part.stop)]
    learned = np.zeros(model.indices)
    learned[rows] = 1 / math.sqrt(len(rows))
    return ThresholdResult(
        value="0",
        error=0.0,
        how="estimated",
        exact="0",
        subspace=f"layer {model.layers}",
        eigenvector=np.diag(learned),
        operator_norm=math.inf,
        converged=True,
        status="E[h | y] of a readout does not vanish: its weights are learned from the first samples on (15)",
        n_iter=0,
        kernel_hash=model.kernel_hash,
        origin=Origin.of(model, layer=model.layers),
    )


def _before_the_last(
    model: Network,
    layer: int,
    asked: tuple["Given | None", int | None, "Prior | None"],
    many: _Many,
    progress: Progress | None,
) -> ThresholdResult:
    """Threshold of a layer before the last one."""
    given, digits, prior = asked
    law = {} if prior is None else {"prior": prior}
    count = itertools.count(1)
    # Evaluations that a threshold of an earlier layer takes, roughly: for `progress`.
    tries = 40
    tried = None if progress is None else lambda _: progress(min(next(count), tries), tries)
    if preferred("first layer", model):
        from .first_layer import first_layer  # its compiled loops take a while to load

        found = first_layer(model, given=given or "self-consistent", digits=digits, **many, progress=tried, **law)
        return _said(found, prior)
    from .hidden_layer import hidden_layer  # likewise

    if given == "perfect" or digits is not None:
        known = "known exactly" if given == "perfect" else "and to some digits"
        raise ValueError(
            f"a layer before the last is served with the others {known} (186)-(187) for two layers, two tokens and "
            f"rank 1, tied, got {model.describe()}: leave out {'given' if given == 'perfect' else 'digits'}"
        )
    return _said(hidden_layer(model, layer, **many, progress=tried, **law), prior)


def _gained(result: ThresholdResult, prior: "Prior") -> ThresholdResult:
    """The threshold for inputs with a spectrum."""
    from .gained import gained  # priors load scipy, which thresholds in closed form do without

    return gained(result, prior)


def _said(result: ThresholdResult, prior: "Prior | None") -> ThresholdResult:
    """The result with the prior in its status, unless it is the usual one or is there already."""
    if prior is None or prior.describe() in result.status:
        return result
    return replace(result, status=f"{result.status}; {prior.describe()}")
