"""Files that appear whole or not at all."""

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .watch import on_sudden_end

__all__ = ["PART", "naming", "replace_whole", "write_json", "write_whole"]

#: How the names of half-written files end.
PART = ".part"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors of the disk name the file: those of a write know only its number."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def replace_whole(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Give a temporary path to write to; it is flushed to the disk and takes the name `path` in one step.

    The temporary file lies in the folder of `path`, under a name of its own: any number of processes and threads may
    write the same `path`, and the last one to finish is what stands there. It is removed if writing fails.

    Parameters
    ----------
    path : Path
        Its folder exists.
    mode : int, optional
        Permissions of a new file, less those that the process masks.

    Raises
    ------
    OSError
        The disk refuses, or `path` is no regular file; it is as it was.
    """
    if not path.is_symlink() and path.exists() and not path.is_file():
        # The system would let root put a file in the place of /dev/null.
        raise OSError(
            errno.EEXIST, "a folder, a device or a pipe is not replaced by a file; give another name", str(path)
        )
    part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}{PART}")
    done = on_sudden_end(part.unlink)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        with naming(path):
            yield part
            with part.open("rb+") as stream:
                os.fsync(stream.fileno())
            part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    finally:
        done()
    if os.name == "posix":  # elsewhere folders cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file whole or not at all, see `replace_whole`."""
    with replace_whole(path, mode) as part:
        part.write_bytes(content)


def write_json(path: Path, record: object, *, allow_nan: bool = True) -> None:
    """Write a JSON file whole or not at all, in a folder that is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(record, indent=1, allow_nan=allow_nan) + "\n").encode())
