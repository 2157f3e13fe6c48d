"""Which state evolutions take seconds: the bounds of `evolution_cost`, measured in seconds of one core."""

import time

import pytest

from attnlimits.numerics.fixed_point.evolve import evolve
from attnlimits.numerics.fixed_point.expected import takes_seconds
from attnlimits.numerics.model.network import Network

pytestmark = pytest.mark.slow

# A machine several times slower than the one that found 0.1 to 0.4 s.
_SECONDS = 5.0


@pytest.mark.parametrize("alpha", [0.2, 0.45, 0.66])
@pytest.mark.parametrize(("skip", "beta"), [(0.3, 1.0), (1.0, 1.0), (1.0, 5.0), (3.0, 3.0), (20.0, 1.0)])
def test_two_layers_before_the_first_is_learned(skip, beta, alpha):
    model = Network(2, 2, 1, skip, beta)
    assert takes_seconds(model, alpha)
    assert _seconds(model, alpha) < _SECONDS


@pytest.mark.parametrize("alpha", [0.2, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("model", [Network(1, 2), Network(1, 3), Network(1, 3, 2), Network(1, 4, 2)])
def test_one_layer(model, alpha):
    assert takes_seconds(model, alpha)
    assert _seconds(model, alpha) < _SECONDS


def test_two_layers_where_both_are_learned():
    """The other side: were this quick, the bound would be wrong."""
    model = Network(2, 2, 1, 3.0)
    assert not takes_seconds(model, 0.8)
    assert _seconds(model, 0.8) > 3 * _seconds(model, 0.66)


def _seconds(model, alpha):
    evolve(model, 0.01, workers=1)  # compiled kernels are loaded
    begin = time.process_time()
    evolve(model, alpha, workers=1)
    return time.process_time() - begin
