"""Recovery: where the free entropy diverges and where it does not; sampled channels."""

import math

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.free_energy import FreeEntropy, output_entropy, stationary_points
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.priors import Binary
from attnlimits.numerics.quadrature.rotations import mean_rotation
from attnlimits.numerics.quadrature.rules import normal_qmc


def one(value):
    return np.array([[float(value)]])


# --- recovery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "limit"), [(0.99, -math.inf), (1.01, math.inf)])
def test_one_equation_per_unknown(alpha, limit):
    free = FreeEntropy(output_entropy(kernel_of("h[1]**2")), alpha)
    assert free.recovered().value == limit
    # along the way: half the excess per unit of -log v
    values = [free(one(1 - v)).value for v in (1e-4, 1e-6)]
    assert (values[1] - values[0]) / math.log(100) == pytest.approx(0.5 * free.excess(), abs=2e-3)


def test_at_equality_the_limit_is_finite():
    """Phi(1) - Phi(0) = 1/2 - log 2 for phase retrieval at alpha = 1."""
    free = FreeEntropy(output_entropy(kernel_of("h[1]**2")), 1.0)
    found = free.recovered()
    assert found.value == pytest.approx(0.5 - math.log(2), abs=1e-5)
    assert abs(found.value - (0.5 - math.log(2))) <= found.error


def test_a_binary_row_is_worth_a_bit():
    """Phi(1) - Phi(0) = (alpha - 1) log 2 for signs: every output is one bit at q = 0 and none at q = 1."""
    found = FreeEntropy(output_entropy(kernel_of("sign(h[1])")), 1.3, Binary()).recovered()
    assert found.value == pytest.approx(0.3 * math.log(2), abs=1e-4)
    assert abs(found.value - 0.3 * math.log(2)) <= found.error


def test_an_index_recovered_beside_one_that_is_not():
    points = stationary_points(FreeEntropy(output_entropy(kernel_of("h[1]; sign(h[2])")), 1.05), starts=0, closest=1e-3)
    best = points[0]
    assert best.kind == "recovered" and best.stable
    assert best.overlap[0, 0] == 1
    alone = stationary_points(FreeEntropy(output_entropy(kernel_of("sign(h[1])")), 1.05), closest=1e-3)[0]
    assert best.overlap[1, 1] == pytest.approx(alone.overlap[0, 0], abs=1e-6)


def test_an_untied_layer_by_the_integral_of_its_gradient():
    model = Network(1, 2, 1, activation="softmax", tied=False)
    free = FreeEntropy(output_entropy(model, samples=64, replicas=8), 0.5)
    points = [p for p in stationary_points(free, starts=0) if p.overlap.any()]
    found = evolve(model, 0.5, samples=64)
    best = points[0]
    assert best.free_entropy.how == "monte-carlo"
    allowed = 4 * (best.overlap_error + found.overlap_error).max()
    assert best.overlap == pytest.approx(found.overlap, abs=allowed)
    assert best.free_entropy.value > 3 * best.free_entropy.error


def test_a_layer_of_rank_two_by_rotations_and_by_the_integral(rng):
    """log Z_out = log N(h; omega, V) + log int dR exp(Tr R h omega^T/V) up to a constant, over random outputs."""
    model, s = Network(1, 3, 2), 0.6
    v = 1 - s
    normals = normal_qmc(12, 14, rng).reshape(-1, 2, 2, 3)
    omega = math.sqrt(s) * normals[:, 0]
    h = omega + math.sqrt(v) * normals[:, 1]
    field = omega @ np.swapaxes(h, 1, 2) / v
    each = mean_rotation(field)[0] - np.einsum("nii->n", field)
    direct = -0.5 * 6 * math.log(v) + float(each.mean())
    found = output_entropy(model, samples=256).value(s * np.eye(2))
    assert found.how == "monte-carlo"
    sigma = math.hypot(found.error, float(each.std()) / math.sqrt(len(each)))
    assert sigma < 0.02
    assert found.value == pytest.approx(direct, abs=4 * sigma)
