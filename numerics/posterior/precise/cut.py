"""Where the posterior of two layers lives: the plane of h_1 in rectangles with Gauss-Legendre orders, in float64."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.errors import ConvergenceError
from .ellipses import GOOD, ROUGH
from .integrand import FARTHEST, MOST_ORDER, Array, Integrand, Orders
from .rectangles import edges, halves, product, refine

__all__ = ["Cut", "cut_plane"]


@dataclass(frozen=True)
class Cut:
    """Rectangles in t that do not overlap and hold all weights that count.

    Attributes
    ----------
    boxes : ndarray, shape (n, 4)
        Left, bottom, width, height.
    along_p : ndarray of int, shape (n, lines)
        Gauss-Legendre orders along the plus mode on lines spread over the height.
    along_m : ndarray of int, shape (n,)
        Orders along the minus mode.
    errors : ndarray, shape (n,)
        Logarithm of the error of each rectangle's moments, where the largest weight is one.
    top : float
        Largest log-weight.
    """

    boxes: Array
    along_p: Orders
    along_m: Orders
    errors: Array
    top: float

    def row_orders(self, k: int, positions: Array) -> Orders:
        """Orders along the plus mode on rows of rectangle k, at `positions` between 0 and 1 of its height."""
        above = np.clip(np.searchsorted(GOOD.lines, positions), 1, len(GOOD.lines) - 1)
        most = np.maximum(self.along_p[k, above - 1], self.along_p[k, above])
        # Orders along rows are multiples of this, so that many rows share their nodes.
        step = 4
        # Few different rules.
        return -(-most // step) * step


def cut_plane(integrand: Integrand) -> Cut:
    """Cut the plane.

    Raises
    ------
    ConvergenceError
        The posterior is too narrow for a cut in float64, or needs too many rectangles.
    """
    sd = 1.0 / integrand.parameters[8]
    integrand.check_scale()
    # Outside the circle the prior alone is below the peak by `depth`; the peak is known from inside.
    radius, top = 0.0, 0.0
    for _ in range(60):
        enough = sd * math.sqrt(2 * max(integrand.depth - top + integrand.log_det_bound(), integrand.depth))
        if radius >= enough:
            break
        if enough > FARTHEST * sd:
            raise ConvergenceError(
                f"the posterior (169) lies more than {FARTHEST:.0e} prior widths from omega: y is too unlikely "
                "under (omega, V); check that they belong together"
            )
        radius = enough
        top = integrand.largest_within(radius)
    xs, ys = edges(radius, -integrand.parameters[4]), edges(radius, -integrand.parameters[5])
    # Cells, per axis, that a first rectangle is searched in for thin valleys.
    finer = 8
    # A fine uniform cut to find every valley; coarse rectangles that hold a piece of one are kept.
    fine, top = integrand.alive(product(refine(xs, finer), refine(ys, finer)), top)
    nx, ny = len(xs) - 1, len(ys) - 1
    keep = fine.reshape(nx, finer, ny, finer).any(axis=(1, 3)).ravel()
    boxes, top = _halve_the_wide(integrand, product(xs, ys)[keep], top)
    level = math.log(integrand.mass(boxes, top)) - integrand.digits * math.log(10)
    boxes = _halve_where_cheaper(integrand, boxes, top, level - math.log(200.0))
    return _ordered(integrand, boxes, top, level)


def _ordered(integrand: Integrand, boxes: Array, top: float, level: float) -> Cut:
    """Measure the orders that are used, and halve where the rough table missed a singularity."""
    for _ in range(40):
        target = level - math.log(2 * len(boxes))
        (along_p, error_p), (along_m, error_m) = (integrand.orders(boxes, axis, top, target, GOOD) for axis in (0, 1))
        most = np.stack([along_p.max(axis=1), along_m.max(axis=1)])
        if most.max() < MOST_ORDER:
            return Cut(boxes, along_p, most[1], np.logaddexp(error_p, error_m), top)
        bad = most.max(axis=0) >= MOST_ORDER
        axes = most.argmax(axis=0)
        parts = np.concatenate([halves(boxes[bad & (axes == axis)], axis) for axis in (0, 1)])
        boxes = np.concatenate([boxes[~bad], parts[integrand.alive(parts, top)[0]]])
    raise ConvergenceError(
        f"the rules of the posterior (169) would have more than {MOST_ORDER} nodes a side: ask for fewer digits"
    )


def _count(integrand: Integrand, tried: int, more: int) -> int:
    """Add to the number of rectangles that were tried; raise where they are too many."""
    if tried + more > integrand.most:
        raise ConvergenceError(
            f"the posterior (169) takes a search of more than {integrand.most} rectangles: V is too large for the "
            "scale on which the link changes, or y too unlikely under (omega, V); raise max_nodes, which bounds it, "
            "or ask for fewer digits"
        )
    if integrand.progress is not None:
        integrand.progress(0, integrand.most)
    return tried + more


def _halve_the_wide(integrand: Integrand, boxes: Array, top: float) -> tuple[Array, float]:
    """Halve until no index varies too much over a rectangle; drop those without weight; return also the peak."""
    done: list[Array] = []
    tried = 0
    # Rectangles over which a whitened index varies by more are halved in any case: their samples are then at most 1.6
    # apart in z, so no valley of Q (of width one in z) hides between them.
    widest = 16.0
    while len(boxes):
        # A look at a rectangle costs a quarter of what its orders do.
        tried = _count(integrand, tried, len(boxes) // 4)
        alive, top = integrand.alive(boxes, top)
        boxes = boxes[alive]
        steps = integrand.variation(boxes)
        wide = steps.max(axis=0) > widest
        axes = steps[1:].argmax(axis=0)
        done.append(boxes[~wide])
        boxes = np.concatenate([halves(boxes[wide & (axes == axis)], axis) for axis in (0, 1)])
    kept = np.concatenate(done)
    alive, top = integrand.alive(kept, top)
    return kept[alive], top


def _halve_where_cheaper(integrand: Integrand, boxes: Array, top: float, target: float) -> Array:
    """Halve every rectangle whose halves need fewer nodes, and quarter it where only its quarters do.

    A fast change along a diagonal is of the second kind.
    """
    needed = _both_orders(integrand, boxes, top, target)
    done: list[Array] = []
    tried = 0
    while len(boxes):
        tried = _count(integrand, tried, len(boxes))
        # Across the side with more nodes.
        halved, parts, orders = _parts(integrand, boxes, needed, top, target, quarters=False)
        left, needed = boxes[~halved], needed[~halved]
        quartered, more, more_orders = _parts(integrand, left, needed, top, target, quarters=True)
        done.append(left[~quartered])
        boxes, needed = np.concatenate([parts, more]), np.concatenate([orders, more_orders])
    return np.concatenate(done)


def _parts(
    integrand: Integrand, boxes: Array, needed: Array, top: float, target: float, *, quarters: bool
) -> tuple[NDArray[np.bool_], Array, Array]:
    """Mark the rectangles whose halves across the longer rule, or quarters, need fewer nodes.

    Return these parts too, and their orders.
    """
    cost = needed.prod(axis=1)
    # A rectangle is halved, or quartered, if that saves this share of its nodes, and if they are more than it takes to
    # find out.
    saving, small, large = 0.03, 64, 1000
    tried = np.flatnonzero(cost > (large if quarters else small))
    axes = needed[tried].argmax(axis=1)
    parts = np.concatenate([halves(boxes[tried[axes == axis]], axis) for axis in (0, 1)])
    parents = np.concatenate([np.tile(tried[axes == axis], 2) for axis in (0, 1)])
    if quarters:
        other = 1 - needed[parents].argmax(axis=1)
        parts = np.concatenate([halves(parts[other == axis], axis) for axis in (0, 1)])
        parents = np.concatenate([np.tile(parents[other == axis], 2) for axis in (0, 1)])
    alive, _ = integrand.alive(parts, top)
    orders = _both_orders(integrand, parts, top, target)
    costs = np.bincount(parents, orders.prod(axis=1) * alive, len(boxes))
    split = np.zeros(len(boxes), dtype=bool)
    split[tried] = (costs < (1 - saving) * cost)[tried]
    if not quarters:
        split[tried] |= (needed.max(axis=1) >= MOST_ORDER)[tried]
    chosen = split[parents] & alive
    return split, parts[chosen], orders[chosen]


def _both_orders(integrand: Integrand, boxes: Array, top: float, target: float) -> Array:
    """Mean order of the rows, and the order across, shape (n, 2), from the rough table."""
    along_p, along_m = (integrand.orders(boxes, axis, top, target, ROUGH)[0] for axis in (0, 1))
    return np.stack([along_p.mean(axis=1), along_m.max(axis=1)], axis=1)
