"""The width from data: against that of teachers, against the trace of their S, and what is refused."""

import math

import numpy as np
import pytest

from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import make_data, stream, teacher
from attnlimits.numerics.aim.free_energy import free_entropy_at
from attnlimits.numerics.aim.parts import Parts
from attnlimits.numerics.aim.width import _climbed, _Scores, estimate_rho


def instance(name, alpha, rho, d, seed, noise=0.0):
    output = channel(name, noise=noise)
    S = teacher(d, rho, seed)
    return (*make_data(S, alpha, output, seed), output), S


@pytest.mark.slow_for("linear-0.3")
@pytest.mark.parametrize(("name", "noise"), [("softmax", 0.0), ("linear", 0.3)])
def test_width_of_a_teacher(name, noise):
    data, _ = instance(name, 0.2, 1.0, 14, 1, noise)
    found = estimate_rho(*data)
    assert found.converged and abs(found.rho - 1.0) < found.error < 1.0
    assert found.n_iter == len(found.evidence)
    # It is the largest evidence of those tried, but for the step between them.
    best = found.evidence[found.evidence[:, 1].argmax(), 0]
    assert abs(math.log(found.rho / best)) < 2 * np.diff(np.log(found.evidence[:, 0])).max()


def test_evidence_of_the_linear_channel_with_one_part_left_is_that_of_its_law():
    """Before any data h is Gaussian: the first part's score is the density of SciPy, up to a constant."""
    from scipy.stats import multivariate_normal

    from attnlimits.numerics.aim.data import gram, indices

    (x, y, output), _ = instance("linear", 0.3, 0.5, 12, 3, 0.2)
    scores = _Scores(Parts(x, y, output), 2, {})
    covariance, means = gram(x), indices(x, np.eye(12))
    spread = 0.2 * np.diag([2.0, 1.0, 2.0])
    upper = np.triu_indices(2)

    def exact(rho):
        return sum(
            multivariate_normal(cov=c + spread).logpdf((label - math.sqrt(rho) * mean)[upper])
            for c, mean, label in zip(covariance, means, y, strict=True)
        )

    assert scores.first_look(0.4) - scores.first_look(0.9) == pytest.approx(exact(0.4) - exact(0.9), abs=1e-8)


@pytest.mark.slow
def test_evidence_of_parts_is_near_the_free_entropy():
    """Per d^2 and for a Gaussian law with its constant, at the width of the teacher: some 10 per cent at d = 40."""
    (x, y, output), _ = instance("hardmax", 0.6, 0.5, 40, 0)
    found = _Scores(Parts(x, y, output), 4, {"max_iter": 60, "tol": 1e-4}).evidence(0.5) / 1600
    # Parts are predicted by fewer samples than come before each of theirs, so that it is below.
    limit = free_entropy_at(0.6, 0.5, output).free_entropy.value
    assert 1.15 * limit < found < 0.97 * limit


def test_blocks_and_files_are_parts_as_arrays_are(tmp_path):
    """Blocks of 17 samples, cut by parts of others; and tokens that stay in their file."""
    (x, y, output), _ = instance("linear", 0.3, 0.5, 12, 3, 0.2)

    def blocks():
        return ((x[k : k + 17], y[k : k + 17]) for k in range(0, len(x), 17))

    whole, made = Parts(x, y, output), Parts(blocks, None, output)
    assert (made.samples, made.dimension) == (len(x), 12)
    for begin, end in ((0, 5), (3, 20), (16, 18), (17, 34), (0, len(x)), (40, None)):
        for column in (0, 1):
            rows = np.concatenate([pair[column] for pair in made.rows(begin, end)])
            assert np.array_equal(rows, np.concatenate([pair[column] for pair in whole.rows(begin, end)]))
            assert np.array_equal(rows, (x, y)[column][begin:end])
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = [estimate_rho(*data, output, parts=2) for data in ((x, y), (blocks, None), (mapped, y))]
    for other in found[1:]:
        # Sums of blocks are added in another order.
        assert np.allclose(other.evidence, found[0].evidence, rtol=1e-8) and other.rho == pytest.approx(found[0].rho)


@pytest.mark.parametrize("centre", [0.1, 0.3, -1.7, 1 / 3])
def test_a_width_is_scored_once(centre):
    """The centre follows the best point, whose neighbours are sums of the same numbers in another order."""
    asked = []

    class Parabola:
        data = Parts(*instance("linear", 0.3, 0.5, 12, 3, 0.2)[0])

        def evidence(self, rho):
            asked.append(math.log(rho))
            return -50.0 * (math.log(rho) - centre - 1.13) ** 2

    found = _climbed(Parabola(), centre, 0.1 * math.pi, 1.0, None)
    assert found.converged and found.rho == pytest.approx(math.exp(centre + 1.13))
    assert len(asked) == found.n_iter == len(found.evidence) < 15
    assert np.diff(np.sort(asked)).min() > 0.49 * 0.1 * math.pi


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "alpha", "rho", "noise"),
    [("softmax", 0.15, 0.5, 0.0), ("linear", 0.2, 0.5, 0.3), ("softmax", 0.25, 2.0, 0.2), ("hardmax", 0.6, 0.5, 0.0)],
)
def test_errors_hold(name, alpha, rho, noise):
    """Of 12 teachers at d = 30 at least ten: fewer have a chance of two per cent, if 95 per cent hold."""
    inside = 0
    for seed in range(12):
        data, _ = instance(name, alpha, rho, 30, seed, noise)
        found = estimate_rho(*data)
        inside += found.converged and abs(found.rho - rho) <= found.error
    assert inside >= 10


def test_refusals():
    (x, y, output), S = instance("softmax", 0.2, 0.5, 10, 0)
    with pytest.raises(ValueError, match="y must be None where x is a function"):
        estimate_rho(stream(S, 0.2, output, 0), y, output)
    with pytest.raises(ValueError, match="at least one block"):
        estimate_rho(lambda: iter(()), None, output)
    with pytest.raises(ValueError, match="y must be given"):
        estimate_rho(x, None, output)
    with pytest.raises(ValueError, match="parts must be an integer >= 2"):
        estimate_rho(x, y, output, parts=1)
    with pytest.raises(ValueError, match="as many samples as parts"):
        estimate_rho(x[:3], y[:3], output)
    with pytest.raises(ValueError, match="x and y must have as many samples"):
        estimate_rho(x, y[:-1], output)
