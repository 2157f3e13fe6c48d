"""Stated errors of the float64 denoiser against arbitrary precision over its whole range, and what it refuses."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import check_covariance, denoise, denoise_readout
from attnlimits.numerics.posterior.precise.denoiser import denoise_mp
from attnlimits.numerics.posterior.readout import invert_readout

from ...calibration.denoise_cases import CTX, Case, exactly, moments_scale, ratios

REFERENCE: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "denoiser_reference.json").read_text(encoding="utf-8")
)


@pytest.mark.slow_for("1e-08")
@pytest.mark.parametrize("tol", [1e-14, 1e-12, 1e-8, 1e-4])
def test_reference_is_within_the_stated_error(tol: float) -> None:
    """The stored set: two activations, c and beta over decades, small, correlated and nearly singular V."""
    found = []
    for entry in REFERENCE[::3]:
        if entry["error"] > 1e-20:
            continue
        model = Network(2, 2, 1, entry["skip"], entry["beta"], entry["activation"])
        case = Case(model, *(np.array(entry[name]) for name in ("y", "omega", "V")), tol)
        made = denoise(model, case.y, case.omega, case.V, tol=tol, workers=1)
        shapes = {"log_z": (), "g_out": (2, 2), "dg_out": (2, 2, 2, 2)}
        exact = {
            name: np.array([CTX.mpf(x) for x in np.ravel(entry[name])], dtype=object).reshape(shape)
            for name, shape in shapes.items()
        }
        exact["log_z"] = exact["log_z"][()]
        found.append(ratios(case, made, SimpleNamespace(**exact)))
    worst = np.array(found).max(axis=1)
    assert len(worst) >= 30
    assert (worst <= 1).mean() >= 0.95 and worst.max() <= 2.0, sorted(worst)[-5:]


def test_small_variances_of_one_layer() -> None:
    """V = 1e-12 costs six digits of the moments; of log Z, no more than the readout row does."""
    model = Network(1)
    h = np.array([0.61, -0.83])
    y = model.link(h[None])
    for variance in (1e-4, 1e-8, 1e-12, 1e-16):
        omega = (h + 1.3 * math.sqrt(variance) * np.array([0.8, -0.6]))[None]
        made = denoise(model, y, omega, [[variance]])
        exact = denoise_mp(model, y, omega, [[variance]], digits=25)
        off = abs(CTX.mpf(float(made.log_z)) - exact.log_z)
        assert off <= made.log_z_error <= 1e-13 / math.sqrt(variance)
        assert 1e-17 / math.sqrt(variance) < made.error < 1e-14 / math.sqrt(variance)


def test_two_layers_state_what_rounding_costs() -> None:
    """Below V = 1e-4 the tolerance 1e-13 is beyond float64: the error grows like 1/sqrt(V), and is stated."""
    model = Network()
    h = np.array([[0.7, -0.4], [0.5, 0.9]])
    y = Network(1).link(h[1:] @ model.mixing(h).T)
    before = 0.0
    for variance in (1e-4, 1e-8, 1e-12):
        case = Case(model, y, h + 0.5 * math.sqrt(variance), variance * np.eye(2), 1e-13)
        made = denoise(*case[:4], tol=case.tol)
        assert max(ratios(case, made, denoise_mp(*case[:4], digits=18))) <= 1
        assert made.error > max(1e-16 / math.sqrt(variance), before)
        assert made.error < 2e-14 / math.sqrt(variance)
        before = float(made.error)


@pytest.mark.parametrize("activation", ["softmax", "linear"])
@pytest.mark.parametrize("layers", [1, 2])
def test_no_number_without_a_true_error(layers: int, activation: str) -> None:
    """V and omega from the smallest to the largest float64: finite with an error of use, or refused by name."""
    model = Network(layers, activation=activation)
    y = [[0.7, 0.3], [0.2, 0.8]] if activation == "softmax" else [[1.0, 0.5], [0.5, 0.25]]
    served = 0
    for variance in (5e-324, 1e-310, 1e-300, 1e-155, 1e-20, 1.0, 1e20, 1e155, 1e300, 1.7e308):
        for size in (0.0, 1e-300, 0.5, 1e20, 1e200, 1.7e308):
            omega = size * np.array([[1.0, -0.7], [-0.3, 0.6]])[:layers]
            try:
                made = denoise(model, y, omega, variance * np.eye(layers), tol=1e-6)
            except (ConvergenceError, ValueError) as refusal:
                assert "V = " in str(refusal) or "V must" in str(refusal), refusal
                continue
            served += 1
            for part in (made.log_z, made.g_out, made.dg_out, made.log_z_error):
                assert np.isfinite(part).all()
            assert 0 < made.error <= 1e-2
            assert made.log_z_error >= 1e-16 * abs(made.log_z)
    assert served >= (20 if layers == 1 else 1)


def test_each_covariance_is_judged_by_itself() -> None:
    """A matrix passes or fails whatever lies beside it, and the message counts where it is."""
    good = [1e-12 * np.eye(2), 1e6 * np.eye(2), np.array([[1e-30, 0.0], [0.0, 1e-31]])]
    for left in good:
        for right in good:
            np.testing.assert_array_equal(check_covariance("V", np.stack([left, right]), 2), [left, right])
    tilted, deficient = np.array([[1.0, 0.3], [0.2, 1.0]]), np.ones((2, 2))
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    for beside in (1e-12 * np.eye(2), np.eye(2), 1e15 * np.eye(2)):
        for wrong, word in ((tilted, "symmetric"), (deficient, "rank deficient"), (indefinite, "semi-definite")):
            with pytest.raises(ValueError, match=word):
                check_covariance("V", np.stack([beside, wrong]), 2)
    with pytest.raises(ValueError, match=r"matrix \[1\]"):
        check_covariance("V", np.stack([np.eye(2), deficient]), 2)
    rng = np.random.default_rng(1)
    y = Network(1).link(rng.standard_normal((1, 2)))
    both = denoise(Network(), y, np.zeros((2, 2)), np.stack([1e-3 * np.eye(2), 5 * np.eye(2)]))
    alone = denoise(Network(), y, np.zeros((2, 2)), 1e-3 * np.eye(2))
    np.testing.assert_array_equal(both.g_out[0], alone.g_out)


def test_readouts_near_the_edge_state_what_the_inverse_loses() -> None:
    """Tokens that differ by 1e-6: y holds their squared distance to four digits, the same row given has all."""
    model = Network(1, 3)
    v = np.array([1.0, 1.0 + 1e-6, 1.0 - 2e-6])
    y = model.link(v[None])
    given = denoise_readout(model, v, np.zeros((1, 3)), [[0.01]])
    found = denoise(model, y, np.zeros((1, 3)), [[0.01]])
    assert given.error < 1e-13 and 1e-9 < found.error < 1e-2
    exact = denoise_mp(model, y, np.zeros((1, 3)), [[0.01]], digits=20)
    assert max(ratios(Case(model, y, np.zeros((1, 3)), np.array([[0.01]]), 1e-12), found, exact)) <= 1


@pytest.mark.parametrize("tokens", [3, 5])
def test_logarithms_of_nearly_equal_entries(tokens: int) -> None:
    """Readout rows of size 1e-5, whose outputs are uniform to ten digits, are recovered as well as y holds them."""
    rng = np.random.default_rng(tokens)
    model = Network(1, tokens)
    v = 1e-5 * rng.standard_normal(tokens)
    y = model.link(v[None])
    exact = denoise_mp(model, y, np.zeros((1, tokens)), [[1.0]], digits=20)
    found = invert_readout(model, y)[0]
    # E[h h^T] = v v^T, from d g_out = v v^T - I.
    squares = np.array((exact.dg_out[0, :, 0, :] + np.eye(tokens, dtype=int)).tolist(), dtype=float)
    assert np.abs(np.outer(found, found) - squares).max() < 1e-13 * np.abs(squares).max() * 10


def test_refinement_ends_where_rounding_begins() -> None:
    """Unlikely y at small V: cosets differ by their rounding however fine; nodes are not doubled for ever after it."""
    model = Network(2, 2, 1, 44.1, 202.0)
    V = np.array([[1.9e-10, 0.9 * 1.1e-9], [0.9 * 1.1e-9, 6.4e-9]])
    v, omega = np.array([-25.7, -11.3]), np.zeros((2, 2))
    fine, coarse = (denoise_readout(model, v, omega, V, tol=tol, workers=1) for tol in (1e-14, 1e-6))
    unit = moments_scale(Case(model, np.zeros((2, 2)), omega, V, 0.0), exactly(fine.g_out), exactly(fine.dg_out))
    assert 1e-9 < fine.error < 1e-2
    assert (np.abs(fine.g_out - coarse.g_out) <= (fine.error + coarse.error) * unit.astype(float)).all()


def test_no_digits_left_is_said() -> None:
    """h_2 some 10^9 prior widths away: the exponent alone loses all digits."""
    with pytest.raises(ConvergenceError, match="float64 has no digits for it: y is too unlikely"):
        denoise_readout(Network(), [30.0, -20.0], np.zeros((2, 2)), np.diag([1e-6, 1e-16]), tol=1e-6)
