"""Samples of a teacher in files of row blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from attnlimits.numerics.learning.made_files import write_data as write_samples
from attnlimits.numerics.learning.row_files import RowFiles
from attnlimits.numerics.model.described import Model, of_data
from attnlimits.numerics.priors import SpectrumLike

__all__ = ["write_data"]


def write_data(
    model: Model,
    weights: ArrayLike,
    alpha: float,
    folder: str | Path,
    *,
    spectrum: SpectrumLike | None = None,
    **settings: Any,
) -> RowFiles:
    """Write the data of `make_data` block by block, without all of X in memory at any time.

    The folder gets `X/000000.npy`, .. of shape (n, M, D), `Y/000000.npy`, .. of their outputs, and `teacher.npy`.

    Parameters
    ----------
    model : Network or Link
    weights : array_like, shape (P, D)
        Of the teacher.
    alpha : float
        Samples per dimension: N = round(alpha D), at least 1.
    folder : str or Path
        It is made if it is missing, and must have no blocks yet.
    spectrum : optional
        Of the covariance of the inputs, as of `make_data`.
    settings : optional
        `rng`, a generator or a seed; `rows` of a block, by default as many as take 256 MiB; `dtype` of X, np.float32 by
        default; `progress`, called with (blocks written, their number).

    Returns
    -------
    RowFiles
        Takes the place of X in `al.gamp`; `al.gamp(model, folder / "X", folder / "Y")` reads the same.

    Raises
    ------
    ValueError
        Weights of a wrong shape, alpha < 0, or a folder that has blocks.
    OSError
        The disk has no room for X.

    References
    ----------
    troiani2025, (1).

    Examples
    --------
    >>> import tempfile
    >>> import attnlimits as al
    >>> link = al.Link("h[1]**2")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     blocks = write_data(link, al.teacher(link, 50, rng=0), 2.0, folder, rng=0, rows=40)
    ...     [x.shape for x, y in blocks()]
    [(40, 1, 50), (40, 1, 50), (20, 1, 50)]
    """
    return write_samples(of_data(model), weights, alpha, folder, spectrum=spectrum, **settings)
