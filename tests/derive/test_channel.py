import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.channel import (
    gaussian_log_density,
    prove_change_of_variables,
    reduced_channel,
    two_layer_log_integrand,
)
from attnlimits.derive.denoiser import denoiser_from_moments, prove_moment_identities
from attnlimits.derive.primitives import elementary


def _rational(rng, *shape):
    return sp.Matrix(*shape, [sp.Rational(int(k), 64) for k in rng.integers(-128, 129, size=shape).ravel()])


def _covariance(rng, size):
    root = _rational(rng, size, size)
    return root * root.T + sp.eye(size) / 8


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_change_of_variables(tokens):
    prove_change_of_variables(tokens)


@pytest.mark.slow_for("3-1")
@pytest.mark.parametrize(("indices", "tokens"), [(1, 2), (2, 1), (2, 2), (3, 1)])
def test_denoiser_and_its_derivative_are_moments(indices, tokens):
    prove_moment_identities(indices, tokens)


def test_gaussian_density_is_normalised():
    covariance = sp.Matrix([[sp.Rational(3, 4), sp.Rational(1, 3)], [sp.Rational(1, 3), sp.Rational(1, 2)]])
    h = sp.Matrix(sp.symbols("p q", real=True))
    omega = sp.Matrix([sp.Rational(1, 5), -1])
    exponent = sp.Poly(gaussian_log_density(h, omega, covariance), *h)
    # Of a quadratic form: int exp(-h^T A h/2 + b h + c) = 2 pi exp(b A^-1 b/2 + c)/det(A)^(1/2).
    a, b = -sp.hessian(exponent.as_expr(), h), sp.Matrix([exponent.coeff_monomial(x) for x in h])
    rest = (b.T * a.inv() * b)[0] / 2 + exponent.coeff_monomial(1)
    assert exponent.total_degree() == 2 and a.is_positive_definite
    assert sp.simplify(sp.log(2 * sp.pi) - sp.log(a.det()) / 2 + rest) == 0


@pytest.mark.slow_for("3-2-1-softmax")
@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize(("layers", "tokens", "ranks"), [(1, 3, 1), (2, 2, 1), (3, 2, 1), (2, 3, (2, 1))])
def test_last_indices_solve_the_readout(layers, tokens, ranks, activation, rng):
    """The readout of the indices the channel solves for is v, through an independent numeric recursion."""
    model = Architecture(layers, tokens, ranks, activation, skip=sp.Rational(1, 2), beta=sp.Integer(1))
    channel = reduced_channel(model)
    values = dict(zip(channel.variables, rng.normal(size=len(channel.variables)), strict=True))
    v = rng.normal(size=tokens)
    values |= dict(zip(channel.readout, v, strict=True))
    h = np.array(elementary(channel.h).subs(values).evalf(), dtype=float)
    mixing, start = np.eye(tokens), 0
    for rank in model.rank_vector[:-1]:
        rows = h[start : start + rank] @ mixing.T
        scores = rows.T @ rows
        powers = np.exp(scores)
        attention = powers / powers.sum(axis=1, keepdims=True) if activation == "softmax" else scores
        mixing = (0.5 * np.eye(tokens) + attention) @ mixing
        start += rank
    # Float64 in both; the linear mixing matrix can have a condition number of 1e3.
    np.testing.assert_allclose(h[-1] @ mixing.T, v, rtol=1e-10, atol=1e-10)
    determinant = float(elementary(channel.determinant).subs(values).evalf())
    np.testing.assert_allclose(determinant, np.linalg.det(mixing), rtol=1e-10)


def test_two_layer_form_in_modes_equals_the_general_one(rng):
    model = Architecture(2, 2, skip=sp.Rational(2, 5), beta=sp.Rational(3, 2))
    channel = reduced_channel(model)
    modes = two_layer_log_integrand(model)
    rotation = symbols.mode_rotation()
    for _ in range(2):
        x, v, omega, covariance = (
            _rational(rng, 1, 2),
            _rational(rng, 1, 2),
            _rational(rng, 2, 2),
            _covariance(rng, 2),
        )
        # The same point: token entries for the general form, modes for the other.
        tokens = dict(zip(channel.variables, x * rotation.T, strict=True))
        tokens |= dict(zip(channel.readout, v * rotation.T, strict=True))
        general = channel.at(omega * rotation.T, covariance).log_integrand
        names = {symbols.xp: x[0], symbols.xm: x[1], symbols.vp: v[0], symbols.vm: v[1]}
        names |= dict(zip(symbols.omega_matrix(2, 2), omega, strict=True))
        names |= dict(zip(symbols.weight_covariance(2), covariance, strict=True))
        left = elementary(general).subs(tokens).evalf(40)
        right = modes.subs(names).evalf(40)
        assert abs(left - right) < sp.Float("1e-35") * (1 + abs(right))


def test_integrand_is_even_so_that_the_denoiser_vanishes_at_zero():
    """At omega = 0 reflecting all indices and v changes nothing, so g_out(y, 0, V) = 0."""
    model = Architecture(2, 2)
    channel = reduced_channel(model).at(sp.zeros(2, 2), symbols.weight_covariance(2))
    flipped = {symbol: -symbol for symbol in (*channel.variables, *channel.readout)}
    point = {symbol: sp.Rational(k + 2, 5) for k, symbol in enumerate([*channel.variables, *channel.readout])}
    point |= {symbols.skip: 1, symbols.beta: 1}
    point |= dict(zip(symbols.weight_covariance(2), (1, sp.Rational(1, 3), sp.Rational(1, 3), 1), strict=True))
    value = elementary(channel.log_integrand)
    mirrored = value.subs(flipped, simultaneous=True)
    assert abs((value - mirrored).subs(point).evalf(40)) < sp.Float("1e-38")


def test_denoiser_of_a_flat_posterior():
    """Without data the posterior is the prior, so both g_out and its derivative vanish."""
    omega = sp.Matrix([[1, 2], [3, 4]])
    covariance = sp.Matrix([[2, 1], [1, 3]])
    stacked = sp.Matrix([1, 3, 2, 4])
    second = stacked * stacked.T + sp.diag(covariance, covariance)
    made = denoiser_from_moments(omega, second, omega, covariance)
    assert made.g_out == sp.zeros(2, 2)
    assert made.d_g_out == sp.zeros(4, 4)


def test_bad_shapes_and_models_are_named():
    with pytest.raises(ValueError, match="rank 1 in the last layer, got 2"):
        reduced_channel(Architecture(2, 3, (1, 2)))
    for model in (Architecture(2, 2, tied=False), Architecture(2, 2, output="sequence"), Architecture(2, 2, heads=2)):
        with pytest.raises(ValueError, match=model.name):
            reduced_channel(model)
        with pytest.raises(ValueError, match="two layers of rank 1, tied"):
            two_layer_log_integrand(model)
    with pytest.raises(ValueError, match="two layers of rank 1"):
        two_layer_log_integrand(Architecture(3, 2))
    with pytest.raises(ValueError, match="V 2 x 2"):
        gaussian_log_density(sp.zeros(2, 2), sp.zeros(2, 2), sp.eye(3))
    with pytest.raises(ValueError, match="second moment must be 4 x 4"):
        denoiser_from_moments(sp.zeros(2, 2), sp.eye(2), sp.zeros(2, 2), sp.eye(2))
