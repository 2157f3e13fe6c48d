"""The softmax of two tokens for loops and for any arithmetic: compiled and vectorised forms against exact ones."""

import cmath
import itertools
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from flint import arb

from attnlimits.derive.emit.printers import NumbaPrinter, PlainPrinter
from attnlimits.derive.kernels import pair_m2
from attnlimits.derive.primitives import Exp, Smallest
from attnlimits.derive.proof import ProofError
from attnlimits.generated.attention_tied_softmax_m2 import mp as family
from attnlimits.generated.pair_softmax_m2 import numba64, numpy64, plain
from attnlimits.numerics.arithmetic.ball import working_bits
from attnlimits.numerics.model.kernels import load_package

EPS = np.finfo(float).eps
BACKENDS = pytest.mark.parametrize("backend", [numpy64, numba64], ids=["numpy64", "numba64"])
# Beyond what exponentials of float64 hold, and where nothing is left of one entry.
POINTS = [*itertools.product([-30.0, -1.3, 0.0, 0.4, 7.0, 1e3], [-50.0, -0.8, 1e-9, 0.0, 2.5, 1e3])]
MODELS = [(1.0, 1.0), (0.05, 3.0), (4.0, 0.2)]


@pytest.fixture(scope="module")
def mp(derived):
    """The printing for arbitrary precision, which is not committed."""
    return load_package(derived("pair_softmax_m2"), "mp")


def _close(value, exact, allowed, what):
    assert np.isfinite(value), what
    assert abs(value - exact) <= allowed, (what, value, float(exact))


@BACKENDS
def test_slopes(backend, context, mp):
    ctx = context(60)
    for (vp, vm), (c, beta) in itertools.product(POINTS, MODELS):
        s, lower, jacobian = mp.slopes(ctx, vp, vm, c, beta)
        _, upper, _, end = family.layer(ctx, vp, vm, c, beta)
        assert abs(s - upper) + abs(lower - end) < 1e-50, "the family's own layer"
        made, what = backend.slopes(vp, vm, c, beta), (vp, vm, c, beta)
        # Exponents carry their own rounding, and an entry is at most 1/4 of it off.
        spread = beta * abs(vm) * (abs(vm) + abs(vp))
        _close(made[0], s, 4 * EPS * (1 + min(spread, 40.0)), what)
        _close(made[1], lower, 4 * EPS * (1 + c + min(spread, 40.0)), what)
        _close(made[2], jacobian, 8 * EPS * (2 + spread) * jacobian + 1e-290, what)


def test_the_jacobian_is_that_of_the_entries(context, mp):
    ctx = context(40)
    for (vp, vm), (c, beta) in itertools.product([(0.4, 0.8), (-1.3, 2.5), (0.1, -0.7)], MODELS):
        entries = [lambda a, b, k=k, c=c, beta=beta: mp.slopes(ctx, a, b, c, beta)[k] for k in (0, 1)]
        slopes = [[ctx.diff(f, (vp, vm), order) for order in ((1, 0), (0, 1))] for f in entries]
        wanted = abs(slopes[0][0] * slopes[1][1] - slopes[0][1] * slopes[1][0])
        assert abs(mp.slopes(ctx, vp, vm, c, beta)[2] - wanted) <= 1e-12 * wanted


@BACKENDS
def test_what_is_recovered_has_the_entries_it_is_of(backend, context, mp):
    ctx = context(60)
    for (vp, vm), (c, beta) in itertools.product([(0.4, 0.8), (-1.3, 1.5), (0.1, 0.7), (2.0, 0.3)], MODELS):
        s, lower, jacobian = mp.slopes(ctx, vp, vm, c, beta)
        p, r = mp.entries(ctx, s, lower, c)
        back = mp.recover(ctx, p, r, beta)
        for value, wanted in zip(back, (ctx.mpf(vp), ctx.mpf(vm), jacobian), strict=True):
            assert abs(value - wanted) <= 1e-45 * (1 + abs(wanted))
        made = backend.recover(*backend.entries(float(s), float(lower), c), beta)
        # One less an entry is known to the rounding of the layer, and p + r - 1 likewise.
        known = 16 * EPS * (1 + c) * float(1 / min(1 - p, 1 - r, p + r - 1))
        for value, wanted in zip(made, (vp, vm, jacobian), strict=True):
            _close(value, wanted, known * max(abs(wanted), abs(vp)), (vp, vm, c, beta))


def test_numpy_says_where_the_range_ends():
    for p, r in ((0.3, 0.4), (1.0, 0.9), (0.9, 0.0)):
        with pytest.raises(ValueError, match=r"recover: .*p \+ r > 1"):
            numpy64.recover(p, r, 1.0)


SCORES = [*itertools.product([0.0, 1e-12, 0.3, 4.0, 60.0, 2e3], repeat=2)]


@BACKENDS
def test_ratios(backend, context, mp):
    ctx = context(60)
    for (u, w), (c, _) in itertools.product(SCORES, MODELS):
        exact = mp.ratios(ctx, u, w, c)
        parts = [ctx.exp(sign * x) for x in (u, w) for sign in (1, -1)]
        upper, lower, weight = mp.numerators(ctx, *parts, c)
        assert abs(upper / lower - exact[0]) + abs(weight / lower - exact[1]) < 1e-40
        for value, wanted in zip(backend.ratios(u, w, c), exact, strict=True):
            _close(value, wanted, 8 * EPS * (1 + 1 / c) ** 2 * (1 + min(u + w, 40.0)), (u, w, c))


def test_ratios_vanish_with_the_scores():
    for printed in (numpy64, numba64):
        assert printed.ratios(3.0, 0.0, 0.5)[0] == 0.0
        assert printed.ratios(0.0, 3.0, 0.5)[1] == 2.0


@BACKENDS
def test_attention_keeps_all_digits(backend, context, mp):
    """Relative to each number, up to what the exponents are rounded by."""
    ctx = context(1000)
    for (vp, vm), (_, beta) in itertools.product(POINTS, MODELS):
        exact = mp.attention(ctx, vp, vm, beta)
        entries = family.link(ctx, vp, vm, beta)
        _, s, _, lower = family.layer(ctx, vp, vm, 1, beta)
        for value, wanted in zip(exact, (*entries, s, lower - 1), strict=True):
            assert abs(value - wanted) <= ctx.mpf(10) ** -200
        spread = 1 + beta * abs(vm) * (abs(vm) + abs(vp))
        for value, wanted in zip(backend.attention(vp, vm, beta), exact, strict=True):
            _close(value, wanted, 8 * EPS * spread * abs(wanted) + 1e-307, (vp, vm, beta))


@BACKENDS
def test_turns_are_the_slopes_of_the_entries(backend, context):
    """Against differences of the family's layer: u = vm^2, w = vp vm at beta = 1."""
    ctx = context(40)

    def entries(u, w):
        vm = ctx.sqrt(u)
        _, s, _, lower = family.layer(ctx, w / vm, vm, 1, 1)
        return s, lower - 1

    for u, w in itertools.product([0.1, 0.8, 4.0], [-3.0, 0.0, 1.5]):
        made = backend.turns(*(float(x) for x in entries(ctx.mpf(u), ctx.mpf(w))))
        for k, order in itertools.product(range(2), ((1, 0), (0, 1))):
            slope = ctx.diff(lambda a, b, k=k: entries(a, b)[k], (u, w), order)
            assert abs(made[k != order[0]] - slope) <= 1e-12


KINDS = {
    "float": (lambda x: x, np.exp),
    "complex": (lambda x: x + 0.2j, cmath.exp),
    "array": (lambda x: np.array([x, x + 0.1j]), np.exp),
    "ball": (arb, lambda x: x.exp()),
    "fraction": (Fraction, lambda x: Fraction(np.exp(float(x)))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_any_kind(kind):
    """With any common factor: s (cosh u + cosh w) = sinh w, and likewise for tau."""
    number, exp = KINDS[kind]
    u, w, c, factor = number(0.7), number(-1.2), number(0.5), number(1.7)
    parts = [factor * exp(x) for x in (u, -u, w, -w)]
    upper, lower, weight = plain.numerators(*parts, c)
    left = [upper * (parts[0] + parts[1] + parts[2] + parts[3]), lower * (parts[0] + parts[1] + parts[2] + parts[3])]
    right = [(parts[2] - parts[3]) * weight, (c * (sum(parts[1:], parts[0])) + parts[0] - parts[1]) * weight]
    for one, other in zip(left, right, strict=True):
        if kind == "ball":
            assert one.overlaps(other)
            assert one.rad() < 1e-12
        else:
            gap = np.abs(np.asarray(one - other, complex))
            assert (gap <= 1e-13 * np.abs(np.asarray(one, complex))).all()


def test_compiled_numerators_take_complex_numbers():
    parts = [cmath.exp(x) for x in (0.3 + 0.1j, -0.3 - 0.1j, 1.1j, -1.1j)]
    for made, wanted in zip(numba64.numerators(*parts, 0.4), plain.numerators(*parts, 0.4), strict=True):
        assert abs(made - wanted) <= 4 * EPS * abs(wanted)


def test_numerators_enclose_in_balls(context, mp):
    ctx = context(60)
    with working_bits(128):
        u, w, c = arb(0.75), arb(2.5), arb(0.5)
        made = plain.numerators(u.exp(), (-u).exp(), w.exp(), (-w).exp(), c)
        exact = mp.numerators(ctx, *(ctx.exp(x) for x in (0.75, -0.75, 2.5, -2.5)), 0.5)
        for value, wanted in zip(made, exact, strict=True):
            assert value.overlaps(arb(str(wanted)))
            assert value.rad() < 1e-35


@pytest.fixture(scope="module")
def proved_once(once):
    """Let what is right in every case be proved once."""
    once(pair_m2, "prove_equal")


@pytest.mark.usefixtures("proved_once")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("slopes", "entries of slopes"),
        ("recover", "recover"),
        ("numerators", "numerators"),
        ("ratios", "ratios"),
        ("turns", "turns"),
        ("entries", "entries"),
        ("attention", "attention"),
    ],
)
def test_a_wrong_form_is_no_proof(name, what):
    """With the first output doubled, or the first step of what it is made of."""
    kernels = {kernel.name: kernel for kernel in pair_m2.PACKAGE.kernels}
    kernel = kernels[name]
    wrong = type(kernel)(
        **{**vars(kernel), "outputs": ((kernel.outputs[0][0], 2 * kernel.outputs[0][1]), *kernel.outputs[1:])}
    )
    kernels[name] = wrong
    with pytest.raises(ProofError, match=what):
        pair_m2.prove(tuple(kernels.values()))


def test_the_clamp_of_the_exponential_stands_once():
    x = sp.Symbol("x", real=True)
    assert NumbaPrinter(hot=True).text(Exp(Smallest(x, 709))) == "exp_fast(x)"
    assert NumbaPrinter(hot=True).text(Exp(Smallest(x, 700))) == "exp_fast(at_most(x, 700.0))"
    assert NumbaPrinter(hot=False).text(Exp(Smallest(x, 709))) == "math.exp(at_most(x, 709.0))"


def test_numbers_of_any_kind_have_no_fractions():
    with pytest.raises(TypeError, match="need integers"):
        PlainPrinter().text(sp.Symbol("x") / 3)
