"""Memory: what a computation may take, asked before it is taken."""

import math
import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource

__all__ = ["memory_limit", "refuse_memory"]

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")


def memory_limit() -> int:
    """Return the bytes that a computation may take: of the machine, its control group and the limit of the process."""
    limits = [_physical(), *_control_group()]
    if sys.platform != "win32":
        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            soft = resource.getrlimit(kind)[0]
            if soft != resource.RLIM_INFINITY:
                limits.append(soft)
    # Of the memory that is there, the rest is for the system and for what a computation takes beside its arrays.
    share = 0.8
    return int(share * min(limits))


def refuse_memory(what: str, size: float, remedy: str) -> None:
    """Raise MemoryError if `size` bytes are more than this process may take.

    Parameters
    ----------
    what : str
        What would take it, such as "--dimension 200000".
    size : float
        Bytes.
    remedy : str
        What to try, such as "give a smaller --dimension".

    Raises
    ------
    MemoryError
        With one sentence that has the memory it would take, and the memory there is.

    Examples
    --------
    >>> refuse_memory("--samples 4096", 4096 * 64, "give fewer samples")
    """
    limit = memory_limit()
    if size > limit:
        raise MemoryError(f"{what} would take {_text(size)} of memory, and {_text(limit)} may be taken here; {remedy}")


def _text(size: float) -> str:
    if size > 1e300:
        return "more than 1e300 bytes"
    power = min(max(1, int(math.log2(max(size, 1)) // 10)), len(_UNITS))
    return f"{size / 1024**power:.3g} {_UNITS[power - 1]}"


def _physical() -> int:
    # Where the system does not say what it has.
    usual = 8 * 2**30
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return usual


def _control_group() -> list[int]:
    """Limits of a container."""
    found = []
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return found
