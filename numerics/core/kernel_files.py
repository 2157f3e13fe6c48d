"""Files of compiled kernels: with a checksum, in a folder that can be written, or else in a private temporary one."""

import atexit
import contextlib
import hashlib
import io
import multiprocessing
import os
import pickle
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
    ZipCacheLocator,
)

from .identity import kernel_hash
from .notes import note
from .watch import on_sudden_end

__all__ = ["CheckedCache", "CheckedFile", "Locator", "attach", "settle"]

#: Environment variable by which a process tells those it starts of its private folder.
PRIVATE = "ATTNLIMITS_PRIVATE_KERNELS"
_PACKAGE = __name__.partition(".")[0] + "."
# At the end of the name, so that no file of numba's own layout is taken for one of these.
_LAYOUT = "-checked1"
_DIGEST = hashlib.sha256().digest_size


def _is_ours(function: Callable[..., object]) -> bool:
    return function.__module__.startswith(_PACKAGE)


class CheckedFile(IndexDataCacheFile):
    """Index and data of one function, each file with its SHA-256 at the end; pickle passes over what follows its end.

    Machine code has no redundancy: one changed byte may be another number. The key is kept beside the data, since two
    processes that compile two signatures at the same time give both the same file name.
    """

    def save(self, key: object, data: object) -> None:
        """Save the data of a signature."""
        super().save(key, (key, data))

    def load(self, key: object) -> object:
        """Data of a signature, None if there are none."""
        found = super().load(key)
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> dict[object, str]:
        content = _whole(self._index_path)
        if content is None:
            return {}
        stream = io.BytesIO(content)
        if pickle.load(stream) != self._version:
            return {}  # the rest may be of classes that are no more
        try:
            stamp, names = pickle.load(stream)
        except (AttributeError, ImportError):
            return {}  # of arguments whose classes were moved or renamed since, with the sources
        return dict(names) if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> object:
        content = _whole(self._data_path(name))
        return None if content is None else pickle.loads(content)

    @contextmanager
    def _open_for_write(self, path: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        part = Path(f"{path}.tmp.{secrets.token_hex(8)}")
        try:
            part.write_bytes(content.getvalue() + hashlib.sha256(content.getvalue()).digest())
            os.replace(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink()
            raise


def _whole(path: str) -> bytes | None:
    """Content of a file without its checksum; None where there is no file, or one that is damaged."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return None
    if hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:]:
        return content[:-_DIGEST]
    _say_once(f"the compiled kernel {path} is damaged{_variable()}; it is compiled again")
    return None


class Locator:
    """Numba's own choices of a folder for a source file in numba's order, and a private temporary one after them."""

    usual: tuple[Any, ...] = (UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator, ZipCacheLocator)

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> Any:
        """Return the locator of a function of this package."""
        for kind in cls.usual:
            if kind is UserWideCacheLocator and not os.path.isabs(os.path.expanduser("~")):
                continue  # without a home it would make a folder named ~
            locator = kind.from_function(function, file)
            if locator is not None:
                return locator
            if kind is UserProvidedCacheLocator and config.CACHE_DIR:
                _say_once(
                    f"NUMBA_CACHE_DIR={config.CACHE_DIR} cannot be written, so compiled kernels are not kept there; "
                    "set it to a folder that can"
                )
        return _PrivateLocator(function, file)


class _PrivateLocator(UserProvidedCacheLocator):
    """A folder of this process and those it starts, removed at its end."""

    def __init__(self, function: Callable[..., object], file: str) -> None:
        super().__init__(function, file)
        self._cache_path = os.path.join(_private_folder(), self.get_suitable_cache_subpath(file))


def _private_folder() -> str:
    """Return the folder; where there is not even a temporary one, a name that cannot be written to."""
    inherited = os.environ.get(PRIVATE)
    if inherited is not None and (inherited == os.devnull or _is_private(inherited)):
        return inherited
    _say_once(
        "compiled kernels cannot be kept: neither the installation nor the user's cache folder can be written, so each "
        "run compiles them again; set NUMBA_CACHE_DIR to a folder that can be written"
    )
    try:
        folder = tempfile.mkdtemp(prefix="attnlimits-kernels-")
    except OSError:
        folder = os.devnull
    else:
        atexit.register(_remove, folder, os.getpid())
        on_sudden_end(partial(_remove, folder, os.getpid()))
    os.environ[PRIVATE] = folder
    return folder


def _is_private(folder: str) -> bool:
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    owned = sys.platform == "win32" or (about.st_uid == os.getuid() and not about.st_mode & 0o077)
    return stat.S_ISDIR(about.st_mode) and owned


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # and no copy of it
        shutil.rmtree(folder, ignore_errors=True)
        if os.environ.get(PRIVATE) == folder:
            del os.environ[PRIVATE]


def settle() -> None:
    """Choose the folder of a kernel as good as any."""
    Locator.from_function(settle, __file__)


class _Located(CompileResultCacheImpl):
    """What numba keeps of a kernel, in the folder of `Locator`."""

    _locator_classes = (Locator,)


class CheckedCache(FunctionCache):
    """Cache of a kernel of this package: with checked files, and without an error of the disk.

    Parameters
    ----------
    function : callable
        In Python.
    """

    _impl_class = _Located

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        # Of its own file; and of those whose functions and constants it may hold.
        stamp = (self._impl.locator.get_source_stamp(), kernel_hash(function.__module__))
        self._cache_file = CheckedFile(self._cache_path, self._impl.filename_base + _LAYOUT, stamp)

    def load_overload(self, sig: object, target_context: object) -> object:
        """Load a signature; None where there is none, or the disk refuses."""
        found = None
        with self._compiled_otherwise():
            found = super().load_overload(sig, target_context)
        return found

    def save_overload(self, sig: object, data: object) -> None:
        """Save a signature, unless the disk refuses."""
        with self._compiled_otherwise():
            super().save_overload(sig, data)

    @contextmanager
    def _compiled_otherwise(self) -> Iterator[None]:
        """Say that a kernel is neither loaded nor saved: it is compiled in this run, and correct."""
        try:
            yield
        except OSError as error:
            where = error.filename or self._cache_path
            if os.environ.get(PRIVATE) != os.devnull:
                _say_once(
                    f"compiled kernels cannot be kept in {where}{_variable()}: {error.strerror or error}; "
                    "set NUMBA_CACHE_DIR to a folder with room that can be written"
                )


def attach(dispatcher: ModuleType) -> None:
    """Have functions of this package cached by `CheckedCache` from now on, others as ever.

    They are compiled without the entry for callers in C, which is a tenth of the work: functions that are called by
    their address have one of their own (`arithmetic.addresses`).
    """
    usual = dispatcher.Dispatcher.enable_caching
    if usual.__module__ == __name__:
        return

    def enable_caching(self: Any) -> None:
        if _is_ours(self.py_func):
            self._cache = CheckedCache(self.py_func)
            self.targetoptions.setdefault("no_cfunc_wrapper", True)
        else:
            usual(self)

    dispatcher.Dispatcher.enable_caching = enable_caching


_said: list[str] = []


def _say_once(sentence: str) -> None:
    """Print the first such sentence of the process on stderr; worker processes leave it to the first one."""
    if not _said and multiprocessing.parent_process() is None:
        with contextlib.suppress(OSError, ValueError):  # nowhere to say it
            note(sentence)
    _said.append(sentence)


def _variable() -> str:
    """Name the folder that the user chose, if any, for a message."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return f" (NUMBA_CACHE_DIR={chosen})" if chosen else ""
