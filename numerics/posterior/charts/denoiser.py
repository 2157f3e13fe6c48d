"""Posterior of the indices of any network with a chart given single outputs, sampled until its error is small."""

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.errors import ConvergenceError
from ...core.results import Origin
from ...core.validation import numbers, positive, whole
from ...model.charts import chart_of
from ...model.network import Network
from ...model.routes import require
from ..branches.denoiser import denoise_branched
from ..denoiser import check_covariance, flat
from ..entrywise import EntrywiseDenoiserResult, OneOutput, combined
from .density import Target, prior_of, with_noise
from .frozen import Frozen, freeze
from .layout import Layout, constants_of, layout_of
from .outputs import output_data
from .points import Points, drawn_points
from .posterior import sign_flips
from .seeking import Search

__all__ = ["denoise_sampled"]

Array = NDArray[np.float64]

# Independent randomisations that the error is from; nodes of each at first.
_REPLICAS, _FIRST = 8, 2048


def denoise_sampled(
    model: Network,
    y: ArrayLike,
    omega: ArrayLike,
    V: ArrayLike,
    *,
    tol: float = 1e-2,
    max_nodes: int = 4_000_000,
    rng: np.random.Generator | int = 0,
    workers: int | None = None,
) -> EntrywiseDenoiserResult:
    """Posterior of the indices given one output, for any network with a chart (`derive.charts`).

    Parameters
    ----------
    model : Network
    y : array_like, shape (..., HM, M)
    omega : array_like, shape (..., P, M)
    V : array_like, shape (..., P, P)
        Positive definite.
    tol : float, optional
        Of `EntrywiseDenoiserResult.error`: nodes are doubled until it is reached.
    max_nodes : int, optional
        Bound of the nodes of one output.
    rng : Generator or int, optional
    workers : int, optional
        Threads; all cores by default.

    Returns
    -------
    EntrywiseDenoiserResult
        Leading axes are broadcast.

    Raises
    ------
    ValueError
        Shapes, NaN, V not positive definite.
    UnreachableOutputError
        No indices give an output.
    KernelNotFoundError
        No chart for this architecture.
    ConvergenceError
        An output missed `tol`.

    References
    ----------
    troiani2025, (9), (12), (163)-(170).
    """
    require("denoise-sampled", model)
    tol, most = positive("tol", tol, "(12)"), whole("max_nodes", max_nodes, _REPLICAS * _FIRST, "(12)")
    outputs, means = numbers("y", y), numbers("omega", omega)
    p, m, shape = model.indices, model.tokens, model.output_shape
    for name, array, wanted in (("y", outputs, shape), ("omega", means, (p, m))):
        if array.shape[-2:] != wanted or not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite with shape (..., {wanted[0]}, {wanted[1]}), got {array.shape}")
    covariance = check_covariance("V", V, p)
    lead = np.broadcast_shapes(outputs.shape[:-2], means.shape[:-2], covariance.shape[:-2])
    outputs, means, covariance = flat(outputs, lead, shape), flat(means, lead, (p, m)), flat(covariance, lead, (p, p))
    if model.branched:
        given = outputs, means, covariance
        found = _met(denoise_branched(model, given, tol, most, np.random.default_rng(rng)), tol)
        return OneOutput.stacked(found, lead, "estimated", Origin.of(model, tol=tol, max_nodes=most))
    chart = chart_of(model)  # kept: the layout holds addresses in it
    layout = layout_of(chart, constants_of(model))
    # From the log-ratios of two entries of a row to one of them.
    ratios = model.activation == "softmax" and m == 2
    unit = _log_unit(model) - np.log(np.where(ratios, outputs, 1.0)).sum(axis=(1, 2))
    samples = [
        _Sample(layout, sign_flips(model), *parts)
        for parts in zip(
            output_data(model, layout, outputs),
            means,
            covariance,
            np.random.default_rng(rng).spawn(len(outputs)),
            strict=True,
        )
    ]
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        found = _met(list(pool.map(lambda sample: _solved(sample, tol, most), samples)), tol)
    found = [replace(one, log_z=one.log_z + own) for one, own in zip(found, unit, strict=True)]
    return OneOutput.stacked(found, lead, "monte-carlo", Origin.of(model, tol=tol, max_nodes=most))


def _met(found: list[OneOutput], tol: float) -> list[OneOutput]:
    """The same, all of whose errors are as asked for."""
    missed = [number for number, one in enumerate(found) if not one.error <= tol]
    if missed:
        raise ConvergenceError(
            f"the sampled denoiser (12) has an error of {found[missed[0]].error:.1e} > tol = {tol:g} with "
            f"{found[missed[0]].nodes} nodes on {len(missed)} of {len(found)} samples, the first is number "
            f"{missed[0]}; raise max_nodes or tol"
        )
    return found


class _Sample(NamedTuple):
    """One output, its prior N(omega, V), and a generator."""

    layout: Layout
    flips: Array
    data: Array
    omega: Array
    V: Array
    rng: np.random.Generator


def _log_unit(model: Network) -> float:
    """Logarithm of what the chart leaves out: the unit of the means that the output does not depend on.

    The last layer's queries are solved for up to the mean of their readout, kappa times their own: B_{L-1} 1 = kappa 1.
    """
    if model.noise and model.activation == "softmax" and model.output == "last":
        # From orthonormal contrasts of the logarithms of a row to the log-ratios with its last entry.
        return -0.5 * model.mixing_size * math.log(model.tokens)
    if model.tied or model.activation != "softmax" or model.noise:
        return 0.0
    if model.chain is not None:
        return model.chain.log_unit
    rank, m, total = model.ranks[-1], model.tokens, 0.0
    mixing = model.mixing(np.zeros((model.indices, m)))
    for head in range(model.heads):
        own = mixing[head * m, head * m : (head + 1) * m]
        total += rank * (math.log(abs(own.sum())) - 0.5 * math.log(m))
    return total


def _solved(sample: _Sample, tol: float, most: int) -> OneOutput:
    """Posterior of one output, with so many nodes that the error is as asked for, or with all."""
    layout, modes = sample.layout, sample.layout.modes
    means, covariance = with_noise(layout, sample.omega, sample.V)
    prior, root = prior_of(layout, covariance), np.asarray(np.linalg.cholesky(covariance), np.float64)
    target = Target(sample.data, means, prior, layout)
    shape, nodes, indices = means.shape, _FIRST, len(sample.V)
    while True:
        found = []
        for _ in range(_REPLICAS):
            # Draws from the prior among which peaks are looked for.
            draws = sample.rng.standard_normal((256, *shape))
            search = Search(root, draws, sample.flips, np.empty((0, layout.dimension)))
            points = drawn_points(layout, nodes // 2, 1, sample.rng)
            counts = np.array([nodes // 2 - nodes // 4, nodes // 4])
            own = Points(*(part[0] for part in points))
            log_z, mean, second = _moments(freeze(counts, own, search, target, 0.0), target)
            found.append((log_z, mean[:indices], second[:indices, :, :indices]))
        made = combined([np.array(part) for part in zip(*found, strict=True)], sample.V, modes, _REPLICAS * nodes)
        if made.error <= tol or 2 * _REPLICAS * nodes > most:
            return made
        nodes *= 2


def _moments(nodes: Frozen, target: Target) -> tuple[float, Array, Array]:
    """Log Z, and first and second moments of h - omega in modes over the tokens."""
    prior, free = target.prior, target.layout.free
    deviation = nodes.modes - target.omega
    rest = np.flatnonzero(~free)
    deviation[:, free, 0] = deviation[:, rest, 0] @ prior.follow[np.ix_(free, rest)].T
    # Rows of free means have no precision.
    square = np.einsum("npk,kpq,nqk->n", deviation, prior.precision, deviation, optimize=True)
    height = nodes.log_base - 0.5 * square
    top = float(height.max(initial=-np.inf))
    weight = np.exp(height - top)
    mass = float(weight.sum())
    mean = np.tensordot(weight, deviation, 1) / mass
    second = np.tensordot(weight[:, None, None] * deviation, deviation, (0, 0)) / mass
    second[:, 0, :, 0] += prior.spread
    # Both sets of nodes count.
    return top + math.log(0.5 * mass) + prior.log_norm, mean, second
