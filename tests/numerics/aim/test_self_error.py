"""What message passing states of its own error, beside the teacher: below recovery, above it, and where it locks."""

import numpy as np
import pytest

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, teacher


def run(name, rho, alpha, d, seed, noise=0.0, **settings):
    output, S = channel(name, noise=noise), teacher(d, rho, seed)
    return amp(*make_data(S, alpha, output, seed), output, rho, teacher=S, **settings)


@pytest.mark.parametrize(
    ("name", "rho", "share", "noise"),
    [
        ("softmax", 0.5, 0.6, 0.0),
        ("linear", 1.0, 0.9, 0.0),
        ("linear", 0.8, 1.2, 0.1),
        ("linear", 3.0, 1.0, 1e-3),
        ("hardmax", 0.8, 4.0, 0.0),
        ("hardmax", 1.0, 30.0, 0.0),
    ],
)
def test_the_true_error_is_within_what_is_stated(name, rho, share, noise):
    """share: samples over those of perfect recovery of linear outputs."""
    alpha = share * (rho - rho**2 / 2 if rho < 1 else 0.5) / channel("linear").functionals
    for seed in range(2):
        found = run(name, rho, alpha, 30, seed, noise, tol=1e-4)
        assert found.converged and abs(found.predicted - found.mmse) <= found.predicted_error < found.predicted * 1.01


@pytest.mark.parametrize(("name", "rho", "share"), [("softmax", 1.5, 1.5), ("linear", 0.5, 1.6), ("softmax", 0.2, 2.5)])
def test_above_recovery_it_is_the_distance_from_the_solution(name, rho, share):
    """V is 10 to 10^4 times the error there."""
    output = channel(name)
    alpha = share * (rho - rho**2 / 2 if rho < 1 else 0.5) / output.functionals
    found = run(name, rho, alpha, 40, 1, tol=1e-4)
    assert found.converged and "solution of the equations" in found.status
    assert found.mmse < 1e-2 and abs(found.predicted - found.mmse) <= found.predicted_error < 0.1 * found.predicted
    assert found.V == found.history[-1, 1]


def test_v_is_no_estimate_above_recovery():
    found = run("linear", 1.5, 1 / 4, 40, 0)
    assert found.converged and found.V > 100 * found.mmse and found.predicted < 1.1 * found.mmse


def test_outputs_that_are_not_fitted_are_no_convergence():
    """Rank 3 at d = 30: with little damping V goes to zero, and S neither fits the outputs nor is the teacher."""
    locked = run("linear", 0.1, 0.0301, 30, 1167, damping=0.3)
    assert not locked.converged and "leaves outputs off" in locked.status
    assert locked.V < 1e-2 < locked.mmse and locked.predicted_error is None


def test_nothing_is_stated_without_convergence():
    found = run("softmax", 0.5, 0.1, 20, 0, max_iter=3)
    assert not found.converged and found.predicted_error is None and found.predicted == found.V
    assert np.isfinite(found.V)


def test_a_direction_that_is_hardly_known_is_waited_for():
    """Equations just enough for their unknowns, 396 for 345: the residual is small long before the solution is near."""
    found = run("softmax", 0.5, 0.22, 30, 2, tol=1e-4)
    assert "solution of the equations" in found.status
    assert found.mmse > 0.02 and abs(found.predicted - found.mmse) <= found.predicted_error < 0.1 * found.predicted
