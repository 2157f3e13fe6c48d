"""Layers of eight families, four of them not of the package, and examples that leave parameters open."""

import math

import numpy as np

from attnlimits.numerics.multihead.teachers import make_teacher


def alike(m, d, rng):
    """Heads with a common part: Theta_i = C + 0.2 G_i, W_i = C_w + 0.3 H_i, logits of standard deviation 3."""
    theta = rng.standard_normal((d, d)) + 0.2 * rng.standard_normal((m, d, d))
    return _scaled(theta, 3.0), (rng.standard_normal((d, d)) + 0.3 * rng.standard_normal((m, d, d))) / math.sqrt(d)


def uneven(m, d, rng):
    """Norms of W over a factor of 30."""
    theta, w = make_teacher("gauss", m, d, rng=rng)
    return theta, w * 30.0 ** -(np.arange(m) / max(m - 1, 1))[:, None, None]


def sparse(m, d, rng):
    """A third of the entries of every Theta_i and W_i, at least d of them."""
    parts = []
    for spread in (1.0, 1 / math.sqrt(d)):
        kept = np.zeros((m, d * d))
        for row in kept:
            row[rng.choice(d * d, max(d, d * d // 3), replace=False)] = 1
        parts.append(kept.reshape(m, d, d) * rng.standard_normal((m, d, d)) * spread)
    return _scaled(parts[0], 4.0), parts[1]


def low_rank(m, d, rng):
    """Every Theta_i and W_i of rank two, as keys and queries, values and outputs of two dimensions make them."""
    theta, w = (rng.standard_normal((m, d, 2)) @ rng.standard_normal((m, 2, d)) for _ in range(2))
    return _scaled(theta, 4.0), w / (math.sqrt(2) * d)


def _scaled(theta, spread):
    return theta * spread / math.sqrt(2) / np.linalg.norm(theta, axis=(1, 2), keepdims=True)


def _own(name):
    return lambda m, d, rng: make_teacher(name, m, d, rng=rng)


FAMILIES = {
    "gauss": _own("gauss"),
    "alike": alike,
    "corr": _own("corr"),
    "uneven": uneven,
    "sameW": _own("sameW"),
    "sparse": sparse,
    "lowrank": _own("lowrank"),
    "low rank": low_rank,
}


def constant(X, rng):
    """One coordinate has one value."""
    X[:, :, rng.integers(X.shape[2])] = 1.0


def constant_in_examples(X, rng):
    """One coordinate is the same for all tokens of an example."""
    coordinate = rng.integers(X.shape[2])
    X[:, :, coordinate] = X[:, :1, coordinate]


def repeated(X, rng):
    """Two coordinates are equal, or opposite."""
    first, second = rng.choice(X.shape[2], 2, replace=False)
    X[:, :, second] = rng.choice([-1.0, 1.0]) * X[:, :, first]


def zero(X, rng):
    """One coordinate is zero."""
    X[:, :, rng.integers(X.shape[2])] = 0.0


OPEN_INPUTS = {"constant": constant, "in examples": constant_in_examples, "repeated": repeated, "zero": zero}
