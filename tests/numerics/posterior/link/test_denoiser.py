"""Single outputs of links, against integrals in other coordinates, sums over all outputs, and their own derivatives."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import multivariate_normal

import attnlimits as al
from attnlimits.numerics.core.errors import ConvergenceError, NotServedError, UnreachableOutputError
from attnlimits.numerics.posterior.link.denoiser import denoise_link

MEAN, COV = np.array([[0.2], [0.4]]), np.array([[0.8, 0.2], [0.2, 0.6]])
MEAN3, COV3 = np.array([[0.2], [0.4], [-0.1]]), np.diag([0.5, 0.6, 0.7]) + 0.1


def density(h, mean=MEAN, cov=COV):
    """Prior density of points of shape (..., P)."""
    off = h - mean[:, 0]
    square = np.einsum("...p,pq,...q->...", off, np.linalg.inv(cov), off)
    return np.exp(-0.5 * square) / math.sqrt(np.linalg.det(2 * math.pi * cov))


def on_a_circle(y):
    """y = h_1^2 + h_2^2: dh = dy d(angle) / 2."""
    angle = np.linspace(0, 2 * math.pi, 4096, endpoint=False)
    return math.sqrt(y) * np.stack([np.cos(angle), np.sin(angle)], axis=1), np.full(4096, math.pi / 4096)


def on_a_hyperbola(y):
    """y = h_1 h_2: h_1 = +-e^t, dh = dy dt."""
    t = np.linspace(-40, 40, 40_001)
    points = [np.stack([sign * np.exp(t), sign * y * np.exp(-t)], axis=1) for sign in (1, -1)]
    return np.concatenate(points), np.full(80_002, 80 / 40_000)


def in_a_disc():
    """h_1^2 + h_2^2 < 1 in polar coordinates."""
    x, w = np.polynomial.legendre.leggauss(60)
    r, angle = 0.5 + 0.5 * x, np.linspace(0, 2 * math.pi, 256, endpoint=False)
    points = np.stack([np.outer(r, np.cos(angle)).ravel(), np.outer(r, np.sin(angle)).ravel()], axis=1)
    return points, np.outer(0.5 * w * r, np.full(256, 2 * math.pi / 256)).ravel()


def on_a_line(y):
    """y = tanh(h_1) + tanh(h_2): h_2 = u, dh_1 = dy cosh^2(h_1)."""
    u = np.linspace(math.atanh(y - 1) + 1e-9, 12, 400_001)
    first = np.arctanh(y - np.tanh(u))
    keep = np.abs(first) < 12
    points = np.stack([first, u], axis=1)[keep]
    return points, (u[1] - u[0]) * np.cosh(points[:, 0]) ** 2


@pytest.mark.parametrize(
    ("text", "y", "nodes", "tol"),
    [
        ("h[1]**2 + h[2]**2", 1.3, on_a_circle(1.3), 1e-12),
        ("h[1]*h[2]", 0.3, on_a_hyperbola(0.3), 1e-12),
        ("h[1]*h[2]", -2.0, on_a_hyperbola(-2.0), 1e-12),
        ("h[1]*h[2]", 1e-6, on_a_hyperbola(1e-6), 1e-12),
        ("sign(h[1]**2 + h[2]**2 - 1)", -1, in_a_disc(), 1e-12),
        # Trapezoids between ends at which the density vanishes, 1e-4 apart.
        ("tanh(h[1]) + tanh(h[2])", 0.4, on_a_line(0.4), 1e-9),
    ],
    ids=lambda value: str(value) if isinstance(value, str | float | int) else "",
)
def test_moments_are_those_in_other_coordinates(text, y, nodes, tol):
    points, weight = nodes
    weight = weight * density(points)
    mass = weight.sum()
    shift = points - MEAN[:, 0]
    mean, second = weight @ shift / mass, (shift.T * weight) @ shift / mass
    precision = np.linalg.inv(COV)
    g = precision @ mean
    dg = precision @ (second - np.outer(mean, mean)) @ precision - precision
    made = al.denoise(al.Link(text), [y], MEAN, COV)
    assert abs(made.log_z - math.log(mass)) < made.log_z_error + tol
    assert (np.abs(made.g_out[:, 0] - g) < made.g_error[:, 0] + tol).all()
    assert (np.abs(made.dg_out[:, 0, :, 0] - dg) < made.dg_error[:, 0, :, 0] + tol * np.abs(dg).max()).all()
    assert made.error <= 1e-8 and made.how == "estimated"


def test_closed_forms():
    """Even outputs, signs that are flipped, and a linear output with noise."""
    mean, cov = [[0.2]], [[0.7]]
    made = al.denoise(al.Link("abs(h[1])"), [0.5], mean, cov)
    size = 0.5 * math.tanh(0.2 * 0.5 / 0.7)
    assert abs(made.g_out[0, 0] - (size - 0.2) / 0.7) < 1e-14
    assert abs(made.dg_out[0, 0, 0, 0] - ((0.25 - size**2) / 0.7 - 1) / 0.7) < 1e-14
    flipped = al.denoise(al.Link("sign(h[1])", label_noise="0.1"), [-1.0], mean, cov)
    assert abs(flipped.log_z - math.log(0.1 + 0.8 * ndtr(-0.2 / math.sqrt(0.7)))) < 1e-14
    noisy = al.denoise(al.Link("h[1]", noise="0.3"), [1.1], mean, cov)
    assert abs(noisy.g_out[0, 0] - 0.9 / 1.0) < noisy.g_error[0, 0] <= 1e-8
    assert abs(noisy.dg_out[0, 0, 0, 0] + 1.0) < noisy.dg_error[0, 0, 0, 0] <= 1e-8


def test_quadrants_are_orthant_probabilities():
    """P(h_1 h_2 > 0), to the accuracy of SciPy's."""
    made = al.denoise(al.Link("sign(h[1]*h[2])"), [1.0], MEAN, COV)
    low, high = (multivariate_normal(sign * MEAN[:, 0], COV).cdf(np.zeros(2)) for sign in (1, -1))
    assert abs(made.log_z - math.log(low + high)) < 1e-7


# Of every kind: branches, cells, kinks, atoms, several tokens, noise of both kinds, two outputs.
FAMILIES = [
    ("h[1]*h[2]", {}),
    ("erf(h[1])*h[2]", {}),
    ("sign(h[1])+sign(h[2])", {}),
    ("sign(h[1]**2-h[2])", {}),
    ("Max(h[1],0)+Max(h[2],0)", {}),
    ("Max(h[1]-h[2],0)", {}),
    ("h[1]**2+sign(h[2])", {}),
    ("h[1]; h[1]*h[2]", {}),
    ("sign(h[1]); abs(h[2])", {}),
    ("sign(h[1]*h[2])", {"label_noise": "0.2"}),
    ("tanh(h[1])*h[2]", {"noise": "0.2"}),
    ("h[1,1]*h[1,2]", {}),
    ("h[1,2]*(h[1,2]-h[1,1])", {}),
]


def drawn(link, rng):
    """An output, and the mean and covariance of its prior."""
    p, m = link.kernel.indices, link.kernel.tokens
    root = rng.standard_normal((p, p))
    cov = 0.2 * np.eye(p) + 0.3 * root @ root.T
    mean = 0.7 * rng.standard_normal((p, m))
    h = mean + np.linalg.cholesky(cov) @ rng.standard_normal((p, m))
    y = np.asarray(link.kernel.link(h))
    return (y + math.sqrt(link.kernel.noise) * rng.standard_normal(y.shape)), mean, cov


@pytest.mark.parametrize(("text", "noise"), FAMILIES, ids=lambda value: str(value))
def test_scores_are_slopes_of_log_z(text, noise, rng):
    """g = d log Z / d omega and dg = d g / d omega, by differences of fourth order."""
    link = al.Link(text, **noise)
    y, mean, cov = drawn(link, rng)
    accuracy = 1e-10 if link.kernel.size < 3 and not link.kernel.noise else 1e-7
    made = denoise_link(link.kernel, y, mean, cov, accuracy=accuracy)
    step = 0.02 if accuracy > 1e-9 else 5e-3
    for place in np.ndindex(mean.shape):
        found = []
        for times in (-2, -1, 1, 2):
            moved = mean.copy()
            moved[place] += times * step
            found.append(denoise_link(link.kernel, y, moved, cov, accuracy=accuracy))
        a, b, c, d = found
        slope = (8 * (c.log_z - b.log_z) - (d.log_z - a.log_z)) / (12 * step)
        assert abs(slope - made.g_out[place]) < 2 * accuracy / step + 10 * step**4 * (1 + abs(slope)) ** 3
        slopes = (8 * (c.g_out - b.g_out) - (d.g_out - a.g_out)) / (12 * step)
        assert (
            np.abs(slopes - made.dg_out[place]).max()
            < (4 * accuracy / step + 10 * step**4) * (1 + np.abs(made.dg_out).max()) ** 2
        )


@pytest.mark.parametrize(("text", "noise"), FAMILIES, ids=lambda value: str(value))
def test_errors_hold_against_finer_integrals(text, noise, rng):
    link = al.Link(text, **noise)
    for _ in range(6):
        y, mean, cov = drawn(link, rng)
        coarse, fine = (
            denoise_link(link.kernel, y, mean, cov, accuracy=accuracy)
            for accuracy in ((1e-4, 1e-7) if link.kernel.noise or link.kernel.size > 2 else (1e-6, 1e-10))
        )
        assert abs(coarse.log_z - fine.log_z) <= coarse.log_z_error + fine.log_z_error
        assert (np.abs(coarse.g_out - fine.g_out) <= coarse.g_error + fine.g_error).all()
        assert (np.abs(coarse.dg_out - fine.dg_out) <= coarse.dg_error + fine.dg_error).all()


def test_probabilities_of_all_outputs_add_up_to_one():
    """Three values of a sum of signs; the atom and the density of a ReLU."""
    link = al.Link("sign(h[1])+sign(h[2])").kernel
    total = np.exp(denoise_link(link, [[-2.0], [0.0], [2.0]], MEAN, COV).log_z).sum()
    assert abs(total - 1) < 1e-8
    link = al.Link("Max(h[1]-h[2],0)").kernel
    atom = math.exp(denoise_link(link, [0.0], MEAN, COV).log_z)
    rest = quad(lambda y: math.exp(denoise_link(link, [y], MEAN, COV).log_z), 1e-9, 8, epsabs=1e-9)[0]
    assert abs(atom + rest - 1) < 1e-7


def test_three_entries_against_their_conditional_law():
    """Given h_2 and h_3 the first is Gaussian: a density and a probability, by 200 x 200 nodes."""
    x = np.linspace(-9, 9, 400)
    root = np.linalg.cholesky(COV3[np.ix_([1, 2], [1, 2])])
    two, three = np.meshgrid(x, x, indexing="ij")
    weight = np.exp(-0.5 * (two**2 + three**2)) * (x[1] - x[0]) ** 2 / (2 * math.pi)
    h2, h3 = MEAN3[1, 0] + root[0, 0] * two, MEAN3[2, 0] + root[1, 0] * two + root[1, 1] * three
    slope = np.linalg.solve(COV3[1:, 1:], COV3[1:, 0])
    h1 = MEAN3[0, 0] + slope[0] * (h2 - MEAN3[1, 0]) + slope[1] * (h3 - MEAN3[2, 0])
    spread = math.sqrt(COV3[0, 0] - slope @ COV3[1:, 0])
    off = (0.7 - h1 - h2 * h3) / spread
    truth = math.log((weight * np.exp(-0.5 * off**2)).sum() / math.sqrt(2 * math.pi) / spread)
    made = al.denoise(al.Link("h[1]+h[2]*h[3]"), [0.7], MEAN3, COV3)
    assert abs(made.log_z - truth) < made.log_z_error <= 1e-5
    truth = math.log((weight * ndtr((h1 + h2 * h3) / spread)).sum())
    made = al.denoise(al.Link("sign(h[1]+h[2]*h[3])"), [1.0], MEAN3, COV3, accuracy=1e-3)
    assert abs(made.log_z - truth) < made.log_z_error <= 1e-3


def test_more_entries_are_sampled():
    """y = h_1 + h_2 h_3 h_4 with independent indices: Gaussian given three of them."""
    x = np.linspace(-6, 6, 81)
    grid = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = np.exp(-0.5 * (grid**2).sum(axis=1)) * (x[1] - x[0]) ** 3 / (2 * math.pi) ** 1.5
    off = 0.5 - grid.prod(axis=1)
    truth = math.log((weight * np.exp(-0.5 * off**2)).sum() / math.sqrt(2 * math.pi))
    made = al.denoise(al.Link("h[1]+h[2]*h[3]*h[4]"), [0.5], np.zeros((4, 1)), np.eye(4), rng=1)
    assert made.how == "monte-carlo" and made.error <= 1e-3
    assert abs(made.log_z - truth) < 3 * made.log_z_error


def test_entries_that_only_the_prior_couples():
    """Outputs of one index each: correlated indices are one integral, and what is not observed has no score."""
    link = al.Link("sign(h[1]); abs(h[2])", indices=3).kernel
    mean, cov = np.array([[0.1], [0.3], [5.0]]), np.eye(3) + 0.4
    made = denoise_link(link, [1.0, 0.7], mean, cov)
    assert not made.g_out[2].any() and not made.dg_out[2].any()
    sides = [0.7, -0.7]
    slope, spread = 0.4 / 1.4, math.sqrt(1.4 - 0.16 / 1.4)
    each = [
        math.exp(-0.5 * (side - 0.3) ** 2 / 1.4)
        / math.sqrt(2.8 * math.pi)
        * ndtr((0.1 + slope * (side - 0.3)) / spread)
        for side in sides
    ]
    assert abs(made.log_z - math.log(sum(each))) < 1e-8
    apart = denoise_link(link, [1.0, 0.7], mean, np.eye(3))
    assert abs(apart.log_z - (math.log(ndtr(0.1)) + _even(0.7, 0.3))) < 1e-12


def _even(y, mean):
    return math.log(sum(math.exp(-0.5 * (side - mean) ** 2) for side in (y, -y)) / math.sqrt(2 * math.pi))


def test_batches_are_broadcast():
    link = al.Link("h[1]*h[2]")
    many = al.denoise(link, [[0.3], [-0.5]], MEAN, np.array([[COV], [2 * COV]]))
    assert many.g_out.shape == (2, 2, 2, 1) and many.dg_out.shape == (2, 2, 2, 1, 2, 1)
    one = al.denoise(link, [-0.5], MEAN, 2 * COV)
    assert many.log_z[1, 1] == one.log_z and (many.g_out[1, 1] == one.g_out).all()


def test_pieces_that_end_between_the_same_two_nodes_are_all_found():
    """Two of them at h_2 = 0.8925, within 0.2: one was found, and log Z off by 4e-6 where 2e-7 was stated."""
    made = al.denoise(al.Link("max(h[1], h[2])", noise="0.1"), [1.0], np.zeros((2, 1)), [[0.3, 0.1], [0.1, 1.0]])
    # The maximum lies in dm with h_1 or with h_2 there, the other below.
    m = np.linspace(-8, 8, 160_001)
    spread = [math.sqrt(1 - 0.1**2 / 0.3), math.sqrt(0.3 - 0.1**2)]
    first = np.exp(-0.5 * m**2 / 0.3) / math.sqrt(2 * math.pi * 0.3) * ndtr(m * (1 - 0.1 / 0.3) / spread[0])
    second = np.exp(-0.5 * m**2) / math.sqrt(2 * math.pi) * ndtr(m * (1 - 0.1) / spread[1])
    noise = np.exp(-0.5 * (1 - m) ** 2 / 0.1) / math.sqrt(0.2 * math.pi)
    truth = math.log(((first + second) * noise).sum() * (m[1] - m[0]))
    assert abs(made.log_z - truth) < made.log_z_error < 1e-5


def test_what_is_refused():
    link = al.Link("h[1]*h[2]")
    with pytest.raises(ValueError, match=r"y must be finite with shape \(\.\.\., K\)"):
        al.denoise(link, [0.3, 0.4], MEAN, COV)
    with pytest.raises(ValueError, match="omega must be finite"):
        al.denoise(link, [0.3], MEAN.T, COV)
    with pytest.raises(ValueError, match="rank deficient"):
        al.denoise(link, [0.3], MEAN, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"accuracy must be in"):
        al.denoise(link, [0.3], MEAN, COV, accuracy=1e-14)
    with pytest.raises(UnreachableOutputError, match=r"discrete ones are \[-1.0, 1.0\]"):
        al.denoise(al.Link("sign(h[1])"), [0.5], [[0.0]], [[1.0]])
    with pytest.raises(ConvergenceError, match="meets no node"):
        al.denoise(al.Link("h[1]**2+h[2]**2"), [-1.0], MEAN, COV)
    with pytest.raises(ConvergenceError, match="raise max_nodes"):
        al.denoise(al.Link("h[1]+h[2]*h[3]"), [0.7], MEAN3, COV3, accuracy=1e-9, max_nodes=10_000)
    with pytest.raises(NotServedError, match="scale the indices"):
        al.denoise(al.Link("h[1] + tanh(h[1])"), [20.0], [[20.0]], [[1.0]])
