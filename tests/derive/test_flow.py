import numpy as np
import pytest
import sympy as sp
from numpy.polynomial.hermite_e import hermegauss

from attnlimits.derive import symbols
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.depth import rescaled_link
from attnlimits.derive.flow import (
    invariant_matrix,
    linear_flow,
    linear_fluctuations,
    pair_flow,
    prove_equivariance,
    prove_invariant_form,
    time,
    untied_flow,
)
from attnlimits.derive.primitives import elementary
from attnlimits.derive.proof import prove_equal


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_only_two_eigenvalues_are_left_by_symmetry(tokens):
    prove_invariant_form(tokens)
    plus, minus = sp.symbols("b_p b_m", positive=True)
    matrix = invariant_matrix(tokens, plus, minus)
    prove_equal(matrix * sp.ones(tokens, 1), plus * sp.ones(tokens, 1), "all-ones vector")
    assert sp.factor(matrix.det()) == plus * minus ** (tokens - 1)


@pytest.mark.parametrize(
    "model",
    [
        Architecture(1, 2),
        Architecture(1, 3, 2),
        Architecture(1, 3, tied=False),
        Architecture(1, 2, activation="linear"),
        Architecture(1, 3, activation=sp.tanh),
    ],
)
def test_relabelling_the_tokens(model):
    prove_equivariance(model)


def test_several_heads_are_named():
    with pytest.raises(ValueError, match="one head, got heads=2"):
        prove_equivariance(Architecture(1, 2, heads=2))


def test_linear_attention_diverges():
    r, beta = sp.symbols("r beta", positive=True)
    flow = linear_flow(r, beta)
    assert sp.simplify(flow.minus - (1 - 2 * beta * r * time) ** sp.Rational(-1, 2)) == 0
    assert sp.simplify(flow.blow_up - 1 / (2 * beta * r)) == 0
    assert flow.matrix(3).subs(time, 0) == sp.eye(3)
    # Against a plain Euler sum of the equation: its error is of the order of the step.
    b, steps = 1.0, 20_000
    for _ in range(steps):
        b += 0.4 / steps * b**3
    assert b == pytest.approx(float(flow.minus.subs({r: 1, beta: 1, time: 0.4})), rel=2e-3)


def test_linear_fluctuations_against_their_equations():
    """The closed forms against Runge-Kutta steps of the moment equations, at numbers."""
    tokens, rank, beta, kappa, steps = 3, 2, 0.25, 0.6, 400
    made = linear_fluctuations(sp.Integer(tokens), sp.Integer(rank), sp.Rational(1, 4))

    def rate(state):
        b, off, bias = state
        second = 3 * (beta * rank) ** 2 * b**5
        return np.array(
            [
                beta * rank * b**3,
                6 * beta * rank * b**2 * off + beta**2 * b**6 * rank,
                3 * beta * rank * b**2 * bias + 3 * beta * rank * b * (tokens + 1) * off - second / 2,
            ]
        )

    state, step = np.array([1.0, 0.0, 0.0]), kappa / steps
    for _ in range(steps):
        k_1 = rate(state)
        k_2 = rate(state + step / 2 * k_1)
        k_3 = rate(state + step / 2 * k_2)
        k_4 = rate(state + step * k_3)
        state = state + step / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
    # Fourth order, steps of 0.0015.
    assert float(made.off_diagonal.subs(time, 0.6)) == pytest.approx(state[1], rel=1e-8)
    assert float(made.diagonal.subs(time, 0.6)) == pytest.approx(2 * state[1], rel=1e-8)
    assert float(made.bias.subs(time, 0.6)) == pytest.approx(state[2], rel=1e-8)


def test_linear_fluctuations_for_symbols():
    r, beta = sp.symbols("r beta", positive=True)
    made = linear_fluctuations(rank=r, beta=beta)
    assert sp.simplify(made.off_diagonal - beta**2 * r * time / (1 - 2 * beta * r * time) ** 3) == 0
    assert made.bias.free_symbols == {symbols.tokens, r, beta, time}


@pytest.mark.parametrize("tokens", [2, 3])
def test_untied_attention_is_uniform_on_average(tokens):
    flow = untied_flow(tokens)
    assert flow.minus == 1
    assert flow.plus == sp.exp(time)
    assert untied_flow(tokens, "linear").matrix(tokens) == sp.eye(tokens)
    # The mean of one layer at an invariant B, by samples.
    rng = np.random.default_rng(2)
    mixing = np.array(invariant_matrix(tokens, sp.Integer(3), sp.Integer(1)), dtype=float)
    k, q = rng.normal(size=(2, 100_000, tokens)) @ mixing
    weights = np.exp(np.einsum("ni,nj->nij", k, q) - np.abs(k * np.abs(q).max(axis=1, keepdims=True))[:, :, None])
    attention = weights / weights.sum(axis=2, keepdims=True)
    sigma = attention.std(axis=0) / np.sqrt(len(k))
    assert (np.abs(attention.mean(axis=0) - 1 / tokens) < 4 * sigma).all()
    with pytest.raises(ValueError, match="activation must be softmax or linear, got 'tanh'"):
        untied_flow(tokens, "tanh")


@pytest.fixture(scope="module")
def made():
    """The flow of a pair for any beta."""
    return pair_flow(symbols.beta)


def test_pair_integrands_against_the_link(made):
    """tau and s at numbers, against the softmax layer itself at a rank-1 index with those modes."""
    values = {symbols.beta: 2, made.plus: 1.5, made.minus: 0.7, made.cross: 0.3, made.radius: 0.9, made.angle: -0.4}
    model = Architecture(1, 2, beta=sp.Integer(2))
    x_m, x_p = 0.9, -0.4
    v_p, v_m = 1.5 * x_p + 0.3 * x_m, 0.7 * x_m
    tokens = sp.Matrix([[v_p + v_m, v_p - v_m]]) / sp.sqrt(2)
    y = elementary(rescaled_link(model, [tokens])).evalf(20)
    assert float(made.tau.subs(values)) == pytest.approx(float(y[0, 0] + y[1, 1] - 1), abs=1e-14)
    assert float(made.s.subs(values)) == pytest.approx(float(y[0, 0] - y[1, 1]), abs=1e-14)


def test_pair_derivatives_are_those_of_the_means(made):
    """Central differences of E[tau] and E[s] over Gauss-Hermite nodes, against the derived integrands."""
    arguments = (made.plus, made.minus, made.cross, made.radius, made.angle)
    nodes, weights = hermegauss(60)
    weights = np.outer(weights, weights) / weights.sum() ** 2
    rho, z = np.meshgrid(nodes, nodes, indexing="ij")

    def mean(expr, a=1.3, t=0.8, s=0.0):
        return (weights * sp.lambdify(arguments, expr.subs(symbols.beta, 1), "numpy")(a, t, s, rho, z)).sum()

    h = 1e-3
    tau, second = made.tau, made.s
    # Differences of step h err by h^2 times a derivative of order ten.
    at = {"abs": 3e-5}
    assert mean(made.tau_t) == pytest.approx((mean(tau, t=0.8 + h) - mean(tau, t=0.8 - h)) / (2 * h), **at)
    assert mean(made.tau_a) == pytest.approx((mean(tau, a=1.3 + h) - mean(tau, a=1.3 - h)) / (2 * h), **at)
    assert mean(made.s_s) == pytest.approx((mean(second, s=h) - mean(second, s=-h)) / (2 * h), **at)
    curve = (mean(tau, t=0.8 + h) - 2 * mean(tau) + mean(tau, t=0.8 - h)) / h**2
    assert mean(made.tau_tt) == pytest.approx(curve, **at)
    curve = (mean(tau, s=h) - 2 * mean(tau) + mean(tau, s=-h)) / h**2
    assert mean(made.tau_ss) == pytest.approx(curve, **at)
    # S = 0 is kept: no mean of s, and T does not move S.
    assert abs(mean(second)) < 1e-14
