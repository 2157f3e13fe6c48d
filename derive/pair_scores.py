"""Softmax layers of two tokens, of any rank, tied or with keys and queries: the two numbers that they enter through.

In the modes (1, 1) and (1, -1) of the tokens a layer's scores enter through u = k_m.q_m and w = k_p.q_m alone
(`PairLayer`), and the mixing matrix before it is K [[1, S], [0, T]]: with k and q the indices, k_m is seen as K T k_m
and k_p as K (k_p + S k_m). What y fixes of the last layer is thus, in units of beta K^2,

    u = T^2 x_m,  w = T (x_p + S x_m),  x = t (k_p.e, k_m.e),  q_m = t e.

The mean q_p of the queries and what keys have across e are left free; e is uniform on the sphere and t has the law
chi_r. Given x, of norm rho, t has density t^{r-3} exp(-t^2/2 - rho^2/(2 t^2)), whose integral f(rho) is the density of
x in the plane; its moments, m(rho) = E[t^2|x] and E[t^-2|x], are those of one layer (`linearization.untied`). Tied
layers are the case k = q = h: u = T^2 t^2 and w = T t (h_p.e + S t), as at rank 1 with t > 0 of law chi_r.
"""

import sympy as sp

from .architecture import Architecture
from .linearization.untied import fibre_moment
from .mixing import activate, score_matrices
from .proof import ProofError, prove_equal
from .softmax_pair import layer_of_scores, to_modes
from .symbols import mode_rotation

__all__ = [
    "posterior_entries",
    "prove_fibre",
    "prove_layer",
    "prove_scores",
    "seen_scores",
    "solved_scores",
    "wider_fibre",
]


def seen_scores(x_plus: sp.Expr, x_minus: sp.Expr, upper: sp.Expr, lower: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Return (u, w), in units of beta K^2, of a layer behind the mixing matrix K [[1, S], [0, T]].

    Parameters
    ----------
    x_plus, x_minus : sympy.Expr
        k_p.q_m and k_m.q_m of the indices.
    upper, lower : sympy.Expr
        S and T.
    """
    return lower**2 * x_minus, lower * (x_plus + upper * x_minus)


def solved_scores(u: sp.Expr, w: sp.Expr, upper: sp.Expr, lower: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """Return x_p, x_m and d(u, w)/d(x_m, x_p) of `seen_scores`, by solving it."""
    plus, minus = sp.symbols("x_p x_m", real=True)
    shown = sp.Matrix(seen_scores(plus, minus, upper, lower))
    (found,) = sp.solve(list(shown - sp.Matrix([u, w])), [plus, minus], dict=True)
    return sp.expand(found[plus]), found[minus], shown.jacobian([minus, plus]).det()


def wider_fibre(density: sp.Expr, mean: sp.Expr, rho: sp.Expr, rank: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Return f and m at rank r + 2 from those at rank r.

    With I_p(rho) the integral of t^p exp(-t^2/2 - rho^2/(2 t^2)), f_r = I_{r-3} up to a constant and m_r =
    I_{r-1}/I_{r-3}; integration by parts gives ``I_{p+2} = (p + 1) I_p + rho^2 I_{p-2}``. Normalised so that the
    integral of rho f_r stays the same.
    """
    return density * mean / rank, rho**2 / mean + rank


def posterior_entries(
    a_plus: sp.Expr, a_minus: sp.Expr, rho: sp.Expr, mean: sp.Expr, rank: sp.Expr
) -> dict[str, sp.Expr]:
    """Return E[h h^T | x] of the last layer, in multiples of the identity of rank r, at x = rho (a_p, a_m).

    Rotations of the r rows leave x alone: E[k_a k_b^T | x] = (x_a x_b E[t^-2|x] + (r - 1) delta_ab)/r I, where
    E[t^-2|x] = (m - r + 2)/rho^2; E[k_a q_m^T | x] = x_a/r I, E[q_m q_m^T | x] = m/r I.

    Returns
    -------
    dict of str to sympy.Expr
        Less the identity; of the keys, of keys with queries, and of the queries.
    """
    inverse = mean - rank + 2
    return {
        "kk_pp": (a_plus**2 * inverse - 1) / rank,
        "kk_pm": a_plus * a_minus * inverse / rank,
        "kk_mm": (a_minus**2 * inverse - 1) / rank,
        "kq_pm": rho * a_plus / rank,
        "kq_mm": rho * a_minus / rank,
        "qq_mm": mean / rank - 1,
    }


def prove_scores(rank: int) -> None:
    """Prove what this module says of the scores at one rank, against the attention matrices of the architecture.

    Raises
    ------
    ProofError
        If an identity does not reduce to zero.

    References
    ----------
    troiani2025, (5), (19)-(24); derived here.
    """
    upper, lower = sp.symbols("S T", real=True)
    rotation = mode_rotation()
    before = rotation * sp.Matrix([[1, upper], [0, lower]]) * rotation.T
    for tied in (True, False):
        model = Architecture(layers=1, tokens=2, ranks=rank, tied=tied)
        (indices,) = model.index_matrices()
        modes = indices * rotation
        x_plus, x_minus = modes[:rank, :].T * modes[-rank:, 1]
        u, w = seen_scores(x_plus, x_minus, upper, lower)
        (scores,) = score_matrices(model, 1, before, indices)
        shown = [scores[0, 0] - scores[0, 1], scores[1, 1] - scores[1, 0]]
        prove_equal(sp.Matrix(shown), sp.Matrix([u + w, u - w]), f"{model.name}: differences of scores")


def prove_layer() -> None:
    """Prove the triangular form of a softmax layer whose rows have the score differences u + w and u - w."""
    model = Architecture(layers=1, tokens=2, tied=False)
    u, w = sp.symbols("u w", real=True)
    scores = sp.Matrix([[u + w, 0], [0, u - w]]) / model.beta
    made = to_modes(model.skip * sp.eye(2) + activate(model, scores))
    prove_equal(made, layer_of_scores(model.skip, u, w).matrix, "softmax layer of two scores")


def prove_fibre() -> None:
    """Prove the integration by parts behind `wider_fibre` and `posterior_entries`, and where they begin."""
    t, rho = sp.symbols("t rho", positive=True)
    power, rank = sp.symbols("p r", positive=True)

    def term(p: sp.Expr) -> sp.Expr:
        return t**p * sp.exp(-(t**2) / 2 - rho**2 / (2 * t**2))

    whole = sp.diff(term(power + 1), t)
    parts = (power + 1) * term(power) - term(power + 2) + rho**2 * term(power - 2)
    if sp.simplify((whole - parts) / term(power)) != 0:
        raise ProofError("moments of the fibre: integration by parts")
    for first in (1, 3):
        low, middle, high = (fibre_moment(first - 3 + 2 * k, rho) for k in range(3))
        made = wider_fibre(low, middle / low, rho, rank)
        prove_equal(sp.Matrix([made[0] * rank, made[1].subs(rank, first)]), sp.Matrix([middle, high / middle]), "fibre")
