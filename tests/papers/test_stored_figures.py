"""The stored data of figures say what other computations say."""

import numpy as np
import pytest

from attnlimits.numerics.core.results import load
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.learning.descent import descend
from attnlimits.numerics.learning.gamp import make_data, predicted_overlaps, teacher
from attnlimits.numerics.model.network import Network
from attnlimits.papers.troiani2025.figures import branches, examples, figure_2, figure_3, work_precision


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


def onset(run: dict, layer: int) -> int:
    """First step at which the mean cosine similarity of a layer is beyond one half."""
    beyond = np.flatnonzero(np.array(run["mean"])[:, layer] > 0.5)
    return int(beyond[0]) if len(beyond) else len(run["mean"])


def test_the_second_layer_is_learned_first_in_time() -> None:
    record = load(figure_2.DATA)
    runs = record["descent"]["runs"]
    assert {name: {key: run[key] for key in figure_2.DESCENTS[name]} for name, run in runs.items()} == figure_2.DESCENTS
    for run in (record["gamp"], runs["sgd"], runs["adam"]):
        assert onset(run, 1) < onset(run, 0) < len(run["mean"])
        # When the first layer is half known, the second one is all but found.
        assert np.array(run["mean"])[onset(run, 0), 1] > 0.95
    for name in ("sgd, few samples", "gd"):
        assert onset(runs[name], 1) < len(runs[name]["mean"]) == onset(runs[name], 0)


def test_gamp_in_time_follows_its_state_evolution() -> None:
    record = load(figure_2.DATA)
    run, expected = record["gamp"], np.array(record["state_evolution"]["cosine"])
    mean, deviation = np.array(run["mean"]), np.array(run["deviation"])
    # Three standard errors of a mean of 12 instances (Student's law), and what D = 4000 leaves where theory has less.
    allowed = 3.8 * deviation / np.sqrt(run["instances"]) + 3 / np.sqrt(run["dimension"])
    assert (np.abs(mean - expected)[:, 1] < allowed[:, 1]).all()
    # The first layer leaves zero after a random time: its beginning and its end.
    for part in (slice(0, 6), slice(-6, None)):
        assert (np.abs(mean - expected)[part, 0] < allowed[part, 0]).all()
    again = predicted_overlaps(Network(), run["alpha"], n_iter=4, start=run["start"], samples=512, rng=1)
    q = again.overlap.diagonal(axis1=1, axis2=2)
    error = 0.5 / np.sqrt(q) * again.overlap_error.diagonal(axis1=1, axis2=2)
    assert (
        np.abs(np.sqrt(q) - expected[:5]) < 4.5 * error + 4 * np.array(record["state_evolution"]["error"])[:5] + 1e-12
    ).all()


@pytest.mark.slow
def test_descent_again_from_another_seed() -> None:
    """Gradient descent at the stored settings: the second layer ends where the stored runs do."""
    record = load(figure_2.DATA)
    run, model, dimension = record["descent"]["runs"]["gd"], Network(), record["descent"]["dimension"]
    weights = teacher(model, dimension, 100)
    x, y = make_data(model, weights, run["alpha"], 100)
    found = descend(x, y, model, method="gd", rate=run["rate"], epochs=run["epochs"], teacher=weights, rng=100)
    assert found.cosines is not None
    end, spread = run["mean"][-1][1], run["deviation"][-1][1]
    # Of 8 stored instances and one more: 3 sigma of Student's law with 7 degrees of freedom.
    assert abs(found.cosines[-1, 1] - end) < 4.8 * spread
    assert int(np.argmax(found.cosines[:, 1] > 0.5)) < 25


def test_three_layers_are_learned_from_the_last_to_the_second() -> None:
    record = load(figure_3.DATA)
    alpha, overlap, error = (np.array(record[name]) for name in ("alpha", "overlap", "overlap_error"))
    assert len(alpha) == 48 and overlap.shape == error.shape == (48, 3)
    assert all(record["converged"])
    assert error.max() <= record["accuracy"] == 1e-2
    step = alpha[1] - alpha[0]
    starts = {2: record["threshold"], **{int(layer) - 1: onset for layer, onset in record["onsets"].items()}}
    assert set(starts) == {0, 1, 2}
    for layer, start in starts.items():
        value, off = float(start["value"]), 3 * float(start["error"])
        assert (overlap[alpha < value - off, layer] == 0).all()
        assert (overlap[alpha > value + off + step, layer] > 0).all()
    assert float(starts[2]["value"]) < starts[0]["value"] < starts[1]["value"] - 0.1
    # More data, more overlap.
    assert (np.diff(overlap, axis=0) >= -2 * (error[1:] + error[:-1])).all()
    # The outputs hold 2 N numbers, the weights 3 D.
    assert (overlap[alpha < 1.5, :2] < 1 - 1e-3).all()
    assert (overlap[alpha > 1.5] > 1 - 1e-3).all()


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
    q22, alpha, error = branches.fixed_point(Network(skip=0.05), 0.98, 0.9985, 2e-4)
    assert alpha - error > 1
    assert alpha < 1.004
    assert 0.998 < q22 < 0.999


def test_state_evolution_meets_the_branch() -> None:
    """The iteration at the alpha of a stored fixed point with both layers learned."""
    record = load(branches.DATA)
    k = record["skip"].index(1.0)
    at = record["q11"][k].index(0.2)
    alpha = record["alpha"][k][at]
    found = evolve(Network(), alpha, start=np.diag([0.2, record["q22"][k][at]]), accuracy=1e-2)
    # dq_11/dalpha is about 3 there
    assert abs(found.overlap[0, 0] - 0.2) <= found.overlap_error[0, 0] + 4 * record["error"][k][at]


def test_quadrature_beats_monte_carlo() -> None:
    record = load(work_precision.DATA)
    for case in record["cases"].values():
        assert work_precision.ratio(case["methods"], 1e-4) >= 100
        errors = np.array(case["methods"]["quadrature"])[:, 1]
        assert (np.diff(errors) < 0).all()
        # the square-root law
        errors = np.array(case["methods"]["Monte Carlo"])[:, 1]
        assert np.polyfit(np.log(2.0 ** np.array(work_precision.POINTS)), np.log(errors), 1)[0] == pytest.approx(
            -0.5, abs=0.15
        )
