"""Exact theory of what attention networks can learn: thresholds, state evolution, denoisers, free energies.

    import attnlimits as al

    net = al.Network(layers=2, tokens=2, skip=1.0)      # any architecture; al.Link("h[1]*h[2]") likewise
    al.threshold(net, digits=30)
    al.evolve(net, alpha=0.5)

Every name is loaded when it is first used: importing the package imports nothing else, not even NumPy. Indices are
h = W x / sqrt(D), and alpha = N/D is the number of samples per dimension.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnlimits.numerics import aim as aim
    from attnlimits.numerics import multihead as multihead

#: Where each public name is: its module, and its name there (None for the module itself).
_PLACES: dict[str, tuple[str, str | None]] = {
    "aim": ("attnlimits.numerics.aim", None),
    "multihead": ("attnlimits.numerics.multihead", None),
}

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name == "__version__":
        # The half of the time of this module's import.
        from importlib.metadata import version

        return version("attnlimits")
    if name not in _PLACES:
        raise AttributeError(f"module 'attnlimits' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, attribute = _PLACES[name]
    found = import_module(module)
    globals()[name] = value = found if attribute is None else getattr(found, attribute)
    return value


def __dir__() -> list[str]:
    """Public names."""
    return sorted(__all__)
