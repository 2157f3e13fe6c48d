"""The replica computation: proofs that hold, the same identities broken, and two numerical routes beside them."""

import dataclasses
import math

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import registry
from attnlimits.derive.proof import ProofError
from attnlimits.derive.replica import channel as replica_channel
from attnlimits.derive.replica import entropy as replica_entropy
from attnlimits.derive.replica import replica
from attnlimits.derive.replica.replica import ReplicaSymmetric, extra_replicas, overlap

# tests/papers runs the checks themselves, here they are broken.
CHECKS = "attnlimits.papers.troiani2025.checks.replica_limit"


def blocks(seed, replicas, indices):
    """Return a replica-symmetric matrix with generic float blocks, and the same written out by NumPy."""
    rng = np.random.default_rng(seed)
    diagonal, off = rng.standard_normal((2, indices, indices))
    exact = ReplicaSymmetric.of_blocks(sp.Matrix(diagonal), sp.Matrix(off), sp.Integer(replicas))
    written = np.kron(np.eye(replicas), diagonal - off) + np.kron(np.ones((replicas, replicas)), off)
    return exact, written


@pytest.mark.parametrize(("replicas", "indices"), [(2, 1), (3, 2), (5, 3)])
def test_algebra_against_numpy(replicas, indices):
    first, a = blocks(1, replicas, indices)
    second, b = blocks(2, replicas, indices)

    def floats(matrix):
        return np.array(matrix.written_out().tolist(), dtype=float)

    # A dozen operations on numbers of order one to ten.
    np.testing.assert_allclose(floats(first), a, atol=1e-12)
    np.testing.assert_allclose(floats(first * second), a @ b, atol=1e-10)
    np.testing.assert_allclose(floats(first + second), a + b, atol=1e-12)
    np.testing.assert_allclose(floats(first.inverse()) @ a, np.eye(len(a)), atol=1e-9)
    assert float(first.determinant()) == pytest.approx(np.linalg.det(a), rel=1e-10)
    np.testing.assert_allclose(np.array(first.diagonal.tolist(), dtype=float), a[:indices, :indices], atol=1e-12)


def test_blocks_that_do_not_commute_keep_their_order():
    a, s, b, t = sp.symbols("A S B T", commutative=False)
    product = ReplicaSymmetric(a, s, sp.Integer(3)) * ReplicaSymmetric(b, t, sp.Integer(3))
    assert (product.apart, product.together) == (a * b, s * t)
    assert sp.expand(product.apart - b * a) != 0


def wrong_inverse():
    off = -overlap / (1 - overlap)  # that of n = 0
    return ReplicaSymmetric.of_blocks(1 / (1 - overlap) + off, off, extra_replicas + 1)


def wrong_linear():
    told = replica_entropy.linear_channel()
    return [
        dataclasses.replace(told, channel_part=told.channel_part + extra_replicas),
        dataclasses.replace(told, output=2 * told.output),
        dataclasses.replace(told, conjugate=2 * told.conjugate),
        dataclasses.replace(told, error=told.error + 1),
    ]


@pytest.mark.parametrize(
    "prove",
    [
        lambda: replica.prove_inverse(wrong_inverse()),
        lambda: replica_channel.prove_decoupled_law(overlap / (1 - overlap)),
        lambda: replica_channel.prove_decoupled_channel(2 * overlap),
        lambda: replica_channel.prove_small_channel(2 * extra_replicas + 1),
        lambda: replica_channel.prove_small_channel(extra_replicas + 2),
        *[lambda told=told: replica_entropy.prove_linear_channel(told) for told in wrong_linear()],
    ],
    ids=["inverse", "law", "channel", "slope", "start", "channel part", "output", "conjugate", "error"],
)
def test_a_wrong_identity_is_refused(prove):
    with pytest.raises(ProofError):
        prove()


def _doubled(function):
    return lambda *args, **kwargs: 2 * function(*args, **kwargs)


def _off_doubled(function):
    def wrong(*args, **kwargs):
        right = function(*args, **kwargs)
        return ReplicaSymmetric.of_blocks(right.diagonal, 2 * right.off, right.replicas)

    return wrong


@pytest.mark.parametrize(
    ("owner", "name", "break_it", "check"),
    [
        (replica, "overlap_matrix", _off_doubled, "check_160"),
        (replica_channel, "overlap_matrix", _off_doubled, "check_155"),
        (replica_entropy, "prior_slope", _doubled, "check_160"),
        (replica_entropy, "free_entropy", _doubled, "check_160"),
        (ReplicaSymmetric, "determinant", _doubled, "check_160"),
        (ReplicaSymmetric, "log_determinant", _doubled, "check_160"),
    ],
    ids=["overlaps", "law", "prior", "functional", "determinant", "log det"],
)
def test_a_wrong_implementation_fails_its_check(monkeypatch, owner, name, break_it, check):
    monkeypatch.setattr(owner, name, break_it(getattr(owner, name)))
    assert not registry.resolve(f"{CHECKS}:{check}")().ok


def test_a_product_in_the_wrong_order_is_refused(monkeypatch):
    def wrong(self, other):
        return ReplicaSymmetric(other.apart * self.apart, self.together * other.together, self.replicas)

    monkeypatch.setattr(ReplicaSymmetric, "__mul__", wrong)
    with pytest.raises(ProofError, match="product"):
        replica.prove_algebra()


def test_decoupled_law_at_one_replica_is_standard():
    replica_channel.prove_decoupled_law_at(1)


def test_error_of_the_linear_channel_is_that_of_random_ridge_regression():
    # y = X w + noise with D = 400 weights: the mean posterior variance self-averages, to order 1/D.
    told = replica_entropy.linear_channel()
    rng = np.random.default_rng(3)
    dimension = 400
    for alpha, noise in ((0.5, 0.1), (2.0, 0.5)):
        x = rng.standard_normal((round(alpha * dimension), dimension)) / math.sqrt(dimension)
        exact = np.trace(np.linalg.inv(np.eye(dimension) + x.T @ x / noise)) / dimension
        stated = float(told.error.subs({sp.Symbol("alpha", positive=True): alpha, told.noise: noise}))
        assert stated == pytest.approx(exact, abs=5 / dimension)


def test_free_entropy_of_the_linear_channel_is_that_of_the_evidence():
    # log Z = log N(y; 0, X X^T + Delta), averaged over y: -(log det(2 pi (X X^T + Delta)) + N)/2.
    told = replica_entropy.linear_channel()
    alpha, noise, dimension = 1.5, 0.4, 400
    x = np.random.default_rng(4).standard_normal((round(alpha * dimension), dimension)) / math.sqrt(dimension)
    samples = len(x)
    gram = x @ x.T + noise * np.eye(samples)
    exact = -(np.linalg.slogdet(2 * math.pi * gram)[1] + samples) / (2 * dimension)
    values = {sp.Symbol("alpha", positive=True): alpha, told.noise: noise}
    q = 1 - told.error.subs(values)
    stated = (replica_entropy.prior_slope() + alpha * told.output).subs(values).subs(overlap, q)
    # Fluctuations of log det over D are of order 1/D.
    assert float(stated) == pytest.approx(exact, abs=2 / dimension)
