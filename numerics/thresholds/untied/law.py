"""Law of the mixing matrix of softmax layers with keys and queries over two tokens, at any depth and of any ranks.

In token modes B_l = K [[1, S], [0, T]] with K = (1 + c)^l. A layer of entries s and c + tau makes of it
    S' = S + s T/(1 + c),    T' = (c + tau) T/(1 + c),
and s, tau depend on its scores u = T^2 x_m, w = T (x_p + S x_m) (`derive.pair_scores`). Exchanging the tokens turns w,
S and s around, so that the law is even in S; (T, w, s) -> (-T, -w, -s) leaves S' as it is and turns T' around, so that
both signs of T share their nodes. T vanishes where tau = -c, which c < 1 allows and c = 1 comes near to: averages over
the law have features at every size of |T|. They are of functions analytic in S and log |T|, so the law is kept as
weights on Chebyshev nodes of panels of log |T|, as many as the digits wanted and the mass of the panel ask for.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlimits.generated.scores_untied_softmax_m2 import numpy64 as kernels

from ...model.network import Network
from ...quadrature.rules import Chebyshev
from .scores import Scores, density_and_mean, scores

__all__ = ["Fineness", "Panel", "fineness", "pair_law"]

Array = NDArray[np.float64]

# Singularities of what is averaged over the law: S at a distance of one, log |T| at pi/4 from the real axis.
_FAR_S, _FAR_T, _FAR = 1.0, math.pi / 4, 5.0


class Fineness(NamedTuple):
    """What a level of the sums resolves.

    Attributes
    ----------
    order : int
        Gauss-Legendre nodes per panel of the scores.
    step : float
        Relative step of the trapezoidal rules.
    digits : float
        Of averages over the law.
    """

    order: int
    step: float
    digits: float

    @property
    def least(self) -> float:
        """Probability that may be left out."""
        return 10.0 ** -(self.digits + 2)


class Panel(NamedTuple):
    """Nodes of the law in one range of |T|.

    Attributes
    ----------
    t : ndarray, shape (n_t,)
        |T|.
    s : ndarray, shape (n_s,)
    weights : ndarray, shape (2, n_t, n_s)
        Of T > 0 and T < 0; signed.
    """

    t: Array
    s: Array
    weights: Array


def fineness(level: int) -> Fineness:
    """Fineness of a level 0, 1, 2, ...; each adds some two digits."""
    return Fineness(12 + 4 * level, 0.22 / (1 + 0.4 * level), 10.0 + 2.5 * level)


def pair_law(model: Network, layers: int, fine: Fineness) -> list[Panel]:
    """Law of (S, T) after `layers` layers of an untied softmax model of two tokens."""
    law = [Panel(np.ones(1), np.zeros(1), np.array([[[1.0]], [[0.0]]]))]
    for number in range(1, layers + 1):
        law = _advance(_layer(model, number), law, fine)
    return law


class _Layer(NamedTuple):
    """One hidden layer: c, beta K^2, its rank, and the width of the panels of log |T'| behind it."""

    skip: float
    kappa: float
    rank: int
    width: float

    def places(self, lower: Array) -> tuple[Array, Array]:
        """Number of the panel of every T', and log |T'|."""
        with np.errstate(divide="ignore"):
            log_t = np.log(np.abs(lower))
        return np.floor(-log_t / self.width), log_t


def _layer(model: Network, number: int) -> _Layer:
    """Layer of this number, from 1."""
    width = 1.0
    if model.skip > 1:  # whole panels over the range of T', which cannot vanish
        reach = number * math.log((model.skip + 1) / (model.skip - 1))
        width = reach / math.ceil(reach)
    return _Layer(model.skip, model.beta * (1 + model.skip) ** (2 * number - 2), model.ranks[number - 1], width)


class _Grid(NamedTuple):
    """Chebyshev nodes of one panel: of log |T| and of S."""

    t: Chebyshev
    s: Chebyshev


def _advance(layer: _Layer, law: list[Panel], fine: Fineness) -> list[Panel]:
    """Law after one more layer."""
    grids = _grids(layer, law, fine)
    moments = {place: np.zeros((2, grid.t.n, grid.s.n)) for place, grid in grids.items()}
    # Scores that are taken at a time.
    chunk = 20000
    for panel in law:
        for t, weights in zip(panel.t, panel.weights.swapaxes(0, 1), strict=True):
            nodes = scores(layer.skip, layer.kappa, t, layer.rank, (fine.order, fine.step, fine.least))
            places, log_t = layer.places(nodes.lower * t / (1 + layer.skip))
            for place, grid in grids.items():
                inside = np.flatnonzero(places == place)
                for start in range(0, inside.size, chunk):
                    chosen = inside[start : start + chunk]
                    part = Scores(*(values[chosen] for values in nodes))
                    sums = _sums_over_s(layer, t, panel.s, weights, part, grid.s)
                    powers = grid.t.polynomials(log_t[chosen])
                    kept, turned = powers * (part.lower > 0), powers * (part.lower < 0)
                    for sign in (0, 1):
                        moments[place][sign] += kept @ sums[sign].T + turned @ sums[1 - sign].T
    return [
        Panel(np.exp(grid.t.nodes), grid.s.nodes, np.array([_weights(grid, one) for one in moments[place]]))
        for place, grid in grids.items()
    ]


def _masses(rank: int, t: float, s: Array, part: Scores) -> Array:
    """Probability of every node (first axis) given |T| and every S (second axis)."""
    plus, minus, inverse = kernels.solve(part.u[:, None], part.w[:, None], s, t)
    rho = np.hypot(plus, minus)
    density = density_and_mean(rho, rank)[0]
    # Nodes at w < 0 and -S count as those at w > 0 and S.
    return np.asarray(part.weights[:, None] * inverse * density * np.exp(-rho) / math.pi)


def _sums_over_s(layer: _Layer, t: float, s: Array, weights: Array, part: Scores, grid: Chebyshev) -> Array:
    """Moments of even polynomials of S', given every node, for both signs of T: shape (2, n, nodes)."""
    mass = _masses(layer.rank, t, s, part)
    z = grid.scale(s + t * part.s[:, None] / (1 + layer.skip))
    out = np.zeros((2, grid.n, part.s.size))
    older, newer = np.ones_like(z), 2 * z * z - 1
    doubled = 2 * newer
    for even in range(0, grid.n, 2):
        out[:, even] = weights @ (mass * older).T
        older, newer = newer, doubled * newer - older
    return out


def _weights(grid: _Grid, moments: Array) -> Array:
    return np.asarray(grid.s.weights(grid.t.weights(moments).T).T)


def _grids(layer: _Layer, law: list[Panel], fine: Fineness) -> dict[float, _Grid]:
    """Panels of log |T'| that hold more than what may be left out, and the nodes that each needs."""
    found: dict[float, tuple[float, float]] = {}
    # Masses of the panels and ranges of S are found on coarse nodes, of this order and step.
    coarse, margin = (8, 0.4), 1.15
    for panel in law:
        widest = float(np.abs(panel.s).max())
        for t, weights in zip(panel.t, np.abs(panel.weights.sum(axis=(0, 2))), strict=True):
            nodes = scores(layer.skip, layer.kappa, t, layer.rank, (*coarse, fine.least))
            places, _ = layer.places(nodes.lower * t / (1 + layer.skip))
            mass = _masses(layer.rank, t, np.zeros(1), nodes)[:, 0] * weights
            reach = np.minimum(1.0, widest + t * np.abs(nodes.s) / (1 + layer.skip))
            for place in np.unique(places[np.isfinite(places)]):
                here = places == place
                before = found.get(place, (0.0, 0.0))
                found[place] = (before[0] + float(mass[here].sum()), max(before[1], float(reach[here].max())))
    grids: dict[float, _Grid] = {}
    below = 0.0
    for place in sorted(found, reverse=True):
        mass, reach = found[place]
        below += mass
        if below > fine.least:
            order = _order(fine, mass, _FAR_T / (0.5 * layer.width))
            log_t = Chebyshev(order, -(place + 1) * layer.width, -place * layer.width)
            # Where rounding leaves no S' at all any interval about zero holds it.
            reach = min(1.0, margin * reach) or 1.0
            grids[place] = _Grid(log_t, Chebyshev(_order(fine, mass, _FAR_S / reach), -reach, reach))
    return grids


def _order(fine: Fineness, mass: float, distance: float) -> int:
    """Chebyshev nodes for a function whose singularities are that far off, in units of half the interval.

    Far off it grows like an exponential: the nearest few units count.
    """
    digits = max(3.0, fine.digits + math.log10(max(mass, 1e-300)))
    return 4 + math.ceil(digits * math.log(10) / math.asinh(min(distance, _FAR)))
