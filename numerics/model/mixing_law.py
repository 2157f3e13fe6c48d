"""Law of the mixing matrix of tied softmax attention with two tokens, at any depth and of any ranks.

In token modes B_l = K_l [[1, S], [0, T]] with K_l = (1 + c)^l, so the hidden layers enter only through the law of the
two scalars (S, T). It obeys a recursion: given (S, T) and v = h B^T / K, density N((v_+ - S v_-/T), v_-/T) / T,
    S' = S + s(v) T / (1 + c),    T' = (c + tau(v)) T / (1 + c),
with s and tau those of one layer at v K (troiani2025 (5)). At rank r the scores are v_-.v_- and v_+.v_-: v_- stands for
its norm and v_+ for its component along it (`derive.pair_scores`), and chi_r takes the place of the normal density of
v_-/T; what is across v_- does not enter. Everything computed from the law is an analytic function
of (S, log T) on a bounded rectangle, so the law is carried as weights on a Chebyshev grid of it: the cost is linear in
the depth.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..quadrature.rules import Chebyshev, Rule, gauss_legendre_panels, gaussian
from .network import Network, kernel

__all__ = ["MixingLaw", "mixing_law", "norm_cut", "radial"]

Array = NDArray[np.float64]

# Standard normal variables are cut here: the mass beyond is 6e-18.
_CUT = 8.6
# Numbers of a block: four arrays of them fit a processor's cache.
_BLOCK = 1 << 14


def norm_cut(rank: int) -> float:
    """Where the norm of `rank` standard normal variables is cut."""
    return _CUT + math.sqrt(rank - 1)


@dataclass(frozen=True)
class MixingLaw:
    """Weights on a grid of (S, T).

    Attributes
    ----------
    s : ndarray, shape (n_s,)
        S = B_{+-} / B_{++}; symmetric about zero.
    t : ndarray, shape (n_t,)
        T = B_{--} / B_{++} in [(c/(1+c))^l, 1].
    weights : ndarray, shape (n_s, n_t)
        Signed; they sum to one.
    log_k : float
        log B_{++} = l log(1 + c).
    """

    s: Array
    t: Array
    weights: Array
    log_k: float


def mixing_law(model: Network, layers: int, level: int) -> MixingLaw:
    """Law of B after `layers` layers.

    Parameters
    ----------
    model : Network
        Softmax, two tokens, tied, of any ranks; of at least that many layers.
    layers : int
        Number l >= 0 of layers behind.
    level : int
        Resolution 0, 1, 2, ...; each level adds digits.

    Returns
    -------
    MixingLaw
    """
    law = MixingLaw(np.zeros(1), np.ones(1), np.ones((1, 1)), 0.0)
    for done in range(layers):
        law = _advance(model, law, done, level)
    return law


def radial(norm: Array, rank: int) -> Array:
    """Density of the norm of `rank` standard normal variables over that of one variable."""
    return np.asarray(norm ** (rank - 1) * (math.sqrt(math.pi) * 2 ** (0.5 - 0.5 * rank) / math.gamma(0.5 * rank)))


def _advance(model: Network, law: MixingLaw, done: int, level: int) -> MixingLaw:
    layer, rank = kernel(replace(model, rank=1), "numpy64").layer, model.ranks[done]
    c = model.skip
    k = math.exp(law.log_k)
    shrink = math.log(c / (1 + c))
    s_range = (done + 1) / (1 + c)
    t_range = -(done + 1) * shrink
    s_grid = Chebyshev(20 + 8 * level + 4 * done, -s_range, s_range)
    t_grid = Chebyshev(24 + 8 * level + int((4 + 2 * level) * t_range), -t_range, 0.0)
    order = 12 + 4 * level

    s, cut = law.s[:, None], norm_cut(rank)
    kappa = model.beta * k * k
    moments = np.zeros((s_grid.n, t_grid.n))
    minus = _minus_rule(kappa, float(law.t.min()), c, cut, order)
    for vm, weight in zip(minus.nodes, minus.weights, strict=True):
        # T falls along its grid: from some T on, v_-/T is beyond its cut.
        met = slice(max(1, int(np.searchsorted(vm / law.t, cut))))
        t, b = law.t[met], vm / law.t[met]
        # v_+ = a + S b with |S| <= done/(1 + c).
        plus = _plus_rule(kappa, vm, _CUT + b[-1] * done / (1 + c), order)
        _, a_pm, _, a_mm = layer(k * plus.nodes, np.full_like(plus.nodes, k * vm), c, model.beta)
        s_step, log_t_step = a_pm / (1 + c), np.log(a_mm / (1 + c))
        row = law.weights[:, met] * gaussian(b) / t
        if rank > 1:
            row *= radial(b, rank)
        # Quadrants: v -> -v changes nothing, swapping the tokens changes the sign of v_- and of S.
        row *= 4 * weight / (2 * math.pi)
        # Axes (S, v_+, T): sums over S then run along the other two at once.
        a = plus.nodes[:, None] - (s * b)[:, None]
        mass = gaussian(a) * row[:, None] * plus.weights[:, None]
        z = s_grid.scale(s[:, None] + s_step[:, None] * t)
        # Only even polynomials in S: the law is symmetric.
        conditional = _even_moments(z, mass, (s_grid.n + 1) // 2)
        polynomials = t_grid.polynomials(log_t_step[:, None] + np.log(t))
        moments[::2] += np.tensordot(conditional, polynomials, axes=((1, 2), (1, 2)))
    weights = t_grid.weights(s_grid.weights(moments).T).T
    return MixingLaw(s_grid.nodes, np.exp(t_grid.nodes), weights, law.log_k + math.log1p(c))


def _even_moments(z: Array, mass: Array, count: int) -> Array:
    """Sums of mass T_{2k}(z) over the first axis, shape (count, n_1, n_2), from (n_0, n_1, n_2)."""
    out = np.empty((count, *z.shape[1:]))
    # A block stays in the processor's cache.
    size = max(1, _BLOCK // (z.shape[0] * z.shape[2]))
    for start in range(0, z.shape[1], size):
        block = slice(start, start + size)
        step = 2 * z[:, block] ** 2 - 1
        older, newer, spare = mass[:, block].copy(), step * mass[:, block], np.empty_like(step)
        step *= 2
        for k in range(count):
            older.sum(axis=0, out=out[k, block])
            np.multiply(step, newer, out=spare)
            spare -= older
            older, newer, spare = newer, spare, older
    return out


def _minus_rule(kappa: float, t_min: float, c: float, top: float, order: int) -> Rule:
    """Panels in v_- > 0: the attention turns on at v_-^2 kappa ~ 1, the law of v_- has scales down to t_min.

    At v_+ = 0 tau is kappa v_-^2/2 for small v_-: log(c + tau) has branch points at v_- = +-i (2 c/kappa)^(1/2).
    """
    edge = min(0.5 / math.sqrt(kappa), 0.5, 0.5 * t_min, math.sqrt(2 * c / kappa))
    edges = [0.0]
    while edge < 1.0:
        edges.append(edge)
        edge *= 2
    edges.extend(np.linspace(1.0, top, 9))
    return gauss_legendre_panels(np.unique(edges), order)


def _plus_rule(kappa: float, vm: float, top: float, order: int) -> Rule:
    """Panels in v_+ > 0, graded towards v_+ = v_- where the attention of a token switches, with width 1/(kappa v_-)."""
    edges = {0.0, top, *np.arange(1.0, top, 1.0)}
    width = 1.0 / (kappa * vm)
    while width < 1.0:
        edges.update(e for e in (vm - width, vm + width) if 0 < e < top)
        width *= 2
    merged = [0.0]
    for edge in sorted(edges)[1:]:
        if edge - merged[-1] > 1e-12:
            merged.append(edge)
    return gauss_legendre_panels(np.array(merged), order)
