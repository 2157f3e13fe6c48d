"""Slopes of the square loss: against differences in 50 digits, against a plain forward pass, and their limits."""

import mpmath
import numpy as np
import pytest

from attnlimits.numerics.core.errors import KernelNotFoundError
from attnlimits.numerics.learning.descent.gradient import square_loss
from attnlimits.numerics.learning.descent.objective import Objective
from attnlimits.numerics.learning.gamp import make_data, teacher
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network

MODELS = [
    Network(2, 2),
    Network(1, 3, 2, beta=0.8),
    Network(3, 3, (1, 2, 2), skip=0.7, beta=1.3),
    Network(2, 3, activation="linear"),
    Network(1, 3, 1, activation="softmax", tied=False, beta=1.2),
    Network(1, 2, 1, activation="linear", tied=False),
    Network(1, 2, 3, activation="softmax"),
]


def attention_output(mp, model, h):
    """The network's output from indices as matrices of mpmath, written out from (4)-(7) and (21)-(23)."""
    tokens = model.tokens
    mixing = mp.eye(tokens)
    layers = model.blocks
    pairs = [(layers[0][1], layers[1][1])] if layers[0][0] == "keys" else [(rows, rows) for _, rows in layers]
    for number, (key, query) in enumerate(pairs):
        k, q = (mp.matrix([h[i] for i in range(r.start, r.stop)]) * mixing.T for r in (key, query))
        a = k.T * q * mp.mpf(model.beta)
        if model.activation == "softmax":
            for i in range(tokens):
                total = mp.fsum(mp.exp(a[i, j]) for j in range(tokens))
                row = [mp.exp(a[i, j]) / total for j in range(tokens)]
                for j in range(tokens):
                    a[i, j] = row[j]
        if number + 1 < len(pairs):
            mixing = mp.mpf(model.skip) * mixing + a * mixing
    return a


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.describe())
def test_slopes_are_finite_differences_in_fifty_digits(model, rng):
    mp = mpmath.mp.clone()
    mp.dps = 50
    h = rng.standard_normal((1, model.indices, model.tokens))
    y = model.link(rng.standard_normal(h.shape))
    value, slopes = square_loss(model)(h, y)

    def loss(rows):
        out = attention_output(mp, model, rows)
        return mp.fsum((out[i, j] - mp.mpf(y[0, i, j])) ** 2 for i in range(out.rows) for j in range(out.cols)) / 2

    rows = [[mp.mpf(entry) for entry in row] for row in h[0]]
    # Rounding of float64, relative to the largest slope.
    assert value[0] == pytest.approx(float(loss(rows)), rel=1e-12)
    scale, step = np.abs(slopes).max(), mp.mpf(10) ** -17
    for p in range(model.indices):
        for m in range(model.tokens):
            ends = []
            for sign in (1, -1):
                moved = [list(row) for row in rows]
                moved[p][m] += sign * step
                ends.append(loss(moved))
            wanted = float((ends[0] - ends[1]) / (2 * step))
            assert slopes[0, p, m] == pytest.approx(wanted, abs=1e-12 * scale)


@pytest.mark.parametrize(
    "text",
    [
        "h[1]**2 + sign(h[1]*h[2])",
        "max(h[1], h[2]); tanh(h[3])*h[1]",
        "h[1,1]**2; h[1,1]*h[1,2]",
        "(h[1] + h[2])**2",
        "abs(h[1]) + h[2]; sign(h[2])",
    ],
)
def test_slopes_of_links(text, rng):
    """Central differences of the link itself; no entry here lies within 1e-5 of a jump."""
    kernel = kernel_of(text)
    h = rng.standard_normal((40, kernel.indices, kernel.tokens))
    h = h[(np.abs(h) > 1e-3).all(axis=(1, 2))]
    y = kernel.link(rng.standard_normal(h.shape))
    value, slopes = square_loss(kernel)(h, y)
    assert value == pytest.approx(0.5 * ((kernel.link(h) - y) ** 2).sum(axis=1), rel=1e-12)
    step = 1e-5
    for p in range(kernel.indices):
        for m in range(kernel.tokens):
            ends = []
            for sign in (1, -1):
                moved = h.copy()
                moved[:, p, m] += sign * step
                ends.append(0.5 * ((kernel.link(moved) - y) ** 2).sum(axis=1))
            # Third derivatives times step^2, and rounding over step.
            assert slopes[:, p, m] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("model", [MODELS[0], MODELS[4], kernel_of("h[1]**2")], ids=["tied", "untied", "link"])
def test_gradients_in_the_weights(model, rng):
    """D times the derivative along a random direction; passes over all samples and batches agree."""
    weights = teacher(model, 20, 0)
    x, y = make_data(model, weights, 3.0, 1, dtype=np.float64)
    objective = Objective(x, y, model, 1)
    at, along = teacher(model, 20, 5), rng.standard_normal(weights.shape)
    value, gradient = objective.whole(at)
    h = np.einsum("pd,nmd->npm", at, x) / np.sqrt(20)
    assert value == pytest.approx(0.5 * ((model.link(h) - y) ** 2).reshape(len(y), -1).sum(axis=1).mean(), rel=1e-12)
    step = 1e-5
    slope = (objective.whole(at + step * along)[0] - objective.whole(at - step * along)[0]) / (2 * step)
    # Third derivatives times step^2, and rounding over step.
    assert 20 * slope == pytest.approx(float(np.vdot(gradient, along)), rel=1e-7, abs=1e-7)
    batches = list(objective.batches(7, rng))
    assert sum(len(one[0]) for one in batches) == len(x) and len(batches) == -(-len(x) // 7)
    mixed = sum(len(one[0]) * objective.gradient(*one, at) for one in batches) / len(x)
    assert mixed == pytest.approx(gradient, abs=1e-12)


def test_a_loss_has_no_slope_at_the_teacher(rng):
    model = Network(2, 3)
    h = rng.standard_normal((5, 2, 3))
    value, slopes = square_loss(model)(h, model.link(h))
    assert np.abs(value).max() < 1e-28 and np.abs(slopes).max() < 1e-14


def test_what_overflows_is_not_finite_and_says_nothing():
    model = Network(2, 2, activation="linear")
    value, _ = square_loss(model)(np.full((1, 2, 2), 1e200), np.ones((1, 2, 2)))
    assert not np.isfinite(value).any()


def test_links_without_slopes_are_refused():
    with pytest.raises(KernelNotFoundError, match="outputs are discrete"):
        square_loss(kernel_of("sign(h[1]*h[2])"))
    with pytest.raises(KernelNotFoundError, match="holds no slopes; take the kernel of the same link without noise"):
        square_loss(kernel_of("h[1]**2", noise="0.1"))
