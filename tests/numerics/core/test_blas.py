"""One thread of linear algebra within the context, and as many as before after it."""

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from attnlimits.numerics.core.blas import one_blas_thread


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_one_thread_within_and_as_many_as_before_after():
    # Both have loaded their libraries.
    assert np.linalg.norm(scipy.linalg.expm(np.zeros((2, 2))) - np.eye(2)) == 0
    with threadpool_limits(2, "blas"):
        before = threads()
        for _ in range(2):
            with one_blas_thread():
                assert before and set(threads()) == {1}
            assert threads() == before
