"""The stored data of figures say what other computations say."""

from pathlib import Path

import numpy as np
import pytest

from attnlimits.numerics.models import Attention
from attnlimits.numerics.results import load
from attnlimits.numerics.state_evolution import evolve
from attnlimits.papers.troiani2025.figures import branches, examples, figure_3, work_precision


def test_examples_begin_at_their_thresholds() -> None:
    record = load(examples.DATA)
    assert set(record) == set(examples.CASES)
    for name, case in record.items():
        alpha, overlap = np.array(case["alpha"]), np.array(case["overlap"])
        assert all(case["converged"]), name
        # Within a step of the grid the sampled threshold may be the other side of a point.
        step = alpha[1] - alpha[0]
        assert (overlap[alpha < case["threshold"] - step] == 0).all(), name
        assert (overlap[alpha > case["threshold"] + step] > 0).all(), name
        assert (overlap[-1] > 0.99).all(), name


def test_three_layers_begin_with_the_last() -> None:
    record = load(figure_3.DATA)
    alpha, overlap, error = (np.array(record[name]) for name in ("alpha", "overlap", "overlap_error"))
    assert len(alpha) == 48 and overlap.shape == error.shape == (48, 3)
    threshold = float(record["threshold"]["value"])
    step = alpha[1] - alpha[0]
    assert (overlap[alpha < threshold] == 0).all()
    assert (overlap[alpha > threshold + step, 2] > 0).all()
    assert (overlap[:, 2] >= overlap[:, :2].max(axis=1) - 2 * error[:, :2].max(axis=1)).all()


def test_no_branch_turns_back() -> None:
    record = load(branches.DATA)
    assert tuple(record["skip"]) == branches.SKIPS
    for alpha, error in zip(record["alpha"], record["error"], strict=True):
        assert not branches.turns(alpha, error)
    assert branches.turns([0.2, 0.3, 0.25], [0.01] * 3)
    assert not branches.turns([0.2, 0.3, 0.29], [0.01] * 3)


@pytest.mark.slow  # minutes: near recovery at a small skip
def test_alpha_passes_one_at_a_small_skip() -> None:
    """Recovery is stable from alpha = 1 on, and so is this fixed point just beyond: the starts differ."""
    q22, alpha, error = branches.fixed_point(Attention(skip=0.05), 0.98, 0.9985, 2e-4)
    assert alpha - error > 1
    assert alpha < 1.004
    assert 0.998 < q22 < 0.999


def test_state_evolution_meets_the_branch() -> None:
    """The iteration at the alpha of a stored fixed point with both layers learned."""
    record = load(branches.DATA)
    k = record["skip"].index(1.0)
    at = record["q11"][k].index(0.2)
    alpha = record["alpha"][k][at]
    found = evolve(Attention(), alpha, start=np.diag([0.2, record["q22"][k][at]]), accuracy=1e-2)
    # dq_11/dalpha is about 3 there
    assert abs(found.overlap[0, 0] - 0.2) <= found.overlap_error[0, 0] + 4 * record["error"][k][at]


def test_quadrature_beats_monte_carlo() -> None:
    record = load(Path(work_precision.__file__).with_suffix(".json"))
    for case in record["cases"].values():
        assert work_precision.ratio(case["methods"], 1e-4) >= 100
        errors = np.array(case["methods"]["quadrature"])[:, 1]
        assert (np.diff(errors) < 0).all()
        # the square-root law
        errors = np.array(case["methods"]["Monte Carlo"])[:, 1]
        assert np.polyfit(np.log(2.0 ** np.array(work_precision.POINTS)), np.log(errors), 1)[0] == pytest.approx(
            -0.5, abs=0.15
        )
