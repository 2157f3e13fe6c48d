"""BLAS takes one thread while it is asked to, and its libraries are looked for once."""

import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from attnlimits.numerics.core import blas


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_until_the_context_is_left() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        with blas.one_blas_thread():
            assert threads() == {1}
        assert threads() == before


def test_libraries_are_looked_for_again_only_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    def counted() -> ThreadpoolController:
        looked.append(1)
        return ThreadpoolController()

    monkeypatch.setattr(blas, "ThreadpoolController", counted)
    blas._libraries.cache_clear()
    for _ in range(3):
        with blas.one_blas_thread():
            pass
    assert len(looked) == 1
    monkeypatch.setitem(blas.sys.modules, "a_module_of_this_test", blas)
    with blas.one_blas_thread():
        assert len(looked) == 2
