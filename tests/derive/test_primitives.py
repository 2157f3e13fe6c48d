import numpy as np
import pytest
import sympy as sp

from attnlimits.derive.emit.printers import MpmathPrinter, NumpyPrinter
from attnlimits.derive.primitives import (
    CopySign,
    Exp,
    Expit,
    Expm1,
    Guard,
    Largest,
    Log1p,
    LogExpit,
    LogSumExp,
    Magnitude,
    Smallest,
    Softmax,
    elementary,
    softmax_rows,
    stable,
)
from attnlimits.derive.proof import prove_equal

x, z1, z2, z3 = sp.symbols("x z1 z2 z3", real=True)
Z = (z1, z2, z3)

NODES = [
    Exp(x),
    Expm1(x),
    Log1p(Exp(x)),
    Expit(x),
    LogExpit(x),
    LogSumExp(x, 2 * x, sp.S.One),
    Softmax(0, x, 2 * x, sp.S.One),
    Softmax(1, x, 2 * x, sp.S.One),
    Softmax(1, x, 3 * x),
]


@pytest.mark.parametrize("node", NODES, ids=str)
def test_derivative_equals_that_of_the_elementary_form(node):
    prove_equal(node.diff(x), sp.diff(elementary(node), x), str(node))


def test_derivatives_of_the_piecewise_nodes():
    assert CopySign(x).diff(x) == 0
    assert Magnitude(x).diff(x) == CopySign(x)
    # The exact argument carries the derivative of a guard.
    assert Guard(x**2, z1).diff(x) == 2 * x


def test_magnitude_shares_one_subtree_with_its_mirror():
    assert Magnitude(z1 - z2) == Magnitude(z2 - z1)
    assert Magnitude(sp.Integer(-3)) == 3


def test_exponentials_do_not_merge():
    assert (Exp(z1) * Exp(z2)).atoms(Exp) == {Exp(z1), Exp(z2)}
    assert Exp(sp.S.Zero) == 1


@pytest.mark.parametrize("tokens", [1, 2, 3, 5])
def test_softmax_rows_sum_to_one(tokens):
    scores = sp.Matrix(2, tokens, lambda i, j: sp.Symbol(f"a{i}{j}", real=True))
    rows = softmax_rows(scores)
    assert rows.shape == scores.shape
    for i in range(2):
        prove_equal(sum(rows[i, :]), sp.S.One, "row sum")
        for j in range(tokens):
            wanted = sp.exp(scores[i, j]) / sum(sp.exp(entry) for entry in scores[i, :])
            prove_equal(rows[i, j], wanted, "softmax entry")


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="0 <= k < 2"):
        Softmax(2, z1, z2)
    with pytest.raises(ValueError, match="at least one"):
        LogSumExp()
    with pytest.raises(ValueError, match="entry number"):
        Softmax(0, z1, z2, z3).fdiff(1)


def _evaluate(node, values, ctx):
    """Return the float64 and the arbitrary-precision value of the printed stable form."""
    form = stable(node)
    scope = {name: np.float64(value) for name, value in values.items()}
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        double = eval(NumpyPrinter().text(form), {"np": np}, scope)  # our own printer's text
    exact = {"ctx": ctx, "_log": lambda c, v: c.log(v), "_log1p": lambda c, v: c.log1p(v)}
    precise = eval(MpmathPrinter().text(form), exact, {name: ctx.mpf(value) for name, value in values.items()})
    return float(double), precise


@pytest.mark.parametrize("value", [0.0, 1e-300, -1e-300, 1e-8, 0.7, -0.7, 30.0, -30.0, 700.0, -700.0, 1e3, -1e3])
@pytest.mark.parametrize("node", [Expit(x), LogExpit(x)], ids=str)
def test_logistic_nodes_are_stable(node, value, context):
    ctx = context(500)
    double, precise = _evaluate(node, {"x": value}, ctx)
    wanted = ctx.mpf(1) / (1 + ctx.exp(-ctx.mpf(value)))
    wanted = ctx.log(wanted) if isinstance(node, LogExpit) else wanted
    assert abs(precise - wanted) <= abs(wanted) * ctx.mpf(10) ** -50
    # Relative error of a few roundings; below the smallest normal number only that much can be asked.
    assert abs(double - wanted) <= 1e-15 * abs(wanted) + 1e-307


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("node", [LogSumExp(*Z), Softmax(0, *Z), Softmax(2, *Z)], ids=str)
def test_softmax_nodes_are_stable(node, scale, context):
    ctx = context(60)
    rng = np.random.default_rng(7)
    for _ in range(20):
        values = dict(zip(("z1", "z2", "z3"), scale * rng.normal(size=3), strict=True))
        double, precise = _evaluate(node, values, ctx)
        powers = [ctx.exp(ctx.mpf(value)) for value in values.values()]
        wanted = ctx.log(sum(powers)) if isinstance(node, LogSumExp) else powers[int(node.args[0])] / sum(powers)
        assert abs(precise - wanted) <= (1 + abs(wanted)) * ctx.mpf(10) ** -50
        # The rounding of a difference of scores of size `scale` enters the exponent.
        assert abs(double - wanted) <= 1e-15 * (1 + scale) * abs(wanted) + 1e-307


def test_stable_forms_keep_the_value():
    for node in (Expit(x), LogExpit(x)):
        for sign in (1, -1):
            rules = {Smallest(x, 0): 0 if sign > 0 else x, Magnitude(x): sign * x}
            made = stable(node).xreplace(rules)
            prove_equal(sp.exp(made) if isinstance(node, LogExpit) else made, Expit(x), str(node))
    largest = Largest(*Z)
    for node in (Softmax(1, *Z), LogSumExp(*Z)):
        made = stable(node).xreplace({largest: z3})
        if isinstance(node, LogSumExp):
            made, node = sp.exp(elementary(made)), sp.exp(elementary(node))
        prove_equal(made, node, str(node))
