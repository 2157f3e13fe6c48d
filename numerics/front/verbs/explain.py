"""The page of an architecture, from the numbers of a network, or that of a link."""

from attnlimits.derivations import architecture_of, explain_blocks, explain_link
from attnlimits.derive.explain.page import explain as page
from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.link import Link

__all__ = ["explain"]


def explain(model: Model, fmt: str = "text") -> str:
    """What the theory states about a model: indices, mixing, link, symmetries, channel, threshold.

    Parameters
    ----------
    model : Network or Link
        The skip strength and inverse temperature of a network enter as the decimals they are written as.
    fmt : {"text", "latex"}, optional
        Plain text, or a LaTeX document.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For another format, and for a link that cannot be read.

    Examples
    --------
    >>> import attnlimits as al
    >>> al.explain(al.Network(layers=1)).splitlines()[2]
    'Indices'
    >>> al.explain(al.Link("abs(h[1])")).splitlines()[3]
    '    y = Abs(h_1_1)'
    """
    if isinstance(model, Link):
        return _written(explain_link(model), fmt)
    if model.chain is not None:
        return _written(explain_blocks(model), fmt)
    return page(architecture_of(model, numbers=True), fmt)


def _written(record: dict[str, object], fmt: str) -> str:
    """A page of a record."""
    if fmt not in ("text", "latex"):
        raise ValueError(f"fmt must be text or latex, got {fmt!r}")
    return str(record[fmt])
