"""The flow limit: depth and skip strength to infinity together, L/c = kappa.

With epsilon = 1/c the recursion (46)-(47) reads ``B_l - B_{l-1} = epsilon sigma_l B_{l-1}`` where sigma_l is the
activation at fresh indices h_l, independent of B_{l-1}.  Split sigma_l into its mean given B_{l-1} and the rest.  The
means add up over the kappa/epsilon layers to an integral; the rest is a martingale of kappa/epsilon steps of size
epsilon, of variance epsilon kappa times a constant, and vanishes.  With t = epsilon l the limit is deterministic:

    dB/dt = S(B) B,   S(B) = E[sigma(B h^T h B^T)],   B(0) = I.

The martingale is what is left at order epsilon^{1/2}: ``B_l = B(t) + epsilon^{1/2} X(t) + ..`` with
``dX = (S(B) B)'[X] dt + dW`` and cov(dW) = cov(sigma B) dt; the mean differs at order epsilon.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from . import symbols
from .architecture import Architecture
from .depth import rescaled_link
from .proof import prove_equal

__all__ = [
    "LinearFlow",
    "LinearFluctuations",
    "PairFlow",
    "invariant_matrix",
    "linear_flow",
    "linear_fluctuations",
    "pair_flow",
    "prove_equivariance",
    "prove_invariant_form",
    "time",
    "untied_flow",
]

#: Time t = l/c, from 0 to kappa = L/c.
time = sp.Symbol("t", nonnegative=True)


def _permutation(tokens: int, order: Sequence[int]) -> sp.Matrix:
    return sp.Matrix(tokens, tokens, lambda i, j: int(order[i] == j))


def _generators(tokens: int) -> list[sp.Matrix]:
    """Return a transposition and a cycle, which generate all permutations."""
    return [
        _permutation(tokens, [1, 0, *range(2, tokens)]),
        _permutation(tokens, [*range(1, tokens), 0]),
    ]


def invariant_matrix(tokens: int, plus: sp.Expr, minus: sp.Expr) -> sp.Matrix:
    """Return ``b_p J + b_m (I - J)`` with J = 1 1^T/M: b_p on the all-ones vector, b_m on its complement."""
    uniform = sp.ones(tokens, tokens) / tokens
    return plus * uniform + minus * (sp.eye(tokens) - uniform)


def prove_invariant_form(tokens: int) -> None:
    """Prove that a matrix commutes with all permutations of the tokens only if it is `invariant_matrix`.

    Raises
    ------
    ProofError
        If the commuting matrices are not those of this form.
    """
    entries = sp.Matrix(tokens, tokens, lambda i, j: sp.Symbol(f"S_{i}_{j}"))
    equations = [e for p in _generators(tokens) for e in p * entries - entries * p]
    ((solution),) = sp.linsolve(equations, list(entries))
    free = sorted(sp.Tuple(*solution).free_symbols, key=str)
    general = sp.Matrix(tokens, tokens, list(solution))
    on_ones = sum(general[0, :], sp.S.Zero)
    off_ones = general[0, 0] - general[0, 1]
    if len(free) != 2:
        prove_equal(sp.Integer(len(free)), sp.Integer(2), "number of free entries of an invariant matrix")
    prove_equal(general, invariant_matrix(tokens, on_ones, off_ones), "invariant matrices")


def prove_equivariance(model: Architecture) -> None:
    """Prove that relabelling the tokens of h relabels rows and columns of sigma, for one layer.

    With Q a permutation: sigma at h Q^T is Q sigma Q^T. The law of h does not change, so if B commutes with all Q
    then so does S(B), and B(t) keeps the form of `invariant_matrix` from B(0) = I on.

    Raises
    ------
    ValueError
        For several heads, whose mixing matrices are not of this form.
    ProofError
        If an entry differs.
    """
    if model.heads > 1:
        raise ValueError(f"the flow limit is derived for one head, got heads={model.heads}")
    one = Architecture(1, model.tokens, model.rank_vector[0], model.activation, model.tied, model.skip, model.beta)
    (h,) = one.index_matrices()
    plain = rescaled_link(one, [h])
    for q in _generators(model.tokens):
        prove_equal(rescaled_link(one, [h * q.T]), q * plain * q.T, "relabelled tokens")


@dataclass(frozen=True)
class LinearFlow:
    """A flow limit in closed form: ``B(t) = b_p J + b_m (I - J)``.

    Attributes
    ----------
    plus, minus : sympy.Expr
        b_p and b_m as functions of t.
    blow_up : sympy.Expr
        kappa* at which B diverges; ``oo`` if it never does.
    """

    plus: sp.Expr
    minus: sp.Expr
    blow_up: sp.Expr

    def matrix(self, tokens: int) -> sp.Matrix:
        """Return B(t), M x M."""
        return invariant_matrix(tokens, self.plus, self.minus)


def linear_flow(rank: sp.Expr = sp.S.One, beta: sp.Expr = symbols.beta) -> LinearFlow:
    """Solve the flow of tied linear attention: ``B(t) = (1 - 2 beta r t)^{-1/2} I``.

    E[h^T h] = r I, so S(B) = beta r B B^T, and b I stays of that form with ``db/dt = beta r b^3``. It diverges at
    kappa* = 1/(2 beta r): the linear activation has no flow limit for deeper networks.

    Parameters
    ----------
    rank : sympy.Expr
        r >= 1.
    beta : sympy.Expr
    """
    rate = beta * sp.sympify(rank)
    # Separated: dt/db = 1/(rate b^3), t(1) = 0.
    value = sp.Symbol("b", positive=True)
    elapsed = sp.integrate(1 / (rate * value**3), (value, 1, value))
    square = sp.Symbol("b2", positive=True)
    (root,) = sp.solve(elapsed.subs(value, sp.sqrt(square)) - time, square)
    # Written with 1 - 2 beta r t, which is positive up to the divergence.
    solution = 1 / sp.sqrt(sp.expand(sp.cancel(1 / root)))
    prove_equal(solution.diff(time), rate * solution**3, "flow of linear attention")
    blow_up = sp.limit(elapsed, value, sp.oo)
    return LinearFlow(solution, solution, sp.simplify(blow_up))


@dataclass(frozen=True)
class LinearFluctuations:
    """How tied linear networks of depth L differ from their flow limit, to first order in 1/c.

    Attributes
    ----------
    diagonal, off_diagonal : sympy.Expr
        c times the variance of an entry of B_L in any orthonormal basis of the tokens.
    bias : sympy.Expr
        c times the mean of a diagonal entry less b; off the diagonal the mean is zero.
    """

    diagonal: sp.Expr
    off_diagonal: sp.Expr
    bias: sp.Expr


def linear_fluctuations(
    tokens: sp.Expr = symbols.tokens, rank: sp.Expr = sp.S.One, beta: sp.Expr = symbols.beta
) -> LinearFluctuations:
    """Solve the fluctuations of tied linear attention: ``c Var[B_mn] = beta^2 r (1 + delta_mn) t b^6``.

    With f(B) = beta r B B^T B and a symmetric deviation X, f(b I + X) = f(b I) + 3 beta r b^2 X + 3 beta r b X^2 + ..,
    and the noise of a layer is beta b^3 (h^T h - r I), of variance beta^2 b^6 r (1 + delta_mn). So
    ``dV/dt = 6 beta r b^2 V + beta^2 b^6 r (1 + delta)`` and, as E[X^2] = (M + 1) V_off I and b'' is what the
    recursion lacks to the equation, ``dm/dt = 3 beta r b^2 m + 3 beta r b (M + 1) V_off - b''/2``.

    Raises
    ------
    ProofError
        If the expansion of f or a solution fails.
    """
    # The expansion of f, on a symmetric 2 x 2 deviation.
    b, eta, r = sp.Symbol("b", positive=True), sp.Symbol("eta", real=True), sp.sympify(rank)
    x = sp.Matrix(2, 2, lambda i, j: sp.Symbol(f"X_{min(i, j)}{max(i, j)}", real=True))
    moved = b * sp.eye(2) + eta * x
    cubic = moved * moved.T * moved
    prove_equal(cubic.diff(eta).subs(eta, 0), 3 * b**2 * x, "first order of the drift")
    prove_equal(cubic.diff(eta, 2).subs(eta, 0) / 2, 3 * b * x**2, "second order of the drift")

    flow = linear_flow(r, beta).plus
    # Integrating factors: of V' = 6 beta r b^2 V + .. it is b^6, of m' = 3 beta r b^2 m + .. it is b^3.
    off = flow**6 * sp.integrate(sp.simplify(beta**2 * flow**6 * r / flow**6), (time, 0, time))
    prove_equal(sp.simplify(off.diff(time) - 6 * beta * r * flow**2 * off), beta**2 * flow**6 * r, "variance")
    source = 3 * beta * r * flow * (tokens + 1) * off - flow.diff(time, 2) / 2
    scaled = sp.apart(sp.cancel(sp.simplify(source / flow**3)), time)
    # The antiderivative over s = 1 - 2 beta r t, which is positive before the divergence.
    s = sp.Symbol("s", positive=True)
    in_s = sp.expand(sp.cancel(scaled.subs(time, (1 - s) / (2 * beta * r))) / (-2 * beta * r))
    antiderivative = sp.integrate(in_s, s)
    bias = flow**3 * (antiderivative - antiderivative.subs(s, 1)).subs(s, 1 - 2 * beta * r * time)
    prove_equal(sp.simplify(bias.diff(time) - 3 * beta * r * flow**2 * bias - source), sp.S.Zero, "bias")
    return LinearFluctuations(2 * off, off, bias)


def untied_flow(tokens: int, activation: str = "softmax") -> LinearFlow:
    """Solve the flow of an untied layer: keys and queries are independent, and B(t) needs no solver.

    Linear: E[k^T q] = 0 and B stays I. Softmax: given k the entries of q B^T are exchangeable for an invariant B, so
    that every entry of a row of S has the same mean, 1/M: S = J, and B(t) = I + (e^t - 1) J. The attention of such a
    network is uniform to leading order; all it learns lies in the fluctuations.

    Parameters
    ----------
    tokens : int
        M >= 2.
    activation : {"softmax", "linear"}

    Raises
    ------
    ValueError
        For another activation.
    ProofError
        If the mean over the relabellings is not uniform.
    """
    if activation == "linear":
        return LinearFlow(sp.S.One, sp.S.One, sp.oo)
    if activation != "softmax":
        raise ValueError(f"activation must be softmax or linear, got {activation!r}")
    model = Architecture(1, tokens, activation="softmax", tied=False, beta=sp.S.One)
    (h,) = model.index_matrices()
    cycle = _generators(tokens)[1]
    # Relabel the queries alone: the mean over the cyclic group is uniform whatever k and q are.
    total = sp.zeros(tokens, tokens)
    for shift in range(tokens):
        total += rescaled_link(model, [sp.Matrix.vstack(h[0, :], h[1, :] * cycle**shift)])
    prove_equal(total / tokens, sp.ones(tokens, tokens) / tokens, "uniform mean over relabelled queries")
    return LinearFlow(sp.exp(time), sp.S.One, sp.oo)


@dataclass(frozen=True)
class PairFlow:
    """Flow limit of tied softmax attention at M = 2, in modes ``B = [[a, S], [0, T]]``.

    All expressions but the last hold for one draw of the indices, with rho = |x_m| of a chi law of r degrees of
    freedom and z = x_p . x_m/rho standard normal; their means over (rho, z) enter the equations

        a = e^t,  S = 0,  db/dt = b E[tau]                                            (limit)
        dV_T/dt = 2 (d/dT) E[T tau] V_T + b^2 Var[tau]                                (variance of T, times c)
        dV_S/dt = 2 (1 + b (d/dS) E[s]) V_S + b^2 E[s^2]                              (variance of S, times c)
        dm/dt = (d/dT) E[T tau] m + (1/2)(d/dT)^2 E[T tau] V_T + (b/2)(d/dS)^2 E[tau] V_S
                - (t a/2) b (d/da) E[tau] - (1/2) b''                                 (mean of T - b, times c)

    T and S do not mix: S -> -S is a symmetry, x_p -> -x_p.  The last two terms of dm/dt are the difference between
    (1 + 1/c)^l and e^t, and between the recursion and the equation.

    Attributes
    ----------
    plus, cross, minus, radius, angle : sympy.Symbol
        a, S, T, rho and z.
    tau, s : sympy.Expr
        y_11 + y_22 - 1 and y_11 - y_22.
    tau_t, tau_tt, tau_a, tau_ss, s_s : sympy.Expr
        Derivatives of tau and s at S = 0.
    """

    plus: sp.Symbol
    cross: sp.Symbol
    minus: sp.Symbol
    radius: sp.Symbol
    angle: sp.Symbol
    tau: sp.Expr
    s: sp.Expr
    tau_t: sp.Expr
    tau_tt: sp.Expr
    tau_a: sp.Expr
    tau_ss: sp.Expr
    s_s: sp.Expr


def pair_flow(beta: sp.Expr = symbols.beta) -> PairFlow:
    """Derive the integrands of the flow limit and of its fluctuations, tied softmax at M = 2, any rank.

    Raises
    ------
    ProofError
        If the layer is not triangular in modes.
    """
    plus, minus, radius = sp.symbols("a T rho", positive=True)
    cross, angle = sp.symbols("S z", real=True)
    # Readout v = h B^T in modes; rank 2 shows the general case: only |x_m| and x_p . x_m enter.
    rotation = symbols.mode_rotation()
    model = Architecture(1, 2, 2, beta=beta)
    x = sp.Matrix(2, 2, lambda k, m: sp.Symbol(f"x_{k}_{'pm'[m]}", real=True))
    modes = sp.Matrix([[plus, cross], [0, minus]])
    layer = rotation.T * rescaled_link(model, [x * modes.T * rotation.T]) * rotation
    u = beta * minus**2 * (x[:, 1].T * x[:, 1])[0]
    w = beta * minus * (plus * (x[:, 0].T * x[:, 1])[0] + cross * (x[:, 1].T * x[:, 1])[0])
    first, second = 1 / (1 + sp.exp(-u - w)), 1 / (1 + sp.exp(w - u))
    prove_equal(layer, sp.Matrix([[1, first - second], [0, first + second - 1]]), "layer in modes")
    above = beta * minus * radius * ((minus + cross) * radius + plus * angle)
    below = beta * minus * radius * ((minus - cross) * radius - plus * angle)
    p, q = 1 / (1 + sp.exp(-above)), 1 / (1 + sp.exp(-below))
    tau, s = p + q - 1, p - q
    at = {cross: 0}
    return PairFlow(
        plus,
        cross,
        minus,
        radius,
        angle,
        tau,
        s,
        tau.diff(minus).subs(at),
        tau.diff(minus, 2).subs(at),
        tau.diff(plus).subs(at),
        tau.diff(cross, 2).subs(at),
        s.diff(cross).subs(at),
    )
