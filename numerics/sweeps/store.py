"""The store of a sweep: one small file per point is the truth, all else is made from it.

    DIR/sweep.json          the grid, and the keys of its points
    DIR/points/<key>.json   one record, of parameters, result, error, versions, or of a failure with its reason
    DIR/sweep.nc            netCDF of all points, written anew at the end of each run, for xarray and others

Why not the netCDF file itself: HDF5 is changed in place, and a process killed while it writes leaves a file that no
longer opens. Why not zarr: its local store writes each chunk to a temporary file that replaces the old one, but does
not flush it to the disk, and a record of several arrays is several chunks, which a kill can part. A grid that is
edited moves points to other chunks, while a key stays what it is.

A record is written to a temporary file in the same folder, flushed, and renamed, by the process that computed it:
whoever looks sees the old state or the new one, and what is finished is kept. A checksum inside tells what a disk
damaged. One sweep writes at a time, under a lock that the system drops when its process ends, however it ends.
"""

import errno
import hashlib
import json
import math
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..core.files import PART, write_whole
from ..core.notes import note

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["DONE", "FAILED", "MAX_BYTES", "SCHEMA", "CorruptRecordError", "OldRecordError", "Store", "key_of"]

# Version of the record, part of every key: another layout or meaning makes old points stale. In the first one the key
# held the generated kernels alone, and neither the numerics nor the link.
SCHEMA = 2
DONE, FAILED = "done", "failed"
#: Size of the largest record that is written or read. Its numbers take about ten times as much in memory.
MAX_BYTES = 64 * 2**20

# The description of a sweep lists a key of some forty bytes for every point of the grid.
_MAX_MANIFEST_BYTES = 4 * MAX_BYTES
_KEY = re.compile(r"[0-9a-f]+")
Record = dict[str, Any]

# Types of what a reader takes from a record; `state`, `schema` and `key` are compared as a whole.
_RECORD_TYPES: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "parameters": dict,
    "reason": (str, type(None)),
    "result": dict,
    "seconds": (int, float),
    "versions": dict,
}
_MANIFEST_TYPES: dict[str, type | tuple[type, ...]] = {
    "schema": int,
    "task": str,
    "fixed": dict,
    "axes": dict,
    "keys": list,
}


class CorruptRecordError(ValueError):
    """A record cannot be read, is cut short, changed, or not the one its name says."""


class OldRecordError(CorruptRecordError):
    """A record is whole, and of an earlier layout."""


def key_of(task: str, parameters: Record, identity: str) -> str:
    """Key of a point: hash of the task, the canonical parameters, what computes the numbers, and the layout."""
    return _hash([SCHEMA, task, parameters, identity])[:32]


def _hash(content: object) -> str:
    # Floats are written so that they read back as the same float: the hash sees all their digits.
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """The folder of a sweep.

    Parameters
    ----------
    folder : path
        It need not exist yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.points = self.folder / "points"
        self.netcdf = self.folder / "sweep.nc"
        self._manifest = self.folder / "sweep.json"

    def manifest(self) -> Record:
        """Return the grid of the store and the keys of its points: schema, task, fixed, axes, keys.

        Where they are of an earlier layout, a line on stderr says so.

        Raises
        ------
        ValueError
            There is no sweep in the folder.
        CorruptRecordError
            Its description is damaged.
        """
        if not self._manifest.is_file():
            raise ValueError(f"there is no sweep in {self.folder}")
        there = _load(self._manifest, _MAX_MANIFEST_BYTES)
        _check_types(self._manifest, there, _MANIFEST_TYPES)
        axes, keys = there["axes"].values(), there["keys"]
        if not all(isinstance(values, list) for values in axes) or math.prod(map(len, axes)) != len(keys):
            raise CorruptRecordError(f"{self._manifest} does not have one key for each point of its axes")
        # A key is a file name: nothing else may stand in its place.
        if not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys):
            raise CorruptRecordError(f"{self._manifest} has a key that is none")
        if there["schema"] < SCHEMA:
            note(
                f"{self.folder} holds a sweep of layout {there['schema']}, and this version reads {SCHEMA}: its "
                "records are kept and not used, and the same command computes every point again"
            )
        return there

    @contextmanager
    def writing(self, grid: Record, keys: Sequence[str]) -> Iterator[None]:
        """Hold the store for one writer, with this grid; what a killed process left half-written is removed.

        At the beginning, what an earlier writer left; at the end, what processes that this one has ended left.

        Parameters
        ----------
        grid : dict
            task, fixed, axes. The values of fixed parameters and axes may differ from those in the store (points that
            are known stay known), the task and the names of the axes may not.
        keys : sequence of str
            Keys of all points, the last axis fastest.

        Raises
        ------
        ValueError
            The folder holds another sweep, or other files; another process writes to it.
        """
        self._check_other_files()
        self.points.mkdir(parents=True, exist_ok=True)
        # Opened to append: were the name a link to another file, that one keeps its content.
        with (self.folder / ".lock").open("a", encoding="utf-8") as lock:
            _acquire(lock, self.folder)
            self._remove_parts()
            self._check_same_sweep(grid)
            _save(self._manifest, {"schema": SCHEMA, **grid, "keys": list(keys)})
            try:
                yield
            finally:
                with suppress(OSError):  # what is stored stands; the next writer removes them
                    self._remove_parts()

    def _remove_parts(self) -> None:
        for part in [*self.folder.glob("*" + PART), *self.points.glob("*" + PART)]:
            part.unlink(missing_ok=True)

    def _check_other_files(self) -> None:
        if (
            self.folder.exists()
            and not self._manifest.exists()
            and not self.points.exists()
            and any(self.folder.iterdir())
        ):
            raise ValueError(f"{self.folder} holds other files and no sweep; give a new folder")

    def _check_same_sweep(self, grid: Record) -> None:
        try:
            there = self.manifest()
        except ValueError:  # none, or damaged: the grid is known, so it is written again
            return
        for what, old, new in (
            ("task", there["task"], grid["task"]),
            ("axes", ", ".join(sorted(there["axes"])), ", ".join(sorted(grid["axes"]))),
        ):
            if old != new:
                raise ValueError(
                    f"{self.folder} holds the sweep of another grid, with {what} {old}, where this one has {new}; "
                    "give another folder"
                )

    def write(self, key: str, record: Record) -> None:
        """Write one record, whole or not at all."""
        path = self.points / f"{key}.json"
        if path.exists() and not path.is_file() and not path.is_dir():
            path.unlink()  # a pipe or a device, which `read` has refused: the folder of records is the sweep's own
        _save(path, {"schema": SCHEMA, "key": key, **record})

    def read(self, key: str) -> Record | None:
        """Read one record; None if there is none.

        Raises
        ------
        CorruptRecordError
            The file is damaged, or no file that can be read.
        OldRecordError
            It is of an earlier layout.
        IsADirectoryError
            A folder has the name of the record, so that none can be written.
        """
        path = self.points / f"{key}.json"
        try:
            record = _load(path, MAX_BYTES)
        except FileNotFoundError:
            return None
        if record.get("key") == key and record.get("schema") in range(1, SCHEMA):
            raise OldRecordError(f"{path} has the layout {record['schema']}, and this version reads {SCHEMA}")
        if record.get("key") != key or record.get("schema") != SCHEMA or record.get("state") not in (DONE, FAILED):
            raise CorruptRecordError(f"{path} is not the record of its name")
        _check_types(path, record, _RECORD_TYPES)
        if record["state"] == FAILED and record["reason"] is None:
            raise CorruptRecordError(f"{path} is a failure without its reason")
        if not 0 <= record["seconds"] < sys.float_info.max:
            raise CorruptRecordError(f"{path} took a time that is none")
        return record


def _save(path: Path, record: Record) -> None:
    whole = record | {"checksum": _hash(record)}
    text = json.dumps(whole, indent=1, allow_nan=False)
    # Up to this length records are indented for those who read them.
    long = 2**20
    if len(text) > long:
        text = json.dumps(whole, separators=(",", ":"), allow_nan=False)
    write_whole(path, (text + "\n").encode())


def _load(path: Path, most: int) -> Record:
    text = _bytes(path, most)
    try:
        # Beyond JSON, Python reads NaN and, for 1e999, infinity: neither is ever written, and neither has a hash.
        record = json.loads(text)
        expected = _hash({k: v for k, v in record.items() if k != "checksum"}) if isinstance(record, dict) else None
    except (ValueError, RecursionError):
        raise CorruptRecordError(f"{path} is cut short or damaged") from None
    if expected is None or record.pop("checksum", None) != expected:
        raise CorruptRecordError(f"{path} does not match its checksum")
    return record


def _bytes(path: Path, most: int) -> bytes:
    """Content of a plain file; a device or a pipe may have no end, or never begin."""
    try:
        about = path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CorruptRecordError(f"{path} is a link to itself") from None
        raise
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder has the name of a record; move it away", str(path))
    if not stat.S_ISREG(about.st_mode):
        raise CorruptRecordError(f"{path} is no plain file")
    if about.st_size > most:
        raise CorruptRecordError(f"{path} has {about.st_size} bytes, and a record at most {most}")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CorruptRecordError(f"{path} cannot be read ({error.strerror})") from None


def _check_types(path: Path, record: Record, types: dict[str, type | tuple[type, ...]]) -> None:
    for name, kind in types.items():
        if name not in record or not isinstance(record[name], kind):
            raise CorruptRecordError(f"{path} has no {name}, or one of another type")


def _acquire(lock: IO[str], folder: Path) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        raise ValueError(f"another sweep is writing to {folder}; wait for it, or give another folder") from None
    except OSError as error:
        # Some network file systems have no locks; there it is up to the user that no two sweeps share a folder.
        note(f"{folder} cannot be locked ({error.strerror}): run one sweep at a time")
