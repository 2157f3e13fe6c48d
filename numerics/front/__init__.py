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
    from attnlimits.derive.registry import run as verify  # noqa: F401
    from attnlimits.numerics import aim as aim
    from attnlimits.numerics import multihead as multihead
    from attnlimits.numerics.core.citation import cite as cite
    from attnlimits.numerics.core.saved import load as load
    from attnlimits.numerics.learning.data import teacher as teacher
    from attnlimits.numerics.model.link import Link as Link
    from attnlimits.numerics.model.network import Network as Network
    from attnlimits.numerics.sweeps import sweep as sweep
    from attnlimits.numerics.thresholds.enclosure.threshold import enclose_last_layer as enclose  # noqa: F401

    from .pages import explain as explain
    from .verbs import curve as curve
    from .verbs import denoise as denoise
    from .verbs import descend as descend
    from .verbs import evolve as evolve
    from .verbs import free_entropy as free_entropy
    from .verbs import gamp as gamp
    from .verbs import make_data as make_data
    from .verbs import staircase as staircase
    from .verbs import threshold as threshold

#: Where each public name is: its module, and its name there (None for the module itself).
_PLACES: dict[str, tuple[str, str | None]] = {
    "Link": ("attnlimits.numerics.model.link", "Link"),
    "Network": ("attnlimits.numerics.model.network", "Network"),
    "aim": ("attnlimits.numerics.aim", None),
    "cite": ("attnlimits.numerics.core.citation", "cite"),
    "curve": ("attnlimits.verbs", "curve"),
    "denoise": ("attnlimits.verbs", "denoise"),
    "descend": ("attnlimits.verbs", "descend"),
    "enclose": ("attnlimits.numerics.thresholds.enclosure.threshold", "enclose_last_layer"),
    "evolve": ("attnlimits.verbs", "evolve"),
    "explain": ("attnlimits.pages", "explain"),
    "free_entropy": ("attnlimits.verbs", "free_entropy"),
    "gamp": ("attnlimits.verbs", "gamp"),
    "load": ("attnlimits.numerics.core.saved", "load"),
    "make_data": ("attnlimits.verbs", "make_data"),
    "multihead": ("attnlimits.numerics.multihead", None),
    "staircase": ("attnlimits.verbs", "staircase"),
    "sweep": ("attnlimits.numerics.sweeps", "sweep"),
    "teacher": ("attnlimits.numerics.learning.data", "teacher"),
    "threshold": ("attnlimits.verbs", "threshold"),
    "verify": ("attnlimits.derive.registry", "run"),
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
