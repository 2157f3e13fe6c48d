"""Where results go: checked before the work begins, so that nothing is computed that cannot be stored."""

import errno
import os
from pathlib import Path

__all__ = ["FORMATS", "output_file", "output_folder", "picture_file"]

#: Formats of a picture: pixels, and two of lines.
FORMATS = ("png", "pdf", "svg")


def output_file(
    path: Path | None, suffix: str | None = None, *, flag: str = "--out", make: bool = False, stream: bool = False
) -> Path | None:
    """Return the path of a file that is to be written, with its suffix; None stays None.

    Parameters
    ----------
    path : Path, optional
    suffix : str, optional
        Replaces the one of `path`.
    flag : str, keyword-only
        The argument that names it, for messages.
    make : bool, keyword-only
        Missing folders will be made.
    stream : bool, keyword-only
        The file is written line by line: it may be a device or a pipe, which cannot be replaced as a whole.

    Raises
    ------
    OSError
        A folder is missing or cannot be written to, or the path is a folder.
    """
    if path is None:
        return None
    if path.is_dir() or not path.name:
        raise _refusal(errno.EISDIR, f"{flag} must name a file, and this is a folder; add a name", path)
    found = path if suffix is None else path.with_suffix(suffix)
    for there in (path, found):
        if there.is_dir():
            raise _refusal(errno.EISDIR, f"{flag} must name a file, and this is a folder; take another name", there)
        if there.exists() and not (stream or there.is_file()):
            raise _refusal(errno.EEXIST, f"{flag} must name a file, and this is a device or a pipe", there)
    if not make and not found.parent.exists():
        raise _refusal(errno.ENOENT, f"{flag} is in a folder that does not exist; make it first", found.parent)
    _check_folder(found.parent, flag)
    if found.exists() and not os.access(found, os.W_OK):
        raise _refusal(errno.EACCES, f"{flag} names a file that may not be written; take another", found)
    return found


def picture_file(path: Path | None, flag: str) -> Path | None:
    """Return the path of a picture that is to be written, in a folder that will be made; None stays None.

    Raises
    ------
    ValueError
        Its name does not end with one of `FORMATS`.
    OSError
        It cannot be written, see `output_file`.
    """
    if path is not None and path.suffix.removeprefix(".") not in FORMATS:
        raise ValueError(f"{flag} needs a name that ends with .{', .'.join(FORMATS)}; got {str(path)!r}")
    return output_file(path, flag=flag, make=True)


def output_folder(path: Path, flag: str = "--out") -> Path:
    """Return the path of a folder that is to be made or filled.

    Raises
    ------
    OSError
        It cannot be made or written to, or is a file.
    """
    _check_folder(path, flag)
    return path


def _check_folder(path: Path, flag: str) -> None:
    """Refuse a folder that cannot be written to, or made in the nearest one that exists."""
    there = path.absolute()
    while not _exists(there):
        there = there.parent
    if not there.is_dir():
        raise _refusal(errno.ENOTDIR, f"{flag} needs a folder, and this is none", there)
    if not os.access(there, os.W_OK | os.X_OK):
        raise _refusal(errno.EACCES, f"{flag} needs a folder that may be written to, and this one may not", there)


def _exists(path: Path) -> bool:
    """Whether something has this name; OSError where it is none, as one that is too long."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _refusal(number: int, why: str, path: Path) -> OSError:
    return OSError(number, why, str(path))
