"""One pass over the data: against plain sums, and the same however the data are stored."""

import numpy as np
import pytest

from attnlimits.numerics.learning.gamp import make_data, teacher
from attnlimits.numerics.learning.passes import Samples
from attnlimits.numerics.learning.products import project, pull
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.choice import posterior

MODEL = Network(2, 2)
D = 60


@pytest.fixture(scope="module")
def data():
    return make_data(MODEL, teacher(MODEL, D, 0), 4.0, 1, dtype=np.float64)


@pytest.fixture(scope="module")
def estimate():
    return 0.4 * teacher(MODEL, D, 2), np.diag([0.9, 0.7])


def swept(x, y, estimate, workers=None):
    samples = Samples(x, y, MODEL, lambda one: posterior(MODEL, one), workers)
    first = samples.sweep(*estimate)
    for block in samples.blocks:
        block.onsager[:] = 0.1 * block.g
    return samples, first, samples.sweep(*estimate)


def test_sums_of_a_pass(data, estimate):
    x, y = data
    weights, v = estimate
    samples, first, second = swept(x, y, estimate)
    output = posterior(MODEL, y)
    old = np.zeros((len(x), 2, 2))
    for total, curvature in (first, second):
        omega = np.einsum("pd,nmd->npm", weights, x) / np.sqrt(D) - 0.1 * old
        old, slope = output(omega, v, slice(0, len(x)))
        assert total == pytest.approx(np.einsum("npm,nmd->pd", old, x) / np.sqrt(D), abs=1e-10)
        assert curvature == pytest.approx(slope / D, abs=1e-10)
    assert samples.rows == len(x)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 5), (5, 1, 1024), (7, 2, 1025), (3, 3, 2500)])
def test_products_of_any_shape(shape, kind, rng):
    """Tokens that are no multiple of four, rows that are no multiple of a piece."""
    n, m, dimension = shape
    x = rng.standard_normal(shape).astype(kind)
    weights, scores = rng.standard_normal((3, dimension)).astype(kind), rng.standard_normal((n, 3, m))
    offset, total = rng.standard_normal((n, 3, m)), rng.standard_normal((3, dimension))
    eps = float(np.finfo(kind).eps)
    found = project(weights, x, offset)
    assert found == pytest.approx(np.einsum("pd,nmd->npm", weights, x) / np.sqrt(dimension) - offset, abs=20 * eps)
    wanted = total + np.einsum("npm,nmd->pd", scores, x)
    pull(scores, x, total)
    assert total == pytest.approx(wanted, abs=200 * eps)


def test_the_number_of_threads_changes_no_bit(data, estimate):
    one, three = (swept(*data, estimate, workers)[2] for workers in (1, 3))
    assert (one[0] == three[0]).all() and (one[1] == three[1]).all()


def test_storage_does_not_matter(data, estimate, tmp_path):
    x, y = data
    wanted = swept(x, y, estimate)[2]
    np.save(tmp_path / "x.npy", x)
    mapped = swept(np.load(tmp_path / "x.npy", mmap_mode="r"), y, estimate)[2]
    assert (mapped[0] == wanted[0]).all()
    strided = swept(np.swapaxes(np.ascontiguousarray(np.swapaxes(x, 1, 2)), 1, 2), y, estimate)[2]
    assert strided[0] == pytest.approx(wanted[0], abs=1e-12)
    blocks = swept(lambda: ((x[k : k + 70], y[k : k + 70]) for k in range(0, len(x), 70)), None, estimate)[2]
    assert blocks[0] == pytest.approx(wanted[0], abs=1e-12)
    assert blocks[1] == pytest.approx(wanted[1], abs=1e-12)
    # Blocks may differ in type: none is rounded for the sake of another.
    mixed, _, total = swept(lambda: [(x[:70].astype(np.float32), y[:70]), (x[70:], y[70:])], None, estimate)
    assert mixed.blocks[1].g == pytest.approx(swept(x[70:], y[70:], estimate)[0].blocks[0].g, abs=1e-12)
    assert total[0] == pytest.approx(wanted[0], abs=1e-4)
    # float32: rounding of products of D terms.
    single = swept(x.astype(np.float32), y, estimate)[2]
    assert single[0] == pytest.approx(wanted[0], abs=1e-4)


def test_each_block_is_asked_for_once_per_pass(data, estimate):
    x, y = data
    asked = []

    def source():
        for k in range(0, len(x), 120):
            asked.append(k)
            yield x[k : k + 120], y[k : k + 120]

    samples = Samples(source, None, MODEL, lambda one: posterior(MODEL, one))
    asked.clear()
    samples.sweep(*estimate)
    samples.sweep(*estimate)
    assert asked == [0, 120, 0, 120]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, y: (x.astype(int), y), "X must be float32 or float64"),
        (lambda x, y: (x[:, :, 0], y), r"X must have shape \(N, M, D\)"),
        (lambda x, y: (np.swapaxes(x, 1, 2), y), "swap the last two axes"),
        (lambda x, y: (x[:0], y[:0]), "at least one sample"),
        (lambda x, y: (x[:, :, :1], y), "D >= P"),
        (lambda x, y: (x[:5], y), "one output per sample"),
        (lambda x, y: (x, None), "Y must be given"),
        (lambda x, y: (lambda: [(x, y)], y), "Y must be None"),
        (lambda x, y: (lambda: [], None), "at least one block"),
        (lambda x, y: (lambda: [x], None), r"pairs \(X_block, Y_block\)"),
    ],
)
def test_bad_data_are_refused_in_a_sentence(data, change, words):
    x, y = change(*data)
    with pytest.raises(ValueError, match=words):
        Samples(x, y, MODEL, lambda one: posterior(MODEL, one))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_not_finite_are_named(data, estimate, value):
    x, y = data
    x = x.copy()
    x[17, 1, 3] = value
    with pytest.raises(ValueError, match="infinity in sample 17"):
        swept(x, y, estimate)


def test_blocks_must_stay_the_same(data, estimate):
    x, y = data
    sizes = iter([100, 100, 90, 90])

    def source():
        size = next(sizes)
        return [(x[:size], y[:size])]

    samples = Samples(source, None, MODEL, lambda one: posterior(MODEL, one))
    samples.sweep(*estimate)
    with pytest.raises(ValueError, match="same blocks at every call"):
        samples.sweep(*estimate)
