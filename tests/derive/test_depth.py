from itertools import permutations

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.depth import (
    committee,
    expand,
    first_order_output,
    order_defect,
    permuted,
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


@pytest.mark.slow_for("L2M4softmax", "L3M3softmax")
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


def numbers(matrix):
    """50-digit values: the series and the exact network are then sums and products of numbers."""
    return elementary(matrix).evalf(50)


def random_indices(model, seed=17, scale=64):
    rng = np.random.default_rng(seed)
    draw = lambda shape: sp.Matrix(*shape, lambda i, j: sp.Rational(int(rng.integers(-scale, scale + 1)), 64))  # noqa: E731
    return [draw(m.shape) for m in model.index_matrices()], [draw(o.shape) for o in model.readouts]


ONE = sp.Integer(1)
ARCHITECTURES = [
    Architecture(2, 2, beta=ONE),
    Architecture(3, 3, beta=ONE),
    Architecture(4, 2, 2, beta=ONE),
    Architecture(4, 3, (1, 2, 1, 1), "linear", beta=ONE),
    Architecture(3, 2, activation=sp.tanh, beta=ONE),
    Architecture(3, 2, tied=False, beta=ONE),
    Architecture(2, 3, 2, tied=False, output="sequence", beta=ONE),
    Architecture(3, 2, heads=2, beta=ONE),
    Architecture(2, 2, (2, 1), heads=2, tied=False, output="sequence", beta=ONE),
]


def _name(model):
    tied = "tied" if model.tied else "untied"
    return f"L{model.layers}M{model.tokens}H{model.heads}{tied}-{model.activation_name}-{model.output}"


@pytest.mark.slow_for("model1")  # an activation of one argument has no nodes of its own
@pytest.mark.parametrize("model", [Architecture(3, 2, beta=ONE), Architecture(3, 2, activation=sp.tanh, beta=ONE)])
def test_numbers_are_evaluated_as_they_are_made(model):
    """Without `reduce`, with one that knows no own nodes, and with floats: order 4 in seconds, the same numbers."""
    h, _ = random_indices(model)
    epsilon = sp.Rational(1, 10)
    exact = expand(model, 4, h, reduce=numbers).output, rescaled_link(model, h, epsilon, reduce=numbers)
    floats = [matrix.applyfunc(sp.Float) for matrix in h]
    # The digits of each kind of number, less what sums of some hundred terms of order one cost.
    for given, options, error in ((h, {}, 1e-45), (h, {"reduce": sp.N}, 1e-12), (floats, {}, 1e-12)):
        made = expand(model, 4, given, **options).output
        assert len(made) == 5
        for coefficient, wanted in zip(made, exact[0], strict=True):
            assert all(entry.is_Number for entry in coefficient)
            assert (coefficient - wanted).norm() < error * (1 + wanted.norm())
        assert (rescaled_link(model, given, epsilon, **options) - exact[1]).norm() < error


def test_rational_numbers_stay_exact():
    model = Architecture(3, 2, activation="linear", beta=ONE)
    h, _ = random_indices(model)
    assert all(entry.is_Rational for term in expand(model, 3, h).output for entry in term)


@pytest.mark.parametrize("model", ARCHITECTURES, ids=_name)
def test_remainder_of_order_n_falls_with_the_next_power(model):
    """Slope of log remainder against log c, fitted over c = 10 .. 1000, for n = 0 .. 3: -(n + 1)."""
    h, o = random_indices(model)
    coefficients = expand(model, 3, h, readouts=o, reduce=numbers).output
    strengths = [10, 32, 100, 316, 1000]
    remainders = np.empty((4, len(strengths)))
    for column, c in enumerate(strengths):
        rest = rescaled_link(model, h, sp.Rational(1, c), readouts=o, reduce=numbers)
        for n, coefficient in enumerate(coefficients):
            rest = (rest - coefficient / sp.Integer(c) ** n).evalf(50)
            remainders[n, column] = float(rest.norm())
    for n in range(4):
        slope, _ = np.polyfit(np.log(strengths), np.log(remainders[n]), 1)
        # The next order is smaller by 1/c times a number of order ten: at c = 10 it may halve or double one point.
        assert slope == pytest.approx(-(n + 1), abs=0.2), n
        last, _ = np.polyfit(np.log(strengths[2:]), np.log(remainders[n, 2:]), 1)
        assert last == pytest.approx(-(n + 1), abs=0.03), n


@pytest.mark.slow_for("L3M2H1tied-softmax-last")
@pytest.mark.parametrize("model", [MODELS[3], ARCHITECTURES[4], Architecture(2, 2, heads=2)], ids=_name)
def test_series_against_derivatives_in_epsilon(model):
    """Order 2 of the mixing matrix: half the second derivative of the exact recursion at epsilon = 0."""
    h, o = random_indices(model)
    epsilon = symbols.inverse_skip
    exact = elementary(rescaled_mixing(model, h, epsilon, readouts=o)[-1].subs(model.beta, 1))
    wanted = exact.diff(epsilon, 2).subs(epsilon, 0).evalf(40) / 2
    made = elementary(expand(model, 2, h, readouts=o).mixing[2].subs(model.beta, 1)).evalf(40)
    assert (made - wanted).norm() < sp.Float("1e-35")


@pytest.mark.parametrize(
    "model",
    [
        Architecture(4, 2),
        Architecture(3, 3, 2),
        Architecture(3, 2, tied=False),
        Architecture(3, 2, heads=2),
        Architecture(3, 2, activation=sp.Function("f", real=True)),
    ],
    ids=_name,
)
def test_first_layers_may_change_places_at_first_order(model):
    """For every order of the first layers the coefficient of 1/c is the same, symbolically."""
    for order in permutations(range(1, model.layers)):
        assert order_defect(model, order, 1).applyfunc(sp.expand).is_zero_matrix
    h, o = permuted(model, tuple(range(model.layers - 1, 0, -1)))
    prove_equal(committee(model, h, o), committee(model), "permutation")


def test_first_layers_do_not_commute_at_second_order():
    """Linear activation: the swap changes the coefficient by the commutator of the two layers; softmax: not zero."""
    model = Architecture(3, 2, activation="linear")
    first, second = (model.beta * h.T * h for h in model.index_matrices()[:2])
    prove_equal(expand(model, 2).mixing[2], 2 * second * first + first * second, "second order")
    prove_equal(order_defect(model, (2, 1)), first * second - second * first, "commutator")
    softmax = Architecture(3, 2, beta=ONE)
    values = {x: sp.Rational(k + 1, 3) for k, x in enumerate(x for h in softmax.index_matrices() for x in h)}
    defect = elementary(order_defect(softmax, (2, 1))).subs(values).evalf(30)
    # Far above the 30 digits it is computed with: no rounding, a true difference.
    assert defect.norm() > 1e-3


@pytest.mark.parametrize("model", ARCHITECTURES[5:], ids=_name)
def test_first_order_of_other_architectures_is_the_committee(model):
    expansion = expand(model, 1)
    assert expansion.mixing[0] == sp.eye(model.tokens * model.heads)
    prove_equal(expansion.mixing[1], committee(model), "(51)")


def test_heads_against_the_recursion_of_the_blocks():
    """X^a <- X^a + (1/c) sum_b o_ab S^b X^b on random tokens at finite D, against B_L of a sequence output."""
    heads, tokens, rank, width, epsilon = 2, 3, 1, 5, 0.125
    model = Architecture(2, tokens, rank, heads=heads, tied=False, output="sequence", beta=ONE)
    rng = np.random.default_rng(6)
    x = rng.normal(size=(heads, tokens, width))
    start, keys, queries = x.copy(), *rng.normal(size=(2, 2, heads, rank, width))
    o = rng.normal(size=(2, heads, heads))
    layers = []
    for layer in range(2):
        rows = [
            weights[layer, head] @ start[block].T / np.sqrt(width)
            for head in range(heads)
            for weights in (keys, queries)
            for block in range(heads)
        ]
        layers.append(sp.Matrix(np.vstack(rows).tolist()))
        scores = [x[a] @ keys[layer, a].T @ queries[layer, a] @ x[a].T / width for a in range(heads)]
        attention = [np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in scores]
        x = np.array(
            [x[a] + epsilon * sum(o[layer, a, b] * attention[b] @ x[b] for b in range(heads)) for a in range(heads)]
        )
    made = rescaled_link(model, layers, sp.Float(epsilon), readouts=[sp.Matrix(m.tolist()) for m in o], reduce=numbers)
    mixed = np.array(made, dtype=float) @ start.reshape(heads * tokens, width)
    np.testing.assert_allclose(mixed, x.reshape(heads * tokens, width), rtol=1e-12, atol=1e-12)


def test_bad_inputs_are_named():
    model = Architecture(3, 2)
    with pytest.raises(ValueError, match="h needs one matrix per layer of shapes"):
        expand(model, 1, model.index_matrices()[:2])
    with pytest.raises(ValueError, match="readouts need 0 matrices"):
        expand(model, 1, readouts=[sp.eye(2)])
    with pytest.raises(ValueError, match=r"order must be a permutation of 1 \.\. 2, got \(1, 1\)"):
        order_defect(model, (1, 1))
    with pytest.raises(ValueError, match="attention matrix of the last layer"):
        first_order_output(Architecture(2, 2, output="sequence"))


@pytest.mark.slow
def test_first_order_output_has_the_same_first_order():
    model = Architecture(2, 2, beta=sp.Integer(1))
    epsilon = symbols.inverse_skip
    made = first_order_output(model).diff(epsilon).subs(epsilon, 0)
    prove_equal(made, expand(model, 1).output[1], "(52)")


def test_negative_order_is_named():
    with pytest.raises(ValueError, match="order must be >= 0, got -1"):
        expand(Architecture(2, 2), -1)
