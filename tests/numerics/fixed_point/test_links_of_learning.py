"""Links of machine learning, relu, step and softmax: thresholds and overlaps against independent integrals."""

import math

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad
from scipy.special import k0, k1
from scipy.stats import norm

import attnlimits as al


def test_threshold_of_a_rectified_product():
    """y = relu(h_1 h_2): where y > 0 both products are known, elsewhere the sign of one is."""

    def mean(f) -> float:
        # p(y) = K_0(y)/pi, E[h_1^2 | y] = y K_1(y)/K_0(y), E[h_1 h_2 | y] = y.
        value = quad(lambda y: f(y * k1(y) / k0(y) - 1, y) * k0(y) / math.pi, 0, 60, limit=400)[0]
        return value + 0.5 * f(0.0, -2 / math.pi)

    # G = [[a, b], [b, a]] acts on M by G M G: along (1, 1), along (1, -1), and on the product of these.
    norms = [mean(f) for f in (lambda a, b: (a + b) ** 2, lambda a, b: (a - b) ** 2, lambda a, b: a * a - b * b)]
    found = al.threshold(al.Link("relu(h[1]*h[2])"))
    assert float(found.value) == pytest.approx(1 / max(norms), rel=1e-6)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_relu_without_noise(alpha: float):
    """h is seen where it is positive, and else only that it is not."""
    found = al.evolve(al.Link("relu(h[1])"), alpha)
    q = float(found.overlap[0, 0])
    v = 1 - q

    def squares(omega: float) -> float:
        x = omega / math.sqrt(v)
        # E (h - omega)^2 over h > 0, and P(h < 0) (E[h - omega | h < 0])^2.
        positive = v * (norm.cdf(x) - x * norm.pdf(x))
        negative = v * math.exp(2 * norm.logpdf(x) - norm.logsf(x))
        return (positive + negative) / v**2 * norm.pdf(omega, scale=math.sqrt(q))

    odds = alpha * quad(squares, -9 * math.sqrt(q), 9 * math.sqrt(q), limit=400)[0]
    assert odds / (1 + odds) == pytest.approx(q, abs=float(found.overlap_error[0, 0]) + 1e-8)


def test_a_softmax_without_noise_is_linear():
    """Its entries give h - mean(h): q = alpha (I - 11^T/3) below alpha = 1."""
    found = al.evolve(al.Link("softmax(h[1], h[2], h[3])"), 0.6, samples=128)
    wanted = 0.6 * (np.eye(3) - 1 / 3)
    assert np.abs(found.overlap - wanted).max() <= 3 * found.overlap_error.max() < 3e-3


def test_the_entries_of_a_softmax_of_two_are_one_output_with_half_the_noise():
    two = al.evolve(al.Link("softmax(h[1], h[2])", "0.2"), 2.0, samples=64)
    one = al.evolve(al.Link("softmax(h[1], h[2])[1]", "0.1"), 2.0, samples=64)
    sigma = math.hypot(two.overlap_error.max(), one.overlap_error.max())
    assert np.abs(two.overlap - one.overlap).max() <= 3 * sigma < 0.03


def test_a_step_is_a_sign_without_noise_and_half_of_it_with():
    step, sign = (al.evolve(al.Link(text), 1.2).overlap[0, 0] for text in ("step(h[1])", "sign(h[1])"))
    assert step == sign
    noisy, quarter = (al.threshold(al.Link(*link)) for link in (("step(h[1]*h[2])", "1/4"), ("sign(h[1]*h[2])", "1")))
    assert float(noisy.value) == pytest.approx(float(quarter.value), rel=1e-9)


def test_expressions_of_sympy_are_links():
    h1, h2 = sp.symbols("h_1 h_2")
    for expr, text in (
        (sp.Heaviside(h1 * h2), "step(h[1]*h[2])"),
        (sp.Max(0, sp.Abs(h1) - h2), "max(0, abs(h_1) - h_2)"),
    ):
        assert al.Link(expr).kernel.kernel_hash == al.Link(text).kernel.kernel_hash
