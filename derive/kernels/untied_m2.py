"""Kernels of softmax attention with two tokens, keys and queries of any rank: stable forms, proved equal.

The output of a layer depends on two numbers (`derive.pair_scores`). Where c < 1 the lower entry c + tau of a layer's
matrix changes its sign at u = u_0(w): near there it is taken as a difference of tau, which keeps all its digits.
"""

import sympy as sp

from ..pair_scores import posterior_entries, prove_fibre, prove_layer, prove_scores, solved_scores, wider_fibre
from ..primitives import CopySign, Exp, Expit, Expm1, Largest, Magnitude, elementary, stable
from ..proof import prove_equal
from ..softmax_pair import layer_of_scores
from ..symbols import skip
from .kernel import Kernel, KernelPackage

__all__ = ["PACKAGE"]

_U, _W, _UPPER, _LOWER = sp.symbols("u w S T", real=True)
_EXCESS, _ROOT, _OFFSET = sp.symbols("excess u0 d", real=True)
_PLUS, _MINUS = sp.symbols("a_plus a_minus", real=True)
_RHO, _DENSITY, _MEAN, _RANK = sp.symbols("rho density mean rank", positive=True)
_SCORES = (("u", "real", "score k_m.q_m{}"), ("w", "real", "score k_p.q_m{}"))
_MIXING = (("S", "real", "upper entry of the mixing matrix, over K"), ("T", "!= 0", "lower entry of it, over K"))
_FIBRE = (("rho", "> 0", "norm of x = |q_m| (k_p.e, k_m.e), e along q_m"), ("rank", ">= 1", "rank r of the layer"))


def _scores(factor: str) -> tuple[tuple[str, str, str], ...]:
    """Return the meanings of u and w, with the factor that they carry."""
    return tuple((name, domain, what.format(factor)) for name, domain, what in _SCORES)


# As the softmax takes them.
_TAKEN = _scores(" times beta")


def _layer() -> Kernel:
    first, second = (stable(Expit(value)) for value in (_U + _W, _U - _W))
    return Kernel(
        name="layer",
        arguments=(_U, _W, _EXCESS),
        outputs=(("s", first - second), ("lower", _EXCESS + first + second)),
        summary="Entries (s, c + tau) of the matrix [[1 + c, s], [0, c + tau]] of one layer, in modes.",
        notes=("s = y11 - y22, tau = y11 + y22 - 1 with y11 = expit(u + w), y22 = expit(u - w);", "excess = c - 1."),
        equations=(5, 21),
        domain="any real u, w; excess > -1; `lower` keeps its relative accuracy for excess >= 0",
        meanings=(*_TAKEN, ("excess", "> -1", "skip strength less one, c - 1")),
        hot=True,
    )


def _root_parts(e: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Return (X exp(-|w|)) (1 - c) with X = exp(|u_0|) and e = exp(-2 |w|), and the half sum in it."""
    half = skip * (1 + e) / 2
    return half + sp.sqrt(half**2 + (1 - skip) * (1 + skip) * e), half


def _root() -> Kernel:
    return Kernel(
        name="root",
        arguments=(_W, skip),
        outputs=(("u0", sp.log(1 - skip) - Magnitude(_W) - sp.log(_root_parts(Exp(-2 * Magnitude(_W)))[0])),),
        summary="The u < 0 at which c + tau(u, w) = 0.",
        notes=("sinh u + c (cosh u + cosh w) = 0, a quadratic equation of exp(-u).",),
        equations=(5, 21),
        domain="any real w; 0 < c < 1",
        meanings=_TAKEN[1:],
        total=False,
    )


def _difference(half: sp.Expr, w: sp.Expr, mean: sp.Expr, tops: tuple[sp.Expr, sp.Expr]) -> sp.Expr:
    """Return (tau(u) - tau(u_0)) (cosh u + cosh w) (cosh u_0 + cosh w) exp(-tops) from |d|/2, |w| and |u + u_0|/2."""
    top = tops[0] + tops[1]
    first = (1 + Exp(-2 * half)) * Exp(2 * half - top) / 2
    second = (1 + Exp(-2 * w)) * (1 + Exp(-2 * mean)) * Exp(half + w + mean - top) / 4
    return -Expm1(-2 * half) * (first + second)


def _weight(u: sp.Expr, w: sp.Expr, top: sp.Expr) -> sp.Expr:
    """Return (cosh u + cosh w) exp(-top) from |u| and |w|."""
    return (Exp(u - top) + Exp(-u - top) + Exp(w - top) + Exp(-w - top)) / 2


def _beside() -> Kernel:
    u, w, half, mean = (Magnitude(x) for x in (_ROOT + _OFFSET, _W, _OFFSET / 2, _ROOT + _OFFSET / 2))
    tops = Largest(u, w), Largest(Magnitude(_ROOT), w)
    value = _difference(half, w, mean, tops) / (_weight(u, w, tops[0]) * _weight(Magnitude(_ROOT), w, tops[1]))
    return Kernel(
        name="beside",
        arguments=(_OFFSET, _ROOT, _W),
        outputs=(("difference", CopySign(_OFFSET) * value),),
        summary="tau(u0 + d, w) - tau(u0, w), with full relative accuracy near d = 0.",
        notes=("No exponential is above one: |d|/2 + |u0 + d/2| is the larger one of |u0| and |u0 + d|.",),
        equations=(5, 21),
        domain="any real d, u0, w",
        meanings=(
            ("d", "real", "distance u - u0"),
            ("u0", "real", "score u from where it is measured, as `root` gives it"),
            *_TAKEN[1:],
        ),
    )


def _solve() -> Kernel:
    plus, minus, determinant = solved_scores(_U, _W, _UPPER, _LOWER)
    (power,) = {sp.degree(determinant, _LOWER)}
    return Kernel(
        name="solve",
        arguments=(_U, _W, _UPPER, _LOWER),
        outputs=(("x_plus", plus), ("x_minus", minus), ("inv_det", 1 / Magnitude(_LOWER) ** power)),
        summary="x = (k_p.q_m, k_m.q_m) of the indices from their scores behind K [[1, S], [0, T]], and |dx/d(u, w)|.",
        notes=("u = T^2 x_m, w = T (x_p + S x_m).",),
        equations=(23, 24),
        domain="any real u, w, S; T != 0",
        meanings=(*_scores(" over K^2"), *_MIXING),
        total=False,
    )


def _narrow() -> Kernel:
    return Kernel(
        name="narrow",
        arguments=(_RHO,),
        outputs=(("density", 1 / _RHO), ("mean", _RHO)),
        summary="At rank 1: 2 pi exp(rho) times the density of x, and m = E[|q_m|^2 | x].",
        notes=("I_{-2} and I_0/I_{-2} with I_p the integral of t^p exp(-t^2/2 - rho^2/(2 t^2)) over t > 0.",),
        equations=(15, 19),
        domain="rho > 0",
        meanings=_FIBRE[:1],
        total=False,
    )


def _widen() -> Kernel:
    density, mean = wider_fibre(_DENSITY, _MEAN, _RHO, _RANK)
    return Kernel(
        name="widen",
        arguments=(_RHO, _DENSITY, _MEAN, _RANK),
        outputs=(("density", density), ("mean", mean)),
        summary="Density of x and m = E[|q_m|^2 | x] at rank r + 2 from those at rank r.",
        notes=("f m/r and rho^2/m + r; the integral of rho f over rho stays the same.",),
        equations=(15, 19),
        domain="all arguments > 0",
        meanings=(
            *_FIBRE,
            ("density", "> 0", "density f at rank r, as `narrow` gives it"),
            ("mean", "> 0", "mean square m at rank r"),
        ),
        total=False,
    )


def _entries() -> Kernel:
    values = posterior_entries(_PLUS, _MINUS, _RHO, _MEAN, _RANK)
    return Kernel(
        name="entries",
        arguments=(_PLUS, _MINUS, _RHO, _MEAN, _RANK),
        outputs=tuple(values.items()),
        summary="E[h h^T | x] less the identity, in multiples of I_r, in modes: keys, keys with queries, queries.",
        notes=("x = rho (a_plus, a_minus); affine in m and in rho.",),
        equations=(15, 19),
        domain="any real numbers; rank >= 1",
        meanings=(
            ("a_plus", "real", "plus mode of x, over its norm"),
            ("a_minus", "real", "minus mode of x, over its norm"),
            *_FIBRE,
            ("mean", "real", "mean square m = E[|q_m|^2 | x]"),
        ),
    )


def _prove() -> None:
    for rank in (1, 2, 3):
        prove_scores(rank)
    prove_layer()
    prove_fibre()
    pair = layer_of_scores(1 + _EXCESS, _U, _W)
    plain = [elementary(sign * Expit(_U + _W) + Expit(_U - _W)) for sign in (-1, 1)]
    prove_equal(sp.Matrix([-plain[0], _EXCESS + plain[1]]), sp.Matrix([pair.s, pair.skip + pair.tau]), "layer")
    w, e = sp.symbols("w e", positive=True)
    root = _root_parts(e)[0] / (1 - skip)
    # X = root e^{w}, e = e^{-2 w}: X^2 (1 - c) - 2 c cosh(w) X - (1 + c), times e.
    quadratic = (1 - skip) * root**2 - skip * (1 + e) * root - (1 + skip) * e
    prove_equal(sp.expand(sp.expand(quadratic) * (1 - skip)), sp.S.Zero, "root")
    u0, d = sp.symbols("u_0 d", real=True)
    tops = sp.symbols("m_1 m_2", real=True)
    made = elementary(_difference(d / 2, w, u0 + d / 2, tops))
    made /= elementary(_weight(u0 + d, w, tops[0]) * _weight(u0, w, tops[1]))
    difference = layer_of_scores(skip, u0 + d, w).tau - layer_of_scores(skip, u0, w).tau
    prove_equal(made, difference, "difference of tau")


_KERNELS = (_layer(), _root(), _beside(), _solve(), _narrow(), _widen(), _entries())

PACKAGE = KernelPackage(
    name="scores_untied_softmax_m2",
    compiled=False,  # the thresholds take arrays of nodes
    precise=False,
    title="Softmax attention with keys and queries, two tokens",
    activation="softmax",
    tokens=2,
    source="attnlimits.derive.kernels.untied_m2",
    kernels=_KERNELS,
    prove=_prove,
    domain="c > 0, all arguments real; each function states its own",
)
