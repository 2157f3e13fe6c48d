r"""Parities in a layer at k = 2: the exact system for the values of the heads, and that it is regular for every n.

The system is sum_i c_i tanh(s + b_i) = (-1)^((n - s)/2), s = -n, -n + 2, .., n. With t = e^2 its entries tanh(s + b) =
(t^(s + b) - 1)/(t^(s + b) + 1) are rational in t for integer b_i. Its solution is a rational function of t,
which has a value at t = e^2: e^2 is transcendental, hence no zero of any denominator with rational coefficients.

In a = t^s and beta = t^-b the matrix is (a_j - beta_i)/(a_j + beta_i): all ones minus twice a Cauchy matrix times a
diagonal one, and its determinant is known, `tanh_determinant`.
"""

from collections.abc import Callable
from functools import cache

import sympy as sp
from sympy.polys.matrices import DomainMatrix

__all__ = [
    "coefficients",
    "folded_matrix",
    "head_output",
    "parity_identities",
    "shifts",
    "system",
    "tanh_determinant",
    "token_exponent",
]

#: e^2.
token_exponent = sp.Symbol("t", positive=True)


def shifts(n: int) -> list[int]:
    """Shifts b_i: halfway between the values of s, and for even n one more, as the sum of all must not vanish.

    Parameters
    ----------
    n : int
        Size of the hidden set, >= 1.
    """
    between = list(range(1 - n, n, 2))
    return between if n % 2 else [*between, n + 1]


def _tanh(exponent: int) -> sp.Expr:
    """Return tanh of an integer, rational in t = e^2."""
    power = token_exponent ** abs(exponent)
    return sp.sign(exponent) * (power - 1) / (power + 1)


def system(n: int) -> tuple[sp.Matrix, sp.Matrix]:
    """Matrix tanh(s_j + b_i), shape (n + 1, m), and right-hand side (-1)^((n - s_j)/2), s_j = -n, -n + 2, .., n.

    Parameters
    ----------
    n : int
        Size of the hidden set, >= 1; m = n for odd n, n + 1 for even n.

    References
    ----------
    chen2024, (38).
    """
    sums, b = range(-n, n + 1, 2), shifts(n)
    matrix = sp.Matrix(n + 1, len(b), lambda j, i: _tanh(sums[j] + b[i]))
    return matrix, sp.Matrix([(-1) ** ((n - s) // 2) for s in sums])


@cache
def coefficients(n: int) -> tuple[sp.Expr, ...]:
    """Solution c_i of `system`, rational in t = e^2.

    Parameters
    ----------
    n : int
        Size of the hidden set, >= 1.

    Notes
    -----
    Solved by interpolation, for the system says that R(a) = sum_i c_i (a - beta_i)/(a + beta_i) has given values at
    n + 1 places: R = P / prod(a + beta_i) with a polynomial P of degree m, and R(infinity) = -R(0) is one more
    condition. Only for odd n is that one condition too many; it is met by symmetry.

    References
    ----------
    chen2024, (38)-(41).
    """
    t, b = token_exponent, shifts(n)
    if n % 2 == 0:
        sums = list(range(-n, n + 1, 2))
        rows = sp.Matrix(n + 1, n + 1, lambda j, i: _tanh(sums[j] + b[i]))
        right = sp.Matrix([(-1) ** ((n - s) // 2) for s in sums])
        return _solve(rows, right, t)
    half = folded_matrix(n)
    right = sp.Matrix([(-1) ** ((n - s) // 2) for s in range(1, n + 1, 2)])
    first = _solve(half, right, t)
    return (*first, *first[-2::-1])


def folded_matrix(n: int) -> sp.Matrix:
    """Square system for odd n, with c_i = c_(m - i): tanh(s + b) + tanh(s - b), and tanh(s) for b = 0.

    Parameters
    ----------
    n : int
        Odd.

    References
    ----------
    chen2024, (40).
    """
    sums = list(range(1, n + 1, 2))
    b = shifts(n)[: len(sums)]
    return sp.Matrix(len(sums), len(sums), lambda j, i: _tanh(sums[j] + b[i]) + (_tanh(sums[j] - b[i]) if b[i] else 0))


def _solve(matrix: sp.Matrix, right: sp.Matrix, t: sp.Symbol) -> tuple[sp.Expr, ...]:
    """Exact solution over the rational functions of t."""
    field = sp.QQ.frac_field(t)
    left = DomainMatrix.from_Matrix(matrix.applyfunc(sp.together)).convert_to(field)
    found = left.lu_solve(DomainMatrix.from_Matrix(right).convert_to(field))
    return tuple(sp.factor(entry) for entry in found.to_Matrix())


def tanh_determinant(size: int) -> dict[str, sp.Expr]:
    """Differences that vanish and prove the determinant of (a_j - beta_i)/(a_j + beta_i), N = size.

    det = (-2)^N prod beta_i det(1/(a_j + beta_i)) (1 + (-1)^N prod a_j / prod beta_i)/2.

    The last factor is positive for even N; for odd N it vanishes iff prod a = prod beta. With a = t^s, s symmetric
    about 0, and beta = t^-b that is sum b = 0.

    Parameters
    ----------
    size : int
        N; the a_j and beta_i are symbols.

    References
    ----------
    chen2024, (39).
    """
    a, beta = sp.symbols(f"a_1:{size + 1}", positive=True), sp.symbols(f"beta_1:{size + 1}", positive=True)
    field = sp.QQ.frac_field(*a, *beta)

    def determinant(entry: Callable[[sp.Symbol, sp.Symbol], sp.Expr]) -> sp.Expr:
        matrix = sp.Matrix(size, size, lambda j, i: entry(a[j], beta[i]))
        return field.to_sympy(DomainMatrix.from_Matrix(matrix).convert_to(field).det())

    pairs = [(i, j) for j in range(size) for i in range(j)]
    product = sp.prod([(a[j] - a[i]) * (beta[j] - beta[i]) for i, j in pairs]) / sp.prod(
        [x + y for x in a for y in beta]
    )
    last = (1 + (-1) ** size * sp.prod(a) / sp.prod(beta)) / 2
    cauchy = determinant(lambda x, y: 1 / (x + y)) - product
    tanh = determinant(lambda x, y: (x - y) / (x + y)) - (-2) ** size * sp.prod(beta) * product * last
    return {name: field.to_sympy(field.from_sympy(rest)) for name, rest in (("Cauchy", cauchy), ("tanh", tanh))}


@cache
def _sums(n: int) -> dict[int, sp.Expr]:
    """sum_i c_i tanh(s + b_i) by s."""
    field = sp.QQ.frac_field(token_exponent)
    b, c = shifts(n), [field.from_sympy(value) for value in coefficients(n)]
    found = {}
    for s in range(-n, n + 1, 2):
        terms = [ci * field.from_sympy(_tanh(s + bi)) for ci, bi in zip(c, b, strict=True)]
        found[s] = field.to_sympy(sum(terms, field.zero))
    return found


def head_output(n: int, last: int) -> list[sp.Expr]:
    """What the heads add up to, x_d sum_i c_i tanh(x_d s + b_i), for s = -n, -n + 2, .., n at x_d = +1 or -1.

    Parameters
    ----------
    n : int
        Size of the hidden set.
    last : int
        x_d.

    References
    ----------
    chen2024, (37).
    """
    return [last * _sums(n)[last * s] for s in range(-n, n + 1, 2)]


def parity_identities(n: int) -> dict[str, sp.Expr]:
    """Differences that vanish: the outputs are the parity, for even n times x_d, exactly, at both values of x_d.

    Parameters
    ----------
    n : int
        Size of the hidden set.

    References
    ----------
    chen2024, (37)-(38).
    """
    found = {}
    for last in (1, -1):
        for s, output in zip(range(-n, n + 1, 2), head_output(n, last), strict=True):
            parity = (-1) ** ((n - s) // 2) * (last if n % 2 == 0 else 1)
            found[f"x_d = {last}, s = {s}"] = output - parity
    return found
