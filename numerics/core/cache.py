"""The user's cache folder, and whether what lies there may be trusted."""

import atexit
import contextlib
import os
import shutil
import stat
import sys
import tempfile
from functools import partial
from pathlib import Path

from .notes import note
from .watch import on_sudden_end

__all__ = ["cache_folder", "private_folder", "read_private", "temporary_folder"]

# Permissions of others to write, and others' of any kind.
_WRITE, _ANY = 0o022, 0o077

# Folders of this process that stand in for those of the cache.
_instead: dict[Path, Path | None] = {}


class _UntrustedError(Exception):
    """Others may have put into a folder what lies there."""


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


def private_folder(name: str) -> Path | None:
    """Sub-folder of the cache that nobody else may write, made where it is missing, with a folder ``requests``.

    Returns
    -------
    Path or None
        Where the cache belongs to others, is open to them, or cannot be made: a temporary folder of this process, as a
        line on stderr says; None where there is no room for one either.
    """
    try:
        folder = cache_folder(name)
    except RuntimeError:  # no home
        folder = Path("~") / ".cache" / "attnlimits" / name
        return temporary_folder(name, "cannot be found, as there is no home folder", folder)
    if folder in _instead:
        return _instead[folder]
    try:
        _make_private(folder)
    except _UntrustedError as error:
        return temporary_folder(name, str(error))
    except OSError as error:
        return temporary_folder(name, f"cannot be made ({error.strerror})")
    return folder


def temporary_folder(name: str, reason: str, folder: Path | None = None) -> Path | None:
    """Folder that stands in for a sub-folder of the cache until this process ends; the first time a line says why."""
    folder = cache_folder(name) if folder is None else folder
    if folder not in _instead:
        _instead[folder] = made = _temporary()
        until = "is not kept" if made is None else "is kept in a temporary folder until this command ends"
        note(f"the cache {folder} {reason}: what is derived {until}; set ATTNLIMITS_CACHE to a folder of your own")
    return _instead[folder]


def read_private(path: Path) -> bytes | None:
    """Content of a file that nobody but its owner, the user or root, may write; None where there is no such file."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    # No file of the cache is larger.
    largest = 2**26
    try:
        with os.fdopen(os.open(path, flags), "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or not _ours(status) or status.st_size > largest:
                return None
            if os.name == "posix" and status.st_mode & _WRITE:
                return None
            return stream.read(largest)
    except OSError:
        return None


def _make_private(folder: Path) -> None:
    root = folder.parent
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = root.stat()
    if not _ours(status):
        raise _UntrustedError(f"lies in {root}, which belongs to another user (number {status.st_uid})")
    # Where the sticky bit is set, others cannot replace what is not theirs.
    if os.name == "posix" and status.st_mode & _WRITE and not status.st_mode & stat.S_ISVTX:
        if os.environ.get("ATTNLIMITS_CACHE"):
            raise _UntrustedError(f"lies in {root}, which others may write (`chmod go-w` closes it)")
        root.chmod(0o700)  # the package's own folder, made under a lax mask
    for place in (folder, folder / "requests"):
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        status = place.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise _UntrustedError(f"is no folder of its own: {place} is a link or a file")
        if not _ours(status):
            raise _UntrustedError(f"belongs to another user (number {status.st_uid})")
        if os.name == "posix" and status.st_mode & _ANY:
            place.chmod(0o700)


def _ours(status: os.stat_result) -> bool:
    """Whether it belongs to the user or to root."""
    return os.name != "posix" or status.st_uid in (0, os.geteuid())


def _temporary() -> Path | None:
    try:
        made = Path(tempfile.mkdtemp(prefix="attnlimits-"))
        (made / "requests").mkdir(mode=0o700)
    except OSError:
        return None
    remove = partial(shutil.rmtree, made, ignore_errors=True)
    atexit.register(remove)
    on_sudden_end(remove)
    return made
