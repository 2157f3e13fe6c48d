"""Data and message passing with a spectrum: against state evolution, ridge regression, and in turned coordinates."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.priors import as_spectrum

SQUARE, NET, TWO = al.Link("h[1]**2"), al.Network(layers=1, tokens=2), al.Network(layers=2, tokens=2)
LINEAR = al.Link("h[1]", noise="1/2")


def turned(dimension, values):
    """A spectrum with directions of its own, and these."""
    basis = np.linalg.qr(np.random.default_rng(5).standard_normal((dimension, dimension)))[0]
    samples = np.sqrt(values)[:, None] * basis.T * np.sqrt(dimension)
    return basis, np.concatenate([samples, -samples])  # its sample covariance has them, to rounding


def test_inputs_have_the_covariance():
    weights = al.teacher(SQUARE, 60, rng=0)
    x, y = al.make_data(SQUARE, weights, 800.0, rng=0, spectrum="points:0.2,1.8", dtype=np.float64)
    scale = as_spectrum("points:0.2,1.8").coordinates(60)
    covariance = x[:, 0].T @ x[:, 0] / len(x)
    assert np.abs(covariance - np.diag(scale)).max() < 6 * 1.8 / np.sqrt(len(x))
    assert np.abs(y[:, 0] - ((x[:, 0] @ weights[0]) ** 2 / 60)).max() < 1e-10
    white, _ = al.make_data(SQUARE, weights, 800.0, rng=0, dtype=np.float64)
    assert np.abs(x - white * np.sqrt(scale)).max() < 1e-12


@pytest.mark.slow_for("model2-0.4-points:0.4,1.6")
@pytest.mark.parametrize("spectrum", ["mp:1", "points:0.4,1.6"])
@pytest.mark.parametrize(("model", "alpha"), [(SQUARE, 0.8), (NET, 0.4), (TWO, 0.4)])
def test_message_passing_is_its_state_evolution(model, alpha, spectrum):
    theory = al.evolve(model, alpha, spectrum=spectrum)
    found = []
    for seed in range(4):
        weights = al.teacher(model, 2000, rng=seed)
        x, y = al.make_data(model, weights, alpha, rng=seed, spectrum=spectrum)
        found.append(al.gamp(model, x, y, teacher=weights, rng=seed, spectrum=spectrum).overlap[-1, -1])
    error = np.std(found, ddof=1) / 2 + theory.overlap_error[-1, -1]
    assert abs(np.mean(found) - theory.overlap[-1, -1]) < 3 * error < 0.15


def test_a_linear_link_is_ridge_regression():
    """W given y = W x/sqrt(D) + noise is a ridge estimate, of which message passing is good to D^{-1/2}."""
    dimension = 1500
    weights = al.teacher(LINEAR, dimension, rng=1)
    x, y = al.make_data(LINEAR, weights, 1.5, rng=1, spectrum="mp:1", dtype=np.float64)
    found = al.gamp(LINEAR, x, y, teacher=weights, spectrum="mp:1", tol=1e-8, rng=0)
    a = x[:, 0] / np.sqrt(dimension)
    ridge = np.linalg.solve(a.T @ a / 0.5 + np.eye(dimension), a.T @ y[:, 0] / 0.5)
    scale = as_spectrum("mp:1").coordinates(dimension)
    off = (scale * (found.weights[0] - ridge) ** 2).mean() / (scale * ridge**2).mean()
    assert off < 1e-3
    theory = al.evolve(LINEAR, 1.5, spectrum="mp:1").overlap[0, 0]
    assert found.covariance[0, 0] == pytest.approx(1 - theory, abs=1e-3)
    # |W|^2/D of one teacher scatters by (2 E lambda^2/D)^{1/2}
    assert (scale * ridge**2).mean() == pytest.approx(theory, abs=4 * (4 / dimension) ** 0.5)


def test_directions_of_its_own_change_nothing(tmp_path):
    """In a basis of its own the inputs, the estimate and its overlaps are those of the coordinates, turned."""
    dimension, alpha = 200, 0.8
    values = np.linspace(2, 0.1, dimension)
    basis, samples = turned(dimension, values)
    np.save(tmp_path / "samples.npy", samples)
    spectrum = al.learning.spectrum_of(samples)
    from_file = as_spectrum(f"data:{tmp_path / 'samples.npy'}")
    assert (from_file.coordinates(dimension) == spectrum.coordinates(dimension)).all()
    assert spectrum.coordinates(dimension) == pytest.approx(values / values.mean(), rel=1e-9)
    weights = al.teacher(NET, dimension, rng=2)
    x, y = al.make_data(NET, weights, alpha, rng=2, spectrum=values, dtype=np.float64)
    steps = []
    settings = {"rng": 3, "tol": 1e-6}
    plain = al.gamp(NET, x, y, teacher=weights, spectrum=values, **settings)
    own = al.gamp(NET, x @ basis.T, y, teacher=weights @ basis.T, spectrum=spectrum, callback=steps.append, **settings)
    assert np.abs(own.overlap) == pytest.approx(np.abs(plain.overlap), abs=1e-3)
    assert np.abs(np.abs(own.weights @ basis) - np.abs(plain.weights)).max() < 1e-2
    assert np.abs(steps[-1].weights - own.weights).max() < 1e-12
    made, _ = al.make_data(NET, weights, 400.0, rng=2, spectrum=spectrum, dtype=np.float64)
    flat = made.reshape(-1, dimension)
    expected = (basis * values / values.mean()) @ basis.T
    assert np.abs(flat.T @ flat / len(flat) - expected).max() < 6 * 2 / np.sqrt(len(flat))


def test_written_data_are_those_in_memory(tmp_path):
    weights = al.teacher(NET, 100, rng=0)
    x, y = al.make_data(NET, weights, 0.6, rng=4, spectrum="mp:1/2")
    blocks = al.learning.write_data(NET, weights, 0.6, tmp_path, rng=4, rows=17, spectrum="mp:1/2")
    assert (np.concatenate([one for one, _ in blocks()]) == x).all()
    assert (np.concatenate([one for _, one in blocks()]) == y).all()


def test_eigenvalues_of_zero_leave_the_weights_unknown():
    weights = al.teacher(NET, 300, rng=0)
    x, y = al.make_data(NET, weights, 0.6, rng=0, spectrum="points:0,2")
    assert not x[..., 150:].any()
    found = al.gamp(NET, x, y, teacher=weights, spectrum="points:0,2")
    assert not found.weights[:, 150:].any() and found.overlap[0, 0] > 0.9


def test_refusals():
    weights = al.teacher(NET, 20, rng=0)
    with pytest.raises(ValueError, match="have D = 20"):
        al.make_data(NET, weights, 1.0, spectrum=np.ones(19))
    x, y = al.make_data(NET, weights, 1.0, rng=0)
    with pytest.raises(ValueError, match="have D = 20"):
        al.gamp(NET, x, y, spectrum=np.ones(21))
    with pytest.raises(ValueError, match="side information is served of white inputs"):
        al.gamp(NET, x, y, spectrum="mp:1", side_information=weights, side_strength=1.0)
    measured = al.learning.measure_inputs(x).spectrum
    with pytest.raises(ValueError, match=r"has no directions, which data need: give al\.learning\.spectrum_of"):
        al.gamp(NET, x, y, spectrum=measured)
    heads = al.Network(layers=1, tokens=2, heads=2)
    with pytest.raises(ValueError, match="served for one head"):
        al.make_data(heads, al.teacher(heads, 20, rng=0), 1.0, spectrum="mp:1")
