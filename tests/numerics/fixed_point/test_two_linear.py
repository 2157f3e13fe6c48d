"""Fixed points of two layers of linear attention by quadrature: accuracy, both routes, recovery and curves."""

import numpy as np
import pytest

from attnlimits.numerics.core.results import EvolutionResult
from attnlimits.numerics.fixed_point.continuation import curve
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.free_energy.psi_out import output_entropy
from attnlimits.numerics.model.network import Network

MODEL = Network(activation="linear")


@pytest.fixture(scope="module")
def found() -> EvolutionResult:
    """Fixed point at 0.5 to 1e-3."""
    return evolve(MODEL, 0.5, accuracy=1e-3, workers=1)


def test_samples_agree_with_the_quadrature(found: EvolutionResult) -> None:
    sampled = evolve(MODEL, 0.5, samples=64, workers=1, tol=1e-4)
    assert (found.how, sampled.how) == ("estimated", "monte-carlo")
    assert found.converged and found.reached
    assert (found.overlap_error.diagonal() <= 1e-3 * found.overlap.diagonal()).all()
    off = np.abs(found.overlap - sampled.overlap).diagonal()
    assert (off <= 4 * sampled.overlap_error.diagonal() + found.overlap_error.diagonal()).all()


# Of the first layer alone tests/calibration/test_two_linear.py has a fixed point.
@pytest.mark.slow
def test_the_first_layer_is_learned_alone() -> None:
    """Between 0.3972 and where the second joins, of which the accuracy says how well it is known."""
    rough, fine = (evolve(MODEL, 0.41, accuracy=accuracy, workers=1) for accuracy in (1e-2, 1e-3))
    assert fine.overlap[1, 1] == 0 and 0 < fine.overlap[0, 0] < 0.02
    assert abs(rough.overlap[0, 0] - fine.overlap[0, 0]) <= rough.overlap_error[0, 0]
    assert fine.overlap_error[0, 0] <= 1e-3 * fine.overlap[0, 0]


def test_below_the_threshold_of_the_first_layer_nothing_is_learned() -> None:
    assert not evolve(MODEL, 0.39, workers=1).overlap.any()


# The series is the same code at either skip; tests/numerics/channel/test_near_recovery.py has it from 1e-3 to 30.
@pytest.mark.slow_for("0.3")
@pytest.mark.parametrize("skip", [0.3, 3.0])
def test_recovery_is_reached(skip: float) -> None:
    """Beyond alpha = 1, by the series near recovery."""
    found = evolve(Network(activation="linear", skip=skip), 2.5, start=np.diag([0.97, 0.97]), accuracy=1e-2, workers=1)
    assert found.converged and (found.overlap.diagonal() > 0.999).all()


# The test below follows these averages down, tests/numerics/fixed_point/test_continuation.py those of softmax up.
@pytest.mark.slow
def test_a_curve_is_deterministic(found: EvolutionResult) -> None:
    made = curve(MODEL, [0.42, 0.5], accuracy=1e-2, workers=1)
    assert made.how == "estimated" and made.converged
    last = made.points["uninformed"][-1]
    off = np.abs(last.overlap.diagonal() - found.overlap.diagonal())
    assert (off <= last.overlap_error.diagonal() + found.overlap_error.diagonal()).all()


def test_a_recovered_layer_leaves_the_error_of_the_others() -> None:
    """Beyond alpha = 1 both overlaps are one, and the last one is held below it: nearer to it the rules take longer."""
    model = Network(activation="linear", skip=3.0)
    last = curve(model, [1.1], start="informed", accuracy=1e-2, closest=0.01, workers=1)
    (point,) = last.points["informed"]
    assert last.how == "estimated" and point.recovered
    assert (point.overlap.diagonal() + point.overlap_error.diagonal() >= 1 - 1e-9).all()


def test_psi_out_is_the_integral_of_its_gradient() -> None:
    q = np.diag([0.4, 0.3])
    direct = output_entropy(MODEL, accuracy=1e-2, workers=1)
    path = output_entropy(MODEL, accuracy=1e-2, workers=1, route="integral of the gradient")
    one, other = direct.value(q), path.value(q)
    assert direct.route == "direct" and one.how == other.how == "estimated"
    assert abs(one.value - other.value) <= one.error + other.error
