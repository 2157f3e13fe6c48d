"""The verbs `aim descend`, `aim free-energy` and `aim spectrum`: what they print, their records, what they refuse."""

import json
import math

import numpy as np
import pytest

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, teacher
from attnlimits.numerics.aim.free_energy import free_entropy
from attnlimits.numerics.aim.law import spectrum
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.aim.width import estimate_rho
from attnlimits.numerics.core.errors import ConvergenceError


def test_descent_of_instances(attnlimits):
    command = "aim descend --rho 0.5 --alpha 0.3 --dimension 16 --seeds 3 --steps 300 --students 2"
    said = attnlimits(command)
    assert said.out.splitlines()[1] == "alpha = 0.300781 (0.3 asked), d = 16, 3 instances of 2 students"
    found = json.loads(attnlimits(command + " --json").out)
    assert float(found["value"]) == pytest.approx(np.mean(found["errors"]), rel=1e-2) and found["how"] == "monte-carlo"
    assert found["mmse"] <= found["single"] and found["students"] == 2 and len(found["n_iter"]) == 3
    assert found["plugin_error"]["value"] > found["prediction_by_state_evolution"]["value"]
    short = attnlimits("aim descend --rho 0.5 --alpha 0.3 --dimension 10 --seeds 1 --steps 2 --students 1")
    assert short.status == 1 and "raise --steps" in short.lines_of_error[-1]


def test_descent_on_files(attnlimits, tmp_path):
    x, y = make_data(teacher(12, 0.5, 0), 0.4, channel("softmax"), 1, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    flags = f"--rho 0.5 --x {tmp_path / 'x.npy'} --y {tmp_path / 'y.npy'} --steps 400 --students 2"
    found = json.loads(attnlimits(f"aim descend {flags} --out {tmp_path / 's.npy'} --json").out)
    S = np.load(tmp_path / "s.npy")
    assert found["out"] == str(tmp_path / "s.npy") and "estimate" not in found and S.shape == (12, 12)
    # The same as from Python, and fitted far beyond what no weights would leave.
    assert len(found["loss"]) == 2 and max(found["loss"]) < 0.1 * ((y - 0.5) ** 2).sum() / 12
    assert attnlimits(f"aim descend {flags} --alpha 1").status == 2


def test_descent_at_the_width_of_the_data(attnlimits, tmp_path):
    """By the evidence along it, as for message passing, and with the students of that width."""
    output = channel("linear", noise=1.0)
    x, y = make_data(teacher(8, 0.5, 3), 0.5, output, 3)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    flags = f"--activation linear --noise 1 --x {tmp_path / 'x.npy'} --y {tmp_path / 'y.npy'}"
    found = json.loads(attnlimits(f"aim descend --rho estimate {flags} --steps 20 --students 1 --json").out)
    expected = estimate_rho(x, y, output)
    assert found["width"]["rho"] == pytest.approx(expected.rho, rel=1e-12)
    assert f"rho={expected.rho:.6g}" in found["model"]
    assert found["width"]["error"] == pytest.approx(expected.error, rel=1e-9)
    refused = attnlimits("aim descend --rho estimate --alpha 0.1 --dimension 20")
    assert refused.status == 2 and "--rho estimate is for data" in refused.err


@pytest.mark.parametrize(("flags", "alpha"), [("", 0.1), ("--activation hardmax", 0.3)])
def test_free_energy_is_stationary_at_the_fixed_point(attnlimits, flags, alpha):
    found = json.loads(attnlimits(f"aim free-energy --rho 0.5 --alpha {alpha} {flags} --error 0.2 0.6 --json").out)
    top, V = float(found["value"]), found["mmse"]["value"]
    assert abs(found["residual"]) < 1e-9 and found["error"] < 1e-9
    # Two routes: the maximum over V of the free entropy at any V.
    output = channel("hardmax" if flags else "softmax")
    near = [free_entropy(alpha, V * (1 + s), 0.5, output).value for s in (-1e-3, 1e-3)]
    assert all(0 < top - value < 1e-5 for value in near), near
    assert all(row["free_entropy"]["value"] < top for row in found["landscape"])


def test_free_energy_of_hardmax_of_three_tokens(attnlimits):
    found = json.loads(attnlimits("aim free-energy --rho 0.5 --alpha 0 --activation hardmax --tokens 3 --json").out)
    assert float(found["value"]) == 0 and -3 * math.log(3) < found["psi_out"]["value"] < 0


def test_free_energy_is_infinite_at_recovery(attnlimits):
    said = attnlimits("aim free-energy --rho 0.5 --alpha 0.2")
    assert said.status == 1 and "take alpha below perfect recovery" in said.err


def test_spectrum(attnlimits, tmp_path):
    said = attnlimits(f"aim spectrum --rho 0.05 --delta 0.01 --at 0 3 9 --plot {tmp_path / 'law.png'}")
    assert said.status == 0 and said.out.count("support: ") == 2 and (tmp_path / "law.png").stat().st_size > 5000
    found = json.loads(attnlimits("aim spectrum --rho 0.5 --delta 0.1 --at 1 2 9 --json").out)
    assert found["density"][2] == 0 and found["mass"]["value"] == pytest.approx(1, abs=1e-12)
    assert float(found["value"]) == pytest.approx(4.162667999473, abs=1e-11)
    # The estimate of an eigenvalue far out is the eigenvalue less what the noise adds to it.
    assert found["shrunk"][2] == pytest.approx(9 - 2 * 0.1 / 9, abs=0.02)
    fixed = json.loads(attnlimits("aim spectrum --rho 0.5 --alpha 0.1 --json").out)
    assert fixed["mmse"]["value"] == pytest.approx(0.3921960173, abs=1e-9)


def test_a_noise_that_is_a_fixed_point_has_its_error(attnlimits):
    """Of hardmax of three tokens it is known to some thousandths: so are the edges, the densities and the estimates."""
    flags = "aim spectrum --rho 0.5 --alpha 0.1 --activation hardmax --tokens 3 --at 0 1"
    found = json.loads(attnlimits(flags + " --json").out)
    point = evolve(0.1, 0.5, channel("hardmax", 3))
    assert found["mmse"]["error"] == pytest.approx(point.mmse.error, rel=0.05) and point.mmse.error > 1e-4
    low, high = (spectrum(0.5, end, at=[0, 1]) for end in point.bracket)
    # Of one noise it is rounding alone.
    assert low.density_error.max() < 1e-13 and low.edge_error < 1e-13
    for name, error in (("density", "density_error"), ("shrunk", "shrunk_error")):
        ends = np.array([getattr(low, name), getattr(high, name)])
        assert (np.abs(ends - found[name]).max(axis=0) <= np.array(found[error]) * (1 + 1e-9)).all()
        assert (np.array(found[error]) < 2 * np.abs(ends[1] - ends[0])).all()
    assert abs(low.edges - found["edges"]).max() <= found["edge_error"] < 0.02
    assert "x = 0: density 0.236" in attnlimits(flags).out
    with pytest.raises(ConvergenceError, match="where a gap of the spectrum opens"):
        spectrum(0.05, 0.1, within=(0.1, 8.0))


@pytest.mark.slow_for("0.18749999999999978-recovered to")
@pytest.mark.parametrize(
    ("alpha", "status"), [("0.18749999999999994", "recovered"), ("0.18749999999999978", "recovered to")]
)
def test_next_to_recovery_the_noise_is_not_known(attnlimits, alpha, status):
    """The range of the noise begins at 0: there is no number with an error, and no argument that is out of range."""
    point = evolve(float(alpha), 0.5, channel("softmax"))
    assert point.status.startswith(f"converged: {status}") and point.bracket[0] == 0 < 1 / point.q_hat < 1e-14
    said = attnlimits(f"aim spectrum --rho 0.5 --alpha {alpha}")
    assert said.status == 1 and len(said.lines_of_error) == 1
    assert "S is recovered, to within rounding" in said.err and "give --delta" in said.err
    with pytest.raises(ValueError, match="within must be finite and > 0"):
        spectrum(0.5, 1 / point.q_hat, within=point.bracket)


def test_spectrum_against_a_matrix(rng):
    """Eigenvalues of one matrix: none outside the support, and as many below a place as the density has."""
    d, delta = 300, 0.3
    noise = rng.standard_normal((d, d))
    values = np.linalg.eigvalsh(teacher(d, 0.5, rng) + math.sqrt(delta / 2 / d) * (noise + noise.T))
    found = spectrum(0.5, delta, points=2001)
    assert found.edges[0, 0] - 0.15 < values[0] and values[-1] < found.edges[-1, 1] + 0.3
    share = np.concatenate([[0], np.cumsum(0.5 * (found.density[1:] + found.density[:-1]) * np.diff(found.x))])
    for place in (0.0, 0.5, 2.0):
        assert (values < place).mean() == pytest.approx(np.interp(place, found.x, share), abs=0.02)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("spectrum --rho 0.5", "give --delta"),
        ("spectrum --rho 0.5 --delta 1 --alpha 1", "give --delta"),
        ("spectrum --rho 0.5 --alpha 1", "S is recovered"),
        ("spectrum --rho 0.5 --alpha 0", "nothing is learned"),
        ("spectrum --rho 0 --delta 1", "rho must be"),
        ("free-energy --rho 0.5 --alpha 0.1 --error 1.5", "V must be in (0, 1)"),
        ("free-energy --rho 0.5 --alpha 0.1 --activation hardmax_published", "no model"),
        ("free-energy --rho 0 --alpha 0.1", "rho must be"),
        ("descend --rho 0.5 --alpha 0.1 --dimension 9 --activation hardmax", "slopes of softmax or linear"),
        ("descend --rho 0.5 --alpha 0.1 --dimension 9 --steps 0", "--steps must be"),
        ("descend --rho 0.5 --alpha 0.1 --dimension 9 --rate nan", "--rate must be"),
        ("descend --rho 0.5 --alpha 0.1", "give --alpha and --dimension"),
    ],
)
def test_bad_flags(attnlimits, flags, words):
    said = attnlimits(f"aim {flags}")
    assert said.status == 2 and not said.out and len(said.lines_of_error) == 1 and words in said.err, said.err
