"""What ratios of sums over few nodes are off by, from the same ratios by halves and by quarters of the nodes.

A posterior moment by N nodes is a ratio of two sums: it is off by c_1/N + c_2/N^2 in the mean, and so is all that is
linear in it, or in products of moments by two independent sets of nodes. Three numbers of nodes give both terms. An
average is taken with its controls at all three, as these are off by as much as itself.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ConvergenceError
from .averages import normal_solution, regression

__all__ = ["LINEAR", "debiased", "debiased_average", "largest_bias", "linear", "product", "rows_product", "stated"]

Array = NDArray[np.float64]

#: How many of the sets of moments, from the first on, averages that are linear in them are made of.
LINEAR = 5


def linear(x: Sequence[Array]) -> Array:
    """By all nodes of both sets, by each set, and by halves of the sets, from `LINEAR` moments as of `Pieces`."""
    return np.array([x[2], 0.5 * (x[0] + x[1]), 0.5 * (x[3] + x[4])])


def product(a: Sequence[Array], b: Sequence[Array]) -> Array:
    """a.b by two independent sets of nodes, by their halves, and by their quarters.

    The sets are independent: the product has no variance in it.
    """
    sets = ((0, 1), (3, 4), (5, 6))
    return np.array([0.5 * (rows_product(a[i], b[j]) + rows_product(a[j], b[i])) for i, j in sets])


def rows_product(a: Array, b: Array) -> Array:
    """Scalar product of each row of a with that of b."""
    return np.asarray(np.einsum("nk,nk->n", a, b))


def debiased(parts: Array, nodes: int = 0) -> tuple[Array, Array]:
    """Sums of parts without what few nodes are off by, and the orders that their mean may still be off by.

    Parameters
    ----------
    parts : ndarray, shape (3, n, k)
        By all nodes, by half and by a quarter of them: an average and its weighted controls, of each output.
    nodes : int, optional
        Of each output, in both sets; 0 where they differ.

    Returns
    -------
    sums : ndarray, shape (n,)
    orders : ndarray, shape (k + 1,)
        The next order of each part, and a share of what is taken off, with their signs: scatter of the outputs is in
        them, which a mean over independent outputs has less of. Their absolute values add up to what is `stated`.
    """
    first, second = parts[1] - parts[0], parts[2] - parts[1]
    # c_1/N + c_2/N^2; the first term alone would be `first`. What it changes is stated of each part: where they cancel,
    # the orders beyond need not.
    next_order = (2 * first - second) / 3
    off = (first + next_order).sum(axis=1)
    # Share of what is taken off that may be left, by measurement: three layers, five overlaps, 16, 64 and 192 nodes of
    # each of 4096 outputs, against 768. Of 45 averages, what is left is known to half of what is stated, or better, in
    # 16: it is .95(34) times that at most. Of the others 9 leave more, none by two standard errors; few at 192 nodes
    # are resolved. Beyond `full` nodes it falls at least as their number: six models on charts, 65 536 outputs,
    # against 4096 nodes. Of what is known to .2 it is .50(11), .35(14), .15(9), .11(11), .01(9) at 64 nodes, .37(7),
    # .21(19), .11(12), 0(.1) at 128, .18(17), .04(20) at 256; it is not resolved beyond.
    left, full = 0.5, 128
    share = left * min(1.0, full / max(nodes, 1))
    return np.asarray(parts[0].sum(axis=1) - off), np.append(next_order.mean(axis=0), share * off.mean())


def stated(orders: Array) -> Array:
    """What a mean may be off by whose bias has these orders, shape (orders, ...)."""
    return np.asarray(np.abs(orders).sum(axis=0))


def debiased_average(values: Array, controls: Sequence[Array], replicas: int, nodes: int = 0) -> tuple[Array, Array]:
    """Replica means of values minus the regression on controls, and the orders of what they may be off by (`debiased`).

    Parameters
    ----------
    values : ndarray, shape (3, n)
        By all nodes, by half and by a quarter of them.
    controls : sequence of ndarray, shape (3, n) or (n,)
        Of zero mean, up to the bias of few nodes; those of shape (n,) have no nodes in them.
    replicas : int
    nodes : int, optional
        As of `debiased`.

    Raises
    ------
    ConvergenceError
        What they give is not a number.
    """
    columns = np.stack([np.broadcast_to(control, values.shape) for control in controls], axis=2)
    # Controls whose weights are those of the same outputs. By 512 outputs of one untied layer, means of G with 14
    # controls were off by .011(3) so, and by .003(4) with weights of other randomisations, which scatter by 4 % more.
    # With the two controls of growth rates, whose tails are heavy, rates of three layers scatter by a quarter more so,
    # and are off by nothing that is seen.
    few = 8
    if len(controls) > few:
        weights = np.repeat(_weights(values[0], columns[0], replicas), len(columns[0]) // replicas, axis=0)
    else:
        weights = regression(values[0], columns[0])
    of_each, orders = debiased(np.concatenate([values[..., None], -columns * weights], axis=2), nodes)
    if not (np.isfinite(of_each).all() and np.isfinite(orders).all()):
        raise ConvergenceError(
            "an average over sampled posteriors (12) is not a number: their nodes are too few; raise nodes"
        )
    return of_each.reshape(replicas, -1).mean(axis=1), orders


def _weights(values: Array, columns: Array, replicas: int) -> Array:
    """Weights of the controls for each randomisation by all others, shape (replicas, k).

    By its own outputs they would go with the means of its controls, and the average would be off by about as many
    outputs as there are controls.
    """
    columns = columns - columns.mean(axis=0)
    parts = columns.reshape(replicas, -1, columns.shape[1])
    both = parts.transpose(0, 2, 1)
    grams, goals = both @ parts, (both @ (values - values.mean()).reshape(replicas, -1, 1))[..., 0]
    return normal_solution(grams.sum(axis=0) - grams, goals.sum(axis=0) - goals)


def largest_bias(nodes: int, beside: float) -> float:
    """Bias over the standard error from which on twice the nodes and fewer outputs have the same error at less cost.

    They add, and fall by the nodes and by the root of the outputs: half of the bias is left for the standard error.

    Parameters
    ----------
    nodes : int
        Of each output.
    beside : float
        Nodes that take as long as what an output takes beside its nodes.
    """
    return 2 * (math.sqrt((2 * nodes + beside) / (nodes + beside)) - 1)
