"""Prediction errors of links by quadrature: closed forms, another rule, their stated errors, and what is sampled."""

import math

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.link import evolve
from attnlimits.numerics.fixed_point.link_prediction import LinkErrors
from attnlimits.numerics.fixed_point.prediction_error import prediction_errors
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.quadrature.rules import gauss_hermite


def _errors(text: str, q: float, noise: str = "0") -> np.ndarray:
    found = prediction_errors(kernel_of(text, noise=noise), np.array([[q]]))
    assert {one.how for one in found} == {"estimated"}
    assert all(one.error < 1e-10 * max(1.0, one.value) for one in found)
    return np.array([[one.value, one.error] for one in found]).T


@pytest.mark.parametrize("q", [1e-6, 0.2, 0.9, 1 - 1e-9])
def test_a_sign_in_closed_form(q: float) -> None:
    """E sign(x) sign(y) = 2 asin(rho)/pi, rho = q for two h and sqrt(q) for h and omega."""
    values, errors = _errors("sign(h[1])", q)
    exact = [1 - 2 * math.asin(q) / math.pi, 2 - 4 * math.asin(math.sqrt(q)) / math.pi]
    # asin is known to a rounding of its argument close to one, where its slope is (1 - q^2)^(-1/2).
    rounding = 4e-16 / math.sqrt(1 - q)
    assert (np.abs(values - exact) <= errors + rounding).all()
    # By the posterior mean 2 Phi(omega/sqrt(V)) - 1 itself.
    nodes = np.linspace(-9, 9, 400_001)
    mean = np.array([math.erf(x) for x in math.sqrt(q / (2 * (1 - q))) * nodes[:: 1 if q < 0.95 else 400_000]])
    if q < 0.95:
        plain = 1 - np.trapezoid(mean**2 * np.exp(-0.5 * nodes**2), nodes) / math.sqrt(2 * math.pi)
        assert abs(plain - values[0]) < 1e-12


@pytest.mark.parametrize("q", [0.1, 0.6, 0.97])
def test_a_smooth_link_by_another_rule(q: float) -> None:
    """Gauss-Hermite sums over (omega, h): poles of tanh at i pi/2 leave exp(-pi sqrt(n))."""
    rule = gauss_hermite(160)
    w = rule.weights
    omega = math.sqrt(q) * rule.nodes
    h = np.tanh(omega[:, None] + math.sqrt(1 - q) * rule.nodes)
    mean = h @ w
    best = w @ ((h - mean[:, None]) ** 2 @ w)
    plug = w @ ((h - np.tanh(omega)[:, None]) ** 2 @ w)
    values, errors = _errors("tanh(h[1])", q, "0.1")
    assert (np.abs(values - [best, plug]) < errors + 1e-12).all()


def test_zero_overlap_and_recovery() -> None:
    values, _ = _errors("sign(h[1])", 0.0)
    assert values == pytest.approx([1, 1], abs=1e-14)  # the sign of omega = 0 is 0
    values, errors = _errors("h[1]**2", 1.0)
    assert (np.abs(values) <= errors).all() and errors.max() < 1e-13


def test_a_combination_and_sums_of_coupled_entries() -> None:
    q = np.array([[0.5, 0.2], [0.2, 0.3]])
    best, plugin = prediction_errors(kernel_of("sign(h[1] + h[2])"), q)
    along = q.sum() / 2
    assert best.value == pytest.approx(1 - 2 * math.asin(along) / math.pi, abs=1e-13)
    assert plugin.value == pytest.approx(2 - 4 * math.asin(math.sqrt(along)) / math.pi, abs=1e-13)
    best, plugin = prediction_errors(kernel_of("sign(h[1]) + sign(h[2])"), q)
    inside = sum(math.asin(x) for x in q.ravel())
    assert best.value == pytest.approx(2 - 2 * inside / math.pi, abs=1e-13)
    sd = np.sqrt(q.diagonal())
    seen = 2 * math.asin(0.2 / math.sqrt(0.15)) + math.pi
    crossed = np.arcsin(q / sd).sum()
    assert plugin.value == pytest.approx(2 + 2 * (seen - 2 * crossed) / math.pi, abs=1e-13)


@pytest.mark.parametrize(("text", "how"), [("h[1]*h[2]", "estimated"), ("Max(h[1], h[2])", "monte-carlo")])
def test_links_of_several_combinations_are_no_such_sums(text: str, how: str) -> None:
    """Kinks along the axes are at ends of panels over all entries, others are not."""
    kernel = kernel_of(text)
    assert not LinkErrors(kernel).served
    assert prediction_errors(kernel, 0.5 * np.eye(2))[0].how == how


def test_an_infinite_variance_is_not_stated_by_quadrature() -> None:
    kernel = kernel_of("1/h[1]", noise="0.1")
    assert LinkErrors(kernel)(np.array([[0.5]])) is None


@pytest.mark.parametrize("how", ["estimated", "monte-carlo"])
def test_the_error_of_the_overlap_is_carried_through(how: str) -> None:
    q, off = 0.4, 1e-4
    best, plugin = prediction_errors(kernel_of("sign(h[1])"), np.array([[q]]), np.array([[off]]), how=how)
    assert best.how == plugin.how == how
    assert best.error == pytest.approx(off * 2 / math.pi / math.sqrt(1 - q * q), rel=1e-3)
    assert plugin.error == pytest.approx(off * 2 / math.pi / math.sqrt(q - q * q), rel=1e-3)


def test_what_is_learned_as_one_is_moved_as_one() -> None:
    """q_11 = q_22 = q_12: omega_1 = omega_2 for all of them, however well they are known."""
    kernel, ones = kernel_of("sign(h[1]) + sign(h[2])"), np.ones((2, 2))
    _, plugin = prediction_errors(kernel, 0.24 * ones, 1e-4 * ones)
    ends = [prediction_errors(kernel, (0.24 + d) * ones)[1].value for d in (-1e-4, 1e-4)]
    assert plugin.error == pytest.approx(abs(ends[1] - ends[0]) / 2, rel=0.02)


def test_a_fixed_point_has_its_prediction_error_to_as_many_digits() -> None:
    result = evolve(kernel_of("sign(h[1])"), 1.0)
    assert result.prediction_error.error < 1e-12 and result.plugin_error.error < 1e-12
    q = result.overlap[0, 0]
    assert result.prediction_error.value == pytest.approx(1 - 2 * math.asin(q) / math.pi, abs=1e-12)
