"""Where compiled kernels are kept between runs, and what happens where they cannot be.

numba caches what it compiles in a file beside the source, in `NUMBA_CACHE_DIR`, or in the user's cache folder. Left to
itself it raises where it may write to none of them, where the disk is full, and where a file of the cache is damaged,
and it runs machine code of which a byte has changed. For the kernels of this package alone, the hook below puts in its
place: a private temporary folder where no other may be written, compilation without a cache where that fails as well,
and files with a checksum (`kernel_files`). Kernels of other packages in the same process are cached as ever.

numba is imported by whoever needs it, and not here, where it would cost every start of the command a second.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["install", "settle"]

# Whose `Dispatcher` makes the cache of a kernel.
_DISPATCHER = "numba.core.dispatcher"


def install() -> None:
    """Have the kernels of this package cached as above, from the moment on that numba is imported."""
    if _DISPATCHER in sys.modules:
        _attach(sys.modules[_DISPATCHER])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def settle() -> None:
    """Choose the folder now: processes that this one starts take the same, and do not each speak of it."""
    importlib.import_module(_DISPATCHER)  # before what attaches itself to it
    _files().settle()


class _Finder(MetaPathFinder):
    """Waits for the import of numba's dispatcher, and gives way to the usual finders."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _DISPATCHER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_attach(module: ModuleType) -> None:
            load(module)
            _attach(module)

        setattr(spec.loader, "exec_module", load_and_attach)  # noqa: B010 -- mypy takes no assignment to a method
        return spec


def _attach(dispatcher: ModuleType) -> None:
    _files().attach(dispatcher)


def _files() -> ModuleType:
    """The module of the files, which itself imports numba."""
    from . import kernel_files

    return kernel_files
