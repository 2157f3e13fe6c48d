import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.depth import (
    committee,
    expand,
    first_order_output,
    rescaled_link,
    rescaled_mixing,
)
from attnlimits.derive.mixing import layer_matrix
from attnlimits.derive.primitives import elementary
from attnlimits.derive.proof import prove_equal

MODELS = [
    Architecture(1, 2),
    Architecture(2, 2),
    Architecture(4, 2, activation="linear"),
    Architecture(3, 2),
    Architecture(3, 3, (2, 1, 1)),
    Architecture(2, 4, (1, 2)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"L{m.layers}M{m.tokens}{m.activation}")
def test_first_order_is_the_committee(model):
    expansion = expand(model, 1)
    assert expansion.mixing[0] == sp.eye(model.tokens)
    prove_equal(expansion.mixing[1], committee(model), "(51)")
    last = model.index_matrices()[-1]
    gram, crowd = last.T * last, committee(model)
    prove_equal(expansion.scores[1], crowd * gram + gram * crowd.T, "(52)")


def test_committee_does_not_depend_on_the_order_of_the_first_layers():
    model = Architecture(4, 2)
    h = list(model.index_matrices())
    prove_equal(committee(model, h), committee(model, [h[2], h[0], h[1], h[3]]), "permutation")


def test_rescaling_only_absorbs_the_factor(rng):
    """(46): with beta c^{-2(l-1)} in layer l the original recursion is c^l times the rescaled one."""
    model = Architecture(3, 2)
    h = model.index_matrices()
    values = {entry: sp.Rational(int(k), 32) for entry, k in zip([*h[0], *h[1]], rng.integers(-64, 65, 4), strict=True)}
    c = sp.Rational(5, 2)
    original = sp.eye(2)
    for number in (0, 1):
        layer = Architecture(3, 2, skip=c, beta=c ** (-2 * number))
        original = layer_matrix(layer, original, h[number]) * original
    rescaled = rescaled_mixing(Architecture(3, 2, beta=sp.Integer(1)), h, 1 / c)[-1]
    difference = elementary(original - c**2 * rescaled).subs(values).evalf(40)
    assert difference.norm() < sp.Float("1e-36")


# Nested exact exponentials are evaluated as trees, so three layers only at M = 2.
@pytest.mark.parametrize(
    "model", [*MODELS[1:4], Architecture(2, 3, (2, 1))], ids=lambda m: f"L{m.layers}M{m.tokens}{m.activation}"
)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_remainder_scales_with_the_next_power(model, order):
    """Halving 1/c divides the remainder of order n by 2^{n+1}, up to a term of relative size 1/c."""
    model = Architecture(model.layers, model.tokens, model.ranks, model.activation, beta=sp.Integer(1))
    h = model.index_matrices()
    rng = np.random.default_rng(17)
    numbers = [sp.Rational(int(k), 64) for k in rng.integers(-64, 65, size=sum(m.shape[0] * m.shape[1] for m in h))]
    it = iter(numbers)
    h = tuple(sp.Matrix(m.shape[0], m.shape[1], lambda i, j: next(it)) for m in h)
    coefficients = expand(model, order, h).output
    remainders = []
    for power in (10, 11):
        epsilon = sp.Rational(1, 2**power)
        exact = elementary(rescaled_link(model, h, epsilon)).evalf(40)
        series = sum((epsilon**k * c for k, c in enumerate(coefficients)), sp.zeros(*exact.shape))
        remainders.append((exact - elementary(series).evalf(40)).norm())
    ratio = float(remainders[0] / remainders[1])
    # At 1/c = 2^-10 the next order changes the ratio by about 2^-10 times a number of order ten.
    assert ratio == pytest.approx(2 ** (order + 1), rel=0.05)


def test_first_order_output_has_the_same_first_order():
    model = Architecture(2, 2, beta=sp.Integer(1))
    epsilon = symbols.inverse_skip
    made = first_order_output(model).diff(epsilon).subs(epsilon, 0)
    prove_equal(made, expand(model, 1).output[1], "(52)")


def test_negative_order_is_named():
    with pytest.raises(ValueError, match="order must be >= 0, got -1"):
        expand(Architecture(2, 2), -1)
