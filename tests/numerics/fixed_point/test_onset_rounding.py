"""Onsets and weak thresholds: two rules that round alike leave no difference, and yet the number is rounded."""

import math
from fractions import Fraction

import pytest

from attnlimits.numerics.fixed_point.continuation.curve import curve
from attnlimits.numerics.free_energy.psi_out import output_entropy
from attnlimits.numerics.free_energy.thresholds import transitions
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds import exact
from attnlimits.numerics.thresholds.first_layer import first_layer


@pytest.mark.parametrize("tokens", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_onsets_are_within_their_rounding(tokens: int) -> None:
    model = Network(layers=1, tokens=tokens)
    true = Fraction(1, tokens * (tokens + 1))
    onset = curve(model, [0.9 * float(true), 1.1 * float(true)]).onsets[0]
    weak = transitions(output_entropy(model)).weak
    for value, error in ((onset.value, onset.error), (weak.value, weak.error)):
        assert abs(Fraction(value) - true) <= error < 1e-12


@pytest.mark.parametrize("digits", range(1, 9))
def test_rounded_thresholds_are_within_their_bound(digits: int) -> None:
    """Of known values the error is that of rounding, to the last bit."""
    found = first_layer(Network(), given="perfect", digits=digits)
    assert abs(Fraction(found.value) - Fraction(1, 6)) <= Fraction(found.error)
    one = exact.single_layer(10**6 + digits - 9, digits=12)
    assert one is not None and one.value is not None
    true = Fraction(1, (10**6 + digits - 9) * (10**6 + digits - 8))
    assert abs(Fraction(one.value) - true) <= Fraction(one.error)
    assert math.isfinite(one.error)
