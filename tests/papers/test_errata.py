"""The errata of troiani2025: every one is confirmed, and would fail if the published value were right."""

import re
from importlib import resources
from types import SimpleNamespace

import numpy as np
import pytest

from attnlimits.derive import registry
from attnlimits.papers.troiani2025.checks import errata

ENTRIES = registry.load_errata("troiani2025")
RESULTS = {}


def _result(name):
    if name not in RESULTS:
        (RESULTS[name],) = registry.run("troiani2025", ids=[name])
    return RESULTS[name]


# Of two seconds and more; the averages over a channel that they take are those of tests/numerics/channel.
SLOW = ("message-passing-first-layer", "three-layer-thresholds", "three-layer-overlaps", "evolution-curve")


@pytest.mark.parametrize(
    "name", [pytest.param(e.id, marks=[pytest.mark.slow] if e.id in SLOW else []) for e in ENTRIES]
)
def test_each_is_confirmed(name):
    result = _result(name)
    assert result.ok, result.message
    assert result.status == registry.ERRATUM


def test_every_check_belongs_to_an_entry():
    root = resources.files("attnlimits.papers").joinpath("troiani2025", "checks", "errata.py")
    defined = re.findall(r"^def ([a-z]\w+)\(", root.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(e.check.partition(":")[2] for e in ENTRIES) == sorted(defined)


def test_the_paper_readme_names_each():
    text = resources.files("attnlimits.papers").joinpath("troiani2025", "README.md").read_text(encoding="utf-8")
    for entry in ENTRIES:
        assert f"[{entry.id}]" in text, entry.id


def test_stated_values_are_the_computed_ones():
    """Numbers in the entries are those that the checks print."""
    by_name = {e.id: e for e in ENTRIES}
    assert re.search(r"0\.185477840607", by_name["second-layer-threshold"].correct)
    assert "0.185477840607" in _result("second-layer-threshold").message
    first, second = re.findall(r"(0\.\d+) \(", _result("linear-layer-order").message)
    stated = re.findall(r"0\.\d+", by_name["linear-layer-order"].correct)
    assert stated == [f"{float(first):.4f}", f"{float(second):.4f}"]
    entry = re.search(r"Lambda_12 = (0\.\d+)", _result("operator-entries").message)
    assert f"{float(entry[1]):.3f}" in by_name["operator-entries"].correct
    error = re.search(r"\(11\) is (0\.\d+)", _result("prediction-error").message)
    assert f"{float(error[1]):.3f}" in by_name["prediction-error"].correct


def test_the_least_distance_must_be_reached():
    assert errata._over(0.1, 0.2) == 0.5
    assert errata._over(0.1, 0.05) > 1.0
    assert errata._over(0.1, 0.0) == np.inf
    assert errata._over(0.1, -1.0) == np.inf


# Were the paper right, these functions would give its values: the check must then fail.


def test_published_second_layer_threshold_would_fail(monkeypatch):
    monkeypatch.setattr(errata, "last_layer", lambda *_, **__: SimpleNamespace(value=0.14358))
    monkeypatch.setattr(errata, "_multipliers", lambda: (np.diag([1.0, 1.0 / 0.14358]), 1.0))
    assert not errata.second_layer_threshold().ok


def test_published_first_layer_threshold_would_fail(monkeypatch):
    def flat(*_, **__):
        return lambda q: SimpleNamespace(growth=np.full((8, 2), 1.0 / 0.79365))

    monkeypatch.setattr(errata, "channel", flat)
    assert not errata.first_layer_given_second().ok


def test_a_small_remainder_at_large_depth_would_fail(monkeypatch):
    # What the paper expects: of order 1 / c^2 whatever the depth.
    monkeypatch.setattr(errata, "joint_limit_remainder", lambda kappa, skip, seed=0: 1.0 / skip**2)
    assert not errata.large_depth().ok


def test_a_last_layer_that_is_learned_first_would_fail(monkeypatch):
    first, second, total = errata._linear_multipliers()
    monkeypatch.setattr(errata, "_linear_multipliers", lambda: (0.9 * second, second, total))
    assert first > second
    assert not errata.linear_layer_order().ok


def test_a_diagonal_operator_would_fail(monkeypatch):
    multipliers, total = errata._multipliers()
    monkeypatch.setattr(errata, "_multipliers", lambda: (np.diag(np.diag(multipliers)), total))
    assert not errata.operator_entries().ok


def test_a_published_fixed_point_would_fail(monkeypatch):
    # A map that keeps 0.499: qhat = q / (1 - q).
    conjugate = 0.499 / 0.501
    monkeypatch.setattr(errata, "plain_conjugate", lambda q: conjugate / 0.4)
    monkeypatch.setattr(
        errata, "channel", lambda *_, **__: lambda q: SimpleNamespace(g=np.full((8, 2, 2), conjugate / 0.4))
    )
    assert not errata.evolution_curve().ok


def test_a_map_that_keeps_the_published_first_layer_would_fail(monkeypatch):
    def keeping(*_, **__):
        return lambda q: SimpleNamespace(g=np.tile(np.diag(np.diag(q) / (1.0 - np.diag(q))) / 1.2, (4, 1, 1)))

    monkeypatch.setattr(errata, "channel", keeping)
    assert not errata.first_layer_of_message_passing().ok


def test_a_published_error_of_the_posterior_mean_would_fail(monkeypatch):
    monkeypatch.setattr(errata, "two_layer_errors_at_zero", lambda: (0.387, 0.387))
    assert not errata.prediction_error_of_the_figure().ok


def test_growing_overlaps_of_three_layers_would_fail(monkeypatch):
    # Overlaps of the first layers that do not vanish need a multiplier above 1 / alpha.
    plain, _ = errata._multipliers()

    def unstable(layers, overlap, labels, points):
        if layers == 3:
            return np.array([2.6, 0.2]), np.array([0.05, 0.05])
        return plain[:1, 0], np.array([0.05])

    monkeypatch.setattr(errata, "_sampled_multipliers", unstable)
    assert not errata.three_layer_overlaps().ok


def test_one_threshold_of_two_layers_would_fail(monkeypatch):
    shared = SimpleNamespace(growth=np.full((2, 3), 1.1 / 1.05))
    for average in ("DeepQuadrature", "ThreeLayers"):
        monkeypatch.setattr(errata, average, lambda *_, **__: lambda q: shared)
    assert not errata.three_layer_thresholds().ok
