import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.mixing import activate
from attnlimits.derive.primitives import elementary
from attnlimits.derive.proof import prove_equal
from attnlimits.derive.readout import domain_slack, invert, log_odds, readout_jacobian, softmax_readout

BETA = symbols.beta


def test_linear_branches_and_jacobian():
    result = invert(Architecture(2, 2, activation="linear"))
    y11, y12 = symbols.y11, symbols.y12
    assert result.kept == (y11, y12)
    wanted = sp.Matrix([[sp.sqrt(y11 / BETA), y12 / sp.sqrt(BETA * y11)]])
    prove_equal(result.branches[0], wanted, "(173)")
    assert result.branches[1] == -result.branches[0]
    # (174) at beta = 1.
    prove_equal(result.jacobian.subs(BETA, 1), 2 * y11, "(174)")


def test_softmax_branches_and_jacobian():
    result = invert(Architecture(2, 2))
    y = sp.Matrix([[symbols.y11, symbols.y12], [symbols.y21, symbols.y22]])
    l_1, l_2 = log_odds(y)
    assert result.kept == (symbols.y12, symbols.y21)
    wanted = sp.Matrix([[l_1, -l_2]]) / sp.sqrt(BETA * (l_1 + l_2))
    for sign, branch in zip((1, -1), result.branches, strict=True):
        # Squares keep SymPy's logarithms of quotients apart from each other; the sign is checked below.
        prove_equal(branch.applyfunc(lambda e: e**2), wanted.applyfunc(lambda e: e**2), "(181)")
        sample = {symbols.y11: sp.Rational(3, 4), symbols.y12: sp.Rational(1, 4), BETA: 1}
        sample |= {symbols.y21: sp.Rational(1, 3), symbols.y22: sp.Rational(2, 3)}
        assert sign * branch[0].subs(sample) > 0
        assert sign * branch[1].subs(sample) < 0


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_jacobian_in_v_equals_jacobian_in_y(activation):
    model = Architecture(2, 2, activation=activation, beta=sp.Rational(7, 5))
    result = invert(model)
    v, _ = symbols.readout_symbols(2)
    at = dict(zip(v, (sp.Rational(4, 5), sp.Rational(-3, 7)), strict=True))
    y = elementary(activate(model, v.T * v)).subs(at)
    names = (symbols.y11, symbols.y12, symbols.y21, symbols.y22)
    from_y = result.jacobian.subs(dict(zip(names, y, strict=True))).evalf(40)
    from_v = elementary(result.jacobian_of_v).subs(at).evalf(40)
    assert abs(from_y / from_v - 1) < sp.Float("1e-37")


def test_range_of_the_softmax_link():
    # (177): y_12 + y_21 <= 1 on the whole range, with equality at v_1 = v_2 only.
    slack = domain_slack(Architecture(1, 2))
    rng = np.random.default_rng(3)
    for first, second in rng.normal(size=(200, 2)):
        y12, y21 = 1 / (1 + np.exp(first * (first - second))), 1 / (1 + np.exp(second * (second - first)))
        assert slack.subs({symbols.y12: y12, symbols.y21: y21}) > 0
    assert slack.subs({symbols.y12: sp.Rational(1, 2), symbols.y21: sp.Rational(1, 2)}) == 0


def test_models_that_cannot_be_inverted_are_named():
    with pytest.raises(ValueError, match="got 3 tokens"):
        invert(Architecture(1, 3))
    with pytest.raises(ValueError, match="rank 2"):
        invert(Architecture(1, 2, 2))
    for model in (Architecture(1, 2, tied=False), Architecture(1, 2, output="sequence"), Architecture(1, 2, heads=2)):
        for function in (invert, domain_slack, readout_jacobian):
            with pytest.raises(ValueError, match=model.name):
                function(model)
    with pytest.raises(ValueError, match="tanh"):
        invert(Architecture(1, 2, activation=sp.tanh))
    with pytest.raises(ValueError, match="rank 1 in the last layer, got 2"):
        readout_jacobian(Architecture(1, 3, 2))
    with pytest.raises(ValueError, match="two different tokens"):
        readout_jacobian(Architecture(1, 3), (2, 2))


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_jacobian_of_any_number_of_tokens_is_the_one_of_two(activation):
    model = Architecture(1, 2, activation=activation)
    entries, jacobian = readout_jacobian(model)
    result = invert(model)
    assert entries == result.kept
    v, y = symbols.readout_symbols(2)
    at = {v[0]: sp.Rational(4, 5), v[1]: sp.Rational(-3, 7), BETA: sp.Rational(7, 5)}
    output = elementary(activate(model, v.T * v))
    left = jacobian.subs(dict(zip(y, output, strict=True))).subs(at).evalf(40)
    right = elementary(result.jacobian_of_v).subs(at).evalf(40)
    assert abs(left / right - 1) < sp.Float("1e-37")


@pytest.mark.parametrize("tokens", [2, 3, 5])
def test_softmax_readout_of_any_number_of_tokens(tokens):
    model = Architecture(1, tokens, beta=sp.Rational(4, 3))
    v = sp.Matrix([[sp.Rational((-1) ** k * (2 * k + 3), k + 4) for k in range(tokens)]])
    y = elementary(activate(model, v.T * v))
    for pair in ((0, 1), (1, 0), (tokens - 1, 0)):
        row = softmax_readout(y, model.beta, pair).evalf(40)
        sign = 1 if v[pair[0]] > v[pair[1]] else -1
        assert (sign * row - v).norm() < sp.Float("1e-36")


def test_softmax_readout_checks_its_arguments():
    with pytest.raises(ValueError, match="two different tokens"):
        softmax_readout(sp.eye(3), sp.S.One, (1, 1))
    with pytest.raises(ValueError, match="square"):
        softmax_readout(sp.zeros(2, 3), sp.S.One)
