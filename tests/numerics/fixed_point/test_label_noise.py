"""Links whose labels are replaced by others: fixed points, free entropy and errors against plain integrals."""

import pickle

import numpy as np
import pytest
from scipy.special import ndtr

import attnlimits as al
from attnlimits.numerics.channel.link.fibres import FibreGroup
from attnlimits.numerics.channel.link.scores import SampledGroup, Sizes
from attnlimits.numerics.fixed_point.link_prediction import LinkErrors


def normal(step, reach=9.0):
    """Trapezoidal rule for a standard normal variable, which converges exponentially."""
    x = step * np.arange(-round(reach / step), round(reach / step) + 1)
    return x, np.exp(-0.5 * x * x) * step / np.sqrt(2 * np.pi)


def of_a_sign(q, flipped):
    """E g^2, E Z log Z, E E[y | omega]^2 of a sign that is flipped, by the likelihood written out."""
    v = 1 - q
    xi, weight = normal(0.01)
    x = np.sqrt(q / v) * xi
    slope = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi * v)
    square, density = np.zeros_like(x), np.zeros_like(x)
    for y in (-1, 1):
        z = flipped + (1 - 2 * flipped) * ndtr(y * x)
        square += ((1 - 2 * flipped) * slope) ** 2 / z
        density += z * np.log(z)
    mean = (1 - 2 * flipped) * (2 * ndtr(x) - 1)
    return weight @ square, weight @ density, weight @ mean**2


def fixed_point(average, alpha):
    """Of q = F(alpha G(q)), by plain steps."""
    q, before = 0.5, 0.0
    while abs(q - before) > 1e-14:
        g = alpha * average(q)
        q, before = g / (1 + g), q
    return q


@pytest.mark.parametrize(("alpha", "published"), [(1, 0.3216246), (10, 0.9299601), (30, 0.9909758)])
def test_a_flipped_sign(alpha, published):
    found = al.evolve(al.Link("sign(h[1])", label_noise="1/10"), alpha)
    q = fixed_point(lambda q: of_a_sign(q, 0.1)[0], alpha)
    assert abs(q - published) < 6e-8
    assert abs(found.overlap[0, 0] - q) <= found.overlap_error[0, 0] + 1e-12
    assert found.overlap_error[0, 0] < 1e-10
    # What is predicted is the label that is seen: its posterior mean, and the sign of omega.
    _, _, mean = of_a_sign(q, 0.1)
    assert abs(found.prediction_error.value - (1 - mean)) < 1e-10
    flips = 0.1 + 0.8 * np.arccos(np.sqrt(q)) / np.pi
    assert abs(found.plugin_error.value - 4 * flips) < 1e-10


def test_free_entropy_of_a_flipped_sign():
    output = al.free_energy.entropy_of(al.Link("sign(h[1])", label_noise="0.1"))
    for q in (0.3, 0.9):
        exact = of_a_sign(q, 0.1)[1] - of_a_sign(0.0, 0.1)[1]
        assert abs(output.value(np.array([[q]])).value - exact) < 1e-12


def pair(q, mixed, cells):
    """E g_1^2 of labels of the quadrants of h, V = 1 - q: the sum over labels by their probabilities in each."""
    v = 1 - q
    xi, weight = normal(0.1)
    x = np.sqrt(q / v) * xi
    slope = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi * v)
    total = 0.0
    for share in mixed:
        z, up = 0.0, 0.0
        for (a, b), cell in cells.items():
            z = z + share[cell] * np.multiply.outer(ndtr(a * x), ndtr(b * x))
            up = up + share[cell] * np.multiply.outer(a * slope, ndtr(b * x))
        total += weight @ (up**2 / z) @ weight
    return total


@pytest.mark.parametrize(
    ("link", "replaced", "alpha", "cells"),
    [
        ("sign(h[1]*h[2])", 0.1, 5.0, {(1, 1): 0, (-1, -1): 0, (1, -1): 1, (-1, 1): 1}),
        ("sign(h[1]); sign(h[2])", 0.2, 2.0, {(1, 1): 0, (-1, -1): 1, (1, -1): 2, (-1, 1): 3}),
        ("sign(h[1]) + 2*sign(h[2])", 0.2, 2.0, {(1, 1): 0, (-1, -1): 1, (1, -1): 2, (-1, 1): 3}),
    ],
)
def test_two_entries(link, replaced, alpha, cells):
    """All outputs together are one label, which is replaced by any of the others."""
    count = max(cells.values()) + 1
    mixed = np.full((count, count), replaced / (count - 1)) + np.eye(count) * (1 - replaced * count / (count - 1))
    found = al.evolve(al.Link(link, label_noise=replaced), alpha)
    q = fixed_point(lambda q: pair(q, mixed, cells), alpha)
    assert found.converged
    assert np.abs(found.overlap - q * np.eye(2)).max() <= 2 * found.overlap_error.max() + 1e-12
    assert found.overlap_error.max() < 1e-8


@pytest.mark.parametrize(
    ("link", "q"),
    [
        ("Piecewise((0, h[1] < -1), (1, h[1] < 1/2), (5, True))", [[0.6]]),
        ("sign(h[1]*h[2])", [[0.3, 0.0], [0.0, 0.4]]),
        ("sign(h[1] - h[2]); sign(h[2])", [[0.3, 0.1], [0.1, 0.2]]),
    ],
)
def test_samples_agree_with_quadrature(link, q):
    kernel, q = al.Link(link, label_noise=0.2).kernel, np.array(q)
    exact = FibreGroup(kernel, kernel.parts[0])(q, True)
    scores = SampledGroup(kernel, kernel.parts, Sizes(2048, 8, 4), np.random.default_rng(0))(q, True)
    for a in range(len(q)):
        value, off = scores.product(a, a)
        sigma = value.std(ddof=1) / np.sqrt(8)
        assert abs(value.mean() - exact.score.value[a, a]) < 4 * sigma + off
    operator = scores.operator()[:, 0, 0, 0, 0]
    assert abs(operator.mean() - exact.change.value[0, 0, 0, 0]) < 4 * operator.std(ddof=1) / np.sqrt(8)


def test_more_entries_are_sampled():
    """Four entries, of which labels have two signs: s of the first pair, t of the other."""
    alpha, share = 6.0, np.full((4, 4), 0.1 / 3) + np.eye(4) * (0.9 - 0.1 / 3)
    found = al.evolve(al.Link("sign(h[1]*h[2]) + 2*sign(h[3]*h[4])", label_noise=0.1), alpha, samples=512, replicas=4)
    assert found.estimation_error.how == "monte-carlo"
    q, error = found.overlap.diagonal().mean(), found.overlap_error.max()
    xi, weight = normal(0.25, 7.0)
    x = np.sqrt(q / (1 - q)) * xi
    slope = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi * (1 - q))
    plus = np.add(np.multiply.outer(ndtr(x), ndtr(x)), np.multiply.outer(ndtr(-x), ndtr(-x))).ravel()
    up = np.multiply.outer(slope, ndtr(x) - ndtr(-x)).ravel()
    both = np.multiply.outer(weight, weight).ravel()
    average = 0.0
    for seen in share:
        # Labels ++, +-, -+, --; the derivative is in the first entry.
        of_plus = np.multiply.outer(seen[0] * np.ones_like(plus), plus) + seen[1] * (1 - plus)
        of_minus = np.multiply.outer(seen[2] * np.ones_like(plus), plus) + seen[3] * (1 - plus)
        z = plus[:, None] * of_plus + (1 - plus)[:, None] * of_minus
        average += both @ ((up[:, None] * (of_plus - of_minus)) ** 2 / z) @ both
    # A step from a point near the fixed point leads nearer.
    assert abs(alpha * average / (1 + alpha * average) - q) < 3 * error
    assert error < 0.05 * q


@pytest.mark.parametrize(
    "link",
    ["3 + sign(h[1]) + 2*sign(h[2])", "sign(h[1] + 2*h[2]); 3*sign(h[1])"],
)
def test_prediction_errors_are_those_of_a_simulation(link):
    replaced, q, rng = 0.3, np.array([[0.5, 0.2], [0.2, 0.7]]), np.random.default_rng(0)
    kernel = al.Link(link, label_noise=replaced).kernel
    (best, plugin), off, _ = LinkErrors(kernel)(q)
    assert max(off) < 1e-11
    omega = rng.multivariate_normal(np.zeros(2), q, 200_000)
    spread = np.linalg.cholesky(np.eye(2) - q).T
    y, again = (kernel.link((omega + rng.standard_normal(omega.shape) @ spread)[:, :, None]) for _ in range(2))
    labels = np.unique(y, axis=0)
    seen, other = (
        np.where(
            (rng.random(len(one)) < replaced)[:, None],
            # Any of the others.
            labels[((one[:, None] == labels).all(2).argmax(1) + rng.integers(1, len(labels), len(one))) % len(labels)],
            one,
        )
        for one in (y, again)
    )
    # Of two labels seen at the same omega half of the squared distance is the error of the posterior mean.
    half = 0.5 * ((seen - other) ** 2).sum(1)
    plain = ((seen - kernel.link(omega[:, :, None])) ** 2).sum(1)
    for value, draws in ((best, half), (plugin, plain)):
        assert abs(draws.mean() - value) < 4 * draws.std() / np.sqrt(len(draws))


def test_a_kernel_travels_with_its_label_noise():
    kernel = al.Link("sign(h[1]*h[2])", label_noise=0.1).kernel
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy.replaced == 0.1 and copy.kernel_hash == kernel.kernel_hash and copy.parameters == kernel.parameters
    assert kernel.kernel_hash != al.Link("sign(h[1]*h[2])").kernel.kernel_hash
    assert kernel.parameters["label_noise"] == 0.1
