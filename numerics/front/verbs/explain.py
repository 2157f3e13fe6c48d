"""The page of an architecture, from the numbers of a network."""

import sympy as sp

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.explain.page import explain as page
from attnlimits.derive.links.activation import read_activation
from attnlimits.numerics.model.activations import ScoreFunction
from attnlimits.numerics.model.network import Network

__all__ = ["explain"]


def explain(model: Network, fmt: str = "text") -> str:
    """What the theory states about an architecture: indices, mixing, link, symmetries, channel, threshold.

    Parameters
    ----------
    model : Network
        Its skip strength and inverse temperature enter as the decimals they are written as.
    fmt : {"text", "latex"}, optional

    Returns
    -------
    str

    Examples
    --------
    >>> explain(Network(layers=1)).splitlines()[2]
    'Indices'
    """
    own = model.activation
    return page(
        Architecture(
            layers=model.layers,
            tokens=model.tokens,
            ranks=model.rank,
            activation=read_activation(own.text) if isinstance(own, ScoreFunction) else own,
            tied=model.tied,
            output=model.output,
            heads=model.heads,
            skip=sp.Rational(str(model.skip)),
            beta=sp.Rational(str(model.beta)),
        ),
        fmt,
    )
