"""The user's own link: the grammar, regions and branches, symmetries, closed forms, and the printed kernel."""

import functools
import hashlib
import itertools
import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp

import attnlimits.derive
from attnlimits.derive.emit.link_source import render, write
from attnlimits.derive.links.branches import invert, split
from attnlimits.derive.links.exact import monotone, symmetry_maps
from attnlimits.derive.links.functions import ArgMax, SoftmaxEntry
from attnlimits.derive.links.intervals import correlation_proved, enclose
from attnlimits.derive.links.link import Link, LinkError, link, rotated
from attnlimits.derive.links.parser import index_symbol, parse
from attnlimits.derive.primitives import elementary

h1, h2, h3 = (index_symbol(p, 1) for p in (1, 2, 3))


def module_of(made: Link) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(render(made), "kernel", "exec"), names)
    return names


# --- grammar ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h", (h1,)),
        ("h_2", (h2,)),
        ("h[1, 2]", (index_symbol(1, 2),)),
        ("h_1_2", (index_symbol(1, 2),)),
        ("-h_1**2", (-(h1**2),)),
        ("2**-1*h", (h1 / 2,)),
        ("0.1*h", (h1 / 10,)),
        ("1e-2*h + pi", (h1 / 100 + sp.pi,)),
        ("h_1 - h_2 - h_3", (h1 - h2 - h3,)),
        ("h_1/h_2/2", (h1 / h2 / 2,)),
        ("2**3**2*h", (512 * h1,)),
        ("h_1; h_2", (h1, h2)),
        ("[h_1, h_2]", (h1, h2)),
        ("max(h_1, 0)", (sp.Max(h1, 0),)),
        ("argmax([h_1, h_2, h_3])", (ArgMax(h1, h2, h3),)),
        ("relu(h_1)", (sp.Max(0, h1),)),
        ("step(h_1*h_2)", (sp.sign(h1 * h2) / 2 + sp.Rational(1, 2),)),
        ("softmax(h_1, h_2)[2]*h_3", (h3 * SoftmaxEntry(2, h1, h2),)),
        ("softmax(h_1, h_2, 0); h_3", (*(SoftmaxEntry(k, h1, h2, 0) for k in (1, 2, 3)), h3)),
        ("[h_3, softmax([h_1, h_2])]", (h3, SoftmaxEntry(1, h1, h2), SoftmaxEntry(2, h1, h2))),
        ("Max(0, Abs(h_1)) - Heaviside(h_2)", (sp.Max(0, sp.Abs(h1)) - sp.sign(h2) / 2 - sp.Rational(1, 2),)),
        (
            "Piecewise((1, (h_1 > 0) & (h_2*(h_1 + 1) < 1)), (2, not h_2 > 1), (3, True))",
            (sp.Piecewise((1, (h1 > 0) & (h2 * (h1 + 1) < 1)), (2, h2 <= 1), (3, True)),),
        ),
    ],
)
def test_grammar(text: str, expected: tuple[sp.Expr, ...]) -> None:
    assert parse(text) == expected
    assert not any(e.has(sp.Float) for e in parse(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("h^2", "'^' at position 2"),
        ("h_1 +", "'the end' at position 6"),
        ("(h_1", "expected ')'"),
        ("foo(h)", "got 'foo' at position 1"),
        ("h.real", "'.' at position 2"),
        ("__import__('os')", "unexpected character"),
        ("h[0]", "counted from 1"),
        ("h_0", "counted from 1"),
        ("h[1.5]", "integer >= 1"),
        ("h/0", "division by zero at position 2"),
        ("h**h", "exponent at position 4"),
        ("h**1000", "exponent at position 4"),
        ("((9**64)**64)**64*h", "too large"),
        ("h > 0", "relations belong into"),
        ("sqrt(-1)*h", "not a finite real number"),
        ("Piecewise((1, h))", "one of < > <= >= == !="),
        ("max(h)", "at least two"),
        ("softmax(h)", "at least two"),
        ("softmax(h_1, h_2)*h_3", "expected '[k]' after softmax"),
        ("softmax(h_1, h_2)[3]", "an entry from 1 to 2"),
        ("h h", "an operator or the end"),
        ("(" * 100 + "h" + ")" * 100, "nested deeper"),
        ("h*1e999", "out of range"),
        ("h*1e" + "9" * 5000, "out of range"),
        ("9" * 5000 + "*h", "(5000 digits) at position 1 is out of range"),
        ("h[" + "1" * 5000 + "]", "integer >= 1"),
        ("h_" + "1" * 5000, "expected h[p, m]"),
        ("*".join(["1e300"] * 1600) + "*h", "too large"),
        ("h*" + "*".join(["1e300"] * 1600), "too large"),
        ("((h*1e300)**64)**64", "too large"),
        ("(((h + 1)**64)**64)**64", "multiply up to 262144"),
        ("2**2**2**2**2", "exponent at position"),
        ("2**(10**9)*h", "exponent at position 4"),
        ("h" * 10_001, "at most 10000"),
        ("-" * 4000 + "h", "nested deeper"),
        ("Piecewise((1, " + "~" * 4000 + "(h > 0)), (0, True))", "nested deeper"),
        ("Piecewise((1, " + "(" * 4000 + "h > 0" + ")" * 4000 + "), (0, True))", "nested deeper"),
        ("Piecewise((1, " + "(" * 4000 + "h" + ")" * 4000 + " > 0), (0, True))", "nested deeper"),
        ("exp(" * 4000 + "h" + ")" * 4000, "at most 10000"),
        ("Piecewise((1, (h > 0), (0, True))", "expected"),
    ],
)
def test_grammar_errors_name_the_place(text: str, says: str) -> None:
    with pytest.raises(LinkError) as caught:
        parse(text)
    assert says in str(caught.value)


def test_conditions_in_brackets_are_read_once() -> None:
    """Read twice a level, as a condition and as a value, forty levels would take for ever."""
    text = "h"
    for _ in range(14):
        text = f"Piecewise((1, (({text}) > 0)), (0, True))"
    assert link(text).exact == 0
    same = ["h > 0", "(h > 0)", "((h) > (0))", "(h) > 0", "((h > 0) & (((h)) > -1))", "~((h <= 0) | (h < -1))"]
    assert len({str(link(f"Piecewise((1, {condition}), (0, True))").parts[0].regions) for condition in same[:4]}) == 1
    for condition in same:
        assert link(f"Piecewise((1, {condition}), (0, True))").exact == 0


def test_towers_of_monotone_functions_are_what_they_hold() -> None:
    """No number is as large as exp(exp(..)): that the tower is real shows in its argument."""
    assert link("exp(" * 20 + "h" + ")" * 20).outputs == link("h").outputs


@pytest.mark.parametrize(
    ("expr", "options", "says"),
    [
        ("3", {}, "does not depend on h"),
        ("h_3", {"indices": 2}, "indices must be an integer >= 3"),
        ("h[1, 2]", {"tokens": 1}, "tokens must be an integer >= 2"),
        ("h_1*h_9", {}, "at most 8"),
        ("h", {"noise": -1}, "noise must be"),
        ("h", {"noise": "lots"}, "noise must be"),
        ("h", {"noise": math.nan}, "noise must be"),
        ("sqrt(h)", {}, "not a finite real number at h_1_1"),
        ("log(h_1*h_2)", {}, "not a finite real number"),
        ("Piecewise((1, h_1 > 0), (2, h_1 < -1))", {}, "not a finite real number at h_1_1"),
        ("sign(h**2)", {}, "takes the same value for every h"),
        ("argmax(h_1, h_1)", {}, "takes the same value for every h"),
        ("sin(h)**2 + cos(h)**2", {}, "takes the same value for every h"),
        (sp.Symbol("x") ** 2, {}, "expected the symbols h"),
        (sp.gamma(h1), {}, "gamma"),
        (sp.IndexedBase("g")[1], {}, "expected h[p]"),
    ],
)
def test_errors_name_the_part(expr: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(LinkError) as caught:
        link(expr, **options)
    assert says in str(caught.value)


def test_what_has_no_closed_solution_keeps_its_slopes_and_noise_needs_neither() -> None:
    (part,) = link("h_1*exp(h_1)*cosh(h_2)*h_2").parts
    assert [(b.unknown, b.solutions) for b in part.branches[0]] == [(h1, ()), (h2, ())]
    assert sp.expand(part.branches[0][0].slope - sp.diff(part.outputs[0], h1)) == 0
    assert link("[h_1*h_2, h_1 + h_2]", noise=1).parts[0].branches == ((),)


def test_outputs_that_share_no_entry_are_parts() -> None:
    made = link("h_1*h_2; abs(h_3); h_2 + h_4**2; sign(h_5)")
    assert [part.numbers for part in made.parts] == [(0, 2), (1,), (3,)]
    assert made.parts[0].entries == tuple(index_symbol(p, 1) for p in (1, 2, 4))
    assert [part.fixed for part in made.parts] == [False, True, False]
    # a constant among the outputs says nothing
    assert link("abs(h_1); sign(h_2**2)").outputs == link("abs(h_1)").outputs


def test_large_powers_are_not_multiplied_out() -> None:
    start = time.monotonic()
    made = link("(h_1 + h_2 + h_3)**64")
    assert made.outputs == ((h1 + h2 + h3) ** 2,)  # even powers say the same
    assert link("(h_1 + h_2 + h_3)**64", noise=1).even
    assert time.monotonic() - start < 10  # multiplied out: more than 20 s


def test_expressions_and_texts_agree() -> None:
    h = sp.IndexedBase("h")
    texts = link("h[1]**2 + 0.5*sign(h[2]*h[3])")
    assert link(h[1] ** 2 + sp.sign(h[2] * h[3, 1]) / 2).hash == texts.hash
    assert link(sp.Symbol("h_1") ** 2 + 0.5 * sp.sign(sp.Symbol("h_2") * sp.Symbol("h_3_1"))).hash == texts.hash
    assert link("h[1]**2 + 0.5*sign(h[2]*h[3])", noise=1).hash != texts.hash
    assert link("h[1]**2 + 0.5*sign(h[2]*h[3])", indices=4).hash != texts.hash


def test_the_package_serves_the_function() -> None:
    """So it does in a process that has imported nothing else: see the test of the written kernel."""
    assert attnlimits.derive.link("abs(h)").exact == sp.Rational(1, 2)


# --- regions and branches ---------------------------------------------------------------------------------------


@functools.cache
def made_once(text: str) -> tuple[Link, dict[str, Any]]:
    made = link(text)
    return made, module_of(made)


LINKS = [
    "h_1*h_2",
    "h_1**2 + sign(h_1*h_2*h_3)",
    "max(h_1, h_2, 0)",
    "min(h_1, h_2**2)",
    "argmax(h_1, h_2, h_3)",
    "abs(abs(h_1) - 1) + h_2",
    "sign(h_1**2 - 2)*h_2",
    "sign(h_1 + abs(h_2))",
    "Piecewise((h_1, h_1 > h_2), (h_2**2, h_1*h_2 < 1), (exp(h_1), True))",
    "tanh(h_1)*erf(h_2)",
    "sign(sin(h_1))",
    "h_1**3 + h_2",
    "h_1*h_2 + h_1**2",
    "relu(h_1) - relu(h_2)",
    "step(h_1)*h_2",
    "softmax(h_1, h_2**2)[1]",
    "softmax(h_1, h_2, 2*h_3)[2]",
]


@pytest.mark.parametrize("text", LINKS)
def test_regions_cover_the_space_once_and_give_the_link(text: str, rng: np.random.Generator) -> None:
    made, kernel = made_once(text)
    h = rng.normal(size=(400, made.indices, made.tokens))
    entries = [h[:, p, m] for m in range(made.tokens) for p in range(made.indices)]
    values = kernel["link"](h)[:, 0]
    seen = np.zeros(len(h), dtype=int)
    (part,) = kernel["PARTS"]
    for region in part["regions"]:
        inside = np.ones(len(h), dtype=bool)
        for entry, (low, high) in region["bounds"].items():
            inside &= (entries[entry] > low) & (entries[entry] < high)
        if region["conditions"]:
            for value in region["conditions"](entries):
                inside &= value > 0
        seen += inside
        got = np.broadcast_to(region["output"](entries)[0], len(h))[inside]
        # the same formula after splitting: a few roundings apart
        np.testing.assert_allclose(got, values[inside], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(seen, 1)
    if "argmax" not in text:
        names = {"Max": max, "Min": min, "sign": lambda x: (x > 0) - (x < 0), "Abs": abs}
        scalar = sp.lambdify(made.coordinates, made.outputs[0], [names, "math"])
        expected = [float(scalar(*point)) for point in np.stack(entries, axis=1)[:20]]
        np.testing.assert_allclose(values[:20], expected, rtol=1e-12)


@pytest.mark.parametrize("text", [t for t in LINKS if "argmax" not in t])
def test_some_branch_gives_back_the_entry_and_its_slope(text: str, rng: np.random.Generator) -> None:
    made, kernel = made_once(text)
    h = [rng.normal(size=200) for _ in made.coordinates]
    (part,) = kernel["PARTS"]
    for region in part["regions"]:
        for entry, (count, solve, slope) in region["branches"][0].items():
            if not count:
                assert solve is None
                continue
            y = np.broadcast_to(region["output"](h)[0], 200)
            with np.errstate(all="ignore"):
                found = np.stack([np.broadcast_to(z, 200) for z in solve(y, h)])
            assert len(found) == count
            ok = np.isfinite(y)
            # square roots and odd roots near a double point lose half of the digits
            assert np.nanmin(np.abs(found - h[entry]), axis=0)[ok].max() < 1e-6
            step = 1e-6
            up, down = ([*h[:entry], h[entry] + d, *h[entry + 1 :]] for d in (step, -step))
            numeric = (region["output"](up)[0] - region["output"](down)[0]) / (2 * step)
            # central differences: rounding 1e-10, curvature 1e-12 times the third derivative
            np.testing.assert_allclose(
                np.broadcast_to(slope(h)[0], 200), np.broadcast_to(numeric, 200), rtol=1e-5, atol=1e-7
            )


@pytest.mark.parametrize(
    "make",
    [
        lambda z, a: z**2 + a * z,
        lambda z, a: a * z**4 - z**2,
        lambda z, a: (z - a) ** 3,
        lambda z, a: sp.exp(z) * a + 1,
        lambda z, a: sp.cos(2 * z) + a,
        lambda z, a: sp.sinh(sp.tanh(z)) + a,
        lambda z, a: 1 / z + a,
        lambda z, a: sp.cosh(z) - a,
        lambda z, a: sp.erf(z) * a,
        lambda z, a: sp.log(1 + z**2) + a,
    ],
)
def test_inversion_finds_every_root(make: Callable[[sp.Expr, sp.Expr], sp.Expr]) -> None:
    z, a, y = (sp.Symbol(n, real=True) for n in "zay")
    expr = make(z, a)
    at = {a: sp.Rational(7, 5)}
    for true in (sp.Rational(-13, 10), sp.Rational(1, 3), sp.Rational(9, 4)):
        value = expr.subs({**at, z: true})
        roots = [elementary(root).subs({**at, y: value}).evalf(30) for root in invert(expr, z, y)]
        assert min(abs(root - true) for root in roots) < 1e-20


def test_split_counts() -> None:
    assert len(split(parse("sign(h_1*h_2*h_3)"))) == 8
    # the root of an irreducible quadratic becomes a bound
    assert {r.bounds[h1] for r in split(parse("sign(h**2 - 2)"))} == {
        (sp.sqrt(2), sp.oo),
        (-sp.sqrt(2), sp.sqrt(2)),
        (-sp.oo, -sp.sqrt(2)),
    }
    assert len(split(parse("sign(h_1**2 + h_2**2)"))) == 1
    assert len(split(parse("sign(exp(h_1))*h_2"))) == 1


# --- symmetries and closed forms ----------------------------------------------------------------------------------


def test_parity() -> None:
    stairs = link("h_1**2 + sign(h_1*h_2*h_3)")
    assert stairs.zero_mean == (0, 1, 2)
    assert stairs.zero_second == ((0, 1), (0, 2), (1, 2))
    assert not stairs.even and not stairs.odd
    product = link("h_1*h_2")
    assert product.zero_mean == (0, 1) and product.zero_second == ()
    assert product.even
    assert link("sign(h_1) + h_2**3").odd
    assert link("h_1 + h_2**2").zero_mean == (1,)


# The same symmetries and solutions with more indices than those of other instances.
@pytest.mark.slow_for("sign(h_1*h_2*h_3*h_4)", "sign((h_1 + h_2)*(h_1 - h_2)*h_3)", "sign(h_1*h_2); sign(h_3*h_4)")
@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("abs(h)", sp.Rational(1, 2)),
        ("h**2", sp.Rational(1, 2)),
        ("cosh(3*h) - 1", sp.Rational(1, 2)),
        ("sign(h_1*h_2)", sp.pi**2 / 4),
        ("step(h_1*h_2)", sp.pi**2 / 4),
        ("relu(h)", 0),
        ("softmax(h_1, h_2, h_3)", 0),
        ("softmax(h_1**2, 1)", sp.Rational(1, 2)),
        ("softmax(h_1**2, 0, h_2**2)", sp.Rational(1, 2)),
        ("3*sign(h_1*h_2) - 1", sp.pi**2 / 4),
        ("sign(h_1*h_2*h_3)", sp.oo),
        ("sign(h_1*h_2*h_3*h_4)", sp.oo),
        ("sign(h)", 0),
        ("sign(h_1) + sign(h_2)", 0),
        ("sign(h_1) + sign(h_2) + sign(h_3)", 0),
        ("[h[1,1]**2, h[1,1]*h[1,2]]", sp.Rational(1, 6)),
        ("[h[1]**2, h[1]*h[2]]", sp.Rational(1, 3)),
        ("abs(h_1); h_1*h_2", sp.Rational(1, 3)),
        ("h_1**2 - h_2**2; 2*h_1*h_2", sp.Rational(1, 3)),
        ("abs(h_1); abs(h_2)", sp.Rational(1, 2)),
        ("abs(h_1); sign(h_2*h_3)", sp.Rational(1, 2)),
        ("sign(h_1*h_2); sign(h_3*h_4)", sp.pi**2 / 4),
        ("argmax(h_1**2, h_2**2)", sp.pi**2 / 4),
        ("sign((h_1 + h_2)*(h_1 - h_2)*h_3)", sp.oo),
        ("tanh(h_1) + max(h_2, h_3)", 0),
        ("h*exp(h**2)", 0),
        # up to the sign and the order of the entries: the image of I is I times E (s/2 - 1)^2 + E p^2 = 1 + 1
        ("h_1**2 + h_2**2; h_1*h_2", sp.Rational(1, 2)),
        ("h_1**2*h_2**2; h_1**2 + h_2**2", 1),
        ("h_1**2 + h_2**2 + h_3**2", sp.Rational(3, 2)),
        ("exp(-sqrt(h[1,1]**2 + h[1,2]**2))", sp.Rational(1, 2)),
        ("1/h", 0),
        ("sin(h)", 0),
        ("argmax(h_1, h_2, h_3)", 0),
        ("Piecewise((h_1**2, h_2 > 0), (-h_1**2, True))", 0),
        ("sin(20*h)", None),
        # top of the cubic factor (x - 2)(x^2 - 2 x - 4) in units of 2/pi^2
        ("sign(h_1)*sign(h_2) + sign(h_2)*sign(h_3)", sp.pi**2 * (sp.sqrt(5) - 1) / 8),
        ("(h_1 + h_2 + h_3)**64", sp.Rational(1, 2)),
        ("abs(3*h_1 - 4*h_2); h_3**2", sp.Rational(1, 2)),
        # u = (h[1,1] + h[1,2] + h[2,1])/sqrt(3): S = [[2, 1], [1, 1]]/3 with ||S||^2 = 7/9
        ("(h[1,1] + h[1,2] + h[2,1])**2", sp.Rational(9, 14)),
        ("cos(h_1 + h_2)", None),
        ("h_1*h_2", None),
        ("h_1**2 + sign(h_1*h_2*h_3)", None),
    ],
)
def test_closed_forms(text: str, exact: Any) -> None:
    found = link(text).exact
    assert found == exact or sp.radsimp(found - exact) == 0


def test_eigenvectors_of_closed_forms_are_those_of_the_operator() -> None:
    """By pairs of samples with the same y: <V, F(V)> = 1/alpha for the printed V, and less for another one."""
    rng = np.random.default_rng(5)
    made = link("sign(h_1)*sign(h_2) + sign(h_2)*sign(h_3)")
    v = np.array(made.directions[()])
    assert np.linalg.norm(v) == pytest.approx(1, abs=1e-12) and np.linalg.eigvalsh(v)[0] > -1e-12
    h = rng.normal(size=(400_000, 3))
    h = h[np.argsort(np.sign(h[:, 0] * h[:, 1]) + np.sign(h[:, 1] * h[:, 2]), kind="stable")]
    g = h[:, :, None] * h[:, None, :] - np.eye(3)
    each = np.einsum("ij,nia,ab,njb->n", v, g[0::2], v, g[1::2])
    sigma = each.std() / math.sqrt(len(each))
    assert 1 / float(made.exact) == pytest.approx(each.mean(), abs=4 * sigma)
    assert link("h_1**2 + sign(h_1*h_2*h_3)").directions[(1,)][0] == (0.0, 0.0, 0.0)


def test_symmetries_of_a_fibre_keep_the_link() -> None:
    outputs = parse("h_1**2*h_2**2; h_1**2 + h_2**2")
    maps = symmetry_maps(outputs, split(outputs), (h1, h2))
    assert len(maps) == 8
    for t in maps:
        images = dict(zip((h1, h2), t * sp.Matrix([h1, h2]), strict=True))
        assert all(sp.expand(g.xreplace(images) - g) == 0 for g in outputs)
    # an ellipse: the fibre is no orbit of linear maps
    outputs = parse("h_1**2 + 2*h_2**2; h_1*h_2")
    assert symmetry_maps(outputs, split(outputs), (h1, h2)) == ()


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("log(abs(h[1]*h[2]))", "abs(h[1]*h[2])"),
        ("3*h_4*h_2 - 1", "h[1]*h[2]"),
        ("argmax(abs(h_1), abs(h_2), abs(h_3))", "argmax([abs(h[1]), abs(h[2]), abs(h[3])])"),
        ("h[1,1]*h[1,2]", ""),
    ],
)
def test_the_table_is_searched_by_what_the_link_says(text: str, table: str) -> None:
    assert link(text).table == table


def test_a_link_along_other_axes_says_the_same() -> None:
    made = rotated(link("abs(h_1 - h_2) + h_3**2"), [(1, 1, 0), (0, 0, 1), (1, -1, 0)])
    g = module_of(made)["link"]
    h = np.random.default_rng(2).normal(size=(20, 3))
    axes = np.array([[1, 1, 0], [0, 0, np.sqrt(2)], [1, -1, 0]]) / np.sqrt(2)
    np.testing.assert_allclose(g((h @ axes.T)[:, :, None])[:, 0], abs(h[:, 0] - h[:, 1]) + h[:, 2] ** 2, rtol=1e-12)
    with pytest.raises(LinkError, match="orthogonal"):
        rotated(link("h_1*h_2"), [(1, 1), (1, 0)])


# --- proof by intervals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "sin(3*h)",
        "cos(h)**2/(1 + h**2)",
        "1/h",
        "exp(h)*tanh(h - 1)",
        "cosh(h)*erf(h)",
        "log(1 + h**4)",
        "h**3 - 2*h",
        "1/h**2",
    ],
)
def test_bounds_hold_on_every_box(text: str, rng: np.random.Generator) -> None:
    """Against the values at random points of random boxes."""
    (expr,) = parse(text)
    a, b = np.sort(rng.uniform(-4, 4, size=(2, 300)), axis=0)
    low, high = enclose(expr, {h1: (a, b)})
    inside = a + (b - a) * rng.uniform(size=(50, 300))
    values = sp.lambdify(h1, expr, [{"erf": np.vectorize(math.erf)}, "numpy"])(inside)
    assert (values >= low).all() and (values <= high).all()
    narrow = enclose(expr, {h1: (np.array(0.7), np.array(0.7))})
    assert narrow[1] - narrow[0] < 1e-6  # the slack of cosines


@pytest.mark.parametrize(
    ("text", "proved"),
    [
        ("sin(h)", True),
        ("1/h", True),
        ("argmax(h_1, h_2, h_3)", True),
        ("Piecewise((h_1**2, h_2 > 0), (-h_1**2, True))", True),
        ("sign(h_1 - h_2*h_3)", True),
        ("h**2", False),
        ("h_1*h_2", False),
        ("cos(h_1 - h_2)", False),
        ("sign(h_1*h_2*h_3)", False),
        # E[h f(y)] is of the order of exp(-200)
        ("sin(20*h)", False),
    ],
)
def test_linear_information_by_intervals(text: str, proved: bool) -> None:
    assert correlation_proved(0, split(parse(text))) is proved


def test_closed_form_of_a_slab() -> None:
    # |h| > sqrt 2 or not: alpha = 1/sum_y P_y (E[h^2|y] - 1)^2, here with numbers
    mass = math.erfc(1.0)
    edge = 2 * math.sqrt(2) * math.exp(-1) / math.sqrt(2 * math.pi)
    expected = 1 / (edge**2 / mass + edge**2 / (1 - mass))
    assert float(link("sign(h**2 - 2)").exact) == pytest.approx(expected, rel=1e-13)


def test_closed_forms_of_the_steps() -> None:
    stairs = link("h_1**2 + sign(h_1*h_2*h_3)").steps
    assert stairs == {(1,): sp.pi**2 / 4, (1, 2): 0, (1, 3): 0}
    # given h_1 > 0 the output says |h_2| > 1 or not, given h_1 < 0 nothing: half of the information of the former
    one = link("sign(h_2**2 - 1)*max(sign(h_1), 0)").steps[(1,)]
    assert float(one) == pytest.approx(2 * float(link("sign(h**2 - 1)").exact), rel=1e-13)


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("h_1", 1),
        ("-3*h_1 + h_2**2", -1),
        ("tanh(h_1)**3 + max(h_1, h_2)", 1),
        ("h_1*exp(h_1**2)", 1),
        ("h_1*h_2", None),
        ("h_1**3 - h_1", None),
        ("1/h_1", None),
        ("h_2", 0),
    ],
)
def test_monotone(text: str, direction: int | None) -> None:
    assert monotone(parse(text)[0], h1) == direction


def test_the_entries_of_a_softmax_say_differences() -> None:
    assert link("softmax(h_1, h_2**2, h_3)").outputs == (h2**2 - h1, h3 - h1)
    # All entries but one are as good, and with noise all count.
    assert link("softmax(h_1, h_2, h_3)[1]; softmax(h_1, h_2, h_3)[3]").outputs == (h2 - h1, h3 - h1)
    assert len(link("softmax(h_1, h_2, h_3)", noise=1).outputs) == 3
    at = {h1: 0.3, h2: -1.2, h3: 0.8}
    values = [float(output.subs(at)) for output in link("softmax(h_1, h_2, h_3)", noise=1).outputs]
    powers = np.exp([0.3, -1.2, 0.8])
    assert np.allclose(values, powers / powers.sum())


def test_outer_monotone_functions_say_nothing() -> None:
    assert link("tanh(2*h_1*h_2 + 1)**3").hash == link("h_1*h_2").hash
    # with noise they do
    assert link("tanh(h_1*h_2)", noise=1).hash != link("h_1*h_2", noise=1).hash
    # not injective: it must stay
    assert link("(h_1 + 1)**2").outputs != link("h_1 + 1").outputs


def test_kernel_is_written_whole_and_is_deterministic(tmp_path: Any) -> None:
    made = link("h_1**2 + sign(h_1*h_2*h_3)")
    path = write(made, tmp_path / "a")
    assert path.name == f"{hashlib.sha256(path.read_bytes()).hexdigest()}.py" and [
        p.name for p in path.parent.iterdir()
    ] == [path.name]
    code = (
        "import attnlimits.derive as d; made = d.link('h_1**2 + sign(h_1*h_2*h_3)'); "
        "from attnlimits.derive.emit.link_source import render; print(render(made))"
    )
    # Strings have other hashes there than in this process.
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"}
    )
    assert done.stdout.rstrip() == path.read_text(encoding="utf-8").rstrip()


def test_flips_leave_the_printed_link_as_it_is(rng: np.random.Generator) -> None:
    for text in ("h_1*h_2*h_3", "sign(h_1*h_2) + h_3**2", "abs(h[1,1]*h[1,2]) + h[2,1]**2"):
        made = link(text)
        g = module_of(made)["link"]
        h = rng.normal(size=(50, made.indices, made.tokens))
        count = 0
        for signs in itertools.product((1, -1), repeat=made.indices * made.tokens):
            flip = np.array(signs).reshape(made.tokens, made.indices).T
            same = np.allclose(g(h * flip), g(h), rtol=1e-13)
            assert same == (signs in made.flips)
            count += same
        assert count >= 4
