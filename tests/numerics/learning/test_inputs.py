"""Measured inputs: against what they were drawn with, sums over pairs of samples, and the scatter of many draws."""

import numpy as np
import pytest

import attnlimits as al

SCALE = np.linspace(0.2, 1.8, 40)
SQUARE = float((SCALE**2).mean())
TOKENS = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 1.0]])


def drawn(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, len(SCALE))) * np.sqrt(SCALE)


def test_the_second_moment_is_that_of_pairs_of_samples():
    """E (x_i.x_j)^2 over pairs is Tr Sigma^2: of groups of two samples cross terms are of such pairs."""
    x = drawn(16)
    found = al.learning.measure_inputs(x).square.value
    pairs = (x[::2] - x[1::2]) / np.sqrt(2)  # eight independent samples of mean zero
    gram = pairs @ pairs.T
    off = ~np.eye(len(pairs), dtype=bool)
    norms = np.diag(gram)
    expected = len(SCALE) * (gram[off] ** 2).sum() / np.multiply.outer(norms, norms)[off].sum()
    assert found == pytest.approx(expected, rel=1e-12)


def test_errors_cover_what_inputs_were_drawn_with():
    """Of 60 data sets: the second moment within three errors in all but few, and the excess of no more than four."""
    found = [al.learning.measure_inputs(drawn(150, seed), rng=seed) for seed in range(60)]
    off = np.array([(one.square.value - SQUARE) / one.square.error for one in found])
    assert (np.abs(off) < 3).mean() >= 0.95 and abs(off.mean()) < 0.6
    # the sample covariance itself is off by D/n
    assert np.mean([one.sample_square for one in found]) == pytest.approx(SQUARE + len(SCALE) / 150, rel=0.02)
    assert np.mean([one.square.value for one in found]) == pytest.approx(SQUARE, rel=0.01)
    assert max(abs(one.excess) for one in found) < 4.5
    norms = np.array([(one.norms.value - 2 * SQUARE / len(SCALE)) / one.norms.error for one in found])
    assert (np.abs(norms) < 3).mean() >= 0.9


def test_tokens_and_means():
    rng = np.random.default_rng(1)
    x = np.einsum("mp,npd->nmd", np.linalg.cholesky(TOKENS), rng.standard_normal((4000, 3, 40))) * np.sqrt(SCALE)
    found = al.learning.measure_inputs(3 * (x + rng.standard_normal((3, 40))))
    assert (found.samples, found.tokens, found.dimension) == (4000, 3, 40)
    assert np.abs(found.token_covariance - TOKENS).max() < 0.02
    assert found.variance == pytest.approx(9, rel=0.02) and found.mean_share == pytest.approx(0.5, abs=0.1)
    assert abs(found.square.value - SQUARE) < 4 * found.square.error
    assert found.eigenvalues == pytest.approx(SCALE[::-1], rel=0.2)
    assert found.effective_dimension.value == pytest.approx(40 / SQUARE, rel=0.01)
    assert abs(found.excess) < 4 and "Gaussian within" in found.status


def test_samples_of_different_lengths_are_not_gaussian():
    """x times s, s^2 of a Gamma law: the kurtosis is 3 E s^4/(E s^2)^2."""
    scale = np.random.default_rng(2).gamma(4.0, 0.25, (20_000, 1))
    found = al.learning.measure_inputs(drawn(20_000) * np.sqrt(scale))
    assert found.kurtosis.value == pytest.approx(3 * 1.25, abs=4 * found.kurtosis.error)
    assert found.excess > 10 and "not Gaussian" in found.status
    assert found.norms.value == pytest.approx(1.25 * (1 + 2 * SQUARE / 40) - 1, abs=4 * found.norms.error)


def test_a_result_is_kept_and_drawn(tmp_path):
    found = al.learning.measure_inputs(drawn(100))
    found.save(tmp_path / "a.json")
    assert al.load(tmp_path / "a.json") == found
    assert found.spectrum.gain == pytest.approx(found.sample_square)
    with_tokens = al.learning.measure_inputs(drawn(102).reshape(34, 3, 40))
    assert [len(one.plot().axes) for one in (found, with_tokens)] == [2, 4]


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ones((20, 3)), "do not vary"),
        (np.full((20, 3), np.nan), "must be finite"),
        (np.ones(20), "shape (n, D) or (n, M, D)"),
        (np.ones((4, 3)), "at least 8 samples"),
        (np.ones((20, 3), complex), "real numbers"),
    ],
)
def test_refusals(x, words):
    with pytest.raises(ValueError) as refused:
        al.learning.measure_inputs(x)
    assert words in str(refused.value)
