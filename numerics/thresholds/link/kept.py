"""Thresholds of links that are asked for again: every fixed point of a link begins with the same one."""

from functools import lru_cache

from ...model.links import LinkKernel, Loaded
from .thresholds import LinkThreshold, threshold

__all__ = ["kept_threshold"]


def kept_threshold(kernel: LinkKernel) -> LinkThreshold | None:
    """Return the threshold of a link, computed once in a process; None where it is refused.

    Parameters
    ----------
    kernel : LinkKernel

    Returns
    -------
    LinkThreshold or None
        What `threshold` returns. Others share it: its eigenvector cannot be written.
    """
    return _of(Loaded.of(kernel))


@lru_cache(maxsize=128)
def _of(loaded: Loaded) -> LinkThreshold | None:
    try:
        found = threshold(loaded.kernel)
    except ValueError:
        return None
    found.eigenvector.flags.writeable = False
    return found
