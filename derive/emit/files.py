"""Printed files that appear whole or not at all."""

import contextlib
import os
import secrets
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Write a text by way of a temporary file of its own name beside `path`, flushed before it takes that name."""
    part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with part.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            # A write knows the number of its file only.
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
