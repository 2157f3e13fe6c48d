import pytest
import sympy as sp

from attnlimits.derive.primitives import Exp, Expit
from attnlimits.derive.proof import ProofError, prove_equal, reduces_to_zero

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
