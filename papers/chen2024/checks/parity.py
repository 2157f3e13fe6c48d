"""Checks of the layers that carry a hidden parity."""

import math

import numpy as np
import sympy as sp

from attnlimits.derive.multihead import parity
from attnlimits.derive.registry import CheckOutcome
from attnlimits.numerics.multihead import parity as teachers
from attnlimits.numerics.multihead.layer import multihead
from attnlimits.papers.troiani2025.checks.tools import numeric, symbolic

_SIZES = range(1, 8)


def check_37() -> CheckOutcome:
    """Outputs of the numerical layer on all inputs at d = 5, against the parity."""
    x = np.array([[1 - 2 * (code >> p & 1) for p in range(10)] for code in range(1 << 10)]).reshape(-1, 2, 5)
    residuals = []
    for n in range(1, 5):
        made = teachers.parity_teacher(n, 5, n)
        bit = teachers.hidden_bit(x, made.subset)
        outputs = multihead(x, made.theta, made.w)[:, :, 0]
        residuals.append(float(np.abs(outputs - bit)[bit != 0].max()))
    # Sums of at most five terms of order one.
    return numeric(residuals, 1e-14, "n = 1 to 4 on all 1024 inputs at d = 5")


def check_38() -> CheckOutcome:
    """The exact coefficients give the parity, at both values of the last coordinate."""
    found = {f"n = {n}: {name}": rest for n in _SIZES for name, rest in parity.parity_identities(n).items()}
    return symbolic(found, "n = 1 to 7, rational functions of e^2")


def check_39() -> CheckOutcome:
    """Determinant of tanh(s_j + b_i), N = 1, 2, 3."""
    found = {f"N = {size}: {name}": rest for size in (1, 2, 3) for name, rest in parity.tanh_determinant(size).items()}
    return symbolic(found, "N = 1, 2, 3, all places symbols; for every N the proof is in the README")


def check_40() -> CheckOutcome:
    """The folded entries tanh(s + b) + tanh(s - b) form a Cauchy matrix in cosh(2 s) and cosh(2 b)."""
    a, b = sp.symbols("a b", positive=True)  # e^(2 s), e^(2 b)

    def tanh(power: sp.Expr) -> sp.Expr:
        return (power - 1) / (power + 1)

    cosh_s, cosh_b, sinh_s = (a + 1 / a) / 2, (b + 1 / b) / 2, (a - 1 / a) / 2
    return symbolic(
        {
            "b != 0": tanh(a * b) + tanh(a / b) - 2 * sinh_s / (cosh_s + cosh_b),
            "b = 0": tanh(a) - sinh_s / (cosh_s + 1),
        },
        "for every s and b",
    )


def check_41() -> CheckOutcome:
    """Coefficients of the numerics against the exact ones, and the largest."""
    residuals, largest = [], 0.0
    for n in _SIZES:
        values = [float(c.subs(parity.token_exponent, sp.exp(2)).evalf(30)) for c in parity.coefficients(n)]
        residuals.append(float(np.abs(teachers.parity_coefficients(n) / values - 1).max()) / 1e-13)
        largest = max(largest, *np.abs(values))
    residuals.append(abs(largest - 1.87509312) / 1e-8)
    return numeric(residuals, 1.0, f"n = 1 to 7; largest |c_i| = {largest:.8f}, at n = 6 and 7")


def check_42() -> CheckOutcome:
    """All correlations by enumeration in integers, d = 10."""
    found = {}
    for n in _SIZES:
        one = teachers.sq_correlations(n, 10)
        found[f"n = {n}, pairs"] = sp.Integer(one.pairwise)
        found[f"n = {n}, lower degrees"] = sp.Integer(one.low_degree)
        found[f"n = {n}, number"] = sp.Integer(one.concepts - math.comb(9, n))
    return symbolic(found, "n = 1 to 7 at d = 10: all pairs of sets, all monomials of lower degree")
