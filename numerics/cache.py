"""The user's cache folder."""

import os
import sys
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(name: str) -> Path:
    """Return a sub-folder of the package's cache; it is not created.

    ``ATTNLIMITS_CACHE`` if set; otherwise the place that the system keeps for caches: ``XDG_CACHE_HOME`` or
    ``~/.cache``, ``~/Library/Caches`` on macOS, ``LOCALAPPDATA`` on Windows.
    """
    own = os.environ.get("ATTNLIMITS_CACHE")
    if own:
        return Path(own).expanduser() / name
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        # The XDG rules ask to pass over a relative path.
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        base = xdg if os.path.isabs(xdg) else Path.home() / ".cache"
    return Path(base) / "attnlimits" / name
