"""Arrays read from files that NumPy writes: what a header claims is checked before memory is taken for it.

A .npy file is mapped or read only if it holds the entries that its header names. The arrays of a .npz file are
compressed, and a short file may inflate to much: of each no more is inflated than its own header names, and only if
the directory of the file names the same size and DEFLATE can reach it. Nothing is unpickled.
"""

import io
import math
import stat
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy

from .files import replace_whole
from .memory import refuse_memory
from .typing import Numbers

__all__ = ["read_array", "read_arrays", "read_named", "regular", "write_array", "write_arrays"]

# How files begin.
_NPY, _ZIP = b"\x93NUMPY", b"PK"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# NumPy parses headers by `ast`, whose recursion depth all threads share in Python 3.11 before 3.11.8 (python/cpython
# issue 106905): two at once fail with a SystemError. The filters of `warnings` are shared by threads, too.
_ONE_AT_A_TIME = threading.Lock()


class _RefusedError(ValueError):
    """What is wrong with a file, in words for its reader."""


class _MissingError(ValueError):
    """A file of the right kind without what is looked for."""


@dataclass(frozen=True)
class _Header:
    """What stands before the entries of an array."""

    shape: tuple[int, ...]
    column_major: bool
    dtype: np.dtype[np.floating]
    length: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)


def regular(name: str, path: Path) -> int:
    """Return the size of a regular file, or refuse folders, devices and pipes, which may never end.

    Parameters
    ----------
    name : str
        Of the file in messages, such as "--x x.npy".
    path : Path

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        It is none with a beginning and an end.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise ValueError(f"{name} is a folder; give a file")
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{name} is no regular file but a device or a pipe; write the data to a file, and give that")
    return found.st_size


def read_array(flag: str, path: Path, *, mapped: bool = True) -> Numbers:
    """Read one array of real numbers from a .npy file.

    Parameters
    ----------
    flag : str
        The argument that names the file, for messages; may be empty.
    path : Path
    mapped : bool, keyword-only
        Map the file into memory, read-only, instead of reading it.

    Returns
    -------
    ndarray

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        No .npy file, one that is cut short or damaged, or whose entries are no real numbers.
    MemoryError
        It does not fit into memory, and is not to be mapped.
    """
    name = f"{flag} {path}".strip()
    size = regular(name, path)
    with path.open("rb") as stream, _no_file(name, ".npy", "save"):
        header = _header(stream)
        _check_entries(header)
        there = size - header.length
        if there < header.nbytes:
            raise _RefusedError(
                f"its header has shape {header.shape}, {header.nbytes} bytes, and {there} are there: it is cut short"
            )
        if not mapped:
            refuse_memory(name, header.nbytes, "give fewer samples")
        array = _mapped(path, header)
    return array if mapped else array.copy(order="K")


def read_arrays(flag: str, path: Path, names: Sequence[str]) -> dict[str, Numbers]:
    """Read arrays of real numbers from a .npz file by their names.

    Parameters
    ----------
    flag : str
        The argument that names the file, for messages; may be empty.
    path : Path
    names : sequence of str

    Returns
    -------
    dict of ndarray

    Raises
    ------
    OSError
        The file cannot be read.
    ValueError
        No .npz file, one that is cut short or damaged, a name that it has not, or entries that are no real numbers.
    MemoryError
        The arrays do not fit into memory.
    """
    name = f"{flag} {path}".strip()
    regular(name, path)
    with path.open("rb") as stream, _no_file(name, ".npz", "savez"), zipfile.ZipFile(stream) as archive:
        found = {key: member for key in names if (member := _member(archive, key)) is not None}
        if missing := [key for key in names if key not in found]:
            held = ", ".join(there.removesuffix(".npy")[:20] for there in archive.namelist()[:5]) or "nothing"
            raise _MissingError(
                f"{name} has no array {', '.join(missing)}; it must hold {', '.join(names)}, got {held}"
            )
        for key, member in found.items():
            _check_member(member, key)
        refuse_memory(name, sum(member.file_size for member in found.values()), "give fewer samples")
        return {key: _inflated(archive, member, key) for key, member in found.items()}


def read_named(flag: str, path: Path, key: str) -> Numbers:
    """Read the one array of a .npy file, or the one of a name from a .npz file; its first bytes decide which it is.

    Raises
    ------
    OSError, ValueError, MemoryError
        As `read_array` and `read_arrays`.
    """
    name = f"{flag} {path}".strip()
    regular(name, path)
    with path.open("rb") as stream:
        begin = stream.read(len(_NPY))
    if begin.startswith(_NPY):
        return read_array(flag, path, mapped=False)
    if not begin.startswith(_ZIP):
        raise ValueError(f"{name} is no .npy or .npz file of numbers, as numpy.save and numpy.savez write them")
    return read_arrays(flag, path, (key,))[key]


@contextmanager
def _no_file(name: str, kind: str, writer: str) -> "Iterator[None]":
    """Say of whatever goes wrong in reading a file that it is none of its kind."""
    try:
        yield
    except (MemoryError, _MissingError):
        raise
    except _RefusedError as error:
        why = str(error)
    except Exception as error:
        # Hostile bytes raise nearly anything in the readers of zip files, headers and compressed data.
        why = f"{type(error).__name__} in reading it, {' '.join(str(error).split())[:80]}"
    else:
        return
    raise ValueError(f"{name} is no {kind} file of numbers, as numpy.{writer} writes it: {why}") from None


def _header(stream: IO[bytes]) -> _Header:
    prefix = stream.read(8)
    if len(prefix) < 8 or not prefix.startswith(_NPY):
        raise _RefusedError("it does not begin as one")
    version = (prefix[6], prefix[7])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise _RefusedError(f"its format {version[0]}.{version[1]} is unknown")
    # Three is two with names of fields in UTF-8, and fields are refused.
    count, read = (2, npy.read_array_header_1_0) if version[0] == 1 else (4, npy.read_array_header_2_0)
    field = stream.read(count)
    length = int.from_bytes(field, "little")
    # Longest header, in bytes: NumPy's own bound on what it evaluates.
    header = 10_000
    if len(field) < count or length > header:
        raise _RefusedError(f"its header of {length} bytes is longer than {header}, or cut short")
    text = stream.read(length)
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            shape, column_major, dtype = read(io.BytesIO(field + text))
        except MemoryError:  # of parentheses that are nested too deep
            raise _RefusedError("its header cannot be read") from None
    return _Header(shape, column_major, dtype, len(prefix) + count + length)


def _check_entries(header: _Header) -> None:
    """Refuse what are no real numbers, and shapes that no array has."""
    dtype = header.dtype
    if dtype.hasobject:
        raise _RefusedError("it holds Python objects, which are never unpickled; store numbers, as by .astype(float)")
    if dtype.kind not in "iuf":
        kind = {"c": "complex numbers", "b": "True and False", "V": "records of several fields"}.get(dtype.kind)
        raise _RefusedError(f"it holds {kind or 'no numbers'} ({str(dtype)[:40]}), expected real numbers")
    axes = 32
    if len(header.shape) > axes or any(n < 0 for n in header.shape):
        raise _RefusedError(f"no array has the shape {header.shape[:axes]}")
    if math.prod(max(n, 1) for n in header.shape) * dtype.itemsize > sys.maxsize:
        raise _RefusedError(f"its shape {header.shape} has more entries than memory has addresses")


def _mapped(path: Path, header: _Header) -> Numbers:
    order: Literal["F", "C"] = "F" if header.column_major else "C"
    if not header.nbytes:
        return np.empty(header.shape, header.dtype, order)
    return np.memmap(path, header.dtype, "r", header.length, header.shape, order)


def _member(archive: zipfile.ZipFile, key: str) -> zipfile.ZipInfo | None:
    return archive.NameToInfo.get(f"{key}.npy", archive.NameToInfo.get(key))


def _check_member(member: zipfile.ZipInfo, key: str) -> None:
    if member.compress_type not in _METHODS:
        raise _RefusedError(f"{key} is compressed in another way than by numpy.savez_compressed")
    if member.flag_bits & 1:
        raise _RefusedError(f"{key} is encrypted")
    # DEFLATE makes no more of a byte than so many (RFC 1951: 258 bytes from two codes of one bit each).
    deflate = 1032
    if member.file_size > deflate * (member.compress_size + 1):
        raise _RefusedError(f"{key} cannot inflate from {member.compress_size} bytes to {member.file_size}")


def _inflated(archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str) -> Numbers:
    with archive.open(member) as stream:
        header = _header(stream)
        _check_entries(header)
        if member.file_size != header.length + header.nbytes:
            raise _RefusedError(
                f"{key} of shape {header.shape} has {header.nbytes} bytes, and {member.file_size - header.length} are "
                "stored"
            )
        array = np.empty(header.shape, header.dtype, "F" if header.column_major else "C")
        _fill(array.reshape(-1, order="A").view(np.uint8), stream.read)
    return array


def write_array(path: Path, array: Numbers) -> None:
    """Write a .npy file, whole or not at all."""
    with replace_whole(path) as part, part.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write a .npz file, whole or not at all."""
    with replace_whole(path) as part, part.open("wb") as stream:
        np.savez(stream, **arrays)


def _fill(there: Numbers, read: Callable[[int], bytes]) -> None:
    done = 0
    # Bytes inflated at a time.
    chunk = 1 << 20
    while done < len(there):
        part = read(min(chunk, len(there) - done))
        if not part:
            raise _RefusedError("it is cut short")
        there[done : done + len(part)] = memoryview(part)
        done += len(part)
    # At the end the checksum is compared.
    read(1)
