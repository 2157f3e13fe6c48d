"""Data sets in files of row blocks: a folder of .npy files for X and one for Y, the files of a block named alike."""

import os
from collections.abc import Iterator
from pathlib import Path

from ..core.array_files import read_array
from ..core.shown import few_lines
from .blocks import Floats

__all__ = ["RowFiles", "opened"]


@few_lines
class RowFiles:
    """Row blocks in two folders, as a source of blocks: X is mapped into memory, block after block.

    Parameters
    ----------
    x, y : str or path
        Folders of .npy files; the files of a block have the same name, and the order of the names is that of the rows.

    Attributes
    ----------
    blocks : tuple of (Path, Path)
        Files of X and of Y.

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        There is no such folder.
    ValueError
        A folder has no block, or the names differ.
    """

    def __init__(self, x: str | os.PathLike[str], y: str | os.PathLike[str]) -> None:
        folders = Path(x), Path(y)
        names = [_names(folder) for folder in folders]
        for (this, other), folder, lacks in ((names, *folders[::-1]), (names[::-1], *folders)):
            if missing := sorted(this - other):
                raise ValueError(f"{folder} has no {missing[0]}, which {lacks} has: give every block one file in each")
        self.blocks = tuple((folders[0] / name, folders[1] / name) for name in sorted(names[0]))

    def __call__(self) -> Iterator[tuple[Floats, Floats]]:
        """All blocks once more."""
        return ((opened("X", x), opened("Y", y)) for x, y in self.blocks)

    def tokens(self) -> Iterator[Floats]:
        """Blocks of X alone."""
        return (opened("X", x) for x, _ in self.blocks)


def opened(name: str, rows: Path | Floats) -> Floats:
    """Rows that are in memory as they are; of a file Y is read, and X mapped for as long as it is used."""
    return read_array(name, rows, mapped=name == "X") if isinstance(rows, Path) else rows


def _names(folder: Path) -> set[str]:
    found = {path.name for path in folder.iterdir() if path.suffix == ".npy"}
    if not found:
        raise ValueError(f"{folder} has no .npy files; give a folder of row blocks as of `attnlimits make-data`")
    return found
