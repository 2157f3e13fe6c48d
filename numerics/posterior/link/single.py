"""Posterior of the entries of h that one output of a link couples: its integral, refined until it is accurate.

What `Group` draws from the prior, standard normal coordinates x of d dimensions, is integrated over: d = 0 is a sum
over branches, d = 1 is an integral by adaptive cubature between the places where pieces begin or end, d = 2 one more
within it by panels between such places, and more are randomised quasi-Monte Carlo.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cubature

from ...core.errors import ConvergenceError
from ...core.typing import Array
from ...quadrature.rules import normal_qmc
from ..entrywise import OneOutput, combined, largest_error
from .by_rows import by_rows
from .density import Range, Seen, contributions, dimension_of, range_of, sections
from .sections import Prior

IntArray = NDArray[np.int64]

__all__ = ["Effort", "default_accuracy", "solved"]


@dataclass(frozen=True)
class Effort:
    """What is asked for, and what may be spent on one output.

    Attributes
    ----------
    accuracy : float or None
        Of `EntrywiseDenoiserResult.error`; None for the usual one of its dimension.
    max_nodes : int
    rng : numpy.random.Generator
        Where nodes are random.
    """

    accuracy: float | None
    max_nodes: int
    rng: np.random.Generator


def default_accuracy(dimension: int) -> float:
    """Accuracy where none is asked for, by the number of coordinates that are integrated over."""
    return 1e-8 if dimension <= 1 else 1e-5 if dimension == 2 else 1e-3


def solved(seen: Seen, effort: Effort) -> OneOutput:
    """Posterior of the entries of one output, g_out and dg_out of shapes (k, 1) and (k, 1, k, 1).

    Raises
    ------
    ConvergenceError
        No indices within reach of the prior give the output, or `max_nodes` do not reach the accuracy.
    """
    dimension = dimension_of(seen.group, seen.kind)
    accuracy = default_accuracy(dimension) if effort.accuracy is None else effort.accuracy
    if dimension >= 3:
        return _sampled(seen, dimension, replace(effort, accuracy=accuracy))
    range_ = range_of(seen)
    # Attempts at the accuracy of entries by that of integrals, and by how much the latter is below at first.
    attempts, margin = 4, 0.2
    part = margin * accuracy
    for _ in range(attempts):
        found = _integrated(seen, range_, part, effort.max_nodes)
        if effort.accuracy is None:
            accuracy = max(accuracy, 2 * found.rounding)
        if found.output.error <= accuracy or not found.reached or found.rounding > accuracy:
            break
        part *= 0.5 * accuracy / found.output.error
    made = found.output
    if made.error <= accuracy:
        return made
    instead = "ask for less" if found.rounding > accuracy else "raise max_nodes, or ask for less"
    raise ConvergenceError(
        f"the posterior (12) of the output {seen.y.tolist()} is known to {made.error:.1e} after {made.nodes} nodes, "
        f"and not to {accuracy:.1e}; {instead}"
    )


class _Found(NamedTuple):
    """Posterior of one output, whether its cubature has reached what it was asked for, and what rounding leaves."""

    output: OneOutput
    reached: bool
    rounding: float


class _Moments:
    """Density of the first coordinate times (1, z, z z^T), z = (h - omega)/sqrt(diag V), and an error of each."""

    def __init__(self, seen: Seen, range_: Range) -> None:
        self._seen, self._range = seen, range_
        self._scale = np.sqrt(seen.prior.V.diagonal())
        k = len(self._scale)
        self.size = 1 + k + k * k
        self.nodes = 0

    def at(self, x: Array) -> Array:
        """Moments at nodes, shape (n, d)."""
        self.nodes += len(x)
        k, total = len(self._scale), np.zeros((len(x), self.size))
        for part in contributions(self._seen, x):
            weight = np.exp(part.log_weight - self._range.top)
            total[:, 0] += weight
            total[:, 1 : 1 + k] += weight[:, None] * part.first / self._scale
            square = part.second / np.multiply.outer(self._scale, self._scale)
            total[:, 1 + k :] += weight[:, None] * square.reshape(len(x), -1)
        return total

    def over(self, x: Array, tolerance: float) -> Array:
        """Moments at nodes of the first coordinate, shape (n, 1), and after them what a second one leaves open."""
        if dimension_of(self._seen.group, self._seen.kind) == 1:
            found = self.at(x)
            return np.concatenate([found, np.zeros_like(found)], axis=1)
        first = x[:, 0]

        def of_row(row: IntArray, second: Array) -> Array:
            return self.at(np.stack([first[row], second], axis=1))

        intervals = sections(self._seen, first, self._range.limits)
        return np.concatenate(by_rows(of_row, intervals, len(first), tolerance), axis=1)


def _integrated(seen: Seen, range_: Range, accuracy: float, max_nodes: int) -> _Found:
    """Posterior by cubature to this part of its mass."""
    moments, dimension = _Moments(seen, range_), dimension_of(seen.group, seen.kind)
    # Nodes of the rules of Gauss and Kronrod along each coordinate, of which two halves are tried at once.
    kronrod = 21
    # Nodes whose evaluation takes as long as a call of the integrand does by itself.
    call = 2000
    # What is missed at kinks is up to 1.2 times the estimate of these rules (tests/numerics/posterior/link).
    safety = 3.0
    if dimension == 0:
        value, error, reached = moments.at(np.zeros((1, 0)))[0], np.zeros(moments.size), True
    else:
        boxes = list(pairwise(range_.edges.tolist()))
        length = float(range_.edges[-1] - range_.edges[0]) * max(1.0, range_.limits[1] - range_.limits[0])
        # Subdivisions for the mass to a few per cent.
        rough = [_over(lambda x: moments.over(x, 1e-3)[:, :1], box, range_, (0.05, 1e-300), 50) for box in boxes]
        mass = sum(float(part.estimate[0]) for part in rough)
        # Of nodes along one coordinate; over two each of them takes as many as one has taken so far.
        each = max(call, moments.nodes / max(1, sum(2 * kronrod * (part.subdivisions + 1) for part in rough)))
        most = max(1, int(max_nodes / (each * (2 * kronrod if dimension == 2 else 1))))
        inner, outer = accuracy * mass / length, (0.0, accuracy * mass / len(boxes))
        parts = [_over(lambda x: moments.over(x, inner), box, range_, outer, most) for box in boxes]
        both = np.sum([part.estimate for part in parts], axis=0)
        value = both[: moments.size]
        error = safety * np.sum([part.error for part in parts], axis=0)[: moments.size] + both[moments.size :]
        reached = all(part.status == "converged" for part in parts)
    output, exact = (_summary(value, part, seen.prior, range_.top, moments.nodes) for part in (error, 0 * error))
    return _Found(output, reached, exact.error)


def _over(
    density: Callable[[Array], Array],
    box: tuple[float, float],
    range_: Range,
    tolerance: tuple[float, float],
    most: int,
) -> Any:
    """Adaptive cubature over an interval, which is cut at the peak of the density first."""
    cut = [[range_.peak]] if box[0] < range_.peak < box[1] else []
    low, high = ([end] for end in box)
    return cubature(density, low, high, rtol=tolerance[0], atol=tolerance[1], max_subdivisions=most, points=cut)


def _summary(value: Array, error: Array, prior: Prior, top: float, nodes: int) -> OneOutput:
    """Entries from integrals of (1, z, z z^T) of z = (h - omega)/sqrt(diag V) with their errors, times exp(-top)."""
    k = len(prior.omega)
    scale = np.sqrt(prior.V.diagonal())
    zero, first, second = value[0], value[1 : 1 + k] / value[0], value[1 + k :].reshape(k, k) / value[0]
    rms = np.sqrt(np.maximum(second.diagonal(), 1e-300))
    # Of an integral: units of rounding beside those of its exponent.
    rounding = 16
    unit = float(np.finfo(float).eps) * (rounding + abs(top))
    relative = error[0] / zero + unit
    first_error = error[1 : 1 + k] / zero + np.abs(first) * relative + unit * rms
    second_error = error[1 + k :].reshape(k, k) / zero + np.abs(second) * relative + unit * np.multiply.outer(rms, rms)
    crossed = np.multiply.outer(first_error, np.abs(first))
    precision = np.linalg.inv(prior.V / np.multiply.outer(scale, scale)).astype(np.float64)
    size = np.abs(precision)
    inverse = float(np.finfo(float).eps) * float(np.linalg.cond(precision))
    spread = second - np.multiply.outer(first, first)
    g, dg = precision @ first, precision @ spread @ precision - precision
    g_error = size @ (first_error + inverse * np.abs(first))
    dg_error = size @ (second_error + crossed + crossed.T + 2 * inverse * np.abs(spread)) @ size + inverse * size
    g, g_error = g / scale, g_error / scale
    dg, dg_error = (part / np.multiply.outer(scale, scale) for part in (dg, dg_error))
    log_z = float(math.log(zero) + top)
    worst = largest_error(float(relative), (g, g_error), (dg, dg_error), prior.V)
    return OneOutput(
        log_z,
        g[:, None],
        dg[:, None, :, None],
        float(relative) + float(np.finfo(float).eps) * abs(log_z),
        g_error[:, None],
        dg_error[:, None, :, None],
        worst,
        nodes,
    )


def _sampled(seen: Seen, dimension: int, effort: Effort) -> OneOutput:
    """Posterior by randomised nodes, doubled until the accuracy is reached."""
    assert effort.accuracy is not None
    # Independent randomisations, and the logarithm to base 2 of the nodes of each at first.
    first_bits = 9
    bits = first_bits
    # Independent randomisations, and the logarithm to base 2 of the nodes of each at first.
    replicas = 8
    while True:
        parts = [_of_nodes(seen, normal_qmc(dimension, bits, stream)) for stream in effort.rng.spawn(replicas)]
        log_z = np.array([part[0] for part in parts])
        nodes = replicas * 2**bits
        if np.isfinite(log_z).all():
            moments = [log_z, *(np.array([part[n] for part in parts]) for n in (1, 2))]
            made = combined(moments, seen.prior.V, np.eye(1), nodes)
            if made.error <= effort.accuracy:
                return made
        if 2 * nodes > effort.max_nodes:
            break
        bits += 1
    reached = f"is known to {made.error:.1e}" if np.isfinite(log_z).all() else "meets no node in some randomisation"
    raise ConvergenceError(
        f"the posterior (12) of the output {seen.y.tolist()} {reached} after {nodes} nodes, where "
        f"{effort.accuracy:.1e} is asked for; raise max_nodes, or ask for less"
    )


def _of_nodes(seen: Seen, x: Array) -> tuple[float, Array, Array]:
    """Log Z, and first and second moments of h - omega, shapes (k, 1) and (k, 1, k, 1), by nodes of the normal law."""
    log_density = -0.5 * (x * x).sum(axis=1) - 0.5 * x.shape[1] * math.log(2 * math.pi)
    parts = [replace(part, log_weight=part.log_weight - log_density) for part in contributions(seen, x)]
    top = max(float(part.log_weight.max()) for part in parts)
    k = len(seen.prior.omega)
    zero, first, second = 0.0, np.zeros(k), np.zeros((k, k))
    if math.isfinite(top):
        for part in parts:
            weight = np.exp(part.log_weight - top)
            zero += float(weight.sum())
            first += weight @ part.first
            second += np.tensordot(weight, part.second, 1)
    with np.errstate(divide="ignore"):
        log_z = float(np.log(zero / len(x))) + top if zero else -math.inf
    return log_z, first[:, None] / max(zero, 1e-300), second[:, None, :, None] / max(zero, 1e-300)
