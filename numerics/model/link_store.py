"""The kernels of links in the user's cache: content that is checked before it is executed.

    CACHE/links/<sha256 of the content>.py     kernels
    CACHE/links/requests/<hash of the request> the request again, and the hash of the kernel that answers it

Kernels are Python code. A file is executed only if its name is the hash of what it holds and nobody but its owner,
the user or root, may write it; the folders are the user's own, closed to others (`cache.private_folder`). Whatever
fails a check is derived again. That guards against other users of the machine and against damage, not against
programs that run as the same user: these could as well change the package.
"""

import contextlib
import hashlib
import json
import re
from dataclasses import astuple, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from ..core.cache import private_folder, read_private, temporary_folder
from ..core.files import write_whole
from ..core.identity import source_hash
from .derivations import WORKER
from .links import FORMAT, LinkKernel, load_source

__all__ = ["Request", "derivation", "keep", "stored", "write_kernel"]

_DIGEST = re.compile(r"[0-9a-f]{64}")


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
    """Digest of the sources that derive links, and of the version of SymPy; neither is imported for it.

    Raises
    ------
    KernelNotFoundError
        There are no sources: kernels in the cache could not be told from those of another version.
    """
    return hashlib.sha256(f"{metadata.version('sympy')} {source_hash(WORKER)}".encode()).hexdigest()


def stored(request: Request) -> LinkKernel | None:
    """Return the kernel that this request was answered with before, if it is in the cache and may be trusted."""
    folder = private_folder("links")
    note = None if folder is None else read_private(folder / "requests" / request.digest)
    if folder is None or note is None:
        return None
    asked, _, digest = note.decode("ascii", "replace").strip().partition(" ")
    # Never a path: the hash of a kernel, and only as an answer to this very request.
    if asked != request.digest or not _DIGEST.fullmatch(digest):
        return None
    path = folder / f"{digest}.py"
    source = read_private(path)
    if source is None or hashlib.sha256(source).hexdigest() != digest:
        return None
    return load_source(source, path)


def keep(request: Request, source: bytes) -> LinkKernel:
    """Write a kernel and which request it answers into the cache, or where that fails to a temporary folder."""
    folder = private_folder("links")
    if folder is not None:
        try:
            return load_source(source, _write(folder, request, source))
        except OSError as error:
            folder = temporary_folder("links", f"cannot be written ({error.strerror})")
    if folder is not None:
        with contextlib.suppress(OSError):
            return load_source(source, _write(folder, request, source))
    return load_source(source, Path(_name(source)))


def write_kernel(folder: Path, source: bytes, mode: int = 0o666) -> Path:
    """Write a kernel whole or not at all into a folder, under the hash of what it holds; return its path."""
    path = folder / _name(source)
    write_whole(path, source, mode)
    return path


def _name(source: bytes) -> str:
    return f"{hashlib.sha256(source).hexdigest()}.py"


def _write(folder: Path, request: Request, source: bytes) -> Path:
    # The kernel first: a note never names one that is not there.
    path = write_kernel(folder, source, 0o600)
    write_whole(folder / "requests" / request.digest, f"{request.digest} {path.stem}\n".encode(), 0o600)
    return path
