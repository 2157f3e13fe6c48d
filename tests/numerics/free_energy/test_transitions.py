"""Transitions of one overlap: known thresholds, equal areas, curves of fixed points."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.core.results import load
from attnlimits.numerics.fixed_point.continuation import curve
from attnlimits.numerics.free_energy import OutputEntropy, output_entropy
from attnlimits.numerics.free_energy.thresholds import transitions
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.priors import Binary, GaussBernoulli
from attnlimits.papers.troiani2025.figures import free_energies, phase_retrieval


def test_phase_retrieval_has_its_known_hard_phase():
    """Information-theoretic 1, by counting; algorithmic 1.13, which the curve of fixed points finds in its own way."""
    kernel = kernel_of("h[1]**2")
    found = transitions(output_entropy(kernel))
    (only,) = found.first_order
    assert found.weak.value == pytest.approx(0.5, abs=1e-9)
    assert only.information.value == found.recovery == 1.0
    assert only.algorithmic.value == pytest.approx(1.13, abs=2e-3)
    channel = LinkChannel(kernel, samples=16, replicas=2, rng=np.random.default_rng(0))
    jump = curve(channel, [1.0, 1.2]).jumps[0]
    # the interpolant of the curve is good to 1e-7, and so are the averages
    assert only.algorithmic.value == pytest.approx(jump.value, abs=1e-6)
    assert only.overlaps[1] == 1.0


def test_the_stored_figure_shows_it():
    record = load(phase_retrieval.DATA)
    low, high = record["information"]["value"], record["algorithmic"]["value"]
    assert (low, high) == pytest.approx((1.0, 1.1284714), abs=1e-6)
    for point in record["points"]:
        learned = point["q"] > 0 and point["stable"] and point["kind"] != "recovered"
        if point["kind"] == "recovered":
            assert point["alpha"] >= low
            assert point["phi"] is None or point["alpha"] == low
        elif learned:
            assert 0.5 < point["alpha"] < high
    inside = [p for p in record["points"] if low < p["alpha"] < high]
    # both branches, the barrier between them, and zero
    assert {p["kind"] for p in inside} == {"recovered", "maximum", "minimum"}


def test_two_layers_have_one_maximum_at_each_stored_alpha():
    """Below alpha = 1 one fixed point is stable, and it is the best; beyond, recovery alone."""
    record = load(free_energies.DATA)
    at = {(case["skip"], case["alpha"]): case for case in record["cases"]}
    assert set(at) == {(skip, alpha) for skip in free_energies.SKIPS for alpha in free_energies.ALPHAS}
    for (_, alpha), case in at.items():
        stable = [p for p in case["points"] if p["stable"]]
        assert len(stable) == 1
        assert stable[0] is case["points"][0]
        assert (stable[0]["kind"] == "recovered") == (alpha > 1)
        if alpha < 1:
            # above every other one, by more than the errors
            for other in case["points"][1:]:
                assert stable[0]["phi"] > other["phi"] - stable[0]["phi_error"] - other["phi_error"]
        assert len(case["points"]) >= 2


def test_the_binary_perceptron_has_its_known_transitions():
    """Teacher and student with binary weights: 1.245 and 1.493 (Gyorgyi 1990 and later)."""
    found = transitions(output_entropy(kernel_of("sign(h[1])")), Binary(), closest=1e-3)
    (only,) = found.first_order
    assert only.information.value == pytest.approx(1.245, abs=1e-3)
    assert only.algorithmic.value == pytest.approx(1.493, abs=1e-3)

    # the same from the integrals of the perceptron and nothing of this package
    z, weights = (9 * one for one in np.polynomial.legendre.leggauss(400))
    weights *= np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)

    def energy(q):
        a = math.sqrt(q / (1 - q))
        return 2 * float(weights @ (ndtr(a * z) * log_ndtr(a * z)))

    def row(qhat):
        field = qhat + math.sqrt(qhat) * z
        return float(weights @ np.logaddexp(field, -field)) - math.log(2) - qhat / 2, float(weights @ np.tanh(field))

    def gain(alpha):
        q = 0.5
        for _ in range(200):
            slope = (energy(q + 1e-4) - energy(q - 1e-4)) / 2e-4
            q, before = row(2 * alpha * slope)[1], q
            if abs(q - before) < 1e-9:
                break
        qhat = 2 * alpha * slope
        return (alpha - 1) * math.log(2) - (row(qhat)[0] - q * qhat / 2 + alpha * (energy(q) + math.log(2)))

    # recovery gains from there on: the sign changes within 5e-4
    assert gain(only.information.value - 5e-4) < 0 < gain(only.information.value + 5e-4)
    assert abs(gain(only.information.value)) <= 2 * only.information.error + 1e-4


def test_sparse_rows_need_as_many_equations_as_entries():
    """Compressed sensing without noise: the density, information-theoretically."""
    found = transitions(output_entropy(kernel_of("h[1]")), GaussBernoulli(0.3), closest=1e-3)
    (only,) = found.first_order
    assert only.information.value == pytest.approx(0.3, abs=1e-12)
    assert 0.45 < only.algorithmic.value < 0.5
    assert found.weak is None


@pytest.mark.parametrize("tokens", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_one_layer_has_no_hard_phase(tokens):
    found = transitions(output_entropy(Network(1, tokens)))
    assert found.first_order == ()
    assert found.weak.value == pytest.approx(1 / (tokens * (tokens + 1)), rel=1e-12)
    assert found.recovery == pytest.approx(1 / tokens)
    assert found.perfect.value == pytest.approx(1 / tokens, abs=found.perfect.error)


def test_equal_areas(polynomial):
    """Psi_out of slope 3 x - 9 x^3 + 9 x^5 and more: both branches have one Phi where the areas are equal."""

    class Bent(polynomial):
        def psi(self, x):
            return 0.5 * float(1.5 * x[0] ** 2 - 2.4 * x[0] ** 4 + 3.0 * x[0] ** 6)

        def g(self, x):
            return 3.0 * x - 9.6 * x**3 + 18.0 * x**5

        def growth(self, x):
            return np.full(1, 3.0)

    bent = Bent((3.0,))
    found = transitions(OutputEntropy(bent))
    assert len(found.first_order) == 1
    one = found.first_order[0]
    assert one.informed.value < one.information.value < one.algorithmic.value
    low, high = one.overlaps
    alpha = one.information.value
    area = quad(lambda q: 0.5 * (alpha * bent.g(np.array([q]))[0] - q / (1 - q)), low, high)[0]
    assert area == pytest.approx(0, abs=1e-9)
    for q in (low, high):
        assert alpha * bent.g(np.array([q]))[0] == pytest.approx(q / (1 - q), rel=1e-8)
    assert one.free_entropies[0] == pytest.approx(one.free_entropies[1], abs=1e-9)

    # the folds are where alpha(q) = q/((1 - q) G) turns
    def turn(q):
        step = 1e-5
        at = [x / ((1 - x) * bent.g(np.array([x]))[0]) for x in (q - step, q + step)]
        return (at[1] - at[0]) / (2 * step)

    folds = [brentq(turn, low, 0.5 * (low + high)), brentq(turn, 0.5 * (low + high), high)]
    expected = [q / ((1 - q) * bent.g(np.array([q]))[0]) for q in folds]
    assert (one.algorithmic.value, one.informed.value) == pytest.approx(tuple(expected), rel=1e-7)


def test_several_groups_are_refused(polynomial):
    with pytest.raises(ValueError, match="one group of indices"):
        transitions(OutputEntropy(polynomial((1.0, 2.0))))
