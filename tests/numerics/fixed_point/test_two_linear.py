"""Fixed points of two layers of linear attention by quadrature: accuracy, both routes, recovery and curves."""

import numpy as np
import pytest

from attnlimits.numerics.fixed_point.continuation import curve
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.free_energy.psi_out import output_entropy
from attnlimits.numerics.model.network import Network

MODEL = Network(activation="linear")


def test_samples_agree_with_the_quadrature() -> None:
    found = evolve(MODEL, 0.6, accuracy=1e-3, workers=1)
    sampled = evolve(MODEL, 0.6, samples=128, workers=1, tol=1e-5)
    assert (found.how, sampled.how) == ("estimated", "monte-carlo")
    assert found.converged and found.reached
    assert (found.overlap_error.diagonal() <= 1e-3 * found.overlap.diagonal()).all()
    off = np.abs(found.overlap - sampled.overlap).diagonal()
    assert (off <= 4 * sampled.overlap_error.diagonal() + found.overlap_error.diagonal()).all()


def test_the_first_layer_is_learned_alone() -> None:
    """Between 0.3972 and where the second joins, of which the accuracy says how well it is known."""
    rough, fine = (evolve(MODEL, 0.41, accuracy=accuracy, workers=1) for accuracy in (1e-2, 1e-5))
    assert fine.overlap[1, 1] == 0 and 0 < fine.overlap[0, 0] < 0.02
    assert abs(rough.overlap[0, 0] - fine.overlap[0, 0]) <= rough.overlap_error[0, 0]
    assert fine.overlap_error[0, 0] <= 1e-5 * fine.overlap[0, 0]
    assert not evolve(MODEL, 0.39, workers=1).overlap.any()


@pytest.mark.parametrize("skip", [0.3, 3.0])
def test_recovery_is_reached(skip: float) -> None:
    """Beyond alpha = 1, by the series near recovery."""
    found = evolve(Network(activation="linear", skip=skip), 1.1, start=np.diag([0.97, 0.97]), accuracy=1e-2, workers=1)
    assert found.converged and (found.overlap.diagonal() > 0.999).all()


def test_a_curve_is_deterministic() -> None:
    found = curve(MODEL, [0.42, 0.5], accuracy=1e-2, workers=1)
    one = evolve(MODEL, 0.5, accuracy=1e-3, workers=1)
    assert found.how == "estimated" and found.converged
    last = found.points["uninformed"][-1]
    off = np.abs(last.overlap.diagonal() - one.overlap.diagonal())
    assert (off <= last.overlap_error.diagonal() + one.overlap_error.diagonal()).all()


def test_a_recovered_layer_leaves_the_error_of_the_others() -> None:
    """Beyond alpha = 1 both overlaps are one, and the last one is held below it."""
    last = curve(Network(activation="linear", skip=3.0), [1.1], start="informed", accuracy=1e-2, workers=1)
    (point,) = last.points["informed"]
    assert point.recovered
    assert (point.overlap.diagonal() + point.overlap_error.diagonal() >= 1 - 1e-9).all()


def test_psi_out_is_the_integral_of_its_gradient() -> None:
    q = np.diag([0.4, 0.3])
    direct = output_entropy(MODEL, accuracy=1e-2, workers=1)
    path = output_entropy(MODEL, accuracy=1e-2, workers=1, route="integral of the gradient")
    one, other = direct.value(q), path.value(q)
    assert direct.route == "direct" and one.how == other.how == "estimated"
    assert abs(one.value - other.value) <= one.error + other.error
