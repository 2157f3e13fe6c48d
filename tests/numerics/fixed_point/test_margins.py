"""Next to a threshold the last bits of alpha, of an exponential or of a product decide nothing."""

import math

import numpy as np
import pytest

from attnlimits.numerics.channel.averages import Averages, ChannelBase
from attnlimits.numerics.fixed_point.balance import FreeEntries
from attnlimits.numerics.fixed_point.error import TOO_NEAR, fixed_point_error
from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.link import evolve as evolve_link
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer

BITS = [-2, -1, 0, 1, 2]


@pytest.mark.parametrize(("layers", "bits"), [*((2, bits) for bits in BITS), (3, -1), (3, 1)])
def test_at_the_threshold_of_the_last_layer_all_bits_say_that_it_is_near(layers, bits):
    alpha = 1 / last_layer(Network(layers), digits=6).operator_norm
    found = evolve(Network(layers), alpha * (1 + bits * np.finfo(float).eps), samples=256)
    assert not found.converged and found.status.startswith(TOO_NEAR)
    assert found.overlap[-1, -1] <= 1e-3


def test_below_it_nothing_is_in_doubt():
    alpha = 1 / last_layer(Network(2), digits=6).operator_norm
    assert evolve(Network(2), alpha * (1 - 1e-9), samples=256).converged


def test_at_the_threshold_of_a_link_all_bits_say_that_it_is_near():
    """alpha_c = 1/2 exactly."""
    for bits in BITS:
        found = evolve_link(kernel_of("h**2"), 0.5 * (1 + bits * np.finfo(float).eps))
        assert not found.converged and found.status.startswith(TOO_NEAR)
        assert found.overlap[0, 0] <= 1e-7


@pytest.mark.parametrize("excess", [1e-14, 1.3e-13, 4e-13, 7e-12, 3e-11, 2e-10, 4e-9])
def test_overlaps_within_rounding_of_zero_are_in_doubt(excess):
    found = evolve_link(kernel_of("h**2"), 0.5 * (1 + excess))
    assert not found.converged
    assert abs(found.overlap[0, 0] - excess / 5) <= found.overlap_error[0, 0]


@pytest.mark.parametrize("excess", [4.3e-7, 1e-6, 1.3e-6, 6e-6, 1e-5])
def test_overlaps_beyond_rounding_are_found(excess):
    """alpha(q) = (1 + 5 q)/2 + O(q^2): G = q (2 - 8 q), as <h> = sqrt(y) tanh(sqrt(y) omega/V) expands."""
    found = evolve_link(kernel_of("h**2"), 0.5 * (1 + excess))
    assert found.converged
    assert abs(found.overlap[0, 0] - excess / 5) <= found.overlap_error[0, 0] + 10 * excess**2
    # The rounding of r, 4e-15/q, over its slope, -5.
    assert found.overlap_error[0, 0] <= 4e-15 / found.overlap[0, 0]


class Moments(ChannelBase):
    """G = q (1 + q/2), of which two rules differ by so many times 2^-53."""

    layers, sampled = (0,), False
    rounding = 4e-15

    def __init__(self, bits):
        self.bits, self.model = bits, None

    def __call__(self, q):
        g = q * (1 + 0.5 * q)
        return Averages.unbiased(np.array([g, g + self.bits * 2.0**-53]), np.full((2, 1), math.nan), "estimated")


@pytest.mark.parametrize("excess", [1e-9, 1e-8, 1e-6, 1e-4])
def test_two_rules_that_agree_to_the_last_bit_or_not_leave_the_same_doubt(excess):
    """F = alpha G/(1 + alpha G) = q at alpha - 1 = q/2 + ..; of the rules that are equal nothing scatters."""
    found = []
    for bits in (0, 1, -1):
        balance = FreeEntries(Moments(bits), 1 + excess, ((0, 0),), lambda x: np.diag(x))
        x = np.array([2 * excess])
        found.append(fixed_point_error(balance, x, balance.averages(x)))
    assert len({bool(one.doubt) for one in found}) == 1
    assert bool(found[0].doubt) == (excess < 1e-7)
