"""Sources that were derived, in the user's cache: content that is checked before it is executed.

    CACHE/<kind>/<sha256 of the content>.py     sources
    CACHE/<kind>/requests/<hash of the request> the request again, and the hash of the source that answers it

Sources are Python code. One is executed only if its name is the hash of what it holds and nobody but its owner, the
user or root, may write it; the folders are the user's own, closed to others (`cache.private_folder`). Whatever fails a
check is derived again. That guards against other users of the machine and against damage, not against programs that
run as the same user: these could as well change the package.
"""

import contextlib
import hashlib
import re
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from .cache import private_folder, read_private, temporary_folder
from .files import write_whole
from .identity import source_hash

__all__ = ["Derived", "derivation_of", "keep", "stored", "write_source"]

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Derived(NamedTuple):
    """A source that may be executed, and its file: a name alone where there is no folder that it can be kept in."""

    source: bytes
    path: Path


def derivation_of(*modules: str) -> str:
    """Digest of the sources that derive something, and of the version of SymPy; neither is imported for it.

    Raises
    ------
    KernelNotFoundError
        There are no sources: what lies in the cache could not be told from that of another version.
    """
    return hashlib.sha256(f"{metadata.version('sympy')} {source_hash(*modules)}".encode()).hexdigest()


def stored(kind: str, request: str) -> Derived | None:
    """Return what answered a request before, if it is in the cache and may be trusted.

    Parameters
    ----------
    kind : str
        Sub-folder of the cache.
    request : str
        Hash of what is asked for and of what derives it.
    """
    folder = private_folder(kind)
    note = None if folder is None else read_private(folder / "requests" / request)
    if folder is None or note is None:
        return None
    asked, _, digest = note.decode("ascii", "replace").strip().partition(" ")
    # Never a path: the hash of a source, and only as an answer to this very request.
    if asked != request or not _DIGEST.fullmatch(digest):
        return None
    path = folder / f"{digest}.py"
    source = read_private(path)
    if source is None or hashlib.sha256(source).hexdigest() != digest:
        return None
    return Derived(source, path)


def keep(kind: str, request: str, source: bytes) -> Derived:
    """Write a source and which request it answers into the cache, or where that fails to a temporary folder."""
    folder = private_folder(kind)
    if folder is not None:
        try:
            return Derived(source, _write(folder, request, source))
        except OSError as error:
            folder = temporary_folder(kind, f"cannot be written ({error.strerror})")
    if folder is not None:
        with contextlib.suppress(OSError):
            return Derived(source, _write(folder, request, source))
    return Derived(source, Path(_name(source)))


def write_source(folder: Path, source: bytes, mode: int = 0o666) -> Path:
    """Write a source whole or not at all into a folder, under the hash of what it holds; return its path."""
    path = folder / _name(source)
    write_whole(path, source, mode)
    return path


def _name(source: bytes) -> str:
    return f"{hashlib.sha256(source).hexdigest()}.py"


def _write(folder: Path, request: str, source: bytes) -> Path:
    # The source first: a note never names one that is not there.
    path = write_source(folder, source, 0o600)
    write_whole(folder / "requests" / request, f"{request} {path.stem}\n".encode(), 0o600)
    return path
