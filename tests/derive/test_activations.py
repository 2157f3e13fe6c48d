"""Activations of the user's: every function that may be used, in all three printings, and what grows beyond numbers."""

import math
import time

import numpy as np
import pytest
import sympy as sp
from numba import njit

from attnlimits.derive.activation import SCORE, logistic, printed_activation
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.emit.ir import lower
from attnlimits.derive.emit.render import render_mp, render_numba, render_numpy
from attnlimits.derive.kernels.kernel import Kernel
from attnlimits.derive.kernels.packages import write_link_package
from attnlimits.derive.nodes import SUPPORTED, Erfc
from attnlimits.derive.primitives import elementary
from attnlimits.derive.proof import prove_equal
from attnlimits.numerics.model.kernels import load_package

EPS = np.finfo(float).eps
S = sp.Symbol("s", real=True)


def gelu(s):
    return s * sp.erf(s / sp.sqrt(2)) / 2 + s / 2


def elu(s):
    return sp.Piecewise((s, s > 0), (sp.exp(s) - 1, True))


def hard(s):
    """Every kind of condition."""
    inner = sp.Piecewise((s / 2, sp.And(s >= -1, s < sp.Rational(1, 2))), (s**2, sp.Or(s > 3, s <= -3)), (1 - s, True))
    return inner + sp.Piecewise((1, sp.Eq(s, 2)), (2, sp.Not(s > 0)), (0, sp.Ne(s, 1)), (5, True))


ANY = (-2.5, -0.75, -1e-3, 0.3, 1.25, 2.75)
POSITIVE, WIDE, INSIDE = (1e-3, 0.3, 1.25, 2.75), (-2.75, -1.25, 1.5, 3.0), (-0.875, -0.25, 1e-3, 0.5)
ABOVE, UNIT = (1.125, 1.5, 4.0), (0.125, 0.5, 0.875)

# Where a function and its derivative are defined.
NAMED = {
    **{name: ANY for name in ("exp", "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "sech")},
    **{name: ANY for name in ("csch", "atan", "acot", "asinh", "acsch", "Abs", "sign", "Heaviside", "erf", "erfc")},
    **{name: POSITIVE for name in ("log", "sqrt")},
    **{name: INSIDE for name in ("asin", "acos", "atanh")},
    **{name: WIDE for name in ("asec", "acsc", "acoth")},
    "acosh": ABOVE,
    "asech": UNIT,
}
OTHER = {
    "Max": (lambda s: sp.Max(s, s**2 - 1, 0), ANY),
    "Min": (lambda s: sp.Min(s, s**2 - 1), ANY),
    "Piecewise": (hard, (-4.0, -2.5, -0.75, 0.3, 0.75, 1.0, 2.0, 2.75, 4.0)),
    "powers": (lambda s: s**7 / 9 - s**-5 + (1 + s**2) ** sp.Rational(1, 3), ANY),
    "roots": (lambda s: s ** sp.Rational(7, 2) + s ** sp.Rational(-2, 3) + s**sp.pi, POSITIVE),
    "gelu": (gelu, (*ANY, -8.0, 9.0)),
    "elu": (elu, ANY),
    "normal": (lambda s: (1 - sp.erf(s)) * sp.exp(s) / sp.E, ANY),
}
FUNCTIONS = {name: (getattr(sp, name), points) for name, points in NAMED.items()} | OTHER


def test_the_list_of_what_is_supported_is_tested():
    said = SUPPORTED.replace("(asin, .., acsch)", "")
    words = {word.strip(" ,;") for word in said.replace(",", " ").replace(";", " ").split()}
    words -= {"and", "with", "the", "inverses", "of", "all"}
    assert words <= set(FUNCTIONS), words - set(FUNCTIONS)
    assert {f"a{name}" for name in words if name[:3] in ("sin", "cos", "tan", "cot", "sec", "csc")} <= set(FUNCTIONS)


@pytest.fixture(scope="module")
def printed():
    """Return value and derivative of every function in all printings, each printing compiled at once."""
    kernels = []
    for name, (function, _) in FUNCTIONS.items():
        _, value, rate = printed_activation(Architecture(1, 2, activation=function))
        outputs = tuple((what, e.xreplace({SCORE: S})) for what, e in (("value", value), ("rate", rate)))
        options = {"total": False, "refuses": True, "towers": True, "meanings": (("s", "real", "score"),)}
        kernels.append(Kernel(f"f_{name}", (S,), outputs, name, (), (3,), "s real", **options))
    programs, made = [lower(kernel) for kernel in kernels], {}
    for render in (render_numpy, render_numba, render_mp):
        text = render(programs, "attnlimits.generated.").replace('"cache": True', '"cache": False')
        # Text that comes from no file has no cache.
        text = text.replace("@njit(**OPTIONS)", '@njit(**{**OPTIONS, "cache": False})')
        text = text.replace("@njit(**CHECKED)", '@njit(**{**CHECKED, "cache": False})')
        names = {}
        exec(compile(text, render.__name__, "exec"), names)
        made[render.__name__] = names
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_supported_function(name, printed, context):
    """Against SymPy's own evaluation and differentiation, in plain functions of SymPy, at 40 digits."""
    ctx = context(40)
    function, points = FUNCTIONS[name]
    plain = function(S)
    vectorised, precise = (printed[kind][f"f_{name}"] for kind in ("render_numpy", "render_mp"))
    made = np.array(vectorised(np.array(points)))
    for number, point in enumerate(points):
        at = sp.Rational(point)
        exact = plain.subs(S, at).evalf(40), plain.diff(S).subs(S, at).evalf(40)
        exact = [0.0 if value.has(sp.DiracDelta) else value for value in exact]
        found = precise(ctx, ctx.mpf(point))
        for k, wanted in enumerate(ctx.mpf(str(value)) for value in exact):
            size = max(1, abs(wanted))
            assert abs(found[k] - wanted) < ctx.mpf(10) ** -36 * size, (name, point, k)
            # Some operations, of which those near a pole or a zero multiply the rounding by up to a hundred.
            assert abs(made[k, number] - float(wanted)) <= 128 * EPS * size, (name, point, k)


@pytest.mark.parametrize("name", ["gelu", "Piecewise", "roots", "asech", "erfc", "tan", "powers", "acoth"])
def test_compiled_functions(name, printed):
    """Each kind of text: the same numbers as numpy, but for the roundings of terms of order one."""
    compiled, vectorised = (printed[kind][f"f_{name}"] for kind in ("render_numba", "render_numpy"))
    for point in FUNCTIONS[name][1]:
        np.testing.assert_allclose(compiled(point), vectorised(point), rtol=64 * EPS, atol=16 * EPS)


@pytest.mark.parametrize(("name", "point"), [("log", -1.0), ("asin", 2.0), ("acosh", 0.5), ("roots", -1.0)])
def test_outside_of_the_domain_of_an_activation(name, point, printed, context):
    with pytest.raises(ValueError, match=f"f_{name}: an output is not finite"):
        printed["render_numpy"][f"f_{name}"](point)
    with pytest.raises(ValueError, match=f"f_{name}: an output is not finite"):
        printed["render_mp"][f"f_{name}"](context(30), point)


def test_tails_of_the_error_function_do_not_cancel():
    """GELU at -8 is -8 erfc(8/sqrt 2)/2, 5e-15: relative accuracy where 1 + erf has no digit."""
    form = logistic(gelu(S))
    assert form.has(Erfc) and not form.has(sp.erf)
    prove_equal(form, gelu(S), "gelu")
    for plain in (
        1 - sp.erf(S),
        S + sp.exp(S) * sp.erf(S) + sp.exp(S),
        2 * sp.erf(S) - 2,
        1 + sp.erf(S) - sp.erf(2 * S),
    ):
        assert logistic(plain).has(Erfc)
        prove_equal(logistic(plain), plain, str(plain))
    exact = [float(gelu(S).subs(S, value).evalf(40, maxn=2000)) for value in (-8, -20, -30)]
    _, value, _ = printed_activation(Architecture(1, 2, activation=gelu))
    assert elementary(value).subs(SCORE, -8).evalf(30) == pytest.approx(exact[0], rel=1e-13)


def test_printed_tails(printed):
    exact = [float(gelu(S).subs(S, value).evalf(40, maxn=2000)) for value in (-8, -20, -30)]
    # Exponents of the size s^2/2 carry their roundings.
    np.testing.assert_allclose(printed["render_numpy"]["f_gelu"](np.array([-8.0, -20, -30]))[0], exact, rtol=500 * EPS)
    np.testing.assert_allclose(
        [printed["render_numba"]["f_gelu"](s)[0] for s in (-8.0, -20.0, -30.0)], exact, rtol=1e-13
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("activations")
    models = {"exp": Architecture(2, 2, 1, sp.exp), "gelu": Architecture(2, 2, 1, gelu), "log": sp.log, "asin": sp.asin}
    models |= {name: Architecture(1, 2, activation=models[name]) for name in ("log", "asin")}
    return {name: write_link_package(model, folder) for name, model in models.items()}


BIG, USUAL = (1e3, -1e3, 1e3, -1e3, 1.0, 1.0), (0.3, -0.4, 0.7, 0.2, 1.0, 1.0)


@pytest.mark.parametrize("function", ["link", "jacobian"])
def test_towers_of_exponentials_are_refused(function, packages, context):
    """exp(exp(1e6)) at |h| = 1e3: named by all three, at once; a nan that comes in is no overflow."""
    compiled = getattr(load_package(packages["exp"], "numba64"), function)
    with pytest.raises(
        OverflowError, match=rf"{function}: .* finite h1_1_1, .*use smaller.*`{function}` of .*mp .*\(5\)"
    ):
        compiled(*BIG)
    with pytest.raises(OverflowError, match=rf"{function}: an output is not finite at h1_1_1 = 1000"):
        getattr(load_package(packages["exp"], "numpy64"), function)(*BIG)
    start = time.perf_counter()
    with pytest.raises(OverflowError, match=r"exp: its argument is beyond 2\^4096.*use smaller entries of h"):
        getattr(load_package(packages["exp"], "mp"), function)(context(60), *BIG)
    # Milliseconds; without the limit it does not end.
    assert time.perf_counter() - start < 10
    assert np.isfinite(compiled(*USUAL)).all()
    assert np.isnan(compiled(math.nan, *USUAL[1:])).any()
    # Integers are numbers too, zero among them.
    assert np.isfinite(compiled(0, 1, 0, 1, 1, 1)).all()


def test_refusals_leave_compiled_loops(packages):
    """A loop without the GIL: what a kernel raises in it arrives."""
    link = load_package(packages["exp"], "numba64").link

    @njit(nogil=True)
    def total(first):
        out = 0.0
        for h in first:
            out += link(h, -0.4, 0.7, 0.2, 1.0, 1.0)[0]
        return out

    entries = np.array([0.1, 0.2, 0.3])
    wanted = sum(link(h, -0.4, 0.7, 0.2, 1.0, 1.0)[0] for h in entries)
    assert total(entries) == pytest.approx(wanted, rel=1e-15)
    with pytest.raises(OverflowError, match="link: an output is not finite in float64"):
        total(np.array([0.1, 1e3]))


@pytest.mark.parametrize("function", ["link", "jacobian"])
def test_gelu_networks_at_corners(function, packages, context):
    ctx = context(60)
    modules = {kind: load_package(packages["gelu"], kind) for kind in ("mp", "numpy64", "numba64")}
    for point in (USUAL, BIG, (1e-300,) * 4 + (1.0, 1.0), (0.0,) * 4 + (1.0, 1.0), (3.0, -2.0, 1e-300, 1.5, 0.7, 1.3)):
        exact = getattr(modules["mp"], function)(ctx, *point)
        size = max(abs(value) for value in exact)
        for kind in ("numpy64", "numba64"):
            made = getattr(modules[kind], function)(*point)
            for value, wanted in zip(made, exact, strict=True):
                # Scores of up to 4e2 carry their roundings into exponentials; products underflow below 1e-290.
                assert (
                    abs(ctx.mpf(float(value)) - wanted) <= 64 * EPS * max(1, max(map(abs, point)) ** 2) * size + 1e-290
                )


@pytest.mark.parametrize("name", ["log", "asin"])
def test_activations_that_are_not_defined_everywhere(name, packages):
    """They are proved and compared where they are defined."""
    module = load_package(packages[name], "numpy64")
    h = np.array([0.5, 0.75])
    np.testing.assert_allclose(
        module.link(*h, 1.0),
        getattr(np, f"arc{name[1:]}" if name == "asin" else name)(np.outer(h, h)).ravel(),
        rtol=1e-15,
    )
