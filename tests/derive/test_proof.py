import pytest
import sympy as sp

from attnlimits.derive.primitives import Exp, Expit
from attnlimits.derive.proof import ProofError, prove_equal, reduces_to_zero
from attnlimits.derive.rational import is_zero_of_variables

x, y = sp.symbols("x y", real=True)


def test_a_true_identity_is_proved():
    prove_equal(Expit(x) + Expit(-x), sp.S.One, "reflection")
    prove_equal(Exp(x + y), Exp(x) * Exp(y), "sum")
    prove_equal(sp.tanh(x), (Exp(2 * x) - 1) / (Exp(2 * x) + 1), "tanh")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Expit(x), Expit(-x)),
        (Exp(x + y), Exp(x) + Exp(y)),
        (sp.sqrt(2) * x, sp.Rational(141421356, 10**8) * x),
        (Expit(x) - Expit(x) ** 2, sp.Rational(1, 4)),
    ],
)
def test_a_false_identity_is_not(left, right):
    with pytest.raises(ProofError, match="claim"):
        prove_equal(left, right, "claim")
    assert not reduces_to_zero(left - right)


def test_shapes_must_agree():
    with pytest.raises(ProofError, match="4 and 1 entries"):
        prove_equal(sp.eye(2), sp.S.One, "shape")


f = sp.Function("f")


@pytest.mark.parametrize(
    "zero",
    [
        1 / (x - y) - 1 / x - y / (x * (x - y)),
        1 / (1 / x + 1 / y) - x * y / (x + y),
        (x - y) ** -2 * (x**2 - y**2) - (x + y) / (x - y),
        sp.exp(2 * x + y) / (1 + sp.exp(x)) - sp.exp(x) * sp.exp(x + y) / (sp.exp(x) + 1),
        sp.exp(x / 2 - y) ** 2 * sp.exp(2 * y) - sp.exp(x),
        (x + sp.sqrt(2) * y) ** 2 - x**2 - 2 * sp.sqrt(2) * x * y - 2 * y**2,
        1 / (1 + 2 ** sp.Rational(1, 3)) - (1 - 2 ** sp.Rational(1, 3) + 2 ** sp.Rational(2, 3)) / 3,
        (1 + sp.sqrt(x**2 + 1)) * (1 - sp.sqrt(x**2 + 1)) - 1 + sp.sqrt(x**2 + 1) ** 2,
        (f(x) + 1) ** 3 - f(x) ** 3 - 3 * f(x) * (f(x) + 1) - 1,
    ],
)
def test_numerators_of_identities_vanish(zero):
    assert not is_zero_of_variables(zero + x)
    assert not is_zero_of_variables(zero + sp.Rational(1, 10**30))
    # One root times itself is no polynomial in it: the slower reductions know.
    assert is_zero_of_variables(zero) or zero.has(sp.sqrt(x**2 + 1))
    assert reduces_to_zero(zero)


@pytest.mark.parametrize(
    "unknown",
    [
        sp.sin(x) ** 2 + sp.cos(x) ** 2 - 1,
        1 / (sp.exp(x) - sp.exp(x, evaluate=False)) - 1 / x,
        sp.Add(sp.Float(0.5) * x, -x / 2, evaluate=False),
        sp.nan,
    ],
)
def test_what_is_no_identity_of_polynomials_is_left_open(unknown):
    assert not is_zero_of_variables(unknown)


def test_large_polynomials_are_left_to_other_reductions():
    many = sp.symbols("x:30", real=True)
    assert is_zero_of_variables(sum(many) ** 2 - sum(one * sum(many) for one in many))
    assert not is_zero_of_variables(sum(many) ** 8 - sum(one * sum(many) ** 7 for one in many))
