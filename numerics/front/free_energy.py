"""`al.free_energy`: priors, stationary points, transitions and landscapes of the free entropy (10)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from attnlimits.numerics.core.accuracy import Effort
from attnlimits.numerics.core.cluster import check_cluster
from attnlimits.numerics.core.cluster_pool import ClusterPool
from attnlimits.numerics.fixed_point.continuation import usual_samples
from attnlimits.numerics.free_energy import (
    FreeEntropy,
    OutputEntropy,
    StationaryPoint,
    output_entropy,
    stationary_points,
)
from attnlimits.numerics.free_energy.accurate import (
    USUAL,
    Answer,
    accurate_landscape,
    accurate_transitions,
    answered,
)
from attnlimits.numerics.free_energy.landscape import landscape
from attnlimits.numerics.free_energy.located import located
from attnlimits.numerics.free_energy.pictures import draw, draw_stationary
from attnlimits.numerics.free_energy.theorem import bayes_optimal
from attnlimits.numerics.free_energy.thresholds import Transitions
from attnlimits.numerics.free_energy.thresholds import transitions as transitions_of
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.priors import (
    OF_V,
    Binary,
    Density,
    GaussBernoulli,
    Gaussian,
    Informed,
    Laplace,
    Prior,
    Rows,
    Spectrum,
    SpectrumLike,
    as_spectrum,
    independent,
    prior_named,
    prior_with,
)
from attnlimits.verbs.inputs import prior_of

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "Answer",
    "Binary",
    "Density",
    "FreeEntropy",
    "GaussBernoulli",
    "Gaussian",
    "Informed",
    "Laplace",
    "OutputEntropy",
    "Prior",
    "Rows",
    "Spectrum",
    "StationaryPoint",
    "accurate_landscape",
    "answer",
    "as_spectrum",
    "bayes_optimal",
    "draw",
    "draw_stationary",
    "entropy_of",
    "landscape",
    "located",
    "prior_named",
    "stationary_points",
    "transitions",
    "usual_samples",
]


def answer(
    model: Model,
    alpha: float,
    *,
    prior: Prior | str | None = None,
    spectrum: SpectrumLike | None = None,
    accuracy: float | None = None,
    starts: int = 2,
    samples: int | None = None,
    rng: int = 0,
    **settings: Any,
) -> Answer:
    """Stationary points of the free entropy at alpha = N/D, the Bayes-optimal one first, as accurate as asked.

    Parameters
    ----------
    model : Network or Link
    alpha : float
        > 0.
    prior : Prior, optional
        Of a row of the weights, by default Gaussian.
    spectrum : optional
        Of the covariance of the inputs, as of `al.free_entropy`.
    accuracy : float, optional
        Of overlaps and free entropies, absolute, in [1e-10, 0.1]: by as fine averages, or as many samples (up to 2^16
        per randomisation), as it takes. Where that is not enough, `reached` of the answer is false, and the status says
        what it would take. By default one effort: averages by rules to 1e-2 relative, or so many `samples`.
    starts : int, optional
        Random starts where several overlaps are free.
    samples, rng, settings : optional
        As of `entropy_of`.

    Returns
    -------
    Answer
        `free`, the free entropy as a function; `points`, `status`, `converged`, `reached`.

    Raises
    ------
    ValueError, KernelNotFoundError
        An argument is out of range, or nothing serves the model.

    Examples
    --------
    >>> import attnlimits as al
    >>> found = answer(al.Link("h[1]**2"), 1.05, accuracy=1e-6)
    >>> [f"{point.overlap[0, 0]:.5f}, {point.kind}" for point in found.points[:2]], found.reached, found.error < 1e-6
    (['1.00000, recovered', '0.56845, maximum'], True, True)
    """
    model, law, rows = independent(model, prior_of(model, prior, spectrum))

    def make(effort: Effort) -> FreeEntropy:
        return FreeEntropy(_output(model, settings | {"rng": rng}, effort), alpha, law)

    first = Effort(usual_samples(model) if samples is None else samples, fine=USUAL)
    found = answered(make, accuracy, first, starts=starts, rng=rng)
    return (
        found if rows is None else replace(found, status=f"{found.status}; {rows.describe()}: overlaps are of {OF_V}")
    )


def entropy_of(model: Model, *, client: Client | None = None, **settings: Any) -> OutputEntropy:
    """Psi_out of a network or a link, the part of the free entropy that does not depend on alpha or the prior.

    Parameters
    ----------
    model : Network or Link
    client : distributed.Client, optional
        The parts of the averages that do not need each other go to the workers of its cluster, and so do the points at
        which a search for stationary points evaluates or from which it starts. It has to be open for as long as what is
        returned is asked for values.
    settings : optional
        `accuracy`, `samples`, `replicas`, `rng`, `workers`.

    Raises
    ------
    ValueError
        A client that is an address, or threads beside a client.
    """
    if client is not None:
        if isinstance(client, str):
            raise ValueError(
                f"client must be an open distributed.Client here, as values are asked for later; got {client!r}: "
                "distributed.Client(address) makes one"
            )
        check_cluster(client, settings.get("workers"))
        settings["workers"] = ClusterPool(client)
    if isinstance(model, Link):
        found = output_entropy(model.kernel, noiseless=model.noiseless, **settings)
        found.predicted = model.observed
        return found
    return output_entropy(model, **settings)


def transitions(
    model: Model | OutputEntropy,
    prior: Prior | str | None = None,
    *,
    spectrum: SpectrumLike | None = None,
    closest: float | None = None,
    accuracy: float | None = None,
    **settings: Any,
) -> Transitions:
    """All transitions of a model whose indices share one overlap: of a network, a link, or the Psi_out of one.

    Parameters
    ----------
    model : Network, Link or OutputEntropy
    prior, closest : optional
        Law of a row of the weights, by default Gaussian; distance to one beyond which an overlap counts as recovered.
    spectrum : optional
        Of the covariance of the inputs, as of `al.free_entropy`.
    accuracy : float, optional
        Of every alpha, absolute, in [1e-10, 0.1], by as fine averages as it takes; of a network or a link.
    settings : optional
        Of these, as of `entropy_of`.

    Returns
    -------
    Transitions
        `reached` is false where the accuracy is not, and the status says what it would take.

    Raises
    ------
    ValueError
        Several overlaps are free, or an argument is out of range.
    """
    prior = prior_with(prior, spectrum) if isinstance(model, OutputEntropy) else prior_of(model, prior, spectrum)
    if isinstance(model, OutputEntropy):
        if accuracy is not None or settings:
            raise ValueError("accuracy and other settings are of a model, and this Psi_out has its own (entropy_of)")
        return transitions_of(model, prior, closest=closest)
    model, prior, _ = independent(model, prior)
    if accuracy is None:
        return transitions_of(entropy_of(model, **settings), prior, closest=closest)
    samples = settings.pop("samples", None) or usual_samples(model)
    first = Effort(samples, fine=USUAL)
    make = partial(_output, model, settings)
    return accurate_transitions(make, prior, accuracy, first, closest)


def _output(model: Model, settings: dict[str, Any], effort: Effort) -> OutputEntropy:
    """Psi_out by averages of an effort."""
    return entropy_of(model, accuracy=effort.fine, samples=effort.samples, **settings)
