"""Exact theory of what attention networks can learn: thresholds, state evolution, denoisers, free energies.

    import attnlimits as al

    net = al.Network(layers=2, tokens=2, skip=1.0)      # any architecture; al.Link("h[1]*h[2]") likewise
    al.threshold(net, digits=30)
    al.evolve(net, alpha=0.5)
    al.aim.evolve(0.1, 0.5, al.aim.channel("softmax", 2))   # fields of their own: al.free_energy, al.multihead, ..

Every name is loaded when it is first used: importing the package imports nothing else, not even NumPy. Indices are
h = W x / sqrt(D), and alpha = N/D is the number of samples per dimension.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnlimits.derive.registry import run
    from attnlimits.numerics.core.citation import cite as cite
    from attnlimits.numerics.core.saved import load as load
    from attnlimits.numerics.model.link import Link as Link
    from attnlimits.numerics.model.network import Network as Network
    from attnlimits.numerics.sweeps import open_sweep as open_sweep
    from attnlimits.numerics.sweeps import sweep as sweep
    from attnlimits.numerics.thresholds.enclosure.threshold import enclose_last_layer
    from attnlimits.numerics.thresholds.last_layer import proved_last_layer
    from attnlimits.numerics.thresholds.link.choice import link_staircase

    from . import aim as aim
    from . import blocks as blocks
    from . import classifier as classifier
    from . import committee as committee
    from . import derivations as derivations
    from . import free_energy as free_energy
    from . import learning as learning
    from . import multihead as multihead
    from .verbs.curve import curve as curve
    from .verbs.denoise import denoise as denoise
    from .verbs.descend import descend as descend
    from .verbs.evolve import evolve as evolve
    from .verbs.explain import explain as explain
    from .verbs.free_entropy import free_entropy as free_entropy
    from .verbs.from_flax import from_flax as from_flax
    from .verbs.from_torch import from_torch as from_torch
    from .verbs.from_weights import from_weights as from_weights
    from .verbs.gamp import gamp as gamp
    from .verbs.make_data import make_data as make_data
    from .verbs.make_data import teacher as teacher
    from .verbs.report import report as report
    from .verbs.threshold import threshold as threshold

    enclose, prove, staircase, verify = enclose_last_layer, proved_last_layer, link_staircase, run

#: Where each public name is: its module, and its name there.
_PLACES = {
    "Link": ("attnlimits.numerics.model.link", "Link"),
    "Network": ("attnlimits.numerics.model.network", "Network"),
    "cite": ("attnlimits.numerics.core.citation", "cite"),
    "enclose": ("attnlimits.numerics.thresholds.enclosure.threshold", "enclose_last_layer"),
    "load": ("attnlimits.numerics.core.saved", "load"),
    "open_sweep": ("attnlimits.numerics.sweeps", "open_sweep"),
    "prove": ("attnlimits.numerics.thresholds.last_layer", "proved_last_layer"),
    "staircase": ("attnlimits.numerics.thresholds.link.choice", "link_staircase"),
    "sweep": ("attnlimits.numerics.sweeps", "sweep"),
    "teacher": ("attnlimits.verbs.make_data", "teacher"),
    "verify": ("attnlimits.derive.registry", "run"),
}
_VERBS = (
    *("curve", "denoise", "descend", "evolve", "explain", "free_entropy", "from_flax", "from_torch", "from_weights"),
    *("gamp", "make_data", "report", "threshold"),
)
_PLACES |= {name: (f"attnlimits.verbs.{name}", name) for name in _VERBS}
#: Modules of this folder, each with the names of a field of its own.
_FIELDS = ("aim", "blocks", "classifier", "committee", "derivations", "free_energy", "learning", "multihead")

__all__ = ["__version__", *_PLACES, *_FIELDS]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name == "__version__":
        # The half of the time of this module's import.
        from importlib.metadata import version

        return version("attnlimits")
    if name in _FIELDS:
        return import_module(f"attnlimits.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'attnlimits' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, attribute = _PLACES[name]
    globals()[name] = value = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    """Public names."""
    return sorted(__all__)
