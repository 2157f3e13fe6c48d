"""State evolution of a network or a link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from attnlimits.numerics.core.cluster_pool import workers_of
from attnlimits.numerics.core.results import EvolutionResult, Origin
from attnlimits.numerics.fixed_point.heads import evolve_heads
from attnlimits.numerics.fixed_point.link_limit import evolve_link
from attnlimits.numerics.model.activations import ScoreFunction
from attnlimits.numerics.model.charts import of_scores
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link
from attnlimits.numerics.model.reduced import reduced
from attnlimits.numerics.priors import Prior, SpectrumLike
from attnlimits.verbs.inputs import prior_of

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["evolve"]


def evolve(
    model: Model,
    alpha: float,
    *,
    heads: int | None = None,
    output: str | None = None,
    client: str | Client | None = None,
    workers: int | None = None,
    prior: Prior | str | None = None,
    spectrum: SpectrumLike | None = None,
    **settings: Any,
) -> EvolutionResult:
    """Fixed point of the state evolution (14) at alpha = N/D samples per dimension.

    Parameters
    ----------
    model : Network or Link
    alpha : float
        >= 0.
    heads, output : optional
        Of one layer in place of those of the network: H equal heads side by side, and "last" or "sequence".
    client : str or distributed.Client, optional
        A Dask client, the address of a scheduler, its scheduler file, or "local": the parts of each average that do not
        need each other go to its workers, and the numbers are those of one thread.
    workers : int, optional
        Threads, all cores by default; with a local cluster its processes.
    prior : Prior or str, optional
        Law of the rows of the weights, Gaussian by default.
    spectrum : str, path, array_like or Spectrum, optional
        Of the covariance of the inputs, E x x^T = Sigma, scaled to mean 1: ``"mp:gamma"``, ``"power:a"``,
        ``"points:v,.."``, ``"data:X.npy"``, a file or an array of eigenvalues (`attnlimits.free_energy.as_spectrum`).
    settings : optional
        `start`: "uninformed" (no overlap), "informed" (the truth) or an overlap of shape (P, P). `accuracy` of the
        overlaps where a quadrature serves; `samples` per randomisation, independent randomisations `replicas`, and the
        seed `rng` where averages are sampled. `tol` on max |F(q) - q|, `max_iter`.

    Returns
    -------
    EvolutionResult
        `overlap` of shape (P, P) with `overlap_error` and `how`, and the prediction errors.

    Raises
    ------
    ValueError, KernelNotFoundError
        An argument is out of range, or nothing serves the model; the message lists what is served.

    References
    ----------
    troiani2025, (11), (13)-(14).

    Examples
    --------
    >>> import attnlimits as al
    >>> print(f"{evolve(al.Network(layers=1, tokens=2), 0.4).overlap[0, 0]:.6f}")
    0.592012
    >>> print(f"{evolve(al.Network(layers=1, tokens=2), 0.4, spectrum='mp:1').overlap[0, 0]:.6f}")
    0.950662
    """
    law = prior_of(model, prior, spectrum, heads)
    with workers_of(client, workers) as hands:
        return _evolved(model, alpha, heads, output, workers=hands, prior=law, **settings)


def _evolved(model: Model, alpha: float, heads: int | None, output: str | None, **settings: Any) -> EvolutionResult:
    """Fixed point by whatever serves the model."""
    if isinstance(model, Link):
        return evolve_link(model, alpha, **settings)
    simpler, reason = reduced(model)
    if reason:
        if isinstance(simpler, Link):
            # What nobody asked for has other defaults there, and nodes of a sampled posterior have no use.
            settings = {name: value for name, value in settings.items() if value is not None and name != "nodes"}
        found = _evolved(simpler, alpha, heads, output, **settings)
        origin = Origin.of(model).with_settings(**found.origin.settings)
        return replace(found, status=f"{found.status}; {reason}", origin=origin)
    heads, output = model.heads if heads is None else heads, model.output if output is None else output
    if model.layers == 1 and not model.noise and isinstance(model.activation, ScoreFunction):
        found = _evolved(of_scores(model), alpha, heads, output, **settings)
        status = (
            f"{found.status}; {model.activation_name} is monotone: predictions are of scores, as of linear attention"
        )
        return replace(found, status=status, origin=found.origin.with_model(activation=model.activation_name))
    if model.layers == 1 and not model.noise:
        model = model.one_head
    elif not model.single:
        heads, output = 1, "last"  # `evolve` refuses the network itself
    return evolve_heads(model, alpha, heads=heads, output=output, **settings)
