"""Weak-recovery threshold of the last layer of any network that has a chart, by the operator (15) sampled on it."""

import math
from dataclasses import replace

import numpy as np

from ..core.decimals import significant
from ..core.errors import ConvergenceError
from ..core.results import Origin, ThresholdResult
from ..core.standard_error import SIGMAS, standard_error
from ..core.validation import check_nodes, whole
from ..model.network import Network
from ..quadrature.rules import normal_qmc

__all__ = ["chart_threshold"]


def chart_threshold(
    model: Network,
    *,
    digits: int | None = None,
    samples: int | None = None,
    replicas: int = 8,
    nodes: int = 1024,
    rng: int = 0,
    workers: int | None = None,
) -> ThresholdResult:
    """Threshold of the last layer from nothing, of any rank, tied or untied, of one or several heads.

    The operator (15) acts on the overlaps that symmetries leave: one multiple of the identity for the keys of a head,
    one for its queries. alpha_c is the inverse of its largest eigenvalue, over the heads.

    Parameters
    ----------
    model : Network
    digits : int, optional
        Significant digits to reach; by default those that the samples give.
    samples, replicas : int, optional
        Points per randomisation (a power of two is taken), and independent randomisations, which give the error.
    nodes : int, optional
        Nodes of the posterior of each point.
    rng : int, optional
        Seed.
    workers : int, optional
        Threads; all cores by default.

    Returns
    -------
    ThresholdResult
        `error` is one standard error and what the bias of finitely many nodes may leave. `converged` is False where the
        digits asked for were not reached.

    References
    ----------
    troiani2025, (15)-(16), (19)-(45).
    """
    # Compiled loops, which take a while to load and other thresholds do without.
    from ..channel.branches import sampled_channel
    from ..channel.structure import normals_of

    # Points per randomisation where nobody gives them.
    samples = whole("samples", 512 if samples is None else samples, 1, "(15)")
    replicas = whole("replicas", replicas, 2, "(15)")
    check_nodes(nodes)
    # Digits that are shown where none are asked for: down to a tenth of the error, at most.
    most_digits = 6
    if digits is not None and not 1 <= digits <= most_digits:
        raise ValueError(f"digits must be an integer from 1 to {most_digits} for {model.describe()}, got {digits!r}")
    generator = np.random.default_rng(rng)
    log2_n = max(4, math.ceil(math.log2(samples)))
    points = [normal_qmc(normals_of(model), log2_n, stream) for stream in generator.spawn(replicas)]
    channel = sampled_channel(model)(model, points, nodes=nodes, rng=generator, workers=workers)
    last = channel.groups[-model.heads :]
    bias = 0.0
    best, eigenvector = np.full(replicas, -np.inf), np.zeros((model.indices,) * 2)
    for group, operator in zip(last, channel.operators_at_rest(last), strict=True):
        rates, vector, left = operator.largest()
        if rates.mean() > best.mean():
            best, bias = rates, left
            eigenvector[:] = 0.0
            eigenvector[np.ix_(group, group)] = np.tensordot(np.abs(vector), operator.basis, axes=1)
    norm = float(best.mean())
    alpha, error = _inverse(norm, float(standard_error(best)) + bias, model)
    reached = max(2, min(most_digits, math.ceil(math.log10(alpha / error)) + 1))
    wanted = reached if digits is None else digits
    text = significant(alpha, wanted)
    unit = 10.0 ** (math.floor(math.log10(alpha)) - wanted + 1)
    failure = ""
    if digits is not None and not error <= 0.5 * unit:
        failure = f"{digits} digits were not reached: the error is {error:.1e}; raise samples, or ask for fewer digits"
    result = ThresholdResult(
        value=text,
        error=error + abs(float(text) - alpha),
        how="monte-carlo",
        exact=None,
        subspace=f"layer {model.layers}",
        eigenvector=eigenvector,
        operator_norm=norm,
        converged=not failure,
        status=failure or f"converged: {replicas} randomisations of {1 << log2_n} points",
        n_iter=1,
        kernel_hash=model.kernel_hash,
    )
    origin = Origin.of(model, digits=digits, samples=samples, replicas=replicas, nodes=nodes, seed=rng)
    return replace(result, origin=origin)


def _inverse(norm: float, error: float, model: Network) -> tuple[float, float]:
    """Threshold 1/norm, and a third of what three errors of the norm leave of it at its lower end, the wider one."""
    least, most = norm - SIGMAS * error, norm + SIGMAS * error
    if not (math.isfinite(norm) and math.isfinite(error)):
        raise ConvergenceError(
            f"the samples of the operator (15) are not all numbers for {model.describe()}; change beta or the noise"
        )
    if not least > 0:
        raise ConvergenceError(
            f"the largest eigenvalue of the operator (15), {norm:.1e} +- {error:.1e}, is not known to be positive for "
            f"{model.describe()}: alpha is larger than {1 / max(most, error):.2g}; raise samples or replicas, or lower "
            "the noise"
        )
    return 1 / norm, (1 / least - 1 / norm) / SIGMAS
