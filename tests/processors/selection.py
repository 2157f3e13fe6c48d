"""Which tests run on emulated processors: all quick ones but those of which no digit hangs on the processor."""

import hashlib
from pathlib import Path

__all__ = ["LEFT_OUT", "LONG", "part_of", "selected", "sixths_of"]

_ROOT = Path(__file__).resolve().parents[2]

#: Folders and files by the reason why a processor changes nothing in them.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "measures times, which an emulated processor does not have": ("tests/benchmarks",),
    "judges files, caches, signals and processes, and no number": (
        "tests/cli/test_destinations.py",
        "tests/cli/test_hostile_files.py",
        "tests/cli/test_process.py",
        "tests/cli/test_streams.py",
        "tests/faults",
        "tests/numerics/core/test_array_files.py",
        "tests/numerics/core/test_cluster_pool.py",
        "tests/numerics/core/test_saved.py",
        "tests/numerics/sweeps/test_cluster.py",
        "tests/numerics/sweeps/test_grid.py",
        "tests/numerics/sweeps/test_hostile_records.py",
        "tests/numerics/sweeps/test_kill.py",
        "tests/numerics/sweeps/test_store.py",
        "tests/numerics/sweeps/test_view.py",
        "tests/packaging",
    ),
    "judges what is refused before anything is computed": (
        "tests/cli/test_bad_input.py",
        "tests/cli/test_data_sizes.py",
        "tests/cli/test_expected.py",
        "tests/cli/test_sizes.py",
        "tests/fuzz",
        "tests/numerics/core/test_identity.py",
        "tests/numerics/core/test_real_numbers.py",
        "tests/numerics/model/test_network_errors.py",
        "tests/numerics/model/test_routes.py",
    ),
    "judges pages, pictures and their text": (
        "tests/cli/test_explain_verb.py",
        "tests/cli/test_plot.py",
        "tests/docs/test_reports.py",
        "tests/docs/test_site.py",
        "tests/numerics/core/test_plots.py",
        "tests/papers/test_architecture_pages.py",
        "tests/papers/test_registry.py",
    ),
    "derives exact expressions": (
        "tests/derive/test_architecture.py",
        "tests/derive/test_channel.py",
        "tests/derive/test_charts.py",
        "tests/derive/test_closed_forms.py",
        "tests/derive/test_depth.py",
        "tests/derive/test_explain.py",
        "tests/derive/test_flow.py",
        "tests/derive/test_generator.py",
        "tests/derive/test_linearization.py",
        "tests/derive/test_link.py",
        "tests/derive/test_link_separate.py",
        "tests/derive/test_mixing.py",
        "tests/derive/test_multihead.py",
        "tests/derive/test_proof.py",
        "tests/derive/test_readout.py",
        "tests/derive/test_replica.py",
        "tests/derive/test_sequence.py",
        "tests/derive/test_softmax_pair.py",
        "tests/derive/test_strong_skip.py",
    ),
    "starts emulated processors of its own, whatever runs it": ("tests/processors/test_compare.py",),
}


#: Tests that take 25 s or more where no vector instructions help, half of all time there: they run with all files.
LONG = (
    "tests/cli/test_link_noise.py::test_evolve[tanh(h[1])]",
    "tests/numerics/channel/test_link_operator.py::test_the_interval_of_the_operator_holds_the_threshold[h**2-0.2]",
    "tests/numerics/channel/test_link_operator.py::test_the_interval_of_the_operator_holds_the_threshold[sqrt(abs(h))-0.1]",
    "tests/numerics/channel/test_two_layers.py::test_sampled_averages_agree",
    "tests/numerics/fixed_point/test_link_evolution.py::test_a_posterior_that_no_node_meets_is_refused",
    "tests/numerics/fixed_point/test_link_evolution.py::test_hard_parities_stay_at_zero",
    "tests/numerics/fixed_point/test_margins.py::test_at_the_threshold_of_the_last_layer_all_bits_say_that_it_is_near[3-1]",
    "tests/numerics/fixed_point/test_noisy_links.py::test_the_fixed_point_against_sums[h[1]**3-1]",
    "tests/numerics/fixed_point/test_noisy_links.py::test_threshold_and_free_energy[h[1]**3-1]",
    "tests/numerics/fixed_point/test_priors.py::test_networks",
    "tests/numerics/fixed_point/test_state_evolution.py::test_published_curve_and_monotony",
    "tests/numerics/fixed_point/test_unconverged.py::test_a_link_next_to_recovery",
    "tests/numerics/free_energy/test_psi_out.py::test_a_noisy_line_has_its_closed_form_by_quadrature_and_exactly",
    "tests/numerics/learning/gamp/test_algorithm.py::test_an_index_that_wakes_late_is_waited_for",
    "tests/numerics/thresholds/test_hidden_layer.py::test_two_layers_as_by_quadrature",
    "tests/numerics/thresholds/test_pairs_linear.py::test_norm_does_not_depend_on_the_steps[2.0-0.1]",
    "tests/numerics/thresholds/test_pairs_linear.py::test_probability_and_variance_are_conserved[1.0-1.0-7.0]",
    "tests/numerics/thresholds/test_pairs_thresholds.py::test_two_layers_to_twenty_digits_against_ball_arithmetic",
    "tests/numerics/thresholds/test_self_consistent.py::test_steps_beside_one_index_are_roots_of_an_explicit_function",
    "tests/numerics/thresholds/test_thresholds.py::test_a_norm_next_to_a_rounding_boundary_is_decided_at_three_layers",
    "tests/papers/test_troiani2025.py::test_claimed_checks_pass[channel:check_9]",
)


def selected() -> list[str]:
    """Files of tests that run, as paths from the root of the repository."""
    left_out = [_ROOT / path for paths in LEFT_OUT.values() for path in paths]
    files = sorted((_ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(_ROOT)) for file in files if not any(file.is_relative_to(path) for path in left_out)]


def sixths_of(files: list[str], sixths: frozenset[int]) -> list[str]:
    """Files of some of six parts, the same ones each time."""
    return [file for file in files if _number(file) % 6 in sixths]


def part_of(files: list[str], text: str, parts: int) -> list[str]:
    """Files of one of so many parts, which a text, a commit's hash, chooses anew for each."""
    return [file for file in files if _number(f"{text} {file}") % parts == 0]


def _number(text: str) -> int:
    """A large number that any text has."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)
