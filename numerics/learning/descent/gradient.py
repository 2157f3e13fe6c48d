"""Slopes of the square loss in the indices h: backwards through the mixing map, or piece by piece of a link.

Those of tied attention with one head are products of arrays; those of every other architecture are the straight-line
program that is derived for it (`derive.pullback`).
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ...core.errors import KernelNotFoundError
from ...model.derived_module import Worker, derived_module
from ...model.links import LinkKernel
from ...model.network import Network
from ...model.routes import DERIVED_SLOPES, require
from ...posterior.protocol import Model
from ..blocks import Array

__all__ = ["WORKER", "Loss", "square_loss"]

#: (h of shape (n, P, M), y) -> half of the squared distance of each g(h) from y, and its slopes in h.
Loss: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]

_ARRAYS, _VECTOR = "float64[:, :, ::1]", "float64[::1]"
#: What derives the slopes of any architecture.
WORKER = Worker(
    "losses",
    "attnlimits.derive.emit.loss_worker",
    "the slopes of the loss of this architecture",
    (("square_loss", f"({_ARRAYS}, {_ARRAYS}, {_VECTOR}, {_VECTOR}, {_ARRAYS})"),),
    seconds=300.0,
)


def square_loss(model: Model) -> Loss:
    """Return the function that gives ||y - g(h)||^2 / 2 of each sample and its slopes in h.

    Parameters
    ----------
    model : Network or LinkKernel

    Returns
    -------
    callable
        Of h, shape (n, P, M), and y, shape (n, HM, M) or (n, HM, HM), or (n, K) of a link; gives arrays of shape (n,)
        and (n, P, M).
        What exceeds float64 is infinite or NaN in them: a sign of weights that diverge.

    Raises
    ------
    KernelNotFoundError
        A network without such slopes. A link whose outputs are all discrete: its slopes vanish wherever they exist. A
        kernel with noise, which holds no slopes.

    References
    ----------
    troiani2025, (4)-(7), (21)-(23), section 3.3.
    """
    route = require("descend", model)
    if isinstance(model, LinkKernel):
        return _link_loss(model)
    return _derived_loss(model) if route is DERIVED_SLOPES else _attention_loss(model)


def _attention_loss(model: Network) -> Loss:
    rows = [part for _, part in model.blocks]
    # Keys and queries of each layer; the same rows if tied.
    pairs = list(zip(rows[:: model.kinds], rows[model.kinds - 1 :: model.kinds], strict=True))
    softmax, beta, skip = model.activation == "softmax", model.beta, model.skip

    def loss(h: Array, y: Array) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            mixings: list[Array] = [np.broadcast_to(np.eye(model.tokens), (len(h), model.tokens, model.tokens))]
            seen, maps = [], []
            for layer, (key, query) in enumerate(pairs):
                mixing = mixings[-1]
                k = h[:, key] @ np.swapaxes(mixing, 1, 2)
                q = k if key == query else h[:, query] @ np.swapaxes(mixing, 1, 2)
                a = beta * (np.swapaxes(k, 1, 2) @ q)
                if softmax:
                    a = np.exp(a - a.max(axis=2, keepdims=True))
                    a /= a.sum(axis=2, keepdims=True)
                seen.append((k, q))
                maps.append(a)
                if layer + 1 < len(pairs):
                    mixings.append(skip * mixing + a @ mixing)
            residual = maps[-1] - y
            slopes = np.zeros_like(h)
            # Slopes in the attention of a layer, and in the mixing matrix that it sees.
            d_map, d_mixing = residual, np.zeros_like(residual)
            for layer in reversed(range(len(pairs))):
                (key, query), (k, q) = pairs[layer], seen[layer]
                mixing, a = mixings[layer], maps[layer]
                if layer + 1 < len(pairs):
                    d_map = d_mixing @ np.swapaxes(mixing, 1, 2)
                    d_mixing = skip * d_mixing + np.swapaxes(a, 1, 2) @ d_mixing
                if softmax:
                    d_map = a * (d_map - (d_map * a).sum(axis=2, keepdims=True))
                d_scores = beta * d_map
                d_k, d_q = q @ np.swapaxes(d_scores, 1, 2), k @ d_scores
                slopes[:, key] += d_k @ mixing
                slopes[:, query] += d_q @ mixing
                d_mixing = d_mixing + np.swapaxes(d_k, 1, 2) @ h[:, key] + np.swapaxes(d_q, 1, 2) @ h[:, query]
            return 0.5 * (residual**2).sum(axis=(1, 2)), slopes

    return loss


def _derived_loss(model: Network) -> Loss:
    square_loss = derived_module(WORKER, model).square_loss
    constants = model.constants

    def loss(h: Array, y: Array) -> tuple[Array, Array]:
        losses, slopes = np.empty(len(h)), np.empty(h.shape)
        square_loss(np.ascontiguousarray(h), np.ascontiguousarray(y), constants, losses, slopes)
        return losses, slopes

    return loss


def _link_loss(kernel: LinkKernel) -> Loss:
    if kernel.kind == "discrete":
        raise KernelNotFoundError(
            f"no gradient for {kernel.describe()}: its outputs are discrete, so that the square loss is flat between "
            "its jumps and descent stays where it starts; GAMP (`numerics.learning.gamp`) learns from them"
        )
    if any(
        not set(depends) <= set(branches)
        for region in kernel.regions
        for depends, branches in zip(region.depends, region.branches, strict=True)
    ):
        raise KernelNotFoundError(
            f"no gradient for {kernel.describe()}: the kernel of a link with noise holds no slopes; take the kernel of "
            "the same link without noise, whose square loss on these data is the same"
        )
    p = kernel.indices

    def loss(h: Array, y: Array) -> tuple[Array, Array]:
        entries = [h[:, e % p, e // p] for e in range(kernel.size)]
        slopes = np.zeros_like(h)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            residual = kernel.outputs(h) - y
            for part in kernel.parts:
                for region in part.regions:
                    inside = np.ones(len(h), bool)
                    for entry in part.entries:
                        low, high = region.interval(entry)
                        inside &= (entries[entry] > low) & (entries[entry] < high)
                    for value in region.conditions(entries) if region.conditions else ():
                        inside &= value > 0
                    some = [column[inside] for column in entries]
                    for number, branches in zip(part.outputs, region.branches, strict=True):
                        for entry, (_, _, slope) in branches.items():
                            slopes[inside, entry % p, entry // p] += residual[inside, number] * slope(some)[0]
        return 0.5 * (residual**2).sum(axis=1), slopes

    return loss
