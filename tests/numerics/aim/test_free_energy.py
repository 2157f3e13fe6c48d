"""Entropies of labels of more than two tokens, by the sum over labels and by the integral of the information."""

from functools import partial

import numpy as np
import pytest

from attnlimits.numerics.aim import hardmax, hardmax_many
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.entries import variances
from attnlimits.numerics.aim.free_energy import free_entropy, free_entropy_at
from attnlimits.numerics.aim.hardmax_entropy import label_entropy
from attnlimits.numerics.aim.label_chains import label_chains


def test_entropy_without_information_is_that_of_all_labels():
    """At c = 0: the probabilities of all labels of three tokens."""
    every = hardmax_many.labels(3)
    means = np.zeros((len(every), 6))
    log_z = label_chains(every, means, np.broadcast_to(np.sqrt(variances(3)), means.shape))[0]
    found = label_entropy(0.0, partial(hardmax_many.information, tokens=3))
    expected = -float(np.exp(log_z) @ log_z)
    assert abs(found.value - expected) <= found.error < 0.01 * expected


def test_the_integral_of_two_tokens_is_their_entropy():
    """The same integral over F of two tokens, which the sum has in closed form."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    for c in (0.0, 1.0, 20.0):
        x = 0.5 * (nodes + 1) / np.sqrt(1 + c)
        F = np.array([hardmax.information_between(v**-2 - 1).value for v in x])
        integral = float(weights @ (F / x)) * 0.5 / np.sqrt(1 + c)
        assert integral == pytest.approx(hardmax.label_entropy(c).value, abs=1e-8)


@pytest.mark.parametrize(("name", "tokens"), [("softmax", 2), ("hardmax", 3), ("linear", 3)])
def test_the_slope_in_alpha_is_psi_out(name, tokens):
    """At a stationary point d/d alpha of the free entropy is Psi_out: no other term counts."""
    output = channel(name, tokens)
    low, middle, high = (free_entropy_at(0.03 + s, 0.5, output) for s in (-1e-4, 0.0, 1e-4))
    slope = (high.free_entropy.value - low.free_entropy.value) / 2e-4
    assert slope == pytest.approx(middle.psi_out.value, abs=3e-5)


@pytest.mark.parametrize("V", [1e-17, 3e-16, 1e-15, 1e-12])
def test_little_error_belongs_to_as_little_noise(V):
    """At rho >= 1 MMSE(Delta) is Delta to rounding there, above or below it."""
    softmax = channel("softmax")
    near = free_entropy(0.2, V, 1.5, softmax).value - free_entropy(0.2, 2 * V, 1.5, softmax).value
    # Logarithms of V alone: the same difference at every small V.
    assert near == pytest.approx(
        free_entropy(0.2, 1e-10, 1.5, softmax).value - free_entropy(0.2, 2e-10, 1.5, softmax).value, abs=1e-6
    )
