"""Law of the mixing matrix of softmax attention with two tokens, in pairs of float64: that of `mixing_law`.

The recursion and the coordinates are those of `mixing_law`; the nodes are chosen for the digits asked for. Per node v
of a layer the measure on the grid of (S, T) moves rigidly in S and in log T, so its Chebyshev moments are sums over one
grid index at a time; all inner loops run over the nodes v_+ that share v_-, side by side.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from attnlimits.generated.pair_softmax_m2.plain import numerators

from ...arithmetic.doubledouble import accumulate, add, exp, mul, square, two_sum
from ...arithmetic.pairs import Pairs, Parts
from .rules import Grid, PairRule, cut, panels, pi

__all__ = ["PairLaw", "Progress", "pair_law", "workers"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PairLaw:
    """Weights on a grid of (S, log T), see `mixing_law.MixingLaw`.

    Attributes
    ----------
    s : Pairs, shape (n_s,)
    log_t : Pairs, shape (n_t,)
    weights : Pairs, shape (n_s, n_t)
    """

    s: Pairs
    log_t: Pairs
    weights: Pairs


def pair_law(skip: Pairs, beta: Pairs, layers: int, digits: float, progress: Progress | None = None) -> PairLaw:
    """Law of B after `layers` layers, so that averages of what depends on B have about `digits` digits."""
    law = PairLaw(Pairs(np.zeros(1)), Pairs(np.zeros(1)), Pairs(np.ones((1, 1))))
    for done in range(layers):

        def tick(k: int, total: int, done: int = done) -> None:
            if progress is not None:
                progress(done * total + k, layers * total)

        law = _advance(law, skip, beta, done, digits, tick)
    return law


def _layer(v_plus: Pairs, v_minus: Pairs, kappa: Pairs, c: Pairs) -> tuple[Pairs, Pairs]:
    """s/(1 + c) and (c + eta)/(1 + c) at w = kappa v_+ v_- > 0, rho = kappa v_-^2; no exponential is above one."""
    w, rho = kappa * v_plus * v_minus, kappa * v_minus * v_minus
    gap, both = rho - w, (-(rho + w)).exp()
    first = gap.hi > 0
    apart = (gap * np.where(first, -1.0, 1.0)).exp()
    rise_rho = Pairs(np.where(first, 1.0, apart.hi), np.where(first, 0.0, apart.lo))
    rise_w = Pairs(np.where(first, apart.hi, 1.0), np.where(first, apart.lo, 0.0))
    upper, lower, total = numerators(rise_rho, both * rise_w, rise_w, both * rise_rho, c)
    inverse = 1.0 / (total * (c + 1.0))
    return upper * inverse, lower * inverse


def grid_sizes(skip: float, done: int, digits: float) -> tuple[int, int]:
    """Chebyshev nodes in S and in log T after done + 1 layers."""
    reach = -(done + 1) * math.log(skip / (1 + skip))
    wide = max(1.0, (1.6 / (1 + skip)) ** 0.7)
    return 2 * round(1.3 * wide * digits + 2 * done) + 2, round(1.9 * digits + 0.4 * digits * reach)


def _advance(law: PairLaw, c: Pairs, beta: Pairs, done: int, digits: float, progress: Progress) -> PairLaw:
    total = c + 1.0
    s_top = Pairs(float(done + 1)) / total
    t_low = (c / total).log() * float(done + 1)
    n_s, n_t = grid_sizes(float(c.hi), done, digits)
    s_grid, t_grid = Grid(n_s, -s_top, s_top), Grid(n_t, t_low, Pairs(0.0))

    kappa = beta
    for _ in range(2 * done):
        kappa = kappa * total
    top = cut(digits)
    minus = _minus_rule(float(kappa.hi), float(c.hi), math.exp(float(law.log_t.hi.min())), top, digits)
    inverse_t = (-law.log_t).exp()
    # S', T' enter the kernel as Chebyshev variables: z = (S + a T)/s_top, x = 1 - 2 log T'/t_low.
    s, log_t, t = law.s / s_top, 1.0 - law.log_t * 2.0 / t_low, law.log_t.exp()
    base = law.weights * inverse_t / (pi() * 2.0)

    tiny = 10.0 ** (-digits - 8)

    def work(k: int) -> Parts:
        vm = minus.nodes[k]
        plus = _plus_rule(float(kappa.hi), float(c.hi), float(vm.hi), top * (1 + done / (1 + float(c.hi))), digits)
        upper, lower = _layer(plus.nodes, vm, kappa, c)
        step = upper / s_top
        shift = lower.log() * -2.0 / t_low
        b = inverse_t * vm
        # Quadrants: v -> -v changes nothing, swapping the tokens changes the sign of v_- and of S.
        row = base * (b * b * -0.5).exp() * (minus.weights[k] * 4.0)
        out = Parts.zeros(n_s // 2, n_t)
        here = _Law(*(f.parts for f in (law.s, s, log_t, t, b, row)))
        _moments(here, _Nodes(*(f.parts for f in (plus.nodes, plus.weights, step, shift))), tiny, out)
        return out

    moments = Pairs(np.zeros((n_s // 2, n_t)))
    with ThreadPoolExecutor(workers()) as pool:
        for k, part in enumerate(pool.map(work, range(len(minus)))):
            moments = moments + Pairs(*part)
            progress(k + 1, len(minus))
    even = np.zeros((2, n_s, n_t))
    even[0, ::2], even[1, ::2] = moments.hi, moments.lo
    weights = s_grid.weights(Pairs(*even))
    weights = t_grid.weights(Pairs(weights.hi.T, weights.lo.T))
    return PairLaw(s_grid.nodes, t_grid.nodes, Pairs(weights.hi.T, weights.lo.T))


def workers() -> int:
    """Threads to use: the processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _order(digits: float) -> int:
    """Nodes per panel where the nearest singularity is as far from its middle as 1.6 of its half-length or more.

    The ellipse through 1.6 i or 1.6 has axes' sum 2.85 at least, so the error is 2.85^(-2 n).
    """
    return math.ceil(digits * math.log(10) / (2 * math.log(2.85))) + 2


def _minus_rule(kappa: float, skip: float, t_min: float, top: float, digits: float) -> PairRule:
    """Panels in v_- > 0: t vanishes at v_-^2 kappa ~ -2 c for small c, the law of v_- has scales down to t_min."""
    edge = min(0.4 * math.sqrt(min(1.0, skip) / kappa), 0.4, 0.5 * t_min)
    edges = [0.0]
    while edge < top:
        edges.append(edge)
        edge = min(2 * edge, edge + 1.2)
    return panels(np.array([*edges, top]), _order(digits))


def _plus_rule(kappa: float, skip: float, vm: float, top: float, digits: float) -> PairRule:
    """Panels in v_+ > 0, graded towards where the attention of a token switches, w = kappa v_+ v_- ~ rho = kappa v_-^2.

    The poles of (p, r) next to it lie at w = rho + i pi, the zero of t at w = w_c + i pi with
    cosh w_c = cosh rho + sinh(rho)/c.
    """
    slope, rho = kappa * vm, kappa * vm * vm
    if rho < 300:
        zero = math.acosh(math.cosh(rho) + math.sinh(rho) / skip)
    else:
        zero = rho + math.log1p(1 / skip)
    width = min(2 / slope, 1.5)
    first, last = vm, zero / slope
    edges = {0.0, top, *np.linspace(first, last, 1 + math.ceil((last - first) / (2 * width)))}
    reach = width
    while reach < top:
        edges |= {first - reach, last + reach}
        reach += min(2 * reach, 3.0)
    inside = sorted(e for e in edges if 0 <= e <= top)
    kept = [e for k, e in enumerate(inside[:-1]) if k == 0 or e - inside[k - 1] > 1e-9]
    return panels(np.array([*kept, top]), _order(digits))


class _Law(NamedTuple):
    """The law of (S, T) before a layer, on its grid, at one v_- of that layer.

    S, and as Chebyshev variables S/s_top and that of log T; T; v_-/T; the weights with all factors of v_-.
    """

    s: Parts
    z: Parts
    x: Parts
    t: Parts
    b: Parts
    mass: Parts


class _Nodes(NamedTuple):
    """Nodes v_+ in ascending order, their weights, and what each adds to z per T and to x."""

    v: Parts
    weights: Parts
    step: Parts
    shift: Parts


@njit(error_model="numpy", nogil=True, cache=True)
def _moments(law: _Law, nodes: _Nodes, tiny: float, out: Parts) -> None:
    """Add the moments T_2m(z) T_n(x) of one v_- to out[m, n]. Terms below `tiny` are left out."""
    (sh, sl), (zh, zl), (xh, xl), (th, tl), (bh, bl), (rh, rl) = law
    (vh, vl), (wh, wl), (ah, al), _ = nodes
    n_s, n_t = rh.shape
    n_m, n_x = out.hi.shape
    # Nodes v_+ handled side by side: their working set fits the first cache.
    block = 64
    acc_h, acc_l = np.empty((n_m, block)), np.empty((n_m, block))
    u = Parts(np.empty((block, n_x)), np.empty((block, n_x)))
    new_h, new_l, old_h, old_l = np.empty(block), np.empty(block), np.empty(block), np.empty(block)
    yh, yl = np.empty(block), np.empty(block)
    far = math.sqrt(-2 * math.log(tiny))
    for start in range(0, vh.size, block):
        n = min(block, vh.size - start)
        for j in range(n_t):
            acc_h[:] = 0.0
            acc_l[:] = 0.0
            empty = True
            for i in range(n_s):
                ch, cl = mul(sh[i], sl[i], bh[j], bl[j])
                if abs(rh[i, j]) < tiny or vh[start] > ch + far or vh[start + n - 1] < ch - far:
                    continue
                empty = False
                for p in range(n):
                    q = start + p
                    gh, gl = add(vh[q], vl[q], -ch, -cl)
                    gh, gl = square(gh, gl)
                    gh, gl = exp(-0.5 * gh, -0.5 * gl)
                    gh, gl = mul(gh, gl, rh[i, j], rl[i, j])
                    gh, gl = mul(gh, gl, wh[q], wl[q])
                    old_h[p], old_l[p] = gh, gl
                    fh, fl = mul(ah[q], al[q], th[j], tl[j])
                    fh, fl = add(fh, fl, zh[i], zl[i])
                    fh, fl = square(fh, fl)
                    # T_2m(z) = T_m(2 z^2 - 1); 2 (2 z^2 - 1)
                    fh, fl = add(4 * fh, 4 * fl, -2.0, 0.0)
                    yh[p], yl[p] = fh, fl
                    new_h[p], new_l[p] = mul(0.5 * fh, 0.5 * fl, gh, gl)
                for m in range(n_m):
                    for p in range(n):
                        acc_h[m, p], e = two_sum(acc_h[m, p], old_h[p])
                        acc_l[m, p] += e + old_l[p]
                        gh, gl = mul(yh[p], yl[p], new_h[p], new_l[p])
                        gh, gl = add(gh, gl, -old_h[p], -old_l[p])
                        old_h[p], old_l[p] = new_h[p], new_l[p]
                        new_h[p], new_l[p] = gh, gl
            if not empty:
                _polynomials((xh[j], xl[j]), nodes.shift, (start, n), u)
                for p in range(n):
                    for m in range(n_m):
                        accumulate(acc_h[m, p], acc_l[m, p], u.hi[p], u.lo[p], out.hi[m], out.lo[m])


@njit(error_model="numpy", nogil=True)
def _polynomials(x: tuple[float, float], shift: Parts, block: tuple[int, int], u: Parts) -> None:
    """Fill u[p, k] = T_k(x + shift[start + p])."""
    start, n = block
    uh, ul = u
    for p in range(n):
        yh, yl = add(x[0], x[1], shift.hi[start + p], shift.lo[start + p])
        uh[p, 0], ul[p, 0], uh[p, 1], ul[p, 1] = 1.0, 0.0, yh, yl
        for k in range(2, uh.shape[1]):
            gh, gl = mul(2 * yh, 2 * yl, uh[p, k - 1], ul[p, k - 1])
            uh[p, k], ul[p, k] = add(gh, gl, -uh[p, k - 2], -ul[p, k - 2])
