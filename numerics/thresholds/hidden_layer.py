"""Threshold of a layer before the last one of any network: where it comes in along the fixed points."""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ..channel.charts import AT_ONCE
from ..core.decimals import recorded
from ..core.errors import ConvergenceError
from ..core.results import Origin, ThresholdResult
from ..fixed_point.continuation.iterated import Iterated
from ..fixed_point.continuation.records import Onset
from ..fixed_point.effort import EXACT, Effort, usual_samples
from ..model.network import Network
from ..model.routes import require
from ..priors import GAUSSIAN, Prior, as_setting, gain

__all__ = ["hidden_layer"]


def hidden_layer(
    model: Network,
    layer: int,
    *,
    samples: int | None = None,
    replicas: int = 8,
    rng: int = 0,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    prior: Prior = GAUSSIAN,
) -> ThresholdResult:
    """Alpha at which a layer comes in, the others being at the fixed point that is reached from zero overlap there.

    Parameters
    ----------
    model : Network
        Two layers or more, of any kind of which there is a curve.
    layer : int
        Before the last one, counted from 1.
    samples, replicas, rng : int, optional
        Points per randomisation, 256 by default where the posterior of each is sampled and 4096 elsewhere; independent
        randomisations, which give the error (one standard error); and the seed.
    workers : int, optional
        Threads.
    progress : callable, optional
        Called with each alpha at which there is a fixed point.
    prior : Prior, optional
        Of inputs with a spectrum.

    Returns
    -------
    ThresholdResult
        `status` has the overlaps of the others there.

    Raises
    ------
    KernelNotFoundError
        There is no curve of the model.
    ConvergenceError
        The layer comes in by a jump, is not met before the others are recovered, or is not told from the one at which
        the branch begins.

    Notes
    -----
    Fixed points are iterated from one alpha to the next; between the last one without the layer and the first with it
    the growth rate of a small overlap of the layer, on the branch without it, passes through one.

    References
    ----------
    troiani2025, (17)-(18).
    """
    require("hidden layer", model)
    samples = usual_samples(model) if samples is None else samples
    # Of the fixed points, on max |F(q) - q|, and distance to one at which an overlap counts as recovered.
    tol, closest = 1e-4, 1e-3
    effort = Effort(samples, replicas, tol, 1, None, None).checked(model, 1.0, EXACT)
    averages = effort.channel(model, np.random.default_rng(rng), workers)
    groups = averages.groups[(layer - 1) * model.heads : layer * model.heads]
    iterated = Iterated(lambda _: averages, "uninformed", None, (tol, closest), lambda: None, prior)
    first = 1 / (gain(prior) * _fastest(averages(np.zeros((model.indices,) * 2)).growth))

    # Growth of alpha from one fixed point to the next, from where the first layer comes in, and how many there are at
    # most.
    further, most = 1.25, 20

    def alphas() -> Iterator[float]:
        for k in range(1, most + 1):
            yield first * further**k
            if progress is not None:
                progress(first * further**k)

    onset = iterated.onset_of(groups, alphas())
    if onset is None:
        raise ConvergenceError(_missed(model, layer, iterated))
    learned = np.zeros(model.indices)
    learned[list(onset.indices)] = 1.0
    return ThresholdResult(
        value=recorded(onset.value, onset.error),
        error=onset.error,
        how="monte-carlo",
        exact=None,
        subspace=f"layer {layer}",
        eigenvector=np.diag(learned / math.sqrt(learned.sum())),
        operator_norm=1 / onset.value,
        converged=True,
        status=f"converged, {_where(onset)}",
        n_iter=iterated.n_iter + 1,
        kernel_hash=model.kernel_hash,
        origin=Origin.of(
            model,
            layer=layer,
            given="self-consistent",
            samples=effort.samples,
            replicas=replicas,
            nodes=effort.nodes,
            seed=rng,
            **as_setting(prior),
        ),
    )


def _fastest(growth: NDArray[np.float64]) -> float:
    """Largest growth rate from zero overlap of what is not learned at once."""
    rates = growth.mean(axis=0)
    # Where nothing grows beside a readout that is learned at once, the scan begins at the inverse of this.
    slowest = 0.5
    return float(rates[np.isfinite(rates) & (rates < AT_ONCE)].max(initial=0.0)) or slowest


def _where(onset: Onset) -> str:
    """The overlaps of what is learned before."""
    q = onset.overlap.diagonal()
    known = [f"q_{i + 1}{i + 1} = {q[i]:.4f}" for i in np.flatnonzero(q)]
    return f"at {', '.join(known)}" if known else "it is learned before the others, from q = 0"


def _missed(model: Network, layer: int, iterated: Iterated) -> str:
    """Why there is no onset."""
    trace = iterated.trace
    if trace.jumps:
        jump = trace.jumps[-1]
        return (
            f"layer {layer} of {model.describe()} comes in by a jump at alpha = {jump.value:.4g} +- {jump.error:.1g} "
            "(17)-(18), and no growth rate passes through one: `attnlimits curve` follows it"
        )
    return (
        f"layer {layer} of {model.describe()} was not seen to come in up to alpha = {trace.points[-1].alpha:.4g} "
        "(17)-(18): raise samples, or follow it by `attnlimits curve`"
    )
