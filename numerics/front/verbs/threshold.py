"""Weak-recovery threshold of a network or a link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

from attnlimits.numerics.core.results import Origin, ThresholdResult
from attnlimits.numerics.model.activations import ScoreFunction
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.reduced import reduced
from attnlimits.numerics.thresholds.choice import layer_threshold
from attnlimits.numerics.thresholds.heads import heads_threshold

if TYPE_CHECKING:
    from attnlimits.numerics.priors import Prior, SpectrumLike
    from attnlimits.numerics.thresholds.link.thresholds import LinkThreshold

__all__ = ["threshold"]


class _Settings(TypedDict, total=False):
    layer: int | None
    given: Literal["self-consistent", "perfect"] | None
    samples: int | None
    replicas: int
    rng: int
    workers: int | None
    progress: Callable[[int, int], None] | None


@overload
def threshold(
    model: Network,
    *,
    digits: int | None = None,
    heads: int | None = None,
    output: str | None = None,
    spectrum: SpectrumLike | None = None,
    **settings: Unpack[_Settings],
) -> ThresholdResult: ...
@overload
def threshold(model: Link, *, digits: int | None = None, spectrum: SpectrumLike | None = None) -> LinkThreshold: ...


def threshold(
    model: Model,
    *,
    digits: int | None = None,
    heads: int | None = None,
    output: str | None = None,
    spectrum: SpectrumLike | None = None,
    **settings: Unpack[_Settings],
) -> ThresholdResult | LinkThreshold:
    """Weak-recovery threshold: the least alpha = N/D at which a layer, or an index of a link, is learned from nothing.

    Parameters
    ----------
    model : Network or Link
    digits : int, optional
        Significant digits: by default 12 for the last layer, and for others as many as take seconds.
    heads, output : optional
        Of one layer in place of those of the network: H equal heads side by side, and "last" or "sequence".
    spectrum : str, path, array_like or Spectrum, optional
        Of the covariance of the inputs, E x x^T = Sigma, scaled to mean 1: ``"mp:gamma"``, ``"power:a"``,
        ``"points:v,.."``, ``"data:X.npy"``, a file or an array of eigenvalues (`attnlimits.free_energy.as_spectrum`).
        A threshold from zero overlap, or with what is learned perfectly known, is that of white inputs over
        E lambda^2.
    settings : optional
        Of a network: `layer`, counted from 1, by default the last one; for a layer before it `given`, whether the other
        layers are known as far as they can be at the same alpha ("self-consistent") or exactly ("perfect"). Where the
        threshold is sampled, `samples` per randomisation, independent randomisations `replicas`, and the seed `rng`;
        `workers`, `progress`.

    Returns
    -------
    ThresholdResult or LinkThreshold
        With `value` in decimal, `error`, `how`.

    Raises
    ------
    ValueError, KernelNotFoundError
        An argument is out of range, or nothing serves the model; the message lists what is served.

    References
    ----------
    troiani2025, (15)-(18).

    Examples
    --------
    >>> import attnlimits as al
    >>> threshold(al.Network(layers=1, tokens=2)).exact
    '1/6'
    >>> threshold(al.Link("h[1]**2"), spectrum="mp:1").exact
    '1/4'
    """
    prior = None if spectrum is None else _prior_of(model, spectrum, heads)
    if isinstance(model, Link):
        from attnlimits.numerics.thresholds.link.choice import link_threshold

        return link_threshold(model, digits=digits, **({} if prior is None else {"prior": prior}))
    simpler, reason = reduced(model)
    if reason:
        given = {"digits": digits} if isinstance(simpler, Link) else {"digits": digits, **settings}
        return _of_simpler(threshold(simpler, spectrum=spectrum, **given), model, reason)
    heads, output = model.heads if heads is None else heads, model.output if output is None else output
    if model.layers == 1 and not model.noise and isinstance(model.activation, ScoreFunction):
        from attnlimits.numerics.model.charts import of_scores  # its compiler takes a while to load

        found = threshold(of_scores(model), digits=digits, heads=heads, output=output, spectrum=spectrum, **settings)
        status = f"{found.status}; {model.activation_name} is monotone: its outputs are as informative as linear ones"
        return replace(found, status=status, origin=found.origin.with_model(activation=model.activation_name))
    closed = model.layers == 1 and not model.noise and (model.tied or model.rank == 1 or heads > 1)
    if closed and (heads > 1 or not model.tied or output == "sequence"):
        one = heads_threshold(
            model.tokens,
            model.ranks[0],
            model.activation_name,
            heads=heads,
            tied=model.tied,
            output=output,
            digits=12 if digits is None else digits,
        )
        return one if prior is None else _gained(one, prior)
    return layer_threshold(model, digits=digits, prior=prior, **settings)


def _prior_of(model: Model, spectrum: SpectrumLike, heads: int | None) -> Prior:
    """Prior of inputs with a spectrum; it loads scipy, which thresholds in closed form do without."""
    from attnlimits.verbs.inputs import prior_of

    return prior_of(model, None, spectrum, heads)


def _gained(result: ThresholdResult, prior: Prior) -> ThresholdResult:
    """The threshold for these inputs."""
    from attnlimits.numerics.thresholds.gained import gained

    return gained(result, prior)


def _of_simpler(found: ThresholdResult | LinkThreshold, model: Network, reason: str) -> ThresholdResult:
    """Threshold of a network by that of a model that is as informative."""
    assert found.value is not None and found.error is not None
    return ThresholdResult(
        value=found.value,
        error=found.error,
        how=found.how,
        exact=found.exact,
        subspace="layer 1",
        eigenvector=found.eigenvector,
        operator_norm=found.operator_norm,
        converged=found.converged,
        status=f"{found.status}; {reason}",
        n_iter=found.n_iter,
        kernel_hash=found.kernel_hash,
        origin=Origin.of(model).with_settings(**found.origin.settings),
    )
