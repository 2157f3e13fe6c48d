"""The linear operator of weak recovery, its diagonal form for tied layers, and the exact one-layer thresholds.

Near zero overlap the state evolution of an even model is linear: q -> alpha F(q) with the operator F of (15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import sympy as sp

from . import symbols
from .architecture import ACTIVATIONS, Architecture
from .channel import ReducedChannel, denoiser_from_moments, reduced_channel
from .proof import prove_equal

__all__ = [
    "LayerTerm",
    "UntiedOperator",
    "apply_operator",
    "curvature_blocks",
    "fibre_moment",
    "gram_eigenvalue",
    "layer_multipliers",
    "layer_term",
    "prove_parity",
    "scale_mean_square",
    "shift_loss",
    "single_layer_direction",
    "single_layer_eigenvalue",
    "single_layer_threshold",
    "untied_operator",
]


def curvature_blocks(second_moment: sp.Matrix, indices: int, tokens: int) -> list[list[sp.Matrix]]:
    """Return the P x P blocks G_{mm'} of d g_out(y, 0, I) = E[h h^T|y] - I.

    Parameters
    ----------
    second_moment : sympy.Matrix
        E[h h^T|y] of the stacked indices, PM x PM, token by token.
    indices, tokens : int
        P and M.

    Returns
    -------
    list of list of sympy.Matrix
        Entry [m][m'] of shape P x P.

    References
    ----------
    troiani2025, (12), (15).
    """
    zero = sp.zeros(indices, tokens)
    full = denoiser_from_moments(zero, second_moment, zero, sp.eye(indices)).d_g_out
    return [
        [full[m * indices : (m + 1) * indices, n * indices : (n + 1) * indices] for n in range(tokens)]
        for m in range(tokens)
    ]


def apply_operator(blocks: Sequence[Sequence[sp.Matrix]], overlap: sp.Matrix) -> sp.Matrix:
    """Return ``sum_{mm'} G_{mm'} M G_{mm'}^T`` for one output y; the operator (15) is its mean over y.

    Parameters
    ----------
    blocks : M x M nested sequence of sympy.Matrix
        G_{mm'}, each P x P, as `curvature_blocks` returns them.
    overlap : sympy.Matrix
        Direction M, symmetric P x P.

    Returns
    -------
    sympy.Matrix
        Shape P x P.

    References
    ----------
    troiani2025, (15).
    """
    total = sp.zeros(*overlap.shape)
    for row in blocks:
        for block in row:
            total += block * overlap * block.T
    return total


def _check_single(model: Architecture, what: str) -> None:
    if not model.single:
        raise ValueError(
            f"{what} needs the model of (2)-(7): tied, one head, output 'last'; got tied={model.tied}, "
            f"heads={model.heads}, output={model.output!r}. Use operator_matrix of a link's level sets for others"
        )


def prove_parity(model: Architecture, layer: int) -> None:
    """Prove that the link does not change when the indices of one tied layer change sign.

    The scores (5)-(6) of layer l are ``B_{l-1} (h_l^T h_l) B_{l-1}^T``, and h_l enters nowhere else. It
    follows that under N(0, I) the posterior has E[h_l h_{l'}^T|y] = 0 for l != l', hence that all blocks
    G_{mm'} are block-diagonal in the layers, (184).

    Parameters
    ----------
    model : Architecture
    layer : int
        Layer whose indices are reflected, 1 .. L.

    Raises
    ------
    ProofError
        If the scores are not a function of h_l^T h_l.
    ValueError
        If there is no such layer, or the model is not that of (2)-(7).
    """
    _check_single(model, "the parity of a layer")
    if not 1 <= layer <= model.layers:
        raise ValueError(f"layer must be 1 .. {model.layers}, got {layer}")
    h = model.index_matrices()[layer - 1]
    size = model.tokens
    # The earlier layers' matrix does not depend on h_l, so a generic one stands for it.
    earlier = sp.Matrix(size, size, lambda i, j: sp.Symbol(f"B_{i + 1}_{j + 1}", real=True))
    readout = h * earlier.T
    prove_equal(
        readout.T * readout,
        earlier * (h.T * h) * earlier.T,
        f"scores of layer {layer} as a function of h_l^T h_l",
    )
    prove_equal((-h).T * (-h), h.T * h, f"evenness of layer {layer}")


def layer_multipliers(model: Architecture) -> sp.Matrix:
    """Derive how the operator acts on rank-1 layers: entry by entry, ``F(M)_{ll'} = Lambda_{ll'} M_{ll'}``.

    By parity G_{mm'} = diag_l(G^l_{mm'}), so that Lambda_{ll'} = E sum_{mm'} G^l_{mm'} G^{l'}_{mm'}.  The
    largest multiplier lies on the diagonal (Cauchy-Schwarz): alpha_c = 1/max_l Lambda_ll.

    Parameters
    ----------
    model : Architecture
        All ranks 1.

    Returns
    -------
    sympy.Matrix
        L x L; the multipliers before the mean over y, in the symbols ``G<l>_<m>_<m'>``.

    Raises
    ------
    ValueError
        If a rank is larger than 1, or the model is not that of (2)-(7).
    ProofError
        If parity or the entrywise form fails.

    References
    ----------
    troiani2025, (184)-(185).
    """
    _check_single(model, "the diagonal form (184)-(185)")
    if set(model.rank_vector) != {1}:
        raise ValueError(f"entrywise multipliers need rank 1 in every layer, got ranks {model.rank_vector}")
    for layer in range(1, model.layers + 1):
        prove_parity(model, layer)
    size, tokens = model.layers, model.tokens

    def entry(layer: int, m: int, n: int) -> sp.Symbol:
        # G^l is symmetric in the tokens.
        return sp.Symbol(f"G{layer + 1}_{min(m, n) + 1}_{max(m, n) + 1}", real=True)

    blocks = [[sp.diag(*[entry(layer, m, n) for layer in range(size)]) for n in range(tokens)] for m in range(tokens)]
    overlap = sp.Matrix(size, size, lambda i, j: sp.Symbol(f"M_{min(i, j) + 1}_{max(i, j) + 1}", real=True))
    multipliers = sp.Matrix(
        size,
        size,
        lambda i, j: sp.Add(*[entry(i, m, n) * entry(j, m, n) for m in range(tokens) for n in range(tokens)]),
    )
    wanted = multipliers.multiply_elementwise(overlap)
    prove_equal(apply_operator(blocks, overlap), wanted, "operator of tied layers, (185)")
    return multipliers


@dataclass(frozen=True)
class LayerTerm:
    """Integrands of one layer's multiplier ``E_y ||E[h_l h_l^T|y] - I||_F^2`` at omega = 0, V = I.

    Attributes
    ----------
    channel : ReducedChannel
        With omega = 0 and V = I; its ``log_integrand`` weighs everything.
    quadratic : sympy.Matrix
        M x M matrix h_l^T h_l - I (averaged over the rank): its posterior mean is the token matrix G^l.
    """

    channel: ReducedChannel
    quadratic: sp.Matrix


def layer_term(model: Architecture, layer: int) -> LayerTerm:
    """Return the integrands of (184)-(185) for one rank-1 layer of a model.

    Parameters
    ----------
    model : Architecture
        Rank 1 in every layer.
    layer : int
        1 .. L.

    Returns
    -------
    LayerTerm

    Raises
    ------
    ValueError
        If there is no such layer, a rank is larger than 1, or the model is not that of (2)-(7).

    References
    ----------
    troiani2025, (184)-(185).
    """
    _check_single(model, "a layer's multiplier (184)-(185)")
    if not 1 <= layer <= model.layers:
        raise ValueError(f"layer must be 1 .. {model.layers}, got {layer}")
    if set(model.rank_vector) != {1}:
        raise ValueError(f"the terms need rank 1 in every layer, got ranks {model.rank_vector}")
    channel = reduced_channel(model).at(sp.zeros(model.indices, model.tokens), sp.eye(model.indices))
    row = channel.h[layer - 1, :]
    return LayerTerm(channel, row.T * row - sp.eye(model.tokens))


def _moment(polynomial: sp.Expr, variables: Sequence[sp.Symbol]) -> sp.Expr:
    """Return the mean of a polynomial over independent standard normal variables, by integration."""
    value = sp.expand(polynomial)
    for variable in variables:
        weight = sp.exp(-(variable**2) / 2) / sp.sqrt(2 * sp.pi)
        powers = sp.Poly(value, variable).all_terms()
        value = sp.expand(
            sp.Add(
                *[c * sp.integrate(variable ** k[0] * weight, (variable, -sp.oo, sp.oo)) for k, c in powers if c != 0]
            )
        )
    return value


def gram_eigenvalue(tokens: sp.Expr, rank: sp.Expr) -> sp.Expr:
    """Derive the eigenvalue of the operator (15) for a link that fixes K = h^T h, ``M (M + 1)/r``.

    A Haar rotation of h leaves K alone, so E[h_m h_{m'}^T|y] = (K_{mm'}/r) I and G_{mm'} = (K_{mm'}/r -
    delta_{mm'}) I.  The operator is a multiple of the identity, ``sum_{mm'} E (K_{mm'}/r - delta_{mm'})^2``: M
    diagonal and M (M - 1) other terms, whose means are those of a sum of r independent products.

    Parameters
    ----------
    tokens, rank : sympy.Expr
        M >= 1 and r >= 1.

    Returns
    -------
    sympy.Expr

    References
    ----------
    troiani2025, (15); derived here.
    """
    first, second = sp.symbols("z_1 z_2", real=True)
    # Mean and variance of the two kinds of product, summed over r independent rows.
    square_mean = _moment(first**2, [first])
    square_variance = _moment(first**4, [first]) - square_mean**2
    product_mean = _moment(first * second, [first, second])
    product_variance = _moment(first**2 * second**2, [first, second]) - product_mean**2
    diagonal = rank * square_variance / rank**2 + (rank * square_mean / rank - 1) ** 2
    other = rank * product_variance / rank**2 + (rank * product_mean / rank) ** 2
    return sp.factor(tokens * diagonal + tokens * (tokens - 1) * other)


def shift_loss(tokens: sp.Expr, rank: sp.Expr) -> sp.Expr:
    """Derive what a softmax output of rank r >= M misses of `gram_eigenvalue`, ``2 (r - M + 1)/r^2``.

    The output fixes K = h^T h up to K + s 1 1^T: in an orthonormal basis of the tokens that starts with
    e = 1/sqrt(M), all entries but K_ee.  K is a Wishart matrix, with density proportional to
    ``det(K)^{(r - M - 1)/2} e^{-tr(K)/2}``, and det(K) is linear in the Schur complement u of K_ee, so that given
    the rest u has density ``u^{(r - M - 1)/2} e^{-u/2}``, a chi-squared law of r - M + 1 degrees of freedom.
    Its variance is lost: E ||E[K|y]||^2 = E ||K||^2 - E Var[u].

    Parameters
    ----------
    tokens, rank : sympy.Expr
        M >= 2 and r >= M.

    Returns
    -------
    sympy.Expr

    References
    ----------
    Derived here.
    """
    u, freedom = sp.symbols("u n", positive=True)
    power = [sp.integrate(u ** (freedom / 2 - 1 + k) * sp.exp(-u / 2), (u, 0, sp.oo), conds="none") for k in range(3)]
    variance = sp.gammasimp(power[2] / power[0]) - sp.gammasimp(power[1] / power[0]) ** 2
    return sp.factor(sp.expand(variance).subs(freedom, rank - tokens + 1) / rank**2)


@cache
def fibre_moment(power: int, rho: sp.Symbol) -> sp.Expr:
    """Return the integral of r^p exp(-r^2/2 - rho^2/(2 r^2)) over r > 0, a Bessel function of order (p + 1)/2.

    Two Gaussian vectors whose outer product is observed keep one scale r free: (r, rho/r) are their norms.

    Parameters
    ----------
    power : int
        p. An even one gives an elementary function.
    rho : sympy.Symbol
        Positive.

    Returns
    -------
    sympy.Expr
    """
    if power % 2:
        # r^2 = rho e^x turns it into the integral of exp(-rho cosh x) cosh(nu x), which defines K_nu.
        order = sp.Rational(power + 1, 2)
        return rho**order * sp.besselk(order, rho)
    r = sp.Symbol("r", positive=True)
    made = sp.integrate(r**power * sp.exp(-(r**2) / 2 - rho**2 / (2 * r**2)), (r, 0, sp.oo))
    return sp.simplify(made.rewrite(sp.exp))


def _norm_product(power: int, first: sp.Expr, second: sp.Expr) -> sp.Expr:
    """Return E |z|^p E |z'|^p of standard Gaussian vectors of these sizes, which differ by 0 or 1."""
    r, n = sp.symbols("r n", positive=True)
    over, under = (
        sp.integrate(r ** (n - 1 + k) * sp.exp(-(r**2) / 2), (r, 0, sp.oo), conds="none") for k in (power, 0)
    )
    ratio = over / under
    # As one quotient of gamma functions of n, which is rational for sizes n, n - 1 and for even powers.
    product = sp.powsimp(sp.expand_func(sp.gammasimp(ratio * ratio.subs(n, n - (first - second)))))
    return product.subs(n, first)


def scale_mean_square(tokens: sp.Expr) -> sp.Expr:
    """Return E[E[|k|^2 | k q^T]^2] of two Gaussian vectors of size M, as one integral.

    The norms have density (r t)^{M-1} e^{-(r^2 + t^2)/2}; given rho = r t, that of r is e^{-r^2/2 -
    rho^2/(2 r^2)}/r, so E[|k|^2|rho] = rho K_1(rho)/K_0(rho), and rho has density proportional to rho^{M-1}
    K_0(rho).  No closed form of the integral is known.

    Parameters
    ----------
    tokens : sympy.Expr
        M >= 1.

    Returns
    -------
    sympy.Expr
        With a ``sympy.Integral``.

    References
    ----------
    Derived here.
    """
    rho, s = sp.Symbol("rho", positive=True), sp.Symbol("s", positive=True)
    density = fibre_moment(-1, rho)
    mean = fibre_moment(1, rho) / density
    # The Mellin transform of K_0 is what normalises the density.
    total = sp.gammasimp(sp.integrate(rho ** (s - 1) * density, (rho, 0, sp.oo), conds="none")).subs(s, tokens)
    integrand = sp.powsimp(rho ** (tokens - 1) * density * mean**2)
    return sp.Integral(integrand, (rho, 0, sp.oo)) / total


@dataclass(frozen=True)
class UntiedOperator:
    """The operator (15) of one untied layer of rank 1, in the symmetric matrices over (k, q).

    By the reflection k -> -k of the law it does not mix the diagonal with the cross term:
    ``F(M)_kk = kk M_kk + cross M_qq``, ``F(M)_qq = cross M_kk + qq M_qq``, ``F(M)_kq = off M_kq``.

    Attributes
    ----------
    kk, qq, cross, off : sympy.Expr
        In M; with an unevaluated integral for the linear activation.
    """

    kk: sp.Expr
    qq: sp.Expr
    cross: sp.Expr
    off: sp.Expr

    @property
    def top(self) -> sp.Expr:
        """The larger eigenvalue of the diagonal part; every other one, `off` included, is smaller."""
        if self.kk == self.qq:
            return self.kk + self.cross
        half = sp.factor((self.kk - self.qq) / 2)
        return sp.factor(sp.factor((self.kk + self.qq) / 2) + sp.sqrt(sp.factor(half**2 + self.cross**2)))

    @property
    def direction(self) -> sp.Matrix:
        """Its eigenvector, diagonal with positive entries, Frobenius norm 1."""
        if self.kk == self.qq:
            return sp.eye(2) / sp.sqrt(2)
        ratio = sp.factor((self.top - self.kk) / self.cross)
        return sp.diag(1, ratio) / sp.sqrt(1 + ratio**2)


@cache
def untied_operator(tokens: sp.Expr = symbols.tokens, activation: str = "softmax") -> UntiedOperator:
    """Derive the operator (15) of one untied layer of rank 1.

    Softmax rows of k_a q_b fix k_a (q_b - q_c): with d the part of q orthogonal to the all-ones vector, they fix
    k d^T and leave free the mean of q, which the output carries no information on, and one scale: the
    directions of k and d (up to a common sign) and rho = |k||d| are known.  The norms have densities r^{M-1}
    e^{-r^2/2} and t^{M-2} e^{-t^2/2} (M - 1 dimensions), so that given rho that of r is e^{-r^2/2 - rho^2/(2 r^2)},
    for any M.  The linear activation fixes k q^T, with M dimensions for both.

    The output does not change under (k, q) -> (-k, -q), so E[k|y] = E[q|y] = 0 and zero overlap is a fixed point of the
    state evolution at every alpha. The direction that leaves it first is diagonal: keys and queries gain overlap with
    their own weights, each through the other; the cross overlap M_kq is stable up to a larger alpha, for every M.

    With E[|k|^2|y] = a(rho), E[|d|^2|y] = b(rho) and unit directions u, w: G^kk = a u u^T - I,
    G^qq = b w w^T - Q, G^kq = rho u w^T, where Q is the projection on the space of d.

    Parameters
    ----------
    tokens : sympy.Expr
        M >= 2; a symbol gives formulas.
    activation : {"softmax", "linear"}

    Returns
    -------
    UntiedOperator

    References
    ----------
    troiani2025, (15), (19)-(24); derived here.
    """
    rho = sp.Symbol("rho", positive=True)
    # Dimensions of k and of the part of q that is seen, and the power of r in the density of |k| given rho.
    n_k, n_q = tokens, tokens - 1 if activation == "softmax" else tokens
    power = 0 if activation == "softmax" else -1
    density = fibre_moment(power, rho)
    a = sp.expand(sp.cancel(fibre_moment(power + 2, rho) / density))
    b = sp.expand(sp.cancel(rho**2 * fibre_moment(power - 2, rho) / density)) if power == 0 else a

    def mean(polynomial: sp.Expr) -> sp.Expr:
        # rho = |k||d| with independent norms.
        terms = sp.Poly(polynomial, rho).terms()
        return sp.factor(sp.Add(*[c * _norm_product(exponent, n_k, n_q) for (exponent,), c in terms]))

    cross = mean(rho**2)
    if power == 0:
        kk, qq = mean(a**2 - 2 * a + n_k), mean(b**2 - 2 * b + n_q)
        # tr(G^kk G^qq) + tr(G^kq G^qk) with E (u.w)^2 = 1/M and E |Q u|^2 = n_q/M.
        off = mean(a * b / n_k - a * n_q / n_k - b + n_q) + cross / n_k
    else:
        square = scale_mean_square(tokens)
        # E a = E|k|^2 = M by the tower property.
        kk = qq = square - n_k
        off = square / n_k - n_k + cross / n_k
    return UntiedOperator(kk, qq, cross, sp.factor(off) if power == 0 else sp.expand(off))


def single_layer_eigenvalue(
    tokens: int | sp.Expr = symbols.tokens,
    rank: int | sp.Expr = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
    wide: bool | None = None,
) -> sp.Expr:
    """Derive the top eigenvalue of the operator (15) for one layer.

    Tied: `gram_eigenvalue` ``M (M + 1)/r``, less `shift_loss` ``2 (r - M + 1)/r^2`` for softmax with r >= M.
    Untied, rank 1: `untied_operator`; ``(M - 1)(M + sqrt(M^2 + 1))`` for softmax, one integral for linear.
    Neither the skip strength nor beta matters: both are known and undone.

    Parameters
    ----------
    tokens : int or sympy.Expr
        M >= 2; a symbol gives the formula.
    rank : int or sympy.Expr
        r >= 1; 1 if untied.
    activation : {"softmax", "linear"}
    tied : bool
        Whether keys equal queries.
    wide : bool, optional
        Whether r >= M, where tokens or rank is a symbol (default: no); numbers decide it themselves.

    Returns
    -------
    sympy.Expr

    Raises
    ------
    ValueError
        For numbers outside the domain, and for untied layers of rank above 1: there the fibre is GL(r), the
        moments are logarithmic derivatives of a Bessel function of a matrix, and no closed form is known.

    References
    ----------
    troiani2025, (15)-(16); the values are derived here.
    """
    number_of_tokens, r = sp.sympify(tokens), sp.sympify(rank)
    _check_single_layer(number_of_tokens, r, activation, tied)
    if not tied:
        return untied_operator(number_of_tokens, activation).top
    value = gram_eigenvalue(number_of_tokens, r)
    if number_of_tokens.is_number and r.is_number:
        wide = bool(r >= number_of_tokens)
    if activation == "softmax" and wide:
        value = sp.factor(value - shift_loss(number_of_tokens, r))
    return value


def _check_single_layer(tokens: sp.Expr, rank: sp.Expr, activation: str, tied: bool) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
    for name, value, least in (("tokens", tokens, 2), ("rank", rank, 1)):
        if value.is_number and not (value.is_Integer and int(value) >= least):
            raise ValueError(f"{name} must be an integer >= {least}, got {value}")
    if not tied and rank != 1:
        raise ValueError(
            f"an untied layer has a closed form for rank 1, got {rank}: at higher rank the output leaves a matrix of "
            "GL(r) free; use rank 1 or tied=True"
        )


def single_layer_direction(
    tokens: int | sp.Expr = symbols.tokens,
    rank: int | sp.Expr = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
) -> sp.MatrixExpr | sp.Matrix:
    """Return the direction in S_P that becomes unstable at the threshold, Frobenius norm 1.

    Tied: every direction has the same eigenvalue, and I/sqrt(r) stands for them. Untied: diagonal in (k, q) with
    two positive entries; keys and queries are learned together, their cross overlap is not.

    Parameters
    ----------
    tokens, rank, activation, tied
        As `single_layer_eigenvalue`.

    Returns
    -------
    sympy.Matrix or sympy.MatrixExpr
        P x P.
    """
    number_of_tokens, r = sp.sympify(tokens), sp.sympify(rank)
    _check_single_layer(number_of_tokens, r, activation, tied)
    if not tied:
        return untied_operator(number_of_tokens, activation).direction
    return (sp.eye(int(r)) if r.is_Integer else sp.Identity(r)) / sp.sqrt(r)


def single_layer_threshold(
    tokens: int | sp.Expr = symbols.tokens,
    rank: int | sp.Expr = 1,
    activation: str = "softmax",
    *,
    tied: bool = True,
    wide: bool | None = None,
) -> sp.Expr:
    """Return the weak-recovery threshold of one layer, the inverse of `single_layer_eigenvalue`, exactly.

    Parameters
    ----------
    tokens, rank, activation, tied, wide
        As `single_layer_eigenvalue`.

    Returns
    -------
    sympy.Rational or sympy.Expr
        A number for integers, the formula for symbols.

    Raises
    ------
    ValueError
        For numbers outside the domain.

    References
    ----------
    troiani2025, (16).

    Examples
    --------
    >>> single_layer_threshold(2)
    1/6
    >>> single_layer_threshold(2, 2)
    2/5
    >>> single_layer_threshold(2, tied=False)
    -2 + sqrt(5)
    """
    value = single_layer_eigenvalue(tokens, rank, activation, tied=tied, wide=wide)
    if value.has(sp.Integral):
        return 1 / value
    return sp.Mul(*[sp.radsimp(1 / factor) for factor in sp.Mul.make_args(value)])
