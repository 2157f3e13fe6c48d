"""Where the rows of a data set are: in this process, in files, or on the workers of a cluster."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from numpy.typing import ArrayLike

from ..core.cluster import check_cluster, open_client
from ..posterior.protocol import Model, Scores
from .blocks import Source
from .passes import Passes, Samples
from .row_files import RowFiles
from .spread import Spread

__all__ = ["placed", "source_of"]


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
    client: Any,
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
    elif isinstance(client, str | os.PathLike):
        where = os.fspath(client)
        check_cluster(where, workers)
        with open_client(where, workers) as opened, closing(Spread(opened, x, y, model, prepare)) as spread:
            yield spread
    else:
        if workers is not None:
            raise ValueError("workers is for threads of this process; the cluster of a client has its own")
        with closing(Spread(client, x, y, model, prepare)) as spread:
            yield spread
