"""The page of an architecture, from the numbers of a network."""

from attnlimits.derivations import architecture_of
from attnlimits.derive.explain.page import explain as page
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
    return page(architecture_of(model, numbers=True), fmt)
