"""The verb `gamp`: instances of a teacher, data of one's own, its JSON object, its exit status, and what it refuses."""

import json

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp import make_data, teacher
from attnlimits.numerics.model.network import Network

ONE = "gamp --layers 1 --tokens 2 --alpha 0.8 --dimension 300"


def test_instances_in_words(attnlimits):
    said = attnlimits(ONE + " --seeds 3")
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "tied softmax attention, L=1, M=2, rank 1, c=1, beta=1"
    assert lines[1] == "alpha = 0.8, D = 300, 3 instances"
    assert lines[2].startswith("q_11 = ") and "(state evolution: 0.99999" in lines[2]
    assert lines[3] == "converged: 3 of 3 instances"


def test_instances_as_json(attnlimits):
    said = attnlimits(ONE + " --seeds 4 --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert float(found["value"]) == pytest.approx(found["overlap"][0][0], abs=1e-4 * found["error"])
    assert (found["how"], found["seeds"], found["converged"]) == ("monte-carlo", 4, True)
    assert found["error"] == found["overlap_error"][0][0] > 0
    assert len(found["n_iter"]) == 4
    expected = found["state_evolution"]["overlap"][0][0]
    # 4 instances: 3 sigma of Student's law with 3 degrees of freedom.
    assert abs(float(found["value"]) - expected) < 9.2 * found["error"]


def test_one_instance_has_no_error(attnlimits):
    found = json.loads(attnlimits(ONE + " --seeds 1 --json").out)
    assert found["error"] is None and float(found["value"]) > 0


def test_the_covariance_is_from_slopes_or_from_squares(attnlimits):
    """Other iterates, another origin; the same estimate where much is learned."""
    both = [
        json.loads(attnlimits(f"{ONE} --seeds 1 --json --seed 1 {flag}").out)
        for flag in ("", "--variance slope", "--variance nishimori")
    ]
    assert both[0]["overlap"] == both[1]["overlap"] != both[2]["overlap"]
    assert [found["origin"]["settings"]["variance"] for found in both] == ["slope", "slope", "nishimori"]
    assert both[0]["overlap"][0][0] == pytest.approx(both[2]["overlap"][0][0], abs=1e-2)


def test_where_it_turns_it_goes_over_to_two_loops_if_asked(attnlimits):
    """Below the threshold of 1/6 the damped iteration turns on."""
    turning = "gamp --layers 1 --alpha 0.16 --dimension 200 --seeds 1 --seed 1 --json"
    damped, asked = (attnlimits(f"{turning} {flag}") for flag in ("", "--solver double-loop"))
    assert damped.status == 1 and asked.status == 0
    found = json.loads(asked.out)
    assert found["origin"]["settings"]["solver"] == "double-loop" and found["n_iter"][0] < 500
    assert abs(float(found["value"])) < 0.05 and "1 of 1" in found["status"]


def test_a_link_of_ones_own(attnlimits):
    said = attnlimits('gamp --link "h[1]**2" --alpha 1.5 --dimension 200 --seeds 2 --json')
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["model"] == "y = h_1_1**2, P=1, M=1"
    assert float(found["value"]) > 0.8


@pytest.mark.slow_for("--layers 1 --untied --rank 2 --tokens 3")
@pytest.mark.parametrize("flags", ["--untied", "--rank 1,2", "--layers 1 --untied --rank 2 --tokens 3"])
def test_architectures_on_charts(attnlimits, flags):
    """A start that has hardly been learned from: every index has an overlap, and the sampling its share."""
    said = attnlimits(f"gamp {flags} --alpha 0.5 --dimension 20 --seeds 2 --max-iter 2 --json")
    found = json.loads(said.out)
    assert said.status == 1 and np.isfinite(found["overlap"]).all() and found["n_iter"] == [2, 2]
    assert "the sampling of the posteriors adds" in found["status"]


def test_a_deep_model_comes_without_theory(attnlimits):
    """Its state evolution takes minutes."""
    said = attnlimits("gamp --layers 3 --alpha 1 --dimension 30 --seeds 1 --max-iter 2 --json")
    found = json.loads(said.out)
    assert said.status == 1 and found["state_evolution"] is None and found["n_iter"] == [2]


def test_nothing_is_computed_that_takes_minutes_and_was_not_asked_for(attnlimits, monkeypatch):
    from attnlimits.numerics.fixed_point import expected

    def never(*_args, **_kwargs):
        raise AssertionError("a state evolution of minutes")

    monkeypatch.setattr(expected, "evolve", never)
    for flags in ("--alpha 1", "--alpha 0.8 --skip 3", "--layers 1 --rank 2 --alpha 1", "--layers 3 --alpha 0.1"):
        said = attnlimits(f"gamp {flags} --dimension 20 --seeds 1 --max-iter 2 --json")
        assert json.loads(said.out)["state_evolution"] is None, said.err
    words = attnlimits("gamp --alpha 1 --dimension 20 --seeds 1 --max-iter 2").out.splitlines()
    assert words[-2] == "state evolution: not within seconds here; --state-evolution asks for it"


def test_a_state_evolution_that_is_asked_for(attnlimits):
    two = "gamp --layers 1 --tokens 2 --rank 2 --alpha 0.2 --dimension 20 --seeds 1 --max-iter 2"
    assert "(state evolution: 0" in attnlimits(f"{two} --state-evolution").out
    assert "--state-evolution asks for it" in attnlimits(two).out
    # Where two layers take a fraction of a second it is there by itself.
    shown = attnlimits("gamp --alpha 0.2 --dimension 20 --seeds 1 --max-iter 2").out
    assert shown.count("(state evolution: ") == 2


def test_a_state_evolution_that_is_asked_for_and_fails_is_an_error(attnlimits, monkeypatch):
    from attnlimits.numerics.fixed_point import expected

    def fails(*_args, **_kwargs):
        raise ValueError("there is no fixed point")

    monkeypatch.setattr(expected, "evolve", fails)
    refused = attnlimits("gamp --layers 1 --tokens 3 --rank 4 --alpha 0.2 --dimension 20 --seeds 1 --state-evolution")
    assert refused.status == 2 and not refused.out and len(refused.lines_of_error) == 1


def test_what_does_not_converge_ends_with_status_one(attnlimits):
    said = attnlimits(ONE + " --seeds 2 --max-iter 2 --json")
    assert said.status == 1
    assert said.lines_of_error[-1].startswith("attnlimits: not converged: 2 of 2 instances")
    assert json.loads(said.out)["converged"] is False


@pytest.fixture
def files(tmp_path):
    model = Network(1, 2)
    weights = teacher(model, 150, 0)
    x, y = make_data(model, weights, 1.2, 0)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return weights, tmp_path


def test_data_of_ones_own(attnlimits, files):
    weights, folder = files
    flags = f"gamp --layers 1 --x {folder / 'x.npy'} --y {folder / 'y.npy'}"
    said = attnlimits(f"{flags} --out {folder / 'w.npy'} --json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    estimate = np.load(folder / "w.npy")
    assert found["out"] == str(folder / "w.npy") and "weights" not in found
    assert found["alpha"] == 1.2 and found["how"] == "estimated"
    # Up to the sign that the link does not see.
    assert abs((estimate @ weights.T).item()) / 150 == pytest.approx((weights @ weights.T).item() / 150, abs=0.02)
    words = attnlimits(flags)
    assert words.out.splitlines()[2].startswith("Q_11 = ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "give --alpha and --dimension"),
        ("--alpha 1", "give --alpha and --dimension"),
        ("--alpha 0 --dimension 10", "--alpha must be finite and > 0"),
        ("--alpha nan --dimension 10", "--alpha must be finite and > 0"),
        ("--alpha 1 --dimension 0", "--dimension must be >= 1"),
        ("--alpha 1 --dimension 1", "dimension must be an integer >= 2"),
        ("--alpha 1 --dimension 10 --seeds 0", "--seeds must be >= 1"),
        ("--alpha 1 --dimension 10 --damping 1", "--damping must be in [0, 1)"),
        ("--alpha 1 --dimension 10 --damping some", "argument --damping"),
        ("--alpha 1 --dimension 10 --max-iter 0", "--max-iter must be >= 1"),
        ("--alpha 1 --dimension 10 --tol -1", "--tol must be finite"),
        ("--alpha 1 --dimension 10 --seed -1", "--seed must be >= 0"),
        ("--alpha 1 --dimension 10 --workers 0", "--workers must be >= 1"),
        ("--alpha 1 --dimension 10 --out w.npy", "--out is for"),
        ("--alpha 1 --dimension 10 --noise x", "--noise must be a number"),
        ("--alpha 1 --dimension 10 --heads 2 --output sequence", "--heads is not served by `gamp`"),
        (
            "--alpha 1 --dimension 10 --layers 3 --tokens 3 --output sequence",
            "--output sequence is not served by `gamp`",
        ),
        ("--alpha 1 --dimension 10 --layers 3 --activation linear --untied", "no denoiser for untied linear"),
        ('--alpha 1 --dimension 10 --link "h[1]" --layers 3', "--link stands instead"),
        ("--x x.npy", "--y is missing"),
        ("--x x.npy --y y.npy --alpha 1", "--alpha describes instances"),
        ("--x x.npy --y y.npy --state-evolution", "--state-evolution is for instances"),
        ("--x x.npy --y y.npy --dask local", "--dask is for data in folders of row blocks"),
        ("--alpha 1 --dimension 10 --dask local", "--dask is for data in folders of row blocks"),
        ("--x . --y . --dask local --start spectral", "--start spectral passes over X on this machine"),
    ],
)
def test_bad_flags(attnlimits, flags, words):
    said = attnlimits(f"gamp {flags}")
    assert said.status == 2 and not said.out
    assert len(said.lines_of_error) == 1 and words in said.err


def test_bad_files(attnlimits, files):
    _, folder = files
    missing = attnlimits(f"gamp --layers 1 --x {folder / 'none.npy'} --y {folder / 'y.npy'}")
    assert missing.status == 2 and "No such file" in missing.err
    (folder / "text.npy").write_text("no array")
    damaged = attnlimits(f"gamp --layers 1 --x {folder / 'text.npy'} --y {folder / 'y.npy'}")
    assert damaged.status == 2 and "is no .npy file of numbers" in damaged.err
    swapped = attnlimits(f"gamp --layers 1 --x {folder / 'y.npy'} --y {folder / 'x.npy'}")
    assert swapped.status == 2 and "Y must have shape (N, 2, 2)" in swapped.err
    other = attnlimits(f"gamp --x {folder / 'x.npy'} --y {folder / 'y.npy'} --activation linear --layers 1")
    assert other.status == 2 and "Y, sample 0" in other.err
