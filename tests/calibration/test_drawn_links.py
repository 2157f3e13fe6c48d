"""Averages of links drawn from the grammar by quadrature, against samples of the same averages, which share no rule."""

from typing import NamedTuple

import numpy as np
import pytest
from link_draws import drawn_link

import attnlimits as al
from attnlimits.numerics.channel.link.channel import LinkChannel
from attnlimits.numerics.core.errors import NotServedError

# Links of which the quick tests compare the averages, each in a second or two.
FEW = (3, 17, 23)
# Links of all, of which the quadrature serves this share at least.
ALL, SERVED = 150, 0.4


class Compared(NamedTuple):
    """Largest difference in units of the error of the quadrature and three standard errors of the samples."""

    number: int
    ratio: float


def compared(number: int) -> Compared | None:
    """Averages at an overlap that is drawn, too; None where the quadrature does not serve them."""
    drawn, rng = drawn_link(number), np.random.default_rng(number)
    kernel = al.Link(drawn.text, noise=drawn.noise).kernel
    noiseless = al.Link(drawn.text).kernel if drawn.noise else None
    q = np.diag(rng.uniform(0.05, 0.9, kernel.indices))
    try:
        channel = LinkChannel(kernel, samples=64, replicas=2, rng=rng, noiseless=noiseless)
        if channel.sampled:
            return None
        found = channel(q)
        # With fewer outputs their scatter has a tail that eight replicas do not show.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LinkChannel, "_deterministic", lambda *_: None)
            sampled = LinkChannel(kernel, samples=8192, replicas=8, rng=rng, noiseless=noiseless, inner=8)(q)
    except NotServedError:
        return None
    g, other = found.g.mean(axis=0), sampled.g.mean(axis=0)
    error = 0.5 * np.ptp(found.g, axis=0) + found.bias
    allowed = error + 3 * sampled.g.std(axis=0, ddof=1) / np.sqrt(8) + sampled.bias + 1e-9
    return Compared(number, float((np.abs(g - other) / allowed).max()))


@pytest.mark.parametrize("number", FEW)
def test_a_drawn_link_agrees_with_its_samples(number):
    found = compared(number)
    assert found is not None and found.ratio <= 1


@pytest.mark.slow
def test_drawn_links_agree_with_their_samples():
    found = [one for number in range(ALL) if (one := compared(number)) is not None]
    assert len(found) >= SERVED * ALL
    assert np.mean([one.ratio <= 1 for one in found]) >= 0.95
    assert [one for one in found if one.ratio > 2] == []
