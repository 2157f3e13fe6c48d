"""Posteriors sampled on charts, against rules for the models that have one."""

import numpy as np
import pytest

from attnlimits.numerics.arithmetic.references import lend
from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.model.charts import chart_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.charts.density import Target, log_posterior, prior_of, read, with_noise
from attnlimits.numerics.posterior.charts.layout import constants_of, layout_of, token_modes
from attnlimits.numerics.posterior.charts.mixture import place_peaks
from attnlimits.numerics.posterior.charts.peaks import find_peak, new_peaks
from attnlimits.numerics.posterior.charts.posterior import ChartPosterior, sign_flips
from attnlimits.numerics.posterior.charts.scratch import new_scratch
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.fibres import fibre_moments


def drawn(model, q, n, seed):
    """Indices, the means of their prior and its covariance at an overlap."""
    rng = np.random.default_rng(seed)
    v = np.diag(1 - np.asarray(q))
    omega = np.sqrt(np.asarray(q))[:, None] * rng.standard_normal((n, model.indices, model.tokens))
    return omega + np.sqrt(np.diag(v))[:, None] * rng.standard_normal(omega.shape), omega, v


def test_token_modes_are_orthogonal_and_begin_with_the_mean():
    for tokens in (2, 3, 5):
        modes = token_modes(tokens)
        np.testing.assert_allclose(modes @ modes.T, np.eye(tokens), atol=1e-15)
        np.testing.assert_allclose(modes[0], 1 / np.sqrt(tokens))


@pytest.fixture(scope="module")
def two_layers():
    """A model and its posterior: the points are drawn once for all overlaps."""
    model = Network(2, 2, skip=0.8, beta=1.3)
    return model, ChartPosterior(model, 1 << 13, 24, 1, np.random.default_rng(0))


@pytest.mark.parametrize("q", [(0.0, 0.0), (0.3, 0.6), (0.6, 0.97)])
def test_two_layers_against_the_integral(q, two_layers):
    model, of_outputs = two_layers
    h, omega, v = drawn(model, q, 24, 1)
    found = of_outputs(h, omega, v)
    exact = denoise(model, model.link(h), omega, np.broadcast_to(v, (24, 2, 2)))
    mean = v @ exact.g_out + omega
    modes = token_modes(2)
    scatter = np.abs(found.mean[0] - found.mean[1]).max()
    assert scatter < 0.2
    # Half the difference of the halves has the standard deviation of the whole; the largest of 96 of them.
    np.testing.assert_allclose(found.mean[2], mean @ modes.T, atol=4 * 0.5 * max(scatter, 1e-3))
    # log Z up to a constant of the model: the density of the log-ratios of y here, of y_12 and y_21 there.
    shift = found.log_z[2] - exact.log_z - np.log(model.link(h)).sum(axis=(1, 2))
    assert np.ptp(shift) < 0.1


def test_one_untied_layer_against_the_integral_over_its_fibre():
    model = Network(1, 2, tied=False)
    h, omega, v = drawn(model, (0.4, 0.4), 8, 2)
    found = ChartPosterior(model, 1 << 13, 8, 1, np.random.default_rng(0))(h, omega, v)
    modes = token_modes(2)
    for k in range(8):
        exact = fibre_moments(model, model.link(h[k]), omega[k], v)
        np.testing.assert_allclose(found.mean[2][k], exact.mean @ modes.T, atol=0.06)
        second = np.einsum("am,bn,pmqn->paqb", modes, modes, exact.second)
        np.testing.assert_allclose(found.second(range(2), 2)[k], second, atol=0.25)


def test_a_rotated_layer_against_the_integral_over_its_fibre():
    model = Network(1, 3, 2)
    h, omega, v = drawn(model, (0.4, 0.4), 8, 3)
    found = ChartPosterior(model, 1 << 12, 8, 1, np.random.default_rng(0))(h, omega, v)
    for k in range(8):
        exact = fibre_moments(model, model.link(h[k]), omega[k], v)
        np.testing.assert_allclose(found.mean[2][k], exact.mean @ token_modes(3).T, atol=0.05)


@pytest.mark.parametrize(
    "model",
    [
        Network(2, 2, tied=False),
        Network(2, 3, (1, 2)),
        Network(2, 2, 2),
        Network(2, 2, heads=2, readouts=[[[1.0, 0.3], [-0.2, 0.8]]]),
        Network(2, 2, skip=0.4, output="sequence"),
        Network(2, 2, tied=False, output="sequence"),
        pytest.param(Network(3, 2, (1, 2, 1), output="sequence"), marks=pytest.mark.slow),
    ],
    ids=lambda model: model.describe(),
)
def test_the_truth_is_one_more_sample_of_the_posterior(model):
    # Nishimori: E f(h) = E E[f(h) | y].
    n = 128
    h, omega, v = drawn(model, (0.4,) * model.indices, n, 4)
    found = ChartPosterior(model, 512, n, 1, np.random.default_rng(0))(h, omega, v, second=False)
    modes = token_modes(model.tokens)
    truth, centre = (h - omega) @ modes.T, omega @ modes.T
    mean = found.mean[2] - centre
    difference = (mean * truth).sum(axis=2) - ((found.mean[0] - centre) * (found.mean[1] - centre)).sum(axis=2)
    error = difference.std(axis=0) / np.sqrt(n)
    assert (np.abs(difference.mean(axis=0)) < 4.5 * error).all()


def test_a_chart_is_derived_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATTNLIMITS_CACHE", str(tmp_path))
    from attnlimits.numerics.model import derived_module

    monkeypatch.setattr(derived_module, "_modules", {})
    first = chart_of(Network(1, 2))
    assert "deriving the chart" in capsys.readouterr().err
    derived_module._modules.clear()
    again = chart_of(Network(1, 2, beta=2.0))
    assert capsys.readouterr().err == ""
    assert first.DERIVATION_HASH == again.DERIVATION_HASH


def test_what_has_no_chart_says_why():
    with pytest.raises(KernelNotFoundError, match="equations on the layers before the last"):
        chart_of(Network(3, 3, output="sequence"))


@pytest.mark.parametrize("model", [Network(2, 2, tied=False), Network(2, 2, 2)], ids=["untied", "rank two"])
def test_images_of_layers_without_a_prior_mean_have_the_same_peak_reflected(model):
    rows = model.indices
    q = np.where(np.arange(rows) < rows // 2, 0.0, 0.5)
    h, omega, v = drawn(model, q, 6, 4)
    layout, flips = layout_of(chart_of(model), constants_of(model)), sign_flips(model)
    means, covariance = with_noise(layout, omega, v)
    chart, prior, scratch = lend(layout), lend(prior_of(layout, covariance)), lend(new_scratch(layout))
    z, signs, told = np.empty(layout.dimension), np.empty(layout.signs), np.empty(layout.data)
    reflected = np.where(np.arange(rows) < rows // 2, -1.0, 1.0)
    pairs = [(i, j) for i in range(len(flips)) for j in range(i) if np.array_equal(flips[i] * flips[j], reflected)]
    assert pairs
    for truth, mean in zip(h, means, strict=True):
        read(truth, chart, told, z, signs, scratch)
        target, peaks = lend(Target(told.copy(), mean, prior, chart)), new_peaks(len(flips), layout.dimension)
        assert place_peaks(truth, flips, target, scratch, lend(peaks)) == len(flips)
        for i, j in pairs:
            # The peak of one image is that of the other, with the signs that their coordinates have.
            assert peaks.height[i] == peaks.height[j]
            np.testing.assert_array_equal(np.abs(peaks.centre[i]), np.abs(peaks.centre[j]))
        for image in range(len(flips)):
            own = peaks.centre[image].copy()
            assert log_posterior(own, signs, target, scratch) == pytest.approx(peaks.height[image], abs=1e-9)
            read(truth * flips[image][:, None], chart, told, z, signs, scratch)
            fine, height, factor = find_peak(z, signs, target, scratch)
            assert fine and height == pytest.approx(peaks.height[image], abs=1e-2)
            np.testing.assert_allclose(factor, peaks.factor[image], atol=0.02 * np.abs(factor).max())
