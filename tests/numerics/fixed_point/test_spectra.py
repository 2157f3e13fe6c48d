"""State evolution and thresholds of inputs with a spectrum: against a script of its own, and the white ones scaled."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import attnlimits as al

SIGN, SQUARE = al.Link("sign(h[1])"), al.Link("h[1]**2")
NET, TWO = al.Network(layers=1, tokens=2), al.Network(layers=2, tokens=2)


def sign_overlap(alpha, values, weights):
    """Fixed point of a perceptron by plain iteration: G = (2/V) E phi(x)^2/H(x), x = (q/V)^{1/2} xi, V = 1 - q."""
    nodes = np.linspace(-12, 12, 6001)  # the trapezoid rule is exact to rounding
    mass, q = np.exp(-(nodes**2) / 2) * (nodes[1] - nodes[0]), 0.5
    for _ in range(1000):
        x = math.sqrt(q / (1 - q)) * nodes
        ratio = np.exp(2 * norm.logpdf(x) - norm.logsf(x))
        qhat = alpha * 2 / (1 - q) * float(mass @ ratio) / math.sqrt(2 * math.pi)
        q = float(weights @ (values**2 * qhat / (1 + values * qhat)))
    return q


@pytest.mark.parametrize(("name", "values"), [("points:0.2,1.8", [0.2, 1.8]), ("points:0,2", [0.0, 2.0])])
@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_a_perceptron_is_that_of_a_script(name, values, alpha):
    expected = sign_overlap(alpha, np.array(values), np.array([0.5, 0.5]))
    found = al.evolve(SIGN, alpha, spectrum=name)
    assert found.overlap[0, 0] == pytest.approx(expected, abs=1e-8)
    followed = al.curve(SIGN, [alpha / 2, alpha], spectrum=name).points["uninformed"][-1]
    assert followed.overlap[0, 0] == pytest.approx(expected, abs=1e-8)
    best = al.free_energy.answer(SIGN, alpha, spectrum=name).points[0]
    assert best.overlap[0, 0] == pytest.approx(expected, abs=1e-7)
    assert name.startswith("points") and "spectrum of 2 eigenvalues" in found.status


@pytest.mark.parametrize("model", [SQUARE, NET, TWO, al.Link("sign(h[1])+sign(h[2])")])
def test_one_eigenvalue_changes_nothing(model):
    white, ours = al.evolve(model, 0.7), al.evolve(model, 0.7, spectrum="points:1")
    off = 3 * (white.overlap_error + ours.overlap_error) + 1e-9
    assert (np.abs(white.overlap - ours.overlap) <= off).all()


@pytest.mark.parametrize(("model", "exact"), [(SQUARE, Fraction(1, 2)), (NET, Fraction(1, 6))])
@pytest.mark.parametrize("gamma", ["1", "1/3", "0.25"])
def test_thresholds_are_divided_by_the_second_moment(model, exact, gamma):
    over = 1 + Fraction(gamma)
    found = al.threshold(model, spectrum=f"mp:{gamma}")
    assert found.exact == str(exact / over) and found.how == "rigorous"
    assert abs(float(found.value) - exact / over) <= found.error + 1e-16
    assert f"over E lambda^2 = {float(over):.10g}" in found.status
    # zero overlap turns unstable there in the iteration itself, and along the curve
    alpha = float(exact / over)
    below, above = (al.evolve(model, alpha * factor, spectrum=f"mp:{gamma}") for factor in (0.99, 1.01))
    assert not below.overlap.any() and below.stability[0] == pytest.approx(0.99, abs=1e-6) and above.overlap[0, 0] > 0
    onset = al.curve(model, [0.5 * alpha, 1.5 * alpha], spectrum=f"mp:{gamma}").onsets[0]
    assert onset.value == pytest.approx(alpha, rel=1e-9)


def test_two_layers():
    found = al.threshold(TWO, digits=17, spectrum="mp:1")
    assert abs(float(found.value) - 0.18547784060737646 / 2) < 1e-16
    values = np.array([3.0, 1.0, 2.0])
    own = al.threshold(TWO, spectrum=values)
    assert abs(float(own.value) - 0.18547784060737646 / (14 / 12)) <= own.error and own.how == "estimated"
    assert al.threshold(TWO, layer=1, given="perfect", spectrum="mp:1").exact == "1/12"
    untied = al.threshold(al.Network(layers=1, tokens=2, tied=False), spectrum="points:1,3")
    assert untied.exact == "(-2 + sqrt(5))/(5/4)"
    assert abs(float(untied.value) - (math.sqrt(5) - 2) / 1.25) <= untied.error


def test_the_first_layer_comes_in_where_the_iteration_says():
    """The threshold beside what is learned of the last layer: by its own equations, and by evolution around it."""
    found = al.threshold(TWO, layer=1, spectrum="mp:1", digits=5)
    value = float(found.value)
    assert value == pytest.approx(0.516495, abs=1e-5) and "Marchenko-Pastur" in found.status
    below, above = (al.evolve(TWO, value * factor, spectrum="mp:1", accuracy=1e-4) for factor in (0.99, 1.02))
    assert below.overlap[0, 0] == 0 and 0.95 < below.stability[0] < 1 < above.overlap[0, 0] * 1e4
    white = al.threshold(TWO, layer=1, spectrum="points:1", digits=5)
    assert abs(float(white.value) - float(al.threshold(TWO, layer=1, digits=5).value)) <= 2 * white.error


def test_a_staircase_specialises_where_the_iteration_does():
    committee = al.Link("sign(h[1])+sign(h[2])")
    stairs = al.staircase(committee, spectrum="mp:1")
    value = float(stairs.steps[1].value)
    assert value == pytest.approx(1.0669407935, abs=1e-9) and "Marchenko-Pastur" in stairs.status
    below, above = (al.evolve(committee, value + off, spectrum="mp:1").overlap for off in (-0.02, 0.02))
    # along h_1 - h_2: zero below, rising above
    assert abs(below[0, 0] - below[0, 1]) < 1e-9 and above[0, 0] - above[0, 1] > 5e-3
    white = al.staircase(committee, spectrum="points:2")
    assert float(white.steps[1].value) == pytest.approx(2.05238243, abs=1e-8)
    perfect = al.staircase(committee, spectrum="mp:1", given="perfect")
    assert float(perfect.steps[1].value) == pytest.approx(1.4308336605 / 2, abs=1e-9)


def test_free_energy():
    """Phi is stationary where the state evolution is, and its weak recovery is the threshold."""
    free = al.free_entropy(SQUARE, 0.6, spectrum="mp:1")
    q = al.evolve(SQUARE, 0.6, spectrum="mp:1").overlap[0, 0]
    at, ahead, back = (free([[q + off]]).value for off in (0.0, 1e-3, -1e-3))
    assert at > max(ahead, back) and abs(ahead - back) < 1e-6
    found = al.free_energy.transitions(SQUARE, spectrum="mp:1/2")
    assert found.weak.value == pytest.approx(1 / 3, abs=1e-9) and found.recovery == 1
    # eigenvalues of zero leave fewer unknowns
    assert al.free_energy.transitions(SQUARE, spectrum="points:0,2").recovery == pytest.approx(0.5)


def test_free_energy_of_averages_that_jump():
    """Where stationary points are those of the iteration: one eigenvalue is the Gaussian prior, Hessian included."""
    untied, few = al.Network(layers=1, tokens=2, tied=False), {"samples": 32, "replicas": 2}
    white = al.free_energy.answer(untied, 0.6, **few)
    ours = al.free_energy.answer(untied, 0.6, spectrum="points:1", **few)
    assert [one.kind for one in ours.points] == [one.kind for one in white.points]
    for one, other in zip(ours.points, white.points, strict=True):
        assert np.abs(one.overlap - other.overlap).max() < 1e-4
        assert one.eigenvalues == pytest.approx(other.eigenvalues, rel=1e-2, abs=1e-6)


@pytest.mark.parametrize("spectrum", ["mp:1", "points:0.4,1.6"])
def test_several_heads_are_refused(spectrum):
    heads = al.Network(layers=1, tokens=2, heads=2)
    for call in (
        lambda: al.threshold(heads, spectrum=spectrum),
        lambda: al.threshold(NET, heads=2, spectrum=spectrum),
        lambda: al.evolve(heads, 0.3, spectrum=spectrum),
    ):
        with pytest.raises(ValueError, match="served for one head"):
            call()
    with pytest.raises(ValueError, match="not so in the eigenbasis"):
        al.evolve(NET, 0.3, spectrum=spectrum, prior="binary")
