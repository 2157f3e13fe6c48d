"""One thread for small matrix products, which several threads would only slow down, and for one point of many."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread", "one_thread"]


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread from the call on, until the context that it returns is left.

    Notes
    -----
    To find the BLAS libraries of a process takes a hundred times as long as to limit their threads, so they are looked
    for again only after modules have been imported, which may have brought others.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api="blas")


def one_thread() -> AbstractContextManager[object]:
    """Limit BLAS and OpenMP to one thread likewise."""
    return _libraries(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Libraries of this process, once as many modules are loaded."""
    return ThreadpoolController()
