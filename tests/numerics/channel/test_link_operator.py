"""The operator (15) of links by quadrature: its interval holds what the threshold has to more digits."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.channel.link.channel import LinkChannel


@pytest.mark.parametrize(("link", "noise"), [("sqrt(abs(h))", 0.1), ("h**2", 0.0), ("h**2", 0.2)])
def test_the_interval_of_the_operator_holds_the_threshold(link: str, noise: float) -> None:
    described = al.Link(link, noise=noise)
    found = al.threshold(described, digits=8)
    channel = LinkChannel(described.kernel, samples=64, replicas=2, rng=np.random.default_rng(0))
    low, high = np.sort(channel.operator(np.zeros((1, 1)))[1].ravel())
    norm, error = found.operator_norm, found.operator_norm * found.error / float(found.value)
    assert low <= norm + error and norm - error <= high
    assert high - low < 1e-4 * norm
