"""Kernels of links given as text: from the cache, or derived and kept there.

The derivation runs in a process of its own, and only for a link whose kernel is not in the cache yet: SymPy is
imported there, and not here.
"""

from dataclasses import asdict

from ..core.errors import ConvergenceError
from .derivations import derive_link
from .link_store import Request, keep, stored
from .links import LinkKernel

__all__ = ["kernel_of", "noiseless_of", "source_of"]


def kernel_of(
    text: str,
    *,
    tokens: int | None = None,
    indices: int | None = None,
    noise: str = "0",
    fresh: bool = False,
    axes: tuple[tuple[int, ...], ...] = (),
    reduced: bool = True,
) -> LinkKernel:
    """Kernel of a link: from the cache, or derived and written there.

    Parameters
    ----------
    text : str
        The link in h[p, m].
    tokens, indices : int, optional
        M and P; by default the largest that occur.
    noise : str
        Variance of the output noise, in decimal or as a fraction.
    fresh : bool
        Derive also where the cache holds the kernel.
    axes : tuple of tuple of int
        If not empty, P orthogonal vectors along which the indices are to be counted.
    reduced : bool
        Without noise, outer strictly monotone functions and repeated outputs are left out, which tell nothing more
        about h; False keeps every output as it is with noise.

    Raises
    ------
    ValueError
        The link cannot be read or solved; the message names the part.
    ConvergenceError
        Its derivation took too long or too much memory.
    """
    request = Request(text, tokens, indices, noise, axes, reduced)
    if not fresh and (kernel := stored(request)) is not None:
        return kernel
    return keep(request, source_of(request))


def noiseless_of(kernel: LinkKernel, text: str) -> LinkKernel | None:
    """The same outputs without noise, whose branches place nodes where the noise is narrow.

    Parameters
    ----------
    kernel : LinkKernel
        Of a link with noise.
    text : str
        What it was derived from.

    Returns
    -------
    LinkKernel or None
        None for a kernel without noise, and where the link without noise has no closed branches: nodes are then
        placed by the noise alone.
    """
    if not kernel.noise:
        return None
    try:
        return kernel_of(text, tokens=kernel.tokens, indices=kernel.indices, reduced=False)
    except (ValueError, ConvergenceError):
        return None


def source_of(request: Request) -> bytes:
    """Derive a link; return the source of its kernel."""
    return derive_link(asdict(request))
