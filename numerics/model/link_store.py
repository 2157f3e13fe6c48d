"""The kernels of links in the user's cache (`core.derived`), by what they answer."""

import hashlib
import json
from dataclasses import astuple, dataclass
from functools import cache

from ..core import derived
from .derivations import WORKER
from .links import FORMAT, LinkKernel, load_source

__all__ = ["Request", "derivation", "keep", "stored"]

_KIND = "links"


@dataclass(frozen=True)
class Request:
    """What a kernel answers: see `link_kernels.kernel_of`."""

    text: str
    tokens: int | None = None
    indices: int | None = None
    noise: str = "0"
    axes: tuple[tuple[int, ...], ...] = ()
    reduced: bool = True

    @property
    def digest(self) -> str:
        """Hash of the request, of what derives the kernel and of its layout: another version may answer otherwise."""
        # Spaces do not matter to the grammar, so neither here.
        asked = (" ".join(self.text.split()), *astuple(self)[1:])
        return hashlib.sha256(json.dumps([FORMAT, derivation(), asked]).encode()).hexdigest()


@cache
def derivation() -> str:
    """Digest of what derives links (`derived.derivation_of`)."""
    return derived.derivation_of(WORKER)


def stored(request: Request) -> LinkKernel | None:
    """Return the kernel that this request was answered with before, if it is in the cache and may be trusted."""
    found = derived.stored(_KIND, request.digest)
    return None if found is None else load_source(*found)


def keep(request: Request, source: bytes) -> LinkKernel:
    """Write a kernel and which request it answers into the cache, or where that fails to a temporary folder."""
    return load_source(*derived.keep(_KIND, request.digest, source))
