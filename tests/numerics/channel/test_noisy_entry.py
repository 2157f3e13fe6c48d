"""Noisy links of one entry: fibres and panels of the posteriors give the same averages."""

import numpy as np
import pytest

import attnlimits as al
from attnlimits.numerics.channel.link.noisy_entry import NoisyEntry
from attnlimits.numerics.channel.link.scalar_noise import NoisyScalarLink
from attnlimits.numerics.core.errors import NotServedError


@pytest.mark.parametrize(
    ("text", "noise"), [("tanh(h[1])", 0.1), ("h[1]**2", 0.1), ("sign(h[1])", 0.1), ("Max(h[1], 0)", 0.3)]
)
@pytest.mark.parametrize("q", [0.1, 0.94, 0.96])
def test_both_ways_agree(text: str, noise: float, q: float) -> None:
    link = al.Link(text, noise)
    part = link.noiseless.parts[0]
    found = NoisyEntry(link.kernel, link.noiseless, part, None)
    other = NoisyScalarLink(link.kernel, part)
    for (coarse, fine), (rough, exact) in zip(found(q), other(q), strict=True):
        # The difference of two resolutions, times 2, is the error.
        assert abs(fine - exact) <= 2 * (abs(fine - coarse) + abs(exact - rough)) + 1e-11 * abs(exact)
    logs, others = found.log_density(q), other.log_density(q)
    assert abs(logs[1] - others[1]) <= 2 * (np.ptp(logs) + np.ptp(others)) + 1e-11


def test_what_panels_resolve_better_is_theirs() -> None:
    link = al.Link("h[1]/2 + exp(-h[1]**2) + h[1]/(2*sqrt(1 + h[1]**2))", 1.0)
    with pytest.raises(NotServedError, match="better"):
        NoisyEntry(link.kernel, link.noiseless, link.noiseless.parts[0], None)
