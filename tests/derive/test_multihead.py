"""Derivations of the multi-head layer: each result by a second route, and each proof can fail."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy as sp
from mpmath.ctx_mp import MPContext

from attnlimits.derive.multihead import estimates, identifiability, layer, parity, rank, two_tokens
from attnlimits.numerics.multihead.layer import attention as numeric_attention
from attnlimits.numerics.multihead.layer import jacobian, multihead
from attnlimits.numerics.multihead.sculpt.crude_sum import crude_sum
from attnlimits.papers.troiani2025.checks.tools import vanishes

PROOFS = {
    "derivatives, k = 2": lambda: layer.derivative_identities(2, 2),
    "derivatives, d = 3": lambda: layer.derivative_identities(2, 3),
    "recovery, k = 2": lambda: identifiability.recovery_identities(2, 3),
    "recovery, k = 3": lambda: identifiability.recovery_identities(3, 2),
    "tanh form": lambda: two_tokens.tanh_identities(3),
    "equivalences": lambda: two_tokens.equivalence_identities(2),
    "poles": lambda: two_tokens.pole_identities(5),
    "agreement": lambda: estimates.agreement_identities(3, 3, 2),
    "parity": lambda: parity.parity_identities(4),
    "determinant": lambda: parity.tanh_determinant(2),
}


@pytest.mark.slow_for("derivatives, d = 3")
@pytest.mark.parametrize("name", PROOFS)
def test_every_identity_reduces_to_zero(name):
    found = PROOFS[name]()
    assert found
    for step, difference in found.items():
        assert vanishes(difference), step


def test_no_float_in_any_derivation():
    for gap in two_tokens.three_token_gaps().values():
        assert not gap.atoms(sp.Float)
    for n in (2, 3):
        assert not any(c.atoms(sp.Float) for c in parity.coefficients(n))
    assert not estimates.crude_sum_series(2, 2)[1].atoms(sp.Float)


def values_of(tokens, dim, heads, seed):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (tokens, dim))
    return x, *rng.integers(-2, 3, (2, heads, dim, dim))


@pytest.mark.parametrize(("tokens", "dim", "heads"), [(2, 2, 1), (3, 2, 2), (2, 3, 2)])
def test_the_symbolic_layer_is_the_numerical_one(tokens, dim, heads):
    x, theta, w = values_of(tokens, dim, heads, 0)
    exact = layer.layer(sp.Matrix(x.astype(int)), [sp.Matrix(t) for t in theta], [sp.Matrix(v) for v in w])
    found = multihead(x[None], theta, w)[0]
    assert np.array(exact.evalf(20), dtype=float) == pytest.approx(found, abs=1e-13)
    weights = np.array(layer.attention(sp.Matrix(x.astype(int)), sp.Matrix(theta[0])).evalf(20), dtype=float)
    assert weights == pytest.approx(numeric_attention(x[None], theta)[0, 0], abs=1e-14)


def test_derivatives_against_those_of_sympy_and_of_the_code():
    """The layer itself differentiated by SymPy in each entry, at one place."""
    x, theta, w = values_of(3, 2, 1, 1)
    symbols, values = layer.matrix("Theta", 2, 2), layer.matrix("W", 2, 2)
    output = layer.layer(sp.Matrix(x.astype(int)), [symbols], [values])
    place = dict(zip([*symbols, *values], [*theta.ravel().tolist(), *w.ravel().tolist()], strict=True))
    exact = [[float(sp.diff(entry, z).subs(place).evalf(20)) for z in [*symbols, *values]] for entry in output]
    assert jacobian(x[None], theta, w) == pytest.approx(np.array(exact), abs=1e-13)


def test_theta_from_numerical_attention():
    rng = np.random.default_rng(2)
    theta = rng.standard_normal((1, 4, 4))
    ratios = {}
    for key, inputs in identifiability.flip_inputs(3, 4).items():
        weights = numeric_attention(np.array(inputs, dtype=float)[None], theta)[0, 0, 0]
        ratios[key] = sp.Float(math.log(weights[0] / weights[1]))
    found = np.array(identifiability.recovered_theta(ratios, 4), dtype=float)
    assert found == pytest.approx(theta[0], abs=1e-12)
    assert vanishes(identifiability.single_token_attention(3))
    with pytest.raises(ValueError, match="at least 2"):
        identifiability.flip_inputs(1, 4)


def test_the_tanh_form_is_the_layer():
    x, theta, w = values_of(2, 3, 2, 3)
    exact = two_tokens.tanh_form(sp.Matrix(x.astype(int)), [sp.Matrix(t) for t in theta], [sp.Matrix(v) for v in w])
    assert np.array(exact.evalf(20), dtype=float) == pytest.approx(multihead(x[None], theta, w)[0], abs=1e-13)


def test_gaps_at_three_tokens_are_those_of_the_code():
    x = np.array([[[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]]])
    theta = math.log(2) * np.array([[[1, 0], [2, -1]], [[0, 1], [-1, 1]]])
    v = np.array([[1.0, 2.0], [0.0, -1.0]])
    w = np.array([v, -v])
    gap = two_tokens.three_token_gaps()["flips with sum W = 0"]
    found = multihead(x, -theta, -w)[0] - multihead(x, theta, w)[0]
    assert found == pytest.approx(np.array(gap, dtype=float), abs=1e-13)
    assert all(any(entry != 0 for entry in gap) for gap in two_tokens.three_token_gaps().values())


def test_a_flip_whose_values_do_not_add_up_is_seen():
    """The difference is that of the sums, and no flip of one head alone leaves the layer as it is."""
    difference = two_tokens.flip_difference(2, 2, (0,))
    assert difference.free_symbols == {*layer.matrix("x", 2, 2), *layer.matrix("V0", 2, 2)}
    assert not vanishes(difference)


@pytest.mark.parametrize(("tokens", "dim"), [(2, 3), (3, 2), (4, 2)])
def test_bias_of_the_crude_sum_by_the_code_on_all_inputs(tokens, dim):
    """By a central difference of the sum over all inputs, whose second order cancels."""
    x = np.array(list(itertools.product([1.0, -1.0], repeat=tokens * dim))).reshape(-1, tokens, dim)
    _, theta, w = values_of(tokens, dim, 1, 5)
    step = 1e-4
    slope = [crude_sum(x, multihead(x, sign * step * theta, w)) for sign in (1, -1)]
    symbols = [*layer.matrix("Theta", dim, dim), *layer.matrix("W", dim, dim)]
    place = dict(zip(symbols, [*theta.ravel().tolist(), *w.ravel().tolist()], strict=True))
    exact = np.array(estimates.crude_sum_bias(tokens, dim).subs(place), dtype=float)
    # Third order of the sum, and rounding over the step.
    assert (slope[0] - slope[1]) / (2 * step) == pytest.approx(exact, abs=1e-5)


def test_rank_is_that_of_the_numerical_jacobian():
    """Full at random integers; short by d^2 for two heads with one Theta, and where all W vanish."""
    full, unknowns = rank.jacobian_rank(2, 3, 2)
    assert full == unknowns == 36
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (200, 2, 3))
    theta, w = rng.integers(-2, 3, (2, 2, 3, 3))
    assert np.linalg.matrix_rank(jacobian(x, math.log(2) * theta, w)) == unknowns


def test_rank_sees_a_head_without_values(monkeypatch):
    class Zero:
        def __init__(self, seed):
            self.drawn = 0

        def randint(self, low, high):
            self.drawn += 1
            return 0 if self.drawn > 4 else 1  # Theta of ones, W = 0

        def choice(self, options):
            self.drawn += 1
            return options[self.drawn * self.drawn // 3 % 2]

    monkeypatch.setattr(rank.random, "Random", Zero)
    found, unknowns = rank.jacobian_rank(2, 2, 1)
    assert unknowns == 8
    assert found <= 4


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_coefficients_in_arbitrary_precision(n):
    """Least squares of mpmath at 40 digits, with tanh from its own library; the system has full column rank."""
    context = MPContext()
    context.dps = 40
    sums, b = range(-n, n + 1, 2), parity.shifts(n)
    system = context.matrix([[context.tanh(s + shift) for shift in b] for s in sums])
    right = context.matrix([(-1) ** ((n - s) // 2) for s in sums])
    found = context.lu_solve(system.T * system, system.T * right)
    two = context.exp(2)
    for exact, value in zip(parity.coefficients(n), found, strict=True):
        number = sp.lambdify(parity.token_exponent, exact, "mpmath")(two)
        assert abs(number - value) < mpmath.mpf(10) ** -30
    matrix, signs = parity.system(n)
    assert [int(sign) for sign in signs] == [int(sign) for sign in right]
    for entry, value in zip(matrix, system, strict=True):
        assert abs(sp.lambdify(parity.token_exponent, entry, "mpmath")(two) - value) < mpmath.mpf(10) ** -35


@pytest.mark.parametrize("size", [2, 3, 5])
def test_determinant_at_rational_places(size):
    """Beyond the sizes that are proved in symbols, at random rational numbers."""
    rng = np.random.default_rng(size)
    a, beta = ([sp.Rational(int(p), 7) for p in rng.choice(np.arange(1, 90), size, replace=False)] for _ in range(2))
    tanh = sp.Matrix(size, size, lambda j, i: (a[j] - beta[i]) / (a[j] + beta[i])).det()
    cauchy = sp.Matrix(size, size, lambda j, i: 1 / (a[j] + beta[i])).det()
    last = (1 + (-1) ** size * sp.prod(a) / sp.prod(beta)) / 2
    assert tanh == (-2) ** size * sp.prod(beta) * cauchy * last


def test_symmetric_shifts_are_singular_for_even_sizes():
    """Why even n takes a shift more: with sum b = 0 the determinant is 0."""
    t = parity.token_exponent
    for n, b in ((2, (-1, 0, 1)), (4, (-4, -1, 0, 2, 3))):
        matrix = sp.Matrix(
            n + 1, n + 1, lambda j, i, n=n, b=b: (t ** (2 * j - n + b[i]) - 1) / (t ** (2 * j - n + b[i]) + 1)
        )
        assert sp.cancel(matrix.subs(t, 2).det()) == 0
        assert sum(parity.shifts(n)) != 0
