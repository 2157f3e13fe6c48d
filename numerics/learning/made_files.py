"""Data of a teacher written to files of row blocks, without all of it in memory at any time."""

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, DTypeLike

from ..core.array_files import write_array
from ..core.destinations import output_folder
from ..core.files import replace_whole
from ..core.validation import not_negative, whole
from ..posterior.protocol import Model
from ..priors import SpectrumLike
from .blocks import rows_of, stream
from .data import check_weights, colour_for, count_of, draw, outputs_of, part_rows, refuse_size
from .heads import blocks_of
from .row_files import RowFiles

__all__ = ["write_data"]


def write_data(
    model: Model,
    weights: ArrayLike,
    alpha: float,
    folder: str | Path,
    rng: np.random.Generator | int | None = None,
    *,
    rows: int | None = None,
    dtype: type[np.float32] | type[np.float64] = np.float32,
    progress: Callable[[int, int], None] | None = None,
    spectrum: SpectrumLike | None = None,
) -> RowFiles:
    """Draw samples, label them by a teacher, and write them block by block.

    The folder gets the blocks `X/000000.npy`, .. of shape (n, M, D), `Y/000000.npy`, .. of their outputs, and
    `teacher.npy`. The numbers are those of `make_data` of the same seed.

    Parameters
    ----------
    model : Network or LinkKernel
    weights : array_like, shape (P, D)
        Of the teacher.
    alpha : float
        Samples per dimension.
    folder : str or Path
        It is made if it is missing, and must have no blocks yet.
    rng : Generator, int or None, optional
    rows : int, optional
        Samples of a block; by default as many as take 256 MiB.
    dtype : {np.float32, np.float64}, optional
        Of X.
    progress : callable, optional
        Called with (blocks written, their number).
    spectrum : optional
        Of the covariance of the inputs, as of `make_data`.

    Returns
    -------
    RowFiles
        A source of blocks, which `gamp` takes in the place of X.

    Raises
    ------
    OSError
        The folder cannot be written to, or the disk has no room for the data.
    ValueError
        The folder has blocks already; another argument is out of range.

    Notes
    -----
    At a time a part of a block is in memory, 64 MiB, and of every sample its indices and its output.

    References
    ----------
    troiani2025, (1).
    """
    w = check_weights("weights", weights, model)
    alpha, dimension = not_negative("alpha", alpha, "(1)"), blocks_of(model) * w.shape[1]
    refuse_size(model, alpha, dimension, f"alpha = {alpha:g} at D = {dimension} with {model.tokens} tokens", 0)
    count = count_of(alpha, dimension)
    row = np.dtype(dtype).itemsize * model.tokens * dimension
    part = part_rows(model.tokens, dimension)
    # Bytes of a block where nobody says how many rows it has.
    usual = 1 << 28
    size = part * max(1, usual // (part * row)) if rows is None else whole("rows", rows, 1, "(1)")
    colour = colour_for(model, dimension, spectrum)
    there = _prepared(Path(folder), row * count)
    parts = [(there[0] / f"{number:06d}.npy", block) for number, block in enumerate(rows_of(range(count), size))]
    generator, h = stream(rng, 1), np.empty((count, model.indices, model.tokens))
    for done, (path, block) in enumerate(parts, start=1):
        shape = (block.stop - block.start, model.tokens, dimension)
        with replace_whole(path) as half, half.open("wb") as file:
            _write_header(file, shape, dtype)
            for piece in rows_of(range(shape[0]), part):
                x = np.empty((piece.stop - piece.start, *shape[1:]), dtype)
                h[block.start + piece.start : block.start + piece.stop] = draw(x, w, model, generator, colour)
                file.write(x.data)
        if progress is not None:
            progress(done, len(parts))
    y = outputs_of(h, model, generator)
    for path, block in parts:
        write_array(there[1] / path.name, y[block])
    write_array(Path(folder) / "teacher.npy", w)
    return RowFiles(*there)


def _write_header(file: IO[bytes], shape: tuple[int, ...], dtype: DTypeLike) -> None:
    """Begin a .npy file whose entries follow."""
    descr = npy.dtype_to_descr(np.dtype(dtype))
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


def _prepared(folder: Path, size: int) -> tuple[Path, Path]:
    """Folders of X and Y without blocks, on a disk that has room for `size` bytes."""
    output_folder(folder)
    there = folder / "X", folder / "Y"
    for each in there:
        each.mkdir(parents=True, exist_ok=True)
        if next(_blocks(each), None) is not None:
            raise ValueError(f"{each} has .npy files already; give another folder, or remove them")
    free = shutil.disk_usage(folder).free
    if size > free:
        why = f"X takes {size / 2**30:.3g} GiB and {free / 2**30:.3g} GiB are free; take fewer samples or another disk"
        raise OSError(errno.ENOSPC, why, str(folder))
    return there


def _blocks(folder: Path) -> Iterator[Path]:
    return folder.glob("*.npy")
