import subprocess
import sys
from pathlib import Path

import pytest
import sympy as sp
from scipy.special import k0, k1

from attnlimits.derive import symbols
from attnlimits.derive.closed_forms import TABLE
from attnlimits.derive.emit import exact as printer
from attnlimits.derive.linearization import single_layer_threshold
from attnlimits.generated import exact as printed
from attnlimits.numerics.thresholds.exact import link, single_layer


@pytest.mark.parametrize(
    ("tokens", "rank", "activation", "tied"),
    [
        (2, 1, "softmax", True),
        (5, 3, "softmax", True),
        (2, 2, "softmax", True),
        (3, 7, "softmax", True),
        (2, 5, "linear", True),
        (2, 1, "softmax", False),
        (3, 1, "softmax", False),
        (7, 1, "softmax", False),
        (1000, 1, "softmax", False),
    ],
)
def test_formula_and_value_are_those_of_the_derivation(tokens, rank, activation, tied):
    made = single_layer(tokens, rank, activation, tied, digits=30)
    wanted = single_layer_threshold(tokens, rank, activation, tied=tied)
    assert made.closed
    assert sp.simplify(sp.sympify(made.exact) - wanted) == 0
    # Rounded to 30 digits: half a unit of the last one.
    assert abs(sp.Float(made.value, 40) / wanted.evalf(60) - 1) < sp.Float("1e-29")


def test_the_integral_of_an_untied_linear_layer():
    made = single_layer(2, 1, "linear", False, digits=38)
    assert not made.closed
    # 40 digits of mpmath's own quadrature and Bessel functions, which take a minute.
    assert made.value == "0.13139549160223055438278413152948842792"
    # The text is that of the value: 1/(2 + I) at M = 2, with the same integrand.
    formula = sp.sympify(made.exact)
    (integral,) = formula.atoms(sp.Integral)
    assert formula.subs(integral, 1) == sp.Rational(1, 3)
    number = float(integral.function.subs(integral.variables[0], 1.5))
    assert number == pytest.approx(1.5**3 * k1(1.5) ** 2 / k0(1.5), rel=1e-12)


@pytest.mark.parametrize("tokens", [2, 3, 4, 5, 8, 9])
def test_the_text_of_the_integral_is_the_derived_form(tokens):
    made = sp.sympify(single_layer(tokens, 1, "linear", False, digits=5).exact)
    derived = TABLE["untied_linear"].formula.subs(symbols.tokens, tokens)
    (integral,) = made.atoms(sp.Integral)
    (same,) = derived.atoms(sp.Integral)
    rho = integral.variables[0]
    assert sp.powsimp(integral.function - same.function.subs(same.variables[0], rho)) == 0
    # The integral is the same in both; a number stands for it.
    assert sp.simplify(made.subs(integral, sp.Rational(7, 3)) - derived.subs(same, sp.Rational(7, 3))) == 0


@pytest.mark.parametrize(("tokens", "tied", "heads"), [(2, True, 2), (3, False, 3), (4, True, 7)])
def test_heads_share_the_dimension(tokens, tied, heads):
    made, one = (single_layer(tokens, 1, "softmax", tied, heads=n, digits=20) for n in (heads, 1))
    assert sp.simplify(sp.sympify(made.exact) * heads - sp.sympify(one.exact)) == 0
    assert abs(sp.Float(made.value, 30) * heads / sp.Float(one.value, 30) - 1) < sp.Float("1e-18")


def test_the_integral_keeps_its_digits_for_many_tokens():
    coarse, fine = (single_layer(9, 1, "linear", False, digits=digits).value for digits in (10, 12))
    assert float(coarse) == pytest.approx(float(fine), rel=1e-9)


@pytest.mark.parametrize(
    ("expression", "exact", "value"),
    [
        ("abs(h[1])", "1/2", "0.500000"),
        ("h_1**2 + h_2**2", "1", "1.00000"),
        ("sign(h[1, 1] * h[2, 1])", "pi**2/4", "2.46740"),
        ("sign(h[1]*h[2]*h[3])", "oo", None),
        ("sign(h[1]) + sign(h[2])", "0", "0"),
        ("h[1]**2*sign(h[1]*h[2])", "1/(1 + sqrt(1 + 4/pi**2))", "0.457572"),
    ],
)
def test_links(expression, exact, value):
    made = link(expression, digits=6)
    difference = sp.sympify(made.exact) - sp.sympify(exact) if value is not None else sp.S.Zero
    assert sp.simplify(difference) == 0
    assert (made.exact == "oo") == (exact == "oo")
    assert made.value == value


def test_a_link_with_one_integral():
    made = link("h[1]*h[2]", digits=20)
    assert not made.closed
    assert made.value == "0.59375109822225719955"  # 20 digits of mpmath's own quadrature and Bessel functions
    assert link("h[1]*h[2] + h[3]") is None


def test_where_nothing_exact_is_known():
    assert single_layer(2, 2, "softmax", False) is None
    assert single_layer(2, 1, "tanh") is None


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1,), {}, "tokens must be an integer >= 2"),
        ((2, 0), {}, "rank must be an integer >= 1"),
        ((2, 1.0), {}, "got 1.0"),
        ((2,), {"heads": 0}, "heads must be an integer >= 1"),
        ((10**7,), {}, "tokens must be at most 1000000"),
        ((2, 1001), {}, "rank must be at most 1000"),
        ((33, 1, "linear", False), {}, "tokens must be at most 32"),
        ((2,), {"digits": 0}, "digits must be an integer from 1 to 40"),
        ((2,), {"digits": True}, "got True"),
    ],
)
def test_bad_arguments_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        single_layer(*arguments, **options)


# The generator of all files, which tests/derive compares with what is committed, prints it as well.
@pytest.mark.slow
def test_printed_file_is_fresh():
    text = Path(printed.__file__).read_text(encoding="utf-8")
    marks = [line for line in text.splitlines() if not line.startswith("# sympy: ")]
    assert marks == [line for line in printer.render().splitlines() if not line.startswith("# sympy: ")]


def test_no_sympy_at_import():
    code = "import sys, attnlimits.numerics.thresholds.exact as e; e.single_layer(2); assert 'sympy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
