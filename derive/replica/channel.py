"""The law of the replicated indices (145)-(148) and the channel part (132), (152)-(158), for symbolic n.

Every matrix in these formulas is a function of q, so that in its eigenbasis they hold entry by entry: one index is the
general case.  A quadratic form of all replicas needs two power sums over them, whatever their number, and that is how n
stays a symbol.
"""

from collections.abc import Sequence

import sympy as sp

from ..proof import ProofError, prove_equal
from .replica import extra_replicas, overlap, overlap_matrix, slope

__all__ = [
    "prove_decoupled_channel",
    "prove_decoupled_law",
    "prove_decoupled_law_at",
    "prove_gaussian_integral",
    "prove_small_channel",
]

_XI = sp.Symbol("xi", real=True)


def prove_gaussian_integral() -> None:
    """Prove int D xi exp(-k xi^2/2 + b xi) = (1 + k)^{-1/2} exp(b^2/(2 (1 + k))), the one integral that is needed.

    Raises
    ------
    ProofError
        If SymPy's integral is another.
    """
    k, b = sp.Symbol("k", positive=True), sp.Symbol("b", real=True)
    integral = sp.integrate(
        sp.exp(-(1 + k) * _XI**2 / 2 + b * _XI) / sp.sqrt(2 * sp.pi), (_XI, -sp.oo, sp.oo), manual=True
    )
    stated = sp.exp(b**2 / (2 * (1 + k))) / sp.sqrt(1 + k)
    prove_equal(sp.powsimp(sp.expand(integral / stated)) ** 2, sp.S.One, "Gaussian average of an exponential")


def prove_decoupled_law(square: sp.Expr | None = None) -> None:
    """Prove (145)-(148): N(0, Q) is the average over xi of the product of N(h^a; q^{1/2} xi, I - q), for symbolic n.

    Parameters
    ----------
    square : sympy.Expr, optional
        Coefficient K of (sum_a h^a)^2/2 in the exponent; by default that of (146).

    Raises
    ------
    ProofError
        If the exponents, or the squares of the prefactors, differ.
    """
    n, q = extra_replicas, overlap
    replicas = n + 1
    # Power sums of h^a over the replicas.
    total, squares = sp.symbols("s_1 s_2", real=True)
    if square is None:
        square = q / ((1 - q) * (1 + n * q))
    inverse = overlap_matrix().inverse()
    direct = -(inverse.diagonal - inverse.off) * squares / 2 - inverse.off * total**2 / 2
    stated = -squares / (2 * (1 - q)) + square * total**2 / 2
    prove_equal(direct, stated, "exponent of (145) against that of (146)")
    # sum_a -(h^a - q^{1/2} xi)^2/(2 (1 - q)): what multiplies -xi^2/2, xi and 1.
    curvature = replicas * q / (1 - q)
    linear = sp.sqrt(q) * total / (1 - q)
    averaged = -squares / (2 * (1 - q)) + linear**2 / (2 * (1 + curvature))
    prove_equal(averaged, stated, "exponent of (148) against that of (146)")
    # (1 + k)(1 - q)^N = det Q = (1 - q)^n (1 + n q), both divided by (1 - q)^n.
    prove_equal((1 + curvature) * (1 - q), overlap_matrix().together, "prefactor of (148) against det Q")


def prove_decoupled_law_at(replicas: int) -> None:
    """Prove (148) for one index and an integer number of replicas by integrating over xi.

    Parameters
    ----------
    replicas : int
        N = n + 1 >= 1.

    Raises
    ------
    ProofError
        If the two densities differ.
    """
    spread = sp.Symbol("V", positive=True)
    root = sp.Symbol("r", positive=True)  # of q
    h = sp.symbols(f"h_0:{replicas}", real=True)
    exponent = -sum((x - root * _XI) ** 2 for x in h) / (2 * spread) - _XI**2 / 2
    coefficients = sp.Poly(exponent, _XI)
    second, first, rest = (coefficients.coeff_monomial(_XI**k) for k in (2, 1, 0))
    b, c = sp.Symbol("b", real=True), sp.Symbol("c", positive=True)
    integral = sp.integrate(sp.exp(-c * _XI**2 + b * _XI), (_XI, -sp.oo, sp.oo), manual=True)
    quotient = (
        integral.subs({b: first, c: -second}) / sp.sqrt(2 * sp.pi) / (2 * sp.pi * spread) ** sp.Rational(replicas, 2)
    )
    whole = sp.eye(replicas) * spread + sp.ones(replicas) * root**2
    column = sp.Matrix(h)
    form = (column.T * whole.inv() * column)[0, 0]
    joint = sp.exp(-form / 2) / sp.sqrt((2 * sp.pi) ** replicas * whole.det())
    powers = [sp.expand_log(sp.log(value), force=True) for value in (quotient, joint)]
    # Twice the logarithms: both prefactors are then rational functions under a logarithm.
    logs = [(p + e).replace(lambda x: isinstance(x, sp.log), _factored) for p, e in zip(powers, (rest, 0), strict=True)]
    prove_equal(2 * logs[0], 2 * logs[1], f"(148) at N = {replicas}")


def _factored(term: sp.Expr) -> sp.Expr:
    return sp.expand_log(sp.log(sp.factor(term.args[0])), force=True)


def prove_decoupled_channel(covariance: sp.Expr = overlap) -> None:
    """Prove (132) = (152) = (155) for every integer n, any P and M.

    Parameters
    ----------
    covariance : sympy.Expr, optional
        Of the common variable omega = q^{1/2} xi; by default q.

    Raises
    ------
    ProofError
        If the two sides differ on plane waves.

    Notes
    -----
    Both sides are linear in each of the n + 1 factors P_out(y | h^a), and plane waves exp(i k h) span functions. In the
    eigenbasis of q the average of their product depends on sum_a k^a and sum_a (k^a)^2 only.
    """
    total, squares = sp.symbols("kappa_1 kappa_2", real=True)
    whole = overlap_matrix()
    joint = -((whole.diagonal - whole.off) * squares + whole.off * total**2) / 2
    # Each factor first: Z_out of a plane wave is exp(i k omega - V k^2/2); then over omega.
    decoupled = -(1 - overlap) * squares / 2 - covariance * total**2 / 2
    prove_equal(joint, decoupled, "joint channel part (132) against the decoupled one (152), on plane waves")


def prove_small_channel(exponent: sp.Expr = extra_replicas + 1, channels: Sequence[int] = (2, 3)) -> None:
    """Prove (156)-(158): log I_out = n Psi_out + O(n^2).

    Parameters
    ----------
    exponent : sympy.Expr, optional
        Power of Z_out, by default n + 1.
    channels : sequence of int, optional
        Numbers of labels; each is averaged over two values of xi of generic weights.

    Raises
    ------
    ProofError
        If it does not start at zero, or its slope is not E sum_y Z log Z.
    """
    for labels in channels:
        share = sp.Symbol("w", positive=True)
        power, potential = sp.S.Zero, sp.S.Zero
        for number, weight in enumerate((share, 1 - share)):
            free = sp.symbols(f"z{number}_1:{labels}", positive=True)
            for z in (*free, 1 - sum(free)):
                power += weight * z**exponent
                potential += weight * z * sp.log(z)
        start = sp.expand(power.subs(extra_replicas, 0))
        if start != 1:
            raise ProofError(f"(157): the channel part at n = 0 is {start}, not 1")
        # log x has slope x' where x = 1.
        prove_equal(slope(power), potential, f"(158), {labels} labels")
