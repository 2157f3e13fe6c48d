"""Where the rows of a data set are: in this process, in files, or on the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from ..core.cluster import ClusterError, check_cluster, open_client
from ..posterior.protocol import Model, Scores
from .blocks import Source
from .passes import Passes, Samples
from .row_files import RowFiles
from .spread import Spread

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["COMING", "placed", "source_of"]

#: Seconds that workers have to come to a cluster: a batch system starts them one after the other.
COMING = 600.0


def source_of(X: Any, Y: Any) -> tuple[Any, Any]:
    """X and Y as they are; folders of row blocks as a source of them, which has both."""
    if not isinstance(X, str | os.PathLike):
        return X, Y
    if not isinstance(Y, str | os.PathLike):
        raise ValueError("Y must be a folder of .npy blocks where X is one, with the same names")
    return RowFiles(X, Y), None


@contextmanager
def placed(
    X: ArrayLike | Source | str | os.PathLike[str],
    Y: ArrayLike | str | os.PathLike[str] | None,
    model: Model,
    prepare: Callable[[ArrayLike], Scores],
    workers: int | None,
    client: str | Client | None,
) -> Iterator[Passes]:
    """Give the passes over a data set, in this process or on a cluster.

    Parameters
    ----------
    X, Y, model, workers, client
        As in `gamp`.
    prepare : callable
        Makes the `Scores` of a block of Y.
    """
    x, y = source_of(X, Y)
    if client is None:
        yield Samples(x, y, model, prepare, workers)
        return
    with ExitStack() as stack:
        local = workers if client == "local" else None
        check_cluster(client, local)
        opened = stack.enter_context(open_client(client, local))
        _await_workers(opened, workers or 1)
        yield stack.enter_context(closing(Spread(opened, x, y, model, prepare)))


def _await_workers(client: Client, count: int) -> None:
    """Blocks are shared among the workers that are there: wait until they are."""
    try:
        client.wait_for_workers(count, timeout=COMING)
    except (TimeoutError, OSError) as error:
        there = len(client.nthreads()) if isinstance(error, TimeoutError) else 0
        raise ClusterError(
            f"{there} of {count} workers came to the cluster within {COMING:g} s; start more, or wait for fewer"
        ) from None
