"""Tasks on the workers of a cluster: results in order, errors as they are, objects that are made once."""

import os
import threading
import time

import numpy as np
import pytest

from attnlimits.numerics.core import cluster
from attnlimits.numerics.core.cluster import ClusterError
from attnlimits.numerics.core.cluster_pool import ClusterPool, Recipe, mapped, parts_of, threads_of, workers_of
from attnlimits.numerics.core.errors import ConvergenceError

MADE = []


class Drawn:
    """Numbers that are drawn when it is made."""

    def __init__(self, rng):
        MADE.append(threading.get_ident())
        self.numbers = rng.random(4)


def drawn(number, *, recipe, shift):
    return recipe.made().numbers[number] + shift


def square(number, *, slow=0.0):
    time.sleep(slow if number == 0 else 0.0)
    return number**2


def refuse(number, *, error):
    raise error(f"number {number}")


def test_results_are_in_the_order_of_their_rows(client, completed):
    ticks = []
    rows = [{"number": n} for n in range(6)]
    found = ClusterPool(client).map(square, rows, lambda: ticks.append(1), slow=0.1)
    assert found == [n**2 for n in range(6)] and len(ticks) == 6
    assert completed.count("square") == 6
    assert ClusterPool(client).map(square, []) == []
    assert mapped(square, rows, lambda: ticks.append(1), None) == found and len(ticks) == 12


def test_two_maps_of_one_function_are_not_one(client):
    """Results are not taken from an earlier call that has let go of its own."""
    pool = ClusterPool(client)
    assert [pool.map(square, [{"number": n}]) for n in (2, 3)] == [[4], [9]]


@pytest.mark.parametrize("error", [ValueError, ConvergenceError, MemoryError, ZeroDivisionError])
def test_an_error_of_the_computation_is_the_same_here(client, error):
    with pytest.raises(error, match="number 1"):
        ClusterPool(client).map(refuse, [{"number": 1}, {"number": 2}], error=error)


def test_other_errors_are_of_the_cluster(client):
    with pytest.raises(ClusterError, match="did not complete the tasks of refuse: OSError: number 1"):
        ClusterPool(client).map(refuse, [{"number": 1}], error=OSError)


def test_what_a_recipe_makes_is_made_once_from_its_generator(client):
    """Whatever is drawn from the generator afterwards, by the caller or by what is made."""
    MADE.clear()
    rng = np.random.default_rng(3)
    recipe = Recipe.of(Drawn, rng)
    wanted = rng.random(4)
    rows = [{"number": n} for n in range(4)]
    pool = ClusterPool(client)
    assert pool.map(drawn, rows, recipe=recipe, shift=0.0) == wanted.tolist()
    assert pool.map(drawn, rows, recipe=recipe, shift=1.0) == (wanted + 1).tolist()
    assert len(MADE) == 1
    # Others take its place among those that are kept, and it is the same when it is made again.
    for _ in range(4):
        pool.map(drawn, rows[:1], recipe=Recipe.of(Drawn, rng), shift=0.0)
    assert pool.map(drawn, rows, recipe=recipe, shift=0.0) == wanted.tolist()
    assert len(MADE) == 6


def test_parts_and_threads():
    assert parts_of(5, 2) == [slice(0, 2), slice(2, 4), slice(4, 5)] and parts_of(0, 2) == []
    assert threads_of(3) == 3 and threads_of(None) == os.cpu_count()


def test_workers_are_threads_without_a_client(client):
    with workers_of(None, 3) as workers:
        assert workers == 3
    with workers_of(client, None) as workers:
        assert isinstance(workers, ClusterPool)
    assert client.submit(len, "open").result() == 4  # it stays open
    with pytest.raises(ValueError, match="workers is for a local cluster"), workers_of(client, 3):
        pass


def test_no_cluster_there(monkeypatch):
    pytest.importorskip("distributed", reason="needs Dask: pip install 'attnlimits[cluster]'")
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with (
        pytest.raises(ClusterError, match=r"no Dask scheduler at tcp://127\.0\.0\.1:9"),
        workers_of("tcp://127.0.0.1:9", None),
    ):
        pass


def test_a_cluster_without_workers(small_clusters, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.1)
    with small_clusters(0, processes=False) as alone:
        with pytest.raises(ClusterError, match=r"had no workers for 0\.1 s; start some"):
            ClusterPool(alone).map(square, [{"number": 1}])
