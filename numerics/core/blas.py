"""One thread for small matrix products, of which several would only wait for each other."""

import functools
import sys
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


def one_blas_thread() -> AbstractContextManager[object]:
    """Context in which NumPy's and SciPy's linear algebra runs in one thread."""
    return _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@functools.cache
def _libraries(with_scipy: bool) -> ThreadpoolController:
    """Libraries of this process, looked for once, which takes a millisecond; SciPy's is loaded with its module."""
    del with_scipy
    return ThreadpoolController()
