"""Fixed points of a link along alpha."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...channel.link.channel import LinkChannel
from ...model.link import Link
from .curve import curve
from .records import CurveResult

__all__ = ["curve_link"]


def curve_link(
    link: Link, values: Iterable[float], *, samples: int = 1024, replicas: int = 8, rng: int = 0, **settings: Any
) -> CurveResult:
    """Fixed points of a link along alpha, with onsets and jumps.

    Parameters
    ----------
    link : Link
    values : iterable of float
        Samples per dimension N/D.
    samples, replicas, rng : int, optional
        Points per randomisation, randomisations and seed, where the averages are sampled.
    settings : optional
        As in `continuation.curve`.
    """
    averages = LinkChannel(
        link.kernel, samples=samples, replicas=replicas, rng=np.random.default_rng(rng), noiseless=link.noiseless
    )
    return curve(averages, values, samples=samples, replicas=replicas, rng=rng, **settings)
